/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of requests: what the scan finds in them, and what it refuses. */
#include "tests/support/codec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define X "{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":"

static void test_long_form(void **state)
{
    static const char body[] =
        " { \"id\" : \"a\\u00e9\" , \"parameters\": {\"priority\": 3, \"f\": "
        "0.5, \"s\":\"t\", \"b\": true, \"l\": [1, {\"k\": null}]},\n"
        "\"inputs\" : [ {\"data\": [[1, 2.5], [-3e2, 4]], \"name\":\"x\","
        " \"shape\":[2,2], \"datatype\":\"FP32\", \"parameters\": {\"p\": 1}},"
        " {\"name\": \"y\", \"shape\": [], \"datatype\": \"INT64\", \"data\": "
        "[ 7 ]}, {\"name\":\"z\",\"shape\":[0,3],\"datatype\":\"BYTES\",\"data"
        "\":[]},{\"name\":\"w\",\"shape\":[1],\"datatype\":\"BOOL\"} ],"
        "\"outputs\":[{\"name\":\"o\",\"parameters\":{\"binary_data\":true}},"
        "{\"name\":\"p\"}], \"nested\": true, \"opset\": 13 } ";
    test_scan t;

    (void)state;
    test_scan_body(&t, body, strlen(body), NULL);
    if (t.status != QN_OK)
        fail_msg("%s", t.err.text);
    assert_int_equal(t.scan.form, QN_SCAN_LONG);
    assert_string_equal(t.scan.id, "a\xc3\xa9");
    assert_true(t.scan.nested);
    assert_int_equal(qn_params_int(&t.scan.params, "priority", 0), 3);
    assert_string_equal(qn_params_string(&t.scan.params, "s", ""), "t");
    assert_true(qn_params_bool(&t.scan.params, "b", false));
    assert_true(qn_params_find(&t.scan.params, "f")->real == 0.5);
    const qn_param *list = qn_params_find(&t.scan.params, "l");
    assert_int_equal(list->items.n, 2);
    assert_string_equal(list->items.items[1].items.items[0].key, "k");
    assert_int_equal(t.scan.n_inputs, 4);
    const qn_scan_input *x = qn_scan_find(&t.scan, "x");
    assert_int_equal(x->dtype, QN_F32);
    assert_int_equal(x->data.count, 4);
    assert_int_equal(x->data.nesting.rank, 2);
    assert_int_equal(x->data.kinds, QN_SCAN_NUMBERS);
    assert_memory_equal(x->data.text, "[[1, 2.5], [-3e2, 4]]", x->data.len);
    assert_ptr_equal(x->data.text, t.body + x->data.offset);
    assert_int_equal(qn_params_int(&x->params, "p", 0), 1);
    assert_int_equal(qn_scan_find(&t.scan, "y")->data.count, 1);
    assert_int_equal(qn_scan_find(&t.scan, "y")->shape.rank, 0);
    assert_int_equal(qn_scan_find(&t.scan, "z")->data.count, 0);
    assert_null(qn_scan_find(&t.scan, "w")->data.text);
    assert_null(qn_scan_find(&t.scan, "nothing"));
    assert_true(t.scan.has_outputs);
    assert_int_equal(t.scan.n_outputs, 2);
    assert_true(qn_params_bool(&t.scan.outputs[0].params, "binary_data", 0));
    assert_int_equal(t.scan.extra.n, 1);
    assert_int_equal(qn_params_int(&t.scan.extra, "opset", 0), 13);
    test_scan_release(&t);
}

static void test_short_forms(void **state)
{
    static const struct {
        const char *inputs;
        qn_scan_form form;
        uint32_t n;
        const char *shape; /* of the last input */
        unsigned kinds;
        size_t string_bytes;
    } rows[] = {
        { "{\"x\": [[1,2],[3,4],[5,6]]}", QN_SCAN_NAMED, 1, "[3, 2]", 1, 0 },
        { "{\"x\": 1, \"y\": [ ]}", QN_SCAN_NAMED, 2, "[0]", 0, 0 },
        { "{}", QN_SCAN_NAMED, 0, "", 0, 0 },
        { "[]", QN_SCAN_LONG, 0, "", 0, 0 },
        { "5", QN_SCAN_SINGLE, 1, "[]", 1, 0 },
        { " -1.5e3 ", QN_SCAN_SINGLE, 1, "[]", 1, 0 },
        { "\"abc\"", QN_SCAN_SINGLE, 1, "[]", 2, 3 },
        { "[1]", QN_SCAN_SINGLE, 1, "[1]", 1, 0 },
        { "[[[1]],[[2]]]", QN_SCAN_SINGLE, 1, "[2, 1, 1]", 1, 0 },
        { "[[],[]]", QN_SCAN_SINGLE, 1, "[2, 0]", 0, 0 },
        { "[[[],[]]]", QN_SCAN_SINGLE, 1, "[1, 2, 0]", 0, 0 },
        { "[true,false,null]", QN_SCAN_SINGLE, 1, "[3]", 4 | 8, 0 },
        { "[NaN,-Infinity,Infinity]", QN_SCAN_SINGLE, 1, "[3]", 1, 0 },
        { "[1,NaN,3]", QN_SCAN_SINGLE, 1, "[3]", 1, 0 },
        { "[[1,\"NaN\"],[3,null]]", QN_SCAN_SINGLE, 1, "[2, 2]", 11, 3 },
        { "[\"a\\u0000\\ud83d\\ude00\\n\", {\"b64\": \"AAEC\"}]", QN_SCAN_SINGLE,
          1, "[2]", 2 | 16, 10 },
        { "[{ \"b64\" : \"\"}]", QN_SCAN_SINGLE, 1, "[1]", 16, 0 },
        { "[{\"b\\u0036\\u0034\" : \"/w==\"}]", QN_SCAN_SINGLE, 1, "[1]", 16, 1 },
        { "{\"b64\": \"AA\"}", QN_SCAN_NAMED, 1, "[]", 2, 2 },
        { "[[[[[[[[[[1]]]]]]]]]]", QN_SCAN_SINGLE, 1,
          "[1, 1, 1, 1, 1, 1, 1, 1, 1, 1]", 1, 0 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char body[256], text[QN_SHAPE_TEXT] = "";
        test_scan t;

        snprintf(body, sizeof body, "{\"inputs\":%s}", rows[i].inputs);
        test_scan_body(&t, body, strlen(body), NULL);
        if (t.status != QN_OK)
            fail_msg("%s: %s", rows[i].inputs, t.err.text);
        if (t.scan.form != rows[i].form || t.scan.n_inputs != rows[i].n)
            fail_msg("%s: form %d, %u inputs", rows[i].inputs,
                     (int)t.scan.form, (unsigned)t.scan.n_inputs);
        if (rows[i].n) {
            const qn_scan_input *in = &t.scan.inputs[rows[i].n - 1];
            if (strcmp(qn_shape_text(&in->shape, text), rows[i].shape) != 0)
                fail_msg("%s: shape %s", rows[i].inputs, text);
            if (in->data.kinds != rows[i].kinds ||
                in->data.string_bytes != rows[i].string_bytes)
                fail_msg("%s: kinds %u, %zu bytes of strings", rows[i].inputs,
                         in->data.kinds, in->data.string_bytes);
        }
        test_scan_release(&t);
    }
}

static void test_refuses(void **state)
{
    static const struct {
        const char *body;
        qn_status want;
        const char *says;
    } rows[] = {
        { "", QN_FORMAT, "not a JSON object" },
        { "   ", QN_FORMAT, "byte 3" },
        { "[]", QN_FORMAT, "not a JSON object" },
        { "null", QN_FORMAT, "not a JSON object" },
        { "{", QN_FORMAT, "byte 1" },
        { "{} x", QN_FORMAT, "byte 3: more text" },
        { "{}{}", QN_FORMAT, "byte 2" },
        { "{\"a\" 1}", QN_FORMAT, "expected ':'" },
        { "{\"a\":}", QN_FORMAT, "byte" },
        { "{\"a\":1,}", QN_FORMAT, "byte 7" },
        { "{\"a\":[1,}", QN_FORMAT, "byte" },
        { "{\"a\":[1}", QN_FORMAT, "byte" },
        { "{\"a\":01}", QN_FORMAT, "byte" },
        { "{\"a\":NaN}", QN_FORMAT, "byte" },
        { "{\"a\":1e999}", QN_FORMAT, "byte" },
        { "{\"a\":9223372036854775808}", QN_FORMAT, "too big" },
        { "{\"a\":\"\\u0000\"}", QN_FORMAT, "byte" },
        { "{\"a\\u0000\":1}", QN_FORMAT, "byte" },
        { "{\"a\":\"\xff\"}", QN_FORMAT, "byte 6: bytes that are not UTF-8" },
        { "{\"a\":\"\xc0\x80\"}", QN_FORMAT, "UTF-8" },
        { "{\"a\":\"\xed\xa0\x80\"}", QN_FORMAT, "UTF-8" },
        { "{\"a\":\"\xf5\x80\x80\x80\"}", QN_FORMAT, "UTF-8" },
        { "{\"a\":\"\\ud800\"}", QN_FORMAT, "escape" },
        { "{\"a\":\"\\ud800\\u0041\"}", QN_FORMAT, "escape" },
        { "{\"a\":\"\\udc00\"}", QN_FORMAT, "escape" },
        { "{\"a\":\"\\x\"}", QN_FORMAT, "byte 6: not a valid escape" },
        { "{\"a\":\"\\u12\"}", QN_FORMAT, "escape" },
        { "{\"a\":\"\n\"}", QN_FORMAT, "control character" },
        { "{\"a\":\"b", QN_FORMAT, "not closed" },
        { "{\"a\":1,\"a\":2}", QN_FORMAT, "duplicate" },
        { "{\"inputs\":[],\"inputs\":[]}", QN_FORMAT, "given twice" },
        { "{\"inputs\":[],\"\\u0069nputs\":[]}", QN_FORMAT, "given twice" },
        { "{\"inputs\":{\"x\":[1],\"x\":[2]}}", QN_FORMAT, "duplicate" },
        { "{\"id\":5,\"inputs\":[]}", QN_FORMAT, "\"id\" is not a string" },
        { "{\"nested\":1}", QN_FORMAT, "\"nested\"" },
        { "{\"parameters\":[]}", QN_FORMAT, "\"parameters\"" },
        { "{\"outputs\":{}}", QN_FORMAT, "\"outputs\" is not a list" },
        { "{\"outputs\":[{}]}", QN_FORMAT, "outputs[0] has no \"name\"" },
        { "{\"outputs\":[7]}", QN_FORMAT, "outputs[0] has no \"name\"" },
        { "{\"outputs\":[{\"name\":\"a\"},{\"name\":\"a\"}]}", QN_FORMAT,
          "output 'a' is given twice" },
        { "{\"inputs\":[{\"name\":\"x\"},5]}", QN_FORMAT, "expected an input" },
        { "{\"inputs\":[{}]}", QN_FORMAT, "inputs[0] has no \"name\"" },
        { "{\"inputs\":[{\"name\":5}]}", QN_FORMAT, "has no \"name\"" },
        { "{\"inputs\":[{\"name\":\"x\",\"shape\":[1],\"data\":[1]}]}",
          QN_FORMAT, "\"datatype\" is missing" },
        { "{\"inputs\":[{\"name\":\"x\",\"datatype\":7}]}", QN_FORMAT,
          "\"datatype\" is not a string" },
        { "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP31\"}]}", QN_TYPE,
          "there is no datatype 'FP31'" },
        { "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\"}]}", QN_FORMAT,
          "\"shape\" is missing" },
        { "{\"inputs\":[" X "5}]}", QN_FORMAT, "\"shape\" is not a list" },
        { "{\"inputs\":[" X "[-1],\"data\":[1]}]}", QN_SHAPE,
          "shape[0] is -1, negative" },
        { "{\"inputs\":[" X "[1,2.5],\"data\":[1]}]}", QN_SHAPE,
          "shape[1] is 2.5, not an integer" },
        { "{\"inputs\":[" X "[\"1\"],\"data\":[1]}]}", QN_SHAPE,
          "shape[0] is no number" },
        { "{\"inputs\":[" X "[16,1152921504606846978],\"data\":[1]}]}",
          QN_SHAPE, "[16, 1152921504606846978] has more elements" },
        { "{\"inputs\":[" X "[1,1,1,1,1,1,1,1,1,1,1],\"data\":[1]}]}",
          QN_SHAPE, "11 dimensions" },
        { "{\"inputs\":[" X "[2,3],\"data\":[1,2,3,4,5]}]}", QN_SHAPE,
          "input 'x': shape [2, 3] has 6 elements, data has 5" },
        { "{\"inputs\":[" X "[2],\"data\":[1,2,3]}]}", QN_SHAPE,
          "has 2 elements, data has 3" },
        { "{\"inputs\":[" X "[],\"data\":[]}]}", QN_SHAPE,
          "has 1 elements, data has 0" },
        { "{\"inputs\":[" X "[2],\"data\":[1,2,]}]}", QN_FORMAT, "byte" },
        { "{\"inputs\":[" X "[2],\"data\":[1,,2]}]}", QN_FORMAT, "byte" },
        { "{\"inputs\":[" X "[2],\"data\":[[1],[2,3]]}]}", QN_SHAPE,
          "row 1 has 2 elements, row 0 has 1" },
        { "{\"inputs\":[" X "[1],\"data\":[1],\"data\":[2]}]}", QN_FORMAT,
          "duplicate" },
        { "{\"inputs\":[" X "[1],\"data\":[1]}," X "[1],\"data\":[2]}]}",
          QN_FORMAT, "input 'x' is given twice" },
        { "{\"inputs\":[" X "[1],\"data\":[1],\"parameters\":5}]}", QN_FORMAT,
          "\"parameters\" is not an object" },
        { "{\"inputs\":[" X "[1],\"parameters\":{\"binary_data_size\":4}}]}",
          QN_FORMAT, "0 bytes of binary data are left" },
        { "{\"inputs\":[" X "[1],\"parameters\":{\"binary_data_size\":-4}}]}",
          QN_INVALID, "binary_data_size is -4" },
        { "{\"inputs\":[" X "[1],\"parameters\":{\"binary_data_size\":\"4\"}}]"
          "}", QN_FORMAT, "binary_data_size is not an integer" },
        { "{\"inputs\":[" X "[1],\"data\":[1],\"parameters\":{\"binary_data_"
          "size\":4}}]}", QN_FORMAT, "has both" },
        { "{\"inputs\":[[1],[2,3]]}", QN_SHAPE,
          "row 1 has 2 elements, row 0 has 1" },
        { "{\"inputs\":[[[1],[2]],[[3],[4,5]]]}", QN_SHAPE,
          "row [1, 1] has 2 elements, row [0, 0] has 1" },
        { "{\"inputs\":[[1,2],[3]]}", QN_SHAPE,
          "row 1 has 1 elements, row 0 has 2" },
        { "{\"inputs\":[[],[1]]}", QN_SHAPE,
          "row 1 has 1 elements, row 0 has 0" },
        { "{\"inputs\":[[1,],[2]]}", QN_FORMAT, "byte" },
        { "{\"inputs\":[1,[2]]}", QN_SHAPE, "a list at index 1" },
        { "{\"inputs\":[[1],2]}", QN_SHAPE, "a value at index 1" },
        { "{\"inputs\":[[],2]}", QN_SHAPE, "a value at index 1" },
        { "{\"inputs\":[[[]],[5]]}", QN_SHAPE, "a value at index [1, 0]" },
        { "{\"inputs\":[[[[[[[[[[[1]]]]]]]]]]]}", QN_SHAPE,
          "more than 10 nested lists" },
        { "{\"inputs\":[1,2}", QN_FORMAT, "byte 14" },
        { "{\"inputs\":[\"a\" \"b\"]}", QN_FORMAT, "expected ',' or ']'" },
        { "{\"inputs\":[1", QN_FORMAT, "byte 12" },
        { "{\"inputs\":[", QN_FORMAT, "byte" },
        { "{\"inputs\":[nul]}", QN_FORMAT, "expected a value" },
        { "{\"inputs\":[+1]}", QN_FORMAT, "expected a value" },
        { "{\"inputs\":}", QN_FORMAT, "expected a value" },
        { "{\"inputs\":{\"x\":{\"y\":[1]}}}", QN_FORMAT, "\"b64\"" },
        { "{\"inputs\":[\"a\",{\"b64\":5}]}", QN_FORMAT, "expected a string" },
        { "{\"inputs\":[{\"b64\":\"A\"}]}", QN_FORMAT, "not base64" },
        { "{\"inputs\":[{\"b64\":\"AB\"}]}", QN_FORMAT, "not base64" },
        { "{\"inputs\":[{\"b64\":\"A===\"}]}", QN_FORMAT, "not base64" },
        { "{\"inputs\":[{\"b64\":\"AA=A\"}]}", QN_FORMAT, "not base64" },
        { "{\"inputs\":[{\"b64\":\"A-A_\"}]}", QN_FORMAT, "not base64" },
        { "{\"inputs\":[{\"b64\":\"AA==\",\"x\":1}]}", QN_FORMAT,
          "expected '}'" },
        { "{\"inputs\":{\"x\":[1],\"y\":[[1],[2,3]]}}", QN_SHAPE,
          "input 'y': row 1" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        test_scan t;

        test_scan_body(&t, rows[i].body, strlen(rows[i].body), NULL);
        if (t.status != rows[i].want || !strstr(t.err.text, rows[i].says))
            fail_msg("%s: %s, \"%s\", should be %s, \"%s\"", rows[i].body,
                     qn_status_name(t.status), t.err.text,
                     qn_status_name(rows[i].want), rows[i].says);
        test_scan_release(&t);
        /* without anybody to hear the reason */
        qn_region region = { 0 };
        qn_scan scan;
        qn_status st = qn_scan_body(rows[i].body, strlen(rows[i].body), NULL,
                                    &region, &scan, NULL);
        if (st != rows[i].want)
            fail_msg("%s: %s without an error", rows[i].body,
                     qn_status_name(st));
        qn_region_release(&region);
    }
}

/* Every prefix of a valid body is refused, whatever it ends in. */
static void test_refuses_every_prefix(void **state)
{
    static const char body[] =
        "{\"id\":\"\\u00e9\xc3\xa9\",\"inputs\":[{\"name\":\"x\",\"shape\":[2,"
        "2],\"datatype\":\"BYTES\",\"data\":[[\"a\\ud83d\\ude00\",\"\"],[{\"b6"
        "4\":\"AAE=\"},\"\xf0\x9f\x98\x80\"]]},{\"name\":\"y\",\"shape\":[5],\""
        "datatype\":\"FP32\",\"data\":[1,-2.5e-3,NaN,null,-Infinity]}],\"outpu"
        "ts\":[{\"name\":\"o\"}]}";
    (void)state;
    for (size_t len = 0; len < sizeof body; len++) {
        test_scan t;

        test_scan_body(&t, body, len, NULL);
        if (len < sizeof body - 1 && t.status != QN_FORMAT)
            fail_msg("%zu bytes: %s, %s", len, qn_status_name(t.status),
                     t.err.text);
        if (len == sizeof body - 1 && t.status != QN_OK)
            fail_msg("all: %s", t.err.text);
        test_scan_release(&t);
    }
}

static char *repeat(const char *head, const char *item, size_t n,
                    const char *tail)
{
    size_t h = strlen(head), i = strlen(item), t = strlen(tail);
    char *s = malloc(h + n * i + t + 1);

    assert_non_null(s);
    memcpy(s, head, h);
    for (size_t k = 0; k < n; k++)
        memcpy(s + h + k * i, item, i);
    memcpy(s + h + n * i, tail, t + 1);
    return s;
}

static void test_limits(void **state)
{
    static const struct {
        const char *head, *item;
        size_t n;
        const char *tail;
        qn_scan_options options;
        qn_status want;
        const char *says;
    } rows[] = {
        { "{\"a\":", "[", 250000, "", { 0 }, QN_TOO_LARGE,
          "nested more than 64 deep" },
        { "{\"inputs\":", "[", 250000, "", { 0 }, QN_SHAPE, "nested lists" },
        { "{\"a\":", "{\"a\":", 250000, "", { 0 }, QN_TOO_LARGE, "64 deep" },
        { "{\"a\":", "[", 300, "", { .max_depth = 1000 }, QN_TOO_LARGE,
          "256 deep" },
        { "{\"a\":[", "", 0, "[]]}", { .max_depth = 2 }, QN_TOO_LARGE, "2 deep" },
        { "{\"a\":[", "", 0, "[]]}", { .max_depth = 3 }, QN_OK, "" },
        { "{\"a\":\"", "x", 2000000, "\"}", { 0 }, QN_TOO_LARGE,
          "2000008 bytes, the limit is 1048576" },
        { "{\"a\":\"", "x", 100, "\"}", { .max_envelope = 107 }, QN_TOO_LARGE,
          "108 bytes" },
        { "{\"a\":\"", "x", 100, "\"}", { .max_envelope = 108 }, QN_OK, "" },
        { "{\"inputs\":[1", ",1", 2000000, "]}", { 0 }, QN_OK, "" },
        { "{\"inputs\":[", "{\"name\":\"x\"},", 2000, "{}]}", { 0 },
          QN_TOO_LARGE, "2001 inputs, at most 1024" },
        { "{\"inputs\":[", "{\"data\":[]},", 2000, "{}]}", { 0 }, QN_TOO_LARGE,
          "more than 1024 inputs" },
        { "{\"inputs\":{\"a\":1", ",\"a\":1", 2, "}}", { .max_inputs = 2 },
          QN_TOO_LARGE, "more than 2 inputs" },
        { "{\"outputs\":[", "{},", 3, "{}]}", { .max_inputs = 2 },
          QN_TOO_LARGE, "4 outputs" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *body = repeat(rows[i].head, rows[i].item, rows[i].n, rows[i].tail);
        test_scan t;

        test_scan_body(&t, body, strlen(body), &rows[i].options);
        if (t.status != rows[i].want || !strstr(t.err.text, rows[i].says))
            fail_msg("row %zu: %s, \"%s\"", i, qn_status_name(t.status),
                     t.err.text);
        test_scan_release(&t);
        free(body);
    }
}

/* Rows longer than one block of the counting loop, and every odd byte in every
 * place of it. */
static void test_long_rows(void **state)
{
    (void)state;
    for (size_t n = 1; n < 200; n += 7) {
        char *row = repeat("[0", ",1.5", n, "]");
        size_t len = strlen(row) * 3 + 32;
        char *body = malloc(len);
        assert_non_null(body);
        snprintf(body, len, "{\"inputs\":[%s,%s , %s]}", row, row, row);
        test_scan t;
        test_scan_body(&t, body, strlen(body), NULL);
        if (t.status != QN_OK || t.scan.inputs[0].shape.rank != 2 ||
            t.scan.inputs[0].shape.dims[0] != 3 ||
            t.scan.inputs[0].shape.dims[1] != (int64_t)n + 1)
            fail_msg("rows of %zu: %s", n + 1, t.err.text);
        test_scan_release(&t);
        free(body);
        free(row);
    }
    for (size_t at = 0; at < 150; at++) {
        char *body = repeat("{\"inputs\":[", "1,", 75, "NaN,\"]\"]}");
        test_scan t;
        body[11 + at] = '"';
        test_scan_body(&t, body, strlen(body), NULL);
        if (t.status != QN_FORMAT)
            fail_msg("a quote at %zu: %s", at, qn_status_name(t.status));
        test_scan_release(&t);
        free(body);
    }
}

static void test_binary_tail(void **state)
{
    static const char tail[12] = "\x00\x00\x80\x3f\x02\x00\x00\x00hi\x01";
    static const struct {
        const char *inputs;
        size_t tail;
        qn_status want;
        const char *says;
    } rows[] = {
        { X "[1],\"parameters\":{\"binary_data_size\":4}}", 4, QN_OK, "" },
        { X "[2],\"parameters\":{\"binary_data_size\":4}}", 4, QN_SHAPE,
          "FP32 of shape [2] takes 8 bytes, binary_data_size is 4" },
        { X "[1],\"parameters\":{\"binary_data_size\":4}}", 5, QN_FORMAT,
          "1 bytes of binary data belong to no input" },
        { X "[1],\"parameters\":{\"binary_data_size\":4}}", 3, QN_FORMAT,
          "3 bytes of binary data are left" },
        { X "[0],\"data\":null,\"parameters\":{\"binary_data_size\":0}}", 0,
          QN_OK, "" },
        { X "[9223372036854775807],\"parameters\":{\"binary_data_size\":4}}", 4,
          QN_SHAPE, "takes" },
        { X "[1],\"parameters\":{\"binary_data_size\":4}},{\"name\":\"j\","
          "\"datatype\":\"INT8\",\"shape\":[1],\"data\":[5]},{\"name\":\"s\","
          "\"datatype\":\"BYTES\",\"shape\":[1],\"parameters\":{\"binary_data_"
          "size\":6}},{\"name\":\"b\",\"datatype\":\"BOOL\",\"shape\":[2],"
          "\"parameters\":{\"binary_data_size\":2}}", 12, QN_OK, "" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char body[1024];
        qn_scan_options o = { .tail = tail, .tail_bytes = rows[i].tail };
        test_scan t;

        snprintf(body, sizeof body, "{\"inputs\":[%s]}", rows[i].inputs);
        test_scan_body(&t, body, strlen(body), &o);
        if (t.status != rows[i].want || !strstr(t.err.text, rows[i].says))
            fail_msg("row %zu: %s, \"%s\"", i, qn_status_name(t.status),
                     t.err.text);
        if (t.scan.n_inputs == 4) {
            assert_ptr_equal(t.scan.inputs[2].data.text, tail + 4);
            assert_ptr_equal(t.scan.inputs[3].data.text, tail + 10);
            assert_true(t.scan.inputs[3].data.raw);
            assert_false(t.scan.inputs[1].data.raw);
        }
        if (rows[i].want == QN_OK)
            assert_non_null(t.scan.inputs[0].data.text);
        test_scan_release(&t);
    }
}

static void test_objects(void **state)
{
    static const char body[] = "{\"ready\": true, \"inputs\": [1, 2]}";
    qn_region region = { 0 };
    qn_params params;
    qn_error err = { 0 };

    (void)state;
    assert_int_equal(qn_scan_object(NULL, 0, NULL, &region, &params, &err),
                     QN_OK);
    qn_scan scan;
    assert_int_equal(qn_scan_body(NULL, 0, NULL, &region, &scan, &err),
                     QN_FORMAT);
    assert_int_equal(qn_scan_object("", 0, NULL, &region, &params, &err), QN_OK);
    assert_int_equal(params.n, 0);
    assert_int_equal(qn_scan_object(" \n", 2, NULL, &region, &params, &err),
                     QN_OK);
    assert_int_equal(qn_scan_object(body, strlen(body), NULL, &region, &params,
                                    &err), QN_OK);
    assert_true(qn_params_bool(&params, "ready", false));
    assert_int_equal(qn_params_find(&params, "inputs")->items.items[1].integer,
                     2);
    assert_int_equal(qn_scan_object("[1]", 3, NULL, &region, &params, &err),
                     QN_FORMAT);
    assert_int_equal(qn_scan_object("{\"a\":1,\"a\":1}", 13, NULL, &region,
                                    &params, &err), QN_FORMAT);
    qn_region_release(&region);
}

/* A parser's place in the envelope is told as a place in the body. */
static void test_places(void **state)
{
    char *body = repeat("{\"inputs\":[{\"data\":[1", ",1", 1000,
                        "],\"name\":\"x\",\"shape\":[1001],\"datatype\":\"FP32"
                        "\"}],\"bad\":tru}");
    char want[32];
    test_scan t;

    (void)state;
    test_scan_body(&t, body, strlen(body), NULL);
    assert_int_equal(t.status, QN_FORMAT);
    /* Jansson counts to the end of the word it does not know */
    snprintf(want, sizeof want, "byte %zu:", strlen(body) - 1);
    if (!strstr(t.err.text, want))
        fail_msg("\"%s\" has no \"%s\"", t.err.text, want);
    test_scan_release(&t);
    free(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_form),
        cmocka_unit_test(test_short_forms),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_refuses_every_prefix),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_long_rows),
        cmocka_unit_test(test_binary_tail),
        cmocka_unit_test(test_objects),
        cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

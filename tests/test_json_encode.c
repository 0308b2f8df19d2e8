/* SPDX-License-Identifier: Apache-2.0 */
/* Answers: values by type, nesting, strings, bounds, the writer, errors. */
#include "tests/support/codec.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Encode, check the bound and that a buffer of the bound is enough, and give
 * the text with a NUL; the caller frees it. */
static char *encode(const qn_tensor *t, const qn_strings *strings,
                    const qn_encode_options *options)
{
    qn_error err = { 0 };
    size_t bound = 0;
    char *text;

    if (qn_encode_bound(t, strings, options, &bound, &err) != QN_OK)
        fail_msg("bound: %s", err.text);
    text = malloc(bound + 1);
    assert_non_null(text);
    qn_sink sink = qn_sink_fixed(text, bound);
    if (qn_encode_values(&sink, t, strings, options, &err) != QN_OK)
        fail_msg("%s (bound %zu)", err.text, bound);
    text[sink.len] = 0;
    return text;
}

static void test_values(void **state)
{
    static const struct {
        qn_dtype dtype;
        const char *data;
        int64_t n;
        bool tokens;
        const char *want;
    } rows[] = {
        { QN_F32, "\0\0\x80\x3f\xcd\xcc\xcc\x3d\xff\xff\x7f\x7f\0\0\0\x80", 4, 0,
          "[1.0,0.1,3.4028235e+38,-0.0]" },
        { QN_F32, "\0\0\xc0\x7f\0\0\x80\x7f\0\0\x80\xff", 3, 0,
          "[\"NaN\",\"Infinity\",\"-Infinity\"]" },
        { QN_F32, "\0\0\xc0\x7f\0\0\x80\x7f\0\0\x80\xff", 3, 1,
          "[NaN,Infinity,-Infinity]" },
        { QN_F64, "\x9a\x99\x99\x99\x99\x99\xb9\x3f\0\0\0\0\0\0\xf8\x7f", 2, 0,
          "[0.1,\"NaN\"]" },
        { QN_F16, "\x00\x3c\xff\x7b\x01\x00\x00\x7c\x00\xfc\x01\x7e", 6, 1,
          "[1.0,65500.0,6e-08,Infinity,-Infinity,NaN]" },
        { QN_BF16, "\x80\x3f\x80\x7f\xc0\xff\x80\xff", 4, 0,
          "[1.0,\"Infinity\",\"NaN\",\"-Infinity\"]" },
        { QN_F8E4M3FN, "\x38\x7e\x7f\xff\xb8", 5, 1, "[1.0,450.0,NaN,NaN,-1.0]" },
        { QN_F8E4M3FNUZ, "\x40\x80", 2, 1, "[1.0,NaN]" },
        { QN_F8E5M2, "\x3c\x7c\xfc\x7d", 4, 1, "[1.0,Infinity,-Infinity,NaN]" },
        { QN_F8E5M2FNUZ, "\x40\x80", 2, 1, "[1.0,NaN]" },
        { QN_F8E8M0, "\x7f\x80\xff", 3, 1, "[1.0,2.0,NaN]" },
        { QN_F4E2M1, "\x07\x09", 2, 1, "[6.0,-0.5]" },
        { QN_BOOL, "\0\1\2", 3, 0, "[false,true,true]" },
        { QN_U8, "\0\xff", 2, 0, "[0,255]" },
        { QN_I8, "\x80\x7f", 2, 0, "[-128,127]" },
        { QN_U16, "\xff\xff", 1, 0, "[65535]" },
        { QN_I16, "\x00\x80", 1, 0, "[-32768]" },
        { QN_U32, "\xff\xff\xff\xff", 1, 0, "[4294967295]" },
        { QN_I32, "\0\0\0\x80", 1, 0, "[-2147483648]" },
        { QN_U64, "\xff\xff\xff\xff\xff\xff\xff\xff", 1, 0,
          "[18446744073709551615]" },
        { QN_I64, "\0\0\0\0\0\0\0\x80", 1, 0, "[-9223372036854775808]" },
        { QN_I4, "\xf8\x07", 2, 0, "[-8,7]" },
        { QN_U4, "\x0f", 1, 0, "[15]" },
        { QN_I2, "\xfe", 1, 0, "[-2]" },
        { QN_U2, "\x03", 1, 0, "[3]" },
        { QN_F32, "", 0, 0, "[]" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unsigned char data[64];
        qn_tensor t = { rows[i].dtype,
                        qn_shape_make(1, (int64_t[]){ rows[i].n }), data };
        qn_encode_options o = { .nan_tokens = rows[i].tokens };

        memcpy(data, rows[i].data,
               (size_t)rows[i].n * qn_dtype_size(rows[i].dtype));
        char *text = encode(&t, NULL, &o);
        if (strcmp(text, rows[i].want) != 0)
            fail_msg("%s: %s, should be %s", qn_dtype_wire(rows[i].dtype), text,
                     rows[i].want);
        free(text);
    }
    qn_tensor c = { QN_C64, { 0 }, NULL };
    qn_sink sink = qn_sink_heap();
    qn_error err = { 0 };
    size_t bound;
    assert_int_equal(qn_encode_values(&sink, &c, NULL, NULL, &err),
                     QN_UNSUPPORTED);
    assert_non_null(strstr(err.text, "COMPLEX64"));
    assert_int_equal(qn_encode_bound(&c, NULL, NULL, &bound, &err),
                     QN_UNSUPPORTED);
}

static void test_nesting(void **state)
{
    static const struct {
        int rank;
        int64_t dims[4];
        const char *flat, *nested;
    } rows[] = {
        { 0, { 0 }, "[0]", "0" },
        { 1, { 3 }, "[0,1,2]", "[0,1,2]" },
        { 2, { 2, 3 }, "[0,1,2,3,4,5]", "[[0,1,2],[3,4,5]]" },
        { 3, { 2, 1, 2 }, "[0,1,2,3]", "[[[0,1]],[[2,3]]]" },
        { 2, { 2, 0 }, "[]", "[[],[]]" },
        { 2, { 0, 2 }, "[]", "[]" },
        { 3, { 1, 2, 0 }, "[]", "[[[],[]]]" },
    };
    uint8_t data[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        qn_tensor t = { QN_U8, qn_shape_make(rows[i].rank, rows[i].dims), data };
        char *flat = encode(&t, NULL, NULL);
        char *nested = encode(&t, NULL, &(qn_encode_options){ .nested = true });

        if (strcmp(flat, rows[i].flat) || strcmp(nested, rows[i].nested))
            fail_msg("row %zu: %s and %s", i, flat, nested);
        free(flat);
        free(nested);
    }
    /* no elements, but more brackets than any memory holds */
    qn_tensor huge = { QN_U8,
                       qn_shape_make(2, (int64_t[]){ INT64_MAX, 0 }), data };
    qn_error err = { 0 };
    size_t bound;
    assert_int_equal(qn_encode_bound(&huge, NULL,
                                     &(qn_encode_options){ .nested = true },
                                     &bound, &err),
                     QN_TOO_LARGE);
}

/* The longest text of each type is within the bound, with every value. */
static void test_bounds_hold(void **state)
{
    static const qn_dtype small[] = { QN_F16, QN_BF16, QN_F8E4M3FN,
                                      QN_F8E4M3FNUZ, QN_F8E5M2, QN_F8E5M2FNUZ,
                                      QN_F8E8M0 };
    (void)state;
    for (size_t k = 0; k < sizeof small / sizeof small[0]; k++) {
        size_t size = qn_dtype_size(small[k]), n = size == 2 ? 65536 : 256;

        /* one at a time: a bound for many could hide one that is too long */
        for (size_t v = 0; v < n; v++) {
            uint16_t bits = (uint16_t)v;
            qn_tensor t = { small[k], { 0 }, &bits };
            char buf[64];
            size_t bound;
            qn_sink sink = qn_sink_fixed(buf, sizeof buf);
            qn_error err = { 0 };
            assert_int_equal(qn_encode_bound(&t, NULL, NULL, &bound, &err),
                             QN_OK);
            assert_int_equal(qn_encode_values(&sink, &t, NULL, NULL, &err),
                             QN_OK);
            if (sink.len > bound - QN_PRINT_MAX)
                fail_msg("%s %zx: %zu characters, bound %zu",
                         qn_dtype_wire(small[k]), v, sink.len, bound);
        }
    }
}

static void test_strings(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *want;
    } rows[] = {
        { "", 0, "\"\"" },
        { "abc", 3, "\"abc\"" },
        { "a\"\\/\b\f\n\r\t\x01\x1f\x7f", 12,
          "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\"" },
        { "\0x", 2, "\"\\u0000x\"" },
        { "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9,
          "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"" },
        { "\xff", 1, "{\"b64\":\"/w==\"}" },
        { "ab\xc3", 3, "{\"b64\":\"YWLD\"}" },
        { "a\xed\xa0\x80", 4, "{\"b64\":\"Ye2ggA==\"}" },
    };
    char heap[256];
    qn_string elems[8];
    qn_strings strings = { .limit = sizeof heap };
    qn_tensor t = { QN_STRING, qn_shape_make(1, (int64_t[]){ 8 }), elems };
    qn_error err = { 0 };
    char want[512] = "[";

    (void)state;
    strings.base[QN_STRINGS_REQUEST] = heap;
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(qn_string_put(&strings, rows[i].bytes, rows[i].len,
                                       &elems[i], &err), QN_OK);
        snprintf(want + strlen(want), sizeof want - strlen(want), "%s%s",
                 i ? "," : "", rows[i].want);
    }
    strncat(want, "]", 2);
    char *text = encode(&t, &strings, NULL);
    assert_string_equal(text, want);

    /* and what was written reads back */
    test_tensor back;
    test_tensor_decode(&back, text, QN_STRING);
    if (back.status != QN_OK)
        fail_msg("%s", back.err.text);
    const qn_string *s = back.tensor.data;
    for (size_t i = 0; i < 8; i++)
        if (s[i].len != rows[i].len ||
            memcmp(qn_string_bytes(&back.strings, s[i]), rows[i].bytes,
                   rows[i].len) != 0)
            fail_msg("string %zu did not read back", i);
    test_tensor_release(&back);
    free(text);

    /* more base64 than one piece of it */
    char *large = malloc(10000);
    assert_non_null(large);
    memset(large, 0xfe, 10000);
    strings.base[QN_STRINGS_REQUEST] = large;
    elems[0] = qn_string_at(QN_STRINGS_REQUEST, 0, 10000);
    t.shape.dims[0] = 1;
    text = encode(&t, &strings, NULL);
    test_tensor_decode(&back, text, QN_STRING);
    assert_int_equal(back.status, QN_OK);
    assert_int_equal(back.strings.used, 10000);
    assert_memory_equal(back.strings.base[QN_STRINGS_REQUEST], large, 10000);
    test_tensor_release(&back);
    free(text);
    free(large);
}

static void test_reply(void **state)
{
    float f[2] = { 1, 0.5f };
    int64_t i = -3;
    qn_reply_output outputs[] = {
        { "y", { QN_F32, qn_shape_make(2, (int64_t[]){ 1, 2 }), f }, false },
        { "q\"", { QN_I64, { 0 }, &i }, true },
    };
    qn_reply reply = { "m", "2", "id\n", 2, outputs, NULL, { .nested = true } };
    static const char json[] =
        "{\"model_name\":\"m\",\"model_version\":\"2\",\"id\":\"id\\n\","
        "\"outputs\":[{\"name\":\"y\",\"datatype\":\"FP32\",\"shape\":[1,2],"
        "\"data\":[[1.0,0.5]]},{\"name\":\"q\\\"\",\"datatype\":\"INT64\","
        "\"shape\":[],\"parameters\":{\"binary_data_size\":8}}]}";
    qn_sink sink = qn_sink_heap();
    qn_error err = { 0 };
    size_t json_bytes = 0, bound;

    (void)state;
    assert_int_equal(qn_reply_write(&sink, &reply, &json_bytes, &err), QN_OK);
    if (json_bytes != strlen(json) || memcmp(sink.data, json, json_bytes) != 0)
        fail_msg("%.*s", (int)json_bytes, sink.data);
    assert_int_equal(sink.len, json_bytes + 8);
    assert_memory_equal(sink.data + json_bytes, &i, 8);
    qn_free(sink.data);

    assert_int_equal(qn_reply_bound(&reply, &bound, &err), QN_OK);
    char *buf = malloc(bound);
    assert_non_null(buf);
    sink = qn_sink_fixed(buf, bound);
    assert_int_equal(qn_reply_write(&sink, &reply, NULL, &err), QN_OK);
    assert_true(sink.len <= bound);
    /* every smaller buffer is refused, none is overrun */
    for (size_t cap = 0; cap < json_bytes + 8; cap++) {
        char *tight = malloc(cap ? cap : 1);
        assert_non_null(tight);
        qn_sink small = qn_sink_fixed(tight, cap);
        assert_int_equal(qn_reply_write(&small, &reply, NULL, &err),
                         QN_TOO_LARGE);
        free(tight);
    }
    free(buf);

    outputs[0].tensor.dtype = QN_C64;
    assert_int_equal(qn_reply_bound(&reply, &bound, &err), QN_UNSUPPORTED);
    assert_non_null(strstr(err.text, "output 'y'"));
}

/* A sink that passes its bytes on whenever it is full. */
typedef struct drain {
    char kept[4096];
    size_t n;
} drain;

static qn_status drain_room(qn_sink *sink, size_t more, qn_error *err)
{
    drain *d = sink->arg;

    if (more > sink->cap || d->n + sink->len > sizeof d->kept)
        return qn_fail(err, QN_TOO_LARGE, "%zu more", more);
    memcpy(d->kept + d->n, sink->data, sink->len);
    d->n += sink->len;
    sink->len = 0;
    return QN_OK;
}

static void test_draining_sink(void **state)
{
    uint8_t v[500];
    char buf[640], *whole;
    drain d = { .n = 0 };
    qn_tensor t = { QN_U8, qn_shape_make(1, (int64_t[]){ 500 }), v };
    qn_sink sink = { buf, 0, sizeof buf, drain_room, &d };
    qn_error err = { 0 };

    (void)state;
    for (size_t i = 0; i < sizeof v; i++)
        v[i] = (uint8_t)(i * 37);
    whole = encode(&t, NULL, NULL);
    assert_int_equal(qn_encode_values(&sink, &t, NULL, NULL, &err), QN_OK);
    assert_int_equal(drain_room(&sink, 1, &err), QN_OK);
    assert_int_equal(d.n, strlen(whole));
    assert_memory_equal(d.kept, whole, d.n);
    free(whole);
}

static void test_writer(void **state)
{
    static const char want[] =
        "{\"s\":\"a\\\"\",\"n\":null,\"i\":-5,\"u\":18446744073709551615,"
        "\"d\":0.1,\"x\":\"NaN\",\"y\":\"-Infinity\",\"b\":true,\"e\":[],\"o\""
        ":{},\"l\":[1,[2,3],{\"k\":false}],\"f\":\"7%\",\"r\":[0],\"bad\":"
        "\"a\xef\xbf\xbdz\"}";
    qn_sink sink = qn_sink_heap();
    qn_error err = { 0 };
    qn_json j;

    (void)state;
    qn_json_init(&j, &sink);
    qn_json_object(&j, NULL);
    qn_json_string(&j, "s", "a\"");
    qn_json_string(&j, "n", NULL);
    qn_json_int(&j, "i", -5);
    qn_json_uint(&j, "u", UINT64_MAX);
    qn_json_double(&j, "d", 0.1);
    qn_json_double(&j, "x", (double)__builtin_nanf(""));
    qn_json_double(&j, "y", -(double)__builtin_inff());
    qn_json_bool(&j, "b", true);
    qn_json_array(&j, "e");
    qn_json_end(&j);
    qn_json_object(&j, "o");
    qn_json_end(&j);
    qn_json_array(&j, "l");
    qn_json_int(&j, NULL, 1);
    qn_json_ints(&j, NULL, (int64_t[]){ 2, 3 }, 2);
    qn_json_object(&j, NULL);
    qn_json_bool(&j, "k", false);
    qn_json_end(&j);
    qn_json_end(&j);
    qn_json_format(&j, "f", "%d%%", 7);
    qn_json_raw(&j, "r", "[0]", 3);
    qn_json_string(&j, "bad", "a\xe2z");
    qn_json_end(&j);
    assert_int_equal(qn_json_finish(&j, &err), QN_OK);
    assert_int_equal(sink.len, strlen(want));
    assert_memory_equal(sink.data, want, sink.len);
    qn_free(sink.data);

    /* misuse is told, not written past anything */
    sink = qn_sink_heap();
    qn_json_init(&j, &sink);
    qn_json_end(&j);
    assert_int_equal(qn_json_finish(&j, &err), QN_INTERNAL);
    qn_json_init(&j, &sink);
    for (int i = 0; i < 100; i++)
        qn_json_array(&j, NULL);
    assert_int_equal(qn_json_finish(&j, &err), QN_INTERNAL);
    qn_json_init(&j, &sink);
    qn_json_object(&j, NULL);
    assert_int_equal(qn_json_finish(&j, &err), QN_INTERNAL);
    qn_free(sink.data);
}

static void test_faults(void **state)
{
    static const unsigned http[QN_STATUS_COUNT] = {
        [QN_OK] = 200,          [QN_INVALID] = 400,   [QN_FORMAT] = 400,
        [QN_SHAPE] = 400,       [QN_TYPE] = 400,      [QN_RANGE] = 400,
        [QN_UNSUPPORTED] = 400, [QN_TOO_LARGE] = 400, [QN_NOT_FOUND] = 404,
        [QN_NOT_READY] = 503,   [QN_BUSY] = 429,      [QN_NO_MEMORY] = 503,
        [QN_CANCELLED] = 499,   [QN_DEADLINE] = 504,  [QN_IO] = 500,
        [QN_DEVICE] = 500,      [QN_INTERNAL] = 500,
        [QN_DEVICE_LOST] = 503,
    };
    char buf[1024];
    qn_error fault = { 0 }, err = { 0 };

    (void)state;
    for (int s = 0; s < QN_STATUS_COUNT; s++)
        if (qn_fault_http((qn_status)s) != http[s])
            fail_msg("%s gives %u", qn_status_name((qn_status)s),
                     qn_fault_http((qn_status)s));
    assert_int_equal(qn_fault_http((qn_status)99), 500);

    qn_sink sink = qn_sink_fixed(buf, sizeof buf);
    (void)qn_fail(&fault, QN_BUSY, "full \"x\"");
    assert_int_equal(qn_fault_write(&sink, &fault, &err), QN_OK);
    buf[sink.len] = 0;
    assert_string_equal(buf, "{\"error\":\"full \\\"x\\\"\",\"code\":\"BUSY\"}");

    sink = qn_sink_fixed(buf, sizeof buf);
    (void)qn_fail(&fault, QN_RANGE, "no");
    qn_error_where(&fault, "x", "UINT8", "256");
    qn_error_index(&fault, 0);
    assert_int_equal(qn_fault_write(&sink, &fault, &err), QN_OK);
    buf[sink.len] = 0;
    assert_string_equal(buf,
                        "{\"error\":\"no\",\"code\":\"RANGE\",\"details\":{"
                        "\"tensor\":\"x\",\"index\":0,\"expected\":\"UINT8\","
                        "\"got\":\"256\"}}");
    sink = qn_sink_fixed(buf, sizeof buf);
    (void)qn_fail(&fault, QN_RANGE, "no");
    qn_error_index(&fault, 7);
    assert_int_equal(qn_fault_write(&sink, &fault, &err), QN_OK);
    buf[sink.len] = 0;
    assert_string_equal(buf, "{\"error\":\"no\",\"code\":\"RANGE\",\"details\":"
                             "{\"index\":7}}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),       cmocka_unit_test(test_nesting),
        cmocka_unit_test(test_bounds_hold),  cmocka_unit_test(test_strings),
        cmocka_unit_test(test_reply),        cmocka_unit_test(test_draining_sink),
        cmocka_unit_test(test_writer),       cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Values of tensors: every rule about numbers, words and strings, by type. */
#include "tests/support/codec.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_accepts(void **state)
{
    static const struct {
        qn_dtype dtype;
        const char *json;
        const char *bytes; /* of all elements, in hex, as they lie in memory */
    } rows[] = {
        { QN_F32, "[1, -0.0, 1.5e0]", "0000803f 00000080 0000c03f" },
        { QN_F32, "1", "0000803f" },
        { QN_F32, "[[1],[2]]", "0000803f 00000040" },
        { QN_F32, "[ [ 1 , 2 ]\n,\t[ 3 ,4 ] ]",
          "0000803f 00000040 00004040 00008040" },
        { QN_F32, "[NaN,Infinity,-Infinity,null]",
          "0000c07f 0000807f 000080ff 0000c07f" },
        { QN_F32, "[\"NaN\",\"Infinity\",\"-Infinity\"]",
          "0000c07f 0000807f 000080ff" },
        { QN_F32, "[\"\\u004eaN\", 1e-400, -1e-400]",
          "0000c07f 00000000 00000080" },
        { QN_F32, "[3.4028235677973366e38]", "ffff7f7f" },
        { QN_F32, "[]", "" },
        { QN_F32, "[[],[]]", "" },
        { QN_F32, "[0.1,16777217]", "cdcccc3d 0000804b" },
        { QN_F64, "[0.1, NaN, \"-Infinity\", 9007199254740993]",
          "9a9999999999b93f 000000000000f87f 000000000000f0ff "
          "0000000000004043" },
        { QN_F16, "[1, 65504, 65519.99, NaN, \"Infinity\", -Infinity, null]",
          "003c ff7b ff7b 007e 007c 00fc 007e" },
        { QN_F16, "[2049, 2051, 2049.0000000000000000000001, 5.9604645e-8]",
          "0068 0268 0168 0100" },
        { QN_BF16, "[1, 257, 3.3895313892515355e38, NaN, Infinity]",
          "803f 8043 7f7f c07f 807f" },
        { QN_F8E4M3FN, "[1, 448, -0.0, NaN]", "38 7e 80 7f" },
        { QN_F8E5M2, "[1, -Infinity, NaN]", "3c fc 7e" },
        { QN_F8E4M3FNUZ, "[1, null, -0.0]", "40 80 00" },
        { QN_F8E8M0, "[1, 2, NaN]", "7f 80 ff" },
        { QN_F4E2M1, "[6, -0.5]", "07 09" },
        { QN_U8, "[0, 255, 2.0, 1e2, 2550e-1]", "00 ff 02 64 ff" },
        { QN_I8, "[-128, 127, -0]", "80 7f 00" },
        { QN_U16, "[65535]", "ffff" },
        { QN_I16, "[-32768]", "0080" },
        { QN_U32, "[4294967295]", "ffffffff" },
        { QN_I32, "[-2147483648, 2147483647]", "00000080 ffffff7f" },
        { QN_I64, "[9223372036854775807, -9223372036854775808]",
          "ffffffffffffff7f 0000000000000080" },
        { QN_I64, "[9007199254740993]", "0100000000002000" },
        { QN_U64, "[18446744073709551615, 18446744073709551615.0]",
          "ffffffffffffffff ffffffffffffffff" },
        { QN_I4, "[-8, 7]", "f8 07" },
        { QN_U4, "[15]", "0f" },
        { QN_I2, "[-2, 1]", "fe 01" },
        { QN_U2, "[3]", "03" },
        { QN_BOOL, "[true, false, 1, 0, 1.0, 0e5, -0]", "01 00 01 00 01 00 00" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unsigned char want[256];
        size_t n = 0;
        test_tensor t;

        for (const char *h = rows[i].bytes; *h; h += 2) {
            unsigned byte;
            if (*h == ' ')
                h++;
            assert_int_equal(sscanf(h, "%2x", &byte), 1);
            want[n++] = (unsigned char)byte;
        }
        test_tensor_decode(&t, rows[i].json, rows[i].dtype);
        if (t.status != QN_OK)
            fail_msg("%s as %s: %s", rows[i].json, qn_dtype_wire(rows[i].dtype),
                     t.err.text);
        size_t bytes = (size_t)qn_count(&t.tensor) *
                       qn_dtype_size(rows[i].dtype);
        if (bytes != n || (n && memcmp(t.tensor.data, want, n) != 0))
            fail_msg("%s as %s: wrong bytes", rows[i].json,
                     qn_dtype_wire(rows[i].dtype));
        test_tensor_release(&t);
    }
}

static void test_refuses(void **state)
{
    static const struct {
        qn_dtype dtype;
        const char *json;
        qn_status want;
        const char *says;
        int64_t index; /* -1: none */
    } rows[] = {
        { QN_U8, "[1, 2, 256]", QN_RANGE, "index 2: 256 does not fit UINT8", 2 },
        { QN_U8, "[1, 2.5]", QN_TYPE, "index 1: 2.5 is not an integer", 1 },
        { QN_U8, "[-1]", QN_RANGE, "index 0: -1 does not fit UINT8", 0 },
        { QN_I8, "[128]", QN_RANGE, "does not fit INT8", 0 },
        { QN_I8, "[-129]", QN_RANGE, "does not fit INT8", 0 },
        { QN_U16, "[65536]", QN_RANGE, "does not fit UINT16", 0 },
        { QN_I16, "[[0],[32768]]", QN_RANGE, "index 1: 32768", 1 },
        { QN_U32, "[4294967296]", QN_RANGE, "does not fit UINT32", 0 },
        { QN_I32, "[2147483648]", QN_RANGE, "does not fit INT32", 0 },
        { QN_I64, "[9223372036854775808]", QN_RANGE,
          "9223372036854775808 does not fit INT64", 0 },
        { QN_I64, "[-9223372036854775809]", QN_RANGE, "does not fit INT64", 0 },
        { QN_U64, "[18446744073709551616]", QN_RANGE, "does not fit UINT64", 0 },
        { QN_U64, "[-1]", QN_RANGE, "does not fit UINT64", 0 },
        { QN_I64, "[1e-1]", QN_TYPE, "1e-1 is not an integer", 0 },
        { QN_I64, "[1e19]", QN_RANGE, "1e19 does not fit INT64", 0 },
        { QN_I64, "[NaN]", QN_RANGE, "NaN does not fit INT64", 0 },
        { QN_I64, "[null]", QN_TYPE, "null is not a number", 0 },
        { QN_I64, "[true]", QN_TYPE, "true is not a number", 0 },
        { QN_I64, "[\"5\"]", QN_TYPE, "\"5\" is not a number", 0 },
        { QN_I4, "[8]", QN_RANGE, "does not fit INT4", 0 },
        { QN_U4, "[16]", QN_RANGE, "does not fit UINT4", 0 },
        { QN_I2, "[2]", QN_RANGE, "does not fit INT2", 0 },
        { QN_U2, "[4]", QN_RANGE, "does not fit UINT2", 0 },
        { QN_F32, "[1e39]", QN_RANGE, "1e39 does not fit FP32", 0 },
        { QN_F32, "[1, 3.4028235677973367e38]", QN_RANGE, "index 1", 1 },
        { QN_F64, "[1e309]", QN_RANGE, "does not fit FP64", 0 },
        { QN_F16, "[65520]", QN_RANGE, "65520 does not fit FP16", 0 },
        { QN_BF16, "[-3.4e38]", QN_RANGE, "does not fit BF16", 0 },
        { QN_F8E4M3FN, "[Infinity]", QN_RANGE, "does not fit FP8_E4M3FN", 0 },
        { QN_F4E2M1, "[NaN]", QN_RANGE, "NaN does not fit FP4_E2M1", 0 },
        { QN_F8E8M0, "[0]", QN_RANGE, "0 does not fit", 0 },
        { QN_F32, "[true]", QN_TYPE, "true is not a number", 0 },
        { QN_F32, "[\"1\"]", QN_TYPE, "\"1\" is not a number", 0 },
        { QN_F32, "[\"nan\"]", QN_TYPE, "is not a number", 0 },
        { QN_F32, "[{\"b64\":\"AA==\"}]", QN_TYPE, "is not a number", 0 },
        { QN_F32, "[1,2,]", QN_FORMAT, "index 2", 2 },
        { QN_F32, "[1,,2]", QN_FORMAT, "index 1", 1 },
        { QN_F32, "[1 2]", QN_FORMAT, "2 is not what follows", 1 },
        { QN_F32, "[1-2]", QN_FORMAT, "-2 is not what follows", 1 },
        { QN_F32, "[01]", QN_FORMAT, "01 is not a number", 0 },
        { QN_F32, "[1.]", QN_FORMAT, "1. is not a number", 0 },
        { QN_F32, "[1e]", QN_FORMAT, "1e is not a number", 0 },
        { QN_F32, "[1,-]", QN_FORMAT, "index 1: - is not a number", 1 },
        { QN_F32, "[1,.5]", QN_FORMAT, ".5 is not a number", 1 },
        { QN_F32, "[1/2]", QN_FORMAT, "index 1: /2", 1 },
        { QN_F32, "[1,e]", QN_FORMAT, "is not a number", 1 },
        { QN_F32, "[1,2 ,]", QN_FORMAT, "index 2", 2 },
        { QN_F32, "[[1,2],[3 4,]]", QN_FORMAT, "index 3", 3 },
        { QN_BOOL, "[2]", QN_RANGE, "2 does not fit BOOL", 0 },
        { QN_BOOL, "[0.5]", QN_RANGE, "0.5 does not fit BOOL", 0 },
        { QN_BOOL, "[null]", QN_TYPE, "null is not true or false", 0 },
        { QN_BOOL, "[\"true\"]", QN_TYPE, "is not true or false", 0 },
        { QN_BOOL, "[1,]", QN_FORMAT, "index 1", 1 },
        { QN_STRING, "[\"a\", 5]", QN_TYPE, "index 1: 5 is not a string", 1 },
        { QN_STRING, "[null]", QN_TYPE, "null is not a string", 0 },
        { QN_C64, "[1]", QN_UNSUPPORTED, "COMPLEX64", -1 },
        { QN_C128, "[1]", QN_UNSUPPORTED, "COMPLEX128", -1 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        test_tensor t;

        test_tensor_decode(&t, rows[i].json, rows[i].dtype);
        if (t.status != rows[i].want || !strstr(t.err.text, rows[i].says))
            fail_msg("%s as %s: %s, \"%s\"", rows[i].json,
                     qn_dtype_wire(rows[i].dtype), qn_status_name(t.status),
                     t.err.text);
        if (t.err.has_index != (rows[i].index >= 0) ||
            (t.err.has_index && t.err.index != rows[i].index))
            fail_msg("%s as %s: index %lld", rows[i].json,
                     qn_dtype_wire(rows[i].dtype), (long long)t.err.index);
        test_tensor_release(&t);
    }
}

static void test_strings(void **state)
{
    static const char json[] =
        "[[\"\", \"abc\", \"\\\"\\\\\\/\\b\\f\\n\\r\\t\"],"
        "[\"\\u0000x\\u00e9\\u20AC\\ud83d\\ude00\xc3\xa9\", {\"b64\": "
        "\"\\/w8A\"}, {\"b64\":\"AAE\"}]]";
    static const struct {
        const char *text;
        size_t len;
    } want[] = {
        { "", 0 },
        { "abc", 3 },
        { "\"\\/\b\f\n\r\t", 8 },
        { "\0x\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xc3\xa9", 13 },
        { "\xff\x0f\x00", 3 },
        { "\0\1", 2 },
    };
    test_tensor t;

    (void)state;
    test_tensor_decode(&t, json, QN_STRING);
    if (t.status != QN_OK)
        fail_msg("%s", t.err.text);
    assert_int_equal(t.tensor.shape.rank, 2);
    const qn_string *s = t.tensor.data;
    for (size_t i = 0; i < 6; i++)
        if (s[i].len != want[i].len ||
            memcmp(qn_string_bytes(&t.strings, s[i]), want[i].text,
                   want[i].len) != 0)
            fail_msg("string %zu has %zu bytes", i, (size_t)s[i].len);
    test_tensor_release(&t);

    /* a heap one byte too small */
    static const char *const full[] = { "[\"abc\",\"def\"]", "[\"\\u00e9\"]",
                                        "[{\"b64\":\"AAE\"}]" };
    for (size_t i = 0; i < 3; i++) {
        char body[64];
        test_scan scan;
        char heap[8];
        qn_string out[2];
        qn_error err = { 0 };
        snprintf(body, sizeof body, "{\"inputs\":%s}", full[i]);
        test_scan_body(&scan, body, strlen(body), NULL);
        const qn_scan_input *in = &scan.scan.inputs[0];
        qn_tensor to = { QN_STRING, in->shape, out };
        qn_strings strings = { .limit = in->data.string_bytes - 1 };
        strings.base[QN_STRINGS_REQUEST] = heap;
        assert_int_equal(qn_decode(&in->data, NULL, &to, &strings, &err),
                         QN_NO_MEMORY);
        assert_int_equal(qn_decode(&in->data, NULL, &to, NULL, &err),
                         QN_INTERNAL);
        /* a check needs no heap */
        to.data = NULL;
        assert_int_equal(qn_decode(&in->data, NULL, &to, NULL, &err), QN_OK);
        test_scan_release(&scan);
    }
}

/* Checking gives the same verdict as decoding, and names the tensor. */
static void test_check_only(void **state)
{
    static const char body[] =
        "{\"inputs\":{\"x\":[1,2,300],\"y\":[1,2,3]}}";
    test_scan t;
    qn_error err = { 0 };

    (void)state;
    test_scan_body(&t, body, strlen(body), NULL);
    assert_int_equal(t.status, QN_OK);
    qn_tensor to = { QN_U8, t.scan.inputs[0].shape, NULL };
    assert_int_equal(qn_decode(&t.scan.inputs[0].data, "x", &to, NULL, &err),
                     QN_RANGE);
    assert_string_equal(err.text, "input 'x': index 2: 300 does not fit UINT8");
    assert_string_equal(err.tensor, "x");
    assert_string_equal(err.got, "300");
    assert_int_equal(err.index, 2);
    assert_int_equal(qn_decode(&t.scan.inputs[1].data, "y", &to, NULL, &err),
                     QN_OK);
    /* a shape of another count */
    to.shape = qn_shape_make(1, (int64_t[]){ 4 });
    assert_int_equal(qn_decode(&t.scan.inputs[1].data, "y", &to, NULL, &err),
                     QN_SHAPE);
    /* no data at all */
    qn_scan_data none = { 0 };
    assert_int_equal(qn_decode(&none, "z", &to, NULL, &err), QN_FORMAT);
    test_scan_release(&t);
}

static void test_raw(void **state)
{
    static const struct {
        qn_dtype dtype;
        int64_t count;
        const char *bytes;
        size_t len;
        qn_status want;
        const char *says;
    } rows[] = {
        { QN_F32, 1, "\0\0\x80\x3f", 4, QN_OK, "\0\0\x80\x3f" },
        { QN_F32, 1, "\0\0\x80", 3, QN_SHAPE, "3 bytes are not 1 elements" },
        { QN_BOOL, 3, "\1\0\1", 3, QN_OK, "\1\0\1" },
        { QN_BOOL, 3, "\1\0\2", 3, QN_RANGE, "index 2: byte 2" },
        { QN_C64, 1, "\0\0\x80\x3f\0\0\0\0", 8, QN_OK,
          "\0\0\x80\x3f\0\0\0\0" },
        { QN_I4, 3, "\x8f\x07", 2, QN_OK, "\xff\xf8\x07" },
        { QN_U4, 3, "\x8f\x07", 2, QN_OK, "\x0f\x08\x07" },
        { QN_I2, 5, "\xe4\x01", 2, QN_OK, "\x00\x01\xfe\xff\x01" },
        { QN_U2, 4, "\xe4", 1, QN_OK, "\x00\x01\x02\x03" },
        { QN_STRING, 2, "\2\0\0\0hi\0\0\0\0", 10, QN_OK, NULL },
        { QN_STRING, 2, "\2\0\0\0hi\0\0\0", 9, QN_FORMAT,
          "index 1: the binary data ends inside an element" },
        { QN_STRING, 1, "\xff\xff\xff\xff hi", 7, QN_FORMAT, "index 0" },
        { QN_STRING, 1, "\2\0\0\0hi\0\0\0\0", 10, QN_FORMAT,
          "4 bytes of binary data follow" },
        { QN_STRING, 0, "", 0, QN_OK, NULL },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unsigned char out[64] = { 0 };
        char heap[16];
        qn_scan_data data = { .text = rows[i].bytes, .len = rows[i].len,
                              .raw = true, .count = rows[i].count };
        qn_tensor to = { rows[i].dtype,
                         qn_shape_make(1, (int64_t[]){ rows[i].count }), out };
        qn_strings strings = { .limit = 16 };
        qn_error err = { 0 };
        size_t bytes = 99;

        strings.base[QN_STRINGS_REQUEST] = heap;
        qn_status st = qn_decode(&data, NULL, &to, &strings, &err);
        if (st != rows[i].want)
            fail_msg("row %zu: %s, %s", i, qn_status_name(st), err.text);
        if (st != QN_OK) {
            if (!strstr(err.text, rows[i].says))
                fail_msg("row %zu: %s", i, err.text);
            continue;
        }
        assert_int_equal(qn_decode_string_bytes(&data, to.dtype, &bytes, &err),
                         QN_OK);
        assert_int_equal(bytes, rows[i].count && rows[i].dtype == QN_STRING ? 2
                                                                            : 0);
        if (rows[i].says)
            assert_memory_equal(out, rows[i].says,
                                (size_t)rows[i].count *
                                    qn_dtype_size(rows[i].dtype));
        /* and back */
        char back[64];
        qn_sink sink = qn_sink_fixed(back, sizeof back);
        assert_int_equal(qn_encode_raw(&sink, &to, &strings, &err), QN_OK);
        assert_int_equal(sink.len, rows[i].len);
        assert_memory_equal(back, rows[i].bytes, rows[i].len);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepts),     cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_strings),     cmocka_unit_test(test_check_only),
        cmocka_unit_test(test_raw),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

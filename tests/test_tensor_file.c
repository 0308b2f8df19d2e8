/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor files: TensorProto and .npy, there and back. */
#include "models/model.h"
#include "tests/support/pb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/quern-tensor-XXXXXX";
static char path[96];

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/t", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void put_file(const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* Elements of each type, in memory order; 24 bytes are enough for 3. */
static const struct {
    qn_dtype dtype;
    qn_dtype npy; /* what comes back from .npy; QN_NONE: refused */
    const char *bytes;
} plain[] = {
    { QN_F32, QN_F32, "\x00\x00\x80\x3f\x00\x00\x00\xc0\xff\xff\x7f\x7f" },
    { QN_U8, QN_U8, "\x00\x80\xff" },
    { QN_I8, QN_I8, "\x00\x80\xff" },
    { QN_U16, QN_U16, "\x01\x02\xff\xff\x00\x80" },
    { QN_I16, QN_I16, "\x01\x02\xff\xff\x00\x80" },
    { QN_I32, QN_I32, "\x01\x02\x03\x04\xff\xff\xff\xff\x00\x00\x00\x80" },
    { QN_I64, QN_I64, "abcdefgh\xff\xff\xff\xff\xff\xff\xff\xff" "87654321" },
    { QN_BOOL, QN_BOOL, "\x01\x00\x01" },
    { QN_F16, QN_F16, "\x00\x3c\x00\xfc\x01\x00" },
    { QN_F64, QN_F64, "abcdefghijklmnopqrstuvwx" },
    { QN_U32, QN_U32, "abcdefghijkl" },
    { QN_U64, QN_U64, "abcdefghijklmnopqrstuvwx" },
    { QN_C64, QN_C64, "abcdefghijklmnopqrstuvwx" },
    { QN_C128, QN_C128, "abcdefghijklmnopqrstuvwxabcdefghijklmnopqrstuvwx" },
    { QN_F8E4M3FN, QN_NONE, "\x01\x7f\xff" },
    { QN_F8E5M2, QN_NONE, "\x01\x7f\xff" },
    { QN_U4, QN_U8, "\x00\x0f\x07" },
    { QN_I4, QN_I8, "\xf8\x07\xff" },
    { QN_U2, QN_U8, "\x00\x03\x01" },
    { QN_I2, QN_I8, "\xfe\x01\xff" },
    { QN_F4E2M1, QN_NONE, "\x00\x0f\x07" },
};

static void expect(const qn_tensor_file *got, const qn_tensor *want,
                   qn_dtype dtype, const char *what)
{
    size_t bytes = (size_t)qn_count(want) * qn_dtype_size(dtype);

    if (got->tensor.dtype != dtype ||
        !qn_shape_equal(&got->tensor.shape, &want->shape))
        fail_msg("%s %s: dtype or shape", qn_dtype_name(want->dtype), what);
    if (bytes && memcmp(got->tensor.data, want->data, bytes))
        fail_msg("%s %s: elements", qn_dtype_name(want->dtype), what);
}

static void test_numbers(void **state)
{
    static const qn_shape shapes[] = {
        { 1, { 3 } }, { 2, { 1, 3 } }, { 0, { 0 } }, { 2, { 0, 5 } },
        { 10, { 1, 1, 1, 1, 1, 3, 1, 1, 1, 1 } },
    };
    qn_error err = { 0 };
    qn_tensor_file got;

    (void)state;
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
            qn_tensor t = { plain[i].dtype, shapes[s],
                            (void *)(uintptr_t)plain[i].bytes };
            if (qn_tensor_pb_write(path, "n", &t, NULL, &err) != QN_OK ||
                qn_tensor_pb_read(path, &got, &err) != QN_OK)
                fail_msg("%s: %s", qn_dtype_name(t.dtype), err.text);
            expect(&got, &t, t.dtype, "pb");
            assert_string_equal(got.name, "n");
            qn_tensor_file_release(&got);
            qn_status st = qn_tensor_npy_write(path, &t, &err);
            if (plain[i].npy == QN_NONE) {
                assert_int_equal(st, QN_UNSUPPORTED);
                continue;
            }
            if (st != QN_OK || qn_tensor_npy_read(path, &got, &err) != QN_OK)
                fail_msg("%s: %s", qn_dtype_name(t.dtype), err.text);
            expect(&got, &t, plain[i].npy, "npy");
            qn_tensor_file_release(&got);
        }
}

static void test_bfloat16_becomes_float(void **state)
{
    static const uint16_t in[] = { 0x3f80, 0xc000 };
    static const float want[] = { 1, -2 };
    qn_tensor t = { QN_BF16, { 1, { 2 } }, (void *)(uintptr_t)in };
    qn_error err = { 0 };
    qn_tensor_file got;

    (void)state;
    assert_int_equal(qn_tensor_npy_write(path, &t, &err), QN_OK);
    assert_int_equal(qn_tensor_npy_read(path, &got, &err), QN_OK);
    assert_int_equal(got.tensor.dtype, QN_F32);
    assert_memory_equal(got.tensor.data, want, sizeof want);
    qn_tensor_file_release(&got);
}

static void test_strings(void **state)
{
    static char heap[] = "a\0b\xc3\xa4";
    qn_string elems[] = { qn_string_at(QN_STRINGS_REQUEST, 0, 3), { 0, 0 },
                          qn_string_at(QN_STRINGS_REQUEST, 3, 2) };
    qn_strings strings = { .base = { [QN_STRINGS_REQUEST] = heap } };
    qn_tensor t = { QN_STRING, { 1, { 3 } }, elems };
    qn_error err = { 0 };
    qn_tensor_file got;

    (void)state;
    assert_int_equal(qn_tensor_pb_write(path, "s", &t, &strings, &err), QN_OK);
    assert_int_equal(qn_tensor_pb_read(path, &got, &err), QN_OK);
    qn_strings back = { .base = { [QN_STRINGS_STATIC] = got.strings } };
    const qn_string *e = got.tensor.data;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(e[i].len, elems[i].len);
        assert_memory_equal(qn_string_bytes(&back, e[i]),
                            qn_string_bytes(&strings, elems[i]), e[i].len);
    }
    qn_tensor_file_release(&got);
    assert_int_equal(qn_tensor_npy_write(path, &t, &err), QN_UNSUPPORTED);
}

/* ---- .npy as others write it ---- */

static size_t npy(uint8_t *out, int version, const char *dict, const void *data,
                  size_t n)
{
    size_t head = strlen(dict), at = version > 1 ? 12 : 10;

    memcpy(out, "\x93NUMPY", 6);
    out[6] = (uint8_t)version;
    out[7] = 0;
    out[8] = (uint8_t)head;
    out[9] = (uint8_t)(head >> 8);
    if (version > 1)
        out[10] = out[11] = 0;
    memcpy(out + at, dict, head);
    if (n)
        memcpy(out + at + head, data, n);
    return at + head + n;
}

static void test_npy_forms(void **state)
{
    static const struct {
        int version;
        const char *dict, *data;
        size_t n;
        const char *want;
        size_t bytes;
    } rows[] = {
        { 1, "{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }\n",
          "\1\2\3\4", 4, "\1\2\3\4", 4 },
        { 2, "{'shape':(2L,),\"fortran_order\":False,'descr':'>i2'}\n",
          "\1\2\3\4", 4, "\2\1\4\3", 4 },
        { 3, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3)}",
          "abcdef", 6, "acebdf", 6 },
        { 1, "{'descr': '|b1', 'fortran_order': False, 'shape': ()}", "\2", 1,
          "\1", 1 },
        { 1, "{'descr': '>c8', 'fortran_order': False, 'shape': (1,)}",
          "12345678", 8, "43218765", 8 },
        { 1, "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 9)}", "", 0,
          "", 0 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t file[256];
        qn_error err = { 0 };
        qn_tensor_file got;
        put_file(file, npy(file, rows[i].version, rows[i].dict, rows[i].data,
                           rows[i].n));
        if (qn_tensor_npy_read(path, &got, &err) != QN_OK)
            fail_msg("row %zu: %s", i, err.text);
        if (rows[i].bytes &&
            memcmp(got.tensor.data, rows[i].want, rows[i].bytes))
            fail_msg("row %zu: elements", i);
        qn_tensor_file_release(&got);
    }
}

static void test_npy_text(void **state)
{
    /* 'ä', then U+1F600, then nothing; two characters each, then bytes */
    static const char wide[] = "\xe4\0\0\0\0\0\0\0"
                               "\0\xf6\1\0\x78\0\0\0"
                               "\0\0\0\0\0\0\0\0";
    static const char *const want[] = { "\xc3\xa4", "\xf0\x9f\x98\x80x", "" };
    uint8_t file[256];
    qn_error err = { 0 };
    qn_tensor_file got;

    (void)state;
    put_file(file, npy(file, 1, "{'descr': '<U2', 'fortran_order': False, "
                       "'shape': (3,)}", wide, 24));
    if (qn_tensor_npy_read(path, &got, &err) != QN_OK)
        fail_msg("%s", err.text);
    qn_strings strings = { .base = { [QN_STRINGS_STATIC] = got.strings } };
    const qn_string *e = got.tensor.data;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(e[i].len, strlen(want[i]));
        assert_memory_equal(qn_string_bytes(&strings, e[i]), want[i], e[i].len);
    }
    qn_tensor_file_release(&got);
}

static void test_bad_npy(void **state)
{
    static const struct {
        int version;
        const char *dict;
        size_t n;
        qn_status want;
        const char *says;
    } rows[] = {
        { 9, "{}", 0, QN_UNSUPPORTED, "version 9.0" },
        { 1, "{}", 0, QN_FORMAT, "a header that is not" },
        { 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 7,
          QN_FORMAT, "7 bytes of elements" },
        { 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 9,
          QN_FORMAT, "9 bytes of elements" },
        { 1, "{'descr': '|O', 'fortran_order': False, 'shape': (2,)}", 8,
          QN_FORMAT, "a header that is not" },
        { 1, "{'descr': '<f3', 'fortran_order': False, 'shape': (2,)}", 6,
          QN_UNSUPPORTED, "kind 'f' with 3 bytes" },
        { 1, "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,)}", 8,
          QN_FORMAT, "a header that is not" },
        { 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", 8,
          QN_FORMAT, "a header that is not" },
        { 1, "{'descr': '<f4', 'fortran_order': False, 'shape': "
             "(99999999999999999999,)}", 8, QN_FORMAT, "a header that is not" },
        { 1, "{'descr': '<f4', 'fortran_order': False, 'shape': "
             "(4294967296, 4294967296)}", 8, QN_TOO_LARGE, "more bytes" },
        { 1, "{'descr': '<f4', 'fortran_order': False, 'shape': "
             "(1,1,1,1,1,1,1,1,1,1,1)}", 4, QN_FORMAT, "a header that is not" },
        { 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2", 8,
          QN_FORMAT, "a header that is not" },
    };
    uint8_t file[256] = { 0 };
    qn_error err = { 0 };
    qn_tensor_file got;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t data[16] = { 0 };
        put_file(file, npy(file, rows[i].version, rows[i].dict, data,
                           rows[i].n));
        qn_status st = qn_tensor_npy_read(path, &got, &err);
        if (st != rows[i].want || !strstr(err.text, rows[i].says))
            fail_msg("row %zu: %s \"%s\"", i, qn_status_name(st), err.text);
        assert_null(got.tensor.data);
    }
    size_t n = npy(file, 1, "{'descr': '<f4', 'fortran_order': False, "
                   "'shape': (2,)}", "12345678", 8);
    for (size_t k = 0; k < n; k++) {
        put_file(file, k);
        assert_int_equal(qn_tensor_npy_read(path, &got, &err), QN_FORMAT);
    }
}

static void test_missing(void **state)
{
    qn_error err = { 0 };
    qn_tensor_file got;

    (void)state;
    assert_int_equal(qn_tensor_pb_read("/nowhere/t.pb", &got, &err),
                     QN_NOT_FOUND);
    assert_int_equal(qn_tensor_npy_read("/nowhere/t.npy", &got, &err),
                     QN_NOT_FOUND);
    assert_int_equal(qn_tensor_pb_read("/", &got, &err), QN_IO);
    put_file("", 0);
    assert_int_equal(qn_tensor_pb_read(path, &got, &err), QN_UNSUPPORTED);
    put_file("\x08\x04\x10\x01\x4a\x04" "1234", 10);
    assert_int_equal(qn_tensor_pb_read(path, &got, &err), QN_FORMAT);
    assert_non_null(strstr(err.text, "4 bytes for float of shape [4]"));
    qn_tensor t = { QN_F32, { 0, { 0 } }, &(float){ 1 } };
    assert_int_equal(qn_tensor_npy_write("/nowhere/t.npy", &t, &err), QN_IO);
    assert_int_equal(qn_tensor_pb_write("/nowhere/t.pb", "", &t, NULL, &err),
                     QN_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_bfloat16_becomes_float),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_npy_forms),
        cmocka_unit_test(test_npy_text),
        cmocka_unit_test(test_bad_npy),
        cmocka_unit_test(test_missing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

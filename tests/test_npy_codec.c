/* SPDX-License-Identifier: Apache-2.0 */
/* .npy bodies. The accepted texts are what NumPy 2.2 writes. */
#include "server/codec/codec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A file: version, header text padded to a multiple of 64, elements. The copy
 * ends where its memory ends; the caller frees it. */
static unsigned char *make(int version, const char *dict, const void *data,
                           size_t bytes, size_t *len)
{
    size_t lead = version > 1 ? 12 : 10;
    size_t head = (lead + strlen(dict) + 1 + 63) / 64 * 64 - lead;
    unsigned char *p = malloc(lead + head + bytes);

    assert_non_null(p);
    memcpy(p, "\x93NUMPY", 6);
    p[6] = (unsigned char)version;
    p[7] = 0;
    p[8] = (unsigned char)(head & 255);
    p[9] = (unsigned char)(head >> 8);
    if (version > 1)
        p[10] = p[11] = 0;
    memset(p + lead, ' ', head);
    memcpy(p + lead, dict, strlen(dict));
    p[lead + head - 1] = '\n';
    if (bytes)
        memcpy(p + lead + head, data, bytes);
    *len = lead + head + bytes;
    return p;
}

#define DICT(descr, fortran, shape)                                            \
    "{'descr': '" descr "', 'fortran_order': " fortran ", 'shape': " shape     \
    ", }"

static void test_reads(void **state)
{
    static const struct {
        int version;
        const char *dict;
        const char *data;
        size_t bytes;
        qn_dtype dtype;
        const char *shape;
        const char *want; /* NULL: as data */
    } rows[] = {
        { 1, DICT("<f4", "False", "(2,)"), "\0\0\x80\x3f\0\0\0\x40", 8, QN_F32,
          "[2]", NULL },
        { 2, DICT("<f4", "False", "(2,)"), "\0\0\x80\x3f\0\0\0\x40", 8, QN_F32,
          "[2]", NULL },
        { 3, DICT(">f4", "False", "(2,)"), "\x3f\x80\0\0\x40\0\0\0", 8, QN_F32,
          "[2]", "\0\0\x80\x3f\0\0\0\x40" },
        { 1, DICT("<i2", "True", "(2, 3)"), "\1\0\4\0\2\0\5\0\3\0\6\0", 12,
          QN_I16, "[2, 3]", "\1\0\2\0\3\0\4\0\5\0\6\0" },
        { 1, DICT("|b1", "False", "(3,)"), "\0\1\2", 3, QN_BOOL, "[3]",
          "\0\1\1" },
        { 1, DICT("|u1", "False", "()"), "\7", 1, QN_U8, "[]", NULL },
        { 1, DICT("<i8", "False", "(0, 3)"), "", 0, QN_I64, "[0, 3]", NULL },
        { 1, DICT("<f2", "False", "(1,)"), "\0\x3c", 2, QN_F16, "[1]", NULL },
        { 1, DICT("<f8", "False", "(1,)"), "\0\0\0\0\0\0\xf0\x3f", 8, QN_F64,
          "[1]", NULL },
        { 1, DICT(">u8", "True", "(1,)"), "\0\0\0\0\0\0\0\1", 8, QN_U64, "[1]",
          "\1\0\0\0\0\0\0\0" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t len;
        unsigned char *file = make(rows[i].version, rows[i].dict, rows[i].data,
                                   rows[i].bytes, &len);
        char out[64], text[QN_SHAPE_TEXT];
        qn_error err = { 0 };
        qn_npy npy;

        if (qn_npy_open(file, len, &npy, &err) != QN_OK)
            fail_msg("row %zu: %s", i, err.text);
        qn_tensor t = { npy.dtype, npy.shape, out };
        if (npy.dtype != rows[i].dtype ||
            strcmp(qn_shape_text(&npy.shape, text), rows[i].shape) != 0)
            fail_msg("row %zu: %s %s", i, qn_dtype_wire(npy.dtype), text);
        if (qn_npy_decode(&npy, &t, &err) != QN_OK)
            fail_msg("row %zu: %s", i, err.text);
        if (rows[i].bytes && memcmp(out, rows[i].want ? rows[i].want
                                                      : rows[i].data,
                                    rows[i].bytes) != 0)
            fail_msg("row %zu: wrong elements", i);
        t.dtype = QN_I32;
        assert_int_equal(qn_npy_decode(&npy, &t, &err), QN_TYPE);
        t.dtype = npy.dtype;
        t.shape = qn_shape_make(1, (int64_t[]){ 77 });
        assert_int_equal(qn_npy_decode(&npy, &t, &err), QN_SHAPE);
        /* no prefix is a file */
        for (size_t n = 0; n < len; n++) {
            unsigned char *part = malloc(n ? n : 1);
            assert_non_null(part);
            memcpy(part, file, n);
            if (qn_npy_open(part, n, &npy, &err) != QN_FORMAT)
                fail_msg("row %zu: %zu of %zu bytes: %s", i, n, len, err.text);
            free(part);
        }
        free(file);
    }
}

static void test_refuses(void **state)
{
    static const struct {
        int version;
        const char *dict;
        size_t bytes;
        qn_status want;
        const char *says;
    } rows[] = {
        { 4, DICT("<f4", "False", "(1,)"), 4, QN_UNSUPPORTED, "version 4.0" },
        { 0, DICT("<f4", "False", "(1,)"), 4, QN_UNSUPPORTED, "version 0.0" },
        { 1, DICT("<f4", "False", "(1,)"), 5, QN_FORMAT, "5 bytes" },
        { 1, DICT("<f4", "False", "(2,)"), 4, QN_FORMAT, "4 bytes" },
        { 1, DICT("<f16", "False", "(1,)"), 16, QN_UNSUPPORTED, "'f'" },
        { 1, DICT("|O", "False", "(1,)"), 8, QN_FORMAT, "header" },
        { 1, DICT("<M8", "False", "(1,)"), 8, QN_UNSUPPORTED, "'M'" },
        { 1, DICT("<f4", "Maybe", "(1,)"), 4, QN_FORMAT, "header" },
        { 1, DICT("<f4", "False", "(-1,)"), 4, QN_FORMAT, "header" },
        { 1, DICT("<f4", "False", "(1"), 4, QN_FORMAT, "header" },
        { 1, DICT("<f4", "False", "(99999999999999999999,)"), 4, QN_FORMAT,
          "header" },
        { 1, DICT("<f4", "False", "(4611686018427387904, 4)"), 0, QN_TOO_LARGE,
          "4611686018427387904" },
        { 1, DICT("<f4", "False", "(1,1,1,1,1,1,1,1,1,1,1)"), 4, QN_FORMAT,
          "header" },
        { 1, "{'descr': '<f4', 'shape': (1,), }", 4, QN_FORMAT, "header" },
        { 1, "import os", 4, QN_FORMAT, "header" },
        { 1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}",
          4, QN_FORMAT, "header" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        static const char zeros[64];
        size_t len;
        unsigned char *file = make(rows[i].version, rows[i].dict, zeros,
                                   rows[i].bytes, &len);
        qn_error err = { 0 };
        qn_npy npy;
        qn_status st = qn_npy_open(file, len, &npy, &err);

        if (st != rows[i].want || !strstr(err.text, rows[i].says))
            fail_msg("row %zu: %s, \"%s\"", i, qn_status_name(st), err.text);
        free(file);
    }
    /* strings can be looked at, not decoded */
    size_t len;
    unsigned char *file = make(1, DICT("<U2", "False", "(1,)"), "a\0\0\0b\0\0\0",
                               8, &len);
    qn_error err = { 0 };
    qn_npy npy;
    qn_string s;
    assert_int_equal(qn_npy_open(file, len, &npy, &err), QN_OK);
    assert_int_equal(npy.dtype, QN_STRING);
    assert_int_equal(qn_npy_decode(&npy, &(qn_tensor){ QN_STRING, npy.shape,
                                                       &s }, &err),
                     QN_UNSUPPORTED);
    free(file);
}

static void test_writes(void **state)
{
    static const struct {
        qn_dtype dtype;
        int rank;
        int64_t dims[3];
        const char *descr; /* NULL: not supported */
    } rows[] = {
        { QN_F32, 1, { 2 }, "<f4" },     { QN_F64, 2, { 1, 2 }, "<f8" },
        { QN_F16, 0, { 0 }, "<f2" },     { QN_BOOL, 1, { 0 }, "|b1" },
        { QN_U8, 3, { 1, 1, 1 }, "|u1" }, { QN_I64, 1, { 1 }, "<i8" },
        { QN_U64, 1, { 1 }, "<u8" },     { QN_I4, 1, { 3 }, "|i1" },
        { QN_BF16, 1, { 1 }, NULL },     { QN_F8E5M2, 1, { 1 }, NULL },
        { QN_STRING, 1, { 1 }, NULL },
    };
    unsigned char data[64];

    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i & 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        qn_tensor t = { rows[i].dtype, qn_shape_make(rows[i].rank, rows[i].dims),
                        data };
        qn_sink sink = qn_sink_heap();
        qn_error err = { 0 };
        size_t bytes = 1;
        qn_status st = qn_npy_bytes(&t, &bytes, &err);

        if (!rows[i].descr) {
            assert_int_equal(st, QN_UNSUPPORTED);
            assert_int_equal(qn_npy_write(&sink, &t, &err), QN_UNSUPPORTED);
            assert_int_equal(bytes, 0);
            continue;
        }
        assert_int_equal(st, QN_OK);
        assert_int_equal(qn_npy_write(&sink, &t, &err), QN_OK);
        assert_int_equal(sink.len, bytes);
        qn_npy npy;
        if (qn_npy_open(sink.data, sink.len, &npy, &err) != QN_OK)
            fail_msg("row %zu: %s", i, err.text);
        assert_true(qn_shape_equal(&npy.shape, &t.shape));
        assert_int_equal((npy.data - (unsigned char *)sink.data) % 64, 0);
        char text[512];
        snprintf(text, sizeof text, "'descr': '%s'", rows[i].descr);
        assert_non_null(memmem(sink.data, sink.len, text, strlen(text)));
        if (npy.bytes)
            assert_memory_equal(npy.data, data, npy.bytes);
        qn_free(sink.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cast: whole formats by checksum against numpy and ml_dtypes, the rules for
 * what the standard leaves open, strings both ways.
 */
#include "runtime/base/half.h"
#include "runtime/cpu/convert.h"
#include "tests/support/node.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define V(...) (const int64_t[]){ __VA_ARGS__ }

/* ---- exhaustive ---- */

static const struct {
    qn_dtype from, to;
    bool wrap;
    uint64_t checksum;
} formats[] = {
#include "tests/cast_checksums.inc"
};

enum { MAX_INPUTS = 4 * 65536 };

/* Every code of a small format; of binary32 each upper half with four lower
 * ones; of binary64 what lies halfway for bfloat16, and its neighbours. */
static int64_t inputs_of(qn_dtype from, void *to)
{
    static const uint32_t low[] = { 0, 0x7fff, 0x8000, 0x8001 };
    int64_t n = 0;
    if (from == QN_F32) {
        uint32_t *u = to;
        for (uint32_t high = 0; high < 65536; high++)
            for (int i = 0; i < 4; i++)
                u[n++] = high << 16 | low[i];
    } else if (from == QN_F64) {
        double *d = to;
        for (uint32_t high = 0; high < 65536; high++) {
            float f = qn_bits_f32(high << 16 | 0x8000);
            if (!isfinite(f))
                continue;
            d[n++] = nextafter((double)f, 0);
            d[n++] = (double)f;
            d[n++] = nextafter((double)f, (double)f * 2);
        }
    } else {
        int64_t codes = (int64_t)1 << qn_dtype_file_bits(from);
        for (; n < codes; n++)
            memcpy((char *)to + (size_t)n * qn_dtype_size(from), &n,
                   qn_dtype_size(from));
    }
    return n;
}

static uint64_t checksum(qn_dtype type, const unsigned char *y, int64_t n)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    size_t size = qn_dtype_size(type);
    for (int64_t i = 0; i < n; i++, y += size) {
        double d;
        qn_convert(type, y, QN_F64, &d, 1, NULL);
        for (size_t b = 0; b < size; b++)
            h = (h ^ (isnan(d) ? 0xff : y[b])) * UINT64_C(0x100000001b3);
    }
    return h;
}

static void test_formats(void **state)
{
    (void)state;
    void *x = malloc(MAX_INPUTS * 8), *y = malloc(MAX_INPUTS * 8);
    assert_true(x && y);
    for (size_t r = 0; r < sizeof formats / sizeof formats[0]; r++) {
        qn_convert_how how = { .wrap = formats[r].wrap };
        int64_t n = inputs_of(formats[r].from, x);
        qn_convert(formats[r].from, x, formats[r].to, y, n, &how);
        uint64_t got = checksum(formats[r].to, y, n);
        if (got != formats[r].checksum)
            fail_msg("row %zu, %s to %s%s: checksum 0x%016llx", r,
                     qn_dtype_name(formats[r].from),
                     qn_dtype_name(formats[r].to),
                     formats[r].wrap ? ", not saturating" : "",
                     (unsigned long long)got);
    }
    free(x);
    free(y);
}

/* ---- numbers outside the range ---- */

static const struct {
    qn_dtype to;
    /* of 300, NaN, inf, -inf, 50, -50.9, 5e9, 1e19 */
    int64_t want[8];
} outside[] = {
    { QN_I8, { 44, 0, 0, 0, 50, -50, 0, 0 } },
    { QN_U8, { 44, 0, 0, 0, 50, 206, 0, 0 } },
    { QN_I16, { 300, 0, 0, 0, 50, -50, 0, 0 } },
    { QN_U16, { 300, 0, 0, 0, 50, 65486, 0, 0 } },
    { QN_I32,
      { 300, INT32_MIN, INT32_MIN, INT32_MIN, 50, -50, INT32_MIN, INT32_MIN } },
    { QN_U32, { 300, 0, 0, 0, 50, 4294967246, 705032704, 0 } },
    { QN_I64,
      { 300, INT64_MIN, INT64_MIN, INT64_MIN, 50, -50, 5000000000,
        INT64_MIN } },
    { QN_U64,
      { 300, INT64_MIN, 0, INT64_MIN, 50, -50, 5000000000,
        (int64_t)UINT64_C(10000000000000000000) } },
    { QN_BOOL, { 1, 1, 1, 1, 1, 1, 1, 1 } },
    { QN_I4, { -4, 0, 0, 0, 2, -2, 0, 0 } },
    { QN_U4, { 12, 0, 0, 0, 2, 14, 0, 0 } },
    { QN_I2, { 0, 0, 0, 0, -2, -2, 0, 0 } },
    { QN_U2, { 0, 0, 0, 0, 2, 2, 0, 0 } },
};

static void test_outside(void **state)
{
    (void)state;
    const double x[] = { 300,   (double)NAN, (double)INFINITY,
                         -(double)INFINITY, 50, -50.9, 5e9, 1e19 };
    for (size_t r = 0; r < sizeof outside / sizeof outside[0]; r++) {
        size_t size = qn_dtype_size(outside[r].to);
        unsigned char y[8 * 8];
        qn_convert(QN_F64, x, outside[r].to, y, 8, NULL);
        for (size_t i = 0; i < 8; i++)
            if (memcmp(y + i * size, &outside[r].want[i], size))
                fail_msg("%g to %s: expected %lld", x[i],
                         qn_dtype_name(outside[r].to),
                         (long long)outside[r].want[i]);
    }
}

static void test_integers_keep_low_bits(void **state)
{
    (void)state;
    static const struct {
        qn_dtype from, to;
        int64_t x, want;
    } rows[] = {
        { QN_I16, QN_I8, 200, -56 },
        { QN_I64, QN_U32, -1, 4294967295 },
        { QN_U8, QN_I8, 255, -1 },
        { QN_I8, QN_I64, -1, -1 },
        { QN_I8, QN_U4, -9, 7 },
        { QN_I8, QN_I4, 8, -8 },
        { QN_I4, QN_I32, -8, -8 },
        { QN_I32, QN_BOOL, 256, 1 },
        { QN_BOOL, QN_I64, 1, 1 },
        { QN_U64, QN_I2, 3, -1 },
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        int64_t y = 0;
        qn_convert(rows[r].from, &rows[r].x, rows[r].to, &y, 1, NULL);
        if (memcmp(&y, &rows[r].want, qn_dtype_size(rows[r].to)))
            fail_msg("row %zu: %s %lld to %s", r, qn_dtype_name(rows[r].from),
                     (long long)rows[r].x, qn_dtype_name(rows[r].to));
    }
}

/* Stretches of small numbers take another loop than those with a large one. */
static void test_small_and_large(void **state)
{
    (void)state;
    enum { N = 700 };
    static const int64_t odd[] = { 0, INT64_C(1) << 31, -(INT64_C(1) << 31) - 1,
                                   INT64_MAX };
    for (size_t k = 0; k < sizeof odd / sizeof odd[0]; k++) {
        int64_t x[N], back[N];
        float y[N];
        for (int i = 0; i < N; i++)
            x[i] = (i % 2 ? 1 : -1) * (int64_t)i * 1000003;
        x[N / 3] = odd[k];
        qn_convert(QN_I64, x, QN_F32, y, N, NULL);
        for (int i = 0; i < N; i++)
            if (y[i] != (float)x[i])
                fail_msg("int64 %lld: %a", (long long)x[i], (double)y[i]);
        y[N / 3] = odd[k] == INT64_MAX ? 0x1p62f : y[N / 3];
        qn_convert(QN_F32, y, QN_I64, back, N, NULL);
        for (int i = 0; i < N; i++)
            if (back[i] != (int64_t)y[i])
                fail_msg("float %a: %lld", (double)y[i], (long long)back[i]);
    }
}

/* By way of a wider float these would round twice. */
static void test_rounds_once(void **state)
{
    (void)state;
    const int64_t x[] = { (INT64_C(1) << 60) + (INT64_C(1) << 52) + 1,
                          (INT64_C(1) << 60) + (INT64_C(1) << 52),
                          -(INT64_C(1) << 60) - (INT64_C(1) << 52) - 1 };
    const uint16_t want[] = { 0x5d81, 0x5d80, 0xdd81 };
    uint16_t y[3];
    qn_convert(QN_I64, x, QN_BF16, y, 3, NULL);
    for (int i = 0; i < 3; i++)
        if (y[i] != want[i])
            fail_msg("index %d: 0x%04x, expected 0x%04x", i, (unsigned)y[i],
                     (unsigned)want[i]);
}

/* float8e8m0 as the tables of opset 24 say, and the same type's other modes. */
static void test_e8m0(void **state)
{
    (void)state;
    static const struct {
        float x;
        uint8_t up, down, nearest, wrap; /* wrap: nearest, not saturating */
    } rows[] = {
        { 1, 127, 127, 127, 127 },
        { 1.25f, 128, 127, 127, 127 },
        { 1.5f, 128, 127, 128, 128 }, /* ties go up */
        { 1.75f, 128, 127, 128, 128 },
        { 0, 0, 0, 0, 0xff },
        { 0x1p-127f, 0, 0, 0, 0 },
        { 0x1.4p-127f, 1, 0, 0, 0 },
        { 0x1.8p-127f, 1, 0, 1, 1 },
        { 0x1p-130f, 0, 0, 0, 0xff },
        { 0x1p127f, 254, 254, 254, 254 },
        { 0x1.cp127f, 254, 254, 254, 0xff },
        { INFINITY, 254, 254, 254, 0xff },
        { NAN, 0xff, 0xff, 0xff, 0xff },
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        const qn_convert_how how[] = { { false, QN_ROUND_UP },
                                       { false, QN_ROUND_DOWN },
                                       { false, QN_ROUND_NEAREST },
                                       { true, QN_ROUND_NEAREST } };
        const uint8_t want[] = { rows[r].up, rows[r].down, rows[r].nearest,
                                 rows[r].wrap };
        for (int i = 0; i < 4; i++) {
            uint8_t y;
            qn_convert(QN_F32, &rows[r].x, QN_F8E8M0, &y, 1, &how[i]);
            if (y != want[i])
                fail_msg("%a, way %d: %u, expected %u", (double)rows[r].x, i,
                         (unsigned)y, (unsigned)want[i]);
        }
    }
}

/* float4e2m1 has no infinity and no NaN: the largest number, and zero. */
static void test_e2m1(void **state)
{
    (void)state;
    const float x[] = { 0.25f, 0.26f, -0.75f, 1.25f, 2.5f,
                        5,     100,   -8,     INFINITY };
    const uint8_t want[] = { 0, 1, 0xa, 2, 4, 6, 7, 0xf, 7 };
    uint8_t y[9];
    qn_convert(QN_F32, x, QN_F4E2M1, y, 9, NULL);
    for (int i = 0; i < 9; i++)
        if (y[i] != want[i])
            fail_msg("%g: 0x%x, expected 0x%x", (double)x[i], (unsigned)y[i],
                     (unsigned)want[i]);
}

/* ---- as a node ---- */

static void test_node_attributes(void **state)
{
    (void)state;
    const float x[] = { 1000, -1000 };
    static const struct {
        const char *op, *round;
        int opset;
        int64_t saturate; /* -1: absent */
        qn_dtype to;
        uint8_t want[2];
    } rows[] = {
        { "Cast", NULL, 19, -1, QN_F8E4M3FN, { 0x7e, 0xfe } },
        { "Cast", NULL, 19, 0, QN_F8E4M3FN, { 0x7f, 0xff } },
        { "Cast", "down", 24, -1, QN_F8E8M0, { 136, 136 } },
        { "Cast", NULL, 24, -1, QN_F8E8M0, { 137, 137 } },
        { "CastLike", NULL, 19, -1, QN_F8E4M3FN, { 0x7e, 0xfe } },
        { "CastLike", NULL, 19, 0, QN_F8E4M3FN, { 0x7f, 0xff } },
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        bool like = !strcmp(rows[r].op, "CastLike");
        const uint8_t other = 0;
        test_node n = { 0 };
        test_node_init(&n, rows[r].op, rows[r].opset, like ? 2 : 1, 1);
        if (like)
            test_node_input(&n, 1, rows[r].to, 0, NULL, &other);
        else
            test_node_int(&n, "to", rows[r].to);
        if (rows[r].saturate >= 0)
            test_node_int(&n, "saturate", rows[r].saturate);
        if (rows[r].round)
            test_node_string(&n, "round_mode", rows[r].round);
        test_node_input(&n, 0, QN_F32, 1, V(2), x);
        if (test_node_run(&n) != QN_OK)
            fail_msg("row %zu: %s", r, n.err.text);
        test_node_expect(&n, 0, rows[r].to, 1, V(2), rows[r].want);
        test_node_release(&n);
    }
}

static void test_bitcast(void **state)
{
    (void)state;
    const float x[] = { 1, -2 };
    test_node n = { 0 };
    test_node_init(&n, "BitCast", 26, 1, 1);
    test_node_int(&n, "to", QN_U32);
    test_node_input(&n, 0, QN_F32, 1, V(2), x);
    assert_int_equal(test_node_run(&n), QN_OK);
    test_node_expect(&n, 0, QN_U32, 1, V(2),
                     (uint32_t[]){ 0x3f800000, 0xc0000000 });
    test_node_release(&n);
    /* int4 -1 lies as 0xff, uint4 15 as 0x0f */
    n = (test_node){ 0 };
    test_node_init(&n, "BitCast", 26, 1, 1);
    test_node_int(&n, "to", QN_U4);
    test_node_input(&n, 0, QN_I4, 1, V(2), (int8_t[]){ -1, 7 });
    assert_int_equal(test_node_run(&n), QN_OK);
    test_node_expect(&n, 0, QN_U4, 1, V(2), (uint8_t[]){ 15, 7 });
    test_node_release(&n);
}

static void test_node_rejects(void **state)
{
    (void)state;
    static const struct {
        const char *op;
        int opset;
        int64_t to; /* -1: absent */
        const char *name, *says;
        qn_status status;
    } rows[] = {
        { "Cast", 13, -1, NULL, "attribute to is missing", QN_INVALID },
        { "Cast", 13, 17, NULL, "float8e4m3fn", QN_INVALID },
        { "Cast", 13, 4294967297, NULL, "4294967297", QN_INVALID },
        { "Cast", 1, -1, "FLOAT8", "\"FLOAT8\"", QN_INVALID },
        { "BitCast", 26, QN_F64, NULL, "float has 32 bits", QN_TYPE },
    };
    const float x[] = { 1 };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        test_node n = { 0 };
        test_node_init(&n, rows[r].op, rows[r].opset, 1, 1);
        if (rows[r].to >= 0)
            test_node_int(&n, "to", rows[r].to);
        if (rows[r].name)
            test_node_string(&n, "to", rows[r].name);
        test_node_input(&n, 0, QN_F32, 1, V(1), x);
        qn_status st = test_node_run(&n);
        if (st != rows[r].status || !strstr(n.err.text, rows[r].says))
            fail_msg("row %zu: %s, \"%s\"", r, qn_status_name(st), n.err.text);
        test_node_release(&n);
    }
}

/* The name of the type, before opset 6. */
static void test_named_type(void **state)
{
    (void)state;
    const float x[] = { 1.5f, -2.5f };
    test_node n = { 0 };
    test_node_init(&n, "Cast", 1, 1, 1);
    test_node_string(&n, "to", "INT64");
    test_node_input(&n, 0, QN_F32, 1, V(2), x);
    assert_int_equal(test_node_run(&n), QN_OK);
    test_node_expect(&n, 0, QN_I64, 1, V(2), V(1, -2));
    test_node_release(&n);
}

/* ---- strings ---- */

enum { HEAP = 4096 };

static const struct {
    qn_dtype from;
    double x;
    const char *want;
} printed[] = {
    { QN_F32, 0.47892547, "0.47892547" },
    { QN_F32, 1, "1.0" },
    { QN_F32, -300, "-300.0" },
    { QN_F32, 16777216, "16777216.0" },
    { QN_F32, 1e-5, "1e-05" },
    { QN_F32, 1.5e-7, "1.5e-07" },
    { QN_F32, 0.0001, "0.0001" },
    { QN_F32, 1e16, "1e+16" },
    { QN_F32, 0x1.fffffep127, "3.4028235e+38" },
    { QN_F32, 0x1p-149, "1e-45" },
    { QN_F32, -0.0, "-0.0" },
    { QN_F64, 0.1, "0.1" },
    { QN_F64, 1.0 / 3, "0.3333333333333333" },
    { QN_F64, 1e15, "1000000000000000.0" },
    { QN_F64, 0x1.fffffffffffffp1023, "1.7976931348623157e+308" },
    { QN_F16, 1.0 / 3, "0.3333" },
    { QN_F16, 65504, "65500.0" },
    { QN_BF16, 3.140625, "3.14" },
    { QN_F32, (double)INFINITY, "inf" },
    { QN_F32, -(double)INFINITY, "-inf" },
    { QN_F64, (double)NAN, "nan" },
    { QN_I8, -128, "-128" },
    { QN_U64, 0x1p63, "9223372036854775808" },
    { QN_I64, -0x1p63, "-9223372036854775808" },
    { QN_U8, 255, "255" },
    { QN_BOOL, 1, "True" },
    { QN_BOOL, 0, "False" },
};

static void test_print(void **state)
{
    (void)state;
    for (size_t r = 0; r < sizeof printed / sizeof printed[0]; r++) {
        char heap[HEAP], x[8];
        test_node n = { 0 };
        test_node_init(&n, "Cast", 13, 1, 1);
        n.strings.base[QN_STRINGS_REQUEST] = heap;
        n.strings.limit = sizeof heap;
        qn_convert(QN_F64, &printed[r].x, printed[r].from, x, 1, NULL);
        test_node_int(&n, "to", QN_STRING);
        test_node_input(&n, 0, printed[r].from, 0, NULL, x);
        if (test_node_run(&n) != QN_OK)
            fail_msg("row %zu: %s", r, n.err.text);
        qn_string s = *(const qn_string *)n.out[0].data;
        const char *got = qn_string_bytes(&n.strings, s);
        if (s.len != strlen(printed[r].want) ||
            memcmp(got, printed[r].want, s.len))
            fail_msg("row %zu: \"%.*s\", expected \"%s\"", r, (int)s.len, got,
                     printed[r].want);
        test_node_release(&n);
    }
}

static const struct {
    const char *text;
    qn_dtype to;
    qn_status status;
    double want;
    const char *says;
} parsed[] = {
    { "3.14", QN_F64, QN_OK, 3.14, NULL },
    { "1000", QN_F32, QN_OK, 1000, NULL },
    { "1e-5", QN_F64, QN_OK, 1e-5, NULL },
    { "1E8", QN_F32, QN_OK, 1e8, NULL },
    { "+5", QN_F32, QN_OK, 5, NULL },
    { ".5", QN_F32, QN_OK, 0.5, NULL },
    { "5.", QN_F32, QN_OK, 5, NULL },
    { "INF", QN_F32, QN_OK, (double)INFINITY, NULL },
    { "+inf", QN_F64, QN_OK, (double)INFINITY, NULL },
    { "-Inf", QN_F16, QN_OK, -(double)INFINITY, NULL },
    { "NaN", QN_F32, QN_OK, (double)NAN, NULL },
    { "0.1", QN_F16, QN_OK, 0x1.998p-4, NULL },
    { "100.5", QN_I32, QN_OK, 100, NULL },
    { "-128", QN_I8, QN_OK, -128, NULL },
    { "1e3", QN_U16, QN_OK, 1000, NULL },
    { "9223372036854775808", QN_U64, QN_OK, 0x1p63, NULL },
    { "-9223372036854775808", QN_I64, QN_OK, -0x1p63, NULL },
    { "true", QN_BOOL, QN_OK, 1, NULL },
    { "False", QN_BOOL, QN_OK, 0, NULL },
    { "2", QN_BOOL, QN_OK, 1, NULL },
    { "-8", QN_I4, QN_OK, -8, NULL },
    { "256", QN_U8, QN_RANGE, 0, "\"256\" does not fit uint8" },
    { "-1", QN_U8, QN_RANGE, 0, "\"-1\" does not fit uint8" },
    { "128", QN_I8, QN_RANGE, 0, "\"128\" does not fit int8" },
    { "8", QN_I4, QN_RANGE, 0, "does not fit int4" },
    { "1e30", QN_I64, QN_RANGE, 0, "\"1e30\" does not fit int64" },
    { "18446744073709551616", QN_U64, QN_RANGE, 0, "does not fit uint64" },
    { "", QN_F32, QN_INVALID, 0, "index 0: \"\" is no float" },
    { "abc", QN_F32, QN_INVALID, 0, "\"abc\" is no float" },
    { " 1", QN_F32, QN_INVALID, 0, "\" 1\" is no float" },
    { "1 ", QN_I32, QN_INVALID, 0, "\"1 \" is no int32" },
    { "0x10", QN_F32, QN_INVALID, 0, "\"0x10\" is no float" },
    { "1_000", QN_I64, QN_INVALID, 0, "is no int64" },
    { "nan(1)", QN_F32, QN_INVALID, 0, "is no float" },
    { "inf", QN_I32, QN_INVALID, 0, "\"inf\" is no int32" },
    { "1e", QN_F64, QN_INVALID, 0, "is no double" },
    { "--1", QN_F64, QN_INVALID, 0, "is no double" },
    { ".", QN_F64, QN_INVALID, 0, "is no double" },
};

static void test_parse(void **state)
{
    (void)state;
    for (size_t r = 0; r < sizeof parsed / sizeof parsed[0]; r++) {
        char heap[HEAP];
        size_t len = strlen(parsed[r].text);
        qn_string x = qn_string_at(QN_STRINGS_REQUEST, 1, len);
        test_node n = { 0 };
        test_node_init(&n, "Cast", 21, 1, 1);
        /* no NUL on either side: only `len` bytes are the text's */
        memset(heap, '7', sizeof heap);
        memcpy(heap + 1, parsed[r].text, len);
        n.strings.base[QN_STRINGS_REQUEST] = heap;
        test_node_int(&n, "to", parsed[r].to);
        test_node_input(&n, 0, QN_STRING, 1, V(1), &x);
        qn_status st = test_node_run(&n);
        if (st != parsed[r].status ||
            (st != QN_OK && !strstr(n.err.text, parsed[r].says)))
            fail_msg("row %zu, \"%s\": %s, \"%s\"", r, parsed[r].text,
                     qn_status_name(st), n.err.text);
        if (st == QN_OK) {
            double got;
            qn_convert(parsed[r].to, n.out[0].data, QN_F64, &got, 1, NULL);
            if (got != parsed[r].want && !(isnan(got) && isnan(parsed[r].want)))
                fail_msg("row %zu, \"%s\": %.17g", r, parsed[r].text, got);
        }
        test_node_release(&n);
    }
}

static void test_heap_runs_out(void **state)
{
    (void)state;
    char heap[8];
    const float x[] = { 1.5f, 2.5f, 3.25f };
    test_node n = { 0 };
    test_node_init(&n, "Cast", 13, 1, 1);
    n.strings.base[QN_STRINGS_REQUEST] = heap;
    n.strings.limit = sizeof heap;
    test_node_int(&n, "to", QN_STRING);
    test_node_input(&n, 0, QN_F32, 1, V(3), x);
    assert_int_equal(test_node_run(&n), QN_NO_MEMORY);
    test_node_release(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_outside),
        cmocka_unit_test(test_integers_keep_low_bits),
        cmocka_unit_test(test_small_and_large),
        cmocka_unit_test(test_rounds_once),
        cmocka_unit_test(test_e8m0),
        cmocka_unit_test(test_e2m1),
        cmocka_unit_test(test_node_attributes),
        cmocka_unit_test(test_bitcast),
        cmocka_unit_test(test_node_rejects),
        cmocka_unit_test(test_named_type),
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_heap_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

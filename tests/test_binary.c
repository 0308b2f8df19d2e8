/* SPDX-License-Identifier: Apache-2.0 */
/* Binary operators: element types, wrapping, faults, and every way to
 * broadcast, against an index calculation per element. */
#include "runtime/base/half.h"
#include "tests/support/node.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { MAX = 4, MAX_ELEMENTS = 4096 };

#define V(...) (const int64_t[]){ __VA_ARGS__ }

/* Integers, by their low bytes; boolean results are one byte. */
static const struct {
    const char *op;
    int opset;
    qn_dtype dtype;
    int n;
    const int64_t *a, *b, *want;
} ints[] = {
    { "Add", 14, QN_I8, 2, V(127, -128), V(1, -1), V(-128, 127) },
    { "Add", 7, QN_I64, 1, V(INT64_MAX), V(1), V(INT64_MIN) },
    { "Sub", 14, QN_U16, 2, V(0, 5), V(1, 3), V(65535, 2) },
    { "Mul", 14, QN_U16, 1, V(65535), V(65535), V(1) },
    { "Mul", 14, QN_I32, 1, V(INT32_MAX), V(2), V(-2) },
    { "Div", 14, QN_I32, 4, V(7, -7, 7, -7), V(2, 2, -2, -2),
      V(3, -3, -3, 3) },
    { "Div", 7, QN_I32, 1, V(INT32_MIN), V(-1), V(INT32_MIN) },
    { "Div", 7, QN_I64, 1, V(INT64_MIN), V(-1), V(INT64_MIN) },
    { "Div", 14, QN_I8, 1, V(-128), V(-1), V(-128) },
    { "Div", 14, QN_U8, 1, V(255), V(2), V(127) },
    { "Mod", 10, QN_I32, 4, V(7, -7, 7, -7), V(3, 3, -3, -3),
      V(1, 2, -2, -1) },
    { "Mod", 10, QN_I64, 1, V(INT64_MIN), V(-1), V(0) },
    { "Pow", 12, QN_I32, 4, V(3, -2, 0, 2), V(4, 3, 0, 31),
      V(81, -8, 1, INT32_MIN) },
    { "Pow", 12, QN_I64, 4, V(1, -1, -1, 5), V(-3, -3, -4, -1),
      V(1, -1, 1, 0) },
    { "BitwiseAnd", 18, QN_I16, 1, V(-1), V(0x0ff0), V(0x0ff0) },
    { "BitwiseOr", 18, QN_U32, 1, V(0xf0), V(0x0f), V(0xff) },
    { "BitwiseXor", 18, QN_U64, 1, V(-1), V(1), V(-2) },
    { "And", 7, QN_BOOL, 4, V(0, 0, 1, 1), V(0, 1, 0, 1), V(0, 0, 0, 1) },
    { "Or", 7, QN_BOOL, 4, V(0, 0, 1, 1), V(0, 1, 0, 1), V(0, 1, 1, 1) },
    { "Xor", 7, QN_BOOL, 4, V(0, 0, 1, 1), V(0, 1, 0, 1), V(0, 1, 1, 0) },
    { "Equal", 13, QN_BOOL, 2, V(0, 1), V(0, 0), V(1, 0) },
    { "Equal", 7, QN_I64, 2, V(-1, 5), V(-1, 4), V(1, 0) },
    { "Less", 9, QN_U8, 2, V(200, 1), V(1, 200), V(0, 1) },
    { "Less", 9, QN_I8, 2, V(-56, 1), V(1, -56), V(1, 0) },
    { "Greater", 9, QN_U64, 2, V(-1, 1), V(1, 1), V(1, 0) },
    { "GreaterOrEqual", 16, QN_I32, 3, V(1, 2, 3), V(2, 2, 2), V(0, 1, 1) },
    { "LessOrEqual", 16, QN_I64, 3, V(1, 2, 3), V(2, 2, 2), V(1, 1, 0) },
    { "PRelu", 9, QN_I32, 2, V(-3, 3), V(5, 5), V(-15, 3) },
};

static void pack(unsigned char *to, const int64_t *from, int n, size_t size)
{
    for (int i = 0; i < n; i++)
        memcpy(to + (size_t)i * size, &from[i], size);
}

static void test_integers(void **state)
{
    (void)state;
    for (size_t r = 0; r < sizeof ints / sizeof ints[0]; r++) {
        unsigned char a[8 * MAX], b[8 * MAX], want[8 * MAX];
        int64_t dims[] = { ints[r].n };
        size_t size = qn_dtype_size(ints[r].dtype);
        test_node n = { 0 };
        test_node_init(&n, ints[r].op, ints[r].opset, 2, 1);
        pack(a, ints[r].a, ints[r].n, size);
        pack(b, ints[r].b, ints[r].n, size);
        test_node_input(&n, 0, ints[r].dtype, 1, dims, a);
        test_node_input(&n, 1, ints[r].dtype, 1, dims, b);
        if (test_node_run(&n) != QN_OK)
            fail_msg("row %zu, %s: %s", r, ints[r].op, n.err.text);
        qn_dtype out = n.out[0].dtype;
        pack(want, ints[r].want, ints[r].n, qn_dtype_size(out));
        if (memcmp(n.out[0].data, want, (size_t)dims[0] * qn_dtype_size(out)))
            fail_msg("row %zu, %s of %s: wrong result", r, ints[r].op,
                     qn_dtype_name(ints[r].dtype));
        test_node_release(&n);
    }
}

static void test_shift(void **state)
{
    (void)state;
    static const struct {
        const char *way;
        uint8_t want[3];
    } rows[] = { { "LEFT", { 0xfe, 0x80, 0 } }, { "RIGHT", { 0x7f, 1, 0 } } };
    const uint8_t a[] = { 0xff, 0xff, 0xff }, b[] = { 1, 7, 8 };
    for (int r = 0; r < 2; r++) {
        test_node n = { 0 };
        test_node_init(&n, "BitShift", 11, 2, 1);
        test_node_string(&n, "direction", rows[r].way);
        test_node_input(&n, 0, QN_U8, 1, V(3), a);
        test_node_input(&n, 1, QN_U8, 1, V(3), b);
        assert_int_equal(test_node_run(&n), QN_OK);
        test_node_expect(&n, 0, QN_U8, 1, V(3), rows[r].want);
        test_node_release(&n);
    }
}

/* The lowest faulty output index is named, whatever broadcasts. */
static void test_division_by_zero(void **state)
{
    (void)state;
    static const struct {
        const char *op;
        int64_t b_dim;
        int32_t b[4];
        const char *says;
        int64_t index;
    } rows[] = {
        { "Div", 4, { 1, 2, 0, 0 }, "output index 2 divides by zero", 2 },
        { "Div", 1, { 0 }, "output index 0 divides by zero", 0 },
        { "Mod", 4, { 1, 0, 1, 1 }, "output index 1 divides by zero", 1 },
        { "Pow", 4, { 1, 1, 1, -1 }, "output index 3 divides by zero", 3 },
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        const int32_t a[] = { 5, 5, 5, 0 };
        test_node n = { 0 };
        test_node_init(&n, rows[r].op, 13, 2, 1);
        test_node_input(&n, 0, QN_I32, 1, V(4), a);
        test_node_input(&n, 1, QN_I32, 1, &rows[r].b_dim, rows[r].b);
        qn_status st = test_node_run(&n);
        if (st != QN_RANGE || !strstr(n.err.text, rows[r].says) ||
            !n.err.has_index || n.err.index != rows[r].index)
            fail_msg("row %zu: %s, \"%s\"", r, qn_status_name(st), n.err.text);
        test_node_release(&n);
    }
}

static void test_float_special(void **state)
{
    (void)state;
    static const struct {
        const char *op;
        float a[4], b[4], want[4];
    } rows[] = {
        { "Div", { 1, -1, 0, 6 }, { 0, 0, 0, 4 },
          { INFINITY, -INFINITY, NAN, 1.5f } },
        { "Pow", { 2, -8, 0, NAN }, { 10, 1.0f / 3, 0, 0 },
          { 1024, NAN, 1, 1 } },
        { "PRelu", { -2, 2, NAN, -INFINITY }, { 0.5f, 3, 1, 2 },
          { -1, 2, NAN, -INFINITY } },
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        test_node n = { 0 };
        test_node_init(&n, rows[r].op, 13, 2, 1);
        test_node_input(&n, 0, QN_F32, 1, V(4), rows[r].a);
        test_node_input(&n, 1, QN_F32, 1, V(4), rows[r].b);
        assert_int_equal(test_node_run(&n), QN_OK);
        test_node_expect_f32(&n, 0, 1, V(4), rows[r].want, 1e-6, 0);
        test_node_release(&n);
    }
    static const struct {
        const char *op;
        uint8_t want[2]; /* of 1 and of NaN, against NaN */
    } nan[] = { { "Equal", { 0, 0 } },
                { "Less", { 0, 0 } },
                { "Greater", { 0, 0 } },
                { "LessOrEqual", { 0, 0 } },
                { "GreaterOrEqual", { 0, 0 } } };
    const float x[] = { 1, NAN }, y = NAN;
    for (size_t r = 0; r < sizeof nan / sizeof nan[0]; r++) {
        test_node n = { 0 };
        test_node_init(&n, nan[r].op, 16, 2, 1);
        test_node_input(&n, 0, QN_F32, 1, V(2), x);
        test_node_input(&n, 1, QN_F32, 0, NULL, &y);
        assert_int_equal(test_node_run(&n), QN_OK);
        test_node_expect(&n, 0, QN_BOOL, 1, V(2), nan[r].want);
        test_node_release(&n);
    }
}

/* A scalar exponent with a short form gives what pow does. */
static void test_pow_short_forms(void **state)
{
    (void)state;
    const float exponents[] = { 2, 3, 0.5f, -0.5f, 1, -1, 1.5f };
    const float x[] = { 0, -0.0f, 1.7f, -INFINITY, INFINITY, 3e-20f };
    for (size_t e = 0; e < sizeof exponents / sizeof exponents[0]; e++) {
        float want[6];
        for (int i = 0; i < 6; i++)
            want[i] = (float)pow((double)x[i], (double)exponents[e]);
        test_node n = { 0 };
        test_node_init(&n, "Pow", 13, 2, 1);
        test_node_input(&n, 0, QN_F32, 1, V(6), x);
        test_node_input(&n, 1, QN_F32, 0, NULL, &exponents[e]);
        assert_int_equal(test_node_run(&n), QN_OK);
        test_node_expect_f32(&n, 0, 1, V(6), want, 3e-7, 0);
        test_node_release(&n);
    }
}

static void test_pow_mixed(void **state)
{
    (void)state;
    const int64_t base[] = { 3, 2 };
    const float exponent[] = { 0.5f, -1 };
    test_node n = { 0 };
    test_node_init(&n, "Pow", 12, 2, 1);
    test_node_input(&n, 0, QN_I64, 1, V(2), base);
    test_node_input(&n, 1, QN_F32, 1, V(2), exponent);
    assert_int_equal(test_node_run(&n), QN_OK);
    test_node_expect(&n, 0, QN_I64, 1, V(2), V(1, 0));
    test_node_release(&n);

    const uint16_t half[] = { 0x4200, 0xc000 }; /* 3, -2 */
    n = (test_node){ 0 };
    test_node_init(&n, "Pow", 12, 2, 1);
    test_node_input(&n, 0, QN_F16, 1, V(2), half);
    test_node_input(&n, 1, QN_I64, 1, V(2), V(2, 3));
    assert_int_equal(test_node_run(&n), QN_OK);
    test_node_expect(&n, 0, QN_F16, 1, V(2), (uint16_t[]){ 0x4880, 0xc800 });
    test_node_release(&n);
}

/* 2049 is no float16: the sum is rounded once, to even. */
static void test_half_rounds_once(void **state)
{
    (void)state;
    const uint16_t a[] = { 0x6800, 0x6801 }, b = 0x3c00; /* 2048, 2050; 1 */
    test_node n = { 0 };
    test_node_init(&n, "Add", 14, 2, 1);
    test_node_input(&n, 0, QN_F16, 1, V(2), a);
    test_node_input(&n, 1, QN_F16, 0, NULL, &b);
    assert_int_equal(test_node_run(&n), QN_OK);
    test_node_expect(&n, 0, QN_F16, 1, V(2), (uint16_t[]){ 0x6800, 0x6802 });
    test_node_release(&n);
}

/* ---- broadcasting ---- */

typedef struct pair {
    int rank[2];
    int64_t dims[2][6];
} pair;

static const pair pairs[] = {
    { { 0, 0 }, { { 0 }, { 0 } } },
    { { 1, 0 }, { { 9 }, { 0 } } },
    { { 0, 2 }, { { 0 }, { 3, 4 } } },
    { { 3, 1 }, { { 2, 3, 4 }, { 4 } } },
    { { 3, 2 }, { { 2, 3, 4 }, { 3, 1 } } },
    { { 4, 3 }, { { 2, 3, 4, 5 }, { 3, 1, 1 } } },
    { { 4, 4 }, { { 2, 3, 1, 5 }, { 1, 1, 4, 5 } } },
    { { 2, 2 }, { { 7, 1 }, { 1, 9 } } },
    { { 2, 2 }, { { 1, 33 }, { 33, 1 } } },
    { { 6, 6 }, { { 2, 1, 3, 1, 2, 1 }, { 1, 3, 1, 2, 1, 4 } } },
    { { 3, 3 }, { { 1, 1, 1 }, { 1, 1, 1 } } },
    { { 2, 1 }, { { 0, 3 }, { 3 } } },
    { { 2, 2 }, { { 3, 1 }, { 1, 1300 } } },
};

/* Element of an operand for output element `flat`. */
static float pick(const float *x, int rank, const int64_t *dims,
                  const qn_shape *out, int64_t flat)
{
    int64_t at = 0, step = 1;
    for (int i = out->rank - 1; i >= 0; i--) {
        int k = i - (out->rank - rank);
        int64_t index = flat % out->dims[i];
        flat /= out->dims[i];
        if (k < 0)
            continue;
        at += dims[k] == 1 ? 0 : index * step;
        step *= dims[k];
    }
    return x[at];
}

static void test_broadcast(void **state)
{
    (void)state;
    static float a[MAX_ELEMENTS], b[MAX_ELEMENTS], want[MAX_ELEMENTS];
    for (int i = 0; i < MAX_ELEMENTS; i++) {
        a[i] = (float)i;
        b[i] = 0.5f + (float)(i % 97);
    }
    for (size_t r = 0; r < sizeof pairs / sizeof pairs[0]; r++) {
        const pair *p = &pairs[r];
        qn_shape sa = qn_shape_make(p->rank[0], p->dims[0]), out;
        qn_shape sb = qn_shape_make(p->rank[1], p->dims[1]);
        test_node n = { 0 };
        test_node_init(&n, "Sub", 7, 2, 1);
        test_node_input(&n, 0, QN_F32, p->rank[0], p->dims[0], a);
        test_node_input(&n, 1, QN_F32, p->rank[1], p->dims[1], b);
        if (test_node_run(&n) != QN_OK)
            fail_msg("row %zu: %s", r, n.err.text);
        assert_int_equal(qn_shape_broadcast(&sa, &sb, &out, NULL), QN_OK);
        for (int64_t i = 0; i < qn_count(&n.out[0]); i++)
            want[i] = pick(a, p->rank[0], p->dims[0], &out, i) -
                      pick(b, p->rank[1], p->dims[1], &out, i);
        test_node_expect(&n, 0, QN_F32, out.rank, out.dims, want);
        test_node_release(&n);
    }
}

/* The attribute forms of opset 1 to 6. */
static void test_legacy(void **state)
{
    (void)state;
    static const struct {
        bool broadcast;
        int64_t axis; /* -9: absent */
        int rank;
        int64_t dims[3];
        qn_status status;
        int step[3]; /* b's stride for each axis of a [2, 3, 4] */
    } rows[] = {
        { false, -9, 3, { 2, 3, 4 }, QN_OK, { 12, 4, 1 } },
        { false, -9, 1, { 4 }, QN_SHAPE, { 0 } },
        { true, -9, 1, { 4 }, QN_OK, { 0, 0, 1 } },
        { true, -9, 2, { 3, 4 }, QN_OK, { 0, 4, 1 } },
        { true, 0, 1, { 2 }, QN_OK, { 1, 0, 0 } },
        { true, 1, 1, { 3 }, QN_OK, { 0, 1, 0 } },
        { true, 0, 2, { 2, 3 }, QN_OK, { 3, 1, 0 } },
        { true, -2, 1, { 3 }, QN_OK, { 0, 1, 0 } },
        { true, -9, 0, { 0 }, QN_OK, { 0, 0, 0 } },
        { true, -9, 2, { 1, 1 }, QN_OK, { 0, 0, 0 } },
        { true, 1, 1, { 4 }, QN_SHAPE, { 0 } },
        { true, 2, 2, { 3, 4 }, QN_SHAPE, { 0 } },
    };
    float a[24], b[24], want[24];
    for (int i = 0; i < 24; i++) {
        a[i] = (float)i * 10;
        b[i] = (float)i;
    }
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        test_node n = { 0 };
        test_node_init(&n, "Add", 6, 2, 1);
        if (rows[r].broadcast)
            test_node_int(&n, "broadcast", 1);
        if (rows[r].axis != -9)
            test_node_int(&n, "axis", rows[r].axis);
        test_node_input(&n, 0, QN_F32, 3, V(2, 3, 4), a);
        test_node_input(&n, 1, QN_F32, rows[r].rank, rows[r].dims, b);
        qn_status st = test_node_run(&n);
        if (st != rows[r].status)
            fail_msg("row %zu: %s, \"%s\"", r, qn_status_name(st), n.err.text);
        for (int i = 0; i < 24; i++)
            want[i] = a[i] + b[i / 12 * rows[r].step[0] +
                               i / 4 % 3 * rows[r].step[1] +
                               i % 4 * rows[r].step[2]];
        if (st == QN_OK)
            test_node_expect(&n, 0, QN_F32, 3, V(2, 3, 4), want);
        test_node_release(&n);
    }
}

static void test_prelu_shapes(void **state)
{
    (void)state;
    static const struct {
        int opset, rank;
        int64_t dims[3];
        qn_status status;
        float want[4]; /* of -1 -1 -1 -1, shape [1, 2, 2] */
    } rows[] = {
        { 6, 1, { 2 }, QN_OK, { -1, -1, -2, -2 } }, /* by channel */
        { 6, 1, { 1 }, QN_OK, { -1, -1, -1, -1 } },
        { 7, 1, { 2 }, QN_OK, { -1, -2, -1, -2 } }, /* as numpy */
        { 9, 2, { 2, 1 }, QN_OK, { -1, -1, -2, -2 } },
        { 16, 3, { 3, 2, 2 }, QN_SHAPE, { 0 } }, /* one way only */
    };
    const float x[] = { -1, -1, -1, -1 };
    float slope[12] = { 1, 2, 3 };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        test_node n = { 0 };
        test_node_init(&n, "PRelu", rows[r].opset, 2, 1);
        test_node_input(&n, 0, QN_F32, 3, V(1, 2, 2), x);
        test_node_input(&n, 1, QN_F32, rows[r].rank, rows[r].dims, slope);
        qn_status st = test_node_run(&n);
        if (st != rows[r].status)
            fail_msg("row %zu: %s, \"%s\"", r, qn_status_name(st), n.err.text);
        if (st == QN_OK)
            test_node_expect(&n, 0, QN_F32, 3, V(1, 2, 2), rows[r].want);
        test_node_release(&n);
    }
}

static void test_strings(void **state)
{
    (void)state;
    char heap[] = "catdogcat";
    qn_string a[] = { qn_string_at(QN_STRINGS_REQUEST, 0, 3),
                      qn_string_at(QN_STRINGS_REQUEST, 3, 3),
                      { 0 },
                      qn_string_at(QN_STRINGS_REQUEST, 0, 2) };
    qn_string b = qn_string_at(QN_STRINGS_REQUEST, 6, 3);
    test_node n = { 0 };
    n.strings.base[QN_STRINGS_REQUEST] = heap;
    test_node_init(&n, "Equal", 19, 2, 1);
    test_node_input(&n, 0, QN_STRING, 1, V(4), a);
    test_node_input(&n, 1, QN_STRING, 0, NULL, &b);
    n.strings.base[QN_STRINGS_REQUEST] = heap;
    assert_int_equal(test_node_run(&n), QN_OK);
    test_node_expect(&n, 0, QN_BOOL, 1, V(4), (uint8_t[]){ 1, 0, 0, 0 });
    test_node_release(&n);
}

static void test_rejects(void **state)
{
    (void)state;
    const float x[6] = { 0 };
    test_node n = { 0 };
    test_node_init(&n, "Add", 7, 2, 1);
    test_node_input(&n, 0, QN_F32, 2, V(2, 3), x);
    test_node_input(&n, 1, QN_F32, 1, V(2), x);
    assert_int_equal(test_node_run(&n), QN_SHAPE);
    assert_non_null(strstr(n.err.text, "[2, 3] and [2]"));
    test_node_release(&n);

    n = (test_node){ 0 };
    test_node_init(&n, "Mod", 13, 2, 1);
    test_node_input(&n, 0, QN_F32, 1, V(2), x);
    test_node_input(&n, 1, QN_F32, 1, V(2), x);
    assert_int_equal(test_node_run(&n), QN_INVALID);
    assert_non_null(strstr(n.err.text, "fmod=1"));
    test_node_release(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_shift),
        cmocka_unit_test(test_division_by_zero),
        cmocka_unit_test(test_float_special),
        cmocka_unit_test(test_pow_short_forms),
        cmocka_unit_test(test_pow_mixed),
        cmocka_unit_test(test_half_rounds_once),
        cmocka_unit_test(test_broadcast),
        cmocka_unit_test(test_legacy),
        cmocka_unit_test(test_prelu_shapes),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_rejects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

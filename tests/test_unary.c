/* SPDX-License-Identifier: Apache-2.0 */
/* Unary operators as nodes: attributes by opset, element types, bounds. The
 * functions themselves: test_vmath.c. */
#include "runtime/base/half.h"
#include "tests/support/node.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { MAX = 6 };

/* Float operators with up to two attributes; inputs and results as doubles, run
 * in every float type. Tolerance: two units in the last place of the type. */
static const struct {
    const char *op;
    int opset; /* with bfloat16 if the last version has it */
    const char *attr[2];
    float value[2];
    int n;
    double x[MAX], want[MAX];
} floats[] = {
    { "Relu", 14, { 0 }, { 0 }, 3, { -1, 0, 2.5 }, { 0, 0, 2.5 } },
    { "Sigmoid", 13, { 0 }, { 0 }, 2, { 0, 2 }, { 0.5, 0.88079707797788244 } },
    { "Tanh", 13, { 0 }, { 0 }, 2, { -1, 0.5 },
      { -0.76159415595576489, 0.46211715726000976 } },
    { "HardSigmoid", 22, { 0 }, { 0 }, 4, { -3, 0, 1, 3 }, { 0, 0.5, 0.7, 1 } },
    { "HardSigmoid", 22, { "alpha", "beta" }, { 0.5f, 0.25f }, 3, { -1, 1, 4 },
      { 0, 0.75, 1 } },
    { "HardSwish", 22, { 0 }, { 0 }, 4, { -4, -1.5, 1.5, 4 },
      { 0, -0.375, 1.125, 4 } },
    { "LeakyRelu", 16, { 0 }, { 0 }, 2, { -100, 3 }, { -1, 3 } },
    { "LeakyRelu", 16, { "alpha" }, { 0.25f }, 2, { -4, 3 }, { -1, 3 } },
    { "Elu", 22, { "alpha" }, { 2 }, 2, { -1, 3 }, { -1.2642411176571153, 3 } },
    { "Selu", 22, { 0 }, { 0 }, 2, { -1, 2 },
      { -1.1113307378125628, 2.1014020442962646 } },
    { "Selu", 22, { "alpha", "gamma" }, { 2, 3 }, 2, { -1, 2 },
      { -3.7927233529713457, 6 } },
    { "Mish", 22, { 0 }, { 0 }, 3, { -1, 0, 2 },
      { -0.30340146137410895, 0, 1.9439589595339946 } },
    { "Gelu", 20, { 0 }, { 0 }, 3, { -1, 0, 2 },
      { -0.15865525393145707, 0, 1.9544997361036416 } },
    { "Swish", 24, { 0 }, { 0 }, 2, { -1, 2 },
      { -0.26894142136999512, 1.7615941559557649 } },
    { "Swish", 24, { "alpha" }, { 2 }, 1, { 1 }, { 0.88079707797788244 } },
    { "Softplus", 22, { 0 }, { 0 }, 2, { -1, 2 },
      { 0.31326168751822286, 2.1269280110429727 } },
    { "Softsign", 22, { 0 }, { 0 }, 2, { -1, 3 }, { -0.5, 0.75 } },
    { "ThresholdedRelu", 22, { 0 }, { 0 }, 3, { -1, 1, 2 }, { 0, 0, 2 } },
    { "Floor", 13, { 0 }, { 0 }, 4, { -1.5, -0.25, 0.5, 3 }, { -2, -1, 0, 3 } },
    { "Ceil", 13, { 0 }, { 0 }, 4, { -1.5, -0.25, 0.5, 3 }, { -1, 0, 1, 3 } },
    { "Round", 22, { 0 }, { 0 }, 5, { -2.5, -1.5, 0.5, 1.5, 2.5 },
      { -2, -2, 0, 2, 2 } },
    { "Sqrt", 13, { 0 }, { 0 }, 2, { 4, 2 }, { 2, 1.4142135623730951 } },
    { "Reciprocal", 13, { 0 }, { 0 }, 2, { 4, -0.5 }, { 0.25, -2 } },
    { "Exp", 13, { 0 }, { 0 }, 2, { 1, -2 },
      { 2.7182818284590451, 0.1353352832366127 } },
    { "Log", 13, { 0 }, { 0 }, 2, { 1, 10 }, { 0, 2.3025850929940459 } },
    { "Erf", 13, { 0 }, { 0 }, 2, { -0.5, 2 },
      { -0.52049987781304652, 0.99532226501895271 } },
    { "Abs", 13, { 0 }, { 0 }, 2, { -2, 3 }, { 2, 3 } },
    { "Neg", 13, { 0 }, { 0 }, 2, { -2, 3 }, { 2, -3 } },
    { "Sign", 13, { 0 }, { 0 }, 3, { -2, 0, 3 }, { -1, 0, 1 } },
    { "Sin", 22, { 0 }, { 0 }, 2, { 0.5, 3 },
      { 0.47942553860420301, 0.14112000805986721 } },
    { "Cos", 22, { 0 }, { 0 }, 1, { 0.5 }, { 0.87758256189037276 } },
    { "Tan", 22, { 0 }, { 0 }, 1, { 0.5 }, { 0.54630248984379048 } },
    { "Asin", 22, { 0 }, { 0 }, 1, { 0.5 }, { 0.52359877559829893 } },
    { "Acos", 22, { 0 }, { 0 }, 1, { 0.5 }, { 1.0471975511965979 } },
    { "Atan", 22, { 0 }, { 0 }, 1, { 0.5 }, { 0.46364760900080609 } },
    { "Sinh", 22, { 0 }, { 0 }, 1, { 0.5 }, { 0.52109530549374738 } },
    { "Cosh", 22, { 0 }, { 0 }, 1, { 0.5 }, { 1.1276259652063807 } },
    { "Asinh", 22, { 0 }, { 0 }, 1, { 0.5 }, { 0.48121182505960347 } },
    { "Acosh", 22, { 0 }, { 0 }, 1, { 1.5 }, { 0.96242365011920694 } },
    { "Atanh", 22, { 0 }, { 0 }, 1, { 0.5 }, { 0.54930614433405489 } },
    { "Celu", 28, { "alpha" }, { 2 }, 2, { -2, 1 },
      { -1.2642411176571153, 1 } },
};

static void store(qn_dtype t, double v, void *at)
{
    float f = (float)v;
    uint16_t h = t == QN_F16 ? qn_f64_to_f16(v) : qn_f64_to_bf16(v);
    if (t == QN_F64)
        memcpy(at, &v, 8);
    else if (t == QN_F32)
        memcpy(at, &f, 4);
    else
        memcpy(at, &h, 2);
}

static double load(qn_dtype t, const void *at)
{
    double d;
    float f;
    uint16_t h;
    if (t == QN_F64)
        return memcpy(&d, at, 8), d;
    if (t == QN_F32)
        return memcpy(&f, at, 4), (double)f;
    memcpy(&h, at, 2);
    return (double)(t == QN_F16 ? qn_f16_to_f32(h) : qn_bf16_to_f32(h));
}

static void run_float(size_t r, qn_dtype t, double tolerance)
{
    unsigned char x[MAX * 8];
    size_t size = qn_dtype_size(t);
    test_node n = { 0 };
    test_node_init(&n, floats[r].op, floats[r].opset, 1, 1);
    for (int i = 0; i < 2; i++)
        if (floats[r].attr[i])
            test_node_float(&n, floats[r].attr[i], floats[r].value[i]);
    for (int i = 0; i < floats[r].n; i++)
        store(t, floats[r].x[i], x + (size_t)i * size);
    test_node_input(&n, 0, t, 1, (int64_t[]){ floats[r].n }, x);
    if (test_node_run(&n) != QN_OK)
        fail_msg("%s of %s: %s", floats[r].op, qn_dtype_name(t), n.err.text);
    for (int i = 0; i < floats[r].n; i++) {
        const char *y = n.out[0].data;
        double got = load(t, y + (size_t)i * size), want = floats[r].want[i];
        if (!(fabs(got - want) <= tolerance * fmax(fabs(want), 0.1)))
            fail_msg("row %zu, %s of %s at %d: %.17g, expected %.17g", r,
                     floats[r].op, qn_dtype_name(t), i, got, want);
    }
    test_node_release(&n);
}

static void test_floats(void **state)
{
    (void)state;
    for (size_t r = 0; r < sizeof floats / sizeof floats[0]; r++) {
        run_float(r, QN_F32, 0x1p-22);
        run_float(r, QN_F64, 1e-7); /* attributes are binary32 */
        run_float(r, QN_F16, 0x1p-10);
        run_float(r, QN_BF16, 0x1p-7);
    }
}

#define INTS(...) (const int64_t[]){ __VA_ARGS__ }
static const struct {
    const char *op;
    int opset;
    qn_dtype dtype;
    int n;
    const int64_t *x, *want;
} ints[] = {
    { "Relu", 14, QN_I8, 3, INTS(-128, 0, 127), INTS(0, 0, 127) },
    { "Relu", 14, QN_I64, 2, INTS(INT64_MIN, 5), INTS(0, 5) },
    { "Neg", 13, QN_I8, 3, INTS(-128, 1, 127), INTS(-128, -1, -127) },
    { "Neg", 13, QN_I64, 2, INTS(INT64_MIN, 1), INTS(INT64_MIN, -1) },
    { "Abs", 13, QN_I32, 2, INTS(INT32_MIN, -7), INTS(INT32_MIN, 7) },
    { "Abs", 13, QN_U8, 2, INTS(255, 0), INTS(255, 0) },
    { "Sign", 13, QN_I16, 3, INTS(-9, 0, 9), INTS(-1, 0, 1) },
    { "Sign", 13, QN_U64, 2, INTS(0, -1), INTS(0, 1) },
    { "Shrink", 9, QN_I32, 3, INTS(-5, 0, 5), INTS(-5, 0, 5) },
    { "Erf", 9, QN_I32, 3, INTS(-9, 0, 1), INTS(-1, 0, 0) },
    { "BitwiseNot", 18, QN_U16, 2, INTS(0, 0xff00), INTS(0xffff, 0xff) },
    { "Not", 1, QN_BOOL, 2, INTS(0, 1), INTS(1, 0) },
};

static void test_ints(void **state)
{
    (void)state;
    for (size_t r = 0; r < sizeof ints / sizeof ints[0]; r++) {
        /* little-endian: the low bytes of each number */
        unsigned char x[MAX * 8], want[MAX * 8];
        size_t size = qn_dtype_size(ints[r].dtype);
        for (int i = 0; i < ints[r].n; i++) {
            memcpy(x + (size_t)i * size, &ints[r].x[i], size);
            memcpy(want + (size_t)i * size, &ints[r].want[i], size);
        }
        test_node n = { 0 };
        int64_t dims[] = { ints[r].n };
        test_node_init(&n, ints[r].op, ints[r].opset, 1, 1);
        test_node_input(&n, 0, ints[r].dtype, 1, dims, x);
        if (test_node_run(&n) != QN_OK)
            fail_msg("row %zu, %s: %s", r, ints[r].op, n.err.text);
        test_node_expect(&n, 0, ints[r].dtype, 1, dims, want);
        test_node_release(&n);
    }
}

static void test_opset_defaults(void **state)
{
    (void)state;
    const float x = -1.0f;
    test_node n = { 0 };
    test_node_init(&n, "Selu", 1, 1, 1);
    test_node_input(&n, 0, QN_F32, 0, NULL, &x);
    assert_int_equal(test_node_run(&n), QN_OK);
    test_node_expect_f32(&n, 0, 0, NULL, &(float){ -1.11128771f }, 1e-6, 0);
    test_node_release(&n);

    const char *how[] = { "none", "tanh" };
    const float want[] = { -0.158655256f, -0.158808008f };
    for (int i = 0; i < 2; i++) {
        n = (test_node){ 0 };
        test_node_init(&n, "Gelu", 20, 1, 1);
        test_node_string(&n, "approximate", how[i]);
        test_node_input(&n, 0, QN_F32, 0, NULL, &x);
        assert_int_equal(test_node_run(&n), QN_OK);
        test_node_expect_f32(&n, 0, 0, NULL, &want[i], 1e-6, 0);
        test_node_release(&n);
    }
}

/* ---- Clip ---- */

static void test_clip_attributes(void **state)
{
    (void)state;
    static const struct {
        int opset;
        bool low, high;
        float want[4];
    } rows[] = {
        { 1, false, false, { -INFINITY, -5, 5, INFINITY } },
        { 6, false, false, { -FLT_MAX, -5, 5, FLT_MAX } },
        { 6, true, false, { -1, -1, 5, FLT_MAX } },
        { 10, true, true, { -1, -1, 2, 2 } },
    };
    const float x[] = { -INFINITY, -5, 5, INFINITY };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        test_node n = { 0 };
        test_node_init(&n, "Clip", rows[r].opset, 1, 1);
        if (rows[r].low)
            test_node_float(&n, "min", -1);
        if (rows[r].high)
            test_node_float(&n, "max", 2);
        test_node_input(&n, 0, QN_F32, 1, (int64_t[]){ 4 }, x);
        if (test_node_run(&n) != QN_OK)
            fail_msg("row %zu: %s", r, n.err.text);
        test_node_expect(&n, 0, QN_F32, 1, (int64_t[]){ 4 }, rows[r].want);
        test_node_release(&n);
    }
}

static void test_clip_inputs(void **state)
{
    (void)state;
    const float x[] = { -5, NAN, 9 }, low = 0, high = 6, crossed = -1;
    static const struct {
        bool has_low, has_high, cross;
        float want[3];
    } rows[] = {
        { false, false, false, { -5, NAN, 9 } },
        { true, false, false, { 0, NAN, 9 } },
        { false, true, false, { -5, NAN, 6 } },
        { true, true, false, { 0, NAN, 6 } },
        { true, true, true, { -1, NAN, -1 } }, /* max below min: max wins */
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        test_node n = { 0 };
        test_node_init(&n, "Clip", 13, 3, 1);
        test_node_input(&n, 0, QN_F32, 1, (int64_t[]){ 3 }, x);
        if (rows[r].has_low)
            test_node_input(&n, 1, QN_F32, 0, NULL, &low);
        if (rows[r].has_high)
            test_node_input(&n, 2, QN_F32, 0, NULL,
                            rows[r].cross ? &crossed : &high);
        if (test_node_run(&n) != QN_OK)
            fail_msg("row %zu: %s", r, n.err.text);
        test_node_expect_f32(&n, 0, 1, (int64_t[]){ 3 }, rows[r].want, 0, 0);
        test_node_release(&n);
    }
}

static void test_clip_integers(void **state)
{
    (void)state;
    const int8_t x[] = { -128, -3, 100, 127 }, low = -2;
    const int8_t want[] = { -2, -2, 100, 127 };
    test_node n = { 0 };
    test_node_init(&n, "Clip", 12, 2, 1);
    test_node_input(&n, 0, QN_I8, 1, (int64_t[]){ 4 }, x);
    test_node_input(&n, 1, QN_I8, 0, NULL, &low);
    assert_int_equal(test_node_run(&n), QN_OK);
    test_node_expect(&n, 0, QN_I8, 1, (int64_t[]){ 4 }, want);
    test_node_release(&n);

    const uint64_t u[] = { UINT64_MAX, 7, 0 }, high = UINT64_MAX - 1;
    const uint64_t wide[] = { UINT64_MAX - 1, 7, 0 };
    n = (test_node){ 0 };
    test_node_init(&n, "Clip", 12, 3, 1);
    test_node_input(&n, 0, QN_U64, 1, (int64_t[]){ 3 }, u);
    test_node_input(&n, 2, QN_U64, 0, NULL, &high);
    assert_int_equal(test_node_run(&n), QN_OK);
    test_node_expect(&n, 0, QN_U64, 1, (int64_t[]){ 3 }, wide);
    test_node_release(&n);
}

/* ---- predicates, errors ---- */

static void test_predicates(void **state)
{
    (void)state;
    const float x[] = { NAN, INFINITY, -INFINITY, 1 };
    static const struct {
        const char *op, *off;
        uint8_t want[4];
    } rows[] = {
        { "IsNaN", NULL, { 1, 0, 0, 0 } },
        { "IsInf", NULL, { 0, 1, 1, 0 } },
        { "IsInf", "detect_negative", { 0, 1, 0, 0 } },
        { "IsInf", "detect_positive", { 0, 0, 1, 0 } },
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        test_node n = { 0 };
        test_node_init(&n, rows[r].op, 13, 1, 1);
        if (rows[r].off)
            test_node_int(&n, rows[r].off, 0);
        test_node_input(&n, 0, QN_F32, 1, (int64_t[]){ 4 }, x);
        if (test_node_run(&n) != QN_OK)
            fail_msg("row %zu: %s", r, n.err.text);
        test_node_expect(&n, 0, QN_BOOL, 1, (int64_t[]){ 4 }, rows[r].want);
        test_node_release(&n);
    }
    /* 0x7f is NaN in float8e4m3fn; 0x7c is infinity in float8e5m2 */
    test_node n = { 0 };
    test_node_init(&n, "IsNaN", 20, 1, 1);
    test_node_input(&n, 0, QN_F8E4M3FN, 1, (int64_t[]){ 2 },
                    (uint8_t[]){ 0x7f, 0x7e });
    assert_int_equal(test_node_run(&n), QN_OK);
    test_node_expect(&n, 0, QN_BOOL, 1, (int64_t[]){ 2 }, (uint8_t[]){ 1, 0 });
    test_node_release(&n);
    n = (test_node){ 0 };
    test_node_init(&n, "IsInf", 20, 1, 1);
    test_node_input(&n, 0, QN_F8E5M2, 1, (int64_t[]){ 2 },
                    (uint8_t[]){ 0x7c, 0x7d });
    assert_int_equal(test_node_run(&n), QN_OK);
    test_node_expect(&n, 0, QN_BOOL, 1, (int64_t[]){ 2 }, (uint8_t[]){ 1, 0 });
    test_node_release(&n);
}

static void test_rejects(void **state)
{
    (void)state;
    const float x[] = { 1, 2 };
    test_node n = { 0 };
    test_node_init(&n, "Clip", 13, 2, 1);
    test_node_input(&n, 0, QN_F32, 1, (int64_t[]){ 2 }, x);
    test_node_input(&n, 1, QN_F32, 1, (int64_t[]){ 2 }, x);
    assert_int_equal(test_node_run(&n), QN_SHAPE);
    assert_non_null(strstr(n.err.text, "min has shape [2]"));
    test_node_release(&n);

    n = (test_node){ 0 };
    test_node_init(&n, "Gelu", 20, 1, 1);
    test_node_string(&n, "approximate", "fast");
    test_node_input(&n, 0, QN_F32, 1, (int64_t[]){ 2 }, x);
    assert_int_equal(test_node_run(&n), QN_INVALID);
    assert_non_null(strstr(n.err.text, "\"fast\""));
    test_node_release(&n);

    n = (test_node){ 0 };
    test_node_init(&n, "Celu", 12, 1, 1);
    test_node_float(&n, "alpha", 0);
    test_node_input(&n, 0, QN_F32, 1, (int64_t[]){ 2 }, x);
    assert_int_equal(test_node_run(&n), QN_INVALID);
    test_node_release(&n);
}

/* Longer than a stretch, so that 16-bit floats cross one; and none at all. */
static void test_lengths(void **state)
{
    (void)state;
    enum { N = 2500 };
    static uint16_t x[N], want[N];
    for (int i = 0; i < N; i++) {
        x[i] = qn_f32_to_f16((float)(i - 1200));
        want[i] = i < 1200 ? 0 : x[i];
    }
    test_node n = { 0 };
    test_node_init(&n, "Relu", 14, 1, 1);
    test_node_input(&n, 0, QN_F16, 2, (int64_t[]){ 50, 50 }, x);
    assert_int_equal(test_node_run(&n), QN_OK);
    test_node_expect(&n, 0, QN_F16, 2, (int64_t[]){ 50, 50 }, want);
    test_node_release(&n);

    n = (test_node){ 0 };
    test_node_init(&n, "Exp", 13, 1, 1);
    test_node_input(&n, 0, QN_F32, 2, (int64_t[]){ 0, 3 }, x);
    assert_int_equal(test_node_run(&n), QN_OK);
    test_node_expect(&n, 0, QN_F32, 2, (int64_t[]){ 0, 3 }, want);
    test_node_release(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_ints),
        cmocka_unit_test(test_opset_defaults),
        cmocka_unit_test(test_clip_attributes),
        cmocka_unit_test(test_clip_inputs),
        cmocka_unit_test(test_clip_integers),
        cmocka_unit_test(test_predicates),
        cmocka_unit_test(test_rejects),
        cmocka_unit_test(test_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

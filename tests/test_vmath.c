/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector loops of binary32 on every instruction set that this machine has:
 * error against the C library in binary64, special values, and results that do
 * not depend on where in a vector an element lies.
 */
#include "runtime/base/half.h"
#include "runtime/cpu/vector.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double softplus(double x)
{
    return x > 700 ? x : log1p(exp(x));
}

static double gelu(double x)
{
    return 0.5 * x * erfc(-x * sqrt(0.5));
}

static double mish(double x)
{
    return x * tanh(softplus(x));
}

static double swish(double x)
{
    return x / (1 + exp(-x));
}

static double elu(double x)
{
    return x < 0 ? expm1(x) : x;
}

/* worst error over all inputs, in units of the last place of the result, plus
 * an absolute part where the formula cancels */
static const struct {
    const char *name;
    int op;
    double (*exact)(double);
    float from, to;
    double ulp, absolute;
} functions[] = {
    { "exp", QN_VEC_exp, exp, -INFINITY, INFINITY, 1.0, 0 },
    { "log", QN_VEC_log, log, 0, INFINITY, 0.8, 0 },
    { "tanh", QN_VEC_tanh, tanh, -INFINITY, INFINITY, 2.3, 0 },
    { "sigmoid", QN_VEC_sigmoid, sigmoid, -87, INFINITY, 2.3, 0 },
    { "erf", QN_VEC_erf, erf, -INFINITY, INFINITY, 1.5, 0 },
    { "elu", QN_VEC_elu, elu, -INFINITY, INFINITY, 1.7, 0 },
    { "softplus", QN_VEC_softplus, softplus, -87, INFINITY, 2.5, 0 },
    { "swish", QN_VEC_swish, swish, -80, INFINITY, 3.0, 0 },
    { "mish", QN_VEC_mish, mish, -80, INFINITY, 4.5, 0 },
    { "gelu", QN_VEC_gelu, gelu, -INFINITY, INFINITY, 2.5, 3e-7 },
    { "sqrt", QN_VEC_sqrt, sqrt, 0, INFINITY, 0.5, 0 },
    { "floor", QN_VEC_floor, floor, -INFINITY, INFINITY, 0, 0 },
    { "ceil", QN_VEC_ceil, ceil, -INFINITY, INFINITY, 0, 0 },
    { "round", QN_VEC_round, rint, -INFINITY, INFINITY, 0, 0 },
};

static double error_in_ulp(float got, double want)
{
    if (isnan(want))
        return isnan(got) ? 0 : INFINITY;
    if (isinf(got) && fabs(want) >= 0x1.ffffffp127)
        return 0;
    double size = fabs(want) < 0x1p-126 ? 0x1p-126 : fabs(want);
    return got == want ? 0 : fabs(got - want) / ldexp(1, ilogb(size) - 23);
}

static const qn_vec_unary_table *table_of(int isa)
{
    return isa > (int)qn_isa_best() ? NULL : QN_ISA_PICK(qn_vec_unary, isa);
}

enum { CHUNK = 1024, STEP = 10007 };

static void check_function(size_t f, int isa)
{
    float x[CHUNK], y[CHUNK];
    uint64_t bits = 0;
    while (bits >> 32 == 0) {
        int64_t n = 0;
        for (; n < CHUNK && bits >> 32 == 0; bits += STEP) {
            x[n] = qn_bits_f32((uint32_t)bits);
            n += x[n] >= functions[f].from && x[n] <= functions[f].to;
        }
        table_of(isa)->fn[functions[f].op](x, y, n, 1, 1);
        for (int64_t i = 0; i < n; i++) {
            double want = functions[f].exact((double)x[i]);
            double slack = functions[f].absolute * (1 + fabs(want));
            double e = error_in_ulp(y[i], want);
            if (!(e <= functions[f].ulp) && !(fabs(y[i] - want) <= slack))
                fail_msg("%s(%a), level %d: %a, expected %a (%.2f ulp)",
                         functions[f].name, (double)x[i], isa, (double)y[i],
                         want, e);
        }
    }
}

static void test_error(void **state)
{
    (void)state;
    for (int isa = QN_ISA_BASE; isa <= QN_ISA_AVX512; isa++)
        for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
            if (table_of(isa))
                check_function(f, isa);
}

static const struct {
    const char *name;
    int op;
    float a, b;
    /* results for 0, -0, inf, -inf, NaN */
    float want[5];
} special[] = {
    { "relu", QN_VEC_relu, 0, 0, { 0, -0.0f, INFINITY, 0, NAN } },
    { "sigmoid", QN_VEC_sigmoid, 0, 0, { 0.5f, 0.5f, 1, 0, NAN } },
    { "tanh", QN_VEC_tanh, 0, 0, { 0, -0.0f, 1, -1, NAN } },
    { "exp", QN_VEC_exp, 0, 0, { 1, 1, INFINITY, 0, NAN } },
    { "log", QN_VEC_log, 0, 0,
      { -INFINITY, -INFINITY, INFINITY, NAN, NAN } },
    { "erf", QN_VEC_erf, 0, 0, { 0, -0.0f, 1, -1, NAN } },
    { "elu", QN_VEC_elu, 2, 0, { 0, -0.0f, INFINITY, -2, NAN } },
    { "selu", QN_VEC_selu, 2, 3, { 0, -0.0f, INFINITY, -6, NAN } },
    { "celu", QN_VEC_celu, 2, 0, { 0, -0.0f, INFINITY, -2, NAN } },
    { "softplus", QN_VEC_softplus, 0, 0,
      { 0.693147182f, 0.693147182f, INFINITY, 0, NAN } },
    { "softsign", QN_VEC_softsign, 0, 0, { 0, -0.0f, NAN, NAN, NAN } },
    { "hard_sigmoid", QN_VEC_hard_sigmoid, 0.2f, 0.5f,
      { 0.5f, 0.5f, 1, 0, NAN } },
    { "hard_swish", QN_VEC_hard_swish, 0, 0,
      { 0, -0.0f, INFINITY, NAN, NAN } },
    { "leaky_relu", QN_VEC_leaky_relu, 0.5f, 0,
      { 0, -0.0f, INFINITY, -INFINITY, NAN } },
    { "clip", QN_VEC_clip, -1, 2, { 0, -0.0f, 2, -1, NAN } },
    { "clip, bounds crossed", QN_VEC_clip, 2, 1, { 1, 1, 1, 1, NAN } },
    { "shrink", QN_VEC_shrink, 0.5f, 1,
      { 0, 0, INFINITY, -INFINITY, 0 } },
    { "thresholded_relu", QN_VEC_thresholded_relu, 1, 0,
      { 0, 0, INFINITY, 0, 0 } },
    { "abs", QN_VEC_abs, 0, 0, { 0, 0, INFINITY, INFINITY, NAN } },
    { "neg", QN_VEC_neg, 0, 0, { -0.0f, 0, -INFINITY, INFINITY, NAN } },
    { "sign", QN_VEC_sign, 0, 0, { 0, -0.0f, 1, -1, NAN } },
    { "floor", QN_VEC_floor, 0, 0, { 0, -0.0f, INFINITY, -INFINITY, NAN } },
    { "ceil", QN_VEC_ceil, 0, 0, { 0, -0.0f, INFINITY, -INFINITY, NAN } },
    { "round", QN_VEC_round, 0, 0, { 0, -0.0f, INFINITY, -INFINITY, NAN } },
    { "sqrt", QN_VEC_sqrt, 0, 0, { 0, -0.0f, INFINITY, NAN, NAN } },
    { "reciprocal", QN_VEC_reciprocal, 0, 0,
      { INFINITY, -INFINITY, 0, -0.0f, NAN } },
    { "gelu", QN_VEC_gelu, 0, 0, { 0, -0.0f, INFINITY, NAN, NAN } },
    { "swish", QN_VEC_swish, 1, 0, { 0, -0.0f, INFINITY, NAN, NAN } },
};

static void test_special_values(void **state)
{
    (void)state;
    static const float in[5] = { 0, -0.0f, INFINITY, -INFINITY, NAN };
    for (int isa = QN_ISA_BASE; isa <= QN_ISA_AVX512; isa++) {
        for (size_t r = 0; r < sizeof special / sizeof *special; r++) {
            float x[64], y[64]; /* long enough for a vector's body */
            if (!table_of(isa))
                continue;
            for (int i = 0; i < 64; i++)
                x[i] = in[i % 5];
            table_of(isa)->fn[special[r].op](x, y, 64, special[r].a,
                                             special[r].b);
            for (int i = 0; i < 64; i++) {
                float w = special[r].want[i % 5];
                if (isnan(w) ? !isnan(y[i]) : memcmp(&y[i], &w, sizeof w))
                    fail_msg("%s(%g) at %d, level %d: %g, expected %g",
                             special[r].name, (double)x[i], i, isa,
                             (double)y[i], (double)w);
            }
        }
    }
}

/* One element at a time, or all at once and in place: the same bits. */
static void test_position(void **state)
{
    (void)state;
    enum { N = 203 };
    float x[N], alone[N], all[N];
    for (int i = 0; i < N; i++)
        x[i] = (float)(i - 90) * 0.37f;
    for (int isa = QN_ISA_BASE; isa <= QN_ISA_AVX512; isa++) {
        for (int op = 0; op < QN_VEC_UNARY_COUNT; op++) {
            if (!table_of(isa))
                continue;
            qn_vec_unary_fn fn = table_of(isa)->fn[op];
            for (int i = 0; i < N; i++)
                fn(&x[i], &alone[i], 1, 0.7f, 1.3f);
            memcpy(all, x, sizeof x);
            fn(all, all, N, 0.7f, 1.3f);
            for (int i = 0; i < N; i++)
                if (memcmp(&alone[i], &all[i], 4) &&
                    !(isnan(alone[i]) && isnan(all[i])))
                    fail_msg("loop %d, level %d, index %d: %a alone, %a in a "
                             "row",
                             op, isa, i, (double)alone[i], (double)all[i]);
        }
    }
}

/* All 65,536 of each, against the scalar rules. */
static void test_half(void **state)
{
    (void)state;
    static uint16_t h[65536], back[65536];
    static float f[65536];
    for (int i = 0; i < 65536; i++)
        h[i] = (uint16_t)i;
    for (int isa = QN_ISA_BASE; isa <= (int)qn_isa_best(); isa++) {
        const qn_vec_half_table *t = QN_ISA_PICK(qn_vec_half, isa);
        t->f16_to_f32(h, f, 65536);
        t->f32_to_f16(f, back, 65536);
        for (int i = 0; i < 65536; i++)
            if (qn_f32_bits(f[i]) != qn_f32_bits(qn_f16_to_f32(h[i])) ||
                back[i] != qn_f32_to_f16(f[i]))
                fail_msg("float16 0x%04x, level %d: %a and back 0x%04x",
                         (unsigned)i, isa, (double)f[i], (unsigned)back[i]);
        t->bf16_to_f32(h, f, 65536);
        t->f32_to_bf16(f, back, 65536);
        for (int i = 0; i < 65536; i++)
            if (qn_f32_bits(f[i]) != (uint32_t)i << 16 ||
                back[i] != qn_f32_to_bf16(f[i]))
                fail_msg("bfloat16 0x%04x, level %d: %a and back 0x%04x",
                         (unsigned)i, isa, (double)f[i], (unsigned)back[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error),
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_position),
        cmocka_unit_test(test_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Unary functions by way of the C library: all of binary64, and of binary32
 * those that have no vector form here. */
#include "runtime/cpu/unary.h"

#include <math.h>

static double hard_sigmoid_f64(double x, double a, double b)
{
    double t = a * x + b;
    t = t < 0 ? 0 : t;
    return t > 1 ? 1 : t;
}

static double sigmoid_f64(double x)
{
    double e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

static double elu_f64(double x, double a)
{
    return x < 0 ? a * expm1(x) : x;
}

static double softplus_f64(double x)
{
    return (x < 0 ? 0 : x) + log1p(exp(-fabs(x)));
}

static double clip_f64(double x, double low, double high)
{
    double t = x < low ? low : x;
    return t > high ? high : t;
}

static double shrink_f64(double x, double lambda, double bias)
{
    return x < -lambda ? x + bias : x > lambda ? x - bias : 0;
}

static double gelu_tanh_f64(double x)
{
    double t = 0x1.9884533d43651p-1 * (x + 0.044715 * x * x * x);
    return 0.5 * x * (1 + tanh(t)); /* the constant is sqrt(2/pi) */
}

#define LOOP(name, expr)                                                       \
    static void name##_loop(const double *x, double *y, int64_t n, double a,   \
                            double b)                                          \
    {                                                                          \
        (void)a, (void)b;                                                      \
        QN_INDEPENDENT                                                         \
        for (int64_t i = 0; i < n; i++) {                                      \
            double v = x[i];                                                   \
            y[i] = (expr);                                                     \
        }                                                                      \
    }

LOOP(relu, v < 0 ? 0 : v)
LOOP(sigmoid, sigmoid_f64(v))
LOOP(tanh, tanh(v))
LOOP(hard_sigmoid, hard_sigmoid_f64(v, a, b))
LOOP(hard_swish, v * hard_sigmoid_f64(v, 1.0 / 6, 0.5))
LOOP(leaky_relu, v < 0 ? a * v : v)
LOOP(elu, elu_f64(v, a))
LOOP(selu, b * elu_f64(v, a))
LOOP(celu, v < 0 ? a * expm1(v / a) : v)
LOOP(mish, v * tanh(softplus_f64(v)))
LOOP(gelu, 0.5 * v * (1 + erf(v * 0x1.6a09e667f3bcdp-1)))
LOOP(gelu_tanh, gelu_tanh_f64(v))
LOOP(swish, v * sigmoid_f64(a * v))
LOOP(softplus, softplus_f64(v))
LOOP(softsign, v / (1 + fabs(v)))
LOOP(thresholded_relu, v > a ? v : 0)
LOOP(shrink, shrink_f64(v, a, b))
LOOP(clip, clip_f64(v, a, b))
LOOP(abs, fabs(v))
LOOP(neg, -v)
LOOP(sign, v > 0 ? 1 : v < 0 ? -1 : v)
LOOP(floor, floor(v))
LOOP(ceil, ceil(v))
LOOP(round, rint(v))
LOOP(sqrt, sqrt(v))
LOOP(reciprocal, 1 / v)
LOOP(exp, exp(v))
LOOP(log, log(v))
LOOP(erf, erf(v))

#define LIBM(name)                                                             \
    LOOP(name, name(v))                                                        \
    static void name##_loop_f32(const float *x, float *y, int64_t n, float a,  \
                                float b)                                       \
    {                                                                          \
        (void)a, (void)b;                                                      \
        for (int64_t i = 0; i < n; i++)                                        \
            y[i] = name##f(x[i]);                                              \
    }
QN_LIBM_LIST(LIBM)

const qn_unary_f64_fn qn_unary_f64[QN_UNARY_COUNT] = {
#define ENTRY(name) [QN_VEC_##name] = name##_loop,
    QN_VEC_UNARY_LIST(ENTRY)
#undef ENTRY
#define ENTRY(name) [QN_LIBM_##name] = name##_loop,
        QN_LIBM_LIST(ENTRY)
#undef ENTRY
};

const qn_vec_unary_fn qn_unary_libm_f32[QN_UNARY_COUNT] = {
#define ENTRY(name) [QN_LIBM_##name] = name##_loop_f32,
    QN_LIBM_LIST(ENTRY)
#undef ENTRY
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of one float and of two (runtime/ops/pointwise.h) on N elements in
 * registers: what the unary, binary and chain kernels compute with, so that all
 * give the same bits. Formulas are those of runtime/cpu/simd/unary.c and
 * unary_double.c, with the device's own elementary functions (2 units in the
 * last place). Products and sums go through mul() and add(): the compiler would
 * fuse them in one kernel and not in another.
 */
#ifndef QN_CUDA_KERNELS_POINTWISE_H
#define QN_CUDA_KERNELS_POINTWISE_H

#include "runtime/cuda/kernels/device.h"
#include "runtime/ops/pointwise.h"

#include <math.h>

#ifdef __CUDA_ARCH__
QN_DEVICE float mul(float a, float b) { return __fmul_rn(a, b); }
QN_DEVICE float add(float a, float b) { return __fadd_rn(a, b); }
QN_DEVICE double mul(double a, double b) { return __dmul_rn(a, b); }
QN_DEVICE double add(double a, double b) { return __dadd_rn(a, b); }
#else
QN_DEVICE float mul(float a, float b) { return a * b; }
QN_DEVICE float add(float a, float b) { return a + b; }
QN_DEVICE double mul(double a, double b) { return a * b; }
QN_DEVICE double add(double a, double b) { return a + b; }
#endif

/* One name for both precisions. */
#define QN_PAIR(name)                                                          \
    QN_DEVICE float m_##name(float x) { return name##f(x); }                   \
    QN_DEVICE double m_##name(double x) { return name(x); }
#define QN_PAIR2(name)                                                         \
    QN_DEVICE float m_##name(float x, float y) { return name##f(x, y); }       \
    QN_DEVICE double m_##name(double x, double y) { return name(x, y); }
QN_PAIR(exp)
QN_PAIR(expm1)
QN_PAIR(log)
QN_PAIR(log1p)
QN_PAIR(tanh)
QN_PAIR(erf)
QN_PAIR(sqrt)
QN_PAIR(floor)
QN_PAIR(ceil)
QN_PAIR(rint)
QN_PAIR(fabs)
QN_PAIR(sin)
QN_PAIR(cos)
QN_PAIR(tan)
QN_PAIR(asin)
QN_PAIR(acos)
QN_PAIR(atan)
QN_PAIR(sinh)
QN_PAIR(cosh)
QN_PAIR(asinh)
QN_PAIR(acosh)
QN_PAIR(atanh)
QN_PAIR2(fmod)
QN_PAIR2(pow)
#undef QN_PAIR
#undef QN_PAIR2

template <class F> QN_DEVICE F pw_hard_sigmoid(F x, F a, F b)
{
    F t = add(mul(a, x), b);
    t = t < 0 ? F(0) : t;
    return t > 1 ? F(1) : t;
}

template <class F> QN_DEVICE F pw_sigmoid(F x)
{
    F e = m_exp(-m_fabs(x));
    return (x < 0 ? e : F(1)) / add(F(1), e);
}

template <class F> QN_DEVICE F pw_elu(F x, F a)
{
    return x < 0 ? mul(a, m_expm1(x)) : x;
}

/* log(1 + exp(x)) without overflow; keeps NaN */
template <class F> QN_DEVICE F pw_softplus(F x)
{
    return add(x < 0 ? F(0) : x, m_log1p(m_exp(-m_fabs(x))));
}

/* x tanh(softplus(x)) = x w / (w + 2) with w = e^x (e^x + 2) */
template <class F> QN_DEVICE F pw_mish(F x)
{
    F e = m_exp(x > 20 ? F(20) : x); /* from there on it is x */
    F w = mul(e, add(e, F(2)));
    return mul(x, w / add(w, F(2)));
}

template <class F> QN_DEVICE F pw_gelu(F x)
{
    F t = m_erf(mul(x, F(0.70710678118654752440))); /* sqrt(1/2) */
    return mul(mul(F(0.5), x), add(F(1), t));
}

template <class F> QN_DEVICE F pw_gelu_tanh(F x)
{
    F cube = mul(mul(mul(F(0.044715), x), x), x);
    F t = mul(F(0.79788456080286535588), add(x, cube)); /* sqrt(2/pi) */
    return mul(mul(F(0.5), x), add(F(1), m_tanh(t)));
}

template <class F> QN_DEVICE F pw_clip(F x, F low, F high)
{
    F t = x < low ? low : x;
    return t > high ? high : t;
}

template <class F> QN_DEVICE F pw_shrink(F x, F lambda, F bias)
{
    F low = x < -lambda ? add(x, bias) : F(0);
    return x > lambda ? add(x, -bias) : low;
}

/* pow(x, 1/2) is sqrt but at -0 and -infinity. */
template <class F> QN_DEVICE F pw_root(F x)
{
    return x == F(-INFINITY) ? F(INFINITY) : m_sqrt(add(x, F(0)));
}

/* Exponents of norms and variances need no call. */
template <class F> QN_DEVICE F pw_pow(F p, F q)
{
    if (q == F(2))
        return mul(p, p);
    if (q == F(3))
        return mul(mul(p, p), p);
    if (q == F(0.5))
        return pw_root(p);
    if (q == F(-0.5))
        return F(1) / pw_root(p);
    if (q == F(1))
        return p;
    if (q == F(-1))
        return F(1) / p;
    return m_pow(p, q);
}

/* ---- on N elements; `op` is the same in all threads of a block ---- */

#define QN_EACH(f, expr)                                                       \
    case QN_PW_##f:                                                            \
        QN_UNROLL                                                              \
        for (int i = 0; i < N; i++) {                                          \
            F v = x[i];                                                        \
            x[i] = (expr);                                                     \
        }                                                                      \
        break;

/* x[i] = f(x[i]) for what nets use between layers. */
template <class F, int N>
QN_DEVICE void pw_common(int op, F (&x)[N], F a, F b)
{
    switch (op) {
        QN_EACH(relu, v < 0 ? F(0) : v)
        QN_EACH(sigmoid, pw_sigmoid(v))
        QN_EACH(tanh, m_tanh(v))
        QN_EACH(hard_sigmoid, pw_hard_sigmoid(v, a, b))
        QN_EACH(hard_swish, mul(v, pw_hard_sigmoid(v, F(1.0 / 6), F(0.5))))
        QN_EACH(leaky_relu, v < 0 ? mul(a, v) : v)
        QN_EACH(elu, pw_elu(v, a))
        QN_EACH(selu, mul(b, pw_elu(v, a)))
        QN_EACH(celu, v < 0 ? mul(a, m_expm1(v / a)) : v)
        QN_EACH(mish, pw_mish(v))
        QN_EACH(gelu, pw_gelu(v))
        QN_EACH(gelu_tanh, pw_gelu_tanh(v))
        QN_EACH(swish, mul(v, pw_sigmoid(mul(a, v))))
        QN_EACH(softplus, pw_softplus(v))
        QN_EACH(softsign, v / add(F(1), m_fabs(v)))
        QN_EACH(thresholded_relu, v > a ? v : F(0))
        QN_EACH(shrink, pw_shrink(v, a, b))
        QN_EACH(clip, pw_clip(v, a, b))
        QN_EACH(abs, m_fabs(v))
        QN_EACH(neg, -v)
        QN_EACH(sign, v > 0 ? F(1) : v < 0 ? F(-1) : v)
        QN_EACH(floor, m_floor(v))
        QN_EACH(ceil, m_ceil(v))
        QN_EACH(round, m_rint(v))
        QN_EACH(sqrt, m_sqrt(v))
        QN_EACH(reciprocal, F(1) / v)
        QN_EACH(exp, m_exp(v))
        QN_EACH(log, m_log(v))
        QN_EACH(erf, m_erf(v))
    }
}

/* The others: rare, long, and with a stack frame for large arguments, so that
 * kernels for them are apart. */
template <class F, int N> QN_DEVICE void pw_rare(int op, F (&x)[N])
{
    switch (op) {
        QN_EACH(sin, m_sin(v))
        QN_EACH(cos, m_cos(v))
        QN_EACH(tan, m_tan(v))
        QN_EACH(asin, m_asin(v))
        QN_EACH(acos, m_acos(v))
        QN_EACH(atan, m_atan(v))
        QN_EACH(sinh, m_sinh(v))
        QN_EACH(cosh, m_cosh(v))
        QN_EACH(asinh, m_asinh(v))
        QN_EACH(acosh, m_acosh(v))
        QN_EACH(atanh, m_atanh(v))
    }
}
#undef QN_EACH

#define QN_EACH(f, expr)                                                       \
    case QN_PW_##f:                                                            \
        QN_UNROLL                                                              \
        for (int i = 0; i < N; i++) {                                          \
            F p = x[i], q = y[i];                                              \
            x[i] = (expr);                                                     \
        }                                                                      \
        break;

/* x[i] = f(x[i], y[i]) */
template <class F, int N>
QN_DEVICE void pw_two(int op, F (&x)[N], const F (&y)[N])
{
    switch (op) {
        QN_EACH(add, add(p, q))
        QN_EACH(sub, add(p, -q))
        QN_EACH(mul, mul(p, q))
        QN_EACH(div, p / q)
        /* NaN in either wins: a comparison with one in q fails */
        QN_EACH(max, p > q || p != p ? p : q)
        QN_EACH(min, p < q || p != p ? p : q)
        QN_EACH(prelu, p < 0 ? mul(p, q) : p)
    }
}

template <class F, int N>
QN_DEVICE void pw_two_rare(int op, F (&x)[N], const F (&y)[N])
{
    switch (op) {
        QN_EACH(fmod, m_fmod(p, q))
        QN_EACH(pow, pw_pow(p, q))
    }
}
#undef QN_EACH

#endif

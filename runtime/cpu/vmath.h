/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elementary functions of binary32 that a compiler can vectorise: no branch,
 * no table, no call. For loops in runtime/cpu/simd/ (anywhere else they work,
 * with the vectors that the base architecture has).
 *
 * Errors against exact values, in units of the last place, largest of a sweep
 * through all inputs, with and without FMA (tests/test_vmath.c):
 *
 *     exp 1.0   expm1 1.7   tanh 2.3   sigmoid 2.3   log 0.8   log1p 1.2
 *     erf 1.5
 *
 * Exact at zero (sign kept), at infinities, NaN stays NaN; results below the
 * normal range are right too, within one subnormal step, but for the sigmoid's
 * and qn_exp_low_f32()'s, which are 0 there.
 *
 * Polynomials: least squares on Chebyshev nodes, reweighted until the largest
 * relative error stopped falling (Lawson), for the interval named at each.
 */
#ifndef QN_CPU_VMATH_H
#define QN_CPU_VMATH_H

#include "runtime/base/half.h"

#include <stdint.h>

/* a * b + c, rounded once where the level has the instruction. */
#ifdef __FMA__
#define QN_FMA32(a, b, c) __builtin_fmaf((a), (b), (c))
#else
#define QN_FMA32(a, b, c) ((a) * (b) + (c))
#endif

static inline float qn_abs_f32(float x)
{
    return qn_bits_f32(qn_f32_bits(x) & 0x7fffffffu);
}

/* |x| with the sign bit of s */
static inline float qn_copysign_f32(float x, float s)
{
    return qn_bits_f32((qn_f32_bits(x) & 0x7fffffffu) |
                       (qn_f32_bits(s) & 0x80000000u));
}

/* Rounding to integers, as floats; ties to even. The sign of zero is kept. */
static inline float qn_rint_f32(float x)
{
#ifdef __SSE4_1__
    return __builtin_rintf(x);
#else
    /* from 2^23 on every float is an integer; below, adding 2^23 rounds */
    float t = qn_abs_f32(x), r = (t + 0x1p23f) - 0x1p23f;
    return t < 0x1p23f ? qn_copysign_f32(r, x) : x;
#endif
}

static inline float qn_floor_f32(float x)
{
#ifdef __SSE4_1__
    return __builtin_floorf(x);
#else
    float r = qn_rint_f32(x);
    return r > x ? r - 1.0f : r;
#endif
}

static inline float qn_ceil_f32(float x)
{
    return -qn_floor_f32(-x);
}

/* 2^k for k in [-126, 127] */
static inline float qn_pow2_f32(int32_t k)
{
    return qn_bits_f32((uint32_t)(k + 127) << 23);
}

/* The common part of exp and expm1: x = k ln 2 + r, |r| <= ln(2)/2; returns
 * exp(r) - 1. x must be in [-105, 90] or NaN (then k means nothing). */
static inline float qn_exp_parts_f32(float x, int32_t *k)
{
    /* Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits. */
    const float magic = 0x1.8p23f;
    float t = QN_FMA32(x, 0x1.715476p0f, magic);
    float n = t - magic;
    *k = (int32_t)(qn_f32_bits(t) - 0x4b400000u);
    /* ln 2 = 0x1.62e4p-1 (15 bits: n times it is exact) + a rest */
    float r = QN_FMA32(n, -0x1.62e4p-1f, x);
    r = QN_FMA32(n, -0x1.7f7d1cp-20f, r);
    /* (exp(r) - 1 - r) / r^2 on [-0.3475, 0.3475] */
    float p = 0x1.6db644p-10f;
    p = QN_FMA32(p, r, 0x1.123ce0p-7f);
    p = QN_FMA32(p, r, 0x1.55545cp-5f);
    p = QN_FMA32(p, r, 0x1.55548cp-3f);
    p = QN_FMA32(p, r, 0.5f);
    return QN_FMA32(r * r, p, r);
}

static inline float qn_exp_f32(float x)
{
    int32_t k;
    /* beyond these the result is 0 or infinity anyway; NaN passes through */
    x = x < -104.0f ? -104.0f : x;
    x = x > 89.0f ? 89.0f : x;
    float p = 1.0f + qn_exp_parts_f32(x, &k);
    /* k spans [-150, 128]: two factors, so that only the last one rounds */
    int32_t half = k >> 1;
    return p * qn_pow2_f32(half) * qn_pow2_f32(k - half);
}

/* exp(x) for x <= 0 (or NaN), a third cheaper: below -87, where the result is
 * under 1.7e-38, it is 0. For sums to which such a term adds nothing. */
static inline float qn_exp_low_f32(float x)
{
    int32_t k;
    float p = 1.0f + qn_exp_parts_f32(x < -87.0f ? -87.0f : x, &k);
    float r = p * qn_pow2_f32(k);
    return x < -87.0f ? 0.0f : r;
}

/* exp(x) - 1, accurate near 0 */
static inline float qn_expm1_f32(float x)
{
    int32_t k;
    float y = x < -20.0f ? -20.0f : x;
    y = y > 89.0f ? 89.0f : y;
    float p = qn_exp_parts_f32(y, &k);
    int32_t half = k >> 1;
    float a = qn_pow2_f32(half), b = qn_pow2_f32(k - half);
    /* a b (p + 1) - 1; up to k = 24 the sum below is the accurate form, beyond
     * it the 1 no longer counts */
    float s = k > 24 ? 1.0f : qn_pow2_f32(k);
    float small = QN_FMA32(s, p, s - 1.0f);
    float large = (p + 1.0f) * a * b;
    float r = k > 24 ? large : small;
    return x == 0.0f ? x : r; /* keeps -0 */
}

static inline float qn_tanh_f32(float x)
{
    int32_t k;
    float t = 2.0f * qn_abs_f32(x);
    t = t > 20.0f ? 20.0f : t; /* from 18.03 on tanh rounds to 1 */
    float p = qn_exp_parts_f32(t, &k), s = qn_pow2_f32(k);
    float m = QN_FMA32(s, p, s - 1.0f); /* expm1(2|x|) */
    return qn_copysign_f32(m / (m + 2.0f), x);
}

/* 1 / (1 + exp(-x)); for x < 0 as exp(x) / (1 + exp(x)), accurate down to
 * x = -87, and 0 below */
static inline float qn_sigmoid_f32(float x)
{
    float e = qn_exp_low_f32(-qn_abs_f32(x));
    float num = x < 0.0f ? e : 1.0f;
    return num / (1.0f + e);
}

static inline float qn_log_f32(float x)
{
    float big = x < 0x1p-126f ? x * 0x1p23f : x; /* subnormals */
    float bias = x < 0x1p-126f ? -23.0f : 0.0f;
    uint32_t u = qn_f32_bits(big);
    /* m in [sqrt(1/2), sqrt(2)), x = m 2^k */
    uint32_t above = u - 0x3f3504f3u;
    int32_t k = (int32_t)above >> 23;
    float m = qn_bits_f32((above & 0x007fffffu) + 0x3f3504f3u);
    float f = m - 1.0f, n = (float)k + bias;
    /* (log(1 + f) - f + f^2/2) / f^3 on [sqrt(1/2) - 1, sqrt(2) - 1] */
    float p = 0x1.1b4014p-4f;
    p = QN_FMA32(p, f, -0x1.e2e8aep-4f);
    p = QN_FMA32(p, f, 0x1.e65154p-4f);
    p = QN_FMA32(p, f, -0x1.fb4362p-4f);
    p = QN_FMA32(p, f, 0x1.2332b6p-3f);
    p = QN_FMA32(p, f, -0x1.5562e2p-3f);
    p = QN_FMA32(p, f, 0x1.99a546p-3f);
    p = QN_FMA32(p, f, -0x1.ffffeep-3f);
    p = QN_FMA32(p, f, 0x1.555546p-2f);
    float f2 = f * f;
    float r = QN_FMA32(f2 * f, p, n * 0x1.7f7d1cp-20f);
    r = QN_FMA32(f2, -0.5f, r) + f;
    r = QN_FMA32(n, 0x1.62e4p-1f, r);
    r = x == 0.0f ? -__builtin_inff() : r;
    r = x < 0.0f ? __builtin_nanf("") : r;
    r = x > 0x1.fffffep127f ? x : r;
    return x != x ? x : r;
}

/* log(1 + x) for x >= 0 (or NaN) */
static inline float qn_log1p_f32(float x)
{
    float u = 1.0f + x;
    float lost = x - (u - 1.0f); /* what rounding the sum dropped */
    float r = qn_log_f32(u) + lost / u;
    r = x < 0x1p-24f ? x : r;
    return x > 0x1p24f ? qn_log_f32(x) : r;
}

static inline float qn_erf_f32(float x)
{
    float t = qn_abs_f32(x), s = t * t;
    /* erf(t) / t in t^2 on [0, 0.9] */
    float p = 0x1.66250ep-14f;
    p = QN_FMA32(p, s, -0x1.acf7f6p-11f);
    p = QN_FMA32(p, s, 0x1.5513f2p-8f);
    p = QN_FMA32(p, s, -0x1.b8162ap-6f);
    p = QN_FMA32(p, s, 0x1.ce2e60p-4f);
    p = QN_FMA32(p, s, -0x1.812744p-2f);
    p = QN_FMA32(p, s, 0x1.06eba8p-3f); /* 2 / sqrt(pi) = 1 + this */
    float low = QN_FMA32(p, t, t);
    /* log(1 - erf(t)) on [0.9, 4], where erf rounds to 1 */
    float c = t > 4.0f ? 4.0f : t;
    float q = 0x1.9d8652p-13f;
    q = QN_FMA32(q, c, -0x1.9081dap-9f);
    q = QN_FMA32(q, c, 0x1.6cfd30p-6f);
    q = QN_FMA32(q, c, -0x1.aa233ap-4f);
    q = QN_FMA32(q, c, -0x1.462caep-1f);
    q = QN_FMA32(q, c, -0x1.20b434p0f);
    q = QN_FMA32(q, c, -0x1.7431bep-13f);
    /* q is in [-17, 0]: none of qn_exp_f32's care is needed */
    int32_t k;
    float e = 1.0f + qn_exp_parts_f32(q, &k);
    float high = 1.0f - e * qn_pow2_f32(k);
    /* a NaN fails the comparison and takes `high`, where it survived */
    return qn_copysign_f32(t < 0.9f ? low : high, x);
}

#endif

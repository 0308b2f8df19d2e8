/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 16-bit floats. Round to nearest, ties to even, in both formats; NaN stays
 * NaN (quiet), overflow goes to infinity. IEEE 754-2008 for binary16; bfloat16
 * is the upper half of binary32.
 */
#ifndef QN_BASE_HALF_H
#define QN_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t qn_f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float qn_bits_f32(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline float qn_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t exp = (h >> 10) & 31u, man = h & 0x3ffu;
    if (exp == 31)
        return qn_bits_f32(sign | 0x7f800000u | (man << 13) |
                           (man ? 0x400000u : 0));
    if (exp == 0) {
        /* a subnormal is man * 2^-24: exact in binary32 */
        float f = (float)man * 0x1p-24f;
        return qn_bits_f32(sign | qn_f32_bits(f));
    }
    return qn_bits_f32(sign | ((exp + 112) << 23) | (man << 13));
}

static inline uint16_t qn_f32_to_f16(float f)
{
    uint32_t u = qn_f32_bits(f), sign = (u >> 16) & 0x8000u;
    u &= 0x7fffffffu;
    if (u > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | ((u >> 13) & 0x3ffu));
    if (u >= 0x477ff000u) /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (u < 0x38800000u) { /* below 2^-14: subnormal, in units of 2^-24 */
        /* adding 0.5 leaves the rounded multiple of 2^-24 in the low bits */
        float g = qn_bits_f32(u) + 0.5f;
        return (uint16_t)(sign | (qn_f32_bits(g) - 0x3f000000u));
    }
    u += 0xfffu + ((u >> 13) & 1u);
    return (uint16_t)(sign | ((u - 0x38000000u) >> 13));
}

static inline float qn_bf16_to_f32(uint16_t h)
{
    return qn_bits_f32((uint32_t)h << 16);
}

static inline uint16_t qn_f32_to_bf16(float f)
{
    uint32_t u = qn_f32_bits(f);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((u >> 16) | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

/* binary64 straight to the 16-bit formats: rounding through binary32 would
 * round twice, so the intermediate is rounded to odd. */
static inline float qn_f64_to_f32_odd(double d)
{
    float f = (float)d;
    uint32_t u = qn_f32_bits(f);
    if ((double)f != d && d == d && (u & 0x7fffffffu) < 0x7f800000u) {
        int away = (f < 0 ? -(double)f : (double)f) > (d < 0 ? -d : d);
        if (away && (u & 1u) == 0)
            u -= 1; /* towards zero, which makes it odd */
        else if (!away)
            u |= 1u;
    }
    return qn_bits_f32(u);
}

static inline uint16_t qn_f64_to_f16(double d)
{
    return qn_f32_to_f16(qn_f64_to_f32_odd(d));
}

static inline uint16_t qn_f64_to_bf16(double d)
{
    return qn_f32_to_bf16(qn_f64_to_f32_odd(d));
}

#endif

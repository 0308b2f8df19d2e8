/* SPDX-License-Identifier: Apache-2.0 */
/* Narrow floating-point formats for the library stand-ins.
 *
 * Own code on purpose: the tests compare the CUDA backend with runtime/cpu,
 * so nothing here may come from there. Widening is exact; narrowing rounds to
 * nearest, ties to even, keeps NaN and turns overflow into infinity. */
#ifndef QN_TESTS_CUDA_EMU_LIBNUM_H
#define QN_TESTS_CUDA_EMU_LIBNUM_H

#include <stdint.h>
#include <string.h>

static inline uint32_t qn_num_bits(float v)
{
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static inline float qn_num_float(uint32_t u)
{
    float v;
    memcpy(&v, &u, sizeof v);
    return v;
}

/* IEEE 754 binary16 in the low 16 bits */
static inline float qn_num_from_half(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t exponent = (h >> 10) & 31u;
    uint32_t fraction = h & 0x3ffu;
    if (exponent == 31)
        return qn_num_float(sign | 0x7f800000u | fraction << 13);
    if (exponent == 0) { /* fraction * 2^-24, exact in float */
        float v = (float)fraction * 0x1p-24f;
        return sign ? -v : v;
    }
    return qn_num_float(sign | (exponent + 112) << 23 | fraction << 13);
}

static inline uint16_t qn_num_to_half(float v)
{
    uint32_t u = qn_num_bits(v);
    uint32_t sign = (u >> 16) & 0x8000u;
    u &= 0x7fffffffu;
    if (u > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u);
    if (u >= 0x477ff000u) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (u < 0x38800000u) {
        /* Subnormal: adding 0.5 leaves the value's multiple of 2^-24 in the
         * low bits of the fraction, rounded by the adder. */
        uint32_t small = qn_num_bits(qn_num_float(u) + 0.5f) - 0x3f000000u;
        return (uint16_t)(sign | small);
    }
    u += 0xfffu + ((u >> 13) & 1u);
    return (uint16_t)(sign | ((u >> 13) - (112u << 10)));
}

static inline float qn_num_from_bf16(uint16_t b)
{
    return qn_num_float((uint32_t)b << 16);
}

static inline uint16_t qn_num_to_bf16(float v)
{
    uint32_t u = qn_num_bits(v);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

/* What a tensor core sees of a float: 10 bits of fraction. */
static inline float qn_num_tf32(float v)
{
    uint32_t u = qn_num_bits(v);
    if ((u & 0x7f800000u) == 0x7f800000u)
        return v;
    return qn_num_float((u + 0xfffu + ((u >> 13) & 1u)) & ~0x1fffu);
}

#endif /* QN_TESTS_CUDA_EMU_LIBNUM_H */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Floats of 8 and 4 bits. Sign, exponent and mantissa bits, bias, and what the
 * codes past the largest number mean:
 *
 *     float8e4m3fn    1 4 3   7   0x7f, 0xff: NaN, no infinity
 *     float8e4m3fnuz  1 4 3   8   0x80: NaN, no infinity, no negative zero
 *     float8e5m2      1 5 2  15   as IEEE: 0x7c infinity, above it NaN
 *     float8e5m2fnuz  1 5 2  16   0x80: NaN, no infinity, no negative zero
 *     float4e2m1      1 2 1   1   numbers only
 *     float8e8m0      0 8 0 127   0xff: NaN; no sign, no zero
 *
 * Sources: FP8 Formats for Deep Learning (arXiv:2209.05433), 8-bit Numerical
 * Formats for Deep Neural Networks (arXiv:2206.02915), OCP Microscaling Formats
 * 1.0; conversion as in the tables of ONNX Cast.
 */
#include "runtime/cpu/convert.h"
#include "runtime/cpu/vmath.h"

#include <math.h>

typedef struct small {
    int mantissa, bias;
    unsigned sign; /* its bit */
    unsigned max;  /* code of the largest number */
    unsigned over; /* code past the range when not saturating */
    unsigned nan;  /* NaN, without a sign */
    bool uz;       /* unsigned zero: the code of -0 is the NaN */
} small;

static const small e4m3fn = { 3, 7, 0x80, 0x7e, 0x7f, 0x7f, false };
static const small e4m3fnuz = { 3, 8, 0x80, 0x7f, 0x80, 0x80, true };
static const small e5m2 = { 2, 15, 0x80, 0x7b, 0x7c, 0x7e, false };
static const small e5m2fnuz = { 2, 16, 0x80, 0x7f, 0x80, 0x80, true };
static const small e2m1 = { 1, 1, 0x8, 0x7, 0x7, 0x8, true };

static inline float decode(unsigned code, const small *t)
{
    unsigned body = code & (t->sign - 1), m = 1u << t->mantissa;
    int e = (int)(body >> t->mantissa);
    /* subnormals have the exponent of the first normals, and no leading 1 */
    unsigned man = (body & (m - 1)) | (e ? m : 0);
    float v = (float)man * qn_pow2_f32((e ? e : 1) - t->bias - t->mantissa);
    return qn_bits_f32(qn_f32_bits(v) | (code & t->sign ? 0x80000000u : 0));
}

static inline float decode_f8(unsigned code, const small *t)
{
    if (t->uz)
        return code == 0x80 ? NAN : decode(code, t);
    unsigned body = code & 0x7f;
    if (body == t->over && t->over != t->nan)
        return code & 0x80 ? -INFINITY : INFINITY;
    if (body > t->max)
        return qn_copysign_f32(NAN, code & 0x80 ? -1.0f : 1.0f);
    return decode(code, t);
}

static inline float decode_e8m0(unsigned code)
{
    if (code == 0xff)
        return NAN;
    return code ? qn_pow2_f32((int32_t)code - 127) : 0x1p-127f;
}

static inline uint8_t encode(float f, const small *t, bool wrap)
{
    uint32_t u = qn_f32_bits(f);
    unsigned sign = u >> 31 ? t->sign : 0;
    float a = qn_abs_f32(f);
    if (f != f)
        return (uint8_t)(t->uz ? t->nan : sign | t->nan);
    unsigned code = t->max + 1;
    if (a < 0x1p120f) {
        /* in units of the last place, at least that of the subnormals */
        int e = (int)(qn_f32_bits(a) >> 23) - 127, least = 1 - t->bias;
        e = e < least ? least : e;
        float units = qn_rint_f32(a * qn_pow2_f32(t->mantissa - e));
        /* a normal's leading 1 adds one to the exponent field, and rounding up
         * to the next power of two carries into it */
        code = ((unsigned)(e - least) << t->mantissa) + (unsigned)units;
    }
    if (code > t->max) {
        if (wrap)
            return (uint8_t)(t->uz ? t->over : sign | t->over);
        code = t->max;
    }
    if (code == 0 && t->uz && t->sign == 0x80)
        return 0;
    return (uint8_t)(sign | code);
}

/* The exponent field of |f|, rounded as asked. */
static inline uint8_t encode_e8m0(float f, const qn_convert_how *how)
{
    uint32_t u = qn_f32_bits(f) & 0x7fffffffu;
    uint32_t e = u >> 23, man = u & 0x7fffffu;
    if (u > 0x7f800000u)
        return 0xff;
    if (e == 0) {
        /* at most 2^-127 is code 0; between it and 2^-126 rounding decides */
        if (how->wrap && man < 0x400000u)
            return 0xff;
        uint32_t above = how->round == QN_ROUND_UP ? man > 0x400000u
                         : how->round == QN_ROUND_NEAREST ? man >= 0x600000u
                                                          : 0;
        return (uint8_t)above;
    }
    if (how->round == QN_ROUND_UP)
        e += man != 0;
    else if (how->round == QN_ROUND_NEAREST)
        e += man >= 0x400000u;
    if (e > 0xfe)
        return how->wrap ? 0xff : 0xfe;
    return (uint8_t)e;
}

#define DECODE(expr)                                                           \
    for (int64_t i = 0; i < n; i++)                                            \
        y[i] = (expr);                                                         \
    break

void qn_small_to_f32(qn_dtype from, const uint8_t *x, float *y, int64_t n)
{
    switch ((int)from) {
    case QN_F8E4M3FN:
        DECODE(decode_f8(x[i], &e4m3fn));
    case QN_F8E4M3FNUZ:
        DECODE(decode_f8(x[i], &e4m3fnuz));
    case QN_F8E5M2:
        DECODE(decode_f8(x[i], &e5m2));
    case QN_F8E5M2FNUZ:
        DECODE(decode_f8(x[i], &e5m2fnuz));
    case QN_F4E2M1:
        DECODE(decode(x[i] & 0xfu, &e2m1));
    case QN_F8E8M0:
        DECODE(decode_e8m0(x[i]));
    }
}

void qn_f32_to_small(const float *x, qn_dtype to, uint8_t *y, int64_t n,
                     const qn_convert_how *how)
{
    bool wrap = how->wrap;
    switch ((int)to) {
    case QN_F8E4M3FN:
        DECODE(encode(x[i], &e4m3fn, wrap));
    case QN_F8E4M3FNUZ:
        DECODE(encode(x[i], &e4m3fnuz, wrap));
    case QN_F8E5M2:
        DECODE(encode(x[i], &e5m2, wrap));
    case QN_F8E5M2FNUZ:
        DECODE(encode(x[i], &e5m2fnuz, wrap));
    case QN_F4E2M1:
        DECODE(encode(x[i], &e2m1, false));
    case QN_F8E8M0:
        DECODE(encode_e8m0(x[i], how));
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements of any numeric type as int64, float or double, and back; the rules
 * are those of runtime/cpu/convert.h, the small floats' those of
 * runtime/cpu/cast_small.c. Functions are named by what they take and give:
 *
 *     int64   integers and booleans (uint64: its bits)
 *     float   float32, and every narrower float
 *     double  float64
 */
#ifndef QN_CUDA_KERNELS_CONVERT_H
#define QN_CUDA_KERNELS_CONVERT_H

#include "runtime/base/dtype.h"
#include "runtime/cuda/kernels/device.h"

#include <math.h>

/* What Cast's attributes say: see qn_convert_how. */
enum { CV_UP, CV_DOWN, CV_NEAREST };

/* ---- floats to integers: the range is checked, so nothing is undefined ---- */

QN_DEVICE int32_t cv_i32(float v)
{
    return v >= -0x1p31f && v < 0x1p31f ? (int32_t)v : INT32_MIN;
}
QN_DEVICE int32_t cv_i32(double v)
{
    return v > -2147483649.0 && v < 0x1p31 ? (int32_t)v : INT32_MIN;
}
QN_DEVICE int64_t cv_i64(float v)
{
    return v >= -0x1p63f && v < 0x1p63f ? (int64_t)v : INT64_MIN;
}
QN_DEVICE int64_t cv_i64(double v)
{
    return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN;
}
QN_DEVICE uint64_t cv_u64(double v)
{
    if (v >= 0x1p63)
        return v < 0x1p64 ? (uint64_t)v : 0;
    return (uint64_t)cv_i64(v);
}

/* ---- what rounds to a narrower type as the wide number would ---- */

QN_DEVICE float cv_odd(double d)
{
    float f = (float)d;
    uint32_t u = __float_as_uint(f);
    if ((double)f != d && d == d && (u & 0x7fffffffu) < 0x7f800000u) {
        bool away = fabs((double)f) > fabs(d);
        if (away && (u & 1u) == 0)
            u -= 1; /* towards zero, which makes it odd */
        else if (!away)
            u |= 1u;
    }
    return __uint_as_float(u);
}

/* Integers past 2^53 do not fit a double: what is lost goes into the lowest bit
 * that stays. */
QN_DEVICE double cv_sticky(uint64_t v)
{
    if (v >> 53)
        v = (v & ~(uint64_t)0xfff) | (v & 0xfff ? 0x800 : 0);
    return (double)v;
}
QN_DEVICE float cv_odd(int64_t v, bool is_u64)
{
    if (is_u64 || v >= 0)
        return cv_odd(cv_sticky((uint64_t)v));
    return cv_odd(-cv_sticky(0 - (uint64_t)v));
}

/* ---- floats of 8 and 4 bits ---- */

struct cv_small {
    int mantissa, bias;
    uint32_t sign, max, over, nan; /* codes; over: past the range if wrapping */
    bool uz;                       /* unsigned zero: the code of -0 is NaN */
};

QN_DEVICE cv_small cv_small_of(int dtype)
{
    switch (dtype) {
    case QN_F8E4M3FN:
        return { 3, 7, 0x80, 0x7e, 0x7f, 0x7f, false };
    case QN_F8E4M3FNUZ:
        return { 3, 8, 0x80, 0x7f, 0x80, 0x80, true };
    case QN_F8E5M2:
        return { 2, 15, 0x80, 0x7b, 0x7c, 0x7e, false };
    case QN_F8E5M2FNUZ:
        return { 2, 16, 0x80, 0x7f, 0x80, 0x80, true };
    default: /* QN_F4E2M1 */
        return { 1, 1, 0x8, 0x7, 0x7, 0x8, true };
    }
}

QN_DEVICE float cv_pow2(int k)
{
    return __uint_as_float((uint32_t)(k + 127) << 23);
}

QN_DEVICE float cv_decode(int dtype, uint8_t code)
{
    const float nan = __uint_as_float(0x7fc00000u);
    if (dtype == QN_F8E8M0)
        return code == 0xff ? nan : code ? cv_pow2(code - 127) : 0x1p-127f;
    if (dtype == QN_F4E2M1)
        code &= 0xf;
    cv_small t = cv_small_of(dtype);
    uint32_t sign = code & t.sign ? 0x80000000u : 0;
    uint32_t body = code & (t.sign - 1), m = 1u << t.mantissa;
    if (t.uz && t.sign == 0x80 && code == 0x80)
        return nan;
    if (!t.uz && body == t.over && t.over != t.nan)
        return __uint_as_float(sign | 0x7f800000u);
    if (!t.uz && body > t.max)
        return __uint_as_float(sign | 0x7fc00000u);
    int e = (int)(body >> t.mantissa);
    /* subnormals have the exponent of the first normals, and no leading 1 */
    uint32_t man = (body & (m - 1)) | (e ? m : 0);
    float v = (float)man * cv_pow2((e ? e : 1) - t.bias - t.mantissa);
    return __uint_as_float(sign | __float_as_uint(v));
}

QN_DEVICE uint8_t cv_encode_e8m0(float f, bool wrap, int round)
{
    uint32_t u = __float_as_uint(f) & 0x7fffffffu;
    uint32_t e = u >> 23, man = u & 0x7fffffu;
    if (u > 0x7f800000u)
        return 0xff;
    if (e == 0) {
        /* at most 2^-127 is code 0; between it and 2^-126 rounding decides */
        if (wrap && man < 0x400000u)
            return 0xff;
        return round == CV_UP        ? man > 0x400000u
               : round == CV_NEAREST ? man >= 0x600000u
                                     : 0;
    }
    if (round == CV_UP)
        e += man != 0;
    else if (round == CV_NEAREST)
        e += man >= 0x400000u;
    if (e > 0xfe)
        return wrap ? 0xff : 0xfe;
    return (uint8_t)e;
}

QN_DEVICE uint8_t cv_encode(int dtype, float f, bool wrap, int round)
{
    if (dtype == QN_F8E8M0)
        return cv_encode_e8m0(f, wrap, round);
    if (dtype == QN_F4E2M1)
        wrap = false;
    cv_small t = cv_small_of(dtype);
    uint32_t sign = __float_as_uint(f) >> 31 ? t.sign : 0;
    uint32_t code = t.max + 1;
    float a = fabsf(f);
    if (f != f)
        return (uint8_t)(t.uz ? t.nan : sign | t.nan);
    if (a < 0x1p120f) {
        /* in units of the last place, at least that of the subnormals */
        int e = (int)(__float_as_uint(a) >> 23) - 127, least = 1 - t.bias;
        e = e < least ? least : e;
        float units = rintf(a * cv_pow2(t.mantissa - e));
        /* a normal's leading 1 adds one to the exponent field, and rounding up
         * to the next power of two carries into it */
        code = ((uint32_t)(e - least) << t.mantissa) + (uint32_t)units;
    }
    if (code > t.max) {
        if (wrap)
            return (uint8_t)(t.uz ? t.over : sign | t.over);
        code = t.max;
    }
    if (code == 0 && t.uz && t.sign == 0x80)
        return 0;
    return (uint8_t)(sign | code);
}

/* Bits as an element: types below 8 bits keep their low bits, the signed ones
 * sign-extended; booleans become 0 or 1. */
QN_DEVICE uint8_t cv_settle(int dtype, uint8_t v)
{
    switch (dtype) {
    case QN_BOOL:
        return v != 0;
    case QN_U4:
    case QN_F4E2M1:
        return v & 15;
    case QN_I4:
        return (uint8_t)(((v & 15) ^ 8) - 8);
    case QN_U2:
        return v & 3;
    case QN_I2:
        return (uint8_t)(((v & 3) ^ 2) - 2);
    }
    return v;
}

/* ---- single elements, of the types that Pow has ---- */

QN_DEVICE int64_t cv_load_i64(int dtype, const void *p, uint32_t i)
{
    switch (dtype) {
    case QN_I8:
        return ((const int8_t *)p)[i];
    case QN_I16:
        return ((const int16_t *)p)[i];
    case QN_I32:
        return ((const int32_t *)p)[i];
    case QN_U8:
        return ((const uint8_t *)p)[i];
    case QN_U16:
        return ((const uint16_t *)p)[i];
    case QN_U32:
        return ((const uint32_t *)p)[i];
    default: /* both of 64 bits */
        return ((const int64_t *)p)[i];
    }
}

QN_DEVICE double cv_load_f64(int dtype, const void *p, uint32_t i)
{
    switch (dtype) {
    case QN_F64:
        return ((const double *)p)[i];
    case QN_F32:
        return ((const float *)p)[i];
    case QN_F16:
        return qn_to_float(((const qn_half *)p)[i]);
    case QN_BF16:
        return qn_to_float(((const qn_bf16 *)p)[i]);
    case QN_U64:
        return (double)((const uint64_t *)p)[i];
    default:
        return (double)cv_load_i64(dtype, p, i);
    }
}

QN_DEVICE float cv_load_f32(int dtype, const void *p, uint32_t i)
{
    return (float)cv_load_f64(dtype, p, i);
}

QN_DEVICE void cv_store_i64(int dtype, void *p, uint32_t i, int64_t v)
{
    if (dtype == QN_I32)
        ((int32_t *)p)[i] = (int32_t)v;
    else
        ((int64_t *)p)[i] = v;
}

QN_DEVICE void cv_store_f64(int dtype, void *p, uint32_t i, double v)
{
    switch (dtype) {
    case QN_F64:
        ((double *)p)[i] = v;
        break;
    case QN_F32:
        ((float *)p)[i] = (float)v;
        break;
    case QN_F16:
        ((qn_half *)p)[i] = qn_to_half(cv_odd(v));
        break;
    case QN_BF16:
        ((qn_bf16 *)p)[i] = qn_to_bf16(cv_odd(v));
        break;
    case QN_I32:
        ((int32_t *)p)[i] = cv_i32(v);
        break;
    default: /* QN_I64 */
        ((int64_t *)p)[i] = cv_i64(v);
    }
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One element of any real type as a double, and back. For the plain versions of
 * kernels, whose types nobody is in a hurry for. 64-bit integers lose bits
 * beyond 2^53: kernels that take those have loops of their own.
 */
#ifndef QN_CPU_ELEMENT_H
#define QN_CPU_ELEMENT_H

#include "runtime/base/dtype.h"
#include "runtime/base/half.h"

/* double to integer in [lo, hi]: truncated, beyond the ends the end, NaN 0. */
static inline int64_t qn_clamp_i64(double v, int64_t lo, int64_t hi)
{
    if (!(v == v))
        return 0;
    /* hi as a double may have been rounded up: >= keeps the cast defined */
    return v <= (double)lo ? lo : v >= (double)hi ? hi : (int64_t)v;
}

static inline double qn_load_f64(const void *p, qn_dtype dtype, int64_t i)
{
    switch (dtype) {
    case QN_F32:
        return (double)((const float *)p)[i];
    case QN_F64:
        return ((const double *)p)[i];
    case QN_F16:
        return (double)qn_f16_to_f32(((const uint16_t *)p)[i]);
    case QN_BF16:
        return (double)qn_bf16_to_f32(((const uint16_t *)p)[i]);
    case QN_I8:
        return ((const int8_t *)p)[i];
    case QN_U8:
    case QN_BOOL:
        return ((const uint8_t *)p)[i];
    default:
        return 0;
    }
}

static inline void qn_store_f64(void *p, qn_dtype dtype, int64_t i, double v)
{
    switch (dtype) {
    case QN_F32:
        ((float *)p)[i] = (float)v;
        break;
    case QN_F64:
        ((double *)p)[i] = v;
        break;
    case QN_F16:
        ((uint16_t *)p)[i] = qn_f64_to_f16(v);
        break;
    case QN_BF16:
        ((uint16_t *)p)[i] = qn_f64_to_bf16(v);
        break;
    case QN_I8:
        ((int8_t *)p)[i] = (int8_t)qn_clamp_i64(v, INT8_MIN, INT8_MAX);
        break;
    case QN_U8:
    case QN_BOOL:
        ((uint8_t *)p)[i] = (uint8_t)qn_clamp_i64(v, 0, UINT8_MAX);
        break;
    default:
        break;
    }
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays of one numeric type into another; what Cast means, for kernels that
 * compute in another type than their tensors have.
 *
 * Rules, for every pair of types but strings and complex ones:
 *   - float to float: nearest, ties to even, rounded once; overflow gives
 *     infinity where there is one and `saturate` does not say otherwise
 *   - integer to integer: the low bits
 *   - float to integer: towards zero. Outside the range the standard leaves it
 *     open; here it is what x86 code does, everywhere: types below 32 bits take
 *     the low bits of the 32-bit result, uint32 those of the 64-bit one, and
 *     a result that does not fit (NaN too) is the most negative number
 *   - to bool: anything but zero is true
 */
#ifndef QN_CPU_CONVERT_H
#define QN_CPU_CONVERT_H

#include "runtime/base/dtype.h"

/* For values between two powers of two, to float8e8m0 only. */
typedef enum qn_round { QN_ROUND_UP, QN_ROUND_DOWN, QN_ROUND_NEAREST } qn_round;

typedef struct qn_convert_how {
    bool wrap; /* `saturate` = 0: beyond an 8-bit float's range comes NaN, or
                  infinity where the type has one, not its largest number */
    qn_round round;
} qn_convert_how;

/* dst[i] = src[i]; arrays are one and the same (types of equal size), or do not
 * overlap. `how` NULL: the standard's defaults. */
void qn_convert(qn_dtype from, const void *src, qn_dtype to, void *dst,
                int64_t n, const qn_convert_how *how);

/* Make bytes that came as bits valid elements: types below 8 bits keep their
 * low bits, booleans become 0 or 1. Other types are left alone. */
void qn_settle(qn_dtype dtype, void *data, int64_t n);

/* ---- types of 8 bits and fewer, one byte an element (cast_small.c) ---- */

void qn_small_to_f32(qn_dtype from, const uint8_t *x, float *y, int64_t n);
void qn_f32_to_small(const float *x, qn_dtype to, uint8_t *y, int64_t n,
                     const qn_convert_how *how);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Exact comparison of a decimal with a binary number, for the rare cases where
 * 64 bits cannot tell on which side of a midpoint a number lies. */
#ifndef QN_CODEC_DECIMAL_H
#define QN_CODEC_DECIMAL_H

#include "server/codec/number.h"

/* Sign of |d| - mantissa * 2^exponent. Both have to be of similar magnitude
 * (within a factor of two), in the range of a double. */
int qn_decimal_compare(const qn_decimal *d, uint64_t mantissa, int exponent);

#endif

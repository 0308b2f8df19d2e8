/* SPDX-License-Identifier: Apache-2.0 */
/* Piece sizes for qn_parallel(). */
#ifndef QN_CPU_GRAIN_H
#define QN_CPU_GRAIN_H

#include <stdint.h>

/* Items in a piece of about 20 us, from an estimate of one item's time. */
static inline int64_t qn_grain(double ns_per_item)
{
    double n = 20000.0 / (ns_per_item < 1e-3 ? 1e-3 : ns_per_item);
    return n < 1 ? 1 : (int64_t)n;
}

#endif

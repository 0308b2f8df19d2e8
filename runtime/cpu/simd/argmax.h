/* SPDX-License-Identifier: Apache-2.0 */
/* Positions of extremes of float columns. */
#ifndef QN_CPU_SIMD_ARGMAX_H
#define QN_CPU_SIMD_ARGMAX_H

#include "runtime/cpu/isa.h"

#include <stdint.h>

/*
 * Row `r` against the best so far, column by column, j < cols: where x[j] beats
 * best[j] (ties: only with `last`; NaN beats numbers) it replaces it and at[j]
 * becomes r.
 */
typedef void (*qn_argmax_fn)(float *best, int32_t *at, const float *x,
                             int32_t r, int64_t cols);

typedef struct qn_argmax_table {
    qn_argmax_fn row[2][2]; /* [minimum][last] */
} qn_argmax_table;

QN_ISA_TABLES(qn_argmax_table, qn_argmax);

static inline const qn_argmax_table *qn_argmax_pick(void)
{
    return QN_ISA_PICK(qn_argmax, qn_isa_level());
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces of a float softmax. Output and input may be the same memory. Sums have
 * an order that depends on the length alone: float lanes, blocks in double.
 */
#ifndef QN_CPU_SIMD_SOFTMAX_H
#define QN_CPU_SIMD_SOFTMAX_H

#include "runtime/cpu/isa.h"

#include <stdint.h>

typedef struct qn_softmax_table {
    /* y[i] = exp(x[i] - max), i < n; returns the sum. y NULL: the sum only. */
    double (*exp_sum)(float *y, const float *x, int64_t n, float max);
    /* y[i] = y[i] * factor */
    void (*scale)(float *y, int64_t n, float factor);
    /* y[i] = (x[i] - max) - log_sum */
    void (*subtract)(float *y, const float *x, int64_t n, float max,
                     float log_sum);
    /* Per column j < cols <= QN_SPAN_COLS, rows at `stride`; max[j] is known;
     * columns are normalised, with `log` in the logarithmic form. */
    void (*columns)(float *y, const float *x, int64_t rows, int64_t stride,
                    int64_t cols, const float *max, int log);
} qn_softmax_table;

QN_ISA_TABLES(qn_softmax_table, qn_softmax);

static inline const qn_softmax_table *qn_softmax_pick(void)
{
    return QN_ISA_PICK(qn_softmax, qn_isa_level());
}

#endif

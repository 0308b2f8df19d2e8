/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces of float pooling. Sums have an order that depends on the window alone.
 * Maxima keep NaN.
 */
#ifndef QN_CPU_SIMD_WINDOW_H
#define QN_CPU_SIMD_WINDOW_H

#include "runtime/cpu/isa.h"

#include <stdint.h>

/* One fold, as a maximum and as a sum. */
typedef struct qn_window_fold {
    /* dst[i] over rows[r * stride + i], r < n_rows, n_rows >= 2, i < n */
    void (*rows)(float *dst, const float *rows, int64_t n_rows, int64_t stride,
                 int64_t n);
    /* dst[i] over x[i * stride + q * step], q < taps, taps >= 1, i < n */
    void (*columns)(float *dst, const float *x, int64_t n, int64_t stride,
                    int64_t taps, int64_t step);
    /* Channels last: dst[c] over x[r * row + q * col + c], r < rows, q < cols;
     * rows and cols >= 1. */
    void (*taps)(float *dst, const float *x, int64_t rows, int64_t row,
                 int64_t cols, int64_t col, int64_t channels);
} qn_window_fold;

typedef struct qn_window_table {
    qn_window_fold max, sum;
    /* dst[i] = dst[i] / (scale * count[i]) */
    void (*divide_each)(float *dst, float scale, const float *count, int64_t n);
    void (*divide)(float *dst, float count, int64_t n);
} qn_window_table;

QN_ISA_TABLES(qn_window_table, qn_window);

static inline const qn_window_table *qn_window_pick(void)
{
    return QN_ISA_PICK(qn_window, qn_isa_level());
}

#endif

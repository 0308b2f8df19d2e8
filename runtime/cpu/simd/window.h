/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces of float pooling. Sums have an order that depends on the window alone.
 * Maxima keep NaN.
 */
#ifndef QN_CPU_SIMD_WINDOW_H
#define QN_CPU_SIMD_WINDOW_H

#include "runtime/cpu/isa.h"

#include <stdint.h>

typedef struct qn_window_table {
    /* acc[i] = op(acc[i], x[i * stride]), i < n, stride >= 1 */
    void (*max_into)(float *acc, const float *x, int64_t stride, int64_t n);
    void (*add_into)(float *acc, const float *x, int64_t stride, int64_t n);
    /* acc[i] = acc[i] / (scale * count[i]) */
    void (*divide)(float *acc, float scale, const float *count, int64_t n);
    /* Channels last: out[c] over x[(r * row + q * col) + c], r < rows,
     * q < cols; rows and cols >= 1. mean divides by `count`. */
    void (*max_taps)(float *out, const float *x, int64_t rows, int64_t row,
                     int64_t cols, int64_t col, int64_t channels);
    void (*mean_taps)(float *out, const float *x, int64_t rows, int64_t row,
                      int64_t cols, int64_t col, int64_t channels, float count);
} qn_window_table;

QN_ISA_TABLES(qn_window_table, qn_window);

static inline const qn_window_table *qn_window_pick(void)
{
    return QN_ISA_PICK(qn_window, qn_isa_level());
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folds of float rows: what reductions, normalisations and global pooling are
 * made of. One table per instruction set, see runtime/cpu/isa.h.
 *
 * Sums are exact to a few units in the last place whatever the length: blocks
 * of QN_SUM_BLOCK elements in 32 float lanes (8 in short rows), combined as a
 * tree, blocks added up in double. The order depends on the length alone.
 */
#ifndef QN_CPU_SIMD_SPAN_H
#define QN_CPU_SIMD_SPAN_H

#include "runtime/cpu/isa.h"

#include <stdint.h>

enum {
    QN_SPAN_LANES = 32,
    QN_SUM_BLOCK = 512,
    /* columns that the *_rows functions take at once */
    QN_SPAN_COLS = 256
};

typedef struct qn_span_table {
    /* over x[0..n); 0 for n == 0 */
    double (*sum)(const float *x, int64_t n);
    double (*sum_abs)(const float *x, int64_t n);
    /* of (x[i] - shift)^2 */
    double (*sum_sq)(const float *x, int64_t n, float shift);
    /* NaN if there is one; the infinity for n == 0 */
    float (*max)(const float *x, int64_t n);
    float (*min)(const float *x, int64_t n);
    /* Per column j < cols <= QN_SPAN_COLS of x[r * stride + j], r < rows:
     * added to total[j], or folded into acc[j]. */
    void (*sum_rows)(double *total, const float *x, int64_t rows,
                     int64_t stride, int64_t cols);
    void (*sum_abs_rows)(double *total, const float *x, int64_t rows,
                         int64_t stride, int64_t cols);
    void (*sum_sq_rows)(double *total, const float *x, int64_t rows,
                        int64_t stride, int64_t cols);
    void (*max_rows)(float *acc, const float *x, int64_t rows, int64_t stride,
                     int64_t cols);
    void (*min_rows)(float *acc, const float *x, int64_t rows, int64_t stride,
                     int64_t cols);
} qn_span_table;

QN_ISA_TABLES(qn_span_table, qn_span);

static inline const qn_span_table *qn_span_pick(void)
{
    return QN_ISA_PICK(qn_span, qn_isa_level());
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of float normalisations. y and x may be the same memory but for lrn_*.
 */
#ifndef QN_CPU_SIMD_NORM_H
#define QN_CPU_SIMD_NORM_H

#include "runtime/cpu/isa.h"

#include <stdint.h>

/* y = x / (bias + alpha * sum of squares)^beta; the window of channel c is
 * [c - before, c + after]; alpha is already divided by its size. */
typedef struct qn_lrn {
    float alpha, beta, bias;
    int64_t before, after;
} qn_lrn;

typedef struct qn_norm_table {
    /* y[i] = (x[i] - mean) * a + b */
    void (*affine)(float *y, const float *x, int64_t n, float mean, float a,
                   float b);
    /* y[i] = (x[i] - mean[i]) * a[i] + b[i] */
    void (*affine_each)(float *y, const float *x, int64_t n, const float *mean,
                        const float *a, const float *b);
    /* y[i] = (x[i] - mean) * inv * scale[i] + bias[i]; bias may be NULL */
    void (*layer)(float *y, const float *x, int64_t n, float mean, float inv,
                  const float *scale, const float *bias);
    /* Channels at `stride`, cols <= QN_SPAN_COLS positions side by side. */
    void (*lrn_columns)(float *y, const float *x, int64_t channels,
                        int64_t stride, int64_t cols, const qn_lrn *p);
    /* Channels side by side; squares[channels + before + after] is scratch
     * whose first `before` and last `after` elements are 0. */
    void (*lrn_pixel)(float *y, const float *x, int64_t channels,
                      float *squares, const qn_lrn *p);
} qn_norm_table;

QN_ISA_TABLES(qn_norm_table, qn_norm);

static inline const qn_norm_table *qn_norm_pick(void)
{
    return QN_ISA_PICK(qn_norm, qn_isa_level());
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpu/simd/norm.h"

#include "runtime/cpu/simd/span.h"
#include "runtime/cpu/vmath.h"

static void affine(float *y, const float *x, int64_t n, float mean, float a,
                   float b)
{
    QN_INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - mean) * a + b;
}

static void affine_each(float *y, const float *x, int64_t n,
                        const float *restrict mean, const float *restrict a,
                        const float *restrict b)
{
    QN_INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - mean[i]) * a[i] + b[i];
}

static void layer(float *y, const float *x, int64_t n, float mean, float inv,
                  const float *restrict scale, const float *restrict bias)
{
    if (bias) {
        QN_INDEPENDENT
        for (int64_t i = 0; i < n; i++)
            y[i] = (x[i] - mean) * inv * scale[i] + bias[i];
    } else {
        QN_INDEPENDENT
        for (int64_t i = 0; i < n; i++)
            y[i] = (x[i] - mean) * inv * scale[i];
    }
}

/* y[i] = x[i] / (bias + alpha sum[i])^beta. 0.75 is what networks use. */
static void lrn_divide(float *restrict y, const float *restrict x,
                       const float *restrict sum, int64_t n, const qn_lrn *p)
{
    float alpha = p->alpha, bias = p->bias, beta = p->beta;
    if (beta == 0.75f) {
        for (int64_t i = 0; i < n; i++) {
            float root = __builtin_sqrtf(bias + alpha * sum[i]);
            y[i] = x[i] / (root * __builtin_sqrtf(root));
        }
    } else {
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] / qn_exp_f32(beta * qn_log_f32(bias + alpha * sum[i]));
    }
}

static void lrn_columns(float *restrict y, const float *restrict x,
                        int64_t channels, int64_t stride, int64_t cols,
                        const qn_lrn *p)
{
    float sum[QN_SPAN_COLS];
    for (int64_t c = 0; c < channels; c++) {
        int64_t from = c > p->before ? c - p->before : 0;
        int64_t to = channels - c > p->after ? c + p->after + 1 : channels;
        for (int64_t i = 0; i < cols; i++)
            sum[i] = 0;
        for (int64_t r = from; r < to; r++) {
            const float *row = x + r * stride;
            for (int64_t i = 0; i < cols; i++)
                sum[i] += row[i] * row[i];
        }
        lrn_divide(y + c * stride, x + c * stride, sum, cols, p);
    }
}

static void lrn_pixel(float *restrict y, const float *restrict x,
                      int64_t channels, float *restrict squares,
                      const qn_lrn *p)
{
    int64_t size = p->before + p->after + 1;
    for (int64_t c = 0; c < channels; c++)
        squares[p->before + c] = x[c] * x[c];
    for (int64_t c = 0; c < channels; c += QN_SPAN_COLS) {
        float sum[QN_SPAN_COLS] = { 0 };
        int64_t n = channels - c < QN_SPAN_COLS ? channels - c : QN_SPAN_COLS;
        for (int64_t r = 0; r < size; r++)
            for (int64_t i = 0; i < n; i++)
                sum[i] += squares[c + r + i];
        lrn_divide(y + c, x + c, sum, n, p);
    }
}

const qn_norm_table QN_ISA_FN(qn_norm) = {
    .affine = affine,
    .affine_each = affine_each,
    .layer = layer,
    .lrn_columns = lrn_columns,
    .lrn_pixel = lrn_pixel,
};

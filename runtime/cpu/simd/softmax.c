/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpu/simd/softmax.h"

#include "runtime/cpu/simd/span.h"
#include "runtime/cpu/vmath.h"

enum { LANES = 16, ROW_BLOCK = 16 };

/* n >= LANES; y NULL: the sum only */
static float exp_sum_block(float *y, const float *x, int64_t n, float max)
{
    float a[LANES];
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        float e[LANES];
        for (int l = 0; l < LANES; l++)
            e[l] = qn_exp_f32(x[i + l] - max);
        for (int l = 0; l < LANES; l++)
            a[l] = i ? a[l] + e[l] : e[l];
        for (int l = 0; y && l < LANES; l++)
            y[i + l] = e[l];
    }
    for (int l = 0; i + l < n; l++) {
        float e = qn_exp_f32(x[i + l] - max);
        a[l] += e;
        if (y)
            y[i + l] = e;
    }
    for (int w = LANES / 2; w; w /= 2)
        for (int l = 0; l < w; l++)
            a[l] += a[l + w];
    return a[0];
}

static double exp_sum(float *y, const float *x, int64_t n, float max)
{
    double total = 0;
    int64_t i = 0;
    for (; n - i >= LANES; i += QN_SUM_BLOCK)
        total += (double)exp_sum_block(
            y ? y + i : y, x + i, n - i < QN_SUM_BLOCK ? n - i : QN_SUM_BLOCK,
            max);
    for (; i < n; i++) {
        float e = qn_exp_f32(x[i] - max);
        total += (double)e;
        if (y)
            y[i] = e;
    }
    return total;
}

static void scale(float *y, int64_t n, float factor)
{
    for (int64_t i = 0; i < n; i++)
        y[i] *= factor;
}

static void subtract(float *y, const float *x, int64_t n, float max,
                     float log_sum)
{
    QN_INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - max) - log_sum;
}

/* Exponentials of the rows into y (unless log), their sums into total. */
static void columns_exp(float *y, const float *x, int64_t rows, int64_t stride,
                        int64_t cols, const float *restrict max,
                        double *restrict total, int log)
{
    float part[QN_SPAN_COLS];
    for (int64_t j = 0; j < cols; j++)
        total[j] = 0;
    for (int64_t r = 0; r < rows;) {
        int64_t end = rows - r < ROW_BLOCK ? rows : r + ROW_BLOCK;
        for (int64_t j = 0; j < cols; j++)
            part[j] = 0;
        for (; r < end; r++) {
            const float *from = x + r * stride;
            float *to = y + r * stride;
            if (log) {
                for (int64_t j = 0; j < cols; j++)
                    part[j] += qn_exp_f32(from[j] - max[j]);
                continue;
            }
            QN_INDEPENDENT
            for (int64_t j = 0; j < cols; j++) {
                float e = qn_exp_f32(from[j] - max[j]);
                part[j] += e;
                to[j] = e;
            }
        }
        for (int64_t j = 0; j < cols; j++)
            total[j] += (double)part[j];
    }
}

static void columns(float *y, const float *x, int64_t rows, int64_t stride,
                    int64_t cols, const float *restrict max, int log)
{
    double total[QN_SPAN_COLS];
    float last[QN_SPAN_COLS]; /* 1 / sum, or its logarithm */
    columns_exp(y, x, rows, stride, cols, max, total, log);
    for (int64_t j = 0; j < cols; j++)
        last[j] = log ? qn_log_f32((float)total[j]) : (float)(1.0 / total[j]);
    for (int64_t r = 0; r < rows; r++) {
        const float *from = x + r * stride;
        float *to = y + r * stride;
        if (log) {
            QN_INDEPENDENT
            for (int64_t j = 0; j < cols; j++)
                to[j] = (from[j] - max[j]) - last[j];
        } else {
            for (int64_t j = 0; j < cols; j++)
                to[j] *= last[j];
        }
    }
}

const qn_softmax_table QN_ISA_FN(qn_softmax) = {
    .exp_sum = exp_sum,
    .scale = scale,
    .subtract = subtract,
    .columns = columns,
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folding windows. Windows of two and three rows or columns at strides 1 and 2
 * are what networks use, so these have loops of one pass.
 */
#include "runtime/cpu/simd/window.h"

#include <math.h>

#define MORE(a, b) ((((a) > (b)) | ((a) != (a))) ? (a) : (b))
#define PLUS(a, b) ((b) + (a))

/* ---- planes: rows onto a row, then columns at a stride ---- */

#define DEFINE_ROWS(name, OP)                                         \
    static void name(float *restrict dst, const float *restrict rows, \
                     int64_t n_rows, int64_t stride, int64_t n)       \
    {                                                                 \
        const float *a = rows, *b = rows + stride, *c = b + stride;   \
        int64_t r = n_rows > 2 ? 3 : 2;                               \
        if (r == 3)                                                   \
            for (int64_t i = 0; i < n; i++) {                         \
                float v = OP(b[i], a[i]);                             \
                dst[i] = OP(c[i], v);                                 \
            }                                                         \
        else                                                          \
            for (int64_t i = 0; i < n; i++)                           \
                dst[i] = OP(b[i], a[i]);                              \
        for (; r < n_rows; r++) {                                     \
            a = rows + r * stride;                                    \
            for (int64_t i = 0; i < n; i++)                           \
                dst[i] = OP(a[i], dst[i]);                            \
        }                                                             \
    }

DEFINE_ROWS(max_rows, MORE)
DEFINE_ROWS(sum_rows, PLUS)

/* Two or three taps of step 1, at a stride that the compiler knows. */
#define DEFINE_NEAR(name, OP, STRIDE)                                         \
    static void name(float *restrict dst, const float *restrict x, int64_t n, \
                     int64_t taps)                                            \
    {                                                                         \
        if (taps == 2)                                                        \
            for (int64_t i = 0; i < n; i++)                                   \
                dst[i] = OP(x[i * STRIDE + 1], x[i * STRIDE]);                \
        else                                                                  \
            for (int64_t i = 0; i < n; i++) {                                 \
                float v = OP(x[i * STRIDE + 1], x[i * STRIDE]);               \
                dst[i] = OP(x[i * STRIDE + 2], v);                            \
            }                                                                 \
    }

DEFINE_NEAR(max_near_1, MORE, 1)
DEFINE_NEAR(max_near_2, MORE, 2)
DEFINE_NEAR(sum_near_1, PLUS, 1)
DEFINE_NEAR(sum_near_2, PLUS, 2)

#define DEFINE_COLUMNS(name, prefix, OP)                                      \
    static void name(float *restrict dst, const float *restrict x, int64_t n, \
                     int64_t stride, int64_t taps, int64_t step)              \
    {                                                                         \
        if (step == 1 && (taps == 2 || taps == 3) && stride <= 2) {           \
            (stride == 1 ? prefix##_near_1 : prefix##_near_2)(dst, x, n,      \
                                                              taps);          \
            return;                                                           \
        }                                                                     \
        for (int64_t i = 0; i < n; i++)                                       \
            dst[i] = x[i * stride];                                           \
        for (int64_t q = 1; q < taps; q++) {                                  \
            const float *p = x + q * step;                                    \
            if (stride == 1)                                                  \
                for (int64_t i = 0; i < n; i++)                               \
                    dst[i] = OP(p[i], dst[i]);                                \
            else                                                              \
                for (int64_t i = 0; i < n; i++)                               \
                    dst[i] = OP(p[i * stride], dst[i]);                       \
        }                                                                     \
    }

DEFINE_COLUMNS(max_columns, max, MORE)
DEFINE_COLUMNS(sum_columns, sum, PLUS)

/* ---- channels last ---- */

/* Windows of 3 x 3 and 2 x 2 in one pass over the channels, others tap by tap.
 * Accumulators in arrays were rejected: gcc moves them through the stack. */
#define DEFINE_FIXED(name, OP)                                               \
    static int name##_3x3(float *restrict dst, const float *restrict x,      \
                          int64_t row, int64_t col, int64_t channels)        \
    {                                                                        \
        const float *a = x, *b = x + row, *c = x + 2 * row;                  \
        const float *a1 = a + col, *b1 = b + col, *c1 = c + col;             \
        const float *a2 = a1 + col, *b2 = b1 + col, *c2 = c1 + col;          \
        int bad = 0;                                                         \
        for (int64_t l = 0; l < channels; l++) {                             \
            float u = OP(a2[l], OP(a1[l], a[l]));                            \
            float v = OP(b2[l], OP(b1[l], b[l]));                            \
            float w = OP(c2[l], OP(c1[l], c[l]));                            \
            dst[l] = OP(w, OP(v, u));                                        \
            float sum = a[l] + a1[l] + a2[l] + b[l] + b1[l] + b2[l] + c[l] + \
                        c1[l] + c2[l];                                       \
            bad |= sum != sum;                                               \
        }                                                                    \
        return bad;                                                          \
    }                                                                        \
    static int name##_2x2(float *restrict dst, const float *restrict x,      \
                          int64_t row, int64_t col, int64_t channels)        \
    {                                                                        \
        const float *a = x, *b = x + col, *c = x + row, *d = c + col;        \
        int bad = 0;                                                         \
        for (int64_t l = 0; l < channels; l++) {                             \
            float u = OP(b[l], a[l]), v = OP(d[l], c[l]);                    \
            dst[l] = OP(v, u);                                               \
            float sum = a[l] + b[l] + c[l] + d[l];                           \
            bad |= sum != sum;                                               \
        }                                                                    \
        return bad;                                                          \
    }

/* A maximum that loses NaN is one instruction, one that keeps it is four. So
 * take the first and a sum beside it, which NaN does not leave (nor do
 * infinities of both signs); where a sum is NaN, do the window over. */
static inline float larger(float a, float b)
{
    return a > b ? a : b;
}

static inline float plus(float a, float b)
{
    return b + a;
}

DEFINE_FIXED(max, larger)
DEFINE_FIXED(sum, plus)

static void max_taps(float *restrict dst, const float *restrict x, int64_t rows,
                     int64_t row, int64_t cols, int64_t col, int64_t channels)
{
    if (rows == 3 && cols == 3 && !max_3x3(dst, x, row, col, channels))
        return;
    if (rows == 2 && cols == 2 && !max_2x2(dst, x, row, col, channels))
        return;
    for (int64_t l = 0; l < channels; l++)
        dst[l] = x[l];
    for (int64_t t = 1; t < rows * cols; t++) {
        const float *p = x + t / cols * row + t % cols * col;
        for (int64_t l = 0; l < channels; l++)
            dst[l] = MORE(p[l], dst[l]);
    }
}

enum { SUM_COLS = 256 };

/* The sum of a window is the sum of its rows. */
static void sum_taps(float *restrict dst, const float *restrict x, int64_t rows,
                     int64_t row, int64_t cols, int64_t col, int64_t channels)
{
    if (rows == 3 && cols == 3) {
        sum_3x3(dst, x, row, col, channels);
        return;
    }
    if (rows == 2 && cols == 2) {
        sum_2x2(dst, x, row, col, channels);
        return;
    }
    for (int64_t c = 0; c < channels; c += SUM_COLS) {
        int64_t n = channels - c < SUM_COLS ? channels - c : SUM_COLS;
        float part[SUM_COLS];
        for (int64_t r = 0; r < rows; r++) {
            const float *p = x + r * row + c;
            for (int64_t l = 0; l < n; l++)
                part[l] = p[l];
            for (int64_t q = 1; q < cols; q++)
                for (int64_t l = 0; l < n; l++)
                    part[l] += p[q * col + l];
            for (int64_t l = 0; l < n; l++)
                dst[c + l] = r ? dst[c + l] + part[l] : part[l];
        }
    }
}

static void divide_each(float *restrict dst, float scale,
                        const float *restrict count, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = dst[i] / (scale * count[i]);
}

static void divide(float *dst, float count, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = dst[i] / count;
}

const qn_window_table QN_ISA_FN(qn_window) = {
    .max = { .rows = max_rows, .columns = max_columns, .taps = max_taps },
    .sum = { .rows = sum_rows, .columns = sum_columns, .taps = sum_taps },
    .divide_each = divide_each,
    .divide = divide,
};

/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpu/simd/window.h"

#include <math.h>

#define MORE(x, acc) ((((x) > (acc)) | ((x) != (x))) ? (x) : (acc))
#define SUM(x, acc)  ((acc) + (x))

/* Strides 1 and 2 are what networks use, and what vectorises. */
#define DEFINE_INTO(name, OP)                                      \
    static void name(float *restrict acc, const float *restrict x, \
                     int64_t stride, int64_t n)                    \
    {                                                              \
        if (stride == 1)                                           \
            for (int64_t i = 0; i < n; i++)                        \
                acc[i] = OP(x[i], acc[i]);                         \
        else if (stride == 2)                                      \
            for (int64_t i = 0; i < n; i++)                        \
                acc[i] = OP(x[2 * i], acc[i]);                     \
        else                                                       \
            for (int64_t i = 0; i < n; i++)                        \
                acc[i] = OP(x[stride * i], acc[i]);                \
    }

DEFINE_INTO(max_into, MORE)
DEFINE_INTO(add_into, SUM)

static void divide(float *restrict acc, float scale,
                   const float *restrict count, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        acc[i] = acc[i] / (scale * count[i]);
}

/* `BLOCK` channels in registers over the whole window; the sum of a window is
 * the sum of its rows. */
#define DEFINE_TAPS(name, BLOCK, START, OP)                               \
    static inline void name(float *restrict out, const float *restrict x, \
                            int64_t rows, int64_t row, int64_t cols,      \
                            int64_t col)                                  \
    {                                                                     \
        float a[BLOCK];                                                   \
        for (int l = 0; l < BLOCK; l++)                                   \
            a[l] = START;                                                 \
        for (int64_t r = 0; r < rows; r++, x += row) {                    \
            float b[BLOCK];                                               \
            for (int l = 0; l < BLOCK; l++)                               \
                b[l] = START;                                             \
            for (int64_t q = 0; q < cols; q++)                            \
                for (int l = 0; l < BLOCK; l++)                           \
                    b[l] = OP(x[q * col + l], b[l]);                      \
            for (int l = 0; l < BLOCK; l++)                               \
                a[l] = OP(b[l], a[l]);                                    \
        }                                                                 \
        for (int l = 0; l < BLOCK; l++)                                   \
            out[l] = a[l];                                                \
    }

DEFINE_TAPS(max_32, 32, -INFINITY, MORE)
DEFINE_TAPS(max_8, 8, -INFINITY, MORE)
DEFINE_TAPS(max_1, 1, -INFINITY, MORE)
DEFINE_TAPS(sum_32, 32, 0.0f, SUM)
DEFINE_TAPS(sum_8, 8, 0.0f, SUM)
DEFINE_TAPS(sum_1, 1, 0.0f, SUM)

#define DEFINE_CHANNELS(name, prefix)                                      \
    static void name(float *restrict out, const float *restrict x,         \
                     int64_t rows, int64_t row, int64_t cols, int64_t col, \
                     int64_t channels)                                     \
    {                                                                      \
        int64_t c = 0;                                                     \
        for (; c + 32 <= channels; c += 32)                                \
            prefix##_32(out + c, x + c, rows, row, cols, col);             \
        for (; c + 8 <= channels; c += 8)                                  \
            prefix##_8(out + c, x + c, rows, row, cols, col);              \
        for (; c < channels; c++)                                          \
            prefix##_1(out + c, x + c, rows, row, cols, col);              \
    }

DEFINE_CHANNELS(max_taps, max)
DEFINE_CHANNELS(sum_taps, sum)

static void mean_taps(float *out, const float *x, int64_t rows, int64_t row,
                      int64_t cols, int64_t col, int64_t channels, float count)
{
    sum_taps(out, x, rows, row, cols, col, channels);
    for (int64_t c = 0; c < channels; c++)
        out[c] = out[c] / count;
}

const qn_window_table QN_ISA_FN(qn_window) = {
    .max_into = max_into,
    .add_into = add_into,
    .divide = divide,
    .max_taps = max_taps,
    .mean_taps = mean_taps,
};

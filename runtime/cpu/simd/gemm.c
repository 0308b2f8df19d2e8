/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Microkernels of the matrix product: MR rows by two vectors of columns in
 * registers, B streamed, one broadcast of A per row and step.
 *
 *   level    MR x NR   accumulators   multiply-adds per load
 *   base      6 x 8    12             12 / 8
 *   avx2      6 x 16   12             12 / 8
 *   avx512   12 x 32   24             24 / 14
 *
 * Every path (fewer rows, one vector, several panels at once for few rows) does
 * the same chain per element, see runtime/cpu/gemm/gemm.h.
 */
#include "runtime/cpu/gemm/gemm.h"
#include "runtime/cpu/gemm/vec.h"
#include "runtime/cpu/vmath.h"

#ifndef QN_GEMM_MR
#ifdef __AVX512F__
#define QN_GEMM_MR 12
#else
#define QN_GEMM_MR 6
#endif
#endif

enum { MAX_ACC = 8 };

/* Bias, residual, clamp; then out. */
QN_INLINE void finish(const qn_gemm_tile *t, vec (*acc)[MAX_ACC],
                      const int rows, const int nv)
{
    if (t->alpha != 1.0f)
        UNROLL
        for (int r = 0; r < rows; r++)
            UNROLL
            for (int j = 0; j < nv; j++)
                acc[r][j] = vec_mul(acc[r][j], vec_set(t->alpha));
    if (t->bias)
        UNROLL
        for (int j = 0; j < nv; j++) {
            vec b = vec_load(t->bias + j * VEC);
            UNROLL
            for (int r = 0; r < rows; r++)
                acc[r][j] = vec_add(acc[r][j], b);
        }
    if (t->row_bias)
        UNROLL
        for (int r = 0; r < rows; r++)
            UNROLL
            for (int j = 0; j < nv; j++)
                acc[r][j] = vec_add(acc[r][j], vec_set(t->row_bias[r]));
    if (t->residual)
        UNROLL
        for (int r = 0; r < rows; r++)
            UNROLL
            for (int j = 0; j < nv; j++)
                acc[r][j] = vec_add(acc[r][j],
                                    vec_load(t->residual + (size_t)r * t->ldr +
                                             j * VEC));
    if (t->clamp) {
        vec low = vec_set(t->low), high = vec_set(t->high);
        UNROLL
        for (int r = 0; r < rows; r++)
            UNROLL
            for (int j = 0; j < nv; j++)
                acc[r][j] = vec_min(high, vec_max(low, acc[r][j]));
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
        for (int j = 0; j < nv; j++)
            vec_store(t->c + (size_t)r * t->ldc + j * VEC, acc[r][j]);
}

/* The same for a tile whose last vector is not whole, from sums in memory: one
 * function for all heights, since this is rare and code is not free. */
static __attribute__((noinline)) void finish_part(const qn_gemm_tile *t,
                                                  const float *sum, int rows,
                                                  size_t ld)
{
    const vec low = vec_set(t->low), high = vec_set(t->high);
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < t->n; j += VEC) {
            const int n = t->n - j;
            vec v = vec_load(sum + (size_t)r * ld + j);
            if (t->alpha != 1.0f)
                v = vec_mul(v, vec_set(t->alpha));
            if (t->bias)
                v = vec_add(v, vec_load_part(t->bias + j, n));
            if (t->row_bias)
                v = vec_add(v, vec_set(t->row_bias[r]));
            if (t->residual)
                v = vec_add(v, vec_load_part(t->residual + (size_t)r * t->ldr + j,
                                             n));
            if (t->clamp)
                v = vec_min(high, vec_max(low, v));
            vec_store_part(t->c + (size_t)r * t->ldc + j, v, n);
        }
}

/* rows x (panels of nv vectors). Arguments but `t` are compile-time constants:
 * the accumulators then live in registers. */
QN_INLINE void tile(const qn_gemm_tile *t, const int rows, const int panels,
                    const int nv)
{
    vec acc[QN_GEMM_MR][MAX_ACC];
    const int all = panels * nv;
    const float *b = t->b;
    const size_t ldb = t->ldb, b_panel = t->b_panel;

    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
        for (int j = 0; j < all; j++)
            acc[r][j] = t->first ? vec_zero()
                                 : vec_load(t->part + (size_t)r * t->ldp +
                                            j * VEC);
    for (size_t tap = 0; tap < t->taps; tap++) {
        const float *a[QN_GEMM_MR];
        UNROLL
        for (int r = 0; r < rows; r++)
            a[r] = t->a[tap * t->a_step + (size_t)r] + t->a_off;
        for (size_t k = 0; k < t->depth; k++) {
            vec w[MAX_ACC];
            UNROLL
            for (int j = 0; j < all; j++)
                w[j] = vec_load(b + (size_t)(j / nv) * b_panel + j % nv * VEC);
            UNROLL
            for (int r = 0; r < rows; r++) {
                vec x = vec_set(a[r][k]);
                UNROLL
                for (int j = 0; j < all; j++)
                    acc[r][j] = vec_fma(x, w[j], acc[r][j]);
            }
            b += ldb;
        }
    }
    if (t->last && t->n == all * VEC) {
        finish(t, acc, rows, all);
        return;
    }
    float sums[QN_GEMM_MR * 2 * VEC];
    float *out = t->last ? sums : t->part;
    const size_t ld = t->last ? (size_t)(all * VEC) : t->ldp;
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
        for (int j = 0; j < all; j++)
            vec_store(out + (size_t)r * ld + j * VEC, acc[r][j]);
    if (t->last)
        finish_part(t, sums, rows, ld);
}

#define TILE(rows)                                                             \
    static void tile_##rows##x1(const qn_gemm_tile *t)                         \
    {                                                                          \
        tile(t, rows, 1, 1);                                                   \
    }                                                                          \
    static void tile_##rows##x2(const qn_gemm_tile *t)                         \
    {                                                                          \
        tile(t, rows, 1, 2);                                                   \
    }
TILE(1)
TILE(2)
TILE(3)
TILE(4)
TILE(5)
TILE(6)
#if QN_GEMM_MR == 12
TILE(7)
TILE(8)
TILE(9)
TILE(10)
TILE(11)
TILE(12)
#define TILES(nv)                                                              \
    { tile_1x##nv, tile_2x##nv, tile_3x##nv, tile_4x##nv, tile_5x##nv,         \
      tile_6x##nv, tile_7x##nv, tile_8x##nv, tile_9x##nv, tile_10x##nv,        \
      tile_11x##nv, tile_12x##nv }
#else
#define TILES(nv)                                                              \
    { tile_1x##nv, tile_2x##nv, tile_3x##nv, tile_4x##nv, tile_5x##nv,         \
      tile_6x##nv }
#endif

static void wide_1(const qn_gemm_tile *t)
{
    tile(t, 1, 4, 2);
}

static void wide_2(const qn_gemm_tile *t)
{
    tile(t, 2, 2, 2);
}

/* ---- depthwise ---- */

enum { MAX_PIXELS = 4, MAX_COLUMNS = 3 * 2 + 5 };

/*
 * Channels [i, i + n) of `pixels` neighbours: they share the loads of weights,
 * and of the columns that their windows have in common. Constant kw and stride
 * (dilation 1); kw 0: as in d.
 */
QN_INLINE void channels_at(const qn_depthwise *d, int64_t p, size_t i,
                           const int pixels, const int kw, const int stride,
                           const int n)
{
    vec acc[MAX_PIXELS];
    UNROLL
    for (int q = 0; q < pixels; q++)
        acc[q] = vec_zero();
    for (size_t r = 0; r < d->kh; r++) {
        const float *const *a = d->a + r * d->a_step + (size_t)p * d->stride;
        const float *w = d->w + r * d->kw * d->channels + i;
        if (kw) {
            const int columns = (pixels - 1) * stride + kw;
            vec x[MAX_COLUMNS];
            UNROLL
            for (int k = 0; k < columns; k++)
                x[k] = vec_load_part(a[k] + i, n);
            UNROLL
            for (int t = 0; t < kw; t++) {
                vec v = vec_load_part(w + (size_t)t * d->channels, n);
                UNROLL
                for (int q = 0; q < pixels; q++)
                    acc[q] = vec_fma(x[q * stride + t], v, acc[q]);
            }
            continue;
        }
        for (size_t t = 0; t < d->kw; t++) {
            vec v = vec_load_part(w + t * d->channels, n);
            UNROLL
            for (int q = 0; q < pixels; q++) {
                const float *x = a[(size_t)q * d->stride + t * d->dilation];
                acc[q] = vec_fma(vec_load_part(x + i, n), v, acc[q]);
            }
        }
    }
    UNROLL
    for (int q = 0; q < pixels; q++) {
        size_t row = (size_t)(p + q);
        if (d->bias)
            acc[q] = vec_add(acc[q], vec_load_part(d->bias + i, n));
        if (d->residual)
            acc[q] = vec_add(acc[q],
                             vec_load_part(d->residual + row * d->ldr + i, n));
        if (d->clamp)
            acc[q] = vec_min(vec_set(d->high),
                             vec_max(vec_set(d->low), acc[q]));
        vec_store_part(d->c + row * d->ldc + i, acc[q], n);
    }
}

QN_INLINE void pixels_at(const qn_depthwise *d, int64_t p, const int pixels,
                         const int kw, const int stride)
{
    size_t i = 0;
    for (; i + VEC <= d->channels; i += VEC)
        channels_at(d, p, i, pixels, kw, stride, VEC);
    if (i < d->channels)
        channels_at(d, p, i, pixels, kw, stride, (int)(d->channels - i));
}

QN_INLINE void row_of(const qn_depthwise *d, const int kw, const int stride)
{
    int64_t p = 0;
    for (; p + MAX_PIXELS <= d->pixels; p += MAX_PIXELS)
        pixels_at(d, p, MAX_PIXELS, kw, stride);
    for (; p < d->pixels; p++)
        pixels_at(d, p, 1, kw, stride);
}

static void depthwise(const qn_depthwise *d)
{
    const size_t s = d->dilation == 1 ? d->stride : 0;
    if (d->kw == 3 && s == 1)
        row_of(d, 3, 1);
    else if (d->kw == 3 && s == 2)
        row_of(d, 3, 2);
    else if (d->kw == 5 && s == 1)
        row_of(d, 5, 1);
    else if (d->kw == 5 && s == 2)
        row_of(d, 5, 2);
    else
        row_of(d, 0, 0);
}

static void axpy(float *y, const float *x, size_t step, float w, size_t n,
                 bool first)
{
    size_t i = 0;
    const vec v = vec_set(w);
    if (step == 1)
        for (; i < n; i += VEC) {
            int part = n - i < VEC ? (int)(n - i) : VEC;
            vec s = first ? vec_zero() : vec_load_part(y + i, part);
            vec_store_part(y + i, vec_fma(v, vec_load_part(x + i, part), s),
                           part);
        }
    for (; i < n; i += VEC) {
        int part = n - i < VEC ? (int)(n - i) : VEC;
        float lane[VEC] = { 0 };
        for (int k = 0; k < part; k++)
            lane[k] = x[(i + (size_t)k) * step];
        vec s = first ? vec_zero() : vec_load_part(y + i, part);
        vec_store_part(y + i, vec_fma(v, vec_load(lane), s), part);
    }
}

/* ---- activations that are not a clamp ---- */

static void act(qn_act kind, float a, float b, float *x, size_t n)
{
    switch (kind) {
    case QN_ACT_LEAKY:
        for (size_t i = 0; i < n; i++)
            x[i] = x[i] < 0.0f ? a * x[i] : x[i];
        break;
    case QN_ACT_SIGMOID:
        for (size_t i = 0; i < n; i++)
            x[i] = qn_sigmoid_f32(x[i]);
        break;
    case QN_ACT_TANH:
        for (size_t i = 0; i < n; i++)
            x[i] = qn_tanh_f32(x[i]);
        break;
    case QN_ACT_HARD_SIGMOID:
        for (size_t i = 0; i < n; i++) {
            float y = a * x[i] + b;
            y = y > 1.0f ? 1.0f : y;
            x[i] = y < 0.0f ? 0.0f : y;
        }
        break;
    case QN_ACT_HARD_SWISH:
        for (size_t i = 0; i < n; i++) {
            float y = x[i] * (1.0f / 6.0f) + 0.5f;
            y = y > 1.0f ? 1.0f : y;
            x[i] *= y < 0.0f ? 0.0f : y;
        }
        break;
    case QN_ACT_NONE:
    case QN_ACT_RELU:
    case QN_ACT_CLIP:
        break;
    }
}

const qn_gemm_isa QN_ISA_FN(qn_gemm_kernels) = {
    .mr = QN_GEMM_MR,
    .vec = VEC,
    .tile = { TILES(1), TILES(2) },
    .wide = { wide_1, wide_2 },
    .depthwise = depthwise,
    .axpy = axpy,
    .act = act,
};

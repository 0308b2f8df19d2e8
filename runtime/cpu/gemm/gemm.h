/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single-precision matrix product, C = act(alpha A B + bias + residual), and
 * its indirect form for convolution (Dukhan, "The Indirect Convolution
 * Algorithm", arXiv 1907.02129).
 *
 *   A   rows given by pointers, each [depth] floats, for each of `taps` taps:
 *       a plain matrix is one tap with pointers one row stride apart; a
 *       convolution on [H, W, C] has one pointer per kernel tap and output
 *       pixel, to a pixel of the input or to a row of zeros
 *   B   packed in panels of `nr` columns: panel p at B + p * nr * K, in it
 *       [K][width]; width is nr, or less (a multiple of the vector) in the
 *       last panel. K = taps * depth, taps outermost
 *   C   rows one stride apart, written once
 *
 * Each element of C is one chain of multiply-adds over k = 0, 1 ... K-1 into
 * one accumulator, then the epilogue. Nothing else enters: neither the number
 * of rows, nor the place of a tile, nor the thread count changes a bit. Where K
 * is cut to bound a buffer, the accumulator goes through memory, which is exact.
 *
 * Rejected: oneDNN (a heap call per launch, gone bits between batch sizes on
 * AVX2), packing A (its rows are read in place from L1 at no loss for MR <= 12).
 */
#ifndef QN_CPU_GEMM_GEMM_H
#define QN_CPU_GEMM_GEMM_H

#include "runtime/cpu/isa.h"
#include "runtime/exec/kernel.h"

enum {
    QN_GEMM_MAX_MR = 12,
    QN_GEMM_MAX_NR = 32,
    /* row pointers that one call of qn_gemm_block() may take per tap */
    QN_GEMM_MAX_ROWS = 240
};

/* What happens to an element after the sum, in this order. Zero-initialise. */
typedef struct qn_gemm_end {
    bool scale; /* times alpha */
    float alpha;
    const float *bias;     /* [n] or NULL */
    const float *row_bias; /* [m] or NULL */
    const float *residual; /* [m] rows, ldr floats apart, or NULL; may be C */
    size_t ldr;
    qn_act act;
    float act_a, act_b;
} qn_gemm_end;

/* One call of a microkernel: a tile of C. */
typedef struct qn_gemm_tile {
    const float *const *a; /* [taps][a_step] row pointers, first `rows` used */
    size_t a_step, a_off;  /* a_off floats are added to each pointer */
    size_t taps, depth;
    const float *b; /* [taps * depth] steps of ldb floats */
    size_t ldb, b_panel; /* floats to the next panel (wide kernels) */
    float *c;
    size_t ldc;
    int n;               /* columns to write, > 0 */
    bool first, last;    /* parts of a cut K: start from / end in `part` */
    float *part;         /* [rows] of ldp floats, whole vectors */
    size_t ldp;
    float alpha;
    const float *bias, *row_bias, *residual;
    size_t ldr;
    bool clamp;
    float low, high;
} qn_gemm_tile;

typedef void (*qn_gemm_fn)(const qn_gemm_tile *tile);

/*
 * Depthwise convolution, channels last, for `pixels` neighbours of one output
 * row: c[p][i] = act(sum over (r, t) of a[r][p * stride + t * dilation][i] *
 * w[r][t][i] + bias[i] + residual[p][i]), r outermost.
 */
typedef struct qn_depthwise {
    const float *const *a; /* [kh][a_step] columns of input pixels */
    size_t a_step;
    size_t kh, kw, stride, dilation;
    const float *w; /* [kh][kw][channels] */
    size_t channels;
    float *c;
    size_t ldc;
    const float *bias, *residual;
    size_t ldr;
    bool clamp;
    float low, high;
    int64_t pixels;
} qn_depthwise;

/* y[i] = fma(w, x[i * step], y[i]) for i < n: one tap of a plain depthwise
 * row. `first`: y[i] starts from 0. */
typedef void (*qn_axpy_fn)(float *y, const float *x, size_t step, float w,
                           size_t n, bool first);

/* The kernels of one instruction set. */
typedef struct qn_gemm_isa {
    int mr, vec; /* nr = 2 * vec */
    qn_gemm_fn tile[2][QN_GEMM_MAX_MR]; /* [vectors - 1][rows - 1] */
    qn_gemm_fn wide[2]; /* 1 row x 4 panels, 2 rows x 2 panels */
    void (*depthwise)(const qn_depthwise *d);
    qn_axpy_fn axpy;
    /* what `tile` leaves to do: activations other than RELU and CLIP */
    void (*act)(qn_act kind, float a, float b, float *x, size_t n);
} qn_gemm_isa;

QN_ISA_TABLES(qn_gemm_isa, qn_gemm_kernels);

static inline const qn_gemm_isa *qn_gemm_best(void)
{
    return QN_ISA_PICK(qn_gemm_kernels, qn_isa_level());
}

/* ---- packing ---- */

/* Where the elements of B[k][n] lie, k = outer * inner_k + inner: floats (or
 * elements of `dtype`: F32, F16, BF16) from `data`. */
typedef struct qn_gemm_source {
    const void *data;
    qn_dtype dtype;
    int64_t inner_k; /* 0: K is not split, k * s_inner */
    int64_t s_outer, s_inner, s_n;
} qn_gemm_source;

/* Floats that packed B takes; false if that overflows. */
bool qn_gemm_packed_floats(const qn_gemm_isa *isa, int64_t k, int64_t n,
                           size_t *floats);
/* Columns of panel p as stored: nr, or what the tail needs in whole vectors. */
int qn_gemm_panel_width(const qn_gemm_isa *isa, int64_t n, int64_t panel);
/* dst[qn_gemm_packed_floats()], 64-byte aligned. */
void qn_gemm_pack(const qn_gemm_isa *isa, const qn_gemm_source *src, int64_t k,
                  int64_t n, float *dst);
/* dst[k1 - k0][width], columns n0 .. n0 + n, zeros up to width. */
void qn_gemm_pack_panel(const qn_gemm_source *src, int64_t k0, int64_t k1,
                        int64_t n0, int n, int width, float *dst);

/* ---- running ---- */

/*
 * Rows [0, m), m <= QN_GEMM_MAX_ROWS, times panels [p0, p1) of packed b
 * [K][n]. `rows` is [taps][step]; c and end->residual point at row 0, column 0
 * of the whole matrix, as does end->bias. On this thread.
 */
typedef struct qn_gemm_block {
    const qn_gemm_isa *isa;
    const float *const *rows;
    size_t step, offset;
    size_t taps, depth;
    int64_t m, n, p0, p1;
    const float *b;
    float *c;
    size_t ldc;
    const qn_gemm_end *end;
} qn_gemm_block;
void qn_gemm_run_block(const qn_gemm_block *block);

/* Sums in pieces: rows of A [m][k] at a (row stride lda), B packed. Threads
 * share the work. No workspace. */
void qn_gemm_run(qn_team *team, const qn_gemm_isa *isa, int64_t m, int64_t n,
                 int64_t k, const float *a, size_t lda, const float *b, float *c,
                 size_t ldc, const qn_gemm_end *end);

/* The same for rows given by pointers [m]; only columns are shared out. */
void qn_gemm_run_rows(qn_team *team, const qn_gemm_isa *isa,
                      const float *const *rows, int64_t m, int64_t n, int64_t k,
                      const float *b, float *c, size_t ldc,
                      const qn_gemm_end *end);

/*
 * The same for B that is made while it runs: `fill` writes columns
 * [n0, n0 + n) of steps [k0, k1) of batch number `batch` into dst[k1-k0][width]
 * (zeros past n). `view` gives the rest of a batch. Both are called from any
 * thread.
 */
typedef struct qn_gemm_view {
    const float *a;
    size_t lda;
    const float *b; /* rows of B, ldb floats apart, where B lies in memory and
                       few rows of A make a copy of it dear; else NULL */
    size_t ldb;
    float *c;
    size_t ldc;
    qn_gemm_end end;
} qn_gemm_view;

typedef struct qn_gemm_made {
    const qn_gemm_isa *isa;
    int64_t batches, m, n, k;
    void (*view)(const void *arg, int64_t batch, qn_gemm_view *out);
    void (*fill)(const void *arg, int64_t batch, int64_t k0, int64_t k1,
                 int64_t n0, int n, int width, float *dst);
    const void *arg;
    float *workspace; /* qn_gemm_made_floats() for each thread, aligned */
} qn_gemm_made;
/* Floats of workspace per thread; depends on shapes only. */
size_t qn_gemm_made_floats(const qn_gemm_isa *isa, int64_t m, int64_t n,
                           int64_t k);
void qn_gemm_run_made(qn_team *team, const qn_gemm_made *g);

/* Whether a kernel clamps for this activation, and to what. */
bool qn_gemm_clamp(const qn_gemm_end *end, float *low, float *high);

#endif

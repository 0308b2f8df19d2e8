/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for libcublasLt.so.13: one product.
 *
 * The call checks what a card would not tell: ranges, overlaps, alignments
 * promised to the heuristic, the size of the workspace. The arithmetic runs on
 * the stream's thread. The workspace is overwritten with NaN first, so that a
 * plan that lends it to somebody else is found out. */
#include "tests/cuda/emu/blas.h"
#include "tests/cuda/emu/emu.h"
#include "tests/cuda/emu/libmac.h"
#include "tests/cuda/emu/libnum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct call {
    struct qn_blas_product p;
    const char *a, *b, *c;
    char *d, *workspace;
    size_t workspace_bytes;
    double alpha, beta;
    uint32_t kind;
};

/* Element (i, j) of op(matrix) in elements from the matrix's start. */
struct walk {
    size_t row, col;
};

static struct walk walk_of(const struct qn_blas_layout *l, bool transposed)
{
    bool by_column = (l->order == CUBLASLT_ORDER_COL) != transposed;
    return by_column ? (struct walk){ 1, (size_t)l->ld }
                     : (struct walk){ (size_t)l->ld, 1 };
}

static double load(uint32_t type, const char *base, size_t index)
{
    uint16_t narrow;
    float single;
    double wide;
    switch (type) {
    case CUDA_R_16F:
        memcpy(&narrow, base + index * 2, 2);
        return (double)qn_num_from_half(narrow);
    case CUDA_R_16BF:
        memcpy(&narrow, base + index * 2, 2);
        return (double)qn_num_from_bf16(narrow);
    case CUDA_R_32F:
        memcpy(&single, base + index * 4, 4);
        return (double)single;
    default:
        memcpy(&wide, base + index * 8, 8);
        return wide;
    }
}

static void store(uint32_t type, char *base, size_t index, double v)
{
    uint16_t narrow;
    float single = (float)v;
    switch (type) {
    case CUDA_R_16F:
        narrow = qn_num_to_half(single);
        memcpy(base + index * 2, &narrow, 2);
        break;
    case CUDA_R_16BF:
        narrow = qn_num_to_bf16(single);
        memcpy(base + index * 2, &narrow, 2);
        break;
    case CUDA_R_32F:
        memcpy(base + index * 4, &single, 4);
        break;
    default:
        memcpy(base + index * 8, &v, 8);
        break;
    }
}

/* An operand as the multiplier sees it. */
static float operand(const struct qn_blas_product *p, const char *base,
                     size_t index)
{
    float v = (float)load(p->a.type, base, index);
    switch (p->op.compute) {
    case CUBLAS_COMPUTE_32F_FAST_TF32:
        return qn_num_tf32(v);
    case CUBLAS_COMPUTE_32F_FAST_16F:
        return qn_num_from_half(qn_num_to_half(v));
    case CUBLAS_COMPUTE_32F_FAST_16BF:
        return qn_num_from_bf16(qn_num_to_bf16(v));
    default:
        return v;
    }
}

/* The tanh form, as the real epilogue. ReLU turns NaN into 0. */
static double activation(uint32_t epilogue, double x)
{
    if (epilogue & CUBLASLT_EPILOGUE_RELU)
        return x > 0 ? x : 0;
    if (epilogue & CUBLASLT_EPILOGUE_GELU)
        return 0.5 * x *
               (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    return x;
}

/* D(i, j) from the sum of products. */
static void finish(const struct call *x, size_t batch, size_t i, size_t j,
                   double sum)
{
    const struct qn_blas_product *p = &x->p;
    struct walk wc = walk_of(&p->c, false), wd = walk_of(&p->d, false);
    double v = x->alpha * sum;
    if (x->beta != 0)
        v += x->beta * load(p->c.type, x->c,
                            batch * (size_t)p->c.batch_stride + i * wc.row +
                                j * wc.col);
    if (p->op.epilogue & CUBLASLT_EPILOGUE_BIAS)
        v += load(p->bias_type, p->op.bias,
                  batch * (size_t)p->op.bias_stride + i);
    store(p->d.type, x->d,
          batch * (size_t)p->d.batch_stride + i * wd.row + j * wd.col,
          activation(p->op.epilogue, v));
}

static void multiply_wide(const struct call *x, size_t batch)
{
    const struct qn_blas_product *p = &x->p;
    struct walk wa = walk_of(&p->a, p->op.trans_a != CUBLAS_OP_N);
    struct walk wb = walk_of(&p->b, p->op.trans_b != CUBLAS_OP_N);
    size_t a0 = batch * (size_t)p->a.batch_stride;
    size_t b0 = batch * (size_t)p->b.batch_stride;
    for (size_t j = 0; j < p->n; j++)
        for (size_t i = 0; i < p->m; i++) {
            double sum = 0;
            for (size_t l = 0; l < p->k; l++)
                sum += load(p->a.type, x->a, a0 + i * wa.row + l * wa.col) *
                       load(p->b.type, x->b, b0 + l * wb.row + j * wb.col);
            finish(x, batch, i, j, sum);
        }
}

/* [panels of `width`][k][width], zeros after the last row. */
static void pack(const struct qn_blas_product *p, const char *base, size_t start,
                 size_t outer, size_t inner, size_t from, size_t count,
                 size_t width, float *out)
{
    memset(out, 0, width * p->k * sizeof *out);
    for (size_t l = 0; l < p->k; l++)
        for (size_t i = 0; i < width && i < count; i++)
            out[l * width + i] =
                operand(p, base, start + (from + i) * outer + l * inner);
}

static void tile_out(const struct call *x, size_t batch, size_t i0, size_t j0,
                     const float *sums)
{
    for (size_t i = i0; i < x->p.m && i < i0 + QN_MAC_ROWS; i++)
        for (size_t j = j0; j < x->p.n && j < j0 + QN_MAC_COLS; j++)
            finish(x, batch, i, j,
                   (double)sums[(i - i0) * QN_MAC_COLS + j - j0]);
}

static void multiply(const struct call *x, size_t batch, float *left,
                     float *right)
{
    const struct qn_blas_product *p = &x->p;
    struct walk wa = walk_of(&p->a, p->op.trans_a != CUBLAS_OP_N);
    struct walk wb = walk_of(&p->b, p->op.trans_b != CUBLAS_OP_N);
    size_t half = x->kind == QN_BLAS_SPLIT ? p->k / 2 : p->k;
    for (size_t i = 0; i < p->m; i += QN_MAC_ROWS)
        pack(p, x->a, batch * (size_t)p->a.batch_stride, wa.row, wa.col, i,
             p->m - i, QN_MAC_ROWS, left + i * p->k);
    for (size_t j = 0; j < p->n; j += QN_MAC_COLS) {
        pack(p, x->b, batch * (size_t)p->b.batch_stride, wb.col, wb.row, j,
             p->n - j, QN_MAC_COLS, right);
        for (size_t i = 0; i < p->m; i += QN_MAC_ROWS) {
            float sums[QN_MAC_ROWS * QN_MAC_COLS], more[sizeof sums / 4];
            const float *rows = left + i * p->k;
            qn_mac_tile(rows, right, half, sums);
            if (half < p->k) {
                qn_mac_tile(rows + half * QN_MAC_ROWS,
                            right + half * QN_MAC_COLS, p->k - half, more);
                for (size_t e = 0; e < sizeof sums / sizeof sums[0]; e++)
                    sums[e] += more[e];
            }
            tile_out(x, batch, i, j, sums);
        }
    }
}

static void run(void *arg)
{
    const struct call *x = arg;
    const struct qn_blas_product *p = &x->p;
    if (x->workspace_bytes)
        memset(x->workspace, 0xff, x->workspace_bytes);
    size_t panels = (p->m + QN_MAC_ROWS - 1) / QN_MAC_ROWS;
    float *left = NULL, *right = NULL;
    if (p->a.type != CUDA_R_64F) {
        left = malloc(panels * QN_MAC_ROWS * p->k * sizeof *left);
        right = malloc(QN_MAC_COLS * p->k * sizeof *right);
        if (!left || !right) {
            qn_emu_report("cublasLtMatmul: no host memory to emulate with");
            goto done;
        }
    }
    for (size_t batch = 0; batch < (size_t)p->d.batch; batch++)
        if (left)
            multiply(x, batch, left, right);
        else
            multiply_wide(x, batch);
done:
    free(left);
    free(right);
}

/* --- what is checked at the call */

/* Bytes from the first to behind the last element. */
static size_t extent(const struct qn_blas_layout *l)
{
    bool col = l->order == CUBLASLT_ORDER_COL;
    uint64_t minor = col ? l->rows : l->cols, major = col ? l->cols : l->rows;
    return (size_t)((uint64_t)(l->batch - 1) * (uint64_t)l->batch_stride +
                    (major - 1) * (uint64_t)l->ld + minor) *
           qn_blas_size(l->type);
}

static bool overlap(const void *a, size_t na, const void *b, size_t nb)
{
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return na && nb && x < y + nb && y < x + na;
}

static bool range(const char *name, const void *at, size_t bytes)
{
    if (qn_emu_device_range(at, bytes))
        return true;
    qn_emu_report("cublasLtMatmul: %s at %p, %zu bytes, is not device memory",
                  name, at, bytes);
    return false;
}

static bool addresses_ok(const struct call *x, const struct qn_blas_algo *algo)
{
    const struct qn_blas_product *p = &x->p;
    size_t nd = extent(&p->d), bias = qn_blas_size(p->bias_type);
    bool ok = range("A", x->a, extent(&p->a));
    ok = range("B", x->b, extent(&p->b)) && ok;
    ok = range("D", x->d, nd) && ok;
    if (x->beta != 0)
        ok = range("C", x->c, extent(&p->c)) && ok;
    if (x->workspace_bytes)
        ok = range("workspace", x->workspace, x->workspace_bytes) && ok;
    bool has_bias = p->op.epilogue & CUBLASLT_EPILOGUE_BIAS;
    size_t bias_bytes =
        (p->m + (size_t)(p->d.batch - 1) * (size_t)p->op.bias_stride) * bias;
    if (has_bias)
        ok = range("bias", p->op.bias, bias_bytes) && ok;
    const struct {
        const char *name;
        const void *at;
        uint32_t promised;
        size_t bytes;
    } in[] = { { "A", x->a, algo->align[0], extent(&p->a) },
               { "B", x->b, algo->align[1], extent(&p->b) },
               { "C", x->beta != 0 ? x->c : NULL, algo->align[2],
                 x->beta != 0 && x->c != x->d ? extent(&p->c) : 0 },
               { "bias", has_bias ? p->op.bias : NULL, algo->bias_align,
                 has_bias ? bias_bytes : 0 },
               { "D", x->d, algo->align[3], 0 } };
    for (size_t i = 0; i < sizeof in / sizeof in[0]; i++) {
        if (in[i].promised && (uintptr_t)in[i].at % in[i].promised != 0) {
            qn_emu_report("cublasLtMatmul: %s at %p, the algorithm was chosen "
                          "for %u-byte alignment",
                          in[i].name, in[i].at, in[i].promised);
            ok = false;
        }
        if (overlap(x->d, nd, in[i].at, in[i].bytes)) {
            qn_emu_report("cublasLtMatmul: D overlaps %s", in[i].name);
            ok = false;
        }
        if (overlap(x->workspace, x->workspace_bytes, in[i].at, in[i].bytes) ||
            overlap(x->workspace, x->workspace_bytes, x->d, nd)) {
            qn_emu_report("cublasLtMatmul: the workspace overlaps %s",
                          in[i].name);
            ok = false;
        }
    }
    return ok;
}

static double scalar(const struct qn_blas_product *p, const void *at)
{
    return load((uint32_t)p->op.scale, at, 0);
}

/* Without an algorithm the library picks one for the very addresses. */
static void choose(const struct call *x, size_t workspace,
                   struct qn_blas_algo *out)
{
    const uint32_t kinds[] = { QN_BLAS_TENSOR, QN_BLAS_PLAIN };
    const void *at[] = { x->a, x->b, x->beta != 0 ? x->c : NULL, x->d };
    memset(out, 0, sizeof *out);
    for (int i = 0; i < 4; i++)
        out->align[i] = qn_blas_align(at[i], 256);
    out->bias_align = qn_blas_align(x->p.op.bias, 16);
    for (size_t i = 0; i < 2 && !out->kind; i++)
        if (qn_blas_runs(&x->p, kinds[i], out->align, out->bias_align) &&
            qn_blas_workspace(&x->p, kinds[i]) <= workspace)
            out->kind = kinds[i];
}

cublasStatus_t
cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
               const void *alpha, const void *a, cublasLtMatrixLayout_t la,
               const void *b, cublasLtMatrixLayout_t lb, const void *beta,
               const void *c, cublasLtMatrixLayout_t lc, void *d,
               cublasLtMatrixLayout_t ld, const cublasLtMatmulAlgo_t *algo,
               void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
    int fail = qn_emu_fail("cublasLtMatmul");
    if (fail)
        return (cublasStatus_t)fail;
    if (!qn_blas_handle_ok(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    qn_blas_handle_current(handle, "cublasLtMatmul");
    struct call x = { .a = a, .b = b, .c = c, .d = d };
    cublasStatus_t st = qn_blas_product_of(desc, la, lb, lc, ld, &x.p);
    if (st != CUBLAS_STATUS_SUCCESS)
        return st;
    if (!alpha || !beta || !a || !b || !d)
        return CUBLAS_STATUS_INVALID_VALUE;
    x.alpha = scalar(&x.p, alpha);
    x.beta = scalar(&x.p, beta);
    bool has_bias = x.p.op.epilogue & CUBLASLT_EPILOGUE_BIAS;
    if ((x.beta != 0 && !c) || (has_bias && !x.p.op.bias))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (c == d && memcmp(&x.p.c, &x.p.d, sizeof x.p.c) != 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (workspace_bytes && (!workspace || (uintptr_t)workspace % 256 != 0)) {
        qn_emu_report("cublasLtMatmul: workspace of %zu bytes at %p",
                      workspace_bytes, workspace);
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    struct qn_blas_algo chosen;
    if (algo)
        memcpy(&chosen, algo, sizeof chosen);
    else
        choose(&x, workspace_bytes, &chosen);
    if (algo && (chosen.magic != QN_BLAS_ALGO ||
                 chosen.traits != qn_blas_traits(&x.p)))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!qn_blas_runs(&x.p, chosen.kind, chosen.align, chosen.bias_align))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    x.kind = chosen.kind;
    x.workspace = workspace;
    x.workspace_bytes = qn_blas_workspace(&x.p, chosen.kind);
    if (x.workspace_bytes > workspace_bytes) {
        qn_emu_report("cublasLtMatmul: workspace of %zu bytes, the algorithm "
                      "needs %zu",
                      workspace_bytes, x.workspace_bytes);
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (!addresses_ok(&x, &chosen))
        return CUBLAS_STATUS_INVALID_VALUE;
    return qn_emu_enqueue(stream, run, &x, sizeof x, "blas.matmul")
               ? CUBLAS_STATUS_EXECUTION_FAILED
               : CUBLAS_STATUS_SUCCESS;
}

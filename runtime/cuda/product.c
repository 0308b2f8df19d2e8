/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How C, a bias and a residual get into one call of the library:
 *
 *   C [n], beta 1            the bias of the epilogue
 *   C [m, n]                 the C operand
 *   C of any other kind      spread over the output first, then the C operand,
 *                            so that 16-bit results are still rounded once
 *   residual                 the C operand, where C itself does not need it
 *   Relu                     the epilogue; other activations by a kernel behind
 */
#include "runtime/cuda/product.h"
#include "runtime/cuda/blas.h"
#include "runtime/cuda/kernels/act.h"
#include "runtime/cuda/kernels/matmul.h"

#include "runtime/base/checked.h"

#include <string.h>

enum {
    LOOPS = 64, /* calls of the library for one batch, at most */
    THREADS = 256
};

_Static_assert((int)QN_DEVICE_ACT_HARD_SWISH == (int)QN_ACT_HARD_SWISH &&
                   (int)QN_DEVICE_ACT_CLIP == (int)QN_ACT_CLIP,
               "device code has numbers of its own for qn_act");

/* One dimension of a batch after collapsing; steps in matrices. */
typedef struct digit {
    int64_t n, a, b, out;
} digit;

struct qn_cuda_product {
    qn_cuda_gemm_plan lib;
    bool by_lib;
    bool c_operand, c_bias, spread, residual_operand, finish;
    /* calls of the library: number i has its digits here, `inner` is its batch */
    int n_outer;
    digit outer[QN_MAX_RANK];
    int64_t calls;
    size_t size_in, size_out;
    int64_t a_matrix, b_matrix, out_matrix; /* elements */
    /* operands rounded to 16 bits, in the workspace */
    int64_t a_elements, b_elements;
    size_t cast_b, lib_workspace; /* offsets; A's is 0 */
    const qn_cuda_fn *cast_fn, *spread_fn, *finish_fn, *own_fn;
    qn_cuda_grid cast_a_grid, cast_b_grid, spread_grid, finish_grid, own_grid;
    struct qn_matmul_args own;
    struct qn_matmul_spread_args spread_args;
    struct qn_matmul_finish_args finish_args;
};

/* ---- batches ---- */

/* Drops dimensions of one, joins neighbours whose steps run on. */
static int collapse(const qn_cuda_product_of *of, digit *out)
{
    int n = 0;
    int64_t run = 1;
    for (int i = of->rank - 1; i >= 0; i--) {
        const digit d = { of->dims[i], of->step_a[i], of->step_b[i], run };
        run *= d.n;
        if (d.n == 1)
            continue;
        digit *last = n ? &out[n - 1] : NULL;
        if (last && d.a == last->a * last->n && d.b == last->b * last->n)
            last->n *= d.n;
        else
            out[n++] = d;
    }
    return n;
}

/* The longest digit is the library's batch, the others are calls. */
static digit take_inner(digit *d, int *n)
{
    digit inner = { 1, 0, 0, 0 };
    int at = -1;
    for (int i = 0; i < *n; i++)
        if (at < 0 || d[i].n > d[at].n)
            at = i;
    if (at < 0)
        return inner;
    inner = d[at];
    for (int i = at; i + 1 < *n; i++)
        d[i] = d[i + 1];
    --*n;
    return inner;
}

/* Matrices of an operand: one more than the farthest that is reached. */
static int64_t reach(const qn_cuda_product_of *of, const int64_t *step)
{
    int64_t last = 0;
    for (int i = 0; i < of->rank; i++)
        last += (of->dims[i] - 1) * step[i];
    return last + 1;
}

/* ---- the own kernel ---- */

static const char *own_name(qn_dtype in, qn_dtype out)
{
    if (in != out)
        return in == QN_F16 ? "matmul_f16_f32" : "matmul_bf16_f32";
    switch (in) {
    case QN_F32:
        return "matmul_f32";
    case QN_F64:
        return "matmul_f64";
    case QN_F16:
        return "matmul_f16";
    case QN_BF16:
        return "matmul_bf16";
    case QN_I32:
    case QN_U32:
        return "matmul_u32";
    default:
        return "matmul_u64";
    }
}

static qn_status own_prepare(qn_prepare *q, const qn_cuda_product_of *of,
                             int64_t batches, qn_cuda_product *p, qn_error *err)
{
    struct qn_matmul_args *a = &p->own;
    int64_t tiles;
    *a = (struct qn_matmul_args){
        .m = of->m, .n = of->n, .k = of->k, .batches = batches,
        .a_row = of->trans_a ? 1 : of->k, .a_col = of->trans_a ? of->m : 1,
        .b_row = of->trans_b ? 1 : of->n, .b_col = of->trans_b ? of->k : 1,
        .c_row = of->c_rows > 1 ? of->c_cols : 0, .c_col = of->c_cols > 1,
        .tiles_m = (of->m + QN_MATMUL_TILE - 1) / QN_MATMUL_TILE,
        .tiles_n = (of->n + QN_MATMUL_TILE - 1) / QN_MATMUL_TILE,
        .alpha = of->alpha, .beta = of->beta, .rank = of->rank,
        .act = (int32_t)of->act, .act_a = of->act_a, .act_b = of->act_b,
    };
    _Static_assert((int)QN_MATMUL_RANK >= (int)QN_MAX_RANK, "digits of a batch");
    for (int i = 0; i < of->rank; i++) {
        a->dims[i] = of->dims[i];
        a->step_a[i] = of->step_a[i] * of->m * of->k;
        a->step_b[i] = of->step_b[i] * of->k * of->n;
    }
    if (!qn_mul_i64(a->tiles_m, a->tiles_n, &tiles) ||
        !qn_mul_i64(tiles, batches, &tiles))
        return qn_fail(err, QN_TOO_LARGE, "product of %lld x %lld x %lld",
                       (long long)of->m, (long long)of->n, (long long)of->k);
    p->own_grid = (qn_cuda_grid){
        .grid = { (uint32_t)(tiles < INT32_MAX ? tiles : INT32_MAX) },
        .block = { QN_MATMUL_THREADS } };
    return qn_cuda_find(q->accel, "matmul", own_name(of->in, of->out),
                        &p->own_fn, err);
}

/* ---- the library ---- */

static bool library_type(qn_dtype t)
{
    return t == QN_F32 || t == QN_F64 || t == QN_F16 || t == QN_BF16;
}

/* 16-bit type that float operands are rounded to, or QN_NONE. */
static qn_dtype rounded(const qn_cuda_product_of *of)
{
    if (of->in != QN_F32)
        return QN_NONE;
    return of->precision == QN_PRECISION_FP16   ? QN_F16
           : of->precision == QN_PRECISION_BF16 ? QN_BF16
                                                : QN_NONE;
}

static qn_status ask(qn_prepare *q, const qn_cuda_product_of *of, bool fuse,
                     const digit *inner, qn_cuda_product *p, qn_error *err)
{
    const qn_dtype to = rounded(of);
    const bool whole = of->c_rows * of->c_cols == of->m * of->n;
    qn_cuda_gemm g = {
        .in = to ? to : of->in, .out = of->out,
        .tf32 = of->precision == QN_PRECISION_TF32,
        .trans_a = of->trans_a, .trans_b = of->trans_b,
        .m = of->m, .n = of->n, .k = of->k, .batches = inner->n,
        .step_a = inner->a * of->m * of->k, .step_b = inner->b * of->k * of->n,
        .step_d = inner->out * of->m * of->n, .alpha = of->alpha,
    };
    p->c_operand = p->c_bias = p->spread = p->residual_operand = false;
    if (of->c_cols) {
        p->c_operand = whole && inner->n == 1 && p->calls == 1;
        p->c_bias = !p->c_operand && fuse && of->beta == 1 &&
                    of->c_rows == 1 && of->c_cols == of->n;
        p->spread = !p->c_operand && !p->c_bias;
        g.bias = p->c_bias;
        g.beta = p->c_bias ? 0 : of->beta;
    }
    p->residual_operand = of->residual && !p->c_operand && !p->spread;
    if (p->residual_operand)
        g.beta = 1;
    g.relu = fuse && of->act == QN_ACT_RELU;
    p->finish = of->act != QN_ACT_NONE && !g.relu;
    p->by_lib = false;
    /* an output that is spread over first cannot be the residual too */
    if (of->residual && !p->residual_operand)
        return QN_OK;
    return qn_cuda_gemm_plan_make(q->accel, &g, &p->lib, &p->by_lib, err);
}

/* With only the algorithm for addresses on 16 bytes, each call must have them. */
static bool steps_aligned(const qn_cuda_product *p, size_t in)
{
    for (int i = 0; i < p->n_outer; i++) {
        const digit *d = &p->outer[i];
        if ((size_t)(d->a * p->a_matrix) * in % 16 ||
            (size_t)(d->b * p->b_matrix) * in % 16 ||
            (size_t)(d->out * p->out_matrix) * p->size_out % 16)
            return false;
    }
    return true;
}

static qn_status choose(qn_prepare *q, const qn_cuda_product_of *of,
                        qn_cuda_product *p, qn_error *err)
{
    digit inner;
    p->n_outer = collapse(of, p->outer);
    inner = take_inner(p->outer, &p->n_outer);
    p->calls = 1;
    for (int i = 0; i < p->n_outer; i++)
        if (!qn_mul_i64(p->calls, p->outer[i].n, &p->calls))
            p->calls = INT64_MAX;
    if (!library_type(of->in) || !of->k || p->calls > LOOPS)
        return QN_OK;
    const bool plain = of->act == QN_ACT_NONE && !of->c_cols;
    qn_status st = QN_OK;
    if (of->in != QN_F64 && !plain)
        st = ask(q, of, true, &inner, p, err);
    if (st == QN_OK && !p->by_lib)
        st = ask(q, of, false, &inner, p, err);
    if (st == QN_OK && p->by_lib && !p->lib.found[1] &&
        !steps_aligned(p, qn_dtype_size(p->lib.g.in)))
        p->by_lib = false;
    return st;
}

/* ---- helpers around a call ---- */

static qn_status helpers(qn_prepare *q, const qn_cuda_product_of *of,
                         int64_t batches, qn_cuda_product *p, size_t *workspace,
                         qn_error *err)
{
    const qn_dtype to = rounded(of);
    const int64_t elements = of->m * of->n * batches;
    qn_status st = QN_OK;
    size_t a, b;
    if (p->spread) {
        p->spread_args = (struct qn_matmul_spread_args){
            .rows = of->m * batches, .m = of->m, .n = of->n,
            .c_row = p->own.c_row, .c_col = p->own.c_col };
        p->spread_grid = qn_cuda_grid_stride(q->accel, elements, 4, THREADS, 4);
        st = qn_cuda_find(q->accel, "matmul",
                          p->size_out == 2   ? "matmul_spread_2"
                          : p->size_out == 4 ? "matmul_spread_4"
                                             : "matmul_spread_8",
                          &p->spread_fn, err);
    }
    if (st == QN_OK && p->finish) {
        p->finish_args = (struct qn_matmul_finish_args){
            .n = elements, .act = (int32_t)of->act, .act_a = of->act_a,
            .act_b = of->act_b };
        p->finish_grid = qn_cuda_grid_stride(q->accel, elements, 4, THREADS, 4);
        st = qn_cuda_find(q->accel, "matmul", "matmul_finish", &p->finish_fn,
                          err);
    }
    if (st == QN_OK && to != QN_NONE) {
        p->a_elements = reach(of, of->step_a) * of->m * of->k;
        p->b_elements = reach(of, of->step_b) * of->k * of->n;
        p->cast_a_grid = qn_cuda_grid_stride(q->accel, p->a_elements, 4,
                                             THREADS, 4);
        p->cast_b_grid = qn_cuda_grid_stride(q->accel, p->b_elements, 4,
                                             THREADS, 4);
        if (!qn_mul_size((size_t)p->a_elements, 2, &a) ||
            !qn_align_size(a, 256, &a) ||
            !qn_mul_size((size_t)p->b_elements, 2, &b) ||
            !qn_align_size(b, 256, &b) || !qn_add_size(a, b, &b))
            return qn_fail(err, QN_TOO_LARGE, "operands of %lld and %lld "
                           "elements", (long long)p->a_elements,
                           (long long)p->b_elements);
        p->cast_b = a;
        p->lib_workspace = b;
        st = qn_cuda_find(q->accel, "matmul",
                          to == QN_F16 ? "matmul_cast_f16" : "matmul_cast_bf16",
                          &p->cast_fn, err);
    }
    *workspace = p->lib_workspace + p->lib.workspace;
    return st;
}

qn_status qn_cuda_product_prepare(qn_prepare *q, const qn_cuda_product_of *of,
                                  const qn_cuda_product **out,
                                  size_t *workspace, qn_error *err)
{
    qn_cuda_product *p = qn_region_alloc(q->region, 1, sizeof *p);
    int64_t batches = 1;
    *out = NULL;
    *workspace = 0;
    if (!p)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for a product");
    for (int i = 0; i < of->rank; i++)
        batches *= of->dims[i];
    *out = p;
    if (!of->m || !of->n || !batches)
        return QN_OK; /* own_fn NULL: nothing to do */
    p->size_in = qn_dtype_size(of->in);
    p->size_out = qn_dtype_size(of->out);
    p->a_matrix = of->m * of->k;
    p->b_matrix = of->k * of->n;
    p->out_matrix = of->m * of->n;
    qn_status st = own_prepare(q, of, batches, p, err);
    if (st == QN_OK)
        st = choose(q, of, p, err);
    if (st == QN_OK && p->by_lib)
        st = helpers(q, of, batches, p, workspace, err);
    return st;
}

/* ---- launch ---- */

static qn_status launch_own(const qn_launch *k, const qn_cuda_product *p,
                            const void *a, const void *b, const void *c,
                            const void *residual, void *out)
{
    struct qn_matmul_args args = p->own;
    args.a = a;
    args.b = b;
    args.c = c;
    args.residual = residual;
    args.out = out;
    return qn_cuda_launch(k, p->own_fn, &p->own_grid, &args);
}

static const void *at(const void *p, int64_t elements, size_t size)
{
    return p ? (const char *)p + (size_t)elements * size : NULL;
}

static qn_status launch_calls(const qn_launch *k, const qn_cuda_product *p,
                              const void *a, const void *b, const void *add,
                              const void *bias, void *out, void *workspace)
{
    const size_t in = qn_dtype_size(p->lib.g.in);
    qn_status st = QN_OK;
    for (int64_t i = 0; st == QN_OK && i < p->calls; i++) {
        int64_t rest = i, ia = 0, ib = 0, io = 0;
        for (int d = 0; d < p->n_outer; d++) {
            const int64_t i_d = rest % p->outer[d].n;
            rest /= p->outer[d].n;
            ia += i_d * p->outer[d].a;
            ib += i_d * p->outer[d].b;
            io += i_d * p->outer[d].out;
        }
        st = qn_cuda_gemm_run(k, &p->lib, at(a, ia * p->a_matrix, in),
                              at(b, ib * p->b_matrix, in),
                              at(add, io * p->out_matrix, p->size_out),
                              (char *)out +
                                  (size_t)(io * p->out_matrix) * p->size_out,
                              bias, workspace);
    }
    return st;
}

static qn_status cast(const qn_launch *k, const qn_cuda_product *p,
                      const qn_cuda_grid *grid, const void *from, void *to,
                      int64_t n)
{
    const struct qn_matmul_cast_args args = { .from = from, .to = to, .n = n };
    return qn_cuda_launch(k, p->cast_fn, grid, &args);
}

qn_status qn_cuda_product_launch(const qn_launch *k, const qn_cuda_product *p,
                                 const void *a, const void *b, const void *c,
                                 const void *residual, void *out,
                                 void *workspace)
{
    const void *add = p->c_operand          ? c
                      : p->residual_operand ? residual
                      : p->spread           ? out
                                            : NULL;
    qn_status st = QN_OK;
    if (!p->own_fn)
        return QN_OK;
    if (!p->by_lib ||
        !qn_cuda_gemm_serves(&p->lib, p->cast_fn ? workspace : a,
                             p->cast_fn ? workspace : b, add,
                             p->c_bias && !p->lib.found[1]
                                 ? (const void *)((uintptr_t)out | (uintptr_t)c)
                                 : out))
        return launch_own(k, p, a, b, c, residual, out);
    if (p->cast_fn) {
        char *to_b = (char *)workspace + p->cast_b;
        st = cast(k, p, &p->cast_a_grid, a, workspace, p->a_elements);
        if (st == QN_OK)
            st = cast(k, p, &p->cast_b_grid, b, to_b, p->b_elements);
        a = workspace;
        b = to_b;
    }
    if (st == QN_OK && p->spread) {
        struct qn_matmul_spread_args args = p->spread_args;
        args.c = c;
        args.out = out;
        st = qn_cuda_launch(k, p->spread_fn, &p->spread_grid, &args);
    }
    if (st == QN_OK)
        st = launch_calls(k, p, a, b, add, p->c_bias ? c : NULL, out,
                          p->lib_workspace
                              ? (char *)workspace + p->lib_workspace : workspace);
    if (st == QN_OK && p->finish) {
        struct qn_matmul_finish_args args = p->finish_args;
        args.out = out;
        st = qn_cuda_launch(k, p->finish_fn, &p->finish_grid, &args);
    }
    return st;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MatMul and Gemm of float, float16 and bfloat16 on the packed product. The
 * 16-bit types are computed in float, a chunk of rows at a time, and rounded
 * once. Constant B is packed at load, other B panel by panel while it runs.
 */
#include "runtime/cpu/matmul.h"
#include "runtime/cpu/tables.h"
#include "runtime/ops/op.h"

#include "runtime/base/checked.h"
#include "runtime/base/half.h"

#include <string.h>

enum { CHUNK = 96 };

/* ---- the product of a node ---- */

static void batch_steps(const qn_shape *s, const qn_shape *out, int rank,
                        int64_t *step)
{
    int64_t run = 1;
    for (int i = 0; i < rank; i++) {
        int at = rank - 1 - i, own = s->rank - 3 - i;
        int64_t d = own >= 0 ? s->dims[own] : 1;
        step[at] = d == 1 && out->dims[at] != 1 ? 0 : run;
        run *= d;
    }
}

static void make_matmul(qn_product *p, const qn_shape *a, const qn_shape *b)
{
    const int wide_a = a->rank > 2 ? a->rank - 2 : 0;
    const int wide_b = b->rank > 2 ? b->rank - 2 : 0;
    const int64_t stack = wide_b ? qn_shape_product(b, 0, wide_b) : 1;

    p->m = a->rank > 1 ? a->dims[a->rank - 2] : 1;
    p->k = a->dims[a->rank - 1];
    p->n = b->rank > 1 ? b->dims[b->rank - 1] : 1;
    p->batches = 1;
    if (stack == 1 && wide_b <= wide_a) {
        /* one B for all: the batch of A is more rows */
        p->m *= qn_shape_product(a, 0, wide_a);
        return;
    }
    qn_shape out = { 0 };
    out.rank = wide_a > wide_b ? wide_a : wide_b;
    for (int i = 0; i < out.rank; i++) {
        int ia = wide_a - 1 - i, ib = wide_b - 1 - i;
        int64_t da = ia >= 0 ? a->dims[ia] : 1, db = ib >= 0 ? b->dims[ib] : 1;
        out.dims[out.rank - 1 - i] = da == 1 ? db : da;
        p->batches *= out.dims[out.rank - 1 - i];
    }
    p->rank = out.rank;
    memcpy(p->dims, out.dims, sizeof p->dims);
    batch_steps(a, &out, out.rank, p->step_a);
    batch_steps(b, &out, out.rank, p->step_b);
}

static void make_gemm(qn_product *p, const qn_node *node, const qn_shape *a,
                      const qn_shape *b)
{
    p->trans_a = qn_node_int(node, "transA", 0) != 0;
    p->trans_b = qn_node_int(node, "transB", 0) != 0;
    p->alpha = qn_node_float(node, "alpha", 1);
    p->beta = qn_node_float(node, "beta", 1);
    p->m = a->dims[p->trans_a];
    p->k = a->dims[!p->trans_a];
    p->n = b->dims[!p->trans_b];
    p->batches = 1;
}

void qn_product_make(qn_product *p, const qn_node *node, uint32_t n_in,
                     const qn_tensor *in)
{
    const qn_shape *a = &in[0].shape, *b = &in[1].shape;
    memset(p, 0, sizeof *p);
    p->isa = qn_gemm_best();
    p->alpha = p->beta = 1;
    p->residual = node->residual ? n_in - 1 : UINT32_MAX;
    if (!strcmp(node->op->name, "Gemm"))
        make_gemm(p, node, a, b);
    else
        make_matmul(p, a, b);
    if (n_in - node->residual > 2 && qn_present(&in[2])) {
        const qn_shape *c = &in[2].shape;
        p->c_cols = c->rank ? c->dims[c->rank - 1] : 1;
        p->c_rows = c->rank > 1 ? c->dims[c->rank - 2] : 1;
    }
}

void qn_product_batch(const qn_product *p, int64_t i, int64_t *a, int64_t *b)
{
    *a = *b = 0;
    for (int d = p->rank - 1; d >= 0; d--) {
        int64_t at = i % p->dims[d];
        i /= p->dims[d];
        *a += at * p->step_a[d];
        *b += at * p->step_b[d];
    }
}

/* ---- constant B ---- */

typedef struct constant {
    qn_gemm_source src;
    int64_t k, n, matrices;
    size_t floats; /* of one packed matrix, a multiple of 16 */
} constant;

static bool constant_of(const qn_node *node, const qn_tensor *b, constant *c)
{
    const qn_shape *s = &b->shape;
    if (s->rank < 1)
        return false;
    int64_t rows = s->rank > 1 ? s->dims[s->rank - 2] : s->dims[0];
    int64_t cols = s->rank > 1 ? s->dims[s->rank - 1] : 1;
    c->k = rows;
    c->n = cols;
    c->src = (qn_gemm_source){ .data = b->data, .dtype = b->dtype,
                               .s_inner = cols, .s_n = 1 };
    if (!strcmp(node->op->name, "Gemm") && qn_node_int(node, "transB", 0)) {
        c->k = cols;
        c->n = rows;
        c->src.s_inner = 1;
        c->src.s_n = cols;
    }
    c->matrices = s->rank > 2 ? qn_shape_product(s, 0, s->rank - 2) : 1;
    return qn_gemm_packed_floats(qn_gemm_best(), c->k, c->n, &c->floats) &&
           qn_align_size(c->floats, 16, &c->floats);
}

static size_t pack_size(const qn_node *node, uint32_t n_in, const qn_tensor *in,
                        uint32_t i)
{
    constant c;
    size_t floats;
    (void)n_in;
    if (i != 1 || !constant_of(node, &in[1], &c) ||
        !qn_mul_size(c.floats, (size_t)c.matrices, &floats) ||
        !qn_mul_size(floats, sizeof(float), &floats))
        return 0;
    return floats;
}

static qn_status pack(const qn_node *node, uint32_t n_in, const qn_tensor *in,
                      uint32_t i, void *dst, qn_error *err)
{
    constant c;
    (void)n_in, (void)i;
    if (!constant_of(node, &in[1], &c))
        return qn_fail(err, QN_INTERNAL, "packing a matrix of unknown shape");
    for (int64_t m = 0; m < c.matrices; m++) {
        qn_gemm_source src = c.src;
        src.data = (const char *)src.data +
                   (size_t)(m * c.k * c.n) * qn_dtype_size(src.dtype);
        qn_gemm_pack(qn_gemm_best(), &src, c.k, c.n,
                     (float *)dst + (size_t)m * c.floats);
    }
    return QN_OK;
}

/* ---- plan ---- */

/* C0 can be the bias or residual of the kernels as it is. */
static bool c_in_place(const qn_product *p, qn_dtype dtype)
{
    if (dtype != QN_F32 || p->beta != 1)
        return false;
    if (p->c_rows == 1)
        return p->c_cols == p->n;
    if (p->c_cols == 1)
        return true; /* c_rows == M */
    return p->residual == UINT32_MAX && p->batches == 1;
}

/* C0 has to be added after the product, by a pass of its own. */
static bool c_after(const qn_product *p, qn_dtype dtype)
{
    return p->c_cols && !c_in_place(p, dtype) && p->c_rows > 1 && p->c_cols > 1;
}

static qn_status prepare(qn_prepare *q, qn_error *err)
{
    const qn_dtype dtype = q->in[0].dtype;
    qn_product *p = qn_region_alloc(q->region, 1, sizeof *p);
    if (!p)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for a product");
    qn_product_make(p, q->node, q->n_in, q->in);
    p->packed = q->packed[1] != NULL;
    if (p->c_cols && !c_in_place(p, dtype) && !c_after(p, dtype))
        p->c_floats = (size_t)(p->c_rows > 1 ? p->m : p->n);
    if (dtype != QN_F32 || p->trans_a) {
        p->chunk = p->packed ? CHUNK : p->m;
        p->chunk = p->chunk < p->m ? p->chunk : p->m;
        if (!qn_mul_size((size_t)p->chunk, (size_t)p->k, &p->a_floats) ||
            !qn_mul_size((size_t)p->chunk, (size_t)p->n, &p->out_floats))
            return qn_fail(err, QN_TOO_LARGE, "workspace of %lld x %lld x %lld",
                           (long long)p->m, (long long)p->n, (long long)p->k);
        if (dtype == QN_F32)
            p->out_floats = 0;
    }
    p->c_floats = (p->c_floats + 15) & ~(size_t)15;
    p->a_floats = (p->a_floats + 15) & ~(size_t)15;
    p->out_floats = (p->out_floats + 15) & ~(size_t)15;
    size_t floats = p->c_floats + p->a_floats + p->out_floats;
    if (!p->packed)
        floats += (size_t)q->max_threads *
                  qn_gemm_made_floats(p->isa, p->m, p->n, p->k);
    if (!qn_mul_size(floats, sizeof(float), &q->workspace))
        return qn_fail(err, QN_TOO_LARGE, "workspace of %zu floats", floats);
    q->state = p;
    return QN_OK;
}

/* ---- launch ---- */

typedef struct product_run {
    const qn_product *p;
    const qn_launch *k;
    qn_dtype dtype;
    size_t size; /* of an element */
    const float *c0; /* prepared vector of input 2, or NULL */
    float *a_chunk, *out_chunk, *threads;
    /* the rows and batch of the current call */
    int64_t r0, batch0;
} product_run;

static float load(const void *data, qn_dtype dtype, int64_t i)
{
    if (dtype == QN_F32)
        return ((const float *)data)[i];
    uint16_t h = ((const uint16_t *)data)[i];
    return dtype == QN_F16 ? qn_f16_to_f32(h) : qn_bf16_to_f32(h);
}

static const char *matrix(const qn_tensor *t, int64_t i, int64_t elements,
                          size_t size)
{
    return (const char *)t->data + (size_t)(i * elements) * size;
}

/* The epilogue for rows from r0 on of a batch. */
static qn_gemm_end end_of(const product_run *r, int64_t batch)
{
    const qn_product *p = r->p;
    const qn_node *node = r->k->node;
    qn_gemm_end end = { .scale = p->alpha != 1, .alpha = p->alpha };
    if (r->c0 && p->c_rows > 1)
        end.row_bias = r->c0 + r->r0;
    else if (r->c0)
        end.bias = r->c0;
    if (p->c_cols && c_in_place(p, r->dtype)) {
        const float *c = r->k->in[2].data;
        if (p->c_rows == 1) {
            end.bias = c;
        } else if (p->c_cols == 1) {
            end.row_bias = c + r->r0;
        } else {
            end.residual = c + (size_t)(r->r0 * p->n);
            end.ldr = (size_t)p->n;
        }
    }
    if (c_after(p, r->dtype))
        return end;
    if (p->residual != UINT32_MAX) {
        end.residual = (const float *)r->k->in[p->residual].data +
                       (size_t)((batch * p->m + r->r0) * p->n);
        end.ldr = (size_t)p->n;
    }
    end.act = node->act;
    end.act_a = node->act_a;
    end.act_b = node->act_b;
    return end;
}

static void view(const void *arg, int64_t batch, qn_gemm_view *v)
{
    const product_run *r = arg;
    const qn_product *p = r->p;
    int64_t ia, ib;
    batch += r->batch0;
    qn_product_batch(p, batch, &ia, &ib);
    v->lda = (size_t)p->k;
    v->ldc = (size_t)p->n;
    v->end = end_of(r, batch);
    if (p->chunk) {
        v->a = r->a_chunk;
    } else {
        v->a = (const float *)(const void *)matrix(&r->k->in[0], ia,
                                                   p->m * p->k, r->size);
        v->a += r->r0 * p->k;
    }
    if (r->dtype != QN_F32)
        v->c = r->out_chunk;
    else
        v->c = (float *)r->k->out[0].data + (batch * p->m + r->r0) * p->n;
    if (r->dtype == QN_F32 && !p->trans_b && p->m <= 2 * p->isa->mr) {
        v->b = (const float *)(const void *)matrix(&r->k->in[1], ib,
                                                   p->k * p->n, r->size);
        v->ldb = (size_t)p->n;
    }
}

static void fill(const void *arg, int64_t batch, int64_t k0, int64_t k1,
                 int64_t n0, int n, int width, float *dst)
{
    const product_run *r = arg;
    const qn_product *p = r->p;
    int64_t ia, ib;
    qn_product_batch(p, batch + r->batch0, &ia, &ib);
    qn_gemm_source src = {
        .data = matrix(&r->k->in[1], ib, p->k * p->n, r->size),
        .dtype = r->dtype,
        .s_inner = p->trans_b ? 1 : p->n,
        .s_n = p->trans_b ? p->k : 1,
    };
    qn_gemm_pack_panel(&src, k0, k1, n0, n, width, dst);
}

/* Batches [b0, b1), `m` rows from r->r0 on. */
static void multiply(product_run *r, int64_t b0, int64_t b1, int64_t m)
{
    const qn_product *p = r->p;
    r->batch0 = b0;
    if (!p->packed) {
        qn_gemm_run_made(r->k->team, &(qn_gemm_made){
            .isa = p->isa, .batches = b1 - b0, .m = m, .n = p->n, .k = p->k,
            .view = view, .fill = fill, .arg = r, .workspace = r->threads });
        return;
    }
    size_t floats = 0;
    if (!qn_gemm_packed_floats(p->isa, p->k, p->n, &floats))
        return; /* cannot be: it was packed */
    floats = (floats + 15) & ~(size_t)15;
    for (int64_t b = b0; b < b1; b++) {
        int64_t ia, ib;
        qn_gemm_view v = { 0 };
        qn_product_batch(p, b, &ia, &ib);
        view(r, b - b0, &v);
        qn_gemm_run(r->k->team, p->isa, m, p->n, p->k, v.a, v.lda,
                    (const float *)r->k->packed[1] + (size_t)ib * floats, v.c,
                    v.ldc, &v.end);
    }
}

static void round_rows(const float *src, void *dst, qn_dtype dtype, int64_t at,
                       int64_t n)
{
    uint16_t *h = (uint16_t *)dst + at;
    for (int64_t i = 0; i < n; i++)
        h[i] = dtype == QN_F16 ? qn_f32_to_f16(src[i]) : qn_f32_to_bf16(src[i]);
}

/* Rows of A through the workspace: transposed or 16-bit. */
static void multiply_chunks(product_run *r, int64_t batch)
{
    const qn_product *p = r->p;
    int64_t ia, ib;
    qn_product_batch(p, batch, &ia, &ib);
    const char *a = matrix(&r->k->in[0], ia, p->m * p->k, r->size);
    const int64_t row = p->trans_a ? 1 : p->k, col = p->trans_a ? p->m : 1;
    for (r->r0 = 0; r->r0 < p->m; r->r0 += p->chunk) {
        int64_t m = p->m - r->r0 < p->chunk ? p->m - r->r0 : p->chunk;
        for (int64_t i = 0; i < m; i++)
            for (int64_t k = 0; k < p->k; k++)
                r->a_chunk[i * p->k + k] =
                    load(a, r->dtype, (r->r0 + i) * row + k * col);
        multiply(r, batch, batch + 1, m);
        if (r->dtype != QN_F32 && !c_after(p, r->dtype))
            round_rows(r->out_chunk, r->k->out[0].data, r->dtype,
                       (batch * p->m + r->r0) * p->n, m * p->n);
        else if (r->dtype != QN_F32) {
            for (int64_t i = 0; i < m * p->n; i++)
                r->out_chunk[i] += p->beta * load(r->k->in[2].data, r->dtype,
                                                  r->r0 * p->n + i);
            round_rows(r->out_chunk, r->k->out[0].data, r->dtype,
                       (batch * p->m + r->r0) * p->n, m * p->n);
        }
    }
}

/* out = act(out + beta C0 + residual), where C0 is a matrix (Gemm only). */
static void add_matrix(const product_run *r)
{
    const qn_product *p = r->p;
    const qn_node *node = r->k->node;
    const float *c = r->k->in[2].data;
    const float *res = p->residual != UINT32_MAX
                           ? r->k->in[p->residual].data : NULL;
    float *out = r->k->out[0].data, low, high;
    qn_gemm_end end = { .act = node->act, .act_a = node->act_a,
                        .act_b = node->act_b };
    bool clamp = qn_gemm_clamp(&end, &low, &high);
    for (int64_t i = 0; i < p->m * p->n; i++) {
        float x = out[i] + p->beta * c[i];
        if (res)
            x += res[i];
        if (clamp)
            x = x < low ? low : x > high ? high : x;
        out[i] = x;
    }
    p->isa->act(end.act, end.act_a, end.act_b, out, (size_t)(p->m * p->n));
}

static qn_status launch(const qn_launch *k)
{
    const qn_product *p = k->state;
    product_run r = { .p = p, .k = k, .dtype = k->in[0].dtype,
                      .size = qn_dtype_size(k->in[0].dtype) };
    float *ws = k->workspace;
    if (!p->m || !p->n || !p->batches)
        return QN_OK;
    if (p->c_floats) {
        int64_t n = p->c_rows > 1 ? p->m : p->n;
        int64_t by = p->c_rows > 1 || p->c_cols > 1;
        for (int64_t i = 0; i < n; i++)
            ws[i] = p->beta * load(k->in[2].data, r.dtype, i * by);
        r.c0 = ws;
    }
    r.a_chunk = ws + p->c_floats;
    r.out_chunk = r.a_chunk + p->a_floats;
    r.threads = r.out_chunk + p->out_floats;
    if (p->chunk)
        for (int64_t b = 0; b < p->batches; b++)
            multiply_chunks(&r, b);
    else
        multiply(&r, 0, p->batches, p->m);
    if (r.dtype == QN_F32 && c_after(p, r.dtype))
        add_matrix(&r);
    return QN_OK;
}

/* ---- table ---- */

static bool is_f32(const qn_node *node, uint32_t n_in, const qn_dtype *in)
{
    (void)node, (void)n_in;
    return in[0] == QN_F32;
}

static bool is_half(const qn_node *node, uint32_t n_in, const qn_dtype *in)
{
    (void)node, (void)n_in;
    return in[0] == QN_F16 || in[0] == QN_BF16;
}

#define ROWS(op)                                                               \
    { .domain = "", .name = op, .since = 1, .until = UINT16_MAX,                \
      .flags = QN_KERNEL_FUSES, .supports = is_f32, .pack_size = pack_size,    \
      .pack = pack, .prepare = prepare, .launch = launch },                    \
    { .domain = "", .name = op, .since = 1, .until = UINT16_MAX,                \
      .supports = is_half, .pack_size = pack_size, .pack = pack,               \
      .prepare = prepare, .launch = launch },                                  \
    { .domain = "", .name = op, .since = 1, .until = UINT16_MAX,                \
      .prepare = qn_product_prepare_other, .launch = qn_product_launch_other }

static const qn_kernel rows[] = { ROWS("MatMul"), ROWS("Gemm") };

QN_KERNEL_TABLE(qn_cpu_matmul, rows);

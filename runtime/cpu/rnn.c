/* SPDX-License-Identifier: Apache-2.0 */
/* LSTM, GRU and RNN: packing, plan, table. The recurrence is in
 * runtime/cpu/rnn/. */
#include "runtime/cpu/rnn/rnn.h"
#include "runtime/cpu/tables.h"

#include "runtime/base/checked.h"

#include <string.h>

/* Rows of X that one product should have at least, so that W is read seldom. */
enum { CHUNK_ROWS = 48 };

/* Packed sizes of one direction; false on overflow. */
static bool packed_sizes(qn_rnn_plan *p)
{
    const qn_rnn *r = &p->r;
    const int64_t early = qn_rnn_early(r);
    int64_t n;
    p->rh_floats = 0;
    if (!qn_mul_i64(r->hidden, r->gates, &n) ||
        !qn_gemm_packed_floats(p->isa, r->inputs, n, &p->w_floats) ||
        !qn_gemm_packed_floats(p->isa, r->hidden, early, &p->r_floats) ||
        (r->kind == QN_GRU &&
         !qn_gemm_packed_floats(p->isa, r->hidden, r->hidden, &p->rh_floats)))
        return false;
    return qn_align_size(p->w_floats, 16, &p->w_floats) &&
           qn_align_size(p->r_floats, 16, &p->r_floats) &&
           qn_align_size(p->rh_floats, 16, &p->rh_floats);
}

void qn_rnn_pack(const qn_rnn_plan *p, const qn_tensor *t, uint32_t i, float *dst)
{
    const qn_rnn *r = &p->r;
    const int64_t k = i == 1 ? r->inputs : r->hidden;
    const int64_t n = r->gates * r->hidden;
    const int64_t early = i == 1 ? n : qn_rnn_early(r);
    for (int d = 0; d < r->directions; d++) {
        qn_gemm_source src = {
            .data = (const char *)t->data +
                    (size_t)(d * n * k) * qn_dtype_size(t->dtype),
            .dtype = t->dtype, .s_inner = 1, .s_n = k };
        qn_gemm_pack(p->isa, &src, k, early, dst);
        if (i == 1) {
            dst += p->w_floats;
            continue;
        }
        dst += p->r_floats;
        src.data = (const char *)src.data +
                   (size_t)(early * k) * qn_dtype_size(t->dtype);
        if (r->kind == QN_GRU)
            qn_gemm_pack(p->isa, &src, k, n - early, dst);
        dst += p->rh_floats;
    }
}

/* The plan's weight part from the shape of W (i 1) or R (i 2) alone. */
static bool weights_of(const qn_node *node, const qn_tensor *t, uint32_t i,
                       qn_rnn_plan *p)
{
    memset(p, 0, sizeof *p);
    p->isa = qn_gemm_best();
    p->r.kind = qn_rnn_kind_of(node, &p->r.gates);
    if (t->shape.rank != 3 || t->dtype == QN_F64 || t->shape.dims[0] > 2 ||
        t->shape.dims[1] % p->r.gates)
        return false;
    p->r.directions = (int)t->shape.dims[0];
    p->r.hidden = t->shape.dims[1] / p->r.gates;
    p->r.inputs = i == 1 ? t->shape.dims[2] : 0;
    if (i == 2 && t->shape.dims[2] != p->r.hidden)
        return false;
    return packed_sizes(p);
}

static size_t pack_size(const qn_node *node, uint32_t n_in, const qn_tensor *in,
                        uint32_t i)
{
    qn_rnn_plan p;
    size_t floats;
    (void)n_in;
    if ((i != 1 && i != 2) || !weights_of(node, &in[i], i, &p))
        return 0;
    floats = i == 1 ? p.w_floats : p.r_floats + p.rh_floats;
    return floats < SIZE_MAX / 16
               ? floats * (size_t)p.r.directions * sizeof(float) : 0;
}

static qn_status pack(const qn_node *node, uint32_t n_in, const qn_tensor *in,
                      uint32_t i, void *dst, qn_error *err)
{
    qn_rnn_plan p;
    (void)n_in;
    if (!weights_of(node, &in[i], i, &p))
        return qn_fail(err, QN_INTERNAL, "packing weights of unknown shape");
    qn_rnn_pack(&p, &in[i], i, dst);
    return QN_OK;
}

/* Place n elements; false on overflow. */
static bool place(size_t *total, size_t *at, int64_t a, int64_t b)
{
    size_t n;
    *at = *total;
    return qn_mul_size((size_t)a, (size_t)b, &n) && qn_align_size(n, 16, &n) &&
           qn_add_size(*total, n, total);
}

static qn_status prepare(qn_prepare *q, qn_error *err)
{
    qn_rnn_plan *p = qn_region_alloc(q->region, 1, sizeof *p);
    const bool wide = q->in[0].dtype == QN_F64;
    size_t total = 0;
    if (!p)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for a recurrent layer");
    qn_rnn *r = &p->r;
    qn_status st = qn_rnn_read(q->node, q->n_in, q->in, r, err);
    if (st != QN_OK)
        return st;
    p->isa = qn_gemm_best();
    p->packed_w = wide || q->packed[1];
    p->packed_r = wide || q->packed[2];
    p->chunk = r->batch ? CHUNK_ROWS / r->batch : 1;
    p->chunk = p->chunk < 1 ? 1 : p->chunk;
    p->chunk = p->chunk < r->steps ? p->chunk : r->steps;
    p->chunk = p->chunk < 1 ? 1 : p->chunk;
    const int64_t rows = p->chunk * r->batch;
    const bool widen = q->in[0].dtype != QN_F32 && !wide;
    const int64_t at_once = rows < QN_GEMM_MAX_ROWS ? rows : QN_GEMM_MAX_ROWS;
    const int64_t dirs = r->directions;
    bool fits = packed_sizes(p) &&
        place(&total, &p->gates, rows, r->gates * r->hidden) &&
        place(&total, &p->h, r->batch, r->hidden) &&
        place(&total, &p->c, r->batch, r->hidden) &&
        place(&total, &p->bias, r->gates + 1, r->hidden) &&
        place(&total, &p->extra, r->kind == QN_GRU ? r->batch : 1, r->hidden) &&
        place(&total, &p->x, widen ? at_once : 0, r->inputs) &&
        place(&total, &p->w, p->packed_w ? 0 : (int64_t)p->w_floats, dirs) &&
        place(&total, &p->rec,
              p->packed_r ? 0 : (int64_t)(p->r_floats + p->rh_floats), dirs) &&
        qn_mul_size(total, wide ? sizeof(double) : sizeof(float), &q->workspace);
    if (!fits)
        return qn_fail(err, QN_TOO_LARGE, "workspace for hidden size %lld, "
                       "batch %lld", (long long)r->hidden, (long long)r->batch);
    q->state = p;
    return QN_OK;
}

static qn_status launch(const qn_launch *k)
{
    const qn_rnn_plan *p = k->state;
    if (k->n_in > QN_RNN_LENS && qn_present(&k->in[QN_RNN_LENS])) {
        const int32_t *lens = k->in[QN_RNN_LENS].data;
        for (int64_t b = 0; b < p->r.batch; b++)
            if (lens[b] < 0 || lens[b] > p->r.steps)
                return qn_launch_fail(k, QN_RANGE, "sequence_lens[%lld] is %d, "
                                      "expected 0 to %lld", (long long)b,
                                      lens[b], (long long)p->r.steps);
    }
    return k->in[0].dtype == QN_F64 ? qn_rnn_run_f64(k) : qn_rnn_run_f32(k);
}

#define ROW(op)                                                                \
    { .domain = "", .name = op, .since = 1, .until = UINT16_MAX,               \
      .pack_size = pack_size, .pack = pack, .prepare = prepare,                \
      .launch = launch }

static const qn_kernel rows[] = { ROW("LSTM"), ROW("GRU"), ROW("RNN") };

QN_KERNEL_TABLE(qn_cpu_rnn, rows);

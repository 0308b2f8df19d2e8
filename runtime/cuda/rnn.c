/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LSTM, GRU and RNN. x W' of all steps and directions is one product (W's
 * directions lie one behind the other: [D G H, I]); what depends on the step
 * before is done by kernels/rnn.cu:
 *
 *   layer   R of a direction fits in a block's shared memory: one launch
 *   steps   else: state in, one launch a step (two for GRU without
 *           linear_before_reset, whose third gate needs the second), state out
 *
 * The 16-bit types are summed in float. Which way is taken depends on shapes and
 * the card, so equal runs give equal bits.
 */
#include "runtime/cuda/kernels/rnn.h"
#include "runtime/cuda/product.h"
#include "runtime/cuda/tables.h"

#include "runtime/base/checked.h"
#include "runtime/ops/rnn.h"

#include <stdio.h>

enum { THREADS = 256, ROWS_MOST = 8, UNIT_MOST = 1024 };

typedef struct state {
    qn_rnn r;
    bool nothing;
    const qn_cuda_product *product;
    const qn_cuda_fn *layer; /* NULL: step by step */
    const qn_cuda_fn *start, *step, *end;
    qn_cuda_grid layer_grid, step_grid, ends_grid;
    struct qn_rnn_args args;
    /* workspace: bytes before each part */
    size_t gates, h0, h1, c, rh, product_at;
} state;

static const qn_tensor *input(uint32_t n_in, const qn_tensor *in, uint32_t i)
{
    return n_in > i && qn_present(&in[i]) ? &in[i] : NULL;
}

static void fill_args(const qn_rnn *r, qn_dtype dtype, struct qn_rnn_args *a)
{
    *a = (struct qn_rnn_args){
        .steps = r->steps, .batch = r->batch, .hidden = r->hidden,
        .dtype = dtype == QN_F16 ? 1 : dtype == QN_BF16 ? 2 : 0,
        .directions = r->directions, .reverse = r->reverse,
        .batch_first = r->batch_first, .input_forget = r->input_forget,
        .linear_before_reset = r->linear_before_reset, .clip = r->clip,
    };
    _Static_assert(QN_RNN_SOFTPLUS == 10 && QN_RNN_SIGMOID == 6 &&
                       QN_RNN_TANH == 4,
                   "rnn.cu has these numbers");
    for (int d = 0; d < 2; d++)
        for (int i = 0; i < 3; i++) {
            a->fn[d][i].act = (int32_t)r->fn[d][i].act;
            a->fn[d][i].alpha = r->fn[d][i].alpha;
            a->fn[d][i].beta = r->fn[d][i].beta;
        }
}

static const char *kind_name(const qn_rnn *r)
{
    return r->kind == QN_LSTM ? "lstm" : r->kind == QN_GRU ? "gru" : "rnn";
}

static qn_status find(qn_prepare *q, const state *s, const char *what,
                      bool of_kind, const qn_cuda_fn **out, qn_error *err)
{
    const char *type = q->in[0].dtype == QN_F64 ? "f64" : "f32";
    char name[40];
    if (of_kind)
        snprintf(name, sizeof name, "%s_%s_%s", what, kind_name(&s->r), type);
    else
        snprintf(name, sizeof name, "rnn_%s_%s", what, type);
    return qn_cuda_find(q->accel, "rnn", name, out, err);
}

/* One launch for all: *ok if a direction's R, and the rows' state, fit. */
static qn_status layer_prepare(qn_prepare *q, state *s, size_t sum, bool *ok,
                               qn_error *err)
{
    const qn_rnn *r = &s->r;
    const qn_cuda_limits *l = qn_cuda_limits_of(q->accel);
    int64_t rows = r->batch * r->directions / l->multiprocessors;
    rows = rows < 1 ? 1 : rows > ROWS_MOST ? ROWS_MOST : rows;
    *ok = false;
    if (r->hidden > UNIT_MOST)
        return QN_OK;
    const int64_t all = r->gates * r->hidden;
    const size_t bytes = sum * (size_t)(r->hidden * all +
                                        rows * (2 * r->hidden + all));
    const int64_t blocks = r->directions * ((r->batch + rows - 1) / rows);
    if (bytes > l->shared_max || blocks > INT32_MAX)
        return QN_OK;
    const int64_t most = sum == sizeof(double) ? QN_RNN_LAYER_THREADS / 2
                                               : QN_RNN_LAYER_THREADS;
    int64_t threads = (all + 31) / 32 * 32;
    threads = threads < most ? threads : most;
    s->args.rows = (int32_t)rows;
    s->layer_grid = (qn_cuda_grid){ .grid = { (uint32_t)blocks },
                                    .block = { (uint32_t)threads },
                                    .shared = (uint32_t)bytes };
    qn_status st = find(q, s, "layer", true, &s->layer, err);
    if (st == QN_OK && bytes > l->shared_static)
        st = qn_cuda_shared(q->accel, s->layer, bytes, err);
    *ok = st == QN_OK;
    return st;
}

static qn_status steps_prepare(qn_prepare *q, state *s, qn_error *err)
{
    const qn_rnn *r = &s->r;
    const int64_t chunks = (r->batch + QN_RNN_ROWS - 1) / QN_RNN_ROWS;
    const int64_t warps = QN_RNN_THREADS / 32;
    const int64_t blocks = (r->directions * chunks * r->hidden + warps - 1) /
                           warps;
    if (blocks > INT32_MAX)
        return qn_fail(err, QN_TOO_LARGE, "batch of %lld with hidden size %lld",
                       (long long)r->batch, (long long)r->hidden);
    s->step_grid = (qn_cuda_grid){ .grid = { (uint32_t)blocks },
                                   .block = { QN_RNN_THREADS } };
    s->ends_grid = qn_cuda_grid_stride(
        q->accel, r->directions * r->batch * r->hidden, 1, THREADS, 4);
    qn_status st = find(q, s, "start", false, &s->start, err);
    if (st == QN_OK)
        st = find(q, s, "step", true, &s->step, err);
    if (st == QN_OK)
        st = find(q, s, "end", false, &s->end, err);
    return st;
}

/* Place n elements; false on overflow. */
static bool place(size_t *total, size_t *at, int64_t a, int64_t b, size_t size)
{
    size_t n;
    *at = *total;
    return qn_mul_size((size_t)a, (size_t)b, &n) && qn_mul_size(n, size, &n) &&
           qn_align_size(n, 256, &n) && qn_add_size(*total, n, total);
}

static qn_status product_prepare(qn_prepare *q, state *s, size_t *workspace,
                                 qn_error *err)
{
    const qn_rnn *r = &s->r;
    const qn_dtype dtype = q->in[0].dtype;
    const qn_cuda_product_of of = {
        .in = dtype, .out = dtype == QN_F64 ? QN_F64 : QN_F32,
        .precision = q->precision, .trans_b = true, .m = r->steps * r->batch,
        .n = r->directions * r->gates * r->hidden, .k = r->inputs, .alpha = 1,
    };
    return qn_cuda_product_prepare(q, &of, &s->product, workspace, err);
}

/* Where things lie in the workspace, the product's part last. */
static qn_status lay_out(qn_prepare *q, state *s, size_t sum, qn_error *err)
{
    const qn_rnn *r = &s->r;
    const int64_t wide = r->directions * r->gates * r->hidden;
    const int64_t units = s->layer ? 0 : r->directions * r->hidden;
    const bool third = r->kind == QN_GRU && !r->linear_before_reset;
    size_t total = 0, library = 0;
    qn_status st = product_prepare(q, s, &library, err);
    if (st != QN_OK)
        return st;
    if (!place(&total, &s->gates, r->steps * r->batch, wide, sum) ||
        !place(&total, &s->h0, r->batch, units, sum) ||
        !place(&total, &s->h1, r->batch, units, sum) ||
        !place(&total, &s->c, r->batch,
               r->kind == QN_LSTM || third ? units : 0, sum) ||
        !place(&total, &s->rh, r->batch, third ? units : 0, sum) ||
        !qn_add_size(total, library, &q->workspace))
        return qn_fail(err, QN_TOO_LARGE, "workspace for hidden size %lld, "
                       "batch %lld, %lld steps", (long long)r->hidden,
                       (long long)r->batch, (long long)r->steps);
    s->product_at = total;
    return QN_OK;
}

static qn_status prepare(qn_prepare *q, qn_error *err)
{
    state *s = qn_region_alloc(q->region, 1, sizeof *s);
    const size_t sum = q->in[0].dtype == QN_F64 ? sizeof(double) : sizeof(float);
    bool layer = false;
    if (!s)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for a recurrent layer");
    q->state = s;
    qn_status st = qn_rnn_read(q->node, q->n_in, q->in, &s->r, err);
    if (st != QN_OK)
        return st;
    s->nothing = !s->r.batch || !s->r.hidden;
    if (s->nothing)
        return QN_OK;
    fill_args(&s->r, q->in[0].dtype, &s->args);
    st = layer_prepare(q, s, sum, &layer, err);
    if (st == QN_OK && !layer)
        st = steps_prepare(q, s, err);
    return st == QN_OK ? lay_out(q, s, sum, err) : st;
}

/* ---- launch ---- */

static void *out_of(const qn_launch *k, uint32_t i)
{
    return k->n_out > i && qn_present(&k->out[i]) ? k->out[i].data : NULL;
}

static const void *in_of(const qn_launch *k, uint32_t i)
{
    const qn_tensor *t = input(k->n_in, k->in, i);
    return t ? t->data : NULL;
}

static struct qn_rnn_args addresses(const qn_launch *k, const state *s)
{
    struct qn_rnn_args a = s->args;
    const bool lstm = s->r.kind == QN_LSTM;
    char *ws = k->workspace;
    a.r = in_of(k, 2);
    a.bias = in_of(k, 3);
    a.lens = in_of(k, QN_RNN_LENS);
    a.h0 = in_of(k, QN_RNN_H0);
    a.c0 = lstm ? in_of(k, QN_RNN_C0) : NULL;
    a.peep = lstm ? in_of(k, QN_RNN_P) : NULL;
    a.y = out_of(k, 0);
    a.y_h = out_of(k, 1);
    a.y_c = lstm ? out_of(k, 2) : NULL;
    a.fault = qn_cuda_fault(k);
    a.gates = ws;
    if (s->layer)
        return a;
    a.h[0] = ws + s->h0;
    a.h[1] = ws + s->h1;
    if (s->rh > s->c)
        a.c = ws + s->c;
    if (s->product_at > s->rh)
        a.rh = ws + s->rh;
    return a;
}

static qn_status launch_steps(const qn_launch *k, const state *s,
                              struct qn_rnn_args *a)
{
    const qn_rnn *r = &s->r;
    const bool twice = r->kind == QN_GRU && !r->linear_before_reset;
    qn_status st = qn_cuda_launch(k, s->start, &s->ends_grid, a);
    for (a->step = 0; st == QN_OK && a->step < r->steps; a->step++) {
        a->phase = twice ? 1 : 0;
        st = qn_cuda_launch(k, s->step, &s->step_grid, a);
        if (st != QN_OK || !twice)
            continue;
        a->phase = 2;
        st = qn_cuda_launch(k, s->step, &s->step_grid, a);
    }
    return st == QN_OK ? qn_cuda_launch(k, s->end, &s->ends_grid, a) : st;
}

static qn_status launch(const qn_launch *k)
{
    const state *s = k->state;
    if (s->nothing)
        return QN_OK;
    struct qn_rnn_args a = addresses(k, s);
    qn_status st = qn_cuda_product_launch(
        k, s->product, k->in[0].data, k->in[1].data, NULL, NULL, k->workspace,
        s->product_at ? (char *)k->workspace + s->product_at : k->workspace);
    if (st != QN_OK)
        return st;
    return s->layer ? qn_cuda_launch(k, s->layer, &s->layer_grid, &a)
                    : launch_steps(k, s, &a);
}

#define ROW(op)                                                                \
    { .domain = "", .name = op, .since = 1, .until = UINT16_MAX,               \
      .prepare = prepare, .launch = launch }

static const qn_kernel rows[] = { ROW("LSTM"), ROW("GRU"), ROW("RNN") };

QN_KERNEL_TABLE(qn_cuda_rnn, rows);

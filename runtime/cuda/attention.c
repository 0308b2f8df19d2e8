/* SPDX-License-Identifier: Apache-2.0 */
/* ai.quern.Attention: depths of keys and values up to 128. */
#include "runtime/ops/attention.h"
#include "runtime/cuda/kernels/attention.h"
#include "runtime/cuda/tables.h"
#include "runtime/cuda/typed.h"

#include <stdio.h>

_Static_assert((int)QN_ATTENTION_MOST >= (int)QN_ATTENTION_DEPTH,
               "what the pass that makes these nodes counts on");

typedef struct attention_state {
    const qn_cuda_fn *fn;
    uint32_t threads, shared;
} attention_state;

/* Depths are not known before shapes are, so the plan has to refuse; the pass
 * that makes these nodes keeps to QN_ATTENTION_DEPTH. */
static qn_status attention_prepare(qn_prepare *p, qn_error *err)
{
    attention_state *s;
    qn_attention a;
    char base[32];
    qn_status st = qn_cuda_state(p, sizeof *s, &s, err);
    if (st != QN_OK)
        return st;
    qn_attention_of(p->node, p->n_in, p->in, &a);
    int64_t most = a.depth > a.values ? a.depth : a.values;
    if (most > QN_ATTENTION_MOST)
        return qn_fail(err, QN_UNSUPPORTED,
                       "heads of depth %lld, at most %d on this device",
                       (long long)most, QN_ATTENTION_MOST);
    int depth = most <= 32 ? 32 : most <= 64 ? 64 : 128;
    /* mma.sync of 16-bit floats */
    bool tensor = p->in[0].dtype != QN_F32 &&
                  qn_cuda_limits_of(p->accel)->capability >= 80;
    const char *family = tensor ? "attention_mma" : "attention";
    s->threads = tensor ? QN_ATTENTION_MMA_THREADS : QN_ATTENTION_THREADS;
    s->shared = tensor          ? 0
                : depth == 32   ? QN_ATTENTION_SHARED(32)
                : depth == 64   ? QN_ATTENTION_SHARED(64)
                                : QN_ATTENTION_SHARED(128);
    snprintf(base, sizeof base, "%s_%d", family, depth);
    st = qn_cuda_find_typed(p->accel, family, base, p->in[0].dtype, &s->fn,
                            err);
    if (st == QN_OK && s->shared)
        st = qn_cuda_shared(p->accel, s->fn, s->shared, err);
    return st;
}

static qn_status attention_launch(const qn_launch *k)
{
    const attention_state *s = k->state;
    qn_attention a;
    qn_attention_of(k->node, k->n_in, k->in, &a);
    if (!qn_count(&k->out[0]))
        return QN_OK;
    struct qn_attention_args args = {
        .q = k->in[0].data,
        .k = k->in[1].data,
        .v = k->in[2].data,
        .mask = a.masked ? k->in[3].data : NULL,
        .y = k->out[0].data,
        .heads = a.batch * a.heads,
        .queries = a.queries,
        .keys = a.keys,
        .heads_batch = a.heads,
        .per_group = a.heads / a.groups,
        .depth = (int32_t)a.depth,
        .values = (int32_t)a.values,
        .causal = a.causal,
        .scale = (float)a.scale,
    };
    for (int i = 0; i < 4; i++)
        args.mask_stride[i] = a.mask_stride[i];
    int64_t tiles = (a.queries + QN_ATTENTION_ROWS - 1) / QN_ATTENTION_ROWS;
    int64_t blocks = tiles * args.heads;
    qn_cuda_grid grid = {
        .grid = { (uint32_t)(blocks < INT32_MAX ? blocks : INT32_MAX) },
        .block = { s->threads },
        .shared = s->shared
    };
    return qn_cuda_launch(k, s->fn, &grid, &args);
}

static bool supports(const qn_node *node, uint32_t n_in, const qn_dtype *in)
{
    (void)node, (void)n_in;
    return in[0] != QN_F64;
}

static const qn_kernel kernels[] = {
    { .domain = "ai.quern",
      .name = "Attention",
      .since = 1,
      .until = 1,
      .supports = supports,
      .prepare = attention_prepare,
      .launch = attention_launch },
};

QN_KERNEL_TABLE(qn_cuda_attention, kernels);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ai.quern.Attention, plainly: a row of scores at a time, in double. What other
 * devices are compared with; the cpu itself runs the pieces (MatMul, Softmax).
 */
#include "runtime/base/checked.h"
#include "runtime/cpu/element.h"
#include "runtime/cpu/grain.h"
#include "runtime/cpu/tables.h"
#include "runtime/ops/attention.h"

#include <math.h>

typedef struct attention_job {
    qn_attention a;
    qn_dtype dtype;
    const void *q, *k, *v, *mask;
    void *y;
    double *scores; /* [threads][T] */
} attention_job;

/* Query i of one head against every key; returns the largest score. */
static double score_row(const attention_job *j, int64_t batch, int64_t head,
                        int64_t i, int64_t keys_at, double *scores)
{
    const qn_attention *a = &j->a;
    int64_t q = ((batch * a->heads + head) * a->queries + i) * a->depth;
    int64_t seen = a->causal ? i + a->keys - a->queries : a->keys;
    int64_t m = batch * a->mask_stride[0] + head * a->mask_stride[1] +
                i * a->mask_stride[2];
    double most = -INFINITY;
    for (int64_t t = 0; t < a->keys; t++) {
        double s = 0;
        for (int64_t d = 0; d < a->depth; d++)
            s += qn_load_f64(j->q, j->dtype, q + d) *
                 qn_load_f64(j->k, j->dtype, (keys_at + t) * a->depth + d);
        s *= a->scale;
        if (a->masked)
            s += qn_load_f64(j->mask, j->dtype, m + t * a->mask_stride[3]);
        if (t > seen)
            s = -INFINITY;
        scores[t] = s;
        most = s > most || isnan(s) ? s : most;
    }
    return most;
}

/* items: batch x heads x queries */
static void rows_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const attention_job *j = arg;
    const qn_attention *a = &j->a;
    double *scores = j->scores + thread * a->keys;
    for (int64_t row = begin; row < end; row++) {
        int64_t i = row % a->queries, head = row / a->queries % a->heads;
        int64_t batch = row / a->queries / a->heads;
        int64_t group = head / (a->heads / a->groups);
        int64_t keys_at = (batch * a->groups + group) * a->keys;
        double most = score_row(j, batch, head, i, keys_at, scores);
        double sum = 0;
        for (int64_t t = 0; t < a->keys; t++)
            sum += scores[t] = exp(scores[t] - most);
        for (int64_t e = 0; e < a->values; e++) {
            double y = 0;
            for (int64_t t = 0; t < a->keys; t++)
                y += scores[t] / sum *
                     qn_load_f64(j->v, j->dtype, (keys_at + t) * a->values + e);
            qn_store_f64(j->y, j->dtype, row * a->values + e, y);
        }
    }
}

static qn_status attention_prepare(qn_prepare *p, qn_error *err)
{
    size_t keys = (size_t)p->in[1].shape.dims[p->in[1].shape.rank - 2];
    if (!qn_mul_size(keys, (size_t)p->max_threads * sizeof(double),
                     &p->workspace))
        return qn_fail(err, QN_TOO_LARGE, "%zu keys are too many", keys);
    return QN_OK;
}

static qn_status attention_launch(const qn_launch *k)
{
    attention_job j = { .dtype = k->in[0].dtype,
                        .q = k->in[0].data,
                        .k = k->in[1].data,
                        .v = k->in[2].data,
                        .y = k->out[0].data,
                        .scores = k->workspace };
    qn_attention_of(k->node, k->n_in, k->in, &j.a);
    if (j.a.masked)
        j.mask = k->in[3].data;
    if (!qn_count(&k->out[0]))
        return QN_OK;
    qn_parallel(k->team, j.a.batch * j.a.heads * j.a.queries,
                qn_grain((double)j.a.keys *
                         (double)(j.a.depth + j.a.values + 10) * 2),
                rows_piece, &j);
    return QN_OK;
}

static const qn_kernel kernels[] = {
    { .domain = "ai.quern",
      .name = "Attention",
      .since = 1,
      .until = 1,
      .prepare = attention_prepare,
      .launch = attention_launch },
};

QN_KERNEL_TABLE(qn_cpu_attention, kernels);

/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/collective.h"

#include "runtime/ops/collective.h"

#include <string.h>

static bool any_placed(const qn_graph *g)
{
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->place && qn_is_collective(g->nodes[i]))
            return true;
    return false;
}

qn_status qn_comm_open(qn_session *s, qn_error *err)
{
    qn_accel *accels[QN_SESSION_ACCELS];
    uint32_t n = s->graph->n_ranks;
    if (!any_placed(s->graph))
        return QN_OK;
    for (uint32_t i = 0; i < n; i++)
        accels[i] = s->accels[i]->accel;
    pthread_mutex_lock(&s->runtime->exchange);
    qn_status st = accels[0]->ops->comm_new(accels, (int)n, &s->comm, err);
    pthread_mutex_unlock(&s->runtime->exchange);
    return st;
}

void qn_comm_close(qn_session *s)
{
    if (!s->comm)
        return;
    pthread_mutex_lock(&s->runtime->exchange);
    s->accels[0]->accel->ops->comm_free(s->comm);
    pthread_mutex_unlock(&s->runtime->exchange);
    s->comm = NULL;
}

static const char *end_of(const qn_tensor *t)
{
    return (const char *)t->data +
           (size_t)qn_count(t) * qn_dtype_size(t->dtype);
}

/*
 * How many tensors, from number k on, go as one: those whose ends touch on every
 * rank, where a collective looks at elements one by one. Gaps between tensors
 * are nobody's to read.
 */
static uint32_t stretch(const qn_collective_node *c, uint32_t k,
                        const qn_tensor *in, const qn_tensor *out)
{
    uint32_t n = 1;
    bool touch = c->kind == QN_ALL_REDUCE || c->kind == QN_BROADCAST;
    for (; touch && k + n < c->tensors; n += touch)
        for (uint32_t r = 0; touch && r < c->ranks; r++) {
            uint32_t i = r * c->tensors + k + n;
            touch = end_of(&in[i - 1]) == in[i].data &&
                    end_of(&out[i - 1]) == out[i].data;
        }
    return n;
}

static qn_status exchange(qn_run *run, const qn_collective_node *c, uint32_t k,
                          uint32_t n, const qn_tensor *in, const qn_tensor *out,
                          qn_error *err)
{
    const qn_issue *q = ((qn_exec *)run->exec)->issue;
    qn_session *s = run->session;
    qn_collective_part parts[QN_GRAPH_RANKS];
    qn_collective_call call = { .kind = c->kind, .reduction = c->reduction,
                                .dtype = in[k].dtype, .root = (int)c->root,
                                .parts = parts };
    for (uint32_t i = k; i < k + n; i++)
        call.count += (size_t)qn_count(
            c->kind == QN_REDUCE_SCATTER ? &out[i] : &in[i]);
    for (uint32_t r = 0; r < c->ranks; r++)
        parts[r] = (qn_collective_part){ .lane = q->lanes[r],
                                         .send = in[r * c->tensors + k].data,
                                         .recv = out[r * c->tensors + k].data };
    return call.count
               ? s->accels[0]->accel->ops->collective(s->comm, &call, err)
               : QN_OK;
}

qn_status qn_exec_collective(qn_run *run, const qn_step *s,
                             const qn_tensor *in, const qn_tensor *out,
                             qn_error *err)
{
    qn_collective_node c;
    char text[QN_NODE_TEXT];
    qn_status st = qn_collective_read(s->node, &c, err);
    pthread_mutex_lock(&run->session->runtime->exchange);
    for (uint32_t k = 0, n; st == QN_OK && k < c.tensors; k += n) {
        n = stretch(&c, k, in, out);
        st = exchange(run, &c, k, n, in, out, err);
    }
    pthread_mutex_unlock(&run->session->runtime->exchange);
    return st == QN_OK
               ? st : qn_error_prefix(err, "%s", qn_node_text(s->node, text));
}

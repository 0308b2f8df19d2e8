/* SPDX-License-Identifier: Apache-2.0 */
/* From a finished graph to something that can run: passes, kernels, static
 * memory, in that order. */
#include "runtime/exec/session.h"

#include "runtime/exec/collective.h"
#include "runtime/exec/session_impl.h"
#include "runtime/passes/passes.h"
#include "runtime/plan/plan.h"

static qn_status describe(qn_session *s, qn_error *err)
{
    const qn_graph *g = s->graph;
    bool *key = qn_calloc(g->n_inputs + 1u, sizeof *key);
    s->inputs = qn_calloc(g->n_inputs + 1u, sizeof *s->inputs);
    s->outputs = qn_calloc(g->n_outputs + 1u, sizeof *s->outputs);
    qn_status st = QN_OK;
    if (!key || !s->inputs || !s->outputs)
        st = qn_fail(err, QN_NO_MEMORY, "no memory for a session");
    if (st == QN_OK)
        st = qn_pass_key_inputs(g, key, err);
    for (uint32_t i = 0; st == QN_OK && i < g->n_inputs; i++) {
        const qn_value *v = &g->values[g->inputs[i]];
        s->inputs[i] = (qn_io){ .name = v->name, .type = v->type,
                                .rank = v->rank, .dims = v->dims,
                                .optional = v->data != NULL,
                                .value_in_key = key[i] };
        if (v->type.kind != QN_TYPE_TENSOR)
            st = qn_fail(err, QN_UNSUPPORTED,
                         "input '%s' is not a tensor; only tensors can be "
                         "model inputs so far", v->name);
    }
    for (uint32_t i = 0; st == QN_OK && i < g->n_outputs; i++) {
        const qn_value *v = &g->values[g->outputs[i]];
        const qn_value *decl = &g->output_decls[i];
        s->outputs[i] = (qn_io){ .name = g->output_names[i], .type = v->type,
                                 .rank = decl->rank, .dims = decl->dims };
        if (v->type.kind != QN_TYPE_TENSOR)
            st = qn_fail(err, QN_UNSUPPORTED,
                         "output '%s' is not a tensor; only tensors can be "
                         "model outputs so far", g->output_names[i]);
    }
    qn_free(key);
    return st;
}

static qn_status count_kernels(qn_graph *graph, void *arg, qn_error *err)
{
    (void)err;
    *(uint32_t *)arg += graph->n_nodes;
    return QN_OK;
}

enum { RANK_STREAMS = 4 };

static qn_status find_accels(qn_session *s, qn_error *err)
{
    uint32_t n = s->options.n_accels, ranks = s->graph->n_ranks;
    s->options.n_accels = 0; /* until they are there */
    if (n && n < ranks)
        return qn_fail(err, QN_INVALID,
                       "the model is split over %u ranks, each on a device of "
                       "its own; the session has %u", ranks, n);
    /* ranks side by side on the cpu */
    if (!n && ranks > 1 && !s->options.streams)
        s->options.streams = ranks < RANK_STREAMS ? ranks : RANK_STREAMS;
    if (n > QN_SESSION_ACCELS)
        return qn_fail(err, QN_INVALID, "%u accelerators, at most %d", n,
                       QN_SESSION_ACCELS);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = s->options.accels[i];
        if (k >= s->runtime->n_accels)
            return qn_fail(err, QN_INVALID,
                           "accelerator number %u is asked for; the runtime "
                           "has %u", k, s->runtime->n_accels);
        s->accels[i] = &s->runtime->accels[k];
    }
    s->options.n_accels = n;
    return QN_OK;
}

qn_status qn_session_new(qn_runtime *runtime, qn_graph *graph,
                         const qn_session_options *options, qn_session **out,
                         qn_error *err)
{
    *out = NULL;
    qn_session *s = qn_calloc(1, sizeof *s);
    if (!s) {
        qn_graph_free(graph);
        return qn_fail(err, QN_NO_MEMORY, "no memory for a session");
    }
    s->runtime = runtime;
    s->graph = graph;
    if (options)
        s->options = *options;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->built, NULL);
    qn_status st = find_accels(s, err);
    if (st == QN_OK)
        st = qn_pass_kernels(graph, err);
    if (st == QN_OK)
        st = qn_pass_fold(graph, &s->report, err);
    if (st == QN_OK)
        st = qn_pass_keep_attributes(graph, err);
    if (st == QN_OK)
        st = describe(s, err);
    if (st == QN_OK && !s->options.no_passes)
        st = qn_pass_batchnorm(graph, &s->report, err);
    if (st == QN_OK)
        st = qn_pass_place(s, err);
    if (st == QN_OK && !s->options.no_passes)
        st = qn_pass_order(graph, err);
    if (st == QN_OK)
        st = qn_graph_each(graph, count_kernels, &s->report.kernels, err);
    if (st == QN_OK)
        st = qn_static_build(s, err);
    if (st == QN_OK)
        st = qn_comm_open(s, err);
    if (st != QN_OK) {
        qn_session_free(s);
        return st;
    }
    *out = s;
    return QN_OK;
}

void qn_session_free(qn_session *s)
{
    if (!s)
        return;
    while (s->plans) {
        qn_plan *next = s->plans->next;
        qn_plan_release(s->plans);
        s->plans = next;
    }
    qn_comm_close(s);
    qn_static_release(s);
    qn_free(s->inputs);
    qn_free(s->outputs);
    qn_graph_free(s->graph);
    pthread_cond_destroy(&s->built);
    pthread_mutex_destroy(&s->lock);
    qn_free(s);
}

uint32_t qn_session_inputs(const qn_session *session, const qn_io **out)
{
    *out = session->inputs;
    return session->graph->n_inputs;
}

uint32_t qn_session_outputs(const qn_session *session, const qn_io **out)
{
    *out = session->outputs;
    return session->graph->n_outputs;
}

const qn_graph *qn_session_graph(const qn_session *session)
{
    return session->graph;
}

void qn_session_static(const qn_session *session, qn_static_report *out)
{
    *out = session->report;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/checked.h"
#include "runtime/exec/eval.h"
#include "runtime/exec/session_impl.h"
#include "runtime/ops/op.h"
#include "runtime/passes/passes.h"

#include <stdlib.h>
#include <string.h>

/* Up to here a result is computed at once: it may decide shapes further on. */
enum { FOLD_NOW = 64 << 10 };

/*
 * A constant that is computed later is computed again by each one that is made
 * from it, in memory that nobody has charged. So such chains end here: a node
 * past these limits stays a node.
 */
enum { MAX_COST = 16, MAX_INPUT = 64 << 20 };

typedef struct deferred {
    const qn_node *node;
    const qn_const **in; /* [node->n_in], NULL if absent */
    uint32_t output;
    uint32_t cost; /* nodes to run for it */
} deferred;

/* A constant's bytes, aligned, until *temp is freed. */
static qn_status load(const qn_const *c, qn_tensor *out, void **temp,
                      qn_error *err)
{
    *temp = NULL;
    *out = (qn_tensor){ .dtype = c->dtype, .shape = c->shape };
    size_t align = qn_dtype_size(c->dtype);
    if (c->data && (uintptr_t)c->data % (align < 8 ? align : 8) == 0) {
        memcpy(&out->data, &c->data, sizeof out->data);
        return QN_OK;
    }
    *temp = aligned_alloc(64, (c->bytes + 64) & ~(size_t)63);
    if (!*temp)
        return qn_fail(err, QN_NO_MEMORY, "no memory for %zu bytes", c->bytes);
    out->data = *temp;
    return qn_const_read(c, *temp, err);
}

static qn_status evaluate(const qn_node *node, const qn_const *const *in,
                          qn_tensor *out, qn_region *region, qn_error *err)
{
    qn_status st = QN_OK;
    qn_tensor *args = qn_calloc(node->n_in + 1u, sizeof *args);
    void **temps = qn_calloc(node->n_in + 1u, sizeof *temps);
    qn_strings strings = { 0 };
    if (!args || !temps)
        st = qn_fail(err, QN_NO_MEMORY, "no memory to fold a node");
    for (uint32_t i = 0; st == QN_OK && i < node->n_in; i++)
        if (in[i])
            st = load(in[i], &args[i], &temps[i], err);
    if (st == QN_OK)
        st = qn_eval_node(node, args, out, &strings, region, err);
    for (uint32_t i = 0; temps && i < node->n_in; i++)
        free(temps[i]);
    qn_free(temps);
    qn_free(args);
    return st;
}

static qn_status fill_deferred(const qn_const *c, void *dst, qn_error *err)
{
    const deferred *d = c->fill_arg;
    qn_region region = { 0 };
    qn_tensor *out = qn_region_alloc(&region, d->node->n_out, sizeof *out);
    qn_status st = out ? evaluate(d->node, d->in, out, &region, err)
                       : qn_fail(err, QN_NO_MEMORY, "no memory to fold a node");
    if (st == QN_OK && c->bytes)
        memcpy(dst, out[d->output].data, c->bytes);
    qn_region_release(&region);
    return st;
}

/* Nodes to run for a node's result; more than MAX_COST: too many. */
static uint32_t cost_of(const qn_node *node, const qn_const *const *in)
{
    uint32_t cost = 1;
    for (uint32_t i = 0; i < node->n_in && cost <= MAX_COST; i++) {
        if (!in[i] || in[i]->fill != fill_deferred)
            continue;
        const deferred *d = in[i]->fill_arg;
        cost += in[i]->bytes <= MAX_INPUT ? d->cost : MAX_COST;
    }
    return cost;
}

static bool foldable(const qn_graph *graph, const qn_node *node,
                     const qn_const **in)
{
    if (node->op->flags & (QN_OP_CONTROL | QN_OP_RANDOM | QN_OP_BOUNDED))
        return false;
    for (uint32_t i = 0; i < node->n_in; i++) {
        in[i] = NULL;
        if (node->in[i] == QN_NO_VALUE)
            continue;
        const qn_value *v = &graph->values[node->in[i]];
        if (v->kind != QN_VALUE_CONST || v->type.kind != QN_TYPE_TENSOR ||
            v->data->dtype == QN_STRING)
            return false;
        in[i] = v->data;
    }
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i] != QN_NO_VALUE &&
            graph->values[node->out[i]].type.dtype == QN_STRING)
            return false;
    return cost_of(node, in) <= MAX_COST;
}

/* Shapes of the results. Values that shapes depend on are read, being small;
 * a node whose value inputs are large is left to the plan. */
static qn_status infer(const qn_node *node, const qn_const **in, qn_tensor *out,
                       qn_region *scratch)
{
    qn_tensor *args = qn_region_alloc(scratch, node->n_in + 1u, sizeof *args);
    if (!args)
        return QN_NO_MEMORY;
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (!in[i])
            continue;
        args[i] = (qn_tensor){ .dtype = in[i]->dtype, .shape = in[i]->shape };
        if (i >= 32 || !(node->op->value_in >> i & 1))
            continue;
        if (in[i]->bytes > FOLD_NOW)
            return QN_TOO_LARGE;
        args[i].data = qn_region_alloc(scratch, in[i]->bytes, 1);
        if (!args[i].data)
            return QN_NO_MEMORY;
        qn_status st = qn_const_read(in[i], args[i].data, NULL);
        if (st != QN_OK)
            return st;
    }
    return qn_eval_infer(node, args, out, NULL);
}

static qn_status make_constant(qn_graph *graph, const qn_node *node,
                               uint32_t k, const qn_tensor *t,
                               const qn_const **in, qn_error *err)
{
    qn_value *v = &graph->values[node->out[k]];
    qn_const *c = qn_region_alloc(graph->region, 1, sizeof *c);
    size_t bytes;
    if (!c)
        return qn_fail(err, QN_NO_MEMORY, "no memory for a constant");
    qn_status st = qn_tensor_bytes(t->dtype, &t->shape, &bytes, err);
    if (st != QN_OK)
        return st;
    *c = (qn_const){ .dtype = t->dtype, .shape = t->shape, .bytes = bytes };
    if (t->data) {
        void *copy = qn_region_alloc(graph->region, bytes + 1, 1);
        if (!copy)
            return qn_fail(err, QN_NO_MEMORY, "no memory for a constant");
        if (bytes)
            memcpy(copy, t->data, bytes);
        c->data = copy;
    } else {
        deferred *d = qn_region_alloc(graph->region, 1, sizeof *d);
        const qn_const **ins =
            qn_region_alloc(graph->region, node->n_in + 1u, sizeof *ins);
        if (!d || !ins)
            return qn_fail(err, QN_NO_MEMORY, "no memory for a constant");
        if (node->n_in)
            memcpy(ins, in, node->n_in * sizeof *ins);
        *d = (deferred){ .node = node, .in = ins, .output = k,
                         .cost = cost_of(node, in) };
        c->fill = fill_deferred;
        c->fill_arg = d;
    }
    v->kind = QN_VALUE_CONST;
    v->node = UINT32_MAX;
    v->data = c;
    return QN_OK;
}

/* QN_OK: folded. Anything else: the node stays, unless it is out of memory. */
static qn_status fold_node(qn_graph *graph, const qn_node *node,
                           const qn_const **in, size_t *folded, qn_error *err)
{
    qn_region scratch = { 0 };
    size_t total = 0;
    qn_tensor *out =
        qn_region_alloc(&scratch, node->n_out + 1u, sizeof *out);
    qn_status st = out ? infer(node, in, out, &scratch) : QN_NO_MEMORY;
    for (uint32_t i = 0; st == QN_OK && i < node->n_out; i++) {
        size_t bytes = 0;
        st = qn_tensor_bytes(out[i].dtype, &out[i].shape, &bytes, NULL);
        if (st == QN_OK && !qn_add_size(total, bytes, &total))
            st = QN_TOO_LARGE;
    }
    /* what no machine here could hold is refused by the plan, with its name */
    if (st == QN_OK && total > ((size_t)1 << 36))
        st = QN_TOO_LARGE;
    if (st == QN_OK && total <= FOLD_NOW)
        st = evaluate(node, in, out, &scratch, NULL);
    for (uint32_t i = 0; st == QN_OK && i < node->n_out; i++)
        if (node->out[i] != QN_NO_VALUE)
            st = make_constant(graph, node, i, &out[i], in, err);
    if (st == QN_OK)
        *folded += total;
    qn_region_release(&scratch);
    return st;
}

static qn_status fold_graph(qn_graph *graph, void *arg, qn_error *err)
{
    qn_static_report *report = arg;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        qn_node *node = graph->nodes[i];
        const qn_const **in = qn_calloc(node->n_in + 1u, sizeof *in);
        if (!in)
            return qn_fail(err, QN_NO_MEMORY, "no memory to fold constants");
        qn_status st =
            foldable(graph, node, in)
                ? fold_node(graph, node, in, &report->folded, err)
                : QN_UNSUPPORTED;
        qn_free(in);
        if (st == QN_NO_MEMORY)
            return qn_fail(err, st, "no memory to fold constants");
        if (st == QN_OK)
            report->folded_nodes++;
        else
            graph->nodes[kept++] = node;
    }
    graph->n_nodes = kept;
    qn_graph_renumber(graph);
    return QN_OK;
}

qn_status qn_pass_fold(qn_graph *graph, qn_static_report *report, qn_error *err)
{
    return qn_graph_each(graph, fold_graph, report, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which device each node runs on, in a session that has accelerators. A node
 * goes to its part's accelerator if that has a kernel for it. On the host stay
 *
 *   what works out shapes   its results are read on the host, and only there
 *   Shape, Size             they look at no data
 *   what has no kernel      with copies before and after; the load report and
 *                           the plan's list of copies say what that costs
 *
 * A collective runs on all accelerators at once, each rank's tensors on its own.
 * Views run nowhere: their output lies where their input does.
 */
#include "runtime/exec/session_impl.h"
#include "runtime/ops/collective.h"
#include "runtime/ops/op.h"
#include "runtime/passes/passes.h"

#include <string.h>

/* What is known of a value's readers. */
enum { READ_ON_HOST = 1, READ_ON_DEVICE = 2 };

typedef struct placing {
    qn_session *session;
    uint8_t *readers; /* [graph->n_values] of the graph at hand */
} placing;

static bool shape_only(const qn_node *node)
{
    return !node->domain[0] && (!strcmp(node->op_name, "Shape") ||
                                !strcmp(node->op_name, "Size"));
}

static bool small_integer(const qn_graph *graph, qn_value_id id)
{
    const qn_value *v = &graph->values[id];
    return v->type.kind == QN_TYPE_TENSOR &&
           (v->type.dtype == QN_I64 || v->type.dtype == QN_I32 ||
            v->type.dtype == QN_BOOL);
}

/* All that it writes are integers that only the host reads, as it seems. */
static bool works_out_shapes(const placing *p, const qn_graph *graph,
                             const qn_node *node)
{
    bool any = false;
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] == QN_NO_VALUE)
            continue;
        if (!small_integer(graph, node->out[i]) ||
            p->readers[node->out[i]] != READ_ON_HOST)
            return false;
        any = true;
    }
    return any;
}

static qn_status types_of(const qn_graph *graph, const qn_node *node,
                          qn_dtype **out, qn_error *err)
{
    *out = qn_calloc(node->n_in + 1u, sizeof **out);
    if (!*out)
        return qn_fail(err, QN_NO_MEMORY, "no memory for %u types", node->n_in);
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] != QN_NO_VALUE)
            (*out)[i] = graph->values[node->in[i]].type.dtype;
    return QN_OK;
}

/* What the devices' libraries cannot do stays on the host: sums and their like of
 * 16-bit integers, and what is no exchange between the session's ranks. */
static bool exchanges(const qn_session *s, const qn_graph *graph,
                      const qn_node *node)
{
    qn_collective_node c;
    qn_dtype dtype = graph->values[node->in[0]].type.dtype;
    if (qn_collective_read(node, &c, NULL) != QN_OK || c.ranks < 2 ||
        c.ranks != s->graph->n_ranks || c.ranks > s->options.n_accels)
        return false;
    bool moves = c.kind == QN_ALL_GATHER || c.kind == QN_BROADCAST;
    return moves || (dtype != QN_I16 && dtype != QN_U16);
}

static qn_status place_node(const placing *p, const qn_graph *graph,
                            qn_node *node, qn_error *err)
{
    qn_session *s = p->session;
    uint32_t part = node->rank < s->options.n_accels ? node->rank : 0;
    if (shape_only(node) || works_out_shapes(p, graph, node))
        return QN_OK;
    if (node->op->flags & QN_OP_COLLECTIVE) {
        node->place = exchanges(s, graph, node); /* and see qn_node_space() */
        s->report.accel_kernels += node->place;
        return QN_OK;
    }
    qn_accel *accel = s->accels[part]->accel;
    qn_dtype *types;
    qn_status st = types_of(graph, node, &types, err);
    if (st != QN_OK)
        return st;
    const qn_kernel *kernel =
        accel->ops->kernel_find(accel, node, node->n_in, types);
    qn_free(types);
    if (kernel) {
        node->kernel = kernel;
        node->place = (uint8_t)(part + 1);
        s->report.accel_kernels++;
    }
    return QN_OK;
}

/* Where a node reads its inputs. Of a view: where its output is read. */
static void note_readers(placing *p, const qn_graph *graph, const qn_node *node)
{
    uint32_t host = node->op->value_in;
    uint8_t rest = node->place ? READ_ON_DEVICE : READ_ON_HOST;
    if (node->kernel)
        host |= node->kernel->host_in;
    if (node->op->flags & QN_OP_VIEW)
        rest = node->out[0] == QN_NO_VALUE ? 0 : p->readers[node->out[0]];
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] == QN_NO_VALUE || shape_only(node))
            continue;
        bool on_host = i < 32 && (host >> i & 1);
        /* an operator of the host that merely lacks a kernel on the device is
         * no reason to compute what it reads on the host */
        bool lacks = !node->place && !small_integer(graph, node->in[i]);
        p->readers[node->in[i]] |= on_host ? READ_ON_HOST
                                   : lacks ? READ_ON_DEVICE : rest;
    }
}

/* Backwards, so that a value's readers are known when its producer is placed. */
static qn_status place_graph(qn_graph *graph, void *arg, qn_error *err)
{
    placing p = { .session = arg };
    qn_status st = QN_OK;
    p.readers = qn_calloc(graph->n_values + 1u, 1);
    if (!p.readers)
        return qn_fail(err, QN_NO_MEMORY, "no memory to place kernels");
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        p.readers[graph->outputs[i]] |= READ_ON_DEVICE;
    for (uint32_t i = graph->n_nodes; st == QN_OK && i-- > 0;) {
        qn_node *node = graph->nodes[i];
        if (node->op->flags & QN_OP_CONTROL) {
            /* the condition on the host; what branches capture may be anything */
            for (uint32_t k = 0; k < node->n_in; k++)
                if (node->in[k] != QN_NO_VALUE)
                    p.readers[node->in[k]] |= READ_ON_HOST;
            for (uint32_t a = 0; a < node->n_attrs; a++) {
                const qn_graph *child = node->attrs[a].graph;
                for (uint32_t v = 0; child && v < child->n_values; v++)
                    if (child->values[v].kind == QN_VALUE_CAPTURE)
                        p.readers[child->values[v].outer] |= READ_ON_DEVICE;
            }
            continue;
        }
        if (!(node->op->flags & QN_OP_VIEW))
            st = place_node(&p, graph, node, err);
        note_readers(&p, graph, node);
    }
    qn_free(p.readers);
    return st;
}

qn_status qn_pass_place(qn_session *session, qn_error *err)
{
    return session->options.n_accels
               ? qn_graph_each(session->graph, place_graph, session, err)
               : QN_OK;
}

/* ---- the load report ---- */

typedef struct listing {
    const qn_session *session;
    qn_cpu_operator *rows;
    uint32_t n, cap;
} listing;

static bool lacks_kernel(const qn_session *s, const qn_graph *graph,
                         const qn_node *node)
{
    uint32_t part = node->rank < s->options.n_accels ? node->rank : 0;
    qn_accel *accel = s->accels[part]->accel;
    qn_dtype *types;
    if (node->place || node->op->flags & (QN_OP_VIEW | QN_OP_CONTROL) ||
        shape_only(node))
        return false;
    if (node->op->flags & QN_OP_COLLECTIVE)
        return true;
    if (types_of(graph, node, &types, NULL) != QN_OK)
        return false;
    bool lacks = !accel->ops->kernel_find(accel, node, node->n_in, types);
    qn_free(types);
    return lacks;
}

static qn_status list_graph(qn_graph *graph, void *arg, qn_error *err)
{
    listing *l = arg;
    (void)err;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const qn_node *node = graph->nodes[i];
        uint32_t k = 0;
        if (!lacks_kernel(l->session, graph, node))
            continue;
        while (k < l->n && k < l->cap &&
               (strcmp(l->rows[k].op, node->op_name) ||
                strcmp(l->rows[k].domain, node->domain)))
            k++;
        if (k == l->n && k < l->cap)
            l->rows[l->n++] = (qn_cpu_operator){ .domain = node->domain,
                                                 .op = node->op_name };
        if (k < l->cap)
            l->rows[k].count++;
    }
    return QN_OK;
}

uint32_t qn_session_on_cpu(const qn_session *session, qn_cpu_operator *out,
                           uint32_t cap)
{
    listing l = { .session = session, .rows = out, .cap = cap };
    if (!session->options.n_accels)
        return 0;
    (void)qn_graph_each(session->graph, list_graph, &l, NULL);
    return l.n;
}

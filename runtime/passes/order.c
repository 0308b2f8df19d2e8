/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels last. Convolutions read and write N H W C best, and their memory is
 * planned to the byte, so values between them stay in that order and are
 * converted only where an operator needs the plain one:
 *
 *   input(plain) ─ Conv* ─ Relu ─ MaxPool ─ Conv ─ ToChannelsFirst ─ Reshape
 *                  └ reads plain, writes channels last
 *
 * A node is taken along if its kernel can (QN_KERNEL_NHWC) or if it is
 * elementwise, and its other arguments have the same bytes in both orders.
 */
#include "runtime/exec/kernel.h"
#include "runtime/exec/session_impl.h"
#include "runtime/ops/op.h"
#include "runtime/passes/passes.h"

#include <stdlib.h>
#include <string.h>

/* A Conv with so few input channels reads plain order as well as it would read
 * channels last: no copy of the model's input is made. */
enum { PLAIN_INPUT_CHANNELS = 4 };

typedef struct reorder {
    qn_graph *g;
    qn_error *err;
    qn_node **nodes; /* the new list */
    uint32_t n, cap;
    qn_value_id *plain; /* [n_values at the start] plain twin, or NO_VALUE */
    uint32_t n_old;
} reorder;

static bool is_nhwc(const qn_graph *g, qn_value_id id)
{
    return id != QN_NO_VALUE && g->values[id].order == QN_ORDER_NHWC;
}

static bool is_op(const qn_node *node, const char *name)
{
    return !node->domain[0] && !strcmp(node->op_name, name);
}

static bool is_const(const qn_graph *g, qn_value_id id)
{
    return id != QN_NO_VALUE && g->values[id].kind == QN_VALUE_CONST;
}

/* At most one dimension other than 1, so that any order has the same bytes. */
static bool orderless(const qn_shape *s)
{
    int wide = 0;
    for (int i = 0; i < s->rank; i++)
        wide += s->dims[i] != 1;
    return s->rank <= 4 && wide <= 1;
}

/* Arguments 1.. are constants or left out. */
static bool rest_constant(const qn_graph *g, const qn_node *node)
{
    for (uint32_t i = 1; i < node->n_in; i++)
        if (node->in[i] != QN_NO_VALUE && !is_const(g, node->in[i]))
            return false;
    return true;
}

static bool elementwise_fits(const qn_graph *g, const qn_node *node)
{
    bool any = false;
    for (uint32_t i = 0; i < node->n_in; i++) {
        qn_value_id id = node->in[i];
        if (id == QN_NO_VALUE)
            continue;
        if (is_nhwc(g, id))
            any = true;
        else if (!is_const(g, id) || !orderless(&g->values[id].data->shape))
            return false;
    }
    return any;
}

static bool is_conv2d(const qn_graph *g, const qn_node *node)
{
    if (!is_op(node, "Conv") || !is_const(g, node->in[1]))
        return false;
    const qn_const *w = g->values[node->in[1]].data;
    return w->dtype == QN_F32 && w->shape.rank == 4 &&
           (node->n_in < 3 || node->in[2] == QN_NO_VALUE ||
            is_const(g, node->in[2]));
}

static bool all_nhwc(const qn_graph *g, const qn_node *node)
{
    for (uint32_t i = 0; i < node->n_in; i++)
        if (!is_nhwc(g, node->in[i]))
            return false;
    return node->n_in > 0;
}

static bool goes_along(const qn_graph *g, const qn_node *node)
{
    if (node->op->flags & (QN_OP_CONTROL | QN_OP_VIEW))
        return false;
    if (node->place) /* accelerators read and write plain order */
        return false;
    if (node->op->flags & QN_OP_ELEMENTWISE)
        return node->n_out == 1 && elementwise_fits(g, node);
    if (!node->kernel || !(node->kernel->flags & QN_KERNEL_NHWC))
        return false;
    if (is_op(node, "Conv"))
        return is_conv2d(g, node);
    if (is_op(node, "Concat")) {
        int64_t axis = qn_node_int(node, "axis", 1);
        return all_nhwc(g, node) && axis >= -4 && axis < 4;
    }
    return node->n_in && is_nhwc(g, node->in[0]) && rest_constant(g, node) &&
           (node->n_out == 1 || is_op(node, "Split"));
}

/* ---- inserting ---- */

static qn_status push(reorder *r, qn_node *node)
{
    if (r->n == r->cap) {
        uint32_t cap = r->cap ? 2 * r->cap : 64;
        qn_node **grown = qn_realloc(r->nodes, cap, sizeof(qn_node *));
        if (!grown)
            return qn_fail(r->err, QN_NO_MEMORY, "no memory for a node");
        r->nodes = grown;
        r->cap = cap;
    }
    r->nodes[r->n++] = node;
    return QN_OK;
}

static qn_status insert(reorder *r, const char *op, qn_value_id from,
                        qn_memory_order order, qn_value_id *to)
{
    qn_graph *g = r->g;
    qn_value v = g->values[from];
    qn_node *node = qn_region_alloc(g->region, 1, sizeof *node);
    qn_value_id *ids = qn_region_alloc(g->region, 2, sizeof *ids);
    if (!node || !ids)
        return qn_fail(r->err, QN_NO_MEMORY, "no memory for a node");
    v.kind = QN_VALUE_NODE;
    v.data = NULL;
    v.order = order;
    qn_status st = qn_graph_add_value(g, &v, to, r->err);
    if (st != QN_OK)
        return st;
    ids[0] = from;
    ids[1] = *to;
    *node = (qn_node){ .name = v.name, .domain = "ai.quern", .op_name = op,
                       .opset = 1, .n_in = 1, .n_out = 1, .in = ids,
                       .out = ids + 1 };
    node->op = qn_op_find(node->domain, op, 1, NULL);
    node->kernel = qn_cpu_kernel_find(node, 1, &v.type.dtype);
    if (!node->kernel)
        return qn_fail(r->err, QN_INTERNAL, "no kernel for %s", op);
    return push(r, node);
}

static qn_status to_plain(reorder *r, qn_value_id *id)
{
    if (!is_nhwc(r->g, *id))
        return QN_OK;
    if (*id < r->n_old && r->plain[*id] != QN_NO_VALUE) {
        *id = r->plain[*id];
        return QN_OK;
    }
    qn_value_id from = *id;
    qn_status st = insert(r, "ToChannelsFirst", from, QN_ORDER_PLAIN, id);
    if (st == QN_OK && from < r->n_old)
        r->plain[from] = *id;
    return st;
}

/* A constant argument as [1, C, 1, 1] and its like, in the node's order. */
static qn_status lift_constant(reorder *r, qn_value_id *id)
{
    qn_graph *g = r->g;
    qn_value v = g->values[*id];
    qn_const *c = qn_region_alloc(g->region, 1, sizeof *c);
    if (!c)
        return qn_fail(r->err, QN_NO_MEMORY, "no memory for a constant");
    *c = *v.data;
    int lead = 4 - c->shape.rank;
    for (int i = 3; i >= 0; i--)
        c->shape.dims[i] = i >= lead ? v.data->shape.dims[i - lead] : 1;
    c->shape.rank = 4;
    v.data = c;
    v.order = QN_ORDER_NHWC;
    return qn_graph_add_value(g, &v, id, r->err);
}

static qn_status mark_plain_input(reorder *r, qn_node *node)
{
    qn_attr *attrs = qn_region_alloc(r->g->region, node->n_attrs + 1u,
                                     sizeof *attrs);
    if (!attrs)
        return qn_fail(r->err, QN_NO_MEMORY, "no memory for an attribute");
    if (node->n_attrs)
        memcpy(attrs, node->attrs, node->n_attrs * sizeof *attrs);
    attrs[node->n_attrs] = (qn_attr){ .name = "qn_plain_input",
                                      .kind = QN_ATTR_INT, .i = 1 };
    node->attrs = attrs;
    node->n_attrs++;
    return QN_OK;
}

static qn_status take_along(reorder *r, qn_node *node)
{
    qn_graph *g = r->g;
    qn_status st = QN_OK;
    if (is_op(node, "Conv") && !is_nhwc(g, node->in[0])) {
        const qn_shape *w = &g->values[node->in[1]].data->shape;
        bool one_group = qn_node_int(node, "group", 1) == 1;
        st = one_group && w->dims[1] <= PLAIN_INPUT_CHANNELS
                 ? mark_plain_input(r, node)
                 : insert(r, "ToChannelsLast", node->in[0], QN_ORDER_NHWC,
                          &node->in[0]);
    }
    for (uint32_t i = 0; st == QN_OK && i < node->n_in; i++)
        if ((node->op->flags & QN_OP_ELEMENTWISE) && is_const(g, node->in[i]))
            st = lift_constant(r, &node->in[i]);
    node->order = QN_ORDER_NHWC;
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i] != QN_NO_VALUE)
            g->values[node->out[i]].order = QN_ORDER_NHWC;
    return st;
}

/* Everything that a child graph captures is plain. */
static qn_status plain_captures(reorder *r, const qn_node *node)
{
    qn_status st = QN_OK;
    for (uint32_t a = 0; a < node->n_attrs; a++) {
        qn_graph *child = node->attrs[a].graph;
        for (uint32_t v = 0; st == QN_OK && child && v < child->n_values; v++)
            if (child->values[v].kind == QN_VALUE_CAPTURE)
                st = to_plain(r, &child->values[v].outer);
    }
    return st;
}

static qn_status reorder_graph(qn_graph *g, void *arg, qn_error *err)
{
    reorder r = { .g = g, .err = err, .n_old = g->n_values };
    qn_status st = QN_OK;
    (void)arg;
    r.plain = qn_calloc(g->n_values + 1u, sizeof *r.plain);
    qn_node **list = NULL;
    if (!r.plain)
        return qn_fail(err, QN_NO_MEMORY, "no memory to order values");
    for (uint32_t i = 0; i < r.n_old; i++)
        r.plain[i] = QN_NO_VALUE;
    for (uint32_t i = 0; st == QN_OK && i < g->n_nodes; i++) {
        qn_node *node = g->nodes[i];
        if (goes_along(g, node)) {
            st = take_along(&r, node);
        } else {
            for (uint32_t k = 0; st == QN_OK && k < node->n_in; k++)
                st = to_plain(&r, &node->in[k]);
            if (st == QN_OK)
                st = plain_captures(&r, node);
        }
        if (st == QN_OK)
            st = push(&r, node);
    }
    for (uint32_t i = 0; st == QN_OK && i < g->n_outputs; i++)
        st = to_plain(&r, &g->outputs[i]);
    if (st == QN_OK && r.n) {
        list = qn_region_alloc(g->region, r.n, sizeof(qn_node *));
        if (!list)
            st = qn_fail(err, QN_NO_MEMORY, "no memory to order values");
    }
    if (st == QN_OK && r.n) {
        memcpy(list, r.nodes, r.n * sizeof(qn_node *));
        g->nodes = list;
        g->n_nodes = g->cap_nodes = r.n;
        qn_graph_renumber(g);
    }
    qn_free(r.nodes);
    qn_free(r.plain);
    return st;
}

qn_status qn_pass_order(qn_graph *graph, qn_error *err)
{
    return qn_graph_each(graph, reorder_graph, NULL, err);
}

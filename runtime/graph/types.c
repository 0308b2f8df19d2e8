/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completing a graph, second half: operators and element types, node by node
 * in execution order. A child graph comes before its node is completed, since
 * the node's output types are those of the child's outputs.
 */
#include "runtime/graph/finish.h"
#include "runtime/ops/op.h"

#include <stdio.h>
#include <string.h>

enum { TYPE_TEXT = 96 };

static const char *type_text(const qn_type *t, char buf[TYPE_TEXT])
{
    static const char *const kinds[] = {
        [QN_TYPE_NONE] = "of unknown type", [QN_TYPE_TENSOR] = "tensor",
        [QN_TYPE_SEQUENCE] = "a sequence",  [QN_TYPE_OPTIONAL] = "an optional",
        [QN_TYPE_MAP] = "a map"
    };

    if (t->kind == QN_TYPE_TENSOR)
        snprintf(buf, TYPE_TEXT, "%s", qn_dtype_name(t->dtype));
    else
        snprintf(buf, TYPE_TEXT, "%s", kinds[t->kind]);
    return buf;
}

static bool same_type(const qn_type *a, const qn_type *b)
{
    while (a && b && a->kind == b->kind) {
        if (a->kind == QN_TYPE_TENSOR)
            return a->dtype == b->dtype;
        if (a->kind == QN_TYPE_MAP && a->dtype != b->dtype)
            return false;
        if (a->kind == QN_TYPE_NONE)
            return true;
        a = a->elem;
        b = b->elem;
    }
    return !a && !b;
}

/* ---- operator ---- */

static qn_status find_op(qn_node *node, qn_error *err)
{
    char text[QN_NODE_TEXT];
    bool known;
    const char *domain = node->domain;

    if (node->opset > 0)
        node->op = qn_op_find(domain, node->op_name, node->opset, &known);
    if (node->op)
        return QN_OK;
    qn_node_text(node, text);
    if (node->opset <= 0)
        return qn_fail(err, QN_UNSUPPORTED,
                       "operator %s: the model imports no opset of domain "
                       "'%.100s'",
                       text, domain[0] ? domain : "ai.onnx");
    if (!known)
        return qn_fail(err, QN_UNSUPPORTED, "operator %s: Quern has no such "
                       "operator%s%.100s%s", text,
                       domain[0] ? " in domain '" : "", domain,
                       domain[0] ? "'" : "");
    if (!domain[0] && node->opset > QN_OPSET_MAX)
        return qn_fail(err, QN_UNSUPPORTED,
                       "operator %s: opset %d is newer than %d, the latest "
                       "that Quern knows", text, node->opset, QN_OPSET_MAX);
    return qn_fail(err, QN_UNSUPPORTED,
                   "operator %s: Quern has this operator, but not as it is at "
                   "opset %d", text, node->opset);
}

static qn_status check_count(const qn_node *node, const char *what, uint32_t n,
                             uint32_t min, uint32_t max, qn_error *err)
{
    char text[QN_NODE_TEXT];

    if (n >= min && (max == QN_VARIADIC || n <= max))
        return QN_OK;
    qn_node_text(node, text);
    if (max == QN_VARIADIC)
        return qn_fail(err, QN_FORMAT, "%s: %u %s, at least %u expected", text,
                       n, what, min);
    if (min == max)
        return qn_fail(err, QN_FORMAT, "%s: %u %s, %u expected", text, n, what,
                       min);
    return qn_fail(err, QN_FORMAT, "%s: %u %s, %u to %u expected", text, n,
                   what, min, max);
}

/* Cut off omitted arguments at the end, then compare with the operator. */
static qn_status check_counts(qn_graph *g, qn_node *node, qn_error *err)
{
    const qn_op *op = node->op;
    char text[QN_NODE_TEXT];
    qn_status st;

    while (node->n_in && node->in[node->n_in - 1] == QN_NO_VALUE)
        node->n_in--;
    while (node->n_out > op->min_out &&
           node->out[node->n_out - 1] == QN_NO_VALUE)
        node->n_out--;
    st = check_count(node, "inputs", node->n_in, op->min_in, op->max_in, err);
    if (st == QN_OK)
        st = check_count(node, "outputs", node->n_out, op->min_out, op->max_out,
                         err);
    if (st != QN_OK)
        return st;
    for (uint32_t i = 0; i < op->min_in; i++)
        if (node->in[i] == QN_NO_VALUE)
            return qn_fail(err, QN_FORMAT,
                           "%s: input %u is omitted, but not optional",
                           qn_node_text(node, text), i);
    for (uint32_t i = 0; i < op->min_out; i++) {
        if (node->out[i] != QN_NO_VALUE)
            continue;
        qn_value v = { .kind = QN_VALUE_NODE, .rank = -1 };
        st = qn_graph_add_value(g, &v, &node->out[i], err);
        if (st != QN_OK)
            return st;
        g->values[node->out[i]].node = node->index;
    }
    return QN_OK;
}

/* ---- element types ---- */

static qn_dtypes allowed(const qn_op *op, uint32_t i)
{
    uint32_t last = 0;
    for (uint32_t k = 0; k < QN_OP_TYPED; k++)
        if (op->types[k])
            last = k;
    return op->types[i < last ? i : last];
}

static qn_status input_types(const qn_graph *g, const qn_node *node,
                             qn_dtype *in, qn_error *err)
{
    char text[QN_NODE_TEXT], type[TYPE_TEXT];
    uint32_t first = UINT32_MAX;

    for (uint32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] == QN_NO_VALUE)
            continue;
        const qn_value *v = &g->values[node->in[i]];
        if (v->type.kind != QN_TYPE_TENSOR)
            return qn_fail(err, QN_UNSUPPORTED,
                           "operator %s: input %u '%.80s' is %s, Quern takes "
                           "tensors only",
                           qn_node_text(node, text), i, v->name,
                           type_text(&v->type, type));
        in[i] = v->type.dtype;
        qn_dtypes mask = allowed(node->op, i);
        if (mask && !qn_dtypes_has(mask, in[i]))
            return qn_fail(err, QN_TYPE,
                           "%s: input %u '%.80s' is %s, which the operator "
                           "does not take",
                           qn_node_text(node, text), i, v->name,
                           qn_dtype_name(in[i]));
        if (first == UINT32_MAX)
            first = i;
        if ((node->op->flags & QN_OP_SAME_TYPE) && in[i] != in[first])
            return qn_fail(err, QN_TYPE,
                           "%s: input %u '%.80s' is %s, but input %u is %s",
                           qn_node_text(node, text), i, v->name,
                           qn_dtype_name(in[i]), first,
                           qn_dtype_name(in[first]));
    }
    return QN_OK;
}

/* Output types of control flow: those that every child graph agrees on. */
static qn_status control_types(qn_graph *g, const qn_node *node, qn_error *err)
{
    char text[QN_NODE_TEXT], a[TYPE_TEXT], b[TYPE_TEXT];
    const qn_graph *first = NULL;

    for (uint32_t i = 0; i < node->n_attrs; i++) {
        const qn_graph *child = node->attrs[i].graph;
        if (node->attrs[i].kind != QN_ATTR_GRAPH || !child)
            continue;
        if (child->n_outputs != node->n_out)
            return qn_fail(err, QN_FORMAT,
                           "%s: '%s' has %u outputs, the node %u",
                           qn_node_text(node, text), node->attrs[i].name,
                           child->n_outputs, node->n_out);
        for (uint32_t k = 0; k < node->n_out; k++) {
            const qn_type *t = &child->values[child->outputs[k]].type;
            if (first &&
                !same_type(t, &first->values[first->outputs[k]].type))
                return qn_fail(
                    err, QN_TYPE, "%s: output %u is %s in '%s', %s elsewhere",
                    qn_node_text(node, text), k, type_text(t, a),
                    node->attrs[i].name,
                    type_text(&first->values[first->outputs[k]].type, b));
            if (node->out[k] != QN_NO_VALUE)
                g->values[node->out[k]].type = *t;
        }
        first = first ? first : child;
    }
    if (!first)
        return qn_fail(err, QN_FORMAT, "%s: no graph to run",
                       qn_node_text(node, text));
    return QN_OK;
}

static qn_status output_types(qn_graph *g, const qn_node *node,
                              const qn_dtype *in, qn_dtype *out, qn_error *err)
{
    const qn_op *op = node->op;
    char text[QN_NODE_TEXT];

    for (uint32_t i = 0; i < node->n_out; i++)
        out[i] = node->n_in ? in[0] : QN_NONE;
    if (op->out_types) {
        qn_error why = { 0 };
        qn_status st = op->out_types(node, node->n_in, in, node->n_out, out,
                                     &why);
        if (st != QN_OK)
            return qn_fail(err, st, "%s: %.400s", qn_node_text(node, text),
                           why.text);
    }
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] == QN_NO_VALUE)
            continue;
        if (!qn_dtype_valid((int)out[i]))
            return qn_fail(err, QN_TYPE, "%s: output %u has no type",
                           qn_node_text(node, text), i);
        g->values[node->out[i]].type =
            (qn_type){ .kind = QN_TYPE_TENSOR, .dtype = out[i] };
    }
    return QN_OK;
}

/* Captures look like what they stand for. */
static void capture_types(qn_graph *g)
{
    for (uint32_t i = 0; i < g->n_values; i++) {
        qn_value *v = &g->values[i];
        if (v->kind != QN_VALUE_CAPTURE)
            continue;
        const qn_value *from = &g->parent->values[v->outer];
        v->type = from->type;
        v->rank = from->rank;
        v->dims = from->dims;
    }
}

static qn_status graph_types(qn_graph *g, qn_region *scratch, qn_error *err);

static qn_status node_types(qn_graph *g, qn_node *node, qn_region *scratch,
                            qn_error *err)
{
    char text[QN_NODE_TEXT];
    qn_status st = find_op(node, err);

    if (st == QN_OK)
        st = check_counts(g, node, err);
    if (st != QN_OK)
        return st;
    qn_dtype *types = qn_region_alloc(
        scratch, (size_t)node->n_in + node->n_out + 1, sizeof *types);
    if (!types)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for types");
    st = input_types(g, node, types, err);
    for (uint32_t i = 0; i < node->n_attrs && st == QN_OK; i++)
        if (node->attrs[i].kind == QN_ATTR_GRAPH && node->attrs[i].graph)
            st = graph_types(node->attrs[i].graph, scratch, err);
    if (st == QN_OK && node->op->check) {
        qn_error why = { 0 };
        st = node->op->check(node, &why);
        if (st != QN_OK)
            return qn_fail(err, st, "%s: %.400s", qn_node_text(node, text),
                           why.text);
    }
    if (st != QN_OK)
        return st;
    if ((node->op->flags & QN_OP_CONTROL) && !node->op->out_types)
        return control_types(g, node, err);
    return output_types(g, node, types, types + node->n_in, err);
}

static qn_status check_outputs(const qn_graph *g, qn_error *err)
{
    char a[TYPE_TEXT], b[TYPE_TEXT];

    for (uint32_t i = 0; i < g->n_outputs; i++) {
        const qn_type *got = &g->values[g->outputs[i]].type;
        const qn_type *want = &g->output_types[i];
        if (want->kind == QN_TYPE_NONE || same_type(got, want))
            continue;
        qn_status st = qn_fail(
            err, QN_TYPE,
            "output '%.120s' is declared as %s, but the graph makes it %s",
            g->output_names[i], type_text(want, a), type_text(got, b));
        qn_error_where(err, g->output_names[i], a, b);
        return st;
    }
    return QN_OK;
}

static qn_status graph_types(qn_graph *g, qn_region *scratch, qn_error *err)
{
    qn_status st = QN_OK;

    capture_types(g);
    for (uint32_t k = 0; k < g->n_nodes && st == QN_OK; k++)
        st = node_types(g, g->nodes[k], scratch, err);
    return st == QN_OK ? check_outputs(g, err) : st;
}

qn_status qn_graph_types(qn_graph *graph, qn_error *err)
{
    qn_region scratch = { 0 };
    qn_status st = graph_types(graph, &scratch, err);

    qn_region_release(&scratch);
    return st;
}

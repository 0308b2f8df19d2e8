/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GraphProto. Fields may come in any order and nodes need not be sorted, so it
 * is walked once per kind of thing: inputs, initializers, node outputs, nodes,
 * outputs. Walking skips what it does not read by its length.
 */
#include "models/onnx/reader.h"

#include <string.h>

enum {
    GRAPH_NODE = 1,
    GRAPH_NAME = 2,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    GRAPH_SPARSE = 15
};

typedef qn_status (*visit)(qn_reader *r, qn_scope *scope, qn_wire w);

static qn_status each(qn_reader *r, qn_scope *scope, qn_wire w,
                      uint32_t number, visit fn)
{
    qn_field f;
    qn_status st;

    while ((st = qn_wire_next(&w, &f, r->err)) == QN_OK && f.number) {
        if (f.number != number)
            continue;
        st = qn_field_want(&f, QN_WIRE_LEN, r->err);
        if (st == QN_OK)
            st = fn(r, scope, f.body);
        if (st != QN_OK)
            return st;
    }
    return st;
}

static qn_status read_input(qn_reader *r, qn_scope *scope, qn_wire w)
{
    qn_span name;
    qn_value v;
    qn_value_id id;
    size_t at = qn_wire_offset(&w);
    qn_status st = qn_onnx_value_info(r, w, &name, &v);

    if (st != QN_OK)
        return st;
    v.kind = QN_VALUE_INPUT;
    if (!name.len)
        return qn_fail(r->err, QN_FORMAT, "byte %zu: an input without a name",
                       at);
    if (!scope->graph->parent && v.type.kind == QN_TYPE_NONE)
        return qn_fail(r->err, QN_FORMAT, "input '%.120s' has no type", v.name);
    st = qn_graph_add_value(scope->graph, &v, &id, r->err);
    return st == QN_OK ? qn_scope_add(r, scope, name, id) : st;
}

/* Does the default of an input have the input's declared shape? */
static bool shape_fits(const qn_value *v, const qn_const *c)
{
    if (v->rank < 0)
        return true;
    if (v->rank != c->shape.rank)
        return false;
    for (int32_t i = 0; i < v->rank; i++)
        if (v->dims[i].value >= 0 && v->dims[i].value != c->shape.dims[i])
            return false;
    return true;
}

/*
 * An initializer that is an input too: since IR 4 it is the input's default;
 * before, all initializers had to be inputs, and it is a constant.
 */
static qn_status initialize_input(qn_reader *r, qn_value *v, const qn_const *c)
{
    char shape[QN_SHAPE_TEXT];

    if (v->data || v->kind != QN_VALUE_INPUT)
        return qn_fail(r->err, QN_FORMAT, "two initializers are named '%.120s'",
                       v->name);
    if (v->type.kind != QN_TYPE_NONE &&
        (v->type.kind != QN_TYPE_TENSOR || v->type.dtype != c->dtype))
        return qn_fail(r->err, QN_TYPE,
                       "initializer '%.120s' is %s, the input of that name not",
                       v->name, qn_dtype_name(c->dtype));
    v->type = (qn_type){ .kind = QN_TYPE_TENSOR, .dtype = c->dtype };
    v->data = c;
    if (r->ir_version < 4) {
        v->kind = QN_VALUE_CONST;
        v->rank = c->shape.rank;
        return qn_onnx_dims(r, &c->shape, &v->dims);
    }
    if (!shape_fits(v, c))
        return qn_fail(r->err, QN_SHAPE,
                       "initializer '%.120s' has shape %s, the input of that "
                       "name is declared otherwise",
                       v->name, qn_shape_text(&c->shape, shape));
    return QN_OK;
}

static qn_status add_initializer(qn_reader *r, qn_scope *scope, qn_span name,
                                 const qn_const *c, size_t at)
{
    const qn_scope_slot *slot = qn_scope_find(scope, name);
    qn_value v = { .kind = QN_VALUE_CONST,
                   .type = { .kind = QN_TYPE_TENSOR, .dtype = c->dtype },
                   .rank = c->shape.rank,
                   .data = c };
    qn_value_id id;

    if (!name.len)
        return qn_fail(r->err, QN_FORMAT,
                       "byte %zu: an initializer without a name", at);
    if (slot)
        return initialize_input(r, &scope->graph->values[slot->id], c);
    qn_status st = qn_span_name(r->region, name, "a value", &v.name, r->err);
    if (st == QN_OK)
        st = qn_onnx_dims(r, &c->shape, &v.dims);
    if (st == QN_OK)
        st = qn_graph_add_value(scope->graph, &v, &id, r->err);
    return st == QN_OK ? qn_scope_add(r, scope, name, id) : st;
}

static qn_status read_initializer(qn_reader *r, qn_scope *scope, qn_wire w)
{
    qn_span name = { 0 };
    const qn_const *c;
    qn_status st = qn_onnx_tensor(r, w, &name, &c);

    return st == QN_OK ? add_initializer(r, scope, name, c, qn_wire_offset(&w))
                       : st;
}

static qn_status read_sparse(qn_reader *r, qn_scope *scope, qn_wire w)
{
    qn_span name = { 0 };
    const qn_const *c;
    qn_status st = qn_onnx_sparse(r, w, &name, &c);

    return st == QN_OK ? add_initializer(r, scope, name, c, qn_wire_offset(&w))
                       : st;
}

/* Values that are inputs still, now that the initializers are known. Only
 * inputs and constants are there, in the order of the file. */
static qn_status list_inputs(qn_reader *r, qn_graph *g)
{
    qn_status st = QN_OK;

    for (uint32_t i = 0; i < g->n_values && st == QN_OK; i++)
        if (g->values[i].kind == QN_VALUE_INPUT)
            st = qn_graph_add_input(g, i, r->err);
    return st;
}

static qn_status read_output(qn_reader *r, qn_scope *scope, qn_wire w)
{
    qn_span name;
    qn_value decl;
    qn_value_id id;
    size_t at = qn_wire_offset(&w);
    qn_status st = qn_onnx_value_info(r, w, &name, &decl);

    if (st != QN_OK)
        return st;
    if (!name.len)
        return qn_fail(r->err, QN_FORMAT, "byte %zu: an output without a name",
                       at);
    st = qn_scope_resolve(r, scope, name, &id);
    if (st == QN_OK && id == QN_NO_VALUE)
        st = qn_fail(r->err, QN_FORMAT, "output '%.120s' is an input that the "
                     "function's caller left out", decl.name);
    return st == QN_OK ? qn_graph_add_output(scope->graph, id, &decl, r->err)
                       : st;
}

static qn_status read_name(qn_reader *r, qn_wire w, const char **out)
{
    qn_field f;
    qn_span name = { 0 };
    qn_status st;

    while ((st = qn_wire_next(&w, &f, r->err)) == QN_OK && f.number) {
        if (f.number == GRAPH_NAME)
            st = qn_field_span(&f, &name, r->err);
        if (st != QN_OK)
            return st;
    }
    *out = "";
    if (st == QN_OK)
        *out = qn_span_text(&r->scratch, name);
    return *out ? st : qn_reader_no_memory(r);
}

qn_status qn_onnx_graph(qn_reader *r, qn_wire w, qn_scope *outer,
                        qn_graph **out)
{
    qn_scope scope = { .parent = outer, .imports = &r->imports };
    const char *name;
    qn_graph *g;
    qn_status st;

    *out = NULL;
    if (outer) {
        scope.depth = outer->depth + 1;
        scope.calls = outer->calls;
        scope.imports = outer->imports;
        scope.call = outer->call;
        scope.n_call = outer->n_call;
    }
    if (scope.depth > QN_ONNX_MAX_DEPTH)
        return qn_fail(r->err, QN_TOO_LARGE,
                       "graphs are nested more than %d deep",
                       QN_ONNX_MAX_DEPTH);
    st = read_name(r, w, &name);
    if (st == QN_OK)
        st = qn_graph_new(outer ? outer->graph : NULL, name, &g, r->err);
    if (st != QN_OK)
        return st;
    *out = g;
    scope.graph = g;
    r->region = g->region;
    st = each(r, &scope, w, GRAPH_INPUT, read_input);
    if (st == QN_OK)
        st = each(r, &scope, w, GRAPH_INITIALIZER, read_initializer);
    if (st == QN_OK)
        st = each(r, &scope, w, GRAPH_SPARSE, read_sparse);
    if (st == QN_OK)
        st = list_inputs(r, g);
    if (st == QN_OK)
        st = each(r, &scope, w, GRAPH_NODE, qn_onnx_declare);
    if (st == QN_OK)
        st = each(r, &scope, w, GRAPH_NODE, qn_onnx_node);
    if (st == QN_OK)
        st = each(r, &scope, w, GRAPH_OUTPUT, read_output);
    return st;
}

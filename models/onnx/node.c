/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NodeProto. A Constant becomes a constant value, so that its bytes are used
 * where they lie in the file and no kernel has to copy them.
 */
#include "models/onnx/reader.h"

#include <string.h>

enum {
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_NAME = 3,
    NODE_OP_TYPE = 4,
    NODE_ATTRIBUTE = 5,
    NODE_DOMAIN = 7,
    NODE_OVERLOAD = 8,
    MAX_ARGS = 1 << 16
};

typedef struct proto {
    qn_span name, op, domain, overload;
    uint32_t n_in, n_out, n_attrs;
} proto;

static qn_status read_head(qn_reader *r, qn_wire w, proto *p)
{
    qn_field f;
    qn_status st;

    memset(p, 0, sizeof *p);
    while ((st = qn_wire_next(&w, &f, r->err)) == QN_OK && f.number) {
        if (f.number == NODE_NAME)
            st = qn_field_span(&f, &p->name, r->err);
        else if (f.number == NODE_OP_TYPE)
            st = qn_field_span(&f, &p->op, r->err);
        else if (f.number == NODE_DOMAIN)
            st = qn_field_span(&f, &p->domain, r->err);
        else if (f.number == NODE_OVERLOAD)
            st = qn_field_span(&f, &p->overload, r->err);
        else if (f.number == NODE_INPUT || f.number == NODE_OUTPUT ||
                 f.number == NODE_ATTRIBUTE)
            st = qn_field_want(&f, QN_WIRE_LEN, r->err);
        if (st != QN_OK)
            return st;
        p->n_in += f.number == NODE_INPUT;
        p->n_out += f.number == NODE_OUTPUT;
        p->n_attrs += f.number == NODE_ATTRIBUTE;
        if (p->n_in > MAX_ARGS || p->n_out > MAX_ARGS || p->n_attrs > MAX_ARGS)
            return qn_fail(r->err, QN_TOO_LARGE,
                           "byte %zu: a node with more than %d arguments",
                           qn_wire_offset(&w), MAX_ARGS);
    }
    p->domain = qn_onnx_domain(p->domain);
    return st;
}

qn_status qn_onnx_declare(qn_reader *r, qn_scope *scope, qn_wire w)
{
    qn_field f;
    qn_status st;

    while ((st = qn_wire_next(&w, &f, r->err)) == QN_OK && f.number) {
        qn_value v = { .kind = QN_VALUE_NODE, .rank = -1 };
        qn_value_id id;
        qn_span name;
        if (f.number != NODE_OUTPUT)
            continue;
        st = qn_field_span(&f, &name, r->err);
        if (st != QN_OK)
            return st;
        if (!name.len)
            continue;
        const qn_scope_slot *slot = qn_scope_find(scope, name);
        if (slot && slot->formal)
            continue;
        st = qn_span_name(r->region, name, "a value", &v.name, r->err);
        if (st == QN_OK)
            st = qn_graph_add_value(scope->graph, &v, &id, r->err);
        if (st == QN_OK)
            st = qn_scope_add(r, scope, name, id);
        if (st != QN_OK)
            return st;
    }
    return st;
}

/* ---- Constant ---- */

static qn_status put_const(qn_reader *r, qn_graph *g, qn_value_id id,
                           const qn_const *c)
{
    qn_value *v = &g->values[id];

    v->kind = QN_VALUE_CONST;
    v->type = (qn_type){ .kind = QN_TYPE_TENSOR, .dtype = c->dtype };
    v->data = c;
    v->rank = c->shape.rank;
    return qn_onnx_dims(r, &c->shape, &v->dims);
}

/* A scalar, or a vector of n elements, that lies in the region. */
static qn_const *make_const(qn_reader *r, qn_dtype dtype, const void *data,
                            bool vector, size_t n)
{
    qn_const *c = qn_region_alloc(r->region, 1, sizeof *c);

    if (!c)
        return NULL;
    c->dtype = dtype;
    c->shape.rank = vector;
    c->shape.dims[0] = vector ? (int64_t)n : 0;
    c->bytes = n * qn_dtype_size(dtype);
    c->data = data;
    return c;
}

static qn_const *string_const(qn_reader *r, const qn_text *texts, bool vector,
                              size_t n)
{
    size_t bytes = 0, at = 0;
    qn_string *elems = qn_region_alloc(r->region, n + 1, sizeof *elems);

    for (size_t i = 0; i < n; i++)
        bytes += texts[i].len;
    char *heap = qn_region_alloc(r->region, bytes + 1, 1);
    if (!elems || !heap)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        memcpy(heap + at, texts[i].s, texts[i].len);
        if (texts[i].len)
            elems[i] = qn_string_at(QN_STRINGS_STATIC, at, texts[i].len);
        at += texts[i].len;
    }
    qn_const *c = make_const(r, QN_STRING, elems, vector, n);
    if (c) {
        c->strings = heap;
        c->string_bytes = bytes;
    }
    return c;
}

/* NULL and QN_OK: not an attribute that Constant has. */
static qn_status const_of(qn_reader *r, const qn_attr *a, const qn_const **out)
{
    *out = NULL;
    if (!strcmp(a->name, "value") || !strcmp(a->name, "sparse_value"))
        *out = a->kind == QN_ATTR_TENSOR ? a->tensor : NULL;
    else if (!strcmp(a->name, "value_float") && a->kind == QN_ATTR_FLOAT)
        *out = make_const(r, QN_F32, &a->f, false, 1);
    else if (!strcmp(a->name, "value_int") && a->kind == QN_ATTR_INT)
        *out = make_const(r, QN_I64, &a->i, false, 1);
    else if (!strcmp(a->name, "value_string") && a->kind == QN_ATTR_STRING)
        *out = string_const(r, &a->s, false, 1);
    else if (!strcmp(a->name, "value_floats") && a->kind == QN_ATTR_FLOATS)
        *out = make_const(r, QN_F32, a->floats, true, a->n);
    else if (!strcmp(a->name, "value_ints") && a->kind == QN_ATTR_INTS)
        *out = make_const(r, QN_I64, a->ints, true, a->n);
    else if (!strcmp(a->name, "value_strings") && a->kind == QN_ATTR_STRINGS)
        *out = string_const(r, a->strings, true, a->n);
    else
        return QN_OK;
    return *out || a->kind == QN_ATTR_GRAPH ? QN_OK : qn_reader_no_memory(r);
}

/* ---- nodes ---- */

static qn_status read_args(qn_reader *r, qn_scope *scope, qn_wire w,
                           qn_value_id *in, qn_value_id *out)
{
    qn_field f;
    qn_status st;
    uint32_t i = 0, o = 0;

    while ((st = qn_wire_next(&w, &f, r->err)) == QN_OK && f.number) {
        qn_span name;
        if (f.number != NODE_INPUT && f.number != NODE_OUTPUT)
            continue;
        st = qn_field_span(&f, &name, r->err);
        if (st != QN_OK)
            return st;
        qn_value_id *id = f.number == NODE_INPUT ? &in[i++] : &out[o++];
        *id = QN_NO_VALUE;
        if (name.len)
            st = qn_scope_resolve(r, scope, name, id);
        if (st != QN_OK)
            return st;
    }
    return st;
}

static qn_status read_attrs(qn_reader *r, qn_scope *scope, qn_wire w,
                            qn_attr *attrs, uint32_t *n)
{
    qn_field f;
    qn_status st;

    *n = 0;
    while ((st = qn_wire_next(&w, &f, r->err)) == QN_OK && f.number) {
        bool present;
        if (f.number != NODE_ATTRIBUTE)
            continue;
        st = qn_onnx_attr(r, scope, f.body, &attrs[*n], &present);
        if (st != QN_OK)
            return st;
        *n += present;
    }
    return st;
}

/* The node as read, before it is decided what becomes of it. */
typedef struct parts {
    const char *name, *op, *domain;
    int opset;
    qn_value_id *in, *out;
    qn_attr *attrs;
    uint32_t n_attrs;
} parts;

static qn_status read_names(qn_reader *r, const qn_scope *scope,
                            const proto *p, parts *n)
{
    qn_status st = qn_span_name(r->region, p->name, "a node", &n->name, r->err);

    if (st == QN_OK)
        st = qn_span_name(r->region, p->op, "an operator", &n->op, r->err);
    if (st == QN_OK)
        st = qn_span_name(r->region, p->domain, "a domain", &n->domain, r->err);
    n->opset = qn_scope_opset(scope, p->domain);
    return st;
}

static qn_status read_parts(qn_reader *r, qn_scope *scope, qn_wire w,
                            const proto *p, parts *n)
{
    n->in = qn_region_alloc(r->region, (size_t)p->n_in + p->n_out + 1,
                            sizeof *n->in);
    n->attrs = qn_region_alloc(r->region, (size_t)p->n_attrs + 1,
                               sizeof *n->attrs);
    if (!n->in || !n->attrs)
        return qn_reader_no_memory(r);
    n->out = n->in + p->n_in;
    qn_status st = read_args(r, scope, w, n->in, n->out);
    return st == QN_OK ? read_attrs(r, scope, w, n->attrs, &n->n_attrs) : st;
}

static qn_status add_node(qn_reader *r, qn_graph *g, const proto *p,
                          const parts *n)
{
    qn_node *node;
    qn_status st = qn_graph_add_node(g, 0, 0, 0, &node, r->err);

    if (st != QN_OK)
        return st;
    node->name = n->name;
    node->op_name = n->op;
    node->domain = n->domain;
    node->opset = n->opset;
    node->n_in = p->n_in;
    node->n_out = p->n_out;
    node->in = n->in;
    node->out = n->out;
    node->n_attrs = n->n_attrs;
    node->attrs = n->attrs;
    return QN_OK;
}

static qn_status place(qn_reader *r, qn_scope *scope, const proto *p,
                       const parts *n)
{
    const qn_function *function = qn_onnx_function(r, p->domain, p->op,
                                                   p->overload);
    if (function) {
        qn_call call = { n->name,    n->op, p->n_in, p->n_out,
                         n->n_attrs, n->in, n->out,  n->attrs };
        return qn_onnx_inline(r, scope, function, &call);
    }
    if (!p->domain.len && !strcmp(n->op, "Constant") && n->opset > 0 &&
        p->n_in == 0 && p->n_out == 1 && n->n_attrs == 1 &&
        n->out[0] != QN_NO_VALUE) {
        const qn_const *c;
        qn_status st = const_of(r, &n->attrs[0], &c);
        if (st != QN_OK || c)
            return st == QN_OK ? put_const(r, scope->graph, n->out[0], c) : st;
    }
    return add_node(r, scope->graph, p, n);
}

qn_status qn_onnx_node(qn_reader *r, qn_scope *scope, qn_wire w)
{
    proto p;
    parts n;
    qn_status st = read_head(r, w, &p);

    if (st == QN_OK)
        st = read_names(r, scope, &p, &n);
    if (st != QN_OK)
        return st;
    if (r->n_nodes++ >= QN_ONNX_MAX_NODES)
        return qn_fail(r->err, QN_TOO_LARGE, "more than %d nodes",
                       QN_ONNX_MAX_NODES);
    st = read_parts(r, scope, w, &p, &n);
    if (st == QN_OK)
        return place(r, scope, &p, &n);
    /* where it happened: the innermost node, not all those around it */
    char text[QN_NODE_TEXT];
    qn_node node = { .name = n.name, .op_name = n.op, .domain = n.domain,
                     .opset = n.opset, .index = scope->graph->n_nodes };
    if (!r->named)
        qn_error_prefix(r->err, "%s%s",
                        st == QN_UNSUPPORTED ? "operator " : "",
                        qn_node_text(&node, text));
    r->named = true;
    return st;
}

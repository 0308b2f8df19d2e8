/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that a model brings along: their bodies are put where they are
 * called. The formal inputs and outputs are names for the caller's values; a
 * result that is just an argument handed through gets an Identity.
 */
#include "models/onnx/reader.h"

#include <string.h>

enum {
    FUNCTION_INPUT = 4,
    FUNCTION_OUTPUT = 5,
    FUNCTION_NODE = 7,
    FUNCTION_ATTR_DEFAULT = 11
};

const qn_function *qn_onnx_function(const qn_reader *r, qn_span domain,
                                    qn_span name, qn_span overload)
{
    for (size_t i = 0; i < r->n_functions; i++) {
        const qn_function *f = &r->functions[i];
        if (qn_span_equal(f->name, name) && qn_span_equal(f->domain, domain) &&
            qn_span_equal(f->overload, overload))
            return f;
    }
    return NULL;
}

/* result = Identity(argument), at the function's own opset. */
static qn_status hand_through(qn_reader *r, qn_scope *scope, qn_value_id from,
                              qn_value_id to)
{
    qn_node *node;
    int opset = qn_scope_opset(scope, (qn_span){ "", 0 });
    qn_status st = qn_graph_add_node(scope->graph, 1, 1, 0, &node, r->err);

    if (st != QN_OK)
        return st;
    node->op_name = "Identity";
    node->opset = opset ? opset : 13;
    node->in[0] = from;
    node->out[0] = to;
    return QN_OK;
}

static qn_status bind_output(qn_reader *r, qn_scope *scope, qn_span name,
                             qn_value_id actual)
{
    qn_scope_slot *slot = qn_scope_find(scope, name);
    qn_status st;

    if (actual == QN_NO_VALUE)
        return QN_OK; /* the body declares a value of its own */
    if (slot) {
        if (slot->id == QN_NO_VALUE)
            return qn_fail(r->err, QN_FORMAT, "output '%.*s' is an omitted "
                           "input", (int)(name.len < 80 ? name.len : 80),
                           name.s);
        return hand_through(r, scope, slot->id, actual);
    }
    st = qn_scope_add(r, scope, name, actual);
    if (st == QN_OK)
        qn_scope_find(scope, name)->formal = true;
    return st;
}

static qn_status bind(qn_reader *r, qn_scope *scope, qn_wire body,
                      const qn_call *call)
{
    uint32_t n_in = 0, n_out = 0;

    for (uint32_t which = FUNCTION_INPUT; which <= FUNCTION_OUTPUT; which++) {
        qn_wire w = body;
        qn_field f;
        qn_span name;
        qn_status st;
        while ((st = qn_wire_next(&w, &f, r->err)) == QN_OK && f.number) {
            if (f.number != which)
                continue;
            st = qn_field_span(&f, &name, r->err);
            if (st == QN_OK && which == FUNCTION_INPUT) {
                qn_value_id id = n_in < call->n_in ? call->in[n_in]
                                                   : QN_NO_VALUE;
                n_in++;
                st = qn_scope_add(r, scope, name, id);
            } else if (st == QN_OK) {
                qn_value_id id = n_out < call->n_out ? call->out[n_out]
                                                     : QN_NO_VALUE;
                n_out++;
                st = bind_output(r, scope, name, id);
            }
            if (st != QN_OK)
                return st;
        }
        if (st != QN_OK)
            return st;
    }
    if (call->n_in > n_in || call->n_out > n_out)
        return qn_fail(r->err, QN_FORMAT,
                       "called with %u inputs and %u outputs, it has %u and %u",
                       call->n_in, call->n_out, n_in, n_out);
    return QN_OK;
}

/* The call's attributes, then defaults for those that it leaves out. */
static qn_status bind_attrs(qn_reader *r, qn_scope *scope, qn_wire body,
                            const qn_call *call)
{
    uint32_t n = call->n_attrs;
    qn_wire w = body;
    qn_field f;
    qn_status st;

    while ((st = qn_wire_next(&w, &f, r->err)) == QN_OK && f.number)
        n += f.number == FUNCTION_ATTR_DEFAULT;
    if (st != QN_OK)
        return st;
    qn_attr *attrs = qn_region_alloc(r->region, (size_t)n + 1, sizeof *attrs);
    if (!attrs)
        return qn_reader_no_memory(r);
    if (call->n_attrs)
        memcpy(attrs, call->attrs, call->n_attrs * sizeof *attrs);
    n = call->n_attrs;
    w = body;
    while ((st = qn_wire_next(&w, &f, r->err)) == QN_OK && f.number) {
        bool present;
        if (f.number != FUNCTION_ATTR_DEFAULT)
            continue;
        st = qn_field_want(&f, QN_WIRE_LEN, r->err);
        if (st == QN_OK)
            st = qn_onnx_attr(r, scope, f.body, &attrs[n], &present);
        if (st != QN_OK)
            return st;
        for (uint32_t i = 0; i < call->n_attrs; i++)
            present = present && strcmp(attrs[i].name, attrs[n].name) != 0;
        n += present;
    }
    scope->call = attrs;
    scope->n_call = n;
    return st;
}

static qn_status each_node(qn_reader *r, qn_scope *scope, qn_wire w,
                           qn_status (*fn)(qn_reader *, qn_scope *, qn_wire))
{
    qn_field f;
    qn_status st;

    while ((st = qn_wire_next(&w, &f, r->err)) == QN_OK && f.number) {
        if (f.number != FUNCTION_NODE)
            continue;
        st = qn_field_want(&f, QN_WIRE_LEN, r->err);
        if (st == QN_OK)
            st = fn(r, scope, f.body);
        if (st != QN_OK)
            return st;
    }
    return st;
}

qn_status qn_onnx_inline(qn_reader *r, qn_scope *scope, const qn_function *f,
                         const qn_call *call)
{
    qn_scope body = { .graph = scope->graph,
                      .imports = &f->imports,
                      .depth = scope->depth,
                      .calls = scope->calls + 1 };
    qn_status st = QN_OK;

    if (body.calls > QN_ONNX_MAX_CALLS)
        return qn_fail(r->err, QN_UNSUPPORTED, "function '%.60s': calls nested "
                       "more than %d deep", call->op, QN_ONNX_MAX_CALLS);
    st = bind(r, &body, f->body, call);
    if (st == QN_OK)
        st = bind_attrs(r, &body, f->body, call);
    if (st == QN_OK)
        st = each_node(r, &body, f->body, qn_onnx_declare);
    if (st == QN_OK)
        st = each_node(r, &body, f->body, qn_onnx_node);
    if (st != QN_OK && !scope->calls)
        qn_error_prefix(r->err, "function '%.60s'", call->op);
    return st;
}

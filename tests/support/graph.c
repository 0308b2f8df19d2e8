/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void ok(qn_status st, const qn_error *err)
{
    if (st != QN_OK)
        fail_msg("%s: %s", qn_status_name(st), err->text);
}

qn_graph *tg_new(qn_graph *parent)
{
    qn_error err = { 0 };
    qn_graph *g;
    ok(qn_graph_new(parent, "g", &g, &err), &err);
    return g;
}

static const qn_dim *dims_of(qn_graph *g, int rank, const int64_t *dims)
{
    qn_dim *d = qn_region_alloc(g->region, (size_t)rank + 1, sizeof *d);
    assert_non_null(d);
    for (int i = 0; i < rank; i++)
        d[i].value = dims[i];
    return d;
}

static qn_value_id add(qn_graph *g, qn_value v)
{
    qn_error err = { 0 };
    qn_value_id id;
    ok(qn_graph_add_value(g, &v, &id, &err), &err);
    return id;
}

qn_value_id tg_input(qn_graph *g, const char *name, qn_dtype dtype, int rank,
                     const int64_t *dims)
{
    qn_error err = { 0 };
    qn_value_id id = add(g, (qn_value){
        .name = name, .kind = QN_VALUE_INPUT,
        .type = { .kind = QN_TYPE_TENSOR, .dtype = dtype }, .rank = rank,
        .dims = dims_of(g, rank, dims) });
    ok(qn_graph_add_input(g, id, &err), &err);
    return id;
}

qn_value_id tg_const(qn_graph *g, qn_dtype dtype, int rank, const int64_t *dims,
                     const void *data)
{
    qn_error err = { 0 };
    qn_const *c = qn_region_alloc(g->region, 1, sizeof *c);
    assert_non_null(c);
    *c = (qn_const){ .dtype = dtype, .shape = qn_shape_make(rank, dims),
                     .data = data };
    ok(qn_tensor_bytes(dtype, &c->shape, &c->bytes, &err), &err);
    return add(g, (qn_value){ .name = "c", .kind = QN_VALUE_CONST,
                              .type = { .kind = QN_TYPE_TENSOR, .dtype = dtype },
                              .rank = rank, .dims = dims_of(g, rank, dims),
                              .data = c });
}

qn_value_id tg_op(qn_graph *g, const char *op, int n, const qn_value_id *in)
{
    qn_error err = { 0 };
    qn_node *node;
    qn_value_id out = add(g, (qn_value){ .name = op, .kind = QN_VALUE_NODE,
                                         .rank = -1 });
    ok(qn_graph_add_node(g, (uint32_t)n, 1, 4, &node, &err), &err);
    node->op_name = op;
    node->opset = 18;
    node->n_attrs = 0;
    memcpy(node->in, in, (size_t)n * sizeof *in);
    node->out[0] = out;
    return out;
}

qn_value_id tg_op1(qn_graph *g, const char *op, qn_value_id a)
{
    return tg_op(g, op, 1, &a);
}

qn_value_id tg_op2(qn_graph *g, const char *op, qn_value_id a, qn_value_id b)
{
    return tg_op(g, op, 2, (qn_value_id[]){ a, b });
}

static qn_attr *attr(qn_graph *g, qn_value_id of, const char *name)
{
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->out[0] == of) {
            qn_attr *list;
            memcpy(&list, &g->nodes[i]->attrs, sizeof list);
            qn_attr *a = &list[g->nodes[i]->n_attrs++];
            a->name = name;
            return a;
        }
    fail_msg("no node produces value %u", of);
    return NULL;
}

void tg_attr_int(qn_graph *g, qn_value_id of, const char *name, int64_t value)
{
    qn_attr *a = attr(g, of, name);
    a->kind = QN_ATTR_INT;
    a->i = value;
}

void tg_attr_ints(qn_graph *g, qn_value_id of, const char *name, size_t n,
                  const int64_t *values)
{
    qn_attr *a = attr(g, of, name);
    int64_t *copy = qn_region_alloc(g->region, n + 1, sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, values, n * sizeof *copy);
    a->kind = QN_ATTR_INTS;
    a->n = n;
    a->ints = copy;
}

void tg_attr_graph(qn_graph *g, qn_value_id of, const char *name,
                   qn_graph *child)
{
    qn_attr *a = attr(g, of, name);
    a->kind = QN_ATTR_GRAPH;
    a->graph = child;
}

void tg_output(qn_graph *g, qn_value_id value, const char *name)
{
    qn_error err = { 0 };
    qn_value decl = { .name = name, .rank = -1 };
    ok(qn_graph_add_output(g, value, &decl, &err), &err);
}

qn_value_id tg_capture(qn_graph *g, qn_value_id outer)
{
    qn_error err = { 0 };
    qn_value_id id;
    ok(qn_graph_capture(g, outer, &id, &err), &err);
    return id;
}

void tg_finish(qn_graph *g)
{
    qn_error err = { 0 };
    ok(qn_graph_finish(g, &err), &err);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building a kernel graph: values, nodes, captures. Every array lives in the
 * tree's region and grows by doubling; what it outgrew stays there until the
 * graph goes, at most as much again. Checks are made in finish.c.
 */
#include "runtime/graph/graph.h"

#include <string.h>

enum { FIRST_CAP = 8, MAX_ITEMS = 1 << 28 };

/* Make room for one more of *items[n]. */
static qn_status grow(qn_graph *g, void *items, uint32_t n, uint32_t *cap,
                      uint32_t to, size_t size, qn_error *err)
{
    void *old, *new;

    memcpy(&old, items, sizeof old);
    if (to > MAX_ITEMS)
        return qn_fail(err, QN_TOO_LARGE, "a graph of more than %d items",
                       MAX_ITEMS);
    new = qn_region_alloc(g->region, to, size);
    if (!new)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for %u graph items",
                       to);
    if (n)
        memcpy(new, old, n * size);
    memcpy(items, &new, sizeof new);
    if (cap)
        *cap = to;
    return QN_OK;
}

static uint32_t next_cap(uint32_t cap)
{
    return cap ? 2 * cap : FIRST_CAP;
}

qn_status qn_graph_new(qn_graph *parent, const char *name, qn_graph **out,
                       qn_error *err)
{
    qn_graph *g;

    *out = NULL;
    if (parent)
        g = qn_region_alloc(parent->region, 1, sizeof *g);
    else
        g = qn_calloc(1, sizeof *g);
    if (!g)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for a graph");
    g->parent = parent;
    g->region = parent ? parent->region : &g->own_region;
    g->name = qn_region_strndup(g->region, name, strlen(name));
    if (!g->name) {
        qn_graph_free(g);
        return qn_fail(err, QN_NO_MEMORY, "out of memory for a graph's name");
    }
    *out = g;
    return QN_OK;
}

void qn_graph_free(qn_graph *graph)
{
    if (!graph || graph->parent)
        return;
    qn_region_release(&graph->own_region);
    qn_free(graph);
}

qn_status qn_graph_add_value(qn_graph *g, const qn_value *value,
                             qn_value_id *out, qn_error *err)
{
    qn_status st = QN_OK;

    *out = QN_NO_VALUE;
    if (g->n_values == g->cap_values)
        st = grow(g, &g->values, g->n_values, &g->cap_values,
                  next_cap(g->cap_values), sizeof *g->values, err);
    if (st != QN_OK)
        return st;
    qn_value *v = &g->values[g->n_values];
    *v = *value;
    if (!v->name)
        v->name = "";
    v->node = UINT32_MAX;
    *out = g->n_values++;
    return QN_OK;
}

qn_status qn_graph_add_input(qn_graph *g, qn_value_id value, qn_error *err)
{
    qn_status st = QN_OK;

    if (g->n_inputs == g->cap_inputs)
        st = grow(g, &g->inputs, g->n_inputs, &g->cap_inputs,
                  next_cap(g->cap_inputs), sizeof *g->inputs, err);
    if (st == QN_OK)
        g->inputs[g->n_inputs++] = value;
    return st;
}

qn_status qn_graph_add_output(qn_graph *g, qn_value_id value,
                              const qn_value *decl, qn_error *err)
{
    uint32_t n = g->n_outputs;

    if (n == g->cap_outputs) {
        /* four arrays of one capacity: it is raised by the last */
        uint32_t to = next_cap(g->cap_outputs);
        qn_status st = grow(g, &g->output_names, n, NULL, to,
                            sizeof *g->output_names, err);
        if (st == QN_OK)
            st = grow(g, &g->output_types, n, NULL, to,
                      sizeof *g->output_types, err);
        if (st == QN_OK)
            st = grow(g, &g->output_decls, n, NULL, to,
                      sizeof *g->output_decls, err);
        if (st == QN_OK)
            st = grow(g, &g->outputs, n, &g->cap_outputs, to,
                      sizeof *g->outputs, err);
        if (st != QN_OK)
            return st;
    }
    g->outputs[n] = value;
    g->output_names[n] = decl->name ? decl->name : "";
    g->output_types[n] = decl->type;
    g->output_decls[n] = *decl;
    g->n_outputs++;
    return QN_OK;
}

qn_status qn_graph_capture(qn_graph *g, qn_value_id outer, qn_value_id *out,
                           qn_error *err)
{
    *out = QN_NO_VALUE;
    if (!g->parent || outer >= g->parent->n_values)
        return qn_fail(err, QN_INTERNAL, "capture of value %u, which the "
                       "enclosing graph does not have", outer);
    for (uint32_t i = 0; i < g->n_values; i++)
        if (g->values[i].kind == QN_VALUE_CAPTURE &&
            g->values[i].outer == outer) {
            *out = i;
            return QN_OK;
        }
    const qn_value *from = &g->parent->values[outer];
    qn_value v = { .name = from->name,
                   .kind = QN_VALUE_CAPTURE,
                   .type = from->type,
                   .rank = from->rank,
                   .dims = from->dims,
                   .outer = outer };
    return qn_graph_add_value(g, &v, out, err);
}

qn_status qn_graph_add_node(qn_graph *g, uint32_t n_in, uint32_t n_out,
                            uint32_t n_attrs, qn_node **out, qn_error *err)
{
    qn_status st = QN_OK;

    *out = NULL;
    if (g->n_nodes == g->cap_nodes)
        st = grow(g, &g->nodes, g->n_nodes, &g->cap_nodes,
                  next_cap(g->cap_nodes), sizeof *g->nodes, err);
    if (st != QN_OK)
        return st;
    qn_node *node = qn_region_alloc(g->region, 1, sizeof *node);
    qn_value_id *ids = qn_region_alloc(g->region, (size_t)n_in + n_out + 1,
                                       sizeof *ids);
    qn_attr *attrs = n_attrs ? qn_region_alloc(g->region, n_attrs,
                                               sizeof *attrs)
                             : NULL;
    if (!node || !ids || (n_attrs && !attrs))
        return qn_fail(err, QN_NO_MEMORY, "out of memory for a node");
    for (size_t i = 0; i < (size_t)n_in + n_out; i++)
        ids[i] = QN_NO_VALUE;
    node->name = node->domain = node->op_name = "";
    node->index = g->n_nodes;
    node->n_in = n_in;
    node->n_out = n_out;
    node->in = ids;
    node->out = ids + n_in;
    node->n_attrs = n_attrs;
    node->attrs = attrs;
    g->nodes[g->n_nodes++] = node;
    *out = node;
    return QN_OK;
}

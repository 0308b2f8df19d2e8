/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors in attributes point into the model file, which is closed once the
 * session is made. Kernels read a few of them when they run (ConstantOfShape's
 * value, constants of strings): those are copied into the graph's region. The
 * large ones, weights in Constant nodes, were folded before.
 */
#include "runtime/exec/session_impl.h"
#include "runtime/passes/passes.h"

#include <string.h>

static qn_status keep_tensor(qn_graph *g, const qn_const **tensor, qn_error *err)
{
    const qn_const *from = *tensor;
    qn_const *c = qn_region_alloc(g->region, 1, sizeof *c);
    char *bytes = qn_region_alloc(g->region, from->bytes + 1, 1);
    char *strings = qn_region_alloc(g->region, from->string_bytes + 1, 1);
    if (!c || !bytes || !strings)
        return qn_fail(err, QN_NO_MEMORY, "no memory for a constant");
    qn_status st = qn_const_read(from, bytes, err);
    if (from->string_bytes)
        memcpy(strings, from->strings, from->string_bytes);
    *c = *from;
    c->data = bytes;
    c->strings = strings;
    *tensor = c;
    return st;
}

static qn_status keep(qn_graph *g, void *arg, qn_error *err)
{
    qn_status st = QN_OK;
    (void)arg;
    for (uint32_t i = 0; st == QN_OK && i < g->n_nodes; i++) {
        qn_node *node = g->nodes[i];
        bool any = false;
        for (uint32_t a = 0; a < node->n_attrs; a++)
            any |= node->attrs[a].tensor != NULL;
        if (!any)
            continue;
        qn_attr *attrs = qn_region_alloc(g->region, node->n_attrs, sizeof *attrs);
        if (!attrs)
            return qn_fail(err, QN_NO_MEMORY, "no memory for attributes");
        memcpy(attrs, node->attrs, node->n_attrs * sizeof *attrs);
        for (uint32_t a = 0; st == QN_OK && a < node->n_attrs; a++)
            if (attrs[a].tensor)
                st = keep_tensor(g, &attrs[a].tensor, err);
        node->attrs = attrs;
    }
    return st;
}

qn_status qn_pass_keep_attributes(qn_graph *graph, qn_error *err)
{
    return qn_graph_each(graph, keep, NULL, err);
}

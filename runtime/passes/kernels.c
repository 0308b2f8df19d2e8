/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/kernel.h"
#include "runtime/exec/session_impl.h"
#include "runtime/ops/op.h"
#include "runtime/passes/passes.h"

#include <string.h>

static qn_status choose(qn_graph *graph, void *arg, qn_error *err)
{
    (void)arg;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        qn_node *node = graph->nodes[i];
        char text[QN_NODE_TEXT];
        if (node->op->flags & (QN_OP_CONTROL | QN_OP_VIEW))
            continue;
        qn_dtype *types = qn_calloc(node->n_in + 1u, sizeof *types);
        if (!types)
            return qn_fail(err, QN_NO_MEMORY, "no memory for %u types",
                           node->n_in);
        for (uint32_t k = 0; k < node->n_in; k++)
            if (node->in[k] != QN_NO_VALUE)
                types[k] = graph->values[node->in[k]].type.dtype;
        node->kernel = qn_cpu_kernel_find(node, node->n_in, types);
        qn_dtype first = types[0];
        qn_free(types);
        if (!node->kernel)
            return qn_fail(err, QN_UNSUPPORTED,
                           "%s: the cpu has no kernel for %s input",
                           qn_node_text(node, text), qn_dtype_name(first));
    }
    return QN_OK;
}

qn_status qn_pass_kernels(qn_graph *graph, qn_error *err)
{
    return qn_graph_each(graph, choose, NULL, err);
}

void qn_count_uses(const qn_graph *graph, uint32_t *out)
{
    memset(out, 0, graph->n_values * sizeof *out);
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const qn_node *node = graph->nodes[i];
        for (uint32_t k = 0; k < node->n_in; k++)
            if (node->in[k] != QN_NO_VALUE)
                out[node->in[k]]++;
        for (uint32_t a = 0; a < node->n_attrs; a++) {
            const qn_graph *child = node->attrs[a].graph;
            for (uint32_t v = 0; child && v < child->n_values; v++)
                if (child->values[v].kind == QN_VALUE_CAPTURE)
                    out[child->values[v].outer]++;
        }
    }
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        out[graph->outputs[i]]++;
}

void qn_graph_renumber(qn_graph *graph)
{
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        qn_node *node = graph->nodes[i];
        node->index = i;
        for (uint32_t k = 0; k < node->n_out; k++)
            if (node->out[k] != QN_NO_VALUE)
                graph->values[node->out[k]].node = i;
    }
}

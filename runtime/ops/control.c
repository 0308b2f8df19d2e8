/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control flow. The executor runs these nodes itself; their output types come
 * from the child graphs (runtime/graph/types.c), their shapes from the plan of
 * the branch that runs. Branches of If may differ in shape and rank.
 */
#include "runtime/ops/tables.h"

static qn_status check_if(const qn_node *node, qn_error *err)
{
    static const char *const branches[] = { "then_branch", "else_branch" };

    for (int i = 0; i < 2; i++) {
        const qn_attr *a = qn_node_attr(node, branches[i]);
        if (!a || a->kind != QN_ATTR_GRAPH || !a->graph)
            return qn_fail(err, QN_INVALID, "attribute %s is missing or not a "
                           "graph", branches[i]);
        if (a->graph->n_inputs)
            return qn_fail(err, QN_INVALID, "%s has %u inputs, none expected",
                           branches[i], a->graph->n_inputs);
    }
    for (uint32_t i = 0; i < node->n_attrs; i++)
        if (node->attrs[i].kind == QN_ATTR_GRAPH &&
            node->attrs[i].graph != qn_node_attr(node, branches[0])->graph &&
            node->attrs[i].graph != qn_node_attr(node, branches[1])->graph)
            return qn_fail(err, QN_INVALID, "attribute '%.60s' is a graph that "
                           "If does not run", node->attrs[i].name);
    return QN_OK;
}

/* The versions differ only in which types the branches may return; the types
 * that came later are checked by the operators which make them. */
#define IF(from, to)                                                           \
    {                                                                          \
        .domain = "", .name = "If", .since = from, .until = to, .min_in = 1,   \
        .max_in = 1, .min_out = 1, .max_out = QN_VARIADIC,                     \
        .flags = QN_OP_CONTROL, .types = { QN_BIT(BOOL) }, .check = check_if   \
    }

static const qn_op rows[] = {
    IF(1, 10),  IF(11, 12), IF(13, 15), IF(16, 18),
    IF(19, 20), IF(21, 22), IF(23, 23), IF(24, QN_OPSET_MAX),
};

QN_OP_TABLE(qn_ops_control, rows);

/* SPDX-License-Identifier: Apache-2.0 */
/* Reading attributes, constants and names of nodes. */
#include "runtime/graph/graph.h"

#include <stdio.h>
#include <string.h>

const qn_attr *qn_node_attr(const qn_node *node, const char *name)
{
    for (uint32_t i = 0; i < node->n_attrs; i++)
        if (!strcmp(node->attrs[i].name, name))
            return &node->attrs[i];
    return NULL;
}

static const qn_attr *typed(const qn_node *node, const char *name,
                            qn_attr_kind kind)
{
    const qn_attr *a = qn_node_attr(node, name);
    return a && a->kind == kind ? a : NULL;
}

int64_t qn_node_int(const qn_node *node, const char *name, int64_t otherwise)
{
    const qn_attr *a = typed(node, name, QN_ATTR_INT);
    return a ? a->i : otherwise;
}

float qn_node_float(const qn_node *node, const char *name, float otherwise)
{
    const qn_attr *a = typed(node, name, QN_ATTR_FLOAT);
    return a ? a->f : otherwise;
}

const int64_t *qn_node_ints(const qn_node *node, const char *name, size_t *n)
{
    const qn_attr *a = typed(node, name, QN_ATTR_INTS);
    *n = a ? a->n : 0;
    return a ? a->ints : NULL;
}

const float *qn_node_floats(const qn_node *node, const char *name, size_t *n)
{
    const qn_attr *a = typed(node, name, QN_ATTR_FLOATS);
    *n = a ? a->n : 0;
    return a ? a->floats : NULL;
}

const char *qn_node_string(const qn_node *node, const char *name,
                           const char *otherwise)
{
    const qn_attr *a = typed(node, name, QN_ATTR_STRING);
    return a ? a->s.s : otherwise;
}

const char *qn_node_text(const qn_node *node, char buf[QN_NODE_TEXT])
{
    const char *domain = node->domain ? node->domain : "";
    int n = snprintf(buf, QN_NODE_TEXT, "%.60s%s%.60s (opset %d) node ", domain,
                     domain[0] ? "." : "", node->op_name, node->opset);
    size_t at = n > 0 ? (size_t)n : 0;
    if (node->name && node->name[0])
        snprintf(buf + at, QN_NODE_TEXT - at, "'%.90s'", node->name);
    else
        snprintf(buf + at, QN_NODE_TEXT - at, "#%u", node->index);
    at = strlen(buf);
    if (node->rank)
        snprintf(buf + at, QN_NODE_TEXT - at, " of rank %u", node->rank);
    return buf;
}

qn_status qn_const_read(const qn_const *c, void *dst, qn_error *err)
{
    if (c->data) {
        if (c->bytes)
            memcpy(dst, c->data, c->bytes);
        return QN_OK;
    }
    if (!c->bytes)
        return QN_OK;
    return c->fill(c, dst, err);
}

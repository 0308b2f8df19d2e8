/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ops/collective.h"

#include "runtime/base/checked.h"
#include "runtime/ops/tables.h"

#include <string.h>

static const char *const kinds[] = {
    [QN_ALL_REDUCE] = "AllReduce",
    [QN_ALL_GATHER] = "AllGather",
    [QN_REDUCE_SCATTER] = "ReduceScatter",
    [QN_BROADCAST] = "Broadcast",
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static const char *const reductions[] = {
    [QN_REDUCE_SUM] = "sum", [QN_REDUCE_PROD] = "prod", [QN_REDUCE_MIN] = "min",
    [QN_REDUCE_MAX] = "max", [QN_REDUCE_AVG] = "avg",
};
enum { N_REDUCTIONS = sizeof reductions / sizeof reductions[0] };

/* Its number in the list; n if it is not there. */
static size_t find(const char *const *list, size_t n, const char *name)
{
    size_t i = 0;
    while (i < n && strcmp(list[i], name) != 0)
        i++;
    return i;
}

bool qn_is_collective(const qn_node *node)
{
    return !strcmp(node->domain, "ai.quern") &&
           find(kinds, N_KINDS, node->op_name) < N_KINDS;
}

static qn_status read_counts(const qn_node *node, qn_collective_node *c,
                             qn_error *err)
{
    int64_t ranks = qn_node_int(node, "ranks", 1);
    if (ranks < 1 || ranks > QN_GRAPH_RANKS)
        return qn_fail(err, QN_INVALID, "attribute ranks is %lld, 1 to %d "
                       "expected", (long long)ranks, QN_GRAPH_RANKS);
    c->ranks = (uint32_t)ranks;
    if (!node->n_in || node->n_in != node->n_out || node->n_in % c->ranks)
        return qn_fail(err, QN_FORMAT, "%u inputs and %u outputs; as many of "
                       "one as of the other expected, the same number for each "
                       "of %u ranks", node->n_in, node->n_out, c->ranks);
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] == QN_NO_VALUE || node->out[i] == QN_NO_VALUE)
            return qn_fail(err, QN_FORMAT, "%s %u is left out",
                           node->in[i] == QN_NO_VALUE ? "input" : "output", i);
    c->tensors = node->n_in / c->ranks;
    return QN_OK;
}

qn_status qn_collective_read(const qn_node *node, qn_collective_node *out,
                             qn_error *err)
{
    size_t kind = find(kinds, N_KINDS, node->op_name);
    *out = (qn_collective_node){ .ranks = 1, .tensors = 1 };
    if (kind == N_KINDS)
        return qn_fail(err, QN_INTERNAL, "no collective");
    out->kind = (qn_collective)kind;
    qn_status st = read_counts(node, out, err);
    if (st != QN_OK)
        return st;
    if (kind == QN_ALL_REDUCE || kind == QN_REDUCE_SCATTER) {
        const char *op = qn_node_string(node, "op", "sum");
        size_t r = find(reductions, N_REDUCTIONS, op);
        if (r == N_REDUCTIONS)
            return qn_fail(err, QN_INVALID, "attribute op is \"%.40s\", sum, "
                           "prod, min, max or avg expected", op);
        out->reduction = (qn_reduction)r;
    }
    if (kind == QN_ALL_GATHER || kind == QN_REDUCE_SCATTER) {
        int64_t axis = qn_node_int(node, "axis", 0);
        if (axis)
            return qn_fail(err, QN_UNSUPPORTED, "attribute axis is %lld; only "
                           "axis 0 is supported", (long long)axis);
    }
    if (kind == QN_BROADCAST) {
        int64_t root = qn_node_int(node, "root", 0);
        bool merged = qn_node_attr(node, "ranks") != NULL;
        if (root < 0 || root >= (merged ? out->ranks : QN_GRAPH_RANKS))
            return qn_fail(err, QN_INVALID, "attribute root is %lld, there are "
                           "%u ranks", (long long)root,
                           merged ? out->ranks : QN_GRAPH_RANKS);
        out->root = (uint32_t)root;
    }
    return QN_OK;
}

uint8_t qn_node_space(const qn_node *node, uint32_t i)
{
    qn_collective_node c;
    if (!node->place || !qn_is_collective(node) ||
        qn_collective_read(node, &c, NULL) != QN_OK)
        return node->place;
    return (uint8_t)(qn_collective_rank(&c, i) + 1);
}

static qn_status check_collective(const qn_node *node, qn_error *err)
{
    qn_collective_node c;
    return qn_collective_read(node, &c, err);
}

/* The shape of tensor k on every rank. */
static qn_status same_shapes(const qn_infer *in, const qn_collective_node *c,
                             uint32_t k, qn_error *err)
{
    char a[QN_SHAPE_TEXT], b[QN_SHAPE_TEXT];
    const qn_tensor *first = &in->in[k];
    for (uint32_t r = 1; r < c->ranks; r++) {
        const qn_tensor *t = &in->in[r * c->tensors + k];
        if (t->dtype != first->dtype || !qn_shape_equal(&t->shape, &first->shape))
            return qn_fail(err, QN_SHAPE,
                           "tensor %u is %s %s on rank %u, but %s %s on rank 0",
                           k, qn_dtype_name(t->dtype),
                           qn_shape_text(&t->shape, a), r,
                           qn_dtype_name(first->dtype),
                           qn_shape_text(&first->shape, b));
    }
    return QN_OK;
}

static qn_status result_shape(const qn_collective_node *c, qn_shape *shape,
                              qn_error *err)
{
    char text[QN_SHAPE_TEXT];
    if (c->ranks == 1 || c->kind == QN_ALL_REDUCE || c->kind == QN_BROADCAST)
        return QN_OK;
    if (!shape->rank)
        return qn_fail(err, QN_SHAPE, "a scalar has no axis 0");
    if (c->kind == QN_ALL_GATHER)
        return __builtin_mul_overflow(shape->dims[0], (int64_t)c->ranks,
                                      &shape->dims[0])
                   ? qn_fail(err, QN_TOO_LARGE, "the gathered axis overflows")
                   : QN_OK;
    if (shape->dims[0] % c->ranks)
        return qn_fail(err, QN_SHAPE, "axis 0 of %s cannot be split over %u "
                       "ranks", qn_shape_text(shape, text), c->ranks);
    shape->dims[0] /= c->ranks;
    return QN_OK;
}

static qn_status infer_collective(const qn_infer *in, qn_error *err)
{
    qn_collective_node c;
    qn_status st = qn_collective_read(in->node, &c, err);
    for (uint32_t k = 0; st == QN_OK && k < c.tensors; k++) {
        qn_shape shape = in->in[k].shape;
        st = same_shapes(in, &c, k, err);
        if (st == QN_OK)
            st = result_shape(&c, &shape, err);
        for (uint32_t r = 0; st == QN_OK && r < c.ranks; r++)
            in->out[r * c.tensors + k].shape = shape;
    }
    return st;
}

#define ROW(op, allowed)                                                       \
    { .domain = "ai.quern", .name = op, .since = 1, .until = 1, .min_in = 1,   \
      .max_in = QN_VARIADIC, .min_out = 1, .max_out = QN_VARIADIC,             \
      .flags = QN_OP_COLLECTIVE | QN_OP_SAME_TYPE, .types = { allowed },       \
      .check = check_collective, .infer = infer_collective }

#define NUMBERS (QN_TYPES_FLOAT | QN_TYPES_INT)
#define MOVABLE (QN_TYPES_ALL & ~QN_BIT(STRING))

static const qn_op rows[] = {
    ROW("AllReduce", NUMBERS),
    ROW("AllGather", MOVABLE),
    ROW("ReduceScatter", NUMBERS),
    ROW("Broadcast", MOVABLE),
};

QN_OP_TABLE(qn_ops_collective, rows);

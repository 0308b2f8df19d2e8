/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions. Over an empty set: Sum, L1, L2, SumSquare 0, Prod 1, Max the
 * lowest and Min the highest value of the type (infinite for floats, false and
 * true for bool), LogSum and LogSumExp -inf, Mean NaN (integers 0). ArgMax and
 * ArgMin have no answer there and are refused.
 */
#include "runtime/ops/reduce.h"

#include "runtime/ops/tables.h"

static qn_status add_axis(int64_t axis, int rank, uint32_t *mask, qn_error *err)
{
    int at;
    qn_status st = qn_axis(axis, rank, &at, err);
    if (st == QN_OK)
        *mask |= 1u << at;
    return st;
}

qn_status qn_reduce_axes(const qn_node *node, uint32_t n_in,
                         const qn_tensor *in, uint32_t *mask, qn_error *err)
{
    int rank = in[0].shape.rank;
    size_t n = 0;
    uint32_t bits = 0;
    const int64_t *axes = NULL;
    if (n_in > 1 && qn_present(&in[1])) {
        int64_t count = qn_count(&in[1]);
        if (in[1].dtype != QN_I64)
            return qn_fail(err, QN_TYPE, "axes are %s, expected int64",
                           qn_dtype_name(in[1].dtype));
        if (count && !in[1].data)
            return qn_fail(err, QN_INTERNAL, "the value of axes is not known");
        n = (size_t)count;
        axes = in[1].data;
    } else {
        axes = qn_node_ints(node, "axes", &n);
    }
    for (size_t i = 0; i < n; i++) {
        qn_status st = add_axis(axes[i], rank, &bits, err);
        if (st != QN_OK)
            return st;
    }
    if (!n && !qn_node_int(node, "noop_with_empty_axes", 0))
        bits = (1u << rank) - 1;
    *mask = bits;
    return QN_OK;
}

qn_status qn_arg_axis(const qn_node *node, const qn_shape *shape, int *axis,
                      qn_error *err)
{
    /* a scalar has one element, as if it had one axis */
    return qn_axis(qn_node_int(node, "axis", 0), shape->rank ? shape->rank : 1,
                   axis, err);
}

static qn_shape reduced(const qn_shape *in, uint32_t mask, bool keep)
{
    qn_shape out = { 0 };
    for (int i = 0; i < in->rank; i++) {
        bool gone = (mask >> i) & 1;
        if (!gone || keep)
            out.dims[out.rank++] = gone ? 1 : in->dims[i];
    }
    return out;
}

static qn_status reduce_infer(const qn_infer *in, qn_error *err)
{
    uint32_t mask;
    qn_status st = qn_reduce_axes(in->node, in->n_in, in->in, &mask, err);
    if (st != QN_OK)
        return st;
    in->out[0].shape = reduced(&in->in[0].shape, mask,
                               qn_node_int(in->node, "keepdims", 1) != 0);
    return QN_OK;
}

static qn_status arg_infer(const qn_infer *in, qn_error *err)
{
    const qn_shape *s = &in->in[0].shape;
    int axis;
    int64_t count;
    qn_status st = qn_arg_axis(in->node, s, &axis, err);
    if (st != QN_OK)
        return st;
    qn_shape out =
        reduced(s, 1u << axis, qn_node_int(in->node, "keepdims", 1) != 0);
    if (s->rank && s->dims[axis] == 0 &&
        (!qn_shape_count(&out, &count) || count))
        return qn_fail(err, QN_SHAPE, "axis %d has no elements to choose from",
                       axis);
    in->out[0].shape = out;
    return QN_OK;
}

#define WIDE \
    (QN_TYPES_IEEE | QN_BIT(I32) | QN_BIT(I64) | QN_BIT(U32) | QN_BIT(U64))
#define WIDE13 (WIDE | QN_BIT(BF16))
#define BYTES  (QN_BIT(I8) | QN_BIT(U8))

/* axes is an attribute */
#define ATTR(op, from, to, t)                                              \
    {                                                                      \
        .domain = "", .name = op, .since = from, .until = to, .min_in = 1, \
        .max_in = 1, .min_out = 1, .max_out = 1, .types = { t },           \
        .infer = reduce_infer                                              \
    }
/* axes is input 1 */
#define INPUT(op, from, to, t)                                             \
    {                                                                      \
        .domain = "", .name = op, .since = from, .until = to, .min_in = 1, \
        .max_in = 2, .min_out = 1, .max_out = 1, .value_in = 1u << 1,      \
        .types = { t, QN_BIT(I64) }, .infer = reduce_infer                 \
    }
#define WIDE_OP(op)                                  \
    ATTR(op, 1, 12, WIDE), ATTR(op, 13, 17, WIDE13), \
        INPUT(op, 18, QN_OPSET_MAX, WIDE13)
#define ORDER_OP(op)                                                         \
    ATTR(op, 1, 11, WIDE), ATTR(op, 12, 12, WIDE | BYTES),                   \
        ATTR(op, 13, 17, WIDE13 | BYTES), INPUT(op, 18, 19, WIDE13 | BYTES), \
        INPUT(op, 20, QN_OPSET_MAX, WIDE13 | BYTES | QN_BIT(BOOL))
#define ARG_ROW(op, from, to, t)                                           \
    {                                                                      \
        .domain = "", .name = op, .since = from, .until = to, .min_in = 1, \
        .max_in = 1, .min_out = 1, .max_out = 1, .types = { t },           \
        .out_types = qn_types_i64, .infer = arg_infer                      \
    }
#define ARG_OP(op)                                    \
    ARG_ROW(op, 1, 12, QN_TYPES_IEEE | QN_TYPES_INT), \
        ARG_ROW(op, 13, QN_OPSET_MAX, QN_TYPES_FLOAT | QN_TYPES_INT)

static const qn_op rows[] = {
    ATTR("ReduceSum", 1, 12, WIDE),
    INPUT("ReduceSum", 13, QN_OPSET_MAX, WIDE13),
    WIDE_OP("ReduceMean"),
    ORDER_OP("ReduceMax"),
    ORDER_OP("ReduceMin"),
    WIDE_OP("ReduceProd"),
    WIDE_OP("ReduceL1"),
    WIDE_OP("ReduceL2"),
    WIDE_OP("ReduceSumSquare"),
    WIDE_OP("ReduceLogSum"),
    WIDE_OP("ReduceLogSumExp"),
    ARG_OP("ArgMax"),
    ARG_OP("ArgMin"),
};

QN_OP_TABLE(qn_ops_reduce, rows);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators that pick elements: TopK, NonZero, NonMaxSuppression. The last two
 * give as many rows as the data say; shapes here are their bounds.
 */
#include "runtime/base/checked.h"
#include "runtime/ops/tables.h"

static qn_status topk_infer(const qn_infer *in, qn_error *err)
{
    const qn_shape *s = &in->in[0].shape;
    int axis;
    int64_t k = qn_node_int(in->node, "k", 0);
    qn_status st =
        qn_axis(qn_node_int(in->node, "axis", -1), s->rank, &axis, err);
    if (st != QN_OK)
        return st;
    if (in->node->opset >= 10) {
        size_t n;
        st = qn_infer_ints(in, 1, &k, 1, &n, err);
        if (st != QN_OK)
            return st;
        if (n != 1)
            return qn_fail(err, QN_SHAPE, "K has no element, expected one");
    }
    if (k < 0 || k > s->dims[axis])
        return qn_fail(err, QN_RANGE,
                       "K is %lld, but axis %d has %lld elements", (long long)k,
                       axis, (long long)s->dims[axis]);
    for (uint32_t i = 0; i < in->n_out; i++) {
        in->out[i].shape = *s;
        in->out[i].shape.dims[axis] = k;
    }
    return QN_OK;
}

static qn_status nonzero_infer(const qn_infer *in, qn_error *err)
{
    const qn_shape *s = &in->in[0].shape;
    int64_t count;
    if (!qn_shape_count(s, &count)) {
        char text[QN_SHAPE_TEXT];
        return qn_fail(err, QN_TOO_LARGE, "input %s is too large",
                       qn_shape_text(s, text));
    }
    in->out[0].shape = qn_shape_make(2, (int64_t[]){ s->rank, count });
    return QN_OK;
}

static qn_status nms_shapes(const qn_infer *in, qn_error *err)
{
    const qn_shape *boxes = &in->in[0].shape, *scores = &in->in[1].shape;
    if (boxes->rank != 3 || scores->rank != 3 || boxes->dims[2] != 4 ||
        boxes->dims[0] != scores->dims[0] ||
        boxes->dims[1] != scores->dims[2]) {
        char tb[QN_SHAPE_TEXT], ts[QN_SHAPE_TEXT];
        return qn_fail(
            err, QN_SHAPE,
            "boxes %s and scores %s, expected [batches, boxes, 4] and "
            "[batches, classes, boxes]",
            qn_shape_text(boxes, tb), qn_shape_text(scores, ts));
    }
    if (boxes->dims[1] > INT32_MAX)
        return qn_fail(err, QN_TOO_LARGE, "%lld boxes, at most %d are possible",
                       (long long)boxes->dims[1], INT32_MAX);
    for (uint32_t i = 2; i < in->n_in; i++)
        if (qn_present(&in->in[i]) && qn_count(&in->in[i]) != 1)
            return qn_fail(err, QN_SHAPE,
                           "input %u has %lld elements, expected 1", i,
                           (long long)qn_count(&in->in[i]));
    return QN_OK;
}

static qn_status nms_infer(const qn_infer *in, qn_error *err)
{
    int64_t most = 0, rows;
    qn_status st = nms_shapes(in, err);
    if (st == QN_OK && in->n_in > 2 && qn_present(&in->in[2])) {
        size_t n;
        st = qn_infer_ints(in, 2, &most, 1, &n, err);
    }
    if (st != QN_OK)
        return st;
    const qn_shape *scores = &in->in[1].shape;
    if (most < 0)
        most = 0;
    if (most > scores->dims[2])
        most = scores->dims[2];
    if (!qn_mul_i64(scores->dims[0], scores->dims[1], &rows) ||
        !qn_mul_i64(rows, most, &rows))
        return qn_fail(err, QN_TOO_LARGE,
                       "too many batches, classes and boxes");
    in->out[0].shape = qn_shape_make(2, (int64_t[]){ rows, 3 });
    return QN_OK;
}

static qn_status topk_check(const qn_node *node, qn_error *err)
{
    const qn_attr *k = qn_node_attr(node, "k");
    if (node->opset < 10 && (!k || k->kind != QN_ATTR_INT))
        return qn_fail(err, QN_INVALID, "attribute k is missing");
    return QN_OK;
}

#define TOPK(from, to, ins, t)                                            \
    {                                                                     \
        .domain = "", .name = "TopK", .since = from, .until = to,         \
        .min_in = ins, .max_in = ins, .min_out = 2, .max_out = 2,         \
        .value_in = (ins) > 1 ? 1u << 1 : 0, .types = { t, QN_BIT(I64) }, \
        .out_types = qn_types_same_i64, .check = topk_check,              \
        .infer = topk_infer                                               \
    }
#define NONZERO(from, to, t)                                               \
    {                                                                      \
        .domain = "", .name = "NonZero", .since = from, .until = to,       \
        .min_in = 1, .max_in = 1, .min_out = 1, .max_out = 1,              \
        .flags = QN_OP_BOUNDED, .types = { t }, .out_types = qn_types_i64, \
        .infer = nonzero_infer                                             \
    }

static const qn_op rows[] = {
    TOPK(1, 9, 1, QN_TYPES_IEEE),
    TOPK(10, 10, 2, QN_TYPES_IEEE),
    TOPK(11, 23, 2, QN_TYPES_IEEE | QN_TYPES_INT),
    TOPK(24, QN_OPSET_MAX, 2, QN_TYPES_FLOAT | QN_TYPES_INT),
    NONZERO(9, 12, QN_TYPES_CLASSIC),
    NONZERO(13, QN_OPSET_MAX, QN_TYPES_CLASSIC | QN_BIT(BF16)),
    { .domain = "",
      .name = "NonMaxSuppression",
      .since = 10,
      .until = QN_OPSET_MAX,
      .min_in = 2,
      .max_in = 5,
      .min_out = 1,
      .max_out = 1,
      .flags = QN_OP_BOUNDED,
      .value_in = 1u << 2,
      .types = { QN_BIT(F32), QN_BIT(F32), QN_BIT(I64), QN_BIT(F32),
                 QN_BIT(F32) },
      .out_types = qn_types_i64,
      .infer = nms_infer },
};

QN_OP_TABLE(qn_ops_select, rows);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators that give the same bytes a new shape: Reshape, Flatten, Squeeze,
 * Unsqueeze, Identity. They are views: nothing is launched.
 *
 * Dropout is here too, but is not a view: a mask needs a launch, and training
 * mode is known only when it runs. Without a mask, in inference, a pass removes
 * it.
 */
#include "runtime/ops/move.h"
#include "runtime/ops/tables.h"

/* ---- Reshape ---- */

static qn_status reshape_dims(const qn_infer *in, const int64_t *want, size_t n,
                              bool allowzero, qn_error *err)
{
    const qn_shape *from = &in->in[0].shape;
    qn_shape to = { .rank = (int32_t)n };
    char a[QN_SHAPE_TEXT], b[QN_SHAPE_TEXT];
    int64_t have, count;
    int open = -1;
    bool zero = false;

    for (int i = 0; i < to.rank; i++) {
        int64_t d = want[i];
        if (d < -1)
            return qn_fail(err, QN_INVALID, "new shape has %lld at axis %d",
                           (long long)d, i);
        if (d == 0 && !allowzero) {
            if (i >= from->rank)
                return qn_fail(err, QN_SHAPE, "new shape copies axis %d, input "
                               "%s has none", i, qn_shape_text(from, a));
            d = from->dims[i];
        }
        if (d == -1 && open >= 0)
            return qn_fail(err, QN_INVALID, "new shape has -1 at axes %d and %d",
                           open, i);
        if (d == -1)
            open = i;
        zero = zero || d == 0;
        to.dims[i] = d == -1 ? 1 : d;
    }
    if (open >= 0 && zero)
        return qn_fail(err, QN_INVALID, "-1 at axis %d of the new shape cannot "
                       "be computed beside a dimension of 0", open);
    if (!qn_shape_count(from, &have) || !qn_shape_count(&to, &count))
        return qn_fail(err, QN_TOO_LARGE, "new shape %s has too many elements",
                       qn_shape_text(&to, b));
    if (open >= 0 && have % count == 0) {
        to.dims[open] = have / count;
        count = have;
    }
    if (count != have) {
        if (open >= 0)
            to.dims[open] = -1;
        return qn_fail(err, QN_SHAPE, "%s (%lld elements) does not reshape to %s",
                       qn_shape_text(from, a), (long long)have,
                       qn_shape_text(&to, b));
    }
    in->out[0].shape = to;
    return QN_OK;
}

static qn_status infer_reshape_attr(const qn_infer *in, qn_error *err)
{
    size_t n;
    const int64_t *shape = qn_node_ints(in->node, "shape", &n);
    if (n > QN_MAX_RANK)
        return qn_fail(err, QN_UNSUPPORTED, "rank %zu is above %d", n,
                       QN_MAX_RANK);
    return reshape_dims(in, shape, n, false, err);
}

static qn_status infer_reshape(const qn_infer *in, qn_error *err)
{
    int64_t shape[QN_MAX_RANK];
    size_t n;
    if (in->in[1].shape.rank != 1)
        return qn_fail(err, QN_SHAPE, "the new shape has rank %d, expected 1",
                       in->in[1].shape.rank);
    qn_status st = qn_infer_ints(in, 1, shape, QN_MAX_RANK, &n, err);
    if (st != QN_OK)
        return st;
    bool allowzero = qn_node_int(in->node, "allowzero", 0) != 0;
    return reshape_dims(in, shape, n, allowzero, err);
}

/* ---- Flatten ---- */

static qn_status infer_flatten(const qn_infer *in, qn_error *err)
{
    const qn_shape *from = &in->in[0].shape;
    int64_t axis = qn_node_int(in->node, "axis", 1);
    int64_t low = in->node->op->since >= 11 ? -(int64_t)from->rank : 0;
    if (axis < low || axis > from->rank)
        return qn_fail(err, QN_RANGE, "axis %lld is outside [%lld, %d]",
                       (long long)axis, (long long)low, from->rank);
    int at = (int)(axis < 0 ? axis + from->rank : axis);
    in->out[0].shape.rank = 2;
    in->out[0].shape.dims[0] = qn_shape_product(from, 0, at);
    in->out[0].shape.dims[1] = qn_shape_product(from, at, from->rank);
    return QN_OK;
}

/* ---- Squeeze, Unsqueeze ---- */

static const char *axes_attr(const qn_infer *in)
{
    return in->node->op->since < 13 ? "axes" : NULL;
}

static qn_status infer_squeeze(const qn_infer *in, qn_error *err)
{
    const qn_shape *from = &in->in[0].shape;
    bool drop[QN_MAX_RANK] = { false }, given;
    int axes[QN_MAX_RANK];
    size_t n;
    qn_status st = qn_read_axes(in, axes_attr(in), 1, from->rank, axes, &n,
                                &given, err);
    if (st != QN_OK)
        return st;
    for (size_t k = 0; k < n; k++) {
        if (from->dims[axes[k]] != 1) {
            char text[QN_SHAPE_TEXT];
            return qn_fail(err, QN_SHAPE, "axis %d of %s is not 1", axes[k],
                           qn_shape_text(from, text));
        }
        drop[axes[k]] = true;
    }
    qn_shape to = { 0 };
    for (int i = 0; i < from->rank; i++)
        if (given ? !drop[i] : from->dims[i] != 1)
            to.dims[to.rank++] = from->dims[i];
    in->out[0].shape = to;
    return QN_OK;
}

/* How many axes an Unsqueeze adds: the rank that they count in needs it. */
static qn_status count_axes(const qn_infer *in, size_t *n, qn_error *err)
{
    if (axes_attr(in)) {
        qn_node_ints(in->node, "axes", n);
        return QN_OK;
    }
    int64_t raw[QN_MAX_RANK];
    return qn_infer_ints(in, 1, raw, QN_MAX_RANK, n, err);
}

static qn_status infer_unsqueeze(const qn_infer *in, qn_error *err)
{
    const qn_shape *from = &in->in[0].shape;
    bool add[QN_MAX_RANK] = { false }, given;
    int axes[QN_MAX_RANK];
    size_t n;
    qn_status st = count_axes(in, &n, err);
    if (st != QN_OK)
        return st;
    if (n > (size_t)(QN_MAX_RANK - from->rank))
        return qn_fail(err, QN_UNSUPPORTED, "%zu more axes on rank %d: above "
                       "rank %d", n, from->rank, QN_MAX_RANK);
    int rank = from->rank + (int)n;
    st = qn_read_axes(in, axes_attr(in), 1, rank, axes, &n, &given, err);
    if (st != QN_OK)
        return st;
    for (size_t k = 0; k < n; k++)
        add[axes[k]] = true;
    qn_shape to = { .rank = rank };
    for (int i = 0, k = 0; i < rank; i++)
        to.dims[i] = add[i] ? 1 : from->dims[k++];
    in->out[0].shape = to;
    return QN_OK;
}

static qn_status check_axes(const qn_node *node, qn_error *err)
{
    const qn_attr *a = qn_node_attr(node, "axes");
    if (!a || a->kind != QN_ATTR_INTS)
        return qn_fail(err, QN_INVALID, "attribute axes is missing");
    return QN_OK;
}

static qn_status check_shape(const qn_node *node, qn_error *err)
{
    const qn_attr *a = qn_node_attr(node, "shape");
    if (!a || a->kind != QN_ATTR_INTS)
        return qn_fail(err, QN_INVALID, "attribute shape is missing");
    return QN_OK;
}

/* ---- Dropout ---- */

/* The mask is bool since opset 10, and of the data's type before. */
static qn_status dropout_types(const qn_node *node, uint32_t n_in,
                               const qn_dtype *in, uint32_t n_out,
                               qn_dtype *out, qn_error *err)
{
    (void)n_in, (void)err;
    for (uint32_t i = 0; i < n_out; i++)
        out[i] = i && node->op->since >= 10 ? QN_BOOL : in[0];
    return QN_OK;
}

#define REST .domain = "", .min_out = 1, .max_out = 1
#define VIEW(NAME, SINCE, UNTIL, TYPES, ...)                                   \
    { REST, .name = NAME, .since = SINCE, .until = UNTIL, .min_in = 1,         \
      .max_in = 1, .flags = QN_OP_VIEW, .types = { TYPES }, __VA_ARGS__ }
#define RESHAPE(SINCE, UNTIL, TYPES)                                           \
    { REST, .name = "Reshape", .since = SINCE, .until = UNTIL, .min_in = 2,    \
      .max_in = 2, .flags = QN_OP_VIEW, .value_in = 1u << 1,                   \
      .types = { TYPES, QN_BIT(I64) }, .infer = infer_reshape }
#define AXES(NAME, SINCE, UNTIL, MIN, TYPES, INFER)                            \
    { REST, .name = NAME, .since = SINCE, .until = UNTIL, .min_in = MIN,       \
      .max_in = 2, .flags = QN_OP_VIEW, .value_in = 1u << 1,                   \
      .types = { TYPES, QN_BIT(I64) }, .infer = INFER }
#define DROPOUT(SINCE, UNTIL, MAX, ...)                                        \
    { .domain = "", .name = "Dropout", .since = SINCE, .until = UNTIL,         \
      .min_in = 1, .max_in = MAX, .min_out = 1, .max_out = 2,                  \
      .inplace = 1u << 0, .types = { __VA_ARGS__ },                            \
      .out_types = dropout_types }

static const qn_op rows[] = {
    VIEW("Reshape", 1, 4, QN_TYPES_IEEE, .infer = infer_reshape_attr,
         .check = check_shape),
    RESHAPE(5, 12, QN_TYPES_CLASSIC),
    RESHAPE(13, 13, QN_TYPES_V13),
    RESHAPE(14, 18, QN_TYPES_V13),
    RESHAPE(19, 20, QN_TYPES_V19),
    RESHAPE(21, 22, QN_TYPES_V21),
    RESHAPE(23, 23, QN_TYPES_V23),
    RESHAPE(24, 24, QN_TYPES_V24),
    RESHAPE(25, QN_OPSET_MAX, QN_TYPES_V25),
    VIEW("Flatten", 1, 8, QN_TYPES_IEEE, .infer = infer_flatten),
    VIEW("Flatten", 9, 10, QN_TYPES_CLASSIC, .infer = infer_flatten),
    VIEW("Flatten", 11, 12, QN_TYPES_CLASSIC, .infer = infer_flatten),
    VIEW("Flatten", 13, 20, QN_TYPES_V13, .infer = infer_flatten),
    VIEW("Flatten", 21, 22, QN_TYPES_V21, .infer = infer_flatten),
    VIEW("Flatten", 23, 23, QN_TYPES_V23, .infer = infer_flatten),
    VIEW("Flatten", 24, 24, QN_TYPES_V24, .infer = infer_flatten),
    VIEW("Flatten", 25, QN_OPSET_MAX, QN_TYPES_V25, .infer = infer_flatten),
    VIEW("Squeeze", 1, 10, QN_TYPES_CLASSIC, .infer = infer_squeeze),
    VIEW("Squeeze", 11, 12, QN_TYPES_CLASSIC, .infer = infer_squeeze),
    AXES("Squeeze", 13, 20, 1, QN_TYPES_V13, infer_squeeze),
    AXES("Squeeze", 21, 22, 1, QN_TYPES_V21, infer_squeeze),
    AXES("Squeeze", 23, 23, 1, QN_TYPES_V23, infer_squeeze),
    AXES("Squeeze", 24, 24, 1, QN_TYPES_V24, infer_squeeze),
    AXES("Squeeze", 25, QN_OPSET_MAX, 1, QN_TYPES_V25, infer_squeeze),
    VIEW("Unsqueeze", 1, 10, QN_TYPES_CLASSIC, .infer = infer_unsqueeze,
         .check = check_axes),
    VIEW("Unsqueeze", 11, 12, QN_TYPES_CLASSIC, .infer = infer_unsqueeze,
         .check = check_axes),
    AXES("Unsqueeze", 13, 20, 2, QN_TYPES_V13, infer_unsqueeze),
    AXES("Unsqueeze", 21, 22, 2, QN_TYPES_V21, infer_unsqueeze),
    AXES("Unsqueeze", 23, 23, 2, QN_TYPES_V23, infer_unsqueeze),
    AXES("Unsqueeze", 24, 24, 2, QN_TYPES_V24, infer_unsqueeze),
    AXES("Unsqueeze", 25, QN_OPSET_MAX, 2, QN_TYPES_V25, infer_unsqueeze),
    VIEW("Identity", 1, 12, QN_TYPES_CLASSIC, .infer = NULL),
    VIEW("Identity", 13, 18, QN_TYPES_V13, .infer = NULL),
    VIEW("Identity", 19, 20, QN_TYPES_V19, .infer = NULL),
    VIEW("Identity", 21, 22, QN_TYPES_V21, .infer = NULL),
    VIEW("Identity", 23, 23, QN_TYPES_V23, .infer = NULL),
    VIEW("Identity", 24, 24, QN_TYPES_V24, .infer = NULL),
    VIEW("Identity", 25, QN_OPSET_MAX, QN_TYPES_V25, .infer = NULL),
    DROPOUT(1, 5, 1, QN_TYPES_IEEE),
    DROPOUT(6, 6, 1, QN_TYPES_IEEE),
    DROPOUT(7, 9, 1, QN_TYPES_IEEE),
    DROPOUT(10, 11, 1, QN_TYPES_IEEE),
    DROPOUT(12, 12, 3, QN_TYPES_IEEE, QN_TYPES_IEEE, QN_BIT(BOOL)),
    DROPOUT(13, 21, 3, QN_TYPES_FLOAT, QN_TYPES_IEEE, QN_BIT(BOOL)),
    DROPOUT(22, QN_OPSET_MAX, 3, QN_TYPES_FLOAT | QN_TYPES_F8,
            QN_TYPES_FLOAT | QN_TYPES_F8, QN_BIT(BOOL)),
};

QN_OP_TABLE(qn_ops_reshape, rows);

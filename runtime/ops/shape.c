/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators that make tensors out of shapes, attributes or a few numbers:
 * Shape, Size, Constant, ConstantOfShape, Range.
 */
#include "runtime/ops/move.h"
#include "runtime/ops/tables.h"

#include <math.h>
#include <string.h>

/* ---- Shape, Size ---- */

static qn_status infer_shape(const qn_infer *in, qn_error *err)
{
    int first, last;
    (void)err;
    qn_shape_range(in->node, in->in[0].shape.rank, &first, &last);
    in->out[0].shape.rank = 1;
    in->out[0].shape.dims[0] = last - first;
    return QN_OK;
}

static int bound(int64_t v, int rank)
{
    if (v < 0)
        v += rank;
    return (int)(v < 0 ? 0 : v > rank ? rank : v);
}

void qn_shape_range(const qn_node *node, int rank, int *first, int *last)
{
    *first = bound(qn_node_int(node, "start", 0), rank);
    *last = bound(qn_node_int(node, "end", rank), rank);
    if (*last < *first)
        *last = *first;
}

static qn_status infer_size(const qn_infer *in, qn_error *err)
{
    (void)err;
    in->out[0].shape.rank = 0;
    return QN_OK;
}

/* ---- Constant ---- */

/* The value: exactly one of these attributes. */
static const qn_attr *constant_value(const qn_node *node)
{
    static const char *const names[] = {
        "value", "sparse_value", "value_int", "value_ints", "value_float",
        "value_floats", "value_string", "value_strings"
    };
    const qn_attr *found = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const qn_attr *a = qn_node_attr(node, names[i]);
        if (a && found)
            return NULL;
        found = a ? a : found;
    }
    return found;
}

static qn_status check_constant(const qn_node *node, qn_error *err)
{
    const qn_attr *a = constant_value(node);
    if (!a)
        return qn_fail(err, QN_INVALID, "expected one attribute with a value");
    if (a->kind == QN_ATTR_GRAPH || (a->kind == QN_ATTR_TENSOR && !a->tensor))
        return qn_fail(err, QN_INVALID, "attribute %.40s holds no tensor",
                       a->name);
    return QN_OK;
}

static qn_status constant_types(const qn_node *node, uint32_t n_in,
                                const qn_dtype *in, uint32_t n_out,
                                qn_dtype *out, qn_error *err)
{
    (void)n_in, (void)in;
    qn_status st = check_constant(node, err);
    if (st != QN_OK || n_out == 0)
        return st;
    const qn_attr *a = constant_value(node);
    switch (a->kind) {
    case QN_ATTR_TENSOR: out[0] = a->tensor->dtype; break;
    case QN_ATTR_INT:
    case QN_ATTR_INTS: out[0] = QN_I64; break;
    case QN_ATTR_FLOAT:
    case QN_ATTR_FLOATS: out[0] = QN_F32; break;
    default: out[0] = QN_STRING; break;
    }
    return QN_OK;
}

static qn_status infer_constant(const qn_infer *in, qn_error *err)
{
    qn_shape *to = &in->out[0].shape;
    qn_status st = check_constant(in->node, err);
    if (st != QN_OK)
        return st;
    const qn_attr *a = constant_value(in->node);
    if (a->kind == QN_ATTR_TENSOR) {
        *to = a->tensor->shape;
        return QN_OK;
    }
    to->rank = a->kind == QN_ATTR_INTS || a->kind == QN_ATTR_FLOATS ||
               a->kind == QN_ATTR_STRINGS;
    to->dims[0] = to->rank ? (int64_t)a->n : 0;
    return QN_OK;
}

/* ---- ConstantOfShape ---- */

#define FILL_V9 (QN_TYPES_IEEE | QN_TYPES_INT | QN_BIT(BOOL))
#define FILL_V20 (FILL_V9 | QN_BIT(BF16) | QN_TYPES_F8)
#define FILL_V21 (FILL_V20 | QN_BIT(U4) | QN_BIT(I4))
#define FILL_V23 (FILL_V21 | QN_BIT(F4E2M1))
#define FILL_V24 (FILL_V23 | QN_BIT(F8E8M0))
#define FILL_V25 (FILL_V24 | QN_BIT(U2) | QN_BIT(I2))

static qn_status check_fill(const qn_node *node, qn_error *err)
{
    static const struct {
        int since;
        qn_dtypes types;
    } allowed[] = {
        { 25, FILL_V25 }, { 24, FILL_V24 }, { 23, FILL_V23 },
        { 21, FILL_V21 }, { 20, FILL_V20 }, { 9, FILL_V9 },
    };
    const qn_attr *a = qn_node_attr(node, "value");
    int64_t n;
    size_t i = 0;
    if (!a)
        return QN_OK;
    if (a->kind != QN_ATTR_TENSOR || !a->tensor ||
        !qn_shape_count(&a->tensor->shape, &n) || n != 1)
        return qn_fail(err, QN_INVALID, "attribute value is not a tensor of one "
                       "element");
    while (node->op->since < allowed[i].since)
        i++;
    if (!qn_dtypes_has(allowed[i].types, a->tensor->dtype))
        return qn_fail(err, QN_TYPE, "attribute value is %s",
                       qn_dtype_name(a->tensor->dtype));
    return QN_OK;
}

static qn_status fill_types(const qn_node *node, uint32_t n_in,
                            const qn_dtype *in, uint32_t n_out, qn_dtype *out,
                            qn_error *err)
{
    (void)n_in, (void)in, (void)err;
    const qn_attr *a = qn_node_attr(node, "value");
    if (n_out)
        out[0] = a && a->tensor ? a->tensor->dtype : QN_F32;
    return QN_OK;
}

static qn_status infer_fill(const qn_infer *in, qn_error *err)
{
    qn_shape *to = &in->out[0].shape;
    size_t n;
    if (in->in[0].shape.rank != 1)
        return qn_fail(err, QN_SHAPE, "the shape has rank %d, expected 1",
                       in->in[0].shape.rank);
    qn_status st = qn_infer_ints(in, 0, to->dims, QN_MAX_RANK, &n, err);
    if (st != QN_OK)
        return st;
    to->rank = (int32_t)n;
    for (int d = 0; d < to->rank; d++)
        if (to->dims[d] < 0)
            return qn_fail(err, QN_INVALID, "the shape has %lld at axis %d",
                           (long long)to->dims[d], d);
    return qn_check_output(in, 0, err);
}

/* ---- Range ---- */

static qn_status count_floats(double start, double limit, double delta,
                              int64_t *n, qn_error *err)
{
    double steps = ceil((limit - start) / delta);
    if (!(delta < 0 || delta > 0) || isnan(steps))
        return qn_fail(err, QN_INVALID, "range from %g to %g in steps of %g",
                       start, limit, delta);
    if (steps > 0x1p62)
        return qn_fail(err, QN_TOO_LARGE, "range from %g to %g in steps of %g has "
                       "%g elements", start, limit, delta, steps);
    *n = steps > 0 ? (int64_t)steps : 0;
    return QN_OK;
}

static qn_status count_ints(int64_t start, int64_t limit, int64_t delta,
                            int64_t *n, qn_error *err)
{
    bool up = delta > 0;
    uint64_t span, step = up ? (uint64_t)delta : 0 - (uint64_t)delta;
    if (delta == 0)
        return qn_fail(err, QN_INVALID, "range from %lld to %lld in steps of 0",
                       (long long)start, (long long)limit);
    *n = 0;
    if (up ? start >= limit : start <= limit)
        return QN_OK;
    span = up ? (uint64_t)limit - (uint64_t)start
              : (uint64_t)start - (uint64_t)limit;
    uint64_t steps = (span - 1) / step + 1;
    if (steps > (uint64_t)INT64_MAX)
        return qn_fail(err, QN_TOO_LARGE, "range from %lld to %lld in steps of "
                       "%lld has %llu elements", (long long)start,
                       (long long)limit, (long long)delta,
                       (unsigned long long)steps);
    *n = (int64_t)steps;
    return QN_OK;
}

static qn_status infer_range(const qn_infer *in, qn_error *err)
{
    double f[3];
    int64_t v[3], n = 0;
    qn_status st = QN_OK;
    for (uint32_t i = 0; i < 3; i++) {
        const qn_tensor *t = &in->in[i];
        st = qn_read_scalar(in, i, &f[i], err);
        if (st != QN_OK)
            return st;
        v[i] = 0;
        if (t->dtype == QN_I64) /* the only one that a double cannot hold */
            memcpy(&v[i], t->data, sizeof v[i]);
        else if (t->dtype == QN_I32 || t->dtype == QN_I16)
            v[i] = (int64_t)f[i];
    }
    if (qn_dtypes_has(QN_TYPES_FLOAT, in->in[0].dtype))
        st = count_floats(f[0], f[1], f[2], &n, err);
    else
        st = count_ints(v[0], v[1], v[2], &n, err);
    if (st != QN_OK)
        return st;
    in->out[0].shape.rank = 1;
    in->out[0].shape.dims[0] = n;
    return qn_check_output(in, 0, err);
}

#define ROW(NAME, SINCE, UNTIL, N_IN, TYPES, ...)                              \
    { .domain = "", .name = NAME, .since = SINCE, .until = UNTIL,              \
      .min_in = N_IN, .max_in = N_IN, .min_out = 1, .max_out = 1,              \
      .types = { TYPES }, __VA_ARGS__ }
#define SHAPE(SINCE, UNTIL, TYPES)                                             \
    ROW("Shape", SINCE, UNTIL, 1, TYPES, .out_types = qn_types_i64,            \
        .infer = infer_shape)
#define SIZE(SINCE, UNTIL, TYPES)                                              \
    ROW("Size", SINCE, UNTIL, 1, TYPES, .out_types = qn_types_i64,             \
        .infer = infer_size)
#define FILL(SINCE, UNTIL)                                                     \
    ROW("ConstantOfShape", SINCE, UNTIL, 1, QN_BIT(I64), .value_in = 1u << 0,  \
        .out_types = fill_types, .check = check_fill, .infer = infer_fill)
#define RANGE_V11                                                              \
    (QN_BIT(F32) | QN_BIT(F64) | QN_BIT(I16) | QN_BIT(I32) | QN_BIT(I64))
#define RANGE(SINCE, UNTIL, TYPES)                                             \
    ROW("Range", SINCE, UNTIL, 3, TYPES, .flags = QN_OP_SAME_TYPE,             \
        .value_in = 7u, .infer = infer_range)
/* One row: the attribute forms that later versions add are unknown to the
 * earlier ones, and no writer kept to the float types of version 1. */
#define CONSTANT                                                               \
    ROW("Constant", 1, QN_OPSET_MAX, 0, 0, .out_types = constant_types,        \
        .check = check_constant, .infer = infer_constant)

static const qn_op rows[] = {
    SHAPE(1, 12, QN_TYPES_CLASSIC),
    SHAPE(13, 14, QN_TYPES_V13),
    SHAPE(15, 18, QN_TYPES_V13),
    SHAPE(19, 20, QN_TYPES_V19),
    SHAPE(21, 22, QN_TYPES_V21),
    SHAPE(23, 23, QN_TYPES_V23),
    SHAPE(24, 24, QN_TYPES_V24),
    SHAPE(25, QN_OPSET_MAX, QN_TYPES_V25),
    SIZE(1, 12, QN_TYPES_CLASSIC),
    SIZE(13, 18, QN_TYPES_V13),
    SIZE(19, 20, QN_TYPES_V19),
    SIZE(21, 22, QN_TYPES_V21),
    SIZE(23, 23, QN_TYPES_V23),
    SIZE(24, 24, QN_TYPES_V24),
    SIZE(25, QN_OPSET_MAX, QN_TYPES_V25),
    CONSTANT,
    FILL(9, 19),
    FILL(20, 20),
    FILL(21, 22),
    FILL(23, 23),
    FILL(24, 24),
    FILL(25, QN_OPSET_MAX),
    RANGE(11, 26, RANGE_V11),
    RANGE(27, QN_OPSET_MAX, RANGE_V11 | QN_BIT(F16) | QN_BIT(BF16)),
};

QN_OP_TABLE(qn_ops_shape, rows);

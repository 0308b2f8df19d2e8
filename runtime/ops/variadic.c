/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of any number of operands, and Where. */
#include "runtime/ops/tables.h"

#define NUMERIC (QN_TYPES_IEEE | QN_TYPES_INT)
#define NUMERIC_BF (QN_TYPES_FLOAT | QN_TYPES_INT)

/* Before opset 8 all shapes are equal. */
static qn_status infer_equal(const qn_infer *in, qn_error *err)
{
    for (uint32_t i = 1; i < in->n_in; i++)
        if (!qn_shape_equal(&in->in[0].shape, &in->in[i].shape)) {
            char ta[QN_SHAPE_TEXT], tb[QN_SHAPE_TEXT];
            return qn_fail(err, QN_SHAPE,
                           "input %u has shape %s, input 0 has %s, equal ones "
                           "expected before opset 8",
                           i, qn_shape_text(&in->in[i].shape, tb),
                           qn_shape_text(&in->in[0].shape, ta));
        }
    in->out[0].shape = in->in[0].shape;
    return QN_OK;
}

static qn_status types_where(const qn_node *node, uint32_t n_in,
                             const qn_dtype *in, uint32_t n_out, qn_dtype *out,
                             qn_error *err)
{
    (void)node, (void)n_in, (void)n_out;
    out[0] = in[1];
    if (in[1] != in[2])
        return qn_fail(err, QN_TYPE, "input 1 is %s, input 2 is %s: one type "
                       "expected",
                       qn_dtype_name(in[1]), qn_dtype_name(in[2]));
    return QN_OK;
}

#define LAST QN_OPSET_MAX
/* The kernels read all operands of a stretch before they write it, hence any of
 * them may be overwritten. */
#define COMMON(op, from, to)                                                   \
    .domain = "", .name = op, .since = (from), .until = (to), .min_in = 1,     \
    .max_in = QN_VARIADIC, .min_out = 1, .max_out = 1, .inplace = UINT32_MAX,  \
    .flags = QN_OP_ELEMENTWISE | QN_OP_SAME_TYPE
#define ROW(op, from, to, set)                                                 \
    { COMMON(op, from, to), .types = { (set) }, .infer = qn_infer_broadcast }
#define FLOATS(op)                                                             \
    { COMMON(op, 1, 7), .types = { QN_TYPES_IEEE }, .infer = infer_equal },    \
        ROW(op, 8, 12, QN_TYPES_IEEE), ROW(op, 13, LAST, QN_TYPES_FLOAT)
#define NUMBERS(op)                                                            \
    { COMMON(op, 1, 7), .types = { QN_TYPES_IEEE }, .infer = infer_equal },    \
        ROW(op, 8, 11, QN_TYPES_IEEE), ROW(op, 12, 12, NUMERIC),               \
        ROW(op, 13, LAST, NUMERIC_BF)
#define WHERE(from, to, set)                                                   \
    { .domain = "", .name = "Where", .since = (from), .until = (to),           \
      .min_in = 3, .max_in = 3, .min_out = 1, .max_out = 1, .inplace = 7,      \
      .flags = QN_OP_ELEMENTWISE, .types = { QN_BIT(BOOL), (set) },            \
      .out_types = types_where, .infer = qn_infer_broadcast }

static const qn_op rows[] = {
    NUMBERS("Max"),
    NUMBERS("Min"),
    FLOATS("Sum"),
    FLOATS("Mean"),
    WHERE(9, 15, QN_TYPES_CLASSIC),
    WHERE(16, LAST, QN_TYPES_CLASSIC | QN_BIT(BF16)),
};

QN_OP_TABLE(qn_ops_variadic, rows);

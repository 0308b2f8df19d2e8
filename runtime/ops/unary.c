/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators that compute each element from one: activations, rounding, signs,
 * elementary functions. Clip's bounds and PRelu's slope are further inputs, but
 * values: no shape depends on them.
 */
#include "runtime/ops/binary.h"
#include "runtime/ops/tables.h"

#include <string.h>

#define NUMERIC (QN_TYPES_IEEE | QN_TYPES_INT)
#define NUMERIC_BF (QN_TYPES_FLOAT | QN_TYPES_INT)
#define BIG_INT (QN_BIT(I32) | QN_BIT(I64) | QN_BIT(U32) | QN_BIT(U64))

static qn_status check_gelu(const qn_node *node, qn_error *err)
{
    const char *how = qn_node_string(node, "approximate", "none");
    if (strcmp(how, "none") && strcmp(how, "tanh"))
        return qn_fail(err, QN_INVALID,
                       "attribute approximate is \"%s\", expected \"none\" or "
                       "\"tanh\"",
                       how);
    return QN_OK;
}

static qn_status check_celu(const qn_node *node, qn_error *err)
{
    if (qn_node_float(node, "alpha", 1.0f) == 0.0f)
        return qn_fail(err, QN_INVALID,
                       "attribute alpha is 0, but Celu divides by it");
    return QN_OK;
}

/* The bounds of Clip from opset 11: absent, or one element. */
static qn_status infer_clip(const qn_infer *in, qn_error *err)
{
    for (uint32_t i = 1; i < in->n_in; i++) {
        const qn_tensor *t = &in->in[i];
        char text[QN_SHAPE_TEXT];
        if (qn_present(t) && qn_count(t) != 1)
            return qn_fail(err, QN_SHAPE, "%s has shape %s, expected a scalar",
                           i == 1 ? "min" : "max",
                           qn_shape_text(&t->shape, text));
    }
    in->out[0].shape = in->in[0].shape;
    return QN_OK;
}

/* The slope broadcasts to the input, never the other way round. */
static qn_status infer_prelu(const qn_infer *in, qn_error *err)
{
    qn_shape slope, out;
    const qn_shape *x = &in->in[0].shape;
    qn_status st = qn_binary_rhs(in->node, x, &in->in[1].shape, &slope, err);
    if (st == QN_OK)
        st = qn_shape_broadcast(x, &slope, &out, err);
    if (st != QN_OK)
        return st;
    if (!qn_shape_equal(&out, x)) {
        char tx[QN_SHAPE_TEXT], ts[QN_SHAPE_TEXT];
        return qn_fail(err, QN_SHAPE,
                       "slope of shape %s does not broadcast to the input's "
                       "shape %s",
                       qn_shape_text(&in->in[1].shape, ts),
                       qn_shape_text(x, tx));
    }
    in->out[0].shape = *x;
    return QN_OK;
}

#define LAST QN_OPSET_MAX
#define COMMON(op, from, to, n_max, set)                                       \
    .domain = "", .name = op, .since = (from), .until = (to), .min_in = 1,     \
    .max_in = (n_max), .min_out = 1, .max_out = 1, .inplace = 1,               \
    .types = { (set) }
#define FLAGS (QN_OP_ELEMENTWISE | QN_OP_SAME_TYPE)
#define ROW(op, from, to, set)                                                 \
    { COMMON(op, from, to, 1, set), .flags = FLAGS }
#define CHECKED(op, from, to, set, fn)                                         \
    { COMMON(op, from, to, 1, set), .flags = FLAGS, .check = (fn) }
#define PREDICATE(op, from, to, set)                                           \
    { COMMON(op, from, to, 1, set), .flags = FLAGS,                            \
      .out_types = qn_types_bool }
/* Versions that differ by bfloat16 only: `from`, and `bf` that brought it. */
#define FLOATS(op, from, bf)                                                   \
    ROW(op, from, (bf) - 1, QN_TYPES_IEEE), ROW(op, bf, LAST, QN_TYPES_FLOAT)
#define CLIP(from, to, n_max, set)                                             \
    { COMMON("Clip", from, to, n_max, set), .flags = FLAGS,                    \
      .infer = infer_clip }
#define PRELU(from, to, set, flag)                                             \
    { .domain = "", .name = "PRelu", .since = (from), .until = (to),           \
      .min_in = 2, .max_in = 2, .min_out = 1, .max_out = 1, .inplace = 3,      \
      .types = { (set) }, .flags = QN_OP_SAME_TYPE | (flag),                   \
      .infer = infer_prelu }

static const qn_op rows[] = {
    /* activations */
    ROW("Relu", 1, 12, QN_TYPES_IEEE),
    ROW("Relu", 13, 13, QN_TYPES_FLOAT),
    ROW("Relu", 14, LAST, QN_TYPES_FLOAT | QN_TYPES_SIGNED),
    FLOATS("Sigmoid", 1, 13),
    FLOATS("Tanh", 1, 13),
    FLOATS("HardSigmoid", 1, 22),
    FLOATS("HardSwish", 14, 22),
    FLOATS("LeakyRelu", 1, 16),
    FLOATS("Elu", 1, 22),
    FLOATS("Selu", 1, 22),
    CHECKED("Celu", 12, 27, QN_BIT(F32), check_celu),
    CHECKED("Celu", 28, LAST, QN_TYPES_FLOAT, check_celu),
    FLOATS("Mish", 18, 22),
    CHECKED("Gelu", 20, LAST, QN_TYPES_FLOAT, check_gelu),
    ROW("Swish", 24, LAST, QN_TYPES_FLOAT),
    FLOATS("Softplus", 1, 22),
    FLOATS("Softsign", 1, 22),
    FLOATS("ThresholdedRelu", 10, 22),
    ROW("Shrink", 9, LAST, NUMERIC),
    CLIP(1, 10, 1, QN_TYPES_IEEE),
    CLIP(11, 11, 3, QN_TYPES_IEEE),
    CLIP(12, 12, 3, NUMERIC),
    CLIP(13, LAST, 3, NUMERIC_BF),
    /* a slope by axis 1 depends on the position: no layout pass through it */
    PRELU(1, 6, QN_TYPES_IEEE, 0),
    PRELU(7, 8, QN_TYPES_IEEE, QN_OP_ELEMENTWISE),
    PRELU(9, 15, QN_TYPES_IEEE | BIG_INT, QN_OP_ELEMENTWISE),
    PRELU(16, LAST, QN_TYPES_FLOAT | BIG_INT, QN_OP_ELEMENTWISE),
    /* signs and rounding */
    ROW("Abs", 1, 5, QN_TYPES_IEEE),
    ROW("Abs", 6, 12, NUMERIC),
    ROW("Abs", 13, LAST, NUMERIC_BF),
    ROW("Neg", 1, 5, QN_TYPES_IEEE),
    ROW("Neg", 6, 12, QN_TYPES_IEEE | QN_TYPES_SIGNED),
    ROW("Neg", 13, LAST, QN_TYPES_FLOAT | QN_TYPES_SIGNED),
    ROW("Sign", 9, 12, NUMERIC),
    ROW("Sign", 13, LAST, NUMERIC_BF),
    FLOATS("Floor", 1, 13),
    FLOATS("Ceil", 1, 13),
    FLOATS("Round", 11, 22),
    /* elementary functions */
    FLOATS("Sqrt", 1, 13),
    FLOATS("Reciprocal", 1, 13),
    FLOATS("Exp", 1, 13),
    FLOATS("Log", 1, 13),
    ROW("Erf", 9, 12, NUMERIC),
    ROW("Erf", 13, LAST, QN_TYPES_FLOAT),
    FLOATS("Sin", 7, 22),
    FLOATS("Cos", 7, 22),
    FLOATS("Tan", 7, 22),
    FLOATS("Asin", 7, 22),
    FLOATS("Acos", 7, 22),
    FLOATS("Atan", 7, 22),
    FLOATS("Sinh", 9, 22),
    FLOATS("Cosh", 9, 22),
    FLOATS("Asinh", 9, 22),
    FLOATS("Acosh", 9, 22),
    FLOATS("Atanh", 9, 22),
    /* predicates and bits */
    ROW("Not", 1, LAST, QN_BIT(BOOL)),
    ROW("BitwiseNot", 18, LAST, QN_TYPES_INT),
    PREDICATE("IsNaN", 9, 12, QN_TYPES_IEEE),
    PREDICATE("IsNaN", 13, 19, QN_TYPES_FLOAT),
    PREDICATE("IsNaN", 20, LAST, QN_TYPES_FLOAT | QN_TYPES_F8),
    PREDICATE("IsInf", 10, 19, QN_BIT(F32) | QN_BIT(F64)),
    PREDICATE("IsInf", 20, LAST, QN_TYPES_FLOAT | QN_TYPES_F8),
};

QN_OP_TABLE(qn_ops_unary, rows);

/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of two operands that broadcast: arithmetic, comparison, logic. */
#include "runtime/ops/binary.h"

#include "runtime/ops/tables.h"

#include <string.h>

#define NUMERIC (QN_TYPES_IEEE | QN_TYPES_INT)
#define NUMERIC_BF (QN_TYPES_FLOAT | QN_TYPES_INT)
#define BIG_INT (QN_BIT(I32) | QN_BIT(I64) | QN_BIT(U32) | QN_BIT(U64))
#define POW_BASE (QN_TYPES_IEEE | QN_BIT(I32) | QN_BIT(I64))

static qn_status mismatch(const qn_shape *a, const qn_shape *b,
                          const char *why, qn_error *err)
{
    char ta[QN_SHAPE_TEXT], tb[QN_SHAPE_TEXT];
    return qn_fail(err, QN_SHAPE, "shapes %s and %s: %s", qn_shape_text(a, ta),
                   qn_shape_text(b, tb), why);
}

qn_status qn_binary_rhs(const qn_node *node, const qn_shape *a,
                        const qn_shape *b, qn_shape *out, qn_error *err)
{
    if (node->op->until >= 7 || qn_shape_equal(a, b)) {
        *out = *b;
        return QN_OK;
    }
    bool prelu = !strcmp(node->op->name, "PRelu");
    int64_t axis = prelu ? 1 : (int64_t)a->rank - b->rank;
    const qn_attr *attr = qn_node_attr(node, "axis");
    if (prelu ? b->rank > 1 : !qn_node_int(node, "broadcast", 0))
        return mismatch(a, b, "equal ones expected", err);
    if (qn_shape_product(b, 0, b->rank) == 1) {
        *out = (qn_shape){ 0 };
        return QN_OK;
    }
    if (attr && !prelu)
        axis = attr->i < 0 ? attr->i + a->rank : attr->i;
    if (axis < 0 || axis + b->rank > a->rank)
        return mismatch(a, b, "the second does not fit into the first at axis",
                        err);
    qn_shape r = { .rank = a->rank };
    for (int i = 0; i < a->rank; i++) {
        int at = i - (int)axis;
        r.dims[i] = at >= 0 && at < b->rank ? b->dims[at] : 1;
        if (r.dims[i] != 1 && r.dims[i] != a->dims[i])
            return mismatch(a, b, "the second does not broadcast to the first",
                            err);
    }
    *out = r;
    return QN_OK;
}

/* Before opset 7 the output has the first operand's shape. */
static qn_status infer_legacy(const qn_infer *in, qn_error *err)
{
    qn_shape b;
    qn_status st = qn_binary_rhs(in->node, &in->in[0].shape, &in->in[1].shape,
                                 &b, err);
    if (st == QN_OK)
        in->out[0].shape = in->in[0].shape;
    return st;
}

static qn_status check_shift(const qn_node *node, qn_error *err)
{
    const char *way = qn_node_string(node, "direction", "");
    if (strcmp(way, "LEFT") && strcmp(way, "RIGHT"))
        return qn_fail(err, QN_INVALID,
                       "attribute direction is \"%s\", expected \"LEFT\" or "
                       "\"RIGHT\"",
                       way);
    return QN_OK;
}

/* Mod follows the divisor's sign, which floats have no rule for: they need
 * fmod=1, as the standard says. */
static qn_status types_mod(const qn_node *node, uint32_t n_in,
                           const qn_dtype *in, uint32_t n_out, qn_dtype *out,
                           qn_error *err)
{
    (void)n_in, (void)n_out;
    out[0] = in[0];
    if (qn_dtypes_has(QN_TYPES_FLOAT, in[0]) && !qn_node_int(node, "fmod", 0))
        return qn_fail(err, QN_INVALID,
                       "attribute fmod is 0, but %s operands need fmod=1",
                       qn_dtype_name(in[0]));
    return QN_OK;
}

#define LAST QN_OPSET_MAX
#define COMMON(op, from, to)                                                   \
    .domain = "", .name = op, .since = (from), .until = (to), .min_in = 2,     \
    .max_in = 2, .min_out = 1, .max_out = 1, .inplace = 3
/* Until opset 6: attributes place the second operand, so no layout pass. */
#define OLD(op, from, to, set)                                                 \
    { COMMON(op, from, to), .types = { (set) }, .flags = QN_OP_SAME_TYPE,      \
      .infer = infer_legacy }
#define OLD_BOOL(op, set)                                                      \
    { COMMON(op, 1, 6), .types = { (set) }, .flags = QN_OP_SAME_TYPE,          \
      .infer = infer_legacy, .out_types = qn_types_bool }
#define FLAGS (QN_OP_ELEMENTWISE | QN_OP_SAME_TYPE)
#define ROW(op, from, to, set)                                                 \
    { COMMON(op, from, to), .types = { (set) }, .flags = FLAGS,                \
      .infer = qn_infer_broadcast }
#define ROW_BOOL(op, from, to, set)                                            \
    { COMMON(op, from, to), .types = { (set) }, .flags = FLAGS,                \
      .infer = qn_infer_broadcast, .out_types = qn_types_bool }
#define ARITHMETIC(op)                                                         \
    OLD(op, 1, 5, QN_TYPES_IEEE), OLD(op, 6, 6, QN_TYPES_IEEE | BIG_INT),      \
        ROW(op, 7, 12, QN_TYPES_IEEE | BIG_INT),                               \
        ROW(op, 13, 13, QN_TYPES_FLOAT | BIG_INT),                             \
        ROW(op, 14, LAST, NUMERIC_BF)
#define LOGIC(op)                                                              \
    OLD_BOOL(op, QN_BIT(BOOL)), ROW_BOOL(op, 7, LAST, QN_BIT(BOOL))
#define ORDER(op)                                                              \
    OLD_BOOL(op, QN_TYPES_IEEE), ROW_BOOL(op, 7, 8, QN_TYPES_IEEE),            \
        ROW_BOOL(op, 9, 12, NUMERIC), ROW_BOOL(op, 13, LAST, NUMERIC_BF)
#define ORDER_EQUAL(op)                                                        \
    ROW_BOOL(op, 12, 15, NUMERIC), ROW_BOOL(op, 16, LAST, NUMERIC_BF)
#define EQUAL_OLD (QN_BIT(BOOL) | QN_BIT(I32) | QN_BIT(I64))
/* base and exponent may differ in type: the output has the base's */
#define POW(from, to, base, exponent)                                          \
    { COMMON("Pow", from, to), .types = { (base), (exponent) },                \
      .flags = QN_OP_ELEMENTWISE, .infer = qn_infer_broadcast }
#define BITWISE(op) ROW(op, 18, LAST, QN_TYPES_INT)

static const qn_op rows[] = {
    ARITHMETIC("Add"),
    ARITHMETIC("Sub"),
    ARITHMETIC("Mul"),
    ARITHMETIC("Div"),
    OLD("Pow", 1, 6, QN_TYPES_IEEE),
    ROW("Pow", 7, 11, QN_TYPES_IEEE),
    POW(12, 12, POW_BASE, NUMERIC),
    POW(13, 14, POW_BASE | QN_BIT(BF16), NUMERIC),
    POW(15, LAST, POW_BASE | QN_BIT(BF16), NUMERIC_BF),
    { COMMON("Mod", 10, 12), .types = { NUMERIC }, .flags = FLAGS,
      .out_types = types_mod, .infer = qn_infer_broadcast },
    { COMMON("Mod", 13, LAST), .types = { NUMERIC_BF }, .flags = FLAGS,
      .out_types = types_mod, .infer = qn_infer_broadcast },
    LOGIC("And"),
    LOGIC("Or"),
    LOGIC("Xor"),
    OLD_BOOL("Equal", EQUAL_OLD),
    ROW_BOOL("Equal", 7, 10, EQUAL_OLD),
    ROW_BOOL("Equal", 11, 12, NUMERIC | QN_BIT(BOOL)),
    ROW_BOOL("Equal", 13, 18, NUMERIC_BF | QN_BIT(BOOL)),
    ROW_BOOL("Equal", 19, LAST, NUMERIC_BF | QN_BIT(BOOL) | QN_BIT(STRING)),
    ORDER("Greater"),
    ORDER("Less"),
    ORDER_EQUAL("GreaterOrEqual"),
    ORDER_EQUAL("LessOrEqual"),
    { COMMON("BitShift", 11, LAST), .types = { QN_TYPES_UNSIGNED },
      .flags = FLAGS, .check = check_shift, .infer = qn_infer_broadcast },
    BITWISE("BitwiseAnd"),
    BITWISE("BitwiseOr"),
    BITWISE("BitwiseXor"),
};

QN_OP_TABLE(qn_ops_binary, rows);

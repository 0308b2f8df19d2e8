/* SPDX-License-Identifier: Apache-2.0 */
/* Changing the element type. */
#include "runtime/ops/tables.h"

#include <string.h>

/* every type of opset 6, then what each version added */
#define TYPES_6 (QN_TYPES_IEEE | QN_TYPES_INT | QN_BIT(BOOL))
#define TYPES_9 (TYPES_6 | QN_BIT(STRING))
#define TYPES_13 (TYPES_9 | QN_BIT(BF16))
#define TYPES_19 (TYPES_13 | QN_TYPES_F8)
#define TYPES_21 (TYPES_19 | QN_BIT(U4) | QN_BIT(I4))
#define TYPES_23 (TYPES_21 | QN_BIT(F4E2M1))
#define TYPES_24 (TYPES_23 | QN_BIT(F8E8M0))
#define TYPES_25 (TYPES_24 | QN_BIT(U2) | QN_BIT(I2))

/* Before opset 6 `to` is the type's name in capitals: "FLOAT16". */
static qn_dtype dtype_named(const char *name)
{
    static const struct {
        const char *name;
        qn_dtype dtype;
    } names[] = {
        { "FLOAT", QN_F32 },    { "DOUBLE", QN_F64 }, { "FLOAT16", QN_F16 },
        { "INT8", QN_I8 },      { "INT16", QN_I16 },  { "INT32", QN_I32 },
        { "INT64", QN_I64 },    { "UINT8", QN_U8 },   { "UINT16", QN_U16 },
        { "UINT32", QN_U32 },   { "UINT64", QN_U64 }, { "BOOL", QN_BOOL },
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(names[i].name, name))
            return names[i].dtype;
    return QN_NONE;
}

static qn_status types_cast(const qn_node *node, uint32_t n_in,
                            const qn_dtype *in, uint32_t n_out, qn_dtype *out,
                            qn_error *err)
{
    const qn_attr *to = qn_node_attr(node, "to");
    (void)n_in, (void)in, (void)n_out;
    if (!to)
        return qn_fail(err, QN_INVALID, "attribute to is missing");
    if (to->kind == QN_ATTR_STRING) {
        out[0] = dtype_named(to->s.s);
        if (!qn_dtypes_has(node->op->types[0], out[0]))
            return qn_fail(err, QN_INVALID,
                           "attribute to is \"%.40s\", no type of the operator "
                           "at opset %d",
                           to->s.s, node->opset);
        return QN_OK;
    }
    out[0] = to->i > QN_NONE && to->i < QN_DTYPE_COUNT ? (qn_dtype)to->i
                                                       : QN_NONE;
    if (!qn_dtypes_has(node->op->types[0], out[0]))
        return qn_fail(err, QN_INVALID,
                       "attribute to is %lld (%s), no type of the operator "
                       "at opset %d",
                       (long long)to->i, qn_dtype_name(out[0]), node->opset);
    return QN_OK;
}

/* Complex numbers too, but no strings; both types have one width. */
#define TYPES_BITS ((TYPES_25 | QN_TYPES_COMPLEX) & ~QN_BIT(STRING))

static qn_status types_bits(const qn_node *node, uint32_t n_in,
                            const qn_dtype *in, uint32_t n_out, qn_dtype *out,
                            qn_error *err)
{
    qn_status st = types_cast(node, n_in, in, n_out, out, err);
    if (st == QN_OK && qn_dtype_file_bits(in[0]) != qn_dtype_file_bits(out[0]))
        return qn_fail(err, QN_TYPE,
                       "%s has %u bits, %s has %u: expected types of one width",
                       qn_dtype_name(in[0]), qn_dtype_file_bits(in[0]),
                       qn_dtype_name(out[0]), qn_dtype_file_bits(out[0]));
    return st;
}

static qn_status types_cast_like(const qn_node *node, uint32_t n_in,
                                 const qn_dtype *in, uint32_t n_out,
                                 qn_dtype *out, qn_error *err)
{
    (void)node, (void)n_in, (void)n_out, (void)err;
    out[0] = in[1];
    return QN_OK;
}

static qn_status check_round_mode(const qn_node *node, qn_error *err)
{
    const char *mode = qn_node_string(node, "round_mode", "up");
    if (strcmp(mode, "up") && strcmp(mode, "down") && strcmp(mode, "nearest"))
        return qn_fail(err, QN_INVALID,
                       "attribute round_mode is \"%s\", expected \"up\", "
                       "\"down\" or \"nearest\"",
                       mode);
    return QN_OK;
}

#define LAST QN_OPSET_MAX
#define CAST(from, to, set)                                                    \
    { .domain = "", .name = "Cast", .since = (from), .until = (to),            \
      .min_in = 1, .max_in = 1, .min_out = 1, .max_out = 1,                    \
      .flags = QN_OP_ELEMENTWISE, .inplace = 1, .types = { (set) },            \
      .out_types = types_cast, .check = check_round_mode }
/* Only the type of input 1 counts: its elements are at no position. */
#define CAST_LIKE(from, to, set)                                               \
    { .domain = "", .name = "CastLike", .since = (from), .until = (to),        \
      .min_in = 2, .max_in = 2, .min_out = 1, .max_out = 1, .inplace = 1,      \
      .types = { (set) }, .out_types = types_cast_like,                        \
      .check = check_round_mode }

static const qn_op rows[] = {
    CAST(1, 8, TYPES_6),
    CAST(9, 12, TYPES_9),
    CAST(13, 18, TYPES_13),
    CAST(19, 20, TYPES_19),
    CAST(21, 22, TYPES_21),
    CAST(23, 23, TYPES_23),
    CAST(24, 24, TYPES_24),
    CAST(25, LAST, TYPES_25),
    CAST_LIKE(15, 18, TYPES_13),
    CAST_LIKE(19, 20, TYPES_19),
    CAST_LIKE(21, 22, TYPES_21),
    CAST_LIKE(23, 23, TYPES_23),
    CAST_LIKE(24, 24, TYPES_24),
    CAST_LIKE(25, LAST, TYPES_25),
    { .domain = "", .name = "BitCast", .since = 26, .until = LAST, .min_in = 1,
      .max_in = 1, .min_out = 1, .max_out = 1, .flags = QN_OP_ELEMENTWISE,
      .inplace = 1, .types = { TYPES_BITS }, .out_types = types_bits },
};

QN_OP_TABLE(qn_ops_cast, rows);

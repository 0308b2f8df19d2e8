/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing by index: Scatter (9 and 10), ScatterElements, ScatterND. The output
 * is a copy of the data with some elements replaced or, since opset 16, reduced
 * into (add, mul; since 18 min and max too).
 */
#include "runtime/ops/move.h"
#include "runtime/ops/tables.h"

#include <string.h>

static qn_status check_reduction(const qn_node *node, qn_error *err)
{
    static const struct {
        const char *name;
        int since;
    } known[] = { { "none", 1 }, { "add", 16 }, { "mul", 16 },
                  { "max", 18 }, { "min", 18 } };
    const char *name = qn_node_string(node, "reduction", "none");
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(name, known[i].name) && node->op->since >= known[i].since)
            return QN_OK;
    return qn_fail(err, QN_INVALID, "no reduction '%.40s' at opset %d", name,
                   node->opset);
}

static qn_status check_updates(const qn_infer *in, qn_error *err)
{
    if (in->in[2].dtype != in->in[0].dtype)
        return qn_fail(err, QN_TYPE, "updates are %s, the data are %s",
                       qn_dtype_name(in->in[2].dtype),
                       qn_dtype_name(in->in[0].dtype));
    in->out[0].shape = in->in[0].shape;
    return QN_OK;
}

static qn_status infer_elements(const qn_infer *in, qn_error *err)
{
    const qn_shape *data = &in->in[0].shape, *index = &in->in[1].shape;
    char a[QN_SHAPE_TEXT], b[QN_SHAPE_TEXT];
    int axis;
    qn_status st = qn_axis(qn_node_int(in->node, "axis", 0), data->rank, &axis,
                           err);
    if (st != QN_OK)
        return st;
    if (!qn_shape_equal(index, &in->in[2].shape))
        return qn_fail(err, QN_SHAPE, "indices are %s, updates %s",
                       qn_shape_text(index, a),
                       qn_shape_text(&in->in[2].shape, b));
    bool fits = data->rank == index->rank;
    for (int d = 0; fits && d < data->rank; d++)
        fits = d == axis || index->dims[d] <= data->dims[d];
    if (!fits)
        return qn_fail(err, QN_SHAPE, "indices %s do not fit the data %s along "
                       "axes other than %d", qn_shape_text(index, a),
                       qn_shape_text(data, b), axis);
    return check_updates(in, err);
}

static qn_status infer_nd(const qn_infer *in, qn_error *err)
{
    const qn_shape *data = &in->in[0].shape, *index = &in->in[1].shape;
    char a[QN_SHAPE_TEXT], b[QN_SHAPE_TEXT];
    int64_t depth = index->rank ? index->dims[index->rank - 1] : 0;
    if (data->rank < 1 || depth < 1 || depth > data->rank)
        return qn_fail(err, QN_SHAPE, "indices %s do not index data %s",
                       qn_shape_text(index, b), qn_shape_text(data, a));
    qn_shape want = { .rank = index->rank - 1 };
    if (want.rank + data->rank - depth > QN_MAX_RANK)
        return qn_fail(err, QN_UNSUPPORTED, "updates of rank above %d",
                       QN_MAX_RANK);
    for (int d = 0; d < want.rank; d++)
        want.dims[d] = index->dims[d];
    for (int d = (int)depth; d < data->rank; d++)
        want.dims[want.rank++] = data->dims[d];
    if (!qn_shape_equal(&want, &in->in[2].shape))
        return qn_fail(err, QN_SHAPE, "updates are %s, expected %s",
                       qn_shape_text(&in->in[2].shape, a),
                       qn_shape_text(&want, b));
    return check_updates(in, err);
}

#define ROW(NAME, SINCE, UNTIL, TYPES, INDEX, INFER)                           \
    { .domain = "", .name = NAME, .since = SINCE, .until = UNTIL, .min_in = 3, \
      .max_in = 3, .min_out = 1, .max_out = 1, .inplace = 1u << 0,             \
      .types = { TYPES, INDEX, TYPES }, .check = check_reduction,              \
      .infer = INFER }
#define I32_64 (QN_BIT(I32) | QN_BIT(I64))
#define ELEMENTS(SINCE, UNTIL, TYPES)                                          \
    ROW("ScatterElements", SINCE, UNTIL, TYPES, I32_64, infer_elements)
#define ND(SINCE, UNTIL, TYPES)                                                \
    ROW("ScatterND", SINCE, UNTIL, TYPES, QN_BIT(I64), infer_nd)

static const qn_op rows[] = {
    ROW("Scatter", 9, 10, QN_TYPES_CLASSIC, I32_64, infer_elements),
    ELEMENTS(11, 12, QN_TYPES_CLASSIC),
    ELEMENTS(13, 15, QN_TYPES_V13),
    ELEMENTS(16, 17, QN_TYPES_V13),
    ELEMENTS(18, QN_OPSET_MAX, QN_TYPES_V13),
    ND(11, 12, QN_TYPES_CLASSIC),
    ND(13, 15, QN_TYPES_V13),
    ND(16, 17, QN_TYPES_V13),
    ND(18, QN_OPSET_MAX, QN_TYPES_V13),
};

QN_OP_TABLE(qn_ops_scatter, rows);

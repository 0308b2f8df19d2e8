/* SPDX-License-Identifier: Apache-2.0 */
/* Reading by index: Gather, GatherElements, GatherND. Indices are checked when
 * they are used: kernels refuse those out of range. */
#include "runtime/ops/move.h"
#include "runtime/ops/tables.h"

static qn_status infer_gather(const qn_infer *in, qn_error *err)
{
    const qn_shape *data = &in->in[0].shape, *index = &in->in[1].shape;
    qn_shape to = { 0 };
    int axis;
    qn_status st = qn_axis(qn_node_int(in->node, "axis", 0), data->rank, &axis,
                           err);
    if (st != QN_OK)
        return st;
    if (data->rank - 1 + index->rank > QN_MAX_RANK)
        return qn_fail(err, QN_UNSUPPORTED, "the output's rank is %d, at most %d",
                       data->rank - 1 + index->rank, QN_MAX_RANK);
    for (int d = 0; d < axis; d++)
        to.dims[to.rank++] = data->dims[d];
    for (int d = 0; d < index->rank; d++)
        to.dims[to.rank++] = index->dims[d];
    for (int d = axis + 1; d < data->rank; d++)
        to.dims[to.rank++] = data->dims[d];
    in->out[0].shape = to;
    return qn_check_output(in, 0, err);
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
    bool fits = data->rank == index->rank;
    for (int d = 0; fits && d < data->rank; d++)
        fits = d == axis || index->dims[d] <= data->dims[d];
    if (!fits)
        return qn_fail(err, QN_SHAPE, "indices %s do not fit the data %s along "
                       "axes other than %d", qn_shape_text(index, a),
                       qn_shape_text(data, b), axis);
    in->out[0].shape = *index;
    return QN_OK;
}

static qn_status infer_nd(const qn_infer *in, qn_error *err)
{
    const qn_shape *data = &in->in[0].shape, *index = &in->in[1].shape;
    char a[QN_SHAPE_TEXT], b[QN_SHAPE_TEXT];
    int64_t batch = qn_node_int(in->node, "batch_dims", 0);
    if (data->rank < 1 || index->rank < 1 || batch < 0 ||
        batch >= (data->rank < index->rank ? data->rank : index->rank))
        return qn_fail(err, QN_SHAPE, "batch_dims %lld with data %s, indices %s",
                       (long long)batch, qn_shape_text(data, a),
                       qn_shape_text(index, b));
    int64_t depth = index->dims[index->rank - 1];
    bool fits = depth >= 1 && depth <= data->rank - batch;
    for (int d = 0; fits && d < batch; d++)
        fits = data->dims[d] == index->dims[d];
    if (!fits)
        return qn_fail(err, QN_SHAPE, "indices %s do not index data %s after %lld "
                       "batch dimensions", qn_shape_text(index, b),
                       qn_shape_text(data, a), (long long)batch);
    qn_shape to = { .rank = index->rank - 1 };
    int tail = (int)(batch + depth);
    if (to.rank + data->rank - tail > QN_MAX_RANK)
        return qn_fail(err, QN_UNSUPPORTED, "the output's rank is %d, at most %d",
                       to.rank + data->rank - tail, QN_MAX_RANK);
    for (int d = 0; d < to.rank; d++)
        to.dims[d] = index->dims[d];
    for (int d = tail; d < data->rank; d++)
        to.dims[to.rank++] = data->dims[d];
    in->out[0].shape = to;
    return qn_check_output(in, 0, err);
}

#define ROW(NAME, SINCE, UNTIL, TYPES, INDEX, INFER)                           \
    { .domain = "", .name = NAME, .since = SINCE, .until = UNTIL, .min_in = 2, \
      .max_in = 2, .min_out = 1, .max_out = 1, .types = { TYPES, INDEX },      \
      .infer = INFER }
#define I32_64 (QN_BIT(I32) | QN_BIT(I64))

static const qn_op rows[] = {
    ROW("Gather", 1, 10, QN_TYPES_CLASSIC, I32_64, infer_gather),
    ROW("Gather", 11, 12, QN_TYPES_CLASSIC, I32_64, infer_gather),
    ROW("Gather", 13, QN_OPSET_MAX, QN_TYPES_V13, I32_64, infer_gather),
    ROW("GatherElements", 11, 12, QN_TYPES_CLASSIC, I32_64, infer_elements),
    ROW("GatherElements", 13, QN_OPSET_MAX, QN_TYPES_V13, I32_64,
        infer_elements),
    ROW("GatherND", 11, 11, QN_TYPES_CLASSIC, QN_BIT(I64), infer_nd),
    ROW("GatherND", 12, 12, QN_TYPES_CLASSIC, QN_BIT(I64), infer_nd),
    ROW("GatherND", 13, QN_OPSET_MAX, QN_TYPES_V13, QN_BIT(I64), infer_nd),
};

QN_OP_TABLE(qn_ops_gather, rows);

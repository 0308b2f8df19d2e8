/* SPDX-License-Identifier: Apache-2.0 */
/* Slice: bounds by attribute (opset 1), then by input (10). */
#include "runtime/ops/move.h"
#include "runtime/ops/tables.h"

#include <string.h>

enum { MAX_SLICES = QN_MAX_RANK };

static qn_status read_bounds(const qn_infer *in, const char *attr, uint32_t i,
                             int64_t out[MAX_SLICES], size_t *n, qn_error *err)
{
    if (in->node->op->since >= 10)
        return qn_infer_ints(in, i, out, MAX_SLICES, n, err);
    const int64_t *ints = qn_node_ints(in->node, attr, n);
    if (*n > MAX_SLICES)
        return qn_fail(err, QN_INVALID, "%s has %zu entries", attr, *n);
    if (*n)
        memcpy(out, ints, *n * sizeof *out);
    return QN_OK;
}

static int64_t clamp(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

/*
 * A negative bound counts from the end; then, for step > 0, both are clamped to
 * [0, dim], for step < 0, start to [0, dim - 1] and end to [-1, dim - 1]. So an
 * end of INT64_MAX under a negative step is dim - 1 (an empty slice from the
 * last element), and INT64_MIN is "through element 0".
 */
static void slice_axis(int64_t dim, int64_t start, int64_t end, int64_t step,
                       qn_slice *out, int axis)
{
    int64_t top = step > 0 ? dim : dim - 1, n = 0;
    start = clamp(start < 0 ? start + dim : start, 0, top);
    end = clamp(end < 0 ? end + dim : end, step > 0 ? 0 : -1, top);
    uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    if (dim > 0 && (step > 0 ? end > start : start > end)) {
        uint64_t span = (uint64_t)(step > 0 ? end - start : start - end);
        n = (int64_t)((span - 1) / stride) + 1;
    }
    out->count[axis] = n;
    out->start[axis] = n ? start : 0;
    out->step[axis] = n > 1 ? step : 1; /* then |step| < dim */
}

qn_status qn_slice_resolve(const qn_infer *in, qn_slice *out, qn_error *err)
{
    const qn_shape *from = &in->in[0].shape;
    int64_t starts[MAX_SLICES], ends[MAX_SLICES], steps[MAX_SLICES];
    int axes[QN_MAX_RANK];
    bool inputs = in->node->op->since >= 10, given;
    size_t n, n_ends, n_axes, n_steps;

    qn_status st = read_bounds(in, "starts", 1, starts, &n, err);
    if (st == QN_OK)
        st = read_bounds(in, "ends", 2, ends, &n_ends, err);
    if (st == QN_OK)
        st = qn_read_axes(in, inputs ? NULL : "axes", 3, from->rank, axes,
                          &n_axes, &given, err);
    if (st != QN_OK)
        return st;
    for (size_t k = 0; k < n; k++)
        steps[k] = 1;
    n_steps = n;
    if (inputs && in->n_in > 4 && qn_present(&in->in[4])) {
        st = qn_infer_ints(in, 4, steps, MAX_SLICES, &n_steps, err);
        if (st != QN_OK)
            return st;
    }
    if (!given) {
        n_axes = n;
        for (int k = 0; k < QN_MAX_RANK; k++)
            axes[k] = k;
    }
    if (n_ends != n || n_axes != n || n_steps != n || n > (size_t)from->rank)
        return qn_fail(err, QN_SHAPE, "%zu starts, %zu ends, %zu axes, %zu steps "
                       "on rank %d", n, n_ends, n_axes, n_steps, from->rank);
    for (int d = 0; d < from->rank; d++) {
        out->start[d] = 0;
        out->step[d] = 1;
        out->count[d] = from->dims[d];
    }
    for (size_t k = 0; k < n; k++) {
        if (steps[k] == 0)
            return qn_fail(err, QN_INVALID, "step of axis %d is 0", axes[k]);
        slice_axis(from->dims[axes[k]], starts[k], ends[k], steps[k], out,
                   axes[k]);
    }
    return QN_OK;
}

static qn_status infer_slice(const qn_infer *in, qn_error *err)
{
    qn_slice s;
    qn_status st = qn_slice_resolve(in, &s, err);
    if (st != QN_OK)
        return st;
    in->out[0].shape.rank = in->in[0].shape.rank;
    for (int d = 0; d < in->in[0].shape.rank; d++)
        in->out[0].shape.dims[d] = s.count[d];
    return QN_OK;
}

static qn_status check_slice(const qn_node *node, qn_error *err)
{
    if (!qn_node_attr(node, "starts") || !qn_node_attr(node, "ends"))
        return qn_fail(err, QN_INVALID, "attribute %s is missing",
                       qn_node_attr(node, "starts") ? "ends" : "starts");
    return QN_OK;
}

#define SLICE(SINCE, UNTIL, TYPES)                                             \
    { .domain = "", .name = "Slice", .since = SINCE, .until = UNTIL,           \
      .min_in = 3, .max_in = 5, .min_out = 1, .max_out = 1,                    \
      .value_in = 0x1eu,                                                       \
      .types = { TYPES, QN_BIT(I32) | QN_BIT(I64) }, .infer = infer_slice }

static const qn_op rows[] = {
    { .domain = "", .name = "Slice", .since = 1, .until = 9, .min_in = 1,
      .max_in = 1, .min_out = 1, .max_out = 1, .types = { QN_TYPES_CLASSIC },
      .check = check_slice, .infer = infer_slice },
    SLICE(10, 10, QN_TYPES_CLASSIC),
    SLICE(11, 12, QN_TYPES_CLASSIC),
    SLICE(13, QN_OPSET_MAX, QN_TYPES_V13),
};

QN_OP_TABLE(qn_ops_slice, rows);

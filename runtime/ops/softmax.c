/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Softmax, LogSoftmax, Hardmax. Until opset 12 the input is seen as a matrix
 * split before `axis` (default 1); from 13 on one axis (default -1) is
 * normalised. The kernels read both the same way.
 */
#include "runtime/ops/tables.h"

static qn_status softmax_infer(const qn_infer *in, qn_error *err)
{
    const qn_shape *s = &in->in[0].shape;
    bool flat = in->node->opset < 13;
    int64_t axis = qn_node_int(in->node, "axis", flat ? 1 : -1);
    int at;
    /* The split may lie behind the last axis: rows of one element. */
    if (!(flat && axis == s->rank) &&
        !(s->rank == 0 && (axis == 0 || axis == -1))) {
        qn_status st = qn_axis(axis, s->rank, &at, err);
        if (st != QN_OK)
            return st;
    }
    in->out[0].shape = *s;
    return QN_OK;
}

#define ROW(op, from, to, t)                                                   \
    {                                                                          \
        .domain = "", .name = op, .since = from, .until = to, .min_in = 1,     \
        .max_in = 1, .min_out = 1, .max_out = 1, .inplace = 1, .types = { t }, \
        .infer = softmax_infer                                                 \
    }

static const qn_op rows[] = {
    ROW("Softmax", 1, 12, QN_TYPES_IEEE),
    ROW("Softmax", 13, QN_OPSET_MAX, QN_TYPES_FLOAT),
    ROW("LogSoftmax", 1, 12, QN_TYPES_IEEE),
    ROW("LogSoftmax", 13, QN_OPSET_MAX, QN_TYPES_FLOAT),
    ROW("Hardmax", 1, 12, QN_TYPES_IEEE),
    ROW("Hardmax", 13, QN_OPSET_MAX, QN_TYPES_FLOAT),
};

QN_OP_TABLE(qn_ops_softmax, rows);

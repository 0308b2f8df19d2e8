/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pad: pads by attribute (opset 1 `paddings`, 2 `pads`), by input (11), of some
 * axes only (18), wrap (19). A negative pad cuts elements off first; the mode
 * then works on what is left.
 */
#include "runtime/base/checked.h"
#include "runtime/ops/move.h"
#include "runtime/ops/tables.h"

#include <string.h>

static const struct {
    const char *name;
    qn_pad_mode mode;
    int since;
} modes[] = {
    { "constant", QN_PAD_CONSTANT, 1 },
    { "reflect", QN_PAD_REFLECT, 1 },
    { "edge", QN_PAD_EDGE, 1 },
    { "wrap", QN_PAD_WRAP, 19 },
};

static qn_status read_mode(const qn_node *node, qn_pad_mode *out, qn_error *err)
{
    const char *name = qn_node_string(node, "mode", "constant");
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (!strcmp(name, modes[i].name) && node->opset >= modes[i].since) {
            *out = modes[i].mode;
            return QN_OK;
        }
    return qn_fail(err, QN_INVALID, "no padding mode '%.40s' at opset %d", name,
                   node->opset);
}

static qn_status read_pads(const qn_infer *in, int64_t pads[2 * QN_MAX_RANK],
                           size_t *n, qn_error *err)
{
    int since = in->node->op->since;
    if (since >= 11)
        return qn_infer_ints(in, 1, pads, 2 * QN_MAX_RANK, n, err);
    const char *name = since == 1 ? "paddings" : "pads";
    const int64_t *ints = qn_node_ints(in->node, name, n);
    if (*n > 2 * QN_MAX_RANK)
        return qn_fail(err, QN_INVALID, "%s has %zu entries", name, *n);
    if (*n)
        memcpy(pads, ints, *n * sizeof *pads);
    return QN_OK;
}

/* What is left of dim after negative pads must be able to feed the mode. */
static qn_status check_axis(const qn_pad *p, int axis, int64_t dim,
                            qn_error *err)
{
    int64_t before = p->before[axis], after = p->after[axis], left, most;
    if (!qn_add_i64(dim, before < 0 ? before : 0, &left) ||
        !qn_add_i64(left, after < 0 ? after : 0, &left) || left < 0)
        return qn_fail(err, QN_RANGE, "pads %lld and %lld cut more than axis %d "
                       "has (%lld)", (long long)before, (long long)after, axis,
                       (long long)dim);
    most = before > after ? before : after;
    if (most <= 0 || p->mode == QN_PAD_CONSTANT)
        return QN_OK;
    if (p->mode == QN_PAD_REFLECT && most >= left)
        return qn_fail(err, QN_RANGE, "axis %d: reflecting %lld elements needs "
                       "more than the %lld that it has", axis, (long long)most,
                       (long long)left);
    if (left == 0)
        return qn_fail(err, QN_RANGE, "axis %d is empty: nothing to pad with",
                       axis);
    return QN_OK;
}

qn_status qn_pad_resolve(const qn_infer *in, qn_pad *out, qn_error *err)
{
    const qn_shape *from = &in->in[0].shape;
    int64_t pads[2 * QN_MAX_RANK];
    int axes[QN_MAX_RANK];
    size_t n, n_axes = (size_t)from->rank;
    bool given = false;

    memset(out, 0, sizeof *out);
    qn_status st = read_mode(in->node, &out->mode, err);
    if (st == QN_OK)
        st = read_pads(in, pads, &n, err);
    if (st == QN_OK && in->node->op->since >= 18)
        st = qn_read_axes(in, NULL, 3, from->rank, axes, &n_axes, &given, err);
    if (st != QN_OK)
        return st;
    if (!given) {
        n_axes = (size_t)from->rank;
        for (int k = 0; k < from->rank; k++)
            axes[k] = k;
    }
    if (n != 2 * n_axes)
        return qn_fail(err, QN_SHAPE, "%zu pads for %zu axes, expected %zu", n,
                       n_axes, 2 * n_axes);
    for (size_t k = 0; k < n_axes; k++) {
        out->before[axes[k]] = pads[k];
        out->after[axes[k]] = pads[k + n_axes];
        st = check_axis(out, axes[k], from->dims[axes[k]], err);
        if (st != QN_OK)
            return st;
    }
    return QN_OK;
}

static qn_status infer_pad(const qn_infer *in, qn_error *err)
{
    const qn_shape *from = &in->in[0].shape;
    qn_pad p;
    qn_status st = qn_pad_resolve(in, &p, err);
    if (st != QN_OK)
        return st;
    if (in->n_in > 2 && qn_present(&in->in[2])) {
        if (in->in[2].dtype != in->in[0].dtype)
            return qn_fail(err, QN_TYPE, "constant_value is %s, the data are %s",
                           qn_dtype_name(in->in[2].dtype),
                           qn_dtype_name(in->in[0].dtype));
        if (qn_count(&in->in[2]) != 1)
            return qn_fail(err, QN_SHAPE, "constant_value has %lld elements, "
                           "expected 1", (long long)qn_count(&in->in[2]));
    }
    in->out[0].shape.rank = from->rank;
    for (int d = 0; d < from->rank; d++) {
        int64_t dim = from->dims[d];
        if (!qn_add_i64(dim, p.before[d], &dim) ||
            !qn_add_i64(dim, p.after[d], &dim))
            return qn_fail(err, QN_TOO_LARGE, "axis %d: pads %lld and %lld", d,
                           (long long)p.before[d], (long long)p.after[d]);
        in->out[0].shape.dims[d] = dim;
    }
    return qn_check_output(in, 0, err);
}

static qn_status check_pad(const qn_node *node, qn_error *err)
{
    qn_pad_mode mode;
    const char *pads = node->op->since == 1 ? "paddings" : "pads";
    if (node->op->since < 11 && !qn_node_attr(node, pads))
        return qn_fail(err, QN_INVALID, "attribute %s is missing", pads);
    return read_mode(node, &mode, err);
}

#define PAD(SINCE, UNTIL, MAX, VALUES, TYPES)                                  \
    { .domain = "", .name = "Pad", .since = SINCE, .until = UNTIL,             \
      .min_in = 2, .max_in = MAX, .min_out = 1, .max_out = 1,                  \
      .value_in = VALUES,                                                      \
      .types = { TYPES, QN_BIT(I64), TYPES, QN_BIT(I32) | QN_BIT(I64) },       \
      .check = check_pad, .infer = infer_pad }
#define PAD_ATTR(SINCE, UNTIL)                                                 \
    { .domain = "", .name = "Pad", .since = SINCE, .until = UNTIL,             \
      .min_in = 1, .max_in = 1, .min_out = 1, .max_out = 1,                    \
      .types = { QN_TYPES_IEEE }, .check = check_pad, .infer = infer_pad }

static const qn_op rows[] = {
    PAD_ATTR(1, 1),
    PAD_ATTR(2, 10),
    PAD(11, 12, 3, 1u << 1, QN_TYPES_IEEE | QN_TYPES_INT),
    PAD(13, 17, 3, 1u << 1, QN_TYPES_V13),
    PAD(18, 18, 4, 5u << 1, QN_TYPES_V13),
    PAD(19, 20, 4, 5u << 1, QN_TYPES_V13),
    PAD(21, 22, 4, 5u << 1, QN_TYPES_V21),
    PAD(23, 23, 4, 5u << 1, QN_TYPES_V23),
    PAD(24, 24, 4, 5u << 1, QN_TYPES_V24),
    PAD(25, QN_OPSET_MAX, 4, 5u << 1, QN_TYPES_V25),
};

QN_OP_TABLE(qn_ops_pad, rows);

/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisations. */
#include "runtime/ops/norm.h"

#include "runtime/ops/tables.h"

bool qn_batchnorm_trains(const qn_node *node)
{
    if (node->opset < 7)
        return qn_node_int(node, "is_test", 0) == 0;
    if (node->opset < 14)
        return node->n_out > 1;
    return qn_node_int(node, "training_mode", 0) != 0;
}

static qn_status check_elements(const qn_infer *in, uint32_t i, int64_t want,
                                const char *what, qn_error *err)
{
    int64_t have = qn_count(&in->in[i]);
    if (have == want)
        return QN_OK;
    char text[QN_SHAPE_TEXT];
    return qn_fail(err, QN_SHAPE, "%s has %lld elements, expected %lld for %s",
                   what, (long long)have, (long long)want,
                   qn_shape_text(&in->in[0].shape, text));
}

static qn_status batchnorm_infer(const qn_infer *in, qn_error *err)
{
    static const char *const names[] = { "X", "scale", "B", "mean", "var" };
    const qn_shape *s = &in->in[0].shape;
    bool spatial = qn_node_int(in->node, "spatial", 1) != 0;
    if (s->rank < 1)
        return qn_fail(err, QN_SHAPE, "X is a scalar, expected [N, C, ...]");
    int64_t c = s->rank < 2 ? 1 : s->dims[1];
    if (!spatial && s->rank > 1)
        c = qn_shape_product(s, 1, s->rank);
    for (uint32_t i = 1; i < 5; i++) {
        qn_status st = check_elements(in, i, c, names[i], err);
        if (st != QN_OK)
            return st;
    }
    for (uint32_t k = 0; k < in->n_out; k++)
        in->out[k].shape = k ? in->in[3].shape : *s;
    return QN_OK;
}

static qn_status batchnorm_types(const qn_node *node, uint32_t n_in,
                                 const qn_dtype *in, uint32_t n_out,
                                 qn_dtype *out, qn_error *err)
{
    (void)node, (void)n_in, (void)err;
    for (uint32_t k = 0; k < n_out; k++)
        out[k] = in[k ? 3 : 0];
    return QN_OK;
}

static qn_status instance_infer(const qn_infer *in, qn_error *err)
{
    const qn_shape *s = &in->in[0].shape;
    char text[QN_SHAPE_TEXT];
    if (s->rank < 2)
        return qn_fail(err, QN_SHAPE, "input is %s, expected [N, C, ...]",
                       qn_shape_text(s, text));
    qn_status st = check_elements(in, 1, s->dims[1], "scale", err);
    if (st == QN_OK)
        st = check_elements(in, 2, s->dims[1], "B", err);
    in->out[0].shape = *s;
    return st;
}

static qn_status group_infer(const qn_infer *in, qn_error *err)
{
    const qn_shape *s = &in->in[0].shape;
    int64_t groups = qn_node_int(in->node, "num_groups", 0);
    char text[QN_SHAPE_TEXT];
    if (s->rank < 2)
        return qn_fail(err, QN_SHAPE, "X is %s, expected [N, C, ...]",
                       qn_shape_text(s, text));
    if (groups < 1 || s->dims[1] % groups)
        return qn_fail(err, QN_SHAPE,
                       "%lld channels do not split into %lld groups",
                       (long long)s->dims[1], (long long)groups);
    /* one pair per group until opset 20, one per channel since */
    int64_t want = in->node->opset < 21 ? groups : s->dims[1];
    qn_status st = check_elements(in, 1, want, "scale", err);
    if (st == QN_OK)
        st = check_elements(in, 2, want, "bias", err);
    in->out[0].shape = *s;
    return st;
}

/* `param` must broadcast to `shape` without changing it. */
static qn_status check_broadcast(const qn_infer *in, uint32_t i, qn_error *err)
{
    const qn_shape *shape = &in->in[0].shape;
    qn_shape both;
    if (i >= in->n_in || !qn_present(&in->in[i]))
        return QN_OK;
    qn_status st = qn_shape_broadcast(shape, &in->in[i].shape, &both, err);
    if (st != QN_OK || qn_shape_equal(&both, shape))
        return st;
    char a[QN_SHAPE_TEXT], b[QN_SHAPE_TEXT];
    return qn_fail(err, QN_SHAPE,
                   "input %u is %s, which does not broadcast to %s", i,
                   qn_shape_text(&in->in[i].shape, a), qn_shape_text(shape, b));
}

static qn_status layer_infer(const qn_infer *in, qn_error *err)
{
    const qn_shape *s = &in->in[0].shape;
    int axis;
    qn_status st =
        qn_axis(qn_node_int(in->node, "axis", -1), s->rank, &axis, err);
    for (uint32_t i = 1; st == QN_OK && i < 3; i++)
        st = check_broadcast(in, i, err);
    if (st != QN_OK)
        return st;
    for (uint32_t k = 0; k < in->n_out; k++) {
        in->out[k].shape = *s;
        for (int i = axis; k && i < s->rank; i++)
            in->out[k].shape.dims[i] = 1;
    }
    return QN_OK;
}

static qn_status layer_types(const qn_node *node, uint32_t n_in,
                             const qn_dtype *in, uint32_t n_out, qn_dtype *out,
                             qn_error *err)
{
    (void)n_in, (void)err;
    qn_dtype stash =
        qn_node_int(node, "stash_type", 1) == QN_BF16 ? QN_BF16 : QN_F32;
    for (uint32_t k = 0; k < n_out; k++)
        out[k] = k ? stash : in[0];
    return QN_OK;
}

/* RMSNormalization: the result has the type of scale. */
static qn_status rms_types(const qn_node *node, uint32_t n_in,
                           const qn_dtype *in, uint32_t n_out, qn_dtype *out,
                           qn_error *err)
{
    (void)node, (void)n_in, (void)n_out, (void)err;
    out[0] = in[1];
    return QN_OK;
}

static qn_status stash_check(const qn_node *node, qn_error *err)
{
    int64_t stash = qn_node_int(node, "stash_type", 1);
    if (stash != QN_F32 && stash != QN_BF16)
        return qn_fail(
            err, QN_UNSUPPORTED,
            "stash_type is %lld, expected 1 (float) or 16 (bfloat16)",
            (long long)stash);
    return QN_OK;
}

static qn_status lrn_check(const qn_node *node, qn_error *err)
{
    int64_t size = qn_node_int(node, "size", 0);
    if (size < 1 || size > INT32_MAX)
        return qn_fail(err, QN_RANGE, "size is %lld, expected 1 or more",
                       (long long)size);
    return QN_OK;
}

static qn_status lrn_infer(const qn_infer *in, qn_error *err)
{
    const qn_shape *s = &in->in[0].shape;
    char text[QN_SHAPE_TEXT];
    if (s->rank < 2)
        return qn_fail(err, QN_SHAPE, "X is %s, expected [N, C, ...]",
                       qn_shape_text(s, text));
    in->out[0].shape = *s;
    return QN_OK;
}

static qn_status lp_check(const qn_node *node, qn_error *err)
{
    int64_t p = qn_node_int(node, "p", 2);
    if (p != 1 && p != 2)
        return qn_fail(err, QN_UNSUPPORTED, "p is %lld, expected 1 or 2",
                       (long long)p);
    return QN_OK;
}

static qn_status axis_infer(const qn_infer *in, qn_error *err)
{
    int axis;
    in->out[0].shape = in->in[0].shape;
    return qn_axis(qn_node_int(in->node, "axis", -1), in->in[0].shape.rank,
                   &axis, err);
}

static qn_status mvn_infer(const qn_infer *in, qn_error *err)
{
    static const int64_t usual[] = { 0, 2, 3 };
    size_t n;
    const int64_t *axes = qn_node_ints(in->node, "axes", &n);
    if (!axes)
        axes = usual, n = 3;
    in->out[0].shape = in->in[0].shape;
    for (size_t i = 0; i < n; i++) {
        int at;
        qn_status st = qn_axis(axes[i], in->in[0].shape.rank, &at, err);
        if (st != QN_OK)
            return st;
    }
    return QN_OK;
}

#define BATCHNORM(from, to, outs, fl, ...)                                    \
    {                                                                         \
        .domain = "", .name = "BatchNormalization", .since = from,            \
        .until = to, .min_in = 5, .max_in = 5, .min_out = 1, .max_out = outs, \
        .flags = fl, .inplace = 1, .types = { __VA_ARGS__ },                  \
        .out_types = batchnorm_types, .infer = batchnorm_infer                \
    }
#define THREE(op, from, to, inpl, t, inf, chk)                             \
    {                                                                      \
        .domain = "", .name = op, .since = from, .until = to, .min_in = 3, \
        .max_in = 3, .min_out = 1, .max_out = 1, .flags = QN_OP_SAME_TYPE, \
        .inplace = inpl, .types = { t }, .check = chk, .infer = inf        \
    }
#define ONE(op, from, to, inpl, t, inf, chk)                               \
    {                                                                      \
        .domain = "", .name = op, .since = from, .until = to, .min_in = 1, \
        .max_in = 1, .min_out = 1, .max_out = 1, .inplace = inpl,          \
        .types = { t }, .check = chk, .infer = inf                         \
    }

static const qn_op rows[] = {
    BATCHNORM(1, 13, 5, QN_OP_SAME_TYPE, QN_TYPES_IEEE),
    /* T for X, T1 for scale and B, T2 for mean and variance */
    BATCHNORM(14, QN_OPSET_MAX, 3, 0, QN_TYPES_FLOAT, QN_TYPES_FLOAT,
              QN_TYPES_FLOAT, QN_TYPES_FLOAT, QN_TYPES_FLOAT),
    THREE("InstanceNormalization", 1, 21, 1, QN_TYPES_IEEE, instance_infer,
          NULL),
    THREE("InstanceNormalization", 22, QN_OPSET_MAX, 1, QN_TYPES_FLOAT,
          instance_infer, NULL),
    THREE("GroupNormalization", 18, QN_OPSET_MAX, 1, QN_TYPES_FLOAT,
          group_infer, stash_check),
    { .domain = "",
      .name = "LayerNormalization",
      .since = 1,
      .until = QN_OPSET_MAX,
      .min_in = 2,
      .max_in = 3,
      .min_out = 1,
      .max_out = 3,
      .flags = QN_OP_SAME_TYPE,
      .inplace = 1,
      .types = { QN_TYPES_FLOAT },
      .out_types = layer_types,
      .check = stash_check,
      .infer = layer_infer },
    { .domain = "",
      .name = "RMSNormalization",
      .since = 23,
      .until = QN_OPSET_MAX,
      .min_in = 2,
      .max_in = 2,
      .min_out = 1,
      .max_out = 1,
      .inplace = 1,
      .types = { QN_TYPES_FLOAT, QN_TYPES_FLOAT },
      .out_types = rms_types,
      .check = stash_check,
      .infer = layer_infer },
    ONE("LRN", 1, 12, 0, QN_TYPES_IEEE, lrn_infer, lrn_check),
    ONE("LRN", 13, QN_OPSET_MAX, 0, QN_TYPES_FLOAT, lrn_infer, lrn_check),
    ONE("LpNormalization", 1, 21, 1, QN_TYPES_IEEE, axis_infer, lp_check),
    ONE("LpNormalization", 22, QN_OPSET_MAX, 1, QN_TYPES_FLOAT, axis_infer,
        lp_check),
    ONE("MeanVarianceNormalization", 9, 12, 1, QN_TYPES_IEEE, mvn_infer, NULL),
    ONE("MeanVarianceNormalization", 13, QN_OPSET_MAX, 1, QN_TYPES_FLOAT,
        mvn_infer, NULL),
};

QN_OP_TABLE(qn_ops_norm, rows);

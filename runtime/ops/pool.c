/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pooling. Output sizes follow the operators' text at opset 22 for every
 * version: with ceil_mode a last window that would start in the padding behind
 * the input is dropped, as PyTorch and ONNX Runtime do.
 */
#include "runtime/ops/pool.h"

#include "runtime/base/checked.h"
#include "runtime/ops/tables.h"

#include <string.h>

/* Attributes are sizes of windows; this bound keeps every product of two of
 * them, and of one with a dimension's quotient, inside 64 bits. */
#define SIZE_LIMIT ((int64_t)INT32_MAX)

static bool is_global(const qn_node *node)
{
    return !strncmp(node->op_name, "Global", 6);
}

static qn_status check_list(const qn_node *node, const char *name, int64_t low,
                            qn_error *err)
{
    size_t n;
    const int64_t *v = qn_node_ints(node, name, &n);
    for (size_t i = 0; i < n; i++)
        if (v[i] < low || v[i] > SIZE_LIMIT)
            return qn_fail(
                err, QN_RANGE, "%s[%zu] is %lld, expected %lld to %lld", name,
                i, (long long)v[i], (long long)low, (long long)SIZE_LIMIT);
    return QN_OK;
}

static qn_status pool_check(const qn_node *node, qn_error *err)
{
    static const struct {
        const char *name;
        int64_t low;
    } lists[] = { { "kernel_shape", 1 },
                  { "strides", 1 },
                  { "dilations", 1 },
                  { "pads", 0 } };
    static const char *const pads[] = { "NOTSET", "SAME_UPPER", "SAME_LOWER",
                                        "VALID" };
    const char *pad = qn_node_string(node, "auto_pad", "NOTSET");
    size_t n;
    bool known = false;
    if (!qn_node_ints(node, "kernel_shape", &n) || !n)
        return qn_fail(err, QN_INVALID, "kernel_shape is missing");
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        qn_status st = check_list(node, lists[i].name, lists[i].low, err);
        if (st != QN_OK)
            return st;
    }
    for (size_t i = 0; i < sizeof pads / sizeof pads[0]; i++)
        known = known || !strcmp(pad, pads[i]);
    if (!known)
        return qn_fail(err, QN_INVALID, "auto_pad '%s' is not known", pad);
    return QN_OK;
}

static qn_status lp_check(const qn_node *node, qn_error *err)
{
    const qn_attr *p = qn_node_attr(node, "p");
    if (p && ((p->kind == QN_ATTR_INT && p->i < 1) ||
              (p->kind == QN_ATTR_FLOAT && !(p->f > 0))))
        return qn_fail(err, QN_RANGE, "p is not positive");
    return is_global(node) ? QN_OK : pool_check(node, err);
}

/* Copies attribute `name` for n axes; absent: `otherwise` everywhere. */
static qn_status per_axis(const qn_node *node, const char *name, int n,
                          int64_t otherwise, int64_t *out, qn_error *err)
{
    size_t len;
    const int64_t *v = qn_node_ints(node, name, &len);
    if (len && len != (size_t)n)
        return qn_fail(err, QN_SHAPE, "%s has %zu numbers for %d spatial axes",
                       name, len, n);
    for (int i = 0; i < n; i++)
        out[i] = len ? v[i] : otherwise;
    return QN_OK;
}

static qn_status read_pads(const qn_node *node, qn_pool_geometry *g,
                           qn_error *err)
{
    size_t len;
    const int64_t *v = qn_node_ints(node, "pads", &len);
    if (len && len != 2 * (size_t)g->n)
        return qn_fail(err, QN_SHAPE,
                       "pads has %zu numbers for %d spatial axes", len, g->n);
    for (int i = 0; i < g->n; i++) {
        g->lo[i] = len ? v[i] : 0;
        g->hi[i] = len ? v[i + g->n] : 0;
    }
    return QN_OK;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a > 0 ? (a + b - 1) / b : -(-a / b);
}

/* SAME: ceil(in / stride) outputs, and the padding that takes. */
static void same_axis(qn_pool_geometry *g, int i, bool lower)
{
    int64_t span = (g->kernel[i] - 1) * g->dilation[i] + 1;
    g->out[i] = ceil_div(g->in[i], g->stride[i]);
    int64_t pad =
        g->out[i] ? (g->out[i] - 1) * g->stride[i] + span - g->in[i] : 0;
    if (pad < 0)
        pad = 0;
    g->lo[i] = lower ? pad - pad / 2 : pad / 2;
    g->hi[i] = pad - g->lo[i];
}

static qn_status explicit_axis(qn_pool_geometry *g, int i, bool ceil_mode,
                               qn_error *err)
{
    int64_t span = (g->kernel[i] - 1) * g->dilation[i] + 1;
    int64_t room = g->in[i] + g->lo[i] + g->hi[i] - span;
    if (ceil_mode) {
        g->out[i] = ceil_div(room, g->stride[i]) + 1;
        if (g->out[i] > 0 &&
            (g->out[i] - 1) * g->stride[i] >= g->in[i] + g->lo[i])
            g->out[i]--;
    } else {
        g->out[i] = room < 0 ? 0 : room / g->stride[i] + 1;
    }
    if (g->out[i] < 1)
        return qn_fail(
            err, QN_SHAPE,
            "spatial axis %d: a window of %lld does not fit into %lld "
            "elements with pads %lld and %lld",
            i, (long long)span, (long long)g->in[i], (long long)g->lo[i],
            (long long)g->hi[i]);
    return QN_OK;
}

static void global_geometry(qn_pool_geometry *g)
{
    for (int i = 0; i < g->n; i++) {
        g->out[i] = g->stride[i] = g->dilation[i] = 1;
        g->kernel[i] = g->in[i];
        g->lo[i] = g->hi[i] = 0;
    }
}

qn_status qn_pool_geometry_of(const qn_node *node, const qn_shape *shape,
                              qn_pool_geometry *out, qn_error *err)
{
    qn_pool_geometry g = { .n = shape->rank - 2 };
    if (g.n < 0 || (g.n < 1 && !is_global(node))) {
        char text[QN_SHAPE_TEXT];
        return qn_fail(err, QN_SHAPE,
                       "input is %s, expected [N, C, spatial...]",
                       qn_shape_text(shape, text));
    }
    for (int i = 0; i < g.n; i++)
        g.in[i] = shape->dims[i + 2];
    if (is_global(node)) {
        global_geometry(&g);
        *out = g;
        return QN_OK;
    }
    qn_status st = per_axis(node, "kernel_shape", g.n, 1, g.kernel, err);
    if (st == QN_OK)
        st = per_axis(node, "strides", g.n, 1, g.stride, err);
    if (st == QN_OK)
        st = per_axis(node, "dilations", g.n, 1, g.dilation, err);
    const char *pad = qn_node_string(node, "auto_pad", "NOTSET");
    if (st == QN_OK && !strcmp(pad, "NOTSET"))
        st = read_pads(node, &g, err);
    bool ceil_mode = qn_node_int(node, "ceil_mode", 0) != 0;
    for (int i = 0; st == QN_OK && i < g.n; i++) {
        if (!strncmp(pad, "SAME", 4))
            same_axis(&g, i, !strcmp(pad, "SAME_LOWER"));
        else
            st = explicit_axis(&g, i, ceil_mode && strcmp(pad, "VALID"), err);
    }
    if (st == QN_OK)
        *out = g;
    return st;
}

static qn_status pool_infer(const qn_infer *in, qn_error *err)
{
    qn_pool_geometry g;
    qn_status st = qn_pool_geometry_of(in->node, &in->in[0].shape, &g, err);
    if (st != QN_OK)
        return st;
    for (uint32_t k = 0; k < in->n_out; k++) {
        in->out[k].shape = in->in[0].shape;
        for (int i = 0; i < g.n; i++)
            in->out[k].shape.dims[i + 2] = g.out[i];
    }
    return QN_OK;
}

qn_status qn_unpool_shape(const qn_node *node, const qn_shape *shape,
                          qn_shape *out, qn_error *err)
{
    qn_pool_geometry g = { .n = shape->rank - 2 };
    char text[QN_SHAPE_TEXT];
    if (g.n < 1)
        return qn_fail(err, QN_SHAPE,
                       "input is %s, expected [N, C, spatial...]",
                       qn_shape_text(shape, text));
    qn_status st = per_axis(node, "kernel_shape", g.n, 1, g.kernel, err);
    if (st == QN_OK)
        st = per_axis(node, "strides", g.n, 1, g.stride, err);
    if (st == QN_OK)
        st = read_pads(node, &g, err);
    if (st != QN_OK)
        return st;
    qn_shape implied = *shape;
    for (int i = 0; i < g.n; i++) {
        int64_t last;
        int64_t *d = &implied.dims[i + 2];
        if (!qn_mul_i64(*d - 1, g.stride[i], &last))
            return qn_fail(err, QN_TOO_LARGE, "spatial axis %d is too large",
                           i);
        *d = last + g.kernel[i] - g.lo[i] - g.hi[i];
        if (*d < 1)
            return qn_fail(err, QN_SHAPE,
                           "spatial axis %d would have %lld elements", i,
                           (long long)*d);
    }
    *out = implied;
    return QN_OK;
}

static qn_status unpool_infer(const qn_infer *in, qn_error *err)
{
    qn_shape implied, *out = &in->out[0].shape;
    char a[QN_SHAPE_TEXT], b[QN_SHAPE_TEXT];
    if (!qn_shape_equal(&in->in[0].shape, &in->in[1].shape))
        return qn_fail(err, QN_SHAPE, "values are %s, but indices are %s",
                       qn_shape_text(&in->in[0].shape, a),
                       qn_shape_text(&in->in[1].shape, b));
    qn_status st = qn_unpool_shape(in->node, &in->in[0].shape, &implied, err);
    if (st != QN_OK)
        return st;
    *out = implied;
    if (in->n_in < 3 || !qn_present(&in->in[2]))
        return QN_OK;
    size_t n;
    st = qn_infer_ints(in, 2, out->dims, QN_MAX_RANK, &n, err);
    if (st != QN_OK)
        return st;
    if (n != (size_t)implied.rank)
        return qn_fail(err, QN_SHAPE,
                       "output_shape has %zu numbers, expected %d", n,
                       implied.rank);
    for (int i = 0; i < out->rank; i++)
        if (out->dims[i] < 0)
            return qn_fail(err, QN_RANGE, "output_shape[%d] is %lld", i,
                           (long long)out->dims[i]);
    return QN_OK;
}

#define ROW(op, from, to, outs, t, chk)                                    \
    {                                                                      \
        .domain = "", .name = op, .since = from, .until = to, .min_in = 1, \
        .max_in = 1, .min_out = 1, .max_out = outs, .types = { t },        \
        .out_types = qn_types_same_i64, .check = chk, .infer = pool_infer  \
    }

#define BYTES (QN_BIT(I8) | QN_BIT(U8))

#define UNPOOL(from, to, t)                                            \
    {                                                                  \
        .domain = "", .name = "MaxUnpool", .since = from, .until = to, \
        .min_in = 2, .max_in = 3, .min_out = 1, .max_out = 1,          \
        .value_in = 1u << 2, .types = { t, QN_BIT(I64), QN_BIT(I64) }, \
        .check = pool_check, .infer = unpool_infer                     \
    }

static const qn_op rows[] = {
    UNPOOL(9, 21, QN_TYPES_IEEE),
    UNPOOL(22, QN_OPSET_MAX, QN_TYPES_FLOAT),
    ROW("MaxPool", 1, 7, 1, QN_TYPES_IEEE, pool_check),
    ROW("MaxPool", 8, 11, 2, QN_TYPES_IEEE, pool_check),
    ROW("MaxPool", 12, 21, 2, QN_TYPES_IEEE | BYTES, pool_check),
    ROW("MaxPool", 22, QN_OPSET_MAX, 2, QN_TYPES_FLOAT | BYTES, pool_check),
    ROW("AveragePool", 1, 21, 1, QN_TYPES_IEEE, pool_check),
    ROW("AveragePool", 22, QN_OPSET_MAX, 1, QN_TYPES_FLOAT, pool_check),
    ROW("LpPool", 1, 21, 1, QN_TYPES_IEEE, lp_check),
    ROW("LpPool", 22, QN_OPSET_MAX, 1, QN_TYPES_FLOAT, lp_check),
    ROW("GlobalAveragePool", 1, 21, 1, QN_TYPES_IEEE, NULL),
    ROW("GlobalAveragePool", 22, QN_OPSET_MAX, 1, QN_TYPES_FLOAT, NULL),
    ROW("GlobalMaxPool", 1, 21, 1, QN_TYPES_IEEE, NULL),
    ROW("GlobalMaxPool", 22, QN_OPSET_MAX, 1, QN_TYPES_FLOAT, NULL),
    ROW("GlobalLpPool", 1, 21, 1, QN_TYPES_IEEE, lp_check),
    ROW("GlobalLpPool", 22, QN_OPSET_MAX, 1, QN_TYPES_FLOAT, lp_check),
};

QN_OP_TABLE(qn_ops_pool, rows);

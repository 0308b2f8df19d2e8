/* SPDX-License-Identifier: Apache-2.0 */
/* Conv and ConvTranspose: attributes, padding rules, shapes. */
#include "runtime/ops/conv.h"

#include "runtime/base/checked.h"
#include "runtime/ops/tables.h"

#include <string.h>

typedef enum pad_rule { NOTSET, SAME_UPPER, SAME_LOWER, VALID } pad_rule;

/* Per axis, in the order of the tensors. */
typedef struct attributes {
    int rank;
    pad_rule rule;
    int64_t stride[QN_CONV_DIMS], dilation[QN_CONV_DIMS];
    int64_t begin[QN_CONV_DIMS], end[QN_CONV_DIMS];
    int64_t extra[QN_CONV_DIMS]; /* output_padding */
    const int64_t *out;          /* output_shape: [rank], or NULL */
} attributes;

static qn_status read_ints(const qn_node *node, const char *name, int rank,
                           int64_t least, int64_t otherwise, int64_t *out,
                           qn_error *err)
{
    size_t n;
    const int64_t *v = qn_node_ints(node, name, &n);
    for (int i = 0; i < rank; i++)
        out[i] = otherwise;
    if (!n)
        return QN_OK;
    if (n != (size_t)rank)
        return qn_fail(err, QN_INVALID, "%s has %zu entries, %d expected", name,
                       n, rank);
    for (int i = 0; i < rank; i++) {
        if (v[i] < least || v[i] > INT32_MAX)
            return qn_fail(err, QN_INVALID, "%s[%d] is %lld, expected %lld to "
                           "%d", name, i, (long long)v[i], (long long)least,
                           INT32_MAX);
        out[i] = v[i];
    }
    return QN_OK;
}

static qn_status read_rule(const qn_node *node, pad_rule *out, qn_error *err)
{
    static const char *const names[] = { "NOTSET", "SAME_UPPER", "SAME_LOWER",
                                         "VALID" };
    const char *s = qn_node_string(node, "auto_pad", "NOTSET");
    *out = NOTSET;
    for (int i = 0; i < 4; i++)
        if (!strcmp(s, names[i])) {
            *out = (pad_rule)i;
            return QN_OK;
        }
    return qn_fail(err, QN_INVALID, "auto_pad '%.40s' is unknown", s);
}

static qn_status read_attributes(const qn_node *node, int rank, attributes *a,
                                 qn_error *err)
{
    int64_t pads[2 * QN_CONV_DIMS];
    size_t n;
    memset(a, 0, sizeof *a);
    a->rank = rank;
    qn_status st = read_rule(node, &a->rule, err);
    if (st == QN_OK)
        st = read_ints(node, "strides", rank, 1, 1, a->stride, err);
    if (st == QN_OK)
        st = read_ints(node, "dilations", rank, 1, 1, a->dilation, err);
    if (st == QN_OK)
        st = read_ints(node, "output_padding", rank, 0, 0, a->extra, err);
    if (st == QN_OK)
        st = read_ints(node, "pads", 2 * rank, 0, 0, pads, err);
    if (st != QN_OK)
        return st;
    for (int i = 0; i < rank && a->rule == NOTSET; i++) {
        a->begin[i] = pads[i];
        a->end[i] = pads[rank + i];
    }
    a->out = qn_node_ints(node, "output_shape", &n);
    /* some exporters write the whole shape, with N and C */
    if (n == (size_t)rank + 2)
        a->out += 2;
    else if (n && n != (size_t)rank)
        return qn_fail(err, QN_INVALID, "output_shape has %zu entries, %d "
                       "expected", n, rank);
    return QN_OK;
}

static void share(int64_t total, bool more_at_end, int64_t *begin)
{
    total = total > 0 ? total : 0;
    *begin = more_at_end ? total / 2 : total - total / 2;
}

static qn_status conv_axis(const attributes *a, int i, int64_t in, int64_t k,
                           int64_t *out, int64_t *pad, qn_error *err)
{
    const int64_t s = a->stride[i];
    int64_t span, total;
    if (!qn_mul_i64(k - 1, a->dilation[i], &span) ||
        !qn_add_i64(span, 1, &span) ||
        !qn_add_i64(in, a->begin[i] + a->end[i], &total) ||
        total > INT64_MAX / 4 || span > INT64_MAX / 4)
        return qn_fail(err, QN_TOO_LARGE, "axis %d: kernel %lld, dilation %lld, "
                       "input %lld", i, (long long)k, (long long)a->dilation[i],
                       (long long)in);
    *pad = a->begin[i];
    if (a->rule == SAME_UPPER || a->rule == SAME_LOWER) {
        *out = in / s + (in % s != 0);
        if (*out)
            share((*out - 1) * s + span - in, a->rule == SAME_UPPER, pad);
        return QN_OK;
    }
    if (total < span && in)
        return qn_fail(err, QN_SHAPE, "axis %d: kernel of %lld (dilation %lld) "
                       "on %lld elements with padding %lld + %lld leaves no "
                       "output", i, (long long)k, (long long)a->dilation[i],
                       (long long)in, (long long)a->begin[i],
                       (long long)a->end[i]);
    *out = total < span ? 0 : (total - span) / s + 1;
    return QN_OK;
}

static qn_status transpose_axis(const attributes *a, int i, int64_t in,
                                int64_t k, int64_t *out, int64_t *pad,
                                qn_error *err)
{
    const int64_t s = a->stride[i];
    int64_t span, full;
    if (!qn_mul_i64(k - 1, a->dilation[i], &span) ||
        !qn_mul_i64(in ? in - 1 : 0, s, &full) ||
        !qn_add_i64(full, span, &full) ||
        !qn_add_i64(full, a->extra[i] + 1, &full) || full > INT64_MAX / 4)
        return qn_fail(err, QN_TOO_LARGE, "axis %d: kernel %lld, dilation %lld, "
                       "stride %lld, input %lld", i, (long long)k,
                       (long long)a->dilation[i], (long long)s, (long long)in);
    *pad = a->begin[i];
    if (a->out) {
        *out = a->out[i];
        if (*out < 0 || *out > INT32_MAX)
            return qn_fail(err, QN_INVALID, "output_shape[%d] is %lld", i,
                           (long long)*out);
        share(full - *out, a->rule == SAME_UPPER, pad);
    } else if (a->rule == SAME_UPPER || a->rule == SAME_LOWER) {
        if (!qn_mul_i64(in, s, out))
            return qn_fail(err, QN_TOO_LARGE, "axis %d: stride %lld, input %lld",
                           i, (long long)s, (long long)in);
        share(full - *out, a->rule == SAME_UPPER, pad);
    } else {
        *out = in ? full - a->begin[i] - a->end[i] : 0;
        if (*out < 0)
            return qn_fail(err, QN_SHAPE, "axis %d: padding %lld + %lld cuts "
                           "more than the %lld elements there are", i,
                           (long long)a->begin[i], (long long)a->end[i],
                           (long long)full);
    }
    return QN_OK;
}

static qn_status check_kernel_shape(const qn_node *node, const qn_shape *w,
                                    qn_error *err)
{
    char text[QN_SHAPE_TEXT];
    size_t n;
    const int64_t *k = qn_node_ints(node, "kernel_shape", &n);
    bool same = !n || n == (size_t)w->rank - 2;
    for (size_t i = 0; same && i < n; i++)
        same = k[i] == w->dims[i + 2];
    if (!same)
        return qn_fail(err, QN_SHAPE, "kernel_shape does not agree with weights "
                       "%s", qn_shape_text(w, text));
    for (int i = 2; i < w->rank; i++)
        if (w->dims[i] < 1)
            return qn_fail(err, QN_SHAPE, "weights %s have no taps",
                           qn_shape_text(w, text));
    return QN_OK;
}

static qn_status check_channels(const qn_conv *g, bool transposed,
                                const qn_shape *x, const qn_shape *w,
                                qn_error *err)
{
    char tx[QN_SHAPE_TEXT], tw[QN_SHAPE_TEXT];
    const int64_t own = transposed ? w->dims[0] : w->dims[1] * g->group;
    if (g->group < 1 || g->group > INT32_MAX)
        return qn_fail(err, QN_INVALID, "group is %lld", (long long)g->group);
    if (g->c % g->group || g->m % g->group || own != g->c)
        return qn_fail(err, QN_SHAPE, "input %s and weights %s do not fit with "
                       "group %lld: %lld input channels, weights for %lld",
                       qn_shape_text(x, tx), qn_shape_text(w, tw),
                       (long long)g->group, (long long)g->c, (long long)own);
    return QN_OK;
}

qn_status qn_conv_read(const qn_node *node, const qn_shape *x, const qn_shape *w,
                       qn_conv *out, qn_error *err)
{
    const bool transposed = !strcmp(node->op->name, "ConvTranspose");
    char tx[QN_SHAPE_TEXT], tw[QN_SHAPE_TEXT];
    const int rank = x->rank - 2, lead = QN_CONV_DIMS - rank;
    attributes a;
    qn_conv g = { .rank = rank };

    if (rank < 1 || rank > QN_CONV_DIMS || w->rank != x->rank)
        return qn_fail(err, QN_SHAPE, "input %s with weights %s: one to three "
                       "spatial dimensions, and equal ranks, expected",
                       qn_shape_text(x, tx), qn_shape_text(w, tw));
    g.n = x->dims[0];
    g.c = x->dims[1];
    g.group = qn_node_int(node, "group", 1);
    if (!qn_mul_i64(w->dims[transposed], transposed ? g.group : 1, &g.m))
        return qn_fail(err, QN_TOO_LARGE, "group %lld", (long long)g.group);
    qn_status st = check_kernel_shape(node, w, err);
    if (st == QN_OK)
        st = check_channels(&g, transposed, x, w, err);
    if (st == QN_OK)
        st = read_attributes(node, rank, &a, err);
    for (int i = 0; st == QN_OK && i < QN_CONV_DIMS; i++) {
        int axis = i - lead;
        g.in[i] = axis < 0 ? 1 : x->dims[axis + 2];
        g.kernel[i] = axis < 0 ? 1 : w->dims[axis + 2];
        g.stride[i] = axis < 0 ? 1 : a.stride[axis];
        g.dilation[i] = axis < 0 ? 1 : a.dilation[axis];
        g.out[i] = 1;
        if (axis >= 0)
            st = (transposed ? transpose_axis : conv_axis)(
                &a, axis, g.in[i], g.kernel[i], &g.out[i], &g.pad[i], err);
    }
    if (st != QN_OK)
        return st;
    g.taps = g.in_pixels = g.out_pixels = 1;
    for (int i = 0; i < QN_CONV_DIMS; i++)
        if (!qn_mul_i64(g.taps, g.kernel[i], &g.taps) ||
            !qn_mul_i64(g.in_pixels, g.in[i], &g.in_pixels) ||
            !qn_mul_i64(g.out_pixels, g.out[i], &g.out_pixels))
            return qn_fail(err, QN_TOO_LARGE, "input %s with weights %s",
                           qn_shape_text(x, tx), qn_shape_text(w, tw));
    *out = g;
    return QN_OK;
}

static qn_status infer(const qn_infer *in, qn_error *err)
{
    char text[QN_SHAPE_TEXT];
    qn_conv g;
    const uint32_t n_in = in->n_in - in->node->residual;
    qn_status st = qn_conv_read(in->node, &in->in[0].shape, &in->in[1].shape, &g,
                                err);
    if (st != QN_OK)
        return st;
    if (n_in > 2 && qn_present(&in->in[2]) &&
        (in->in[2].shape.rank != 1 || in->in[2].shape.dims[0] != g.m))
        return qn_fail(err, QN_SHAPE, "bias %s, [%lld] expected",
                       qn_shape_text(&in->in[2].shape, text), (long long)g.m);
    qn_shape *out = &in->out[0].shape;
    out->rank = g.rank + 2;
    out->dims[0] = g.n;
    out->dims[1] = g.m;
    for (int i = 0; i < g.rank; i++)
        out->dims[i + 2] = g.out[QN_CONV_DIMS - g.rank + i];
    return QN_OK;
}

/* In place on a residual (a pass adds it as the last input): each element of it
 * is read before the output's is written. */
#define ROW(op, from, to, set)                                                 \
    { .domain = "", .name = op, .since = from, .until = to, .min_in = 2,       \
      .max_in = 3, .min_out = 1, .max_out = 1, .flags = QN_OP_SAME_TYPE,       \
      .inplace = 1 << 2 | 1 << 3, .types = { set }, .infer = infer }

static const qn_op rows[] = {
    ROW("Conv", 1, 21, QN_TYPES_IEEE),
    ROW("Conv", 22, QN_OPSET_MAX, QN_TYPES_FLOAT),
    ROW("ConvTranspose", 1, 21, QN_TYPES_IEEE),
    ROW("ConvTranspose", 22, QN_OPSET_MAX, QN_TYPES_FLOAT),
};

QN_OP_TABLE(qn_ops_conv, rows);

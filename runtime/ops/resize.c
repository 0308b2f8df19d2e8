/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resize (10, 11, 13, 18, 19) and Upsample (1, 7, 9, deprecated at 10). Output
 * lengths are computed in binary32, as exporters and other runtimes do:
 * floor(in * scale), or the sizes given, or, with keep_aspect_ratio_policy,
 * round(in * scale) for the one scale that keeps all axes within, or beyond,
 * their sizes.
 */
#include "runtime/ops/resize.h"

#include "runtime/base/half.h"
#include "runtime/ops/move.h"
#include "runtime/ops/tables.h"

#include <math.h>
#include <string.h>

typedef struct name_value {
    const char *name;
    int value;
} name_value;

static const name_value mode_names[] = {
    { "nearest", QN_RESIZE_NEAREST },
    { "linear", QN_RESIZE_LINEAR },
    { "bilinear", QN_RESIZE_LINEAR }, /* Upsample 1 */
    { "cubic", QN_RESIZE_CUBIC },
    { NULL, 0 },
};
static const name_value coords_names[] = {
    { "half_pixel", QN_COORDS_HALF_PIXEL },
    { "half_pixel_symmetric", QN_COORDS_HALF_PIXEL_SYMMETRIC },
    { "pytorch_half_pixel", QN_COORDS_PYTORCH_HALF_PIXEL },
    { "align_corners", QN_COORDS_ALIGN_CORNERS },
    { "asymmetric", QN_COORDS_ASYMMETRIC },
    { "tf_half_pixel_for_nn", QN_COORDS_TF_HALF_PIXEL_FOR_NN },
    { "tf_crop_and_resize", QN_COORDS_TF_CROP_AND_RESIZE },
    { NULL, 0 },
};
static const name_value nearest_names[] = {
    { "round_prefer_floor", QN_NEAREST_ROUND_PREFER_FLOOR },
    { "round_prefer_ceil", QN_NEAREST_ROUND_PREFER_CEIL },
    { "floor", QN_NEAREST_FLOOR },
    { "ceil", QN_NEAREST_CEIL },
    { NULL, 0 },
};
enum { POLICY_STRETCH, POLICY_NOT_LARGER, POLICY_NOT_SMALLER };
static const name_value policy_names[] = {
    { "stretch", POLICY_STRETCH },
    { "not_larger", POLICY_NOT_LARGER },
    { "not_smaller", POLICY_NOT_SMALLER },
    { NULL, 0 },
};

static qn_status read_name(const qn_node *node, const char *attr,
                           const name_value *names, int *out, qn_error *err)
{
    const char *s = qn_node_string(node, attr, names[0].name);
    for (size_t i = 0; names[i].name; i++)
        if (!strcmp(s, names[i].name)) {
            *out = names[i].value;
            return QN_OK;
        }
    return qn_fail(err, QN_INVALID, "no %s '%.40s'", attr, s);
}

static bool is_resize(const qn_node *node)
{
    return !strcmp(node->op_name, "Resize");
}

/* Attributes; also all that can be checked at load. */
static qn_status read_modes(const qn_node *node, qn_resize *out, int *policy,
                            qn_error *err)
{
    int mode, coords = QN_COORDS_ASYMMETRIC, nearest = QN_NEAREST_SIMPLE;
    *policy = POLICY_STRETCH;
    qn_status st = read_name(node, "mode", mode_names, &mode, err);
    bool modern = is_resize(node) && node->op->since >= 11;
    if (st == QN_OK && modern) {
        st = read_name(node, "coordinate_transformation_mode", coords_names,
                       &coords, err);
        if (st == QN_OK)
            st = read_name(node, "nearest_mode", nearest_names, &nearest, err);
        if (st == QN_OK)
            st = read_name(node, "keep_aspect_ratio_policy", policy_names,
                           policy, err);
    }
    if (st != QN_OK)
        return st;
    out->mode = (qn_resize_mode)mode;
    out->coords = (qn_resize_coords)coords;
    out->nearest = (qn_resize_nearest)nearest;
    out->cubic_a = qn_node_float(node, "cubic_coeff_a", -0.75f);
    out->extrapolation = qn_node_float(node, "extrapolation_value", 0.0f);
    out->exclude_outside = qn_node_int(node, "exclude_outside", 0) != 0;
    out->antialias = qn_node_int(node, "antialias", 0) != 0;
    if (out->mode == QN_RESIZE_CUBIC && !modern)
        return qn_fail(err, QN_INVALID, "cubic mode needs Resize at opset 11");
    if (out->antialias && out->mode == QN_RESIZE_NEAREST)
        return qn_fail(err, QN_INVALID, "antialias has no meaning for nearest");
    return QN_OK;
}

/* Input i as floats; n = 0 if it is absent or empty. */
static qn_status read_floats(const qn_infer *in, uint32_t i, size_t cap,
                             float *out, size_t *n, qn_error *err)
{
    *n = 0;
    if (i >= in->n_in || !qn_present(&in->in[i]))
        return QN_OK;
    const qn_tensor *t = &in->in[i];
    int64_t count = qn_count(t);
    if (count > (int64_t)cap)
        return qn_fail(err, QN_SHAPE, "input %u has %lld elements, at most %zu "
                       "make sense", i, (long long)count, cap);
    if (count && !t->data)
        return qn_fail(err, QN_INTERNAL, "the value of input %u is not known", i);
    for (int64_t k = 0; k < count; k++) {
        const char *p = (const char *)t->data + (size_t)k * qn_dtype_size(t->dtype);
        double d;
        uint16_t h;
        switch (t->dtype) {
        case QN_F32:
            memcpy(&out[k], p, sizeof out[k]);
            break;
        case QN_F64:
            memcpy(&d, p, sizeof d);
            out[k] = (float)d;
            break;
        case QN_F16:
            memcpy(&h, p, sizeof h);
            out[k] = qn_f16_to_f32(h);
            break;
        default:
            return qn_fail(err, QN_TYPE, "input %u is %s", i,
                           qn_dtype_name(t->dtype));
        }
    }
    *n = (size_t)count;
    return QN_OK;
}

/* What the versions have in common once read: either scales or sizes, for the
 * axes listed. */
typedef struct wanted {
    size_t n_axes;
    int axes[QN_MAX_RANK];
    size_t n_scales, n_sizes, n_roi;
    float scales[QN_MAX_RANK], roi[2 * QN_MAX_RANK];
    int64_t sizes[QN_MAX_RANK];
} wanted;

static qn_status read_upsample(const qn_infer *in, wanted *w, qn_error *err)
{
    const qn_node *node = in->node;
    size_t n;
    if (node->op->since >= 9)
        return read_floats(in, 1, QN_MAX_RANK, w->scales, &w->n_scales, err);
    if (node->op->since == 1) {
        if (in->in[0].shape.rank != 4)
            return qn_fail(err, QN_SHAPE, "the input has rank %d, expected 4",
                           in->in[0].shape.rank);
        w->scales[0] = w->scales[1] = 1.0f;
        w->scales[2] = qn_node_float(node, "height_scale", 1.0f);
        w->scales[3] = qn_node_float(node, "width_scale", 1.0f);
        w->n_scales = 4;
        return QN_OK;
    }
    const float *scales = qn_node_floats(node, "scales", &n);
    if (n > QN_MAX_RANK)
        return qn_fail(err, QN_INVALID, "scales has %zu entries", n);
    if (n)
        memcpy(w->scales, scales, n * sizeof *scales);
    w->n_scales = n;
    return QN_OK;
}

static qn_status read_resize(const qn_infer *in, wanted *w, qn_error *err)
{
    bool given;
    int rank = in->in[0].shape.rank;
    if (in->node->op->since < 11)
        return read_floats(in, 1, QN_MAX_RANK, w->scales, &w->n_scales, err);
    qn_status st = read_floats(in, 1, 2 * QN_MAX_RANK, w->roi, &w->n_roi, err);
    if (st == QN_OK)
        st = read_floats(in, 2, QN_MAX_RANK, w->scales, &w->n_scales, err);
    if (st == QN_OK && in->n_in > 3 && qn_present(&in->in[3]))
        st = qn_infer_ints(in, 3, w->sizes, QN_MAX_RANK, &w->n_sizes, err);
    if (st == QN_OK && in->node->op->since >= 18 &&
        qn_node_attr(in->node, "axes"))
        st = qn_read_axes(in, "axes", 0, rank, w->axes, &w->n_axes, &given, err);
    return st;
}

static qn_status read_wanted(const qn_infer *in, const qn_resize *r, wanted *w,
                             qn_error *err)
{
    memset(w, 0, sizeof *w);
    w->n_axes = (size_t)r->rank;
    for (int d = 0; d < r->rank; d++)
        w->axes[d] = d;
    qn_status st = is_resize(in->node) ? read_resize(in, w, err)
                                       : read_upsample(in, w, err);
    if (st != QN_OK)
        return st;
    if (w->n_scales && w->n_sizes)
        return qn_fail(err, QN_INVALID, "both scales and sizes are given");
    if (!w->n_scales && !w->n_sizes && w->n_axes)
        return qn_fail(err, QN_INVALID, "neither scales nor sizes are given");
    if (w->n_scales + w->n_sizes != w->n_axes)
        return qn_fail(err, QN_SHAPE, "%zu %s for %zu axes",
                       w->n_scales + w->n_sizes, w->n_scales ? "scales" : "sizes",
                       w->n_axes);
    if (r->coords == QN_COORDS_TF_CROP_AND_RESIZE && w->n_roi != 2 * w->n_axes)
        return qn_fail(err, QN_SHAPE, "roi has %zu entries for %zu axes, expected "
                       "%zu", w->n_roi, w->n_axes, 2 * w->n_axes);
    return QN_OK;
}

static qn_status by_scale(const qn_infer *in, qn_resize_axis *a, int axis,
                          float scale, qn_error *err)
{
    if (!(scale > 0.0f) || isinf(scale))
        return qn_fail(err, QN_RANGE, "scale of axis %d is %g", axis,
                       (double)scale);
    if (!is_resize(in->node) && scale < 1.0f)
        return qn_fail(err, QN_RANGE, "scale of axis %d is %g: Upsample does not "
                       "shrink", axis, (double)scale);
    a->scale = scale;
    a->length = (float)a->in * scale;
    if (!(a->length < 0x1p62f))
        return qn_fail(err, QN_TOO_LARGE, "axis %d: %lld x %g is above 2^62", axis,
                       (long long)a->in, (double)scale);
    a->out = (int64_t)a->length;
    return QN_OK;
}

/* Sizes; one scale for all axes under a policy. */
static qn_status by_sizes(qn_resize *r, const wanted *w, int policy,
                          qn_error *err)
{
    float common = 0.0f;
    for (size_t k = 0; k < w->n_axes; k++) {
        qn_resize_axis *a = &r->axes[w->axes[k]];
        a->out = w->sizes[k];
        if (a->out < 0 || (a->in == 0 && a->out > 0) ||
            (policy != POLICY_STRETCH && a->in == 0))
            return qn_fail(err, QN_INVALID, "axis %d: %lld elements do not resize "
                           "to %lld", w->axes[k], (long long)a->in,
                           (long long)a->out);
        a->scale = a->in ? (float)a->out / (float)a->in : 1.0f;
        a->length = (float)a->out;
        bool take = k == 0 || (policy == POLICY_NOT_LARGER ? a->scale < common
                                                           : a->scale > common);
        common = take ? a->scale : common;
    }
    for (size_t k = 0; policy != POLICY_STRETCH && k < w->n_axes; k++) {
        qn_resize_axis *a = &r->axes[w->axes[k]];
        a->scale = common;
        a->length = (float)a->in * common;
        if (!(a->length < 0x1p62f))
            return qn_fail(err, QN_TOO_LARGE, "axis %d grows above 2^62",
                           w->axes[k]);
        a->out = (int64_t)floorf(a->length + 0.5f);
    }
    return QN_OK;
}

qn_status qn_resize_resolve(const qn_infer *in, qn_resize *out, qn_error *err)
{
    const qn_shape *from = &in->in[0].shape;
    wanted w;
    int policy;

    memset(out, 0, sizeof *out);
    out->rank = from->rank;
    for (int d = 0; d < from->rank; d++)
        out->axes[d] = (qn_resize_axis){ .in = from->dims[d],
                                         .out = from->dims[d],
                                         .scale = 1.0f,
                                         .length = (float)from->dims[d],
                                         .roi_end = 1.0f };
    qn_status st = read_modes(in->node, out, &policy, err);
    if (st == QN_OK)
        st = read_wanted(in, out, &w, err);
    if (st == QN_OK && w.n_sizes)
        st = by_sizes(out, &w, policy, err);
    for (size_t k = 0; st == QN_OK && k < w.n_axes; k++) {
        qn_resize_axis *a = &out->axes[w.axes[k]];
        if (w.n_scales)
            st = by_scale(in, a, w.axes[k], w.scales[k], err);
        if (out->coords == QN_COORDS_TF_CROP_AND_RESIZE) {
            a->roi_start = w.roi[k];
            a->roi_end = w.roi[w.n_axes + k];
            if (st == QN_OK && (isnan(a->roi_start) || isnan(a->roi_end)))
                st = qn_fail(err, QN_RANGE, "roi of axis %d is not a number",
                             w.axes[k]);
        }
    }
    for (int d = 0; st == QN_OK && d < out->rank; d++) {
        qn_resize_axis *a = &out->axes[d];
        a->same = a->in == a->out && a->scale == 1.0f &&
                  a->roi_start == 0.0f && a->roi_end == 1.0f;
    }
    return st;
}

static qn_status infer_resize(const qn_infer *in, qn_error *err)
{
    qn_resize r;
    qn_status st = qn_resize_resolve(in, &r, err);
    if (st != QN_OK)
        return st;
    in->out[0].shape.rank = r.rank;
    for (int d = 0; d < r.rank; d++)
        in->out[0].shape.dims[d] = r.axes[d].out;
    return qn_check_output(in, 0, err);
}

int64_t qn_resize_taps(const qn_resize *r, const qn_resize_axis *a)
{
    float reach = r->mode == QN_RESIZE_CUBIC ? 2.0f : 1.0f;
    if (r->mode == QN_RESIZE_NEAREST || a->out == 0)
        return 1;
    if (r->antialias && a->scale < 1.0f)
        reach /= a->scale;
    if (!(reach < 0x1p40f))
        return INT64_MAX; /* refused by who makes tables */
    return 2 - 2 * ((int64_t)floorf(-reach) + 1);
}

static qn_status check_resize(const qn_node *node, qn_error *err)
{
    qn_resize r;
    int policy;
    if (!is_resize(node) && node->op->since == 7 &&
        !qn_node_attr(node, "scales"))
        return qn_fail(err, QN_INVALID, "attribute scales is missing");
    return read_modes(node, &r, &policy, err);
}

#define ROW(NAME, SINCE, UNTIL, MIN, MAX, VALUES, ...)                         \
    { .domain = "", .name = NAME, .since = SINCE, .until = UNTIL,              \
      .min_in = MIN, .max_in = MAX, .min_out = 1, .max_out = 1,                \
      .value_in = VALUES, .types = { __VA_ARGS__ }, .check = check_resize,     \
      .infer = infer_resize }
#define RESIZE(SINCE, UNTIL, MIN, TYPES)                                       \
    ROW("Resize", SINCE, UNTIL, MIN, 4, 7u << 1, TYPES, QN_TYPES_IEEE,         \
        QN_BIT(F32), QN_BIT(I64))
#define UPSAMPLE_V1                                                            \
    (QN_TYPES_IEEE | QN_BIT(BOOL) | QN_BIT(I32) | QN_BIT(I64))

static const qn_op rows[] = {
    ROW("Resize", 10, 10, 2, 2, 1u << 1, QN_TYPES_CLASSIC, QN_BIT(F32)),
    RESIZE(11, 12, 3, QN_TYPES_CLASSIC),
    RESIZE(13, 17, 1, QN_TYPES_V13),
    RESIZE(18, 18, 1, QN_TYPES_V13),
    RESIZE(19, QN_OPSET_MAX, 1, QN_TYPES_V13),
    ROW("Upsample", 1, 6, 1, 1, 0, UPSAMPLE_V1),
    ROW("Upsample", 7, 8, 1, 1, 0, QN_TYPES_CLASSIC),
    ROW("Upsample", 9, 9, 2, 2, 1u << 1, QN_TYPES_CLASSIC, QN_BIT(F32)),
};

QN_OP_TABLE(qn_ops_resize, rows);

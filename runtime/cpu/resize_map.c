/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where each output element of a resized axis comes from. Coordinates are
 * binary32, in the order of operations of the specification's formulas.
 *
 * Antialiasing (opset 18) widens the filter by 1 / scale when shrinking; its
 * weights are scaled to sum to 1, and neighbours beyond the ends repeat the end
 * unless exclude_outside drops them.
 *
 * Cubic: R. Keys, Cubic convolution interpolation for digital image processing,
 * IEEE TASSP 29 (1981), with parameter a = cubic_coeff_a.
 */
#include "runtime/base/checked.h"
#include "runtime/cpu/resize.h"
#include "runtime/ops/move.h"

#include <math.h>

static bool plan_axis(axis_map *m, size_t *bytes)
{
    size_t entries, need;
    if (m->same || m->out == 0)
        return true;
    return qn_mul_size((size_t)m->out, (size_t)m->taps, &entries) &&
           qn_mul_size(entries, sizeof *m->index + sizeof *m->weight, &need) &&
           qn_add_size(need, (size_t)m->out + 64, &need) &&
           qn_add_size(*bytes, need, bytes) &&
           qn_align_size(*bytes, 64, bytes);
}

qn_status resize_plan_init(const qn_node *node, uint32_t n_in,
                           const qn_tensor *in, resize_plan *out,
                           qn_error *err)
{
    enum { MAX_IN = 4 };
    qn_tensor args[MAX_IN];
    for (uint32_t i = 0; i < n_in && i < MAX_IN; i++)
        args[i] = in[i];
    args[0].shape = qn_node_logical_shape(node, &in[0].shape);
    qn_status st = qn_resize_resolve(
        &(qn_infer){ .node = node, .n_in = n_in, .in = args }, &out->args, err);
    if (st != QN_OK)
        return st;
    out->rank = out->args.rank;
    out->map_bytes = 0;
    for (int d = 0; d < out->rank; d++) {
        const qn_resize_axis *a = &out->args.axes[d];
        int at = qn_memory_axis(node, out->rank, d);
        axis_map *m = &out->axes[at];
        out->logical[at] = a;
        out->memory[d] = at;
        *m = (axis_map){ .in = a->in, .out = a->out, .same = a->same,
                         .taps = qn_resize_taps(&out->args, a) };
        if (!plan_axis(m, &out->map_bytes))
            return qn_fail(err, QN_TOO_LARGE, "axis %d: tables for %lld elements "
                           "of %lld taps", d, (long long)m->out,
                           (long long)m->taps);
    }
    return QN_OK;
}

/* Coordinate in the input of output index o. */
static float coordinate(const qn_resize *r, const qn_resize_axis *a, int64_t o,
                        bool *outside)
{
    float x = (float)o, in = (float)a->in;
    *outside = false;
    switch (r->coords) {
    case QN_COORDS_HALF_PIXEL:
        x = (x + 0.5f) / a->scale - 0.5f;
        break;
    case QN_COORDS_HALF_PIXEL_SYMMETRIC:
        x = in / 2.0f * (1.0f - (float)a->out / a->length) +
            (x + 0.5f) / a->scale - 0.5f;
        break;
    case QN_COORDS_PYTORCH_HALF_PIXEL:
        x = a->out > 1 ? (x + 0.5f) / a->scale - 0.5f : 0.0f;
        break;
    case QN_COORDS_ALIGN_CORNERS:
        x = a->length == 1.0f ? 0.0f : x * (in - 1.0f) / (a->length - 1.0f);
        break;
    case QN_COORDS_ASYMMETRIC:
        x = x / a->scale;
        break;
    case QN_COORDS_TF_HALF_PIXEL_FOR_NN:
        x = (x + 0.5f) / a->scale;
        break;
    case QN_COORDS_TF_CROP_AND_RESIZE:
        if (a->out > 1)
            x = a->roi_start * (in - 1.0f) +
                x * (a->roi_end - a->roi_start) * (in - 1.0f) /
                    (float)(a->out - 1);
        else
            x = 0.5f * (a->roi_start + a->roi_end) * (in - 1.0f);
        *outside = !(x >= 0.0f && x <= in - 1.0f);
        break;
    }
    if (*outside)
        return 0.0f;
    /* whatever the arithmetic did, it converts to an integer */
    return x < -0x1p61f ? -0x1p61f : x > 0x1p61f ? 0x1p61f : x;
}

static int64_t clamp(int64_t i, int64_t n)
{
    return i < 0 ? 0 : i >= n ? n - 1 : i;
}

static int64_t nearest(const qn_resize *r, const qn_resize_axis *a, float x)
{
    float low = floorf(x);
    switch (r->nearest) {
    case QN_NEAREST_ROUND_PREFER_FLOOR:
        x = x == low + 0.5f ? low : roundf(x);
        break;
    case QN_NEAREST_ROUND_PREFER_CEIL:
        x = x == low + 0.5f ? low + 1.0f : roundf(x);
        break;
    case QN_NEAREST_FLOOR:
        x = low;
        break;
    case QN_NEAREST_CEIL:
        x = ceilf(x);
        break;
    case QN_NEAREST_SIMPLE:
        x = a->scale < 1.0f ? ceilf(x) : low;
        break;
    }
    return clamp((int64_t)x, a->in);
}

/* In binary64: the cubic's terms cancel near its ends. */
static double filter(const qn_resize *r, double distance)
{
    double x = fabs(distance), a = (double)r->cubic_a;
    if (r->mode == QN_RESIZE_LINEAR)
        return x < 1.0 ? 1.0 - x : 0.0;
    if (x <= 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    return x < 2.0 ? ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a : 0.0;
}

/* Linear without antialiasing: two neighbours, the coordinate kept inside. */
static void linear_taps(const qn_resize_axis *a, float x, int64_t *index,
                        float *weight)
{
    float last = (float)(a->in - 1);
    x = x < 0.0f ? 0.0f : x > last ? last : x;
    index[0] = clamp((int64_t)x, a->in);
    index[1] = clamp(index[0] + 1, a->in);
    weight[1] = index[1] > index[0] ? x - (float)index[0] : 0.0f;
    weight[0] = 1.0f - weight[1];
}

static void filter_taps(const qn_resize *r, const qn_resize_axis *a, float x,
                        int64_t taps, int64_t *index, float *weight)
{
    bool shrink = r->antialias && a->scale < 1.0f;
    double scale = shrink ? (double)a->scale : 1.0, sum = 0.0;
    int64_t first = (int64_t)floorf(x) - taps / 2 + 1;
    bool normalise = shrink || r->exclude_outside;
    for (int pass = 0; pass < 1 + normalise; pass++)
        for (int64_t t = 0; t < taps; t++) {
            int64_t i = first + t;
            bool out = r->exclude_outside && (i < 0 || i >= a->in);
            double w = out ? 0.0 : filter(r, ((double)i - (double)x) * scale);
            index[t] = clamp(i, a->in);
            weight[t] = (float)(pass && sum != 0.0 ? w / sum : w);
            sum += pass ? 0.0 : w;
        }
}

static void fill_map(const qn_resize *r, const qn_resize_axis *a, axis_map *m)
{
    for (int64_t o = 0; o < m->out; o++) {
        bool outside;
        float x = coordinate(r, a, o, &outside);
        int64_t *index = m->index + o * m->taps;
        m->outside[o] = outside;
        if (r->mode == QN_RESIZE_NEAREST)
            index[0] = outside ? -1 : nearest(r, a, x);
        else if (r->mode == QN_RESIZE_LINEAR && m->taps == 2)
            linear_taps(a, x, index, m->weight + o * m->taps);
        else
            filter_taps(r, a, x, m->taps, index, m->weight + o * m->taps);
    }
    if (r->mode != QN_RESIZE_NEAREST || m->out % m->in)
        return;
    m->repeat = m->out / m->in;
    for (int64_t o = 0; o < m->out && m->repeat; o++)
        if (m->index[o] != o / m->repeat)
            m->repeat = 0;
}

void resize_plan_maps(resize_plan *plan, void *workspace)
{
    char *at = workspace;
    for (int d = 0; d < plan->rank; d++) {
        axis_map *m = &plan->axes[d];
        if (m->same || m->out == 0)
            continue;
        size_t entries = (size_t)(m->out * m->taps);
        m->index = (void *)at;
        m->weight = (void *)(at + entries * sizeof *m->index);
        m->outside = (uint8_t *)(m->weight + entries);
        at = (char *)m->outside + m->out;
        at += (64 - ((uintptr_t)at & 63)) & 63;
        fill_map(&plan->args, plan->logical[d], m);
    }
}

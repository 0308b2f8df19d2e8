/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resize and Upsample for any rank and either memory order: maps of the resized
 * axes in one launch, the output in another (kernels/resize.cu).
 *
 * Neighbouring axes that stay are one. nearest moves units of up to 16 bytes
 * where the innermost axes stay.
 *
 * Workspace: for each resized axis index [out, taps] of 8 bytes, weight [out,
 * taps] of 4, outside [out] of 1.
 */
#include "runtime/cuda/kernels/resize.h"

#include "runtime/base/checked.h"
#include "runtime/base/half.h"
#include "runtime/cuda/strided.h"
#include "runtime/cuda/tables.h"
#include "runtime/ops/move.h"
#include "runtime/ops/resize.h"

#include <math.h>
#include <string.h>

enum { THREADS = 256, WAVES = 8, MANY = 1 << 20 };

typedef struct resize_state {
    const qn_accel *accel;
    const qn_cuda_fn *maps_fn, *fn;
    bool copy;     /* no axis changes */
    bool nearest;
    size_t size;   /* of an element */
    int64_t inside; /* elements inside the last resized axis */
    size_t index_at[QN_RESIZE_DIMS], weight_at[QN_RESIZE_DIMS],
        outside_at[QN_RESIZE_DIMS];
    qn_cuda_grid maps_grid;
    struct qn_resize_maps_args maps;
    struct qn_resize_args args; /* counts in elements */
} resize_state;

/* ---- the extrapolation value in the data's type ---- */

static int64_t cut(double v, double low, double above, int64_t top)
{
    v = trunc(v);
    return !(v >= low) ? (int64_t)low : v >= above ? top : (int64_t)v;
}

static uint64_t outside_value(qn_dtype dtype, float f)
{
    double d = (double)f;
    uint64_t v = 0;
    switch (dtype) {
    case QN_F32: return qn_f32_bits(f);
    case QN_F16: return qn_f32_to_f16(f);
    case QN_BF16: return qn_f32_to_bf16(f);
    case QN_F64: memcpy(&v, &d, sizeof d); return v;
    case QN_BOOL: return f != 0.0f;
    case QN_I8: return (uint64_t)cut(d, -0x1p7, 0x1p7, INT8_MAX);
    case QN_I16: return (uint64_t)cut(d, -0x1p15, 0x1p15, INT16_MAX);
    case QN_I32: return (uint64_t)cut(d, -0x1p31, 0x1p31, INT32_MAX);
    case QN_I64: return (uint64_t)cut(d, -0x1p63, 0x1p63, INT64_MAX);
    case QN_U8: return (uint64_t)cut(d, 0.0, 0x1p8, UINT8_MAX);
    case QN_U16: return (uint64_t)cut(d, 0.0, 0x1p16, UINT16_MAX);
    case QN_U32: return (uint64_t)cut(d, 0.0, 0x1p32, UINT32_MAX);
    case QN_U64:
        d = trunc(d);
        return !(d >= 0.0) ? 0 : d >= 0x1p64 ? UINT64_MAX : (uint64_t)d;
    default: return 0; /* complex, as on the cpu */
    }
}

/* An element's bytes, repeated in 16; elements of 16 bytes are 0. */
static void set_outside(struct qn_resize_args *a, uint64_t v, size_t size)
{
    if (size < 8)
        v &= ((uint64_t)1 << (8 * size)) - 1;
    for (size_t n = size; n < 8; n *= 2)
        v |= v << (8 * n);
    a->low = a->high = v;
}

/* ---- plan ---- */

/* Map number `i` for a resized axis; its place in the workspace. */
static bool add_map(resize_state *s, const qn_resize *r,
                    const qn_resize_axis *x, int i, size_t *bytes)
{
    int64_t taps = qn_resize_taps(r, x);
    size_t entries, end;
    s->args.maps[i] = (struct qn_resize_map){
        .in = x->in, .out = x->out, .taps = taps, .scale = x->scale,
        .length = x->length, .roi_start = x->roi_start, .roi_end = x->roi_end
    };
    s->index_at[i] = *bytes;
    if (!qn_mul_size((size_t)x->out, (size_t)taps, &entries) ||
        !qn_mul_size(entries, sizeof(int64_t) + sizeof(float), &end) ||
        !qn_add_size(end, (size_t)x->out, &end) ||
        !qn_add_size(*bytes, end, &end) || !qn_align_size(end, 64, &end))
        return false;
    s->weight_at[i] = s->index_at[i] + entries * sizeof(int64_t);
    s->outside_at[i] = s->weight_at[i] + entries * sizeof(float);
    *bytes = end;
    return true;
}

/* Maps in the order of passes: shrinking axes first, outermost first, then
 * growing ones, innermost first. Logical axes are counted, as on the cpu, so
 * that both memory orders round alike. map[]: by logical axis, -1 for axes that
 * stay. */
static qn_status add_maps(resize_state *s, const qn_resize *r,
                          int map[QN_MAX_RANK], size_t *bytes, qn_error *err)
{
    int order[QN_MAX_RANK], n = 0;
    for (int d = 0; d < r->rank; d++) {
        map[d] = -1;
        if (r->axes[d].out < r->axes[d].in)
            order[n++] = d;
    }
    for (int d = r->rank - 1; d >= 0; d--)
        if (!r->axes[d].same && r->axes[d].out >= r->axes[d].in)
            order[n++] = d;
    for (int i = 0; i < n; i++) {
        map[order[i]] = i;
        if (!add_map(s, r, &r->axes[order[i]], i, bytes))
            return qn_fail(err, QN_TOO_LARGE,
                           "axis %d: tables for %lld elements "
                           "of %lld taps",
                           order[i], (long long)r->axes[order[i]].out,
                           (long long)s->args.maps[i].taps);
    }
    s->args.passes = n;
    return QN_OK;
}

/* Dimensions of the output, innermost first; lengths go into div. */
static void add_dims(resize_state *s, const qn_node *node, const qn_shape *in,
                     const qn_resize *r, const int map[QN_MAX_RANK])
{
    struct qn_resize_args *a = &s->args;
    int64_t strides[QN_MAX_RANK];
    int logical[QN_MAX_RANK] = { 0 };
    qn_strides(in, strides);
    for (int d = 0; d < r->rank; d++)
        logical[qn_memory_axis(node, r->rank, d)] = d;
    for (int m = r->rank - 1; m >= 0; m--) {
        const int d = logical[m];
        struct qn_resize_dim *last = a->rank ? &a->dims[a->rank - 1] : NULL;
        if (map[d] < 0 && last && last->map < 0) {
            last->div = qn_fastdiv_of(last->div.divisor * in->dims[m]);
            continue;
        }
        a->dims[a->rank++] = (struct qn_resize_dim){
            .div = qn_fastdiv_of(r->axes[d].out), .stride = strides[m],
            .map = map[d]
        };
        if (map[d] >= 0)
            a->stride[map[d]] = strides[m];
    }
    s->inside = a->rank && a->dims[0].map < 0 ? a->dims[0].div.divisor : 1;
}

static const char *function_for(bool nearest, qn_dtype dtype)
{
    if (nearest)
        return "qn_resize_nearest";
    switch (dtype) {
    case QN_F32: return "qn_resize_f32";
    case QN_F16: return "qn_resize_f16";
    case QN_BF16: return "qn_resize_bf16";
    case QN_F64: return "qn_resize_f64";
    default: return "qn_resize_int";
    }
}

static void plan_maps_launch(resize_state *s, const qn_resize *r)
{
    int64_t longest = 1;
    s->maps = (struct qn_resize_maps_args){
        .mode = (uint32_t)r->mode, .coords = (uint32_t)r->coords,
        .nearest = (uint32_t)r->nearest, .cubic_a = r->cubic_a,
        .exclude_outside = r->exclude_outside, .antialias = r->antialias,
        .n = s->args.passes
    };
    for (int i = 0; i < s->args.passes; i++)
        if (s->args.maps[i].out > longest)
            longest = s->args.maps[i].out;
    s->maps_grid = qn_cuda_grid_stride(s->accel, longest, 1, 64, 1);
    s->maps_grid.grid[1] = (uint32_t)s->args.passes;
}

static qn_status prepare(qn_prepare *p, qn_error *err)
{
    enum { MAX_IN = 4 };
    qn_dtype dtype = p->in[0].dtype;
    resize_state *s = qn_region_alloc(p->region, 1, sizeof *s);
    qn_tensor in[MAX_IN];
    int map[QN_MAX_RANK];
    qn_resize r;
    if (!s)
        return qn_fail(err, QN_NO_MEMORY, "no memory for a kernel's state");
    for (uint32_t i = 0; i < p->n_in && i < MAX_IN; i++)
        in[i] = p->in[i];
    in[0].shape = qn_node_logical_shape(p->node, &p->in[0].shape);
    qn_status st = qn_resize_resolve(
        &(qn_infer){ .node = p->node, .n_in = p->n_in, .in = in }, &r, err);
    p->workspace = 0;
    p->state = s;
    if (st == QN_OK)
        st = add_maps(s, &r, map, &p->workspace, err);
    if (st != QN_OK)
        return st;
    s->accel = p->accel;
    s->size = qn_dtype_size(dtype);
    s->copy = s->args.passes == 0;
    s->nearest = r.mode == QN_RESIZE_NEAREST;
    s->args.dtype = (uint32_t)dtype;
    s->args.round = r.antialias;
    s->args.crop = r.coords == QN_COORDS_TF_CROP_AND_RESIZE;
    s->args.extrapolation = r.extrapolation;
    set_outside(&s->args, outside_value(dtype, r.extrapolation), s->size);
    add_dims(s, p->node, &p->in[0].shape, &r, map);
    plan_maps_launch(s, &r);
    st = qn_cuda_find(p->accel, "resize", "qn_resize_maps", &s->maps_fn, err);
    if (st == QN_OK)
        st = qn_cuda_find(p->accel, "resize", function_for(s->nearest, dtype),
                          &s->fn, err);
    return st;
}

/* ---- launch ---- */

static void bind_maps(const resize_state *s, char *workspace,
                      struct qn_resize_args *a)
{
    for (int i = 0; i < a->passes; i++) {
        a->maps[i].index = (void *)(workspace + s->index_at[i]);
        a->maps[i].weight = (void *)(workspace + s->weight_at[i]);
        a->maps[i].outside = (uint8_t *)workspace + s->outside_at[i];
    }
}

/* From elements to units, where the innermost axis stays. */
static void widen(const resize_state *s, struct qn_resize_args *a)
{
    size_t unit = qn_align_of((uintptr_t)a->src | (uintptr_t)a->dst |
                                  (uint64_t)s->inside * s->size, 16);
    int64_t each = (int64_t)(unit / s->size);
    a->unit = (uint32_t)(each > 1 ? unit : s->size);
    if (each <= 1)
        return;
    a->n /= each;
    a->dims[0].div = qn_fastdiv_of(a->dims[0].div.divisor / each);
    for (int d = 1; d < a->rank; d++)
        a->dims[d].stride /= each;
}

static qn_status launch(const qn_launch *k)
{
    const resize_state *s = k->state;
    struct qn_resize_args a = s->args;
    struct qn_resize_maps_args maps = s->maps;
    a.n = qn_count(&k->out[0]);
    if (!a.n)
        return QN_OK;
    if (s->copy)
        return qn_cuda_copy(k, k->out[0].data, k->in[0].data,
                            (size_t)a.n * s->size);
    a.src = k->in[0].data;
    a.dst = k->out[0].data;
    bind_maps(s, k->workspace, &a);
    memcpy(maps.maps, a.maps, sizeof maps.maps);
    qn_status st = qn_cuda_launch(k, s->maps_fn, &s->maps_grid, &maps);
    if (st != QN_OK)
        return st;
    if (s->nearest)
        widen(s, &a);
    a.wide = a.n >= (int64_t)1 << 31;
    qn_cuda_grid g = qn_cuda_grid_stride(s->accel, a.n,
                                         s->nearest && a.n > MANY ? 4 : 1,
                                         THREADS, WAVES);
    return qn_cuda_launch(k, s->fn, &g, &a);
}

static bool supports(const qn_node *node, uint32_t n_in, const qn_dtype *in)
{
    (void)n_in;
    if (!strcmp(qn_node_string(node, "mode", "nearest"), "nearest"))
        return in[0] != QN_STRING;
    return qn_dtypes_has(QN_TYPES_FLOAT | QN_TYPES_INT, in[0]);
}

static const qn_kernel rows[] = {
    { .domain = "", .name = "Resize", .since = 10, .until = QN_OPSET_MAX,
      .flags = QN_KERNEL_NHWC, .supports = supports, .prepare = prepare,
      .launch = launch },
    { .domain = "", .name = "Upsample", .since = 1, .until = 9,
      .flags = QN_KERNEL_NHWC, .supports = supports, .prepare = prepare,
      .launch = launch },
};

QN_KERNEL_TABLE(qn_cuda_resize, rows);

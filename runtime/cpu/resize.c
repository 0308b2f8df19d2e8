/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resize and Upsample for any rank and either memory order.
 *
 * nearest moves elements of any type: outer axes are counted, the last resized
 * axis is a row, what lies inside it is one unit of bytes. A row that comes from
 * the same input row as the one before is copied from it.
 *
 * linear and cubic are separable: one pass per resized axis, in binary32 for
 * floats of up to 32 bits and binary64 for the rest, shrinking axes first. The
 * leading axes that do not change are items; with enough of them (planes of an
 * N C H W tensor) an item does all its passes on one thread in buffers that stay
 * in its cache, otherwise each pass is split over threads by rows.
 *
 * Workspace: maps | buffers of thread 0 | buffers of thread 1 | ...
 */
#include "runtime/base/checked.h"
#include "runtime/base/half.h"
#include "runtime/cpu/resize.h"
#include "runtime/cpu/strided.h"
#include "runtime/cpu/tables.h"
#include "runtime/ops/move.h"

#include <math.h>
#include <string.h>

enum { PIECE_BYTES = 64 * 1024, MIN_ITEMS = 4 };

/* ---- nearest ---- */

typedef struct nearest_job {
    const resize_plan *plan;
    int row;         /* axis of rows */
    int64_t strides[QN_MAX_RANK]; /* input, bytes */
    size_t size;     /* of an element */
    int64_t unit, row_bytes;
    char value[16];  /* what crops show outside */
    const char *src;
    char *dst;
} nearest_job;

/* The input row of output row `row`: byte offset, or -1 for outside. */
static int64_t source_row(const nearest_job *j, int64_t row)
{
    int64_t at = 0;
    for (int d = j->row - 1; d >= 0; d--) {
        const axis_map *m = &j->plan->axes[d];
        int64_t o = row % m->out, i = m->same ? o : m->index[o];
        row /= m->out;
        if (i < 0)
            return -1;
        at += i * j->strides[d];
    }
    return at;
}

/* Twice each element: the commonest of all. Vectors for 32 bits. */
typedef uint32_t vec32 __attribute__((vector_size(16)));

static int64_t double_vec(const char *src, char *dst, int64_t n)
{
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        vec32 v;
        memcpy(&v, src + 4 * i, sizeof v);
        vec32 low = __builtin_shufflevector(v, v, 0, 0, 1, 1);
        vec32 high = __builtin_shufflevector(v, v, 2, 2, 3, 3);
        memcpy(dst + 8 * i, &low, sizeof low);
        memcpy(dst + 8 * i + 16, &high, sizeof high);
    }
    return i;
}

#define GATHER_ROW(type)                                                       \
    static void gather_##type(const axis_map *m, const char *src, char *dst)   \
    {                                                                          \
        const int64_t size = (int64_t)sizeof(type), repeat = m->repeat;        \
        type v;                                                                \
        if (repeat == 2) {                                                     \
            int64_t i = size == 4 ? double_vec(src, dst, m->in) : 0;           \
            for (; i < m->in; i++) {                                           \
                memcpy(&v, src + i * size, sizeof v);                          \
                memcpy(dst + 2 * i * size, &v, sizeof v);                      \
                memcpy(dst + (2 * i + 1) * size, &v, sizeof v);                \
            }                                                                  \
            return;                                                            \
        }                                                                      \
        for (int64_t o = 0; o < m->out; o++) {                                 \
            memcpy(&v, src + m->index[o] * size, sizeof v);                    \
            memcpy(dst + o * size, &v, sizeof v);                              \
        }                                                                      \
    }

typedef struct unit16 {
    uint64_t a, b;
} unit16;

GATHER_ROW(uint8_t)
GATHER_ROW(uint16_t)
GATHER_ROW(uint32_t)
GATHER_ROW(uint64_t)
GATHER_ROW(unit16)

static void gather_row(const nearest_job *j, const axis_map *m, const char *src,
                       char *dst)
{
    switch (j->unit) {
    case 1: gather_uint8_t(m, src, dst); return;
    case 2: gather_uint16_t(m, src, dst); return;
    case 4: gather_uint32_t(m, src, dst); return;
    case 8: gather_uint64_t(m, src, dst); return;
    case 16: gather_unit16(m, src, dst); return;
    default:
        for (int64_t o = 0; o < m->out; o++)
            memcpy(dst + o * j->unit, src + m->index[o] * j->unit,
                   (size_t)j->unit);
    }
}

static void crop_row(const nearest_job *j, const axis_map *m, const char *src,
                     char *dst)
{
    int64_t each = j->unit / (int64_t)j->size;
    for (int64_t o = 0; o < m->out; o++)
        if (m->index[o] < 0)
            qn_fill(dst + o * j->unit, j->value, j->size, each);
        else
            memcpy(dst + o * j->unit, src + m->index[o] * j->unit,
                   (size_t)j->unit);
}

static void nearest_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const nearest_job *j = arg;
    const axis_map *m = &j->plan->axes[j->row];
    bool crop = j->plan->args.coords == QN_COORDS_TF_CROP_AND_RESIZE;
    int64_t before = -2;
    (void)thread;
    for (int64_t row = begin; row < end; row++) {
        char *dst = j->dst + row * j->row_bytes;
        int64_t at = source_row(j, row);
        if (at == before)
            memcpy(dst, dst - j->row_bytes, (size_t)j->row_bytes);
        else if (at < 0)
            qn_fill(dst, j->value, j->size, j->row_bytes / (int64_t)j->size);
        else if (m->same)
            memcpy(dst, j->src + at, (size_t)j->row_bytes);
        else if (crop)
            crop_row(j, m, j->src + at, dst);
        else
            gather_row(j, m, j->src + at, dst);
        before = at;
    }
}

/* The extrapolation value in the data's type. */
static void outside_value(qn_dtype dtype, float f, char value[16]);

static void run_nearest(const qn_launch *k, const resize_plan *plan)
{
    const qn_tensor *in = &k->in[0];
    nearest_job j = { .plan = plan, .size = qn_dtype_size(in->dtype),
                      .src = in->data, .dst = k->out[0].data };
    int64_t count = qn_count(&k->out[0]);
    qn_strides(&in->shape, j.strides);
    for (int d = 0; d < plan->rank; d++) {
        j.strides[d] *= (int64_t)j.size;
        if (!plan->axes[d].same)
            j.row = d;
    }
    if (count == 0)
        return;
    outside_value(in->dtype, plan->args.extrapolation, j.value);
    if (plan->rank == 0) {
        memcpy(j.dst, j.src, j.size);
        return;
    }
    j.unit = (int64_t)j.size *
             qn_shape_product(&in->shape, j.row + 1, in->shape.rank);
    j.row_bytes = j.unit * plan->axes[j.row].out;
    int64_t rows = count * (int64_t)j.size / j.row_bytes;
    qn_parallel(k->team, rows, 1 + PIECE_BYTES / j.row_bytes, nearest_piece, &j);
}

/* ---- linear, cubic: one pass along one axis ---- */

/* [rows, in, inner] -> [rows, out, inner] */
typedef struct pass {
    const axis_map *map;
    int64_t rows, inner;
} pass;

/* Row r of n = rows * out output rows of `inner` elements, for inner > 1; of
 * n = rows output rows of `out` elements, for inner = 1. Sums run over taps in
 * order, so a row does not depend on how rows are split. */
#define PASS(T)                                                                \
    static void pass_wide_##T(const pass *p, const T *restrict in,             \
                              T *restrict out, int64_t begin, int64_t end)     \
    {                                                                          \
        const axis_map *m = p->map;                                            \
        const int64_t n = p->inner;                                            \
        for (int64_t r = begin; r < end; r++) {                                \
            const T *src = in + r / m->out * m->in * n;                        \
            const int64_t *index = m->index + r % m->out * m->taps;            \
            const float *weight = m->weight + r % m->out * m->taps;            \
            T *restrict dst = out + r * n;                                     \
            T w = (T)weight[0];                                                \
            const T *a = src + index[0] * n;                                   \
            int64_t t = 1;                                                     \
            if (m->taps == 2) {                                                \
                const T *b = src + index[1] * n;                               \
                const T v = (T)weight[1];                                      \
                for (int64_t i = 0; i < n; i++)                                \
                    dst[i] = w * a[i] + v * b[i];                              \
                continue;                                                      \
            }                                                                  \
            for (int64_t i = 0; i < n; i++)                                    \
                dst[i] = w * a[i];                                             \
            for (; t < m->taps; t++) {                                         \
                w = (T)weight[t];                                              \
                a = src + index[t] * n;                                        \
                for (int64_t i = 0; i < n; i++)                                \
                    dst[i] += w * a[i];                                        \
            }                                                                  \
        }                                                                      \
    }                                                                          \
    static void pass_narrow_##T(const pass *p, const T *restrict in,           \
                                T *restrict out, int64_t begin, int64_t end)   \
    {                                                                          \
        const axis_map *m = p->map;                                            \
        const int64_t n = m->out, taps = m->taps;                              \
        for (int64_t r = begin; r < end; r++) {                                \
            const T *src = in + r * m->in;                                     \
            T *restrict dst = out + r * n;                                     \
            if (taps == 2) {                                                   \
                for (int64_t o = 0; o < n; o++)                                \
                    dst[o] = (T)m->weight[2 * o] * src[m->index[2 * o]] +      \
                             (T)m->weight[2 * o + 1] *                         \
                                 src[m->index[2 * o + 1]];                     \
                continue;                                                      \
            }                                                                  \
            for (int64_t o = 0; o < n; o++) {                                  \
                T sum = (T)0;                                                  \
                for (int64_t t = 0; t < taps; t++)                             \
                    sum += (T)m->weight[o * taps + t] *                        \
                           src[m->index[o * taps + t]];                        \
                dst[o] = sum;                                                  \
            }                                                                  \
        }                                                                      \
    }

PASS(float)
PASS(double)

/* ---- element types in and out of the passes ---- */


static bool wide(qn_dtype dtype)
{
    return dtype != QN_F32 && dtype != QN_F16 && dtype != QN_BF16;
}

static void load(qn_dtype dtype, const void *in, void *out, int64_t n)
{
    float *f = out;
    double *d = out;
    switch (dtype) {
#define CASE(name, type, to, convert)                                          \
    case QN_##name:                                                            \
        for (int64_t i = 0; i < n; i++)                                        \
            to[i] = convert(((const type *)in)[i]);                            \
        return;
        CASE(F16, uint16_t, f, qn_f16_to_f32)
        CASE(BF16, uint16_t, f, qn_bf16_to_f32)
        CASE(I8, int8_t, d, (double))
        CASE(I16, int16_t, d, (double))
        CASE(I32, int32_t, d, (double))
        CASE(I64, int64_t, d, (double))
        CASE(U8, uint8_t, d, (double))
        CASE(U16, uint16_t, d, (double))
        CASE(U32, uint32_t, d, (double))
        CASE(U64, uint64_t, d, (double))
#undef CASE
    default:
        return;
    }
}

/* Integers: cut towards zero, as interpolation has always done there; rounded
 * under antialiasing. Both saturate. */
static void store(qn_dtype dtype, bool round, const void *in, void *out,
                  int64_t n)
{
    const float *f = in;
    const double *d = in;
    switch (dtype) {
    case QN_F16:
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)out)[i] = qn_f32_to_f16(f[i]);
        return;
    case QN_BF16:
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)out)[i] = qn_f32_to_bf16(f[i]);
        return;
        /* `above` is the first value past the top, exact in binary64 */
#define CASE(name, type, low, above, top)                                      \
    case QN_##name:                                                            \
        for (int64_t i = 0; i < n; i++) {                                      \
            double v = round ? rint(d[i]) : trunc(d[i]);                       \
            ((type *)out)[i] = !(v >= low)  ? (type)low                        \
                               : v >= above ? top                              \
                                            : (type)v;                         \
        }                                                                      \
        return;
        CASE(I8, int8_t, -0x1p7, 0x1p7, INT8_MAX)
        CASE(I16, int16_t, -0x1p15, 0x1p15, INT16_MAX)
        CASE(I32, int32_t, -0x1p31, 0x1p31, INT32_MAX)
        CASE(I64, int64_t, -0x1p63, 0x1p63, INT64_MAX)
        CASE(U8, uint8_t, 0.0, 0x1p8, UINT8_MAX)
        CASE(U16, uint16_t, 0.0, 0x1p16, UINT16_MAX)
        CASE(U32, uint32_t, 0.0, 0x1p32, UINT32_MAX)
        CASE(U64, uint64_t, 0.0, 0x1p64, UINT64_MAX)
#undef CASE
    default:
        return;
    }
}

static void outside_value(qn_dtype dtype, float f, char value[16])
{
    double d = (double)f;
    memset(value, 0, 16);
    if (dtype == QN_F32)
        memcpy(value, &f, sizeof f);
    else if (dtype == QN_F64)
        memcpy(value, &d, sizeof d);
    else if (dtype == QN_BOOL)
        value[0] = f != 0.0f;
    else if (wide(dtype))
        store(dtype, false, &d, value, 1);
    else
        store(dtype, false, &f, value, 1);
}

/* ---- linear, cubic: all passes ---- */

typedef struct blend_job {
    const qn_launch *k; /* NULL while planning */
    const resize_plan *plan;
    qn_dtype dtype;
    bool convert;     /* the data's type is not the one that is summed in */
    size_t width;     /* bytes of the type that is summed in */
    int lead;         /* axes before the items */
    int64_t items, item_in, item_out; /* elements */
    int n_passes;
    pass passes[QN_MAX_RANK]; /* rows within an item */
    size_t buffer[2], item_bytes; /* per thread */
    char *buffers;
} blend_job;

/* Axis order: shrinking ones first, outermost first; then growing ones,
 * innermost first, because the outer passes run on whole rows. Logical axes are
 * counted, so that both memory orders round alike. */
static int order_axes(const resize_plan *plan, int order[QN_MAX_RANK])
{
    int n = 0;
    for (int d = 0; d < plan->rank; d++) {
        const axis_map *m = &plan->axes[plan->memory[d]];
        if (m->out < m->in)
            order[n++] = plan->memory[d];
    }
    for (int d = plan->rank - 1; d >= 0; d--) {
        const axis_map *m = &plan->axes[plan->memory[d]];
        if (!m->same && m->out >= m->in)
            order[n++] = plan->memory[d];
    }
    return n;
}

static bool size_buffer(blend_job *j, int64_t count, int which)
{
    size_t bytes;
    if (!qn_mul_size((size_t)count, j->width, &bytes) ||
        !qn_align_size(bytes, 64, &bytes))
        return false;
    if (bytes > j->buffer[which])
        j->buffer[which] = bytes;
    return true;
}

/* False when a size does not fit. */
static bool plan_blend(blend_job *j, const resize_plan *plan, qn_dtype dtype)
{
    int order[QN_MAX_RANK];
    qn_shape cur = { .rank = plan->rank };
    *j = (blend_job){ .plan = plan, .dtype = dtype,
                      .convert = dtype != QN_F32 && dtype != QN_F64,
                      .width = wide(dtype) ? sizeof(double) : sizeof(float) };
    j->items = 1;
    j->n_passes = order_axes(plan, order);
    while (j->lead < plan->rank && plan->axes[j->lead].same)
        j->items *= plan->axes[j->lead++].in;
    if (j->items < MIN_ITEMS) {
        j->lead = 0;
        j->items = 1;
    }
    for (int d = 0; d < plan->rank; d++)
        cur.dims[d] = d < j->lead ? 1 : plan->axes[d].in;
    if (!qn_shape_count(&cur, &j->item_in) ||
        (j->convert && !size_buffer(j, j->item_in, 0)))
        return false;
    for (int p = 0; p < j->n_passes; p++) {
        int d = order[p];
        int64_t count;
        cur.dims[d] = plan->axes[d].out;
        if (!qn_shape_count(&cur, &count))
            return false;
        j->passes[p] = (pass){
            .map = &plan->axes[d],
            .rows = qn_shape_product(&cur, 0, d),
            .inner = qn_shape_product(&cur, d + 1, cur.rank),
        };
        j->item_out = count;
        if ((p + 1 < j->n_passes || j->convert) &&
            !size_buffer(j, count, (p + 1) & 1))
            return false;
    }
    return qn_add_size(j->buffer[0], j->buffer[1], &j->item_bytes);
}

typedef struct pass_job {
    const blend_job *blend;
    const pass *pass;
    const void *in;
    void *out;
} pass_job;

static void pass_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const pass_job *j = arg;
    const pass *p = j->pass;
    (void)thread;
    if (j->blend->width == sizeof(float))
        (p->inner > 1 ? pass_wide_float : pass_narrow_float)(p, j->in, j->out,
                                                             begin, end);
    else
        (p->inner > 1 ? pass_wide_double : pass_narrow_double)(p, j->in, j->out,
                                                               begin, end);
}

/* What crops show outside, in the type that is summed in. */
static void fill_outside(const blend_job *j, char *out)
{
    float f = j->plan->args.extrapolation;
    double d = (double)f;
    const void *value = j->width == sizeof f ? (const void *)&f
                                             : (const void *)&d;
    int64_t inner = 1, rows = j->item_out;
    for (int a = j->plan->rank - 1; a >= j->lead; a--) {
        const axis_map *m = &j->plan->axes[a];
        int64_t span = inner * m->out;
        rows /= m->out;
        for (int64_t o = 0; o < m->out && !m->same; o++)
            for (int64_t r = 0; m->outside[o] && r < rows; r++)
                qn_fill(out + (size_t)(r * span + o * inner) * j->width, value,
                        j->width, inner);
        inner = span;
    }
}

static void blend_item(const blend_job *j, int64_t item, char *buffers,
                       qn_team *team)
{
    size_t size = qn_dtype_size(j->dtype);
    const char *src = (const char *)j->k->in[0].data +
                      (size_t)(item * j->item_in) * size;
    char *dst = (char *)j->k->out[0].data + (size_t)(item * j->item_out) * size;
    char *buffer[2] = { buffers, buffers + j->buffer[0] };
    const void *cur = src;
    if (j->convert) {
        load(j->dtype, src, buffer[0], j->item_in);
        cur = buffer[0];
    }
    for (int p = 0; p < j->n_passes; p++) {
        bool last = p + 1 == j->n_passes && !j->convert;
        const pass *s = &j->passes[p];
        pass_job job = { j, s, cur, last ? dst : buffer[(p + 1) & 1] };
        int64_t rows = s->inner > 1 ? s->rows * s->map->out : s->rows;
        int64_t bytes = (s->inner > 1 ? s->inner : s->map->out) *
                        s->map->taps * (int64_t)j->width;
        qn_parallel(team, rows, 1 + PIECE_BYTES / bytes, pass_piece, &job);
        cur = job.out;
    }
    if (j->plan->args.coords == QN_COORDS_TF_CROP_AND_RESIZE)
        fill_outside(j, j->convert ? buffer[j->n_passes & 1] : dst);
    if (j->convert)
        store(j->dtype, j->plan->args.antialias, cur, dst, j->item_out);
}

static void blend_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const blend_job *j = arg;
    char *buffers = j->buffers + (size_t)thread * j->item_bytes;
    for (int64_t item = begin; item < end; item++)
        blend_item(j, item, buffers, NULL);
}

/* ---- the kernel ---- */

static bool changes(const resize_plan *plan)
{
    for (int d = 0; d < plan->rank; d++)
        if (!plan->axes[d].same)
            return true;
    return false;
}

static bool blends(const resize_plan *plan, int64_t count)
{
    return plan->args.mode != QN_RESIZE_NEAREST && changes(plan) && count > 0;
}

static qn_status prepare_resize(qn_prepare *p, qn_error *err)
{
    resize_plan plan;
    blend_job j = { 0 };
    size_t threads = 1, bytes;
    qn_status st = resize_plan_init(p->node, p->n_in, p->in, &plan, err);
    if (st != QN_OK)
        return st;
    if (blends(&plan, qn_count(&p->out[0]))) {
        if (!plan_blend(&j, &plan, p->in[0].dtype))
            return qn_fail(err, QN_TOO_LARGE, "intermediate results have too "
                           "many elements");
        if (j.items > 1)
            threads = (size_t)p->max_threads;
    }
    if (!qn_mul_size(threads, j.item_bytes, &bytes) ||
        !qn_add_size(bytes, plan.map_bytes, &p->workspace))
        return qn_fail(err, QN_TOO_LARGE, "%zu buffers of %zu bytes", threads,
                       j.item_bytes);
    return QN_OK;
}

static qn_status launch_resize(const qn_launch *k)
{
    resize_plan plan;
    blend_job j;
    int64_t count = qn_count(&k->out[0]);
    qn_status st = resize_plan_init(k->node, k->n_in, k->in, &plan, k->err);
    if (st != QN_OK || count == 0)
        return st;
    resize_plan_maps(&plan, k->workspace);
    if (!blends(&plan, count)) {
        run_nearest(k, &plan);
        return QN_OK;
    }
    if (!plan_blend(&j, &plan, k->in[0].dtype))
        return qn_launch_fail(k, QN_TOO_LARGE, "too many elements");
    j.k = k;
    j.buffers = (char *)k->workspace + plan.map_bytes;
    if (j.items == 1)
        blend_item(&j, 0, j.buffers, k->team);
    else
        qn_parallel(k->team, j.items,
                    1 + PIECE_BYTES / (j.item_out * (int64_t)j.width),
                    blend_piece, &j);
    return QN_OK;
}

static bool supports_resize(const qn_node *node, uint32_t n_in,
                            const qn_dtype *in)
{
    (void)n_in;
    return !strcmp(qn_node_string(node, "mode", "nearest"), "nearest") ||
           qn_dtypes_has(QN_TYPES_FLOAT | QN_TYPES_INT, in[0]);
}

static const qn_kernel rows[] = {
    { .domain = "", .name = "Resize", .since = 10, .until = QN_OPSET_MAX,
      .flags = QN_KERNEL_NHWC, .supports = supports_resize,
      .prepare = prepare_resize, .launch = launch_resize },
    { .domain = "", .name = "Upsample", .since = 1, .until = 9,
      .flags = QN_KERNEL_NHWC, .supports = supports_resize,
      .prepare = prepare_resize, .launch = launch_resize },
};

QN_KERNEL_TABLE(qn_cpu_resize, rows);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Concat and Split: one launch for up to QN_CONCAT_PARTS parts. The whole
 * tensor is rows of `pitch` elements, a part is some columns of it. Also on
 * channels-last tensors, along the axis where the logical one lies in memory.
 */
#include "runtime/cuda/kernels/concat.h"
#include "runtime/cuda/strided.h"
#include "runtime/cuda/tables.h"
#include "runtime/ops/move.h"

enum { THREADS = 256, WAVES = 8, MANY = 1 << 20 };

typedef struct concat_state {
    const qn_accel *accel;
    const qn_cuda_fn *fn;
    size_t size;   /* of an element */
    size_t unit;   /* that sizes of all parts allow: bytes */
    int64_t rows, pitch; /* elements */
    uint32_t n;
    int64_t width[]; /* [n] of each part, elements */
} concat_state;

static bool supports(const qn_node *node, uint32_t n_in, const qn_dtype *in)
{
    (void)node, (void)n_in;
    return in[0] != QN_STRING;
}

/* A state for n parts of `whole`, without their widths. */
static qn_status new_state(qn_prepare *p, const qn_tensor *whole, int axis,
                           uint32_t n, concat_state **out, qn_error *err)
{
    const qn_shape *s = &whole->shape;
    concat_state *c =
        qn_region_alloc(p->region, 1, sizeof *c + n * sizeof c->width[0]);
    *out = c;
    if (!c)
        return qn_fail(err, QN_NO_MEMORY, "no memory for %u parts", n);
    c->accel = p->accel;
    c->size = qn_dtype_size(whole->dtype);
    c->rows = qn_shape_product(s, 0, axis);
    c->pitch = qn_shape_product(s, axis, s->rank);
    c->n = n;
    c->unit = 16;
    p->state = c;
    return qn_cuda_find(p->accel, "concat", "qn_concat", &c->fn, err);
}

static void set_width(concat_state *c, uint32_t i, int64_t width)
{
    c->width[i] = width;
    c->unit = qn_align_of((uint64_t)width * c->size, c->unit);
}

/* The axis was checked by infer(). */
static int axis_of(const qn_prepare *p, int64_t otherwise)
{
    int rank = p->in[0].shape.rank;
    int64_t axis = qn_node_int(p->node, "axis", otherwise);
    return qn_memory_axis(p->node, rank, (int)(axis < 0 ? axis + rank : axis));
}

static qn_status prepare_concat(qn_prepare *p, qn_error *err)
{
    int axis = axis_of(p, 1);
    concat_state *c;
    qn_status st = new_state(p, &p->out[0], axis, p->n_in, &c, err);
    for (uint32_t i = 0; st == QN_OK && i < p->n_in; i++)
        set_width(c, i, qn_shape_product(&p->in[i].shape, axis,
                                         p->in[i].shape.rank));
    return st;
}

/* An omitted output has no shape, but takes its part of the input. */
static qn_status prepare_split(qn_prepare *p, qn_error *err)
{
    const qn_shape *in = &p->in[0].shape;
    int axis = axis_of(p, 0);
    int64_t inner = qn_shape_product(in, axis + 1, in->rank);
    concat_state *c;
    qn_status st = new_state(p, &p->in[0], axis, p->n_out, &c, err);
    for (uint32_t i = 0; st == QN_OK && i < p->n_out; i++)
        set_width(c, i, inner * qn_split_size(p->node, p->n_in, p->in,
                                              in->dims[axis], p->n_out, i));
    return st;
}

static size_t unit_now(const concat_state *c, const void *whole,
                       const qn_tensor *parts)
{
    uintptr_t bits = (uintptr_t)whole;
    for (uint32_t i = 0; i < c->n; i++)
        if (c->width[i])
            bits |= (uintptr_t)parts[i].data;
    return qn_align_of(bits, c->unit);
}

static qn_status launch(const qn_launch *k, void *whole, const qn_tensor *parts,
                        bool split)
{
    const concat_state *c = k->state;
    qn_status st = QN_OK;
    if (!c->rows || !c->pitch)
        return QN_OK;
    size_t unit = unit_now(c, whole, parts);
    int64_t size = (int64_t)c->size, bytes = (int64_t)unit, at = 0;
    struct qn_concat_args a = { .whole = whole, .unit = (uint32_t)unit,
                                .split = split,
                                .pitch = c->pitch * size / bytes };
    for (uint32_t i = 0; st == QN_OK && i < c->n;) {
        a.parts = 0;
        a.at[0] = at;
        for (; i < c->n && a.parts < QN_CONCAT_PARTS; i++) {
            if (!c->width[i])
                continue;
            at += c->width[i] * size / bytes;
            a.part[a.parts] = parts[i].data;
            a.at[++a.parts] = at;
        }
        a.width = at - a.at[0];
        if (!a.width)
            break;
        a.n = a.width * c->rows;
        a.wide = a.n >= (int64_t)1 << 31;
        a.by_width = qn_fastdiv_of(a.width);
        qn_cuda_grid g = qn_cuda_grid_stride(c->accel, a.n, a.n > MANY ? 4 : 1,
                                             THREADS, WAVES);
        st = qn_cuda_launch(k, c->fn, &g, &a);
    }
    return st;
}

static qn_status launch_concat(const qn_launch *k)
{
    return launch(k, k->out[0].data, k->in, false);
}

static qn_status launch_split(const qn_launch *k)
{
    return launch(k, k->in[0].data, k->out, true);
}

#define ROW(NAME, PREPARE, LAUNCH)                                             \
    { .domain = "", .name = NAME, .since = 1, .until = QN_OPSET_MAX,           \
      .flags = QN_KERNEL_NHWC, .supports = supports, .prepare = PREPARE,       \
      .launch = LAUNCH }

static const qn_kernel rows[] = {
    ROW("Concat", prepare_concat, launch_concat),
    ROW("Split", prepare_split, launch_split),
};

QN_KERNEL_TABLE(qn_cuda_concat, rows);

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

static qn_status prepare(qn_prepare *p, const qn_tensor *whole,
                         const qn_tensor *parts, uint32_t n, int64_t otherwise,
                         qn_error *err)
{
    const qn_shape *s = &whole->shape;
    int64_t given = qn_node_int(p->node, "axis", otherwise);
    int axis = qn_memory_axis(p->node, s->rank,
                              (int)(given < 0 ? given + s->rank : given));
    concat_state *c = qn_region_alloc(p->region, 1,
                                      sizeof *c + n * sizeof c->width[0]);
    if (!c)
        return qn_fail(err, QN_NO_MEMORY, "no memory for %u parts", n);
    c->accel = p->accel;
    c->size = qn_dtype_size(whole->dtype);
    c->rows = qn_shape_product(s, 0, axis);
    c->pitch = qn_shape_product(s, axis, s->rank);
    c->n = n;
    c->unit = 16;
    for (uint32_t i = 0; i < n; i++) {
        c->width[i] = qn_shape_product(&parts[i].shape, axis, s->rank);
        c->unit = qn_align_of((uint64_t)c->width[i] * c->size, c->unit);
    }
    p->state = c;
    return qn_cuda_find(p->accel, "concat", "qn_concat", &c->fn, err);
}

static qn_status prepare_concat(qn_prepare *p, qn_error *err)
{
    return prepare(p, &p->out[0], p->in, p->n_in, 1, err);
}

static qn_shape in_memory(const qn_node *node, const qn_shape *logical)
{
    qn_shape s = { .rank = logical->rank };
    for (int d = 0; d < s.rank; d++)
        s.dims[qn_memory_axis(node, s.rank, d)] = logical->dims[d];
    return s;
}

/* An omitted output has no shape here, but takes its part of the input: shapes
 * are inferred anew, as if all were there. */
static qn_status prepare_split(qn_prepare *p, qn_error *err)
{
    const qn_tensor *parts = p->out;
    uint32_t absent = 0;
    for (uint32_t i = 0; i < p->n_out; i++)
        absent += !qn_present(&p->out[i]);
    if (absent) {
        qn_tensor *all = qn_region_alloc(p->region, p->n_out, sizeof *all);
        qn_tensor in[2] = { 0 };
        if (!all)
            return qn_fail(err, QN_NO_MEMORY, "no memory for %u parts",
                           p->n_out);
        for (uint32_t i = 0; i < p->n_in && i < 2; i++)
            in[i] = p->in[i];
        in[0].shape = qn_node_logical_shape(p->node, &p->in[0].shape);
        for (uint32_t i = 0; i < p->n_out; i++)
            all[i].dtype = in[0].dtype;
        qn_status st = p->node->op->infer(
            &(qn_infer){ .node = p->node, .n_in = p->n_in, .n_out = p->n_out,
                         .in = in, .out = all }, err);
        if (st != QN_OK)
            return st;
        for (uint32_t i = 0; i < p->n_out; i++)
            all[i].shape = in_memory(p->node, &all[i].shape);
        parts = all;
    }
    return prepare(p, &p->in[0], parts, p->n_out, 0, err);
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transpose, Concat, Split, Expand, Tile, DepthToSpace, SpaceToDepth as copies
 * between strided views (runtime/cpu/strided.h). Any element type: only sizes
 * matter, strings are 16-byte elements. Concat and Split also run on channels-
 * last tensors, along the axis where the logical one lies in memory.
 */
#include "runtime/cpu/strided.h"
#include "runtime/cpu/tables.h"
#include "runtime/ops/move.h"

#include <string.h>

/* The axis was checked by infer(). */
static int axis_of(const qn_launch *k, int64_t otherwise)
{
    int rank = k->in[0].shape.rank;
    int64_t axis = qn_node_int(k->node, "axis", otherwise);
    return qn_memory_axis(k->node, rank, (int)(axis < 0 ? axis + rank : axis));
}

static qn_status launch_transpose(const qn_launch *k)
{
    const qn_tensor *in = &k->in[0];
    int64_t strides[QN_MAX_RANK];
    int perm[QN_MAX_RANK];
    qn_strided s = { 0 };
    qn_status st = qn_transpose_perm(k->node, in->shape.rank, perm, k->err);
    if (st != QN_OK)
        return st;
    const qn_shape *out = &k->out[0].shape;
    int64_t to[QN_MAX_RANK];
    qn_strides(&in->shape, strides);
    qn_strides(out, to);
    for (int d = 0; d < out->rank; d++)
        qn_strided_add(&s, out->dims[d], strides[perm[d]], to[d]);
    qn_strided_copy(k->team, &s, qn_dtype_size(in->dtype), in->data,
                    k->out[0].data);
    return QN_OK;
}

/* Rows of `run` elements, one every `in` elements to one every `out`. */
static void copy_rows(const qn_launch *k, size_t size, int64_t rows,
                      int64_t run, int64_t in, int64_t out, const void *src,
                      void *dst)
{
    qn_strided s = { 0 };
    qn_strided_add(&s, rows, in, out);
    qn_strided_add(&s, run, 1, 1);
    qn_strided_copy(k->team, &s, size, src, dst);
}

static qn_status launch_concat(const qn_launch *k)
{
    const qn_shape *out = &k->out[0].shape;
    size_t size = qn_dtype_size(k->in[0].dtype);
    int axis = axis_of(k, 1);
    int64_t rows = qn_shape_product(out, 0, axis);
    int64_t step = qn_shape_product(out, axis, out->rank);
    char *dst = k->out[0].data;
    if (!rows || !step)
        return QN_OK;
    for (uint32_t i = 0; i < k->n_in; i++) {
        const qn_shape *s = &k->in[i].shape;
        int64_t run = qn_shape_product(s, axis, s->rank);
        if (!run)
            continue;
        copy_rows(k, size, rows, run, run, step, k->in[i].data, dst);
        dst += (size_t)run * size;
    }
    return QN_OK;
}

static qn_status launch_split(const qn_launch *k)
{
    const qn_shape *in = &k->in[0].shape;
    size_t size = qn_dtype_size(k->in[0].dtype);
    int axis = axis_of(k, 0);
    int64_t rows = qn_shape_product(in, 0, axis);
    int64_t step = qn_shape_product(in, axis, in->rank);
    const char *src = k->in[0].data;
    if (!rows || !step)
        return QN_OK;
    int64_t inner = step / in->dims[axis];
    for (uint32_t i = 0; i < k->n_out; i++) {
        int64_t run = inner * qn_split_size(k->node, k->n_in, k->in,
                                            in->dims[axis], k->n_out, i);
        if (!run)
            continue;
        if (k->out[i].data) /* an output that nobody reads may be left out */
            copy_rows(k, size, rows, run, step, run, src, k->out[i].data);
        src += (size_t)run * size;
    }
    return QN_OK;
}

/* Input dimensions of 1 are read again and again. */
static qn_status launch_expand(const qn_launch *k)
{
    const qn_shape *in = &k->in[0].shape, *out = &k->out[0].shape;
    int64_t from[QN_MAX_RANK], to[QN_MAX_RANK];
    int lead = out->rank - in->rank;
    qn_strided s = { 0 };
    qn_strides(in, from);
    qn_strides(out, to);
    for (int d = 0; d < out->rank; d++) {
        bool repeat = d < lead || in->dims[d - lead] == 1;
        qn_strided_add(&s, out->dims[d], repeat ? 0 : from[d - lead], to[d]);
    }
    qn_strided_copy(k->team, &s, qn_dtype_size(k->in[0].dtype), k->in[0].data,
                    k->out[0].data);
    return QN_OK;
}

/* Each axis is two: the repeat, then the element. */
static qn_status launch_tile(const qn_launch *k)
{
    const qn_shape *in = &k->in[0].shape, *out = &k->out[0].shape;
    int64_t from[QN_MAX_RANK], to[QN_MAX_RANK];
    qn_strided s = { 0 };
    if (qn_count(&k->out[0]) == 0)
        return QN_OK;
    qn_strides(in, from);
    qn_strides(out, to);
    for (int d = 0; d < out->rank; d++) {
        qn_strided_add(&s, out->dims[d] / in->dims[d], 0, to[d] * in->dims[d]);
        qn_strided_add(&s, in->dims[d], from[d], to[d]);
    }
    qn_strided_copy(k->team, &s, qn_dtype_size(k->in[0].dtype), k->in[0].data,
                    k->out[0].data);
    return QN_OK;
}

static qn_status launch_block(const qn_launch *k)
{
    qn_copy_loop loops[QN_BLOCK_LOOPS];
    qn_strided s = { 0 };
    qn_block_loops(k->node, &k->in[0].shape, &k->out[0].shape, loops);
    for (int i = 0; i < QN_BLOCK_LOOPS; i++)
        qn_strided_add(&s, loops[i].n, loops[i].in, loops[i].out);
    qn_strided_copy(k->team, &s, qn_dtype_size(k->in[0].dtype), k->in[0].data,
                    k->out[0].data);
    return QN_OK;
}

#define ROW(NAME, FLAGS, LAUNCH)                                               \
    { .domain = "", .name = NAME, .since = 1, .until = QN_OPSET_MAX,           \
      .flags = FLAGS, .launch = LAUNCH }

static const qn_kernel rows[] = {
    ROW("Transpose", 0, launch_transpose),
    ROW("Concat", QN_KERNEL_NHWC, launch_concat),
    ROW("Split", QN_KERNEL_NHWC, launch_split),
    ROW("Expand", 0, launch_expand),
    ROW("Tile", 0, launch_tile),
    ROW("DepthToSpace", 0, launch_block),
    ROW("SpaceToDepth", 0, launch_block),
};

QN_KERNEL_TABLE(qn_cpu_move, rows);

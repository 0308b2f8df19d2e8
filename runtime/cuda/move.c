/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transpose, Expand, Tile, DepthToSpace, SpaceToDepth, Slice, and the changes
 * of memory order, as copies between strided views (runtime/cuda/strided.h).
 * Any element type but strings: only sizes matter. Each prepare() describes the
 * loop nest; one launch() serves all.
 */
#include "runtime/cuda/strided.h"
#include "runtime/cuda/tables.h"
#include "runtime/ops/move.h"

#include <string.h>

enum { SLICE_IN = 5 };

static bool supports(const qn_node *node, uint32_t n_in, const qn_dtype *in)
{
    (void)node, (void)n_in;
    return in[0] != QN_STRING;
}

static qn_status finish_prepare(qn_prepare *p, const qn_loops *l,
                                int64_t offset, qn_error *err)
{
    qn_strided *s = qn_region_alloc(p->region, 1, sizeof *s);
    if (!s)
        return qn_fail(err, QN_NO_MEMORY, "no memory for a copy's state");
    p->state = s;
    return qn_strided_init(s, p->accel, l, qn_dtype_size(p->in[0].dtype),
                           offset, err);
}

static qn_status launch(const qn_launch *k)
{
    return qn_strided_launch(k, k->state, k->in[0].data, k->out[0].data);
}

static qn_status prepare_transpose(qn_prepare *p, qn_error *err)
{
    const qn_shape *in = &p->in[0].shape, *out = &p->out[0].shape;
    int64_t from[QN_MAX_RANK], to[QN_MAX_RANK];
    int perm[QN_MAX_RANK];
    qn_loops l = { 0 };
    qn_status st = qn_transpose_perm(p->node, in->rank, perm, err);
    if (st != QN_OK)
        return st;
    qn_strides(in, from);
    qn_strides(out, to);
    for (int d = 0; d < out->rank; d++)
        qn_loops_add(&l, out->dims[d], from[perm[d]], to[d]);
    return finish_prepare(p, &l, 0, err);
}

/* Input dimensions of 1 are read again and again. */
static qn_status prepare_expand(qn_prepare *p, qn_error *err)
{
    const qn_shape *in = &p->in[0].shape, *out = &p->out[0].shape;
    int64_t from[QN_MAX_RANK], to[QN_MAX_RANK];
    int lead = out->rank - in->rank;
    qn_loops l = { 0 };
    qn_strides(in, from);
    qn_strides(out, to);
    for (int d = 0; d < out->rank; d++) {
        bool repeat = d < lead || in->dims[d - lead] == 1;
        qn_loops_add(&l, out->dims[d], repeat ? 0 : from[d - lead], to[d]);
    }
    return finish_prepare(p, &l, 0, err);
}

/* Each axis is two: the repeat, then the element. */
static qn_status prepare_tile(qn_prepare *p, qn_error *err)
{
    const qn_shape *in = &p->in[0].shape, *out = &p->out[0].shape;
    int64_t from[QN_MAX_RANK], to[QN_MAX_RANK];
    qn_loops l = { 0 };
    qn_strides(in, from);
    qn_strides(out, to);
    for (int d = 0; d < out->rank; d++) {
        int64_t repeats = in->dims[d] ? out->dims[d] / in->dims[d] : 0;
        qn_loops_add(&l, repeats, 0, to[d] * in->dims[d]);
        qn_loops_add(&l, in->dims[d], from[d], to[d]);
    }
    return finish_prepare(p, &l, 0, err);
}

static qn_status prepare_block(qn_prepare *p, qn_error *err)
{
    qn_copy_loop loops[QN_BLOCK_LOOPS];
    qn_loops l = { 0 };
    qn_block_loops(p->node, &p->in[0].shape, &p->out[0].shape, loops);
    for (int i = 0; i < QN_BLOCK_LOOPS; i++)
        qn_loops_add(&l, loops[i].n, loops[i].in, loops[i].out);
    return finish_prepare(p, &l, 0, err);
}

static qn_status prepare_slice(qn_prepare *p, qn_error *err)
{
    const qn_shape *data = &p->in[0].shape;
    int64_t from[QN_MAX_RANK], to[QN_MAX_RANK], offset = 0;
    qn_tensor in[SLICE_IN];
    qn_loops l = { 0 };
    qn_slice slice;

    for (uint32_t i = 0; i < p->n_in && i < SLICE_IN; i++)
        in[i] = p->in[i];
    in[0].shape = qn_node_logical_shape(p->node, data);
    qn_status st = qn_slice_resolve(
        &(qn_infer){ .node = p->node, .n_in = p->n_in, .in = in }, &slice, err);
    if (st != QN_OK)
        return st;
    qn_strides(data, from);
    qn_strides(&p->out[0].shape, to);
    for (int d = 0; d < data->rank; d++) {
        int m = qn_memory_axis(p->node, data->rank, d);
        offset += slice.start[d] * from[m];
        qn_loops_add(&l, slice.count[d], slice.step[d] * from[m], to[m]);
    }
    if (qn_count(&p->out[0]) == 0)
        offset = 0;
    return finish_prepare(p, &l, offset, err);
}

/* Per image a transpose of a matrix rows x columns. */
static qn_status prepare_order(qn_prepare *p, int64_t rows, int64_t columns,
                               qn_error *err)
{
    qn_loops l = { 0 };
    qn_loops_add(&l, p->in[0].shape.dims[0], rows * columns, rows * columns);
    qn_loops_add(&l, rows, columns, 1);
    qn_loops_add(&l, columns, 1, rows);
    return finish_prepare(p, &l, 0, err);
}

static qn_status prepare_last(qn_prepare *p, qn_error *err)
{
    const int64_t *d = p->in[0].shape.dims; /* N C H W */
    return prepare_order(p, d[1], d[2] * d[3], err);
}

static qn_status prepare_first(qn_prepare *p, qn_error *err)
{
    const int64_t *d = p->in[0].shape.dims; /* N H W C */
    return prepare_order(p, d[1] * d[2], d[3], err);
}

#define ROW(NAME, FLAGS, PREPARE)                                              \
    { .domain = "", .name = NAME, .since = 1, .until = QN_OPSET_MAX,           \
      .flags = FLAGS, .supports = supports, .prepare = PREPARE,                \
      .launch = launch }
#define ORDER(NAME, PREPARE)                                                   \
    { .domain = "ai.quern", .name = NAME, .since = 1, .until = 1,              \
      .supports = supports, .prepare = PREPARE, .launch = launch }

static const qn_kernel rows[] = {
    ROW("Transpose", 0, prepare_transpose),
    ROW("Expand", 0, prepare_expand),
    ROW("Tile", 0, prepare_tile),
    ROW("DepthToSpace", 0, prepare_block),
    ROW("SpaceToDepth", 0, prepare_block),
    ROW("Slice", QN_KERNEL_NHWC, prepare_slice),
    ORDER("ToChannelsLast", prepare_last),
    ORDER("ToChannelsFirst", prepare_first),
};

QN_KERNEL_TABLE(qn_cuda_move, rows);

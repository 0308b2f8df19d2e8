/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gather: data [outer, dim, run] and n indices give [outer, n, run]; a unit of
 * `run` elements moves as bytes. GatherElements, GatherND: the same idea with an
 * offset computed for each element or tuple.
 *
 * All indices are checked, on one thread, before anything moves: they are few
 * beside the data, and the first bad one is then the same on every schedule.
 */
#include "runtime/cpu/tables.h"
#include "runtime/cpu/strided.h"
#include "runtime/ops/move.h"

#include <string.h>

enum { PIECE_BYTES = 64 * 1024 };

static int64_t index_at(const qn_tensor *t, int64_t i)
{
    return t->dtype == QN_I32 ? ((const int32_t *)t->data)[i]
                              : ((const int64_t *)t->data)[i];
}

static qn_status bad_index(const qn_launch *k, int64_t i, int64_t value,
                           int64_t dim, int axis)
{
    qn_status st = qn_launch_fail(
        k, QN_RANGE, "index %lld at position %lld is outside [%lld, %lld] of "
        "axis %d", (long long)value, (long long)i, (long long)-dim,
        (long long)(dim - 1), axis);
    qn_error_index(k->err, i);
    return st;
}

/* One move of a constant size for the units that matter; memcpy for others. */
static inline void move_unit(char *dst, const char *src, size_t unit)
{
    switch (unit) {
    case 1: *dst = *src; break;
    case 2: memcpy(dst, src, 2); break;
    case 4: memcpy(dst, src, 4); break;
    case 8: memcpy(dst, src, 8); break;
    case 16: memcpy(dst, src, 16); break;
    default: memcpy(dst, src, unit); break;
    }
}

/* ---- Gather ---- */

typedef struct gather_job {
    const qn_tensor *index;
    int64_t n, dim;
    size_t unit;
    const char *src;
    char *dst;
} gather_job;

static void gather_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const gather_job *j = arg;
    int64_t outer = begin / j->n, i = begin % j->n;
    (void)thread;
    for (int64_t item = begin; item < end; item++) {
        int64_t at = index_at(j->index, i);
        at = outer * j->dim + (at < 0 ? at + j->dim : at);
        move_unit(j->dst + (size_t)item * j->unit,
                  j->src + (size_t)at * j->unit, j->unit);
        if (++i == j->n) {
            i = 0;
            outer++;
        }
    }
}

static qn_status launch_gather(const qn_launch *k)
{
    const qn_tensor *data = &k->in[0];
    int64_t axis = qn_node_int(k->node, "axis", 0);
    int at = (int)(axis < 0 ? axis + data->shape.rank : axis);
    gather_job j = { .index = &k->in[1], .n = qn_count(&k->in[1]),
                     .dim = data->shape.dims[at], .src = data->data,
                     .dst = k->out[0].data };
    for (int64_t i = 0; i < j.n; i++) {
        int64_t v = index_at(j.index, i);
        if (v < -j.dim || v >= j.dim)
            return bad_index(k, i, v, j.dim, at);
    }
    if (qn_count(&k->out[0]) == 0)
        return QN_OK;
    int64_t outer = qn_shape_product(&data->shape, 0, at);
    j.unit = qn_dtype_size(data->dtype) *
             (size_t)qn_shape_product(&data->shape, at + 1, data->shape.rank);
    qn_parallel(k->team, outer * j.n, 1 + PIECE_BYTES / (int64_t)j.unit,
                gather_piece, &j);
    return QN_OK;
}

/* ---- GatherElements ---- */

typedef struct elements_job {
    const qn_tensor *index;
    int axis;
    int64_t dim; /* of the data along axis */
    int64_t strides[QN_MAX_RANK]; /* of the data */
    size_t size;
    const char *src;
    char *dst;
} elements_job;

static void elements_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const elements_job *j = arg;
    const qn_shape *s = &j->index->shape;
    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t rest = i, from = 0, at = index_at(j->index, i);
        for (int d = s->rank - 1; d >= 0; d--) {
            if (d != j->axis)
                from += rest % s->dims[d] * j->strides[d];
            rest /= s->dims[d];
        }
        from += (at < 0 ? at + j->dim : at) * j->strides[j->axis];
        move_unit(j->dst + (size_t)i * j->size, j->src + (size_t)from * j->size,
                  j->size);
    }
}

static qn_status launch_elements(const qn_launch *k)
{
    const qn_tensor *data = &k->in[0];
    int64_t axis = qn_node_int(k->node, "axis", 0), n = qn_count(&k->in[1]);
    elements_job j = { .index = &k->in[1],
                       .axis = (int)(axis < 0 ? axis + data->shape.rank : axis),
                       .size = qn_dtype_size(data->dtype),
                       .src = data->data, .dst = k->out[0].data };
    j.dim = data->shape.dims[j.axis];
    for (int64_t i = 0; i < n; i++) {
        int64_t v = index_at(j.index, i);
        if (v < -j.dim || v >= j.dim)
            return bad_index(k, i, v, j.dim, j.axis);
    }
    qn_strides(&data->shape, j.strides);
    qn_parallel(k->team, n, 8192, elements_piece, &j);
    return QN_OK;
}

/* ---- GatherND ---- */

typedef struct nd_job {
    const int64_t *index; /* [tuples, depth] */
    int depth;
    int64_t tuples_per_batch, batch_stride; /* elements of the data */
    int64_t dims[QN_MAX_RANK], strides[QN_MAX_RANK]; /* of what is indexed */
    size_t size, unit;
    const char *src;
    char *dst;
} nd_job;

static void nd_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const nd_job *j = arg;
    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        const int64_t *tuple = j->index + i * j->depth;
        int64_t from = i / j->tuples_per_batch * j->batch_stride;
        for (int d = 0; d < j->depth; d++) {
            int64_t at = tuple[d];
            from += (at < 0 ? at + j->dims[d] : at) * j->strides[d];
        }
        move_unit(j->dst + (size_t)i * j->unit, j->src + (size_t)from * j->size,
                  j->unit);
    }
}

static qn_status launch_nd(const qn_launch *k)
{
    const qn_shape *data = &k->in[0].shape, *index = &k->in[1].shape;
    int batch = (int)qn_node_int(k->node, "batch_dims", 0);
    int64_t strides[QN_MAX_RANK];
    nd_job j = { .index = k->in[1].data,
                 .depth = (int)index->dims[index->rank - 1],
                 .size = qn_dtype_size(k->in[0].dtype), .src = k->in[0].data,
                 .dst = k->out[0].data };
    int64_t tuples = qn_shape_product(index, 0, index->rank - 1);
    qn_strides(data, strides);
    for (int d = 0; d < j.depth; d++) {
        j.dims[d] = data->dims[batch + d];
        j.strides[d] = strides[batch + d];
    }
    for (int64_t i = 0; i < tuples; i++)
        for (int d = 0; d < j.depth; d++) {
            int64_t v = j.index[i * j.depth + d];
            if (v < -j.dims[d] || v >= j.dims[d])
                return bad_index(k, i * j.depth + d, v, j.dims[d], batch + d);
        }
    if (qn_count(&k->out[0]) == 0)
        return QN_OK;
    j.tuples_per_batch = qn_shape_product(index, batch, index->rank - 1);
    j.batch_stride = qn_shape_product(data, batch, data->rank);
    j.unit = j.size *
             (size_t)qn_shape_product(data, batch + j.depth, data->rank);
    qn_parallel(k->team, tuples, 1 + PIECE_BYTES / ((int64_t)j.unit + 8),
                nd_piece, &j);
    return QN_OK;
}

#define ROW(NAME, LAUNCH)                                                      \
    { .domain = "", .name = NAME, .since = 1, .until = QN_OPSET_MAX,           \
      .launch = LAUNCH }

static const qn_kernel rows[] = {
    ROW("Gather", launch_gather),
    ROW("GatherElements", launch_elements),
    ROW("GatherND", launch_nd),
};

QN_KERNEL_TABLE(qn_cpu_gather, rows);

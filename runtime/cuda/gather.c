/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gather, GatherElements, GatherND. Rows move in units of up to 16 bytes, each
 * thread finds the place of its own. An index out of range is reported, and
 * moves nothing.
 */
#include "runtime/cuda/kernels/gather.h"
#include "runtime/cuda/strided.h"
#include "runtime/cuda/tables.h"
#include "runtime/ops/move.h"

enum { THREADS = 256, WAVES = 8, MANY = 1 << 20 };
#define INDEX_LIMIT ((int64_t)1 << 31)

typedef struct gather_state {
    const qn_accel *accel;
    const qn_cuda_fn *fn, *check;
    size_t size;    /* of an element */
    int64_t run;    /* elements that one index names */
    int64_t items;  /* how many times */
    struct qn_gather_check_args checks;
    union { /* counts in elements */
        struct qn_gather_args gather;
        struct qn_gather_elements_args elements;
        struct qn_gather_nd_args nd;
    } args;
} gather_state;

static bool supports(const qn_node *node, uint32_t n_in, const qn_dtype *in)
{
    (void)node, (void)n_in;
    return in[0] != QN_STRING;
}

static qn_status new_state(qn_prepare *p, const char *function,
                           gather_state **out, qn_error *err)
{
    gather_state *s = qn_region_alloc(p->region, 1, sizeof *s);
    *out = s;
    if (!s)
        return qn_fail(err, QN_NO_MEMORY, "no memory for a kernel's state");
    s->accel = p->accel;
    s->size = qn_dtype_size(p->in[0].dtype);
    s->checks.n = qn_count(&p->in[1]);
    s->checks.index32 = p->in[1].dtype == QN_I32;
    p->state = s;
    qn_status st = qn_cuda_find(p->accel, "gather", function, &s->fn, err);
    if (st == QN_OK)
        st =
            qn_cuda_find(p->accel, "gather", "qn_gather_check", &s->check, err);
    return st;
}

static qn_cuda_grid grid(const gather_state *s, int64_t n)
{
    return qn_cuda_grid_stride(s->accel, n, n > MANY ? 4 : 1, THREADS, WAVES);
}

/* Nothing to move, but a bad index is an error all the same. */
static qn_status check_only(const qn_launch *k)
{
    const gather_state *s = k->state;
    struct qn_gather_check_args a = s->checks;
    if (!a.n)
        return QN_OK;
    a.fault = qn_cuda_fault(k);
    a.index = k->in[1].data;
    qn_cuda_grid g = grid(s, a.n);
    return qn_cuda_launch(k, s->check, &g, &a);
}

/* How many elements a unit has, where addresses and runs allow it. */
static int64_t widen(const gather_state *s, const qn_launch *k, uint32_t *unit)
{
    uintptr_t bits = (uintptr_t)k->in[0].data | (uintptr_t)k->out[0].data;
    size_t bytes = qn_align_of(bits | (uint64_t)s->run * s->size, 16);
    if (bytes < s->size)
        bytes = s->size;
    *unit = (uint32_t)bytes;
    return (int64_t)(bytes / s->size);
}

static int axis_of(const qn_node *node, int rank)
{
    int64_t axis = qn_node_int(node, "axis", 0);
    return (int)(axis < 0 ? axis + rank : axis);
}

/* ---- Gather ---- */

static qn_status prepare_gather(qn_prepare *p, qn_error *err)
{
    const qn_shape *data = &p->in[0].shape;
    int axis = axis_of(p->node, data->rank);
    gather_state *s;
    qn_status st = new_state(p, "qn_gather", &s, err);
    if (st != QN_OK)
        return st;
    s->run = qn_shape_product(data, axis + 1, data->rank);
    s->items = qn_shape_product(data, 0, axis) * s->checks.n;
    s->checks.depth = 1;
    s->checks.axis = axis;
    s->checks.dim[0] = data->dims[axis];
    s->args.gather = (struct qn_gather_args){
        .count = s->checks.n, .dim = data->dims[axis], .axis = axis,
        .index32 = s->checks.index32
    };
    return QN_OK;
}

static qn_status launch_gather(const qn_launch *k)
{
    const gather_state *s = k->state;
    struct qn_gather_args a = s->args.gather;
    if (!s->items || !s->run)
        return check_only(k);
    a.run = s->run / widen(s, k, &a.unit);
    a.n = s->items * a.run;
    a.wide = a.n >= INDEX_LIMIT;
    a.by_count = qn_fastdiv_of(a.count);
    a.by_run = qn_fastdiv_of(a.run);
    a.fault = qn_cuda_fault(k);
    a.src = k->in[0].data;
    a.index = k->in[1].data;
    a.dst = k->out[0].data;
    qn_cuda_grid g = grid(s, a.n);
    return qn_cuda_launch(k, s->fn, &g, &a);
}

/* ---- GatherElements ---- */

static qn_status prepare_elements(qn_prepare *p, qn_error *err)
{
    const qn_shape *data = &p->in[0].shape, *index = &p->in[1].shape;
    int axis = axis_of(p->node, data->rank);
    int64_t strides[QN_MAX_RANK];
    gather_state *s;
    qn_status st = new_state(p, "qn_gather_elements", &s, err);
    if (st != QN_OK)
        return st;
    struct qn_gather_elements_args *a = &s->args.elements;
    qn_strides(data, strides);
    *a = (struct qn_gather_elements_args){
        .n = s->checks.n, .dim = data->dims[axis], .along = strides[axis],
        .axis = axis, .rank = index->rank, .unit = (uint32_t)s->size,
        .wide = s->checks.n >= INDEX_LIMIT, .index32 = s->checks.index32
    };
    for (int i = 0; i < index->rank; i++) {
        int d = index->rank - 1 - i;
        a->size[i] = index->dims[d];
        a->stride[i] = d == axis ? 0 : strides[d];
        a->div[i] = qn_fastdiv_of(index->dims[d]);
    }
    return QN_OK;
}

static qn_status launch_elements(const qn_launch *k)
{
    const gather_state *s = k->state;
    struct qn_gather_elements_args a = s->args.elements;
    if (!a.n)
        return QN_OK;
    a.fault = qn_cuda_fault(k);
    a.src = k->in[0].data;
    a.index = k->in[1].data;
    a.dst = k->out[0].data;
    qn_cuda_grid g = grid(s, a.n);
    return qn_cuda_launch(k, s->fn, &g, &a);
}

/* ---- GatherND ---- */

static qn_status prepare_nd(qn_prepare *p, qn_error *err)
{
    const qn_shape *data = &p->in[0].shape, *index = &p->in[1].shape;
    int batch = (int)qn_node_int(p->node, "batch_dims", 0);
    int depth = (int)index->dims[index->rank - 1];
    int64_t strides[QN_MAX_RANK];
    gather_state *s;
    qn_status st = new_state(p, "qn_gather_nd", &s, err);
    if (st != QN_OK)
        return st;
    struct qn_gather_nd_args *a = &s->args.nd;
    qn_strides(data, strides);
    s->run = qn_shape_product(data, batch + depth, data->rank);
    s->items = qn_shape_product(index, 0, index->rank - 1);
    s->checks.depth = depth;
    s->checks.axis = batch;
    a->depth = depth;
    a->axis = batch;
    a->per_batch = qn_shape_product(index, batch, index->rank - 1);
    a->batch = qn_shape_product(data, batch, data->rank);
    for (int d = 0; d < depth; d++) {
        s->checks.dim[d] = a->dim[d] = data->dims[batch + d];
        a->stride[d] = strides[batch + d];
    }
    return QN_OK;
}

static qn_status launch_nd(const qn_launch *k)
{
    const gather_state *s = k->state;
    struct qn_gather_nd_args a = s->args.nd;
    if (!s->items || !s->run)
        return check_only(k);
    int64_t each = widen(s, k, &a.unit);
    a.run = s->run / each;
    a.n = s->items * a.run;
    a.batch /= each;
    for (int d = 0; d < a.depth; d++)
        a.stride[d] /= each;
    a.wide = a.n >= INDEX_LIMIT;
    a.by_run = qn_fastdiv_of(a.run);
    a.by_batch = qn_fastdiv_of(a.per_batch);
    a.fault = qn_cuda_fault(k);
    a.src = k->in[0].data;
    a.index = k->in[1].data;
    a.dst = k->out[0].data;
    qn_cuda_grid g = grid(s, a.n);
    return qn_cuda_launch(k, s->fn, &g, &a);
}

#define ROW(NAME, PREPARE, LAUNCH)                                             \
    { .domain = "", .name = NAME, .since = 1, .until = QN_OPSET_MAX,           \
      .supports = supports, .prepare = PREPARE, .launch = LAUNCH }

static const qn_kernel rows[] = {
    ROW("Gather", prepare_gather, launch_gather),
    ROW("GatherElements", prepare_elements, launch_elements),
    ROW("GatherND", prepare_nd, launch_nd),
};

QN_KERNEL_TABLE(qn_cuda_gather, rows);

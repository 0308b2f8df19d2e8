/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scatter, ScatterElements, ScatterND: copy the data unless the output is the
 * data, then write or reduce the updates, with equal indices in their order.
 *
 * Workspace: last [targets] | next [n] | head [n], of 4 bytes; next and head
 * for reductions only, nothing where there are few updates
 * (kernels/scatter.cu).
 */
#include "runtime/base/checked.h"
#include "runtime/cuda/kernels/scatter.h"
#include "runtime/cuda/strided.h"
#include "runtime/cuda/tables.h"
#include "runtime/ops/move.h"

#include <string.h>

enum {
    THREADS = 256,
    WAVES = 8,
    FEW = 64,            /* updates that look at each other, ... */
    FEW_STEPS = 1 << 22 /* ... each column once more */
};
#define UPDATES_LIMIT (((int64_t)1 << 31) - 1)

typedef struct scatter_state {
    const qn_accel *accel;
    const qn_cuda_fn *few, *mark, *place, *sort, *reduce;
    struct qn_scatter_args args; /* run in elements */
    size_t size;                 /* of an element */
    bool few_updates;
    size_t last_bytes, list_bytes;
} scatter_state;

static uint32_t op_of(const qn_node *node)
{
    static const char *const names[] = { "none", "add", "mul", "max", "min" };
    const char *name = qn_node_string(node, "reduction", "none");
    for (uint32_t i = 1; i < 5; i++)
        if (!strcmp(name, names[i]))
            return i;
    return QN_SCATTER_NONE;
}

static bool supports(const qn_node *node, uint32_t n_in, const qn_dtype *in)
{
    const qn_dtypes reduced = QN_TYPES_FLOAT | QN_TYPES_INT | QN_BIT(BOOL);
    (void)n_in;
    return op_of(node) == QN_SCATTER_NONE ? in[0] != QN_STRING
                                          : qn_dtypes_has(reduced, in[0]);
}

static qn_status find_all(qn_accel *accel, scatter_state *s, qn_error *err)
{
    const struct {
        const char *name;
        const qn_cuda_fn **fn;
    } functions[] = {
        { "qn_scatter_few", &s->few },       { "qn_scatter_mark", &s->mark },
        { "qn_scatter_place", &s->place },   { "qn_scatter_sort", &s->sort },
        { "qn_scatter_reduce", &s->reduce },
    };
    qn_status st = QN_OK;
    for (size_t i = 0; st == QN_OK && i < sizeof functions / sizeof *functions;
         i++)
        st = qn_cuda_find(accel, "scatter", functions[i].name, functions[i].fn,
                          err);
    return st;
}

/* Workspace for `targets` rows of data; args.n and args.run are set. */
static qn_status plan_lists(qn_prepare *p, scatter_state *s, int64_t targets,
                            qn_error *err)
{
    size_t bytes, lists = s->args.op == QN_SCATTER_NONE ? 0 : 2;
    p->workspace = 0;
    if (s->args.n > UPDATES_LIMIT)
        return qn_fail(err, QN_TOO_LARGE, "%lld updates, at most %lld",
                       (long long)s->args.n, (long long)UPDATES_LIMIT);
    s->few_updates = s->args.n <= FEW && s->args.n * s->args.n <=
                                             FEW_STEPS / (s->args.run + 1);
    if (s->few_updates)
        return QN_OK;
    if (!qn_mul_size((size_t)targets, sizeof(uint32_t), &s->last_bytes) ||
        !qn_align_size(s->last_bytes, 256, &bytes) ||
        !qn_align_size((size_t)s->args.n * sizeof(uint32_t), 256,
                       &s->list_bytes) ||
        !qn_add_size(bytes, lists * s->list_bytes, &p->workspace))
        return qn_fail(err, QN_TOO_LARGE, "lists for %lld rows of data",
                       (long long)targets);
    s->last_bytes = bytes;
    return QN_OK;
}

static qn_status new_state(qn_prepare *p, scatter_state **out, qn_error *err)
{
    scatter_state *s = qn_region_alloc(p->region, 1, sizeof *s);
    *out = s;
    if (!s)
        return qn_fail(err, QN_NO_MEMORY, "no memory for a kernel's state");
    s->accel = p->accel;
    s->size = qn_dtype_size(p->in[0].dtype);
    s->args.op = op_of(p->node);
    s->args.dtype = (uint32_t)p->in[0].dtype;
    s->args.index32 = p->in[1].dtype == QN_I32;
    p->state = s;
    return find_all(p->accel, s, err);
}

static qn_status prepare_elements(qn_prepare *p, qn_error *err)
{
    const qn_shape *data = &p->in[0].shape, *index = &p->in[1].shape;
    int64_t given = qn_node_int(p->node, "axis", 0), strides[QN_MAX_RANK];
    int axis = (int)(given < 0 ? given + data->rank : given);
    scatter_state *s;
    qn_status st = new_state(p, &s, err);
    if (st != QN_OK)
        return st;
    struct qn_scatter_args *a = &s->args;
    qn_strides(data, strides);
    a->n = qn_count(&p->in[1]);
    a->run = 1;
    a->rank = index->rank;
    a->dim = data->dims[axis];
    a->along = strides[axis];
    for (int i = 0; i < index->rank; i++) {
        int d = index->rank - 1 - i;
        a->div[i] = qn_fastdiv_of(index->dims[d]);
        a->stride[i] = d == axis ? 0 : strides[d];
    }
    return plan_lists(p, s, qn_count(&p->in[0]), err);
}

static qn_status prepare_nd(qn_prepare *p, qn_error *err)
{
    const qn_shape *data = &p->in[0].shape, *index = &p->in[1].shape;
    int depth = (int)index->dims[index->rank - 1];
    scatter_state *s;
    qn_status st = new_state(p, &s, err);
    if (st != QN_OK)
        return st;
    struct qn_scatter_args *a = &s->args;
    a->n = qn_shape_product(index, 0, index->rank - 1);
    a->run = qn_shape_product(data, depth, data->rank);
    a->tuples = 1;
    a->rank = depth;
    for (int d = 0; d < depth; d++) {
        a->dims[d] = data->dims[d];
        a->stride[d] = qn_shape_product(data, d + 1, depth);
    }
    return plan_lists(p, s, qn_shape_product(data, 0, depth), err);
}

static qn_status copy_data(const qn_launch *k)
{
    size_t bytes = (size_t)qn_count(&k->in[0]) *
                   qn_dtype_size(k->in[0].dtype);
    if (!bytes || k->out[0].data == k->in[0].data)
        return QN_OK;
    return qn_cuda_copy(k, k->out[0].data, k->in[0].data, bytes);
}

/* Units of the run, for updates that are only copied. */
static void choose_unit(const scatter_state *s, struct qn_scatter_args *a)
{
    size_t unit = s->size;
    if (a->op == QN_SCATTER_NONE)
        unit = qn_align_of((uintptr_t)a->src | (uintptr_t)a->dst |
                               (uint64_t)a->run * s->size, 16);
    if (unit < s->size)
        unit = s->size;
    a->unit = (uint32_t)unit;
    a->run /= (int64_t)(unit / s->size);
    a->total = a->n * a->run;
    a->by_run = qn_fastdiv_of(a->run);
    a->wide = a->total >= (int64_t)1 << 31;
}

static qn_status launch_many(const qn_launch *k, const scatter_state *s,
                             struct qn_scatter_args *a,
                             const qn_cuda_grid *updates,
                             const qn_cuda_grid *columns)
{
    char *at = k->workspace;
    a->last = (void *)at;
    a->next = (void *)(at + s->last_bytes);
    a->head = (void *)(at + s->last_bytes + s->list_bytes);
    qn_status st = qn_cuda_fill(k, a->last, 0, s->last_bytes);
    if (st == QN_OK)
        st = qn_cuda_launch(k, s->mark, updates, a);
    if (st == QN_OK && a->op == QN_SCATTER_NONE)
        return qn_cuda_launch(k, s->place, columns, a);
    if (st == QN_OK)
        st = qn_cuda_launch(k, s->sort, updates, a);
    return st == QN_OK ? qn_cuda_launch(k, s->reduce, columns, a) : st;
}

static qn_status launch(const qn_launch *k)
{
    const scatter_state *s = k->state;
    struct qn_scatter_args a = s->args;
    qn_status st = copy_data(k);
    if (st != QN_OK || !a.n)
        return st;
    a.fault = qn_cuda_fault(k);
    a.index = k->in[1].data;
    a.src = k->in[2].data;
    a.dst = k->out[0].data;
    choose_unit(s, &a);
    qn_cuda_grid updates =
        qn_cuda_grid_stride(s->accel, a.n, 1, THREADS, WAVES);
    qn_cuda_grid columns = qn_cuda_grid_stride(s->accel, a.total, 1, THREADS,
                                               WAVES);
    if (!a.run || qn_count(&k->out[0]) == 0) /* only look at the indices */
        return qn_cuda_launch(k, s->mark, &updates, &a);
    if (s->few_updates)
        return qn_cuda_launch(k, s->few, &columns, &a);
    return launch_many(k, s, &a, &updates, &columns);
}

#define ROW(NAME, SINCE, UNTIL, PREPARE)                                       \
    { .domain = "", .name = NAME, .since = SINCE, .until = UNTIL,              \
      .supports = supports, .prepare = PREPARE, .launch = launch }

static const qn_kernel rows[] = {
    ROW("Scatter", 9, 10, prepare_elements),
    ROW("ScatterElements", 11, QN_OPSET_MAX, prepare_elements),
    ROW("ScatterND", 11, QN_OPSET_MAX, prepare_nd),
};

QN_KERNEL_TABLE(qn_cuda_scatter, rows);

/* SPDX-License-Identifier: Apache-2.0 */
/* MaxPool, AveragePool, LpPool and their Global forms, in both orders. */
#include "runtime/ops/pool.h"
#include "runtime/cuda/fold.h"
#include "runtime/cuda/kernels/pool.h"
#include "runtime/cuda/tables.h"
#include "runtime/cuda/typed.h"
#include "runtime/ops/move.h"

#include <string.h>

_Static_assert((int)QN_POOL_AXES == QN_MAX_RANK - 2, "every spatial axis");

typedef struct pool_state {
    const qn_cuda_fn *two, *three, *any, *whole; /* any: plain order only */
    const qn_accel *accel;
} pool_state;

static qn_status pool_prepare(qn_prepare *p, qn_error *err)
{
    pool_state *s;
    qn_dtype t = p->in[0].dtype;
    qn_status st = qn_cuda_state(p, sizeof *s, &s, err);
    if (st != QN_OK)
        return st;
    s->accel = p->accel;
    const struct {
        const char *name;
        const qn_cuda_fn **fn;
    } all[] = { { "pool_2", &s->two },
                { "pool_3", &s->three },
                { "pool_any", &s->any },
                { "pool_whole", &s->whole } };
    for (size_t i = 0; st == QN_OK && i < sizeof all / sizeof all[0]; i++)
        st = qn_cuda_find_typed(p->accel, "pool", all[i].name, t, all[i].fn,
                                err);
    return st;
}

static int32_t kind_of(const char *name)
{
    if (!strncmp(name, "Global", 6))
        name += 6;
    return name[0] == 'M' ? QN_POOL_MAX
           : name[0] == 'A' ? QN_POOL_MEAN
                            : QN_POOL_LP;
}

static float power_of(const qn_node *node)
{
    const qn_attr *p = qn_node_attr(node, "p");
    return !p ? 2.0f : p->kind == QN_ATTR_FLOAT ? p->f : (float)p->i;
}

static bool covers_all(const qn_pool_geometry *g)
{
    for (int i = 0; i < g->n; i++)
        if (g->kernel[i] != g->in[i] || g->out[i] != 1 || g->lo[i] ||
            g->hi[i] || g->dilation[i] != 1)
            return false;
    return true;
}

/* Axes of one position in front, up to the two that kernels have at least. */
static void fill_axes(struct qn_pool_args *a, const qn_pool_geometry *g,
                      bool column_major)
{
    int front = g->n < 2 ? 2 - g->n : 0;
    int64_t step = a->last ? a->channels : 1, index = 1;
    a->n_axes = g->n + front;
    for (int i = 0; i < a->n_axes; i++)
        a->axes[i] = (struct qn_pool_axis){ .in = 1, .out = 1, .kernel = 1,
                                            .stride = 1, .dilation = 1 };
    for (int i = g->n - 1; i >= 0; i--) {
        struct qn_pool_axis *x = &a->axes[i + front];
        *x = (struct qn_pool_axis){
            .in = g->in[i], .out = g->out[i], .kernel = g->kernel[i],
            .stride = g->stride[i], .dilation = g->dilation[i],
            .lo = g->lo[i], .hi = g->hi[i], .step = step
        };
        step *= g->in[i];
    }
    for (int j = 0; j < g->n; j++) {
        struct qn_pool_axis *x =
            &a->axes[front + (column_major ? j : g->n - 1 - j)];
        x->index = index;
        index *= x->in;
    }
    for (int i = 0; i < a->n_axes; i++)
        a->axes[i].by_out = qn_fastdiv_of(a->axes[i].out);
}

static qn_status whole_launch(const qn_launch *k, const struct qn_pool_args *a,
                              int64_t batch)
{
    const pool_state *s = k->state;
    struct qn_pool_whole_args w = {
        .x = a->x, .y = a->y, .kind = a->kind, .p = a->p
    };
    if (a->last)
        qn_fold_middle(&w.f, batch, a->in_size, a->channels);
    else
        qn_fold_middle(&w.f, batch * a->channels, a->in_size, 1);
    if (!w.f.outputs)
        return QN_OK;
    qn_fold_plan(&w.f, false);
    qn_cuda_grid grid = qn_fold_grid(&w.f);
    return qn_cuda_launch(k, s->whole, &grid, &w);
}

static qn_status pool_launch(const qn_launch *k)
{
    const pool_state *s = k->state;
    qn_shape logical = qn_node_logical_shape(k->node, &k->in[0].shape);
    qn_pool_geometry g;
    qn_status st = qn_pool_geometry_of(k->node, &logical, &g, k->err);
    if (st != QN_OK)
        return st;
    bool indices = k->n_out > 1 && qn_present(&k->out[1]);
    struct qn_pool_args a = {
        .x = k->in[0].data,
        .y = k->out[0].data,
        .indices = indices ? k->out[1].data : NULL,
        .count = qn_count(&k->out[0]),
        .channels = logical.dims[1],
        .in_size = qn_shape_product(&logical, 2, logical.rank),
        .kind = kind_of(k->node->op_name),
        .last = k->node->order == QN_ORDER_NHWC && logical.rank == 4,
        .include_pad = qn_node_int(k->node, "count_include_pad", 0) != 0,
        .p = power_of(k->node),
    };
    if (!a.count)
        return QN_OK;
    if (covers_all(&g) && !indices)
        return whole_launch(k, &a, logical.dims[0]);
    a.by_channels = qn_fastdiv_of(a.channels);
    fill_axes(&a, &g, qn_node_int(k->node, "storage_order", 0) != 0);
    qn_cuda_grid grid = qn_cuda_grid_stride(s->accel, a.count, 1, 256, 8);
    return qn_cuda_launch(k,
                          a.n_axes == 2   ? s->two
                          : a.n_axes == 3 ? s->three
                                          : s->any,
                          &grid, &a);
}

#define ROW(op)                                                      \
    {                                                                \
        .domain = "", .name = op, .since = 1, .until = QN_OPSET_MAX, \
        .flags = QN_KERNEL_NHWC, .prepare = pool_prepare,            \
        .launch = pool_launch                                        \
    }

static const qn_kernel kernels[] = {
    ROW("MaxPool"),           ROW("AveragePool"),   ROW("LpPool"),
    ROW("GlobalAveragePool"), ROW("GlobalMaxPool"), ROW("GlobalLpPool"),
};

QN_KERNEL_TABLE(qn_cuda_pool, kernels);

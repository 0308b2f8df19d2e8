/* SPDX-License-Identifier: Apache-2.0 */
/* BatchNormalization, InstanceNormalization, GroupNormalization. */
#include "runtime/cuda/kernels/norm.h"
#include "runtime/cuda/tables.h"
#include "runtime/cuda/typed.h"
#include "runtime/ops/norm.h"

typedef struct norm_state {
    const qn_cuda_fn *batch, *batch_stats;
    const qn_cuda_fn *group, *group_stats, *group_share;
    const qn_accel *accel;
} norm_state;

static qn_status find(qn_prepare *p, norm_state **out, qn_error *err)
{
    qn_status st = qn_cuda_state(p, sizeof **out, out, err);
    if (st != QN_OK)
        return st;
    norm_state *s = *out;
    const struct {
        const char *name;
        const qn_cuda_fn **fn;
    } all[] = { { "norm_batch", &s->batch },
                { "norm_batch_stats", &s->batch_stats },
                { "norm_group", &s->group },
                { "norm_group_stats", &s->group_stats },
                { "norm_group_share", &s->group_share } };
    for (size_t i = 0; st == QN_OK && i < sizeof all / sizeof all[0]; i++)
        st = qn_cuda_find_typed(p->accel, "norm", all[i].name,
                                p->in[0].dtype, all[i].fn, err);
    s->accel = p->accel;
    return st;
}

static struct qn_norm_param param(const qn_tensor *t)
{
    return (struct qn_norm_param){ t->data, (int32_t)t->dtype };
}

static bool aligned(const void *p)
{
    return ((uintptr_t)p & 15) == 0;
}

/* ---- batch ---- */

static struct qn_batch_args batch_args(const qn_launch *k)
{
    const qn_shape *s = &k->in[0].shape;
    struct qn_batch_args a = {
        .x = k->in[0].data,
        .y = k->out[0].data,
        .count = qn_count(&k->in[0]),
        .batch = s->dims[0],
        .channels = s->rank > 1 ? s->dims[1] : 1,
        .size = qn_shape_product(s, 2, s->rank),
        .epsilon = (double)qn_node_float(k->node, "epsilon", 1e-5f),
        .scale = param(&k->in[1]),
        .bias = param(&k->in[2]),
        .mean = param(&k->in[3]),
        .var = param(&k->in[4]),
        .momentum = (double)qn_node_float(k->node, "momentum", 0.9f),
    };
    if (k->node->order == QN_ORDER_NHWC && s->rank == 4) {
        a.last = 1;
        a.channels = s->dims[3];
        a.size = s->dims[1] * s->dims[2];
    } else if (!qn_node_int(k->node, "spatial", 1)) {
        a.channels *= a.size; /* a pair for each position */
        a.size = 1;
    }
    if (a.size == 1)
        a.last = 1; /* the same, and channels lie side by side */
    a.by_size = qn_fastdiv_of(a.size);
    a.by_channels = qn_fastdiv_of(a.channels);
    int32_t each = (int32_t)(16 / qn_dtype_size(k->in[0].dtype));
    bool packs = (a.last ? a.channels : a.size) % each == 0 && aligned(a.x) &&
                 aligned(a.y);
    a.each = packs ? each : 1;
    return a;
}

static qn_status batch_launch(const qn_launch *k)
{
    const norm_state *s = k->state;
    struct qn_batch_args a = batch_args(k);
    qn_cuda_grid grid;
    qn_status st;
    if (qn_batchnorm_trains(k->node) && a.channels) {
        a.new_mean = k->workspace;
        a.new_var = a.new_mean + a.channels;
        for (uint32_t i = 1; i < k->n_out && i < 5; i++)
            if (qn_present(&k->out[i])) {
                a.out[i - 1] = k->out[i].data;
                a.out_type[i - 1] = (int32_t)k->out[i].dtype;
            }
        grid = (qn_cuda_grid){ .grid = { (uint32_t)a.channels },
                               .block = { QN_NORM_THREADS } };
        st = qn_cuda_launch(k, s->batch_stats, &grid, &a);
        if (st != QN_OK)
            return st;
        a.mean = (struct qn_norm_param){ a.new_mean, QN_F64 };
        a.var = (struct qn_norm_param){ a.new_var, QN_F64 };
    }
    if (!a.count)
        return QN_OK;
    grid = qn_cuda_grid_stride(s->accel, a.count, a.each, QN_NORM_THREADS, 4);
    return qn_cuda_launch(k, s->batch, &grid, &a);
}

static qn_status batch_prepare(qn_prepare *p, qn_error *err)
{
    norm_state *s;
    if (qn_batchnorm_trains(p->node)) {
        if (qn_count(&p->in[1]) > INT32_MAX)
            return qn_fail(err, QN_TOO_LARGE, "%lld channels",
                           (long long)qn_count(&p->in[1]));
        p->workspace = (size_t)qn_count(&p->in[1]) * 2 * sizeof(double);
    }
    return find(p, &s, err);
}

/* Positions that each have a scale of their own only make sense in plain
 * order. */
static bool is_spatial(const qn_node *node, uint32_t n_in, const qn_dtype *in)
{
    (void)n_in, (void)in;
    return qn_node_int(node, "spatial", 1) != 0;
}

/* ---- instance and group ---- */

static qn_status group_launch(const qn_launch *k)
{
    const norm_state *state = k->state;
    const qn_shape *s = &k->in[0].shape;
    int64_t channels = s->dims[1], groups = channels;
    struct qn_group_args a = {
        .x = k->in[0].data,
        .y = k->out[0].data,
        .size = qn_shape_product(s, 2, s->rank),
        .epsilon = (double)qn_node_float(k->node, "epsilon", 1e-5f),
        .scale = param(&k->in[1]),
        .bias = param(&k->in[2]),
        .stats = k->workspace,
    };
    if (k->node->op_name[0] == 'G') {
        groups = qn_node_int(k->node, "num_groups", 1);
        a.scale_by_group = k->node->opset < 21;
    }
    if (!qn_count(&k->in[0]))
        return QN_OK;
    a.groups = groups;
    a.group = channels / groups;
    a.items = s->dims[0] * groups;
    a.run = a.group * a.size;
    a.by_size = qn_fastdiv_of(a.size);
    a.splits = 1;
    a.per_split = a.run;
    if (a.items < QN_NORM_ITEMS && a.run > 2 * QN_NORM_SHARE) {
        a.per_split = (a.run + QN_NORM_SPLITS - 1) / QN_NORM_SPLITS;
        if (a.per_split < QN_NORM_SHARE)
            a.per_split = QN_NORM_SHARE;
        a.per_split = (a.per_split + 7) / 8 * 8;
        a.splits = (a.run + a.per_split - 1) / a.per_split;
    }
    qn_cuda_grid grid = { .grid = { (uint32_t)(a.items < INT32_MAX
                                                   ? a.items
                                                   : INT32_MAX) },
                          .block = { QN_NORM_THREADS } };
    if (a.splits == 1)
        return qn_cuda_launch(k, state->group, &grid, &a);
    grid.grid[0] = (uint32_t)(a.items * a.splits);
    qn_status st = qn_cuda_launch(k, state->group_stats, &grid, &a);
    return st != QN_OK ? st : qn_cuda_launch(k, state->group_share, &grid, &a);
}

static qn_status group_prepare(qn_prepare *p, qn_error *err)
{
    norm_state *s;
    p->workspace = (size_t)QN_NORM_ITEMS * QN_NORM_SPLITS *
                   sizeof(struct qn_norm_stat);
    return find(p, &s, err);
}

#define ROW(op, fl, sup, prep, fn)                                   \
    {                                                                \
        .domain = "", .name = op, .since = 1, .until = QN_OPSET_MAX, \
        .flags = fl, .supports = sup, .prepare = prep, .launch = fn  \
    }

static const qn_kernel kernels[] = {
    ROW("BatchNormalization", QN_KERNEL_NHWC, is_spatial, batch_prepare,
        batch_launch),
    ROW("BatchNormalization", 0, NULL, batch_prepare, batch_launch),
    ROW("InstanceNormalization", 0, NULL, group_prepare, group_launch),
    ROW("GroupNormalization", 0, NULL, group_prepare, group_launch),
};

QN_KERNEL_TABLE(qn_cuda_norm, kernels);

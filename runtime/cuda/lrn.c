/* SPDX-License-Identifier: Apache-2.0 */
/* LRN, LpNormalization, MeanVarianceNormalization. */
#include "runtime/cuda/fold.h"
#include "runtime/cuda/kernels/lrn.h"
#include "runtime/cuda/tables.h"
#include "runtime/cuda/typed.h"
#include "runtime/ops/op.h"

typedef struct lrn_state {
    const qn_cuda_fn *fn;
    const qn_accel *accel;
} lrn_state;

static qn_status find(qn_prepare *p, const char *name, qn_error *err)
{
    lrn_state *s;
    qn_status st = qn_cuda_state(p, sizeof *s, &s, err);
    if (st != QN_OK)
        return st;
    s->accel = p->accel;
    return qn_cuda_find_typed(p->accel, "lrn", name, p->in[0].dtype, &s->fn,
                              err);
}

/* ---- LRN ---- */

static qn_status lrn_prepare(qn_prepare *p, qn_error *err)
{
    return find(p, "lrn", err);
}

static qn_status lrn_launch(const qn_launch *k)
{
    const lrn_state *state = k->state;
    const qn_shape *s = &k->in[0].shape;
    bool last = k->node->order == QN_ORDER_NHWC && s->rank == 4;
    int64_t size = qn_node_int(k->node, "size", 1);
    struct qn_lrn_args a = {
        .x = k->in[0].data,
        .y = k->out[0].data,
        .count = qn_count(&k->in[0]),
        .channels = last ? s->dims[3] : s->dims[1],
        .step = last ? 1 : qn_shape_product(s, 2, s->rank),
        .before = (size - 1) / 2,
        .after = size / 2,
        .alpha = qn_node_float(k->node, "alpha", 1e-4f) / (float)size,
        .beta = qn_node_float(k->node, "beta", 0.75f),
        .bias = qn_node_float(k->node, "bias", 1.0f),
    };
    if (!a.count)
        return QN_OK;
    a.by_step = qn_fastdiv_of(a.step);
    a.by_channels = qn_fastdiv_of(a.channels);
    qn_cuda_grid grid = qn_cuda_grid_stride(state->accel, a.count, 1, 256, 4);
    return qn_cuda_launch(k, state->fn, &grid, &a);
}

/* ---- groups of elements along axes ---- */

static qn_status axes_prepare(qn_prepare *p, qn_error *err)
{
    return find(p, "axes_norm", err);
}

static qn_status axes_launch(const qn_launch *k)
{
    static const int64_t usual[] = { 0, 2, 3 };
    const lrn_state *state = k->state;
    const qn_shape *s = &k->in[0].shape;
    bool mvn = k->node->op_name[0] == 'M';
    struct qn_axes_args a = { .x = k->in[0].data,
                              .y = k->out[0].data,
                              .kind = mvn ? QN_AXES_MVN
                                      : qn_node_int(k->node, "p", 2) == 1
                                          ? QN_AXES_L1
                                          : QN_AXES_L2 };
    int64_t axis = qn_node_int(k->node, "axis", -1);
    const int64_t *axes = &axis;
    size_t n = 1;
    uint32_t mask = 0;
    if (mvn && !(axes = qn_node_ints(k->node, "axes", &n)))
        axes = usual, n = 3;
    for (size_t i = 0; i < n; i++)
        mask |= 1u << (axes[i] < 0 ? axes[i] + s->rank : axes[i]);
    if (!qn_count(&k->in[0]))
        return QN_OK;
    qn_fold_axes(&a.f, s, mask);
    qn_fold_plan(&a.f, false);
    qn_cuda_grid grid = qn_fold_grid(&a.f);
    return qn_cuda_launch(k, state->fn, &grid, &a);
}

#define ROW(op, fl, prep, fn)                                        \
    {                                                                \
        .domain = "", .name = op, .since = 1, .until = QN_OPSET_MAX, \
        .flags = fl, .prepare = prep, .launch = fn                   \
    }

static const qn_kernel kernels[] = {
    ROW("LRN", QN_KERNEL_NHWC, lrn_prepare, lrn_launch),
    ROW("LpNormalization", 0, axes_prepare, axes_launch),
    ROW("MeanVarianceNormalization", 0, axes_prepare, axes_launch),
};

QN_KERNEL_TABLE(qn_cuda_lrn, kernels);

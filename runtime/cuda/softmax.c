/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax, LogSoftmax, Hardmax over the middle axis of [outer, n, inner]. */
#include "runtime/cuda/fold.h"
#include "runtime/cuda/kernels/softmax.h"
#include "runtime/cuda/tables.h"
#include "runtime/cuda/typed.h"
#include "runtime/ops/op.h"

typedef struct softmax_state {
    const qn_cuda_fn *short_rows, *long_rows, *block, *strided, *hard;
} softmax_state;

static qn_status softmax_prepare(qn_prepare *p, qn_error *err)
{
    softmax_state *s;
    qn_dtype t = p->in[0].dtype;
    qn_status st = qn_cuda_state(p, sizeof *s, &s, err);
    if (st != QN_OK)
        return st;
    const struct {
        const char *name;
        const qn_cuda_fn **fn;
    } all[] = { { "softmax_short", &s->short_rows },
                { "softmax_long", &s->long_rows },
                { "softmax_block", &s->block },
                { "softmax_strided", &s->strided },
                { "hardmax", &s->hard } };
    for (size_t i = 0; st == QN_OK && i < sizeof all / sizeof all[0]; i++)
        st = qn_cuda_find_typed(p->accel, "softmax", all[i].name, t,
                                all[i].fn, err);
    return st;
}

static qn_cuda_grid blocks_for(int64_t blocks, uint32_t threads)
{
    int64_t most = INT32_MAX;
    return (qn_cuda_grid){ .grid = { (uint32_t)(blocks < most ? blocks : most) },
                           .block = { threads } };
}

static qn_status softmax_launch(const qn_launch *k)
{
    const softmax_state *state = k->state;
    const qn_shape *s = &k->in[0].shape;
    bool flat = k->node->opset < 13, hard = k->node->op_name[0] == 'H';
    int64_t axis = qn_node_int(k->node, "axis", flat ? 1 : -1);
    int at = s->rank ? (int)(axis < 0 ? axis + s->rank : axis) : 0;
    int behind = flat || at >= s->rank ? s->rank : at + 1;
    int64_t outer = qn_shape_product(s, 0, at);
    int64_t n = qn_shape_product(s, at, behind);
    int64_t inner = qn_shape_product(s, behind, s->rank);
    struct qn_softmax_args a = { .x = k->in[0].data,
                                 .y = k->out[0].data,
                                 .rows = outer * inner,
                                 .n = n,
                                 .log = k->node->op_name[0] == 'L' };
    if (a.rows == 0 || n == 0)
        return QN_OK;
    if (!hard && inner == 1 && n <= QN_SOFTMAX_LONG) {
        qn_cuda_grid grid = blocks_for((outer + 7) / 8, 256);
        return qn_cuda_launch(
            k, n <= QN_SOFTMAX_SHORT ? state->short_rows : state->long_rows,
            &grid, &a);
    }
    if (!hard && inner == 1) {
        qn_cuda_grid grid = blocks_for(outer, n > 8192 ? 1024 : 256);
        return qn_cuda_launch(k, state->block, &grid, &a);
    }
    qn_fold_middle(&a.f, outer, n, inner);
    qn_fold_plan(&a.f, false);
    qn_cuda_grid grid = qn_fold_grid(&a.f);
    return qn_cuda_launch(k, hard ? state->hard : state->strided, &grid, &a);
}

#define ROW(op)                                                      \
    {                                                                \
        .domain = "", .name = op, .since = 1, .until = QN_OPSET_MAX, \
        .prepare = softmax_prepare, .launch = softmax_launch         \
    }

static const qn_kernel kernels[] = {
    ROW("Softmax"),
    ROW("LogSoftmax"),
    ROW("Hardmax"),
};

QN_KERNEL_TABLE(qn_cuda_softmax, kernels);

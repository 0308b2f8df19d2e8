/* SPDX-License-Identifier: Apache-2.0 */
/* ArgMax and ArgMin over the middle axis of [outer, n, inner]. */
#include "runtime/cuda/fold.h"
#include "runtime/cuda/kernels/argmax.h"
#include "runtime/cuda/tables.h"
#include "runtime/cuda/typed.h"
#include "runtime/ops/reduce.h"

enum { PARTIAL = 16 }; /* bytes: a value and its index */

typedef struct arg_state {
    const qn_cuda_fn *scan, *finish;
} arg_state;

static qn_status arg_prepare(qn_prepare *p, qn_error *err)
{
    arg_state *s;
    qn_dtype t = p->in[0].dtype;
    qn_status st = qn_cuda_state(p, sizeof *s, &s, err);
    if (st == QN_OK)
        st = qn_cuda_find_typed(p->accel, "argmax", "argmax", t, &s->scan, err);
    if (st == QN_OK)
        st = qn_cuda_find_typed(p->accel, "argmax", "argmax_finish", t,
                                &s->finish, err);
    p->workspace = (size_t)QN_FOLD_PARTIALS * PARTIAL;
    return st;
}

static qn_status arg_launch(const qn_launch *k)
{
    const arg_state *state = k->state;
    const qn_shape *s = &k->in[0].shape;
    int axis;
    qn_status st = qn_arg_axis(k->node, s, &axis, k->err);
    if (st != QN_OK)
        return st;
    struct qn_argmax_args a = {
        .x = k->in[0].data,
        .y = k->out[0].data,
        .partial = k->workspace,
        .min = k->node->op_name[3] == 'M' && k->node->op_name[4] == 'i',
        .last = qn_node_int(k->node, "select_last_index", 0) != 0
    };
    qn_fold_middle(&a.f, qn_shape_product(s, 0, axis),
                   s->rank ? s->dims[axis] : 1,
                   s->rank ? qn_shape_product(s, axis + 1, s->rank) : 1);
    if (a.f.outputs == 0 || a.f.count == 0) /* infer() wants nothing then */
        return QN_OK;
    qn_fold_plan(&a.f, true);
    qn_cuda_grid grid = qn_fold_grid(&a.f);
    st = qn_cuda_launch(k, state->scan, &grid, &a);
    if (st != QN_OK || a.f.splits == 1)
        return st;
    grid = qn_fold_grid_finish(&a.f);
    return qn_cuda_launch(k, state->finish, &grid, &a);
}

#define ROW(op)                                                      \
    {                                                                \
        .domain = "", .name = op, .since = 1, .until = QN_OPSET_MAX, \
        .prepare = arg_prepare, .launch = arg_launch                 \
    }

static const qn_kernel kernels[] = { ROW("ArgMax"), ROW("ArgMin") };

QN_KERNEL_TABLE(qn_cuda_argmax, kernels);

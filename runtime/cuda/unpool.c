/* SPDX-License-Identifier: Apache-2.0 */
/* MaxUnpool. */
#include "runtime/base/checked.h"
#include "runtime/cuda/kernels/unpool.h"
#include "runtime/cuda/tables.h"
#include "runtime/cuda/typed.h"
#include "runtime/ops/pool.h"

typedef struct unpool_state {
    const qn_cuda_fn *claim, *write;
    const qn_accel *accel;
} unpool_state;

static qn_status unpool_prepare(qn_prepare *p, qn_error *err)
{
    unpool_state *s;
    qn_status st = qn_cuda_state(p, sizeof *s, &s, err);
    if (st != QN_OK)
        return st;
    s->accel = p->accel;
    st = qn_cuda_find(p->accel, "unpool", "unpool_claim", &s->claim, err);
    if (st == QN_OK)
        st = qn_cuda_find(p->accel, "unpool", "unpool_write", &s->write, err);
    if (st == QN_OK && !qn_mul_size((size_t)qn_count(&p->out[0]),
                                    sizeof(uint64_t), &p->workspace))
        return qn_fail(err, QN_TOO_LARGE, "the output is too large");
    p->clear = 1u | QN_CLEAR_WORKSPACE;
    return st;
}

static qn_status unpool_launch(const qn_launch *k)
{
    const unpool_state *s = k->state;
    qn_shape implied;
    qn_status st = qn_unpool_shape(k->node, &k->in[0].shape, &implied, k->err);
    if (st != QN_OK)
        return st;
    struct qn_unpool_args a = {
        .x = k->in[0].data,
        .indices = k->in[1].data,
        .y = k->out[0].data,
        .owner = k->workspace,
        .count = qn_count(&k->in[0]),
        .cells = qn_count(&k->out[0]),
        .rank = implied.rank,
        .size = (int32_t)qn_dtype_size(k->in[0].dtype),
        .fault = qn_cuda_fault(k),
    };
    for (int i = 0; i < implied.rank; i++) {
        a.from[i] = implied.dims[i];
        a.to[i] = k->out[0].shape.dims[i];
    }
    qn_cuda_grid grid = qn_cuda_grid_stride(s->accel, a.count, 1, 256, 4);
    st = qn_cuda_launch(k, s->claim, &grid, &a);
    return st != QN_OK ? st : qn_cuda_launch(k, s->write, &grid, &a);
}

static const qn_kernel kernels[] = {
    { .domain = "",
      .name = "MaxUnpool",
      .since = 1,
      .until = QN_OPSET_MAX,
      .prepare = unpool_prepare,
      .launch = unpool_launch },
};

QN_KERNEL_TABLE(qn_cuda_unpool, kernels);

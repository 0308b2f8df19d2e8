/* SPDX-License-Identifier: Apache-2.0 */
/* TopK. */
#include "runtime/base/checked.h"
#include "runtime/cuda/kernels/topk.h"
#include "runtime/cuda/tables.h"
#include "runtime/cuda/typed.h"
#include "runtime/ops/op.h"

/* Blocks that have a place of their own for entries past shared memory. */
enum { BLOCKS = 264 };

typedef struct topk_state {
    const qn_cuda_fn *fn;
    size_t workspace;
} topk_state;

static int axis_of(const qn_node *node, const qn_shape *s)
{
    int64_t given = qn_node_int(node, "axis", -1);
    return (int)(given < 0 ? given + s->rank : given);
}

/* A short row is sorted whole; so is one of which nearly all is wanted. */
static int64_t slots_for(int64_t n, int64_t k, bool *select)
{
    int64_t slots = 1;
    *select = n > QN_TOPK_SHARED / 2 && k < n;
    while (slots < (*select ? k : n))
        slots *= 2;
    return slots;
}

static qn_status topk_prepare(qn_prepare *p, qn_error *err)
{
    topk_state *s;
    qn_status st = qn_cuda_state(p, sizeof *s, &s, err);
    if (st == QN_OK)
        st = qn_cuda_find_typed(p->accel, "topk", "topk", p->in[0].dtype,
                                &s->fn, err);
    if (st != QN_OK)
        return st;
    int axis = axis_of(p->node, &p->in[0].shape);
    bool select;
    int64_t k = p->out[0].shape.dims[axis];
    int64_t n = p->in[0].shape.dims[axis];
    int64_t slots = slots_for(n, k, &select);
    int64_t rows = n ? qn_count(&p->in[0]) / n : 0;
    if (slots <= QN_TOPK_SHARED || !k)
        return QN_OK;
    if (!qn_mul_size((size_t)slots * sizeof(struct qn_topk_entry),
                     (size_t)(rows < BLOCKS ? rows : BLOCKS), &s->workspace))
        return qn_fail(err, QN_TOO_LARGE, "no memory for %lld entries",
                       (long long)k);
    p->workspace = s->workspace;
    return QN_OK;
}

static qn_status topk_launch(const qn_launch *k)
{
    const topk_state *state = k->state;
    const qn_shape *s = &k->in[0].shape;
    int axis = axis_of(k->node, s);
    bool select;
    struct qn_topk_args a = {
        .x = k->in[0].data,
        .values = k->out[0].data,
        .indices = k->out[1].data,
        .n = s->dims[axis],
        .k = k->out[0].shape.dims[axis],
        .inner = qn_shape_product(s, axis + 1, s->rank),
        .flip = qn_node_int(k->node, "largest", 1) ? UINT64_MAX : 0,
        .entries = k->workspace,
    };
    a.rows = qn_shape_product(s, 0, axis) * a.inner;
    if (!a.k || !a.rows)
        return QN_OK;
    a.by_inner = qn_fastdiv_of(a.inner);
    a.slots = slots_for(a.n, a.k, &select);
    a.select = select;
    int64_t blocks = a.rows < INT32_MAX ? a.rows : INT32_MAX;
    if (a.slots > QN_TOPK_SHARED) {
        size_t fit = state->workspace /
                     ((size_t)a.slots * sizeof(struct qn_topk_entry));
        if (!fit)
            return qn_launch_fail(k, QN_INTERNAL,
                                  "the plan has no memory for %lld entries",
                                  (long long)a.k);
        blocks = (size_t)blocks < fit ? blocks : (int64_t)fit;
    }
    uint32_t threads = QN_TOPK_THREADS;
    while (!select && threads > 32 && threads > a.slots / 2)
        threads /= 2;
    qn_cuda_grid grid = { .grid = { (uint32_t)blocks },
                          .block = { threads } };
    return qn_cuda_launch(k, state->fn, &grid, &a);
}

static const qn_kernel kernels[] = {
    { .domain = "",
      .name = "TopK",
      .since = 1,
      .until = QN_OPSET_MAX,
      .prepare = topk_prepare,
      .launch = topk_launch },
};

QN_KERNEL_TABLE(qn_cuda_topk, kernels);

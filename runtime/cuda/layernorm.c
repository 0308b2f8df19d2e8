/* SPDX-License-Identifier: Apache-2.0 */
/* LayerNormalization and RMSNormalization over the trailing axes. */
#include "runtime/cuda/kernels/layernorm.h"
#include "runtime/cuda/tables.h"
#include "runtime/cuda/typed.h"
#include "runtime/ops/op.h"

typedef struct layer_state {
    const qn_cuda_fn *short_rows, *long_rows, *block, *any;
} layer_state;

static qn_status layer_prepare(qn_prepare *p, qn_error *err)
{
    layer_state *s;
    qn_dtype t = p->in[0].dtype;
    qn_status st = qn_cuda_state(p, sizeof *s, &s, err);
    if (st == QN_OK)
        st = qn_cuda_find_typed(p->accel, "layernorm", "layer_short", t,
                                &s->short_rows, err);
    if (st == QN_OK)
        st = qn_cuda_find_typed(p->accel, "layernorm", "layer_long", t,
                                &s->long_rows, err);
    if (st == QN_OK)
        st = qn_cuda_find_typed(p->accel, "layernorm", "layer_block", t,
                                &s->block, err);
    if (st == QN_OK)
        st = qn_cuda_find(p->accel, "layernorm", "layer_any", &s->any, err);
    return st;
}

/* Whether t has the trailing dimensions of x from `axis` on, and no more but
 * leading ones. */
static bool is_row(const qn_tensor *t, const qn_shape *x, int axis)
{
    int tail = x->rank - axis;
    if (t->shape.rank < tail)
        return false;
    for (int i = 0; i < t->shape.rank; i++) {
        int at_x = axis + i - (t->shape.rank - tail);
        if (t->shape.dims[i] != (at_x < axis ? 1 : x->dims[at_x]))
            return false;
    }
    return true;
}

static struct qn_layer_param param(const qn_tensor *t, const qn_shape *x)
{
    struct qn_layer_param p = { .data = t->data, .dtype = (int32_t)t->dtype };
    int64_t stride = 1;
    for (int d = x->rank - 1, e = t->shape.rank - 1; e >= 0; d--, e--) {
        /* axes in front of x's are of one element */
        if (d >= 0)
            p.stride[d] = t->shape.dims[e] != 1 ? stride : 0;
        stride *= t->shape.dims[e];
    }
    return p;
}

static void *optional(const qn_launch *k, uint32_t i)
{
    return i < k->n_out && qn_present(&k->out[i]) ? k->out[i].data : NULL;
}

static qn_status layer_launch(const qn_launch *k)
{
    const layer_state *state = k->state;
    const qn_tensor *x = &k->in[0];
    const qn_shape *s = &x->shape;
    const qn_tensor *bias =
        k->n_in > 2 && qn_present(&k->in[2]) ? &k->in[2] : NULL;
    int64_t given = qn_node_int(k->node, "axis", -1);
    int axis = (int)(given < 0 ? given + s->rank : given);
    struct qn_layer_args a = {
        .x = x->data,
        .y = k->out[0].data,
        .mean = optional(k, 1),
        .inv = optional(k, 2),
        .rows = qn_shape_product(s, 0, axis),
        .n = qn_shape_product(s, axis, s->rank),
        .epsilon = (double)qn_node_float(k->node, "epsilon", 1e-5f),
        .rms = k->node->op_name[0] == 'R',
        .x_type = (int32_t)x->dtype,
        .y_type = (int32_t)k->out[0].dtype,
        .rank = s->rank,
        .scale = param(&k->in[1], s),
    };
    for (uint32_t i = 1; i < k->n_out && i < 3; i++)
        if (qn_present(&k->out[i]))
            a.stat_type = (int32_t)k->out[i].dtype;
    for (int i = 0; i < s->rank; i++)
        a.dims[i] = s->dims[i];
    if (bias)
        a.bias = param(bias, s);
    if (!a.rows)
        return QN_OK;
    bool fast = k->in[1].dtype == x->dtype && is_row(&k->in[1], s, axis) &&
                (!bias || (bias->dtype == x->dtype && is_row(bias, s, axis)));
    bool warp = fast && a.n <= QN_LAYER_LONG;
    int64_t blocks = warp ? (a.rows + 7) / 8 : a.rows;
    qn_cuda_grid grid = {
        .grid = { (uint32_t)(blocks < INT32_MAX ? blocks : INT32_MAX) },
        .block = { fast && a.n > 8192 ? 1024 : 256 }
    };
    const qn_cuda_fn *fn = !fast                    ? state->any
                           : !warp                  ? state->block
                           : a.n <= QN_LAYER_SHORT ? state->short_rows
                                                    : state->long_rows;
    return qn_cuda_launch(k, fn, &grid, &a);
}

#define ROW(op)                                                      \
    {                                                                \
        .domain = "", .name = op, .since = 1, .until = QN_OPSET_MAX, \
        .prepare = layer_prepare, .launch = layer_launch             \
    }

static const qn_kernel kernels[] = {
    ROW("LayerNormalization"),
    ROW("RMSNormalization"),
};

QN_KERNEL_TABLE(qn_cuda_layernorm, kernels);

/* SPDX-License-Identifier: Apache-2.0 */
/* ai.quern.Chain: its program, once per plan, and its operands, each launch. */
#include "runtime/cuda/kernels/chain.h"

#include "runtime/base/half.h"
#include "runtime/cuda/tables.h"
#include "runtime/cuda/walk.h"
#include "runtime/ops/chain.h"

#include <stdio.h>

_Static_assert((int)QN_CHAIN_ARG_INPUTS == (int)QN_CHAIN_INPUTS &&
                   (int)QN_CHAIN_ARG_STEPS == (int)QN_CHAIN_STEPS &&
                   (int)QN_CHAIN_ARG_NONE == (int)QN_CHAIN_UNARY &&
                   (int)QN_CHAIN_ARG_CONST == (int)QN_CHAIN_CONST &&
                   (int)QN_CHAIN_ARG_INPUT == (int)QN_CHAIN_INPUT,
               "device code has numbers of its own");

typedef struct state {
    const qn_cuda_fn *fn;
    qn_cuda_grid grid;
    int width;
    int n;
    struct qn_chain_arg steps[QN_CHAIN_STEPS];
} state;

static bool is_rare(int op)
{
    return op == QN_PW_fmod || op == QN_PW_pow ||
           (op >= QN_PW_sin && op < QN_PW_UNARY_COUNT);
}

/* A constant, as a tensor of this type would have had it. */
static float rounded(qn_dtype dtype, float v)
{
    return dtype == QN_F16    ? qn_f16_to_f32(qn_f32_to_f16(v))
           : dtype == QN_BF16 ? qn_bf16_to_f32(qn_f32_to_bf16(v))
                              : v;
}

static qn_status prepare(qn_prepare *p, qn_error *err)
{
    const qn_tensor *x = &p->in[0];
    char name[32];
    qn_chain chain;
    bool full = false;
    qn_status st = qn_chain_read(p->node, &chain, err);
    if (st != QN_OK)
        return st;
    state *s = qn_region_alloc(p->region, 1, sizeof *s);
    if (!s)
        return qn_fail(err, QN_NO_MEMORY, "no memory for a kernel's state");
    s->n = (int)chain.n;
    for (uint32_t i = 0; i < chain.n; i++) {
        const qn_chain_step *c = &chain.steps[i];
        bool number = c->kind == QN_CHAIN_CONST;
        s->steps[i] = (struct qn_chain_arg){
            .op = c->op,
            .kind = (int32_t)c->kind,
            .input = (int32_t)c->input,
            .left = c->left,
            .a = number ? rounded(x->dtype, c->a) : c->a,
            .b = c->b,
        };
        full |= is_rare(c->op);
    }
    s->width = qn_cuda_width(qn_dtype_size(x->dtype), 1);
    s->grid = qn_cuda_walk_grid(p->accel, qn_count(x), s->width);
    snprintf(name, sizeof name, "chain_%s%s",
             full && x->dtype == QN_F32 ? "full_" : "",
             qn_cuda_suffix(x->dtype));
    p->state = s;
    return qn_cuda_find(p->accel, "chain", name, &s->fn, err);
}

static qn_status launch(const qn_launch *k)
{
    const state *s = k->state;
    const size_t bytes = qn_dtype_size(k->in[0].dtype);
    const qn_shape *shapes[QN_CHAIN_INPUTS];
    const void *data[QN_CHAIN_INPUTS];
    size_t size[QN_CHAIN_INPUTS];
    struct qn_chain_args a = { .n = s->n };
    qn_status st = QN_OK;
    qn_cuda_merge m;
    qn_cuda_part p;
    for (uint32_t i = 0; i < k->n_in; i++) {
        /* an omitted input is no step's: any will do */
        const qn_tensor *t = &k->in[qn_present(&k->in[i]) ? i : 0];
        shapes[i] = &t->shape;
        data[i] = t->data;
        size[i] = bytes;
    }
    for (int i = 0; i < s->n; i++)
        a.steps[i] = s->steps[i];
    qn_cuda_merge_init(&m, &k->out[0].shape, (int)k->n_in, shapes);
    qn_cuda_part_init(&p, &m, QN_WALK_MOST);
    while (st == QN_OK && qn_cuda_part_next(&p)) {
        qn_cuda_part_walk(&p, data, size, k->out[0].data, bytes, s->width,
                          &a.walk);
        for (int i = 0; i < (int)k->n_in; i++)
            qn_cuda_part_operand(&p, i, data[i], bytes, &a.in[i]);
        a.y = qn_cuda_part_out(&p, k->out[0].data, bytes);
        st = qn_cuda_launch(k, s->fn, &s->grid, &a);
    }
    return st;
}

static const qn_kernel rows[] = {
    { .domain = "ai.quern", .name = "Chain", .since = 1, .until = 1,
      .prepare = prepare, .launch = launch },
};

QN_KERNEL_TABLE(qn_cuda_chain, rows);

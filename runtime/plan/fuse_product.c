/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products on accelerators take along what their libraries add for nothing:
 *
 *   MatMul ─ Add(bias) ─ Add(residual) ─ Relu      one launch
 *   Gemm ─ Add(residual)
 *
 * The bias has one element for each column. Sums of float are those of the
 * steps one by one, but for the order in which bias and residual come; those of
 * 16-bit types are rounded once instead of each time.
 */
#include "runtime/plan/fuse.h"

#include "runtime/exec/kernel.h"
#include "runtime/ops/op.h"

/* All dimensions but the last are 1, and the last is as long as the rows. */
static bool is_row(const qn_shape *bias, const qn_shape *out)
{
    if (bias->rank < 1 || bias->rank > out->rank || out->rank < 1 ||
        bias->dims[bias->rank - 1] != out->dims[out->rank - 1])
        return false;
    for (int i = 0; i + 1 < bias->rank; i++)
        if (bias->dims[i] != 1)
            return false;
    return true;
}

/* The other operand of an Add that reads `v`, which keeps its shape; NO_VALUE
 * if the step is none. */
static uint32_t addend(const qn_fuse *f, const qn_bstep *add, uint32_t v)
{
    if (!qn_fuse_named(add->node, "Add") || add->node->opset < 7 ||
        add->n_in != 2 || add->in[0] == add->in[1])
        return QN_NO_VALUE;
    const qn_bvalue *x = &f->b->values[v], *y = &f->b->values[add->out[0]];
    return x->order == y->order && qn_shape_equal(&x->shape, &y->shape)
               ? add->in[add->in[0] == v] : QN_NO_VALUE;
}

static qn_status fuse_bias(const qn_fuse *f, uint32_t i)
{
    qn_bstep *s = &f->b->steps[i];
    qn_bstep *add = qn_fuse_only_reader(f, i, s->out[0], NULL);
    if (s->n_in != 2 || !add)
        return QN_OK;
    uint32_t bias = addend(f, add, s->out[0]);
    if (!qn_fuse_ready(f, bias, s->space, i))
        return QN_OK;
    const qn_bvalue *v = &f->b->values[bias], *y = &f->b->values[s->out[0]];
    /* a vector as B leaves the output without an axis for its columns */
    if (v->dtype != y->dtype || v->order != QN_ORDER_PLAIN ||
        y->order != QN_ORDER_PLAIN || !is_row(&v->shape, &y->shape) ||
        f->b->values[s->in[1]].shape.rank < 2)
        return QN_OK;
    qn_node *node;
    uint32_t *in = qn_region_alloc(&f->b->scratch, 3, sizeof *in);
    if (!in)
        return qn_fail(f->b->err, QN_NO_MEMORY, "no memory to fuse");
    qn_status st = qn_fuse_own_node(f, s, &node);
    if (st != QN_OK)
        return st;
    in[0] = s->in[0];
    in[1] = s->in[1];
    in[2] = bias;
    node->bias = true;
    s->in = in;
    s->n_in = 3;
    s->out[0] = add->out[0];
    qn_fuse_absorb(f, add);
    f->b->fused.sums++;
    return QN_OK;
}

/* Is there room for a residual? Libraries have one operand of the output's
 * shape, and a Gemm's C may need it. */
static bool takes_residual(const qn_fuse *f, const qn_bstep *s)
{
    if (s->n_in < 3 || s->in[2] == QN_NO_VALUE)
        return true;
    return qn_node_float(s->node, "beta", 1) == 1 &&
           is_row(&f->b->values[s->in[2]].shape,
                  &f->b->values[s->out[0]].shape);
}

qn_status qn_fuse_product(const qn_fuse *f, uint32_t i)
{
    const qn_bstep *s = &f->b->steps[i];
    qn_dtype dtype = f->b->values[s->out[0]].dtype;
    qn_status st = QN_OK;
    if (dtype != QN_F32 && dtype != QN_F16 && dtype != QN_BF16)
        return QN_OK;
    if (qn_fuse_named(s->node, "MatMul"))
        st = fuse_bias(f, i);
    return st == QN_OK && takes_residual(f, s) ? qn_fuse_residual(f, i) : st;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* MatMul and Gemm: what is multiplied with what. How: product.c. */
#include "runtime/cuda/product.h"
#include "runtime/cuda/tables.h"

#include "runtime/ops/op.h"

#include <math.h>
#include <string.h>

/* Steps, in matrices, of an operand through the batch `of->dims`. */
static void batch_steps(const qn_shape *s, const qn_cuda_product_of *of,
                        int64_t *step)
{
    int64_t run = 1;
    for (int i = 0; i < of->rank; i++) {
        const int at = of->rank - 1 - i, own = s->rank - 3 - i;
        const int64_t d = own >= 0 ? s->dims[own] : 1;
        step[at] = d == 1 && of->dims[at] != 1 ? 0 : run;
        run *= d;
    }
}

static void read_matmul(const qn_shape *a, const qn_shape *b,
                        qn_cuda_product_of *of)
{
    const int wide_a = a->rank > 2 ? a->rank - 2 : 0;
    const int wide_b = b->rank > 2 ? b->rank - 2 : 0;
    const int64_t stack = wide_b ? qn_shape_product(b, 0, wide_b) : 1;

    of->m = a->rank > 1 ? a->dims[a->rank - 2] : 1;
    of->k = a->dims[a->rank - 1];
    of->n = b->rank > 1 ? b->dims[b->rank - 1] : 1;
    if (stack == 1 && wide_b <= wide_a) {
        /* one B for all: the batch of A is more rows */
        of->m *= qn_shape_product(a, 0, wide_a);
        return;
    }
    of->rank = wide_a > wide_b ? wide_a : wide_b;
    for (int i = 0; i < of->rank; i++) {
        const int ia = wide_a - 1 - i, ib = wide_b - 1 - i;
        const int64_t da = ia >= 0 ? a->dims[ia] : 1;
        const int64_t db = ib >= 0 ? b->dims[ib] : 1;
        of->dims[of->rank - 1 - i] = da == 1 ? db : da;
    }
    batch_steps(a, of, of->step_a);
    batch_steps(b, of, of->step_b);
}

static void read_gemm(const qn_node *node, const qn_shape *a, const qn_shape *b,
                      qn_cuda_product_of *of)
{
    of->trans_a = qn_node_int(node, "transA", 0) != 0;
    of->trans_b = qn_node_int(node, "transB", 0) != 0;
    of->alpha = (double)qn_node_float(node, "alpha", 1);
    of->beta = (double)qn_node_float(node, "beta", 1);
    of->m = a->dims[of->trans_a];
    of->k = a->dims[!of->trans_a];
    of->n = b->dims[!of->trans_b];
}

/* Integers take alpha and beta that are whole numbers, as on the cpu. */
static bool whole(double x)
{
    return x == floor(x) && x > -0x1p24 && x < 0x1p24;
}

/* Of a Gemm; of a MatMul it is node->bias. */
static bool has_c(const qn_node *node, uint32_t n_in, const qn_tensor *in)
{
    return n_in - node->residual > 2 && qn_present(&in[2]);
}

static qn_status prepare(qn_prepare *q, qn_error *err)
{
    const qn_node *node = q->node;
    const qn_dtype dtype = q->in[0].dtype;
    const qn_cuda_product *p;
    qn_cuda_product_of of = {
        .in = dtype, .out = dtype, .precision = q->precision, .alpha = 1,
        .beta = 1, .residual = node->residual, .act = node->act,
        .act_a = node->act_a, .act_b = node->act_b,
    };
    if (!strcmp(node->op->name, "Gemm"))
        read_gemm(node, &q->in[0].shape, &q->in[1].shape, &of);
    else
        read_matmul(&q->in[0].shape, &q->in[1].shape, &of);
    if (!qn_dtypes_has(QN_TYPES_FLOAT, dtype) &&
        !(whole(of.alpha) && whole(of.beta)))
        return qn_fail(err, QN_UNSUPPORTED, "alpha %g and beta %g with %s: only "
                       "whole numbers", of.alpha, of.beta, qn_dtype_name(dtype));
    if (has_c(node, q->n_in, q->in)) {
        const qn_shape *c = &q->in[2].shape;
        of.c_cols = c->rank ? c->dims[c->rank - 1] : 1;
        of.c_rows = c->rank > 1 ? c->dims[c->rank - 2] : 1;
    }
    qn_status st = qn_cuda_product_prepare(q, &of, &p, &q->workspace, err);
    q->state = p;
    return st;
}

static qn_status launch(const qn_launch *k)
{
    const bool c = has_c(k->node, k->n_in, k->in);
    return qn_cuda_product_launch(
        k, k->state, k->in[0].data, k->in[1].data, c ? k->in[2].data : NULL,
        k->node->residual ? k->in[k->n_in - 1].data : NULL, k->out[0].data,
        k->workspace);
}

static bool is_f32(const qn_node *node, uint32_t n_in, const qn_dtype *in)
{
    (void)node, (void)n_in;
    return in[0] == QN_F32;
}

/* activations are applied to float only */
#define ROWS(op)                                                               \
    { .domain = "", .name = op, .since = 1, .until = UINT16_MAX,               \
      .flags = QN_KERNEL_FUSES | QN_KERNEL_ADDS, .supports = is_f32,           \
      .prepare = prepare, .launch = launch },                                  \
    { .domain = "", .name = op, .since = 1, .until = UINT16_MAX,               \
      .flags = QN_KERNEL_ADDS, .prepare = prepare, .launch = launch }

static const qn_kernel rows[] = { ROWS("MatMul"), ROWS("Gemm") };

QN_KERNEL_TABLE(qn_cuda_matmul, rows);

/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of one tensor: which kernel of kernels/unary.cu, with what. */
#include "runtime/cuda/kernels/unary.h"

#include "runtime/cuda/tables.h"
#include "runtime/cuda/walk.h"
#include "runtime/ops/chain.h"
#include "runtime/ops/op.h"

#include <stdio.h>
#include <string.h>

typedef struct state {
    const qn_cuda_fn *fn;
    qn_cuda_grid grid;
    qn_pointwise f; /* predicates: op is QN_TEST_* */
    int width;      /* elements of one access */
} state;

static const char *class_of(const qn_pointwise *f, qn_dtype dtype)
{
    bool rare = f->op >= QN_PW_sin && f->op < QN_PW_UNARY_COUNT;
    return rare && qn_dtypes_has(QN_TYPES_FLOAT, dtype) ? "rare_" : "";
}

static qn_status prepare_as(qn_prepare *p, const qn_pointwise *f,
                            const char *class, qn_error *err)
{
    const qn_tensor *x = &p->in[0];
    const char *suffix = qn_dtypes_has(QN_TYPES_F8, x->dtype)
                             ? "f8"
                             : qn_cuda_suffix(x->dtype);
    char name[32];
    state *s = qn_region_alloc(p->region, 1, sizeof *s);
    if (!s)
        return qn_fail(err, QN_NO_MEMORY, "no memory for a kernel's state");
    s->f = *f;
    s->width = qn_cuda_width(qn_dtype_size(x->dtype), 1);
    s->grid = qn_cuda_walk_grid(p->accel, qn_count(x), s->width);
    snprintf(name, sizeof name, "unary_%s%s", class, suffix);
    p->state = s;
    return qn_cuda_find(p->accel, "unary", name, &s->fn, err);
}

static qn_status prepare(qn_prepare *p, qn_error *err)
{
    qn_pointwise f;
    if (!qn_pointwise_unary(p->node, &f))
        return qn_fail(err, QN_INTERNAL, "%s is no function of one element",
                       p->node->op->name);
    return prepare_as(p, &f, class_of(&f, p->in[0].dtype), err);
}

static qn_status prepare_test(qn_prepare *p, qn_error *err)
{
    qn_pointwise f = { .op = QN_TEST_NAN };
    if (!strcmp(p->node->op->name, "IsInf")) {
        f.op = 0;
        if (qn_node_int(p->node, "detect_positive", 1))
            f.op |= QN_TEST_POSITIVE;
        if (qn_node_int(p->node, "detect_negative", 1))
            f.op |= QN_TEST_NEGATIVE;
    }
    return prepare_as(p, &f, "test_", err);
}

static const void *input(const qn_launch *k, uint32_t i)
{
    return i < k->n_in && qn_present(&k->in[i]) ? k->in[i].data : NULL;
}

static qn_status launch(const qn_launch *k)
{
    const state *s = k->state;
    const qn_tensor *x = &k->in[0];
    const qn_shape *shape = &x->shape;
    const void *data = x->data;
    const size_t in = qn_dtype_size(x->dtype);
    const size_t out = qn_dtype_size(k->out[0].dtype);
    struct qn_unary_args a = { .op = s->f.op,
                               .a = (double)s->f.a,
                               .b = (double)s->f.b,
                               .dtype = (int32_t)x->dtype };
    qn_cuda_merge m;
    qn_cuda_part p;
    if (s->f.op == QN_PW_clip) {
        a.low = input(k, 1);
        a.high = input(k, 2);
    }
    qn_cuda_merge_init(&m, shape, 1, &shape);
    qn_cuda_part_init(&p, &m, QN_WALK_MOST);
    while (qn_cuda_part_next(&p)) {
        qn_cuda_part_walk(&p, &data, &in, k->out[0].data, out, s->width,
                          &a.walk);
        qn_cuda_part_operand(&p, 0, data, in, &a.x);
        a.y = qn_cuda_part_out(&p, k->out[0].data, out);
        qn_status st = qn_cuda_launch(k, s->fn, &s->grid, &a);
        if (st != QN_OK)
            return st;
    }
    return QN_OK;
}

#define OPERATORS(X)                                                           \
    X(Relu) X(Sigmoid) X(Tanh) X(HardSigmoid) X(HardSwish) X(LeakyRelu) X(Elu) \
    X(Selu) X(Celu) X(Mish) X(Gelu) X(Swish) X(Softplus) X(Softsign)           \
    X(ThresholdedRelu) X(Shrink) X(Clip) X(Abs) X(Neg) X(Sign) X(Floor)        \
    X(Ceil) X(Round) X(Sqrt) X(Reciprocal) X(Exp) X(Log) X(Erf) X(Sin) X(Cos)  \
    X(Tan) X(Asin) X(Acos) X(Atan) X(Sinh) X(Cosh) X(Asinh) X(Acosh) X(Atanh)  \
    X(Not) X(BitwiseNot)

static const qn_kernel rows[] = {
#define ROW(op)                                                                \
    { .name = #op, .domain = "", .since = 1, .until = UINT16_MAX,              \
      .prepare = prepare, .launch = launch },
    OPERATORS(ROW)
#undef ROW
    { .name = "IsNaN", .domain = "", .since = 1, .until = UINT16_MAX,
      .prepare = prepare_test, .launch = launch },
    { .name = "IsInf", .domain = "", .since = 1, .until = UINT16_MAX,
      .prepare = prepare_test, .launch = launch },
};

QN_KERNEL_TABLE(qn_cuda_unary, rows);

/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of two tensors: which kernel of kernels/binary.cu, with what. Max,
 * Min and Sum of two come here too; of more: variadic.c. */
#include "runtime/cuda/kernels/binary.h"

#include "runtime/cuda/tables.h"
#include "runtime/cuda/walk.h"
#include "runtime/ops/binary.h"
#include "runtime/ops/chain.h"
#include "runtime/ops/op.h"

#include <stdio.h>

typedef struct state {
    const qn_cuda_fn *fn;
    qn_cuda_grid grid;
    int op;
    int width; /* elements of one access */
} state;

/* In which type Pow of two types is computed: runtime/cpu/binary_pow.c. */
static const char *pow_type(qn_dtype base, qn_dtype exponent)
{
    const qn_dtypes exact = QN_BIT(F32) | QN_BIT(F16) | QN_BIT(BF16) |
                            QN_BIT(I8) | QN_BIT(U8) | QN_BIT(I16) |
                            QN_BIT(U16);
    if (qn_dtypes_has(QN_TYPES_INT, base))
        return qn_dtypes_has(QN_TYPES_INT, exponent) ? "i64" : "f64";
    return base != QN_F64 && qn_dtypes_has(exact, exponent) ? "f32" : "f64";
}

static void name_of(int op, qn_dtype a, qn_dtype b, int *width, char name[32])
{
    bool real = qn_dtypes_has(QN_TYPES_FLOAT, a);
    const char *class = "", *suffix = qn_cuda_suffix(a);
    if (op == QN_PW_pow && (a != b || !real)) {
        class = "pow_";
        suffix = pow_type(a, b);
        *width = 1;
    } else if (op >= QN_PW_eq) {
        class = "compare_";
    } else if (real) {
        class = op == QN_PW_fmod || op == QN_PW_pow ? "rare_" : "";
    } else if (op == QN_PW_div || op == QN_PW_mod || op == QN_PW_fmod) {
        class = "divide_";
        *width = 1;
    }
    snprintf(name, 32, "binary_%s%s", class, suffix);
}

static qn_status prepare(qn_prepare *p, qn_error *err)
{
    const qn_tensor *y = &p->out[0];
    qn_pointwise f;
    char name[32];
    if (!qn_pointwise_binary(p->node, &f))
        return qn_fail(err, QN_INTERNAL, "%s is no function of two elements",
                       p->node->op->name);
    state *s = qn_region_alloc(p->region, 1, sizeof *s);
    if (!s)
        return qn_fail(err, QN_NO_MEMORY, "no memory for a kernel's state");
    s->op = f.op;
    s->width = qn_cuda_width(qn_dtype_size(p->in[0].dtype), 1);
    name_of(f.op, p->in[0].dtype, p->in[1].dtype, &s->width, name);
    s->grid = qn_cuda_walk_grid(p->accel, qn_count(y), s->width);
    p->state = s;
    return qn_cuda_find(p->accel, "binary", name, &s->fn, err);
}

static qn_status launch(const qn_launch *k)
{
    const state *s = k->state;
    const void *data[2] = { k->in[0].data, k->in[1].data };
    const size_t size[2] = { qn_dtype_size(k->in[0].dtype),
                             qn_dtype_size(k->in[1].dtype) };
    const size_t out = qn_dtype_size(k->out[0].dtype);
    struct qn_binary_args a = { .op = s->op,
                                .dtype = { (int32_t)k->in[0].dtype,
                                           (int32_t)k->in[1].dtype },
                                .fault = qn_cuda_fault(k) };
    qn_shape rhs = k->in[1].shape;
    const qn_shape *shapes[2] = { &k->in[0].shape, &rhs };
    qn_status st = QN_OK;
    qn_cuda_merge m;
    qn_cuda_part p;
    if (k->node->op->until < 7)
        st = qn_binary_rhs(k->node, &k->in[0].shape, &k->in[1].shape, &rhs,
                           k->err);
    if (st != QN_OK)
        return st;
    qn_cuda_merge_init(&m, &k->out[0].shape, 2, shapes);
    qn_cuda_part_init(&p, &m, QN_WALK_MOST);
    while (st == QN_OK && qn_cuda_part_next(&p)) {
        qn_cuda_part_walk(&p, data, size, k->out[0].data, out, s->width,
                          &a.walk);
        for (int i = 0; i < 2; i++)
            qn_cuda_part_operand(&p, i, data[i], size[i], &a.in[i]);
        a.y = qn_cuda_part_out(&p, k->out[0].data, out);
        a.at = p.out_at;
        st = qn_cuda_launch(k, s->fn, &s->grid, &a);
    }
    return st;
}

static bool numbers(const qn_node *node, uint32_t n_in, const qn_dtype *in)
{
    (void)node, (void)n_in;
    return in[0] != QN_STRING;
}

static bool two(const qn_node *node, uint32_t n_in, const qn_dtype *in)
{
    (void)node, (void)in;
    return n_in == 2;
}

#define OPERATORS(X)                                                           \
    X(Add) X(Sub) X(Mul) X(Div) X(PRelu) X(And) X(Or) X(Xor) X(BitwiseAnd)     \
    X(BitwiseOr) X(BitwiseXor) X(Less) X(LessOrEqual) X(Mod) X(BitShift)       \
    X(Equal) X(Greater) X(GreaterOrEqual) X(Pow)

static const qn_kernel rows[] = {
#define ROW(op)                                                                \
    { .name = #op, .domain = "", .since = 1, .until = UINT16_MAX,              \
      .supports = numbers, .prepare = prepare, .launch = launch },
    OPERATORS(ROW)
#undef ROW
#define ROW(op)                                                                \
    { .name = #op, .domain = "", .since = 1, .until = UINT16_MAX,              \
      .supports = two, .prepare = prepare, .launch = launch },
    ROW(Max) ROW(Min) ROW(Sum)
#undef ROW
};

QN_KERNEL_TABLE(qn_cuda_binary, rows);

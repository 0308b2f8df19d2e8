/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of random graphs, each with operands that suit it. */
#include "tests/support/random_nodes.h"

#include <string.h>

static bool one_of(rg *r, rg_scope *s, const char *const *ops, size_t n, rg_want w)
{
    rg_spec k = { .op = ops[rg_below(r, (uint32_t)n)], .n_in = 1, .n_out = 1 };
    return rg_pick(r, s, w, &k.in[0]) && rg_add(r, s, &k, NULL);
}

static bool gen_unary(rg *r, rg_scope *s)
{
    static const char *const calm[] = { "Relu", "Neg",     "Abs",
                                        "Tanh", "Sigmoid", "LeakyRelu",
                                        "HardSwish", "HardSigmoid" };
    static const char *const wild[] = { "Exp",  "Sqrt",  "Floor", "Log",  "Ceil",
                                        "Sign", "Round", "Erf",   "Softplus",
                                        "Reciprocal", "Sin" };
    static const char *const whole[] = { "Neg", "Abs", "Sign" };
    static const rg_want i64 = { QN_BIT(I64), 0, 5, false },
                      boolean = { QN_BIT(BOOL), 0, 5, false };
    static const char *const logic[] = { "Not" };
    switch (rg_below(r, 6)) {
    case 0:
        return one_of(r, s, wild, COUNT(wild), rg_exact_real);
    case 1:
        return one_of(r, s, whole, COUNT(whole), i64);
    case 2:
        return one_of(r, s, logic, COUNT(logic), boolean);
    default:
        return one_of(r, s, calm, COUNT(calm), rg_real);
    }
}

/* A second operand: the same, another value, or a constant that broadcasts. */
static bool partner(rg *r, rg_scope *s, const rg_value *a, rg_value *out)
{
    rg_want w = { (qn_dtypes)1 << a->t.dtype, 0, 5, false };
    if (rg_chance(r, 10)) {
        *out = *a;
        return true;
    }
    if (rg_chance(r, 55) && rg_pick(r, s, w, out))
        return true;
    qn_shape shape = a->t.shape;
    while (shape.rank && rg_chance(r, 40)) {
        shape.rank--;
        memmove(shape.dims, shape.dims + 1,
                (size_t)shape.rank * sizeof shape.dims[0]);
    }
    for (int i = 0; i < shape.rank; i++)
        if (rg_chance(r, 40))
            shape.dims[i] = 1;
    *out = rg_some_constant(r, s, a->t.dtype, shape);
    return true;
}

static bool gen_binary(rg *r, rg_scope *s)
{
    static const char *const ops[] = { "Add", "Sub", "Mul", "Add", "Max",
                                       "Min", "Div" };
    rg_spec k = { .op = ops[rg_below(r, COUNT(ops))], .n_in = 2, .n_out = 1 };
    bool divides = !strcmp(k.op, "Div");
    if (!rg_pick(r, s, divides ? rg_exact_real : rg_number, &k.in[0]) ||
        !partner(r, s, &k.in[0], &k.in[1]) || (divides && k.in[1].inexact))
        return false;
    if (rg_chance(r, 50)) {
        rg_value t = k.in[0];
        k.in[0] = k.in[1];
        k.in[1] = t;
    }
    return rg_add(r, s, &k, NULL);
}

static bool gen_variadic(rg *r, rg_scope *s)
{
    static const char *const ops[] = { "Sum", "Max", "Min", "Mean" };
    rg_spec k = { .op = ops[rg_below(r, COUNT(ops))], .n_in = 1 + rg_below(r, 4),
               .n_out = 1 };
    if (!rg_pick(r, s, rg_real, &k.in[0]))
        return false;
    for (uint32_t i = 1; i < k.n_in; i++)
        if (!partner(r, s, &k.in[rg_below(r, i)], &k.in[i]))
            return false;
    return rg_add(r, s, &k, NULL);
}

static bool gen_compare(rg *r, rg_scope *s)
{
    static const char *const ops[] = { "Greater", "Less", "Equal" };
    rg_spec k = { .op = ops[rg_below(r, COUNT(ops))], .n_in = 2, .n_out = 1 };
    rg_want w = rg_number;
    w.exact = true;
    return rg_pick(r, s, w, &k.in[0]) && partner(r, s, &k.in[0], &k.in[1]) &&
           !k.in[1].inexact && rg_add(r, s, &k, NULL);
}

static bool gen_where(rg *r, rg_scope *s)
{
    static const rg_want boolean = { QN_BIT(BOOL), 0, 5, true };
    rg_spec k = { .op = "Where", .n_in = 3, .n_out = 1 };
    return rg_pick(r, s, boolean, &k.in[0]) && rg_pick(r, s, rg_number, &k.in[1]) &&
           partner(r, s, &k.in[1], &k.in[2]) && rg_add(r, s, &k, NULL);
}

static bool gen_cast(rg *r, rg_scope *s)
{
    static const qn_dtype to[] = { QN_F32, QN_I64, QN_BOOL };
    rg_spec k = { .op = "Cast", .n_in = 1, .n_out = 1 };
    rg_want w = rg_any_type;
    w.exact = true;
    rg_attr_int(&k, "to", (int64_t)to[rg_below(r, 3)]);
    return rg_pick(r, s, w, &k.in[0]) && rg_add(r, s, &k, NULL);
}

static bool gen_reshape(rg *r, rg_scope *s)
{
    rg_spec k = { .op = "Reshape", .n_in = 2, .n_out = 1 };
    if (!rg_pick(r, s, rg_any_type, &k.in[0]))
        return false;
    const qn_shape *from = &k.in[0].t.shape;
    int64_t to[6], n = 0;
    switch (rg_below(r, 4)) {
    case 0:
        to[n++] = -1;
        break;
    case 1: /* merge the first two */
        if (from->rank < 2)
            return false;
        to[n++] = -1;
        for (int i = 2; i < from->rank; i++)
            to[n++] = rg_chance(r, 50) && from->dims[i] ? from->dims[i] : 1;
        break;
    case 2: /* split one off */
        to[n++] = 1;
        for (int i = 0; i < from->rank && n < 5; i++)
            to[n++] = from->dims[i];
        break;
    default: { /* the shape of something else */
        rg_spec shape = { .op = "Shape", .n_in = 1, .n_out = 1 };
        return rg_pick(r, s, rg_any_type, &shape.in[0]) &&
               rg_add(r, s, &shape, &k.in[1]) && rg_add(r, s, &k, NULL);
    }
    }
    k.in[1] = rg_ints(s, n, to);
    return rg_add(r, s, &k, NULL);
}

static bool gen_view(rg *r, rg_scope *s)
{
    rg_spec k = { .n_in = 1, .n_out = 1 };
    if (!rg_pick(r, s, rg_any_type, &k.in[0]))
        return false;
    int rank = k.in[0].t.shape.rank;
    int64_t axis = (int64_t)rg_below(r, (uint32_t)rank + 1) - (rg_chance(r, 30) ? rank : 0);
    switch (rg_below(r, 4)) {
    case 0:
        k.op = "Identity";
        break;
    case 1:
        k.op = "Flatten";
        rg_attr_int(&k, "axis", axis);
        break;
    case 2:
        k.op = "Squeeze";
        if (rg_chance(r, 50)) {
            k.n_in = 2;
            k.in[1] = rg_ints(s, 1, &axis);
        }
        break;
    default:
        k.op = "Unsqueeze";
        k.n_in = 2;
        k.in[1] = rg_ints(s, 1, &axis);
    }
    return rg_add(r, s, &k, NULL);
}

static bool gen_transpose(rg *r, rg_scope *s)
{
    rg_spec k = { .op = "Transpose", .n_in = 1, .n_out = 1 };
    int64_t perm[6];
    if (!rg_pick(r, s, rg_any_type, &k.in[0]))
        return false;
    uint32_t rank = (uint32_t)k.in[0].t.shape.rank;
    for (uint32_t i = 0; i < rank; i++)
        perm[i] = i;
    for (uint32_t i = rank; i-- > 1;) {
        uint32_t j = rg_below(r, i + 1);
        int64_t t = perm[i];
        perm[i] = perm[j];
        perm[j] = t;
    }
    if (rank && rg_chance(r, 80))
        rg_attr_ints(s, &k, "perm", rank, perm);
    return rg_add(r, s, &k, NULL);
}

static bool gen_concat(rg *r, rg_scope *s)
{
    rg_spec k = { .op = "Concat", .n_in = 1 + rg_below(r, 4), .n_out = 1 };
    rg_want w = rg_any_type;
    w.min_rank = 1;
    if (!rg_pick(r, s, w, &k.in[0]))
        return false;
    int rank = k.in[0].t.shape.rank;
    int64_t axis = (int64_t)rg_below(r, (uint32_t)rank);
    for (uint32_t i = 1; i < k.n_in; i++) {
        rg_want like = { (qn_dtypes)1 << k.in[0].t.dtype, rank, rank, false };
        if (rg_chance(r, 40) && rg_pick(r, s, like, &k.in[i]))
            continue;
        qn_shape shape = k.in[0].t.shape;
        shape.dims[axis] = rg_below(r, 4);
        k.in[i] = rg_chance(r, 60) ? k.in[0]
                                : rg_some_constant(r, s, k.in[0].t.dtype, shape);
    }
    rg_attr_int(&k, "axis", rg_chance(r, 30) ? axis - rank : axis);
    return rg_add(r, s, &k, NULL);
}

static bool gen_slice(rg *r, rg_scope *s)
{
    rg_spec k = { .op = "Slice", .n_in = 5, .n_out = 1 };
    rg_want w = rg_any_type;
    w.min_rank = 1;
    if (!rg_pick(r, s, w, &k.in[0]))
        return false;
    uint32_t rank = (uint32_t)k.in[0].t.shape.rank;
    int64_t axis = rg_below(r, rank), step = 1 + (int64_t)rg_below(r, 2);
    int64_t start = (int64_t)rg_below(r, 5) - 2, end = (int64_t)rg_below(r, 9) - 3;
    if (rg_chance(r, 25)) {
        step = -1;
        start = -1;
        end = -100;
    }
    k.in[1] = rg_ints(s, 1, &start);
    k.in[2] = rg_ints(s, 1, &end);
    k.in[3] = rg_ints(s, 1, &axis);
    k.in[4] = rg_ints(s, 1, &step);
    return rg_add(r, s, &k, NULL);
}

static bool gen_split(rg *r, rg_scope *s)
{
    rg_spec k = { .op = "Split", .n_in = 1, .n_out = 2 + rg_below(r, 2) };
    rg_want w = rg_any_type;
    w.min_rank = 1;
    if (!rg_pick(r, s, w, &k.in[0]))
        return false;
    uint32_t rank = (uint32_t)k.in[0].t.shape.rank;
    int64_t axis = rg_below(r, rank), n = k.in[0].t.shape.dims[axis];
    rg_attr_int(&k, "axis", axis);
    if (rg_chance(r, 50)) {
        rg_attr_int(&k, "num_outputs", k.n_out);
    } else {
        int64_t parts[3] = { 0 };
        for (int64_t i = 0; i < n; i++)
            parts[rg_below(r, k.n_out)]++;
        k.in[1] = rg_ints(s, k.n_out, parts);
        k.n_in = 2;
    }
    return rg_add(r, s, &k, NULL);
}

static bool gen_expand(rg *r, rg_scope *s)
{
    rg_spec k = { .op = "Expand", .n_in = 2, .n_out = 1 };
    rg_spec shape = { .op = "Shape", .n_in = 1, .n_out = 1 };
    if (!rg_pick(r, s, rg_any_type, &k.in[0]))
        return false;
    if (rg_chance(r, 50)) {
        qn_shape to = rg_some_shape(r, (int)rg_below(r, 4));
        k.in[1] = rg_ints(s, to.rank, to.dims);
    } else if (!rg_pick(r, s, rg_any_type, &shape.in[0]) ||
               !rg_add(r, s, &shape, &k.in[1])) {
        return false;
    }
    return rg_add(r, s, &k, NULL);
}

static bool gen_gather(rg *r, rg_scope *s)
{
    static const rg_want index = { QN_BIT(I64), 0, 2, false };
    rg_spec k = { .op = "Gather", .n_in = 2, .n_out = 1 };
    rg_want w = rg_any_type;
    w.min_rank = 1;
    if (!rg_pick(r, s, w, &k.in[0]))
        return false;
    uint32_t rank = (uint32_t)k.in[0].t.shape.rank;
    int64_t axis = rg_below(r, rank), n = k.in[0].t.shape.dims[axis];
    rg_attr_int(&k, "axis", axis);
    if (rg_chance(r, 30)) {
        if (!rg_pick(r, s, index, &k.in[1]))
            return false;
    } else {
        int64_t at[3];
        int64_t count = n ? rg_below(r, 4) : 0;
        for (int64_t i = 0; i < count; i++)
            at[i] = (int64_t)rg_below(r, (uint32_t)n) - (rg_chance(r, 30) ? n : 0);
        k.in[1] = rg_ints(s, count, at);
    }
    return rg_add(r, s, &k, NULL);
}

static bool gen_reduce(rg *r, rg_scope *s)
{
    static const char *const ops[] = { "ReduceSum", "ReduceMax", "ReduceMean",
                                       "Softmax", "ReduceSum" };
    rg_spec k = { .op = ops[rg_below(r, COUNT(ops))], .n_in = 1, .n_out = 1 };
    rg_want w = rg_real;
    w.min_rank = 1;
    if (!rg_pick(r, s, w, &k.in[0]))
        return false;
    int64_t axis = rg_below(r, (uint32_t)k.in[0].t.shape.rank);
    if (k.op[0] == 'S') {
        rg_attr_int(&k, "axis", axis);
    } else {
        rg_attr_int(&k, "keepdims", rg_below(r, 2));
        if (rg_chance(r, 70)) {
            k.in[1] = rg_ints(s, 1, &axis);
            k.n_in = 2;
        }
    }
    return rg_add(r, s, &k, NULL);
}

static bool gen_matmul(rg *r, rg_scope *s)
{
    rg_spec k = { .op = "MatMul", .n_in = 2, .n_out = 1, .fuses = true };
    rg_want w = rg_real;
    w.min_rank = 1;
    if (!rg_pick(r, s, w, &k.in[0]))
        return false;
    const qn_shape *a = &k.in[0].t.shape;
    qn_shape b = { 2, { a->dims[a->rank - 1], 1 + rg_below(r, 6) } };
    if (!rg_chance(r, 20) || !rg_pick(r, s, w, &k.in[1]))
        k.in[1] = rg_some_constant(r, s, QN_F32, b);
    if (a->rank == 2 && rg_chance(r, 40)) {
        k.op = "Gemm";
        if (rg_chance(r, 60)) {
            k.n_in = 3;
            qn_shape c = { 2, { rg_chance(r, 50) ? 1 : a->dims[0], b.dims[1] } };
            if (!rg_chance(r, 50) || !rg_pick(r, s, w, &k.in[2]))
                k.in[2] = rg_some_constant(r, s, QN_F32, c);
        }
    }
    return rg_add(r, s, &k, NULL);
}

static bool gen_nonzero(rg *r, rg_scope *s)
{
    rg_spec k = { .op = "NonZero", .n_in = 1, .n_out = 1 };
    rg_want w = rg_any_type;
    w.exact = true;
    w.min_rank = 1;
    return rg_pick(r, s, w, &k.in[0]) && rg_add(r, s, &k, NULL);
}

static bool gen_shape(rg *r, rg_scope *s)
{
    rg_spec k = { .op = rg_chance(r, 80) ? "Shape" : "Size", .n_in = 1, .n_out = 1 };
    return rg_pick(r, s, rg_any_type, &k.in[0]) && rg_add(r, s, &k, NULL);
}

/* ---- convolutions and what follows them ---- */

static bool pool(rg *r, rg_scope *s, rg_value x, rg_value *out)
{
    static const char *const ops[] = { "MaxPool", "AveragePool",
                                       "GlobalAveragePool" };
    rg_spec k = { .op = ops[rg_below(r, 3)], .n_in = 1, .n_out = 1, .in = { x },
               .fuses = true };
    if (k.op[0] != 'G') {
        rg_attr_ints(s, &k, "kernel_shape", 2, (int64_t[]){ 2, 2 });
        rg_attr_ints(s, &k, "pads", 4, (int64_t[]){ 0, 1, 1, 0 });
    }
    return rg_add(r, s, &k, out);
}

static bool norm(rg *r, rg_scope *s, rg_value x, rg_value *out)
{
    rg_spec k = { .op = "BatchNormalization", .n_in = 5, .n_out = 1, .in = { x },
               .fuses = true };
    qn_shape c = { 1, { x.t.shape.dims[1] } };
    for (uint32_t i = 1; i < 5; i++)
        k.in[i] = rg_some_constant(r, s, QN_F32, c);
    float *var = k.in[4].t.data;
    for (int64_t i = 0; i < c.dims[0]; i++)
        var[i] = 0.5f + var[i] * var[i];
    return rg_add(r, s, &k, out);
}

static bool act(rg *r, rg_scope *s, rg_value x, rg_value *out)
{
    static const char *const ops[] = { "Relu", "Sigmoid",   "LeakyRelu", "Clip",
                                       "Tanh", "HardSwish", "HardSigmoid" };
    rg_spec k = { .op = ops[rg_below(r, COUNT(ops))], .n_in = 1, .n_out = 1,
               .in = { x } };
    if (!strcmp(k.op, "Clip")) {
        k.n_in = 3;
        k.in[1] = rg_some_constant(r, s, QN_F32, (qn_shape){ 0 });
        k.in[2] = rg_some_constant(r, s, QN_F32, (qn_shape){ 0 });
        *(float *)k.in[1].t.data = -0.5f;
        if (rg_chance(r, 30))
            k.in[1].id = QN_NO_VALUE;
    }
    return rg_add(r, s, &k, out);
}

static bool conv(rg *r, rg_scope *s, rg_value x, bool same, rg_value *out)
{
    rg_spec k = { .op = "Conv", .n_in = 2 + rg_below(r, 2), .n_out = 1, .in = { x },
               .fuses = true };
    int64_t c = x.t.shape.dims[1], size = rg_chance(r, 50) ? 1 : 3;
    bool deep = c && rg_chance(r, 25);
    qn_shape w = { 4, { same || deep ? c : 1 + rg_below(r, 9), deep ? 1 : c, size,
                        size } };
    if (!c)
        return false;
    k.in[1] = rg_some_constant(r, s, QN_F32, w);
    float *data = k.in[1].t.data;
    for (int64_t i = 0; i < qn_count(&k.in[1].t); i++)
        data[i] *= 0.2f;
    k.in[2] = rg_some_constant(r, s, QN_F32, (qn_shape){ 1, { w.dims[0] } });
    int64_t pad = same || rg_chance(r, 50) ? size / 2 : 0;
    rg_attr_ints(s, &k, "pads", 4, (int64_t[]){ pad, pad, pad, pad });
    if (deep)
        rg_attr_int(&k, "group", c);
    if (!same && rg_chance(r, 30))
        rg_attr_ints(s, &k, "strides", 2, (int64_t[]){ 2, 1 });
    return rg_add(r, s, &k, out);
}

/* What is added to y, a convolution of x: x, or what comes after y. */
static bool residual_of(rg *r, rg_scope *s, rg_value x, rg_value *out)
{
    *out = x;
    switch (rg_below(r, 4)) {
    case 0:
        return act(r, s, x, out);
    case 1:
        return conv(r, s, x, true, out);
    default:
        return true;
    }
}

static bool gen_convs(rg *r, rg_scope *s)
{
    rg_value x, y, other;
    if (!rg_pick(r, s, rg_image, &x))
        x = rg_some_constant(r, s, QN_F32, rg_some_shape(r, 4));
    for (uint32_t n = 1 + rg_below(r, 3); n--;) {
        bool residual = rg_chance(r, 40);
        if (!conv(r, s, x, residual, &y))
            return false;
        rg_value middle = y;
        if (rg_chance(r, 40) && !norm(r, s, y, &y))
            return false;
        if (residual) {
            rg_spec k = { .op = "Add", .n_in = 2, .n_out = 1 };
            if (!residual_of(r, s, x, &other))
                return false;
            uint32_t at = rg_below(r, 2);
            k.in[at] = y;
            k.in[1 - at] = other;
            middle = rg_chance(r, 50) ? y : middle;
            if (!rg_add(r, s, &k, &y))
                return false;
        }
        if (rg_chance(r, 60) && !act(r, s, y, &y))
            return false;
        if (rg_chance(r, 25) && !pool(r, s, y, &y))
            return false;
        /* a second reader of what could be fused away */
        if (rg_chance(r, 25) && !act(r, s, middle, &other))
            return false;
        x = y;
    }
    return true;
}

bool (*const rg_kinds[])(rg *, rg_scope *) = {
    gen_unary,   gen_unary,     gen_binary, gen_binary, gen_variadic,
    gen_compare, gen_where,     gen_cast,   gen_reshape, gen_reshape,
    gen_view,    gen_transpose, gen_concat, gen_slice,   gen_split,
    gen_expand,  gen_gather,    gen_reduce, gen_matmul,  gen_nonzero,
    gen_shape,   gen_convs,
};

const uint32_t rg_n_kinds = COUNT(rg_kinds);

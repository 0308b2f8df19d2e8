/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step of the generator picks an operator and operands that suit it, runs it
 * with qn_eval_node, and keeps the node if that went well. Values that fusion
 * and folding may change in their last bits (`inexact`) go only where a small
 * change stays small: never into comparisons, casts, or a condition.
 */
#include "tests/support/random_graph.h"

#include "runtime/exec/eval.h"
#include "runtime/ops/op.h"
#include "tests/support/graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_ELEMENTS = 2048, MAX_DEPTH = 3, MAX_NODE_IN = 8 };

static uint32_t below(rg *r, uint32_t n)
{
    uint64_t z = (r->state += 0x9e3779b97f4a7c15u); /* splitmix64 */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ (z >> 31)) >> 32) % (n ? n : 1);
}

static bool chance(rg *r, uint32_t percent)
{
    return below(r, 100) < percent;
}

static void *room(qn_region *region, size_t n, size_t size)
{
    void *p = qn_region_alloc(region, n + 1, size);
    assert_non_null(p);
    return p;
}

static void fill(rg *r, qn_tensor *t, qn_region *region)
{
    int64_t n = qn_count(t);
    t->data = room(region, (size_t)n, qn_dtype_size(t->dtype));
    for (int64_t i = 0; i < n; i++) {
        uint32_t x = below(r, 1000);
        if (t->dtype == QN_F32)
            ((float *)t->data)[i] =
                x % 5 ? ((float)x - 500.0f) / 250.0f : (float)(x % 3);
        else if (t->dtype == QN_I64)
            ((int64_t *)t->data)[i] = (int64_t)(x % 4);
        else
            ((uint8_t *)t->data)[i] = x % 2;
    }
}

static qn_shape some_shape(rg *r, int rank)
{
    qn_shape s = { .rank = rank };
    for (int i = 0; i < rank; i++)
        s.dims[i] = chance(r, 3) ? 0 : chance(r, 25) ? 1 : 1 + below(r, 5);
    return s;
}

/* ---- values ---- */

static rg_value *keep(rg_scope *s, rg_value v)
{
    if (s->n == RG_VALUES)
        return NULL;
    s->v[s->n] = v;
    return &s->v[s->n++];
}

static rg_value constant(rg_scope *s, qn_tensor t, const void *data)
{
    rg_value v = { .t = t };
    memcpy(&v.t.data, &data, sizeof data);
    v.id = tg_const(s->g, t.dtype, t.shape.rank, t.shape.dims, data);
    return v;
}

static rg_value some_constant(rg *r, rg_scope *s, qn_dtype dtype, qn_shape shape)
{
    qn_tensor t = { .dtype = dtype, .shape = shape };
    fill(r, &t, s->g->region);
    return constant(s, t, t.data);
}

static rg_value ints(rg_scope *s, int64_t n, const int64_t *values)
{
    qn_tensor t = { .dtype = QN_I64, .shape = qn_shape_make(1, &n) };
    int64_t *copy = room(s->g->region, (size_t)n, sizeof *copy);
    if (n)
        memcpy(copy, values, (size_t)n * sizeof *copy);
    return constant(s, t, copy);
}

/* The value of an outer scope as a value of this one. */
static rg_value bring(rg_scope *s, const rg_scope *from, rg_value v)
{
    if (s == from)
        return v;
    v = bring(s->parent, from, v);
    v.id = tg_capture(s->g, v.id);
    return v;
}

typedef struct want {
    qn_dtypes types;
    int min_rank, max_rank;
    bool exact;
} want;

static bool suits(const rg_value *v, want w)
{
    return (w.types >> v->t.dtype & 1) && v->t.shape.rank >= w.min_rank &&
           v->t.shape.rank <= w.max_rank && !(w.exact && v->inexact);
}

static bool pick(rg *r, rg_scope *s, want w, rg_value *out)
{
    for (int tries = 0; tries < 12; tries++) {
        rg_scope *from = s;
        while (from->parent && (chance(r, 30) || !from->n))
            from = from->parent;
        if (!from->n)
            continue;
        uint32_t late = from->n < 4 ? from->n : 4;
        const rg_value *v = chance(r, 50)
                                ? &from->v[from->n - 1 - below(r, late)]
                                : &from->v[below(r, from->n)];
        if (suits(v, w)) {
            *out = bring(s, from, *v);
            return true;
        }
    }
    return false;
}

static const want any_type = { QN_BIT(F32) | QN_BIT(I64) | QN_BIT(BOOL), 0, 5,
                               false };
static const want number = { QN_BIT(F32) | QN_BIT(I64), 0, 5, false };
static const want real = { QN_BIT(F32), 0, 5, false };
static const want exact_real = { QN_BIT(F32), 0, 5, true };
static const want image = { QN_BIT(F32), 4, 4, false };

/* ---- nodes ---- */

typedef struct spec {
    const char *op;
    uint32_t n_in, n_out;
    rg_value in[MAX_NODE_IN]; /* id QN_NO_VALUE: left out */
    uint32_t n_attrs;
    qn_attr attrs[4];
    bool fuses; /* the result becomes inexact */
} spec;

static void attr_int(spec *n, const char *name, int64_t value)
{
    n->attrs[n->n_attrs++] =
        (qn_attr){ .name = name, .kind = QN_ATTR_INT, .i = value };
}

static void attr_ints(rg_scope *s, spec *n, const char *name, size_t count,
                      const int64_t *values)
{
    int64_t *copy = room(s->g->region, count, sizeof *copy);
    memcpy(copy, values, count * sizeof *copy);
    n->attrs[n->n_attrs++] = (qn_attr){
        .name = name, .kind = QN_ATTR_INTS, .n = count, .ints = copy };
}

static bool small(const qn_tensor *t)
{
    int64_t n;
    return qn_shape_count(&t->shape, &n) && n <= MAX_ELEMENTS &&
           t->shape.rank <= 5;
}

/* Evaluate and, if it works, add; the results join the scope. */
static bool add(rg *r, rg_scope *s, const spec *n, rg_value *first)
{
    qn_tensor in[MAX_NODE_IN] = { 0 }, out[MAX_NODE_IN];
    qn_value_id ids[MAX_NODE_IN] = { 0 };
    qn_error err = { 0 };
    qn_node probe = { .op_name = n->op, .name = "", .domain = "", .opset = 18,
                      .n_in = n->n_in, .n_out = n->n_out, .in = ids, .out = ids,
                      .n_attrs = n->n_attrs, .attrs = n->attrs };
    bool inexact = n->fuses;
    probe.op = qn_op_find("", n->op, 18, NULL);
    if (!probe.op)
        fail_msg("no operator %s", n->op);
    for (uint32_t i = 0; i < n->n_in; i++) {
        ids[i] = n->in[i].id;
        if (ids[i] == QN_NO_VALUE)
            continue;
        in[i] = n->in[i].t;
        inexact |= n->in[i].inexact && strcmp(n->op, "Shape") != 0;
    }
    if (qn_eval_infer(&probe, in, out, &err) != QN_OK)
        return false;
    for (uint32_t i = 0; i < n->n_out; i++)
        if (!small(&out[i]))
            return false;
    if (s->n + n->n_out > RG_VALUES ||
        qn_eval_node(&probe, in, out, NULL, &r->region, &err) != QN_OK)
        return false;
    qn_node *node;
    if (qn_graph_add_node(s->g, n->n_in, n->n_out, n->n_attrs, &node, &err) !=
        QN_OK)
        fail_msg("%s", err.text);
    node->op_name = n->op;
    node->opset = 18;
    memcpy(node->in, ids, n->n_in * sizeof *ids);
    qn_attr *attrs;
    memcpy(&attrs, &node->attrs, sizeof attrs);
    if (n->n_attrs)
        memcpy(attrs, n->attrs, n->n_attrs * sizeof *attrs);
    for (uint32_t i = 0; i < n->n_out; i++) {
        qn_value v = { .name = n->op, .kind = QN_VALUE_NODE, .rank = -1 };
        rg_value result = { .t = out[i], .inexact = inexact };
        if (qn_graph_add_value(s->g, &v, &result.id, &err) != QN_OK)
            fail_msg("%s", err.text);
        node->out[i] = result.id;
        keep(s, result);
        if (!i && first)
            *first = result;
    }
    return true;
}

static bool one_of(rg *r, rg_scope *s, const char *const *ops, size_t n, want w)
{
    spec k = { .op = ops[below(r, (uint32_t)n)], .n_in = 1, .n_out = 1 };
    return pick(r, s, w, &k.in[0]) && add(r, s, &k, NULL);
}

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static bool gen_unary(rg *r, rg_scope *s)
{
    static const char *const calm[] = { "Relu", "Neg",     "Abs",
                                        "Tanh", "Sigmoid", "LeakyRelu",
                                        "HardSwish", "HardSigmoid" };
    static const char *const wild[] = { "Exp",  "Sqrt",  "Floor", "Log",  "Ceil",
                                        "Sign", "Round", "Erf",   "Softplus",
                                        "Reciprocal", "Sin" };
    static const char *const whole[] = { "Neg", "Abs", "Sign" };
    static const want i64 = { QN_BIT(I64), 0, 5, false },
                      boolean = { QN_BIT(BOOL), 0, 5, false };
    static const char *const logic[] = { "Not" };
    switch (below(r, 6)) {
    case 0:
        return one_of(r, s, wild, COUNT(wild), exact_real);
    case 1:
        return one_of(r, s, whole, COUNT(whole), i64);
    case 2:
        return one_of(r, s, logic, COUNT(logic), boolean);
    default:
        return one_of(r, s, calm, COUNT(calm), real);
    }
}

/* A second operand: the same, another value, or a constant that broadcasts. */
static bool partner(rg *r, rg_scope *s, const rg_value *a, rg_value *out)
{
    want w = { (qn_dtypes)1 << a->t.dtype, 0, 5, false };
    if (chance(r, 10)) {
        *out = *a;
        return true;
    }
    if (chance(r, 55) && pick(r, s, w, out))
        return true;
    qn_shape shape = a->t.shape;
    while (shape.rank && chance(r, 40)) {
        shape.rank--;
        memmove(shape.dims, shape.dims + 1,
                (size_t)shape.rank * sizeof shape.dims[0]);
    }
    for (int i = 0; i < shape.rank; i++)
        if (chance(r, 40))
            shape.dims[i] = 1;
    *out = some_constant(r, s, a->t.dtype, shape);
    return true;
}

static bool gen_binary(rg *r, rg_scope *s)
{
    static const char *const ops[] = { "Add", "Sub", "Mul", "Add", "Max",
                                       "Min", "Div" };
    spec k = { .op = ops[below(r, COUNT(ops))], .n_in = 2, .n_out = 1 };
    bool divides = !strcmp(k.op, "Div");
    if (!pick(r, s, divides ? exact_real : number, &k.in[0]) ||
        !partner(r, s, &k.in[0], &k.in[1]) || (divides && k.in[1].inexact))
        return false;
    if (chance(r, 50)) {
        rg_value t = k.in[0];
        k.in[0] = k.in[1];
        k.in[1] = t;
    }
    return add(r, s, &k, NULL);
}

static bool gen_variadic(rg *r, rg_scope *s)
{
    static const char *const ops[] = { "Sum", "Max", "Min", "Mean" };
    spec k = { .op = ops[below(r, COUNT(ops))], .n_in = 1 + below(r, 4),
               .n_out = 1 };
    if (!pick(r, s, real, &k.in[0]))
        return false;
    for (uint32_t i = 1; i < k.n_in; i++)
        if (!partner(r, s, &k.in[below(r, i)], &k.in[i]))
            return false;
    return add(r, s, &k, NULL);
}

static bool gen_compare(rg *r, rg_scope *s)
{
    static const char *const ops[] = { "Greater", "Less", "Equal" };
    spec k = { .op = ops[below(r, COUNT(ops))], .n_in = 2, .n_out = 1 };
    want w = number;
    w.exact = true;
    return pick(r, s, w, &k.in[0]) && partner(r, s, &k.in[0], &k.in[1]) &&
           !k.in[1].inexact && add(r, s, &k, NULL);
}

static bool gen_where(rg *r, rg_scope *s)
{
    static const want boolean = { QN_BIT(BOOL), 0, 5, true };
    spec k = { .op = "Where", .n_in = 3, .n_out = 1 };
    return pick(r, s, boolean, &k.in[0]) && pick(r, s, number, &k.in[1]) &&
           partner(r, s, &k.in[1], &k.in[2]) && add(r, s, &k, NULL);
}

static bool gen_cast(rg *r, rg_scope *s)
{
    static const qn_dtype to[] = { QN_F32, QN_I64, QN_BOOL };
    spec k = { .op = "Cast", .n_in = 1, .n_out = 1 };
    want w = any_type;
    w.exact = true;
    attr_int(&k, "to", (int64_t)to[below(r, 3)]);
    return pick(r, s, w, &k.in[0]) && add(r, s, &k, NULL);
}

static bool gen_reshape(rg *r, rg_scope *s)
{
    spec k = { .op = "Reshape", .n_in = 2, .n_out = 1 };
    if (!pick(r, s, any_type, &k.in[0]))
        return false;
    const qn_shape *from = &k.in[0].t.shape;
    int64_t to[6], n = 0;
    switch (below(r, 4)) {
    case 0:
        to[n++] = -1;
        break;
    case 1: /* merge the first two */
        if (from->rank < 2)
            return false;
        to[n++] = -1;
        for (int i = 2; i < from->rank; i++)
            to[n++] = chance(r, 50) && from->dims[i] ? from->dims[i] : 1;
        break;
    case 2: /* split one off */
        to[n++] = 1;
        for (int i = 0; i < from->rank && n < 5; i++)
            to[n++] = from->dims[i];
        break;
    default: { /* the shape of something else */
        spec shape = { .op = "Shape", .n_in = 1, .n_out = 1 };
        return pick(r, s, any_type, &shape.in[0]) &&
               add(r, s, &shape, &k.in[1]) && add(r, s, &k, NULL);
    }
    }
    k.in[1] = ints(s, n, to);
    return add(r, s, &k, NULL);
}

static bool gen_view(rg *r, rg_scope *s)
{
    spec k = { .n_in = 1, .n_out = 1 };
    if (!pick(r, s, any_type, &k.in[0]))
        return false;
    int rank = k.in[0].t.shape.rank;
    int64_t axis = (int64_t)below(r, (uint32_t)rank + 1) - (chance(r, 30) ? rank : 0);
    switch (below(r, 4)) {
    case 0:
        k.op = "Identity";
        break;
    case 1:
        k.op = "Flatten";
        attr_int(&k, "axis", axis);
        break;
    case 2:
        k.op = "Squeeze";
        if (chance(r, 50)) {
            k.n_in = 2;
            k.in[1] = ints(s, 1, &axis);
        }
        break;
    default:
        k.op = "Unsqueeze";
        k.n_in = 2;
        k.in[1] = ints(s, 1, &axis);
    }
    return add(r, s, &k, NULL);
}

static bool gen_transpose(rg *r, rg_scope *s)
{
    spec k = { .op = "Transpose", .n_in = 1, .n_out = 1 };
    int64_t perm[6];
    if (!pick(r, s, any_type, &k.in[0]))
        return false;
    uint32_t rank = (uint32_t)k.in[0].t.shape.rank;
    for (uint32_t i = 0; i < rank; i++)
        perm[i] = i;
    for (uint32_t i = rank; i-- > 1;) {
        uint32_t j = below(r, i + 1);
        int64_t t = perm[i];
        perm[i] = perm[j];
        perm[j] = t;
    }
    if (rank && chance(r, 80))
        attr_ints(s, &k, "perm", rank, perm);
    return add(r, s, &k, NULL);
}

static bool gen_concat(rg *r, rg_scope *s)
{
    spec k = { .op = "Concat", .n_in = 1 + below(r, 4), .n_out = 1 };
    want w = any_type;
    w.min_rank = 1;
    if (!pick(r, s, w, &k.in[0]))
        return false;
    int rank = k.in[0].t.shape.rank;
    int64_t axis = (int64_t)below(r, (uint32_t)rank);
    for (uint32_t i = 1; i < k.n_in; i++) {
        want like = { (qn_dtypes)1 << k.in[0].t.dtype, rank, rank, false };
        if (chance(r, 40) && pick(r, s, like, &k.in[i]))
            continue;
        qn_shape shape = k.in[0].t.shape;
        shape.dims[axis] = below(r, 4);
        k.in[i] = chance(r, 60) ? k.in[0]
                                : some_constant(r, s, k.in[0].t.dtype, shape);
    }
    attr_int(&k, "axis", chance(r, 30) ? axis - rank : axis);
    return add(r, s, &k, NULL);
}

static bool gen_slice(rg *r, rg_scope *s)
{
    spec k = { .op = "Slice", .n_in = 5, .n_out = 1 };
    want w = any_type;
    w.min_rank = 1;
    if (!pick(r, s, w, &k.in[0]))
        return false;
    uint32_t rank = (uint32_t)k.in[0].t.shape.rank;
    int64_t axis = below(r, rank), step = 1 + (int64_t)below(r, 2);
    int64_t start = (int64_t)below(r, 5) - 2, end = (int64_t)below(r, 9) - 3;
    if (chance(r, 25)) {
        step = -1;
        start = -1;
        end = -100;
    }
    k.in[1] = ints(s, 1, &start);
    k.in[2] = ints(s, 1, &end);
    k.in[3] = ints(s, 1, &axis);
    k.in[4] = ints(s, 1, &step);
    return add(r, s, &k, NULL);
}

static bool gen_split(rg *r, rg_scope *s)
{
    spec k = { .op = "Split", .n_in = 1, .n_out = 2 + below(r, 2) };
    want w = any_type;
    w.min_rank = 1;
    if (!pick(r, s, w, &k.in[0]))
        return false;
    uint32_t rank = (uint32_t)k.in[0].t.shape.rank;
    int64_t axis = below(r, rank), n = k.in[0].t.shape.dims[axis];
    attr_int(&k, "axis", axis);
    if (chance(r, 50)) {
        attr_int(&k, "num_outputs", k.n_out);
    } else {
        int64_t parts[3] = { 0 };
        for (int64_t i = 0; i < n; i++)
            parts[below(r, k.n_out)]++;
        k.in[1] = ints(s, k.n_out, parts);
        k.n_in = 2;
    }
    return add(r, s, &k, NULL);
}

static bool gen_expand(rg *r, rg_scope *s)
{
    spec k = { .op = "Expand", .n_in = 2, .n_out = 1 };
    spec shape = { .op = "Shape", .n_in = 1, .n_out = 1 };
    if (!pick(r, s, any_type, &k.in[0]))
        return false;
    if (chance(r, 50)) {
        qn_shape to = some_shape(r, (int)below(r, 4));
        k.in[1] = ints(s, to.rank, to.dims);
    } else if (!pick(r, s, any_type, &shape.in[0]) ||
               !add(r, s, &shape, &k.in[1])) {
        return false;
    }
    return add(r, s, &k, NULL);
}

static bool gen_gather(rg *r, rg_scope *s)
{
    static const want index = { QN_BIT(I64), 0, 2, false };
    spec k = { .op = "Gather", .n_in = 2, .n_out = 1 };
    want w = any_type;
    w.min_rank = 1;
    if (!pick(r, s, w, &k.in[0]))
        return false;
    uint32_t rank = (uint32_t)k.in[0].t.shape.rank;
    int64_t axis = below(r, rank), n = k.in[0].t.shape.dims[axis];
    attr_int(&k, "axis", axis);
    if (chance(r, 30)) {
        if (!pick(r, s, index, &k.in[1]))
            return false;
    } else {
        int64_t at[3];
        int64_t count = n ? below(r, 4) : 0;
        for (int64_t i = 0; i < count; i++)
            at[i] = (int64_t)below(r, (uint32_t)n) - (chance(r, 30) ? n : 0);
        k.in[1] = ints(s, count, at);
    }
    return add(r, s, &k, NULL);
}

static bool gen_reduce(rg *r, rg_scope *s)
{
    static const char *const ops[] = { "ReduceSum", "ReduceMax", "ReduceMean",
                                       "Softmax", "ReduceSum" };
    spec k = { .op = ops[below(r, COUNT(ops))], .n_in = 1, .n_out = 1 };
    want w = real;
    w.min_rank = 1;
    if (!pick(r, s, w, &k.in[0]))
        return false;
    int64_t axis = below(r, (uint32_t)k.in[0].t.shape.rank);
    if (k.op[0] == 'S') {
        attr_int(&k, "axis", axis);
    } else {
        attr_int(&k, "keepdims", below(r, 2));
        if (chance(r, 70)) {
            k.in[1] = ints(s, 1, &axis);
            k.n_in = 2;
        }
    }
    return add(r, s, &k, NULL);
}

static bool gen_matmul(rg *r, rg_scope *s)
{
    spec k = { .op = "MatMul", .n_in = 2, .n_out = 1, .fuses = true };
    want w = real;
    w.min_rank = 1;
    if (!pick(r, s, w, &k.in[0]))
        return false;
    const qn_shape *a = &k.in[0].t.shape;
    qn_shape b = { 2, { a->dims[a->rank - 1], 1 + below(r, 6) } };
    if (!chance(r, 20) || !pick(r, s, w, &k.in[1]))
        k.in[1] = some_constant(r, s, QN_F32, b);
    if (a->rank == 2 && chance(r, 40)) {
        k.op = "Gemm";
        if (chance(r, 60)) {
            k.n_in = 3;
            qn_shape c = { 2, { chance(r, 50) ? 1 : a->dims[0], b.dims[1] } };
            if (!chance(r, 50) || !pick(r, s, w, &k.in[2]))
                k.in[2] = some_constant(r, s, QN_F32, c);
        }
    }
    return add(r, s, &k, NULL);
}

static bool gen_nonzero(rg *r, rg_scope *s)
{
    spec k = { .op = "NonZero", .n_in = 1, .n_out = 1 };
    want w = any_type;
    w.exact = true;
    w.min_rank = 1;
    return pick(r, s, w, &k.in[0]) && add(r, s, &k, NULL);
}

static bool gen_shape(rg *r, rg_scope *s)
{
    spec k = { .op = chance(r, 80) ? "Shape" : "Size", .n_in = 1, .n_out = 1 };
    return pick(r, s, any_type, &k.in[0]) && add(r, s, &k, NULL);
}

/* ---- convolutions and what follows them ---- */

static bool pool(rg *r, rg_scope *s, rg_value x, rg_value *out)
{
    static const char *const ops[] = { "MaxPool", "AveragePool",
                                       "GlobalAveragePool" };
    spec k = { .op = ops[below(r, 3)], .n_in = 1, .n_out = 1, .in = { x },
               .fuses = true };
    if (k.op[0] != 'G') {
        attr_ints(s, &k, "kernel_shape", 2, (int64_t[]){ 2, 2 });
        attr_ints(s, &k, "pads", 4, (int64_t[]){ 0, 1, 1, 0 });
    }
    return add(r, s, &k, out);
}

static bool norm(rg *r, rg_scope *s, rg_value x, rg_value *out)
{
    spec k = { .op = "BatchNormalization", .n_in = 5, .n_out = 1, .in = { x },
               .fuses = true };
    qn_shape c = { 1, { x.t.shape.dims[1] } };
    for (uint32_t i = 1; i < 5; i++)
        k.in[i] = some_constant(r, s, QN_F32, c);
    float *var = k.in[4].t.data;
    for (int64_t i = 0; i < c.dims[0]; i++)
        var[i] = 0.5f + var[i] * var[i];
    return add(r, s, &k, out);
}

static bool act(rg *r, rg_scope *s, rg_value x, rg_value *out)
{
    static const char *const ops[] = { "Relu", "Sigmoid",   "LeakyRelu", "Clip",
                                       "Tanh", "HardSwish", "HardSigmoid" };
    spec k = { .op = ops[below(r, COUNT(ops))], .n_in = 1, .n_out = 1,
               .in = { x } };
    if (!strcmp(k.op, "Clip")) {
        k.n_in = 3;
        k.in[1] = some_constant(r, s, QN_F32, (qn_shape){ 0 });
        k.in[2] = some_constant(r, s, QN_F32, (qn_shape){ 0 });
        *(float *)k.in[1].t.data = -0.5f;
        if (chance(r, 30))
            k.in[1].id = QN_NO_VALUE;
    }
    return add(r, s, &k, out);
}

static bool conv(rg *r, rg_scope *s, rg_value x, bool same, rg_value *out)
{
    spec k = { .op = "Conv", .n_in = 2 + below(r, 2), .n_out = 1, .in = { x },
               .fuses = true };
    int64_t c = x.t.shape.dims[1], size = chance(r, 50) ? 1 : 3;
    bool deep = c && chance(r, 25);
    qn_shape w = { 4, { same || deep ? c : 1 + below(r, 9), deep ? 1 : c, size,
                        size } };
    if (!c)
        return false;
    k.in[1] = some_constant(r, s, QN_F32, w);
    float *data = k.in[1].t.data;
    for (int64_t i = 0; i < qn_count(&k.in[1].t); i++)
        data[i] *= 0.2f;
    k.in[2] = some_constant(r, s, QN_F32, (qn_shape){ 1, { w.dims[0] } });
    int64_t pad = same || chance(r, 50) ? size / 2 : 0;
    attr_ints(s, &k, "pads", 4, (int64_t[]){ pad, pad, pad, pad });
    if (deep)
        attr_int(&k, "group", c);
    if (!same && chance(r, 30))
        attr_ints(s, &k, "strides", 2, (int64_t[]){ 2, 1 });
    return add(r, s, &k, out);
}

static bool gen_convs(rg *r, rg_scope *s)
{
    rg_value x, y;
    if (!pick(r, s, image, &x))
        x = some_constant(r, s, QN_F32, some_shape(r, 4));
    for (uint32_t n = 1 + below(r, 3); n--;) {
        bool residual = chance(r, 40);
        if (!conv(r, s, x, residual, &y) ||
            (chance(r, 40) && !norm(r, s, y, &y)))
            return false;
        if (residual) {
            spec k = { .op = "Add", .n_in = 2, .n_out = 1, .in = { y, x } };
            if (chance(r, 50)) {
                k.in[0] = x;
                k.in[1] = y;
            }
            if (!add(r, s, &k, &y))
                return false;
        }
        if (chance(r, 60) && !act(r, s, y, &y))
            return false;
        if (chance(r, 25) && !pool(r, s, y, &y))
            return false;
        x = y;
    }
    return true;
}

/* ---- If ---- */

static void gen(rg *r, rg_scope *s, uint32_t steps, int depth);

/* A condition of one element that comes from data. */
static bool condition(rg *r, rg_scope *s, rg_value *out)
{
    static const want boolean = { QN_BIT(BOOL), 0, 2, true };
    for (int i = 0; i < 4 && chance(r, 50); i++)
        if (pick(r, s, boolean, out) && qn_count(&out->t) == 1)
            return true;
    spec sum = { .op = "ReduceSum", .n_in = 1, .n_out = 1 };
    spec greater = { .op = "Greater", .n_in = 2, .n_out = 1 };
    attr_int(&sum, "keepdims", 0);
    if (!pick(r, s, exact_real, &sum.in[0]) ||
        !add(r, s, &sum, &greater.in[0]))
        return false;
    greater.in[1] = some_constant(r, s, QN_F32, (qn_shape){ 0 });
    return add(r, s, &greater, out);
}

static rg_scope *branch(rg *r, rg_scope *s, int depth, uint32_t n,
                        const rg_value *like, rg_value *results)
{
    rg_scope *in = room(&r->region, 1, sizeof *in);
    in->g = tg_new(s->g);
    in->parent = s;
    if (chance(r, 90))
        gen(r, in, 1 + below(r, 4), depth + 1);
    for (uint32_t i = 0; i < n; i++) {
        want w = any_type;
        if (like)
            w.types = (qn_dtypes)1 << like[i].t.dtype;
        if (chance(r, 10) || !pick(r, in, w, &results[i]))
            results[i] = some_constant(r, in, like ? like[i].t.dtype : QN_F32,
                                       some_shape(r, (int)below(r, 4)));
        tg_output(in->g, results[i].id, "b");
    }
    return in;
}

static bool gen_if(rg *r, rg_scope *s, int depth)
{
    rg_value c, x[3], y[3];
    qn_error err = { 0 };
    uint32_t n = 1 + below(r, 3);
    if (depth >= MAX_DEPTH || s->n + n > RG_VALUES || !condition(r, s, &c))
        return false;
    rg_scope *yes = branch(r, s, depth, n, NULL, x);
    rg_scope *no = branch(r, s, depth, n, x, y);
    qn_node *node;
    if (qn_graph_add_node(s->g, 1, n, 2, &node, &err) != QN_OK)
        fail_msg("%s", err.text);
    node->op_name = "If";
    node->opset = 18;
    node->in[0] = c.id;
    qn_attr *attrs;
    memcpy(&attrs, &node->attrs, sizeof attrs);
    attrs[0] = (qn_attr){ .name = "then_branch", .kind = QN_ATTR_GRAPH,
                          .graph = yes->g };
    attrs[1] = (qn_attr){ .name = "else_branch", .kind = QN_ATTR_GRAPH,
                          .graph = no->g };
    for (uint32_t i = 0; i < n && s->n < RG_VALUES; i++) {
        qn_value v = { .name = "If", .kind = QN_VALUE_NODE, .rank = -1 };
        rg_value joined = *(const uint8_t *)c.t.data ? x[i] : y[i];
        joined.inexact = x[i].inexact || y[i].inexact;
        if (qn_graph_add_value(s->g, &v, &joined.id, &err) != QN_OK)
            fail_msg("%s", err.text);
        node->out[i] = joined.id;
        keep(s, joined);
    }
    return true;
}

static void gen(rg *r, rg_scope *s, uint32_t steps, int depth)
{
    static bool (*const kinds[])(rg *, rg_scope *) = {
        gen_unary,   gen_unary,     gen_binary, gen_binary, gen_variadic,
        gen_compare, gen_where,     gen_cast,   gen_reshape, gen_reshape,
        gen_view,    gen_transpose, gen_concat, gen_slice,   gen_split,
        gen_expand,  gen_gather,    gen_reduce, gen_matmul,  gen_nonzero,
        gen_shape,   gen_convs,
    };
    uint32_t before = s->n;
    for (uint32_t tries = 0; s->n < before + steps && tries < 20 * steps &&
                             s->n + 24 < RG_VALUES; tries++) {
        uint32_t k = below(r, COUNT(kinds) + 2);
        if (k >= COUNT(kinds))
            (void)gen_if(r, s, depth);
        else
            (void)kinds[k](r, s);
    }
}

/* ---- the main graph ---- */

static void input(rg *r, uint32_t i, qn_dtype dtype, int rank)
{
    static const char *const names[RG_INPUTS] = { "a", "b", "c",
                                                  "d", "e", "f" };
    qn_shape shape = some_shape(r, rank);
    int64_t dims[QN_MAX_RANK];
    for (int k = 0; k < rank; k++)
        dims[k] = chance(r, 50) ? -1 : shape.dims[k];
    rg_value v = { .id = tg_input(r->main.g, names[i], dtype, rank, dims) };
    for (int set = 0; set < RG_SETS; set++) {
        qn_tensor *t = &r->inputs[set][i];
        *t = (qn_tensor){ .dtype = dtype, .shape = shape };
        fill(r, t, &r->region);
    }
    if (chance(r, 20)) { /* it has a default, which set 0 uses */
        qn_const *c = room(r->main.g->region, 1, sizeof *c);
        *c = (qn_const){ .dtype = dtype, .shape = shape };
        size_t bytes = (size_t)qn_count(&r->inputs[0][i]) * qn_dtype_size(dtype);
        void *copy = room(r->main.g->region, bytes, 1);
        if (bytes)
            memcpy(copy, r->inputs[0][i].data, bytes);
        c->bytes = bytes;
        c->data = copy;
        r->main.g->values[v.id].data = c;
        v.t = r->inputs[0][i];
        r->inputs[0][i] = (qn_tensor){ 0 };
    } else {
        v.t = r->inputs[0][i];
    }
    keep(&r->main, v);
}

void rg_build(rg *r, uint64_t seed)
{
    *r = (rg){ .seed = seed, .state = seed * 0x2545f4914f6cdd1du + 1 };
    r->main.g = tg_new(NULL);
    r->n_inputs = 1 + below(r, RG_INPUTS);
    for (uint32_t i = 0; i < r->n_inputs; i++) {
        uint32_t k = below(r, 10);
        if (k < 7)
            input(r, i, QN_F32, k < 3 ? 4 : (int)below(r, 5));
        else
            input(r, i, k < 9 ? QN_I64 : QN_BOOL, (int)below(r, 3));
    }
    gen(r, &r->main, 3 + below(r, 20), 0);
    r->n_outputs = 1 + below(r, RG_OUTPUTS);
    for (uint32_t i = 0; i < r->n_outputs; i++) {
        uint32_t late = r->main.n < 6 ? r->main.n : 6;
        const rg_value *v = chance(r, 70)
                                ? &r->main.v[r->main.n - 1 - below(r, late)]
                                : &r->main.v[below(r, r->main.n)];
        rg_value out = *v;
        if (chance(r, 4)) /* a constant as output */
            out = some_constant(r, &r->main, QN_F32, some_shape(r, 2));
        r->inexact[i] = out.inexact;
        tg_output(r->main.g, out.id, "o");
    }
    tg_finish(r->main.g);
}

void rg_release(rg *r)
{
    qn_region_release(&r->region);
}

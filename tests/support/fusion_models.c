/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/fusion.h"

#include "tests/support/graph.h"

#include <math.h>
#include <string.h>

/* ---- elementwise ---- */

/* Of these every type has operators at opset 18. */
static const char *const unary[] = {
    "Relu", "Sigmoid", "Tanh", "Abs",   "Neg", "Floor", "Ceil",
    "Exp",  "Erf",     "Sqrt", "Log",   "Reciprocal", "Sign",
};
static const char *const unary_more[] = {
    "Celu", "HardSigmoid", "HardSwish", "LeakyRelu", "Elu", "Selu", "Mish",
    "Softplus", "Softsign", "ThresholdedRelu", "Round", "Sin", "Cos", "Atan",
};
static const char *const binary[] = {
    "Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Sum", "PRelu",
};

static const struct {
    int rank;
    int64_t dims[4];
} shapes[] = {
    { 4, { 2, 3, 4, 5 } }, { 3, { 3, 4, 5 } }, { 2, { 4, 5 } },
    { 2, { 4, 1 } },       { 1, { 5 } },       { 3, { 3, 1, 1 } },
    { 1, { 1 } },          { 0, { 0 } },
};
enum { SHAPES = sizeof shapes / sizeof shapes[0], NODES = 24, POOL = 64 };

static qn_value_id clip(fusion_model *m, qn_value_id x)
{
    qn_value_id in[] = { x, QN_NO_VALUE, fusion_number(m, 1.5) };
    if (fusion_random(m) % 2)
        in[1] = fusion_number(m, -0.75);
    return tg_op(m->g, "Clip", 3, in);
}

static qn_value_id one_of_one(fusion_model *m, qn_value_id x)
{
    uint32_t r = fusion_random(m);
    if (r % 8 == 0)
        return clip(m, x);
    uint32_t more = sizeof unary_more / sizeof *unary_more;
    uint32_t skip = m->dtype != QN_F32; /* Celu is for float */
    if (r % 8 < 3 && m->dtype != QN_BF16)
        return tg_op1(m->g, unary_more[skip + (r >> 8) % (more - skip)], x);
    return tg_op1(m->g, unary[(r >> 8) % (sizeof unary / sizeof *unary)], x);
}

static qn_value_id operand(fusion_model *m, const qn_value_id *pool, uint32_t n)
{
    uint32_t r = fusion_random(m), k = (r >> 8) % SHAPES;
    if (r % 4 == 0)
        return fusion_number(m, 0.5 + (double)(r >> 16 & 7));
    if (r % 4 == 1)
        return fusion_weights(m, shapes[k].rank, shapes[k].dims, 2);
    return pool[(r >> 8) % n];
}

void fusion_elementwise(fusion_model *m, const void *arg)
{
    qn_value_id pool[POOL], last;
    uint32_t n = 0;
    memcpy(&m->state, arg, sizeof m->state);
    for (uint32_t i = 0; i < 4; i++)
        pool[n++] = fusion_input(m, shapes[i].rank, shapes[i].dims);
    last = pool[0];
    for (int i = 0; i < NODES; i++) {
        uint32_t r = fusion_random(m);
        /* mostly on with the last one */
        qn_value_id x = r % 4 ? last : pool[(r >> 8) % n];
        if (r >> 20 & 1) {
            last = one_of_one(m, x);
        } else {
            qn_value_id y = operand(m, pool, n);
            const char *op = binary[(r >> 24) % (sizeof binary / sizeof *binary)];
            bool is_prelu = !strcmp(op, "PRelu");
            /* a slope has to broadcast to what it is for */
            last = is_prelu ? tg_op2(m->g, op, x, fusion_number(m, 0.25))
                   : r >> 21 & 1 ? tg_op2(m->g, op, x, y)
                                 : tg_op2(m->g, op, y, x);
        }
        if (n < POOL)
            pool[n++] = last;
    }
    tg_output(m->g, last, "y");
    tg_output(m->g, pool[n - 3], "z");
    tg_output(m->g, pool[n / 2], "w");
}

/* ---- attention ---- */

#define FOUR 4, 2, 3, 3, 5, 7, 8, 6
#define THREE 3, 1, 4, 4, 5, 6, 8, 8
const fusion_attention fusion_attentions[] = {
    { "plain", FOUR, TRANSPOSED, PLAIN, 0, { 0 }, -1, false, false, 1 },
    { "divided", FOUR, TRANSPOSED, SCORES_DIV, 0, { 0 }, -1, false, false, 1 },
    { "multiplied", FOUR, TRANSPOSED, SCORES_MUL, 0, { 0 }, 3, false, false, 1 },
    { "both operands scaled", FOUR, TRANSPOSED, BOTH_MUL, 0, { 0 }, -1, false,
      false, 1 },
    { "queries divided", FOUR, TRANSPOSED, QUERY_DIV, 0, { 0 }, -1, false,
      false, 1 },
    { "a mask for all heads", FOUR, TRANSPOSED, SCORES_DIV, 4, { 2, 1, 5, 7 },
      -1, false, false, 1 },
    { "a mask of keys", FOUR, SPLIT, SCORES_DIV, 4, { 2, 1, 1, 7 }, -1, false,
      false, 1 },
    { "a mask of queries and keys", FOUR, SPLIT, BOTH_MUL, 2, { 5, 7 }, -1,
      false, false, 1 },
    { "a whole mask", FOUR, SPLIT, PLAIN, 4, { 2, 3, 5, 7 }, -1, false, false,
      1 },
    { "a mask of one", FOUR, SPLIT, PLAIN, 1, { 1 }, -1, false, false, 1 },
    { "keys given transposed", FOUR, GIVEN, SCORES_MUL, 0, { 0 }, -1, false,
      false, 1 },
    { "keys turned", FOUR, TURNED, SCORES_MUL, 0, { 0 }, -1, false, false, 1 },
    { "keys read elsewhere", FOUR, SPLIT, SCORES_MUL, 0, { 0 }, -1, false, true,
      1 },
    { "one head of keys", 4, 2, 4, 1, 3, 9, 16, 16, TRANSPOSED, SCORES_DIV, 0,
      { 0 }, -1, false, false, 1 },
    { "one query", 4, 1, 2, 2, 1, 33, 8, 8, TRANSPOSED, SCORES_DIV, 0, { 0 },
      -1, false, false, 1 },
    { "the largest depth", 4, 1, 1, 1, 4, 5, 128, 128, TRANSPOSED, SCORES_DIV,
      0, { 0 }, -1, false, false, 1 },
    { "three axes", THREE, TRANSPOSED, SCORES_DIV, 0, { 0 }, -1, false, false,
      1 },
    { "three axes and a mask", THREE, TRANSPOSED, SCORES_DIV, 3, { 4, 1, 6 }, 2,
      false, false, 1 },
    { "depth 129", 4, 1, 1, 1, 4, 5, 129, 8, TRANSPOSED, PLAIN, 0, { 0 }, -1,
      false, false, 0 },
    { "values of 129", 4, 1, 1, 1, 4, 5, 8, 129, TRANSPOSED, PLAIN, 0, { 0 },
      -1, false, false, 0 },
    { "over another axis", FOUR, TRANSPOSED, PLAIN, 0, { 0 }, 2, false, false,
      0 },
    { "scores are read", FOUR, TRANSPOSED, SCORES_DIV, 0, { 0 }, -1, true,
      false, 0 },
    { "scaled by nothing", FOUR, TRANSPOSED, ZERO, 0, { 0 }, -1, false, false,
      0 },
};
const size_t fusion_n_attentions =
    sizeof fusion_attentions / sizeof fusion_attentions[0];

static qn_value_id permuted(fusion_model *m, qn_value_id x, int rank,
                            const int64_t *perm)
{
    qn_value_id y = tg_op1(m->g, "Transpose", x);
    tg_attr_ints(m->g, y, "perm", (size_t)rank, perm);
    return y;
}

/* [B, G, D, T], or without B. */
static qn_value_id keys_of(fusion_model *m, const fusion_attention *a)
{
    const int skip = 4 - a->rank;
    const int64_t given[] = { a->b, a->g, a->d, a->t };
    const int64_t keys[] = { a->b, a->g, a->t, a->d };
    const int64_t split[] = { a->b, a->t, a->g, a->d };
    const int64_t turned[] = { a->t, a->b, a->d, a->g };
    switch (a->keys) {
    case TRANSPOSED:
        return permuted(m, fusion_input(m, a->rank, keys + skip), a->rank,
                        skip ? (const int64_t[]){ 0, 2, 1 }
                             : (const int64_t[]){ 0, 1, 3, 2 });
    case SPLIT:
        return permuted(m, fusion_input(m, 4, split), 4,
                        (const int64_t[]){ 0, 2, 3, 1 });
    case TURNED:
        return permuted(m, fusion_input(m, 4, turned), 4,
                        (const int64_t[]){ 1, 3, 2, 0 });
    case GIVEN:
        break;
    }
    return fusion_input(m, a->rank, given + skip);
}

void fusion_attend(fusion_model *m, const void *arg)
{
    const fusion_attention *a = arg;
    const int skip = 4 - a->rank;
    const int64_t queries[] = { a->b, a->h, a->s, a->d };
    const int64_t values[] = { a->b, a->g, a->t, a->e };
    qn_value_id q = fusion_input(m, a->rank, queries + skip);
    qn_value_id k = keys_of(m, a);
    qn_value_id v = fusion_input(m, a->rank, values + skip);
    double root = sqrt((double)a->d);
    if (a->transposed_is_read)
        tg_output(m->g, tg_op1(m->g, "Relu", k), "keys");
    if (a->scale == BOTH_MUL) {
        q = tg_op2(m->g, "Mul", q, fusion_number(m, 1 / sqrt(root)));
        k = tg_op2(m->g, "Mul", fusion_number(m, 1 / sqrt(root)), k);
    }
    if (a->scale == QUERY_DIV)
        q = tg_op2(m->g, "Div", q, fusion_number(m, root));
    qn_value_id x = tg_op2(m->g, "MatMul", q, k);
    if (a->scale == SCORES_DIV)
        x = tg_op2(m->g, "Div", x, fusion_number(m, root));
    if (a->scale == SCORES_MUL)
        x = tg_op2(m->g, "Mul", fusion_number(m, 1 / root), x);
    if (a->scale == ZERO)
        x = tg_op2(m->g, "Mul", x, fusion_number(m, 0));
    if (a->mask_rank) {
        qn_value_id mask = fusion_input(m, a->mask_rank, a->mask);
        x = a->s % 2 ? tg_op2(m->g, "Add", x, mask)
                     : tg_op2(m->g, "Add", mask, x);
    }
    qn_value_id w = tg_op1(m->g, "Softmax", x);
    tg_attr_int(m->g, w, "axis", a->axis);
    tg_output(m->g, tg_op2(m->g, "MatMul", w, v), "y");
    if (a->leaks)
        tg_output(m->g, x, "scores");
}

/* ---- a layer ---- */

enum { BATCH = 2, LENGTH = 6, HEADS = 2, DEPTH = 8, WIDTH = HEADS * DEPTH };

static qn_value_id reshaped(fusion_model *m, qn_value_id x, int n,
                            const int64_t *dims)
{
    int64_t *copy = qn_region_alloc(&m->region, (size_t)n, sizeof *copy);
    const int64_t count = n;
    memcpy(copy, dims, (size_t)n * sizeof *copy);
    return tg_op2(m->g, "Reshape", x, tg_const(m->g, QN_I64, 1, &count, copy));
}

static qn_value_id linear(fusion_model *m, qn_value_id x, int64_t from,
                          int64_t to)
{
    const int64_t dims[] = { from, to };
    qn_value_id y = tg_op2(m->g, "MatMul", x, fusion_weights(m, 2, dims, 0.5));
    return tg_op2(m->g, "Add", fusion_weights(m, 1, &to, 1), y);
}

/* [B, H, L, D], or [B, H, D, L] of keys. */
static qn_value_id heads(fusion_model *m, qn_value_id x, bool keys)
{
    const int64_t dims[] = { BATCH, LENGTH, HEADS, DEPTH };
    const int64_t perm[] = { 0, 2, keys ? 3 : 1, keys ? 1 : 3 };
    return permuted(m, reshaped(m, linear(m, x, WIDTH, WIDTH), 4, dims), 4,
                    perm);
}

/* (x - mean) / sqrt(variance + epsilon) * gamma + beta */
static qn_value_id normal(fusion_model *m, qn_value_id x)
{
    const int64_t width = WIDTH;
    int64_t *axis = qn_region_alloc(&m->region, 1, sizeof *axis);
    const int64_t one = 1;
    *axis = -1;
    qn_value_id axes = tg_const(m->g, QN_I64, 1, &one, axis);
    qn_value_id mean = tg_op2(m->g, "ReduceMean", x, axes);
    qn_value_id d = tg_op2(m->g, "Sub", x, mean);
    qn_value_id v = tg_op2(m->g, "ReduceMean",
                           tg_op2(m->g, "Pow", d, fusion_number(m, 2)), axes);
    v = tg_op1(m->g, "Sqrt", tg_op2(m->g, "Add", v, fusion_number(m, 1e-3)));
    d = tg_op2(m->g, "Div", d, v);
    d = tg_op2(m->g, "Mul", d, fusion_weights(m, 1, &width, 1));
    return tg_op2(m->g, "Add", d, fusion_weights(m, 1, &width, 1));
}

static qn_value_id gelu(fusion_model *m, qn_value_id x)
{
    qn_value_id y = tg_op2(m->g, "Div", x, fusion_number(m, sqrt(2)));
    y = tg_op2(m->g, "Add", tg_op1(m->g, "Erf", y), fusion_number(m, 1));
    return tg_op2(m->g, "Mul", tg_op2(m->g, "Mul", x, y),
                  fusion_number(m, 0.5));
}

void fusion_block(fusion_model *m, const void *arg)
{
    const int64_t dims[] = { BATCH, LENGTH, WIDTH };
    const int64_t mask[] = { BATCH, 1, 1, LENGTH };
    (void)arg;
    m->state = 5;
    qn_value_id x = fusion_input(m, 3, dims);
    qn_value_id hidden = fusion_input(m, 4, mask);
    qn_value_id q = heads(m, x, false), k = heads(m, x, true);
    qn_value_id v = heads(m, x, false);
    qn_value_id s = tg_op2(m->g, "MatMul", q, k);
    s = tg_op2(m->g, "Div", s, fusion_number(m, sqrt(DEPTH)));
    s = tg_op2(m->g, "Add", s, hidden);
    s = tg_op2(m->g, "MatMul", tg_op1(m->g, "Softmax", s), v);
    s = permuted(m, s, 4, (const int64_t[]){ 0, 2, 1, 3 });
    s = linear(m, reshaped(m, s, 3, dims), WIDTH, WIDTH);
    x = normal(m, tg_op2(m->g, "Add", s, x));
    qn_value_id y = gelu(m, linear(m, x, WIDTH, 4 * WIDTH));
    y = linear(m, y, 4 * WIDTH, WIDTH);
    tg_output(m->g, normal(m, tg_op2(m->g, "Add", y, x)), "y");
}

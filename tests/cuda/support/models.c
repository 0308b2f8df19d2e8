/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cuda/support/models.h"

#include "tests/support/graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { CHANNELS = 8, SIDE = 6, TOKENS = 5, WIDTH = 16 };

typedef struct builder {
    qn_graph *g;
    uint32_t state;
} builder;

static float draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return ((float)(*state >> 16) - 32768.0f) / 65536.0f;
}

static qn_value_id weights(builder *b, int rank, const int64_t *dims)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= dims[i];
    float *w = qn_region_alloc(b->g->region, (size_t)n + 1, sizeof *w);
    assert_non_null(w);
    for (int64_t i = 0; i < n; i++)
        w[i] = draw(&b->state);
    return tg_const(b->g, QN_F32, rank, dims, w);
}

/* ---- inception ---- */

static qn_value_id conv(builder *b, qn_value_id x, int64_t in, int64_t out,
                        int64_t k)
{
    qn_value_id w = weights(b, 4, (int64_t[]){ out, in, k, k });
    qn_value_id bias = weights(b, 1, &out);
    qn_value_id y = tg_op(b->g, "Conv", 3, (qn_value_id[]){ x, w, bias });
    int64_t p = k / 2;
    tg_attr_ints(b->g, y, "pads", 4, (int64_t[]){ p, p, p, p });
    return tg_op1(b->g, "Relu", y);
}

static qn_value_id module(builder *b, qn_value_id x)
{
    enum { C = CHANNELS, Q = CHANNELS / 4 };
    qn_value_id a = conv(b, x, C, Q, 1);
    qn_value_id c = conv(b, conv(b, x, C, Q, 1), Q, Q, 3);
    qn_value_id d = conv(b, conv(b, conv(b, x, C, Q, 1), Q, Q, 3), Q, Q, 3);
    qn_value_id pool = tg_op1(b->g, "MaxPool", x);
    tg_attr_ints(b->g, pool, "kernel_shape", 2, (int64_t[]){ 3, 3 });
    tg_attr_ints(b->g, pool, "pads", 4, (int64_t[]){ 1, 1, 1, 1 });
    qn_value_id e = conv(b, pool, C, Q, 1);
    qn_value_id y = tg_op(b->g, "Concat", 4, (qn_value_id[]){ a, c, d, e });
    tg_attr_int(b->g, y, "axis", 1);
    return y;
}

static void inception(builder *b, int depth)
{
    qn_value_id x = tg_input(b->g, "x", QN_F32, 4,
                             (int64_t[]){ -1, CHANNELS, SIDE, SIDE });
    for (int i = 0; i < depth; i++)
        x = module(b, x);
    qn_value_id y = tg_op1(b->g, "GlobalAveragePool", x);
    tg_output(b->g, tg_op1(b->g, "Flatten", y), "y");
    tg_output(b->g, x, "features");
}

/* ---- transformer ---- */

static qn_value_id product(builder *b, qn_value_id x, int64_t in, int64_t out)
{
    qn_value_id w = weights(b, 2, (int64_t[]){ in, out });
    return tg_op2(b->g, "Add", tg_op2(b->g, "MatMul", x, w),
                  weights(b, 1, &out));
}

static qn_value_id norm(builder *b, qn_value_id x)
{
    int64_t n = WIDTH;
    qn_value_id scale = weights(b, 1, &n), shift = weights(b, 1, &n);
    return tg_op(b->g, "LayerNormalization", 3,
                 (qn_value_id[]){ x, scale, shift });
}

static qn_value_id block(builder *b, qn_value_id x)
{
    static const float scale = 0.25f;
    qn_graph *g = b->g;
    qn_value_id q = product(b, x, WIDTH, WIDTH), k = product(b, x, WIDTH, WIDTH),
                v = product(b, x, WIDTH, WIDTH);
    qn_value_id kt = tg_op1(g, "Transpose", k);
    tg_attr_ints(g, kt, "perm", 3, (int64_t[]){ 0, 2, 1 });
    qn_value_id s = tg_op2(g, "Mul", tg_op2(g, "MatMul", q, kt),
                           tg_const(g, QN_F32, 0, NULL, &scale));
    qn_value_id y = tg_op2(g, "MatMul", tg_op1(g, "Softmax", s), v);
    x = norm(b, tg_op2(g, "Add", x, product(b, y, WIDTH, WIDTH)));
    y = product(b, x, WIDTH, 2 * WIDTH);
    y = tg_op2(g, "Mul", y, tg_op1(g, "Sigmoid", y));
    return norm(b, tg_op2(g, "Add", x, product(b, y, 2 * WIDTH, WIDTH)));
}

static qn_value_id sequence(builder *b)
{
    return tg_input(b->g, "x", QN_F32, 3, (int64_t[]){ -1, TOKENS, WIDTH });
}

static void transformer(builder *b, int depth)
{
    qn_value_id x = sequence(b);
    for (int i = 0; i < depth; i++)
        x = block(b, x);
    tg_output(b->g, x, "y");
}

/* ---- with the host ---- */

static qn_value_id cast(builder *b, qn_value_id x, int64_t to)
{
    qn_value_id y = tg_op1(b->g, "Cast", x);
    tg_attr_int(b->g, y, "to", to);
    return y;
}

/* x x^T as doubles, beside a branch that stays on the device, and added to it:
 * values that go to the host and back while the device goes on. */
static qn_value_id detour(builder *b, qn_value_id x)
{
    enum { FLOAT = 1, DOUBLE = 11 };
    qn_graph *g = b->g;
    qn_value_id xt = tg_op1(g, "Transpose", x);
    tg_attr_ints(g, xt, "perm", 3, (int64_t[]){ 0, 2, 1 });
    qn_value_id square =
        tg_op2(g, "MatMul", cast(b, x, DOUBLE), cast(b, xt, DOUBLE));
    qn_value_id there = tg_op2(g, "MatMul", cast(b, square, FLOAT), x);
    qn_value_id here = product(b, product(b, x, WIDTH, WIDTH), WIDTH, WIDTH);
    return norm(b, tg_op2(g, "Add", there, here));
}

static void with_host(builder *b, int depth)
{
    qn_value_id x = sequence(b);
    for (int i = 0; i < depth; i++)
        x = detour(b, x);
    tg_output(b->g, x, "y");
}

/* ---- control flow ---- */

static qn_graph *arm(builder *b, qn_value_id x, qn_value_id beside)
{
    builder child = { tg_new(b->g), b->state };
    qn_value_id in = tg_capture(child.g, x), other = tg_capture(child.g, beside);
    qn_value_id y = product(&child, in, WIDTH, WIDTH);
    qn_value_id z = tg_op1(child.g, "Tanh", product(&child, in, WIDTH, WIDTH));
    tg_output(child.g, tg_op2(child.g, "Add", tg_op2(child.g, "Mul", y, z), other),
              "arm");
    b->state = child.state;
    return child.g;
}

/* By the sign of token `i` of the model's input. */
static qn_value_id choice(builder *b, qn_value_id input, int i, qn_value_id x)
{
    static const int64_t tokens[TOKENS] = { 0, 1, 2, 3, 4 };
    static const float zero = 0;
    qn_graph *g = b->g;
    qn_value_id at = tg_const(g, QN_I64, 0, NULL, &tokens[i % TOKENS]);
    qn_value_id token = tg_op2(g, "Gather", input, at);
    tg_attr_int(g, token, "axis", 1);
    qn_value_id sum = tg_op1(g, "ReduceSum", token);
    tg_attr_int(g, sum, "keepdims", 0);
    qn_value_id c = tg_op2(g, "Greater", sum,
                           tg_const(g, QN_F32, 0, NULL, &zero));
    qn_value_id beside = product(b, x, WIDTH, WIDTH);
    qn_value_id y = tg_op1(g, "If", c);
    tg_attr_graph(g, y, "then_branch", arm(b, x, beside));
    tg_attr_graph(g, y, "else_branch", arm(b, beside, x));
    return norm(b, tg_op2(g, "Add", y, beside));
}

static qn_value_id choices(builder *b, int depth)
{
    qn_value_id input = sequence(b), x = input;
    for (int i = 0; i < depth; i++)
        x = choice(b, input, i, x);
    return x;
}

static void control(builder *b, int depth)
{
    tg_output(b->g, choices(b, depth), "y");
}

/* How many are picked nobody knows before it has run. */
static void dynamic(builder *b, int depth)
{
    static const float zero = 0;
    qn_graph *g = b->g;
    qn_value_id x = choices(b, depth);
    qn_value_id where = tg_op1(
        g, "NonZero",
        tg_op2(g, "Greater", x, tg_const(g, QN_F32, 0, NULL, &zero)));
    qn_value_id at = tg_op1(g, "Transpose", where);
    tg_output(g, tg_op2(g, "GatherND", x, at), "picked");
    tg_output(g, x, "y");
}

/* ---- all of them ---- */

static const struct {
    const char *name;
    void (*build)(builder *b, int depth);
} kinds[MODEL_KINDS] = {
    [MODEL_INCEPTION] = { "inception", inception },
    [MODEL_TRANSFORMER] = { "transformer", transformer },
    [MODEL_HOST] = { "with host steps", with_host },
    [MODEL_CONTROL] = { "control flow", control },
    [MODEL_DYNAMIC] = { "dynamic shapes", dynamic },
};

const char *model_name(int kind)
{
    return kinds[kind].name;
}

qn_graph *model_build(int kind, int depth)
{
    builder b = { tg_new(NULL), 7u + (uint32_t)kind };
    kinds[kind].build(&b, depth);
    tg_finish(b.g);
    return b.g;
}

qn_tensor model_input(int kind, int set, qn_region *region)
{
    int64_t batch = 1 + set % 2 + (set >> 8);
    uint32_t state = 77u + (uint32_t)set;
    qn_tensor t = { QN_F32,
                    kind == MODEL_INCEPTION
                        ? qn_shape_make(4, (int64_t[]){ batch, CHANNELS, SIDE,
                                                        SIDE })
                        : qn_shape_make(3, (int64_t[]){ batch, TOKENS, WIDTH }),
                    NULL };
    int64_t n = qn_count(&t);
    float *x = qn_region_alloc(region, (size_t)n, sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++) {
        int64_t token = i / WIDTH % TOKENS;
        x[i] = 2 * draw(&state) + (set >> (token + 1) & 1 ? -0.5f : 0.5f);
    }
    t.data = x;
    return t;
}

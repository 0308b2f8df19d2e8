/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cuda/card/networks.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FLOAT = 1, INT64 = 7, OPSET = 20, IR = 9, NAME = 24, INTS = 7 };

/* A value's name; `v` counts them up. */
typedef struct name {
    char text[NAME];
} name;

typedef struct net {
    pb graph;
    uint32_t state; /* of the generator */
    int n;          /* names so far */
} net;

static name fresh(net *t)
{
    name s;
    snprintf(s.text, sizeof s.text, "v%d", t->n++);
    return s;
}

/* Uniform in [-1, 1). */
static float draw(net *t)
{
    t->state = t->state * 1664525u + 1013904223u;
    return ((float)(t->state >> 8) - 8388608.0f) / 8388608.0f;
}

/* middle + spread * uniform. */
static name constant(net *t, int rank, const int64_t *dims, float middle,
                     float spread)
{
    name s = fresh(t);
    size_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= (size_t)dims[i];
    float *values = malloc((n + 1) * sizeof *values);
    if (!values)
        abort();
    for (size_t i = 0; i < n; i++)
        values[i] = middle + spread * draw(t);
    pb tensor = pb_tensor(s.text, FLOAT, rank, dims);
    pb_bytes(&tensor, PB_TENSOR_RAW, values, n * sizeof *values);
    free(values);
    pb_put(&t->graph, PB_GRAPH_INITIALIZER, &tensor);
    return s;
}

/* So that a sum over `fan` products keeps the variance (He). */
static name weights(net *t, int rank, const int64_t *dims, int64_t fan)
{
    return constant(t, rank, dims, 0, sqrtf(6.0f / (float)fan));
}

static name integers(net *t, int64_t n, const int64_t *values)
{
    name s = fresh(t);
    pb tensor = pb_tensor(s.text, INT64, 1, &n);
    pb_bytes(&tensor, PB_TENSOR_RAW, values, (size_t)n * sizeof *values);
    pb_put(&t->graph, PB_GRAPH_INITIALIZER, &tensor);
    return s;
}

static void ints(pb *node, const char *attr, int n, const int64_t *values)
{
    pb a = { 0 };
    pb_text(&a, 1, attr);
    pb_int(&a, PB_ATTR_TYPE, INTS);
    for (int i = 0; i < n; i++)
        pb_int(&a, 8, values[i]);
    pb_put(node, PB_NODE_ATTRIBUTE, &a);
}

/* Begin a node with n inputs, each a name; *out: its output. */
static pb begin(net *t, const char *op, name *out, int n, ...)
{
    char in[8 * NAME] = "";
    size_t at = 0;
    va_list args;
    va_start(args, n);
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(in + at, sizeof in - at, "%s%s", i ? "," : "",
                               va_arg(args, name).text);
    va_end(args);
    *out = fresh(t);
    return pb_node(op, "", in, out->text);
}

static void end(net *t, pb *node)
{
    pb_put(&t->graph, PB_GRAPH_NODE, node);
}

static name one(net *t, const char *op, name x)
{
    name y;
    pb node = begin(t, op, &y, 1, x);
    end(t, &node);
    return y;
}

static name two(net *t, const char *op, name a, name b)
{
    name y;
    pb node = begin(t, op, &y, 2, a, b);
    end(t, &node);
    return y;
}

/* [in, h, w] to [out, h / stride, w / stride], "same" padding, with a bias. */
static name conv(net *t, name x, int64_t in, int64_t out, int64_t k,
                 int64_t stride, int64_t group)
{
    name y;
    const int64_t p = k / 2, per = in / group;
    name w = weights(t, 4, (int64_t[]){ out, per, k, k }, per * k * k);
    name b = constant(t, 1, &out, 0, 0.1f);
    pb node = begin(t, "Conv", &y, 3, x, w, b);
    ints(&node, "pads", 4, (int64_t[]){ p, p, p, p });
    ints(&node, "strides", 2, (int64_t[]){ stride, stride });
    pb_add_int_attr(&node, "group", group);
    end(t, &node);
    return y;
}

static name normalised(net *t, name x, int64_t c)
{
    name y;
    name scale = constant(t, 1, &c, 1, 0.3f), shift = constant(t, 1, &c, 0, 0.3f);
    name mean = constant(t, 1, &c, 0, 0.1f), var = constant(t, 1, &c, 1, 0.4f);
    pb node = begin(t, "BatchNormalization", &y, 5, x, scale, shift, mean, var);
    end(t, &node);
    return y;
}

static name pooled(net *t, name x, int64_t k, int64_t stride)
{
    name y;
    const int64_t p = k / 2;
    pb node = begin(t, "MaxPool", &y, 1, x);
    ints(&node, "kernel_shape", 2, (int64_t[]){ k, k });
    ints(&node, "pads", 4, (int64_t[]){ p, p, p, p });
    ints(&node, "strides", 2, (int64_t[]){ stride, stride });
    end(t, &node);
    return y;
}

static name dense(net *t, name x, int64_t in, int64_t out)
{
    name w = weights(t, 2, (int64_t[]){ in, out }, in);
    return two(t, "Add", two(t, "MatMul", x, w), constant(t, 1, &out, 0, 0.1f));
}

static name classified(net *t, name x, int64_t c)
{
    return dense(t, one(t, "Flatten", one(t, "GlobalAveragePool", x)), c, 1000);
}

/* ---- the networks ---- */

static name residual(net *t, name x)
{
    int64_t in = 64;
    x = one(t, "Relu", normalised(t, conv(t, x, 3, in, 7, 2, 1), in));
    x = pooled(t, x, 3, 2);
    for (int64_t stage = 0, width = 64; stage < 4; stage++, width *= 2)
        for (int i = 0; i < 2; i++) {
            const int64_t out = 4 * width, stride = stage && !i ? 2 : 1;
            name skip = i ? x : normalised(t, conv(t, x, in, out, 1, stride, 1),
                                           out);
            name y = conv(t, x, in, width, 1, 1, 1);
            y = one(t, "Relu", normalised(t, y, width));
            y = conv(t, y, width, width, 3, stride, 1);
            y = one(t, "Relu", normalised(t, y, width));
            y = normalised(t, conv(t, y, width, out, 1, 1, 1), out);
            x = one(t, "Relu", two(t, "Add", y, skip));
            in = out;
        }
    return classified(t, x, in);
}

static name mobile(net *t, name x)
{
    static const int64_t widths[] = { 16, 24, 24, 40, 40, 80, 80, 112 };
    int64_t in = 16;
    x = one(t, "HardSwish", conv(t, x, 3, in, 3, 2, 1));
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        const int64_t out = widths[i], wide = 4 * in;
        const int64_t stride = out != in ? 2 : 1;
        name y = one(t, "HardSwish", conv(t, x, in, wide, 1, 1, 1));
        y = one(t, "Relu", conv(t, y, wide, wide, i & 1 ? 5 : 3, stride, wide));
        name gate = one(t, "GlobalAveragePool", y);
        gate = one(t, "Relu", conv(t, gate, wide, wide / 4, 1, 1, 1));
        gate = one(t, "HardSigmoid", conv(t, gate, wide / 4, wide, 1, 1, 1));
        y = conv(t, two(t, "Mul", y, gate), wide, out, 1, 1, 1);
        x = out == in ? two(t, "Add", x, y) : y;
        in = out;
    }
    return classified(t, x, in);
}

static name squeeze(net *t, name x)
{
    int64_t in = 64;
    x = one(t, "Relu", conv(t, x, 3, in, 3, 2, 1));
    for (int i = 0; i < 8; i++) {
        const int64_t narrow = 16 + 8 * (i / 2), wide = 4 * narrow;
        if (i % 3 == 0)
            x = pooled(t, x, 3, 2);
        name s = one(t, "Relu", conv(t, x, in, narrow, 1, 1, 1)), y;
        name a = one(t, "Relu", conv(t, s, narrow, wide, 1, 1, 1));
        name b = one(t, "Relu", conv(t, s, narrow, wide, 3, 1, 1));
        pb node = begin(t, "Concat", &y, 2, a, b);
        pb_add_int_attr(&node, "axis", 1);
        end(t, &node);
        x = y;
        in = 2 * wide;
    }
    return classified(t, x, in);
}

static name layer_norm(net *t, name x, int64_t d)
{
    name y;
    name scale = constant(t, 1, &d, 1, 0.3f), shift = constant(t, 1, &d, 0, 0.1f);
    pb node = begin(t, "LayerNormalization", &y, 3, x, scale, shift);
    pb_add_int_attr(&node, "axis", -1);
    end(t, &node);
    return y;
}

static name turned(net *t, name x, int64_t a, int64_t b, int64_t c, int64_t d)
{
    name y;
    pb node = begin(t, "Transpose", &y, 1, x);
    ints(&node, "perm", 4, (int64_t[]){ a, b, c, d });
    end(t, &node);
    return y;
}

static name transformer(net *t, name x, int64_t tokens, int64_t d)
{
    const int64_t heads = 4;
    name split = integers(t, 4, (int64_t[]){ 1, tokens, heads, d / heads });
    name join = integers(t, 3, (int64_t[]){ 1, tokens, d });
    name root = constant(t, 0, NULL, 1.0f / sqrtf((float)(d / heads)), 0);
    for (int i = 0; i < 4; i++) {
        name n = layer_norm(t, x, d);
        name q = two(t, "Reshape", dense(t, n, d, d), split);
        name k = two(t, "Reshape", dense(t, n, d, d), split);
        name v = two(t, "Reshape", dense(t, n, d, d), split);
        name s = two(t, "MatMul", turned(t, q, 0, 2, 1, 3),
                     turned(t, k, 0, 2, 3, 1));
        s = one(t, "Softmax", two(t, "Mul", s, root));
        s = two(t, "MatMul", s, turned(t, v, 0, 2, 1, 3));
        s = two(t, "Reshape", turned(t, s, 0, 2, 1, 3), join);
        x = two(t, "Add", x, dense(t, s, d, d));
        n = dense(t, layer_norm(t, x, d), d, 4 * d);
        x = two(t, "Add", x, dense(t, one(t, "Gelu", n), 4 * d, d));
    }
    return layer_norm(t, x, d);
}

static name recurrent(net *t, name x, int64_t in, int64_t hidden)
{
    name y;
    name w = constant(t, 3, (int64_t[]){ 1, 4 * hidden, in }, 0, 0.1f);
    name r = constant(t, 3, (int64_t[]){ 1, 4 * hidden, hidden }, 0, 0.1f);
    name b = constant(t, 2, (int64_t[]){ 1, 8 * hidden }, 0, 0.1f);
    pb node = begin(t, "LSTM", &y, 4, x, w, r, b);
    pb_add_int_attr(&node, "hidden_size", hidden);
    end(t, &node);
    return dense(t, y, hidden, 64);
}

static const char *const names[NETWORKS] = { "residual", "mobile", "squeeze",
                                             "transformer", "recurrent" };

const char *network_name(int kind)
{
    return names[kind];
}

pb network_build(int kind, int small)
{
    net t = { .state = 1u + (uint32_t)kind };
    name x = { "x" }, y = { "" };
    const int64_t tokens = small ? 16 : 128, width = small ? 64 : 512;
    char shape[64];
    if (kind == NETWORK_TRANSFORMER)
        snprintf(shape, sizeof shape, "1,%d,%d", (int)tokens, (int)width);
    else if (kind == NETWORK_RECURRENT)
        snprintf(shape, sizeof shape, "%d,1,64", (int)tokens);
    else
        snprintf(shape, sizeof shape, "1,3,%d,%d", small ? 32 : 224,
                 small ? 32 : 224);
    pb_add_input(&t.graph, "x", FLOAT, shape);
    switch (kind) {
    case NETWORK_RESIDUAL:
        y = residual(&t, x);
        break;
    case NETWORK_MOBILE:
        y = mobile(&t, x);
        break;
    case NETWORK_SQUEEZE:
        y = squeeze(&t, x);
        break;
    case NETWORK_TRANSFORMER:
        y = transformer(&t, x, tokens, width);
        break;
    default:
        y = recurrent(&t, x, 64, small ? 16 : 96);
        break;
    }
    pb_add_node(&t.graph, "Identity", "", y.text, "y");
    pb_add_output(&t.graph, "y", FLOAT, NULL);
    return pb_model(IR, OPSET, &t.graph);
}

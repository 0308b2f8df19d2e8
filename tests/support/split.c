/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/split.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { HIDDEN = 12, LAYERS = 6, TENSORS = 3, KINDS = 5 }; /* HIDDEN: of 1 to 4 */

void tg_collective(qn_graph *g, const char *op, const char *attr,
                   const char *text, int64_t number, uint32_t n,
                   const qn_value_id *in, qn_value_id *out)
{
    qn_error err = { 0 };
    qn_node *node;
    for (uint32_t i = 0; i < n; i++) {
        qn_value v = { .name = op, .kind = QN_VALUE_NODE, .rank = -1 };
        if (qn_graph_add_value(g, &v, &out[i], &err) != QN_OK)
            fail_msg("%s", err.text);
    }
    if (qn_graph_add_node(g, n, n, attr != NULL, &node, &err) != QN_OK)
        fail_msg("%s", err.text);
    node->domain = "ai.quern";
    node->op_name = op;
    node->opset = 1;
    memcpy(node->in, in, n * sizeof *in);
    memcpy(node->out, out, n * sizeof *out);
    if (attr) {
        qn_attr *a = qn_region_alloc(g->region, 1, sizeof *a);
        assert_non_null(a);
        *a = (qn_attr){ .name = attr,
                        .kind = text ? QN_ATTR_STRING : QN_ATTR_INT,
                        .i = number };
        if (text)
            a->s = (qn_text){ text, strlen(text) };
        node->attrs = a;
    }
}

qn_value_id tg_collective1(qn_graph *g, const char *op, qn_value_id in)
{
    qn_value_id out;
    tg_collective(g, op, NULL, NULL, 0, 1, &in, &out);
    return out;
}

typedef struct cutter {
    split *s;
    uint64_t state;
    qn_value_id whole, part[SPLIT_RANKS]; /* what has been computed */
} cutter;

static uint32_t next(cutter *c, uint32_t below)
{
    c->state = c->state * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(c->state >> 33) % below;
}

static float *numbers(cutter *c, size_t n)
{
    float *p = qn_region_alloc(&c->s->data, n, sizeof *p);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        p[i] = (float)next(c, 3) - 1;
    return p;
}

static qn_value_id matrix(qn_graph *g, int64_t rows, int64_t columns,
                          const float *data)
{
    return tg_const(g, QN_F32, 2, (int64_t[]){ rows, columns }, data);
}

static qn_value_id scalar(cutter *c, qn_graph *g, float v)
{
    float *p = numbers(c, 1);
    *p = v;
    return tg_const(g, QN_F32, 0, NULL, p);
}

/* Back to -3 ... 3. */
static qn_value_id bound(cutter *c, qn_graph *g, qn_value_id v)
{
    v = tg_op2(g, "Min", v, scalar(c, g, 3));
    return tg_op2(g, "Max", v, scalar(c, g, -3));
}

/* Relu(h A) B, where a rank has columns of A and rows of B: its share of the
 * sum. */
static void perceptron(cutter *c, qn_value_id *whole, qn_value_id *share)
{
    split *s = c->s;
    int64_t piece = HIDDEN / s->ranks;
    float *a = numbers(c, SPLIT_WIDTH * HIDDEN);
    float *b = numbers(c, HIDDEN * SPLIT_WIDTH);
    qn_value_id h = tg_op2(s->whole, "MatMul", c->whole,
                           matrix(s->whole, SPLIT_WIDTH, HIDDEN, a));
    *whole = tg_op2(s->whole, "MatMul", tg_op1(s->whole, "Relu", h),
                    matrix(s->whole, HIDDEN, SPLIT_WIDTH, b));
    for (uint32_t r = 0; r < s->ranks; r++) {
        qn_graph *g = s->parts[r];
        float *columns = numbers(c, (size_t)(SPLIT_WIDTH * piece));
        for (int64_t i = 0; i < SPLIT_WIDTH; i++)
            memcpy(columns + i * piece, a + i * HIDDEN + r * piece,
                   (size_t)piece * sizeof *a);
        h = tg_op2(g, "MatMul", c->part[r],
                   matrix(g, SPLIT_WIDTH, piece, columns));
        share[r] = tg_op2(g, "MatMul", tg_op1(g, "Relu", h),
                          matrix(g, piece, SPLIT_WIDTH,
                                 b + r * piece * SPLIT_WIDTH));
    }
}

static void all_reduced(cutter *c)
{
    split *s = c->s;
    qn_value_id share[SPLIT_RANKS];
    perceptron(c, &c->whole, share);
    for (uint32_t r = 0; r < s->ranks; r++)
        c->part[r] = tg_collective1(s->parts[r], "AllReduce", share[r]);
}

/* Each rank has the sum's rows of its own for a while. */
static void scattered(cutter *c)
{
    split *s = c->s;
    qn_value_id share[SPLIT_RANKS];
    perceptron(c, &c->whole, share);
    c->whole = tg_op1(s->whole, "Neg", c->whole);
    for (uint32_t r = 0; r < s->ranks; r++) {
        qn_value_id v = tg_collective1(s->parts[r], "ReduceScatter", share[r]);
        c->part[r] = tg_collective1(s->parts[r], "AllGather",
                                    tg_op1(s->parts[r], "Neg", v));
    }
}

/* The root's alone counts. */
static void broadcast(cutter *c)
{
    split *s = c->s;
    uint32_t root = next(c, s->ranks);
    for (uint32_t r = 0; r < s->ranks; r++) {
        qn_value_id v = tg_op2(s->parts[r], "Add", c->part[r],
                               scalar(c, s->parts[r], r == root ? 1 : 100));
        tg_collective(s->parts[r], "Broadcast", "root", NULL, root, 1, &v,
                      &c->part[r]);
    }
    c->whole = tg_op2(s->whole, "Add", c->whole, scalar(c, s->whole, 1));
}

/* The largest of h times a number of each rank, and two more: h itself, which is
 * read again, and a small tensor between. */
static void several(cutter *c)
{
    split *s = c->s;
    qn_value_id best = QN_NO_VALUE;
    for (uint32_t r = 0; r < s->ranks; r++) {
        qn_graph *g = s->parts[r];
        float factor = (float)next(c, 5) - 2;
        qn_value_id w = tg_op2(s->whole, "Mul", c->whole,
                               scalar(c, s->whole, factor));
        qn_value_id in[TENSORS], out[TENSORS];
        best = r ? tg_op2(s->whole, "Max", best, w) : w;
        in[0] = c->part[r];
        in[1] = tg_op1(g, "ReduceMax", c->part[r]);
        in[2] = tg_op2(g, "Mul", c->part[r], scalar(c, g, factor));
        tg_collective(g, "AllReduce", "op", "max", 0, TENSORS, in, out);
        out[2] = tg_op2(g, "Add", out[2], out[0]);
        out[2] = tg_op2(g, "Add", out[2], c->part[r]);
        c->part[r] = tg_op2(g, "Sub", out[2], out[1]);
    }
    qn_value_id w = tg_op2(s->whole, "Add", best, c->whole);
    w = tg_op2(s->whole, "Add", w, c->whole);
    c->whole = tg_op2(s->whole, "Sub", w,
                      tg_op1(s->whole, "ReduceMax", c->whole));
}

/* Every rank does the same. */
static void alike(cutter *c)
{
    split *s = c->s;
    c->whole = tg_op2(s->whole, "Mul", c->whole, tg_op1(s->whole, "Abs",
                                                        c->whole));
    for (uint32_t r = 0; r < s->ranks; r++)
        c->part[r] = tg_op2(s->parts[r], "Mul", c->part[r],
                            tg_op1(s->parts[r], "Abs", c->part[r]));
}

void split_build(split *s, uint32_t ranks, uint64_t seed)
{
    static void (*const layers[KINDS])(cutter *) = { all_reduced, scattered,
                                                     broadcast, several,
                                                     alike };
    const int64_t dims[] = { SPLIT_ROWS, SPLIT_WIDTH };
    cutter c = { .s = s, .state = seed * 2654435761U + ranks };
    memset(s, 0, sizeof *s);
    s->ranks = ranks;
    for (size_t i = 0; i < sizeof s->x / sizeof s->x[0]; i++)
        s->x[i] = (float)next(&c, 7) - 3;
    s->whole = tg_new(NULL);
    c.whole = tg_input(s->whole, "x", QN_F32, 2, dims);
    for (uint32_t r = 0; r < ranks; r++) {
        s->parts[r] = tg_new(NULL);
        c.part[r] = tg_input(s->parts[r], "x", QN_F32, 2, dims);
    }
    for (uint32_t n = 1 + next(&c, LAYERS); n; n--) {
        layers[next(&c, KINDS)](&c);
        c.whole = bound(&c, s->whole, c.whole);
        for (uint32_t r = 0; r < ranks; r++)
            c.part[r] = bound(&c, s->parts[r], c.part[r]);
    }
    tg_output(s->whole, c.whole, "y");
    tg_finish(s->whole);
    for (uint32_t r = 0; r < ranks; r++) {
        tg_output(s->parts[r], c.part[r], "y");
        tg_finish(s->parts[r]);
    }
}

void split_release(split *s)
{
    qn_region_release(&s->data);
}

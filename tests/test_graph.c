/* SPDX-License-Identifier: Apache-2.0 */
/* Building kernel graphs by hand, and completing them. */
#include "runtime/graph/graph.h"
#include "runtime/ops/op.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void must(qn_status st, const qn_error *err)
{
    if (st != QN_OK)
        fail_msg("%s: %s", qn_status_name(st), err->text);
}

static qn_graph *new_graph(qn_graph *parent)
{
    qn_error err = { 0 };
    qn_graph *g;
    must(qn_graph_new(parent, "g", &g, &err), &err);
    return g;
}

static qn_value_id value(qn_graph *g, const char *name, qn_value_kind kind,
                         qn_dtype dtype)
{
    qn_error err = { 0 };
    qn_value_id id;
    qn_value v = { .name = name, .kind = kind, .rank = -1,
                   .type = { .kind = dtype ? QN_TYPE_TENSOR : QN_TYPE_NONE,
                             .dtype = dtype } };
    must(qn_graph_add_value(g, &v, &id, &err), &err);
    if (kind == QN_VALUE_INPUT)
        must(qn_graph_add_input(g, id, &err), &err);
    return id;
}

static void output(qn_graph *g, qn_value_id id)
{
    qn_error err = { 0 };
    qn_value decl = { .name = g->values[id].name, .rank = -1 };
    must(qn_graph_add_output(g, id, &decl, &err), &err);
}

static qn_node *node(qn_graph *g, const char *op, int opset, uint32_t n_in,
                     const qn_value_id *in, uint32_t n_out,
                     const qn_value_id *out)
{
    qn_error err = { 0 };
    qn_node *n;
    must(qn_graph_add_node(g, n_in, n_out, 2, &n, &err), &err);
    n->op_name = op;
    n->opset = opset;
    n->n_attrs = 0;
    for (uint32_t i = 0; i < n_in; i++)
        n->in[i] = in[i];
    for (uint32_t i = 0; i < n_out; i++)
        n->out[i] = out[i];
    return n;
}

static void test_new_and_free(void **state)
{
    (void)state;
    qn_graph_free(NULL);
    qn_graph *g = new_graph(NULL), *child = new_graph(g);
    assert_ptr_equal(child->region, g->region);
    assert_ptr_equal(child->parent, g);
    qn_graph_free(child); /* children go with the main graph */
    qn_graph_free(g);
}

static void test_capture(void **state)
{
    qn_graph *g = new_graph(NULL), *child = new_graph(g);
    qn_error err = { 0 };
    qn_value_id a = value(g, "a", QN_VALUE_INPUT, QN_F32), one, two;

    (void)state;
    must(qn_graph_capture(child, a, &one, &err), &err);
    must(qn_graph_capture(child, a, &two, &err), &err);
    assert_int_equal(one, two);
    assert_int_equal(child->n_values, 1);
    assert_int_equal(child->values[one].kind, QN_VALUE_CAPTURE);
    assert_int_equal(child->values[one].outer, a);
    assert_int_equal(qn_graph_capture(child, 7, &one, &err), QN_INTERNAL);
    assert_int_equal(qn_graph_capture(g, a, &one, &err), QN_INTERNAL);
    assert_int_equal(qn_graph_finish(child, &err), QN_INTERNAL);
    qn_graph_free(g);
}

/* A graph of n Max nodes over random earlier values, added in random order:
 * the result is sorted, and of all sorted orders the first by model order. */
static void random_graph(unsigned seed, uint32_t n)
{
    enum { MAX_NODES = 64, MAX_IN = 3 };
    qn_graph *g = new_graph(NULL);
    qn_error err = { 0 };
    qn_value_id x = value(g, "x", QN_VALUE_INPUT, QN_F32), v[MAX_NODES];
    uint32_t place[MAX_NODES], in[MAX_NODES][MAX_IN], n_in[MAX_NODES];

    assert_true(n <= MAX_NODES);
    for (uint32_t i = 0; i < n; i++) {
        v[i] = value(g, "", QN_VALUE_NODE, QN_NONE);
        place[i] = i;
        n_in[i] = 1 + (uint32_t)rand_r(&seed) % MAX_IN;
        for (uint32_t k = 0; k < n_in[i]; k++)
            in[i][k] = i ? (uint32_t)rand_r(&seed) % (i + 1) : 0;
    }
    for (uint32_t i = n; i > 1; i--) {
        uint32_t k = (uint32_t)rand_r(&seed) % i, t = place[k];
        place[k] = place[i - 1];
        place[i - 1] = t;
    }
    for (uint32_t p = 0; p < n; p++) {
        uint32_t i = place[p];
        qn_value_id ids[MAX_IN];
        for (uint32_t k = 0; k < n_in[i]; k++)
            ids[k] = in[i][k] == i ? x : v[in[i][k]];
        node(g, "Max", 13, n_in[i], ids, 1, &v[i]);
    }
    for (uint32_t i = 0; i < n; i++)
        output(g, v[i]);
    qn_node *model[MAX_NODES];
    memcpy(model, g->nodes, n * sizeof model[0]);
    must(qn_graph_finish(g, &err), &err);
    assert_int_equal(g->n_nodes, n);
    /* the same by trying: always the first node whose inputs are there */
    bool done[MAX_NODES] = { false };
    for (uint32_t at = 0; at < n; at++) {
        for (uint32_t p = 0; p < n; p++) {
            uint32_t i = place[p];
            bool ready = !done[i];
            for (uint32_t k = 0; k < n_in[i]; k++)
                ready = ready && (in[i][k] == i || done[in[i][k]]);
            if (!ready)
                continue;
            if (g->nodes[at] != model[p])
                fail_msg("seed %u: place %u", seed, at);
            assert_int_equal(g->nodes[at]->index, at);
            done[i] = true;
            break;
        }
    }
    qn_graph_free(g);
}

static void test_order(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 200; seed++)
        random_graph(seed, 1 + seed % 40);
}

/* A chain of 20,000 nodes, last one first. */
static void test_long_chain(void **state)
{
    enum { N = 20000 };
    qn_graph *g = new_graph(NULL);
    qn_error err = { 0 };
    qn_value_id first = value(g, "x", QN_VALUE_INPUT, QN_F32), last = 0;

    (void)state;
    for (uint32_t i = 0; i < N; i++)
        last = value(g, "", QN_VALUE_NODE, QN_NONE);
    for (qn_value_id i = last; i > first; i--) {
        qn_value_id in = i - 1;
        node(g, "Identity", 13, 1, &in, 1, &i);
    }
    output(g, last);
    must(qn_graph_finish(g, &err), &err);
    assert_int_equal(g->n_nodes, N);
    for (uint32_t i = 0; i < N; i++)
        assert_int_equal(g->nodes[i]->in[0], i);
    qn_graph_free(g);
}

static void test_dropped(void **state)
{
    qn_graph *g = new_graph(NULL);
    qn_error err = { 0 };

    (void)state;
    qn_value_id x = value(g, "x", QN_VALUE_INPUT, QN_F32);
    qn_value_id unused = value(g, "unused", QN_VALUE_INPUT, QN_F32);
    value(g, "w", QN_VALUE_CONST, QN_F32);
    qn_value_id alone = value(g, "alone", QN_VALUE_CONST, QN_F32);
    qn_value_id d = value(g, "d", QN_VALUE_NODE, QN_NONE);
    qn_value_id e = value(g, "e", QN_VALUE_NODE, QN_NONE);
    qn_value_id y = value(g, "y", QN_VALUE_NODE, QN_NONE);
    node(g, "Identity", 13, 1, &x, 1, &d);
    node(g, "NoSuchOperator", 13, 1, &d, 1, &e);
    node(g, "Identity", 13, 1, &x, 1, &y);
    output(g, y);
    output(g, y); /* a value may be several outputs */
    output(g, alone);
    must(qn_graph_finish(g, &err), &err);
    assert_int_equal(g->n_nodes, 1);
    assert_int_equal(g->n_dropped_nodes, 2);
    assert_int_equal(g->n_dropped_constants, 1);
    assert_int_equal(g->n_values, 4); /* x, unused, alone, y */
    assert_int_equal(g->n_inputs, 2);
    assert_string_equal(g->values[g->inputs[1]].name, "unused");
    assert_string_equal(g->values[g->outputs[2]].name, "alone");
    assert_int_equal(g->outputs[0], g->outputs[1]);
    assert_int_equal(unused, 1);
    qn_graph_free(g);
}

/* Omitted outputs: those that the operator always makes get a value. */
static void test_omitted_outputs(void **state)
{
    qn_graph *g = new_graph(NULL);
    qn_error err = { 0 };

    (void)state;
    qn_value_id in[] = { value(g, "x", QN_VALUE_INPUT, QN_F32),
                         value(g, "k", QN_VALUE_INPUT, QN_I64) };
    qn_value_id out[] = { QN_NO_VALUE, value(g, "i", QN_VALUE_NODE, QN_NONE) };
    node(g, "TopK", 11, 2, in, 2, out);
    output(g, out[1]);
    must(qn_graph_finish(g, &err), &err);
    const qn_node *n = g->nodes[0];
    assert_int_equal(n->n_out, 2);
    assert_true(n->out[0] != QN_NO_VALUE);
    assert_int_equal(g->values[n->out[0]].type.dtype, QN_F32);
    assert_int_equal(g->values[n->out[0]].node, 0);
    assert_int_equal(g->values[n->out[1]].type.dtype, QN_I64);
    qn_graph_free(g);
}

/* ---- faults ---- */

static void twice_made(qn_graph *g, qn_value_id x, qn_value_id y)
{
    node(g, "Identity", 13, 1, &x, 1, &y);
    node(g, "Identity", 13, 1, &x, 1, &y);
}

static void makes_input(qn_graph *g, qn_value_id x, qn_value_id y)
{
    node(g, "Identity", 13, 1, &x, 1, &y);
    node(g, "Identity", 13, 1, &y, 1, &x);
}

static void never_made(qn_graph *g, qn_value_id x, qn_value_id y)
{
    qn_value_id in[] = { x, value(g, "z", QN_VALUE_NODE, QN_NONE) };
    node(g, "Add", 13, 2, in, 1, &y);
}

static void own_result(qn_graph *g, qn_value_id x, qn_value_id y)
{
    qn_value_id in[] = { x, y };
    node(g, "Add", 13, 2, in, 1, &y);
}

/* The branch needs what the If makes. */
static void cycle_through_child(qn_graph *g, qn_value_id x, qn_value_id y)
{
    qn_error err = { 0 };
    qn_value_id c = value(g, "c", QN_VALUE_INPUT, QN_BOOL), in;
    qn_node *n = node(g, "If", 13, 1, &c, 1, &y);
    qn_attr *attrs = qn_region_alloc(g->region, 2, sizeof *attrs);
    assert_non_null(attrs);
    for (int i = 0; i < 2; i++) {
        qn_graph *child = new_graph(g);
        must(qn_graph_capture(child, i ? x : y, &in, &err), &err);
        output(child, in);
        attrs[i] = (qn_attr){ .name = i ? "else_branch" : "then_branch",
                              .kind = QN_ATTR_GRAPH, .graph = child };
    }
    n->attrs = attrs;
    n->n_attrs = 2;
}

static void wrong_id(qn_graph *g, qn_value_id x, qn_value_id y)
{
    qn_value_id in = x + 1000;
    node(g, "Identity", 13, 1, &in, 1, &y);
}

static void old_opset(qn_graph *g, qn_value_id x, qn_value_id y)
{
    qn_value_id in[] = { x, x, x };
    node(g, "Where", 3, 3, in, 1, &y);
}

static void wrong_type(qn_graph *g, qn_value_id x, qn_value_id y)
{
    node(g, "Not", 13, 1, &x, 1, &y);
}

static void of_sequence(qn_graph *g, qn_value_id x, qn_value_id y)
{
    g->values[x].type = (qn_type){ .kind = QN_TYPE_SEQUENCE };
    node(g, "Identity", 16, 1, &x, 1, &y);
}

static void test_faults(void **state)
{
    static const struct {
        void (*build)(qn_graph *g, qn_value_id x, qn_value_id y);
        qn_status want;
        const char *says;
    } rows[] = {
        { twice_made, QN_FORMAT, "value 'y' has two producers" },
        { makes_input, QN_FORMAT, "makes value 'x', which is an input" },
        { never_made, QN_FORMAT, "uses value 'z', which nothing makes" },
        { own_result, QN_FORMAT, "cycle: Add (opset 13) node #0" },
        { cycle_through_child, QN_FORMAT, "cycle: If (opset 13)" },
        { wrong_id, QN_INTERNAL, "value 1000 does not exist" },
        { old_opset, QN_UNSUPPORTED,
          "operator Where (opset 3) node #0: Quern has this operator, but" },
        { wrong_type, QN_TYPE, "input 0 'x' is float, which the operator" },
        { of_sequence, QN_UNSUPPORTED, "input 0 'x' is a sequence" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        qn_graph *g = new_graph(NULL);
        qn_error err = { 0 };
        qn_value_id x = value(g, "x", QN_VALUE_INPUT, QN_F32);
        qn_value_id y = value(g, "y", QN_VALUE_NODE, QN_NONE);
        rows[i].build(g, x, y);
        output(g, y);
        qn_status st = qn_graph_finish(g, &err);
        if (st != rows[i].want || !strstr(err.text, rows[i].says))
            fail_msg("row %zu: %s \"%s\"", i, qn_status_name(st), err.text);
        qn_graph_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_and_free),
        cmocka_unit_test(test_capture),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_long_chain),
        cmocka_unit_test(test_dropped),
        cmocka_unit_test(test_omitted_outputs),
        cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

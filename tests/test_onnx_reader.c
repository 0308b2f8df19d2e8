/* SPDX-License-Identifier: Apache-2.0 */
/* The ONNX reader: what real files do. */
#include "tests/support/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_plain(void **state)
{
    pb g = identity_graph(), m = pb_model(8, 13, &g), entry = { 0 };
    loaded l;

    (void)state;
    pb_text(&entry, 1, "key");
    pb_text(&entry, 2, "bad \xff utf8\nline");
    pb_put(&m, PB_MODEL_METADATA, &entry);
    must_load(&l, &m);
    const qn_model_info *info = qn_model_get_info(l.file);
    assert_int_equal(info->ir_version, 8);
    assert_int_equal(info->opset, 13);
    assert_string_equal(info->producer, "test");
    assert_string_equal(info->graph_name, "g");
    assert_int_equal(info->n_metadata, 1);
    assert_string_equal(info->metadata[0], "key");
    assert_string_equal(info->metadata[1], "bad ? utf8\nline");
    assert_int_equal(l.graph->n_inputs, 1);
    assert_int_equal(l.graph->n_outputs, 1);
    const qn_value *x = find_value(l.graph, "x");
    assert_int_equal(x->kind, QN_VALUE_INPUT);
    assert_int_equal(x->rank, 2);
    assert_int_equal(x->dims[0].value, -1);
    assert_string_equal(x->dims[0].symbol, "N");
    assert_int_equal(x->dims[1].value, 2);
    const qn_value *y = find_value(l.graph, "y");
    assert_int_equal(y->kind, QN_VALUE_NODE);
    assert_int_equal(y->type.dtype, QN_F32);
    assert_int_equal(y->node, 0);
    const char *name;
    char sum[QN_SHA256_TEXT];
    assert_int_equal(qn_model_digest(l.file, 0, &name, sum, &l.err), QN_OK);
    assert_int_equal(strlen(sum), 64);
    assert_int_equal(qn_model_digest(l.file, 1, &name, sum, &l.err),
                     QN_NOT_FOUND);
    unload(&l);
}

/* Imports of domains that nothing uses; a domain twice; "ai.onnx". */
static void test_imports(void **state)
{
    pb g = identity_graph(), m = pb_model(8, 9, &g);
    loaded l;

    (void)state;
    pb_add_import(&m, "com.microsoft.nchwc", 1);
    pb_add_import(&m, "org.pytorch.aten", 1);
    pb_add_import(&m, "ai.onnx", 13);
    pb_add_import(&m, "", 11);
    must_load(&l, &m);
    assert_int_equal(l.graph->nodes[0]->opset, 13);
    unload(&l);
}

static void test_negative_dims_are_dynamic(void **state)
{
    pb g = { 0 };
    loaded l;

    (void)state;
    pb_add_input(&g, "x", F32, "-1,?,0,7");
    pb_add_output(&g, "x", F32, NULL); /* an input is an output */
    pb m = pb_model(8, 13, &g);
    must_load(&l, &m);
    const qn_value *x = find_value(l.graph, "x");
    assert_int_equal(x->rank, 4);
    assert_int_equal(x->dims[0].value, -1);
    assert_null(x->dims[0].symbol);
    assert_int_equal(x->dims[1].value, -1);
    assert_int_equal(x->dims[2].value, 0);
    assert_int_equal(x->dims[3].value, 7);
    assert_int_equal(l.graph->outputs[0], l.graph->inputs[0]);
    unload(&l);
}

static void test_odd_names(void **state)
{
    static const char *const names[] = {
        "{\"1\": \"1_minute_timer\", \"2\": \"5\"}", "a:0", "b/c/d",
        "torch::nn::x", "with space", "\xc3\xa4\xf0\x9f\x98\x80", "%s%n", "."
    };

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        pb g = { 0 };
        loaded l;
        pb node = { 0 };
        pb_add_input(&g, "x", F32, "2");
        pb_add_output(&g, names[i], F32, "2");
        pb_text(&node, 1, "x");
        pb_text(&node, 2, names[i]);
        pb_text(&node, 4, "Identity");
        pb_put(&g, PB_GRAPH_NODE, &node);
        pb m = pb_model(8, 13, &g);
        must_load(&l, &m);
        assert_string_equal(l.graph->output_names[0], names[i]);
        unload(&l);
    }
}

/* Nodes in reverse, two of them with one name; a dead one; omitted inputs. */
static void test_unsorted(void **state)
{
    pb g = { 0 };
    loaded l;

    (void)state;
    pb_add_input(&g, "x", F32, "2");
    pb_add_output(&g, "d", F32, "2");
    pb_add_node(&g, "Identity", "n", "c", "d");
    pb_add_node(&g, "Identity", "n", "b", "c");
    pb_add_node(&g, "NoSuchOperator", "dead", "x,,", "unused");
    pb_add_node(&g, "Identity", "n", "x", "b");
    pb_add_floats(&g, "lone", 1, (const float[]){ 1 });
    pb m = pb_model(8, 13, &g);
    must_load(&l, &m);
    assert_int_equal(l.graph->n_nodes, 3);
    assert_int_equal(l.graph->n_dropped_nodes, 1);
    assert_int_equal(l.graph->n_dropped_constants, 1);
    static const char *const order[] = { "b", "c", "d" };
    for (uint32_t i = 0; i < 3; i++) {
        const qn_node *n = l.graph->nodes[i];
        assert_int_equal(n->index, i);
        assert_string_equal(l.graph->values[n->out[0]].name, order[i]);
    }
    unload(&l);
}

/* Since IR 4 an initializer that is an input is its default; before, a
 * constant. */
static void test_initializer_as_input(void **state)
{
    (void)state;
    for (int64_t ir = 3; ir <= 8; ir += 5) {
        pb g = { 0 };
        loaded l;
        pb_add_input(&g, "x", F32, "2");
        pb_add_input(&g, "w", F32, "2");
        pb_add_floats(&g, "w", 2, (const float[]){ 10, 20 });
        pb_add_output(&g, "y", F32, "2");
        pb_add_node(&g, "Add", "", "x,w", "y");
        pb m = pb_model(ir, 13, &g);
        must_load(&l, &m);
        const qn_value *w = find_value(l.graph, "w");
        assert_int_equal(w->kind, ir < 4 ? QN_VALUE_CONST : QN_VALUE_INPUT);
        assert_int_equal(l.graph->n_inputs, ir < 4 ? 1 : 2);
        assert_non_null(w->data);
        float v[2];
        assert_int_equal(qn_const_read(w->data, v, &l.err), QN_OK);
        assert_true(v[0] == 10 && v[1] == 20);
        unload(&l);
    }
}

/* if (c) { if (c) { y = x } else { y = w } } else { y = x }, all branches
 * without nodes where that is possible. */
static pb nested_if(void)
{
    pb g = { 0 }, inner_then = { 0 }, inner_else = { 0 }, outer_then = { 0 },
       outer_else = { 0 };

    pb_add_output(&inner_then, "x", F32, NULL);
    pb_add_output(&inner_else, "w", F32, NULL);
    pb inner = pb_node("If", "inner", "c", "z");
    pb_add_graph_attr(&inner, "then_branch", &inner_then);
    pb_add_graph_attr(&inner, "else_branch", &inner_else);
    pb_put(&outer_then, PB_GRAPH_NODE, &inner);
    pb_add_output(&outer_then, "z", F32, NULL);
    pb_add_output(&outer_else, "x", F32, NULL);
    pb outer = pb_node("If", "outer", "c", "y");
    pb_add_graph_attr(&outer, "then_branch", &outer_then);
    pb_add_graph_attr(&outer, "else_branch", &outer_else);
    pb_add_input(&g, "c", BOOL, "");
    pb_add_input(&g, "a", F32, "N");
    pb_add_output(&g, "y", F32, "N");
    pb_put(&g, PB_GRAPH_NODE, &outer); /* before x is made */
    pb_add_node(&g, "Identity", "", "a", "x");
    pb_add_floats(&g, "w", 1, (const float[]){ 1 });
    return g;
}

static void test_captures(void **state)
{
    pb g = nested_if(), m = pb_model(8, 13, &g);
    loaded l;

    (void)state;
    must_load(&l, &m);
    assert_int_equal(l.graph->n_nodes, 2);
    assert_string_equal(l.graph->nodes[0]->op_name, "Identity");
    const qn_node *outer = l.graph->nodes[1];
    const qn_graph *then = qn_node_attr(outer, "then_branch")->graph;
    const qn_graph *other = qn_node_attr(outer, "else_branch")->graph;
    assert_ptr_equal(then->parent, l.graph);
    assert_int_equal(other->n_nodes, 0);
    const qn_value *x = &other->values[other->outputs[0]];
    assert_int_equal(x->kind, QN_VALUE_CAPTURE);
    assert_string_equal(l.graph->values[x->outer].name, "x");
    assert_int_equal(x->type.dtype, QN_F32);
    /* the grandchild's captures go through the child */
    const qn_node *inner = then->nodes[0];
    const qn_graph *low = qn_node_attr(inner, "else_branch")->graph;
    const qn_value *w = &low->values[low->outputs[0]];
    assert_int_equal(w->kind, QN_VALUE_CAPTURE);
    assert_int_equal(then->values[w->outer].kind, QN_VALUE_CAPTURE);
    assert_string_equal(
        l.graph->values[then->values[w->outer].outer].name, "w");
    assert_int_equal(find_value(l.graph, "y")->type.dtype, QN_F32);
    unload(&l);
}

/* A capture that only dead nodes use is dropped, with what it stands for. */
static void test_dead_captures(void **state)
{
    pb g = { 0 }, yes = { 0 }, no = { 0 };
    loaded l;

    (void)state;
    pb_add_node(&yes, "Neg", "", "big", "unused");
    pb_add_output(&yes, "x", F32, NULL);
    pb_add_output(&no, "x", F32, NULL);
    pb node = pb_node("If", "", "c", "y");
    pb_add_graph_attr(&node, "then_branch", &yes);
    pb_add_graph_attr(&node, "else_branch", &no);
    pb_add_input(&g, "c", BOOL, "");
    pb_add_input(&g, "x", F32, "N");
    pb_add_floats(&g, "big", 3, (const float[]){ 1, 2, 3 });
    pb_add_output(&g, "y", F32, NULL);
    pb_put(&g, PB_GRAPH_NODE, &node);
    pb m = pb_model(8, 13, &g);
    must_load(&l, &m);
    assert_int_equal(l.graph->n_dropped_constants, 1);
    const qn_node *cond = l.graph->nodes[0];
    const qn_graph *then = qn_node_attr(cond, "then_branch")->graph;
    assert_int_equal(then->n_values, 1);
    assert_int_equal(then->n_dropped_nodes, 1);
    unload(&l);
}

/* ---- functions ---- */

/* Twice(x; n) = (x + x, x), in domain "local"; Four(x) = Twice(Twice(x)). */
static void put_functions(pb *m)
{
    pb twice = { 0 }, four = { 0 };

    pb_text(&twice, 1, "Twice");
    pb_text(&twice, 10, "local");
    pb_text(&twice, 4, "x");
    pb_text(&twice, 5, "sum");
    pb_text(&twice, 5, "x");
    pb add = pb_node("Add", "add", "x,x", "t");
    pb_put(&twice, 7, &add);
    pb id = pb_node("Identity", "id", "t", "sum");
    pb_put(&twice, 7, &id);
    pb_put(m, PB_MODEL_FUNCTION, &twice);
    pb_text(&four, 1, "Four");
    pb_text(&four, 10, "local");
    pb_text(&four, 4, "a");
    pb_text(&four, 5, "r");
    for (int i = 0; i < 2; i++) {
        pb call = pb_node("Twice", "", i ? "b" : "a", i ? "r" : "b");
        pb_text(&call, PB_NODE_DOMAIN, "local");
        pb_put(&four, 7, &call);
    }
    pb_put(m, PB_MODEL_FUNCTION, &four);
}

static pb function_model(const char *op, const char *out)
{
    pb g = { 0 }, node = pb_node(op, "call", "x", out);

    pb_text(&node, PB_NODE_DOMAIN, "local");
    pb_add_input(&g, "x", F32, "2");
    pb_add_output(&g, "y", F32, "2");
    pb_put(&g, PB_GRAPH_NODE, &node);
    pb m = pb_model(8, 13, &g);
    put_functions(&m);
    return m;
}

static void test_functions(void **state)
{
    static const struct {
        const char *op, *out, *ops;
    } rows[] = {
        { "Twice", "y", "Add Identity " },
        { "Twice", "unused,y", "Identity " },
        { "Four", "y", "Add Identity Add Identity " },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pb m = function_model(rows[i].op, rows[i].out);
        char ops[200] = "";
        loaded l;
        must_load(&l, &m);
        for (uint32_t k = 0; k < l.graph->n_nodes; k++) {
            size_t n = strlen(ops);
            snprintf(ops + n, sizeof ops - n, "%s ",
                     l.graph->nodes[k]->op_name);
        }
        if (strcmp(ops, rows[i].ops) != 0)
            fail_msg("row %zu: %s", i, ops);
        unload(&l);
    }
}

static void test_recursive_function(void **state)
{
    pb m = function_model("Loop2", "y"), f = { 0 };
    pb call = pb_node("Loop2", "", "x", "y");

    (void)state;
    pb_text(&f, 1, "Loop2");
    pb_text(&f, 10, "local");
    pb_text(&f, 4, "x");
    pb_text(&f, 5, "y");
    pb_text(&call, PB_NODE_DOMAIN, "local");
    pb_put(&f, 7, &call);
    pb_put(&m, PB_MODEL_FUNCTION, &f);
    must_refuse(&m, QN_UNSUPPORTED, "nested more than 32 deep");
}

/* Each function calls the next one ten times: 10^9 nodes if nobody counts. */
static void test_function_bomb(void **state)
{
    pb m = function_model("F0", "y");

    (void)state;
    for (int i = 0; i < 9; i++) {
        pb f = { 0 };
        char name[16], next[16];
        snprintf(name, sizeof name, "F%d", i);
        snprintf(next, sizeof next, "F%d", i + 1);
        pb_text(&f, 1, name);
        pb_text(&f, 10, "local");
        pb_text(&f, 4, "x");
        pb_text(&f, 5, "y");
        for (int k = 0; k < 10; k++) {
            char out[16];
            snprintf(out, sizeof out, k ? "t%d" : "y", k);
            pb call = pb_node(i < 8 ? next : "Neg", "", "x", out);
            pb_text(&call, PB_NODE_DOMAIN, i < 8 ? "local" : "");
            pb_put(&f, 7, &call);
        }
        pb_put(&m, PB_MODEL_FUNCTION, &f);
    }
    must_refuse(&m, QN_TOO_LARGE, "more than 1048576 nodes");
}

/* No prefix of a model, and no model with one byte changed, does harm; nothing
 * is leaked (the sanitizers look). */
static void test_every_byte(void **state)
{
    pb g = nested_if(), m = pb_model(8, 13, &g);
    size_t ok = 0;

    (void)state;
    put_functions(&m);
    for (size_t n = 0; n < m.n; n++) {
        pb part = { 0 };
        loaded l;
        pb_raw(&part, m.data, n);
        ok += load(&l, &part) == QN_OK;
        unload(&l);
    }
    for (size_t i = 0; i < m.n; i++)
        for (unsigned bit = 0; bit < 8; bit++) {
            pb flip = { 0 };
            loaded l;
            pb_raw(&flip, m.data, m.n);
            flip.data[i] ^= (uint8_t)(1u << bit);
            ok += load(&l, &flip) == QN_OK;
            unload(&l);
        }
    assert_true(ok > 0);
    pb_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_imports),
        cmocka_unit_test(test_negative_dims_are_dynamic),
        cmocka_unit_test(test_odd_names),
        cmocka_unit_test(test_unsorted),
        cmocka_unit_test(test_initializer_as_input),
        cmocka_unit_test(test_captures),
        cmocka_unit_test(test_dead_captures),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_recursive_function),
        cmocka_unit_test(test_function_bomb),
        cmocka_unit_test(test_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

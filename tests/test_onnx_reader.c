/* SPDX-License-Identifier: Apache-2.0 */
/* The ONNX reader: what real files do, and what broken ones do. */
#include "models/model.h"
#include "tests/support/pb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { F32 = 1, U8 = 2, I8 = 3, I32 = 6, I64 = 7, STR = 8, BOOL = 9, F16 = 10,
       F64 = 11, U64 = 13, C64 = 14, U4 = 21, I4 = 22, I2 = 26 };

typedef struct loaded {
    pb model;
    qn_model_file *file;
    qn_graph *graph;
    qn_error err;
} loaded;

/* Takes the model. */
static qn_status load(loaded *l, pb *model)
{
    memset(l, 0, sizeof *l);
    l->model = *model;
    return qn_model_parse(model->data, model->n, &l->file, &l->graph, &l->err);
}

static void unload(loaded *l)
{
    qn_graph_free(l->graph);
    qn_model_close(l->file);
    pb_free(&l->model);
}

static void must_load(loaded *l, pb *model)
{
    if (load(l, model) != QN_OK)
        fail_msg("not loaded: %s", l->err.text);
}

static void must_refuse(pb *model, qn_status want, const char *says)
{
    loaded l;
    qn_status st = load(&l, model);
    if (st != want || !strstr(l.err.text, says))
        fail_msg("status %s \"%s\", expected %s \"%s\"", qn_status_name(st),
                 l.err.text, qn_status_name(want), says);
    assert_null(l.graph);
    assert_null(l.file);
    unload(&l);
}

static const qn_value *find(const qn_graph *g, const char *name)
{
    for (uint32_t i = 0; i < g->n_values; i++)
        if (!strcmp(g->values[i].name, name))
            return &g->values[i];
    fail_msg("no value '%s'", name);
    return NULL;
}

/* y = Identity(x), float [N, 2]. */
static pb identity_graph(void)
{
    pb g = { 0 };
    pb_text(&g, PB_GRAPH_NAME, "g");
    pb_add_input(&g, "x", F32, "N,2");
    pb_add_output(&g, "y", F32, "N,2");
    pb_add_node(&g, "Identity", "id", "x", "y");
    return g;
}

/* ---- what real files do ---- */

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
    const qn_value *x = find(l.graph, "x");
    assert_int_equal(x->kind, QN_VALUE_INPUT);
    assert_int_equal(x->rank, 2);
    assert_int_equal(x->dims[0].value, -1);
    assert_string_equal(x->dims[0].symbol, "N");
    assert_int_equal(x->dims[1].value, 2);
    const qn_value *y = find(l.graph, "y");
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
    const qn_value *x = find(l.graph, "x");
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
        const qn_value *w = find(l.graph, "w");
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
    assert_int_equal(find(l.graph, "y")->type.dtype, QN_F32);
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
    const qn_graph *then = qn_node_attr(l.graph->nodes[0], "then_branch")->graph;
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

/* ---- initializers ---- */

/* A graph whose only output is the initializer. */
static pb const_model(pb *tensor, const char *name, int dtype)
{
    pb g = { 0 };

    pb_put(&g, PB_GRAPH_INITIALIZER, tensor);
    pb_add_output(&g, name, dtype, NULL);
    return pb_model(9, 13, &g);
}

static void packed(pb *t, uint32_t field, int n, const int64_t *values)
{
    pb list = { 0 };
    for (int i = 0; i < n; i++)
        pb_varint(&list, (uint64_t)values[i]);
    pb_put(t, field, &list);
}

static void expect_bytes(pb *tensor, int dtype, int rank, const void *want,
                         size_t bytes, const char *row)
{
    char got[64];
    loaded l;
    pb m = const_model(tensor, "t", dtype);

    must_load(&l, &m);
    const qn_const *c = find(l.graph, "t")->data;
    if ((int)c->dtype != dtype || c->shape.rank != rank || c->bytes != bytes)
        fail_msg("%s: dtype %d rank %d bytes %zu", row, (int)c->dtype,
                 (int)c->shape.rank, c->bytes);
    assert_true(bytes <= sizeof got);
    if (qn_const_read(c, got, &l.err) != QN_OK)
        fail_msg("%s: %s", row, l.err.text);
    if (bytes && memcmp(got, want, bytes))
        fail_msg("%s: wrong elements", row);
    unload(&l);
}

static void test_encodings(void **state)
{
    static const int64_t three[] = { 3 }, none[] = { 0, 5 };
    static const int64_t signs[] = { 1, -1, 300 };
    static const float f[] = { 1, -2, 0.5f };
    pb t;

    (void)state;
    t = pb_tensor("t", F32, 1, three);
    pb_bytes(&t, PB_TENSOR_RAW, f, sizeof f);
    expect_bytes(&t, F32, 1, f, sizeof f, "float raw");
    t = pb_tensor("t", F32, 1, three);
    pb_bytes(&t, 4, f, sizeof f);
    expect_bytes(&t, F32, 1, f, sizeof f, "float packed");
    t = pb_tensor("t", F32, 1, three);
    for (int i = 0; i < 3; i++)
        pb_float(&t, 4, f[i]);
    expect_bytes(&t, F32, 1, f, sizeof f, "float one by one");
    t = pb_tensor("t", F32, 1, three);
    pb_bytes(&t, 4, f, 8);
    pb_float(&t, 4, f[2]);
    expect_bytes(&t, F32, 1, f, sizeof f, "float packed and single");
    t = pb_tensor("t", F32, 2, none);
    expect_bytes(&t, F32, 2, NULL, 0, "no elements");
    t = pb_tensor("t", I32, 1, three);
    packed(&t, PB_TENSOR_INT32, 3, signs);
    expect_bytes(&t, I32, 1, (const int32_t[]){ 1, -1, 300 }, 12, "int32");
    t = pb_tensor("t", I8, 1, three);
    packed(&t, PB_TENSOR_INT32, 3, (const int64_t[]){ 1, -1, 127 });
    expect_bytes(&t, I8, 1, "\x01\xff\x7f", 3, "int8");
    t = pb_tensor("t", U8, 1, three);
    for (int i = 0; i < 3; i++)
        pb_int(&t, PB_TENSOR_INT32, 250 + i);
    expect_bytes(&t, U8, 1, "\xfa\xfb\xfc", 3, "uint8 one by one");
    t = pb_tensor("t", BOOL, 1, three);
    packed(&t, PB_TENSOR_INT32, 3, (const int64_t[]){ 0, 1, 7 });
    expect_bytes(&t, BOOL, 1, "\0\1\1", 3, "bool numbers");
    t = pb_tensor("t", BOOL, 1, three);
    pb_bytes(&t, PB_TENSOR_RAW, "\0\xff\2", 3);
    expect_bytes(&t, BOOL, 1, "\0\1\1", 3, "bool raw, not 0 or 1");
    t = pb_tensor("t", F16, 1, three);
    packed(&t, PB_TENSOR_INT32, 3, (const int64_t[]){ 0x3c00, 0xc000, 0x7c00 });
    expect_bytes(&t, F16, 1, "\x00\x3c\x00\xc0\x00\x7c", 6, "float16");
    t = pb_tensor("t", I64, 1, three);
    packed(&t, PB_TENSOR_INT64, 3, (const int64_t[]){ INT64_MIN, -1, 1 });
    expect_bytes(&t, I64, 1, (const int64_t[]){ INT64_MIN, -1, 1 }, 24,
                 "int64");
    t = pb_tensor("t", U64, 0, NULL);
    packed(&t, 11, 1, (const int64_t[]){ -1 });
    expect_bytes(&t, U64, 0, (const uint64_t[]){ UINT64_MAX }, 8, "uint64");
    t = pb_tensor("t", F64, 0, NULL);
    pb_bytes(&t, 10, (const double[]){ 0.1 }, 8);
    expect_bytes(&t, F64, 0, (const double[]){ 0.1 }, 8, "double");
    t = pb_tensor("t", C64, 0, NULL);
    pb_bytes(&t, 4, f, 8);
    expect_bytes(&t, C64, 0, f, 8, "complex64");
    t = pb_tensor("t", U4, 1, three);
    pb_bytes(&t, PB_TENSOR_RAW, "\x21\x0f", 2);
    expect_bytes(&t, U4, 1, "\x01\x02\x0f", 3, "uint4 raw");
    t = pb_tensor("t", I4, 1, three);
    packed(&t, PB_TENSOR_INT32, 2, (const int64_t[]){ 0x81, 0x0f });
    expect_bytes(&t, I4, 1, "\x01\xf8\xff", 3, "int4 numbers");
    t = pb_tensor("t", I2, 1, three);
    pb_bytes(&t, PB_TENSOR_RAW, "\x39", 1);
    expect_bytes(&t, I2, 1, "\x01\xfe\xff", 3, "int2 raw");
}

static void test_strings(void **state)
{
    static const int64_t dims[] = { 2, 2 };
    static const struct {
        const char *s;
        size_t len;
    } want[] = { { "a\0b", 3 }, { "", 0 }, { "\xf0\x9f\x98\x80", 4 },
                 { "x", 1 } };
    pb t = pb_tensor("t", STR, 2, dims);
    loaded l;

    (void)state;
    for (int i = 0; i < 4; i++)
        pb_bytes(&t, PB_TENSOR_STRING, want[i].s, want[i].len);
    pb m = const_model(&t, "t", STR);
    must_load(&l, &m);
    const qn_const *c = find(l.graph, "t")->data;
    qn_string elems[4];
    char heap[64];
    assert_true(c->string_bytes <= sizeof heap);
    memcpy(heap, c->strings, c->string_bytes);
    qn_strings strings = { .base = { [QN_STRINGS_STATIC] = heap } };
    assert_int_equal(qn_const_read(c, elems, &l.err), QN_OK);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(elems[i].len, want[i].len);
        assert_memory_equal(qn_string_bytes(&strings, elems[i]), want[i].s,
                            want[i].len);
    }
    unload(&l);
}

static pb sparse(const int64_t *indices, int rank2)
{
    static const int64_t dims[] = { 2, 3 }, two[] = { 2, 2 };
    pb s = { 0 }, i = pb_tensor("", I64, rank2 ? 2 : 1, two);
    pb v = pb_tensor("t", F32, 1, two);

    pb_bytes(&v, PB_TENSOR_RAW, (const float[]){ 5, 7 }, 8);
    packed(&i, PB_TENSOR_INT64, rank2 ? 4 : 2, indices);
    pb_put(&s, 1, &v);
    pb_put(&s, 2, &i);
    packed(&s, 3, 2, dims);
    return s;
}

static void test_sparse(void **state)
{
    static const struct {
        int rank2;
        int64_t indices[4];
        qn_status want;
    } rows[] = {
        { 0, { 1, 5 }, QN_OK },           { 1, { 0, 1, 1, 2 }, QN_OK },
        { 0, { 1, 6 }, QN_RANGE },        { 0, { 5, 1 }, QN_FORMAT },
        { 1, { 0, 3, 1, 2 }, QN_RANGE },  { 0, { -1, 2 }, QN_RANGE },
        { 0, { 1, 1 }, QN_FORMAT },
    };
    static const float want[] = { 0, 5, 0, 0, 0, 7 };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pb g = { 0 }, s = sparse(rows[i].indices, rows[i].rank2);
        float got[6];
        loaded l;
        pb_put(&g, PB_GRAPH_SPARSE, &s);
        pb_add_output(&g, "t", F32, NULL);
        pb m = pb_model(8, 13, &g);
        must_load(&l, &m);
        const qn_const *c = find(l.graph, "t")->data;
        assert_int_equal(c->bytes, sizeof got);
        qn_status st = qn_const_read(c, got, &l.err);
        if (st != rows[i].want ||
            (st == QN_OK && memcmp(got, want, sizeof want)))
            fail_msg("row %zu: %s", i, qn_status_name(st));
        unload(&l);
    }
}

/* Constant nodes become constants. */
static void test_constant_nodes(void **state)
{
    pb g = { 0 }, node = pb_node("Constant", "", "", "five");
    loaded l;

    (void)state;
    pb_add_int_attr(&node, "value_int", 5);
    pb_put(&g, PB_GRAPH_NODE, &node);
    pb_add_node(&g, "Identity", "", "five", "y");
    pb_add_output(&g, "y", I64, "");
    pb m = pb_model(8, 13, &g);
    must_load(&l, &m);
    assert_int_equal(l.graph->n_nodes, 1);
    const qn_const *c = find(l.graph, "five")->data;
    int64_t v;
    assert_int_equal(qn_const_read(c, &v, &l.err), QN_OK);
    assert_int_equal(v, 5);
    assert_int_equal(c->shape.rank, 0);
    unload(&l);
}

/* ---- external data ---- */

typedef struct folder {
    char path[64], model[96];
} folder;

static void put_file(const char *dir, const char *name, const void *p, size_t n)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static pb external_model(const char *location, const char *offset,
                         const char *length)
{
    static const int64_t dim = 2;
    const char *pairs[] = { "location", location, "offset", offset,
                            "length",   length };
    pb t = pb_tensor("t", F32, 1, &dim);

    for (int i = 0; i < 6; i += 2) {
        pb entry = { 0 };
        if (!pairs[i + 1])
            continue;
        pb_text(&entry, 1, pairs[i]);
        pb_text(&entry, 2, pairs[i + 1]);
        pb_put(&t, 13, &entry);
    }
    pb_int(&t, 14, 1);
    return const_model(&t, "t", F32);
}

static void test_external_data(void **state)
{
    static const struct {
        const char *location, *offset, *length;
        qn_status want;
        const char *says;
    } rows[] = {
        { "w.bin", "4", "8", QN_OK, "" },
        { "w.bin", "4", NULL, QN_OK, "" },
        { "sub/w.bin", "4", "8", QN_OK, "" },
        { "./w.bin", "4", "8", QN_OK, "" },
        { "inside", "4", "8", QN_OK, "" },
        { "w.bin", NULL, "8", QN_OK, "" },
        { "w.bin", "4", "9", QN_FORMAT, "the file has 12" },
        { "w.bin", "13", NULL, QN_FORMAT, "the file has 12" },
        { "w.bin", "18446744073709551615", "8", QN_FORMAT, "the file has 12" },
        { "w.bin", "18446744073709551616", "8", QN_FORMAT, "offset" },
        { "w.bin", "-4", "8", QN_FORMAT, "offset '-4'" },
        { "w.bin", "4", "4", QN_FORMAT, "4 bytes" },
        { "none.bin", "0", "8", QN_NOT_FOUND, "none.bin" },
        { "../w.bin", "0", "8", QN_INVALID, "not a path below" },
        { "sub/../../w.bin", "0", "8", QN_INVALID, "not a path below" },
        { "/etc/passwd", "0", "8", QN_INVALID, "not a path below" },
        { "", "0", "8", QN_INVALID, "not a path below" },
        { "sub//w.bin", "0", "8", QN_INVALID, "not a path below" },
        { "outside", "0", "8", QN_INVALID, "link out of" },
        { "away/passwd", "0", "8", QN_INVALID, "link out of" },
        { "sub", "0", "8", QN_IO, "not a regular file" },
    };
    static const float data[] = { 9, 1, 2 };
    char dir[] = "/tmp/quern-onnx-XXXXXX", path[96];

    (void)state;
    assert_non_null(mkdtemp(dir));
    put_file(dir, "w.bin", data, sizeof data);
    snprintf(path, sizeof path, "%s/sub", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    put_file(path, "w.bin", data, sizeof data);
    snprintf(path, sizeof path, "%s/inside", dir);
    assert_int_equal(symlink("sub/w.bin", path), 0);
    snprintf(path, sizeof path, "%s/outside", dir);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    snprintf(path, sizeof path, "%s/away", dir);
    assert_int_equal(symlink("/etc", path), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pb m = external_model(rows[i].location, rows[i].offset, rows[i].length);
        qn_model_file *file;
        qn_graph *graph;
        qn_error err = { 0 };
        put_file(dir, "model.onnx", m.data, m.n);
        pb_free(&m);
        snprintf(path, sizeof path, "%s/model.onnx", dir);
        qn_status st = qn_model_open(path, &file, &graph, &err);
        if (st != rows[i].want || !strstr(err.text, rows[i].says))
            fail_msg("row %zu: %s \"%s\"", i, qn_status_name(st), err.text);
        if (st != QN_OK)
            continue;
        float got[2], first = rows[i].offset ? 1.0f : 9.0f;
        const qn_const *c = find(graph, "t")->data;
        assert_int_equal(qn_const_read(c, got, &err), QN_OK);
        assert_true(got[0] == first);
        const char *name;
        char sum[QN_SHA256_TEXT];
        assert_int_equal(qn_model_digest(file, 1, &name, sum, &err), QN_OK);
        assert_non_null(strstr(name, "w.bin"));
        qn_graph_free(graph);
        qn_model_close(file);
    }
    static const char *const made[] = { "model.onnx", "away", "outside",
                                        "inside", "sub/w.bin", "w.bin" };
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, made[i]);
        assert_int_equal(unlink(path), 0);
    }
    snprintf(path, sizeof path, "%s/sub", dir);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

/* ---- what broken files do ---- */

static pb broken_producer(void)
{
    pb g = identity_graph();
    pb_add_node(&g, "Identity", "again", "x", "y");
    return g;
}

static pb broken_cycle(void)
{
    pb g = { 0 };
    pb_add_input(&g, "x", F32, "2");
    pb_add_output(&g, "y", F32, "2");
    pb_add_node(&g, "Add", "one", "x,q", "p");
    pb_add_node(&g, "Add", "two", "p,x", "q");
    pb_add_node(&g, "Identity", "last", "q", "y");
    return g;
}

static pb broken_name(void)
{
    pb g = identity_graph();
    pb_add_node(&g, "Add", "a", "x,missing", "z");
    return g;
}

static pb broken_output(void)
{
    pb g = identity_graph();
    pb_add_output(&g, "nobody", F32, "2");
    return g;
}

static pb unknown_op(void)
{
    pb g = identity_graph();
    pb_add_node(&g, "Frobnicate", "f", "y", "z");
    pb_add_output(&g, "z", F32, "2");
    return g;
}

static pb unknown_domain(void)
{
    pb g = { 0 }, node = pb_node("Gelu", "f", "x", "y");
    pb_text(&node, PB_NODE_DOMAIN, "com.example");
    pb_put(&g, PB_GRAPH_NODE, &node);
    pb_add_input(&g, "x", F32, "2");
    pb_add_output(&g, "y", F32, "2");
    return g;
}

static pb too_many_inputs(void)
{
    pb g = { 0 };
    pb_add_input(&g, "x", F32, "2");
    pb_add_output(&g, "y", F32, "2");
    pb_add_node(&g, "Identity", "id", "x,x", "y");
    return g;
}

static pb omitted_input(void)
{
    pb g = { 0 };
    pb_add_input(&g, "x", F32, "2");
    pb_add_output(&g, "y", F32, "2");
    pb_add_node(&g, "Add", "sum", ",x", "y");
    return g;
}

static pb mixed_types(void)
{
    pb g = { 0 };
    pb_add_input(&g, "x", F32, "2");
    pb_add_input(&g, "i", I64, "2");
    pb_add_output(&g, "y", F32, "2");
    pb_add_node(&g, "Add", "sum", "x,i", "y");
    return g;
}

static pb wrong_output_type(void)
{
    pb g = { 0 };
    pb_add_input(&g, "x", F32, "2");
    pb_add_output(&g, "y", I64, "2");
    pb_add_node(&g, "Identity", "id", "x", "y");
    return g;
}

static pb short_initializer(void)
{
    static const int64_t dim = 4;
    pb g = identity_graph(), t = pb_tensor("w", F32, 1, &dim);
    pb_bytes(&t, PB_TENSOR_RAW, "12345678", 8);
    pb_put(&g, PB_GRAPH_INITIALIZER, &t);
    return g;
}

static pb huge_initializer(void)
{
    static const int64_t dims[] = { (int64_t)1 << 40, (int64_t)1 << 40 };
    pb g = identity_graph(), t = pb_tensor("w", F32, 2, dims);
    pb_put(&g, PB_GRAPH_INITIALIZER, &t);
    return g;
}

static pb negative_initializer(void)
{
    static const int64_t dim = -4;
    pb g = identity_graph(), t = pb_tensor("w", F32, 1, &dim);
    pb_put(&g, PB_GRAPH_INITIALIZER, &t);
    return g;
}

static pb unknown_dtype(void)
{
    pb g = identity_graph(), t = pb_tensor("w", 99, 0, NULL);
    pb_put(&g, PB_GRAPH_INITIALIZER, &t);
    return g;
}

static pb twin_initializers(void)
{
    pb g = identity_graph();
    pb_add_floats(&g, "w", 1, (const float[]){ 1 });
    pb_add_floats(&g, "w", 1, (const float[]){ 1 });
    return g;
}

static pb default_of_wrong_shape(void)
{
    pb g = identity_graph();
    pb_add_input(&g, "w", F32, "3");
    pb_add_floats(&g, "w", 2, (const float[]){ 1, 2 });
    return g;
}

static pb bad_utf8(void)
{
    pb g = identity_graph();
    pb_add_node(&g, "Identity", "\xc0\x80", "x", "q");
    return g;
}

static pb if_without_else(void)
{
    pb g = { 0 }, yes = { 0 }, node = pb_node("If", "cond", "c", "y");
    pb_add_output(&yes, "x", F32, NULL);
    pb_add_graph_attr(&node, "then_branch", &yes);
    pb_put(&g, PB_GRAPH_NODE, &node);
    pb_add_input(&g, "c", BOOL, "");
    pb_add_input(&g, "x", F32, "2");
    pb_add_output(&g, "y", F32, NULL);
    return g;
}

static pb if_of_two_types(void)
{
    pb g = { 0 }, yes = { 0 }, no = { 0 }, node = pb_node("If", "", "c", "y");
    pb_add_output(&yes, "x", F32, NULL);
    pb_add_output(&no, "c", BOOL, NULL);
    pb_add_graph_attr(&node, "then_branch", &yes);
    pb_add_graph_attr(&node, "else_branch", &no);
    pb_put(&g, PB_GRAPH_NODE, &node);
    pb_add_input(&g, "c", BOOL, "");
    pb_add_input(&g, "x", F32, "2");
    pb_add_output(&g, "y", F32, NULL);
    return g;
}

/* Graphs in graphs in graphs ... */
static pb deep(void)
{
    pb inner = { 0 };
    pb_add_output(&inner, "x", F32, NULL);
    for (int i = 0; i < 80; i++) {
        pb outer = { 0 }, no = { 0 }, node = pb_node("If", "", "c", "y");
        pb_add_output(&no, "x", F32, NULL);
        pb_add_graph_attr(&node, "then_branch", &inner);
        pb_add_graph_attr(&node, "else_branch", &no);
        pb_put(&outer, PB_GRAPH_NODE, &node);
        pb_add_output(&outer, "y", F32, NULL);
        inner = outer;
    }
    pb_add_input(&inner, "c", BOOL, "");
    pb_add_input(&inner, "x", F32, "2");
    return inner;
}

static void test_refusals(void **state)
{
    static const struct {
        pb (*graph)(void);
        qn_status want;
        const char *says;
    } rows[] = {
        { broken_producer, QN_FORMAT, "two values are named 'y'" },
        { broken_cycle, QN_FORMAT, "has a cycle: Add (opset 13) node '" },
        { broken_name, QN_FORMAT,
          "Add (opset 13) node 'a': nothing makes value 'missing'" },
        { broken_output, QN_FORMAT, "nothing makes value 'nobody'" },
        { unknown_op, QN_UNSUPPORTED,
          "operator Frobnicate (opset 13) node 'f': Quern has no such" },
        { unknown_domain, QN_UNSUPPORTED,
          "operator com.example.Gelu (opset 0) node 'f': the model imports no "
          "opset of domain 'com.example'" },
        { too_many_inputs, QN_FORMAT, "2 inputs, 1 expected" },
        { omitted_input, QN_FORMAT, "input 0 is omitted" },
        { mixed_types, QN_TYPE, "input 1 'i' is int64, but input 0 is float" },
        { wrong_output_type, QN_TYPE,
          "output 'y' is declared as int64, but the graph makes it float" },
        { short_initializer, QN_FORMAT,
          "tensor 'w': 8 bytes for float of shape [4], 16 expected" },
        { huge_initializer, QN_TOO_LARGE, "more bytes than a machine" },
        { negative_initializer, QN_FORMAT, "a dimension is -4" },
        { unknown_dtype, QN_UNSUPPORTED, "element type 99" },
        { twin_initializers, QN_FORMAT, "two initializers are named 'w'" },
        { default_of_wrong_shape, QN_SHAPE, "'w' has shape [2]" },
        { bad_utf8, QN_FORMAT, "is not UTF-8" },
        { if_without_else, QN_INVALID, "else_branch is missing" },
        { if_of_two_types, QN_TYPE, "output 0 is bool in 'else_branch'" },
        { deep, QN_TOO_LARGE, "nested more than 64 deep" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pb g = rows[i].graph(), m = pb_model(8, 13, &g);
        must_refuse(&m, rows[i].want, rows[i].says);
    }
}

static void test_refused_heads(void **state)
{
    static const struct {
        int64_t ir, opset;
        qn_status want;
        const char *says;
    } rows[] = {
        { 0, 13, QN_FORMAT, "no IR version" },
        { 2, 13, QN_UNSUPPORTED, "IR version 2, Quern reads 3 to 13" },
        { 14, 13, QN_UNSUPPORTED, "IR version 14" },
        { 8, 0, QN_UNSUPPORTED, "imports no opset of domain 'ai.onnx'" },
        { 8, 99, QN_UNSUPPORTED, "opset 99 is newer than" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pb g = identity_graph(), m = pb_model(rows[i].ir, rows[i].opset, &g);
        must_refuse(&m, rows[i].want, rows[i].says);
    }
    pb text = { 0 };
    pb_raw(&text, "<html>not a model</html>", 24);
    must_refuse(&text, QN_FORMAT, "byte ");
    pb none = { 0 };
    pb_raw(&none, "", 0);
    must_refuse(&none, QN_FORMAT, "not an ONNX model");
}

/* Wire format: numbers that do not end, lengths past the end, groups. */
static void test_wire(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        qn_status want;
        const char *says;
    } rows[] = {
        { "\x08", 1, QN_FORMAT, "byte 1: the file ends inside a number" },
        { "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11, QN_FORMAT,
          "more than 64 bits" },
        { "\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, QN_FORMAT,
          "says it has 18446744073709551615 bytes, 0 are left" },
        { "\x3a\x05\x01", 3, QN_FORMAT, "says it has 5 bytes, 1 are left" },
        { "\x0c", 1, QN_FORMAT, "a group ends that was not open" },
        { "\x0b\x0b\x0c", 3, QN_FORMAT, "byte 3" },
        { "\x0b\x14", 2, QN_FORMAT, "a group ends that was not open" },
        { "\x0e", 1, QN_FORMAT, "not a wire type" },
        { "\x00", 1, QN_FORMAT, "not a field number" },
        { "\x0d\x01\x02\x03", 4, QN_FORMAT, "the file ends inside a number" },
        { "\x0d\x01\x02\x03\x04", 5, QN_FORMAT, "wire type 5, 0 expected" },
        { "\xfb\x07\x08\x01\xfc\x07\x08\x08", 8, QN_FORMAT, "no graph in it" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pb m = { 0 };
        pb_raw(&m, rows[i].bytes, rows[i].n);
        must_refuse(&m, rows[i].want, rows[i].says);
    }
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
        cmocka_unit_test(test_encodings),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_sparse),
        cmocka_unit_test(test_constant_nodes),
        cmocka_unit_test(test_external_data),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_refused_heads),
        cmocka_unit_test(test_wire),
        cmocka_unit_test(test_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

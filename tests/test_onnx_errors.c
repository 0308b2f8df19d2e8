/* SPDX-License-Identifier: Apache-2.0 */
/* The ONNX reader: what broken files and unsupported models do. */
#include "tests/support/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_refused_heads),
        cmocka_unit_test(test_wire),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Shape, Size, Constant, ConstantOfShape, Range. */
#include "tests/support/node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void expect_refused(test_node *t, const char *row, qn_status want,
                           const char *says)
{
    qn_status st = test_node_run(t);
    if (st != want || !strstr(t->err.text, says))
        fail_msg("%s: status %s, \"%s\"", row, qn_status_name(st), t->err.text);
    test_node_release(t);
}

static void run(test_node *t, const char *row)
{
    if (test_node_run(t) != QN_OK)
        fail_msg("%s: %s", row, t->err.text);
}

#define NONE INT64_MIN

static void test_shape_range(void **state)
{
    static const struct {
        int opset;
        int64_t start, end;
        int n;
        int64_t want[4];
    } rows[] = {
        { 1, NONE, NONE, 3, { 3, 0, 5 } },   { 15, NONE, NONE, 3, { 3, 0, 5 } },
        { 15, 1, NONE, 2, { 0, 5 } },        { 15, -1, NONE, 1, { 5 } },
        { 19, NONE, -1, 2, { 3, 0 } },       { 21, -9, 9, 3, { 3, 0, 5 } },
        { 23, 2, 1, 0, { 0 } },              { 24, 1, 2, 1, { 0 } },
        { 15, INT64_MAX, NONE, 0, { 0 } },
    };
    static const float none[1] = { 0 };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        test_node t;
        test_node_init(&t, "Shape", rows[i].opset, 1, 1);
        test_node_input(&t, 0, QN_F32, 3, (int64_t[]){ 3, 0, 5 }, none);
        if (rows[i].start != NONE)
            test_node_int(&t, "start", rows[i].start);
        if (rows[i].end != NONE)
            test_node_int(&t, "end", rows[i].end);
        run(&t, "Shape");
        test_node_expect(&t, 0, QN_I64, 1, (int64_t[]){ rows[i].n },
                         rows[i].want);
        test_node_release(&t);
    }
}

static void test_size(void **state)
{
    static const uint8_t bytes[24] = { 0 };
    static const int64_t want = 24, one = 1;
    test_node t;
    (void)state;
    test_node_init(&t, "Size", 13, 1, 1);
    test_node_input(&t, 0, QN_U8, 3, (int64_t[]){ 2, 3, 4 }, bytes);
    run(&t, "Size");
    test_node_expect(&t, 0, QN_I64, 0, NULL, &want);
    test_node_release(&t);
    test_node_init(&t, "Size", 1, 1, 1);
    test_node_input(&t, 0, QN_U8, 0, NULL, bytes);
    run(&t, "Size of a scalar");
    test_node_expect(&t, 0, QN_I64, 0, NULL, &one);
    test_node_release(&t);
}

/* ---- Constant ---- */

static void test_constant_numbers(void **state)
{
    static const int64_t ints[3] = { 1, -2, INT64_MAX };
    static const float floats[2] = { 0.5f, -1.25f };
    static const uint16_t half[2] = { 0x3c00, 0xc000 };
    const qn_const tensor = { .dtype = QN_F16, .shape = { 2, { 1, 2 } },
                              .bytes = sizeof half, .data = half };
    test_node t;
    (void)state;

    test_node_init(&t, "Constant", 12, 0, 1);
    test_node_int(&t, "value_int", -7);
    run(&t, "value_int");
    test_node_expect(&t, 0, QN_I64, 0, NULL, &(int64_t){ -7 });
    test_node_release(&t);

    test_node_init(&t, "Constant", 13, 0, 1);
    test_node_ints(&t, "value_ints", 3, ints);
    run(&t, "value_ints");
    test_node_expect(&t, 0, QN_I64, 1, (int64_t[]){ 3 }, ints);
    test_node_release(&t);

    test_node_init(&t, "Constant", 19, 0, 1);
    test_node_floats(&t, "value_floats", 2, floats);
    run(&t, "value_floats");
    test_node_expect(&t, 0, QN_F32, 1, (int64_t[]){ 2 }, floats);
    test_node_release(&t);

    test_node_init(&t, "Constant", 21, 0, 1);
    test_node_float(&t, "value_float", 0.5f);
    run(&t, "value_float");
    test_node_expect(&t, 0, QN_F32, 0, NULL, floats);
    test_node_release(&t);

    test_node_init(&t, "Constant", 1, 0, 1);
    t.attrs[t.node.n_attrs++] =
        (qn_attr){ .name = "value", .kind = QN_ATTR_TENSOR, .tensor = &tensor };
    run(&t, "value");
    test_node_expect(&t, 0, QN_F16, 2, (int64_t[]){ 1, 2 }, half);
    test_node_release(&t);

    test_node_init(&t, "Constant", 13, 0, 1);
    expect_refused(&t, "no value", QN_INVALID, "one attribute");
    test_node_init(&t, "Constant", 13, 0, 1);
    test_node_int(&t, "value_int", 1);
    test_node_float(&t, "value_float", 1);
    expect_refused(&t, "two values", QN_INVALID, "one attribute");
}

static void expect_text(const test_node *t, int64_t i, const char *want,
                        size_t len)
{
    qn_string s = ((const qn_string *)t->out[0].data)[i];
    if (len)
        assert_int_equal(s.where >> 56, QN_STRINGS_REQUEST);
    assert_int_equal(s.len, len);
    assert_memory_equal(qn_string_bytes(&t->strings, s), want, len);
}

static void test_constant_strings(void **state)
{
    static char heap[64];
    static const qn_text texts[2] = { { "a\0b", 3 }, { "", 0 } };
    const qn_string elements[2] = { qn_string_at(QN_STRINGS_STATIC, 2, 3),
                                    qn_string_at(QN_STRINGS_STATIC, 0, 2) };
    const qn_const tensor = { .dtype = QN_STRING, .shape = { 1, { 2 } },
                              .bytes = sizeof elements, .data = elements,
                              .strings = "hiyou", .string_bytes = 5 };
    test_node t;
    (void)state;

    test_node_init(&t, "Constant", 13, 0, 1);
    t.strings = (qn_strings){ .base = { [QN_STRINGS_REQUEST] = heap },
                              .limit = sizeof heap };
    t.attrs[t.node.n_attrs++] = (qn_attr){
        .name = "value_strings", .kind = QN_ATTR_STRINGS, .n = 2,
        .strings = texts
    };
    run(&t, "value_strings");
    expect_text(&t, 0, "a\0b", 3);
    expect_text(&t, 1, "", 0);
    test_node_release(&t);

    test_node_init(&t, "Constant", 13, 0, 1);
    t.strings = (qn_strings){ .base = { [QN_STRINGS_REQUEST] = heap },
                              .limit = sizeof heap };
    t.attrs[t.node.n_attrs++] =
        (qn_attr){ .name = "value", .kind = QN_ATTR_TENSOR, .tensor = &tensor };
    run(&t, "value of strings");
    expect_text(&t, 0, "you", 3);
    expect_text(&t, 1, "hi", 2);
    test_node_release(&t);
}

/* ---- ConstantOfShape ---- */

static void fill_node(test_node *t, int opset, const qn_const *value, int n,
                      const int64_t *shape)
{
    test_node_init(t, "ConstantOfShape", opset, 1, 1);
    if (value)
        t->attrs[t->node.n_attrs++] = (qn_attr){
            .name = "value", .kind = QN_ATTR_TENSOR, .tensor = value
        };
    test_node_input(t, 0, QN_I64, 1, (int64_t[]){ n }, shape);
}

static void test_constant_of_shape(void **state)
{
    static const int16_t nine = 9, nines[6] = { 9, 9, 9, 9, 9, 9 };
    static const float zero[2] = { 0 };
    static const uint16_t bf = 0x3f80;
    const qn_const value = { .dtype = QN_I16, .shape = { 1, { 1 } }, .bytes = 2,
                             .data = &nine };
    const qn_const half = { .dtype = QN_BF16, .shape = { 1, { 1 } }, .bytes = 2,
                            .data = &bf };
    const qn_const two = { .dtype = QN_I16, .shape = { 1, { 2 } }, .bytes = 4,
                           .data = nines };
    test_node t;
    (void)state;

    fill_node(&t, 9, &value, 2, (int64_t[]){ 2, 3 });
    run(&t, "int16");
    test_node_expect(&t, 0, QN_I16, 2, (int64_t[]){ 2, 3 }, nines);
    test_node_release(&t);

    fill_node(&t, 20, NULL, 0, NULL);
    run(&t, "scalar");
    test_node_expect(&t, 0, QN_F32, 0, NULL, zero);
    test_node_release(&t);

    fill_node(&t, 20, NULL, 2, (int64_t[]){ 0, 7 });
    run(&t, "empty");
    test_node_expect(&t, 0, QN_F32, 2, (int64_t[]){ 0, 7 }, zero);
    test_node_release(&t);

    fill_node(&t, 9, NULL, 2, (int64_t[]){ (int64_t)1 << 40, (int64_t)1 << 40 });
    expect_refused(&t, "2^80 elements", QN_TOO_LARGE, "1099511627776");
    fill_node(&t, 9, NULL, 1, (int64_t[]){ -1 });
    expect_refused(&t, "negative", QN_INVALID, "-1 at axis 0");
    fill_node(&t, 9, &half, 1, (int64_t[]){ 1 });
    expect_refused(&t, "bfloat16 before opset 20", QN_TYPE, "bfloat16");
    fill_node(&t, 9, &two, 1, (int64_t[]){ 1 });
    expect_refused(&t, "two values", QN_INVALID, "one element");
}

/* ---- Range ---- */

static void range(test_node *t, qn_dtype dtype, const void *start,
                  const void *limit, const void *delta)
{
    test_node_init(t, "Range", 11, 3, 1);
    test_node_input(t, 0, dtype, 0, NULL, start);
    test_node_input(t, 1, dtype, 0, NULL, limit);
    test_node_input(t, 2, dtype, 0, NULL, delta);
}

static void test_range_i64(void **state)
{
    static const struct {
        int64_t start, limit, delta;
        int64_t n; /* -1: invalid, -2: too large */
        int64_t first, last;
    } rows[] = {
        { 0, 5, 1, 5, 0, 4 },
        { 0, 5, 2, 3, 0, 4 },
        { 5, 0, -2, 3, 5, 1 },
        { 5, 0, 1, 0, 0, 0 },
        { 0, 5, -1, 0, 0, 0 },
        { 3, 3, 1, 0, 0, 0 },
        { INT64_MIN, INT64_MAX, INT64_MAX, 3, INT64_MIN, INT64_MAX - 1 },
        { INT64_MAX, INT64_MIN, INT64_MIN, 2, INT64_MAX, -1 },
        { 0, 4, 0, -1, 0, 0 },
        { INT64_MIN, INT64_MAX, 1, -2, 0, 0 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        test_node t;
        range(&t, QN_I64, &rows[i].start, &rows[i].limit, &rows[i].delta);
        if (rows[i].n < 0) {
            expect_refused(&t, "range",
                           rows[i].n == -1 ? QN_INVALID : QN_TOO_LARGE,
                           "in steps of");
            continue;
        }
        run(&t, "range");
        const int64_t *got = t.out[0].data;
        int64_t n = qn_count(&t.out[0]);
        if (n != rows[i].n ||
            (n && (got[0] != rows[i].first || got[n - 1] != rows[i].last)))
            fail_msg("row %zu: %lld elements", i, (long long)n);
        test_node_release(&t);
    }
}

static void test_range_floats(void **state)
{
    static const float f[3] = { 1.0f, 2.0f, 0.25f }, zero = 0.0f,
                       want[4] = { 1.0f, 1.25f, 1.5f, 1.75f },
                       huge[3] = { 0.0f, 1e30f, 1e-30f };
    static const double d[3] = { 10, 4, -2 }, dwant[3] = { 10, 8, 6 };
    test_node t;
    (void)state;
    range(&t, QN_F32, &f[0], &f[1], &f[2]);
    run(&t, "float");
    test_node_expect_f32(&t, 0, 1, (int64_t[]){ 4 }, want, 0, 0);
    test_node_release(&t);
    range(&t, QN_F64, &d[0], &d[1], &d[2]);
    run(&t, "double");
    test_node_expect(&t, 0, QN_F64, 1, (int64_t[]){ 3 }, dwant);
    test_node_release(&t);
    range(&t, QN_F32, &f[0], &f[1], &zero);
    expect_refused(&t, "step 0", QN_INVALID, "in steps of 0");
    range(&t, QN_F32, &huge[0], &huge[1], &huge[2]);
    expect_refused(&t, "1e60 steps", QN_TOO_LARGE, "elements");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shape_range),
        cmocka_unit_test(test_size),
        cmocka_unit_test(test_constant_numbers),
        cmocka_unit_test(test_constant_strings),
        cmocka_unit_test(test_constant_of_shape),
        cmocka_unit_test(test_range_i64),
        cmocka_unit_test(test_range_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of two tensors and more, Where: every type, every way to broadcast,
 * against the cpu. */
#include "runtime/ops/op.h"
#include "tests/cuda/support/device_node.h"
#include "tests/cuda/support/fill.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

typedef struct dims {
    int rank;
    int64_t d[6];
} dims;

static const struct {
    dims a, b;
    device_options how;
} shapes[] = {
    { { 0, { 0 } }, { 0, { 0 } }, { 0 } },
    { { 2, { 0, 4 } }, { 1, { 4 } }, { 0 } },
    { { 1, { 1001 } }, { 1, { 1001 } }, { 0 } },
    { { 3, { 3, 7, 16 } }, { 3, { 3, 7, 16 } }, { .in_place = true } },
    { { 1, { 4096 } }, { 1, { 4096 } }, { .shift = 1 } },
    { { 2, { 33, 64 } }, { 0, { 0 } }, { 0 } },
    { { 1, { 1 } }, { 2, { 33, 63 } }, { 0 } },
    { { 3, { 3, 7, 16 } }, { 1, { 16 } }, { 0 } },
    { { 3, { 3, 7, 16 } }, { 1, { 16 } }, { .shift = 1 } },
    { { 3, { 3, 7, 16 } }, { 3, { 3, 7, 1 } }, { 0 } },
    { { 4, { 2, 5, 4, 8 } }, { 3, { 5, 1, 1 } }, { .in_place = true } },
    { { 3, { 1, 6, 16 } }, { 3, { 5, 1, 16 } }, { 0 } },
    { { 3, { 5, 1, 7 } }, { 2, { 6, 1 } }, { 0 } },
    { { 5, { 2, 1, 3, 1, 16 } }, { 5, { 1, 4, 1, 3, 1 } }, { 0 } },
    { { 2, { 301, 17 } }, { 1, { 17 } }, { 0 } },
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static const struct {
    const char *op;
    int opset;
    const char *attrs;
    fill_kind second;
    qn_dtypes types; /* 0: all */
} rows[] = {
    { "Add", 14, "", FILL_ANY, 0 },
    { "Sub", 14, "", FILL_ANY, 0 },
    { "Mul", 14, "", FILL_ANY, 0 },
    { "Div", 14, "", FILL_NONZERO, 0 },
    { "Max", 13, "", FILL_ANY, 0 },
    { "Min", 13, "", FILL_ANY, 0 },
    { "Sum", 13, "", FILL_ANY, 0 },
    { "Mod", 13, "", FILL_NONZERO, QN_TYPES_INT },
    { "Mod", 13, "fmod=1", FILL_NONZERO, 0 },
    { "And", 7, "", FILL_BITS, 0 },
    { "Or", 7, "", FILL_BITS, 0 },
    { "Xor", 7, "", FILL_BITS, 0 },
    { "BitwiseAnd", 18, "", FILL_BITS, 0 },
    { "BitwiseOr", 18, "", FILL_BITS, 0 },
    { "BitwiseXor", 18, "", FILL_BITS, 0 },
    { "BitShift", 11, "direction=LEFT", FILL_ANY, 0 },
    { "BitShift", 11, "direction=RIGHT", FILL_ANY, 0 },
    { "Equal", 19, "", FILL_ANY, ~QN_BIT(STRING) },
    { "Less", 13, "", FILL_ANY, 0 },
    { "LessOrEqual", 16, "", FILL_ANY, 0 },
    { "Greater", 13, "", FILL_ANY, 0 },
    { "GreaterOrEqual", 16, "", FILL_ANY, 0 },
    { "Pow", 15, "", FILL_POSITIVE, QN_TYPES_FLOAT },
    { "PRelu", 16, "", FILL_ANY, 0 },
};

static bool broadcasts_to_first(const dims *a, const dims *b)
{
    for (int i = 0; i < b->rank; i++)
        if (b->d[b->rank - 1 - i] != 1 &&
            (i >= a->rank || b->d[b->rank - 1 - i] != a->d[a->rank - 1 - i]))
            return false;
    return b->rank <= a->rank;
}

static void run(size_t r, qn_dtype dtype, size_t s)
{
    char label[160];
    const dims *a = &shapes[s].a, *b = &shapes[s].b;
    device_options how = shapes[s].how;
    test_node t;
    test_node_init(&t, rows[r].op, rows[r].opset, 2, 1);
    test_node_attrs(&t, rows[r].attrs);
    if (t.node.op->out_types == qn_types_bool && qn_dtype_size(dtype) != 1)
        how.in_place = false;
    bool pow = !strcmp(rows[r].op, "Pow");
    test_fill(&t, 0, dtype, a->rank, a->d, pow ? FILL_POSITIVE : FILL_ANY);
    test_fill(&t, 1, dtype, b->rank, b->d, rows[r].second);
    test_label(label, rows[r].op, dtype, s);
    (void)device_node_run(&t, &how, label);
    test_node_release(&t);
}

static void test_rows(void **state)
{
    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        const qn_op *op = qn_op_find("", rows[r].op, rows[r].opset, NULL);
        assert_non_null(op);
        qn_dtypes types = op->types[0] & (rows[r].types ? rows[r].types : ~0u);
        bool one_way = !strcmp(rows[r].op, "PRelu");
        for (int d = 1; d < QN_DTYPE_COUNT; d++)
            for (size_t s = 0; s < SHAPES; s++)
                if (qn_dtypes_has(types, (qn_dtype)d) &&
                    (!one_way ||
                     broadcasts_to_first(&shapes[s].a, &shapes[s].b)))
                    run(r, (qn_dtype)d, s);
    }
}

/* ---- Pow: types, and exponents with a short form ---- */

static const device_row powers[] = {
    { "Pow", 13, NULL, { "f32 9: -2 -1 0 0.5 2 nan inf -inf -0", "f32 : 2" } },
    { "Pow", 13, NULL, { "f32 9: -2 -1 0 0.5 2 nan inf -inf -0", "f32 : 3" } },
    { "Pow", 13, NULL, { "f32 9: -2 -1 0 0.5 2 nan inf -inf -0", "f32 : 0.5" } },
    { "Pow", 13, NULL, { "f32 9: -2 -1 0 0.5 2 nan inf -inf -0", "f32 : -0.5" } },
    { "Pow", 13, NULL, { "f32 9: -2 -1 0 0.5 2 nan inf -inf -0", "f32 : -1" } },
    { "Pow", 13, NULL, { "f32 9: -2 -1 0 0.5 2 nan inf -inf -0", "f32 : 1" } },
    { "Pow", 13, NULL, { "f32 9: -2 -1 0 0.5 2 nan inf -inf -0", "f32 : 0" } },
    { "Pow", 13, NULL, { "f64 9: -2 -1 0 0.5 2 nan inf -inf -0", "f64 : 0.5" } },
    { "Pow", 13, NULL, { "f16 200", "f16 : 2" }, .in_place = true },
    { "Pow", 15, NULL, { "bf16 200", "i8 200" }, .rtol = 0.01 },
    { "Pow", 13, NULL, { "f32 70", "i64 : 2" } },
    { "Pow", 13, NULL, { "f32 5,14", "i32 14" }, .rtol = 1e-5 },
    { "Pow", 13, NULL, { "f32 5,14", "f64 5,1" } },
    { "Pow", 13, NULL, { "f16 5,14", "f32 5,1" } },
    { "Pow", 13, NULL, { "f64 5,14", "f32 5,1" } },
    { "Pow", 13, NULL, { "f16 5,14", "u8 14" } },
    { "Pow", 13, NULL, { "i32 6: -3 -1 0 1 2 7", "i32 6: 3 5 0 9 31 40" } },
    { "Pow", 13, NULL, { "i64 6: -3 -1 2 1 2 7", "i64 6: 3 -5 -1 -9 63 40" } },
    { "Pow", 13, NULL, { "i64 3: 3 4 5", "u64 : 3" } },
    { "Pow", 13, NULL, { "i32 4: 2 3 4 9", "f32 : 0.5" } },
    { "Pow", 13, NULL, { "i64 4: 2 3 4 9", "f64 4: 0.5 70 2 1" } },
    { "Pow", 13, NULL, { "i32 2: 1 0", "i32 : -1" }, .faults = true },
};

static void test_powers(void **state)
{
    (void)state;
    device_rows_run(powers, sizeof powers / sizeof powers[0]);
}

static const device_row faults[] = {
    { "Div", 14, NULL, { "i32 4: 1 2 3 4", "i32 4: 1 0 2 0" }, .faults = true },
    { "Div", 14, NULL, { "u8 400", "u8 : 0" }, .faults = true },
    { "Mod", 13, NULL, { "i64 2,3", "i64 3: 1 2 0" }, .faults = true },
    { "Mod", 13, "fmod=1", { "i8 2,3", "i8 3: 0 2 1" }, .faults = true },
    { "Div", 14, NULL, { "f32 4: 1 -2 0 4", "f32 4: 0 0 0 -0" } },
    { "Div", 14, NULL, { "i8 3: -128 7 -7", "i8 3: -1 2 2" } },
    { "Mod", 13, NULL, { "i8 6: -128 7 -7 7 -7 0", "i8 6: -1 3 3 -3 -3 5" } },
    { "Mod", 13, "fmod=1", { "f32 6: -5 5 -5 5 nan 1", "f32 6: 3 3 -3 -3 1 inf" } },
};

static void test_divisions(void **state)
{
    (void)state;
    device_rows_run(faults, sizeof faults / sizeof faults[0]);
}

/* Before opset 7 attributes place the second operand. */
static const device_row placed[] = {
    { "Add", 6, "broadcast=1 axis=1", { "f32 2,3,4,5", "f32 3,4" } },
    { "Mul", 6, "broadcast=1", { "f32 2,3,4,8", "f32 4,8" } },
    { "Sub", 6, "broadcast=1 axis=0", { "f32 2,3,4", "f32 2" } },
    { "Add", 1, "broadcast=1", { "f16 2,3,4", "f16 1,1" } },
    { "Less", 1, "broadcast=1 axis=1", { "f32 2,3,4", "f32 3" } },
    { "PRelu", 6, NULL, { "f32 2,3,4,4", "f32 3" } },
    { "PRelu", 6, NULL, { "f32 2,3,4,4", "f32 1" }, .in_place = true },
};

static void test_placed(void **state)
{
    (void)state;
    device_rows_run(placed, sizeof placed / sizeof placed[0]);
}

/* Channels last: shapes are those in memory. */
static const device_row last[] = {
    { "Add", 13, NULL, { "f32 2,5,4,6", "f32 1,5,1,1" }, .nhwc = true },
    { "Mul", 13, NULL, { "f16 2,8,3,3", "f16 2,8,1,1" }, .nhwc = true },
    { "PRelu", 16, NULL, { "f32 2,16,3,5", "f32 1,16,1,1" }, .nhwc = true,
      .in_place = true },
    { "Sum", 13, NULL, { "f32 1,4,3,5", "f32 2,4,1,1", "f32 2,4,3,5" },
      .nhwc = true },
    { "Less", 13, NULL, { "i32 2,4,3,5", "i32 1,4,1,1" }, .nhwc = true },
};

static void test_last(void **state)
{
    (void)state;
    device_rows_run(last, sizeof last / sizeof last[0]);
}

/* ---- any number of operands ---- */

static const device_row folds[] = {
    { "Max", 13, NULL, { "f32 7" } },
    { "Sum", 13, NULL, { "f16 1000" }, .in_place = true },
    { "Mean", 13, NULL, { "f32 1000", "f32 1000" } },
    { "Mean", 13, NULL, { "f16 30,8", "f16 8", "f16 30,1" } },
    { "Mean", 13, NULL, { "f64 30,7", "f64 7", "f64 30,1" } },
    { "Sum", 13, NULL, { "f32 2,3,16", "f32 3,1", "f32 16", "f32 : 2" } },
    { "Sum", 13, NULL, { "bf16 2,3,16", "bf16 2,3,16", "bf16 16" },
      .in_place = true },
    { "Sum", 8, NULL, { "f32 5,1", "f32 1,7", "f32 5,7" }, .in_place = true },
    { "Max", 13, NULL, { "i8 300", "i8 1", "i8 300" } },
    { "Min", 13, NULL, { "u64 30", "u64 30", "u64 1" } },
    { "Max", 13, NULL, { "f32 4: nan 1 -0 inf", "f32 4: 1 nan 0 -inf",
                         "f32 4: 2 2 -1 nan" } },
    { "Min", 13, NULL, { "f64 4: nan 1 -0 inf", "f64 4: 1 nan 0 -inf",
                         "f64 4: 2 2 -1 nan" } },
    { "Max", 13, NULL, { "f32 0,3", "f32 3", "f32 1" } },
};

static void test_folds(void **state)
{
    (void)state;
    device_rows_run(folds, sizeof folds / sizeof folds[0]);
}

/* More operands than one launch takes: sums wait in the workspace. */
static void test_many(void **state)
{
    (void)state;
    static const char *const ops[] = { "Sum", "Mean", "Max", "Min" };
    static const qn_dtype types[] = { QN_F32, QN_F16, QN_BF16, QN_F64, QN_I16 };
    for (uint32_t n = 8; n <= TEST_MAX_ARGS; n++)
        for (size_t o = 0; o < 4; o++)
            for (size_t d = 0; d < 5; d++) {
                char label[160];
                test_node t;
                test_node_init(&t, ops[o], 13, n, 1);
                if (!qn_dtypes_has(t.node.op->types[0], types[d])) {
                    test_node_release(&t);
                    continue;
                }
                /* the output lies over the last operand, or an early one */
                for (uint32_t i = 0; i < n; i++) {
                    bool whole = i == n - 1 || (n > 12 && i % 3 == 1);
                    test_fill(&t, i, types[d], i % 3 || whole ? 2 : 1,
                              whole        ? (int64_t[]){ 60, 33 }
                              : i % 3 == 2 ? (int64_t[]){ 1, 1 }
                              : i % 3      ? (int64_t[]){ 60, 1 }
                                           : (int64_t[]){ 33 },
                              FILL_NONZERO);
                }
                test_label(label, ops[o], types[d], n);
                (void)device_node_run(
                    &t, &(device_options){ .in_place = n % 2 == 1 }, label);
                test_node_release(&t);
            }
}

/* ---- Where ---- */

static void test_where(void **state)
{
    (void)state;
    static const struct {
        dims c, a, b;
        device_options how;
    } cases[] = {
        { { 1, { 1000 } }, { 1, { 1000 } }, { 1, { 1000 } }, { 0 } },
        { { 1, { 100 } }, { 1, { 100 } }, { 1, { 100 } },
          { .in_place = true } },
        { { 1, { 1000 } }, { 1, { 1000 } }, { 1, { 1000 } }, { .shift = 1 } },
        { { 2, { 5, 1 } }, { 2, { 5, 32 } }, { 0, { 0 } }, { 0 } },
        { { 2, { 5, 32 } }, { 1, { 1 } }, { 1, { 32 } }, { 0 } },
        { { 2, { 5, 7 } }, { 0, { 0 } }, { 0, { 0 } }, { 0 } },
        { { 3, { 4, 1, 7 } }, { 2, { 3, 1 } }, { 3, { 1, 3, 7 } }, { 0 } },
        { { 1, { 0 } }, { 1, { 1 } }, { 1, { 0 } }, { 0 } },
    };
    for (size_t r = 0; r < sizeof cases / sizeof cases[0]; r++)
        for (int d = 1; d < QN_DTYPE_COUNT; d++) {
            char label[160];
            test_node t;
            test_node_init(&t, "Where", 16, 3, 1);
            if (d != QN_STRING &&
                qn_dtypes_has(t.node.op->types[1], (qn_dtype)d)) {
                device_options how = cases[r].how;
                test_fill(&t, 0, QN_BOOL, cases[r].c.rank, cases[r].c.d,
                          FILL_BITS);
                test_fill(&t, 1, (qn_dtype)d, cases[r].a.rank, cases[r].a.d,
                          FILL_BITS);
                test_fill(&t, 2, (qn_dtype)d, cases[r].b.rank, cases[r].b.d,
                          FILL_BITS);
                how.exact = true;
                test_label(label, "Where", (qn_dtype)d, r);
                (void)device_node_run(&t, &how, label);
            }
            test_node_release(&t);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),      cmocka_unit_test(test_powers),
        cmocka_unit_test(test_divisions), cmocka_unit_test(test_placed),
        cmocka_unit_test(test_folds),     cmocka_unit_test(test_many),
        cmocka_unit_test(test_where),     cmocka_unit_test(test_last),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}

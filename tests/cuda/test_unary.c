/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of one tensor, every type each of them has, against the cpu. */
#include "runtime/ops/op.h"
#include "tests/cuda/support/device_node.h"
#include "tests/cuda/support/fill.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct {
    const char *op;
    int opset;
    const char *attrs;
} rows[] = {
    { "Relu", 14, "" },
    { "Sigmoid", 13, "" },
    { "Tanh", 13, "" },
    { "HardSigmoid", 22, "" },
    { "HardSigmoid", 22, "alpha=0.5 beta=0.25" },
    { "HardSwish", 22, "" },
    { "LeakyRelu", 16, "" },
    { "LeakyRelu", 16, "alpha=-0.25" },
    { "Elu", 22, "alpha=2.0" },
    { "Selu", 22, "" },
    { "Selu", 1, "" },
    { "Selu", 22, "alpha=2.0 gamma=3.0" },
    { "Celu", 28, "alpha=2.0" },
    { "Mish", 22, "" },
    { "Gelu", 20, "" },
    { "Gelu", 20, "approximate=tanh" },
    { "Swish", 24, "" },
    { "Swish", 24, "alpha=2.0" },
    { "Softplus", 22, "" },
    { "Softsign", 22, "" },
    { "ThresholdedRelu", 22, "" },
    { "ThresholdedRelu", 22, "alpha=-1.0" },
    { "Shrink", 9, "" },
    { "Shrink", 9, "lambd=1.5 bias=0.25" },
    { "Shrink", 9, "lambd=2.0 bias=1.0" },
    { "Clip", 1, "" },
    { "Clip", 6, "" },
    { "Clip", 6, "min=-1.0 max=2.0" },
    { "Clip", 13, "" },
    { "Abs", 13, "" },
    { "Neg", 13, "" },
    { "Sign", 13, "" },
    { "Floor", 13, "" },
    { "Ceil", 13, "" },
    { "Round", 22, "" },
    { "Sqrt", 13, "" },
    { "Reciprocal", 13, "" },
    { "Exp", 13, "" },
    { "Log", 13, "" },
    { "Erf", 9, "" },
    { "Erf", 13, "" },
    { "Sin", 22, "" },
    { "Cos", 22, "" },
    { "Tan", 22, "" },
    { "Asin", 22, "" },
    { "Acos", 22, "" },
    { "Atan", 22, "" },
    { "Sinh", 22, "" },
    { "Cosh", 22, "" },
    { "Asinh", 22, "" },
    { "Acosh", 22, "" },
    { "Atanh", 22, "" },
    { "Not", 1, "" },
    { "BitwiseNot", 18, "" },
    { "IsNaN", 20, "" },
    { "IsInf", 20, "" },
    { "IsInf", 20, "detect_positive=0" },
    { "IsInf", 20, "detect_negative=0" },
    { "IsInf", 20, "detect_negative=0 detect_positive=0" },
};

static const struct {
    int rank;
    int64_t dims[2];
    device_options how;
} sizes[] = {
    { 0, { 0 }, { 0 } },
    { 2, { 0, 3 }, { 0 } },
    { 1, { 7 }, { .in_place = true } },
    { 1, { 1000 }, { .shift = 1 } },
    { 1, { 1024 }, { .shift = 4 } },
    { 2, { 3, 3001 }, { .in_place = true } },
};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void run(size_t r, qn_dtype dtype, size_t s)
{
    char label[160];
    test_node t;
    test_node_init(&t, rows[r].op, rows[r].opset, 1, 1);
    test_node_attrs(&t, rows[r].attrs);
    device_options how = sizes[s].how;
    /* predicates give one byte an element, whatever they read */
    if (t.node.op->out_types && qn_dtype_size(dtype) != 1)
        how.in_place = false;
    test_fill(&t, 0, dtype, sizes[s].rank, sizes[s].dims, FILL_ANY);
    test_label(label, rows[r].op, dtype, r);
    (void)device_node_run(&t, &how, label);
    test_node_release(&t);
}

static void test_rows(void **state)
{
    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        const qn_op *op = qn_op_find("", rows[r].op, rows[r].opset, NULL);
        assert_non_null(op);
        for (int d = 1; d < QN_DTYPE_COUNT; d++)
            if (qn_dtypes_has(op->types[0], (qn_dtype)d))
                for (size_t s = 0; s < SIZES; s++)
                    run(r, (qn_dtype)d, s);
    }
}

/* Every code of the types of 16 bits and fewer. */
static void test_all_codes(void **state)
{
    (void)state;
    static const struct {
        const char *op;
        qn_dtype dtype;
        int64_t n;
    } all[] = {
        { "Sigmoid", QN_F16, 65536 },   { "Gelu", QN_BF16, 65536 },
        { "Sqrt", QN_F16, 65536 },      { "Erf", QN_BF16, 65536 },
        { "Neg", QN_I16, 65536 },       { "Abs", QN_I8, 256 },
        { "IsNaN", QN_F8E4M3FN, 256 },  { "IsInf", QN_F8E4M3FN, 256 },
        { "IsNaN", QN_F8E5M2, 256 },    { "IsInf", QN_F8E5M2, 256 },
        { "IsNaN", QN_F8E4M3FNUZ, 256 },{ "IsInf", QN_F8E5M2FNUZ, 256 },
        { "IsNaN", QN_F16, 65536 },     { "IsInf", QN_BF16, 65536 },
    };
    for (size_t r = 0; r < sizeof all / sizeof all[0]; r++) {
        char label[160];
        test_node t;
        test_node_init(&t, all[r].op, 28, 1, 1);
        test_fill(&t, 0, all[r].dtype, 1, &all[r].n, FILL_BITS);
        test_label(label, all[r].op, all[r].dtype, r);
        (void)device_node_run(&t, &(device_options){ 0 }, label);
        test_node_release(&t);
    }
}

/* Bounds as inputs. */
static const device_row clips[] = {
    { "Clip", 13, NULL, { "f32 5: -5 nan 9 0 2", "f32 : 0", "f32 : 6" } },
    { "Clip", 13, NULL, { "f32 5: -5 nan 9 0 2", "", "f32 1: 1" } },
    { "Clip", 13, NULL, { "f16 1000", "f16 : -1", "f16 : 1.5" } },
    { "Clip", 13, NULL, { "bf16 1000", "bf16 : -1" }, .shift = 3 },
    { "Clip", 11, NULL, { "f64 77", "f64 : -1", "f64 : 0.1" }, .in_place = true },
    { "Clip", 13, NULL, { "f32 64", "f32 : 3", "f32 : -3" } },
    { "Clip", 13, NULL, { "i8 300", "i8 : -2" } },
    { "Clip", 13, NULL, { "u8 300", "", "u8 : 9" } },
    { "Clip", 13, NULL, { "i64 301", "i64 : -3", "i64 : 4" } },
    { "Clip", 13, NULL, { "u64 30", "u64 : 3" } },
    { "Clip", 13, NULL, { "i16 30", "i16 : 3" } },
    { "Clip", 13, NULL, { "u32 30", "u32 : 3" } },
};

static void test_clips(void **state)
{
    (void)state;
    device_rows_run(clips, sizeof clips / sizeof clips[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_all_codes),
        cmocka_unit_test(test_clips),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}

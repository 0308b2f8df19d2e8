/* SPDX-License-Identifier: Apache-2.0 */
/* Shape, Size, ConstantOfShape, Range, Dropout and NonZero on the device. */
#include "tests/cuda/support/device_node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RUN(rows) device_rows_run(rows, sizeof rows / sizeof rows[0])

static void test_shape(void **state)
{
    static const device_row rows[] = {
        { "Shape", 13, NULL, { "f32 2,0,3" } },
        { "Shape", 15, "start=1", { "u8 2,5,3" } },
        { "Shape", 15, "start=1 end=-2", { "f16 2,5,3" } },
        { "Shape", 13, NULL, { "f32 : 1.5" } },
        { "Shape", 13, NULL, { "f32 1,2,1,2,1,2,1,2,1,2" } },
        { "Size", 13, NULL, { "f32 2,4,3" } },
        { "Size", 13, NULL, { "i64 2,0,3" } },
        { "Size", 13, NULL, { "bool : 1" } },
    };
    (void)state;
    RUN(rows);
}

static void test_range(void **state)
{
    static const device_row rows[] = {
        { "Range", 11, NULL, { "f32 : 0.1", "f32 : 30", "f32 : 0.3" },
          .exact = true },
        { "Range", 11, NULL, { "f64 : 0.1", "f64 : -3", "f64 : -0.3" },
          .exact = true },
        { "Range", 11, NULL, { "i64 : 5", "i64 : -1000", "i64 : -7" } },
        { "Range", 11, NULL, { "i32 : -5", "i32 : 1000", "i32 : 7" } },
        { "Range", 11, NULL, { "i16 : -32768", "i16 : 32767", "i16 : 9000" } },
        { "Range", 11, NULL, { "i64 : 5", "i64 : 5", "i64 : 1" } },
        { "Range", 27, NULL, { "f16 : 0.1", "f16 : 30", "f16 : 0.3" },
          .exact = true },
        { "Range", 27, NULL, { "bf16 : 0.1", "bf16 : 30", "bf16 : 0.3" },
          .exact = true },
    };
    (void)state;
    RUN(rows);
}

static void test_fill(void **state)
{
    static const unsigned char bytes[16] = { 1, 2, 3, 4, 5, 6, 7, 8,
                                             9, 10, 11, 12, 13, 14, 15, 16 };
    static const unsigned char same[16] = { 7, 7, 7, 7, 7, 7, 7, 7,
                                            7, 7, 7, 7, 7, 7, 7, 7 };
    static const qn_dtype types[] = { QN_U8, QN_F16, QN_F32, QN_I64 };
    static const int64_t dims[][2] = { { 3, 5 }, { 64, 33 }, { 0, 4 }, { 1, 1 } };
    (void)state;
    for (size_t i = 0; i < 4 * 4 * 3; i++) {
        test_node t;
        char name[80];
        const qn_const value = { .dtype = types[i % 4],
                                 .shape = { .rank = 1, .dims = { 1 } },
                                 .bytes = qn_dtype_size(types[i % 4]),
                                 .data = i / 16 == 1 ? same : bytes };
        const qn_attr attr = { .name = "value", .kind = QN_ATTR_TENSOR,
                               .tensor = &value };
        snprintf(name, sizeof name, "fill %zu of %s", i,
                 qn_dtype_name(types[i % 4]));
        test_node_init(&t, "ConstantOfShape", 20, 1, 1);
        if (i / 16 < 2) { /* else zeros, as float */
            t.attrs[t.node.n_attrs++] = attr;
            t.node.attrs = t.attrs;
        }
        test_node_input(&t, 0, QN_I64, 1, (int64_t[]){ 2 }, dims[i / 4 % 4]);
        device_node_run(&t, &(device_options){ .shift = i & 1 }, name);
        test_node_release(&t);
    }
}

static void test_dropout(void **state)
{
    static const device_row rows[] = {
        { "Dropout", 13, NULL, { "f32 3,5" }, 1 },
        { "Dropout", 13, NULL, { "f32 3,5" }, 2 },
        { "Dropout", 13, NULL, { "f32 3,5" }, 1, .in_place = true },
        { "Dropout", 7, "ratio=0.25", { "f16 3,5" }, 2 },
        { "Dropout", 7, "ratio=0.25", { "f64 3,5" }, 2, .shift = 1 },
        { "Dropout", 13, "seed=3", { "f32 3,5", "f32 : 0.3", "bool : 0" }, 2 },
        { "Dropout", 13, "seed=3", { "f32 30,50", "f32 : 0.3", "bool : 1" }, 2,
          .exact = true },
        { "Dropout", 13, "seed=9", { "f16 700", "", "bool : 1" }, 2,
          .in_place = true },
        { "Dropout", 13, NULL, { "f64 7", "f64 : 0.9", "bool : 1" }, 1 },
        { "Dropout", 13, NULL, { "bf16 312", "f32 : 0.1", "bool : 1" }, 2 },
        { "Dropout", 13, NULL, { "f32 0,5", "f32 : 0.1", "bool : 1" }, 2 },
        { "Dropout", 13, NULL, { "f32 7", "f32 : 0.0", "bool : 1" }, 2 },
        { "Dropout", 13, NULL, { "f32 7", "f32 : 1.5", "bool : 1" }, 2,
          .faults = true },
    };
    (void)state;
    RUN(rows);
}

static void test_nonzero(void **state)
{
    static const device_row rows[] = {
        { "NonZero", 13, NULL, { "bool 2,3: 1 0 1 0 0 1" } },
        { "NonZero", 13, NULL, { "f32 2,3: 1 0 -0.0 nan 0 inf" } },
        { "NonZero", 13, NULL, { "f16 5: 0 -0.0 1 2 0" } },
        { "NonZero", 13, NULL, { "bf16 5: 0 -0.0 1 2 0" } },
        { "NonZero", 13, NULL, { "f64 5: 0 -0.0 1 2 0" } },
        { "NonZero", 13, NULL, { "i64 2,2: 0 0 0 0" } },
        { "NonZero", 13, NULL, { "i8 3: -128 0 1" } },
        { "NonZero", 13, NULL, { "f32 : 3" } },
        { "NonZero", 13, NULL, { "f32 : 0" } },
        { "NonZero", 13, NULL, { "f32 0,3" } },
        { "NonZero", 13, NULL, { "u32 3,5,7" } },
        { "NonZero", 13, NULL, { "f32 4,1000" } },
        { "NonZero", 9, NULL, { "bool 2,3,700" }, .shift = 1 },
    };
    (void)state;
    RUN(rows);
}

/* Complex numbers: either part counts, signs do not. */
static void test_nonzero_complex(void **state)
{
    static const float single[] = { 0, -0.0f, 1, 0, 0, 2, 0, 0 };
    static const double both[] = { 0, -0.0, 1, 0, 0, 2, -0.0, -0.0 };
    (void)state;
    for (int i = 0; i < 2; i++) {
        test_node t;
        test_node_init(&t, "NonZero", 13, 1, 1);
        test_node_input(&t, 0, i ? QN_C128 : QN_C64, 1, (int64_t[]){ 4 },
                        i ? (const void *)both : single);
        device_node_run(&t, NULL, i ? "complex128" : "complex64");
        test_node_release(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shape),   cmocka_unit_test(test_range),
        cmocka_unit_test(test_fill),    cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_nonzero), cmocka_unit_test(test_nonzero_complex),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}

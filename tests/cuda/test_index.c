/* SPDX-License-Identifier: Apache-2.0 */
/* Gather, GatherElements, GatherND, Scatter, ScatterElements, ScatterND on the
 * device: indices from both ends, out of range, and met more than once. */
#include "tests/cuda/support/device_node.h"
#include "tests/cuda/support/emu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define RUN(rows) device_rows_run(rows, sizeof rows / sizeof rows[0])

static void test_gather(void **state)
{
    static const device_row rows[] = {
        { "Gather", 13, NULL, { "f32 5,3", "i64 2: 4 0" } },
        { "Gather", 13, NULL, { "f32 5,3", "i64 : -1" } },
        { "Gather", 13, "axis=1", { "f32 2,5,4", "i32 2,2: 4 -5 0 -1" } },
        { "Gather", 13, "axis=-1", { "u8 3,7", "i64 3: 6 -7 2" } },
        { "Gather", 13, NULL, { "f16 9,64", "i64 4: 8 0 3 3" } },
        { "Gather", 13, NULL, { "f16 9,64", "i64 4: 8 0 3 3" }, .shift = 1 },
        { "Gather", 13, NULL, { "f16 9,6", "i64 4: 8 0 3 3" } },
        { "Gather", 13, NULL, { "bool 9,6", "i64 1: -9" } },
        { "Gather", 13, NULL, { "i64 5", "i64 0:" } },
        { "Gather", 13, NULL, { "f32 5,0", "i64 2: 1 -1" } },
        { "Gather", 13, "axis=1", { "f64 0,3,2", "i64 1: 2" } },
        { "Gather", 1, NULL, { "f32 5,3", "i32 2: 4 0" } },
        { "Gather", 13, NULL, { "f32 5,3", "i64 2: 4 5" }, .faults = true },
        { "Gather", 13, NULL, { "f32 5,3", "i64 2: -6 4" }, .faults = true },
        { "Gather", 13, NULL, { "f32 5,0", "i64 2: 1 5" }, .faults = true },
        { "Gather", 13, "axis=1", { "f32 0,3", "i64 1: 3" }, .faults = true },
        { "Gather", 13, NULL, { "f32 0,3", "i32 1: 0" }, .faults = true },
    };
    (void)state;
    RUN(rows);
}

static void test_gather_elements(void **state)
{
    static const device_row rows[] = {
        { "GatherElements", 13, NULL, { "f32 3,4", "i64 2,4: 0 1 2 -1 -3 0 1 2" } },
        { "GatherElements", 13, "axis=1", { "f16 3,4", "i32 2,3: 3 0 -4 1 -1 2" } },
        { "GatherElements", 13, "axis=-2",
          { "u8 2,3,2", "i64 1,4,2: 0 1 2 0 -1 -2 1 1" } },
        { "GatherElements", 13, "axis=1", { "i64 2,3", "i64 2,0:" } },
        { "GatherElements", 11, NULL, { "f64 4", "i64 5: 3 2 1 0 -4" } },
        { "GatherElements", 13, NULL, { "f32 4", "i64 2: 0 4" },
          .faults = true },
        { "GatherElements", 13, NULL, { "f32 4", "i32 1: -5" },
          .faults = true },
    };
    (void)state;
    RUN(rows);
}

static void test_gather_nd(void **state)
{
    static const device_row rows[] = {
        { "GatherND", 13, NULL, { "f32 2,3", "i64 2,2: 0 2 1 -3" } },
        { "GatherND", 13, NULL, { "f32 2,3", "i64 2,1: 1 -2" } },
        { "GatherND", 13, NULL, { "f16 4,3,8", "i64 2,1: 3 -4" } },
        { "GatherND", 13, NULL, { "f16 4,3,8", "i64 2,1: 3 -4" }, .shift = 1 },
        { "GatherND", 13, "batch_dims=1", { "u8 2,3,5", "i64 2,2,1: 0 2 -1 1" } },
        { "GatherND", 13, "batch_dims=1",
          { "i32 2,3,5", "i64 2,2,2: 0 4 2 -5 -1 1 1 0" } },
        { "GatherND", 12, NULL, { "i64 5", "i64 1: 4" } },
        { "GatherND", 13, NULL, { "f32 2,3", "i64 0,2:" } },
        { "GatherND", 13, NULL, { "f32 2,0", "i64 1,1: 1" } },
        { "GatherND", 13, NULL, { "f32 2,3", "i64 1,2: 1 3" },
          .faults = true },
        { "GatherND", 13, NULL, { "f32 2,3", "i64 2,2: 0 0 -3 1" },
          .faults = true },
        { "GatherND", 13, NULL, { "f32 2,0", "i64 1,1: 2" },
          .faults = true },
    };
    (void)state;
    RUN(rows);
}

static void test_scatter(void **state)
{
    static const device_row rows[] = {
        { "Scatter", 9, NULL, { "f32 3,3", "i64 1,3: 1 0 2", "f32 1,3: 7 8 9" } },
        { "ScatterElements", 18, "axis=1",
          { "f32 1,5", "i64 1,3: 1 1 -4", "f32 1,3: 7 8 9" } },
        { "ScatterElements", 18, NULL,
          { "f16 4,3", "i32 2,3: 0 1 2 3 -1 -4", "f16 2,3" } },
        { "ScatterElements", 18, NULL,
          { "f16 4,3", "i32 2,3: 0 1 2 3 -1 -4", "f16 2,3" },
          .in_place = true },
        { "ScatterElements", 18, NULL,
          { "u8 4,3", "i64 1,2: 3 3", "u8 1,2: 250 9" }, .shift = 1 },
        { "ScatterElements", 18, "reduction=add axis=1",
          { "f32 1,5", "i64 1,3: 1 1 1", "f32 1,3: 1e8 1 -1e8" },
          .exact = true },
        { "ScatterElements", 18, "reduction=mul",
          { "i8 3", "i64 3: 2 2 -1", "i8 3: 100 3 7" } },
        { "ScatterElements", 18, "reduction=max",
          { "f32 3: 1 nan -2", "i64 4: 0 0 1 2", "f32 4: nan 5 9 -inf" } },
        { "ScatterElements", 18, "reduction=min",
          { "f16 3: 1 2 3", "i64 4: 0 0 1 2", "f16 4: 0.5 -2 nan 4" } },
        { "ScatterElements", 18, "reduction=add",
          { "bool 3: 0 1 0", "i64 2: 0 1", "bool 2: 1 0" } },
        { "ScatterElements", 18, "reduction=min",
          { "bool 3: 1 1 0", "i64 2: 0 1", "bool 2: 1 0" } },
        { "ScatterElements", 18, "reduction=max",
          { "u64 2: 1 2", "i64 2: 0 0", "u64 2: 3 2" } },
        { "ScatterElements", 18, NULL, { "f32 3", "i64 0:", "f32 0:" } },
        { "ScatterElements", 18, NULL, { "f32 3", "i64 1: 3", "f32 1: 5" },
          .faults = true },
        { "ScatterElements", 18, NULL, { "f32 0", "i64 1: 0", "f32 1: 5" },
          .faults = true },
        { "ScatterND", 18, NULL, { "f32 4,3", "i64 2,1: 1 -1", "f32 2,3" } },
        { "ScatterND", 18, NULL, { "f32 4,3", "i64 2,1: 1 1", "f32 2,3" } },
        { "ScatterND", 18, NULL,
          { "f16 4,2,8", "i64 3,1: 3 0 3", "f16 3,2,8" } },
        { "ScatterND", 18, NULL,
          { "f16 4,2,8", "i64 3,1: 3 0 3", "f16 3,2,8" }, .shift = 1 },
        { "ScatterND", 18, NULL,
          { "i64 4,3", "i64 2,2,2: 0 0 3 -1 -4 2 3 2", "i64 2,2" },
          .in_place = true },
        { "ScatterND", 18, "reduction=add",
          { "f32 4,3", "i64 3,1: 1 0 1", "f32 3,3" }, .exact = true },
        { "ScatterND", 18, "reduction=mul",
          { "bf16 4,3", "i64 3,1: 1 0 1", "bf16 3,3" }, .exact = true,
          .in_place = true },
        { "ScatterND", 11, NULL, { "f64 4", "i64 0,1:", "f64 0:" } },
        { "ScatterND", 18, NULL, { "f32 4,0", "i64 1,1: 3", "f32 1,0:" } },
        { "ScatterND", 18, NULL, { "f32 4,0", "i64 1,1: 4", "f32 1,0:" },
          .faults = true },
        { "ScatterND", 18, NULL, { "f32 4,3", "i64 1,2: 3 3", "f32 1: 1" },
          .faults = true },
    };
    (void)state;
    RUN(rows);
}

/* ---- many updates: lists, sorted and too long to be ---- */

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static const struct {
    const char *op, *reduction;
    qn_dtype dtype;
    int64_t rows, run, n; /* data [rows, run], n updates */
    int64_t span; /* indices are below this */
    bool in_place;
} many[] = {
    { "ScatterND", "none", QN_F32, 300, 4, 1000, 300, false },
    { "ScatterND", "none", QN_F16, 300, 3, 1000, 5, true },
    { "ScatterND", "add", QN_F32, 50, 3, 1000, 50, false },
    { "ScatterND", "add", QN_F16, 50, 1, 700, 9, true },
    { "ScatterND", "mul", QN_F64, 7, 2, 300, 7, false },
    { "ScatterND", "add", QN_F32, 3, 2, 4500, 1, false }, /* not sorted */
    { "ScatterND", "max", QN_I32, 40, 5, 300, 40, false },
    { "ScatterElements", "none", QN_U8, 300, 1, 1000, 300, false },
    { "ScatterElements", "add", QN_F32, 100, 1, 1000, 100, false },
    { "ScatterElements", "add", QN_BF16, 100, 1, 1000, 2, true },
    { "ScatterElements", "add", QN_F32, 10, 1, 9000, 2, false }, /* both */
    { "ScatterElements", "min", QN_F16, 100, 1, 200, 100, false },
};

static void fill_values(qn_dtype dtype, void *out, int64_t n, uint32_t *seed)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t r = next_random(seed);
        switch (dtype) {
        case QN_F32: ((float *)out)[i] = (float)r / 1e5f - 80.0f; break;
        case QN_F64: ((double *)out)[i] = 0.9 + r % 97 / 500.0; break;
        case QN_F16: ((uint16_t *)out)[i] = (uint16_t)(0x2c00 + r % 0x800); break;
        case QN_BF16: ((uint16_t *)out)[i] = (uint16_t)(0x3e00 + r % 0x100); break;
        case QN_I32: ((int32_t *)out)[i] = (int32_t)(r << 8); break;
        default: ((uint8_t *)out)[i] = (uint8_t)r; break;
        }
    }
}

static void test_many_updates(void **state)
{
    const test_emu *emu = test_emu_find();
    (void)state;
    for (size_t i = 0; i < sizeof many / sizeof many[0]; i++) {
        bool nd = many[i].op[7] == 'N';
        int64_t data = many[i].rows * many[i].run, all = many[i].n * many[i].run;
        uint32_t seed = 77 + (uint32_t)i;
        int64_t *index = calloc((size_t)many[i].n, sizeof *index);
        double *values = calloc((size_t)(data + all), sizeof *values);
        char name[80];
        test_node t;
        assert_non_null(index);
        assert_non_null(values);
        for (int64_t k = 0; k < many[i].n; k++) {
            index[k] = (int64_t)(next_random(&seed) % (uint32_t)many[i].span);
            if (k % 3 == 0)
                index[k] -= many[i].rows; /* counted from the end */
        }
        fill_values(many[i].dtype, values, data, &seed);
        fill_values(many[i].dtype, values + data, all, &seed);
        snprintf(name, sizeof name, "many %zu: %s %s", i, many[i].op,
                 many[i].reduction);
        test_node_init(&t, many[i].op, 18, 3, 1);
        test_node_string(&t, "reduction", many[i].reduction);
        test_node_input(&t, 0, many[i].dtype, nd ? 2 : 1,
                        (int64_t[]){ many[i].rows, many[i].run }, values);
        test_node_input(&t, 1, QN_I64, nd ? 2 : 1, (int64_t[]){ many[i].n, 1 },
                        index);
        test_node_input(&t, 2, many[i].dtype, nd ? 2 : 1,
                        (int64_t[]){ many[i].n, many[i].run }, values + data);
        if (emu)
            emu->reset_counts();
        device_node_run(&t,
                        &(device_options){ .exact = true,
                                           .in_place = many[i].in_place },
                        name);
        if (emu && emu->count("qn_scatter_mark") != 1)
            fail_msg("%s: no lists were made", name);
        test_node_release(&t);
        free(index);
        free(values);
    }
}

/* A bad index among many, without and with reduction. */
static void test_many_faults(void **state)
{
    static const char *const reductions[] = { "none", "add" };
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        static int64_t index[200];
        static float values[200];
        test_node t;
        index[137] = 10;
        test_node_init(&t, "ScatterElements", 18, 3, 1);
        test_node_string(&t, "reduction", reductions[i]);
        test_node_input(&t, 0, QN_F32, 1, (int64_t[]){ 10 }, values);
        test_node_input(&t, 1, QN_I64, 1, (int64_t[]){ 200 }, index);
        test_node_input(&t, 2, QN_F32, 1, (int64_t[]){ 200 }, values);
        device_node_run(&t, &(device_options){ .faults = true }, reductions[i]);
        test_node_release(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gather),
        cmocka_unit_test(test_gather_elements),
        cmocka_unit_test(test_gather_nd),
        cmocka_unit_test(test_scatter),
        cmocka_unit_test(test_many_updates),
        cmocka_unit_test(test_many_faults),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Transpose, Expand, Tile, DepthToSpace, SpaceToDepth, Slice, Concat, Split, and
 * changes of memory order, on the device. The ways of copying (runtime/cuda/
 * strided.c) are chosen by shape: rows say which they mean. */
#include "tests/cuda/support/device_node.h"
#include "runtime/ops/op.h"
#include "tests/cuda/support/emu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define RUN(rows) device_rows_run(rows, sizeof rows / sizeof rows[0])

static void test_transpose(void **state)
{
    static const device_row rows[] = {
        { "Transpose", 13, NULL, { "f32 : 2.5" } },
        { "Transpose", 13, "perm=[0]", { "f32 7" } },
        { "Transpose", 13, NULL, { "f32 0,3" } },
        /* one run */
        { "Transpose", 13, "perm=[0,1,2]", { "f32 2,3,5" } },
        { "Transpose", 13, "perm=[1,0,2]", { "u8 1,9,5" } },
        { "Transpose", 13, "perm=[0,1]", { "f16 5,3" }, .shift = 1 },
        /* units: rows stay together */
        { "Transpose", 13, "perm=[1,0,2]", { "f32 3,5,64" } },
        { "Transpose", 13, "perm=[0,2,1,3]", { "f16 2,7,3,24" } },
        { "Transpose", 13, "perm=[0,2,1,3]", { "f16 2,7,3,24" }, .shift = 1 },
        { "Transpose", 13, "perm=[0,2,1,3]", { "f16 2,5,3,6" } },
        { "Transpose", 13, "perm=[1,0,2]", { "u8 5,4,3" } },
        { "Transpose", 13, "perm=[1,0,2]", { "bool 5,4,30" } },
        /* vectors: a few columns */
        { "Transpose", 13, NULL, { "f32 16,3" } },
        { "Transpose", 13, NULL, { "u8 32,3" } },
        { "Transpose", 13, NULL, { "i16 16,5" } },
        { "Transpose", 13, NULL, { "f32 17,3" } },
        { "Transpose", 13, NULL, { "f32 16,3" }, .shift = 1 },
        { "Transpose", 13, "perm=[2,1,0]", { "f32 4,5,3" } },
        { "Transpose", 13, "perm=[5,3,1,0,2,4]", { "i32 2,3,2,3,4,3" } },
        /* tiles: by size, whole and ragged, packed and not */
        { "Transpose", 13, NULL, { "f32 64,96" } },
        { "Transpose", 13, NULL, { "f32 33,50" } },
        { "Transpose", 13, NULL, { "f32 33,50" }, .shift = 1 },
        { "Transpose", 13, NULL, { "i64 40,70" } },
        { "Transpose", 13, NULL, { "f64 9,65" } },
        { "Transpose", 13, NULL, { "f16 66,130" } },
        { "Transpose", 13, NULL, { "f16 66,130" }, .shift = 1 },
        { "Transpose", 13, NULL, { "bf16 65,70" } },
        { "Transpose", 13, NULL, { "u8 132,140" } },
        { "Transpose", 13, NULL, { "u8 132,140" }, .shift = 2 },
        { "Transpose", 13, NULL, { "i8 35,130" } },
        { "Transpose", 13, "perm=[0,2,1]", { "f32 3,34,37" } },
        { "Transpose", 13, "perm=[0,2,3,1]", { "f32 2,9,5,7" } },
        { "Transpose", 13, "perm=[0,3,1,2]", { "f16 2,5,8,12" } },
        { "Transpose", 13, "perm=[1,0,2]", { "f32 9,10,4" } },
        { "Transpose", 13, "perm=[1,0,2]", { "f32 9,10,2" } },
        { "Transpose", 13, "perm=[2,0,1,3]", { "f32 5,9,11,2" } },
    };
    (void)state;
    RUN(rows);
}

static void test_repeat(void **state)
{
    static const device_row rows[] = {
        { "Expand", 13, NULL, { "f32 : 1.5", "i64 0:" } },
        { "Expand", 13, NULL, { "f32 : 1.5", "i64 2: 3 5" } },
        { "Expand", 13, NULL, { "f32 1", "i64 1: 4096" } },
        { "Expand", 13, NULL, { "f32 3,1", "i64 3: 2 3 8" } },
        { "Expand", 13, NULL, { "u8 3,1", "i64 2: 3 32" } },
        { "Expand", 13, NULL, { "u8 3,1", "i64 2: 3 33" } },
        { "Expand", 13, NULL, { "f16 3,1", "i64 2: 3 32" }, .shift = 1 },
        { "Expand", 13, NULL, { "f32 3,1,5", "i64 4: 2 1 4 5" } },
        { "Expand", 13, NULL, { "f32 1,3,1,5", "i64 4: 2 1 4 1" } },
        { "Expand", 13, NULL, { "i64 2,1", "i64 2: 2 0" } },
        { "Expand", 8, NULL, { "bool 2,1", "i64 2: 1 7" } },
        { "Tile", 13, NULL, { "f32 2,3", "i64 2: 2 2" } },
        { "Tile", 13, NULL, { "f32 2,3", "i64 2: 0 2" } },
        { "Tile", 13, NULL, { "f32 : 3.5", "i64 0:" } },
        { "Tile", 13, NULL, { "u8 5", "i64 1: 7" } },
        { "Tile", 13, NULL, { "f32 2,1,8", "i64 3: 1 3 2" } },
        { "Tile", 13, NULL, { "f16 2,3,2,5", "i64 4: 2 1 3 2" } },
        { "Tile", 13, NULL, { "f32 2,2,2,2,2,2,2,2", "i64 8: 2 2 2 2 2 2 2 2" } },
        { "Tile", 6, NULL, { "f64 3,2", "i64 2: 1 1" } },
        { "Tile", 1, NULL, { "f32 3,2", "f32 : 2", "f32 : 1" } },
    };
    (void)state;
    RUN(rows);
}

static void test_blocks(void **state)
{
    static const device_row rows[] = {
        { "DepthToSpace", 13, "blocksize=2", { "f32 2,8,3,5" } },
        { "DepthToSpace", 13, "blocksize=2 mode=CRD", { "f32 2,8,3,5" } },
        { "DepthToSpace", 13, "blocksize=3 mode=CRD", { "u8 1,18,4,4" } },
        { "DepthToSpace", 13, "blocksize=2", { "f16 1,16,16,16" } },
        { "DepthToSpace", 13, "blocksize=1", { "f32 1,4,3,3" } },
        { "DepthToSpace", 11, "blocksize=2", { "f64 0,4,3,3" } },
        { "SpaceToDepth", 13, "blocksize=2", { "f32 2,3,4,6" } },
        { "SpaceToDepth", 13, "blocksize=4", { "i8 1,3,16,16" } },
        { "SpaceToDepth", 1, "blocksize=2", { "f16 2,1,4,20" }, .shift = 1 },
    };
    (void)state;
    RUN(rows);
}

static void test_slice(void **state)
{
    static const device_row rows[] = {
        { "Slice", 13, NULL, { "f32 10", "i64 1: 2", "i64 1: 7" } },
        { "Slice", 13, NULL, { "f32 10", "i64 1: 4", "i64 1: 8" } },
        { "Slice", 13, NULL,
          { "f32 10", "i64 1: 9", "i64 1: -11", "i64 1: 0", "i64 1: -1" } },
        { "Slice", 13, NULL,
          { "u8 64", "i64 1: 63", "i64 1: -65", "i64 1: 0", "i64 1: -2" } },
        { "Slice", 13, NULL,
          { "f32 4,40", "i64 1: 1", "i64 1: 33", "i64 1: 1", "i64 1: 2" } },
        { "Slice", 13, NULL,
          { "f16 3,4,40", "i64 2: 1 8", "i64 2: 3 24", "i64 2: 1 2" } },
        { "Slice", 13, NULL,
          { "f16 3,4,40", "i64 2: 1 8", "i64 2: 3 24", "i64 2: 1 2" },
          .shift = 1 },
        { "Slice", 13, NULL,
          { "i64 6,5,4", "i32 3: -1 4 0", "i32 3: 0 0 9", "i32 3: 0 1 2",
            "i32 3: -2 -3 3" } },
        { "Slice", 13, NULL,
          { "f32 5,5", "i64 2: 3 0", "i64 2: 3 5", "i64 2: 0 1" } },
        { "Slice", 13, NULL, { "f32 0,5", "i64 1: 0", "i64 1: 3" } },
        { "Slice", 13, NULL, { "f32 3,4", "i64 0:", "i64 0:" } },
        { "Slice", 13, NULL,
          { "f32 1,4,6,5", "i64 2: 1 1", "i64 2: 3 5", "i64 2: 1 2",
            "i64 2: 1 2" }, .nhwc = true },
        { "Slice", 1, "starts=[1] ends=[-1] axes=[1]", { "f32 3,8" } },
    };
    (void)state;
    RUN(rows);
}

static void test_concat(void **state)
{
    static const device_row rows[] = {
        { "Concat", 13, "axis=0", { "f32 2,3" } },
        { "Concat", 13, "axis=0", { "f32 2,3", "f32 5,3", "f32 1,3" } },
        { "Concat", 13, "axis=-1", { "f32 2,3", "f32 2,5", "f32 2,1" } },
        { "Concat", 13, "axis=1", { "f16 3,8,4", "f16 3,16,4" } },
        { "Concat", 13, "axis=1", { "f16 3,8,4", "f16 3,16,4" }, .shift = 1 },
        { "Concat", 13, "axis=1", { "u8 3,0,4", "u8 3,2,4", "u8 3,1,4" } },
        { "Concat", 13, "axis=0", { "i64 0", "i64 0" } },
        { "Concat", 13, "axis=1", { "f32 0,2", "f32 0,3" } },
        { "Concat", 13, "axis=2",
          { "f64 5,3,2", "f64 5,3,4", "f64 5,3,6", "f64 5,3,8", "f64 5,3,2",
            "f64 5,3,10" } },
        { "Concat", 13, "axis=1", { "f32 2,3,4,5", "f32 2,5,4,5" },
          .nhwc = true },
        { "Concat", 13, "axis=3", { "u8 2,3,4,5", "u8 2,3,4,1" },
          .nhwc = true },
        { "Concat", 1, NULL, { "f32 2,3", "f32 2,2" } },
        { "Split", 13, "axis=0", { "f32 6,3" }, 3 },
        { "Split", 13, "axis=1", { "f32 5,12" }, 2 },
        { "Split", 13, "axis=1", { "f32 5,12", "i64 3: 1 0 11" }, 3 },
        { "Split", 13, "axis=-1", { "f16 5,24", "i64 2: 8 16" }, 2 },
        { "Split", 13, "axis=-1", { "f16 5,24", "i64 2: 8 16" }, 2,
          .shift = 1 },
        { "Split", 13, "axis=0", { "u8 7", "i64 2: 3 4" }, 2 },
        { "Split", 18, "axis=0 num_outputs=3", { "i64 7,2" }, 3 },
        { "Split", 13, "axis=0", { "f32 0,2" }, 2 },
        { "Split", 2, "axis=1 split=[2,4]", { "f64 3,6,2" }, 2 },
        { "Split", 13, "axis=1", { "f32 2,8,3,5", "i64 2: 2 6" }, 2,
          .nhwc = true },
    };
    (void)state;
    RUN(rows);
}

/* More parts than one launch takes, with an empty one among them. */
static void test_many_parts(void **state)
{
    enum { N = 30 }; /* QN_CONCAT_PARTS and some */
    static const float value[5 * N] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    (void)state;
    test_node t;
    test_node_init(&t, "Concat", 13, N, 1);
    test_node_int(&t, "axis", 1);
    for (uint32_t i = 0; i < N; i++)
        test_node_input(&t, i, QN_F32, 2, (int64_t[]){ 4, i == 5 ? 0 : i },
                        value + i);
    device_node_run(&t, NULL, "Concat of many");
    test_node_release(&t);
}

/* Elements of 16 bytes, and of 8 that are no numbers. */
static void test_complex(void **state)
{
    static const qn_dtype types[] = { QN_C64, QN_C128 };
    static double data[2 * 5 * 40 * 2];
    (void)state;
    for (size_t i = 0; i < sizeof data / sizeof data[0]; i++)
        data[i] = (double)i + 0.5;
    for (size_t i = 0; i < 2; i++) {
        test_node t;
        test_node_init(&t, "Transpose", 13, 1, 1);
        test_node_ints(&t, "perm", 3, (int64_t[]){ 2, 0, 1 });
        test_node_input(&t, 0, types[i], 3, (int64_t[]){ 2, 5, 40 }, data);
        device_node_run(&t, NULL, qn_dtype_name(types[i]));
        test_node_release(&t);

        test_node_init(&t, "Concat", 13, 2, 1);
        test_node_int(&t, "axis", 1);
        test_node_input(&t, 0, types[i], 2, (int64_t[]){ 5, 3 }, data);
        test_node_input(&t, 1, types[i], 2, (int64_t[]){ 5, 4 }, data + 20);
        device_node_run(&t, NULL, qn_dtype_name(types[i]));
        test_node_release(&t);
    }
}

/* Operators that no model has: put in by a pass. */
static void test_order(void **state)
{
    static const char *const ops[] = { "ToChannelsLast", "ToChannelsFirst" };
    static const char *const shapes[] = {
        "f32 2,3,5,7",    "f32 1,64,9,10", "f32 2,16,1,1", "f16 2,8,12,11",
        "f16 1,34,6,6",   "u8 3,12,8,8",   "u8 1,5,7,3",   "f64 2,9,3,11",
        "bool 1,1,16,16", "i64 0,3,4,4",   "bf16 2,33,5,13",
    };
    (void)state;
    for (size_t i = 0; i < 2 * sizeof shapes / sizeof shapes[0]; i++) {
        char name[80];
        test_node t;
        test_node_init(&t, "Transpose", 13, 1, 1);
        t.node.domain = "ai.quern";
        t.node.op_name = ops[i % 2];
        t.node.opset = 1;
        t.node.op = qn_op_find("ai.quern", ops[i % 2], 1, NULL);
        assert_non_null(t.node.op);
        t.in[0] = test_row_tensor(&t.region, shapes[i / 2]);
        snprintf(name, sizeof name, "%s %s", ops[i % 2], shapes[i / 2]);
        device_node_run(&t, NULL, name);
        test_node_release(&t);
    }
}

/* Which way a shape takes is counted where the driver counts. */
static void test_ways(void **state)
{
    static const struct {
        const char *kernel; /* NULL: none, one copy */
        device_row row;
    } ways[] = {
        { NULL, { "Transpose", 13, "perm=[1,0,2]", { "f32 1,9,5" } } },
        { NULL, { "Slice", 13, NULL, { "f32 9,4", "i64 1: 2", "i64 1: 5" } } },
        { "qn_strided_units",
          { "Transpose", 13, "perm=[0,2,1,3]", { "f16 2,7,3,24" } } },
        { "qn_strided_units", { "Transpose", 13, NULL, { "f32 17,3" } } },
        { "qn_strided_vectors", { "Transpose", 13, NULL, { "f32 16,3" } } },
        { "qn_strided_units",
          { "Transpose", 13, NULL, { "f32 16,3" }, .shift = 1 } },
        { "qn_strided_vectors",
          { "Expand", 13, NULL, { "u8 3,1", "i64 2: 3 32" } } },
        { "qn_strided_tiles", { "Transpose", 13, NULL, { "f16 66,130" } } },
        { "qn_strided_tiles",
          { "Transpose", 13, "perm=[0,3,1,2]", { "u8 2,5,8,12" } } },
        { "qn_concat", { "Concat", 13, "axis=1", { "f32 9,2", "f32 9,3" } } },
    };
    const test_emu *emu = test_emu_find();
    (void)state;
    for (size_t i = 0; emu && i < sizeof ways / sizeof ways[0]; i++) {
        emu->reset_counts();
        device_rows_run(&ways[i].row, 1);
        uint64_t all = emu->count("kernel");
        if (ways[i].kernel ? all != 1 || emu->count(ways[i].kernel) != 1 : all)
            fail_msg("way %zu: %llu kernels, not %s", i,
                     (unsigned long long)all,
                     ways[i].kernel ? ways[i].kernel : "a copy alone");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transpose), cmocka_unit_test(test_repeat),
        cmocka_unit_test(test_blocks),    cmocka_unit_test(test_slice),
        cmocka_unit_test(test_concat),    cmocka_unit_test(test_many_parts),
        cmocka_unit_test(test_complex),   cmocka_unit_test(test_order),
        cmocka_unit_test(test_ways),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}

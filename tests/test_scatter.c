/* SPDX-License-Identifier: Apache-2.0 */
/* Scatter, ScatterElements, ScatterND: writes in order, every reduction, and
 * indices that are refused. */
#include "tests/support/move.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Each element of an update goes where the index says, the last one stays. */
static void test_elements(void **state)
{
    static const int64_t dims[3] = { 3, 4, 5 }, index_dims[3] = { 2, 6, 3 };
    static const struct {
        const char *op;
        int opset;
    } ops[] = { { "Scatter", 9 },
                { "ScatterElements", 11 },
                { "ScatterElements", 18 } };
    uint8_t *data = move_pattern();
    int64_t index[36], o[QN_MAX_RANK];
    (void)state;
    for (int j = 0; j < 36; j++)
        index[j] = j * 7 % 8 - 4;
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        for (int k = 0; k < TEST_MOVE_TYPES; k++) {
            size_t size = qn_dtype_size(test_move_types[k]);
            uint8_t want[60 * 16];
            test_node t;
            test_node_init(&t, ops[i].op, ops[i].opset, 3, 1);
            test_node_int(&t, "axis", -2);
            test_node_input(&t, 0, test_move_types[k], 3, dims, data);
            test_node_input(&t, 1, QN_I64, 3, index_dims, index);
            test_node_input(&t, 2, test_move_types[k], 3, index_dims,
                            data + 5000);
            test_move_run(&t, ops[i].op, i);
            memcpy(want, data, 60 * size);
            for (int64_t at = 0; at < 36; at++) {
                test_unravel(&t.in[1].shape, at, o);
                o[1] = index[at] < 0 ? index[at] + 4 : index[at];
                size_t to = (size_t)((o[0] * 4 + o[1]) * 5 + o[2]);
                memcpy(want + to * size, data + 5000 + (size_t)at * size, size);
            }
            test_node_expect(&t, 0, test_move_types[k], 3, dims, want);
            test_node_release(&t);
        }
    free(data);
}

static const struct {
    const char *op;
    int opset;
    float want[4];
} reductions[] = { /* 1 2 3 4; 5 and -7 into 1, 2 into 3, NaN into 0 */
    { "none", 16, { NAN, -7, 3, 2 } },
    { "add", 16, { NAN, 0, 3, 6 } },
    { "mul", 16, { NAN, -70, 3, 8 } },
    { "max", 18, { NAN, 5, 3, 4 } },
    { "min", 18, { NAN, -7, 3, 2 } },
};

static void test_reductions(void **state)
{
    static const float data[4] = { 1, 2, 3, 4 }, updates[4] = { 5, -7, 2, NAN };
    static const int64_t index[4] = { 1, 1, -1, 0 }, four[1] = { 4 },
                         tuples[2] = { 4, 1 };
    (void)state;
    for (size_t i = 0; i < sizeof reductions / sizeof reductions[0]; i++)
        for (int nd = 0; nd < 2; nd++) {
            test_node t;
            test_node_init(&t, nd ? "ScatterND" : "ScatterElements",
                           reductions[i].opset, 3, 1);
            test_node_string(&t, "reduction", reductions[i].op);
            test_node_input(&t, 0, QN_F32, 1, four, data);
            test_node_input(&t, 1, QN_I64, nd ? 2 : 1, nd ? tuples : four,
                            index);
            test_node_input(&t, 2, QN_F32, 1, four, updates);
            test_move_run(&t, reductions[i].op, i);
            test_node_expect_f32(&t, 0, 1, four, reductions[i].want, 0, 0);
            test_node_release(&t);
        }
}

static void test_reduced_types(void **state)
{
    static const int8_t i8[1] = { 100 }, i8_more[2] = { 100, -1 };
    static const int64_t i64[1] = { INT64_MAX }, i64_more[2] = { 1, -3 };
    static const uint16_t f16[1] = { 0x3c00 }, f16_more[2] = { 0x4000, 0xbc00 };
    static const uint8_t no[1] = { 0 }, maybe[2] = { 1, 0 };
    static const int8_t i8_add = (int8_t)(199 - 256), i8_min = -1;
    static const int64_t i64_add = INT64_MAX - 2, i64_max = INT64_MAX;
    static const uint16_t f16_add = 0x4000, f16_mul = 0xc000;
    static const uint8_t yes = 1, zero = 0;
    static const struct {
        qn_dtype dtype;
        const char *op;
        const void *data, *updates, *want;
    } rows[] = {
        { QN_I8, "add", i8, i8_more, &i8_add },
        { QN_I8, "min", i8, i8_more, &i8_min },
        { QN_I64, "add", i64, i64_more, &i64_add }, /* wraps on the way */
        { QN_I64, "max", i64, i64_more, &i64_max },
        { QN_F16, "add", f16, f16_more, &f16_add },
        { QN_F16, "mul", f16, f16_more, &f16_mul },
        { QN_BOOL, "add", no, maybe, &yes },
        { QN_BOOL, "mul", no, maybe, &zero },
    };
    static const int64_t index[2] = { 0, 0 };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        test_node t;
        test_node_init(&t, "ScatterElements", 18, 3, 1);
        test_node_string(&t, "reduction", rows[i].op);
        test_node_input(&t, 0, rows[i].dtype, 1, (int64_t[]){ 1 }, rows[i].data);
        test_node_input(&t, 1, QN_I64, 1, (int64_t[]){ 2 }, index);
        test_node_input(&t, 2, rows[i].dtype, 1, (int64_t[]){ 2 },
                        rows[i].updates);
        test_move_run(&t, rows[i].op, i);
        test_node_expect(&t, 0, rows[i].dtype, 1, (int64_t[]){ 1 },
                         rows[i].want);
        test_node_release(&t);
    }
}

/* ScatterND of whole rows: data [4, 2, 3], tuples of depth 1 and 2. */
static void test_nd_rows(void **state)
{
    static const int64_t dims[3] = { 4, 2, 3 }, index[4] = { 2, -4, 3, -1 };
    uint8_t *data = move_pattern();
    (void)state;
    for (int depth = 1; depth <= 2; depth++)
        for (int k = 0; k < TEST_MOVE_TYPES; k++) {
            size_t size = qn_dtype_size(test_move_types[k]);
            size_t run = (depth == 1 ? 6 : 3) * size;
            int n = depth == 1 ? 4 : 2;
            uint8_t want[24 * 16];
            test_node t;
            test_node_init(&t, "ScatterND", 13, 3, 1);
            test_node_input(&t, 0, test_move_types[k], 3, dims, data);
            test_node_input(&t, 1, QN_I64, 2, (int64_t[]){ n, depth },
                            depth == 1 ? index
                                       : (const int64_t[]){ 2, -2, -1, 1 });
            test_node_input(&t, 2, test_move_types[k], depth == 1 ? 3 : 2,
                            depth == 1 ? dims : (const int64_t[]){ 2, 3 },
                            data + 5000);
            test_move_run(&t, "ScatterND", (size_t)depth);
            static const size_t rows1[4] = { 2, 0, 3, 3 }, rows2[2] = { 4, 7 };
            memcpy(want, data, 24 * size);
            for (int i = 0; i < n; i++)
                memcpy(want + (depth == 1 ? rows1[i] : rows2[i]) * run,
                       data + 5000 + (size_t)i * run, run);
            test_node_expect(&t, 0, test_move_types[k], 3, dims, want);
            test_node_release(&t);
        }
    free(data);
}

static void scatter(test_node *t, const char *op, int opset, const int64_t *index)
{
    static const float data[6] = { 0 };
    test_node_init(t, op, opset, 3, 1);
    test_node_input(t, 0, QN_F32, 1, (int64_t[]){ 3 }, data);
    test_node_input(t, 1, QN_I64, 1, (int64_t[]){ 1 }, index);
    test_node_input(t, 2, QN_F32, strcmp(op, "ScatterND") ? 1 : 0,
                    (int64_t[]){ 1 }, data);
}

static void test_refused(void **state)
{
    static const int64_t high = 3, low = -4, fine = 0;
    test_node t;
    (void)state;
    scatter(&t, "ScatterElements", 13, &high);
    test_move_refused(&t, "high", QN_RANGE, "index 3 at position 0");
    scatter(&t, "ScatterND", 13, &low);
    test_move_refused(&t, "low", QN_RANGE, "outside [-3, 2] of axis 0");
    scatter(&t, "ScatterND", 13, &fine);
    t.in[2].shape = qn_shape_make(1, (int64_t[]){ 2 });
    test_move_refused(&t, "shape", QN_SHAPE, "updates are [2], expected []");
    scatter(&t, "ScatterElements", 13, &fine);
    t.in[2].shape.dims[0] = 2;
    test_move_refused(&t, "shape", QN_SHAPE, "indices are [1], updates [2]");
    scatter(&t, "ScatterElements", 13, &fine);
    t.in[2].dtype = QN_I32;
    test_move_refused(&t, "type", QN_TYPE, "updates are int32");
    scatter(&t, "ScatterElements", 16, &fine);
    test_node_string(&t, "reduction", "max");
    test_move_refused(&t, "max at 16", QN_INVALID, "no reduction 'max'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elements),      cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_reduced_types), cmocka_unit_test(test_nd_rows),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

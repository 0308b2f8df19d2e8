/* SPDX-License-Identifier: Apache-2.0 */
/* Gather, GatherElements, GatherND: against the index formulas of the
 * specification, with negative indices; then indices that are refused. */
#include "tests/support/move.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    int rank, axis, index_rank;
    int64_t dims[4], index_dims[3], index[6];
} gathers[] = {
    { 1, 0, 0, { 5 }, { 0 }, { -1 } },
    { 2, 0, 1, { 5, 3 }, { 4 }, { 4, 0, -5, 2 } },
    { 3, 1, 2, { 2, 3, 4 }, { 2, 3 }, { 0, 1, 2, -1, -2, -3 } },
    { 3, -1, 1, { 2, 3, 4 }, { 3 }, { 3, -1, 1 } },
    { 3, 2, 1, { 2, 0, 4 }, { 1 }, { 3 } },
    { 2, 0, 1, { 5, 3 }, { 0 }, { 0 } },
    { 4, 1, 1, { 2, 3, 20, 30 }, { 2 }, { 2, 0 } },
};

static void test_gather(void **state)
{
    uint8_t *data = move_pattern();
    (void)state;
    for (size_t i = 0; i < sizeof gathers / sizeof gathers[0]; i++)
        for (int k = 0; k < TEST_MOVE_TYPES; k++) {
            int rank = gathers[i].rank, n = gathers[i].index_rank;
            int axis = gathers[i].axis < 0 ? gathers[i].axis + rank
                                           : gathers[i].axis;
            int32_t narrow[6];
            int64_t o[QN_MAX_RANK], in[QN_MAX_RANK];
            test_node t;
            for (int j = 0; j < 6; j++)
                narrow[j] = (int32_t)gathers[i].index[j];
            test_node_init(&t, "Gather", 13, 2, 1);
            test_node_int(&t, "axis", gathers[i].axis);
            test_node_input(&t, 0, test_move_types[k], rank, gathers[i].dims,
                            data);
            if (k & 1)
                test_node_input(&t, 1, QN_I32, n, gathers[i].index_dims, narrow);
            else
                test_node_input(&t, 1, QN_I64, n, gathers[i].index_dims,
                                gathers[i].index);
            test_move_run(&t, "Gather", i);
            assert_int_equal(t.out[0].shape.rank, rank - 1 + n);
            for (int64_t at = 0; at < qn_count(&t.out[0]); at++) {
                test_unravel(&t.out[0].shape, at, o);
                int64_t pick = 0;
                for (int d = 0; d < n; d++)
                    pick = pick * gathers[i].index_dims[d] + o[axis + d];
                pick = gathers[i].index[pick];
                for (int d = 0; d < rank; d++)
                    if (d != axis)
                        in[d] = o[d < axis ? d : d - 1 + n];
                in[axis] = pick < 0 ? pick + gathers[i].dims[axis] : pick;
                test_move_element(&t, at, move_element(&t.in[0], in), "Gather",
                                  i);
            }
            test_node_release(&t);
        }
    free(data);
}

static void test_gather_elements(void **state)
{
    static const int64_t dims[3] = { 3, 4, 5 }, index_dims[3] = { 2, 6, 3 };
    int64_t index[36], o[QN_MAX_RANK];
    uint8_t *data = move_pattern();
    (void)state;
    for (int j = 0; j < 36; j++)
        index[j] = j * 7 % 8 - 4;
    for (int k = 0; k < TEST_MOVE_TYPES; k++) {
        test_node t;
        test_node_init(&t, "GatherElements", 13, 2, 1);
        test_node_int(&t, "axis", 1);
        test_node_input(&t, 0, test_move_types[k], 3, dims, data);
        test_node_input(&t, 1, QN_I64, 3, index_dims, index);
        test_move_run(&t, "GatherElements", 0);
        for (int64_t at = 0; at < 36; at++) {
            test_unravel(&t.out[0].shape, at, o);
            o[1] = index[at] < 0 ? index[at] + 4 : index[at];
            test_move_element(&t, at, move_element(&t.in[0], o),
                              "GatherElements", 0);
        }
        test_node_release(&t);
    }
    free(data);
}

static void test_gather_nd(void **state)
{
    static const struct {
        int batch, index_rank;
        int64_t index_dims[3], index[12];
    } rows[] = { /* data [2, 3, 4] */
        { 0, 1, { 3 }, { 1, -1, 0 } },
        { 0, 2, { 2, 2 }, { 0, 2, -1, -3 } },
        { 0, 3, { 2, 1, 1 }, { 1, 0 } },
        { 1, 2, { 2, 1 }, { 2, -3 } },
        { 1, 3, { 2, 2, 2 }, { 0, 0, 2, 3, -1, -1, 1, -4 } },
    };
    static const int64_t dims[3] = { 2, 3, 4 };
    uint8_t *data = move_pattern();
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int k = 0; k < TEST_MOVE_TYPES; k++) {
            int r = rows[i].index_rank, b = rows[i].batch;
            int depth = (int)rows[i].index_dims[r - 1];
            int64_t o[QN_MAX_RANK], in[QN_MAX_RANK];
            test_node t;
            test_node_init(&t, "GatherND", 12, 2, 1);
            test_node_int(&t, "batch_dims", b);
            test_node_input(&t, 0, test_move_types[k], 3, dims, data);
            test_node_input(&t, 1, QN_I64, r, rows[i].index_dims, rows[i].index);
            test_move_run(&t, "GatherND", i);
            assert_int_equal(t.out[0].shape.rank, r - 1 + 3 - b - depth);
            for (int64_t at = 0; at < qn_count(&t.out[0]); at++) {
                int64_t tuple = 0;
                test_unravel(&t.out[0].shape, at, o);
                for (int d = 0; d < r - 1; d++)
                    tuple = tuple * rows[i].index_dims[d] + o[d];
                for (int d = 0; d < 3; d++) {
                    int64_t v = d < b           ? o[d]
                                : d < b + depth ? rows[i].index[tuple * depth + d - b]
                                                : o[r - 1 + d - b - depth];
                    in[d] = v < 0 ? v + dims[d] : v;
                }
                test_move_element(&t, at, move_element(&t.in[0], in), "GatherND",
                                  i);
            }
            test_node_release(&t);
        }
    free(data);
}

static void gather_bad(const char *op, int64_t n, const int64_t *index,
                       int64_t position, const char *says)
{
    static const float data[6] = { 0 };
    bool nd = !strcmp(op, "GatherND");
    test_node t;
    test_node_init(&t, op, 13, 2, 1);
    test_node_input(&t, 0, QN_F32, 2, (int64_t[]){ 3, 2 }, data);
    test_node_input(&t, 1, QN_I64, strcmp(op, "GatherElements") ? 1 : 2,
                    (int64_t[]){ n, nd ? 0 : 1 }, index);
    if (test_node_run(&t) != QN_RANGE || !strstr(t.err.text, says) ||
        !t.err.has_index || t.err.index != position)
        fail_msg("%s: \"%s\"", op, t.err.text);
    test_node_release(&t);
}

static void test_refused(void **state)
{
    static const int64_t high[3] = { 0, 3, 9 }, low[2] = { -4, 0 },
                         huge[1] = { INT64_MIN }, pair[2] = { 2, 2 };
    static const float data[6] = { 0 };
    static const int64_t one[1] = { 0 };
    test_node t;
    (void)state;
    gather_bad("Gather", 3, high, 1, "index 3 at position 1 is outside [-3, 2]");
    gather_bad("Gather", 2, low, 0, "index -4 at position 0");
    gather_bad("Gather", 1, huge, 0, "index -9223372036854775808");
    gather_bad("GatherElements", 3, high, 1, "outside [-3, 2] of axis 0");
    gather_bad("GatherND", 2, pair, 1, "outside [-2, 1] of axis 1");

    test_node_init(&t, "Gather", 13, 2, 1);
    test_node_int(&t, "axis", 2);
    test_node_input(&t, 0, QN_F32, 2, (int64_t[]){ 3, 2 }, data);
    test_node_input(&t, 1, QN_I64, 1, (int64_t[]){ 1 }, one);
    test_move_refused(&t, "axis", QN_RANGE, "axis 2 is outside [-2, 1]");
    test_node_init(&t, "GatherElements", 13, 2, 1);
    test_node_input(&t, 0, QN_F32, 2, (int64_t[]){ 3, 2 }, data);
    test_node_input(&t, 1, QN_I64, 2, (int64_t[]){ 1, 3 }, one);
    test_move_refused(&t, "indices", QN_SHAPE, "indices [1, 3]");
    test_node_init(&t, "GatherND", 12, 2, 1);
    test_node_int(&t, "batch_dims", 1);
    test_node_input(&t, 0, QN_F32, 2, (int64_t[]){ 3, 2 }, data);
    test_node_input(&t, 1, QN_I64, 2, (int64_t[]){ 2, 1 }, pair);
    test_move_refused(&t, "batch", QN_SHAPE, "after 1 batch dimensions");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gather),
        cmocka_unit_test(test_gather_elements),
        cmocka_unit_test(test_gather_nd),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

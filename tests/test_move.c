/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transpose, Concat, Split, Expand, Tile, DepthToSpace, SpaceToDepth. Each is
 * compared with its definition, an index formula written here, over many shapes
 * and element sizes; then come the arguments that are refused.
 */
#include "tests/support/move.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Transpose ---- */

static const struct {
    int rank;
    int64_t dims[6], perm[6];
} transposes[] = {
    { 0, { 0 }, { 0 } },
    { 2, { 3, 5 }, { 1, 0 } },
    { 2, { 67, 129 }, { 1, 0 } },      /* tiles with remainders */
    { 2, { 2, 1000 }, { 1, 0 } },
    { 2, { 1000, 3 }, { 1, 0 } },
    { 3, { 4, 70, 33 }, { 0, 2, 1 } },
    { 3, { 9, 20, 16 }, { 1, 0, 2 } }, /* runs */
    { 3, { 40, 3, 35 }, { 2, 1, 0 } },
    { 4, { 2, 3, 8, 9 }, { 0, 2, 3, 1 } },
    { 4, { 2, 8, 9, 3 }, { 0, 3, 1, 2 } },
    { 4, { 1, 32, 1, 17 }, { 3, 2, 1, 0 } },
    { 4, { 3, 0, 2, 2 }, { 2, 1, 0, 3 } },
    { 5, { 2, 3, 4, 5, 6 }, { 4, 0, 3, 1, 2 } },
    { 6, { 2, 2, 3, 2, 3, 2 }, { 0, 3, 4, 1, 5, 2 } },
};

static void test_transpose(void **state)
{
    uint8_t *data = move_pattern();
    (void)state;
    for (size_t i = 0; i < sizeof transposes / sizeof transposes[0]; i++)
        for (int k = 0; k < TEST_MOVE_TYPES; k++) {
            int rank = transposes[i].rank;
            int64_t o[QN_MAX_RANK], in[QN_MAX_RANK];
            test_node t;
            test_node_init(&t, "Transpose", 13, 1, 1);
            test_node_ints(&t, "perm", (size_t)rank, transposes[i].perm);
            test_node_input(&t, 0, test_move_types[k], rank, transposes[i].dims, data);
            test_move_run(&t, "Transpose", i);
            for (int64_t at = 0; at < qn_count(&t.out[0]); at++) {
                test_unravel(&t.out[0].shape, at, o);
                for (int d = 0; d < rank; d++)
                    in[transposes[i].perm[d]] = o[d];
                test_move_element(&t, at, move_element(&t.in[0], in), "Transpose", i);
            }
            test_node_release(&t);
        }
    free(data);
}

static void test_transpose_args(void **state)
{
    static const uint8_t in[6] = { 0, 1, 2, 3, 4, 5 };
    static const uint8_t want[6] = { 0, 3, 1, 4, 2, 5 };
    test_node t;
    (void)state;
    test_node_init(&t, "Transpose", 1, 1, 1); /* no perm: reversed */
    test_node_input(&t, 0, QN_U8, 2, (int64_t[]){ 2, 3 }, in);
    test_move_run(&t, "Transpose", 0);
    test_node_expect(&t, 0, QN_U8, 2, (int64_t[]){ 3, 2 }, want);
    test_node_release(&t);
    static const int64_t twice[2] = { 0, 0 }, far[2] = { 0, 2 };
    const int64_t *bad[] = { twice, far };
    for (size_t i = 0; i < 2; i++) {
        test_node_init(&t, "Transpose", 13, 1, 1);
        test_node_ints(&t, "perm", 2, bad[i]);
        test_node_input(&t, 0, QN_U8, 2, (int64_t[]){ 2, 3 }, in);
        test_move_refused(&t, "perm", QN_INVALID, "perm[1]");
    }
}

/* ---- Concat, Split ---- */

static const struct {
    int rank, axis, n;
    int64_t dims[4];     /* with the axis replaced by: */
    int64_t parts[4];
} joins[] = {
    { 1, 0, 3, { 0 }, { 2, 0, 5 } },
    { 2, 1, 2, { 3, 0 }, { 1, 4 } },
    { 4, 1, 4, { 2, 0, 3, 5 }, { 1, 7, 2, 2 } },
    { 4, -1, 3, { 2, 3, 5, 0 }, { 1, 1, 1 } },
    { 4, 0, 2, { 0, 3, 4, 5 }, { 1, 2 } },
    { 3, 1, 2, { 0, 0, 5 }, { 1, 2 } },
};

static void test_concat_split(void **state)
{
    uint8_t *data = move_pattern();
    (void)state;
    for (size_t i = 0; i < sizeof joins / sizeof joins[0]; i++)
        for (int k = 0; k < TEST_MOVE_TYPES; k++) {
            int rank = joins[i].rank, n = joins[i].n;
            int axis = joins[i].axis < 0 ? joins[i].axis + rank : joins[i].axis;
            size_t size = qn_dtype_size(test_move_types[k]);
            test_node t, s;
            test_node_init(&t, "Concat", 13, (uint32_t)n, 1);
            test_node_int(&t, "axis", joins[i].axis);
            for (int p = 0; p < n; p++) {
                int64_t dims[4];
                memcpy(dims, joins[i].dims, sizeof dims);
                dims[axis] = joins[i].parts[p];
                test_node_input(&t, (uint32_t)p, test_move_types[k], rank, dims,
                                data + 5000 * p);
            }
            test_move_run(&t, "Concat", i);
            int64_t o[QN_MAX_RANK];
            for (int64_t at = 0; at < qn_count(&t.out[0]); at++) {
                int p = 0;
                test_unravel(&t.out[0].shape, at, o);
                while (o[axis] >= joins[i].parts[p])
                    o[axis] -= joins[i].parts[p++];
                test_move_element(&t, at, move_element(&t.in[p], o), "Concat", i);
            }
            if (rank == 4)
                test_move_nhwc(&t, "Concat", i);

            test_node_init(&s, "Split", 13, 2, (uint32_t)n);
            test_node_int(&s, "axis", joins[i].axis);
            test_node_input(&s, 0, test_move_types[k], rank, t.out[0].shape.dims,
                            t.out[0].data);
            test_node_input(&s, 1, QN_I64, 1, (int64_t[]){ n }, joins[i].parts);
            test_move_run(&s, "Split", i);
            for (int p = 0; p < n; p++) {
                assert_true(qn_shape_equal(&s.out[p].shape, &t.in[p].shape));
                if (qn_count(&t.in[p]))
                    assert_memory_equal(s.out[p].data, t.in[p].data,
                                        (size_t)qn_count(&t.in[p]) * size);
            }
            if (rank == 4)
                test_move_nhwc(&s, "Split", i);
            test_node_release(&s);
            test_node_release(&t);
        }
    free(data);
}

static void split(test_node *t, int opset, uint32_t n_out, const int64_t *sizes,
                  int64_t n)
{
    static const uint8_t data[7] = { 0, 1, 2, 3, 4, 5, 6 };
    bool input = sizes && opset >= 13;
    test_node_init(t, "Split", opset, input ? 2 : 1, n_out);
    test_node_input(t, 0, QN_U8, 1, (int64_t[]){ 7 }, data);
    if (input)
        test_node_input(t, 1, QN_I64, 1, &n, sizes);
    else if (sizes)
        test_node_ints(t, "split", (size_t)n, sizes);
}

static void test_split_args(void **state)
{
    static const int64_t sizes[3] = { 3, 3, 1 }, short_by_one[2] = { 3, 3 },
                         negative[2] = { 8, -1 };
    static const int opsets[] = { 2, 11, 13 };
    test_node t;
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        split(&t, opsets[i], 3, sizes, 3);
        test_move_run(&t, "Split", i);
        for (uint32_t p = 0; p < 3; p++)
            assert_int_equal(t.out[p].shape.dims[0], sizes[p]);
        test_node_release(&t);
    }
    split(&t, 18, 3, NULL, 0);
    test_node_int(&t, "num_outputs", 3);
    test_move_run(&t, "Split uneven", 0);
    for (uint32_t p = 0; p < 3; p++)
        assert_int_equal(t.out[p].shape.dims[0], sizes[p]);
    assert_int_equal(*(const uint8_t *)t.out[2].data, 6);
    test_node_release(&t);

    split(&t, 13, 3, NULL, 0);
    test_move_refused(&t, "uneven at 13", QN_SHAPE, "equal parts");
    split(&t, 18, 3, NULL, 0);
    test_node_int(&t, "num_outputs", 4);
    test_move_refused(&t, "num_outputs", QN_INVALID, "num_outputs is 4");
    split(&t, 13, 2, short_by_one, 2);
    test_move_refused(&t, "sum", QN_SHAPE, "sum to 6");
    split(&t, 11, 3, short_by_one, 2);
    test_move_refused(&t, "count", QN_INVALID, "2 sizes for 3 outputs");
    split(&t, 13, 2, negative, 2);
    test_move_refused(&t, "negative", QN_INVALID, "size 1 of split is -1");
}

static void test_concat_args(void **state)
{
    static const uint8_t data[8] = { 0 };
    test_node t;
    (void)state;
    test_node_init(&t, "Concat", 13, 2, 1);
    test_node_int(&t, "axis", 0);
    test_node_input(&t, 0, QN_U8, 2, (int64_t[]){ 1, 3 }, data);
    test_node_input(&t, 1, QN_U8, 2, (int64_t[]){ 2, 4 }, data);
    test_move_refused(&t, "Concat", QN_SHAPE, "input 1 is [2, 4]");
    test_node_init(&t, "Concat", 13, 1, 1);
    test_node_input(&t, 0, QN_U8, 1, (int64_t[]){ 1 }, data);
    test_move_refused(&t, "Concat", QN_INVALID, "axis is missing");
}

/* ---- Expand, Tile ---- */

static const struct {
    int in_rank, rank; /* rank -1: refused */
    int64_t in[4], by[4];
    int n;
    int64_t out[4];
} expands[] = {
    { 0, 2, { 0 }, { 2, 3 }, 2, { 2, 3 } },
    { 2, 2, { 3, 1 }, { 1, 2 }, 2, { 3, 2 } },
    { 1, 2, { 1 }, { 0, 3 }, 2, { 0, 3 } },
    { 3, 4, { 3, 1, 5 }, { 2, 1, 4, 1 }, 4, { 2, 3, 4, 5 } },
    { 3, 3, { 2, 1, 300 }, { 7, 1 }, 2, { 2, 7, 300 } },
    { 2, -1, { 3, 2 }, { 2, 2 }, 2, { 0 } },
    { 1, -1, { 1 }, { -1 }, 1, { 0 } },
    { 1, -1, { 1 }, { (int64_t)1 << 31, (int64_t)1 << 31, 4 }, 3, { 0 } },
};

static void test_expand(void **state)
{
    uint8_t *data = move_pattern();
    (void)state;
    for (size_t i = 0; i < sizeof expands / sizeof expands[0]; i++)
        for (int k = 0; k < TEST_MOVE_TYPES; k++) {
            int64_t o[QN_MAX_RANK], in[QN_MAX_RANK];
            test_node t;
            test_node_init(&t, "Expand", 13, 2, 1);
            test_node_input(&t, 0, test_move_types[k], expands[i].in_rank, expands[i].in,
                            data);
            test_node_input(&t, 1, QN_I64, 1, (int64_t[]){ expands[i].n },
                            expands[i].by);
            if (expands[i].rank < 0) {
                assert_int_not_equal(test_node_run(&t), QN_OK);
                test_node_release(&t);
                continue;
            }
            test_move_run(&t, "Expand", i);
            qn_shape want = qn_shape_make(expands[i].rank, expands[i].out);
            assert_true(qn_shape_equal(&t.out[0].shape, &want));
            int lead = expands[i].rank - expands[i].in_rank;
            for (int64_t at = 0; at < qn_count(&t.out[0]); at++) {
                test_unravel(&t.out[0].shape, at, o);
                for (int d = 0; d < expands[i].in_rank; d++)
                    in[d] = expands[i].in[d] == 1 ? 0 : o[d + lead];
                test_move_element(&t, at, move_element(&t.in[0], in), "Expand", i);
            }
            test_node_release(&t);
        }
    free(data);
}

static void test_tile(void **state)
{
    static const struct {
        int rank;
        int64_t dims[4], by[4];
    } tiles[] = {
        { 0, { 0 }, { 0 } },
        { 1, { 3 }, { 4 } },
        { 2, { 2, 3 }, { 3, 1 } },
        { 2, { 2, 3 }, { 1, 0 } },
        { 4, { 2, 1, 3, 4 }, { 2, 3, 1, 2 } },
    };
    static const float two = 2, one = 1;
    uint8_t *data = move_pattern();
    (void)state;
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++)
        for (int k = 0; k < TEST_MOVE_TYPES; k++) {
            int rank = tiles[i].rank;
            int64_t o[QN_MAX_RANK];
            test_node t;
            test_node_init(&t, "Tile", 13, 2, 1);
            test_node_input(&t, 0, test_move_types[k], rank, tiles[i].dims, data);
            test_node_input(&t, 1, QN_I64, 1, (int64_t[]){ rank }, tiles[i].by);
            test_move_run(&t, "Tile", i);
            for (int64_t at = 0; at < qn_count(&t.out[0]); at++) {
                test_unravel(&t.out[0].shape, at, o);
                for (int d = 0; d < rank; d++)
                    o[d] %= tiles[i].dims[d];
                test_move_element(&t, at, move_element(&t.in[0], o), "Tile", i);
            }
            test_node_release(&t);
        }
    /* opset 1: one axis */
    test_node t;
    test_node_init(&t, "Tile", 1, 3, 1);
    test_node_input(&t, 0, QN_F32, 2, (int64_t[]){ 2, 3 }, data);
    test_node_input(&t, 1, QN_F32, 0, NULL, &two);
    test_node_input(&t, 2, QN_F32, 0, NULL, &one);
    test_move_run(&t, "Tile 1", 0);
    assert_int_equal(t.out[0].shape.dims[1], 6);
    assert_memory_equal((const char *)t.out[0].data + 12, data, 12);
    test_node_release(&t);
    free(data);
}

/* ---- DepthToSpace, SpaceToDepth ---- */

static void test_blocks(void **state)
{
    static const int64_t deep[4] = { 2, 12, 2, 3 };
    uint8_t *data = move_pattern();
    (void)state;
    for (int crd = 0; crd < 2; crd++)
        for (int k = 0; k < TEST_MOVE_TYPES; k++) {
            int64_t o[QN_MAX_RANK];
            test_node t, s;
            test_node_init(&t, "DepthToSpace", 13, 1, 1);
            test_node_int(&t, "blocksize", 2);
            test_node_string(&t, "mode", crd ? "CRD" : "DCR");
            test_node_input(&t, 0, test_move_types[k], 4, deep, data);
            test_move_run(&t, "DepthToSpace", (size_t)crd);
            assert_int_equal(t.out[0].shape.dims[1], 3);
            for (int64_t at = 0; at < qn_count(&t.out[0]); at++) {
                test_unravel(&t.out[0].shape, at, o);
                int64_t by = o[2] % 2, bx = o[3] % 2;
                int64_t c = crd ? o[1] * 4 + by * 2 + bx
                                : (by * 2 + bx) * 3 + o[1];
                int64_t in[4] = { o[0], c, o[2] / 2, o[3] / 2 };
                test_move_element(&t, at, move_element(&t.in[0], in), "DepthToSpace",
                               (size_t)crd);
            }
            if (!crd) { /* its inverse */
                test_node_init(&s, "SpaceToDepth", 13, 1, 1);
                test_node_int(&s, "blocksize", 2);
                test_node_input(&s, 0, test_move_types[k], 4, t.out[0].shape.dims,
                                t.out[0].data);
                test_move_run(&s, "SpaceToDepth", 0);
                test_node_expect(&s, 0, test_move_types[k], 4, deep, data);
                test_node_release(&s);
            }
            test_node_release(&t);
        }
    test_node t;
    test_node_init(&t, "DepthToSpace", 1, 1, 1);
    test_node_int(&t, "blocksize", 3);
    test_node_input(&t, 0, QN_U8, 4, deep, data);
    test_move_refused(&t, "blocksize", QN_SHAPE, "blocksize 3");
    free(data);
}

/* The launch is handed no second output: the third one's elements stay its own. */
static void test_split_omitted(void **state)
{
    static const float data[6] = { 0, 1, 2, 3, 4, 5 };
    static const int64_t sizes[3] = { 2, 3, 1 };
    static const struct {
        int opset;
        bool by_attr, by_input;
        float last; /* first element of output 2 */
    } rows[] = { { 11, true, false, 5 },
                 { 13, false, true, 5 },
                 { 13, false, false, 4 } };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        float a[6] = { 0 }, c[6] = { 0 };
        qn_tensor out[3] = { { 0 } };
        const qn_kernel *kernel;
        test_node t;
        test_node_init(&t, "Split", rows[i].opset, rows[i].by_input ? 2 : 1, 3);
        test_node_input(&t, 0, QN_F32, 1, (int64_t[]){ 6 }, data);
        if (rows[i].by_attr)
            test_node_ints(&t, "split", 3, sizes);
        if (rows[i].by_input)
            test_node_input(&t, 1, QN_I64, 1, (int64_t[]){ 3 }, sizes);
        assert_int_equal(qn_eval_infer(&t.node, t.in, out, &t.err), QN_OK);
        assert_int_equal(qn_eval_kernel(&t.node, t.in, &kernel, &t.err), QN_OK);
        out[0].data = a;
        out[1] = (qn_tensor){ 0 };
        out[2].data = c;
        assert_int_equal(kernel->launch(&(qn_launch){
                             .node = &t.node, .n_in = t.node.n_in, .n_out = 3,
                             .in = t.in, .out = out, .err = &t.err }),
                         QN_OK);
        assert_true(a[0] == 0 && a[1] == 1 && c[0] == rows[i].last);
        test_node_release(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transpose),
        cmocka_unit_test(test_transpose_args),
        cmocka_unit_test(test_concat_split),
        cmocka_unit_test(test_concat_args),
        cmocka_unit_test(test_split_args),
        cmocka_unit_test(test_split_omitted),
        cmocka_unit_test(test_expand),
        cmocka_unit_test(test_tile),
        cmocka_unit_test(test_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

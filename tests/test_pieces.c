/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that move elements split their work into pieces; an answer must not
 * depend on where the cuts fall. This program brings its own qn_parallel(): it
 * cuts at every `cut` items, whatever the grain, and runs the pieces backwards.
 * Each node is run whole and cut, and must give the same bytes.
 */
#include "tests/support/move.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int64_t cut; /* 0: whole */
static int64_t pieces;

void qn_parallel(qn_team *team, int64_t n, int64_t grain, qn_piece_fn fn,
                 void *arg)
{
    (void)team;
    assert_true(grain > 0);
    if (n <= 0)
        return;
    if (cut == 0) {
        fn(arg, 0, n, 0);
        return;
    }
    for (int64_t at = (n - 1) / cut * cut; at >= 0; at -= cut, pieces++)
        fn(arg, at, n - at < cut ? n : at + cut, 0);
}

typedef struct piece_row {
    const char *op;
    int opset, rank;
    int64_t dims[5];
    const char *attr; /* an ints attribute */
    int64_t ints[5];
    const char *mode;  /* NULL: none */
    int arg;           /* input that takes the numbers, 0: none */
    qn_dtype arg_type; /* I64, or F32 */
    int64_t n_args, args[8];
} piece_row;

static const piece_row rows[] = {
    { "Transpose", 13, 2, { 100, 70 }, "perm", { 1, 0 }, NULL, 0, QN_I64, 0,
      { 0 } },
    { "Transpose", 13, 4, { 3, 5, 40, 7 }, "perm", { 0, 2, 3, 1 }, NULL, 0,
      QN_I64, 0, { 0 } },
    { "Transpose", 13, 4, { 2, 6, 5, 33 }, "perm", { 2, 1, 0, 3 }, NULL, 0,
      QN_I64, 0, { 0 } },
    { "Transpose", 13, 5, { 2, 3, 4, 5, 6 }, "perm", { 4, 2, 0, 3, 1 }, NULL, 0,
      QN_I64, 0, { 0 } },
    { "Expand", 13, 3, { 4, 1, 9 }, NULL, { 0 }, NULL, 1, QN_I64, 4,
      { 3, 4, 50, 9 } },
    { "Expand", 13, 2, { 7, 1 }, NULL, { 0 }, NULL, 1, QN_I64, 2, { 7, 300 } },
    { "Tile", 13, 3, { 2, 5, 3 }, NULL, { 0 }, NULL, 1, QN_I64, 3, { 3, 2, 4 } },
    { "Pad", 19, 4, { 2, 3, 6, 5 }, NULL, { 0 }, "constant", 1, QN_I64, 8,
      { 1, 0, 2, 1, 0, 2, -1, 3 } },
    { "Pad", 19, 3, { 4, 6, 5 }, NULL, { 0 }, "reflect", 1, QN_I64, 6,
      { 1, 2, 3, 2, 3, 4 } },
    { "Pad", 19, 3, { 4, 6, 5 }, NULL, { 0 }, "wrap", 1, QN_I64, 6,
      { 5, 0, 0, 6, 7, 0 } },
    { "Gather", 13, 3, { 4, 9, 6 }, NULL, { 0 }, NULL, 1, QN_I64, 5,
      { 3, -1, 0, 0, 2 } },
    { "Resize", 13, 4, { 2, 3, 6, 5 }, NULL, { 0 }, "nearest", 3, QN_I64, 4,
      { 2, 3, 12, 7 } },
    { "Resize", 13, 4, { 2, 3, 6, 5 }, NULL, { 0 }, "linear", 3, QN_I64, 4,
      { 2, 3, 11, 10 } }, /* planes */
    { "Resize", 13, 4, { 1, 6, 5, 3 }, NULL, { 0 }, "linear", 3, QN_I64, 4,
      { 1, 9, 3, 3 } }, /* rows */
    { "Resize", 13, 3, { 1, 7, 8 }, NULL, { 0 }, "cubic", 3, QN_I64, 3,
      { 1, 4, 15 } },
};

static void build(test_node *t, const piece_row *r, qn_dtype dtype,
                  const void *data)
{
    test_node_init(t, r->op, r->opset, r->arg ? (uint32_t)r->arg + 1u : 1u, 1);
    if (r->attr)
        test_node_ints(t, r->attr, (size_t)r->rank, r->ints);
    if (r->mode)
        test_node_string(t, "mode", r->mode);
    test_node_input(t, 0, dtype, r->rank, r->dims, data);
    if (r->arg)
        test_node_input(t, (uint32_t)r->arg, r->arg_type, 1, &r->n_args,
                        r->args);
}

static void test_cuts(void **state)
{
    float *data = (float *)(void *)move_pattern();
    (void)state;
    for (int i = 0; i < 10000; i++)
        data[i] = (float)(i * 7919 % 10007) / 16.0f;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        test_node whole;
        cut = 0;
        build(&whole, &rows[i], QN_F32, data);
        test_move_run(&whole, rows[i].op, i);
        size_t bytes = (size_t)qn_count(&whole.out[0]) * sizeof(float);
        for (cut = 1; cut <= 7; cut += 2) {
            test_node t;
            pieces = 0;
            build(&t, &rows[i], QN_F32, data);
            test_move_run(&t, rows[i].op, i);
            if (cut == 1 && pieces < 2)
                fail_msg("%s row %zu: %lld pieces", rows[i].op, i,
                         (long long)pieces);
            if (memcmp(t.out[0].data, whole.out[0].data, bytes))
                fail_msg("%s row %zu: differs when cut at every %lld items",
                         rows[i].op, i, (long long)cut);
            test_node_release(&t);
        }
        test_node_release(&whole);
    }
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_cuts) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Reshape, Flatten, Squeeze, Unsqueeze, Identity: shapes and refusals, then
 * Dropout's modes. */
#include "tests/support/node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { MAX = 6 };

typedef struct row {
    const char *op;
    int opset;
    int in_rank;
    int64_t in[MAX];
    const char *attr; /* NULL: the arguments are input 1 */
    int n_args;       /* -1: none at all */
    int64_t args[MAX];
    int allowzero;
    int rank; /* -1: refused */
    int64_t out[MAX];
    const char *says;
} row;

static const row rows[] = {
    { "Reshape", 1, 2, { 2, 6 }, "shape", 2, { 3, -1 }, 0, 2, { 3, 4 }, NULL },
    { "Reshape", 5, 2, { 2, 6 }, NULL, 3, { 0, 3, -1 }, 0, 3, { 2, 3, 2 }, NULL },
    { "Reshape", 13, 1, { 1 }, NULL, 0, { 0 }, 0, 0, { 0 }, NULL },
    { "Reshape", 14, 3, { 0, 8, 2 }, NULL, 3, { 4, 2, -1 }, 0, 3, { 4, 2, 0 },
      NULL },
    { "Reshape", 14, 3, { 4, 2, 0 }, NULL, 3, { 0, 0, 4 }, 1, 3, { 0, 0, 4 },
      NULL },
    { "Reshape", 14, 2, { 0, 3 }, NULL, 2, { 0, -1 }, 0, -1, { 0 },
      "dimension of 0" },
    { "Reshape", 14, 2, { 2, 3 }, NULL, 2, { -1, -1 }, 0, -1, { 0 },
      "-1 at axes 0 and 1" },
    { "Reshape", 14, 2, { 2, 3 }, NULL, 1, { -2 }, 0, -1, { 0 }, "-2 at axis 0" },
    { "Reshape", 14, 2, { 2, 3 }, NULL, 2, { 4, -1 }, 0, -1, { 0 },
      "(6 elements) does not reshape to [4, -1]" },
    { "Reshape", 14, 2, { 2, 3 }, NULL, 3, { 6, 1, 0 }, 0, -1, { 0 },
      "copies axis 2" },
    { "Reshape", 14, 1, { 6 }, NULL, 2, { INT64_MAX, 4 }, 0, -1, { 0 },
      "too many" },
    { "Flatten", 1, 3, { 2, 3, 4 }, "axis", 0, { 0 }, 0, 2, { 1, 24 }, NULL },
    { "Flatten", 9, 3, { 2, 3, 4 }, "axis", 0, { 3 }, 0, 2, { 24, 1 }, NULL },
    { "Flatten", 11, 3, { 2, 3, 4 }, "axis", 0, { -1 }, 0, 2, { 6, 4 }, NULL },
    { "Flatten", 13, 0, { 0 }, "axis", 0, { 0 }, 0, 2, { 1, 1 }, NULL },
    { "Flatten", 9, 3, { 2, 3, 4 }, "axis", 0, { -1 }, 0, -1, { 0 },
      "outside [0, 3]" },
    { "Squeeze", 1, 4, { 1, 3, 1, 1 }, "axes", 2, { 0, 2 }, 0, 2, { 3, 1 },
      NULL },
    { "Squeeze", 11, 3, { 1, 3, 1 }, "axes", 1, { -1 }, 0, 2, { 1, 3 }, NULL },
    { "Squeeze", 13, 3, { 1, 3, 1 }, NULL, -1, { 0 }, 0, 1, { 3 }, NULL },
    { "Squeeze", 13, 3, { 1, 3, 1 }, NULL, 1, { 0 }, 0, 2, { 3, 1 }, NULL },
    { "Squeeze", 13, 2, { 1, 3 }, NULL, 1, { 1 }, 0, -1, { 0 },
      "axis 1 of [1, 3] is not 1" },
    { "Squeeze", 13, 2, { 1, 1 }, NULL, 2, { 0, -2 }, 0, -1, { 0 },
      "listed twice" },
    { "Unsqueeze", 1, 2, { 3, 4 }, "axes", 2, { 0, 3 }, 0, 4, { 1, 3, 4, 1 },
      NULL },
    { "Unsqueeze", 13, 2, { 3, 4 }, NULL, 3, { 4, -4, 0 }, 0, 5,
      { 1, 1, 3, 4, 1 }, NULL },
    { "Unsqueeze", 13, 0, { 0 }, NULL, 1, { 0 }, 0, 1, { 1 }, NULL },
    { "Unsqueeze", 13, 1, { 3 }, NULL, 1, { 2 }, 0, -1, { 0 },
      "outside [-2, 1]" },
    { "Unsqueeze", 13, 1, { 3 }, NULL, 2, { 1, 1 }, 0, -1, { 0 },
      "listed twice" },
    { "Identity", 16, 3, { 2, 0, 4 }, NULL, -1, { 0 }, 0, 3, { 2, 0, 4 }, NULL },
};

static void test_shapes(void **state)
{
    static const uint8_t bytes[64] = { 1, 2, 3 };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const row *r = &rows[i];
        bool input = !r->attr && r->n_args >= 0;
        test_node t;
        test_node_init(&t, r->op, r->opset, input ? 2 : 1, 1);
        /* two bytes an element: a type that all of these versions allow */
        test_node_input(&t, 0, QN_F16, r->in_rank, r->in, bytes);
        if (input)
            test_node_input(&t, 1, QN_I64, 1, (int64_t[]){ r->n_args }, r->args);
        else if (r->attr && !strcmp(r->attr, "axis"))
            test_node_int(&t, r->attr, r->args[0]);
        else if (r->attr)
            test_node_ints(&t, r->attr, (size_t)r->n_args, r->args);
        if (r->allowzero)
            test_node_int(&t, "allowzero", 1);
        qn_status st = test_node_run(&t);
        if (r->rank < 0) {
            if (st == QN_OK || !strstr(t.err.text, r->says))
                fail_msg("row %zu: status %s, \"%s\"", i, qn_status_name(st),
                         t.err.text);
        } else {
            if (st != QN_OK)
                fail_msg("row %zu: %s", i, t.err.text);
            test_node_expect(&t, 0, QN_F16, r->rank, r->out, bytes);
        }
        test_node_release(&t);
    }
}

/* ---- Dropout ---- */

static const float data[4] = { 1, -2, 3, 4 };
static const int64_t four[1] = { 4 };
static const uint8_t all[4] = { 1, 1, 1, 1 };

static void test_dropout_inference(void **state)
{
    static const int opsets[] = { 1, 6, 7, 10, 12, 13, 22 };
    static const float ones[4] = { 1, 1, 1, 1 };
    (void)state;
    for (size_t i = 0; i < sizeof opsets / sizeof opsets[0]; i++) {
        test_node t;
        test_node_init(&t, "Dropout", opsets[i], 1, 2);
        test_node_input(&t, 0, QN_F32, 1, four, data);
        if (test_node_run(&t) != QN_OK)
            fail_msg("opset %d: %s", opsets[i], t.err.text);
        test_node_expect(&t, 0, QN_F32, 1, four, data);
        if (opsets[i] < 10)
            test_node_expect(&t, 1, QN_F32, 1, four, ones);
        else
            test_node_expect(&t, 1, QN_BOOL, 1, four, all);
        test_node_release(&t);
    }
}

static void dropout(test_node *t, const float *ratio, const uint8_t *training)
{
    test_node_init(t, "Dropout", 13, 3, 2);
    test_node_int(t, "seed", 0);
    test_node_input(t, 0, QN_F32, 1, four, data);
    if (ratio)
        test_node_input(t, 1, QN_F32, 0, NULL, ratio);
    test_node_input(t, 2, QN_BOOL, 0, NULL, training);
}

/* numpy.random.seed(0); uniform(0, 1, 4) is .5488 .7152 .6028 .5449 */
static void test_dropout_training(void **state)
{
    static const float ratio = 0.6f, none = 0.0f, one = 1.0f;
    static const float want[4] = { 0, -5, 7.5f, 0 };
    static const uint8_t yes = 1, mask[4] = { 0, 1, 1, 0 };
    test_node t;
    (void)state;

    dropout(&t, &ratio, &yes);
    assert_int_equal(test_node_run(&t), QN_OK);
    test_node_expect_f32(&t, 0, 1, four, want, 1e-6, 0);
    test_node_expect(&t, 1, QN_BOOL, 1, four, mask);
    test_node_release(&t);

    dropout(&t, &none, &yes);
    assert_int_equal(test_node_run(&t), QN_OK);
    test_node_expect(&t, 0, QN_F32, 1, four, data);
    test_node_expect(&t, 1, QN_BOOL, 1, four, all);
    test_node_release(&t);

    dropout(&t, &one, &yes);
    assert_int_equal(test_node_run(&t), QN_RANGE);
    test_node_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_dropout_inference),
        cmocka_unit_test(test_dropout_training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

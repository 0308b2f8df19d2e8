/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of nodes written as text: one row is one run of one operator.
 *
 *   attrs   "kernel_shape=[3,3] ceil_mode=1 alpha=0.5 auto_pad=VALID"
 *           lists are ints; a number with a dot is a float
 *   tensor  "f32 2,3,4"         data are test_filler()
 *           "i64 2: 5 -1"       data as given (nan, inf, -inf too)
 *           "f32 : 2.5"         a scalar
 *           "f32 0,3:"          no elements
 *           ""                  an omitted input
 */
#ifndef QN_TESTS_SUPPORT_ROWS_H
#define QN_TESTS_SUPPORT_ROWS_H

#include "tests/support/node.h"

enum { TEST_ROW_ARGS = 6 };

typedef struct test_row {
    const char *op;
    int opset;
    const char *attrs;
    const char *in[TEST_ROW_ARGS];  /* up to the first NULL */
    const char *out[TEST_ROW_ARGS]; /* expected; up to the first NULL */
    double rtol, atol;              /* 0: equal */
    const char *says; /* not NULL: the run fails, the text has this part */
    qn_status status; /* and this status */
} test_row;

/* Element i of the filler: quarters from -2.75 to 2.75, no two neighbours
 * alike, scrambled; small enough for every type once rounded. */
double test_filler(int64_t i);

/* Run every row; fail with its number, operator and attributes. */
void test_rows_run(const test_row *rows, size_t n);

/* For tests with data of their own: attributes, and tensors in t->region. */
void test_node_attrs(test_node *t, const char *attrs);
qn_tensor test_row_tensor(qn_region *region, const char *text);
double test_value(const qn_tensor *t, int64_t i);

/*
 * The node in channels-last order: rank-4 inputs are handed over as N, H, W, C
 * and outputs come back as N, C, H, W. Fails the test if the kernel does not
 * take that order.
 */
qn_status test_node_run_nhwc(test_node *t);

#endif

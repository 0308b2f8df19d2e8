/* SPDX-License-Identifier: Apache-2.0 */
/* A random model as one graph, and the same model cut into ranks. All numbers are
 * small integers, so that sums are exact in any order and bits can be compared. */
#ifndef QN_TESTS_SUPPORT_SPLIT_H
#define QN_TESTS_SUPPORT_SPLIT_H

#include "tests/support/graph.h"

enum { SPLIT_RANKS = 4, SPLIT_ROWS = 12, SPLIT_WIDTH = 5 };

typedef struct split {
    uint32_t ranks;
    qn_graph *whole, *parts[SPLIT_RANKS]; /* the caller's */
    qn_region data;                       /* weights; until sessions are made */
    float x[SPLIT_ROWS * SPLIT_WIDTH];    /* input "x" of all of them */
} split;

/* One output "y" of each. Fails the test on an error. */
void split_build(split *s, uint32_t ranks, uint64_t seed);
void split_release(split *s); /* the weights */

/* A collective over in[0..n) with n results, out[0..n). `attr` NULL, or one of
 * op (a text), root, axis, ranks, with its value. */
void tg_collective(qn_graph *g, const char *op, const char *attr,
                   const char *text, int64_t number, uint32_t n,
                   const qn_value_id *in, qn_value_id *out);
/* One tensor, and no attribute. */
qn_value_id tg_collective1(qn_graph *g, const char *op, qn_value_id in);

#endif

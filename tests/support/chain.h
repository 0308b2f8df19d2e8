/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of ai.quern.Chain for the tests of every device, and the same
 * operators one by one. */
#ifndef QN_TESTS_SUPPORT_CHAIN_H
#define QN_TESTS_SUPPORT_CHAIN_H

#include "runtime/ops/chain.h"
#include "tests/support/node.h"

enum { TEST_CHAIN_OPERANDS = 3, TEST_CHAIN_RANK = 5 };

typedef struct test_chain_dims {
    int rank;
    int64_t dims[TEST_CHAIN_RANK];
} test_chain_dims;

typedef struct test_chain {
    test_chain_dims x;
    uint32_t n_operands;
    test_chain_dims operands[TEST_CHAIN_OPERANDS];
    uint32_t n;
    qn_chain_step steps[QN_CHAIN_STEPS];
} test_chain;

extern const test_chain test_chains[];
extern const size_t test_n_chains;

/* Attributes of one node; must outlive it. */
typedef struct test_chain_attrs {
    int64_t steps[4 * QN_CHAIN_STEPS];
    float numbers[2 * QN_CHAIN_STEPS];
} test_chain_attrs;

/* A Chain node on this type; inputs, with odd values among them, are made in
 * t->region. */
void test_chain_init(test_node *t, const test_chain *c, qn_dtype dtype,
                     test_chain_attrs *attrs);

/* How a single node is run: as test_node_run(). */
typedef qn_status (*test_chain_run)(test_node *t);
/* The chain's steps as nodes of the ONNX domain on t's inputs; the last result
 * is copied to out, of the output's size. Fails the test if one fails. */
void test_chain_singles(const test_node *t, const test_chain *c,
                        test_chain_run run, void *out);

#endif

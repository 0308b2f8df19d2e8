/* SPDX-License-Identifier: Apache-2.0 */
/* Build one node and run it: the harness of the kernel tests. */
#ifndef QN_TESTS_SUPPORT_NODE_H
#define QN_TESTS_SUPPORT_NODE_H

#include "runtime/exec/eval.h"

enum { TEST_MAX_ARGS = 32 };

/* Zero-initialise; release with test_node_release(). */
typedef struct test_node {
    qn_region region;
    qn_node node;
    qn_attr attrs[TEST_MAX_ARGS];
    qn_tensor in[TEST_MAX_ARGS], out[TEST_MAX_ARGS];
    qn_strings strings;
    qn_error err;
} test_node;

/* `op` may have its domain in front: "ai.quern.Chain". Fails the test if there
 * is no such operator at this opset. */
void test_node_init(test_node *t, const char *op, int opset, uint32_t n_in,
                    uint32_t n_out);
void test_node_int(test_node *t, const char *name, int64_t value);
void test_node_float(test_node *t, const char *name, float value);
void test_node_string(test_node *t, const char *name, const char *value);
void test_node_ints(test_node *t, const char *name, size_t n,
                    const int64_t *values);
void test_node_floats(test_node *t, const char *name, size_t n,
                      const float *values);
/* Input i: the data are borrowed. */
void test_node_input(test_node *t, uint32_t i, qn_dtype dtype, int rank,
                     const int64_t *dims, const void *data);
/* check (if any), infer, prepare, launch. */
qn_status test_node_run(test_node *t);
/* Fail with the index unless output i is |got - want| <= atol + rtol * |want|. */
void test_node_expect_f32(const test_node *t, uint32_t i, int rank,
                          const int64_t *dims, const float *want, double rtol,
                          double atol);
/* Exact bytes. */
void test_node_expect(const test_node *t, uint32_t i, qn_dtype dtype, int rank,
                      const int64_t *dims, const void *want);
void test_node_release(test_node *t);

#endif

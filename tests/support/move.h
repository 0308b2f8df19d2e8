/* SPDX-License-Identifier: Apache-2.0 */
/* For operators that move elements: run, and compare each output element with
 * the input element that an index formula names. Rows are named in messages. */
#ifndef QN_TESTS_SUPPORT_MOVE_H
#define QN_TESTS_SUPPORT_MOVE_H

#include "tests/support/node.h"

enum { TEST_MOVE_TYPES = 5, MAX_BYTES = 1 << 21 };

/* One type of each size: 1, 2, 4, 8, 16 bytes. */
extern const qn_dtype test_move_types[TEST_MOVE_TYPES];

/* MAX_BYTES of distinct-looking bytes, so that a misplaced element shows. Free
 * it. */
uint8_t *move_pattern(void);
/* Must succeed. */
void test_move_run(test_node *t, const char *what, size_t row);
/* Must fail so, and say so; releases the node. */
void test_move_refused(test_node *t, const char *what, qn_status want,
                       const char *says);
/* Channels-last must give the same bytes. */
void test_move_nhwc(test_node *t, const char *what, size_t row);
/* Indices of flat element `at`. */
void test_unravel(const qn_shape *s, int64_t at, int64_t idx[QN_MAX_RANK]);
/* The element at these indices. */
const char *move_element(const qn_tensor *t, const int64_t *idx);
/* Flat element o of output 0 must be the one at `want`. */
void test_move_element(const test_node *t, int64_t o, const void *want,
                       const char *what, size_t row);

#endif

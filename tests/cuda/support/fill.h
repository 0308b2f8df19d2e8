/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs of every numeric type with the numbers that go wrong among them. */
#ifndef QN_TESTS_CUDA_FILL_H
#define QN_TESTS_CUDA_FILL_H

#include "tests/support/node.h"

typedef enum fill_kind {
    FILL_ANY,      /* small numbers; extremes, NaN and infinities in between */
    FILL_NONZERO,  /* the same without zeros */
    FILL_POSITIVE, /* 1/2 to 6: bases and exponents */
    FILL_BITS      /* all bit patterns of the type, scrambled */
} fill_kind;

/* Input i of t: [dims] of dtype in t->region. */
void test_fill(test_node *t, uint32_t i, qn_dtype dtype, int rank,
               const int64_t *dims, fill_kind kind);

/* "f32 Add 3,4": for messages; buf has room for 160. */
const char *test_label(char *buf, const char *op, qn_dtype dtype, size_t row);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of kernels/unary.cu. */
#ifndef QN_CUDA_KERNELS_UNARY_H
#define QN_CUDA_KERNELS_UNARY_H

#include "runtime/cuda/kernels/walk.h"

struct qn_unary_args {
    struct qn_walk walk;
    struct qn_operand x;
    void *y;
    const void *low, *high; /* Clip's bounds, one element each, or NULL */
    double a, b;            /* otherwise; parameters of the function */
    int32_t op;             /* QN_PW_*; predicates: QN_TEST_* */
    int32_t dtype;          /* predicates of 8-bit floats: qn_dtype */
};

/* What counts. */
enum { QN_TEST_NAN = 1, QN_TEST_POSITIVE = 2, QN_TEST_NEGATIVE = 4 };

#endif

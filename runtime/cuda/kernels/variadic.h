/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of kernels/variadic.cu. */
#ifndef QN_CUDA_KERNELS_VARIADIC_H
#define QN_CUDA_KERNELS_VARIADIC_H

#include "runtime/cuda/kernels/walk.h"

enum { QN_FOLD_MOST = 8 }; /* operands of one launch */

/* QN_FOLD_*: what y's elements are, beside the result's type. */
enum {
    QN_FOLD_FIRST = 1, /* no launch went before: start with operand 0 */
    QN_FOLD_LAST = 2,  /* the result goes to y, else on to `sum` */
    QN_FOLD_MEAN = 4   /* divided by `count` */
};

struct qn_fold_args {
    struct qn_walk walk;
    struct qn_operand in[QN_FOLD_MOST];
    void *y;
    void *sum; /* [total] of accumulators, between launches */
    double count;
    int32_t n, op, flags;
};

struct qn_where_args {
    struct qn_walk walk;
    struct qn_operand c, in[2];
    void *y;
};

#endif

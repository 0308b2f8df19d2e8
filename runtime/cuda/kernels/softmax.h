/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of softmax.cu: the middle axis of [outer, n, inner]. */
#ifndef QN_CUDA_KERNELS_SOFTMAX_H
#define QN_CUDA_KERNELS_SOFTMAX_H

#include "runtime/cuda/kernels/fold.h"

/* Longest rows of one warp. */
enum { QN_SOFTMAX_SHORT = 256, QN_SOFTMAX_LONG = 1024 };

struct qn_softmax_args {
    const void *x;
    void *y;
    int64_t rows, n; /* contiguous rows */
    int32_t log;
    struct qn_fold f; /* any other axis, and Hardmax */
};

#endif

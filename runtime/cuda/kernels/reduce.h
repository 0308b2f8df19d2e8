/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of reduce.cu. */
#ifndef QN_CUDA_KERNELS_REDUCE_H
#define QN_CUDA_KERNELS_REDUCE_H

#include "runtime/cuda/kernels/fold.h"

enum qn_cuda_fold_kind {
    QN_CUDA_FOLD_SUM,
    QN_CUDA_FOLD_MEAN,
    QN_CUDA_FOLD_MAX,
    QN_CUDA_FOLD_MIN,
    QN_CUDA_FOLD_PROD,
    QN_CUDA_FOLD_L1,
    QN_CUDA_FOLD_L2,
    QN_CUDA_FOLD_SUM_SQUARE,
    QN_CUDA_FOLD_LOG_SUM,
    QN_CUDA_FOLD_LOG_SUM_EXP
};

struct qn_reduce_args {
    const void *x;
    void *y;
    void *partial; /* [splits][outputs] of 16 bytes; unused with one split */
    int32_t kind;
    /* integers: bytes of an element, and the type's range */
    int32_t size;
    int64_t low;
    uint64_t high;
    struct qn_fold f;
};

#endif

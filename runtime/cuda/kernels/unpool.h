/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of unpool.cu. */
#ifndef QN_CUDA_KERNELS_UNPOOL_H
#define QN_CUDA_KERNELS_UNPOOL_H

#include "runtime/cuda/kernels/fault.h"

#include <stdint.h>

enum { QN_UNPOOL_RANK = 10 };

struct qn_unpool_args {
    const void *x;
    const int64_t *indices;
    void *y;                   /* zero */
    unsigned long long *owner; /* [cells], zero; 1 + who writes there */
    int64_t count, cells;
    int32_t rank, size; /* size: bytes of an element */
    int64_t from[QN_UNPOOL_RANK], to[QN_UNPOOL_RANK]; /* indexed, written */
    struct qn_fault_args fault;
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of topk.cu. */
#ifndef QN_CUDA_KERNELS_TOPK_H
#define QN_CUDA_KERNELS_TOPK_H

#include "runtime/cuda/kernels/fastdiv.h"

enum {
    QN_TOPK_THREADS = 512,
    QN_TOPK_SHARED = 2048 /* entries that are sorted in shared memory */
};

/* Smaller is better: the key first, then the index. */
struct qn_topk_entry {
    uint64_t key;
    int64_t index;
};

/* Rows of n elements, `inner` apart; row r starts as [outer, n, inner] says. */
struct qn_topk_args {
    const void *x;
    void *values;
    int64_t *indices;
    int64_t rows, n, k, inner;
    struct qn_fastdiv by_inner;
    uint64_t flip;  /* all ones: the largest are wanted */
    int64_t slots;  /* entries a block sorts: a power of two, k or n at least */
    struct qn_topk_entry *entries; /* [blocks][slots], past QN_TOPK_SHARED */
    int32_t select; /* 0: slots hold a whole row */
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of kernels/nonzero.cu, one struct for its three kernels. */
#ifndef QN_CUDA_KERNELS_NONZERO_H
#define QN_CUDA_KERNELS_NONZERO_H

#include "runtime/cuda/kernels/fastdiv.h"

enum {
    QN_NONZERO_THREADS = 256,
    QN_NONZERO_BLOCKS = 1024, /* at most; the scan is one block of as many */
    QN_NONZERO_DIMS = 10
};

struct qn_nonzero_args {
    const void *src;
    int64_t *dst;    /* [rank, found] */
    int64_t *counts; /* [blocks + 1]; after the scan: offsets, then the total */
    int64_t n, piece; /* elements, of which a block takes `piece` */
    int32_t blocks, rank;
    uint32_t size, wide; /* bytes of an element; wide: n is 2^31 or more */
    uint64_t mask; /* bits of an element, or of each 8 bytes, that count */
    struct qn_fastdiv div[QN_NONZERO_DIMS]; /* innermost first */
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of argmax.cu. */
#ifndef QN_CUDA_KERNELS_ARGMAX_H
#define QN_CUDA_KERNELS_ARGMAX_H

#include "runtime/cuda/kernels/fold.h"

struct qn_argmax_args {
    const void *x;
    int64_t *y;
    void *partial; /* [splits][outputs] of 16 bytes */
    int32_t min, last;
    struct qn_fold f;
};

#endif

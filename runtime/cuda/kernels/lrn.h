/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of lrn.cu. */
#ifndef QN_CUDA_KERNELS_LRN_H
#define QN_CUDA_KERNELS_LRN_H

#include "runtime/cuda/kernels/fastdiv.h"
#include "runtime/cuda/kernels/fold.h"

/* Element i is channel i / step % channels; the next one lies step behind. */
struct qn_lrn_args {
    const void *x;
    void *y;
    int64_t count, channels, step, before, after;
    struct qn_fastdiv by_step, by_channels;
    float alpha, beta, bias;
};

enum qn_axes_norm { QN_AXES_MVN, QN_AXES_L1, QN_AXES_L2 };

struct qn_axes_args {
    const void *x;
    void *y;
    int32_t kind;
    struct qn_fold f;
};

#endif

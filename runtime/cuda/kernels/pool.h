/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of pool.cu. */
#ifndef QN_CUDA_KERNELS_POOL_H
#define QN_CUDA_KERNELS_POOL_H

#include "runtime/cuda/kernels/fastdiv.h"
#include "runtime/cuda/kernels/fold.h"

enum { QN_POOL_AXES = 8 };

enum qn_pool_kind { QN_POOL_MAX, QN_POOL_MEAN, QN_POOL_LP };

/*
 * One spatial axis: output o looks at positions o * stride - lo + k * dilation,
 * 0 <= k < kernel; those in [0, in) count, and for a mean that includes padding
 * those in [-lo, in + hi).
 */
struct qn_pool_axis {
    int64_t in, out, kernel, stride, dilation, lo, hi;
    int64_t step;  /* elements from one position to the next */
    int64_t index; /* what one position adds to an index of a maximum */
    struct qn_fastdiv by_out;
};

/*
 * Outputs run over images, channels, axes in this order, or with channels last
 * over images, axes, channels.
 */
struct qn_pool_args {
    const void *x;
    void *y;
    int64_t *indices; /* NULL: not wanted */
    int64_t count;    /* outputs */
    int64_t channels, in_size; /* in_size: positions of a plane */
    int32_t kind, n_axes, last, include_pad;
    float p;
    struct qn_fastdiv by_channels;
    struct qn_pool_axis axes[QN_POOL_AXES]; /* outermost first */
};

/* The window is the whole input: planes folded as fold.h says. */
struct qn_pool_whole_args {
    const void *x;
    void *y;
    int32_t kind;
    float p;
    struct qn_fold f;
};

#endif

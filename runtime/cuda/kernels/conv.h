/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of conv.cu. Axes are D, H, W; of fewer, the leading ones are 1. */
#ifndef QN_CUDA_KERNELS_CONV_H
#define QN_CUDA_KERNELS_CONV_H

#include "runtime/cuda/kernels/fastdiv.h"

enum { QN_CONV_TILE = 64, QN_CONV_THREADS = 256 };

/*
 * y = act(conv(x, w) + bias + residual), geometry as qn_conv of
 * runtime/ops/conv.h: x [n, c, in], y [n, m, out]; w [m, per_in, kernel], or
 * [c, per_out, kernel] if transposed.
 */
struct qn_conv_args {
    const void *x, *w;
    const void *bias;     /* [m]; NULL: none */
    const void *residual; /* as y, which it may be; NULL: none; float only */
    void *y;
    int64_t n, c, m, group;
    int64_t per_in, per_out; /* channels of a group */
    int64_t in[3], kernel[3], stride[3], dilation[3], pad[3];
    int64_t taps, in_pixels, out_pixels;
    int64_t total;   /* elements of y */
    int64_t tiles_m, tiles_p; /* of a group's channels, of pixels */
    struct qn_fastdiv by_taps, by_kernel[3], by_out[3], by_pixels, by_m;
    int32_t transposed;
    int32_t act;     /* qn_act; float only */
    float act_a, act_b;
};

/* to [images, to] = from [images, in] moved by `before` along each axis, zeros
 * around it; what would lie beyond `to` is left out. */
struct qn_conv_pad_args {
    const void *from;
    void *to;
    int64_t total; /* elements of `to` */
    int64_t in[3], before[3];
    struct qn_fastdiv by_to[3];
};

/* y = act(x + bias[channel] + residual), n x m x pixels floats. */
struct qn_conv_finish_args {
    const float *x;
    float *y; /* may be x, may be residual */
    const float *bias, *residual; /* NULL: none */
    int64_t total;
    struct qn_fastdiv by_pixels, by_m;
    int32_t act;
    float act_a, act_b;
};

#endif

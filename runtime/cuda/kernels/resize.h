/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments of kernels/resize.cu. A resized axis has a map in the workspace:
 * for each output index, `taps` input indices and weights. Output index o is
 * the sum over t of weight[o * taps + t] * input[index[o * taps + t]].
 */
#ifndef QN_CUDA_KERNELS_RESIZE_H
#define QN_CUDA_KERNELS_RESIZE_H

#include "runtime/cuda/kernels/fastdiv.h"

enum { QN_RESIZE_DIMS = 10 };

/* Enumerations as in runtime/ops/resize.h. */
struct qn_resize_map {
    int64_t in, out, taps;
    int64_t *index; /* [out, taps]; nearest: -1 for outside */
    float *weight;  /* [out, taps]; nearest: none */
    uint8_t *outside; /* [out]: crops show the extrapolation value there */
    float scale, length, roi_start, roi_end;
};

struct qn_resize_maps_args {
    uint32_t mode, coords, nearest;
    float cubic_a;
    uint32_t exclude_outside, antialias;
    int32_t n; /* maps; one row of blocks each */
    struct qn_resize_map maps[QN_RESIZE_DIMS];
};

struct qn_resize_dim {
    struct qn_fastdiv div; /* by the output's length */
    int64_t stride;        /* of the input */
    int32_t map;           /* -1: output index is input index */
};

struct qn_resize_args {
    const void *src;
    void *dst;
    int64_t n; /* of the output: elements; nearest: units */
    uint32_t wide;
    uint32_t dtype, round; /* round: integers to nearest, else towards zero */
    uint32_t crop;         /* outside[] counts */
    uint32_t unit;         /* nearest: bytes */
    float extrapolation;
    uint64_t low, high; /* nearest: the same in the data's type, in 16 bytes */
    int32_t rank;
    struct qn_resize_dim dims[QN_RESIZE_DIMS]; /* innermost first */
    int32_t passes; /* pass i sums over map i, of what pass i - 1 gave */
    int64_t stride[QN_RESIZE_DIMS]; /* of the input, by map */
    struct qn_resize_map maps[QN_RESIZE_DIMS];
};

#endif

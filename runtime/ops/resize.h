/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments of Resize and Upsample, resolved. Every version comes out as the
 * same struct: what the kernels need is a pair of lengths, a scale and, for
 * crops, a region per axis.
 */
#ifndef QN_OPS_RESIZE_H
#define QN_OPS_RESIZE_H

#include "runtime/ops/op.h"

typedef enum qn_resize_mode {
    QN_RESIZE_NEAREST,
    QN_RESIZE_LINEAR,
    QN_RESIZE_CUBIC
} qn_resize_mode;

typedef enum qn_resize_coords {
    QN_COORDS_HALF_PIXEL,
    QN_COORDS_HALF_PIXEL_SYMMETRIC,
    QN_COORDS_PYTORCH_HALF_PIXEL,
    QN_COORDS_ALIGN_CORNERS,
    QN_COORDS_ASYMMETRIC,
    QN_COORDS_TF_HALF_PIXEL_FOR_NN,
    QN_COORDS_TF_CROP_AND_RESIZE
} qn_resize_coords;

typedef enum qn_resize_nearest {
    QN_NEAREST_ROUND_PREFER_FLOOR,
    QN_NEAREST_ROUND_PREFER_CEIL,
    QN_NEAREST_FLOOR,
    QN_NEAREST_CEIL,
    QN_NEAREST_SIMPLE /* before opset 11: ceil when shrinking, else floor */
} qn_resize_nearest;

typedef struct qn_resize_axis {
    int64_t in, out;
    float scale;  /* resized length over original length */
    float length; /* in * scale where scales were given, so perhaps not a whole
                     number; else out. align_corners and half_pixel_symmetric
                     use it, as the reference implementation does */
    float roi_start, roi_end; /* 0 and 1 but for crops */
    bool same; /* output index i is input index i */
} qn_resize_axis;

typedef struct qn_resize {
    qn_resize_mode mode;
    qn_resize_coords coords;
    qn_resize_nearest nearest;
    float cubic_a, extrapolation;
    bool exclude_outside, antialias;
    int rank;
    qn_resize_axis axes[QN_MAX_RANK]; /* logical order */
} qn_resize;

/* Reads node, n_in, in[] (logical shapes; values of scales, sizes and roi).
 * Checks all of them. */
QN_NODISCARD qn_status qn_resize_resolve(const qn_infer *in, qn_resize *out,
                                         qn_error *err);

/* How many input elements an element along this axis is made of, at most;
 * INT64_MAX where that is beyond any table. */
int64_t qn_resize_taps(const qn_resize *r, const qn_resize_axis *a);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Geometry of a pooling window, shared by shape inference and the kernels.
 * ONNX: MaxPool, AveragePool, LpPool and their Global forms.
 */
#ifndef QN_OPS_POOL_H
#define QN_OPS_POOL_H

#include "runtime/ops/op.h"

/*
 * Output o of axis i looks at input positions o * stride - lo + k * dilation,
 * 0 <= k < kernel. Positions in [-lo, in + hi) are padded extent; what a window
 * covers beyond that is the overhang of ceil_mode and never counts.
 */
typedef struct qn_pool_geometry {
    int n; /* spatial axes, 0 to QN_MAX_RANK - 2 */
    int64_t in[QN_MAX_RANK], out[QN_MAX_RANK];
    int64_t kernel[QN_MAX_RANK], stride[QN_MAX_RANK], dilation[QN_MAX_RANK];
    int64_t lo[QN_MAX_RANK], hi[QN_MAX_RANK];
} qn_pool_geometry;

/*
 * `shape` is the input's logical shape N, C, spatial ... Pads of auto_pad are
 * resolved. Any thread.
 * QN_SHAPE: a rank below 2, attributes of another rank, or a window larger than
 * the padded input, with the axis and both sizes.
 */
QN_NODISCARD qn_status qn_pool_geometry_of(const qn_node *node,
                                           const qn_shape *shape,
                                           qn_pool_geometry *out,
                                           qn_error *err);

/* MaxUnpool: the shape that its window, strides and pads imply for an input
 * N, C, spatial ...; output_shape is not looked at. Any thread. QN_SHAPE. */
QN_NODISCARD qn_status qn_unpool_shape(const qn_node *node,
                                       const qn_shape *shape, qn_shape *out,
                                       qn_error *err);

#endif

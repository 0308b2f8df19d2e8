/* SPDX-License-Identifier: Apache-2.0 */
/* The geometry of Conv and ConvTranspose: one reading of their attributes, for
 * shapes and for kernels. */
#ifndef QN_OPS_CONV_H
#define QN_OPS_CONV_H

#include "runtime/ops/op.h"

enum { QN_CONV_D, QN_CONV_H, QN_CONV_W, QN_CONV_DIMS };

/*
 * One to three spatial dimensions are written as three, D H W: the leading ones
 * of fewer are 1 with kernel 1, stride 1, no padding. `pad` is that before the
 * first element; for ConvTranspose it is what is cut off the output there.
 *
 *   Conv            x [n, c, in]  w [m, c / group, kernel]  y [n, m, out]
 *                   y at o sums x at o * stride + tap * dilation - pad
 *   ConvTranspose   x [n, c, in]  w [c, m / group, kernel]  y [n, m, out]
 *                   x at i adds to y at i * stride + tap * dilation - pad
 */
typedef struct qn_conv {
    int rank; /* spatial dimensions of the tensors */
    int64_t n, c, m, group;
    int64_t in[QN_CONV_DIMS], out[QN_CONV_DIMS], kernel[QN_CONV_DIMS];
    int64_t stride[QN_CONV_DIMS], dilation[QN_CONV_DIMS], pad[QN_CONV_DIMS];
    int64_t taps, in_pixels, out_pixels; /* products of the above */
} qn_conv;

/*
 * From a node and its logical shapes; checks everything that does not depend on
 * the bias. QN_SHAPE, QN_INVALID, QN_TOO_LARGE with the numbers.
 */
QN_NODISCARD qn_status qn_conv_read(const qn_node *node, const qn_shape *x,
                                    const qn_shape *w, qn_conv *out,
                                    qn_error *err);

#endif

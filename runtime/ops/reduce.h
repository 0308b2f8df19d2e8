/* SPDX-License-Identifier: Apache-2.0 */
/* Which axes a reduction runs over, for shape inference and the kernels. */
#ifndef QN_OPS_REDUCE_H
#define QN_OPS_REDUCE_H

#include "runtime/ops/op.h"

/*
 * Bit i of *mask: axis i of the input is reduced. Axes come from input 1 where
 * the node has one (int64, value known), otherwise from attribute `axes`; none
 * or an empty list means all axes, or no axis with noop_with_empty_axes.
 * in[0] needs its shape only. Any thread. QN_RANGE names a bad axis.
 */
QN_NODISCARD qn_status qn_reduce_axes(const qn_node *node, uint32_t n_in,
                                      const qn_tensor *in, uint32_t *mask,
                                      qn_error *err);

/* The one axis of ArgMax and ArgMin. QN_RANGE. */
QN_NODISCARD qn_status qn_arg_axis(const qn_node *node, const qn_shape *shape,
                                   int *axis, qn_error *err);

#endif

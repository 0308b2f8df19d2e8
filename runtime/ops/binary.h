/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of two operands: the shape rule that opset 7 replaced. */
#ifndef QN_OPS_BINARY_H
#define QN_OPS_BINARY_H

#include "runtime/graph/graph.h"

/*
 * The shape as which the second operand broadcasts, by NumPy's rule, against
 * `a`. From opset 7 on that is its own shape. Before, it is aligned by the
 * attributes `broadcast` and `axis`: b's dimensions lie in a's from `axis` on
 * (absent: at the end), and ones follow; without `broadcast` the shapes must be
 * equal. PRelu before opset 7: a slope of one dimension belongs to axis 1.
 *
 * Errors: QN_SHAPE names both shapes; QN_RANGE for an axis outside a's rank.
 */
QN_NODISCARD qn_status qn_binary_rhs(const qn_node *node, const qn_shape *a,
                                     const qn_shape *b, qn_shape *out,
                                     qn_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Which statistics a BatchNormalization node uses. */
#ifndef QN_OPS_NORM_H
#define QN_OPS_NORM_H

#include "runtime/ops/op.h"

/* Whether the node normalises by the statistics of its input. Until opset 6
 * is_test says so, until 13 the number of outputs, then training_mode. */
bool qn_batchnorm_trains(const qn_node *node);

#endif

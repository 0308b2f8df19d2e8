/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between memory orders: inserted by the order pass, never found in a model.
 * Shapes are logical and stay the same; the plan makes a view of it where both
 * orders are the same bytes (one channel, or one pixel).
 */
#include "runtime/ops/tables.h"

static const qn_op rows[] = {
    { .domain = "ai.quern", .name = "ToChannelsLast", .since = 1, .until = 1,
      .min_in = 1, .max_in = 1, .min_out = 1, .max_out = 1 },
    { .domain = "ai.quern", .name = "ToChannelsFirst", .since = 1, .until = 1,
      .min_in = 1, .max_in = 1, .min_out = 1, .max_out = 1 },
};

QN_OP_TABLE(qn_ops_order, rows);

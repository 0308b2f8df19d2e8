/* SPDX-License-Identifier: Apache-2.0 */
/* Run a test node as a session would: constant inputs packed at load, values in
 * channels-last order, several thread numbers. */
#ifndef QN_TESTS_SUPPORT_PACKED_H
#define QN_TESTS_SUPPORT_PACKED_H

#include "tests/support/node.h"

/*
 * Like test_node_run(), with the inputs of bit mask `constants` packed where
 * the kernel packs them (their plain data are then withheld from launch), and
 * workspace filled with NaN before use. Inputs and outputs stay in t's order:
 * for t->node.order QN_ORDER_NHWC this transposes rank-4 tensors on the way, so
 * callers give and get plain data. Tests compare the outcome with
 * test_node_run() on the same data. Requires infer and kernel to accept.
 */
qn_status test_node_run_packed(test_node *t, uint32_t constants);

#endif

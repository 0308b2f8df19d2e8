/* SPDX-License-Identifier: Apache-2.0 */
/* Run a node channels-last and give the answer in plain order: what the layout
 * pass does around a kernel with QN_KERNEL_NHWC. */
#ifndef QN_TESTS_SUPPORT_NHWC_H
#define QN_TESTS_SUPPORT_NHWC_H

#include "runtime/exec/eval.h"

/* As qn_eval_node(); rank-4 tensors go through [N, H, W, C]. QN_UNSUPPORTED if
 * the kernel does not run that order. */
qn_status test_nhwc_run(const qn_node *node, const qn_tensor *in,
                        qn_tensor *out, qn_region *region, qn_error *err);

#endif

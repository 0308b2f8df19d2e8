/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One node at once, on the host, on this thread: infer, prepare, launch.
 * Constant folding, values known to a plan, `quern op` and unit tests of
 * kernels use it. No planning, no pool.
 */
#ifndef QN_EXEC_EVAL_H
#define QN_EXEC_EVAL_H

#include "runtime/exec/kernel.h"

/*
 * node->op is set; `in` has [node->n_in] tensors with data (dtype QN_NONE for
 * absent ones). Outputs [node->n_out] get dtype, shape and data from `region`
 * (also scratch memory). `strings` may be NULL if no kernel reads or makes any.
 * Control flow is refused with QN_UNSUPPORTED. The error names the node.
 */
QN_NODISCARD qn_status qn_eval_node(const qn_node *node, const qn_tensor *in,
                                    qn_tensor *out, qn_strings *strings,
                                    qn_region *region, qn_error *err);

/* Element types and shapes of the outputs only. */
QN_NODISCARD qn_status qn_eval_infer(const qn_node *node, const qn_tensor *in,
                                     qn_tensor *out, qn_error *err);

/* Chooses the kernel from node->op and the inputs' types. */
QN_NODISCARD qn_status qn_eval_kernel(const qn_node *node, const qn_tensor *in,
                                      const qn_kernel **out, qn_error *err);

#endif

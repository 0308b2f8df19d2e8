/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens to a finished graph before static memory is laid out. Each pass
 * takes the tree of graphs, changes it in place, and keeps it finished: sorted,
 * typed, every node with its operator. One thread; the graph is not shared yet.
 */
#ifndef QN_PASSES_PASSES_H
#define QN_PASSES_PASSES_H

#include "runtime/exec/session.h"

/*
 * Fold nodes whose inputs are all constants. Small results are computed now;
 * large ones become constants that are computed when static memory is filled,
 * straight into their place. A node that fails keeps its place and fails when
 * it runs, as it would have. Counts into report->folded_nodes.
 */
QN_NODISCARD qn_status qn_pass_fold(qn_graph *graph, qn_static_report *report,
                                    qn_error *err);

/* Choose the cpu kernel of every node; QN_UNSUPPORTED names operator, opset,
 * node and type. */
QN_NODISCARD qn_status qn_pass_kernels(qn_graph *graph, qn_error *err);

/*
 * Which inputs of the main graph decide shapes inside it by their value:
 * out[graph->n_inputs]. Follows shape inputs and conditions back through
 * arithmetic to integer inputs of rank 0 or 1; those of other types count only
 * where they are read for a shape themselves. What depends on inputs left out
 * is found when a request runs.
 */
QN_NODISCARD qn_status qn_pass_key_inputs(const qn_graph *graph, bool *out,
                                          qn_error *err);

/* Fold BatchNormalization into the Conv before it. Counts into
 * report->fused_nodes. */
QN_NODISCARD qn_status qn_pass_batchnorm(qn_graph *graph,
                                         qn_static_report *report,
                                         qn_error *err);

/* Give nodes that the session's accelerators have kernels for to them. Counts
 * into report.accel_kernels. */
QN_NODISCARD qn_status qn_pass_place(qn_session *session, qn_error *err);

/* Keep rank-4 values between convolutions and their like channels-last. */
QN_NODISCARD qn_status qn_pass_order(qn_graph *graph, qn_error *err);

/* Copy what attributes still need from the model file, which is closed soon. */
QN_NODISCARD qn_status qn_pass_keep_attributes(qn_graph *graph, qn_error *err);

/* Shared: uses of each value of one graph, captures and outputs included;
 * out[graph->n_values]. */
void qn_count_uses(const qn_graph *graph, uint32_t *out);
/* After nodes were dropped or inserted: node->index and value->node. */
void qn_graph_renumber(qn_graph *graph);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model that is split into parts, one a rank, as one graph. Whoever plans and
 * runs it sees everything at once: a collective is a single node, so no rank
 * waits for another, and nothing can wait in a circle.
 *
 *   rank 0:  a  AllReduce  b              a0 a1 AllReduce(a0, a1) b0 b1
 *   rank 1:  a  AllReduce  b
 */
#ifndef QN_GRAPH_RANKS_H
#define QN_GRAPH_RANKS_H

#include "runtime/graph/graph.h"

/*
 * Merge parts[0..n), finished main graphs, 1 to QN_GRAPH_RANKS of them, into
 * *out, which is finished too. Takes all of them in every case; *out is NULL
 * after an error.
 *
 *   inputs    of one name are one: type, dimensions and default have to agree
 *   outputs   of one name: the lowest rank's is kept, types have to agree
 *   nodes     keep their rank's order, and get their rank
 *   collectives  the k-th of each rank are one node; kind, attributes and number
 *             of tensors have to agree, and the lists to be of one length
 *
 * QN_INVALID (n, or what does not agree: both values, inputs or nodes are
 * named), QN_UNSUPPORTED (a collective in the body of another node),
 * QN_NO_MEMORY, and what qn_graph_finish() finds.
 */
QN_NODISCARD qn_status qn_graph_merge(qn_graph **parts, uint32_t n,
                                      qn_graph **out, qn_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Private to runtime/graph/: the two halves of qn_graph_finish(). */
#ifndef QN_GRAPH_FINISH_H
#define QN_GRAPH_FINISH_H

#include "runtime/graph/graph.h"

/*
 * Find every node's operator, check counts and element types, derive the types
 * of all values in execution order. The graph's structure is complete.
 * QN_UNSUPPORTED (operator, opset and node), QN_FORMAT, QN_TYPE, and whatever
 * an operator's check() reports, with the node in front.
 */
QN_NODISCARD qn_status qn_graph_types(qn_graph *graph, qn_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel graphs built by hand, for tests of planning and running. */
#ifndef QN_TESTS_SUPPORT_GRAPH_H
#define QN_TESTS_SUPPORT_GRAPH_H

#include "runtime/graph/graph.h"

/* All of these fail the test on an error. dims: -1 is dynamic. */
qn_graph *tg_new(qn_graph *parent);
qn_value_id tg_input(qn_graph *g, const char *name, qn_dtype dtype, int rank,
                     const int64_t *dims);
/* The data are borrowed until the session is made. */
qn_value_id tg_const(qn_graph *g, qn_dtype dtype, int rank, const int64_t *dims,
                     const void *data);
/* op(in[0..n)) of opset 18 -> one new value. */
qn_value_id tg_op(qn_graph *g, const char *op, int n, const qn_value_id *in);
qn_value_id tg_op1(qn_graph *g, const char *op, qn_value_id a);
qn_value_id tg_op2(qn_graph *g, const char *op, qn_value_id a, qn_value_id b);
/* The node that produces a value, to give it attributes before tg_finish(). */
void tg_attr_int(qn_graph *g, qn_value_id of, const char *name, int64_t value);
/* Copied into the graph's region. */
void tg_attr_ints(qn_graph *g, qn_value_id of, const char *name, size_t n,
                  const int64_t *values);
void tg_attr_graph(qn_graph *g, qn_value_id of, const char *name,
                   qn_graph *child);
void tg_output(qn_graph *g, qn_value_id value, const char *name);
qn_value_id tg_capture(qn_graph *g, qn_value_id outer);
void tg_finish(qn_graph *g);

#endif

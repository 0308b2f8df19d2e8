/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives: how the parts of a model that is split exchange tensors. Four
 * operators of domain ai.quern, opset 1, each with m tensors in and m out:
 *
 *   AllReduce      y = x0 op x1 op ..., on every rank    attribute op
 *   AllGather      y = x0, x1, ... behind each other on axis 0, on every rank
 *   ReduceScatter  the ranks' shares, along axis 0, of the reduced tensor
 *                                                        attribute op
 *   Broadcast      y = the x of rank `root`, on every rank
 *
 * `op` is sum (the default), prod, min, max or avg. Only axis 0 is there: along
 * it the pieces of a dense tensor lie behind each other, which is what devices
 * exchange; a Transpose before or behind does for other axes.
 *
 * In the file of one part a node has its part's m tensors. Merged
 * (graph/ranks.h) the R nodes of all parts are one: attribute `ranks` = R, and
 * R times m inputs and outputs, rank by rank. Without the attribute there is one
 * rank, and a collective is a copy.
 */
#ifndef QN_OPS_COLLECTIVE_H
#define QN_OPS_COLLECTIVE_H

#include "runtime/graph/graph.h"

typedef enum qn_collective {
    QN_ALL_REDUCE, QN_ALL_GATHER, QN_REDUCE_SCATTER, QN_BROADCAST
} qn_collective;

/* Of integers sums and products wrap, and averages are truncated. Of floats a
 * NaN loses to a number in min and max. */
typedef enum qn_reduction {
    QN_REDUCE_SUM, QN_REDUCE_PROD, QN_REDUCE_MIN, QN_REDUCE_MAX, QN_REDUCE_AVG
} qn_reduction;

typedef struct qn_collective_node {
    qn_collective kind;
    qn_reduction reduction; /* of AllReduce and ReduceScatter */
    uint32_t root;          /* of Broadcast */
    uint32_t ranks;
    uint32_t tensors; /* of each rank: number k of rank r is argument
                         r * tensors + k */
} qn_collective_node;

bool qn_is_collective(const qn_node *node);

/* QN_INVALID, QN_UNSUPPORTED (another axis), QN_FORMAT (counts), without the
 * node's name. */
QN_NODISCARD qn_status qn_collective_read(const qn_node *node,
                                          qn_collective_node *out,
                                          qn_error *err);

/* Of a collective that has been read: which rank has argument i. */
static inline uint32_t qn_collective_rank(const qn_collective_node *c,
                                          uint32_t i)
{
    return i / c->tensors;
}

/* Space in which argument i, input or output, of a placed node has to be. */
uint8_t qn_node_space(const qn_node *node, uint32_t i);

#endif

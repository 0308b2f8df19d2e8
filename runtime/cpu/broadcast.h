/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walking tensors that broadcast together, without index arithmetic per
 * element: dimensions that every operand crosses alike are merged, so what is
 * left is a short odometer over rows, and in a row each operand either moves by
 * one element or stays. Equal shapes become one row, a scalar operand too, a
 * bias along the last axis one row per pixel.
 */
#ifndef QN_CPU_BROADCAST_H
#define QN_CPU_BROADCAST_H

#include "runtime/base/shape.h"

enum { QN_BCAST_MAX = 3 }; /* operands */

typedef struct qn_bcast {
    int n;         /* operands */
    int rank;      /* 1 or more */
    int64_t total; /* elements of the output */
    int64_t dims[QN_MAX_RANK];
    /* Elements to move for one step along a dimension. The last one is 1 or 0;
     * it is 0 for all operands only where total is at most 1. */
    int64_t stride[QN_BCAST_MAX][QN_MAX_RANK];
} qn_bcast;

/* Operands of `shapes` [n] against the output's shape; accepted shapes only
 * (qn_shape_broadcast of all of them gives `out`, or a part of it). */
void qn_bcast_init(qn_bcast *b, const qn_shape *out, int n,
                   const qn_shape *const *shapes);

/* One row, or a part of one: output elements [at, at + n), operand k from
 * element from[k] on. */
typedef void (*qn_bcast_row)(void *arg, const int64_t *from, int64_t at,
                             int64_t n);

/* Rows of output elements [begin, end), in order. */
void qn_bcast_walk(const qn_bcast *b, int64_t begin, int64_t end,
                   qn_bcast_row row, void *arg);

/* The step of operand k within a row: 0 or 1. */
static inline int64_t qn_bcast_step(const qn_bcast *b, int k)
{
    return b->stride[k][b->rank - 1];
}

#endif

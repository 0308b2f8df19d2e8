/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments of kernels/scatter.cu. An update is a row of `run` units (elements
 * where values are reduced); it goes to a row of the data, its target.
 */
#ifndef QN_CUDA_KERNELS_SCATTER_H
#define QN_CUDA_KERNELS_SCATTER_H

#include "runtime/cuda/kernels/fastdiv.h"
#include "runtime/cuda/kernels/fault.h"

enum { QN_SCATTER_DIMS = 10 };

enum qn_scatter_op {
    QN_SCATTER_NONE,
    QN_SCATTER_ADD,
    QN_SCATTER_MUL,
    QN_SCATTER_MAX,
    QN_SCATTER_MIN
};

struct qn_scatter_args {
    struct qn_fault_args fault;
    const void *index, *src;
    void *dst;
    uint32_t *last; /* [targets] zeroed: update number + 1; NULL: only check */
    uint32_t *next; /* [n] lists of the updates of a target; 0: end */
    uint32_t *head; /* [n] first of a list, at one of its members; else 0 */
    int64_t n;      /* updates, below 2^31 */
    int64_t run, total; /* total = n * run */
    struct qn_fastdiv by_run;
    uint32_t wide; /* total is 2^31 or more */
    uint32_t op, dtype, unit; /* unit: bytes, for NONE */
    uint32_t index32, tuples; /* tuples: ScatterND */
    int32_t rank;  /* dimensions of the index, or indices in a tuple */
    /* Elements: dimension 0 is the innermost of the index, `stride` is 0 on the
     * axis; `dim` and `along` are the axis. Tuples: each index has dims[],
     * stride[]. Strides count targets. */
    int64_t dim, along;
    struct qn_fastdiv div[QN_SCATTER_DIMS];
    int64_t dims[QN_SCATTER_DIMS], stride[QN_SCATTER_DIMS];
};

#endif

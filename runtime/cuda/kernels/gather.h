/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of kernels/gather.cu. Counts of data are in units of 1, 2, 4, 8 or
 * 16 bytes; divisors are set where `wide` is 0, which says that n < 2^31. */
#ifndef QN_CUDA_KERNELS_GATHER_H
#define QN_CUDA_KERNELS_GATHER_H

#include "runtime/cuda/kernels/fastdiv.h"
#include "runtime/cuda/kernels/fault.h"

enum { QN_GATHER_DIMS = 10 };

/* [outer, dim, run] by `count` indices -> [outer, count, run] */
struct qn_gather_args {
    struct qn_fault_args fault;
    const void *src, *index;
    void *dst;
    int64_t n; /* outer * count * run */
    int64_t count, dim, run;
    struct qn_fastdiv by_count, by_run;
    int32_t axis;
    uint32_t unit, wide, index32; /* index32: indices have 4 bytes, else 8 */
};

/* One element for each index. Dimension 0 is the innermost of the index. */
struct qn_gather_elements_args {
    struct qn_fault_args fault;
    const void *src, *index;
    void *dst;
    int64_t n;
    int64_t dim, along; /* length and stride of the data on the axis */
    int32_t axis, rank;
    uint32_t unit, wide, index32;
    struct qn_fastdiv div[QN_GATHER_DIMS];
    int64_t size[QN_GATHER_DIMS];
    int64_t stride[QN_GATHER_DIMS]; /* of the data; 0 on the axis */
};

/* `tuples` tuples of `depth` indices, each names `run` units. */
struct qn_gather_nd_args {
    struct qn_fault_args fault;
    const void *src, *index;
    void *dst;
    int64_t n; /* tuples * run */
    int64_t run, per_batch; /* tuples that share a batch of the data */
    int64_t batch; /* stride of the data */
    struct qn_fastdiv by_run, by_batch;
    int32_t depth, axis; /* axis: of the first index of a tuple */
    uint32_t unit, wide;
    int64_t dim[QN_GATHER_DIMS], stride[QN_GATHER_DIMS];
};

/* Only look whether indices are in range: where nothing is moved. */
struct qn_gather_check_args {
    struct qn_fault_args fault;
    const void *index;
    int64_t n; /* indices: tuples * depth */
    int32_t depth, axis;
    uint32_t index32;
    int64_t dim[QN_GATHER_DIMS];
};

#endif

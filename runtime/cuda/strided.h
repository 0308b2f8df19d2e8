/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copy between two strided views of one shape, on the device: what Transpose,
 * Slice, Expand, Tile, DepthToSpace come down to. As runtime/cpu/strided.h.
 */
#ifndef QN_CUDA_STRIDED_H
#define QN_CUDA_STRIDED_H

#include "runtime/cuda/kernel.h"
#include "runtime/cuda/kernels/strided.h"
#include "runtime/ops/move.h"

/* Zero-initialise. */
typedef struct qn_loops {
    int rank;
    int64_t dims[QN_STRIDED_DIMS], in[QN_STRIDED_DIMS], out[QN_STRIDED_DIMS];
} qn_loops;

/* A loop more; strides in elements, 0 or negative ones in the input too. Order
 * does not matter. At most QN_STRIDED_DIMS loops of other than one turn. */
void qn_loops_add(qn_loops *l, int64_t dim, int64_t in, int64_t out);

typedef enum qn_strided_way {
    QN_WAY_NOTHING, /* no elements */
    QN_WAY_COPY,    /* one run of bytes */
    QN_WAY_UNITS,
    QN_WAY_VECTORS,
    QN_WAY_TILES
} qn_strided_way;

/* How a copy is done where addresses are multiples of `align`. */
typedef struct qn_strided_plan {
    qn_strided_way way;
    size_t align;
    int64_t bytes; /* COPY */
    qn_cuda_grid grid;
    union {
        struct qn_strided_args units;
        struct qn_tile_args tiles;
    } args;
} qn_strided_plan;

/* A copy that is ready: a kernel's state, or a part of it. */
typedef struct qn_strided {
    const qn_accel *accel;
    const qn_cuda_fn *units, *vectors, *tiles;
    qn_loops loops;
    size_t size;
    int64_t offset; /* of the first element in the input, in bytes */
    qn_strided_plan plan;
} qn_strided;

/* Find the functions, plan for aligned addresses. `size`: of an element, 1, 2,
 * 4, 8 or 16 bytes; `offset` in elements. Both views lie inside their tensors;
 * the output's elements are distinct and do not overlap the input. prepare()
 * only. QN_TOO_LARGE: a dimension that no grid covers. */
QN_NODISCARD qn_status qn_strided_init(qn_strided *s, qn_accel *accel,
                                       const qn_loops *l, size_t size,
                                       int64_t offset, qn_error *err);
/* Enqueue. `in`, `out`: the tensors' first elements. */
QN_NODISCARD qn_status qn_strided_launch(const qn_launch *k,
                                         const qn_strided *s, const void *in,
                                         void *out);

/* ---- for all kernels that move bytes ---- */

/* The largest power of two, at most `limit`, that divides v. */
size_t qn_align_of(uint64_t v, size_t limit);

#endif

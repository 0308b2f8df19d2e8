/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the operators that only move elements share between their shape rules
 * (runtime/ops/) and their kernels on each device: type sets by version, and
 * arguments resolved from attributes and input values into one plain struct.
 *
 * The resolving functions read node, n_in and in[] of a qn_infer; input shapes
 * are logical. They check everything that came from the model or the request.
 */
#ifndef QN_OPS_MOVE_H
#define QN_OPS_MOVE_H

#include "runtime/ops/op.h"

/* "All tensor types" as the specification widened it, by opset. */
#define QN_TYPES_V13 (QN_TYPES_CLASSIC | QN_BIT(BF16))
#define QN_TYPES_V19 (QN_TYPES_V13 | QN_TYPES_F8)
#define QN_TYPES_V21 (QN_TYPES_V19 | QN_BIT(U4) | QN_BIT(I4))
#define QN_TYPES_V23 (QN_TYPES_V21 | QN_BIT(F4E2M1))
#define QN_TYPES_V24 (QN_TYPES_V23 | QN_BIT(F8E8M0))
#define QN_TYPES_V25 (QN_TYPES_V24 | QN_BIT(U2) | QN_BIT(I2))

/* Place in memory of logical axis `axis` of a node's tensor of this rank. */
static inline int qn_memory_axis(const qn_node *node, int rank, int axis)
{
    static const int nhwc[4] = { 0, 3, 1, 2 };
    return node->order == QN_ORDER_NHWC && rank == 4 ? nhwc[axis] : axis;
}

/* N C H W from the shape in memory of a node's tensor. */
static inline qn_shape qn_node_logical_shape(const qn_node *node,
                                        const qn_shape *memory)
{
    qn_shape s = { .rank = memory->rank };
    for (int i = 0; i < s.rank; i++)
        s.dims[i] = memory->dims[qn_memory_axis(node, s.rank, i)];
    return s;
}

/* Attribute `name` (attr) or, if that is NULL, input i as distinct axes in
 * [0, rank). *given is false where there is none. */
QN_NODISCARD qn_status qn_read_axes(const qn_infer *in, const char *attr,
                                    uint32_t i, int rank,
                                    int axes[QN_MAX_RANK], size_t *n,
                                    bool *given, qn_error *err);

/* The first element of input i, of any real type, as a double. */
QN_NODISCARD qn_status qn_read_scalar(const qn_infer *in, uint32_t i,
                                      double *out, qn_error *err);

/* QN_TOO_LARGE unless output i has a number of bytes that can be addressed. */
QN_NODISCARD qn_status qn_check_output(const qn_infer *in, uint32_t i,
                                       qn_error *err);

/* ---- Shape ---- */

/* Axes [first, last) whose sizes Shape gives, by `start` and `end`. */
void qn_shape_range(const qn_node *node, int rank, int *first, int *last);

/* Row-major strides in elements. */
void qn_strides(const qn_shape *shape, int64_t strides[QN_MAX_RANK]);

/* A loop of a copy: its turns, and what one more of them is in elements of the
 * input and of the output. */
typedef struct qn_copy_loop {
    int64_t n, in, out;
} qn_copy_loop;

/* ---- DepthToSpace, SpaceToDepth ---- */

enum { QN_BLOCK_LOOPS = 6 };
/* The loops of either, over accepted shapes. */
void qn_block_loops(const qn_node *node, const qn_shape *in,
                    const qn_shape *out, qn_copy_loop loops[QN_BLOCK_LOOPS]);

/* ---- Transpose ---- */

/* perm[i]: which input axis output axis i is. */
QN_NODISCARD qn_status qn_transpose_perm(const qn_node *node, int rank,
                                         int perm[QN_MAX_RANK], qn_error *err);

/* ---- Split ---- */

/* Length along the axis, of `dim` in all, of output i of n_out: of omitted ones
 * too, which have no shape. infer() has accepted the node and its inputs; input 1
 * has its values. */
int64_t qn_split_size(const qn_node *node, uint32_t n_in, const qn_tensor *in,
                      int64_t dim, uint32_t n_out, uint32_t i);

/* ---- Slice ---- */

/* Output index k of axis d is input index start[d] + k * step[d]. */
typedef struct qn_slice {
    int64_t start[QN_MAX_RANK], step[QN_MAX_RANK], count[QN_MAX_RANK];
} qn_slice;

QN_NODISCARD qn_status qn_slice_resolve(const qn_infer *in, qn_slice *out,
                                        qn_error *err);

/* ---- Pad ---- */

typedef enum qn_pad_mode {
    QN_PAD_CONSTANT,
    QN_PAD_REFLECT,
    QN_PAD_EDGE,
    QN_PAD_WRAP
} qn_pad_mode;

typedef struct qn_pad {
    qn_pad_mode mode;
    int64_t before[QN_MAX_RANK], after[QN_MAX_RANK]; /* negative: cut off */
} qn_pad;

QN_NODISCARD qn_status qn_pad_resolve(const qn_infer *in, qn_pad *out,
                                      qn_error *err);

#endif

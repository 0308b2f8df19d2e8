/* SPDX-License-Identifier: Apache-2.0 */
/* What the reduction kernels share. */
#ifndef QN_CPU_REDUCE_H
#define QN_CPU_REDUCE_H

#include "runtime/exec/kernel.h"

typedef enum qn_reduce_kind {
    QN_REDUCE_SUM,
    QN_REDUCE_MEAN,
    QN_REDUCE_MAX,
    QN_REDUCE_MIN,
    QN_REDUCE_PROD,
    QN_REDUCE_L1,
    QN_REDUCE_L2,
    QN_REDUCE_SUM_SQUARE,
    QN_REDUCE_LOG_SUM,
    QN_REDUCE_LOG_SUM_EXP
} qn_reduce_kind;

/*
 * A reduction with axes of one element dropped and neighbours of one kind
 * merged. Sizes and strides (in elements) run outermost first; output o is the
 * row-major index over `kept`.
 */
typedef struct qn_reduce_view {
    qn_reduce_kind kind;
    qn_dtype dtype;
    const void *x;
    void *y;
    int n_kept, n_folded;
    int64_t kept[QN_MAX_RANK], kept_stride[QN_MAX_RANK];
    int64_t folded[QN_MAX_RANK], folded_stride[QN_MAX_RANK];
    int64_t outputs, count; /* elements kept, elements folded into each */
} qn_reduce_view;

/* Set everything of *v that follows from a shape and the axes to fold. */
void qn_reduce_split(qn_reduce_view *v, const qn_shape *shape, uint32_t mask);

/* Offset in elements of position `index` over n sizes and strides. */
static inline int64_t qn_reduce_offset(int n, const int64_t *sizes,
                                       const int64_t *strides, int64_t index)
{
    int64_t offset = 0;
    for (int i = n - 1; i > 0; i--) {
        offset += index % sizes[i] * strides[i];
        index /= sizes[i];
    }
    return n > 0 ? offset + index * strides[0] : 0;
}

/* Outputs [begin, end) of any type and kind, element by element. Floats fold in
 * double, integers in 64 bits that wrap. */
void qn_reduce_plain(const qn_reduce_view *v, int64_t begin, int64_t end);

#endif

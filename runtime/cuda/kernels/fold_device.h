/* SPDX-License-Identifier: Apache-2.0 */
/* Device side of fold.h. */
#ifndef QN_CUDA_KERNELS_FOLD_DEVICE_H
#define QN_CUDA_KERNELS_FOLD_DEVICE_H

#include "runtime/cuda/kernels/fold.h"
#include "runtime/cuda/kernels/number.h"

/* Offset in elements of position `index` over n sizes and strides. */
QN_DEVICE int64_t qn_fold_offset(int n, const int64_t *sizes,
                                         const int64_t *strides, int64_t index)
{
    if (n <= 0)
        return 0;
    if (n == 1)
        return index * strides[0];
    int64_t offset = 0;
    for (int i = n - 1; i > 0; i--) {
        int64_t size = sizes[i], above = qn_divide(index, size);
        offset += (index - above * size) * strides[i];
        index = above;
    }
    return offset + index * strides[0];
}

/* Where a thread stands in its block. */
struct qn_fold_lane {
    int column, part;
    int first, step; /* slots of the column's threads in shared memory */
    bool warp;       /* a column's threads are in one warp */
};

QN_DEVICE qn_fold_lane qn_fold_here(const qn_fold &f)
{
    int t = (int)threadIdx.x;
    qn_fold_lane l;
    if (f.by_rows) {
        l.column = t / f.depth;
        l.part = t - l.column * f.depth;
        l.first = l.column * f.depth;
        l.step = 1;
    } else {
        l.part = t / f.width;
        l.column = t - l.part * f.width;
        l.first = l.column;
        l.step = f.width;
    }
    l.warp = f.by_rows && f.depth <= 32;
    return l;
}

/* Columns of one warp each. */
QN_DEVICE qn_fold_lane qn_fold_warp()
{
    qn_fold_lane l;
    l.column = (int)threadIdx.x / 32;
    l.part = (int)threadIdx.x % 32;
    l.first = l.column * 32;
    l.step = 1;
    l.warp = true;
    return l;
}

QN_DEVICE void qn_fold_sync(const qn_fold_lane &l)
{
    if (l.warp)
        __syncwarp();
    else
        __syncthreads();
}

/*
 * Fold the values of a column's `depth` threads; all get the result. `slots`:
 * shared, one per thread. Every thread of the block takes part. The order is a
 * tree, the same each time.
 */
template <class A, class Merge>
QN_DEVICE A qn_fold_column(A mine, int depth, const qn_fold_lane &l,
                                   A *slots, Merge merge)
{
    int at = l.first + l.part * l.step;
    slots[at] = mine;
    qn_fold_sync(l);
    for (int half = depth / 2; half; half /= 2) {
        if (l.part < half)
            slots[at] = merge(slots[at], slots[at + half * l.step]);
        qn_fold_sync(l);
    }
    A all = slots[l.first];
    qn_fold_sync(l);
    return all;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The largest or smallest element and where it is. Ties go to the first, or the
 * last, position. NaN beats every number. Device code.
 */
#ifndef QN_CUDA_KERNELS_BEST_H
#define QN_CUDA_KERNELS_BEST_H

#include "runtime/cuda/kernels/number.h"

template <class C> struct qn_best {
    C value;
    int64_t index; /* -1: none */
};

template <class C> QN_DEVICE qn_best<C> qn_best_none()
{
    qn_best<C> b = { 0, -1 };
    return b;
}

template <class C> QN_DEVICE qn_best<C> qn_best_of(C value, int64_t index)
{
    qn_best<C> b = { value, index };
    return b;
}

/* Does not depend on the order of its arguments, so any tree of merges gives
 * one answer. */
template <class N, bool min, bool last>
__device__ inline qn_best<typename N::C>
qn_best_merge(qn_best<typename N::C> a, qn_best<typename N::C> b)
{
    if (a.index < 0 || b.index < 0)
        return a.index < 0 ? b : a;
    bool nan_a = N::is_nan(a.value), nan_b = N::is_nan(b.value);
    bool before = nan_a ? !nan_b
                        : !nan_b && (min ? a.value < b.value
                                         : a.value > b.value);
    bool after = nan_b ? !nan_a
                       : !nan_a && (min ? b.value < a.value
                                        : b.value > a.value);
    if (before != after)
        return before ? a : b;
    return (a.index < b.index) != last ? a : b;
}

#endif

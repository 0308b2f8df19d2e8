/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MaxUnpool: values go where indices say. Where several go to one place the
 * last one stays, as if they were written in order: a first launch finds out
 * which that is, a second one writes.
 */
#include "runtime/cuda/kernels/unpool.h"

#include "runtime/cuda/kernels/number.h"

/* Flat index over `from` as flat index over `to`; -1 outside of either. */
QN_DEVICE int64_t moved(const struct qn_unpool_args &a, int64_t index)
{
    int64_t out = 0, stride = 1;
    if (index < 0)
        return -1;
    for (int i = a.rank - 1; i >= 0; i--) {
        int64_t above = qn_divide(index, a.from[i]);
        int64_t at = index - above * a.from[i];
        if (at >= a.to[i])
            return -1;
        out += at * stride;
        stride *= a.to[i];
        index = above;
    }
    return index ? -1 : out;
}

QN_KERNEL(unpool_claim, struct qn_unpool_args, a)
{
    for (int64_t i = qn_global_index(); i < a.count; i += qn_global_threads()) {
        int64_t at = a.cells ? moved(a, a.indices[i]) : -1;
        if (at < 0)
            qn_device_fault(a.fault, QN_DEVICE_FAULT_INDEX, a.indices[i],
                            a.cells);
        else
            atomicMax(a.owner + at, (unsigned long long)i + 1);
    }
}

template <class T>
QN_DEVICE void write(const struct qn_unpool_args &a, int64_t at, int64_t i)
{
    ((T *)a.y)[at] = ((const T *)a.x)[i];
}

QN_KERNEL(unpool_write, struct qn_unpool_args, a)
{
    for (int64_t i = qn_global_index(); i < a.count; i += qn_global_threads()) {
        int64_t at = a.cells ? moved(a, a.indices[i]) : -1;
        if (at < 0 || a.owner[at] != (unsigned long long)i + 1)
            continue;
        if (a.size == 2)
            write<uint16_t>(a, at, i);
        else if (a.size == 4)
            write<uint32_t>(a, at, i);
        else
            write<uint64_t>(a, at, i);
    }
}

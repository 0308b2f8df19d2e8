/* SPDX-License-Identifier: Apache-2.0 */
/* Reading by index: each thread finds the place of its units. */
#include "runtime/cuda/kernels/gather.h"

#include "runtime/cuda/kernels/unit.h"

QN_DEVICE int64_t index_at(const void *index, uint32_t index32,
                                   int64_t i)
{
    return index32 ? ((const int32_t *)index)[i] : ((const int64_t *)index)[i];
}

/* The index counted from 0; -1, and a fault, if it is out of range. */
QN_DEVICE int64_t checked(const qn_fault_args &fault, int64_t v,
                                  int64_t dim)
{
    if (v < -dim || v >= dim) {
        qn_device_fault(fault, QN_DEVICE_FAULT_INDEX, v, dim);
        return -1;
    }
    return v < 0 ? v + dim : v;
}

template <bool WIDE> struct move_rows {
    const qn_gather_args &a;
    template <typename T> __device__ T *one(int64_t i, T *v) const
    {
        int64_t column, item, outer;
        item = qn_split_index<WIDE>(a.by_run, i, &column);
        outer = qn_split_index<WIDE>(a.by_count, item, &item);
        int64_t at =
            checked(a.fault, index_at(a.index, a.index32, item), a.dim);
        if (at < 0)
            return (T *)nullptr;
        *v = ((const T *)a.src)[(outer * a.dim + at) * a.run + column];
        return (T *)a.dst + i;
    }
};

QN_KERNEL(qn_gather, qn_gather_args, a)
{
    if (a.wide)
        qn_move_units(a.unit, a.n, move_rows<true>{ a });
    else
        qn_move_units(a.unit, a.n, move_rows<false>{ a });
}

template <bool WIDE> struct move_elements {
    const qn_gather_elements_args &a;
    template <typename T> __device__ T *one(int64_t i, T *v) const
    {
        int64_t at = checked(a.fault, index_at(a.index, a.index32, i), a.dim);
        int64_t from = at * a.along, rest = i;
        if (at < 0)
            return (T *)nullptr;
        QN_ONE_BY_ONE
        for (int d = 0; d < a.rank; d++) {
            int64_t x;
            rest = qn_split_index<WIDE>(a.div[d], rest, &x);
            from += x * a.stride[d];
        }
        *v = ((const T *)a.src)[from];
        return (T *)a.dst + i;
    }
};

QN_KERNEL(qn_gather_elements, qn_gather_elements_args, a)
{
    if (a.wide)
        qn_move_units(a.unit, a.n, move_elements<true>{ a });
    else
        qn_move_units(a.unit, a.n, move_elements<false>{ a });
}

template <bool WIDE> struct move_tuples {
    const qn_gather_nd_args &a;
    template <typename T> __device__ T *one(int64_t i, T *v) const
    {
        int64_t column, rest,
            tuple = qn_split_index<WIDE>(a.by_run, i, &column);
        int64_t from = qn_split_index<WIDE>(a.by_batch, tuple, &rest) * a.batch;
        const int64_t *index = (const int64_t *)a.index + tuple * a.depth;
        QN_ONE_BY_ONE
        for (int d = 0; d < a.depth; d++) {
            int64_t at = checked(a.fault, index[d], a.dim[d]);
            if (at < 0)
                return (T *)nullptr;
            from += at * a.stride[d];
        }
        *v = ((const T *)a.src)[from + column];
        return (T *)a.dst + i;
    }
};

QN_KERNEL(qn_gather_nd, qn_gather_nd_args, a)
{
    if (a.wide)
        qn_move_units(a.unit, a.n, move_tuples<true>{ a });
    else
        qn_move_units(a.unit, a.n, move_tuples<false>{ a });
}

QN_KERNEL(qn_gather_check, qn_gather_check_args, a)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i < a.n; i += step)
        checked(a.fault, index_at(a.index, a.index32, i), a.dim[i % a.depth]);
}

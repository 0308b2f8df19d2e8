/* SPDX-License-Identifier: Apache-2.0 */
/* Concat and Split: a unit finds its part by bisection of their columns. */
#include "runtime/cuda/kernels/concat.h"

#include "runtime/cuda/kernels/unit.h"

template <bool WIDE> struct move_part {
    const qn_concat_args &a;
    template <typename T> __device__ T *one(int64_t i, T *v) const
    {
        int64_t column, row = qn_split_index<WIDE>(a.by_width, i, &column);
        int low = 0, high = (int)a.parts;
        column += a.at[0];
        QN_ONE_BY_ONE
        while (high - low > 1) {
            int middle = (low + high) / 2;
            if (a.at[middle] <= column)
                low = middle;
            else
                high = middle;
        }
        T *part = (T *)a.part[low];
        T *whole = (T *)a.whole + row * a.pitch + column;
        if (!part)
            return (T *)nullptr;
        part += row * (a.at[low + 1] - a.at[low]) + (column - a.at[low]);
        *v = a.split ? *whole : *part;
        return a.split ? part : whole;
    }
};

QN_KERNEL(qn_concat, qn_concat_args, a)
{
    if (a.wide)
        qn_move_units(a.unit, a.n, move_part<true>{ a });
    else
        qn_move_units(a.unit, a.n, move_part<false>{ a });
}

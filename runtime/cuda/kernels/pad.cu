/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pad. Each output index maps to an input index or to "outside":
 *
 *   reflect      ... 2 1 | 0 1 2 3 | 2 1 ...   (period 2 (n - 1))
 *   edge         ... 0 0 | 0 1 2 3 | 3 3 ...
 *   wrap         ... 2 3 | 0 1 2 3 | 0 1 ...
 */
#include "runtime/cuda/kernels/pad.h"

#include "runtime/cuda/kernels/unit.h"

enum { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP }; /* qn_pad_mode */

/* Index into the input, or -1 for "outside". */
QN_DEVICE int64_t source(const qn_pad_axis &x, uint32_t mode, int64_t o)
{
    int64_t i = o - x.before;
    if (i < 0 || i >= x.n)
        switch (mode) {
        case PAD_CONSTANT:
            return -1;
        case PAD_EDGE:
            i = i < 0 ? 0 : x.n - 1;
            break;
        case PAD_REFLECT: /* pads are below n, so one turn is enough */
            i = i < 0 ? -i : 2 * (x.n - 1) - i;
            break;
        default:
            i %= x.n;
            i += i < 0 ? x.n : 0;
            break;
        }
    return x.first + i;
}

template <bool WIDE> struct move_padded {
    const qn_pad_args &a;
    uint64_t low, high; /* the constant, as often as it goes into 16 bytes */
    template <typename T> __device__ T *one(int64_t o, T *v) const
    {
        T *to = (T *)a.dst + o;
        int64_t at = 0;
        bool outside = false;
        QN_ONE_BY_ONE
        for (int d = 0; d < a.rank; d++) {
            int64_t x;
            o = qn_split_index<WIDE>(a.axes[d].div, o, &x);
            x = source(a.axes[d], a.mode, x);
            outside = outside || x < 0;
            at += x * a.axes[d].stride;
        }
        if (outside)
            constant(v);
        else
            *v = ((const T *)a.src)[at];
        return to;
    }
    template <typename T> __device__ void constant(T *v) const
    {
        *v = (T)low;
    }
    __device__ void constant(qn_unit16 *v) const
    {
        v->a = low;
        v->b = high;
    }
};

/* 8 bytes of copies of the element of `size` bytes, from byte `from` on. */
QN_DEVICE uint64_t repeat(const unsigned char *value, uint32_t size,
                          uint32_t from)
{
    uint64_t v = 0;
    for (uint32_t i = 0; i < 8; i++)
        v |= (uint64_t)value[(from + i) & (size - 1)] << (8 * i);
    return v;
}

QN_KERNEL(qn_pad, qn_pad_args, a)
{
    const unsigned char *value =
        a.value ? (const unsigned char *)a.value : a.fill;
    uint64_t low = repeat(value, a.size, 0), high = repeat(value, a.size, 8);
    if (a.wide)
        qn_move_units(a.unit, a.n, move_padded<true>{ a, low, high });
    else
        qn_move_units(a.unit, a.n, move_padded<false>{ a, low, high });
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resize: maps of the resized axes first, then each output element by itself:
 * nearest copies a unit, linear and cubic add up nested sums over the axes, in
 * the order in which the cpu makes its passes. Products and sums are rounded
 * one by one, never fused: integers are cut, and what is an integer must stay
 * one.
 *
 * Cubic: R. Keys, Cubic convolution interpolation for digital image processing,
 * IEEE TASSP 29 (1981), with parameter a = cubic_coeff_a.
 */
#include "runtime/cuda/kernels/resize.h"

#include "runtime/cuda/kernels/unit.h"

/* as in runtime/ops/resize.h */
enum { MODE_NEAREST, MODE_LINEAR, MODE_CUBIC };
enum {
    HALF_PIXEL,
    HALF_PIXEL_SYMMETRIC,
    PYTORCH_HALF_PIXEL,
    ALIGN_CORNERS,
    ASYMMETRIC,
    TF_HALF_PIXEL_FOR_NN,
    TF_CROP_AND_RESIZE
};
enum { ROUND_PREFER_FLOOR, ROUND_PREFER_CEIL, ROUND_FLOOR, ROUND_CEIL, SIMPLE };

/* ---- maps ---- */

/* Coordinate in the input of output index o. */
QN_DEVICE float coordinate(uint32_t coords, const qn_resize_map &m, int64_t o,
                           bool *outside)
{
    float x = (float)o, in = (float)m.in;
    *outside = false;
    switch (coords) {
    case HALF_PIXEL:
        x = __fdiv_rn(x + 0.5f, m.scale) - 0.5f;
        break;
    case HALF_PIXEL_SYMMETRIC:
        x = __fadd_rn(__fmul_rn(in / 2.0f,
                                1.0f - __fdiv_rn((float)m.out, m.length)),
                      __fdiv_rn(x + 0.5f, m.scale)) -
            0.5f;
        break;
    case PYTORCH_HALF_PIXEL:
        x = m.out > 1 ? __fdiv_rn(x + 0.5f, m.scale) - 0.5f : 0.0f;
        break;
    case ALIGN_CORNERS:
        x = m.length == 1.0f
                ? 0.0f
                : __fdiv_rn(__fmul_rn(x, in - 1.0f), m.length - 1.0f);
        break;
    case ASYMMETRIC:
        x = __fdiv_rn(x, m.scale);
        break;
    case TF_HALF_PIXEL_FOR_NN:
        x = __fdiv_rn(x + 0.5f, m.scale);
        break;
    default:
        if (m.out > 1)
            x = __fadd_rn(__fmul_rn(m.roi_start, in - 1.0f),
                          __fdiv_rn(__fmul_rn(__fmul_rn(x, m.roi_end -
                                                               m.roi_start),
                                              in - 1.0f),
                                    (float)(m.out - 1)));
        else
            x = __fmul_rn(__fmul_rn(0.5f, m.roi_start + m.roi_end), in - 1.0f);
        *outside = !(x >= 0.0f && x <= in - 1.0f);
        break;
    }
    if (*outside)
        return 0.0f;
    /* whatever the arithmetic did, it converts to an integer */
    return x < -0x1p61f ? -0x1p61f : x > 0x1p61f ? 0x1p61f : x;
}

QN_DEVICE int64_t clamp(int64_t i, int64_t n)
{
    return i < 0 ? 0 : i >= n ? n - 1 : i;
}

QN_DEVICE int64_t nearest(uint32_t rule, const qn_resize_map &m, float x)
{
    float low = floorf(x);
    switch (rule) {
    case ROUND_PREFER_FLOOR:
        x = x == low + 0.5f ? low : roundf(x);
        break;
    case ROUND_PREFER_CEIL:
        x = x == low + 0.5f ? low + 1.0f : roundf(x);
        break;
    case ROUND_FLOOR:
        x = low;
        break;
    case ROUND_CEIL:
        x = ceilf(x);
        break;
    default: /* before opset 11: ceil when shrinking */
        x = m.scale < 1.0f ? ceilf(x) : low;
        break;
    }
    return clamp((int64_t)x, m.in);
}

/* In double: the cubic's terms cancel near its ends. */
QN_DEVICE double filter(uint32_t mode, double a, double distance)
{
    double x = fabs(distance), p;
    if (mode == MODE_LINEAR)
        return x < 1.0 ? 1.0 - x : 0.0;
    if (x <= 1.0) { /* ((a + 2) x - (a + 3)) x x + 1 */
        p = __dadd_rn(__dmul_rn(a + 2.0, x), -(a + 3.0));
        return __dadd_rn(__dmul_rn(__dmul_rn(p, x), x), 1.0);
    }
    if (!(x < 2.0))
        return 0.0;
    /* ((a x - 5 a) x + 8 a) x - 4 a */
    p = __dadd_rn(__dmul_rn(a, x), -__dmul_rn(5.0, a));
    p = __dadd_rn(__dmul_rn(p, x), __dmul_rn(8.0, a));
    return __dadd_rn(__dmul_rn(p, x), -__dmul_rn(4.0, a));
}

/* Linear without antialiasing: two neighbours, the coordinate kept inside. */
QN_DEVICE void linear_taps(const qn_resize_map &m, float x, int64_t *index,
                           float *weight)
{
    float last = (float)(m.in - 1);
    x = x < 0.0f ? 0.0f : x > last ? last : x;
    int64_t i = clamp((int64_t)x, m.in), j = clamp(i + 1, m.in);
    float w = j > i ? x - (float)i : 0.0f;
    index[0] = i;
    index[1] = j;
    weight[0] = 1.0f - w;
    weight[1] = w;
}

QN_DEVICE void filter_taps(const qn_resize_maps_args &a, const qn_resize_map &m,
                           float x, int64_t *index, float *weight)
{
    bool shrink = a.antialias && m.scale < 1.0f;
    double scale = shrink ? (double)m.scale : 1.0, sum = 0.0;
    int64_t first = (int64_t)floorf(x) - m.taps / 2 + 1;
    bool normalise = shrink || a.exclude_outside;
    for (int pass = 0; pass < (normalise ? 2 : 1); pass++)
        for (int64_t t = 0; t < m.taps; t++) {
            int64_t i = first + t;
            bool out = a.exclude_outside && (i < 0 || i >= m.in);
            double w = out ? 0.0
                           : filter(a.mode, (double)a.cubic_a,
                                    __dmul_rn((double)i - (double)x, scale));
            index[t] = clamp(i, m.in);
            weight[t] = (float)(pass && sum != 0.0 ? w / sum : w);
            sum += pass ? 0.0 : w;
        }
}

QN_KERNEL(qn_resize_maps, qn_resize_maps_args, a)
{
    const qn_resize_map &m = a.maps[blockIdx.y];
    for (int64_t o = qn_global_index(); o < m.out; o += qn_global_threads()) {
        int64_t *index = m.index + o * m.taps;
        bool outside;
        float x = coordinate(a.coords, m, o, &outside);
        m.outside[o] = outside;
        if (a.mode == MODE_NEAREST)
            index[0] = outside ? -1 : nearest(a.nearest, m, x);
        else if (a.mode == MODE_LINEAR && m.taps == 2)
            linear_taps(m, x, index, m.weight + o * m.taps);
        else
            filter_taps(a, m, x, index, m.weight + o * m.taps);
    }
}

/* ---- nearest ---- */

template <bool WIDE> struct move_nearest {
    const qn_resize_args &a;
    template <typename T> __device__ T *one(int64_t o, T *v) const
    {
        T *to = (T *)a.dst + o;
        int64_t at = 0;
        bool outside = false;
        QN_ONE_BY_ONE
        for (int d = 0; d < a.rank; d++) {
            int64_t x;
            o = qn_split_index<WIDE>(a.dims[d].div, o, &x);
            if (a.dims[d].map >= 0)
                x = a.maps[a.dims[d].map].index[x];
            outside = outside || x < 0;
            at += x * a.dims[d].stride;
        }
        if (outside)
            constant(v);
        else
            *v = ((const T *)a.src)[at];
        return to;
    }
    template <typename T> __device__ void constant(T *v) const
    {
        *v = (T)a.low;
    }
    __device__ void constant(qn_unit16 *v) const
    {
        v->a = a.low;
        v->b = a.high;
    }
};

QN_KERNEL(qn_resize_nearest, qn_resize_args, a)
{
    if (a.wide)
        qn_move_units(a.unit, a.n, move_nearest<true>{ a });
    else
        qn_move_units(a.unit, a.n, move_nearest<false>{ a });
}

/* ---- linear, cubic ---- */

QN_DEVICE float plus_times(float sum, float w, float v)
{
    return __fadd_rn(sum, __fmul_rn(w, v));
}
QN_DEVICE double plus_times(double sum, float w, double v)
{
    return __dadd_rn(sum, __dmul_rn((double)w, v));
}
QN_DEVICE float times(float w, float v)
{
    return __fmul_rn(w, v);
}
QN_DEVICE double times(float w, double v)
{
    return __dmul_rn((double)w, v);
}

/* Elements of type T, summed in C. */
template <class T> struct plain_type {
    typedef qn_acc<T> C;
    __device__ static C get(const qn_resize_args &a, int64_t i)
    {
        return qn_load((const T *)a.src, i);
    }
    __device__ static void put(const qn_resize_args &a, int64_t i, C v)
    {
        qn_store((T *)a.dst, i, v);
    }
};

/* v as an integer of T: cut, or rounded, and kept inside. `above` is the first
 * value past the top, exact in double. */
template <class T>
QN_DEVICE void put_int(const qn_resize_args &a, int64_t i, double v, double low,
                       double above)
{
    v = a.round ? rint(v) : trunc(v);
    ((T *)a.dst)[i] = !(v >= low) ? (T)low
                      : v >= above
                          ? (T)((T)(above * 0.5) + ((T)(above * 0.5) - 1))
                          : (T)v;
}

/* Integers, by a.dtype (qn_dtype). */
struct any_int {
    typedef double C;
    __device__ static C get(const qn_resize_args &a, int64_t i)
    {
        switch (a.dtype) {
        case 2: return (double)((const uint8_t *)a.src)[i];
        case 3: return (double)((const int8_t *)a.src)[i];
        case 4: return (double)((const uint16_t *)a.src)[i];
        case 5: return (double)((const int16_t *)a.src)[i];
        case 6: return (double)((const int32_t *)a.src)[i];
        case 7: return (double)((const int64_t *)a.src)[i];
        case 12: return (double)((const uint32_t *)a.src)[i];
        default: return (double)((const uint64_t *)a.src)[i];
        }
    }
    __device__ static void put(const qn_resize_args &a, int64_t i, C v)
    {
        switch (a.dtype) {
        case 2: put_int<uint8_t>(a, i, v, 0.0, 0x1p8); break;
        case 3: put_int<int8_t>(a, i, v, -0x1p7, 0x1p7); break;
        case 4: put_int<uint16_t>(a, i, v, 0.0, 0x1p16); break;
        case 5: put_int<int16_t>(a, i, v, -0x1p15, 0x1p15); break;
        case 6: put_int<int32_t>(a, i, v, -0x1p31, 0x1p31); break;
        case 7: put_int<int64_t>(a, i, v, -0x1p63, 0x1p63); break;
        case 12: put_int<uint32_t>(a, i, v, 0.0, 0x1p32); break;
        default: put_int<uint64_t>(a, i, v, 0.0, 0x1p64); break;
        }
    }
};

/* The sum over maps 0 .. N - 1, map N - 1 outermost; o: output indices by map.
 * Maps that there are not have one tap of weight 1. */
template <class E, int N> struct nest {
    typedef typename E::C C;
    __device__ static C sum(const qn_resize_args &a, const int64_t *o,
                            int64_t at)
    {
        const qn_resize_map &m = a.maps[N - 1];
        const bool used = N <= a.passes;
        const int64_t taps = used ? m.taps : 1, first = o[N - 1] * m.taps;
        C s = 0;
        QN_ONE_BY_ONE
        for (int64_t t = 0; t < taps; t++) {
            int64_t i = used ? m.index[first + t] * a.stride[N - 1] : 0;
            float w = used ? m.weight[first + t] : 1.0f;
            C v = nest<E, N - 1>::sum(a, o, at + i);
            s = t ? plus_times(s, w, v) : times(w, v);
        }
        return s;
    }
};

template <class E> struct nest<E, 0> {
    __device__ static typename E::C sum(const qn_resize_args &a,
                                        const int64_t *, int64_t at)
    {
        return E::get(a, at);
    }
};

/* The same where all maps have two taps: all loads at once. */
template <class E, int N> struct pairs {
    typedef typename E::C C;
    __device__ static C sum(const qn_resize_args &a, const int64_t *o,
                            int64_t at)
    {
        const int64_t *index = a.maps[N - 1].index + 2 * o[N - 1];
        const float *weight = a.maps[N - 1].weight + 2 * o[N - 1];
        const int64_t stride = a.stride[N - 1];
        C u = pairs<E, N - 1>::sum(a, o, at + index[0] * stride);
        C v = pairs<E, N - 1>::sum(a, o, at + index[1] * stride);
        return plus_times(times(weight[0], u), weight[1], v);
    }
};

template <class E> struct pairs<E, 0> : nest<E, 0> {
};

/* Any number of maps: the loops of nest, counted by hand. */
template <class E> struct counted {
    typedef typename E::C C;
    __device__ static C sum(const qn_resize_args &a, const int64_t *o,
                            int64_t from)
    {
        C sums[QN_RESIZE_DIMS], v = 0;
        int64_t t[QN_RESIZE_DIMS] = { 0 };
        for (int p = 0; p < a.passes;) {
            int64_t at = from;
            QN_ONE_BY_ONE
            for (p = 0; p < a.passes; p++) {
                const qn_resize_map &m = a.maps[p];
                at += m.index[o[p] * m.taps + t[p]] * a.stride[p];
            }
            v = E::get(a, at);
            QN_ONE_BY_ONE
            for (p = 0; p < a.passes; p++) {
                const qn_resize_map &m = a.maps[p];
                float w = m.weight[o[p] * m.taps + t[p]];
                sums[p] = t[p] ? plus_times(sums[p], w, v) : times(w, v);
                if (++t[p] < m.taps)
                    break; /* this sum has more to come */
                v = sums[p];
                t[p] = 0;
            }
        }
        return v;
    }
};

/* S sums over N maps at most. */
template <class E, class S, int N> QN_DEVICE void blend(const qn_resize_args &a)
{
    for (int64_t i = qn_global_index(); i < a.n; i += qn_global_threads()) {
        int64_t o[N], rest = i, at = 0;
        bool outside = false;
        QN_UNROLL
        for (int p = 0; p < N; p++)
            o[p] = 0;
        QN_ONE_BY_ONE
        for (int d = 0; d < a.rank; d++) {
            const int map = a.dims[d].map;
            int64_t x, q = a.wide
                               ? qn_split_index<true>(a.dims[d].div, rest, &x)
                               : qn_split_index<false>(a.dims[d].div, rest, &x);
            rest = q;
            if (map < 0)
                at += x * a.dims[d].stride;
            else if (a.crop)
                outside = outside || a.maps[map].outside[x];
            QN_UNROLL
            for (int p = 0; p < N; p++)
                o[p] = map == p ? x : o[p];
        }
        E::put(a, i, outside ? (typename E::C)a.extrapolation
                             : S::sum(a, o, at));
    }
}

template <class E> QN_DEVICE void blend_by_maps(const qn_resize_args &a)
{
    bool two = a.passes <= 2;
    for (int p = 0; p < a.passes; p++)
        two = two && a.maps[p].taps == 2;
    if (two && a.passes == 2)
        blend<E, pairs<E, 2>, 2>(a);
    else if (two)
        blend<E, pairs<E, 1>, 1>(a);
    else if (a.passes <= 3)
        blend<E, nest<E, 3>, 3>(a);
    else
        blend<E, counted<E>, QN_RESIZE_DIMS>(a);
}

QN_KERNEL(qn_resize_f32, qn_resize_args, a)
{
    blend_by_maps<plain_type<float>>(a);
}

QN_KERNEL(qn_resize_f16, qn_resize_args, a)
{
    blend_by_maps<plain_type<qn_half>>(a);
}

QN_KERNEL(qn_resize_bf16, qn_resize_args, a)
{
    blend_by_maps<plain_type<qn_bf16>>(a);
}

QN_KERNEL(qn_resize_f64, qn_resize_args, a)
{
    blend_by_maps<plain_type<double>>(a);
}

QN_KERNEL(qn_resize_int, qn_resize_args, a)
{
    blend_by_maps<any_int>(a);
}

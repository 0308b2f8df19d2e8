/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pooling. A thread per output walks its window; neighbours are neighbouring
 * outputs, whose windows overlap in a cache. A window that is the whole input
 * is a fold of each plane. Integers (bytes) go through float, exactly.
 *
 * Padding never takes part: -inf for a maximum that sees nothing else, 0 for a
 * mean. A window without any element gives index -1.
 */
#include "runtime/cuda/kernels/pool.h"

#include "runtime/cuda/kernels/fold_device.h"

/* Bytes as numbers that have an infinity. */
template <class T, int low, int high> struct num_byte {
    typedef T M;
    typedef float C;
    QN_INSIDE C get(M v)
    {
        return (C)v;
    }
    QN_INSIDE M put(C v)
    {
        return v <= (C)low ? (T)low : v >= (C)high ? (T)high : (T)v;
    }
    QN_INSIDE M put_wide(double v)
    {
        return put((C)v);
    }
};
typedef num_byte<int8_t, -128, 127> qn_num_byte_i8;
typedef num_byte<uint8_t, 0, 255> qn_num_byte_u8;
typedef qn_num_f32 qn_num_byte_f32;
typedef qn_num_f64 qn_num_byte_f64;
typedef qn_num_f16 qn_num_byte_f16;
typedef qn_num_bf16 qn_num_byte_bf16;

template <class C> QN_DEVICE C lp_term(C v, float p)
{
    C a = v < 0 ? -v : v;
    return p == 2 ? a * a : p == 1 ? a : pow(a, (C)p);
}

template <class C> QN_DEVICE C lp_root(C v, float p)
{
    return p == 2 ? sqrt(v) : p == 1 ? v : pow(v, 1 / (C)p);
}

QN_DEVICE int64_t ceil_div(int64_t a, int64_t b)
{
    return a > 0 ? qn_divide(a + b - 1, b) : -qn_divide(-a, b);
}

QN_DEVICE int64_t clamp(int64_t v, int64_t lo, int64_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

/* Taps [from, to) of output o whose positions lie in [low, high). */
QN_DEVICE void taps(const qn_pool_axis &x, int64_t o, int64_t low, int64_t high,
                    int64_t *from, int64_t *to)
{
    int64_t start = o * x.stride - x.lo;
    *from = clamp(ceil_div(low - start, x.dilation), 0, x.kernel);
    *to = clamp(ceil_div(high - start, x.dilation), *from, x.kernel);
}

/* How many positions along an axis a mean divides by. */
QN_DEVICE int64_t counted(const qn_pool_axis &x, int64_t o, bool include_pad)
{
    int64_t from, to;
    taps(x, o, include_pad ? -x.lo : 0, include_pad ? x.in + x.hi : x.in, &from,
         &to);
    return to > from ? to - from : 1;
}

/* What a window has so far. */
template <class C> struct found {
    C value;
    int64_t index; /* of the maximum, -1: none yet */
};

template <class N>
QN_DEVICE void take(const struct qn_pool_args &a, found<typename N::C> &w,
                    typename N::M m, int64_t index)
{
    typename N::C v = N::get(m);
    if (a.kind == QN_POOL_MEAN) {
        w.value += v;
    } else if (a.kind == QN_POOL_LP) {
        w.value += lp_term(v, a.p);
    } else if (w.index < 0 || v > w.value || (v != v && w.value == w.value)) {
        w.value = v;
        w.index = index;
    }
}

/* n: axes, at most; the last one is the innermost loop. */
template <class N, int n>
QN_DEVICE found<typename N::C> window(const struct qn_pool_args &a,
                                      const typename N::M *x, const int64_t *o)
{
    typedef typename N::C C;
    found<C> w = { a.kind == QN_POOL_MAX ? -(C)INFINITY : (C)0, -1 };
    int64_t from[n], to[n], k[n], at = 0, index = 0;
#pragma unroll
    for (int i = 0; i < n; i++) {
        const qn_pool_axis &axis = a.axes[i];
        taps(axis, o[i], 0, axis.in, &from[i], &to[i]);
        if (from[i] >= to[i])
            return w;
        k[i] = from[i];
        int64_t first =
            o[i] * axis.stride - axis.lo + from[i] * axis.dilation;
        at += first * axis.step;
        index += first * axis.index;
    }
    for (;;) {
        const qn_pool_axis &inner = a.axes[n - 1];
        int64_t step = inner.dilation * inner.step;
        int64_t more = inner.dilation * inner.index;
        int64_t left = to[n - 1] - from[n - 1];
        for (int64_t j = 0; j < left; j++)
            take<N>(a, w, x[at + j * step], index + j * more);
        int i = n - 2;
#pragma unroll
        for (int d = n - 2; d >= 0; d--) {
            if (i != d)
                continue;
            const qn_pool_axis &axis = a.axes[d];
            at += axis.dilation * axis.step;
            index += axis.dilation * axis.index;
            if (++k[d] < to[d])
                continue;
            int64_t back = (to[d] - from[d]) * axis.dilation;
            at -= back * axis.step;
            index -= back * axis.index;
            k[d] = from[d];
            i = d - 1;
        }
        if (i < 0)
            return w;
    }
}

/* by: elements that a mean divides by */
template <class N>
QN_DEVICE void put(const struct qn_pool_args &a, int64_t at, int64_t plane,
                   found<typename N::C> w, typename N::C by)
{
    if (a.kind == QN_POOL_LP)
        w.value = lp_root(w.value, a.p);
    if (a.kind == QN_POOL_MEAN)
        w.value /= by;
    ((typename N::M *)a.y)[at] = N::put(w.value);
    if (a.indices)
        a.indices[at] = w.index < 0 ? -1 : plane * a.in_size + w.index;
}

template <class N, int n>
QN_DEVICE void outputs(const struct qn_pool_args &a)
{
    typedef typename N::C C;
    for (int64_t at = qn_global_index(); at < a.count;
         at += qn_global_threads()) {
        int64_t o[n], c = 0, rest = at;
        if (a.last)
            rest = qn_fastdiv_divmod(&a.by_channels, rest, &c);
#pragma unroll
        for (int i = n - 1; i >= 0; i--)
            rest = qn_fastdiv_divmod(&a.axes[i].by_out, rest, &o[i]);
        /* rest: the plane, or the image */
        int64_t plane = a.last ? rest * a.channels + c : rest;
        int64_t base = a.last ? rest * a.in_size * a.channels + c
                              : rest * a.in_size;
        found<C> w =
            window<N, n>(a, (const typename N::M *)a.x + base, o);
        C by = 1;
#pragma unroll
        for (int i = 0; i < n; i++)
            by *= (C)counted(a.axes[i], o[i], a.include_pad != 0);
        put<N>(a, at, plane, w, by);
    }
}

/* More than three axes, which nobody is in a hurry for: each tap is found from
 * its number. */
template <class N> QN_DEVICE void outputs_any(const struct qn_pool_args &a)
{
    typedef typename N::C C;
    for (int64_t at = qn_global_index(); at < a.count;
         at += qn_global_threads()) {
        int64_t n_taps = 1, o, from, to, rest = at;
        C by = 1;
        for (int i = a.n_axes - 1; i >= 0; i--) {
            rest = qn_fastdiv_divmod(&a.axes[i].by_out, rest, &o);
            taps(a.axes[i], o, 0, a.axes[i].in, &from, &to);
            n_taps *= to - from;
            by *= (C)counted(a.axes[i], o, a.include_pad != 0);
        }
        int64_t plane = rest;
        found<C> w = { a.kind == QN_POOL_MAX ? -(C)INFINITY : (C)0, -1 };
        for (int64_t t = 0; t < n_taps; t++) {
            int64_t tap = t, offset = plane * a.in_size, index = 0;
            rest = at;
            for (int i = a.n_axes - 1; i >= 0; i--) {
                const qn_pool_axis &axis = a.axes[i];
                rest = qn_fastdiv_divmod(&axis.by_out, rest, &o);
                taps(axis, o, 0, axis.in, &from, &to);
                int64_t above = qn_divide(tap, to - from);
                int64_t k = from + tap - above * (to - from);
                int64_t position =
                    o * axis.stride - axis.lo + k * axis.dilation;
                offset += position * axis.step;
                index += position * axis.index;
                tap = above;
            }
            take<N>(a, w, ((const typename N::M *)a.x)[offset], index);
        }
        put<N>(a, at, plane, w, by);
    }
}

/* ---- whole planes ---- */

struct merge_max {
    QN_INSIDE double merge(double a, double b)
    {
        return b > a || b != b ? b : a;
    }
};

struct merge_sum {
    QN_INSIDE double merge(double a, double b)
    {
        return a + b;
    }
};

template <class N, class Merge>
QN_DEVICE void whole(const struct qn_pool_whole_args &a, double start)
{
    typedef typename N::C C;
    QN_SHARED(double, slots, QN_FOLD_THREADS);
    const qn_fold &f = a.f;
    qn_fold_lane l = qn_fold_here(f);
    int64_t stride = f.n_folded ? f.folded_stride[0] : 0;
    for (int64_t g = blockIdx.x; g * f.width < f.outputs; g += gridDim.x) {
        int64_t o = g * f.width + l.column;
        const typename N::M *x =
            (const typename N::M *)a.x +
            qn_fold_offset(f.n_kept, f.kept, f.kept_stride, o);
        double acc = start;
#pragma unroll 4
        for (int64_t i = l.part; o < f.outputs && i < f.count; i += f.depth) {
            C v = N::get(x[i * stride]);
            acc = Merge::merge(acc, a.kind == QN_POOL_LP
                                        ? (double)lp_term(v, a.p)
                                        : (double)v);
        }
        acc = qn_fold_column(acc, f.depth, l, slots, Merge::merge);
        if (l.part || o >= f.outputs)
            continue;
        if (a.kind == QN_POOL_MEAN)
            acc /= (double)f.count;
        else if (a.kind == QN_POOL_LP)
            acc = lp_root(acc, a.p);
        ((typename N::M *)a.y)[o] = N::put_wide(acc);
    }
}

#define DEFINE(name)                                                           \
    QN_KERNEL(pool_2_##name, struct qn_pool_args, a)                           \
    {                                                                          \
        outputs<qn_num_byte_##name, 2>(a);                                     \
    }                                                                          \
    QN_KERNEL(pool_3_##name, struct qn_pool_args, a)                           \
    {                                                                          \
        outputs<qn_num_byte_##name, 3>(a);                                     \
    }                                                                          \
    QN_KERNEL(pool_any_##name, struct qn_pool_args, a)                         \
    {                                                                          \
        outputs_any<qn_num_byte_##name>(a);                                    \
    }                                                                          \
    QN_KERNEL(pool_whole_##name, struct qn_pool_whole_args, a)                 \
    {                                                                          \
        typedef qn_num_byte_##name N;                                          \
        if (a.kind == QN_POOL_MAX)                                             \
            whole<N, merge_max>(a, -(double)INFINITY);                         \
        else                                                                   \
            whole<N, merge_sum>(a, 0);                                         \
    }

QN_EACH_FLOAT(DEFINE)
DEFINE(i8)
DEFINE(u8)

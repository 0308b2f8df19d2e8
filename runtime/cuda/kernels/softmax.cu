/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Softmax, LogSoftmax, Hardmax.
 *
 *   short, long  a warp per row of up to 256, 1,024: kept in registers
 *   block        a block per longer row: read twice, the second time from a cache
 *   strided      another axis than the last: as fold.h says
 *
 * Maximum and sum are found in one pass: a sum is rescaled when its maximum
 * grows. In place is fine: a row is read by the threads that write it, a
 * barrier before.
 */
#include "runtime/cuda/kernels/softmax.h"

#include "runtime/cuda/kernels/best.h"
#include "runtime/cuda/kernels/fold_device.h"

/* max, and the sum of exp(v - max). -inf adds nothing; NaN stays in the sum. */
template <class C> struct exp_sum {
    C max, sum;
};

template <class C> QN_DEVICE C exp_of(C v, C max)
{
    return v == -(C)INFINITY ? (C)0 : exp(v - max);
}

template <class C> struct exp_merge {
    QN_INSIDE exp_sum<C> merge(exp_sum<C> a, exp_sum<C> b)
    {
        C max = b.max > a.max ? b.max : a.max;
        exp_sum<C> r;
        r.max = max;
        r.sum = a.sum * (a.max == max ? (C)1 : exp(a.max - max)) +
                b.sum * (b.max == max ? (C)1 : exp(b.max - max));
        return r;
    }
    __device__ exp_sum<C> operator()(exp_sum<C> a, exp_sum<C> b) const
    {
        return merge(a, b);
    }
};

template <int n, class C>
QN_DEVICE void exp_add(exp_sum<C> &a, const C *v)
{
    C max = v[0];
#pragma unroll
    for (int i = 1; i < n; i++)
        max = v[i] > max ? v[i] : max;
    if (max > a.max) {
        a.sum *= exp(a.max - max);
        a.max = max;
    }
#pragma unroll
    for (int i = 0; i < n; i++)
        a.sum += exp_of(v[i], a.max);
}

template <class C> struct final_of {
    C max, factor; /* 1 / sum, or log(sum) */
    bool log_form;
    __device__ C operator()(C v) const
    {
        return log_form ? (v - max) - factor : exp(v - max) * factor;
    }
};

template <class C> QN_DEVICE final_of<C> final_from(exp_sum<C> a, int log_form)
{
    final_of<C> f;
    f.max = a.max;
    f.log_form = log_form != 0;
    f.factor = log_form ? log(a.sum) : 1 / a.sum;
    return f;
}

/* ---- a warp per row ---- */

template <class N, int each>
QN_DEVICE void warp_row(const struct qn_softmax_args &a, int64_t row)
{
    typedef typename N::C C;
    const typename N::M *x = (const typename N::M *)a.x + row * a.n;
    typename N::M *y = (typename N::M *)a.y + row * a.n;
    int lane = (int)threadIdx.x & 31, n = (int)a.n;
    C v[each];
    C max = -(C)INFINITY;
#pragma unroll
    for (int i = 0; i < each; i++) {
        int at = lane + 32 * i;
        v[i] = at < n ? N::get(x[at]) : -(C)INFINITY;
        max = v[i] > max ? v[i] : max;
    }
    max = qn_warp_reduce(max, qn_op_max());
    C sum = 0;
#pragma unroll
    for (int i = 0; i < each; i++) {
        C e = exp_of(v[i], max);
        sum += e;
        if (!a.log)
            v[i] = v[i] == -(C)INFINITY && max == v[i] ? (C)NAN : e;
    }
    sum = qn_warp_reduce(sum, qn_op_sum());
    C factor = a.log ? log(sum) : 1 / sum;
#pragma unroll
    for (int i = 0; i < each; i++) {
        int at = lane + 32 * i;
        if (at < n)
            y[at] = N::put(a.log ? (v[i] - max) - factor : v[i] * factor);
    }
}

/* Rows of up to 256, which leave room for more warps, and longer ones. */
template <class N> QN_DEVICE void short_rows(const struct qn_softmax_args &a)
{
    int64_t row = qn_global_index() / 32, step = qn_global_threads() / 32;
    for (; row < a.rows; row += step) {
        if (a.n <= 64)
            warp_row<N, 2>(a, row);
        else if (a.n <= 128)
            warp_row<N, 4>(a, row);
        else
            warp_row<N, 8>(a, row);
    }
}

template <class N> QN_DEVICE void long_rows(const struct qn_softmax_args &a)
{
    int64_t row = qn_global_index() / 32, step = qn_global_threads() / 32;
    for (; row < a.rows; row += step) {
        if (a.n <= 512)
            warp_row<N, 16>(a, row);
        else
            warp_row<N, 32>(a, row);
    }
}

/* ---- a block per row ---- */

template <class N> QN_DEVICE void blocks(const struct qn_softmax_args &a)
{
    typedef typename N::C C;
    enum { each = qn_vec<typename N::M>::N };
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
        const typename N::M *x = (const typename N::M *)a.x + row * a.n;
        typename N::M *y = (typename N::M *)a.y + row * a.n;
        exp_sum<C> s = { -(C)INFINITY, 0 }, none = s;
        bool packs = qn_aligned16(x) && qn_aligned16(y);
        int64_t whole = packs ? a.n / each : 0;
        for (int64_t p = threadIdx.x; p < whole; p += blockDim.x) {
            C v[each];
            qn_get_pack<N>(x + p * each, v);
            exp_add<each>(s, v);
        }
        for (int64_t i = whole * each + threadIdx.x; i < a.n; i += blockDim.x) {
            C v = N::get(x[i]);
            exp_add<1>(s, &v);
        }
        s = qn_block_reduce(s, exp_merge<C>(), none);
        final_of<C> f = final_from(s, a.log);
        for (int64_t p = threadIdx.x; p < whole; p += blockDim.x) {
            C v[each];
            qn_get_pack<N>(x + p * each, v);
#pragma unroll
            for (int i = 0; i < each; i++)
                v[i] = f(v[i]);
            qn_put_pack<N>(y + p * each, v);
        }
        for (int64_t i = whole * each + threadIdx.x; i < a.n; i += blockDim.x)
            y[i] = N::put(f(N::get(x[i])));
    }
}

/* ---- any other axis ---- */

template <class N> QN_DEVICE void strided(const struct qn_softmax_args &a)
{
    typedef typename N::C C;
    QN_SHARED(exp_sum<C>, slots, QN_FOLD_THREADS);
    const qn_fold &f = a.f;
    qn_fold_lane l = qn_fold_here(f);
    int64_t stride = f.n_folded ? f.folded_stride[0] : 0;
    for (int64_t g = blockIdx.x; g * f.width < f.outputs; g += gridDim.x) {
        int64_t o = g * f.width + l.column;
        int64_t base = qn_fold_offset(f.n_kept, f.kept, f.kept_stride, o);
        const typename N::M *x = (const typename N::M *)a.x + base;
        typename N::M *y = (typename N::M *)a.y + base;
        int64_t count = o < f.outputs ? f.count : 0;
        exp_sum<C> s = { -(C)INFINITY, 0 };
        int64_t i = l.part;
        for (; i + 3 * f.depth < count; i += 4 * f.depth) {
            C v[4];
#pragma unroll
            for (int u = 0; u < 4; u++)
                v[u] = N::get(x[(i + u * f.depth) * stride]);
            exp_add<4>(s, v);
        }
        for (; i < count; i += f.depth) {
            C v = N::get(x[i * stride]);
            exp_add<1>(s, &v);
        }
        s = qn_fold_column(s, f.depth, l, slots, exp_merge<C>::merge);
        final_of<C> end = final_from(s, a.log);
        for (i = l.part; i < count; i += f.depth)
            y[i * stride] = N::put(end(N::get(x[i * stride])));
    }
}

/* ---- Hardmax ---- */

template <class N> QN_DEVICE void hard(const struct qn_softmax_args &a)
{
    typedef typename N::C C;
    QN_SHARED(qn_best<C>, slots, QN_FOLD_THREADS);
    const qn_fold &f = a.f;
    qn_fold_lane l = qn_fold_here(f);
    int64_t stride = f.n_folded ? f.folded_stride[0] : 0;
    for (int64_t g = blockIdx.x; g * f.width < f.outputs; g += gridDim.x) {
        int64_t o = g * f.width + l.column;
        int64_t base = qn_fold_offset(f.n_kept, f.kept, f.kept_stride, o);
        const typename N::M *x = (const typename N::M *)a.x + base;
        typename N::M *y = (typename N::M *)a.y + base;
        int64_t count = o < f.outputs ? f.count : 0;
        qn_best<C> b = qn_best_none<C>();
        for (int64_t i = l.part; i < count; i += f.depth)
            b = qn_best_merge<N, false, false>(
                b, qn_best_of(N::get(x[i * stride]), i));
        b = qn_fold_column(b, f.depth, l, slots,
                           qn_best_merge<N, false, false>);
        for (int64_t i = l.part; i < count; i += f.depth)
            y[i * stride] = N::put(i == b.index ? (C)1 : (C)0);
    }
}

#define DEFINE(name)                                                           \
    QN_KERNEL(softmax_short_##name, struct qn_softmax_args, a)                 \
    {                                                                          \
        short_rows<qn_num_##name>(a);                                          \
    }                                                                          \
    QN_KERNEL(softmax_long_##name, struct qn_softmax_args, a)                  \
    {                                                                          \
        long_rows<qn_num_##name>(a);                                           \
    }                                                                          \
    QN_KERNEL(softmax_block_##name, struct qn_softmax_args, a)                 \
    {                                                                          \
        blocks<qn_num_##name>(a);                                              \
    }                                                                          \
    QN_KERNEL(softmax_strided_##name, struct qn_softmax_args, a)               \
    {                                                                          \
        strided<qn_num_##name>(a);                                             \
    }                                                                          \
    QN_KERNEL(hardmax_##name, struct qn_softmax_args, a)                       \
    {                                                                          \
        hard<qn_num_##name>(a);                                                \
    }

QN_EACH_FLOAT(DEFINE)

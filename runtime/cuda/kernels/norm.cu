/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BatchNormalization, InstanceNormalization, GroupNormalization.
 *
 *     y = (x - mean) / sqrt(var + epsilon) * scale + bias
 *
 * The difference comes first, so that a large mean costs no digits. Statistics
 * are sums in double of what one load brings, taken around the mean of a share;
 * shares are put together as Chan, Golub and LeVeque do (1979). A group of a few
 * images is split over blocks: one launch for its statistics, one to apply them.
 */
#include "runtime/cuda/kernels/norm.h"

#include "runtime/cuda/kernels/number.h"

/* ---- statistics of contiguous elements by a block ---- */

template <class N, class F>
QN_DEVICE double block_sum(const typename N::M *x, int64_t n, F f)
{
    typedef typename N::C C;
    enum { each = qn_vec<typename N::M>::N };
    double sum = 0;
    int64_t whole = qn_aligned16(x) ? n / each : 0;
    for (int64_t p = threadIdx.x; p < whole; p += blockDim.x) {
        C v[each];
        qn_get_pack<N>(x + p * each, v);
        C part = f(v[0]);
#pragma unroll
        for (int i = 1; i < each; i++)
            part += f(v[i]);
        sum += (double)part;
    }
    for (int64_t i = whole * each + threadIdx.x; i < n; i += blockDim.x)
        sum += (double)f(N::get(x[i]));
    return qn_block_reduce(sum, qn_op_sum(), 0.0);
}

template <class C> struct as_is {
    __device__ C operator()(C v) const
    {
        return v;
    }
};

template <class C> struct square_from {
    C mean;
    __device__ C operator()(C v) const
    {
        C d = v - mean;
        return d * d;
    }
};

template <class N>
QN_DEVICE qn_norm_stat block_stat(const typename N::M *x, int64_t n)
{
    typedef typename N::C C;
    qn_norm_stat s;
    s.count = (double)n;
    s.mean = block_sum<N>(x, n, as_is<C>()) / (double)n;
    square_from<C> f = { (C)s.mean };
    s.squares = block_sum<N>(x, n, f);
    return s;
}

/* ---- batch ---- */

template <class C> struct affine {
    C mean, a, b;
    __device__ C operator()(C v) const
    {
        return (v - mean) * a + b;
    }
};

QN_DEVICE double param(const qn_norm_param &p, int64_t i)
{
    return qn_get_any(p.data, p.dtype, i);
}

template <class C>
QN_DEVICE affine<C> batch_factors(const struct qn_batch_args &a, int64_t c)
{
    affine<C> f;
    f.mean = (C)param(a.mean, c);
    f.a = (C)param(a.scale, c) / sqrt((C)param(a.var, c) + (C)a.epsilon);
    f.b = (C)param(a.bias, c);
    return f;
}

QN_DEVICE int64_t channel_of(const struct qn_batch_args &a, int64_t i)
{
    int64_t c;
    int64_t plane = a.last ? i : qn_fastdiv_quotient(&a.by_size, i);
    qn_fastdiv_divmod(&a.by_channels, plane, &c);
    return c;
}

/* A thread takes 16 bytes where a channel's run, or the channels, are whole
 * multiples of that; else one element. */
template <class N> QN_DEVICE void batch(const struct qn_batch_args &a)
{
    typedef typename N::C C;
    enum { each = qn_vec<typename N::M>::N };
    const typename N::M *x = (const typename N::M *)a.x;
    typename N::M *y = (typename N::M *)a.y;
    int64_t i = qn_global_index();
    if (a.each == 1) {
        for (; i < a.count; i += qn_global_threads())
            y[i] = N::put(batch_factors<C>(a, channel_of(a, i))(N::get(x[i])));
        return;
    }
    for (; i < a.count / each; i += qn_global_threads()) {
        C v[each];
        int64_t c = channel_of(a, i * each);
        affine<C> f = batch_factors<C>(a, c);
        qn_get_pack<N>(x + i * each, v);
#pragma unroll
        for (int j = 0; j < each; j++) {
            if (a.last && j)
                f = batch_factors<C>(a, c + j);
            v[j] = f(v[j]);
        }
        qn_put_pack<N>(y + i * each, v);
    }
}

/* A block per channel; two passes. */
template <class N> QN_DEVICE void batch_stats(const struct qn_batch_args &a)
{
    typedef typename N::C C;
    const typename N::M *x = (const typename N::M *)a.x;
    int64_t c = blockIdx.x, n = a.batch * a.size;
    double mean = 0, squares = 0;
    for (int pass = 0; pass < 2; pass++) {
        double sum = 0;
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
            int64_t at, image = qn_fastdiv_divmod(&a.by_size, i, &at);
            C v = N::get(a.last ? x[i * a.channels + c]
                                : x[(image * a.channels + c) * a.size + at]);
            double d = (double)v - mean;
            sum += pass ? d * d : d;
        }
        sum = qn_block_reduce(sum, qn_op_sum(), 0.0) / (double)n;
        if (pass)
            squares = sum;
        else
            mean = sum;
    }
    if (threadIdx.x)
        return;
    a.new_mean[c] = mean;
    a.new_var[c] = squares;
    for (int i = 0; i < 4; i++) {
        double now = i & 1 ? squares : mean;
        const qn_norm_param &given = i & 1 ? a.var : a.mean;
        if (i < 2 && a.out[i])
            now = param(given, c) * a.momentum + now * (1 - a.momentum);
        if (a.out[i])
            qn_put_any(a.out[i], a.out_type[i], c, now);
    }
}

/* ---- instance and group ---- */

/* Elements [from, to) of a group's run. */
template <class N>
QN_DEVICE void group_apply(const struct qn_group_args &a, int64_t item,
                           double mean, double squares, int64_t from,
                           int64_t to)
{
    typedef typename N::C C;
    enum { each = qn_vec<typename N::M>::N };
    int64_t first = item % a.groups * a.group;
    const typename N::M *x = (const typename N::M *)a.x + item * a.run;
    typename N::M *y = (typename N::M *)a.y + item * a.run;
    double inv = 1 / sqrt(squares / (double)a.run + a.epsilon);
    affine<C> f;
    f.mean = (C)mean;
    bool packs = a.size % each == 0 && from % each == 0 && qn_aligned16(x) &&
                 qn_aligned16(y);
    int64_t step = packs ? each : 1;
    for (int64_t i = from + threadIdx.x * step; i < to; i += blockDim.x * step) {
        int64_t c = first + qn_fastdiv_quotient(&a.by_size, i);
        int64_t at = a.scale_by_group ? item % a.groups : c;
        f.a = (C)(inv * param(a.scale, at));
        f.b = (C)param(a.bias, at);
        if (!packs) {
            y[i] = N::put(f(N::get(x[i])));
            continue;
        }
        C v[each];
        qn_get_pack<N>(x + i, v);
#pragma unroll
        for (int j = 0; j < each; j++)
            v[j] = f(v[j]);
        qn_put_pack<N>(y + i, v);
    }
}

template <class N> QN_DEVICE void group_whole(const struct qn_group_args &a)
{
    for (int64_t item = blockIdx.x; item < a.items; item += gridDim.x) {
        qn_norm_stat s = block_stat<N>(
            (const typename N::M *)a.x + item * a.run, a.run);
        group_apply<N>(a, item, s.mean, s.squares, 0, a.run);
    }
}

QN_DEVICE int64_t share_end(const struct qn_group_args &a, int64_t from)
{
    return from + a.per_split < a.run ? from + a.per_split : a.run;
}

template <class N> QN_DEVICE void group_stats(const struct qn_group_args &a)
{
    int64_t item = blockIdx.x / a.splits, split = blockIdx.x % a.splits;
    int64_t from = split * a.per_split;
    qn_norm_stat s = block_stat<N>(
        (const typename N::M *)a.x + item * a.run + from,
        share_end(a, from) - from);
    if (threadIdx.x == 0)
        a.stats[item * a.splits + split] = s;
}

template <class N> QN_DEVICE void group_share(const struct qn_group_args &a)
{
    int64_t item = blockIdx.x / a.splits, split = blockIdx.x % a.splits;
    int64_t from = split * a.per_split;
    const qn_norm_stat *s = a.stats + item * a.splits;
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < a.splits; i++)
        mean += s[i].mean * s[i].count;
    mean /= (double)a.run;
    for (int64_t i = 0; i < a.splits; i++) {
        double d = s[i].mean - mean;
        squares += s[i].squares + d * d * s[i].count;
    }
    group_apply<N>(a, item, mean, squares, from, share_end(a, from));
}

#define DEFINE(name)                                                           \
    QN_KERNEL(norm_batch_##name, struct qn_batch_args, a)                      \
    {                                                                          \
        batch<qn_num_##name>(a);                                               \
    }                                                                          \
    QN_KERNEL(norm_batch_stats_##name, struct qn_batch_args, a)                \
    {                                                                          \
        batch_stats<qn_num_##name>(a);                                         \
    }                                                                          \
    QN_KERNEL(norm_group_##name, struct qn_group_args, a)                      \
    {                                                                          \
        group_whole<qn_num_##name>(a);                                         \
    }                                                                          \
    QN_KERNEL(norm_group_stats_##name, struct qn_group_args, a)                \
    {                                                                          \
        group_stats<qn_num_##name>(a);                                         \
    }                                                                          \
    QN_KERNEL(norm_group_share_##name, struct qn_group_args, a)                \
    {                                                                          \
        group_share<qn_num_##name>(a);                                         \
    }

QN_EACH_FLOAT(DEFINE)

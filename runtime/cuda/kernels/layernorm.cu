/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LayerNormalization and RMSNormalization over rows of n.
 *
 *     layer:  y = (x - mean) / sqrt(var + epsilon) * scale + bias
 *     rms:    y = x / sqrt(mean of squares + epsilon) * scale
 *
 *   short, long  a warp per row of up to 256, 1,024: kept in registers
 *   block        a block per longer row: read three times, twice from a cache
 *   any          parameters of any type and shape, in double
 *
 * The first three want scale and bias of n elements in the type of x. The
 * variance is taken around the mean, not as a difference of squares.
 */
#include "runtime/cuda/kernels/layernorm.h"

#include "runtime/cuda/kernels/number.h"

template <class C>
QN_DEVICE void write_stats(const struct qn_layer_args &a, int64_t row, C mean,
                           C inv)
{
    if (a.mean)
        qn_put_any(a.mean, a.stat_type, row, (double)mean);
    if (a.inv)
        qn_put_any(a.inv, a.stat_type, row, (double)inv);
}

template <class N, int each>
QN_DEVICE void warp_row(const struct qn_layer_args &a, int64_t row)
{
    typedef typename N::C C;
    typedef typename N::M M;
    const M *x = (const M *)a.x + row * a.n;
    const M *scale = (const M *)a.scale.data, *bias = (const M *)a.bias.data;
    M *y = (M *)a.y + row * a.n;
    int lane = (int)threadIdx.x & 31, n = (int)a.n;
    C v[each], mean = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < each; i++) {
        int at = lane + 32 * i;
        v[i] = at < n ? N::get(x[at]) : (C)0;
        mean += v[i];
    }
    mean = a.rms ? (C)0 : qn_warp_reduce(mean, qn_op_sum()) / (C)n;
#pragma unroll
    for (int i = 0; i < each; i++) {
        C d = v[i] - mean;
        squares += lane + 32 * i < n ? d * d : (C)0;
    }
    squares = qn_warp_reduce(squares, qn_op_sum());
    C inv = 1 / sqrt(squares / (C)n + (C)a.epsilon);
#pragma unroll
    for (int i = 0; i < each; i++) {
        int at = lane + 32 * i;
        if (at < n) {
            C r = (v[i] - mean) * inv * N::get(scale[at]);
            y[at] = N::put(bias ? r + N::get(bias[at]) : r);
        }
    }
    if (lane == 0)
        write_stats(a, row, mean, inv);
}

template <class N> QN_DEVICE void short_rows(const struct qn_layer_args &a)
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

template <class N> QN_DEVICE void long_rows(const struct qn_layer_args &a)
{
    int64_t row = qn_global_index() / 32, step = qn_global_threads() / 32;
    for (; row < a.rows; row += step) {
        if (a.n <= 512)
            warp_row<N, 16>(a, row);
        else if (a.n <= 768)
            warp_row<N, 24>(a, row);
        else
            warp_row<N, 32>(a, row);
    }
}

/* ---- a block per row ---- */

/* Sum of v - mean, or of its square. */
template <class N>
QN_DEVICE typename N::C row_sum(const typename N::M *x, int64_t n,
                                typename N::C mean, bool square)
{
    typedef typename N::C C;
    enum { each = qn_vec<typename N::M>::N };
    int64_t whole = qn_aligned16(x) ? n / each : 0;
    C sum = 0;
    for (int64_t p = threadIdx.x; p < whole; p += blockDim.x) {
        C v[each], part = 0;
        qn_get_pack<N>(x + p * each, v);
#pragma unroll
        for (int i = 0; i < each; i++) {
            C d = v[i] - mean;
            part += square ? d * d : d;
        }
        sum += part;
    }
    for (int64_t i = whole * each + threadIdx.x; i < n; i += blockDim.x) {
        C d = N::get(x[i]) - mean;
        sum += square ? d * d : d;
    }
    return qn_block_reduce(sum, qn_op_sum(), (C)0);
}

template <class N> QN_DEVICE void blocks(const struct qn_layer_args &a)
{
    typedef typename N::C C;
    typedef typename N::M M;
    enum { each = qn_vec<M>::N };
    const M *scale = (const M *)a.scale.data, *bias = (const M *)a.bias.data;
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
        const M *x = (const M *)a.x + row * a.n;
        M *y = (M *)a.y + row * a.n;
        C mean = a.rms ? (C)0 : row_sum<N>(x, a.n, 0, false) / (C)a.n;
        C squares = row_sum<N>(x, a.n, mean, true);
        C inv = 1 / sqrt(squares / (C)a.n + (C)a.epsilon);
        bool packs = qn_aligned16(x) && qn_aligned16(y) &&
                     qn_aligned16(scale) && qn_aligned16(bias);
        int64_t whole = packs ? a.n / each : 0;
        for (int64_t p = threadIdx.x; p < whole; p += blockDim.x) {
            C v[each], s[each], b[each];
            qn_get_pack<N>(x + p * each, v);
            qn_get_pack<N>(scale + p * each, s);
            if (bias)
                qn_get_pack<N>(bias + p * each, b);
#pragma unroll
            for (int i = 0; i < each; i++) {
                v[i] = (v[i] - mean) * inv * s[i];
                if (bias)
                    v[i] += b[i];
            }
            qn_put_pack<N>(y + p * each, v);
        }
        for (int64_t i = whole * each + threadIdx.x; i < a.n;
             i += blockDim.x) {
            C r = (N::get(x[i]) - mean) * inv * N::get(scale[i]);
            y[i] = N::put(bias ? r + N::get(bias[i]) : r);
        }
        if (threadIdx.x == 0)
            write_stats(a, row, mean, inv);
    }
}

/* ---- parameters of any type and shape ---- */

QN_DEVICE double param_at(const struct qn_layer_args &a,
                          const qn_layer_param &p, int64_t i)
{
    int64_t offset = 0;
    for (int d = a.rank - 1; d >= 0; d--) {
        int64_t above = qn_divide(i, a.dims[d]);
        offset += (i - above * a.dims[d]) * p.stride[d];
        i = above;
    }
    return qn_get_any(p.data, p.dtype, offset);
}

/* A block per row. */
QN_KERNEL(layer_any, struct qn_layer_args, a)
{
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
        int64_t base = row * a.n;
        double mean = 0, squares = 0;
        for (int pass = a.rms ? 1 : 0; pass < 2; pass++) {
            double sum = 0;
            for (int64_t i = threadIdx.x; i < a.n; i += blockDim.x) {
                double d = qn_get_any(a.x, a.x_type, base + i) - mean;
                sum += pass ? d * d : d;
            }
            sum = qn_block_reduce(sum, qn_op_sum(), 0.0) / (double)a.n;
            if (pass)
                squares = sum;
            else
                mean = sum;
        }
        double inv = 1 / sqrt(squares + a.epsilon);
        for (int64_t i = threadIdx.x; i < a.n; i += blockDim.x) {
            double v = (qn_get_any(a.x, a.x_type, base + i) - mean) * inv *
                       param_at(a, a.scale, base + i);
            if (a.bias.data)
                v += param_at(a, a.bias, base + i);
            qn_put_any(a.y, a.y_type, base + i, v);
        }
        if (threadIdx.x == 0)
            write_stats(a, row, mean, inv);
    }
}

#define DEFINE(name)                                                           \
    QN_KERNEL(layer_short_##name, struct qn_layer_args, a)                     \
    {                                                                          \
        short_rows<qn_num_##name>(a);                                          \
    }                                                                          \
    QN_KERNEL(layer_long_##name, struct qn_layer_args, a)                      \
    {                                                                          \
        long_rows<qn_num_##name>(a);                                           \
    }                                                                          \
    QN_KERNEL(layer_block_##name, struct qn_layer_args, a)                     \
    {                                                                          \
        blocks<qn_num_##name>(a);                                              \
    }

QN_EACH_FLOAT(DEFINE)

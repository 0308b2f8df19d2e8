/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions that cuDNN does not do, or does no faster, and what goes around
 * those that it does.
 *
 *   conv_tile_<type>      a product W [m, k] x B [k, pixels] of a group and an
 *                         image, k = channels x taps, tile by tile (tile.h); B
 *                         is read from x where the taps lie
 *   conv_each_<type>      a thread an output: few channels in or out
 *   conv_depth<K>_<type>  the same for one channel a group, K x K taps, 2-D
 *   conv_pad_<bytes>      x with zeros around
 *   conv_finish           bias, residual, activation
 *
 * Sums are float, double for double, over channels, then taps, ascending.
 */
#include "runtime/cuda/kernels/conv.h"
#include "runtime/cuda/kernels/act.h"
#include "runtime/cuda/kernels/tile.h"

typedef struct qn_conv_args conv;

QN_DEVICE float act_of(const conv &a, float x)
{
    return qn_device_act(a.act, a.act_a, a.act_b, x);
}
QN_DEVICE double act_of(const conv &, double x)
{
    return x; /* only float is fused */
}

/* What an output element becomes: `to` its number in y, m its channel. */
template <class T>
QN_DEVICE void write(const conv &a, int64_t to, int64_t m, qn_acc<T> sum)
{
    if (a.bias)
        sum += qn_load((const T *)a.bias, m);
    if (a.residual)
        sum += qn_load((const T *)a.residual, to);
    qn_store((T *)a.y, to, act_of(a, sum));
}

/* The index along an axis that a tap sees from `base`, which is o * stride - pad,
 * or o + pad if transposed; -1 outside. */
QN_DEVICE int64_t source(const conv &a, int axis, int64_t base, int64_t tap)
{
    int64_t at;
    if (!a.transposed) {
        at = base + tap * a.dilation[axis];
    } else {
        at = base - tap * a.dilation[axis];
        if (at < 0 || at % a.stride[axis] != 0)
            return -1;
        at /= a.stride[axis];
    }
    return at >= 0 && at < a.in[axis] ? at : -1;
}

QN_DEVICE int64_t base_of(const conv &a, int axis, int64_t o)
{
    return a.transposed ? o + a.pad[axis] : o * a.stride[axis] - a.pad[axis];
}

/* Pixel number to the bases of its three axes. */
QN_DEVICE void bases(const conv &a, int64_t pixel, int64_t base[3])
{
    int64_t o[3];
    pixel = qn_fastdiv_divmod(&a.by_out[2], pixel, &o[2]);
    o[0] = qn_fastdiv_divmod(&a.by_out[1], pixel, &o[1]);
    QN_UNROLL
    for (int i = 0; i < 3; i++)
        base[i] = base_of(a, i, o[i]);
}

/* ---- tiles ---- */

/* B: column t % 64 of the tile, for the thread that owns this. */
template <class T> struct windows {
    const conv *a;
    const T *x; /* image and group */
    int64_t base[3];
    __device__ qn_acc<T> operator()(int64_t k, int) const
    {
        int64_t tap, tw, th;
        const int64_t channel = qn_fastdiv_divmod(&a->by_taps, k, &tap);
        tap = qn_fastdiv_divmod(&a->by_kernel[2], tap, &tw);
        const int64_t td = qn_fastdiv_divmod(&a->by_kernel[1], tap, &th);
        const int64_t d = source(*a, 0, base[0], td);
        const int64_t h = source(*a, 1, base[1], th);
        const int64_t w = source(*a, 2, base[2], tw);
        if (d < 0 || h < 0 || w < 0)
            return qn_acc<T>(0);
        return qn_load(x, channel * a->in_pixels +
                              (d * a->in[1] + h) * a->in[2] + w);
    }
};

/* A: weights of the tile's first channel on. */
template <class T> struct weights {
    const conv *a;
    const T *w;
    __device__ qn_acc<T> operator()(int r, int64_t k) const
    {
        if (!a->transposed)
            return qn_load(w, r * a->per_in * a->taps + k);
        int64_t tap;
        const int64_t channel = qn_fastdiv_divmod(&a->by_taps, k, &tap);
        return qn_load(w, (channel * a->per_out + r) * a->taps + tap);
    }
};

template <class T> QN_DEVICE void tiles(const conv &a)
{
    const int64_t count = a.tiles_p * a.tiles_m * a.group * a.n;
    for (int64_t tile = blockIdx.x; tile < count; tile += gridDim.x) {
        qn_acc<T> sum[QN_TILE_EACH][QN_TILE_EACH];
        const int64_t p0 = tile % a.tiles_p * QN_TILE;
        int64_t rest = tile / a.tiles_p;
        const int64_t m0 = rest % a.tiles_m * QN_TILE;
        rest /= a.tiles_m;
        const int64_t group = rest % a.group, image = rest / a.group;
        const int64_t rows = a.per_out - m0, columns = a.out_pixels - p0;
        windows<T> b;
        b.a = &a;
        b.x = (const T *)a.x + (image * a.c + group * a.per_in) * a.in_pixels;
        bases(a, p0 + threadIdx.x % QN_TILE, b.base);
        weights<T> w;
        w.a = &a;
        w.w = (const T *)a.w +
              (a.transposed ? group * a.per_in * a.per_out + m0
                            : (group * a.per_out + m0) * a.per_in) * a.taps;
        qn_tile_product<qn_acc<T>>(
            w, b, (int)(rows < QN_TILE ? rows : (int64_t)QN_TILE),
            (int)(columns < QN_TILE ? columns : (int64_t)QN_TILE),
            a.per_in * a.taps, true, false, sum);
        QN_UNROLL
        for (int i = 0; i < QN_TILE_EACH; i++)
            QN_UNROLL
            for (int j = 0; j < QN_TILE_EACH; j++) {
                const int64_t row = m0 + qn_tile_row(i);
                const int64_t pixel = p0 + qn_tile_column(j);
                const int64_t m = group * a.per_out + row;
                if (row < a.per_out && pixel < a.out_pixels)
                    write<T>(a, (image * a.m + m) * a.out_pixels + pixel, m,
                             sum[i][j]);
            }
    }
}

/* ---- an output a thread ---- */

template <class T> QN_DEVICE void one(const conv &a, int64_t to)
{
    int64_t pixel, m, base[3];
    const int64_t image = qn_fastdiv_divmod(
        &a.by_m, qn_fastdiv_divmod(&a.by_pixels, to, &pixel), &m);
    bases(a, pixel, base);
    const int64_t group = m / a.per_out, own = m - group * a.per_out;
    const T *x = (const T *)a.x +
                 (image * a.c + group * a.per_in) * a.in_pixels;
    /* distance of the weights of one channel and the next */
    const int64_t step = (a.transposed ? a.per_out : (int64_t)1) * a.taps;
    const T *w = (const T *)a.w +
                 (a.transposed ? group * a.per_in * a.per_out + own
                               : m * a.per_in) * a.taps;
    qn_acc<T> sum = 0;
    for (int64_t c = 0; c < a.per_in; c++, x += a.in_pixels, w += step) {
        int64_t tap = 0;
        for (int64_t td = 0; td < a.kernel[0]; td++) {
            const int64_t d = source(a, 0, base[0], td);
            for (int64_t th = 0; th < a.kernel[1]; th++) {
                const int64_t h = source(a, 1, base[1], th);
                if (d < 0 || h < 0) {
                    tap += a.kernel[2];
                    continue;
                }
                const int64_t row = (d * a.in[1] + h) * a.in[2];
                for (int64_t tw = 0; tw < a.kernel[2]; tw++, tap++) {
                    const int64_t at = source(a, 2, base[2], tw);
                    if (at >= 0)
                        sum += qn_load(w, tap) * qn_load(x, row + at);
                }
            }
        }
    }
    write<T>(a, to, m, sum);
}

template <class T> QN_DEVICE void each(const conv &a)
{
    for (int64_t i = qn_global_index(); i < a.total; i += qn_global_threads())
        one<T>(a, i);
}

template <class T, int K> QN_DEVICE void depthwise(const conv &a)
{
    const int height = (int)a.in[1], width = (int)a.in[2];
    for (int64_t to = qn_global_index(); to < a.total;
         to += qn_global_threads()) {
        int64_t pixel, m, oh, ow;
        const int64_t image = qn_fastdiv_divmod(
            &a.by_m, qn_fastdiv_divmod(&a.by_pixels, to, &pixel), &m);
        oh = qn_fastdiv_divmod(&a.by_out[2], pixel, &ow);
        const int64_t channel = a.per_out == 1 ? m : m / a.per_out;
        const T *x = (const T *)a.x + (image * a.c + channel) * a.in_pixels;
        const T *w = (const T *)a.w + m * K * K;
        const int h0 = (int)(oh * a.stride[1] - a.pad[1]);
        const int w0 = (int)(ow * a.stride[2] - a.pad[2]);
        const int step_h = (int)a.dilation[1], step_w = (int)a.dilation[2];
        qn_acc<T> sum = 0;
        QN_UNROLL
        for (int i = 0; i < K; i++) {
            const int h = h0 + i * step_h;
            if (h < 0 || h >= height)
                continue;
            QN_UNROLL
            for (int j = 0; j < K; j++) {
                const int at = w0 + j * step_w;
                if (at >= 0 && at < width)
                    sum += qn_load(w, i * K + j) *
                           qn_load(x, (int64_t)h * width + at);
            }
        }
        write<T>(a, to, m, sum);
    }
}

#define KERNELS(name, type)                                                    \
    QN_KERNEL_BOUNDS(conv_tile_##name, QN_TILE_THREADS, struct qn_conv_args, a) \
    {                                                                          \
        tiles<type>(a);                                                        \
    }                                                                          \
    QN_KERNEL_BOUNDS(conv_each_##name, 256, struct qn_conv_args, a)            \
    {                                                                          \
        each<type>(a);                                                         \
    }

#define DEPTHWISE(name, type)                                                  \
    QN_KERNEL_BOUNDS(conv_depth3_##name, 256, struct qn_conv_args, a)          \
    {                                                                          \
        depthwise<type, 3>(a);                                                 \
    }                                                                          \
    QN_KERNEL_BOUNDS(conv_depth5_##name, 256, struct qn_conv_args, a)          \
    {                                                                          \
        depthwise<type, 5>(a);                                                 \
    }

KERNELS(f32, float)
KERNELS(f64, double)
KERNELS(f16, qn_half)
KERNELS(bf16, qn_bf16)
DEPTHWISE(f32, float)
DEPTHWISE(f16, qn_half)
DEPTHWISE(bf16, qn_bf16)

/* ---- around the library's ---- */

template <class T> QN_DEVICE void pad(const qn_conv_pad_args &a)
{
    const T *from = (const T *)a.from;
    T *to = (T *)a.to;
    for (int64_t i = qn_global_index(); i < a.total;
         i += qn_global_threads()) {
        int64_t at[3], rest = i;
        bool inside = true;
        QN_UNROLL
        for (int axis = 2; axis >= 0; axis--) {
            rest = qn_fastdiv_divmod(&a.by_to[axis], rest, &at[axis]);
            at[axis] -= a.before[axis];
            inside = inside && at[axis] >= 0 && at[axis] < a.in[axis];
        }
        to[i] = inside ? from[((rest * a.in[0] + at[0]) * a.in[1] + at[1]) *
                                  a.in[2] + at[2]]
                       : T(0);
    }
}

QN_KERNEL_BOUNDS(conv_pad_2, 256, struct qn_conv_pad_args, a)
{
    pad<uint16_t>(a);
}

QN_KERNEL_BOUNDS(conv_pad_4, 256, struct qn_conv_pad_args, a)
{
    pad<uint32_t>(a);
}

QN_DEVICE float finished(const qn_conv_finish_args &a, float x, float bias,
                         float residual)
{
    x += bias;
    x += residual;
    return qn_device_act(a.act, a.act_a, a.act_b, x);
}

QN_DEVICE float bias_at(const qn_conv_finish_args &a, int64_t i)
{
    int64_t m;
    if (!a.bias)
        return -0.0f; /* leaves -0 alone */
    (void)qn_fastdiv_divmod(&a.by_m, qn_fastdiv_quotient(&a.by_pixels, i), &m);
    return a.bias[m];
}

QN_KERNEL_BOUNDS(conv_finish, 256, struct qn_conv_finish_args, a)
{
    /* 4 pixels of one channel */
    const bool wide = qn_aligned16(a.x) && qn_aligned16(a.y) &&
                      qn_aligned16(a.residual) && a.by_pixels.divisor % 4 == 0;
    const int64_t vectors = wide ? a.total / 4 : 0;
    for (int64_t i = qn_global_index(); i < vectors; i += qn_global_threads()) {
        const float bias = bias_at(a, 4 * i);
        qn_vec<float> x = qn_vec_load(a.x + 4 * i), r = {};
        if (a.residual)
            r = qn_vec_load(a.residual + 4 * i);
        QN_UNROLL
        for (int j = 0; j < 4; j++)
            x.v[j] = finished(a, x.v[j], bias, a.residual ? r.v[j] : -0.0f);
        qn_vec_store(a.y + 4 * i, x);
    }
    for (int64_t i = 4 * vectors + qn_global_index(); i < a.total;
         i += qn_global_threads())
        a.y[i] = finished(a, a.x[i], bias_at(a, i),
                          a.residual ? a.residual[i] : -0.0f);
}

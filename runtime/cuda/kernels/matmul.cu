/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products that the library does not do, and what goes around those that
 * it does.
 *
 *   matmul_<type>         one block a tile of 64 x 64 (tile.h); tiles are
 *                         numbered along n, then m, then the batch
 *   matmul_spread_<size>  C, broadcast, into the output
 *   matmul_finish         an activation, in place
 *   matmul_cast_<type>    float operands to 16 bits
 */
#include "runtime/cuda/kernels/matmul.h"
#include "runtime/cuda/kernels/act.h"
#include "runtime/cuda/kernels/tile.h"

/* ---- the product ---- */

/* How elements of T are computed with. Integers wrap; their alpha and beta are
 * whole numbers, converted through int64 so that -1 wraps too. */
template <class T> struct number {
    typedef qn_acc<T> acc;
    static __device__ acc scale(double x)
    {
        return (acc)x;
    }
    static __device__ acc get(const T *p, int64_t i)
    {
        return qn_load(p, i);
    }
};

template <class T> struct integer {
    typedef T acc;
    static __device__ T scale(double x)
    {
        return (T)(int64_t)x;
    }
    static __device__ T get(const T *p, int64_t i)
    {
        return p[i];
    }
};
template <> struct number<uint32_t> : integer<uint32_t> {};
template <> struct number<uint64_t> : integer<uint64_t> {};

QN_DEVICE float act_of(const qn_matmul_args &a, float x)
{
    return qn_device_act(a.act, a.act_a, a.act_b, x);
}
template <class V> QN_DEVICE V act_of(const qn_matmul_args &, V x)
{
    return x; /* only float is fused */
}

QN_DEVICE void put(uint32_t *p, int64_t i, uint32_t v)
{
    p[i] = v;
}
QN_DEVICE void put(uint64_t *p, int64_t i, uint64_t v)
{
    p[i] = v;
}
template <class T, class V> QN_DEVICE void put(T *p, int64_t i, V v)
{
    qn_store(p, i, v);
}

/* The part of an operand that a tile reads: a step per row or column, and one
 * per k. */
template <class T> struct strided {
    const T *p;
    int64_t step, step_k;
};
template <class T> struct rows_of : strided<T> {
    __device__ typename number<T>::acc operator()(int r, int64_t k) const
    {
        return number<T>::get(this->p, r * this->step + k * this->step_k);
    }
};
template <class T> struct columns_of : strided<T> {
    __device__ typename number<T>::acc operator()(int64_t k, int c) const
    {
        return number<T>::get(this->p, c * this->step + k * this->step_k);
    }
};

template <class T, class O>
QN_DEVICE void write_tile(const qn_matmul_args &a, int64_t batch, int64_t m0,
                          int64_t n0, const typename number<T>::acc (*sum)[4])
{
    typedef typename number<T>::acc acc;
    const acc alpha = number<T>::scale(a.alpha);
    const acc beta = number<T>::scale(a.beta);
    QN_UNROLL
    for (int i = 0; i < QN_TILE_EACH; i++) {
        const int64_t m = m0 + qn_tile_row(i);
        QN_UNROLL
        for (int j = 0; j < QN_TILE_EACH; j++) {
            const int64_t n = n0 + qn_tile_column(j);
            if (m >= a.m || n >= a.n)
                continue;
            const int64_t to = (batch * a.m + m) * a.n + n;
            acc x = alpha * sum[i][j];
            if (a.c)
                x += beta * number<O>::get((const O *)a.c,
                                           m * a.c_row + n * a.c_col);
            if (a.residual)
                x += number<O>::get((const O *)a.residual, to);
            put((O *)a.out, to, act_of(a, x));
        }
    }
}

template <class T, class O> QN_DEVICE void product(const qn_matmul_args &a)
{
    const int64_t tiles = a.batches * a.tiles_m * a.tiles_n;
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        typename number<T>::acc sum[QN_TILE_EACH][QN_TILE_EACH];
        const int64_t n0 = tile % a.tiles_n * QN_TILE;
        const int64_t m0 = tile / a.tiles_n % a.tiles_m * QN_TILE;
        const int64_t batch = tile / a.tiles_n / a.tiles_m;
        int64_t rest = batch, at_a = 0, at_b = 0;
        for (int d = a.rank - 1; d >= 0; d--) {
            at_a += rest % a.dims[d] * a.step_a[d];
            at_b += rest % a.dims[d] * a.step_b[d];
            rest /= a.dims[d];
        }
        rows_of<T> x;
        x.p = (const T *)a.a + at_a + m0 * a.a_row;
        x.step = a.a_row;
        x.step_k = a.a_col;
        columns_of<T> y;
        y.p = (const T *)a.b + at_b + n0 * a.b_col;
        y.step = a.b_col;
        y.step_k = a.b_row;
        qn_tile_product<typename number<T>::acc>(
            x, y, (int)(a.m - m0 < QN_TILE ? a.m - m0 : (int64_t)QN_TILE),
            (int)(a.n - n0 < QN_TILE ? a.n - n0 : (int64_t)QN_TILE), a.k,
            a.a_col == 1, a.b_row == 1 && a.b_col != 1, sum);
        write_tile<T, O>(a, batch, m0, n0, sum);
    }
}

#define PRODUCT(name, type, to)                                                \
    QN_KERNEL_BOUNDS(matmul_##name, QN_TILE_THREADS, struct qn_matmul_args, a) \
    {                                                                          \
        product<type, to>(a);                                                  \
    }

PRODUCT(f32, float, float)
PRODUCT(f64, double, double)
PRODUCT(f16, qn_half, qn_half)
PRODUCT(bf16, qn_bf16, qn_bf16)
PRODUCT(f16_f32, qn_half, float)
PRODUCT(bf16_f32, qn_bf16, float)
PRODUCT(u32, uint32_t, uint32_t)
PRODUCT(u64, uint64_t, uint64_t)

/* ---- around the library's ---- */

template <class T> QN_DEVICE void spread(const qn_matmul_spread_args &a)
{
    const T *c = (const T *)a.c;
    T *out = (T *)a.out;
    const int64_t n = a.rows * a.n;
    for (int64_t i = qn_global_index(); i < n; i += qn_global_threads()) {
        const int64_t row = i / a.n, column = i - row * a.n;
        out[i] = c[(a.c_row ? row % a.m * a.c_row : 0) + column * a.c_col];
    }
}

QN_KERNEL_BOUNDS(matmul_spread_2, 256, struct qn_matmul_spread_args, a)
{
    spread<uint16_t>(a);
}

QN_KERNEL_BOUNDS(matmul_spread_4, 256, struct qn_matmul_spread_args, a)
{
    spread<uint32_t>(a);
}

QN_KERNEL_BOUNDS(matmul_spread_8, 256, struct qn_matmul_spread_args, a)
{
    spread<uint64_t>(a);
}

QN_KERNEL_BOUNDS(matmul_finish, 256, struct qn_matmul_finish_args, a)
{
    const int64_t vectors = qn_aligned16(a.out) ? a.n / 4 : 0;
    for (int64_t i = qn_global_index(); i < vectors; i += qn_global_threads()) {
        qn_vec<float> x = qn_vec_load(a.out + 4 * i);
        QN_UNROLL
        for (int j = 0; j < 4; j++)
            x.v[j] = qn_device_act(a.act, a.act_a, a.act_b, x.v[j]);
        qn_vec_store(a.out + 4 * i, x);
    }
    for (int64_t i = 4 * vectors + qn_global_index(); i < a.n;
         i += qn_global_threads())
        a.out[i] = qn_device_act(a.act, a.act_a, a.act_b, a.out[i]);
}

template <class T> QN_DEVICE void cast(const qn_matmul_cast_args &a)
{
    T *to = (T *)a.to;
    const bool wide = qn_aligned16(a.from) && qn_aligned16(a.to);
    const int64_t vectors = wide ? a.n / 8 : 0;
    for (int64_t i = qn_global_index(); i < vectors; i += qn_global_threads()) {
        const qn_vec<float> low = qn_vec_load(a.from + 8 * i);
        const qn_vec<float> high = qn_vec_load(a.from + 8 * i + 4);
        qn_vec<T> v;
        QN_UNROLL
        for (int j = 0; j < 4; j++) {
            v.v[j] = qn_narrow<T>(low.v[j]);
            v.v[j + 4] = qn_narrow<T>(high.v[j]);
        }
        qn_vec_store(to + 8 * i, v);
    }
    for (int64_t i = 8 * vectors + qn_global_index(); i < a.n;
         i += qn_global_threads())
        qn_store(to, i, a.from[i]);
}

QN_KERNEL_BOUNDS(matmul_cast_f16, 256, struct qn_matmul_cast_args, a)
{
    cast<qn_half>(a);
}

QN_KERNEL_BOUNDS(matmul_cast_bf16, 256, struct qn_matmul_cast_args, a)
{
    cast<qn_bf16>(a);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * y = x0 op x1 op x2 ..., from the left, broadcast (walk.h), in float for 16-bit
 * floats; and Where. All operands of an element are read before it is written:
 * y may lie over any of them.
 */
#include "runtime/cuda/kernels/variadic.h"

#include "runtime/cuda/kernels/pointwise.h"

template <class T> struct folded {
    typedef T type;
};
template <> struct folded<qn_half> {
    typedef float type;
};
template <> struct folded<qn_bf16> {
    typedef float type;
};

QN_DEVICE float to_wide(qn_half v) { return qn_to_float(v); }
QN_DEVICE float to_wide(qn_bf16 v) { return qn_to_float(v); }
template <class T> QN_DEVICE T to_wide(T v) { return v; }

template <class T> struct from_wide {
    static __device__ T of(T v) { return v; }
};
template <> struct from_wide<qn_half> {
    static __device__ qn_half of(float v) { return qn_to_half(v); }
};
template <> struct from_wide<qn_bf16> {
    static __device__ qn_bf16 of(float v) { return qn_to_bf16(v); }
};

/* Sums and means are of floats only. NaN in either wins. */
QN_DEVICE float fold(int op, float p, float q)
{
    return op == QN_PW_add   ? add(p, q)
           : op == QN_PW_max ? (p > q || p != p ? p : q)
                             : (p < q || p != p ? p : q);
}
QN_DEVICE double fold(int op, double p, double q)
{
    return op == QN_PW_add   ? add(p, q)
           : op == QN_PW_max ? (p > q || p != p ? p : q)
                             : (p < q || p != p ? p : q);
}
template <class A> QN_DEVICE A fold(int op, A p, A q)
{
    return (op == QN_PW_max) == (p > q) ? p : q;
}
QN_DEVICE float fold_mean(float a, double n) { return a / (float)n; }
QN_DEVICE double fold_mean(double a, double n) { return a / n; }
template <class A> QN_DEVICE A fold_mean(A a, double) { return a; }

template <class T> QN_DEVICE void run_fold(const qn_fold_args &g)
{
    typedef typename folded<T>::type A;
    const int V = 16 / sizeof(T);
    uint32_t chunks = walk_chunks<V>(g.walk);
    for (uint32_t c = blockIdx.x; c < chunks; c += gridDim.x) {
        walk_place place = walk_at<V>(g.walk, c);
        uint32_t left = 0; /* of the thread's V elements, those that exist */
        A acc[V] = {};
        QN_UNROLL
        for (int e = 0; e < V; e++)
            left += place.first + (uint32_t)e * place.step < g.walk.total;
        A *sum = (A *)g.sum + place.first;
        if (!(g.flags & QN_FOLD_FIRST))
            QN_UNROLL
            for (uint32_t e = 0; e < V; e++)
                if (e < left)
                    acc[e] = sum[e * place.step];
        T x[1][V] = {};
        for (int i = 0; i < g.n; i++) {
            bool start = i == 0 && (g.flags & QN_FOLD_FIRST);
            walk_load<T, V, 1>(g.walk, &g.in[i], place, x);
            QN_UNROLL
            for (int e = 0; e < V; e++) {
                A q = to_wide(x[0][e]);
                acc[e] = start ? q : fold(g.op, acc[e], q);
            }
        }
        if (!(g.flags & QN_FOLD_LAST)) {
            QN_UNROLL
            for (uint32_t e = 0; e < V; e++)
                if (e < left)
                    sum[e * place.step] = acc[e];
            continue;
        }
        QN_UNROLL
        for (int e = 0; e < V; e++) {
            if (g.flags & QN_FOLD_MEAN)
                acc[e] = fold_mean(acc[e], g.count);
            x[0][e] = from_wide<T>::of(acc[e]);
        }
        walk_store<T, V>(g.walk, g.y, place, x[0]);
    }
}

#define FOLD(suffix, T)                                                        \
    QN_KERNEL_BOUNDS(variadic_##suffix, QN_WALK_THREADS, qn_fold_args, g)      \
    {                                                                          \
        run_fold<T>(g);                                                        \
    }
FOLD(f32, float)
FOLD(f64, double)
FOLD(f16, qn_half)
FOLD(bf16, qn_bf16)
FOLD(i8, int8_t)
FOLD(i16, int16_t)
FOLD(i32, int32_t)
FOLD(i64, int64_t)
FOLD(u8, uint8_t)
FOLD(u16, uint16_t)
FOLD(u32, uint32_t)
FOLD(u64, uint64_t)

/* ---- Where: elements are moved, so only their size counts ---- */

struct alignas(8) where_16 {
    uint64_t part[2];
};

template <class T, int V> QN_DEVICE void run_where(const qn_where_args &g)
{
    uint32_t chunks = walk_chunks<V>(g.walk);
    for (uint32_t c = blockIdx.x; c < chunks; c += gridDim.x) {
        walk_place place = walk_at<V>(g.walk, c);
        uint8_t cond[1][V] = {};
        T x[2][V] = {};
        walk_load<uint8_t, V, 1>(g.walk, &g.c, place, cond);
        walk_load<T, V, 2>(g.walk, g.in, place, x);
        QN_UNROLL
        for (int i = 0; i < V; i++)
            x[0][i] = cond[0][i] ? x[0][i] : x[1][i];
        walk_store<T, V>(g.walk, g.y, place, x[0]);
    }
}

#define WHERE(size, T)                                                         \
    QN_KERNEL_BOUNDS(variadic_where_##size, QN_WALK_THREADS, qn_where_args, g) \
    {                                                                          \
        run_where<T, 16 / size>(g);                                            \
    }
WHERE(1, uint8_t)
WHERE(2, uint16_t)
WHERE(4, uint32_t)
WHERE(8, uint64_t)
WHERE(16, where_16)

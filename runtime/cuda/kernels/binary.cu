/* SPDX-License-Identifier: Apache-2.0 */
/*
 * y = f(a, b), broadcast over a walk of two operands (walk.h). 16-bit floats are
 * computed in float and rounded once. Integers wrap; a zero divisor is reported,
 * and that element is 0.
 */
#include "runtime/cuda/kernels/binary.h"

#include "runtime/cuda/kernels/convert.h"
#include "runtime/cuda/kernels/integer.h"
#include "runtime/cuda/kernels/pointwise.h"

/* ---- floats ---- */

/* RARE: fmod and pow, which are long. */
template <class T, bool RARE> QN_DEVICE void run_float(const qn_binary_args &g)
{
    typedef qn_acc<T> F;
    const int V = 16 / sizeof(T);
    uint32_t chunks = walk_chunks<V>(g.walk);
    for (uint32_t c = blockIdx.x; c < chunks; c += gridDim.x) {
        T x[2][V] = {};
        F p[V], q[V];
        walk_place place = walk_at<V>(g.walk, c);
        walk_load<T, V, 2>(g.walk, g.in, place, x);
        QN_UNROLL
        for (int i = 0; i < V; i++) {
            p[i] = qn_widen(x[0][i]);
            q[i] = qn_widen(x[1][i]);
        }
        if (RARE)
            pw_two_rare<F, V>(g.op, p, q);
        else
            pw_two<F, V>(g.op, p, q);
        QN_UNROLL
        for (int i = 0; i < V; i++)
            x[0][i] = qn_narrow<T>(p[i]);
        walk_store<T, V>(g.walk, g.y, place, x[0]);
    }
}

#define FLOAT(suffix, T)                                                       \
    QN_KERNEL_BOUNDS(binary_##suffix, QN_WALK_THREADS, qn_binary_args, g)      \
    {                                                                          \
        run_float<T, false>(g);                                                \
    }                                                                          \
    QN_KERNEL_BOUNDS(binary_rare_##suffix, QN_WALK_THREADS, qn_binary_args, g) \
    {                                                                          \
        run_float<T, true>(g);                                                 \
    }
FLOAT(f32, float)
FLOAT(f64, double)
FLOAT(f16, qn_half)
FLOAT(bf16, qn_bf16)

/* ---- integers and booleans ---- */

#define EACH(f, expr)                                                          \
    case QN_PW_##f:                                                            \
        QN_UNROLL                                                              \
        for (int i = 0; i < V; i++) {                                          \
            T p = x[0][i], q = x[1][i];                                        \
            x[0][i] = (T)(expr);                                               \
        }                                                                      \
        break;

template <class T> QN_DEVICE void run_int(const qn_binary_args &g)
{
    typedef int_unsigned<T> W;
    const int V = 16 / sizeof(T);
    uint32_t chunks = walk_chunks<V>(g.walk);
    for (uint32_t c = blockIdx.x; c < chunks; c += gridDim.x) {
        T x[2][V] = {};
        walk_place place = walk_at<V>(g.walk, c);
        walk_load<T, V, 2>(g.walk, g.in, place, x);
        switch (g.op) {
            EACH(add, W(p) + W(q))
            EACH(sub, W(p) - W(q))
            EACH(mul, W(p) * W(q))
            EACH(max, p > q ? p : q)
            EACH(min, p < q ? p : q)
            EACH(prelu, is_negative(p) ? W(p) * W(q) : W(p))
            EACH(and, p & q)
            EACH(or, p | q)
            EACH(xor, p ^ q)
            EACH(shl, W(q) < 8 * sizeof(T) ? W(p) << W(q) : W(0))
            EACH(shr, W(q) < 8 * sizeof(T) ? W(p) >> W(q) : W(0))
        }
        walk_store<T, V>(g.walk, g.y, place, x[0]);
    }
}
#undef EACH

/* A division takes longer than its memory access: no vectors, one copy of the
 * code. */
template <class T> QN_DEVICE void run_divide(const qn_binary_args &g)
{
    uint32_t chunks = walk_chunks<1>(g.walk);
    for (uint32_t c = blockIdx.x; c < chunks; c += gridDim.x) {
        T x[2][1] = {};
        walk_place place = walk_at<1>(g.walk, c);
        walk_load<T, 1, 2>(g.walk, g.in, place, x);
        T p = x[0][0], q = x[1][0];
        if (place.first >= g.walk.total)
            return;
        if (q == T(0)) {
            qn_device_fault(g.fault, QN_DEVICE_FAULT_DIVIDE,
                            g.at + place.first, 0);
            x[0][0] = T(0);
        } else {
            x[0][0] = g.op == QN_PW_div    ? int_quotient(p, q)
                      : g.op == QN_PW_fmod ? int_fmod(p, q)
                                           : int_mod(p, q);
        }
        walk_store<T, 1>(g.walk, g.y, place, x[0]);
    }
}

#define INT(suffix, T)                                                         \
    QN_KERNEL_BOUNDS(binary_##suffix, QN_WALK_THREADS, qn_binary_args, g)      \
    {                                                                          \
        run_int<T>(g);                                                         \
    }                                                                          \
    QN_KERNEL_BOUNDS(binary_divide_##suffix, QN_WALK_THREADS, qn_binary_args,  \
                     g)                                                        \
    {                                                                          \
        run_divide<T>(g);                                                      \
    }
INT(i8, int8_t)
INT(i16, int16_t)
INT(i32, int32_t)
INT(i64, int64_t)
INT(u8, uint8_t)
INT(u16, uint16_t)
INT(u32, uint32_t)
INT(u64, uint64_t)

/* ---- comparisons ---- */

template <class T> struct compared {
    typedef T type;
};
template <> struct compared<qn_half> {
    typedef float type;
};
template <> struct compared<qn_bf16> {
    typedef float type;
};
QN_DEVICE float comparable(qn_half v) { return qn_to_float(v); }
QN_DEVICE float comparable(qn_bf16 v) { return qn_to_float(v); }
template <class T> QN_DEVICE T comparable(T v) { return v; }

#define EACH(f, expr)                                                          \
    case QN_PW_##f:                                                            \
        QN_UNROLL                                                              \
        for (int i = 0; i < V; i++) {                                          \
            F p = comparable(x[0][i]), q = comparable(x[1][i]);                \
            y[i] = (expr);                                                     \
        }                                                                      \
        break;

template <class T> QN_DEVICE void run_compare(const qn_binary_args &g)
{
    typedef typename compared<T>::type F;
    const int V = 16 / sizeof(T);
    uint32_t chunks = walk_chunks<V>(g.walk);
    for (uint32_t c = blockIdx.x; c < chunks; c += gridDim.x) {
        T x[2][V] = {};
        uint8_t y[V] = {};
        walk_place place = walk_at<V>(g.walk, c);
        walk_load<T, V, 2>(g.walk, g.in, place, x);
        switch (g.op) {
            EACH(eq, p == q)
            EACH(lt, p < q)
            EACH(le, p <= q)
            EACH(gt, p > q)
            EACH(ge, p >= q)
        }
        walk_store<uint8_t, V>(g.walk, g.y, place, y);
    }
}
#undef EACH

#define COMPARE(suffix, T)                                                     \
    QN_KERNEL_BOUNDS(binary_compare_##suffix, QN_WALK_THREADS, qn_binary_args, \
                     g)                                                        \
    {                                                                          \
        run_compare<T>(g);                                                     \
    }
COMPARE(f32, float)
COMPARE(f64, double)
COMPARE(f16, qn_half)
COMPARE(bf16, qn_bf16)
COMPARE(i8, int8_t)
COMPARE(i16, int16_t)
COMPARE(i32, int32_t)
COMPARE(i64, int64_t)
COMPARE(u8, uint8_t)
COMPARE(u16, uint16_t)
COMPARE(u32, uint32_t)
COMPARE(u64, uint64_t)

/* ---- Pow of mixed types (rules in runtime/cpu/binary_pow.c) ---- */

QN_DEVICE int64_t power(uint64_t base, uint64_t exponent)
{
    uint64_t r = 1;
    for (; exponent; exponent >>= 1, base *= base)
        if (exponent & 1)
            r *= base;
    return (int64_t)r;
}

/* integer ^ integer: exact, wraps as products do */
QN_KERNEL_BOUNDS(binary_pow_i64, QN_WALK_THREADS, qn_binary_args, g)
{
    uint32_t off[2];
    for (uint32_t i = (uint32_t)qn_global_index(); i < g.walk.total;
         i += (uint32_t)qn_global_threads()) {
        walk_offsets<2>(g.walk, g.in, i, off);
        int64_t p = cv_load_i64(g.dtype[0], g.in[0].data, off[0]);
        int64_t q = cv_load_i64(g.dtype[1], g.in[1].data, off[1]);
        int64_t y;
        if (q >= 0 || g.dtype[1] == QN_U64) {
            y = power((uint64_t)p, (uint64_t)q);
        } else {
            y = p == 1 ? 1 : p != -1 ? 0 : q & 1 ? -1 : 1;
            if (p == 0)
                qn_device_fault(g.fault, QN_DEVICE_FAULT_DIVIDE, g.at + i, 0);
        }
        cv_store_i64(g.dtype[0], g.y, i, y);
    }
}

/* both fit float */
QN_KERNEL_BOUNDS(binary_pow_f32, QN_WALK_THREADS, qn_binary_args, g)
{
    uint32_t off[2];
    for (uint32_t i = (uint32_t)qn_global_index(); i < g.walk.total;
         i += (uint32_t)qn_global_threads()) {
        walk_offsets<2>(g.walk, g.in, i, off);
        float p = cv_load_f32(g.dtype[0], g.in[0].data, off[0]);
        float q = cv_load_f32(g.dtype[1], g.in[1].data, off[1]);
        cv_store_f64(g.dtype[0], g.y, i, (double)pw_pow(p, q));
    }
}

QN_KERNEL_BOUNDS(binary_pow_f64, QN_WALK_THREADS, qn_binary_args, g)
{
    uint32_t off[2];
    for (uint32_t i = (uint32_t)qn_global_index(); i < g.walk.total;
         i += (uint32_t)qn_global_threads()) {
        walk_offsets<2>(g.walk, g.in, i, off);
        double p = cv_load_f64(g.dtype[0], g.in[0].data, off[0]);
        double q = cv_load_f64(g.dtype[1], g.in[1].data, off[1]);
        cv_store_f64(g.dtype[0], g.y, i, pw_pow(p, q));
    }
}

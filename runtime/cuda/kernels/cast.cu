/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Element types into one another (rules: runtime/cpu/convert.h). The source's
 * type decides in what a thread holds its elements, int64, float or double; from
 * there every target is one step. So 25 x 24 pairs are three kernels, each with
 * a switch before and one after; the pairs that nets are full of have kernels
 * of their own, of the same code with both types known.
 */
#include "runtime/cuda/kernels/cast.h"

#include "runtime/cuda/kernels/convert.h"

enum { V = QN_CAST_WIDTH };

/* ---- memory to registers ---- */

QN_DEVICE void widen(int64_t &to, int64_t v) { to = v; }
QN_DEVICE void widen(int64_t &to, uint64_t v) { to = (int64_t)v; }
QN_DEVICE void widen(int64_t &to, int32_t v) { to = v; }
QN_DEVICE void widen(int64_t &to, uint32_t v) { to = v; }
QN_DEVICE void widen(int64_t &to, int16_t v) { to = v; }
QN_DEVICE void widen(int64_t &to, uint16_t v) { to = v; }
QN_DEVICE void widen(int64_t &to, int8_t v) { to = v; }
QN_DEVICE void widen(int64_t &to, uint8_t v) { to = v; }
QN_DEVICE void widen(float &to, float v) { to = v; }
QN_DEVICE void widen(float &to, qn_half v) { to = qn_to_float(v); }
QN_DEVICE void widen(float &to, qn_bf16 v) { to = qn_to_float(v); }
QN_DEVICE void widen(double &to, double v) { to = v; }

template <class T, class W>
QN_DEVICE void take(const qn_cast_args &g, const walk_place &p, W (&w)[V])
{
    T x[1][V] = {};
    walk_load<T, V, 1>(g.walk, &g.x, p, x);
    QN_UNROLL
    for (int i = 0; i < V; i++)
        widen(w[i], x[0][i]);
}

QN_DEVICE void fetch(const qn_cast_args &g, const walk_place &p, int from,
                     int64_t (&w)[V])
{
    switch (from) {
    case QN_I8:
    case QN_I4:
    case QN_I2:
        return take<int8_t>(g, p, w);
    case QN_I16:
        return take<int16_t>(g, p, w);
    case QN_U16:
        return take<uint16_t>(g, p, w);
    case QN_I32:
        return take<int32_t>(g, p, w);
    case QN_U32:
        return take<uint32_t>(g, p, w);
    case QN_I64:
    case QN_U64:
        return take<int64_t>(g, p, w);
    default: /* uint8, bool, uint4, uint2 */
        return take<uint8_t>(g, p, w);
    }
}

QN_DEVICE void fetch(const qn_cast_args &g, const walk_place &p, int from,
                     float (&w)[V])
{
    if (from == QN_F32)
        return take<float>(g, p, w);
    if (from == QN_F16)
        return take<qn_half>(g, p, w);
    if (from == QN_BF16)
        return take<qn_bf16>(g, p, w);
    uint8_t x[1][V] = {};
    walk_load<uint8_t, V, 1>(g.walk, &g.x, p, x);
    QN_UNROLL
    for (int i = 0; i < V; i++)
        w[i] = cv_decode(from, x[0][i]);
}

QN_DEVICE void fetch(const qn_cast_args &g, const walk_place &p, int,
                     double (&w)[V])
{
    take<double>(g, p, w);
}

/* ---- one step to the target ---- */

QN_DEVICE int32_t as_i32(int64_t v, int) { return (int32_t)v; }
QN_DEVICE int32_t as_i32(float v, int) { return cv_i32(v); }
QN_DEVICE int32_t as_i32(double v, int) { return cv_i32(v); }
QN_DEVICE int64_t as_i64(int64_t v, int) { return v; }
QN_DEVICE int64_t as_i64(float v, int) { return cv_i64(v); }
QN_DEVICE int64_t as_i64(double v, int) { return cv_i64(v); }
QN_DEVICE uint64_t as_u64(int64_t v, int) { return (uint64_t)v; }
QN_DEVICE uint64_t as_u64(float v, int) { return cv_u64((double)v); }
QN_DEVICE uint64_t as_u64(double v, int) { return cv_u64(v); }
QN_DEVICE float as_f32(int64_t v, int from)
{
    return from == QN_U64 ? (float)(uint64_t)v : (float)v;
}
QN_DEVICE float as_f32(float v, int) { return v; }
QN_DEVICE float as_f32(double v, int) { return (float)v; }
QN_DEVICE double as_f64(int64_t v, int from)
{
    return from == QN_U64 ? (double)(uint64_t)v : (double)v;
}
QN_DEVICE double as_f64(float v, int) { return v; }
QN_DEVICE double as_f64(double v, int) { return v; }
/* what rounds to a narrower float as v would */
QN_DEVICE float as_odd(int64_t v, int from)
{
    return cv_odd(v, from == QN_U64);
}
QN_DEVICE float as_odd(float v, int) { return v; }
QN_DEVICE float as_odd(double v, int) { return cv_odd(v); }

#define PUT(T, expr)                                                           \
    {                                                                          \
        T y[V];                                                                \
        QN_UNROLL                                                              \
        for (int i = 0; i < V; i++)                                            \
            y[i] = (T)(expr);                                                  \
        return walk_store<T, V>(g.walk, g.y, p, y);                            \
    }
#define PUT_AS(T, expr)                                                        \
    {                                                                          \
        T y[V];                                                                \
        QN_UNROLL                                                              \
        for (int i = 0; i < V; i++)                                            \
            y[i] = expr;                                                       \
        return walk_store<T, V>(g.walk, g.y, p, y);                            \
    }

template <class W>
QN_DEVICE void put(const qn_cast_args &g, const walk_place &p, int from, int to,
                   const W (&w)[V])
{
    switch (to) {
    case QN_F32:
        PUT(float, as_f32(w[i], from))
    case QN_F64:
        PUT(double, as_f64(w[i], from))
    case QN_F16:
        PUT_AS(qn_half, qn_to_half(as_odd(w[i], from)))
    case QN_BF16:
        PUT_AS(qn_bf16, qn_to_bf16(as_odd(w[i], from)))
    case QN_I8:
    case QN_U8:
        PUT(uint8_t, as_i32(w[i], from))
    case QN_I16:
    case QN_U16:
        PUT(uint16_t, as_i32(w[i], from))
    case QN_I32:
        PUT(int32_t, as_i32(w[i], from))
    case QN_U32:
        PUT(uint32_t, as_i64(w[i], from))
    case QN_I64:
        PUT(int64_t, as_i64(w[i], from))
    case QN_U64:
        PUT(uint64_t, as_u64(w[i], from))
    case QN_BOOL:
        PUT(uint8_t, w[i] != W(0))
    case QN_U4:
    case QN_I4:
    case QN_U2:
    case QN_I2:
        PUT(uint8_t, cv_settle(to, (uint8_t)as_i32(w[i], from)))
    default: /* floats of 8 and 4 bits */
        PUT(uint8_t,
            cv_encode(to, as_odd(w[i], from), g.wrap != 0, g.round))
    }
}

/* FROM, TO: types, or 0 for those of the arguments. K: accesses on the way. */
template <class W, int FROM, int TO, int K>
QN_DEVICE void run(const qn_cast_args &g)
{
    const int from = FROM ? FROM : g.from, to = TO ? TO : g.to;
    uint32_t chunks = walk_chunks<V>(g.walk);
    for (uint32_t c = blockIdx.x; c < chunks; c += K * gridDim.x) {
        W w[K][V];
        walk_place p[K];
        QN_UNROLL
        for (int k = 0; k < K; k++) {
            p[k] = walk_at<V>(g.walk, c + k * gridDim.x);
            fetch(g, p[k], from, w[k]);
        }
        QN_UNROLL
        for (int k = 0; k < K; k++)
            put(g, p[k], from, to, w[k]);
    }
}

QN_KERNEL_BOUNDS(cast_int, QN_WALK_THREADS, qn_cast_args, g)
{
    run<int64_t, 0, 0, 1>(g);
}
QN_KERNEL_BOUNDS(cast_float, QN_WALK_THREADS, qn_cast_args, g)
{
    run<float, 0, 0, 1>(g);
}
QN_KERNEL_BOUNDS(cast_double, QN_WALK_THREADS, qn_cast_args, g)
{
    run<double, 0, 0, 1>(g);
}

#define PAIR(from, to, F, W, T)                                                \
    QN_KERNEL_BOUNDS(cast_##from##_##to, QN_WALK_THREADS, qn_cast_args, g)     \
    {                                                                          \
        run<W, QN_##F, QN_##T, 2>(g);                                          \
    }
PAIR(f32, f16, F32, float, F16)
PAIR(f32, bf16, F32, float, BF16)
PAIR(f16, f32, F16, float, F32)
PAIR(bf16, f32, BF16, float, F32)
PAIR(f32, i64, F32, float, I64)
PAIR(f32, i32, F32, float, I32)
PAIR(i64, f32, I64, int64_t, F32)
PAIR(i64, i32, I64, int64_t, I32)
PAIR(i32, i64, I32, int64_t, I64)
PAIR(i32, f32, I32, int64_t, F32)
PAIR(u8, f32, U8, int64_t, F32)
PAIR(f32, u8, F32, float, U8)
PAIR(bool, f32, BOOL, int64_t, F32)

/* Bits that came from elsewhere become elements: x is bytes. */
QN_KERNEL_BOUNDS(cast_settle, QN_WALK_THREADS, qn_cast_args, g)
{
    uint32_t chunks = walk_chunks<V>(g.walk);
    for (uint32_t c = blockIdx.x; c < chunks; c += gridDim.x) {
        uint8_t x[1][V] = {};
        walk_place p = walk_at<V>(g.walk, c);
        walk_load<uint8_t, V, 1>(g.walk, &g.x, p, x);
        QN_UNROLL
        for (int i = 0; i < V; i++)
            x[0][i] = cv_settle(g.to, x[0][i]);
        walk_store<uint8_t, V>(g.walk, g.y, p, x[0]);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * y[i] = f(x[i]), i over a walk of one operand (walk.h); f is switched on for
 * all elements of a thread at once. 16-bit floats are computed in float and
 * rounded once, double in double; integers wrap.
 *
 * One kernel a type rather than one a function: 43 functions of 12 types would
 * be 300 kernels, and the switch costs a few instructions per 32 bytes.
 */
#include "runtime/cuda/kernels/unary.h"

#include "runtime/base/dtype.h"
#include "runtime/cuda/kernels/integer.h"
#include "runtime/cuda/kernels/pointwise.h"

/* ---- floats ---- */

/* V elements are 16 bytes; a thread takes K times that, to have more on the way
 * from memory at once. */
template <class T, int K, bool RARE>
QN_DEVICE void run_float(const qn_unary_args &g)
{
    typedef qn_acc<T> F;
    const int V = 16 / sizeof(T);
    uint32_t chunks = walk_chunks<V>(g.walk);
    F a = g.low ? qn_load((const T *)g.low, 0) : F(g.a);
    F b = g.high ? qn_load((const T *)g.high, 0) : F(g.b);
    for (uint32_t c = blockIdx.x; c < chunks; c += K * gridDim.x) {
        T x[K][1][V] = {};
        F f[K * V];
        walk_place p[K];
        QN_UNROLL
        for (int k = 0; k < K; k++) {
            p[k] = walk_at<V>(g.walk, c + k * gridDim.x);
            walk_load<T, V, 1>(g.walk, &g.x, p[k], x[k]);
        }
        QN_UNROLL
        for (int i = 0; i < K * V; i++)
            f[i] = qn_widen(x[i / V][0][i % V]);
        if (RARE)
            pw_rare<F, K * V>(g.op, f);
        else
            pw_common<F, K * V>(g.op, f, a, b);
        QN_UNROLL
        for (int k = 0; k < K; k++) {
            QN_UNROLL
            for (int i = 0; i < V; i++)
                x[k][0][i] = qn_narrow<T>(f[k * V + i]);
            walk_store<T, V>(g.walk, g.y, p[k], x[k][0]);
        }
    }
}

#define FLOAT(suffix, T, K)                                                    \
    QN_KERNEL_BOUNDS(unary_##suffix, QN_WALK_THREADS, qn_unary_args, g)        \
    {                                                                          \
        run_float<T, K, false>(g);                                             \
    }                                                                          \
    QN_KERNEL_BOUNDS(unary_rare_##suffix, QN_WALK_THREADS, qn_unary_args, g)   \
    {                                                                          \
        run_float<T, 1, true>(g);                                              \
    }

FLOAT(f32, float, 2)
FLOAT(f64, double, 1)
FLOAT(f16, qn_half, 1)
FLOAT(bf16, qn_bf16, 1)

/* ---- integers and booleans ---- */

/* erf of an integer, towards zero: in double it is 1 from 6 on. */
template <class T> QN_DEVICE T int_erf(T v)
{
    if (is_negative(v))
        return is_negative((T)(v + T(5))) ? (T)-1 : T(0);
    return v >= T(6) ? T(1) : T(0);
}

/* Shrink by a bias that may have a fraction: towards zero, as Cast does. */
template <class T> QN_DEVICE T int_shifted(T v, float by)
{
    double r = add((double)v, (double)by);
    if (by == 0.0f)
        return v;
    return (T)(uint64_t)(int64_t)(r >= -0x1p63 && r < 0x1p63 ? r : -0x1p63);
}

template <class T> QN_DEVICE T int_shrink(T v, float lambda, float bias)
{
    if ((double)v < -(double)lambda)
        return int_shifted(v, bias);
    if ((double)v > (double)lambda)
        return int_shifted(v, -bias);
    return T(0);
}

#define EACH(f, expr)                                                          \
    case QN_PW_##f:                                                            \
        QN_UNROLL                                                              \
        for (int i = 0; i < V; i++) {                                          \
            T v = x[0][i];                                                     \
            x[0][i] = (T)(expr);                                               \
        }                                                                      \
        break;

template <class T, class U> QN_DEVICE void run_int(const qn_unary_args &g)
{
    const int V = 16 / sizeof(T);
    uint32_t chunks = walk_chunks<V>(g.walk);
    /* the largest number, and the smallest */
    bool sign = is_negative((T)-1);
    T high = sign ? (T)((U)~(U)0 >> 1) : (T)~(U)0;
    T low = sign ? (T)((U)high + 1u) : T(0);
    if (g.low)
        low = *(const T *)g.low;
    if (g.high)
        high = *(const T *)g.high;
    float a = (float)g.a, b = (float)g.b;
    for (uint32_t c = blockIdx.x; c < chunks; c += gridDim.x) {
        T x[1][V] = {};
        walk_place p = walk_at<V>(g.walk, c);
        walk_load<T, V, 1>(g.walk, &g.x, p, x);
        switch (g.op) {
            EACH(relu, is_negative(v) ? T(0) : v)
            EACH(neg, int_negated(v))
            EACH(abs, is_negative(v) ? int_negated(v) : v)
            EACH(sign, is_negative(v) ? -1 : v != T(0))
            EACH(erf, int_erf(v))
            EACH(clip, pw_clip(v, low, high))
            EACH(shrink, int_shrink(v, a, b))
            EACH(bitnot, ~(U)v)
            EACH(not, v == T(0))
        }
        walk_store<T, V>(g.walk, g.y, p, x[0]);
    }
}
#undef EACH

#define INT(suffix, T, U)                                                      \
    QN_KERNEL_BOUNDS(unary_##suffix, QN_WALK_THREADS, qn_unary_args, g)        \
    {                                                                          \
        run_int<T, U>(g);                                                      \
    }
INT(i8, int8_t, uint8_t)
INT(i16, int16_t, uint16_t)
INT(i32, int32_t, uint32_t)
INT(i64, int64_t, uint64_t)
INT(u8, uint8_t, uint8_t)
INT(u16, uint16_t, uint16_t)
INT(u32, uint32_t, uint32_t)
INT(u64, uint64_t, uint64_t)

/* ---- predicates: which of QN_TEST_* a number is ---- */

template <class F> QN_DEVICE int kind_of(F v)
{
    return v != v                ? QN_TEST_NAN
           : v == F(INFINITY)    ? QN_TEST_POSITIVE
           : v == F(-INFINITY)   ? QN_TEST_NEGATIVE
                                 : 0;
}

QN_DEVICE int kind_of_small(uint8_t v, int dtype)
{
    int body = v & 0x7f;
    if (dtype == QN_F8E4M3FN)
        return body == 0x7f ? QN_TEST_NAN : 0;
    if (dtype == QN_F8E5M2)
        return body > 0x7c    ? QN_TEST_NAN
               : body != 0x7c ? 0
               : v & 0x80     ? QN_TEST_NEGATIVE
                              : QN_TEST_POSITIVE;
    return v == 0x80 ? QN_TEST_NAN : 0;
}

QN_DEVICE int kind_in(float v, int) { return kind_of(v); }
QN_DEVICE int kind_in(double v, int) { return kind_of(v); }
QN_DEVICE int kind_in(qn_half v, int) { return kind_of(qn_to_float(v)); }
QN_DEVICE int kind_in(qn_bf16 v, int) { return kind_of(qn_to_float(v)); }
QN_DEVICE int kind_in(uint8_t v, int t) { return kind_of_small(v, t); }

template <class T> QN_DEVICE void run_test(const qn_unary_args &g)
{
    const int V = 16 / sizeof(T);
    uint32_t chunks = walk_chunks<V>(g.walk);
    for (uint32_t c = blockIdx.x; c < chunks; c += gridDim.x) {
        T x[1][V] = {};
        uint8_t y[V];
        walk_place p = walk_at<V>(g.walk, c);
        walk_load<T, V, 1>(g.walk, &g.x, p, x);
        QN_UNROLL
        for (int i = 0; i < V; i++)
            y[i] = (kind_in(x[0][i], g.dtype) & g.op) != 0;
        walk_store<uint8_t, V>(g.walk, g.y, p, y);
    }
}

#define TEST(suffix, T)                                                        \
    QN_KERNEL_BOUNDS(unary_test_##suffix, QN_WALK_THREADS, qn_unary_args, g)   \
    {                                                                          \
        run_test<T>(g);                                                        \
    }
TEST(f32, float)
TEST(f64, double)
TEST(f16, qn_half)
TEST(bf16, qn_bf16)
TEST(f8, uint8_t)

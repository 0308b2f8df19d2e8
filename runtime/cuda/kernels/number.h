/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Element types of kernels that compute, as template arguments:
 *
 *   M  as it lies in memory      C  what one element computes in
 *   W  what many accumulate in   get, put: M <-> C; put_wide: from W
 *
 * Floats: C is float (double for double), W double. Integers: 64 bits of their
 * signedness, which wrap. Results of logarithms and roots are held inside an
 * integer type, truncated; NaN gives 0.
 */
#ifndef QN_CUDA_KERNELS_NUMBER_H
#define QN_CUDA_KERNELS_NUMBER_H

#include "runtime/base/dtype.h"
#include "runtime/cuda/kernels/device.h"

#include <math.h>
#include <stdint.h>

/* For members: they are inline anyway. */
#define QN_INSIDE __device__ static

/* For what is long and rarely runs: one copy, which compiles faster. */
#if defined __CUDACC__
#define QN_APART __device__ __noinline__ static
#else
#define QN_APART static
#endif

/* a / b for a >= 0, b > 0: in 32 bits where that is enough. */
QN_DEVICE int64_t qn_divide(int64_t a, int64_t b)
{
    if (((uint64_t)a | (uint64_t)b) >> 32)
        return a / b;
    return (int64_t)((uint32_t)a / (uint32_t)b);
}

template <class T> struct qn_float_base {
    typedef double W;
    enum { floating = 1 };
    QN_INSIDE float plus(float a, float b)
    {
        return a + b;
    }
    QN_INSIDE double plus(double a, double b)
    {
        return a + b;
    }
    QN_INSIDE float times(float a, float b)
    {
        return a * b;
    }
    QN_INSIDE double times(double a, double b)
    {
        return a * b;
    }
    /* turns the order round; twice is nothing */
    QN_INSIDE T turned(T v)
    {
        return -v;
    }
    QN_INSIDE T abs(T v)
    {
        return v < 0 ? -v : v == 0 ? (T)0 : v;
    }
    QN_INSIDE T lowest()
    {
        return -(T)INFINITY;
    }
    QN_INSIDE T highest()
    {
        return (T)INFINITY;
    }
    QN_INSIDE bool is_nan(T v)
    {
        return v != v;
    }
};

/* M: float, double, qn_half or qn_bf16. */
template <class T> struct qn_num_float : qn_float_base<qn_acc<T> > {
    typedef T M;
    typedef qn_acc<T> C;
    QN_INSIDE C get(M v)
    {
        return qn_widen(v);
    }
    QN_INSIDE M put(C v)
    {
        return qn_narrow<T>(v);
    }
    QN_INSIDE M put_wide(double v)
    {
        return qn_narrow<T>(v);
    }
};

typedef qn_num_float<float> qn_num_f32;
typedef qn_num_float<double> qn_num_f64;
typedef qn_num_float<qn_half> qn_num_f16;
typedef qn_num_float<qn_bf16> qn_num_bf16;

template <class T, class A, int64_t low, uint64_t high>
struct qn_num_int {
    typedef T M;
    typedef A C;
    typedef A W;
    enum { floating = 0 };
    QN_INSIDE C get(M v)
    {
        return (A)v;
    }
    QN_INSIDE M put(C v)
    {
        return (T)v;
    }
    QN_INSIDE M put_wide(double v)
    {
        if (v != v)
            return 0;
        return v <= (double)low ? (T)low : v >= (double)high ? (T)high : (T)v;
    }
    QN_INSIDE A plus(A a, A b)
    {
        return (A)((uint64_t)a + (uint64_t)b);
    }
    QN_INSIDE A times(A a, A b)
    {
        return (A)((uint64_t)a * (uint64_t)b);
    }
    QN_INSIDE A turned(A v)
    {
        return ~v;
    }
    QN_INSIDE A abs(A v)
    {
        return low < 0 && v < (A)0 ? (A)(0 - (uint64_t)v) : v;
    }
    QN_INSIDE A lowest()
    {
        return (A)low;
    }
    QN_INSIDE A highest()
    {
        return (A)high;
    }
    QN_INSIDE bool is_nan(A)
    {
        return false;
    }
};

typedef qn_num_int<int8_t, int64_t, -128, 127> qn_num_i8;
typedef qn_num_int<uint8_t, uint64_t, 0, 255> qn_num_u8;
typedef qn_num_int<int16_t, int64_t, -32768, 32767> qn_num_i16;
typedef qn_num_int<uint16_t, uint64_t, 0, 65535> qn_num_u16;
typedef qn_num_int<int32_t, int64_t, INT32_MIN, INT32_MAX> qn_num_i32;
typedef qn_num_int<uint32_t, uint64_t, 0, UINT32_MAX> qn_num_u32;
typedef qn_num_int<int64_t, int64_t, INT64_MIN, INT64_MAX> qn_num_i64;
typedef qn_num_int<uint64_t, uint64_t, 0, UINT64_MAX> qn_num_u64;
typedef qn_num_int<uint8_t, uint64_t, 0, 1> qn_num_bool;

/* 16 bytes at an aligned address, as elements. */
template <class N>
QN_DEVICE void qn_get_pack(const typename N::M *p, typename N::C *out)
{
    qn_vec<typename N::M> v = qn_vec_load(p);
#pragma unroll
    for (int i = 0; i < qn_vec<typename N::M>::N; i++)
        out[i] = N::get(v.v[i]);
}

template <class N>
QN_DEVICE void qn_put_pack(typename N::M *p, const typename N::C *v)
{
    qn_vec<typename N::M> to;
#pragma unroll
    for (int i = 0; i < qn_vec<typename N::M>::N; i++)
        to.v[i] = N::put(v[i]);
    qn_vec_store(p, to);
}

/* Element i of a tensor whose type, a float, is known at run time: parameters
 * and statistics, of which there are few. */
QN_DEVICE double qn_get_any(const void *p, int32_t dtype, int64_t i)
{
    switch (dtype) {
    case QN_F64:
        return ((const double *)p)[i];
    case QN_F16:
        return (double)qn_widen(((const qn_half *)p)[i]);
    case QN_BF16:
        return (double)qn_widen(((const qn_bf16 *)p)[i]);
    default:
        return (double)((const float *)p)[i];
    }
}

QN_DEVICE void qn_put_any(void *p, int32_t dtype, int64_t i, double v)
{
    switch (dtype) {
    case QN_F64:
        ((double *)p)[i] = v;
        break;
    case QN_F16:
        qn_store((qn_half *)p, i, v);
        break;
    case QN_BF16:
        qn_store((qn_bf16 *)p, i, v);
        break;
    default:
        ((float *)p)[i] = (float)v;
    }
}

#define QN_EACH_FLOAT(X) X(f32) X(f64) X(f16) X(bf16)
#define QN_EACH_INT(X) X(i8) X(u8) X(i16) X(u16) X(i32) X(u32) X(i64) X(u64)

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Integers of all widths in device code: arithmetic that wraps, as the cpu's
 * (runtime/cpu/binary_int.c), without what C++ leaves undefined. */
#ifndef QN_CUDA_KERNELS_INTEGER_H
#define QN_CUDA_KERNELS_INTEGER_H

#include "runtime/cuda/kernels/device.h"

QN_DEVICE bool is_negative(int8_t v) { return v < 0; }
QN_DEVICE bool is_negative(int16_t v) { return v < 0; }
QN_DEVICE bool is_negative(int32_t v) { return v < 0; }
QN_DEVICE bool is_negative(int64_t v) { return v < 0; }
QN_DEVICE bool is_negative(uint8_t) { return false; }
QN_DEVICE bool is_negative(uint16_t) { return false; }
QN_DEVICE bool is_negative(uint32_t) { return false; }
QN_DEVICE bool is_negative(uint64_t) { return false; }

/* Unsigned, at least as wide as int and T. */
template <class T> struct int_wide {
    typedef uint32_t type;
};
template <> struct int_wide<int64_t> {
    typedef uint64_t type;
};
template <> struct int_wide<uint64_t> {
    typedef uint64_t type;
};
template <class T> using int_unsigned = typename int_wide<T>::type;

template <class T> QN_DEVICE T int_negated(T v)
{
    typedef int_unsigned<T> W;
    return (T)(W(0) - W(v));
}

/* The divisor is not 0. The most negative number by -1 wraps to itself. */
template <class T> QN_DEVICE T int_quotient(T p, T q)
{
    if (is_negative(q) && q == (T)-1)
        return int_negated(p);
    return (T)(p / q);
}

/* With the sign of the dividend. */
template <class T> QN_DEVICE T int_fmod(T p, T q)
{
    if (is_negative(q) && q == (T)-1)
        return T(0);
    return (T)(p % q);
}

/* With the sign of the divisor. */
template <class T> QN_DEVICE T int_mod(T p, T q)
{
    T r = int_fmod(p, q);
    return r != T(0) && is_negative(r) != is_negative(q) ? (T)(r + q) : r;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels that move bytes share: units of 1, 2, 4, 8 and 16 bytes. */
#ifndef QN_CUDA_KERNELS_UNIT_H
#define QN_CUDA_KERNELS_UNIT_H

#include "runtime/cuda/kernels/device.h"
#include "runtime/cuda/kernels/fastdiv.h"

/* One access of 16 bytes. */
struct alignas(16) qn_unit16 {
    uint64_t a, b;
};

/* before a loop over dimensions, which costs registers when unrolled */
#if defined __CUDACC__
#define QN_ONE_BY_ONE _Pragma("unroll 1")
#else
#define QN_ONE_BY_ONE
#endif

/* Items that a thread has in flight at once. */
#define QN_MOVE_EACH 4

/* move.template one<T>(i, &v) loads item i into v and says where it goes: NULL
 * for nowhere. All loads of a round come before its stores. */
template <typename T, typename M>
QN_DEVICE void qn_move_all(int64_t n, const M &move)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i < n; i += QN_MOVE_EACH * step) {
        T v[QN_MOVE_EACH];
        T *to[QN_MOVE_EACH];
QN_UNROLL
        for (int j = 0; j < QN_MOVE_EACH; j++)
            to[j] = i + j * step < n
                        ? move.template one<T>(i + j * step, &v[j])
                        : (T *)nullptr;
QN_UNROLL
        for (int j = 0; j < QN_MOVE_EACH; j++)
            if (to[j])
                *to[j] = v[j];
    }
}

/* The same by the size of a unit. */
template <typename M>
QN_DEVICE void qn_move_units(uint32_t unit, int64_t n, const M &move)
{
    switch (unit) {
    case 1: qn_move_all<uint8_t>(n, move); break;
    case 2: qn_move_all<uint16_t>(n, move); break;
    case 4: qn_move_all<uint32_t>(n, move); break;
    case 8: qn_move_all<uint64_t>(n, move); break;
    default: qn_move_all<qn_unit16>(n, move); break;
    }
}

/* i / by, and what is left: in 32 bits unless the kernel's count is WIDE. */
template <bool WIDE>
QN_DEVICE int64_t qn_split_index(const qn_fastdiv &by, int64_t i,
                                         int64_t *rest)
{
    int64_t q = WIDE ? i / by.divisor
                     : (int64_t)qn_fastdiv32(&by, (uint32_t)i);
    *rest = i - q * by.divisor;
    return q;
}

#endif

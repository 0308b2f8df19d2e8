/* SPDX-License-Identifier: Apache-2.0 */
/* Division by a number known at launch: multiply, add, shift.
 *
 * For 1 <= d < 2^31 let s = ceil(log2 d) and m = floor(2^32 (2^s - d) / d) + 1;
 * then for 0 <= n < 2^31 the quotient is (mulhi(n, m) + n) >> s, and the sum
 * stays below 2^32 (Granlund and Montgomery, PLDI 1994, section 4). Larger
 * numbers take the plain division. The host computes the constants in C. */
#ifndef QN_CUDA_KERNELS_FASTDIV_H
#define QN_CUDA_KERNELS_FASTDIV_H

#include <stdint.h>

#if defined __CUDACC__
#define QN_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define QN_HOST_DEVICE static inline
#endif

struct qn_fastdiv {
    int64_t divisor;     /* >= 1 */
    uint32_t multiplier; /* 0: use the plain division */
    uint32_t shift;
};

/* Constants for a divisor; a divisor below 1 is taken as 1. Host side. */
static inline struct qn_fastdiv qn_fastdiv_of(int64_t divisor)
{
    struct qn_fastdiv f = { divisor < 1 ? 1 : divisor, 0, 0 };
    if (f.divisor < ((int64_t)1 << 31)) {
        uint64_t d = (uint64_t)f.divisor;
        while (((uint64_t)1 << f.shift) < d)
            f.shift++;
        f.multiplier = (uint32_t)(
            (((((uint64_t)1 << f.shift) - d) << 32) / d) + 1);
    }
    return f;
}

/* n / divisor for 0 <= n < 2^31 and a divisor below 2^31, unchecked. */
QN_HOST_DEVICE uint32_t qn_fastdiv32(const struct qn_fastdiv *f, uint32_t n)
{
    return ((uint32_t)(((uint64_t)n * f->multiplier) >> 32) + n) >> f->shift;
}

/* n / divisor for any n >= 0. */
QN_HOST_DEVICE int64_t qn_fastdiv_quotient(const struct qn_fastdiv *f,
                                           int64_t n)
{
    if (f->multiplier != 0 && n < ((int64_t)1 << 31))
        return (int64_t)qn_fastdiv32(f, (uint32_t)n);
    return n / f->divisor;
}

/* The same, and the remainder into *rest. */
QN_HOST_DEVICE int64_t qn_fastdiv_divmod(const struct qn_fastdiv *f, int64_t n,
                                         int64_t *rest)
{
    int64_t q = qn_fastdiv_quotient(f, n);
    *rest = n - q * f->divisor;
    return q;
}

#endif

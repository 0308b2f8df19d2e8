/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of what stands in front. Device code. */
#ifndef QN_CUDA_KERNELS_SCAN_H
#define QN_CUDA_KERNELS_SCAN_H

#include "runtime/cuda/kernels/device.h"

enum { QN_SCAN_THREADS = 1024 };

/*
 * By one block of QN_SCAN_THREADS threads: each of counts[n] becomes the sum of
 * those in front of it, counts[n] the sum of all.
 */
QN_DEVICE void qn_scan_counts(int64_t *counts, int64_t n)
{
    QN_SHARED(int64_t, sums, QN_SCAN_THREADS);
    int t = (int)threadIdx.x;
    int64_t before = 0;
    for (int64_t from = 0; from < n; from += QN_SCAN_THREADS) {
        int64_t mine = from + t < n ? counts[from + t] : 0;
        sums[t] = mine;
        __syncthreads();
        for (int step = 1; step < QN_SCAN_THREADS; step *= 2) {
            int64_t other = t >= step ? sums[t - step] : 0;
            __syncthreads();
            sums[t] += other;
            __syncthreads();
        }
        if (from + t < n)
            counts[from + t] = before + sums[t] - mine;
        before += sums[QN_SCAN_THREADS - 1];
        __syncthreads();
    }
    if (t == 0)
        counts[n] = before;
}

#endif

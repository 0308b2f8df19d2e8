/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NonZero in three launches: each block counts its piece of the input, one
 * block turns counts into offsets, each block writes where its piece begins. An
 * element is zero if none of the bits of `mask` is set: a float's sign does not
 * count.
 */
#include "runtime/cuda/kernels/nonzero.h"

#include "runtime/cuda/kernels/unit.h"

QN_DEVICE bool is_set(const qn_nonzero_args &a, int64_t i)
{
    switch (a.size) {
    case 1: return (((const uint8_t *)a.src)[i] & a.mask) != 0;
    case 2: return (((const uint16_t *)a.src)[i] & a.mask) != 0;
    case 4: return (((const uint32_t *)a.src)[i] & a.mask) != 0;
    case 8: return (((const uint64_t *)a.src)[i] & a.mask) != 0;
    default: {
        qn_unit16 v = ((const qn_unit16 *)a.src)[i];
        return ((v.a | v.b) & a.mask) != 0;
    }
    }
}

QN_KERNEL_BOUNDS(qn_nonzero_count, QN_NONZERO_THREADS, qn_nonzero_args, a)
{
    int64_t begin = blockIdx.x * a.piece, end = begin + a.piece, sum = 0;
    if (end > a.n)
        end = a.n;
    for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x)
        sum += is_set(a, i);
    sum = qn_block_reduce(sum, qn_op_sum(), (int64_t)0);
    if (threadIdx.x == 0)
        a.counts[blockIdx.x] = sum;
}

QN_KERNEL_BOUNDS(qn_nonzero_scan, QN_NONZERO_BLOCKS, qn_nonzero_args, a)
{
    QN_SHARED(int64_t, sums, QN_NONZERO_BLOCKS);
    int i = (int)threadIdx.x;
    int64_t own = i < a.blocks ? a.counts[i] : 0;
    sums[i] = own;
    __syncthreads();
    for (int step = 1; step < QN_NONZERO_BLOCKS; step *= 2) {
        int64_t before = i >= step ? sums[i - step] : 0;
        __syncthreads();
        sums[i] += before;
        __syncthreads();
    }
    if (i < a.blocks)
        a.counts[i] = sums[i] - own;
    if (i == QN_NONZERO_BLOCKS - 1)
        a.counts[a.blocks] = sums[i];
}

template <bool WIDE>
QN_DEVICE void put(const qn_nonzero_args &a, int64_t i, int64_t at,
                   int64_t found)
{
    QN_ONE_BY_ONE
    for (int d = 0; d < a.rank; d++) {
        int64_t x;
        i = qn_split_index<WIDE>(a.div[d], i, &x);
        a.dst[(a.rank - 1 - d) * found + at] = x;
    }
}

QN_KERNEL_BOUNDS(qn_nonzero_write, QN_NONZERO_THREADS, qn_nonzero_args, a)
{
    QN_SHARED(int, warps, QN_NONZERO_THREADS / 32);
    const int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5;
    int64_t begin = blockIdx.x * a.piece, end = begin + a.piece;
    int64_t at = a.counts[blockIdx.x], found = a.counts[a.blocks];
    if (end > a.n)
        end = a.n;
    for (int64_t from = begin; from < end; from += QN_NONZERO_THREADS) {
        int64_t i = from + threadIdx.x;
        bool set = i < end && is_set(a, i);
        unsigned votes = __ballot_sync(0xffffffffu, set);
        if (lane == 0)
            warps[warp] = __popc(votes);
        __syncthreads();
        int before = __popc(votes & ((1u << lane) - 1)), all = 0;
        for (int w = 0; w < QN_NONZERO_THREADS / 32; w++) {
            before += w < warp ? warps[w] : 0;
            all += warps[w];
        }
        if (set && a.wide)
            put<true>(a, i, at + before, found);
        else if (set)
            put<false>(a, i, at + before, found);
        at += all;
        __syncthreads();
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that use, and some that misuse, what device.h offers. */
#include "runtime/cuda/kernels/device.h"
#include "tests/cuda/emu/testkernels.h"

/* A row of n floats per block. */
QN_KERNEL_BOUNDS(tk_softmax, 256, struct tk_args, a)
{
    const float *in = (const float *)a.in + blockIdx.x * a.n;
    float *out = (float *)a.out + blockIdx.x * a.n;
    float top = -INFINITY, sum = 0.0f;
    for (int64_t i = threadIdx.x; i < a.n; i += blockDim.x)
        top = fmaxf(top, in[i]);
    top = qn_block_reduce(top, qn_op_max(), -INFINITY);
    for (int64_t i = threadIdx.x; i < a.n; i += blockDim.x)
        sum += expf(in[i] - top);
    sum = qn_block_reduce(sum, qn_op_sum(), 0.0f);
    for (int64_t i = threadIdx.x; i < a.n; i += blockDim.x)
        out[i] = expf(in[i] - top) / sum;
}

/* x = 3 x + extra: the order of two launches shows. */
QN_KERNEL(tk_step, struct tk_args, a)
{
    unsigned *out = (unsigned *)a.out;
    for (int64_t i = qn_global_index(); i < a.n; i += qn_global_threads())
        out[i] = out[i] * 3u + (unsigned)a.extra;
}

/* out[i] = in[i] */
QN_KERNEL(tk_copy, struct tk_args, a)
{
    int64_t i = qn_global_index();
    if (i < a.n + a.extra) /* extra > 0: beyond both */
        ((unsigned *)a.out)[i] = ((const unsigned *)a.in)[i];
}

/* Only threads below extra come to the barrier, the others leave. */
QN_KERNEL(tk_leaves, struct tk_args, a)
{
    if ((int64_t)threadIdx.x >= a.extra)
        return;
    __syncthreads();
    ((unsigned *)a.out)[threadIdx.x] = 1;
}

/* Warps at different barriers. */
QN_KERNEL(tk_two_barriers, struct tk_args, a)
{
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
    ((unsigned *)a.out)[threadIdx.x] = 1;
}

/* Lanes named in the mask that wait elsewhere. */
QN_KERNEL(tk_half_shuffle, struct tk_args, a)
{
    unsigned v = threadIdx.x;
    if (threadIdx.x < 16)
        v = __shfl_xor_sync(0xffffffffu, v, 1);
    __syncthreads();
    ((unsigned *)a.out)[threadIdx.x] = v;
}

/* Two groups of lanes of a warp, each with its own mask, and a tree of all
 * other ways to talk. One block of 48 threads, 8 words of results each. */
QN_KERNEL(tk_groups, struct tk_args, a)
{
    unsigned t = threadIdx.x, lane = t & 31u;
    unsigned *out = (unsigned *)a.out + t * 8;
    if (lane < 16)
        out[0] = __shfl_xor_sync(0x0000ffffu, t, 1);
    else
        out[0] = __shfl_sync(0xffff0000u, t, 17);
    out[1] = __ballot_sync(0xffffffffu, t % 3 == 0);
    out[2] = (unsigned)__shfl_down_sync(0xffffffffu, (long long)t, 3, 8);
    out[3] = (unsigned)__shfl_up_sync(0xffffffffu, (double)t, 2, 16);
    out[4] = (unsigned)__syncthreads_count(t % 5 == 0);
    out[5] = (unsigned)__any_sync(0xffffffffu, t == 40) * 2u +
             (unsigned)__all_sync(0xffffffffu, t < 40);
    out[7] = (unsigned)__popc(__activemask());
    out[6] = (unsigned)__syncthreads_or(t == 47) * 2u +
             (unsigned)__syncthreads_and(t != 47);
}

/* in: n floats. out: n words, half and bf16 of each as bits */
QN_KERNEL(tk_narrow, struct tk_args, a)
{
    int64_t i = qn_global_index();
    if (i >= a.n)
        return;
    float v = qn_load((const float *)a.in, i);
    unsigned h = qn_narrow<qn_half>(v).bits, b = qn_narrow<qn_bf16>(v).bits;
    if (h != qn_narrow<qn_half>((double)v).bits ||
        b != qn_narrow<qn_bf16>((double)v).bits)
        qn_device_fault(a.fault, QN_DEVICE_FAULT_VALUE, i, a.n);
    ((unsigned *)a.out)[i] = h << 16 | b;
}

/* out: n floats, of the halves 0 .. n - 1 taken as bits */
QN_KERNEL(tk_widen, struct tk_args, a)
{
    int64_t i = qn_global_index();
    if (i < a.n)
        ((float *)a.out)[i] = qn_to_float(qn_half{ (uint16_t)i });
}

/* Numbers in steps of extra, below 2^31, divided; a wrong quotient faults. */
QN_KERNEL(tk_divide, struct tk_args, a)
{
    for (int64_t i = qn_global_index(); i < a.n; i += qn_global_threads()) {
        int64_t v = i * a.extra, rest = -1;
        int64_t q = qn_fastdiv_divmod(&a.divisor, v, &rest);
        if (q != v / a.divisor.divisor || rest != v % a.divisor.divisor)
            qn_device_fault(a.fault, QN_DEVICE_FAULT_VALUE, v, q);
    }
}

/* out[0]: sum, out[1]: max, out[2]: bits or-ed, over all threads */
QN_KERNEL(tk_atomics, struct tk_args, a)
{
    unsigned *out = (unsigned *)a.out;
    unsigned i = (unsigned)qn_global_index();
    atomicAdd(&out[0], i);
    atomicMax(&out[1], i);
    atomicOr(&out[2], 1u << (i & 31u));
    atomicAdd((float *)&out[3], 0.5f);
}

/* Thread extra writes one element behind shared memory. */
QN_KERNEL(tk_shared_overrun, struct tk_args, a)
{
    QN_SHARED(unsigned, words, 32);
    unsigned at = threadIdx.x == (unsigned)a.extra ? 32u : threadIdx.x & 31u;
    words[at] = threadIdx.x;
    __syncthreads();
    ((unsigned *)a.out)[threadIdx.x] = words[threadIdx.x & 31u];
}

/* Shared memory as it was before anybody wrote; n words of it are dynamic. */
QN_KERNEL(tk_shared_fresh, struct tk_args, a)
{
    QN_SHARED(unsigned, words, 64);
    QN_SHARED_DYNAMIC(unsigned, more);
    unsigned t = threadIdx.x;
    ((unsigned *)a.out)[t] = words[t] & more[t];
    words[t] = more[t] = 0;
}

/* 16 bytes from an address that is 4 off. */
QN_KERNEL(tk_misaligned, struct tk_args, a)
{
    qn_vec<float> v = qn_vec_load((const float *)a.in + 1);
    qn_vec_store((float *)a.out, v);
}

/* A mean and a sum of squares about it, to be merged; sums that depend on the
 * order in their last bits. */
struct tk_moments {
    float n, mean, squares;
};
struct tk_merge {
    __device__ tk_moments operator()(tk_moments a, tk_moments b) const
    {
        float n = a.n + b.n, d = b.mean - a.mean;
        if (n == 0.0f)
            return a;
        return { n, a.mean + d * b.n / n,
                 a.squares + b.squares + d * d * a.n * b.n / n };
    }
};

/* in: n floats, one per thread of a block. The reductions as the emulation
 * does them and as hardware does must agree in every bit; else it faults. */
QN_KERNEL(tk_reduce, struct tk_args, a)
{
    unsigned t = threadIdx.x;
    float v = ((const float *)a.in)[t];
    double d = (double)v * 3.0;
    tk_moments m = { 1.0f, v, 0.0f }, none = { 0.0f, 0.0f, 0.0f };
    float one[4] = { qn_warp_reduce(v, qn_op_sum()),
                     qn_block_reduce(v, qn_op_sum(), 0.0f),
                     qn_block_reduce(v, qn_op_max(), -INFINITY),
                     (float)qn_block_reduce(d, qn_op_sum(), 0.0) };
    float two[4] = { qn_warp_reduce_shuffles(v, qn_op_sum()),
                     qn_block_reduce_shuffles(v, qn_op_sum(), 0.0f),
                     qn_block_reduce_shuffles(v, qn_op_max(), -INFINITY),
                     (float)qn_block_reduce_shuffles(d, qn_op_sum(), 0.0) };
    tk_moments m1 = qn_block_reduce(m, tk_merge(), none);
    tk_moments m2 = qn_block_reduce_shuffles(m, tk_merge(), none);
    for (int i = 0; i < 4; i++)
        if (__float_as_uint(one[i]) != __float_as_uint(two[i]))
            qn_device_fault(a.fault, QN_DEVICE_FAULT_VALUE, i, t);
    if (m1.n != m2.n || m1.mean != m2.mean || m1.squares != m2.squares ||
        m1.n != (float)a.n)
        qn_device_fault(a.fault, QN_DEVICE_FAULT_VALUE, 4, t);
    ((float *)a.out)[t] = one[1];
}

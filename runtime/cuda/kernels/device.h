/* SPDX-License-Identifier: Apache-2.0 */
/* What every .cu file starts from. nvcc compiles them for the device; g++ with
 * -DQN_CUDA_EMU compiles the same text for the emulation, where <simt.h> of
 * tests/cuda/emu supplies what CUDA C++ has built in.
 *
 *   QN_KERNEL(qn_scale_f32, struct qn_scale_args, a)
 *   {
 *       int64_t i = qn_global_index();
 *       if (i < a.count)
 *           qn_store((float *)a.out, i, a.by * qn_load((float *)a.in, i));
 *   }
 *
 * A kernel takes one struct by value, plain C, shared with the host. Only what
 * is below and what simt.h lists may be used; no <<<>>>, no cooperative
 * groups, no inline PTX outside of #ifdef __CUDACC__. Where threads of a block
 * meet, all its live threads have to come: the emulation reports the others. */
#ifndef QN_CUDA_KERNELS_DEVICE_H
#define QN_CUDA_KERNELS_DEVICE_H

#include <stdint.h>

#include "runtime/cuda/kernels/fastdiv.h"
#include "runtime/cuda/kernels/fault.h"

#ifdef __cplusplus

#if defined __CUDACC__

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define QN_DEVICE __device__ __forceinline__
/* before a loop with constant bounds */
#define QN_UNROLL _Pragma("unroll")

#define QN_KERNEL(name, args, a) \
    extern "C" __global__ void name(const __grid_constant__ args a)
/* with at most `threads` threads a block */
#define QN_KERNEL_BOUNDS(name, threads, args, a) \
    extern "C" __global__ void __launch_bounds__(threads) \
        name(const __grid_constant__ args a)

/* count elements (a constant) shared by the threads of a block; undefined at
 * the start of the block */
#define QN_SHARED(type, name, count) __shared__ type name[count]
/* the bytes asked for at launch, 16-byte aligned */
extern __shared__ __align__(16) unsigned char qn_dynamic_shared[];
#define QN_SHARED_DYNAMIC(type, name) \
    type *name = reinterpret_cast<type *>(qn_dynamic_shared)

#elif defined QN_CUDA_EMU

#include <simt.h>

#define QN_DEVICE static inline
#define QN_UNROLL

#else
#error "device code: compile with nvcc, or with -DQN_CUDA_EMU for the emulation"
#endif

/* --- where am I; blocks and grids of one dimension */

QN_DEVICE int64_t qn_global_index()
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

/* Step of a loop in which the whole grid strides over elements. */
QN_DEVICE int64_t qn_global_threads()
{
    return (int64_t)gridDim.x * blockDim.x;
}

/* --- element types
 * Stored as bits; arithmetic is in float, in double for double. Conversions
 * round to nearest even; half overflows to infinity, NaN stays NaN. */

struct qn_half {
    uint16_t bits;
};
struct qn_bf16 {
    uint16_t bits;
};

#if defined __CUDACC__

QN_DEVICE float qn_to_float(qn_half h)
{
    return __half2float(__ushort_as_half(h.bits));
}
QN_DEVICE qn_half qn_to_half(float f)
{
    return { __half_as_ushort(__float2half_rn(f)) };
}
QN_DEVICE float qn_to_float(qn_bf16 b)
{
    return __bfloat162float(__ushort_as_bfloat16(b.bits));
}
QN_DEVICE qn_bf16 qn_to_bf16(float f)
{
    return { __bfloat16_as_ushort(__float2bfloat16_rn(f)) };
}
/* One rounding from double, not two. */
QN_DEVICE qn_half qn_double_to_half(double d)
{
    return { __half_as_ushort(__double2half(d)) };
}
QN_DEVICE qn_bf16 qn_double_to_bf16(double d)
{
    return { __bfloat16_as_ushort(__double2bfloat16(d)) };
}

#else

QN_DEVICE float qn_to_float(qn_half h)
{
    uint32_t sign = (uint32_t)(h.bits & 0x8000u) << 16;
    uint32_t exponent = (h.bits >> 10) & 31u;
    uint32_t fraction = h.bits & 0x3ffu;
    if (exponent == 31)
        return __uint_as_float(sign | 0x7f800000u | fraction << 13);
    if (exponent != 0)
        return __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
    float small = (float)fraction * 0x1p-24f; /* exact */
    return __uint_as_float(sign | __float_as_uint(small));
}

/* Round x >= 0, finite, to a multiple of `step` (a power of two): to nearest,
 * ties to even. Exact for the magnitudes that occur below. */
QN_DEVICE double qn_round_to(double x, double step)
{
    double q = x / step;
    double whole = floor(q);
    double rest = q - whole;
    if (rest > 0.5 || (rest == 0.5 && fmod(whole, 2.0) != 0.0))
        whole += 1.0;
    return whole * step;
}
QN_DEVICE qn_half qn_double_to_half(double d)
{
    uint16_t sign = signbit(d) ? 0x8000u : 0;
    if (isnan(d))
        return { 0x7fff };
    d = fabs(d);
    if (d >= 65520.0) /* halfway to the first number too large, and up */
        return { (uint16_t)(sign | 0x7c00u) };
    int exponent = 0;
    frexp(d, &exponent); /* d = m 2^exponent, 0.5 <= m < 1 */
    if (d < 0x1p-14) {
        double q = qn_round_to(d, 0x1p-24);
        return { (uint16_t)(sign | (uint16_t)(q * 0x1p24)) };
    }
    double r = qn_round_to(d, ldexp(1.0, exponent - 11));
    frexp(r, &exponent);
    uint32_t fraction = (uint32_t)ldexp(r, 11 - exponent) - 1024u;
    return { (uint16_t)(sign | (uint32_t)(exponent + 14) << 10 | fraction) };
}
QN_DEVICE qn_half qn_to_half(float f)
{
    uint32_t x = __float_as_uint(f);
    uint32_t sign = (x >> 16) & 0x8000u;
    x &= 0x7fffffffu;
    if (x > 0x7f800000u)
        return { 0x7fff };
    if (x >= 0x477ff000u)
        return { (uint16_t)(sign | 0x7c00u) };
    if (x < 0x38800000u) { /* below 2^-14: let the adder round to 2^-24 */
        float magic = __uint_as_float(x) + 0.5f;
        return { (uint16_t)(sign | (__float_as_uint(magic) - 0x3f000000u)) };
    }
    uint32_t odd = (x >> 13) & 1u;
    return { (uint16_t)(sign | (x - 0x38000000u + 0xfffu + odd) >> 13) };
}
QN_DEVICE float qn_to_float(qn_bf16 b)
{
    return __uint_as_float((uint32_t)b.bits << 16);
}
QN_DEVICE qn_bf16 qn_to_bf16(float f)
{
    uint32_t x = __float_as_uint(f);
    if ((x & 0x7fffffffu) > 0x7f800000u)
        return { 0x7fff };
    return { (uint16_t)((x + 0x7fffu + ((x >> 16) & 1u)) >> 16) };
}
QN_DEVICE qn_bf16 qn_double_to_bf16(double d)
{
    /* to float by rounding to odd, which makes the second rounding exact */
    float f = (float)d;
    uint32_t x = __float_as_uint(f);
    if (isfinite(f) && (double)f != d) {
        if (fabs((double)f) > fabs(d))
            x--; /* towards zero; f is not 0 here */
        x |= 1u;
    }
    return qn_to_bf16(__uint_as_float(x));
}

#endif

/* What a kernel computes in for elements of T. */
template <class T> struct qn_accumulator {
    typedef float type;
};
template <> struct qn_accumulator<double> {
    typedef double type;
};
template <class T> using qn_acc = typename qn_accumulator<T>::type;

QN_DEVICE float qn_widen(float v)
{
    return v;
}
QN_DEVICE double qn_widen(double v)
{
    return v;
}
QN_DEVICE float qn_widen(qn_half v)
{
    return qn_to_float(v);
}
QN_DEVICE float qn_widen(qn_bf16 v)
{
    return qn_to_float(v);
}

/* v as an element of T: one rounding, to nearest even. */
template <class T> struct qn_narrower;
template <> struct qn_narrower<float> {
    static __host__ __device__ float of(double v)
    {
        return (float)v;
    }
    static __host__ __device__ float of(float v)
    {
        return v;
    }
};
template <> struct qn_narrower<double> {
    static __host__ __device__ double of(double v)
    {
        return v;
    }
};
template <> struct qn_narrower<qn_half> {
    static __device__ qn_half of(float v)
    {
        return qn_to_half(v);
    }
    static __device__ qn_half of(double v)
    {
        return qn_double_to_half(v);
    }
};
template <> struct qn_narrower<qn_bf16> {
    static __device__ qn_bf16 of(float v)
    {
        return qn_to_bf16(v);
    }
    static __device__ qn_bf16 of(double v)
    {
        return qn_double_to_bf16(v);
    }
};
template <class T, class V> QN_DEVICE T qn_narrow(V v)
{
    return qn_narrower<T>::of(v);
}

/* Element i of p, widened. */
template <class T> QN_DEVICE qn_acc<T> qn_load(const T *p, int64_t i)
{
    return qn_widen(p[i]);
}
/* v, narrowed, to element i of p. */
template <class T, class V> QN_DEVICE void qn_store(T *p, int64_t i, V v)
{
    p[i] = qn_narrow<T>(v);
}

/* --- 16 bytes at once: qn_vec<float>::N is 4, qn_vec<qn_half>::N is 8 */

template <class T> struct alignas(16) qn_vec {
    enum { N = (int)(16 / sizeof(T)) };
    T v[16 / sizeof(T)];
};

QN_HOST_DEVICE bool qn_aligned16(const void *p)
{
    return ((uintptr_t)p & 15u) == 0;
}

/* p: first element, 16-byte aligned (hardware faults on others, and so does
 * the emulation) and not written during the kernel */
template <class T> QN_DEVICE qn_vec<T> qn_vec_load(const T *p)
{
    qn_vec<T> r;
#if defined __CUDACC__
    *reinterpret_cast<uint4 *>(&r) = *reinterpret_cast<const uint4 *>(p);
#else
    qn_simt_aligned(p, 16);
    __builtin_memcpy(&r, p, 16);
#endif
    return r;
}
template <class T> QN_DEVICE void qn_vec_store(T *p, const qn_vec<T> &v)
{
#if defined __CUDACC__
    *reinterpret_cast<uint4 *>(p) = *reinterpret_cast<const uint4 *>(&v);
#else
    qn_simt_aligned(p, 16);
    __builtin_memcpy(p, &v, 16);
#endif
}

/* --- reductions
 * The order is fixed by the block's size, so results are bit for bit the same
 * in every run. Op: a type with T operator()(T, T), commutative up to
 * rounding. T: any plain struct whose size is a multiple of 4. */

struct qn_op_sum {
    template <class T> __device__ T operator()(T a, T b) const
    {
        return a + b;
    }
};
/* NaN wins, as in ONNX and NumPy. */
struct qn_op_max {
    template <class T> __device__ T operator()(T a, T b) const
    {
        return a > b || a != a ? a : b;
    }
};
struct qn_op_min {
    template <class T> __device__ T operator()(T a, T b) const
    {
        return a < b || a != a ? a : b;
    }
};
struct qn_op_product {
    template <class T> __device__ T operator()(T a, T b) const
    {
        return a * b;
    }
};

/* The value of the lane whose number differs in the bits of `lanes`. */
template <class T> QN_DEVICE T qn_shuffle_xor(T v, int lanes)
{
    static_assert(sizeof(T) % 4 == 0, "whole words");
    enum { WORDS = (int)(sizeof(T) / 4) };
    unsigned in[WORDS], out[WORDS];
    memcpy(in, &v, sizeof v);
    QN_UNROLL
    for (int i = 0; i < WORDS; i++)
        out[i] = __shfl_xor_sync(0xffffffffu, in[i], lanes);
    memcpy(&v, out, sizeof v);
    return v;
}

/* All 32 lanes call; all get the result. */
template <class T, class Op> QN_DEVICE T qn_warp_reduce_shuffles(T v, Op op)
{
    QN_UNROLL
    for (int lanes = 16; lanes > 0; lanes >>= 1) {
        T other = qn_shuffle_xor(v, lanes);
        /* both partners combine in one order, so both get the same bits */
        v = (threadIdx.x & (unsigned)lanes) ? op(other, v) : op(v, other);
    }
    return v;
}

/* All threads of a one-dimensional block call, its size a multiple of 32; all
 * get the result. none: the neutral element of op. Has barriers before and
 * after its use of shared memory, so calls may follow each other directly. */
template <class T, class Op>
QN_DEVICE T qn_block_reduce_shuffles(T v, Op op, T none)
{
    QN_SHARED(T, part, 32);
    unsigned lane = threadIdx.x & 31u, warp = threadIdx.x >> 5;
    unsigned warps = blockDim.x >> 5;
    v = qn_warp_reduce_shuffles(v, op);
    if (warps == 1)
        return v;
    if (lane == 0)
        part[warp] = v;
    __syncthreads();
    v = qn_warp_reduce_shuffles(lane < warps ? part[lane] : none, op);
    __syncthreads();
    return v;
}

/* The emulation has these two in simt.h: the same tree, so the same bits, at a
 * tenth of the switches; its test compares them with those above. */
#if defined __CUDACC__
template <class T, class Op> QN_DEVICE T qn_warp_reduce(T v, Op op)
{
    return qn_warp_reduce_shuffles(v, op);
}
template <class T, class Op> QN_DEVICE T qn_block_reduce(T v, Op op, T none)
{
    return qn_block_reduce_shuffles(v, op, none);
}
#endif

/* --- faults */

/* Record that this launch met `value` where `limit` applies; the first wins.
 * The kernel goes on with any value that keeps its accesses in bounds. */
QN_DEVICE void qn_device_fault(const struct qn_fault_args &f, uint32_t code,
                               int64_t value, int64_t limit)
{
    struct qn_fault *to = reinterpret_cast<struct qn_fault *>(f.word);
    if (to == nullptr || atomicCAS(&to->code, 0u, code) != 0u)
        return;
    to->step = f.step;
    to->value = value;
    to->limit = limit;
}

#endif /* __cplusplus */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What CUDA C++ has built in, for device code compiled by g++: coordinates,
 * barriers, shuffles, votes, atomics, vector types, intrinsics. Semantics from
 * the CUDA C++ programming guide. See fiber.h for how threads run.
 *
 * Stricter than hardware on purpose: barriers and shuffles that named threads
 * never reach end the process; reading a lane that has exited, shared memory
 * not written in this block and fresh device memory gives bytes 0xff, which
 * is NaN in every floating-point type. */
#ifndef QN_TESTS_CUDA_SIMT_H
#define QN_TESTS_CUDA_SIMT_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tests/cuda/emu/fiber.h"

#ifdef __cplusplus

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) alignas(n)
#define __launch_bounds__(...)
#define __grid_constant__
#define __constant__ static const

/* --- kernels */

/* The loop takes threads of the block one by one and runs the body to its end
 * as a plain call; a thread that has to wait leaves its stack as a fiber, and
 * another one goes on with the loop (fiber.h). */
#define QN_SIMT_KERNEL(name, threads, args, a) \
    static void name##_body(const args &); \
    static void name##_loop(const void *qn_arguments) \
    { \
        const args &qn_args = *static_cast<const args *>(qn_arguments); \
        while (qn_simt_take_thread()) \
            name##_body(qn_args); \
    } \
    static_assert(sizeof(args) <= 4096, "kernel arguments: 4096 bytes"); \
    static qn_simt_kernel name##_record = { #name, sizeof(args), threads, \
                                            name##_loop, 0, nullptr }; \
    __attribute__((constructor)) static void name##_register() \
    { \
        qn_simt_register(&name##_record); \
    } \
    static inline void name##_body(const args &a)
#define QN_KERNEL(name, args, a)                 QN_SIMT_KERNEL(name, 1024, args, a)
#define QN_KERNEL_BOUNDS(name, threads, args, a) \
    QN_SIMT_KERNEL(name, threads, args, a)

#define QN_SHARED(type, name, count) \
    static qn_simt_site name##_site = { 0 }; \
    type *const name = static_cast<type *>( \
        qn_simt_shared(&name##_site, sizeof(type) * (count), alignof(type)))
#define QN_SHARED_DYNAMIC(type, name) \
    type *name = static_cast<type *>(qn_simt.dynamic)

#define threadIdx (qn_simt.thread)
#define blockIdx  (qn_simt.block)
#define blockDim  (qn_simt.block_dim)
#define gridDim   (qn_simt.grid_dim)
#define warpSize  32

static inline void qn_simt_aligned(const void *p, unsigned bytes)
{
    if (__builtin_expect(((uintptr_t)p & (bytes - 1)) != 0, 0))
        qn_simt_misaligned(p, bytes);
}

/* --- vector types */

struct alignas(8) float2 { float x, y; };
struct float3 { float x, y, z; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) double2 { double x, y; };
struct alignas(8) int2 { int x, y; };
struct int3 { int x, y, z; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct uint3 { unsigned x, y, z; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) longlong2 { long long x, y; };
struct alignas(4) uchar4 { unsigned char x, y, z, w; };
struct alignas(4) char4 { signed char x, y, z, w; };
struct alignas(4) ushort2 { unsigned short x, y; };

static inline float2 make_float2(float x, float y) { return { x, y }; }
static inline float3 make_float3(float x, float y, float z)
{
    return { x, y, z };
}
static inline float4 make_float4(float x, float y, float z, float w)
{
    return { x, y, z, w };
}
static inline double2 make_double2(double x, double y) { return { x, y }; }
static inline int2 make_int2(int x, int y) { return { x, y }; }
static inline int4 make_int4(int x, int y, int z, int w)
{
    return { x, y, z, w };
}
static inline uint2 make_uint2(unsigned x, unsigned y) { return { x, y }; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return { x, y, z, w };
}
static inline longlong2 make_longlong2(long long x, long long y)
{
    return { x, y };
}

/* --- bits */

template <class To, class From> static inline To qn_simt_bits(From v)
{
    static_assert(sizeof(To) == sizeof(From), "bits of one size");
    To to;
    memcpy(&to, &v, sizeof to);
    return to;
}
static inline float __int_as_float(int v) { return qn_simt_bits<float>(v); }
static inline int __float_as_int(float v) { return qn_simt_bits<int>(v); }
static inline float __uint_as_float(unsigned v)
{
    return qn_simt_bits<float>(v);
}
static inline unsigned __float_as_uint(float v)
{
    return qn_simt_bits<unsigned>(v);
}
static inline double __longlong_as_double(long long v)
{
    return qn_simt_bits<double>(v);
}
static inline long long __double_as_longlong(double v)
{
    return qn_simt_bits<long long>(v);
}
static inline int __popc(unsigned v) { return __builtin_popcount(v); }
static inline int __popcll(unsigned long long v)
{
    return __builtin_popcountll(v);
}
static inline int __clz(int v)
{
    return v == 0 ? 32 : __builtin_clz((unsigned)v);
}
static inline int __clzll(long long v)
{
    return v == 0 ? 64 : __builtin_clzll((unsigned long long)v);
}
static inline int __ffs(int v) { return __builtin_ffs(v); }
static inline int __ffsll(long long v) { return __builtin_ffsll(v); }
static inline unsigned __brev(unsigned v)
{
    unsigned r = 0;
    for (int i = 0; i < 32; i++)
        r |= ((v >> i) & 1u) << (31 - i);
    return r;
}
static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((uint64_t)a * b >> 32);
}
static inline int __mulhi(int a, int b) { return (int)((int64_t)a * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a,
                                            unsigned long long b)
{
    __extension__ typedef unsigned __int128 wide;
    return (unsigned long long)((wide)a * b >> 64);
}

/* --- memory hints */

template <class T> static inline T __ldg(const T *p)
{
    qn_simt_aligned(p, sizeof(T));
    return *p;
}
template <class T> static inline T __ldcg(const T *p) { return *p; }
template <class T> static inline T __ldcs(const T *p) { return *p; }
template <class T> static inline void __stcg(T *p, T v) { *p = v; }
template <class T> static inline void __stcs(T *p, T v) { *p = v; }
static inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_block() {}
static inline void __threadfence_system() { __threadfence(); }

/* --- arithmetic */

static inline float rsqrtf(float v) { return 1.0f / sqrtf(v); }
static inline double rsqrt(double v) { return 1.0 / sqrt(v); }
static inline float __fdividef(float a, float b) { return a / b; }
/* the C library declares functions of these names for itself */
#define __expf  expf
#define __logf  logf
#define __log2f log2f
#define __powf  powf
#define __sinf  sinf
#define __cosf  cosf
#define __tanf  tanf
static inline float __frcp_rn(float v) { return 1.0f / v; }
static inline float __fsqrt_rn(float v) { return sqrtf(v); }
static inline float __frsqrt_rn(float v) { return (float)(1.0 / sqrt(v)); }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline double __dsqrt_rn(double v) { return sqrt(v); }
static inline float __saturatef(float v)
{
    return v > 0.0f ? (v < 1.0f ? v : 1.0f) : 0.0f; /* NaN gives 0 */
}
static inline float normcdff(float v)
{
    return 0.5f * erfcf(v * -0.70710678118654752440f);
}
static inline double normcdf(double v)
{
    return 0.5 * erfc(v * -0.70710678118654752440);
}

/* Conversions that CUDA saturates; NaN gives 0. */
template <class To, class From>
static inline To qn_simt_saturate(From v, From low, From high, To lowest,
                                  To highest)
{
    return v != v ? To(0) : v <= low ? lowest : v >= high ? highest : To(v);
}
static inline int qn_simt_to_int(float v)
{
    return qn_simt_saturate(v, -0x1p31f, 0x1p31f, INT32_MIN, INT32_MAX);
}
static inline int __float2int_rz(float v) { return qn_simt_to_int(v); }
static inline int __float2int_rn(float v) { return qn_simt_to_int(rintf(v)); }
static inline int __float2int_rd(float v) { return qn_simt_to_int(floorf(v)); }
static inline int __float2int_ru(float v) { return qn_simt_to_int(ceilf(v)); }
static inline long long __float2ll_rz(float v)
{
    return qn_simt_saturate<long long>(v, -0x1p63f, 0x1p63f, INT64_MIN,
                                       INT64_MAX);
}
static inline long long __double2ll_rz(double v)
{
    return qn_simt_saturate<long long>(v, -0x1p63, 0x1p63, INT64_MIN,
                                       INT64_MAX);
}
static inline long long __double2ll_rn(double v)
{
    return __double2ll_rz(rint(v));
}
static inline unsigned __float2uint_rz(float v)
{
    return qn_simt_saturate<unsigned>(v, 0.0f, 0x1p32f, 0u, UINT32_MAX);
}
static inline float __int2float_rn(int v) { return (float)v; }
static inline float __uint2float_rn(unsigned v) { return (float)v; }
static inline float __ll2float_rn(long long v) { return (float)v; }
static inline float __double2float_rn(double v) { return (float)v; }

/* min and max of integers as in C; of floating point as fmin and fmax */
#define QN_SIMT_MINMAX(type) \
    static inline type min(type a, type b) { return b < a ? b : a; } \
    static inline type max(type a, type b) { return a < b ? b : a; }
QN_SIMT_MINMAX(int)
QN_SIMT_MINMAX(unsigned)
QN_SIMT_MINMAX(long)
QN_SIMT_MINMAX(unsigned long)
QN_SIMT_MINMAX(long long)
QN_SIMT_MINMAX(unsigned long long)
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }

/* --- barriers; line and file name the place in messages */

static inline void __syncthreads(const char *file = __builtin_FILE(),
                                 int line = __builtin_LINE())
{
    qn_simt_barrier(0, 0, file, line);
}
static inline int __syncthreads_count(int predicate,
                                      const char *file = __builtin_FILE(),
                                      int line = __builtin_LINE())
{
    return (int)qn_simt_barrier(1, predicate != 0, file, line);
}
static inline int __syncthreads_or(int predicate,
                                   const char *file = __builtin_FILE(),
                                   int line = __builtin_LINE())
{
    return qn_simt_barrier(1, predicate != 0, file, line) != 0;
}
static inline int __syncthreads_and(int predicate,
                                    const char *file = __builtin_FILE(),
                                    int line = __builtin_LINE())
{
    return qn_simt_barrier(1, predicate == 0, file, line) == 0;
}

/* --- warps */

static inline unsigned __activemask() { return qn_simt_active_mask(); }
static inline void __syncwarp(unsigned mask = 0xffffffffu,
                              const char *file = __builtin_FILE(),
                              int line = __builtin_LINE())
{
    qn_simt_meet(QN_SIMT_SYNC, mask, 0, file, line);
}

/* The lanes of a section of `width` lanes, counted from its first. */
template <class T>
static inline T qn_simt_shuffle(unsigned mask, T v, int lane, const char *file,
                                int line)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a 4 or 8 byte value");
    uint64_t bits = 0;
    memcpy(&bits, &v, sizeof v);
    const uint64_t *all = qn_simt_meet(QN_SIMT_SHUFFLE, mask, bits, file, line);
    bits = qn_simt_lane_value(all, mask, lane);
    memcpy(&v, &bits, sizeof v);
    return v;
}
template <class T>
static inline T __shfl_sync(unsigned mask, T v, int from, int width = 32,
                            const char *file = __builtin_FILE(),
                            int line = __builtin_LINE())
{
    int lane = qn_simt_lane(), first = lane & ~(width - 1);
    return qn_simt_shuffle(mask, v, first + (from & (width - 1)), file, line);
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T v, int bits, int width = 32,
                                const char *file = __builtin_FILE(),
                                int line = __builtin_LINE())
{
    int lane = qn_simt_lane(), from = lane ^ bits;
    if (from > (lane | (width - 1)))
        from = lane;
    return qn_simt_shuffle(mask, v, from, file, line);
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T v, unsigned by,
                                 int width = 32,
                                 const char *file = __builtin_FILE(),
                                 int line = __builtin_LINE())
{
    int lane = qn_simt_lane(), from = lane + (int)by;
    if (from > (lane | (width - 1)))
        from = lane;
    return qn_simt_shuffle(mask, v, from, file, line);
}
template <class T>
static inline T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32,
                               const char *file = __builtin_FILE(),
                               int line = __builtin_LINE())
{
    int lane = qn_simt_lane(), from = lane - (int)by;
    if (from < (lane & ~(width - 1)))
        from = lane;
    return qn_simt_shuffle(mask, v, from, file, line);
}

static inline unsigned __ballot_sync(unsigned mask, int predicate,
                                     const char *file = __builtin_FILE(),
                                     int line = __builtin_LINE())
{
    return qn_simt_ballot(mask, predicate != 0, file, line);
}
static inline int __any_sync(unsigned mask, int predicate,
                             const char *file = __builtin_FILE(),
                             int line = __builtin_LINE())
{
    return qn_simt_ballot(mask, predicate != 0, file, line) != 0;
}
static inline int __all_sync(unsigned mask, int predicate,
                             const char *file = __builtin_FILE(),
                             int line = __builtin_LINE())
{
    return qn_simt_ballot(mask, predicate == 0, file, line) == 0;
}

/* --- the reductions of device.h */

/* v[0] = the tree over 32 values: neighbours 16 apart, then 8, .. */
template <class T, class Op> static inline T qn_simt_tree(T *v, Op op)
{
    for (int lanes = 16; lanes > 0; lanes >>= 1)
        for (int i = 0; i < lanes; i++)
            v[i] = op(v[i], v[i + lanes]);
    return v[0];
}
/* The values of 32 lanes; bytes 0xff of those that do not come. */
template <class T>
static inline void qn_simt_collect(T *v, void *const *values, unsigned n)
{
    for (unsigned i = 0; i < 32; i++)
        if (i < n && values[i])
            memcpy((void *)&v[i], values[i], sizeof *v);
        else
            memset((void *)&v[i], 0xff, sizeof *v);
}
template <class T, class Op> struct qn_simt_reduction {
    T v;
    Op op;
    T none;
    static void join_warp(void *const *values, unsigned n)
    {
        T v[32];
        const qn_simt_reduction *own = nullptr;
        for (unsigned i = 0; i < n && !own; i++)
            own = static_cast<const qn_simt_reduction *>(values[i]);
        qn_simt_collect(v, values, n);
        T r = qn_simt_tree(v, own->op);
        for (unsigned i = 0; i < n; i++)
            if (values[i])
                static_cast<qn_simt_reduction *>(values[i])->v = r;
    }
    static void join_block(void *const *values, unsigned n)
    {
        T v[32], part[32];
        const qn_simt_reduction own =
            *static_cast<const qn_simt_reduction *>(values[0]);
        for (unsigned w = 0; w < 32; w++) {
            part[w] = own.none;
            if (w * 32 < n) {
                qn_simt_collect(v, values + w * 32, n - w * 32);
                part[w] = qn_simt_tree(v, own.op);
            }
        }
        T r = n > 32 ? qn_simt_tree(part, own.op) : part[0];
        for (unsigned i = 0; i < n; i++)
            static_cast<qn_simt_reduction *>(values[i])->v = r;
    }
};
template <class T, class Op>
static inline T qn_warp_reduce(T v, Op op, const char *file = __builtin_FILE(),
                               int line = __builtin_LINE())
{
    qn_simt_reduction<T, Op> own = { v, op, v };
    qn_simt_join_warp(&own, own.join_warp, file, line);
    return own.v;
}
template <class T, class Op>
static inline T qn_block_reduce(T v, Op op, T none,
                                const char *file = __builtin_FILE(),
                                int line = __builtin_LINE())
{
    if (blockDim.x % 32 != 0 || blockDim.y != 1 || blockDim.z != 1)
        qn_simt_misuse("reduces a block that is not whole warps in x", file,
                       line);
    qn_simt_reduction<T, Op> own = { v, op, none };
    qn_simt_join_block(&own, own.join_block, file, line);
    return own.v;
}

/* --- atomics: other streams run on other threads of the system */

template <class T> using qn_simt_same = typename qn_simt_identity<T>::type;

template <class T, class Change>
static inline T qn_simt_atomic(T *p, Change change)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a 4 or 8 byte value");
    qn_simt_aligned(p, sizeof(T));
    T old, want;
    __atomic_load(p, &old, __ATOMIC_RELAXED);
    do
        want = change(old);
    while (!__atomic_compare_exchange(p, &old, &want, false, __ATOMIC_SEQ_CST,
                                      __ATOMIC_RELAXED));
    return old;
}
template <class T> static inline T atomicAdd(T *p, qn_simt_same<T> v)
{
    return qn_simt_atomic(p, [v](T old) { return T(old + v); });
}
template <class T> static inline T atomicSub(T *p, qn_simt_same<T> v)
{
    return qn_simt_atomic(p, [v](T old) { return T(old - v); });
}
template <class T> static inline T atomicMax(T *p, qn_simt_same<T> v)
{
    return qn_simt_atomic(p, [v](T old) { return old < v ? v : old; });
}
template <class T> static inline T atomicMin(T *p, qn_simt_same<T> v)
{
    return qn_simt_atomic(p, [v](T old) { return v < old ? v : old; });
}
template <class T> static inline T atomicOr(T *p, qn_simt_same<T> v)
{
    return qn_simt_atomic(p, [v](T old) { return T(old | v); });
}
template <class T> static inline T atomicAnd(T *p, qn_simt_same<T> v)
{
    return qn_simt_atomic(p, [v](T old) { return T(old & v); });
}
template <class T> static inline T atomicXor(T *p, qn_simt_same<T> v)
{
    return qn_simt_atomic(p, [v](T old) { return T(old ^ v); });
}
template <class T> static inline T atomicExch(T *p, qn_simt_same<T> v)
{
    return qn_simt_atomic(p, [v](T) { return v; });
}
template <class T>
static inline T atomicCAS(T *p, qn_simt_same<T> expected, qn_simt_same<T> v)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a 4 or 8 byte value");
    qn_simt_aligned(p, sizeof(T));
    __atomic_compare_exchange(p, &expected, &v, false, __ATOMIC_SEQ_CST,
                              __ATOMIC_SEQ_CST);
    return expected;
}

#endif /* __cplusplus */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One vector of floats, for files in runtime/cpu/simd/ only: the same source
 * is compiled for each instruction set. Multiply-add is always fused where the
 * instruction set can, and never where it cannot, so that every path of one
 * level gives the same bits.
 *
 *   level    VEC floats   registers
 *   base     4            16 or 32 of 128 bits
 *   avx2     8            16
 *   avx512   16           32
 *
 * QN_VEC_QUADS (tests) makes the base version that many times 4 wide: the
 * shapes of wider levels are then tested on any machine.
 */
#ifndef QN_CPU_GEMM_VEC_H
#define QN_CPU_GEMM_VEC_H

#include <string.h>

#ifdef __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define VEC_CHECKED
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define VEC_CHECKED
#endif

/*
 * UNROLL stands before a loop of constant length over an array that is to live
 * in registers. Under sanitizers neither that nor inlining is forced: the
 * checks of so much straight code take minutes to compile.
 */
#if defined(VEC_CHECKED)
#define QN_INLINE static __attribute__((noinline, unused))
#define UNROLL
#elif defined(__clang__)
#define QN_INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define QN_INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")
#endif

#if defined(__AVX512F__) && !defined(QN_VEC_QUADS)

#include <immintrin.h>
enum { VEC = 16 };
typedef __m512 vec;

QN_INLINE __mmask16 vec_mask(int n)
{
    return (__mmask16)((1u << n) - 1u);
}
QN_INLINE vec vec_zero(void) { return _mm512_setzero_ps(); }
QN_INLINE vec vec_set(float x) { return _mm512_set1_ps(x); }
QN_INLINE vec vec_load(const float *p) { return _mm512_loadu_ps(p); }
QN_INLINE void vec_store(float *p, vec v) { _mm512_storeu_ps(p, v); }
/* The first n < VEC elements; others read as 0 and stay as they are. */
QN_INLINE vec vec_load_n(const float *p, int n)
{
    return _mm512_maskz_loadu_ps(vec_mask(n), p);
}
QN_INLINE void vec_store_n(float *p, vec v, int n)
{
    _mm512_mask_storeu_ps(p, vec_mask(n), v);
}
QN_INLINE vec vec_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
QN_INLINE vec vec_add(vec a, vec b) { return _mm512_add_ps(a, b); }
QN_INLINE vec vec_mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
/* A NaN in b stays. */
QN_INLINE vec vec_max(vec a, vec b) { return _mm512_max_ps(a, b); }
QN_INLINE vec vec_min(vec a, vec b) { return _mm512_min_ps(a, b); }

#elif defined(__AVX2__) && defined(__FMA__) && !defined(QN_VEC_QUADS)

#include <immintrin.h>
enum { VEC = 8 };
typedef __m256 vec;

QN_INLINE __m256i vec_mask(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
QN_INLINE vec vec_zero(void) { return _mm256_setzero_ps(); }
QN_INLINE vec vec_set(float x) { return _mm256_set1_ps(x); }
QN_INLINE vec vec_load(const float *p) { return _mm256_loadu_ps(p); }
QN_INLINE void vec_store(float *p, vec v) { _mm256_storeu_ps(p, v); }
QN_INLINE vec vec_load_n(const float *p, int n)
{
    return _mm256_maskload_ps(p, vec_mask(n));
}
QN_INLINE void vec_store_n(float *p, vec v, int n)
{
    _mm256_maskstore_ps(p, vec_mask(n), v);
}
QN_INLINE vec vec_fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }
QN_INLINE vec vec_add(vec a, vec b) { return _mm256_add_ps(a, b); }
QN_INLINE vec vec_mul(vec a, vec b) { return _mm256_mul_ps(a, b); }
QN_INLINE vec vec_max(vec a, vec b) { return _mm256_max_ps(a, b); }
QN_INLINE vec vec_min(vec a, vec b) { return _mm256_min_ps(a, b); }

#else

#ifndef QN_VEC_QUADS
#define QN_VEC_QUADS 1
#endif
enum { VEC = 4 * QN_VEC_QUADS };
typedef float vec_quad __attribute__((vector_size(16)));
typedef struct vec {
    vec_quad q[QN_VEC_QUADS];
} vec;

QN_INLINE vec vec_set(float x)
{
    vec v;
    for (int i = 0; i < QN_VEC_QUADS; i++)
        v.q[i] = (vec_quad){ x, x, x, x };
    return v;
}
QN_INLINE vec vec_zero(void) { return vec_set(0); }
QN_INLINE vec vec_load(const float *p)
{
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}
QN_INLINE void vec_store(float *p, vec v) { memcpy(p, &v, sizeof v); }
QN_INLINE vec vec_load_n(const float *p, int n)
{
    vec v = vec_zero();
    for (int i = 0; i < n; i++)
        v.q[i / 4][i % 4] = p[i];
    return v;
}
QN_INLINE void vec_store_n(float *p, vec v, int n)
{
    for (int i = 0; i < n; i++)
        p[i] = v.q[i / 4][i % 4];
}
QN_INLINE vec vec_fma(vec a, vec b, vec c)
{
    for (int i = 0; i < QN_VEC_QUADS; i++) {
#ifdef __FP_FAST_FMAF
        for (int k = 0; k < 4; k++)
            c.q[i][k] = __builtin_fmaf(a.q[i][k], b.q[i][k], c.q[i][k]);
#else
        c.q[i] = a.q[i] * b.q[i] + c.q[i];
#endif
    }
    return c;
}
QN_INLINE vec vec_add(vec a, vec b)
{
    for (int i = 0; i < QN_VEC_QUADS; i++)
        a.q[i] += b.q[i];
    return a;
}
QN_INLINE vec vec_mul(vec a, vec b)
{
    for (int i = 0; i < QN_VEC_QUADS; i++)
        a.q[i] *= b.q[i];
    return a;
}
QN_INLINE vec vec_max(vec a, vec b)
{
    for (int i = 0; i < VEC; i++) {
        float x = a.q[i / 4][i % 4], y = b.q[i / 4][i % 4];
        b.q[i / 4][i % 4] = x > y ? x : y;
    }
    return b;
}
QN_INLINE vec vec_min(vec a, vec b)
{
    for (int i = 0; i < VEC; i++) {
        float x = a.q[i / 4][i % 4], y = b.q[i / 4][i % 4];
        b.q[i / 4][i % 4] = x < y ? x : y;
    }
    return b;
}

#endif

/* Elements [0, n) of a vector, n clamped to [0, VEC]. */
QN_INLINE vec vec_load_part(const float *p, int n)
{
    return n >= VEC ? vec_load(p) : n > 0 ? vec_load_n(p, n) : vec_zero();
}
QN_INLINE void vec_store_part(float *p, vec v, int n)
{
    if (n >= VEC)
        vec_store(p, v);
    else if (n > 0)
        vec_store_n(p, v, n);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* 16-bit floats to binary32 and back, in vectors. */
#include "runtime/base/half.h"
#include "runtime/cpu/vector.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

static void f16_to_f32(const uint16_t *x, float *y, int64_t n)
{
    int64_t i = 0;
#ifdef __F16C__
    for (; i + 8 <= n; i += 8) {
        __m128i h = _mm_loadu_si128((const void *)(x + i));
        _mm256_storeu_ps(y + i, _mm256_cvtph_ps(h));
    }
#endif
    QN_INDEPENDENT
    for (; i < n; i++)
        y[i] = qn_f16_to_f32(x[i]);
}

static void f32_to_f16(const float *x, uint16_t *y, int64_t n)
{
    int64_t i = 0;
#ifdef __F16C__
    for (; i + 8 <= n; i += 8) {
        __m256 f = _mm256_loadu_ps(x + i);
        _mm_storeu_si128((void *)(y + i),
                         _mm256_cvtps_ph(f, _MM_FROUND_TO_NEAREST_INT));
    }
#endif
    QN_INDEPENDENT
    for (; i < n; i++)
        y[i] = qn_f32_to_f16(x[i]);
}

static void bf16_to_f32(const uint16_t *x, float *y, int64_t n)
{
    QN_INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        y[i] = qn_bf16_to_f32(x[i]);
}

static void f32_to_bf16(const float *x, uint16_t *y, int64_t n)
{
    QN_INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        y[i] = qn_f32_to_bf16(x[i]);
}

const qn_vec_half_table QN_ISA_FN(qn_vec_half) = { f16_to_f32, f32_to_f16,
                                                   bf16_to_f32, f32_to_bf16 };

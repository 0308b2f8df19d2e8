/* SPDX-License-Identifier: Apache-2.0 */
/* 16-bit floats to binary32 and back, in vectors. */
#include "runtime/base/half.h"
#include "runtime/cpu/vector.h"

static void f16_to_f32(const uint16_t *x, float *y, int64_t n)
{
    QN_INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        y[i] = qn_f16_to_f32(x[i]);
}

static void f32_to_f16(const float *x, uint16_t *y, int64_t n)
{
    QN_INDEPENDENT
    for (int64_t i = 0; i < n; i++)
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

/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise functions of binary32; every loop vectorises. */
#include "runtime/cpu/vector.h"
#include "runtime/cpu/vmath.h"

/* log(1 + exp(x)) without overflow */
static inline float softplus_f32(float x)
{
    float high = x < 0.0f ? 0.0f : x; /* keeps NaN */
    return high + qn_log1p_f32(qn_exp_low_f32(-qn_abs_f32(x)));
}

/* x tanh(softplus(x)) = x w / (w + 2) with w = e^x (e^x + 2) */
static inline float mish_f32(float x)
{
    float e = qn_exp_f32(x > 20.0f ? 20.0f : x); /* from there on it is x */
    float w = e * (e + 2.0f);
    return x * (w / (w + 2.0f));
}

static inline float hard_sigmoid_f32(float x, float a, float b)
{
    float t = a * x + b;
    t = t < 0.0f ? 0.0f : t;
    return t > 1.0f ? 1.0f : t;
}

static inline float elu_f32(float x, float a)
{
    return x < 0.0f ? a * qn_expm1_f32(x) : x;
}

static inline float clip_f32(float x, float low, float high)
{
    float t = x < low ? low : x;
    return t > high ? high : t;
}

static inline float shrink_f32(float x, float lambda, float bias)
{
    float low = x < -lambda ? x + bias : 0.0f;
    return x > lambda ? x - bias : low;
}

static inline float sign_f32(float x)
{
    float s = qn_copysign_f32(1.0f, x);
    return x > 0.0f || x < 0.0f ? s : x; /* zero and NaN: themselves */
}

static inline float gelu_tanh_f32(float x)
{
    float t = 0x1.988454p-1f * (x + 0.044715f * x * x * x); /* sqrt(2/pi) */
    return 0.5f * x * (1.0f + qn_tanh_f32(t));
}

#define LOOP(name, expr)                                                       \
    static void name##_loop(const float *x, float *y, int64_t n, float a,      \
                            float b)                                           \
    {                                                                          \
        (void)a, (void)b;                                                      \
        QN_INDEPENDENT                                                         \
        for (int64_t i = 0; i < n; i++) {                                      \
            float v = x[i];                                                    \
            y[i] = (expr);                                                     \
        }                                                                      \
    }

LOOP(relu, v < 0.0f ? 0.0f : v)
LOOP(sigmoid, qn_sigmoid_f32(v))
LOOP(tanh, qn_tanh_f32(v))
LOOP(hard_sigmoid, hard_sigmoid_f32(v, a, b))
LOOP(hard_swish, v * hard_sigmoid_f32(v, 1.0f / 6.0f, 0.5f))
LOOP(leaky_relu, v < 0.0f ? a * v : v)
LOOP(elu, elu_f32(v, a))
LOOP(selu, b * elu_f32(v, a))
LOOP(celu, v < 0.0f ? a * qn_expm1_f32(v / a) : v)
LOOP(mish, mish_f32(v))
LOOP(gelu, 0.5f * v * (1.0f + qn_erf_f32(v * 0x1.6a09e6p-1f)))
LOOP(gelu_tanh, gelu_tanh_f32(v))
LOOP(swish, v * qn_sigmoid_f32(a * v))
LOOP(softplus, softplus_f32(v))
LOOP(softsign, v / (1.0f + qn_abs_f32(v)))
LOOP(thresholded_relu, v > a ? v : 0.0f)
LOOP(shrink, shrink_f32(v, a, b))
LOOP(clip, clip_f32(v, a, b))
LOOP(abs, qn_abs_f32(v))
LOOP(neg, -v)
LOOP(sign, sign_f32(v))
LOOP(floor, qn_floor_f32(v))
LOOP(ceil, qn_ceil_f32(v))
LOOP(round, qn_rint_f32(v))
LOOP(sqrt, __builtin_sqrtf(v))
LOOP(reciprocal, 1.0f / v)
LOOP(exp, qn_exp_f32(v))
LOOP(log, qn_log_f32(v))
LOOP(erf, qn_erf_f32(v))

const qn_vec_unary_table QN_ISA_FN(qn_vec_unary) = { {
#define ENTRY(name) [QN_VEC_##name] = name##_loop,
    QN_VEC_UNARY_LIST(ENTRY)
#undef ENTRY
} };

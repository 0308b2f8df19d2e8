/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops over contiguous binary32, compiled per instruction set (isa.h). Arrays
 * of a call are equal or do not overlap; n >= 0.
 */
#ifndef QN_CPU_VECTOR_H
#define QN_CPU_VECTOR_H

#include "runtime/cpu/isa.h"

#include <stdint.h>

/* ---- y[i] = f(x[i]); a and b are what the operator's attributes say ---- */

#define QN_VEC_UNARY_LIST(X)                                                   \
    X(relu)                                                                    \
    X(sigmoid)                                                                 \
    X(tanh)                                                                    \
    X(hard_sigmoid) /* a x + b, within [0, 1] */                               \
    X(hard_swish)                                                              \
    X(leaky_relu) /* a x below 0 */                                            \
    X(elu)        /* a (exp(x) - 1) below 0 */                                 \
    X(selu)       /* b times elu */                                            \
    X(celu)       /* a (exp(x / a) - 1) below 0 */                             \
    X(mish)                                                                    \
    X(gelu)                                                                    \
    X(gelu_tanh)                                                               \
    X(swish) /* x sigmoid(a x) */                                              \
    X(softplus)                                                                \
    X(softsign)                                                                \
    X(thresholded_relu) /* x above a, else 0 */                                \
    X(shrink)           /* a: lambda, b: bias */                               \
    X(clip)             /* a: low, b: high */                                  \
    X(abs)                                                                     \
    X(neg)                                                                     \
    X(sign)                                                                    \
    X(floor)                                                                   \
    X(ceil)                                                                    \
    X(round)                                                                   \
    X(sqrt)                                                                    \
    X(reciprocal)                                                              \
    X(exp)                                                                     \
    X(log)                                                                     \
    X(erf)

typedef enum qn_vec_unary_op {
#define QN_VEC_ENUM(name) QN_VEC_##name,
    QN_VEC_UNARY_LIST(QN_VEC_ENUM)
#undef QN_VEC_ENUM
        QN_VEC_UNARY_COUNT
} qn_vec_unary_op;

typedef void (*qn_vec_unary_fn)(const float *x, float *y, int64_t n, float a,
                                float b);

typedef struct qn_vec_unary_table {
    qn_vec_unary_fn fn[QN_VEC_UNARY_COUNT];
} qn_vec_unary_table;

QN_ISA_TABLES(qn_vec_unary_table, qn_vec_unary);

/* ---- y[i] = f(a[i], b[i]) ---- */

#define QN_VEC_BINARY_LIST(X)                                                  \
    X(add)                                                                     \
    X(sub)                                                                     \
    X(mul)                                                                     \
    X(div)                                                                     \
    X(max) /* NaN if either is */                                              \
    X(min)                                                                     \
    X(prelu) /* a, below 0 times b */

typedef enum qn_vec_binary_op {
#define QN_VEC_ENUM(name) QN_VEC2_##name,
    QN_VEC_BINARY_LIST(QN_VEC_ENUM)
#undef QN_VEC_ENUM
        QN_VEC_BINARY_COUNT
} qn_vec_binary_op;

/* Which operand is one element for the whole call. */
typedef enum qn_vec_mode {
    QN_VEC_VV, /* neither */
    QN_VEC_SV, /* a */
    QN_VEC_VS, /* b */
    QN_VEC_MODES
} qn_vec_mode;

typedef void (*qn_vec_binary_fn)(const float *a, const float *b, float *y,
                                 int64_t n);

typedef struct qn_vec_binary_table {
    qn_vec_binary_fn fn[QN_VEC_BINARY_COUNT][QN_VEC_MODES];
} qn_vec_binary_table;

QN_ISA_TABLES(qn_vec_binary_table, qn_vec_binary);

/* ---- 16-bit floats (rules in base/half.h) ---- */

typedef struct qn_vec_half_table {
    void (*f16_to_f32)(const uint16_t *x, float *y, int64_t n);
    void (*f32_to_f16)(const float *x, uint16_t *y, int64_t n);
    void (*bf16_to_f32)(const uint16_t *x, float *y, int64_t n);
    void (*f32_to_bf16)(const float *x, uint16_t *y, int64_t n);
} qn_vec_half_table;

QN_ISA_TABLES(qn_vec_half_table, qn_vec_half);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops over contiguous binary32, compiled per instruction set (isa.h). Arrays
 * of a call are equal or do not overlap; n >= 0.
 */
#ifndef QN_CPU_VECTOR_H
#define QN_CPU_VECTOR_H

#include "runtime/base/dtype.h"
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

/*
 * y[i] = f(a[i], b[i]) for i < n; an operand of one element is read once. y is
 * an operand of its own length, or apart. Returns n, or the first i whose
 * divisor is zero: elements before it are done.
 */
typedef int64_t (*qn_binary_fn)(const void *a, const void *b, void *y,
                                int64_t n);

/* Three loops of one expression over p and q; T: operands, R: result. */
#define QN_BINARY_LOOPS(name, T, R, expr)                                      \
    static int64_t name##_vv(const void *a, const void *b, void *y, int64_t n) \
    {                                                                          \
        const T *x = a, *z = b;                                                \
        R *to = y;                                                             \
        QN_INDEPENDENT                                                         \
        for (int64_t i = 0; i < n; i++) {                                      \
            T p = x[i], q = z[i];                                              \
            to[i] = (R)(expr);                                                 \
        }                                                                      \
        return n;                                                              \
    }                                                                          \
    static int64_t name##_sv(const void *a, const void *b, void *y, int64_t n) \
    {                                                                          \
        const T *x = a, *z = b;                                                \
        R *to = y;                                                             \
        T p = *x;                                                              \
        QN_INDEPENDENT                                                         \
        for (int64_t i = 0; i < n; i++) {                                      \
            T q = z[i];                                                        \
            to[i] = (R)(expr);                                                 \
        }                                                                      \
        return n;                                                              \
    }                                                                          \
    static int64_t name##_vs(const void *a, const void *b, void *y, int64_t n) \
    {                                                                          \
        const T *x = a, *z = b;                                                \
        R *to = y;                                                             \
        T q = *z;                                                              \
        QN_INDEPENDENT                                                         \
        for (int64_t i = 0; i < n; i++) {                                      \
            T p = x[i];                                                        \
            to[i] = (R)(expr);                                                 \
        }                                                                      \
        return n;                                                              \
    }

#define QN_BINARY_MODES(name)                                                  \
    { [QN_VEC_VV] = name##_vv, [QN_VEC_SV] = name##_sv,                        \
      [QN_VEC_VS] = name##_vs }

typedef struct qn_vec_binary_table {
    qn_binary_fn fn[QN_VEC_BINARY_COUNT][QN_VEC_MODES];
} qn_vec_binary_table;

QN_ISA_TABLES(qn_vec_binary_table, qn_vec_binary);

/* ---- y[i] = a[i] < b[i] and the like, into booleans, for numeric types;
 * greater is less with the operands exchanged ---- */

typedef enum qn_vec_compare_op {
    QN_VEC_eq, /* of booleans too */
    QN_VEC_lt,
    QN_VEC_le,
    QN_VEC_COMPARE_COUNT
} qn_vec_compare_op;

enum { QN_VEC_TYPES = QN_U64 + 1 };

typedef struct qn_vec_compare_table {
    /* NULL for a type that is not compared so */
    qn_binary_fn fn[QN_VEC_COMPARE_COUNT][QN_VEC_TYPES][QN_VEC_MODES];
} qn_vec_compare_table;

QN_ISA_TABLES(qn_vec_compare_table, qn_vec_compare);

/* ---- 16-bit floats (rules in base/half.h) ---- */

typedef struct qn_vec_half_table {
    void (*f16_to_f32)(const uint16_t *x, float *y, int64_t n);
    void (*f32_to_f16)(const float *x, uint16_t *y, int64_t n);
    void (*bf16_to_f32)(const uint16_t *x, float *y, int64_t n);
    void (*f32_to_bf16)(const float *x, uint16_t *y, int64_t n);
} qn_vec_half_table;

QN_ISA_TABLES(qn_vec_half_table, qn_vec_half);

#endif

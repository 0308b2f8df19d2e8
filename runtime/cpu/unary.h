/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the unary family: which loop does what, for which type. */
#ifndef QN_CPU_UNARY_H
#define QN_CPU_UNARY_H

#include "runtime/cpu/vector.h"
#include "runtime/exec/kernel.h"

/* Functions of the C library, in both precisions. */
#define QN_LIBM_LIST(X)                                                        \
    X(sin)                                                                     \
    X(cos)                                                                     \
    X(tan)                                                                     \
    X(asin)                                                                    \
    X(acos)                                                                    \
    X(atan)                                                                    \
    X(sinh)                                                                    \
    X(cosh)                                                                    \
    X(asinh)                                                                   \
    X(acosh)                                                                   \
    X(atanh)

/* Continues qn_vec_unary_op; the last two: integers and booleans only. */
enum {
    QN_LIBM_BEFORE = QN_VEC_UNARY_COUNT - 1,
#define QN_LIBM_ENUM(name) QN_LIBM_##name,
    QN_LIBM_LIST(QN_LIBM_ENUM)
#undef QN_LIBM_ENUM
        QN_INT_not,
    QN_INT_bitnot,
    QN_UNARY_COUNT
};

/* y[i] = f(x[i]), arrays equal or apart; a and b as in vector.h. */
typedef void (*qn_unary_f64_fn)(const double *x, double *y, int64_t n, double a,
                                double b);
extern const qn_unary_f64_fn qn_unary_f64[QN_UNARY_COUNT];
/* The library's functions only; below QN_VEC_UNARY_COUNT see qn_vec_unary. */
extern const qn_vec_unary_fn qn_unary_libm_f32[QN_UNARY_COUNT];

/*
 * Integers of any width and booleans, for the operators that have them. `low`
 * and `high`: bounds of Clip in the tensor's type; Shrink's lambda and bias as
 * floats; else unused.
 */
QN_NODISCARD qn_status qn_unary_int(const qn_launch *k, int op, const void *low,
                                    const void *high);

#endif

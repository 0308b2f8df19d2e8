/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the binary family: which loop does what, for which type. */
#ifndef QN_CPU_BINARY_H
#define QN_CPU_BINARY_H

#include "runtime/cpu/broadcast.h"
#include "runtime/cpu/vector.h"
#include "runtime/exec/kernel.h"

#include <stdatomic.h>

/* Continues qn_vec_binary_op, which all numeric types have. */
enum {
    QN_BIN_mod = QN_VEC_BINARY_COUNT, /* sign of the divisor */
    QN_BIN_fmod,                      /* sign of the dividend */
    QN_BIN_and,
    QN_BIN_or,
    QN_BIN_xor,
    QN_BIN_shl,
    QN_BIN_shr,
    QN_BIN_eq, /* from here on the result is bool */
    QN_BIN_lt,
    QN_BIN_le,
    QN_BINARY_COUNT
};

/* NULL where no operator needs the pair; 16-bit floats go by way of F32. */
qn_binary_fn qn_binary_loop(int op, qn_dtype dtype, qn_vec_mode mode);
/* Its parts. */
qn_binary_fn qn_binary_loop_int(int op, qn_dtype dtype, qn_vec_mode mode);
qn_binary_fn qn_binary_loop_float(int op, qn_dtype dtype, qn_vec_mode mode);

static inline qn_vec_mode qn_binary_mode(const qn_bcast *b)
{
    return qn_bcast_step(b, 0) == qn_bcast_step(b, 1) ? QN_VEC_VV
           : qn_bcast_step(b, 0)                      ? QN_VEC_VS
                                                      : QN_VEC_SV;
}

/* f(input 0, input 1) into output 0, broadcast. */
QN_NODISCARD qn_status qn_binary_run(const qn_launch *k, int op);
/* Rows of k's two inputs, the second before the first if `exchange`. */
QN_NODISCARD qn_status qn_binary_broadcast(const qn_launch *k, bool exchange,
                                           qn_bcast *out);
/* Keep the lowest output index of a fault; `fault` starts at INT64_MAX. */
void qn_binary_note(_Atomic int64_t *fault, int64_t at);
/* QN_RANGE: output element `at` divides by zero. */
qn_status qn_binary_fault(const qn_launch *k, int64_t at);

/* Pow (binary_pow.c): base and exponent may differ in type. */
QN_NODISCARD qn_status qn_binary_pow(const qn_launch *k);
/* y[i] = a[i * step_a] ^ b[i * step_b]; steps are 0 or 1. y is an operand of its
 * own length, or apart. */
void qn_binary_pow_f32(const float *a, int64_t step_a, const float *b,
                       int64_t step_b, float *y, int64_t n);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic of binary64; of binary32 what has no vector form. */
#include "runtime/cpu/binary.h"

#include <math.h>

QN_BINARY_LOOPS(add, double, double, p + q)
QN_BINARY_LOOPS(sub, double, double, p - q)
QN_BINARY_LOOPS(mul, double, double, p *q)
QN_BINARY_LOOPS(div, double, double, p / q)
/* NaN in either operand wins: see simd/binary.c */
QN_BINARY_LOOPS(max, double, double, p > q || p != p ? p : q)
QN_BINARY_LOOPS(min, double, double, p < q || p != p ? p : q)
QN_BINARY_LOOPS(prelu, double, double, p < 0 ? p * q : p)
QN_BINARY_LOOPS(mod, double, double, fmod(p, q))
QN_BINARY_LOOPS(mod_f32, float, float, fmodf(p, q))

static const qn_binary_fn f64[QN_BIN_and][QN_VEC_MODES] = {
    [QN_VEC2_add] = QN_BINARY_MODES(add),
    [QN_VEC2_sub] = QN_BINARY_MODES(sub),
    [QN_VEC2_mul] = QN_BINARY_MODES(mul),
    [QN_VEC2_div] = QN_BINARY_MODES(div),
    [QN_VEC2_max] = QN_BINARY_MODES(max),
    [QN_VEC2_min] = QN_BINARY_MODES(min),
    [QN_VEC2_prelu] = QN_BINARY_MODES(prelu),
    [QN_BIN_fmod] = QN_BINARY_MODES(mod),
};

static const qn_binary_fn f32_mod[QN_VEC_MODES] = QN_BINARY_MODES(mod_f32);

qn_binary_fn qn_binary_loop_float(int op, qn_dtype dtype, qn_vec_mode mode)
{
    if (dtype == QN_F64)
        return op < QN_BIN_and ? f64[op][mode] : NULL;
    return op == QN_BIN_fmod ? f32_mod[mode] : NULL;
}

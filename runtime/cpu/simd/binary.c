/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic of two binary32 operands, either of which may be one element. */
#include "runtime/cpu/vector.h"

/* A NaN in either operand wins: `p` if it is one, else the comparison with a
 * NaN in q fails and takes q. */
#define MAX(p, q) ((p) > (q) || (p) != (p) ? (p) : (q))
#define MIN(p, q) ((p) < (q) || (p) != (p) ? (p) : (q))

QN_BINARY_LOOPS(add, float, float, p + q)
QN_BINARY_LOOPS(sub, float, float, p - q)
QN_BINARY_LOOPS(mul, float, float, p *q)
QN_BINARY_LOOPS(div, float, float, p / q)
QN_BINARY_LOOPS(max, float, float, MAX(p, q))
QN_BINARY_LOOPS(min, float, float, MIN(p, q))
QN_BINARY_LOOPS(prelu, float, float, p < 0.0f ? p * q : p)

const qn_vec_binary_table QN_ISA_FN(qn_vec_binary) = { {
#define ENTRY(name) [QN_VEC2_##name] = QN_BINARY_MODES(name),
    QN_VEC_BINARY_LIST(ENTRY)
#undef ENTRY
} };

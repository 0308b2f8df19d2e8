/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic of two binary32 operands, either of which may be one element. */
#include "runtime/cpu/vector.h"

/* A NaN in either operand wins: `p` if it is one, else the comparison with a
 * NaN in q fails and takes q. */
#define MAX(p, q) ((p) > (q) || (p) != (p) ? (p) : (q))
#define MIN(p, q) ((p) < (q) || (p) != (p) ? (p) : (q))

#define LOOPS(name, expr)                                                      \
    static void name##_vv(const float *a, const float *b, float *y, int64_t n) \
    {                                                                          \
        QN_INDEPENDENT                                                         \
        for (int64_t i = 0; i < n; i++) {                                      \
            float p = a[i], q = b[i];                                          \
            y[i] = (expr);                                                     \
        }                                                                      \
    }                                                                          \
    static void name##_sv(const float *a, const float *b, float *y, int64_t n) \
    {                                                                          \
        float p = *a;                                                          \
        QN_INDEPENDENT                                                         \
        for (int64_t i = 0; i < n; i++) {                                      \
            float q = b[i];                                                    \
            y[i] = (expr);                                                     \
        }                                                                      \
    }                                                                          \
    static void name##_vs(const float *a, const float *b, float *y, int64_t n) \
    {                                                                          \
        float q = *b;                                                          \
        QN_INDEPENDENT                                                         \
        for (int64_t i = 0; i < n; i++) {                                      \
            float p = a[i];                                                    \
            y[i] = (expr);                                                     \
        }                                                                      \
    }

LOOPS(add, p + q)
LOOPS(sub, p - q)
LOOPS(mul, p *q)
LOOPS(div, p / q)
LOOPS(max, MAX(p, q))
LOOPS(min, MIN(p, q))
LOOPS(prelu, p < 0.0f ? p * q : p)

const qn_vec_binary_table QN_ISA_FN(qn_vec_binary) = { {
#define ENTRY(name)                                                            \
    [QN_VEC2_##name] = { [QN_VEC_VV] = name##_vv,                              \
                         [QN_VEC_SV] = name##_sv,                              \
                         [QN_VEC_VS] = name##_vs },
    QN_VEC_BINARY_LIST(ENTRY)
#undef ENTRY
} };

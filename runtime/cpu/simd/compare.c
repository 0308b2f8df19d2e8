/* SPDX-License-Identifier: Apache-2.0 */
/* Comparisons into booleans. Greater is Less with the operands exchanged. */
#include "runtime/cpu/vector.h"

#define TYPES(X)                                                               \
    X(F32, float)                                                              \
    X(F64, double)                                                             \
    X(I8, int8_t)                                                              \
    X(I16, int16_t)                                                            \
    X(I32, int32_t)                                                            \
    X(I64, int64_t)                                                            \
    X(U8, uint8_t)                                                             \
    X(U16, uint16_t)                                                           \
    X(U32, uint32_t)                                                           \
    X(U64, uint64_t)

#define LOOPS(D, T)                                                            \
    QN_BINARY_LOOPS(eq_##D, T, uint8_t, p == q)                                \
    QN_BINARY_LOOPS(lt_##D, T, uint8_t, p < q)                                 \
    QN_BINARY_LOOPS(le_##D, T, uint8_t, p <= q)
TYPES(LOOPS)

const qn_vec_compare_table QN_ISA_FN(qn_vec_compare) = { {
    [QN_VEC_eq] = {
#define ENTRY(D, T) [QN_##D] = QN_BINARY_MODES(eq_##D),
        TYPES(ENTRY)
#undef ENTRY
        [QN_BOOL] = QN_BINARY_MODES(eq_U8),
    },
    [QN_VEC_lt] = {
#define ENTRY(D, T) [QN_##D] = QN_BINARY_MODES(lt_##D),
        TYPES(ENTRY)
#undef ENTRY
    },
    [QN_VEC_le] = {
#define ENTRY(D, T) [QN_##D] = QN_BINARY_MODES(le_##D),
        TYPES(ENTRY)
#undef ENTRY
    },
} };

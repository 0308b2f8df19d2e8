/* SPDX-License-Identifier: Apache-2.0 */
/* Comparisons into booleans. Greater is Less with the operands exchanged. */
#include "runtime/cpu/binary.h"

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

static const qn_binary_fn loops[3][QN_U64 + 1][QN_VEC_MODES] = {
    {
#define ENTRY(D, T) [QN_##D] = QN_BINARY_MODES(eq_##D),
        TYPES(ENTRY)
#undef ENTRY
            [QN_BOOL] = QN_BINARY_MODES(eq_U8),
    },
    {
#define ENTRY(D, T) [QN_##D] = QN_BINARY_MODES(lt_##D),
        TYPES(ENTRY)
#undef ENTRY
    },
    {
#define ENTRY(D, T) [QN_##D] = QN_BINARY_MODES(le_##D),
        TYPES(ENTRY)
#undef ENTRY
    },
};

qn_binary_fn qn_binary_loop_compare(int op, qn_dtype dtype, qn_vec_mode mode)
{
    return op >= QN_BIN_eq && op < QN_BINARY_COUNT && dtype <= QN_U64
               ? loops[op - QN_BIN_eq][dtype][mode]
               : NULL;
}

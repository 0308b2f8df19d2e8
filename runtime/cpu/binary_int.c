/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Integers of two operands. Sums, differences and products wrap; the most
 * negative number divided by -1 wraps to itself; a zero divisor is reported.
 */
#include "runtime/cpu/binary.h"

/* D: dtype, T: its C type, W: unsigned, at least as wide as int and T */
#define COMMON(D, T, W)                                                        \
    QN_BINARY_LOOPS(add_##D, T, T, (W)p + (W)q)                                \
    QN_BINARY_LOOPS(sub_##D, T, T, (W)p - (W)q)                                \
    QN_BINARY_LOOPS(mul_##D, T, T, (W)p *(W)q)                                 \
    QN_BINARY_LOOPS(max_##D, T, T, p > q ? p : q)                              \
    QN_BINARY_LOOPS(min_##D, T, T, p < q ? p : q)                              \
    QN_BINARY_LOOPS(and_##D, T, T, p &q)                                       \
    QN_BINARY_LOOPS(or_##D, T, T, p | q)                                       \
    QN_BINARY_LOOPS(xor_##D, T, T, p ^ q)

/* One loop for all modes: a division costs more than a stride. */
#define DIVIDE(name, T, s, t, expr)                                            \
    static int64_t name(const void *a, const void *b, void *y, int64_t n)      \
    {                                                                          \
        const T *x = a, *z = b;                                                \
        T *to = y;                                                             \
        for (int64_t i = 0; i < n; i++) {                                      \
            T p = x[i * (s)], q = z[i * (t)];                                  \
            if (q == 0)                                                        \
                return i;                                                      \
            to[i] = (T)(expr);                                                 \
        }                                                                      \
        return n;                                                              \
    }
#define DIVISIONS(name, T, expr)                                               \
    DIVIDE(name##_vv, T, 1, 1, expr)                                           \
    DIVIDE(name##_sv, T, 0, 1, expr)                                           \
    DIVIDE(name##_vs, T, 1, 0, expr)

#define SIGNED(D, T, W)                                                        \
    COMMON(D, T, W)                                                            \
    static inline T floor_mod_##D(T p, T q)                                    \
    {                                                                          \
        T r = (T)(p % q);                                                      \
        return (T)(r != 0 && (r < 0) != (q < 0) ? r + q : r);                  \
    }                                                                          \
    DIVISIONS(div_##D, T, q == -1 ? (T)((W)0 - (W)p) : (T)(p / q))             \
    DIVISIONS(mod_##D, T, q == -1 ? (T)0 : floor_mod_##D(p, q))                \
    DIVISIONS(fmod_##D, T, q == -1 ? (T)0 : (T)(p % q))

#define UNSIGNED(D, T, W)                                                      \
    COMMON(D, T, W)                                                            \
    DIVISIONS(div_##D, T, p / q)                                               \
    DIVISIONS(mod_##D, T, p % q)                                               \
    QN_BINARY_LOOPS(shl_##D, T, T, q < 8 * sizeof(T) ? (W)p << q : 0)          \
    QN_BINARY_LOOPS(shr_##D, T, T, q < 8 * sizeof(T) ? (W)p >> q : 0)

SIGNED(I8, int8_t, uint32_t)
SIGNED(I16, int16_t, uint32_t)
SIGNED(I32, int32_t, uint32_t)
SIGNED(I64, int64_t, uint64_t)
UNSIGNED(U8, uint8_t, uint32_t)
UNSIGNED(U16, uint16_t, uint32_t)
UNSIGNED(U32, uint32_t, uint32_t)
UNSIGNED(U64, uint64_t, uint64_t)

/* PRelu has the wide ones only */
#define PRELU(D, T, W)                                                         \
    QN_BINARY_LOOPS(prelu_##D, T, T, p < 0 ? (W)p * (W)q : (W)p)
PRELU(I32, int32_t, uint32_t)
PRELU(I64, int64_t, uint64_t)
QN_BINARY_LOOPS(prelu_U32, uint32_t, uint32_t, ((void)q, p))
QN_BINARY_LOOPS(prelu_U64, uint64_t, uint64_t, ((void)q, p))

#define ALL(name)                                                              \
    { [QN_I8] = QN_BINARY_MODES(name##_I8),                                    \
      [QN_I16] = QN_BINARY_MODES(name##_I16),                                  \
      [QN_I32] = QN_BINARY_MODES(name##_I32),                                  \
      [QN_I64] = QN_BINARY_MODES(name##_I64),                                  \
      [QN_U8] = QN_BINARY_MODES(name##_U8),                                    \
      [QN_U16] = QN_BINARY_MODES(name##_U16),                                  \
      [QN_U32] = QN_BINARY_MODES(name##_U32),                                  \
      [QN_U64] = QN_BINARY_MODES(name##_U64) }
/* booleans are 0 or 1: the loops of uint8 serve */
#define ALL_BOOL(name)                                                         \
    { [QN_I8] = QN_BINARY_MODES(name##_I8),                                    \
      [QN_I16] = QN_BINARY_MODES(name##_I16),                                  \
      [QN_I32] = QN_BINARY_MODES(name##_I32),                                  \
      [QN_I64] = QN_BINARY_MODES(name##_I64),                                  \
      [QN_U8] = QN_BINARY_MODES(name##_U8),                                    \
      [QN_U16] = QN_BINARY_MODES(name##_U16),                                  \
      [QN_U32] = QN_BINARY_MODES(name##_U32),                                  \
      [QN_U64] = QN_BINARY_MODES(name##_U64),                                  \
      [QN_BOOL] = QN_BINARY_MODES(name##_U8) }
#define UNSIGNED_ONLY(name)                                                    \
    { [QN_U8] = QN_BINARY_MODES(name##_U8),                                    \
      [QN_U16] = QN_BINARY_MODES(name##_U16),                                  \
      [QN_U32] = QN_BINARY_MODES(name##_U32),                                  \
      [QN_U64] = QN_BINARY_MODES(name##_U64) }

static const qn_binary_fn loops[QN_BIN_eq][QN_U64 + 1][QN_VEC_MODES] = {
    [QN_VEC2_add] = ALL(add),
    [QN_VEC2_sub] = ALL(sub),
    [QN_VEC2_mul] = ALL(mul),
    [QN_VEC2_div] = ALL(div),
    [QN_VEC2_max] = ALL(max),
    [QN_VEC2_min] = ALL(min),
    [QN_VEC2_prelu] = { [QN_I32] = QN_BINARY_MODES(prelu_I32),
                        [QN_I64] = QN_BINARY_MODES(prelu_I64),
                        [QN_U32] = QN_BINARY_MODES(prelu_U32),
                        [QN_U64] = QN_BINARY_MODES(prelu_U64) },
    [QN_BIN_mod] = ALL(mod),
    [QN_BIN_fmod] = { [QN_I8] = QN_BINARY_MODES(fmod_I8),
                      [QN_I16] = QN_BINARY_MODES(fmod_I16),
                      [QN_I32] = QN_BINARY_MODES(fmod_I32),
                      [QN_I64] = QN_BINARY_MODES(fmod_I64),
                      [QN_U8] = QN_BINARY_MODES(mod_U8),
                      [QN_U16] = QN_BINARY_MODES(mod_U16),
                      [QN_U32] = QN_BINARY_MODES(mod_U32),
                      [QN_U64] = QN_BINARY_MODES(mod_U64) },
    [QN_BIN_and] = ALL_BOOL(and),
    [QN_BIN_or] = ALL_BOOL(or),
    [QN_BIN_xor] = ALL_BOOL(xor),
    [QN_BIN_shl] = UNSIGNED_ONLY(shl),
    [QN_BIN_shr] = UNSIGNED_ONLY(shr),
};

qn_binary_fn qn_binary_loop_int(int op, qn_dtype dtype, qn_vec_mode mode)
{
    return op < QN_BIN_eq && dtype <= QN_U64 ? loops[op][dtype][mode] : NULL;
}

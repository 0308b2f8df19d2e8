/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ten types that C has, and a matrix of loops between them. Every other type is
 * one of those in memory, or becomes one on the way:
 *
 *     bool, uint4, uint2 -> uint8      int4, int2 -> int8
 *     float16, bfloat16, the 8- and 4-bit floats -> float, in stretches
 */
#include "runtime/cpu/convert.h"

#include "runtime/base/half.h"
#include "runtime/cpu/vector.h"

#include <string.h>

enum { STRETCH = 512 };

typedef void (*loop)(const void *src, void *dst, int64_t n);

/* ---- float to integer: the range is checked first, so nothing is undefined */

static inline int32_t i32_of_f32(float v)
{
    return (int32_t)(v >= -0x1p31f && v < 0x1p31f ? v : -0x1p31f);
}

static inline int32_t i32_of_f64(double v)
{
    return (int32_t)(v > -0x1.00000002p31 && v < 0x1p31 ? v : -0x1p31);
}

static inline int64_t i64_of_f32(float v)
{
    return (int64_t)(v >= -0x1p63f && v < 0x1p63f ? v : -0x1p63f);
}

static inline int64_t i64_of_f64(double v)
{
    return (int64_t)(v >= -0x1p63 && v < 0x1p63 ? v : -0x1p63);
}

static inline uint64_t u64_of_f64(double v)
{
    if (v >= 0x1p63)
        return v < 0x1p64 ? (uint64_t)v : 0;
    return (uint64_t)i64_of_f64(v);
}

static inline uint64_t u64_of_f32(float v)
{
    return u64_of_f64((double)v);
}

/* ---- the matrix ---- */

#define TYPES(X, ...)                                                          \
    X(F32, float, __VA_ARGS__)                                                 \
    X(U8, uint8_t, __VA_ARGS__)                                                \
    X(I8, int8_t, __VA_ARGS__)                                                 \
    X(U16, uint16_t, __VA_ARGS__)                                              \
    X(I16, int16_t, __VA_ARGS__)                                               \
    X(I32, int32_t, __VA_ARGS__)                                               \
    X(I64, int64_t, __VA_ARGS__)                                               \
    X(F64, double, __VA_ARGS__)                                                \
    X(U32, uint32_t, __VA_ARGS__)                                              \
    X(U64, uint64_t, __VA_ARGS__)

#define INTS(X, ...)                                                           \
    X(U8, uint8_t, __VA_ARGS__)                                                \
    X(I8, int8_t, __VA_ARGS__)                                                 \
    X(U16, uint16_t, __VA_ARGS__)                                              \
    X(I16, int16_t, __VA_ARGS__)                                               \
    X(I32, int32_t, __VA_ARGS__)                                               \
    X(I64, int64_t, __VA_ARGS__)                                               \
    X(U32, uint32_t, __VA_ARGS__)                                              \
    X(U64, uint64_t, __VA_ARGS__)

#define LOOP(name, from_t, to_t, expr)                                         \
    static void name(const void *src, void *dst, int64_t n)                    \
    {                                                                          \
        const from_t *x = src;                                                 \
        to_t *y = dst;                                                         \
        QN_INDEPENDENT                                                         \
        for (int64_t i = 0; i < n; i++) {                                      \
            from_t v = x[i];                                                   \
            y[i] = (to_t)(expr);                                               \
        }                                                                      \
    }

/* a C conversion says what is meant: any from an integer, and among floats */
#define FROM_INT(F, from_t, ...)                                               \
    LOOP(F##_to_U8, from_t, uint8_t, v)                                        \
    LOOP(F##_to_I8, from_t, int8_t, v)                                         \
    LOOP(F##_to_U16, from_t, uint16_t, v)                                      \
    LOOP(F##_to_I16, from_t, int16_t, v)                                       \
    LOOP(F##_to_I32, from_t, int32_t, v)                                       \
    LOOP(F##_to_I64, from_t, int64_t, v)                                       \
    LOOP(F##_to_U32, from_t, uint32_t, v)                                      \
    LOOP(F##_to_U64, from_t, uint64_t, v)                                      \
    LOOP(F##_to_F32, from_t, float, v)                                         \
    LOOP(F##_to_F64, from_t, double, v)
INTS(FROM_INT, 0)

#define FROM_FLOAT(F, from_t, f)                                               \
    LOOP(F##_to_U8, from_t, uint8_t, i32_of_##f(v))                            \
    LOOP(F##_to_I8, from_t, int8_t, i32_of_##f(v))                             \
    LOOP(F##_to_U16, from_t, uint16_t, i32_of_##f(v))                          \
    LOOP(F##_to_I16, from_t, int16_t, i32_of_##f(v))                           \
    LOOP(F##_to_I32, from_t, int32_t, i32_of_##f(v))                           \
    LOOP(F##_to_I64, from_t, int64_t, i64_of_##f(v))                           \
    LOOP(F##_to_U32, from_t, uint32_t, i64_of_##f(v))                          \
    LOOP(F##_to_U64, from_t, uint64_t, u64_of_##f(v))                          \
    LOOP(F##_to_F32, from_t, float, v)                                         \
    LOOP(F##_to_F64, from_t, double, v)
FROM_FLOAT(F32, float, f32)
FROM_FLOAT(F64, double, f64)

#define TO_BOOL(F, from_t, ...)                                                \
    LOOP(F##_to_bool, from_t, uint8_t, v != (from_t)0)
TYPES(TO_BOOL, 0)

/* Most int64 values are small, and no vector unit before AVX-512 converts those
 * to or from floats: a stretch that fits int32 goes that way, at a fifth of the
 * time. The result is the same. */
static bool fits_i32(const int64_t *x, int64_t n)
{
    uint64_t high = 0;
    for (int64_t i = 0; i < n; i++)
        high |= (uint64_t)x[i] + 0x80000000u;
    return high >> 32 == 0;
}

static void I64_to_F32_fast(const void *src, void *dst, int64_t n)
{
    const int64_t *x = src;
    float *y = dst;
    if (!fits_i32(x, n)) {
        I64_to_F32(src, dst, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)(int32_t)x[i];
}

static void F32_to_I64_fast(const void *src, void *dst, int64_t n)
{
    const float *x = src;
    int64_t *y = dst;
    int32_t most = 0; /* of the magnitudes' bits, which order as they do */
    for (int64_t i = 0; i < n; i++) {
        int32_t bits = (int32_t)(qn_f32_bits(x[i]) & 0x7fffffffu);
        most = bits > most ? bits : most;
    }
    if (most >= 0x4f000000) { /* 2^31 */
        F32_to_I64(src, dst, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        y[i] = (int32_t)x[i];
}

enum { CORE_TYPES = QN_U64 + 1 };

static const loop matrix[CORE_TYPES][CORE_TYPES] = {
#define TO_ALL(F, from_t, ...)                                                 \
    [QN_##F] = { [QN_F32] = F##_to_F32, [QN_U8] = F##_to_U8,                   \
                 [QN_I8] = F##_to_I8,   [QN_U16] = F##_to_U16,                 \
                 [QN_I16] = F##_to_I16, [QN_I32] = F##_to_I32,                 \
                 [QN_I64] = F##_to_I64, [QN_F64] = F##_to_F64,                 \
                 [QN_U32] = F##_to_U32, [QN_U64] = F##_to_U64 },
    TYPES(TO_ALL, 0)
#undef TO_ALL
};

static loop loop_of(qn_dtype from, qn_dtype to)
{
    if (from == QN_I64 && to == QN_F32)
        return I64_to_F32_fast;
    if (from == QN_F32 && to == QN_I64)
        return F32_to_I64_fast;
    return matrix[from][to];
}

static const loop to_bool[CORE_TYPES] = {
#define ENTRY(F, from_t, ...) [QN_##F] = F##_to_bool,
    TYPES(ENTRY, 0)
#undef ENTRY
};

/* ---- the other types ---- */

/* In which of the ten a type lies in memory, or is brought to. */
static qn_dtype core_of(qn_dtype t)
{
    switch ((int)t) {
    case QN_BOOL:
    case QN_U4:
    case QN_U2:
        return QN_U8;
    case QN_I4:
    case QN_I2:
        return QN_I8;
    case QN_F16:
    case QN_BF16:
    case QN_F8E4M3FN:
    case QN_F8E4M3FNUZ:
    case QN_F8E5M2:
    case QN_F8E5M2FNUZ:
    case QN_F4E2M1:
    case QN_F8E8M0:
        return QN_F32;
    }
    return t;
}

static bool narrow_float(qn_dtype t)
{
    return t != QN_F32 && core_of(t) == QN_F32;
}

static void decode(qn_dtype from, const void *src, float *dst, int64_t n)
{
    const qn_vec_half_table *half = QN_ISA_PICK(qn_vec_half, qn_isa_level());
    if (from == QN_F16)
        half->f16_to_f32(src, dst, n);
    else if (from == QN_BF16)
        half->bf16_to_f32(src, dst, n);
    else
        qn_small_to_f32(from, src, dst, n);
}

static void encode(const float *src, qn_dtype to, void *dst, int64_t n,
                   const qn_convert_how *how)
{
    const qn_vec_half_table *half = QN_ISA_PICK(qn_vec_half, qn_isa_level());
    if (to == QN_F16)
        half->f32_to_f16(src, dst, n);
    else if (to == QN_BF16)
        half->f32_to_bf16(src, dst, n);
    else
        qn_f32_to_small(src, to, dst, n, how);
}

/* Integers past 2^53 do not fit a double: what is lost goes into the lowest bit
 * that stays, so that the rounding that follows is the only one. */
static uint64_t sticky(uint64_t v)
{
    return v >> 53 ? (v & ~UINT64_C(0xfff)) | (v & 0xfff ? 0x800 : 0) : v;
}

/* One stretch into floats that round to a narrower type as the source would. */
static void to_odd(qn_dtype core, const void *src, float *dst, int64_t n)
{
    double wide[STRETCH];
    if (core == QN_I64) {
        const int64_t *x = src;
        for (int64_t i = 0; i < n; i++) {
            uint64_t u = x[i] < 0 ? 0 - (uint64_t)x[i] : (uint64_t)x[i];
            double d = (double)sticky(u);
            wide[i] = x[i] < 0 ? -d : d;
        }
    } else if (core == QN_U64) {
        const uint64_t *x = src;
        for (int64_t i = 0; i < n; i++)
            wide[i] = (double)sticky(x[i]);
    } else {
        matrix[core][QN_F64](src, wide, n);
    }
    for (int64_t i = 0; i < n; i++)
        dst[i] = qn_f64_to_f32_odd(wide[i]);
}

void qn_settle(qn_dtype dtype, void *data, int64_t n)
{
    uint8_t *y = data;
    unsigned bits = qn_dtype_file_bits(dtype), mask = (1u << (bits & 7)) - 1;
    /* the signed ones lie sign-extended */
    unsigned sign = dtype == QN_I4 || dtype == QN_I2 ? 1u << (bits - 1) : 0;
    if (dtype == QN_BOOL)
        for (int64_t i = 0; i < n; i++)
            y[i] = y[i] != 0;
    else if (bits < 8)
        for (int64_t i = 0; i < n; i++)
            y[i] = (uint8_t)(((y[i] & mask) ^ sign) - sign);
}

static void stretch(qn_dtype from, const void *src, qn_dtype to, void *dst,
                    int64_t n, const qn_convert_how *how)
{
    float f[STRETCH];
    qn_dtype core = core_of(from);

    if (narrow_float(from)) {
        decode(from, src, f, n);
        src = f;
    }
    if (narrow_float(to)) {
        if (core != QN_F32) {
            to_odd(core, src, f, n);
            src = f;
        }
        encode(src, to, dst, n, how);
    } else if (to == QN_BOOL) {
        to_bool[core](src, dst, n);
    } else {
        loop_of(core, core_of(to))(src, dst, n);
        if (core_of(to) != to)
            qn_settle(to, dst, n);
    }
}

void qn_convert(qn_dtype from, const void *src, qn_dtype to, void *dst,
                int64_t n, const qn_convert_how *how)
{
    static const qn_convert_how usual = { 0 };
    size_t from_size = qn_dtype_size(from), to_size = qn_dtype_size(to);
    const char *x = src;
    char *y = dst;

    if (from == to) {
        if (src != dst && n > 0)
            memcpy(dst, src, (size_t)n * from_size);
        return;
    }
    for (int64_t i = 0; i < n; i += STRETCH) {
        int64_t m = n - i < STRETCH ? n - i : STRETCH;
        stretch(from, x + (size_t)i * from_size, to, y + (size_t)i * to_size, m,
                how ? how : &usual);
    }
}

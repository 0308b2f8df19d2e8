/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unary operators of integers and booleans. Negation and absolute value wrap:
 * the most negative number stays what it is.
 */
#include "runtime/cpu/unary.h"

#include <math.h>
#include <string.h>

enum { GRAIN = 1 << 16 };

typedef void (*loop)(const void *x, void *y, int64_t n, const void *low,
                     const void *high);

#define LOOP(name, T, expr)                                                    \
    static void name(const void *x, void *y, int64_t n, const void *low,       \
                     const void *high)                                         \
    {                                                                          \
        const T *from = x;                                                     \
        T *to = y;                                                             \
        (void)low, (void)high;                                                 \
        QN_INDEPENDENT                                                         \
        for (int64_t i = 0; i < n; i++) {                                      \
            T v = from[i];                                                     \
            to[i] = (T)(expr);                                                 \
        }                                                                      \
    }
/* Same, with l and h read from the two pointers as type B. */
#define BOUNDED(name, T, B, expr)                                              \
    static void name(const void *x, void *y, int64_t n, const void *low,       \
                     const void *high)                                         \
    {                                                                          \
        const T *from = x;                                                     \
        T *to = y;                                                             \
        B l, h;                                                                \
        memcpy(&l, low, sizeof l);                                             \
        memcpy(&h, high, sizeof h);                                            \
        QN_INDEPENDENT                                                         \
        for (int64_t i = 0; i < n; i++) {                                      \
            T v = from[i];                                                     \
            to[i] = (T)(expr);                                                 \
        }                                                                      \
    }

/* Shrink by a bias that may have a fraction: towards zero, as Cast does. */
static uint64_t shifted(double v, float by)
{
    double r = v + (double)by;
    return (uint64_t)(int64_t)(r >= -0x1p63 && r < 0x1p63 ? r : -0x1p63);
}

#define SHIFT(by) (h != 0 ? shifted((double)v, by) : (uint64_t)v)

/* W: unsigned, at least as wide as int: arithmetic on it wraps. */
#define ANY(D, T)                                                              \
    LOOP(bitnot_##D, T, ~v)                                                    \
    LOOP(erf_##D, T, erf((double)v))                                           \
    BOUNDED(clip_##D, T, T, (v < l ? l : v) > h ? h : (v < l ? l : v))         \
    BOUNDED(shrink_##D, T, float,                                              \
            (double)v < -(double)l  ? SHIFT(h)                                 \
            : (double)v > (double)l ? SHIFT(-h)                                \
                                    : 0)
#define SIGNED(D, T, W)                                                        \
    ANY(D, T)                                                                  \
    LOOP(sign_##D, T, (v > 0) - (v < 0))                                       \
    LOOP(relu_##D, T, v < 0 ? 0 : v)                                           \
    LOOP(neg_##D, T, (W)0 - (W)v)                                              \
    LOOP(abs_##D, T, v < 0 ? (W)0 - (W)v : (W)v)

SIGNED(I8, int8_t, uint32_t)
SIGNED(I16, int16_t, uint32_t)
SIGNED(I32, int32_t, uint32_t)
SIGNED(I64, int64_t, uint64_t)
#define UNSIGNED(D, T)                                                         \
    ANY(D, T)                                                                  \
    LOOP(sign_##D, T, v > 0)                                                   \
    LOOP(abs_##D, T, v)

UNSIGNED(U8, uint8_t)
UNSIGNED(U16, uint16_t)
UNSIGNED(U32, uint32_t)
UNSIGNED(U64, uint64_t)
LOOP(not_BOOL, uint8_t, !v)

#define ALL(name)                                                              \
    { [QN_I8] = name##_I8,   [QN_I16] = name##_I16, [QN_I32] = name##_I32,     \
      [QN_I64] = name##_I64, [QN_U8] = name##_U8,   [QN_U16] = name##_U16,     \
      [QN_U32] = name##_U32, [QN_U64] = name##_U64 }
#define HALF(name)                                                             \
    { [QN_I8] = name##_I8, [QN_I16] = name##_I16, [QN_I32] = name##_I32,       \
      [QN_I64] = name##_I64 }

static const loop loops[QN_UNARY_COUNT][QN_U64 + 1] = {
    [QN_VEC_relu] = HALF(relu),
    [QN_VEC_neg] = HALF(neg),
    [QN_VEC_abs] = ALL(abs),
    [QN_VEC_sign] = ALL(sign),
    [QN_VEC_erf] = ALL(erf),
    [QN_VEC_clip] = ALL(clip),
    [QN_VEC_shrink] = ALL(shrink),
    [QN_INT_bitnot] = ALL(bitnot),
    [QN_INT_not] = { [QN_BOOL] = not_BOOL },
};

typedef struct job {
    loop fn;
    const char *x;
    char *y;
    size_t size;
    const void *low, *high;
} job;

static void piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const job *j = arg;
    size_t at = (size_t)begin * j->size;
    (void)thread;
    j->fn(j->x + at, j->y + at, end - begin, j->low, j->high);
}

qn_status qn_unary_int(const qn_launch *k, int op, const void *low,
                       const void *high)
{
    const qn_tensor *x = &k->in[0];
    loop fn = x->dtype <= QN_U64 ? loops[op][x->dtype] : NULL;
    job j = { fn, x->data, k->out[0].data, qn_dtype_size(x->dtype), low, high };
    if (!fn)
        return qn_launch_fail(k, QN_INTERNAL, "no loop for %s",
                              qn_dtype_name(x->dtype));
    qn_parallel(k->team, qn_count(x), GRAIN, piece, &j);
    return QN_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions of every type, element by element: the oracle of the fast float
 * loops, and what runs for the other types. One copy per element type.
 *
 * Integers: the mean is truncated; square roots and logarithms are taken in
 * double, truncated, and held inside the type (the logarithm of 0 is its lowest
 * value).
 */
#include "runtime/cpu/element.h"
#include "runtime/cpu/reduce.h"

#include <math.h>

#define LOAD_AS_IS(v) (v)
#define LOAD_F32(v)   ((double)(v))
#define LOAD_F16(v)   ((double)qn_f16_to_f32(v))
#define LOAD_BF16(v)  ((double)qn_bf16_to_f32(v))
#define STORE_F32(v)  ((float)(v))

/* Walk the folded axes of one output and fold every strip. */
#define FOLD(name, T)                                                          \
    static name##_acc name##_fold(const qn_reduce_view *r, const T *x,         \
                                  qn_reduce_kind kind, name##_acc acc,         \
                                  double shift)                                \
    {                                                                          \
        int last = r->n_folded - 1;                                            \
        int64_t n = last < 0 ? 1 : r->folded[last];                            \
        int64_t stride = last < 0 ? 0 : r->folded_stride[last];                \
        int64_t strips = n ? r->count / n : 0;                                 \
        for (int64_t s = 0; s < strips; s++)                                   \
            acc = name##_strip(                                                \
                x + qn_reduce_offset(last, r->folded, r->folded_stride, s), n, \
                stride, kind, acc, shift);                                     \
        return acc;                                                            \
    }

/* ---- floats: acc is a double ---- */

#define DEFINE_FLOAT(name, T, LOAD, STORE)                                   \
    typedef double name##_acc;                                               \
    static inline double name##_strip(const T *p, int64_t n, int64_t stride, \
                                      qn_reduce_kind kind, double acc,       \
                                      double shift)                          \
    {                                                                        \
        for (int64_t i = 0; i < n; i++) {                                    \
            const double v = LOAD(p[i * stride]);                            \
            switch (kind) {                                                  \
            case QN_REDUCE_MAX:                                              \
                acc = v > acc || v != v ? v : acc;                           \
                break;                                                       \
            case QN_REDUCE_MIN:                                              \
                acc = v < acc || v != v ? v : acc;                           \
                break;                                                       \
            case QN_REDUCE_PROD:                                             \
                acc *= v;                                                    \
                break;                                                       \
            case QN_REDUCE_L1:                                               \
                acc += fabs(v);                                              \
                break;                                                       \
            case QN_REDUCE_L2:                                               \
            case QN_REDUCE_SUM_SQUARE:                                       \
                acc += v * v;                                                \
                break;                                                       \
            case QN_REDUCE_LOG_SUM_EXP:                                      \
                acc += exp(v - shift);                                       \
                break;                                                       \
            default:                                                         \
                acc += v;                                                    \
            }                                                                \
        }                                                                    \
        return acc;                                                          \
    }                                                                        \
    FOLD(name, T)                                                            \
    static void name(const qn_reduce_view *r, int64_t begin, int64_t end)    \
    {                                                                        \
        for (int64_t o = begin; o < end; o++) {                              \
            const T *x =                                                     \
                (const T *)r->x +                                            \
                qn_reduce_offset(r->n_kept, r->kept, r->kept_stride, o);     \
            double start = r->kind == QN_REDUCE_MAX ? -INFINITY              \
                           : r->kind == QN_REDUCE_MIN                        \
                               ? INFINITY                                    \
                               : r->kind == QN_REDUCE_PROD;                  \
            double shift = 0;                                                \
            if (r->kind == QN_REDUCE_LOG_SUM_EXP) {                          \
                shift = name##_fold(r, x, QN_REDUCE_MAX, -INFINITY, 0);      \
                if (!isfinite(shift)) {                                      \
                    ((T *)r->y)[o] = STORE(shift);                           \
                    continue;                                                \
                }                                                            \
            }                                                                \
            double acc = name##_fold(r, x, r->kind, start, shift);           \
            if (r->kind == QN_REDUCE_MEAN)                                   \
                acc /= (double)r->count;                                     \
            else if (r->kind == QN_REDUCE_L2)                                \
                acc = sqrt(acc);                                             \
            else if (r->kind == QN_REDUCE_LOG_SUM)                           \
                acc = log(acc);                                              \
            else if (r->kind == QN_REDUCE_LOG_SUM_EXP)                       \
                acc = log(acc) + shift;                                      \
            ((T *)r->y)[o] = STORE(acc);                                     \
        }                                                                    \
    }

DEFINE_FLOAT(fold_f32, float, LOAD_F32, STORE_F32)
DEFINE_FLOAT(fold_f64, double, LOAD_AS_IS, LOAD_AS_IS)
DEFINE_FLOAT(fold_f16, uint16_t, LOAD_F16, qn_f64_to_f16)
DEFINE_FLOAT(fold_bf16, uint16_t, LOAD_BF16, qn_f64_to_bf16)

/* ---- integers: acc is 64 bits of the same signedness, and wraps ---- */

#define MAGNITUDE(v) ((v) < 0 ? 0 - (uint64_t)(v) : (uint64_t)(v))
#define WHOLE(v)     ((uint64_t)(v))

#define DEFINE_INT(name, T, A, ABS, LOW, HIGH)                                \
    typedef A name##_acc;                                                     \
    static inline A name##_strip(const T *p, int64_t n, int64_t stride,       \
                                 qn_reduce_kind kind, A acc, double shift)    \
    {                                                                         \
        (void)shift;                                                          \
        for (int64_t i = 0; i < n; i++) {                                     \
            const A v = p[i * stride];                                        \
            switch (kind) {                                                   \
            case QN_REDUCE_MAX:                                               \
                acc = v > acc ? v : acc;                                      \
                break;                                                        \
            case QN_REDUCE_MIN:                                               \
                acc = v < acc ? v : acc;                                      \
                break;                                                        \
            case QN_REDUCE_PROD:                                              \
                acc = (A)((uint64_t)acc * (uint64_t)v);                       \
                break;                                                        \
            case QN_REDUCE_L1:                                                \
                acc = (A)((uint64_t)acc + ABS(v));                            \
                break;                                                        \
            case QN_REDUCE_L2:                                                \
            case QN_REDUCE_SUM_SQUARE:                                        \
                acc = (A)((uint64_t)acc + (uint64_t)v * (uint64_t)v);         \
                break;                                                        \
            default:                                                          \
                acc = (A)((uint64_t)acc + (uint64_t)v);                       \
            }                                                                 \
        }                                                                     \
        return acc;                                                           \
    }                                                                         \
    FOLD(name, T)                                                             \
    static T name##_clamp(double v)                                           \
    {                                                                         \
        if (isnan(v))                                                         \
            return 0;                                                         \
        return v <= (double)(LOW)    ? (T)(LOW)                               \
               : v >= (double)(HIGH) ? (T)(HIGH)                              \
                                     : (T)v;                                  \
    }                                                                         \
    /* log(sum(exp(v - max))) + max */                                        \
    static double name##_lse(const qn_reduce_view *r, const T *x)             \
    {                                                                         \
        A max = name##_fold(r, x, QN_REDUCE_MAX, LOW, 0);                     \
        double sum = 0;                                                       \
        for (int64_t i = 0; i < r->count; i++)                                \
            sum += exp((double)x[qn_reduce_offset(r->n_folded, r->folded,     \
                                                  r->folded_stride, i)] -     \
                       (double)max);                                          \
        return r->count ? log(sum) + (double)max : -INFINITY;                 \
    }                                                                         \
    static void name(const qn_reduce_view *r, int64_t begin, int64_t end)     \
    {                                                                         \
        T *y = (T *)r->y;                                                     \
        for (int64_t o = begin; o < end; o++) {                               \
            const T *x =                                                      \
                (const T *)r->x +                                             \
                qn_reduce_offset(r->n_kept, r->kept, r->kept_stride, o);      \
            A start = r->kind == QN_REDUCE_MAX   ? (A)(LOW)                   \
                      : r->kind == QN_REDUCE_MIN ? (A)(HIGH)                  \
                                                 : r->kind == QN_REDUCE_PROD; \
            if (r->kind == QN_REDUCE_LOG_SUM_EXP) {                           \
                y[o] = name##_clamp(name##_lse(r, x));                        \
                continue;                                                     \
            }                                                                 \
            A acc = name##_fold(r, x, r->kind, start, 0);                     \
            if (r->kind == QN_REDUCE_MEAN)                                    \
                y[o] = (T)(r->count ? acc / (A)r->count : 0);                 \
            else if (r->kind == QN_REDUCE_L2)                                 \
                y[o] = name##_clamp(sqrt((double)(uint64_t)acc));             \
            else if (r->kind == QN_REDUCE_LOG_SUM)                            \
                y[o] = name##_clamp(log((double)acc));                        \
            else                                                              \
                y[o] = (T)acc;                                                \
        }                                                                     \
    }

DEFINE_INT(fold_i8, int8_t, int64_t, MAGNITUDE, INT8_MIN, INT8_MAX)
DEFINE_INT(fold_i32, int32_t, int64_t, MAGNITUDE, INT32_MIN, INT32_MAX)
DEFINE_INT(fold_i64, int64_t, int64_t, MAGNITUDE, INT64_MIN, INT64_MAX)
DEFINE_INT(fold_u8, uint8_t, uint64_t, WHOLE, 0, UINT8_MAX)
DEFINE_INT(fold_u32, uint32_t, uint64_t, WHOLE, 0, UINT32_MAX)
DEFINE_INT(fold_u64, uint64_t, uint64_t, WHOLE, 0, UINT64_MAX)
DEFINE_INT(fold_bool, uint8_t, uint64_t, WHOLE, 0, 1)

void qn_reduce_plain(const qn_reduce_view *v, int64_t begin, int64_t end)
{
    static void (*const by_type[QN_DTYPE_COUNT])(const qn_reduce_view *,
                                                 int64_t, int64_t) = {
        [QN_F32] = fold_f32,   [QN_F64] = fold_f64,   [QN_F16] = fold_f16,
        [QN_BF16] = fold_bf16, [QN_I8] = fold_i8,     [QN_I32] = fold_i32,
        [QN_I64] = fold_i64,   [QN_U8] = fold_u8,     [QN_U32] = fold_u32,
        [QN_U64] = fold_u64,   [QN_BOOL] = fold_bool,
    };
    by_type[v->dtype](v, begin, end);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pow. Stretches of both operands are brought to one type, and the result to
 * the base's:
 *
 *     integer ^ integer     exact, wraps as products do; a negative exponent
 *                           gives 1, -1 or 0, and for base 0 a fault
 *     up to binary32        powf, where the exponent fits binary32 exactly
 *     otherwise             pow
 *
 * An exponent that is one element and 2, 3, 1/2, 1, -1 or -1/2, as in norms and
 * variances, needs no call.
 */
#include "runtime/cpu/binary.h"
#include "runtime/cpu/convert.h"

#include <math.h>
#include <string.h>

enum { STRETCH = 512, GRAIN = 4096 };

typedef struct job {
    qn_bcast bcast;
    qn_dtype base, exponent, wide;
    const char *a, *b;
    char *y;
    int64_t step_a, step_b; /* within a row */
    _Atomic int64_t fault;
} job;

static uint64_t power(uint64_t base, uint64_t exponent)
{
    uint64_t r = 1;
    for (; exponent; exponent >>= 1, base *= base)
        if (exponent & 1)
            r *= base;
    return r;
}

/* False for 0 to a negative power. */
static bool power_int(int64_t base, int64_t exponent, bool is_unsigned,
                      int64_t *out)
{
    if (exponent >= 0 || is_unsigned) {
        *out = (int64_t)power((uint64_t)base, (uint64_t)exponent);
        return true;
    }
    *out = base == 1 ? 1 : base != -1 ? 0 : exponent & 1 ? -1 : 1;
    return base != 0;
}

static void row_int(void *arg, const int64_t *from, int64_t at, int64_t n)
{
    job *j = arg;
    size_t size_a = qn_dtype_size(j->base), size_b = qn_dtype_size(j->exponent);
    int64_t a[STRETCH], b[STRETCH];
    for (int64_t i = 0; i < n; i += STRETCH) {
        int64_t m = n - i < STRETCH ? n - i : STRETCH;
        qn_convert(j->base, j->a + (size_t)(from[0] + i * j->step_a) * size_a,
                   QN_I64, a, j->step_a ? m : 1, NULL);
        qn_convert(j->exponent,
                   j->b + (size_t)(from[1] + i * j->step_b) * size_b, QN_I64, b,
                   j->step_b ? m : 1, NULL);
        /* backwards: a may be its own first element only */
        for (int64_t e = m - 1; e >= 0; e--)
            if (!power_int(a[e * j->step_a], b[e * j->step_b],
                           j->exponent == QN_U64, &a[e]))
                qn_binary_note(&j->fault, at + i + e);
        qn_convert(QN_I64, a, j->base, j->y + (size_t)(at + i) * size_a, m,
                   NULL);
    }
}

/* pow(x, 1/2) is sqrt but at -0 and -infinity. */
#define ROOT(T, sqrt_fn, v)                                                    \
    ((v) == -(T)INFINITY ? (T)INFINITY : sqrt_fn((v) + (T)0))

/* One exponent for all; false if there is no short form. */
#define SHORT_FORM(T, sqrt_fn)                                                 \
    static bool short_##T(const T *x, T exponent, T *y, int64_t n)             \
    {                                                                          \
        if (exponent == (T)2) {                                                \
            for (int64_t i = 0; i < n; i++)                                    \
                y[i] = x[i] * x[i];                                            \
        } else if (exponent == (T)3) {                                         \
            for (int64_t i = 0; i < n; i++)                                    \
                y[i] = x[i] * x[i] * x[i];                                     \
        } else if (exponent == (T)0.5) {                                       \
            for (int64_t i = 0; i < n; i++)                                    \
                y[i] = ROOT(T, sqrt_fn, x[i]);                                 \
        } else if (exponent == (T)-0.5) {                                      \
            for (int64_t i = 0; i < n; i++)                                    \
                y[i] = (T)1 / ROOT(T, sqrt_fn, x[i]);                          \
        } else if (exponent == (T)1) {                                         \
            for (int64_t i = 0; i < n; i++)                                    \
                y[i] = x[i];                                                   \
        } else if (exponent == (T)-1) {                                        \
            for (int64_t i = 0; i < n; i++)                                    \
                y[i] = (T)1 / x[i];                                            \
        } else {                                                               \
            return false;                                                      \
        }                                                                      \
        return true;                                                           \
    }

#define POWER(T, pow_fn)                                                       \
    static void power_##T(const T *a, int64_t step_a, const T *b,              \
                          int64_t step_b, T *y, int64_t n)                     \
    {                                                                          \
        if (step_a && !step_b && short_##T(a, b[0], y, n))                     \
            return;                                                            \
        for (int64_t i = 0; i < n; i++)                                        \
            y[i] = pow_fn(a[i * step_a], b[i * step_b]);                       \
    }

/* `wide` is the type of both scratch arrays. */
#define ROW(T, wide)                                                           \
    static void row_##T(void *arg, const int64_t *from, int64_t at, int64_t n) \
    {                                                                          \
        job *j = arg;                                                          \
        size_t size_a = qn_dtype_size(j->base);                                \
        size_t size_b = qn_dtype_size(j->exponent);                            \
        T a[STRETCH], b[STRETCH], y[STRETCH];                                  \
        for (int64_t i = 0; i < n; i += STRETCH) {                             \
            int64_t m = n - i < STRETCH ? n - i : STRETCH;                     \
            int64_t ia = from[0] + i * j->step_a;                              \
            int64_t ib = from[1] + i * j->step_b;                              \
            qn_convert(j->base, j->a + (size_t)ia * size_a, wide, a,           \
                       j->step_a ? m : 1, NULL);                               \
            qn_convert(j->exponent, j->b + (size_t)ib * size_b, wide, b,       \
                       j->step_b ? m : 1, NULL);                               \
            power_##T(a, j->step_a, b, j->step_b, y, m);                       \
            qn_convert(wide, y, j->base, j->y + (size_t)(at + i) * size_a, m,  \
                       NULL);                                                  \
        }                                                                      \
    }

SHORT_FORM(float, sqrtf)
SHORT_FORM(double, sqrt)
POWER(float, powf)
POWER(double, pow)
ROW(float, QN_F32)
ROW(double, QN_F64)

void qn_binary_pow_f32(const float *a, int64_t step_a, const float *b,
                       int64_t step_b, float *y, int64_t n)
{
    power_float(a, step_a, b, step_b, y, n);
}

static void piece(void *arg, int64_t begin, int64_t end, int thread)
{
    job *j = arg;
    (void)thread;
    qn_bcast_walk(&j->bcast, begin, end,
                  j->wide == QN_I64   ? row_int
                  : j->wide == QN_F32 ? row_float
                                      : row_double,
                  j);
}

static qn_dtype wide_of(qn_dtype base, qn_dtype exponent)
{
    const qn_dtypes exact = QN_BIT(F32) | QN_BIT(F16) | QN_BIT(BF16) |
                            QN_BIT(I8) | QN_BIT(U8) | QN_BIT(I16) |
                            QN_BIT(U16);
    if (qn_dtypes_has(QN_TYPES_INT, base))
        return qn_dtypes_has(QN_TYPES_INT, exponent) ? QN_I64 : QN_F64;
    return base != QN_F64 && qn_dtypes_has(exact, exponent) ? QN_F32 : QN_F64;
}

qn_status qn_binary_pow(const qn_launch *k)
{
    job j = { .base = k->in[0].dtype,
              .exponent = k->in[1].dtype,
              .a = k->in[0].data,
              .b = k->in[1].data,
              .y = k->out[0].data,
              .fault = INT64_MAX };
    qn_status st = qn_binary_broadcast(k, false, &j.bcast);
    if (st != QN_OK)
        return st;
    j.wide = wide_of(j.base, j.exponent);
    j.step_b = qn_bcast_step(&j.bcast, 1);
    /* one element in all is a row too, and takes the short form like others */
    j.step_a = qn_bcast_step(&j.bcast, 0) || !j.step_b;
    qn_parallel(k->team, j.bcast.total, GRAIN, piece, &j);
    return j.fault < INT64_MAX ? qn_binary_fault(k, j.fault) : QN_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "server/cli/compare.h"

#include "runtime/base/half.h"

#include <math.h>
#include <string.h>

/* value = sign (2^(e - bias)) 1.m, subnormal at e = 0 */
static double small_float(unsigned bits, int mantissa, int bias, bool negative)
{
    unsigned e = bits >> mantissa, m = bits & ((1u << mantissa) - 1);
    double v = e ? ldexp(1 + ldexp((double)m, -mantissa), (int)e - bias)
                 : ldexp((double)m, 1 - bias - mantissa);
    return negative ? -v : v;
}

static double f8_value(qn_dtype dtype, uint8_t b)
{
    bool negative = b >> 7;
    unsigned bits = b & 127u;
    switch (dtype) {
    case QN_F8E4M3FN:
        return bits == 127 ? (double)NAN : small_float(bits, 3, 7, negative);
    case QN_F8E4M3FNUZ:
        return b == 128 ? (double)NAN : small_float(bits, 3, 8, negative);
    case QN_F8E5M2:
        if (bits >= 124)
            return bits > 124 ? (double)NAN
                              : (double)(negative ? -INFINITY : INFINITY);
        return small_float(bits, 2, 15, negative);
    case QN_F8E5M2FNUZ:
        return b == 128 ? (double)NAN : small_float(bits, 2, 16, negative);
    case QN_F8E8M0:
        return b == 255 ? (double)NAN : ldexp(1, (int)b - 127);
    default: /* QN_F4E2M1 */
        return small_float(b & 7u, 1, 1, (b >> 3) & 1);
    }
}

#define READ(type)                                                             \
    do {                                                                       \
        type v;                                                                \
        memcpy(&v, p, sizeof v);                                               \
        return (double)v;                                                      \
    } while (0)

double qn_element(const qn_tensor *t, int64_t i, int part)
{
    const char *p = (const char *)t->data + (size_t)i * qn_dtype_size(t->dtype);
    uint16_t h;
    switch (t->dtype) {
    case QN_C64:
        p += part * 4;
        READ(float);
    case QN_F32:
        READ(float);
    case QN_C128:
        p += part * 8;
        READ(double);
    case QN_F64:
        READ(double);
    case QN_F16:
        memcpy(&h, p, sizeof h);
        return (double)qn_f16_to_f32(h);
    case QN_BF16:
        memcpy(&h, p, sizeof h);
        return (double)qn_bf16_to_f32(h);
    case QN_U8:
    case QN_U4:
    case QN_U2:
    case QN_BOOL:
        READ(uint8_t);
    case QN_I8:
    case QN_I4:
    case QN_I2:
        READ(int8_t);
    case QN_U16:
        READ(uint16_t);
    case QN_I16:
        READ(int16_t);
    case QN_U32:
        READ(uint32_t);
    case QN_I32:
        READ(int32_t);
    case QN_U64:
        READ(uint64_t);
    case QN_I64:
        READ(int64_t);
    default:
        return f8_value(t->dtype, (uint8_t)*p);
    }
}

static bool close_to(double got, double want, qn_tolerance t)
{
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want);
    if (got == want)
        return true;
    return isfinite(want) && fabs(got - want) <= t.atol + t.rtol * fabs(want);
}

static bool same_string(const qn_strings *a, qn_string x, const qn_strings *b,
                        qn_string y)
{
    return x.len == y.len &&
           !memcmp(qn_string_bytes(a, x), qn_string_bytes(b, y), x.len);
}

static qn_status compare_strings(const qn_tensor *got, const qn_strings *gs,
                                 const qn_tensor *want, const qn_strings *ws,
                                 qn_error *err)
{
    const qn_string *g = got->data, *w = want->data;
    for (int64_t i = 0; i < qn_count(want); i++)
        if (!same_string(gs, g[i], ws, w[i]))
            return qn_fail(err, QN_INVALID,
                           "index %lld: \"%.*s\", expected \"%.*s\"",
                           (long long)i, (int)(g[i].len > 60 ? 60 : g[i].len),
                           qn_string_bytes(gs, g[i]),
                           (int)(w[i].len > 60 ? 60 : w[i].len),
                           qn_string_bytes(ws, w[i]));
    return QN_OK;
}

static qn_status compare_numbers(const qn_tensor *got, const qn_tensor *want,
                                 qn_tolerance tolerance, qn_error *err)
{
    int64_t n = qn_count(want), first = -1, wrong = 0;
    int parts = qn_dtypes_has(QN_TYPES_COMPLEX, want->dtype) ? 2 : 1;
    double g0 = 0, w0 = 0;
    for (int64_t i = 0; i < n; i++)
        for (int part = 0; part < parts; part++) {
            double g = qn_element(got, i, part), w = qn_element(want, i, part);
            if (close_to(g, w, tolerance))
                continue;
            if (first < 0) {
                first = i;
                g0 = g;
                w0 = w;
            }
            wrong++;
            break;
        }
    if (first < 0)
        return QN_OK;
    return qn_fail(err, QN_INVALID,
                   "index %lld: %.9g, expected %.9g (%lld of %lld differ)",
                   (long long)first, g0, w0, (long long)wrong, (long long)n);
}

/* ONNX before 1.13 wrote bfloat16 as the uint16 of the same bits, and cut the
 * lower half off where the specification rounds: equal to one unit. */
static qn_status compare_old_bfloat16(const qn_tensor *got,
                                      const qn_tensor *want, qn_error *err)
{
    const uint16_t *g = got->data, *w = want->data;
    for (int64_t i = 0; i < qn_count(got); i++) {
        bool same = g[i] == w[i] || g[i] == w[i] + 1 ||
                    (isnan(qn_bf16_to_f32(g[i])) && isnan(qn_bf16_to_f32(w[i])));
        if (!same)
            return qn_fail(err, QN_RANGE,
                           "index %lld: bits %04x, expected %04x or one more",
                           (long long)i, g[i], w[i]);
    }
    return QN_OK;
}

qn_status qn_compare(const qn_tensor *got, const qn_strings *got_strings,
                     const qn_tensor *want, const qn_strings *want_strings,
                     qn_tolerance tolerance, qn_error *err)
{
    char a[QN_SHAPE_TEXT], b[QN_SHAPE_TEXT];
    if (got->dtype == QN_BF16 && want->dtype == QN_U16 &&
        qn_shape_equal(&got->shape, &want->shape))
        return compare_old_bfloat16(got, want, err);
    if (got->dtype != want->dtype)
        return qn_fail(err, QN_TYPE, "type %s, expected %s",
                       qn_dtype_name(got->dtype), qn_dtype_name(want->dtype));
    if (!qn_shape_equal(&got->shape, &want->shape))
        return qn_fail(err, QN_SHAPE, "shape %s, expected %s",
                       qn_shape_text(&got->shape, a),
                       qn_shape_text(&want->shape, b));
    if (want->dtype == QN_STRING)
        return compare_strings(got, got_strings, want, want_strings, err);
    return compare_numbers(got, want, tolerance, err);
}

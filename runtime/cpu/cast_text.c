/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpu/cast.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- printing ---- */

/* Does the decimal `text` give `v` back once it is of type `t`? */
static bool gives_back(const char *text, double v, qn_dtype t)
{
    double d = strtod(text, NULL), back;
    char bits[8];
    if (t == QN_F32) /* straight: by way of binary64 it could round twice */
        return (double)strtof(text, NULL) == v;
    qn_convert(QN_F64, &d, t, bits, 1, NULL);
    qn_convert(t, bits, QN_F64, &back, 1, NULL);
    return back == v;
}

static size_t print_float(double v, qn_dtype t, char text[QN_CAST_TEXT])
{
    char sci[QN_CAST_TEXT], digits[QN_CAST_TEXT];
    int n = 0, exponent;

    if (v != v || isinf(v))
        return (size_t)snprintf(text, QN_CAST_TEXT, "%s",
                                v != v ? "nan" : v > 0 ? "inf" : "-inf");
    for (int precision = 0; precision <= 16; precision++) {
        snprintf(sci, sizeof sci, "%.*e", precision, fabs(v));
        if (gives_back(sci, fabs(v), t))
            break;
    }
    char *e = strchr(sci, 'e');
    exponent = atoi(e + 1);
    for (const char *p = sci; p < e; p++) /* a decimal comma would do no harm */
        if (*p >= '0' && *p <= '9')
            digits[n++] = *p;
    digits[n] = '\0';

    const char *sign = signbit(v) ? "-" : "";
    int len;
    if (v != 0 && (exponent < -4 || exponent >= 16))
        len = snprintf(text, QN_CAST_TEXT, "%s%c%s%se%+03d", sign, digits[0],
                       n > 1 ? "." : "", digits + 1, exponent);
    else if (exponent < 0)
        len = snprintf(text, QN_CAST_TEXT, "%s0.%.*s%s", sign, -exponent - 1,
                       "000", digits);
    else if (n <= exponent + 1)
        len = snprintf(text, QN_CAST_TEXT, "%s%s%.*s.0", sign, digits,
                       exponent + 1 - n, "0000000000000000");
    else
        len = snprintf(text, QN_CAST_TEXT, "%s%.*s.%s", sign, exponent + 1,
                       digits, digits + exponent + 1);
    return (size_t)len;
}

size_t qn_cast_print(qn_dtype from, const void *element,
                     char text[QN_CAST_TEXT])
{
    double d;
    int64_t i;
    uint64_t u;
    switch ((int)from) {
    case QN_BOOL:
        qn_convert(from, element, QN_I64, &i, 1, NULL);
        return (size_t)snprintf(text, QN_CAST_TEXT, i ? "True" : "False");
    case QN_U8:
    case QN_U16:
    case QN_U32:
    case QN_U64:
    case QN_U4:
    case QN_U2:
        qn_convert(from, element, QN_U64, &u, 1, NULL);
        return (size_t)snprintf(text, QN_CAST_TEXT, "%llu",
                                (unsigned long long)u);
    case QN_I8:
    case QN_I16:
    case QN_I32:
    case QN_I64:
    case QN_I4:
    case QN_I2:
        qn_convert(from, element, QN_I64, &i, 1, NULL);
        return (size_t)snprintf(text, QN_CAST_TEXT, "%lld", (long long)i);
    }
    qn_convert(from, element, QN_F64, &d, 1, NULL);
    return print_float(d, from, text);
}

/* ---- parsing ---- */

/* strtod takes more than we want (blanks, hexadecimal, "nan(1)"), hence the
 * grammar here; it also wants an end. */
enum { NUMBER_TEXT = 400 };

typedef struct number {
    char text[NUMBER_TEXT]; /* NUL-terminated */
    bool plain;             /* an optional sign and digits */
    bool word;              /* inf or nan */
} number;

static size_t span_digits(const char *s)
{
    return strspn(s, "0123456789");
}

/* What `s` is, all of it; false if no number. */
static bool scan(const char *s, size_t len, number *out)
{
    if (len == 0 || len >= sizeof out->text || memchr(s, '\0', len))
        return false;
    memcpy(out->text, s, len);
    out->text[len] = '\0';
    const char *p = out->text;
    p += *p == '+' || *p == '-';
    out->word = !strcasecmp(p, "inf") || !strcasecmp(p, "nan");
    out->plain = false;
    if (out->word)
        return true;
    size_t whole = span_digits(p), fraction = 0;
    p += whole;
    out->plain = whole > 0 && *p == '\0';
    if (*p == '.') {
        p++;
        fraction = span_digits(p);
        p += fraction;
    }
    if (whole + fraction == 0)
        return false;
    if (*p == 'e' || *p == 'E') {
        p++;
        p += *p == '+' || *p == '-';
        size_t digits = span_digits(p);
        if (digits == 0)
            return false;
        p += digits;
    }
    return *p == '\0';
}

/* Magnitude and sign of an integer; false if it does not fit 64 bits. */
static bool whole_part(const number *num, uint64_t *magnitude, bool *negative)
{
    const char *p = num->text;
    *negative = *p == '-';
    if (!num->plain) {
        double d = trunc(strtod(p, NULL));
        if (!(fabs(d) < 0x1p64))
            return false;
        *magnitude = (uint64_t)fabs(d);
        return true;
    }
    uint64_t v = 0;
    for (p += *p == '+' || *p == '-'; *p; p++)
        if (__builtin_mul_overflow(v, (uint64_t)10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
            return false;
    *magnitude = v;
    return true;
}

/* Largest magnitudes that fit; a type without sign takes no negative one. */
static uint64_t limit_of(qn_dtype to, bool negative)
{
    unsigned bits = qn_dtype_file_bits(to);
    bool is_signed = to == QN_I8 || to == QN_I16 || to == QN_I32 ||
                     to == QN_I64 || to == QN_I4 || to == QN_I2;
    if (is_signed)
        return (UINT64_C(1) << (bits - 1)) - !negative;
    return negative ? 0 : UINT64_MAX >> (64 - bits);
}

static qn_status parse_int(const number *num, qn_dtype to, void *element,
                           qn_error *err)
{
    uint64_t magnitude;
    bool negative;
    if (!whole_part(num, &magnitude, &negative) ||
        magnitude > limit_of(to, negative))
        return qn_fail(err, QN_RANGE, "\"%.60s\" does not fit %s", num->text,
                       qn_dtype_name(to));
    uint64_t bits = negative ? 0 - magnitude : magnitude;
    qn_convert(QN_U64, &bits, to, element, 1, NULL);
    return QN_OK;
}

qn_status qn_cast_parse(const char *s, size_t len, qn_dtype to, void *element,
                        const qn_convert_how *how, qn_error *err)
{
    number num;
    bool is_float = qn_dtypes_has(QN_TYPES_FLOAT | QN_TYPES_F8 |
                                      QN_BIT(F4E2M1) | QN_BIT(F8E8M0),
                                  to);
    if (to == QN_BOOL && ((len == 4 && !strncasecmp(s, "true", 4)) ||
                          (len == 5 && !strncasecmp(s, "false", 5)))) {
        *(uint8_t *)element = len == 4;
        return QN_OK;
    }
    if (!scan(s, len, &num) || (num.word && !is_float))
        return qn_fail(err, QN_INVALID, "\"%.*s\"%s is no %s",
                       (int)(len < 60 ? len : 60), s, len < 60 ? "" : "...",
                       qn_dtype_name(to));
    if (to == QN_F32) { /* straight: by way of binary64 it could round twice */
        float f = strtof(num.text, NULL);
        memcpy(element, &f, sizeof f);
        return QN_OK;
    }
    if (!is_float && to != QN_BOOL)
        return parse_int(&num, to, element, err);
    double d = strtod(num.text, NULL);
    qn_convert(QN_F64, &d, to, element, 1, how);
    return QN_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "server/codec/decode.h"

#include "runtime/base/half.h"
#include "server/codec/lex.h"
#include "server/codec/number.h"
#include "server/codec/raw.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct reader {
    const char *p, *end;
    int64_t index;
    qn_dtype dtype;
    int64_t lowest, highest; /* of an integer type */
    qn_strings *strings;     /* NULL: strings are only checked */
    qn_error *err;
} reader;

/* ---- messages ---- */

/* The element at p, cut to a readable length. */
static const char *element_text(const reader *r, char buf[64])
{
    const char *p = r->p;
    qn_lex_text text;
    size_t len = 0, room = 40;

    if (p < r->end && *p == '"' && qn_lex_string(p, r->end, &text)) {
        len = text.len + 2;
    } else {
        while (p + len < r->end && len < 48 && !strchr(",[]{}\" \n\r\t", p[len]))
            len++;
        if (!len && p < r->end)
            len = 1;
    }
    if (len > room)
        snprintf(buf, 64, "%.*s...", (int)room, p);
    else
        snprintf(buf, 64, "%.*s", (int)len, p);
    return buf;
}

static qn_status refuse(reader *r, qn_status status, const char *what)
{
    char text[64];

    element_text(r, text);
    qn_fail(r->err, status, "index %lld: %s %s%s%s", (long long)r->index,
            text[0] ? text : "nothing", what, status == QN_RANGE ? " " : "",
            status == QN_RANGE ? qn_dtype_wire(r->dtype) : "");
    qn_error_where(r->err, NULL, qn_dtype_wire(r->dtype), text);
    qn_error_index(r->err, r->index);
    return status;
}

static qn_status not_fitting(reader *r)
{
    return refuse(r, QN_RANGE, "does not fit");
}

/* The element is no number where one is wanted: say what it is. */
static qn_status no_number(reader *r)
{
    char c = r->p < r->end ? *r->p : 0;
    bool word = qn_lex_word(r->p, r->end, "true") ||
                qn_lex_word(r->p, r->end, "false") ||
                qn_lex_word(r->p, r->end, "null") || c == '"' || c == '{';

    if (word)
        return refuse(r, QN_TYPE, "is not a number");
    return refuse(r, QN_FORMAT, "is not a number");
}

/* ---- one element ---- */

static bool starts_number(const reader *r)
{
    return r->p < r->end && ((unsigned char)(*r->p - '0') <= 9 || *r->p == '-');
}

typedef enum special { NO_SPECIAL, IS_NAN, IS_INFINITE, IS_NEGATIVE } special;

/* NaN, infinities and null, bare or quoted: takes them. */
static special read_special(reader *r)
{
    static const struct {
        const char *word;
        special value;
    } words[] = {
        { "NaN", IS_NAN },
        { "Infinity", IS_INFINITE },
        { "-Infinity", IS_NEGATIVE },
        { "null", IS_NAN },
    };
    qn_lex_text text;

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const char *after = qn_lex_word(r->p, r->end, words[i].word);

        if (after) {
            r->p = after;
            return words[i].value;
        }
    }
    if (r->p < r->end && *r->p == '"') {
        const char *after = qn_lex_string(r->p, r->end, &text);

        for (size_t i = 0; after && i < 3; i++)
            if (qn_lex_equal(&text, words[i].word)) {
                r->p = after;
                return words[i].value;
            }
    }
    return NO_SPECIAL;
}

static float special_value(special s)
{
    return s == IS_NAN ? NAN : s == IS_NEGATIVE ? -INFINITY : INFINITY;
}

static qn_status read_f32(reader *r, void *out)
{
    qn_decimal d;
    const char *after = qn_decimal_read(r->p, r->end, &d);
    float v;

    if (after) {
        v = qn_decimal_f32(&d);
        if (isinf(v))
            return not_fitting(r);
        r->p = after;
    } else {
        special s = read_special(r);

        if (s == NO_SPECIAL)
            return no_number(r);
        v = special_value(s);
    }
    memcpy(out, &v, sizeof v);
    return QN_OK;
}

static qn_status read_f64(reader *r, void *out)
{
    qn_decimal d;
    const char *after = qn_decimal_read(r->p, r->end, &d);
    double v;

    if (after) {
        v = qn_decimal_f64(&d);
        if (isinf(v))
            return not_fitting(r);
        r->p = after;
    } else {
        special s = read_special(r);

        if (s == NO_SPECIAL)
            return no_number(r);
        v = (double)special_value(s);
    }
    memcpy(out, &v, sizeof v);
    return QN_OK;
}

/* Bits of NaN and infinity; -1 where the type has none. */
static int special_bits(qn_dtype dtype, special s)
{
    static const struct {
        qn_dtype dtype;
        int nan, infinite, negative;
    } table[] = {
        { QN_F16, 0x7e00, 0x7c00, 0xfc00 },
        { QN_BF16, 0x7fc0, 0x7f80, 0xff80 },
        { QN_F8E4M3FN, 0x7f, -1, -1 },
        { QN_F8E4M3FNUZ, 0x80, -1, -1 },
        { QN_F8E5M2, 0x7e, 0x7c, 0xfc },
        { QN_F8E5M2FNUZ, 0x80, -1, -1 },
        { QN_F8E8M0, 0xff, -1, -1 },
    };

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].dtype == dtype)
            return s == IS_NAN        ? table[i].nan
                   : s == IS_INFINITE ? table[i].infinite
                                      : table[i].negative;
    return -1;
}

static qn_status read_small(reader *r, void *out)
{
    qn_decimal d;
    const char *start = r->p, *after = qn_decimal_read(r->p, r->end, &d);
    uint16_t bits = 0;

    if (after) {
        if (!qn_decimal_small(&d, r->dtype, &bits))
            return not_fitting(r);
        r->p = after;
    } else {
        special s = read_special(r);
        int pattern = special_bits(r->dtype, s);

        if (s == NO_SPECIAL)
            return no_number(r);
        if (pattern < 0) {
            r->p = start;
            return not_fitting(r);
        }
        bits = (uint16_t)pattern;
    }
    memcpy(out, &bits, qn_dtype_size(r->dtype)); /* little-endian: see raw.c */
    return QN_OK;
}

static qn_status read_int(reader *r, void *out)
{
    qn_decimal d;
    const char *after = qn_decimal_read(r->p, r->end, &d);
    qn_decimal_fit fit;
    int64_t v = 0;

    if (!after)
        return qn_lex_word(r->p, r->end, "NaN") ||
                       qn_lex_word(r->p, r->end, "Infinity") ||
                       qn_lex_word(r->p, r->end, "-Infinity")
                   ? not_fitting(r)
                   : no_number(r);
    if (r->dtype == QN_U64) {
        uint64_t u = 0;

        fit = qn_decimal_u64(&d, &u);
        memcpy(out, &u, sizeof u);
    } else {
        fit = qn_decimal_i64(&d, &v);
        if (fit == QN_FITS && (v < r->lowest || v > r->highest))
            fit = QN_OUTSIDE;
        memcpy(out, &v, qn_dtype_size(r->dtype));
    }
    if (fit == QN_FRACTION)
        return refuse(r, QN_TYPE, "is not an integer");
    if (fit == QN_OUTSIDE)
        return not_fitting(r);
    r->p = after;
    return QN_OK;
}

static qn_status read_bool(reader *r, void *out)
{
    const char *after;
    unsigned char v;
    qn_decimal d;

    if ((after = qn_lex_word(r->p, r->end, "true"))) {
        v = 1;
    } else if ((after = qn_lex_word(r->p, r->end, "false"))) {
        v = 0;
    } else if ((after = qn_decimal_read(r->p, r->end, &d))) {
        int64_t i;

        if (qn_decimal_i64(&d, &i) != QN_FITS || (i != 0 && i != 1))
            return not_fitting(r);
        v = (unsigned char)i;
    } else {
        return refuse(r, starts_number(r) ? QN_FORMAT : QN_TYPE,
                      "is not true or false");
    }
    r->p = after;
    memcpy(out, &v, 1);
    return QN_OK;
}

/* Resolve escapes or base64 at the heap's end. */
static qn_status put_text(reader *r, const qn_lex_text *text, bool blob,
                          qn_string *out)
{
    qn_strings *s = r->strings;
    char *to;

    if (!blob && !text->escaped)
        return qn_string_put(s, text->body, text->len, out, r->err);
    if (!s->base[QN_STRINGS_REQUEST] || text->bytes > s->limit - s->used)
        /* for its message */
        return qn_string_put(s, text->body, text->bytes, out, r->err);
    if (!text->bytes)
        return QN_OK;
    to = s->base[QN_STRINGS_REQUEST] + s->used;
    if (blob)
        qn_lex_unblob(text, (unsigned char *)to);
    else
        qn_lex_unescape(text, to);
    *out = qn_string_at(QN_STRINGS_REQUEST, s->used, text->bytes);
    s->used += text->bytes;
    return QN_OK;
}

static qn_status read_string(reader *r, void *out)
{
    bool blob = r->p < r->end && *r->p == '{';
    qn_string to = { 0, 0 };
    qn_lex_text text;
    const char *after;
    qn_status st = QN_OK;

    if (r->p < r->end && (blob || *r->p == '"'))
        after = blob ? qn_lex_blob(r->p, r->end, &text)
                     : qn_lex_string(r->p, r->end, &text);
    else
        return refuse(r, QN_TYPE, "is not a string");
    if (!after)
        return refuse(r, QN_FORMAT, text.fault);
    if (r->strings)
        st = put_text(r, &text, blob, &to);
    r->p = after;
    memcpy(out, &to, sizeof to);
    return st;
}

/* ---- all of them ---- */

typedef qn_status (*read_fn)(reader *r, void *out);

/* How to read a type; NULL if it has no JSON form. */
static read_fn choose(reader *r)
{
    static const struct {
        qn_dtype dtype;
        int64_t lowest, highest;
    } ranges[] = {
        { QN_I2, -2, 1 },
        { QN_U2, 0, 3 },
        { QN_I4, -8, 7 },
        { QN_U4, 0, 15 },
        { QN_I8, INT8_MIN, INT8_MAX },
        { QN_U8, 0, UINT8_MAX },
        { QN_I16, INT16_MIN, INT16_MAX },
        { QN_U16, 0, UINT16_MAX },
        { QN_I32, INT32_MIN, INT32_MAX },
        { QN_U32, 0, UINT32_MAX },
        { QN_I64, INT64_MIN, INT64_MAX },
        { QN_U64, 0, 0 }, /* has its own path */
    };

    switch (r->dtype) {
    case QN_F32:
        return read_f32;
    case QN_F64:
        return read_f64;
    case QN_BOOL:
        return read_bool;
    case QN_STRING:
        return read_string;
    case QN_C64:
    case QN_C128:
        return NULL;
    default:
        break;
    }
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (ranges[i].dtype == r->dtype) {
            r->lowest = ranges[i].lowest;
            r->highest = ranges[i].highest;
            return read_int;
        }
    return qn_dtypes_has(QN_TYPES_ALL, r->dtype) ? read_small : NULL;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Past brackets, space and the one comma between two elements. The scan has
 * checked all of it but runs of plain numbers: there the commas count. */
static bool to_element(reader *r)
{
    const char *p = r->p, *end = r->end;
    int commas = 0;

    if (r->index && end - p > 1 && *p == ',' &&
        (unsigned char)(p[1] - '-') <= '9' - '-') {
        r->p = p + 1; /* as programs write it */
        return true;
    }
    for (; p < end && (*p == ',' || *p == '[' || *p == ']' || is_space(*p)); p++)
        commas += *p == ',';
    r->p = p;
    return commas == (r->index > 0) && p < end;
}

static bool at_end(reader *r)
{
    const char *p = r->p;

    while (p < r->end && (*p == ']' || *p == '[' || is_space(*p)))
        p++;
    r->p = p;
    return p == r->end;
}

static qn_status decode_json(const qn_scan_data *data, const qn_tensor *out,
                             qn_strings *strings, qn_error *err)
{
    reader r = { .p = data->text, .end = data->text + data->len,
                 .dtype = out->dtype, .strings = out->data ? strings : NULL,
                 .err = err };
    size_t step = out->data ? qn_dtype_size(out->dtype) : 0;
    char spare[16], *to = out->data ? out->data : spare;
    read_fn read = choose(&r);

    if (!read)
        return qn_fail(err, QN_UNSUPPORTED,
                       "%s tensors have no JSON form here",
                       qn_dtype_wire(out->dtype));
    for (; r.index < data->count; r.index++) {
        qn_status st;

        if (!to_element(&r))
            return refuse(&r, QN_FORMAT,
                          "is not what follows: expected one ',' and a value");
        st = read(&r, to);
        if (st != QN_OK)
            return st;
        to += step;
    }
    /* without elements every comma is between lists, and was checked */
    if (data->count && !at_end(&r))
        return refuse(&r, QN_FORMAT, "is not what follows: expected ',' or ']'");
    return QN_OK;
}

qn_status qn_decode_string_bytes(const qn_scan_data *data, qn_dtype dtype,
                                 size_t *bytes, qn_error *err)
{
    *bytes = 0;
    if (dtype != QN_STRING || !data->text)
        return QN_OK;
    if (data->raw)
        return qn_raw_strings(data->text, data->len, data->count, bytes, err);
    if (data->kinds & ~(unsigned)(QN_SCAN_STRINGS | QN_SCAN_BLOBS)) {
        qn_tensor check = { QN_STRING, data->nesting, NULL };

        return decode_json(data, &check, NULL, err); /* says which element */
    }
    *bytes = data->string_bytes;
    return QN_OK;
}

qn_status qn_decode(const qn_scan_data *data, const char *name,
                    const qn_tensor *out, qn_strings *strings, qn_error *err)
{
    char text[QN_SHAPE_TEXT];
    int64_t count = qn_count(out);
    qn_error why = { 0 };
    qn_status st;

    if (!data->text)
        st = qn_fail(&why, QN_FORMAT, "no data");
    else if (data->count != count)
        st = qn_fail(&why, QN_SHAPE, "shape %s has %lld elements, data has %lld",
                     qn_shape_text(&out->shape, text), (long long)count,
                     (long long)data->count);
    else if (out->dtype == QN_STRING && out->data && !strings && count)
        st = qn_fail(&why, QN_INTERNAL, "no heap for strings");
    else if (data->raw)
        st = qn_raw_decode(data, out, strings, &why);
    else
        st = decode_json(data, out, strings, &why);
    if (st != QN_OK && err) {
        *err = why;
        if (name) {
            qn_error_prefix(err, "input '%s'", name);
            snprintf(err->tensor, sizeof err->tensor, "%s", name);
        }
    }
    return st;
}

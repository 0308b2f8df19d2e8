/* SPDX-License-Identifier: Apache-2.0 */
#include "models/onnx/text.h"

#include <string.h>

bool qn_span_equal(qn_span a, qn_span b)
{
    return a.len == b.len && (!a.len || !memcmp(a.s, b.s, a.len));
}

bool qn_span_is(qn_span a, const char *s)
{
    return qn_span_equal(a, (qn_span){ s, strlen(s) });
}

/* Bytes of the well-formed sequence at s, 0 if there is none. */
static size_t sequence(const unsigned char *s, size_t len)
{
    /* lead byte range, length, range of the second byte */
    static const struct {
        unsigned char from, to, len, low, high;
    } rows[] = {
        { 0x00, 0x7f, 1, 0, 0 },       { 0xc2, 0xdf, 2, 0x80, 0xbf },
        { 0xe0, 0xe0, 3, 0xa0, 0xbf }, { 0xe1, 0xec, 3, 0x80, 0xbf },
        { 0xed, 0xed, 3, 0x80, 0x9f }, { 0xee, 0xef, 3, 0x80, 0xbf },
        { 0xf0, 0xf0, 4, 0x90, 0xbf }, { 0xf1, 0xf3, 4, 0x80, 0xbf },
        { 0xf4, 0xf4, 4, 0x80, 0x8f },
    };

    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        if (s[0] < rows[r].from || s[0] > rows[r].to)
            continue;
        if (len < rows[r].len)
            return 0;
        for (size_t i = 1; i < rows[r].len; i++) {
            unsigned low = i == 1 ? rows[r].low : 0x80;
            unsigned high = i == 1 ? rows[r].high : 0xbf;
            if (s[i] < low || s[i] > high)
                return 0;
        }
        return rows[r].len;
    }
    return 0;
}

bool qn_utf8_valid(const char *s, size_t len)
{
    for (size_t at = 0; at < len;) {
        size_t n = sequence((const unsigned char *)s + at, len - at);
        if (!n)
            return false;
        at += n;
    }
    return true;
}

qn_status qn_field_span(const qn_field *f, qn_span *out, qn_error *err)
{
    qn_status st = qn_field_want(f, QN_WIRE_LEN, err);

    out->s = (const char *)f->body.at;
    out->len = qn_wire_left(&f->body);
    return st;
}

qn_status qn_span_name(qn_region *region, qn_span span, const char *what,
                       const char **out, qn_error *err)
{
    *out = "";
    if (!span.len)
        return QN_OK;
    if (!qn_utf8_valid(span.s, span.len) || memchr(span.s, 0, span.len))
        return qn_fail(err, QN_FORMAT, "a name of %s is not UTF-8, or has a "
                       "NUL in it", what);
    char *copy = qn_region_strndup(region, span.s, span.len);
    if (!copy)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for a name");
    *out = copy;
    return QN_OK;
}

char *qn_span_text(qn_region *region, qn_span span)
{
    char *copy = qn_region_strndup(region, span.len ? span.s : "", span.len);

    for (size_t at = 0; copy && at < span.len;) {
        size_t n = sequence((unsigned char *)copy + at, span.len - at);
        unsigned char c = (unsigned char)copy[at];
        if (!n || (c < 32 && c != '\n' && c != '\t') || c == 127)
            copy[at] = '?';
        at += n ? n : 1;
    }
    return copy;
}

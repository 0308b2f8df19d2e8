/* SPDX-License-Identifier: Apache-2.0 */
#include "models/onnx/text.h"

#include "runtime/base/utf8.h"

#include <string.h>

bool qn_span_equal(qn_span a, qn_span b)
{
    return a.len == b.len && (!a.len || !memcmp(a.s, b.s, a.len));
}

bool qn_span_is(qn_span a, const char *s)
{
    return qn_span_equal(a, (qn_span){ s, strlen(s) });
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
        size_t n = qn_utf8_length(copy + at, copy + span.len);
        unsigned char c = (unsigned char)copy[at];
        if (!n || (c < 32 && c != '\n' && c != '\t') || c == 127)
            copy[at] = '?';
        at += n ? n : 1;
    }
    return copy;
}

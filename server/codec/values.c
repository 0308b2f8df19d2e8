/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Most bytes of a large request pass through number_list(): rows of plain
 * numbers, whose commas are counted 64 bytes at a time. Everything else takes
 * the careful way, one element after the other.
 */
#include "server/codec/values.h"

#include "server/codec/lex.h"
#include "server/codec/number.h"

#include <stdio.h>
#include <string.h>

typedef struct scanner {
    const char *p, *end, *body;
    bool strict;
    int depth;   /* lists open now */
    int deepest; /* most lists open at once: the rank */
    int leaf;    /* depth at which elements are, -1: none seen */
    int64_t counts[QN_MAX_RANK]; /* items so far of each open list */
    int64_t dims[QN_MAX_RANK];   /* items of a closed list, -1: none yet */
    qn_scan_data *out;
    qn_error *err;
} scanner;

static bool bad(scanner *s, const char *what, const char *at)
{
    qn_fail(s->err, QN_FORMAT, "byte %td: %s", at - s->body, what);
    return false;
}

/* "row 1" or "row [1, 0]": where list `depth` is, counted from outside. */
static const char *row_text(const scanner *s, int depth, bool first,
                            char buf[QN_SHAPE_TEXT])
{
    qn_shape where = { .rank = depth };

    for (int i = 0; i < depth; i++)
        where.dims[i] = first ? 0 : s->counts[i];
    if (depth == 1)
        snprintf(buf, QN_SHAPE_TEXT, "%lld", (long long)where.dims[0]);
    else
        qn_shape_text(&where, buf);
    return buf;
}

static bool mixed(scanner *s, const char *what)
{
    char row[QN_SHAPE_TEXT];

    qn_fail(s->err, QN_SHAPE, "byte %td: %s at index %s, where others are %s",
            s->p - s->body, what, row_text(s, s->depth, false, row),
            what[2] == 'l' ? "plain values" : "lists");
    return false;
}

static bool open_list(scanner *s)
{
    if (s->leaf >= 0 && s->depth >= s->leaf)
        return mixed(s, "a list");
    if (s->depth == QN_MAX_RANK) {
        qn_fail(s->err, QN_SHAPE, "byte %td: more than %d nested lists",
                s->p - s->body, QN_MAX_RANK);
        return false;
    }
    s->counts[s->depth++] = 0;
    if (s->depth > s->deepest)
        s->deepest = s->depth;
    s->p++;
    return true;
}

static bool close_list(scanner *s)
{
    int d = --s->depth;
    int64_t n = s->counts[d];

    if (s->dims[d] < 0)
        s->dims[d] = n;
    if (s->dims[d] != n) {
        char row[QN_SHAPE_TEXT], first[QN_SHAPE_TEXT], want[32], got[32];

        qn_fail(s->err, QN_SHAPE,
                "row %s has %lld elements, row %s has %lld",
                row_text(s, d, false, row), (long long)n,
                row_text(s, d, true, first), (long long)s->dims[d]);
        snprintf(want, sizeof want, "%lld", (long long)s->dims[d]);
        snprintf(got, sizeof got, "%lld", (long long)n);
        qn_error_where(s->err, NULL, want, got);
        return false;
    }
    if (d)
        s->counts[d - 1]++;
    return true;
}

static inline bool plain(unsigned char c)
{
    /* digits , - . + / and e E and space: '/' is left to the decoder */
    return (unsigned char)(c - '+') <= '9' - '+' || (c | 0x20) == 'e' ||
           c <= ' ';
}

/* Whether 64 bytes could belong to a list of numbers; counts their commas. */
static bool plain_block(const char *p, int64_t *commas)
{
    unsigned char odd = 0, n = 0;

    for (int i = 0; i < 64; i++) {
        unsigned char c = (unsigned char)p[i];

        odd |= !plain(c);
        n = (unsigned char)(n + (c == ','));
    }
    *commas += n;
    return !odd;
}

/* The rest of a list, from its first element on, if it holds nothing but
 * numbers: moves to its ']'. */
static bool number_list(scanner *s)
{
    const char *p = s->p;
    int64_t n = 1;

    while (s->end - p >= 64) {
        int64_t commas = 0;

        if (!plain_block(p, &commas))
            break;
        n += commas;
        p += 64;
    }
    for (; p < s->end && plain((unsigned char)*p); p++)
        n += *p == ',';
    if (p >= s->end || *p != ']')
        return false;
    s->counts[s->depth - 1] = n;
    s->out->count += n;
    s->out->kinds |= QN_SCAN_NUMBERS;
    s->p = p;
    return true;
}

static bool scan_word(scanner *s)
{
    static const struct {
        const char *word;
        unsigned kind;
    } words[] = {
        { "true", QN_SCAN_BOOLS },      { "false", QN_SCAN_BOOLS },
        { "null", QN_SCAN_NULLS },      { "NaN", QN_SCAN_NUMBERS },
        { "Infinity", QN_SCAN_NUMBERS }, { "-Infinity", QN_SCAN_NUMBERS },
    };

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const char *after = qn_lex_word(s->p, s->end, words[i].word);

        if (after) {
            s->out->kinds |= words[i].kind;
            s->p = after;
            return true;
        }
    }
    return bad(s, "expected a value", s->p);
}

static bool scan_text(scanner *s)
{
    bool blob = *s->p == '{';
    qn_lex_text text;
    const char *after = blob ? qn_lex_blob(s->p, s->end, &text)
                             : qn_lex_string(s->p, s->end, &text);

    if (!after)
        return bad(s, text.fault, text.at);
    s->out->kinds |= blob ? QN_SCAN_BLOBS : QN_SCAN_STRINGS;
    s->out->string_bytes += text.bytes;
    s->p = after;
    return true;
}

/* One element that is not a list. */
static bool scan_leaf(scanner *s)
{
    bool ok;
    char c = *s->p;

    if (s->leaf < 0 && s->deepest > s->depth)
        return mixed(s, "a value");
    if (s->leaf >= 0 && s->leaf != s->depth)
        return mixed(s, "a value");
    s->leaf = s->depth;
    if (c == '"' || c == '{') {
        ok = scan_text(s);
    } else if ((c >= '0' && c <= '9') ||
               (c == '-' && s->end - s->p > 1 && s->p[1] != 'I')) {
        qn_decimal d;
        const char *after = qn_decimal_read(s->p, s->end, &d);

        s->out->kinds |= QN_SCAN_NUMBERS;
        ok = after != NULL;
        if (ok)
            s->p = after;
        else
            bad(s, "not a number", s->p);
    } else {
        ok = scan_word(s);
    }
    if (!ok)
        return false;
    if (s->depth)
        s->counts[s->depth - 1]++;
    s->out->count++;
    return true;
}

/* After '[' or ',': one element or list; whether a value has ended. */
static bool scan_item(scanner *s, bool first, bool *ended)
{
    *ended = true;
    s->p = qn_lex_space(s->p, s->end);
    if (s->p >= s->end)
        return bad(s, "the text ends inside a value", s->p);
    if (*s->p == ']' && first && s->depth)
        return s->p++, close_list(s);
    if (*s->p == '[') {
        *ended = false;
        return open_list(s);
    }
    if (first && s->depth && !s->strict && s->depth == s->deepest &&
        (s->leaf < 0 || s->leaf == s->depth) &&
        (*s->p == '-' || (*s->p >= '0' && *s->p <= '9')) && number_list(s)) {
        s->leaf = s->depth;
        return true;
    }
    return scan_leaf(s);
}

static const char *scan(const char *p, const char *end, const char *body,
                        bool strict, qn_scan_data *out, qn_error *err)
{
    scanner s = { .p = p, .end = end, .body = body, .strict = strict,
                  .leaf = -1, .out = out, .err = err };
    bool first = true, ended;

    memset(out, 0, sizeof *out);
    for (int i = 0; i < QN_MAX_RANK; i++)
        s.dims[i] = -1;
    do {
        if (!scan_item(&s, first, &ended))
            return NULL;
        first = !ended;
        /* behind a value: its lists may end, or the next one comes */
        while (ended && s.depth) {
            s.p = qn_lex_space(s.p, end);
            if (s.p < end && *s.p == ',') {
                s.p++;
                break;
            }
            if (s.p >= end || *s.p != ']') {
                bad(&s, "expected ',' or ']'", s.p);
                return NULL;
            }
            s.p++;
            if (!close_list(&s))
                return NULL;
        }
    } while (s.depth);
    out->text = p;
    out->len = (size_t)(s.p - p);
    out->offset = (size_t)(p - body);
    out->nesting.rank = s.deepest;
    for (int i = 0; i < s.deepest; i++)
        out->nesting.dims[i] = s.dims[i] < 0 ? 0 : s.dims[i];
    return s.p;
}

const char *qn_values_scan(const char *p, const char *end, const char *body,
                           bool strict, qn_scan_data *out, qn_error *err)
{
    qn_error shape = { 0 };
    const char *after = scan(p, end, body, strict, out, &shape);

    /* a stray comma spoils a count too: say that rather than "irregular" */
    if (!after && !strict && shape.status == QN_SHAPE)
        after = scan(p, end, body, true, out, &shape);
    if (!after && err)
        *err = shape;
    return after;
}

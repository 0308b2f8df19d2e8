/* SPDX-License-Identifier: Apache-2.0 */
#include "server/codec/envelope.h"

#include "server/codec/lex.h"
#include "server/codec/number.h"
#include "server/codec/values.h"

#include <stdio.h>
#include <string.h>

typedef struct walk {
    const char *p, *end, *body;
    unsigned max_depth;
    uint32_t max_cuts, cap;
    qn_region *region;
    qn_envelope *out;
    char tensor[64]; /* name of the input at hand, as far as it was seen */
    qn_status status;
    qn_error *err;
} walk;

static bool bad(walk *w, const char *what, const char *at)
{
    w->status = qn_fail(w->err, QN_FORMAT, "byte %td: %s", at - w->body, what);
    return false;
}

/* Skip space; is `c` next? Take it. */
static bool take(walk *w, char c)
{
    w->p = qn_lex_space(w->p, w->end);
    if (w->p >= w->end || *w->p != c)
        return false;
    w->p++;
    return true;
}

static char peek(walk *w)
{
    w->p = qn_lex_space(w->p, w->end);
    return w->p < w->end ? *w->p : 0;
}

static bool take_string(walk *w, qn_lex_text *text)
{
    const char *after;

    w->p = qn_lex_space(w->p, w->end);
    after = qn_lex_string(w->p, w->end, text);
    if (!after)
        return bad(w, text->fault, text->at);
    w->p = after;
    return true;
}

/*
 * Past any value, `depth` lists and objects deep already. Only strings and
 * brackets matter: Jansson checks the grammar of what stays in the envelope.
 */
static bool skip_value(walk *w, unsigned depth)
{
    unsigned open = 0;

    w->p = qn_lex_space(w->p, w->end);
    while (w->p < w->end) {
        qn_lex_text text;
        char c = *w->p;

        if (c == '"') {
            if (!take_string(w, &text))
                return false;
        } else if (c == '[' || c == '{') {
            if (depth + ++open > w->max_depth) {
                w->status = qn_fail(w->err, QN_TOO_LARGE,
                                    "byte %td: nested more than %u deep",
                                    w->p - w->body, w->max_depth);
                return false;
            }
            w->p++;
        } else if (c == ']' || c == '}') {
            if (!open)
                return true; /* the end of what the value is in */
            open--;
            w->p++;
        } else if (c == ',' && !open) {
            return true;
        } else {
            w->p++;
            /* a bare word or number goes on until something ends it */
            continue;
        }
        if (!open)
            return true;
    }
    return open ? bad(w, "the text ends inside a value", w->end) : true;
}

/* ---- tensors ---- */

static bool cut_value(walk *w)
{
    qn_envelope *e = w->out;
    const char *after;

    if (e->n_cuts == w->max_cuts) {
        w->status = qn_fail(w->err, QN_TOO_LARGE, "more than %u inputs",
                            (unsigned)w->max_cuts);
        return false;
    }
    if (e->n_cuts == w->cap) {
        uint32_t cap = w->cap ? 2 * w->cap : 8;
        qn_scan_data *cuts = qn_region_alloc(w->region, cap, sizeof *cuts);

        if (!cuts) {
            w->status = qn_fail(w->err, QN_NO_MEMORY,
                                "no memory for the request");
            return false;
        }
        if (e->n_cuts)
            memcpy(cuts, e->cuts, e->n_cuts * sizeof *cuts);
        e->cuts = cuts;
        w->cap = cap;
    }
    w->p = qn_lex_space(w->p, w->end);
    after = qn_values_scan(w->p, w->end, w->body, false, &e->cuts[e->n_cuts],
                           w->err);
    if (!after) {
        w->status = w->err->status;
        if (w->tensor[0]) {
            qn_error_prefix(w->err, "input '%s'", w->tensor);
            qn_error_where(w->err, w->tensor, NULL, NULL);
        }
        return false;
    }
    w->p = after;
    e->n_cuts++;
    return true;
}

static void remember(walk *w, const qn_lex_text *text)
{
    if (text->bytes < sizeof w->tensor) {
        qn_lex_unescape(text, w->tensor);
        w->tensor[text->bytes] = 0;
    }
}

/* One item of the long form. */
static bool walk_input(walk *w)
{
    qn_lex_text key, name;

    snprintf(w->tensor, sizeof w->tensor, "#%u", (unsigned)w->out->n_cuts);
    if (!take(w, '{'))
        return bad(w, "expected an input: {\"name\": ..., ...}", w->p);
    if (take(w, '}'))
        return true;
    do {
        if (!take_string(w, &key))
            return false;
        if (!take(w, ':'))
            return bad(w, "expected ':'", w->p);
        if (qn_lex_equal(&key, "data") && peek(w) != 'n') {
            if (!cut_value(w))
                return false;
        } else if (qn_lex_equal(&key, "name") && peek(w) == '"') {
            if (!take_string(w, &name))
                return false;
            remember(w, &name);
        } else if (!skip_value(w, 3)) {
            return false;
        }
    } while (take(w, ','));
    w->tensor[0] = 0;
    return take(w, '}') || bad(w, "expected ',' or '}'", w->p);
}

static bool walk_long(walk *w)
{
    w->out->form = QN_SCAN_LONG;
    take(w, '[');
    if (take(w, ']'))
        return true;
    do {
        if (!walk_input(w))
            return false;
    } while (take(w, ','));
    return take(w, ']') || bad(w, "expected ',' or ']'", w->p);
}

static bool walk_named(walk *w)
{
    qn_lex_text key;

    w->out->form = QN_SCAN_NAMED;
    take(w, '{');
    if (take(w, '}'))
        return true;
    do {
        if (!take_string(w, &key))
            return false;
        if (!take(w, ':'))
            return bad(w, "expected ':'", w->p);
        w->tensor[0] = 0;
        remember(w, &key);
        if (!cut_value(w))
            return false;
    } while (take(w, ','));
    w->tensor[0] = 0;
    return take(w, '}') || bad(w, "expected ',' or '}'", w->p);
}

/* Whether the array at p is the long form: empty, or its first item is an
 * object that is not a blob. */
static bool is_long(const walk *w)
{
    const char *p = qn_lex_space(w->p + 1, w->end);
    qn_lex_text key;

    if (p >= w->end || *p == ']')
        return true;
    if (*p != '{')
        return false;
    p = qn_lex_space(p + 1, w->end);
    return !qn_lex_string(p, w->end, &key) || !qn_lex_equal(&key, "b64");
}

static bool walk_inputs(walk *w)
{
    char c = peek(w);

    if (c == '[' && is_long(w))
        return walk_long(w);
    if (c == '{')
        return walk_named(w);
    w->out->form = QN_SCAN_SINGLE;
    return cut_value(w);
}

static bool walk_body(walk *w, bool cut)
{
    qn_lex_text key;
    bool seen = false;

    if (!take(w, '{'))
        return bad(w, "the body is not a JSON object", w->p);
    if (!take(w, '}')) {
        do {
            if (!take_string(w, &key))
                return false;
            if (!take(w, ':'))
                return bad(w, "expected ':'", w->p);
            if (cut && qn_lex_equal(&key, "inputs")) {
                if (seen)
                    return bad(w, "\"inputs\" is given twice", key.body - 1);
                seen = true;
                if (!walk_inputs(w))
                    return false;
            } else if (!skip_value(w, 1)) {
                return false;
            }
        } while (take(w, ','));
        if (!take(w, '}'))
            return bad(w, "expected ',' or '}'", w->p);
    }
    w->p = qn_lex_space(w->p, w->end);
    return w->p == w->end || bad(w, "more text behind the object", w->p);
}

/* ---- the text that stays ---- */

static size_t placeholder(uint32_t i, char buf[QN_PRINT_MAX])
{
    return (size_t)(qn_print_u64(buf, i) - buf);
}

static qn_status write_envelope(const char *body, size_t len, size_t limit,
                                qn_region *region, qn_envelope *out,
                                qn_error *err)
{
    char number[QN_PRINT_MAX];
    size_t left = len, from = 0, at = 0;

    for (uint32_t i = 0; i < out->n_cuts; i++)
        left -= out->cuts[i].len;
    if (left > limit)
        return qn_fail(err, QN_TOO_LARGE,
                       "the request without its tensor data has %zu bytes, "
                       "the limit is %zu",
                       left, limit);
    out->text = qn_region_alloc(region, left + 10 * (size_t)out->n_cuts + 1, 1);
    if (!out->text)
        return qn_fail(err, QN_NO_MEMORY, "no memory for the request");
    for (uint32_t i = 0; i < out->n_cuts; i++) {
        const qn_scan_data *cut = &out->cuts[i];
        size_t n = placeholder(i, number);

        memcpy(out->text + at, body + from, cut->offset - from);
        at += cut->offset - from;
        memcpy(out->text + at, number, n);
        at += n;
        from = cut->offset + cut->len;
    }
    memcpy(out->text + at, body + from, len - from);
    out->len = at + len - from;
    return QN_OK;
}

size_t qn_envelope_place(const qn_envelope *envelope, size_t at)
{
    char number[QN_PRINT_MAX];
    size_t removed = 0;

    for (uint32_t i = 0; i < envelope->n_cuts; i++) {
        const qn_scan_data *cut = &envelope->cuts[i];
        size_t n = placeholder(i, number);

        if (at + removed <= cut->offset)
            break;
        removed += cut->len - n; /* wraps where a value is shorter: sums up */
    }
    return at + removed;
}

qn_status qn_envelope_read(const char *body, size_t len,
                           const qn_scan_options *options, bool cut,
                           qn_region *region, qn_envelope *out, qn_error *err)
{
    qn_error spare = { 0 };
    walk w = { .p = body, .end = body + len, .body = body,
               .max_depth = options->max_depth, .max_cuts = options->max_inputs,
               .region = region, .out = out, .status = QN_OK,
               .err = err ? err : &spare };

    memset(out, 0, sizeof *out);
    if (!walk_body(&w, cut))
        return w.status;
    return write_envelope(body, len, options->max_envelope, region, out, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "server/codec/lex.h"

#include "server/codec/json.h"

#include <stdint.h>
#include <string.h>

const char *qn_lex_word(const char *p, const char *end, const char *word)
{
    size_t len = strlen(word);

    if ((size_t)(end - p) < len || memcmp(p, word, len) != 0)
        return NULL;
    return p + len;
}

static const char *fail(qn_lex_text *out, const char *what, const char *at)
{
    out->fault = what;
    out->at = at;
    return NULL;
}

/* Four hexadecimal digits; -1 if they are not. */
static int32_t hex4(const char *p, const char *end)
{
    int32_t v = 0;

    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = p[i];

        if (c >= '0' && c <= '9')
            v = v * 16 + (c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            v = v * 16 + ((c | 0x20) - 'a' + 10);
        else
            return -1;
    }
    return v;
}

/* The escape whose backslash is at p: its code point, -1 if it is none. */
static int32_t read_escape(const char *p, const char *end, const char **after)
{
    static const char names[] = "\"\\/bfnrt";
    static const char values[] = "\"\\/\b\f\n\r\t";
    const char *found;
    int32_t high, low;

    if (end - p < 2)
        return -1;
    *after = p + 2;
    if (p[1] != 'u') {
        found = p[1] ? strchr(names, p[1]) : NULL;
        return found ? values[found - names] : -1;
    }
    *after = p + 6;
    high = hex4(p + 2, end);
    if (high < 0xd800 || high > 0xdfff)
        return high;
    if (high > 0xdbff || end - p < 12 || p[6] != '\\' || p[7] != 'u')
        return -1;
    *after = p + 12;
    low = hex4(p + 8, end);
    if (low < 0xdc00 || low > 0xdfff)
        return -1;
    return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
}

static unsigned utf8_bytes(int32_t code)
{
    return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}

static char *put_utf8(char *out, int32_t code)
{
    unsigned n = utf8_bytes(code);

    if (n == 1) {
        *out = (char)code;
        return out + 1;
    }
    for (unsigned i = n - 1; i; i--) {
        out[i] = (char)(0x80 | (code & 0x3f));
        code >>= 6;
    }
    out[0] = (char)((0xf00 >> n & 0xf0) | code);
    return out + n;
}

const char *qn_lex_string(const char *p, const char *end, qn_lex_text *out)
{
    const char *start = p;

    memset(out, 0, sizeof *out);
    if (p >= end || *p != '"')
        return fail(out, "expected a string", p);
    out->body = ++p;
    while (p < end) {
        unsigned char c = (unsigned char)*p;
        unsigned n;

        if (c == '"') {
            out->len = (size_t)(p - out->body);
            return p + 1;
        }
        if (c == '\\') {
            const char *after = p;
            int32_t code = read_escape(p, end, &after);

            if (code < 0)
                return fail(out, "not a valid escape in a string", p);
            out->escaped = true;
            out->bytes += utf8_bytes(code);
            p = after;
            continue;
        }
        if (c < 0x20)
            return fail(out, "a control character in a string", p);
        n = c < 0x80 ? 1 : qn_utf8_length(p, end);
        if (!n)
            return fail(out, "bytes that are not UTF-8", p);
        out->bytes += n;
        p += n;
    }
    return fail(out, "a string that is not closed", start);
}

void qn_lex_unescape(const qn_lex_text *text, char *out)
{
    const char *p = text->body, *end = p + text->len;

    while (p < end) {
        const char *stop = memchr(p, '\\', (size_t)(end - p));
        size_t run = (size_t)((stop ? stop : end) - p);

        memcpy(out, p, run);
        out += run;
        p += run;
        if (stop)
            out = put_utf8(out, read_escape(p, end, &p));
    }
}

bool qn_lex_equal(const qn_lex_text *text, const char *want)
{
    size_t len = strlen(want);
    char buf[64];

    if (text->bytes != len || len > sizeof buf)
        return false;
    if (!text->escaped)
        return memcmp(text->body, want, len) == 0;
    qn_lex_unescape(text, buf);
    return memcmp(buf, want, len) == 0;
}

/* ---- base64 ---- */

static int base64_value(unsigned char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Check text->body and set text->bytes. JSON may escape '/' as "\/". */
static bool measure_base64(qn_lex_text *text)
{
    const char *p = text->body, *end = p + text->len;
    size_t digits = 0, pads = 0;
    int last = 0;

    for (; p < end; p++) {
        if (*p == '\\' && end - p > 1 && p[1] == '/')
            continue;
        if (*p == '=') {
            pads++;
            continue;
        }
        int v = base64_value((unsigned char)*p);
        if (v < 0 || pads)
            return false;
        last = v;
        digits++;
    }
    if (pads > 2 || (pads && (digits + pads) % 4) || digits % 4 == 1)
        return false;
    /* the bits that fall off the end have to be zero */
    if ((digits % 4 == 2 && last & 15) || (digits % 4 == 3 && last & 3))
        return false;
    text->bytes = digits / 4 * 3 + (digits % 4 ? digits % 4 - 1 : 0);
    return true;
}

const char *qn_lex_blob(const char *p, const char *end, qn_lex_text *out)
{
    const char *start = p;

    memset(out, 0, sizeof *out);
    if (p >= end || *p != '{')
        return fail(out, "expected {\"b64\": ...}", p);
    p = qn_lex_string(qn_lex_space(p + 1, end), end, out);
    if (!p || !qn_lex_equal(out, "b64"))
        return fail(out, "an object that is not {\"b64\": ...}", start);
    p = qn_lex_space(p, end);
    if (p >= end || *p != ':')
        return fail(out, "expected ':'", p);
    p = qn_lex_string(qn_lex_space(p + 1, end), end, out);
    if (!p)
        return NULL;
    if (!measure_base64(out))
        return fail(out, "text that is not base64", out->body);
    p = qn_lex_space(p, end);
    if (p >= end || *p != '}')
        return fail(out, "expected '}' after \"b64\"", p);
    return p + 1;
}

void qn_lex_unblob(const qn_lex_text *text, unsigned char *out)
{
    const char *p = text->body, *end = p + text->len;
    uint32_t bits = 0;
    unsigned n = 0;

    for (; p < end; p++) {
        int v = base64_value((unsigned char)*p);

        if (v < 0)
            continue; /* padding, or the backslash of "\/" */
        bits = bits << 6 | (uint32_t)v;
        n += 6;
        if (n >= 8) {
            n -= 8;
            *out++ = (unsigned char)(bits >> n);
        }
    }
}

void qn_lex_base64(const unsigned char *bytes, size_t len, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqr"
                                 "stuvwxyz0123456789+/";

    for (; len; out += 4) {
        uint32_t v = (uint32_t)bytes[0] << 16;

        v |= len > 1 ? (uint32_t)bytes[1] << 8 : 0;
        v |= len > 2 ? (uint32_t)bytes[2] : 0;
        out[0] = digits[v >> 18];
        out[1] = digits[v >> 12 & 63];
        out[2] = len > 1 ? digits[v >> 6 & 63] : '=';
        out[3] = len > 2 ? digits[v & 63] : '=';
        bytes += len > 2 ? 3 : len;
        len -= len > 2 ? 3 : len;
    }
}

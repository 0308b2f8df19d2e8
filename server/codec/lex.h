/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens of JSON text that the scan and the decoder share. Nothing here reads
 * at or past `end`. */
#ifndef QN_CODEC_LEX_H
#define QN_CODEC_LEX_H

#include <stdbool.h>
#include <stddef.h>

static inline const char *qn_lex_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r'))
        p++;
    return p;
}

/* A bare word such as "null": the byte after it, NULL if p holds another. */
const char *qn_lex_word(const char *p, const char *end, const char *word);

/* The string whose opening quote is at p. On success `body` to `body + len`
 * lie between the quotes and `bytes` is the length with escapes resolved. On
 * failure `fault` says what is wrong at byte `at`. */
typedef struct qn_lex_text {
    const char *body;
    size_t len, bytes;
    bool escaped; /* has a backslash: len and bytes differ */
    const char *fault, *at;
} qn_lex_text;

/* Returns the byte after the closing quote, NULL on failure: no string, not
 * closed, a control character, bad UTF-8, an unknown escape, half of a
 * surrogate pair. */
const char *qn_lex_string(const char *p, const char *end, qn_lex_text *out);
/* Resolve the escapes of an accepted string: writes text->bytes bytes. */
void qn_lex_unescape(const qn_lex_text *text, char *out);
/* Whether an accepted string is `want`, escapes resolved. */
bool qn_lex_equal(const qn_lex_text *text, const char *want);

/* {"b64": "..."} at p: as qn_lex_string, with `bytes` the decoded length.
 * Standard alphabet; padding is optional but must be right. */
const char *qn_lex_blob(const char *p, const char *end, qn_lex_text *out);
/* Decode an accepted blob: writes text->bytes bytes. */
void qn_lex_unblob(const qn_lex_text *text, unsigned char *out);
/* Encode len bytes to (len + 2) / 3 * 4 characters. */
void qn_lex_base64(const unsigned char *bytes, size_t len, char *out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "server/codec/json.h"

#include "server/codec/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void qn_json_init(qn_json *json, qn_sink *sink)
{
    memset(json, 0, sizeof *json);
    json->sink = sink;
}

qn_status qn_json_finish(qn_json *json, qn_error *err)
{
    if (json->status == QN_OK && json->depth)
        json->status = qn_fail(&json->error, QN_INTERNAL,
                               "a JSON text with %u levels left open",
                               json->depth);
    if (json->status != QN_OK && err)
        *err = json->error;
    return json->status;
}

static void put(qn_json *json, const char *bytes, size_t len)
{
    if (json->status == QN_OK)
        json->status = qn_sink_put(json->sink, bytes, len, &json->error);
}

static void put_quoted(qn_json *json, const char *bytes, size_t len)
{
    static const char hex[] = "0123456789abcdef";
    const char *p = bytes, *end = bytes + len, *run = bytes;

    put(json, "\"", 1);
    while (p < end) {
        unsigned char c = (unsigned char)*p;
        char esc[6] = { '\\', 'u', '0', '0', 0, 0 };
        unsigned n = c < 0x80 ? 1 : qn_utf8_length(p, end);

        if (n && c >= 0x20 && c != '"' && c != '\\') {
            p += n;
            continue;
        }
        put(json, run, (size_t)(p - run));
        run = ++p;
        if (!n) {
            put(json, "\xef\xbf\xbd", 3);
            continue;
        }
        switch (c) {
        case '"':
        case '\\':
            esc[1] = (char)c;
            break;
        case '\b':
            esc[1] = 'b';
            break;
        case '\f':
            esc[1] = 'f';
            break;
        case '\n':
            esc[1] = 'n';
            break;
        case '\r':
            esc[1] = 'r';
            break;
        case '\t':
            esc[1] = 't';
            break;
        default:
            esc[4] = hex[c >> 4];
            esc[5] = hex[c & 15];
        }
        put(json, esc, esc[1] == 'u' ? 6 : 2);
    }
    put(json, run, (size_t)(p - run));
    put(json, "\"", 1);
}

/* The comma before an item, and its key. */
static void item(qn_json *json, const char *key)
{
    if (json->depth) {
        uint64_t bit = (uint64_t)1 << (json->depth - 1);

        if (json->filled & bit)
            put(json, ",", 1);
        json->filled |= bit;
    }
    if (key) {
        put_quoted(json, key, strlen(key));
        put(json, ":", 1);
    }
}

static void open_level(qn_json *json, const char *key, bool array)
{
    uint64_t bit;

    item(json, key);
    if (json->depth == QN_JSON_MAX_DEPTH) {
        if (json->status == QN_OK)
            json->status = qn_fail(&json->error, QN_INTERNAL,
                                   "a JSON text deeper than %d levels",
                                   QN_JSON_MAX_DEPTH);
        return;
    }
    bit = (uint64_t)1 << json->depth++;
    json->filled &= ~bit;
    json->arrays = array ? json->arrays | bit : json->arrays & ~bit;
    put(json, array ? "[" : "{", 1);
}

void qn_json_object(qn_json *json, const char *key)
{
    open_level(json, key, false);
}

void qn_json_array(qn_json *json, const char *key)
{
    open_level(json, key, true);
}

void qn_json_end(qn_json *json)
{
    if (!json->depth) {
        if (json->status == QN_OK)
            json->status = qn_fail(&json->error, QN_INTERNAL,
                                   "a JSON text closed once too often");
        return;
    }
    json->depth--;
    put(json, (json->arrays >> json->depth) & 1 ? "]" : "}", 1);
}

void qn_json_text(qn_json *json, const char *key, const char *bytes,
                  size_t len)
{
    item(json, key);
    put_quoted(json, bytes, len);
}

void qn_json_string(qn_json *json, const char *key, const char *value)
{
    if (value)
        qn_json_text(json, key, value, strlen(value));
    else
        qn_json_null(json, key);
}

void qn_json_format(qn_json *json, const char *key, const char *fmt, ...)
{
    char text[1024];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    qn_json_string(json, key, text);
}

void qn_json_int(qn_json *json, const char *key, int64_t value)
{
    char text[QN_PRINT_MAX];

    item(json, key);
    put(json, text, (size_t)(qn_print_i64(text, value) - text));
}

void qn_json_uint(qn_json *json, const char *key, uint64_t value)
{
    char text[QN_PRINT_MAX];

    item(json, key);
    put(json, text, (size_t)(qn_print_u64(text, value) - text));
}

void qn_json_double(qn_json *json, const char *key, double value)
{
    char text[QN_PRINT_MAX];

    if (isnan(value)) {
        qn_json_string(json, key, "NaN");
    } else if (isinf(value)) {
        qn_json_string(json, key, value > 0 ? "Infinity" : "-Infinity");
    } else {
        item(json, key);
        put(json, text, (size_t)(qn_print_f64(text, value) - text));
    }
}

void qn_json_bool(qn_json *json, const char *key, bool value)
{
    item(json, key);
    put(json, value ? "true" : "false", value ? 4 : 5);
}

void qn_json_null(qn_json *json, const char *key)
{
    item(json, key);
    put(json, "null", 4);
}

void qn_json_ints(qn_json *json, const char *key, const int64_t *values,
                  size_t n)
{
    qn_json_array(json, key);
    for (size_t i = 0; i < n; i++)
        qn_json_int(json, NULL, values[i]);
    qn_json_end(json);
}

void qn_json_raw(qn_json *json, const char *key, const char *text, size_t len)
{
    item(json, key);
    put(json, text, len);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing JSON: a sink that bytes are appended to, and a writer that puts the
 * commas. No tree is built.
 *
 *     qn_json j;
 *     qn_json_init(&j, &sink);
 *     qn_json_object(&j, NULL);
 *     qn_json_string(&j, "name", "resnet50");
 *     qn_json_array(&j, "versions");
 *     qn_json_int(&j, NULL, 1);
 *     qn_json_end(&j);
 *     qn_json_end(&j);
 *     status = qn_json_finish(&j, &err);
 *
 * `key` is the member's name inside an object, NULL inside an array and at the
 * top. The first failure is kept and later calls do nothing, so only
 * qn_json_finish() has to be checked.
 */
#ifndef QN_CODEC_JSON_H
#define QN_CODEC_JSON_H

#include "runtime/base/utf8.h"
#include "runtime/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Bytes go to data[len, cap). A full sink calls room(), which makes at least
 * `more` bytes free at data + len, by growing or by draining (then len drops);
 * NULL: the buffer is all there is, and running out is QN_TOO_LARGE.
 */
typedef struct qn_sink {
    char *data;
    size_t len, cap;
    qn_status (*room)(struct qn_sink *sink, size_t more, qn_error *err);
    void *arg;
} qn_sink;

/* A buffer of the caller. */
qn_sink qn_sink_fixed(char *data, size_t cap);
/* An empty buffer that grows on the heap; qn_free(sink.data) after use. */
qn_sink qn_sink_heap(void);
/* Make `more` bytes free at sink->data + sink->len. */
QN_NODISCARD qn_status qn_sink_room(qn_sink *sink, size_t more, qn_error *err);
QN_NODISCARD qn_status qn_sink_put(qn_sink *sink, const void *bytes,
                                   size_t len, qn_error *err);

enum { QN_JSON_MAX_DEPTH = 64 };

typedef struct qn_json {
    qn_sink *sink;
    qn_status status;
    qn_error error;
    unsigned depth;
    uint64_t arrays; /* bit per level: an array, not an object */
    uint64_t filled; /* bit per level: has an item already */
} qn_json;

void qn_json_init(qn_json *json, qn_sink *sink);
/* QN_OK if every call succeeded and all levels are closed (QN_INTERNAL). */
QN_NODISCARD qn_status qn_json_finish(qn_json *json, qn_error *err);

void qn_json_object(qn_json *json, const char *key);
void qn_json_array(qn_json *json, const char *key);
void qn_json_end(qn_json *json); /* closes the innermost of both */
/* NULL is written as null. Bytes that are not UTF-8 become U+FFFD. */
void qn_json_string(qn_json *json, const char *key, const char *value);
void qn_json_text(qn_json *json, const char *key, const char *bytes,
                  size_t len);
/* A string from a format; at most 1023 bytes. */
void qn_json_format(qn_json *json, const char *key, const char *fmt, ...)
    QN_PRINTF(3, 4);
void qn_json_int(qn_json *json, const char *key, int64_t value);
void qn_json_uint(qn_json *json, const char *key, uint64_t value);
/* Shortest text that reads back; NaN and infinities as strings. */
void qn_json_double(qn_json *json, const char *key, double value);
void qn_json_bool(qn_json *json, const char *key, bool value);
void qn_json_null(qn_json *json, const char *key);
/* [1, 3, 224, 224] */
void qn_json_ints(qn_json *json, const char *key, const int64_t *values,
                  size_t n);
/* Text that is JSON already: the caller answers for it. */
void qn_json_raw(qn_json *json, const char *key, const char *text, size_t len);

#endif

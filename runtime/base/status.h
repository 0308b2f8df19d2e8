/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status codes and the error that goes with them.
 *
 * A function that can fail returns qn_status and takes a qn_error: the status
 * says what kind of failure, the error says what was expected, what came, and
 * where. The library never prints, exits or aborts.
 */
#ifndef QN_BASE_STATUS_H
#define QN_BASE_STATUS_H

#include <stdarg.h>
#include <stdint.h>

#define QN_NODISCARD __attribute__((warn_unused_result))
#define QN_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* name, meaning */
#define QN_STATUS_LIST(X)                                                      \
    X(OK, "success")                                                           \
    X(INVALID, "an argument or attribute that makes no sense")                 \
    X(FORMAT, "bytes that do not follow their format")                         \
    X(SHAPE, "a shape or rank that does not fit")                              \
    X(TYPE, "an element type that does not fit")                               \
    X(RANGE, "a number outside its type or bounds")                            \
    X(UNSUPPORTED, "valid, but not something that Quern can do")               \
    X(TOO_LARGE, "can never fit its limit")                                    \
    X(NOT_FOUND, "no such model, version, tensor or file")                     \
    X(NOT_READY, "loading, draining or failed")                                \
    X(BUSY, "a queue is full")                                                 \
    X(NO_MEMORY, "does not fit now")                                           \
    X(CANCELLED, "the caller went away")                                       \
    X(DEADLINE, "the deadline passed")                                         \
    X(IO, "a file or socket failed")                                           \
    X(DEVICE, "a device failed")                                               \
    X(DEVICE_LOST, "a device is beyond use until the process restarts")        \
    X(INTERNAL, "a fault of Quern itself")

typedef enum qn_status {
#define QN_STATUS_ENUM(name, text) QN_##name,
    QN_STATUS_LIST(QN_STATUS_ENUM)
#undef QN_STATUS_ENUM
        QN_STATUS_COUNT
} qn_status;

/*
 * The reason of a failure. Zero-initialise it; a call that fails fills it, a
 * call that succeeds leaves it alone. `text` is one sentence for a person; the
 * other fields are for programs and may be empty.
 */
typedef struct qn_error {
    qn_status status;
    int64_t index;      /* flat element index, valid if has_index */
    int has_index;
    char tensor[128];   /* tensor name, "" if none */
    char expected[96];
    char got[96];
    char text[640];
} qn_error;

/* "SHAPE" for QN_SHAPE; "?" for a number that is no status. Static storage. */
const char *qn_status_name(qn_status status);

/* Fill `err` (may be NULL) and return `status`. Replaces what was there. */
qn_status qn_fail(qn_error *err, qn_status status, const char *fmt, ...)
    QN_PRINTF(3, 4);

/* Put "prefix: " in front of an error's text; returns err->status. */
qn_status qn_error_prefix(qn_error *err, const char *fmt, ...) QN_PRINTF(2, 3);

/* Attach details for programs; NULL strings are skipped. No-ops on NULL err. */
void qn_error_where(qn_error *err, const char *tensor, const char *expected,
                    const char *got);
void qn_error_index(qn_error *err, int64_t index);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's log sink. The library writes nowhere else. */
#ifndef QN_BASE_LOG_H
#define QN_BASE_LOG_H

#include "runtime/base/status.h"

typedef enum qn_log_level {
    QN_LOG_DEBUG,
    QN_LOG_INFO,
    QN_LOG_WARN,
    QN_LOG_ERROR
} qn_log_level;

/* `write` may be called from any thread; `text` has no newline. */
typedef struct qn_log {
    void (*write)(void *arg, qn_log_level level, const char *text);
    void *arg;
    qn_log_level level; /* what is below it is not formatted */
} qn_log;

/* A NULL log, or one without `write`, drops the line. */
void qn_logf(const qn_log *log, qn_log_level level, const char *fmt, ...)
    QN_PRINTF(3, 4);

#endif

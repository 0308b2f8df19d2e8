/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/log.h"

#include <stdio.h>

void qn_logf(const qn_log *log, qn_log_level level, const char *fmt, ...)
{
    char text[1024];
    va_list args;

    if (!log || !log->write || level < log->level)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    log->write(log->arg, level, text);
}

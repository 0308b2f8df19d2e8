/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/status.h"

#include <stdio.h>
#include <string.h>

const char *qn_status_name(qn_status status)
{
    static const char *const names[] = {
#define QN_STATUS_NAME(name, text) #name,
        QN_STATUS_LIST(QN_STATUS_NAME)
#undef QN_STATUS_NAME
    };
    return (unsigned)status < QN_STATUS_COUNT ? names[status] : "?";
}

qn_status qn_fail(qn_error *err, qn_status status, const char *fmt, ...)
{
    if (err) {
        va_list args;

        memset(err, 0, sizeof *err);
        err->status = status;
        va_start(args, fmt);
        vsnprintf(err->text, sizeof err->text, fmt, args);
        va_end(args);
    }
    return status;
}

qn_status qn_error_prefix(qn_error *err, const char *fmt, ...)
{
    char head[256];
    char tail[sizeof err->text];
    va_list args;

    if (!err)
        return QN_INTERNAL;
    va_start(args, fmt);
    vsnprintf(head, sizeof head, fmt, args);
    va_end(args);
    memcpy(tail, err->text, sizeof tail);
    int n = snprintf(err->text, sizeof err->text, "%s: ", head);
    if (n >= 0 && (size_t)n < sizeof err->text) {
        size_t room = sizeof err->text - (size_t)n - 1;
        size_t len = strnlen(tail, sizeof tail - 1);
        if (len > room)
            len = room;
        memcpy(err->text + n, tail, len);
        err->text[(size_t)n + len] = 0;
    }
    return err->status;
}

static void put(char *dst, size_t size, const char *src)
{
    if (src)
        snprintf(dst, size, "%s", src);
}

void qn_error_where(qn_error *err, const char *tensor, const char *expected,
                    const char *got)
{
    if (!err)
        return;
    put(err->tensor, sizeof err->tensor, tensor);
    put(err->expected, sizeof err->expected, expected);
    put(err->got, sizeof err->got, got);
}

void qn_error_index(qn_error *err, int64_t index)
{
    if (!err)
        return;
    err->index = index;
    err->has_index = 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What handlers say: it lies in the exchange until http.c has sent it. */
#include "server/http.h"

#include "runtime/base/alloc.h"
#include "server/codec/fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void qn_answer_header(qn_exchange *x, const char *name, const char *fmt, ...)
{
    va_list args;
    if (x->n_headers == QN_ANSWER_HEADERS)
        return;
    x->header_name[x->n_headers] = name;
    va_start(args, fmt);
    vsnprintf(x->header_value[x->n_headers], sizeof x->header_value[0], fmt,
              args);
    va_end(args);
    x->n_headers++;
}

void qn_answer_static(qn_exchange *x, unsigned status, const char *type,
                      const char *text, size_t len)
{
    x->status = status;
    x->type = type;
    x->answer = text;
    x->answer_len = len;
    x->answered = true;
}

void qn_answer_heap(qn_exchange *x, unsigned status, const char *type,
                    char *data, size_t len)
{
    x->answer_heap = data;
    qn_answer_static(x, status, type, data ? data : "", data ? len : 0);
}

void qn_answer_buffer(qn_exchange *x, unsigned status, const char *type,
                      qn_buffer *buffer)
{
    x->answer_buffer = *buffer;
    memset(buffer, 0, sizeof *buffer);
    qn_answer_static(x, status, type, x->answer_buffer.data,
                     x->answer_buffer.len);
}

void qn_answer_fault(qn_exchange *x, unsigned status, const qn_error *error)
{
    qn_sink sink = qn_sink_heap();
    qn_error ignored = { 0 };
    x->error = *error;
    if (qn_fault_write(&sink, error, &ignored) == QN_OK) {
        qn_answer_heap(x, status, "application/json", sink.data, sink.len);
        return;
    }
    static const char last[] = "{\"error\":\"out of memory\",\"code\":\"NO_MEMORY\"}";
    qn_free(sink.data);
    qn_answer_static(x, 503, "application/json", last, sizeof last - 1);
}

void qn_answer_error(qn_exchange *x, const qn_error *error)
{
    qn_answer_fault(x, qn_fault_http(error->status), error);
}

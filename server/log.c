/* SPDX-License-Identifier: Apache-2.0 */
#include "server/log.h"

#include "runtime/base/clock.h"
#include "server/codec/json.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 4096 };

/* "2026-01-31T12:00:00.123Z" */
static const char *time_text(char buf[40])
{
    struct timespec t;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &t);
    gmtime_r(&t.tv_sec, &tm);
    size_t n = strftime(buf, 40, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(buf + n, 40 - n, ".%03dZ", (int)(t.tv_nsec / 1000000));
    return buf;
}

static const char *level_text(qn_log_level level)
{
    static const char *const names[] = { "debug", "info", "warn", "error" };
    return (unsigned)level < 4 ? names[level] : "?";
}

static void start_line(qn_json *j, qn_sink *sink, qn_log_level level)
{
    char buf[40];
    qn_json_init(j, sink);
    qn_json_object(j, NULL);
    qn_json_string(j, "time", time_text(buf));
    qn_json_string(j, "level", level_text(level));
}

/* A line that does not fit is dropped: text in it is bounded, so none is. */
static void end_line(qn_json *j, qn_sink *sink)
{
    qn_error err = { 0 };
    qn_json_end(j);
    if (qn_json_finish(j, &err) != QN_OK ||
        qn_sink_put(sink, "\n", 1, &err) != QN_OK)
        return;
    ssize_t n = write(STDERR_FILENO, sink->data, sink->len);
    (void)n; /* nowhere to complain */
}

static void write_line(void *arg, qn_log_level level, const char *text)
{
    char line[LINE_MAX_BYTES];
    qn_sink sink = qn_sink_fixed(line, sizeof line);
    qn_json j;
    (void)arg;
    start_line(&j, &sink, level);
    qn_json_format(&j, "event", "%.900s", text);
    end_line(&j, &sink);
}

qn_log qn_server_log(qn_log_level level)
{
    return (qn_log){ .write = write_line, .level = level };
}

static void put_ms(qn_json *j, const char *key, uint64_t ns)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%.3f", (double)ns * 1e-6);
    if (ns && n > 0)
        qn_json_raw(j, key, text, (size_t)n);
}

void qn_log_request(const qn_log *log, const qn_exchange *x, bool sent)
{
    char line[LINE_MAX_BYTES];
    qn_sink sink = qn_sink_fixed(line, sizeof line);
    unsigned status = sent ? x->status : 499;
    /* probes and scrapes come every few seconds and say nothing */
    bool dull = status == 200 && !*x->model;
    qn_log_level level = status >= 500 && status != 503 ? QN_LOG_WARN
                         : dull                         ? QN_LOG_DEBUG
                                                        : QN_LOG_INFO;
    qn_json j;
    if (!log->write || level < log->level)
        return;
    start_line(&j, &sink, level);
    qn_json_string(&j, "id", x->id);
    if (*x->trace)
        qn_json_string(&j, "traceparent", x->trace);
    qn_json_string(&j, "route", x->route ? x->route->pattern : "-");
    if (*x->model)
        qn_json_string(&j, "model", x->model);
    if (*x->version)
        qn_json_string(&j, "version", x->version);
    qn_json_uint(&j, "status", status);
    qn_json_uint(&j, "bytes_in", x->body_len);
    qn_json_uint(&j, "bytes_out", sent ? x->answer_len : 0);
    put_ms(&j, "total_ms", qn_clock_ns() - x->started_ns);
    put_ms(&j, "read_ms", x->phases.read);
    put_ms(&j, "queue_ms", x->phases.queue);
    put_ms(&j, "decode_ms", x->phases.decode);
    put_ms(&j, "compute_ms", x->phases.compute);
    put_ms(&j, "encode_ms", x->phases.encode);
    if (x->error.status != QN_OK) {
        qn_json_string(&j, "code", qn_status_name(x->error.status));
        qn_json_string(&j, "reason", x->error.text);
    } else if (!sent) {
        qn_json_string(&j, "reason", "the client left");
    }
    end_line(&j, &sink);
}

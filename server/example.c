/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /v1/models/<id>/example: a request that works as it stands. From
 * request.json beside the model if there is one (it must be a JSON object),
 * else made up: zeros in the declared shapes, where sizes are open ones that
 * worked when the model was loaded. ?raw=true gives the
 * request alone, which is what the curl line pipes if it is too long for a
 * command line.
 */
#include "server/api.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILE = 8 << 20, MAX_MADE = 1 << 20, MAX_LINE = 6000 };

static bool read_file(const char *path, qn_sink *out)
{
    struct stat s;
    qn_error err = { 0 };
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    bool ok = fd >= 0 && !fstat(fd, &s) && S_ISREG(s.st_mode) &&
              s.st_size <= MAX_FILE;
    while (ok) {
        if (qn_sink_room(out, 65536, &err) != QN_OK)
            ok = false;
        ssize_t n = ok ? read(fd, out->data + out->len, 65536) : -1;
        if (n <= 0) {
            ok = ok && n == 0;
            break;
        }
        out->len += (size_t)n;
        ok = out->len <= MAX_FILE;
    }
    if (fd >= 0)
        close(fd);
    while (ok && out->len && isspace((unsigned char)out->data[out->len - 1]))
        out->len--;
    return ok && out->len > 1;
}

static void write_value(qn_json *j, const qn_io *io)
{
    qn_dtype dtype = io->type.dtype;
    if (dtype == QN_STRING)
        qn_json_string(j, NULL, "");
    else if (dtype == QN_BOOL)
        qn_json_bool(j, NULL, false);
    else
        qn_json_int(j, NULL, qn_open_value(io));
}

static qn_status make_up(const qn_served *served, qn_sink *sink, qn_error *err)
{
    const qn_io *io;
    qn_json j;
    uint32_t n = qn_session_inputs(served->session, &io);
    qn_json_init(&j, sink);
    qn_json_object(&j, NULL);
    qn_json_array(&j, "inputs");
    for (uint32_t i = 0; i < n; i++) {
        qn_shape shape;
        int64_t count;
        if (io[i].optional)
            continue;
        qn_open_shape(&io[i], served->open, &shape);
        if (!qn_shape_count(&shape, &count) || count > MAX_MADE)
            return qn_fail(err, QN_TOO_LARGE,
                           "input '%.80s' is too large for an example",
                           io[i].name);
        qn_json_object(&j, NULL);
        qn_json_string(&j, "name", io[i].name);
        qn_json_ints(&j, "shape", shape.dims, (size_t)shape.rank);
        qn_json_string(&j, "datatype", qn_dtype_wire(io[i].type.dtype));
        qn_json_array(&j, "data");
        for (int64_t k = 0; k < count; k++)
            write_value(&j, &io[i]);
        qn_json_end(&j);
        qn_json_end(&j);
    }
    qn_json_end(&j);
    qn_json_end(&j);
    return qn_json_finish(&j, err);
}

/* The authority the client used, if it is a harmless one. */
static const char *host(const qn_exchange *x, char buf[128])
{
    const char *h = qn_exchange_header(x, "Host");
    size_t n = h ? strlen(h) : 0;
    bool ok = n > 0 && n < 128;
    for (size_t i = 0; i < n && ok; i++)
        ok = isalnum((unsigned char)h[i]) || strchr(".-:[]_", h[i]);
    snprintf(buf, 128, "%s", ok ? h : "");
    if (!ok)
        snprintf(buf, 128, "127.0.0.1:%u", qn_http_port(x->http));
    return buf;
}

/* A line for a POSIX shell. */
static void write_curl(qn_json *j, const qn_exchange *x, const qn_sink *body)
{
    char line[MAX_LINE + 2048], authority[128];
    char path[2 * QN_ROUTE_PARAM_MAX + 16];
    const char *version = x->param[1];
    host(x, authority);
    snprintf(path, sizeof path, "%s%s%s", x->param[0],
             *version ? "/versions/" : "", version);
    bool quotes = body->len && memchr(body->data, '\'', body->len);
    bool lines = body->len && memchr(body->data, '\n', body->len);
    int n;
    if (body->len <= MAX_LINE && !quotes && !lines)
        n = snprintf(line, sizeof line,
                     "curl -s http://%s/v1/models/%s:infer -d '%.*s'",
                     authority, path, (int)body->len, body->data);
    else
        n = snprintf(line, sizeof line,
                     "curl -s 'http://%s/v1/models/%s/example?raw=true' | "
                     "curl -s http://%s/v1/models/%s:infer --data-binary @-",
                     authority, path, authority, path);
    qn_json_text(j, "curl", line, n > 0 ? (size_t)n : 0);
}

static void answer(qn_server *server, qn_exchange *x, qn_sink *body)
{
    const char *raw = qn_exchange_query(x, "raw");
    if (raw && (!strcmp(raw, "true") || !strcmp(raw, "1"))) {
        qn_answer_heap(x, 200, "application/json", body->data, body->len);
        return;
    }
    qn_sink sink = qn_sink_heap();
    qn_json j;
    qn_json_init(&j, &sink);
    qn_json_object(&j, NULL);
    qn_json_raw(&j, "request", body->data, body->len);
    write_curl(&j, x, body);
    qn_json_end(&j);
    qn_free(body->data);
    qn_api_answer_json(server, x, 200, &j, &sink);
}

void qn_handle_example(qn_exchange *x, void *arg)
{
    qn_server *server = arg;
    qn_served *served;
    qn_error err = { 0 };
    char path[600];
    if (qn_models_get(server->models, x->param[0], x->param[1], &served,
                      &err) != QN_OK) {
        qn_server_answer_error(server, x, &err);
        return;
    }
    qn_sink body = qn_sink_heap();
    snprintf(path, sizeof path, "%s/request.json", served->folder);
    if (!read_file(path, &body) || body.data[0] != '{') {
        body.len = 0;
        if (make_up(served, &body, &err) != QN_OK) {
            qn_free(body.data);
            qn_served_release(served);
            qn_server_answer_error(server, x, &err);
            return;
        }
    }
    qn_served_release(served);
    answer(server, x, &body);
}

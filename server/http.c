/* SPDX-License-Identifier: Apache-2.0 */
#include "server/http.h"

#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "server/codec/fault.h"
#include "server/listen.h"

#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* A body past the limit is read and dropped up to this much more, so that the
 * client gets to read the answer instead of a reset. */
enum { DISCARD_MAX = 64 << 20, CHUNKED_START = 64 << 10, DRAIN_TICK_MS = 20 };

/* One per socket; the exchange is used again for each request on it. */
typedef struct connection {
    struct connection *prev, *next; /* under http->lock */
    qn_exchange x;
    qn_route_match match;
    struct MHD_Connection *mhd;
    qn_buffer body;
    int fd;
    size_t received; /* of the body, also what was dropped */
    bool refused;    /* an answer is there already: drop the body */
    bool complete;   /* the last byte has come */
} connection;

struct qn_http {
    qn_http_options o;
    struct MHD_Daemon *daemon;
    uint16_t port;
    atomic_bool closing;
    atomic_size_t active; /* complete, but not yet sent */
    atomic_size_t n_connections;
    atomic_uint_fast64_t accepted, refused, requests;
    uint64_t id_base;
    pthread_mutex_t lock; /* guards the list */
    connection *first;
};

static size_t discard_limit(const qn_http *http)
{
    return http->o.max_body + (size_t)DISCARD_MAX;
}

/* ---- answers ---- */

static void release_answer(qn_exchange *x)
{
    qn_buffer_release(x->http->o.pool, &x->answer_buffer);
    qn_free(x->answer_heap);
    x->answer_heap = NULL;
}

/* Hand the answer to the library. It lies in the exchange until completed(). */
static enum MHD_Result queue_answer(connection *k)
{
    qn_exchange *x = &k->x;
    char empty[1] = "";
    union {
        const char *from;
        void *to;
    } text = { .from = x->answer_len ? x->answer : empty };
    struct MHD_Response *r = MHD_create_response_from_buffer(
        x->answer_len, text.to, MHD_RESPMEM_PERSISTENT);
    if (!r)
        return MHD_NO;
    if (x->type)
        MHD_add_response_header(r, "Content-Type", x->type);
    MHD_add_response_header(r, "X-Request-Id", x->id);
    if (*x->trace)
        MHD_add_response_header(r, "traceparent", x->trace);
    for (size_t i = 0; i < x->n_headers; i++)
        MHD_add_response_header(r, x->header_name[i], x->header_value[i]);
    if (atomic_load(&x->http->closing))
        MHD_add_response_header(r, "Connection", "close");
    enum MHD_Result ok = MHD_queue_response(k->mhd, x->status, r);
    MHD_destroy_response(r);
    return ok;
}

/* ---- a request ---- */

const char *qn_exchange_header(const qn_exchange *x, const char *name)
{
    const connection *k = x->connection;
    return MHD_lookup_connection_value(k->mhd, MHD_HEADER_KIND, name);
}

const char *qn_exchange_query(const qn_exchange *x, const char *name)
{
    const connection *k = x->connection;
    return MHD_lookup_connection_value(k->mhd, MHD_GET_ARGUMENT_KIND, name);
}

/* Keep a header that is to be echoed, if it is harmless. */
static void keep(char out[QN_REQUEST_ID_MAX], const char *value)
{
    size_t n = value ? strlen(value) : 0;
    out[0] = 0;
    if (n >= QN_REQUEST_ID_MAX)
        return;
    for (size_t i = 0; i < n; i++)
        if (value[i] < 33 || value[i] > 126)
            return;
    memcpy(out, value ? value : "", n + 1);
}

static void refuse(connection *k, unsigned status, const qn_error *err)
{
    qn_answer_fault(&k->x, status, err);
    k->refused = true;
}

/* Proxies may send the whole URL, as in "GET http://host/path". */
static const char *path_of(const char *target)
{
    if (strncasecmp(target, "http://", 7))
        return target;
    const char *slash = strchr(target + 7, '/');
    return slash ? slash : "/";
}

static void find_route(connection *k, const char *path)
{
    qn_exchange *x = &k->x;
    const qn_http_options *o = &x->http->o;
    qn_error err = { 0 };
    qn_status st = qn_route_find(o->routes, o->n_routes, x->method, path,
                                 &k->match, &err);
    x->route = k->match.route;
    for (size_t i = 0; i < QN_ROUTE_PARAMS; i++)
        x->param[i] = k->match.params[i];
    if (*k->match.allow && !x->route)
        qn_answer_header(x, "Allow", "%s", k->match.allow);
    if (st == QN_INVALID) {
        refuse(k, 405, &err);
    } else if (st != QN_OK) {
        refuse(k, st == QN_NOT_FOUND ? 404 : 400, &err);
    } else if (!x->route) {
        qn_answer_static(x, 204, NULL, "", 0);
        k->refused = true;
    }
}

static void too_long(connection *k, size_t got)
{
    qn_error err = { 0 };
    size_t limit = k->x.http->o.max_body;
    char expected[64], text[64];
    (void)!qn_fail(&err, QN_TOO_LARGE,
                   "the body has %s%zu bytes, the limit is %zu",
                   got > limit ? "" : "more than ", got, limit);
    snprintf(expected, sizeof expected, "at most %zu bytes", limit);
    snprintf(text, sizeof text, "%zu bytes", got);
    qn_error_where(&err, NULL, expected, text);
    qn_buffer_release(k->x.http->o.pool, &k->body);
    refuse(k, 413, &err);
}

static void no_room(connection *k, const qn_error *err)
{
    if (err->status == QN_NO_MEMORY)
        qn_answer_header(&k->x, "Retry-After", "1");
    qn_buffer_release(k->x.http->o.pool, &k->body);
    refuse(k, qn_fault_http(err->status), err);
}

static unsigned long long announced(const connection *k)
{
    const char *length = qn_exchange_header(&k->x, "Content-Length");
    return length ? strtoull(length, NULL, 10) : 0;
}

/* Memory for the body, before any of it is read. */
static void reserve_body(connection *k)
{
    const qn_http_options *o = &k->x.http->o;
    const char *coding = qn_exchange_header(&k->x, "Transfer-Encoding");
    unsigned long long n = announced(k);
    qn_error err = { 0 };
    if (n > o->max_body) {
        too_long(k, (size_t)n);
        return;
    }
    if (!n && !coding)
        return;
    if (!n)
        n = CHUNKED_START < o->max_body ? CHUNKED_START : o->max_body;
    if (qn_buffer_init(o->pool, QN_MEM_BODY, (size_t)n, &k->body, &err) !=
        QN_OK)
        no_room(k, &err);
}

static enum MHD_Result count_length(void *cls, enum MHD_ValueKind kind,
                                    const char *key, const char *value)
{
    unsigned *n = cls;
    (void)kind;
    (void)value;
    *n += !strcasecmp(key, "Content-Length");
    return MHD_YES;
}

/* Where the body ends cannot be told: it may last until the client closes, or
 * proxies on the way may have seen another end. */
static bool endless(connection *k)
{
    const char *coding = qn_exchange_header(&k->x, "Transfer-Encoding");
    unsigned lengths = 0, status = 0;
    qn_error err = { 0 };
    MHD_get_connection_values(k->mhd, MHD_HEADER_KIND, count_length, &lengths);
    if (coding && strcasecmp(coding, "chunked")) {
        (void)!qn_fail(&err, QN_UNSUPPORTED,
                       "Transfer-Encoding '%.40s' is not understood", coding);
        status = 415;
    } else if (lengths > 1) {
        (void)!qn_fail(&err, QN_FORMAT, "Content-Length is given twice");
        status = 400;
    }
    if (status && !k->refused)
        refuse(k, status, &err);
    return status != 0;
}

static enum MHD_Result begin(connection *k, const char *path,
                             const char *method)
{
    qn_exchange *x = &k->x;
    qn_http *http = x->http;
    uint64_t n = atomic_fetch_add(&http->requests, 1);
    memset(&k->match, 0, sizeof k->match);
    x->started_ns = qn_clock_ns();
    x->method = qn_method_parse(method);
    keep(x->id, qn_exchange_header(x, "X-Request-Id"));
    keep(x->trace, qn_exchange_header(x, "traceparent"));
    if (!*x->id)
        snprintf(x->id, sizeof x->id, "%012llx-%llu",
                 (unsigned long long)http->id_base, (unsigned long long)n);
    find_route(k, path_of(path));
    bool now = endless(k);
    if (!k->refused)
        reserve_body(k);
    /* instead of 100-continue, or of reading what is too long even to drop */
    now |= k->refused && (qn_exchange_header(x, "Expect") ||
                          announced(k) >= discard_limit(http));
    return now ? queue_answer(k) : MHD_YES;
}

static enum MHD_Result take_body(connection *k, const char *data, size_t len)
{
    const qn_http_options *o = &k->x.http->o;
    qn_error err = { 0 };
    k->received += len;
    if (!k->refused && k->received > o->max_body)
        too_long(k, k->received);
    if (!k->refused && k->received > k->body.cap) {
        size_t cap = k->body.cap * 2 > k->received ? k->body.cap * 2
                                                   : k->received;
        if (cap > o->max_body)
            cap = o->max_body;
        if (qn_buffer_grow(o->pool, &k->body, cap, &err) != QN_OK)
            no_room(k, &err);
    }
    if (k->refused)
        return k->received < discard_limit(k->x.http) ? MHD_YES : MHD_NO;
    memcpy(k->body.data + k->body.len, data, len);
    k->body.len += len;
    return MHD_YES;
}

void qn_exchange_suspend(qn_exchange *x)
{
    connection *k = x->connection;
    x->suspended = true;
    MHD_suspend_connection(k->mhd);
}

void qn_exchange_resume(qn_exchange *x)
{
    connection *k = x->connection;
    MHD_resume_connection(k->mhd);
}

/* The last byte is there. */
static void dispatch(connection *k)
{
    qn_exchange *x = &k->x;
    k->complete = true;
    atomic_fetch_add(&x->http->active, 1);
    x->read_ns = qn_clock_ns();
    x->phases.read = x->read_ns - x->started_ns;
    x->body = k->body.data ? k->body.data : "";
    x->body_len = k->body.len;
    if (!k->refused)
        x->route->handle(x, x->http->o.arg);
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *mhd,
                                  const char *path, const char *method,
                                  const char *version, const char *data,
                                  size_t *len, void **context)
{
    (void)cls;
    (void)version;
    if (!*context) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(
            mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
        connection *k = info ? info->socket_context : NULL;
        if (!k)
            return MHD_NO; /* no memory when it was accepted */
        *context = k;
        k->mhd = mhd;
        return begin(k, path, method);
    }
    connection *k = *context;
    if (*len) {
        size_t n = *len;
        *len = 0;
        return take_body(k, data, n);
    }
    if (!k->complete) {
        dispatch(k);
        /* Whether it is answered already is another thread's business now. */
        if (k->x.suspended)
            return MHD_YES;
    }
    k->x.suspended = false;
    return queue_answer(k);
}

/* Clear the exchange for the connection's next request. */
static void reset(connection *k)
{
    qn_http *http = k->x.http;
    release_answer(&k->x);
    qn_buffer_release(http->o.pool, &k->body);
    memset(&k->x, 0, sizeof k->x);
    k->x.http = http;
    k->x.connection = k;
    k->x.fd = k->fd;
    k->received = 0;
    k->refused = k->complete = false;
}

static void on_completed(void *cls, struct MHD_Connection *mhd, void **context,
                         enum MHD_RequestTerminationCode code)
{
    qn_http *http = cls;
    connection *k = *context;
    (void)mhd;
    if (!k)
        return;
    bool sent = code == MHD_REQUEST_TERMINATED_COMPLETED_OK && k->x.answered;
    bool complete = k->complete;
    if (http->o.completed)
        http->o.completed(&k->x, sent, http->o.arg);
    if (k->x.release)
        k->x.release(&k->x);
    reset(k);
    *context = NULL;
    if (complete)
        atomic_fetch_sub(&http->active, 1);
}

/* ---- connections ---- */

static enum MHD_Result on_accept(void *cls, const struct sockaddr *address,
                                 socklen_t len)
{
    qn_http *http = cls;
    size_t bytes = http->o.connection_memory + sizeof(connection);
    (void)address;
    (void)len;
    if (qn_ledger_charge(http->o.ledger, QN_MEM_CONNECTION, bytes, NULL) ==
        QN_OK)
        return MHD_YES;
    atomic_fetch_add(&http->refused, 1);
    return MHD_NO;
}

static void connected(qn_http *http, struct MHD_Connection *mhd, void **context)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    connection *k = qn_calloc(1, sizeof *k);
    atomic_fetch_add(&http->accepted, 1);
    atomic_fetch_add(&http->n_connections, 1);
    *context = k;
    if (!k)
        return;
    k->x.http = http;
    k->x.connection = k;
    k->x.fd = k->fd = info ? info->connect_fd : -1;
    pthread_mutex_lock(&http->lock);
    k->next = http->first;
    if (k->next)
        k->next->prev = k;
    http->first = k;
    pthread_mutex_unlock(&http->lock);
}

static void disconnected(qn_http *http, connection *k)
{
    if (k) {
        pthread_mutex_lock(&http->lock);
        if (k->prev)
            k->prev->next = k->next;
        else
            http->first = k->next;
        if (k->next)
            k->next->prev = k->prev;
        pthread_mutex_unlock(&http->lock);
        qn_free(k);
    }
    atomic_fetch_sub(&http->n_connections, 1);
    qn_ledger_give_back(http->o.ledger, QN_MEM_CONNECTION,
                        http->o.connection_memory + sizeof(connection));
}

static void on_connection(void *cls, struct MHD_Connection *mhd,
                          void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    qn_http *http = cls;
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        connected(http, mhd, context);
    else
        disconnected(http, *context);
}

/* ---- the listener ---- */

/* Percent escapes are ours: an id may hold %2F. */
static size_t leave_escapes(void *cls, struct MHD_Connection *mhd, char *text)
{
    (void)cls;
    (void)mhd;
    return strlen(text);
}

__attribute__((format(printf, 2, 0))) static void
on_log(void *cls, const char *fmt, va_list args)
{
    qn_http *http = cls;
    char text[256];
    vsnprintf(text, sizeof text, fmt, args);
    text[strcspn(text, "\n")] = 0;
    if (http->o.log)
        http->o.log(http->o.arg, text);
}

qn_status qn_http_start(const qn_http_options *options, qn_http **out,
                        qn_error *err)
{
    int fd = -1;
    *out = NULL;
    qn_http *http = qn_calloc(1, sizeof *http);
    if (!http)
        return qn_fail(err, QN_NO_MEMORY, "out of memory");
    http->o = *options;
    http->id_base = qn_clock_ns() & 0xffffffffffffu;
    pthread_mutex_init(&http->lock, NULL);
    qn_status st =
        qn_listen(options->host, options->port, &fd, &http->port, err);
    if (st != QN_OK)
        goto fail;
    struct MHD_OptionItem more[] = {
        { MHD_OPTION_END, 0, NULL }, { MHD_OPTION_END, 0, NULL }
    };
    if (options->threads > 1)
        more[0] = (struct MHD_OptionItem){ MHD_OPTION_THREAD_POOL_SIZE,
                                           (intptr_t)options->threads, NULL };
    *out = http; /* its threads find it there */
    http->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
            MHD_USE_ITC | MHD_USE_ERROR_LOG,
        0, on_accept, http, on_request, http, MHD_OPTION_EXTERNAL_LOGGER,
        on_log, http, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, options->connection_memory,
        MHD_OPTION_CONNECTION_LIMIT, options->max_connections,
        MHD_OPTION_CONNECTION_TIMEOUT, options->idle_timeout_s,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, http,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, http,
        MHD_OPTION_UNESCAPE_CALLBACK, leave_escapes, NULL,
        MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_ARRAY, more,
        MHD_OPTION_END);
    if (!http->daemon) {
        close(fd);
        st = qn_fail(err, QN_IO, "the listener could not start");
        goto fail;
    }
    return QN_OK;
fail:
    *out = NULL;
    pthread_mutex_destroy(&http->lock);
    qn_free(http);
    return st;
}

uint16_t qn_http_port(const qn_http *http)
{
    return http->port;
}

void qn_http_close_connections(qn_http *http)
{
    atomic_store(&http->closing, true);
}

/* What the system had accepted before the listener closed is ours to serve. */
static void take_backlog(qn_http *http, int listener)
{
    for (;;) {
        struct sockaddr_storage address;
        socklen_t len = sizeof address;
        int fd = accept4(listener, (struct sockaddr *)&address, &len,
                         SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        if (MHD_add_connection(http->daemon, fd, (struct sockaddr *)&address,
                               len) != MHD_YES)
            atomic_fetch_add(&http->refused, 1);
    }
}

/* Nobody is being answered, and no socket holds bytes that are unread. */
static bool quiet(qn_http *http)
{
    bool still = atomic_load(&http->active) == 0;
    pthread_mutex_lock(&http->lock);
    for (const connection *k = http->first; k && still; k = k->next) {
        int pending = 0;
        if (!ioctl(k->fd, FIONREAD, &pending) && pending > 0)
            still = false;
    }
    pthread_mutex_unlock(&http->lock);
    return still;
}

bool qn_http_drain(qn_http *http, uint64_t deadline_ns)
{
    const struct timespec tick = { .tv_nsec = DRAIN_TICK_MS * 1000000 };
    int calm = 0;
    qn_http_close_connections(http);
    int listener = MHD_quiesce_daemon(http->daemon);
    if (listener >= 0) {
        take_backlog(http, listener);
        close(listener);
    }
    /* Bytes may have left a socket and not reached their handler yet: only
     * several calm looks in a row count. */
    while (calm < 4 && qn_clock_ns() < deadline_ns) {
        calm = quiet(http) ? calm + 1 : 0;
        nanosleep(&tick, NULL);
    }
    return calm == 4;
}

void qn_http_stop(qn_http *http)
{
    if (!http)
        return;
    MHD_stop_daemon(http->daemon);
    pthread_mutex_destroy(&http->lock);
    qn_free(http);
}

void qn_http_read(qn_http *http, qn_http_state *out)
{
    *out = (qn_http_state){ .connections = atomic_load(&http->n_connections),
                            .active = atomic_load(&http->active),
                            .accepted = atomic_load(&http->accepted),
                            .refused = atomic_load(&http->refused),
                            .requests = atomic_load(&http->requests) };
}

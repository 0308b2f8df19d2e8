/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP face. http.c is the only file that knows libmicrohttpd.
 *
 * A request is an exchange. Its handler runs on an HTTP thread when the whole
 * body has come, and either answers, or suspends the exchange, and any thread
 * answers and resumes it later, once.
 *
 *     socket -> headers: route, limits, body memory charged
 *            -> body into a pooled buffer (or discarded, if refused already)
 *            -> handler -> qn_answer_* [-> suspend ... qn_answer_*, resume]
 *            -> sent -> completed(): log, metrics
 */
#ifndef QN_SERVER_HTTP_H
#define QN_SERVER_HTTP_H

#include "server/buffer.h"
#include "server/routes.h"

#include <stdatomic.h>

typedef struct qn_http qn_http;

enum { QN_REQUEST_ID_MAX = 128, QN_ANSWER_HEADERS = 4 };

/* Nanoseconds; 0 where a phase did not happen. */
typedef struct qn_phases {
    uint64_t read, queue, decode, compute, encode;
} qn_phases;

typedef struct qn_exchange {
    /* the request */
    qn_http *http;
    const qn_route *route;
    qn_method method;
    const char *param[QN_ROUTE_PARAMS];
    const char *body; /* not NUL-terminated */
    size_t body_len;
    char id[QN_REQUEST_ID_MAX]; /* X-Request-Id, or made up */
    char trace[QN_REQUEST_ID_MAX]; /* traceparent, "" if absent */
    uint64_t started_ns, read_ns; /* first header, last byte */
    int fd;

    /* the answer: by qn_answer_* */
    unsigned status;
    const char *type;
    const char *answer;
    size_t answer_len;
    qn_buffer answer_buffer; /* where it is pooled */
    char *answer_heap;       /* where it is on the heap */
    const char *header_name[QN_ANSWER_HEADERS];
    char header_value[QN_ANSWER_HEADERS][160];
    size_t n_headers;
    qn_error error; /* of an answer that is an error */

    /* for the log and the metrics */
    char model[128], version[32];
    void *metrics; /* of the model, owned by the server */
    qn_phases phases;

    /* of the handler */
    void *user;
    void (*release)(struct qn_exchange *x); /* called when all is sent; NULL:
                                               nothing to release */
    /* private */
    void *connection;
    bool suspended, answered;
} qn_exchange;

typedef struct qn_http_options {
    const char *host;
    uint16_t port; /* 0: any */
    unsigned threads;
    size_t connection_memory;
    unsigned max_connections;
    unsigned idle_timeout_s;
    size_t max_body;
    qn_pool *pool;
    qn_ledger *ledger;
    const qn_route *routes;
    size_t n_routes;
    void *arg; /* for handlers and completed() */
    /* The answer is sent, or the client is gone (`sent` false). */
    void (*completed)(qn_exchange *x, bool sent, void *arg);
    void (*log)(void *arg, const char *text); /* listener's own trouble */
} qn_http_options;

/* QN_IO: cannot listen (address in use ...), QN_INVALID: no such address. */
QN_NODISCARD qn_status qn_http_start(const qn_http_options *options,
                                     qn_http **out, qn_error *err);
uint16_t qn_http_port(const qn_http *http);

/* From now on answers close their connections. Thread-safe. */
void qn_http_close_connections(qn_http *http);
/*
 * Take no more connections, but those that the system has accepted already;
 * wait until every request whose last byte has come is answered, or until
 * `deadline_ns`. True: all are. Call once, from one thread.
 */
bool qn_http_drain(qn_http *http, uint64_t deadline_ns);
/* No exchange may be suspended. */
void qn_http_stop(qn_http *http);

typedef struct qn_http_state {
    size_t connections, active; /* active: being answered */
    uint64_t accepted, refused, requests;
} qn_http_state;
void qn_http_read(qn_http *http, qn_http_state *out);

/* ---- for handlers ---- */

/* A header or query parameter of the request, NULL if absent. HTTP thread,
 * before the exchange is suspended. */
const char *qn_exchange_header(const qn_exchange *x, const char *name);
const char *qn_exchange_query(const qn_exchange *x, const char *name);

/* Before anything that may lead to qn_exchange_resume() on another thread. */
void qn_exchange_suspend(qn_exchange *x);
/* After one qn_answer_*; the exchange belongs to an HTTP thread again. */
void qn_exchange_resume(qn_exchange *x);

/* Extra header of the answer, at most QN_ANSWER_HEADERS. `name` is static. */
void qn_answer_header(qn_exchange *x, const char *name, const char *fmt, ...)
    QN_PRINTF(3, 4);
/* Text that outlives the exchange. */
void qn_answer_static(qn_exchange *x, unsigned status, const char *type,
                      const char *text, size_t len);
/* Takes data from qn_sink_heap(). */
void qn_answer_heap(qn_exchange *x, unsigned status, const char *type,
                    char *data, size_t len);
/* Takes the buffer; sends its `len` bytes. */
void qn_answer_buffer(qn_exchange *x, unsigned status, const char *type,
                      qn_buffer *buffer);
/* Status and body from the error. */
void qn_answer_error(qn_exchange *x, const qn_error *error);
/* The same with another HTTP status than the error's own. */
void qn_answer_fault(qn_exchange *x, unsigned status, const qn_error *error);

#endif

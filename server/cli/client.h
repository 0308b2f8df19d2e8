/* SPDX-License-Identifier: Apache-2.0 */
/* A small blocking HTTP/1.1 client for bench and healthcheck. */
#ifndef QN_SERVER_CLI_CLIENT_H
#define QN_SERVER_CLI_CLIENT_H

#include "runtime/base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct qn_url {
    char host[256], port[8], path[1024];
} qn_url;

/* "http://host:port/path"; the scheme may be left out, the port is 80 then. */
QN_NODISCARD qn_status qn_url_parse(const char *text, qn_url *out,
                                    qn_error *err);

typedef struct qn_client {
    int fd; /* -1: not connected */
    char host[300];
    char *buffer; /* of the last answer: head, then body */
    size_t len, cap;
} qn_client;

typedef struct qn_answer {
    int status;
    const char *body; /* NUL-terminated, in the client's buffer */
    size_t len;
    bool closes; /* the server ends the connection */
} qn_answer;

/* QN_IO with the system's text. Close in every case. */
QN_NODISCARD qn_status qn_client_open(qn_client *out, const qn_url *url,
                                      int timeout_ms, qn_error *err);
void qn_client_close(qn_client *client);

/* One request and its whole answer. `body` NULL: none. */
QN_NODISCARD qn_status qn_client_call(qn_client *client, const char *method,
                                      const char *path, const char *body,
                                      size_t len, qn_answer *out,
                                      qn_error *err);

#endif

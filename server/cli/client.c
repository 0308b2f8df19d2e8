/* SPDX-License-Identifier: Apache-2.0 */
#include "server/cli/client.h"

#include "runtime/base/alloc.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MAX_ANSWER = 1 << 30 };

qn_status qn_url_parse(const char *text, qn_url *out, qn_error *err)
{
    const char *p = text;
    memset(out, 0, sizeof *out);
    if (!strncmp(p, "https://", 8))
        return qn_fail(err, QN_UNSUPPORTED, "%s: only http:// is spoken", text);
    if (!strncmp(p, "http://", 7))
        p += 7;
    bool v6 = *p == '[';
    size_t host = v6 ? strcspn(++p, "]") : strcspn(p, ":/");
    if (!host || host >= sizeof out->host || (v6 && !p[host]))
        return qn_fail(err, QN_INVALID, "'%s' is no URL", text);
    memcpy(out->host, p, host);
    p += host + v6;
    strncpy(out->port, "80", sizeof out->port - 1);
    if (*p == ':') {
        size_t len = strspn(++p, "0123456789");
        if (!len || len >= sizeof out->port)
            return qn_fail(err, QN_INVALID, "'%s': bad port", text);
        memcpy(out->port, p, len);
        out->port[len] = 0;
        p += len;
    }
    if ((*p && *p != '/') || strlen(p) >= sizeof out->path)
        return qn_fail(err, QN_INVALID, "'%s' is no URL", text);
    snprintf(out->path, sizeof out->path, "%s", *p ? p : "/");
    return QN_OK;
}

qn_status qn_client_open(qn_client *out, const qn_url *url, int timeout_ms,
                         qn_error *err)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
    struct timeval t = { .tv_sec = timeout_ms / 1000,
                         .tv_usec = timeout_ms % 1000 * 1000 };
    int one = 1, cause = 0;
    *out = (qn_client){ .fd = -1 };
    bool v6 = strchr(url->host, ':') != NULL;
    snprintf(out->host, sizeof out->host, "%s%s%s:%s", v6 ? "[" : "", url->host,
             v6 ? "]" : "", url->port);
    int rc = getaddrinfo(url->host, url->port, &hints, &list);
    if (rc)
        return qn_fail(err, QN_IO, "%s: %s", url->host, gai_strerror(rc));
    for (struct addrinfo *a = list; a && out->fd < 0; a = a->ai_next) {
        int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (connect(fd, a->ai_addr, a->ai_addrlen)) {
            cause = errno;
            close(fd);
        } else {
            out->fd = fd;
        }
    }
    freeaddrinfo(list);
    if (out->fd < 0)
        return qn_fail(err, QN_IO, "cannot connect to %s: %s", out->host,
                       strerror(cause));
    return QN_OK;
}

void qn_client_close(qn_client *client)
{
    if (client->fd >= 0)
        close(client->fd);
    qn_free(client->buffer);
    *client = (qn_client){ .fd = -1 };
}

static qn_status send_all(int fd, const char *head, size_t head_len,
                          const char *body, size_t len, qn_error *err)
{
    size_t sent = 0, total = head_len + len;
    while (sent < total) {
        struct iovec v[2] = { { 0 } };
        int n = 0;
        if (sent < head_len)
            v[n++] = (struct iovec){ (char *)(uintptr_t)(head + sent),
                                     head_len - sent };
        size_t from = sent > head_len ? sent - head_len : 0;
        if (from < len)
            v[n++] = (struct iovec){ (char *)(uintptr_t)(body + from),
                                     len - from };
        struct msghdr m = { .msg_iov = v, .msg_iovlen = (size_t)n };
        ssize_t k = sendmsg(fd, &m, MSG_NOSIGNAL);
        if (k < 0 && errno != EINTR)
            return qn_fail(err, QN_IO, "sending: %s", strerror(errno));
        sent += k > 0 ? (size_t)k : 0;
    }
    return QN_OK;
}

/* Read more; *end: the server has closed. Keeps room for a NUL. */
static qn_status receive(qn_client *c, bool *end, qn_error *err)
{
    if (c->cap - c->len < 4096) {
        size_t cap = c->cap ? c->cap * 2 : 1u << 16;
        char *grown = cap > MAX_ANSWER ? NULL : qn_realloc(c->buffer, cap, 1);
        if (!grown)
            return qn_fail(err, QN_TOO_LARGE, "the answer is too long");
        c->buffer = grown;
        c->cap = cap;
    }
    ssize_t n = recv(c->fd, c->buffer + c->len, c->cap - c->len - 1, 0);
    if (n < 0 && errno == EINTR)
        n = 0;
    else if (n < 0)
        return qn_fail(err, QN_IO, "receiving: %s", strerror(errno));
    else if (n == 0)
        *end = true;
    c->len += (size_t)n;
    c->buffer[c->len] = 0;
    return QN_OK;
}

static const char *header(const char *head, const char *name)
{
    size_t len = strlen(name);
    for (const char *p = strstr(head, "\r\n"); p; p = strstr(p + 2, "\r\n"))
        if (!strncasecmp(p + 2, name, len) && p[2 + len] == ':')
            return p + 3 + len + strspn(p + 3 + len, " ");
    return NULL;
}

qn_status qn_client_call(qn_client *client, const char *method,
                         const char *path, const char *body, size_t len,
                         qn_answer *out, qn_error *err)
{
    char head[2048];
    bool end = false;
    *out = (qn_answer){ 0 };
    int n = snprintf(head, sizeof head,
                     "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %zu\r\n\r\n",
                     method, path, client->host, len);
    qn_status st = send_all(client->fd, head, (size_t)n, body, len, err);
    client->len = 0;
    char *blank = NULL;
    while (st == QN_OK && !blank) {
        st = receive(client, &end, err);
        if (st == QN_OK && end)
            st = qn_fail(err, QN_IO, "the server closed the connection");
        if (st == QN_OK)
            blank = strstr(client->buffer, "\r\n\r\n");
    }
    if (st != QN_OK)
        return st;
    size_t at = (size_t)(blank - client->buffer) + 4;
    *blank = 0;
    const char *v = header(client->buffer, "Content-Length");
    const char *connection = header(client->buffer, "Connection");
    size_t want = v ? (size_t)strtoull(v, NULL, 10) : 0;
    if (!v || want > MAX_ANSWER || strncmp(client->buffer, "HTTP/1.", 7))
        return qn_fail(err, QN_FORMAT, "no HTTP answer with a Content-Length");
    out->status = atoi(client->buffer + 9);
    out->closes = connection && !strncasecmp(connection, "close", 5);
    while (st == QN_OK && client->len - at < want) {
        st = receive(client, &end, err);
        if (st == QN_OK && end && client->len - at < want)
            st = qn_fail(err, QN_IO, "the answer was cut off at %zu of %zu bytes",
                         client->len - at, want);
    }
    out->body = client->buffer + at;
    out->len = want;
    return st;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "server/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Connections that wait to be accepted; the kernel caps it at somaxconn. */
enum { BACKLOG = 4096 };

static int open_one(const struct addrinfo *a)
{
    int on = 1, off = 0;
    int fd = socket(a->ai_family,
                    a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (a->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (!bind(fd, a->ai_addr, a->ai_addrlen) && !listen(fd, BACKLOG))
        return fd;
    int cause = errno;
    close(fd);
    errno = cause;
    return -1;
}

static uint16_t port_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a;
    socklen_t len = sizeof a;
    memset(&a, 0, sizeof a);
    if (getsockname(fd, &a.any, &len))
        return 0;
    return ntohs(a.any.sa_family == AF_INET6 ? a.v6.sin6_port
                                             : a.v4.sin_port);
}

qn_status qn_listen(const char *host, uint16_t port, int *fd, uint16_t *bound,
                    qn_error *err)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                              .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
    struct addrinfo *list = NULL;
    char service[8];
    int cause = 0;
    *fd = -1;
    snprintf(service, sizeof service, "%u", port);
    int rc = getaddrinfo(host, service, &hints, &list);
    if (rc)
        return qn_fail(err, QN_INVALID, "host '%s': %s", host,
                       gai_strerror(rc));
    for (const struct addrinfo *a = list; a && *fd < 0; a = a->ai_next) {
        *fd = open_one(a);
        cause = errno;
    }
    freeaddrinfo(list);
    if (*fd < 0)
        return qn_fail(err, QN_IO, "cannot listen on %s port %u: %s", host,
                       port, strerror(cause));
    *bound = port_of(*fd);
    return QN_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which handler answers a method and a path. A pattern is literal text with
 * "{}" for one parameter: any text without a slash, not empty, which reaches
 * to the literal that follows. The first pattern that matches wins, so
 * "/v1/models/{}:infer" stands before "/v1/models/{}".
 */
#ifndef QN_SERVER_ROUTES_H
#define QN_SERVER_ROUTES_H

#include "runtime/base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum qn_method {
    QN_GET = 1, /* HEAD too */
    QN_POST = 2,
    QN_HEAD = 4,
    QN_OPTIONS = 8,
    QN_OTHER = 16
} qn_method;

qn_method qn_method_parse(const char *name);

enum { QN_ROUTE_PARAMS = 2, QN_ROUTE_PARAM_MAX = 256 };

struct qn_exchange;

typedef struct qn_route {
    unsigned methods; /* QN_GET, QN_POST, or both */
    const char *pattern;
    void (*handle)(struct qn_exchange *x, void *arg);
} qn_route;

typedef struct qn_route_match {
    const qn_route *route; /* NULL: see `status` of the call */
    char params[QN_ROUTE_PARAMS][QN_ROUTE_PARAM_MAX]; /* percent-decoded */
    char allow[40]; /* "GET, HEAD, OPTIONS": methods of the path */
} qn_route_match;

/*
 * `path` is raw, without the query. QN_OK: a route; or, for QN_OPTIONS, only
 * `allow`. QN_NOT_FOUND: no such path; QN_INVALID: another method (see
 * `allow`); QN_FORMAT: a bad percent escape, NUL or an overlong parameter.
 */
QN_NODISCARD qn_status qn_route_find(const qn_route *routes, size_t n,
                                     qn_method method, const char *path,
                                     qn_route_match *out, qn_error *err);

#endif

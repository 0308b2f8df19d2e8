/* SPDX-License-Identifier: Apache-2.0 */
#include "server/routes.h"

#include <stdio.h>
#include <string.h>

qn_method qn_method_parse(const char *name)
{
    static const struct {
        const char *name;
        qn_method method;
    } all[] = { { "GET", QN_GET },
                { "POST", QN_POST },
                { "HEAD", QN_HEAD },
                { "OPTIONS", QN_OPTIONS } };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (!strcmp(name, all[i].name))
            return all[i].method;
    return QN_OTHER;
}

typedef struct piece {
    const char *text;
    size_t len;
} piece;

/* Greedy from the right end of the segment: ids may hold what follows them. */
static bool match(const char *pattern, const char *path, piece *params,
                  size_t n)
{
    for (;;) {
        size_t literal = strcspn(pattern, "{");
        if (strncmp(pattern, path, literal))
            return false;
        pattern += literal;
        path += literal;
        if (!*pattern)
            return !*path;
        if (n == QN_ROUTE_PARAMS)
            return false;
        pattern += 2;
        size_t most = strcspn(path, "/");
        for (size_t len = most; len; len--) {
            params[n] = (piece){ path, len };
            if (match(pattern, path + len, params, n + 1))
                return true;
        }
        return false;
    }
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 32);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static qn_status decode(piece raw, char out[QN_ROUTE_PARAM_MAX], qn_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < raw.len; i++) {
        char c = raw.text[i];
        if (c == '%') {
            int high = i + 2 < raw.len ? hex(raw.text[i + 1]) : -1;
            int low = high >= 0 ? hex(raw.text[i + 2]) : -1;
            if (low < 0)
                return qn_fail(err, QN_FORMAT,
                               "bad percent escape at byte %zu of '%.*s'", i,
                               (int)(raw.len > 80 ? 80 : raw.len), raw.text);
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (!c || n + 1 == QN_ROUTE_PARAM_MAX)
            return qn_fail(err, QN_FORMAT,
                           c ? "a name in the path is longer than %d bytes"
                             : "a zero byte in the path",
                           QN_ROUTE_PARAM_MAX - 1);
        out[n++] = c;
    }
    out[n] = 0;
    return QN_OK;
}

static void list_methods(unsigned methods, char out[40])
{
    snprintf(out, 40, "%s%s%sOPTIONS", methods & QN_GET ? "GET, HEAD" : "",
             methods & QN_GET ? ", " : "", methods & QN_POST ? "POST, " : "");
}

qn_status qn_route_find(const qn_route *routes, size_t n, qn_method method,
                        const char *path, qn_route_match *out, qn_error *err)
{
    piece params[QN_ROUTE_PARAMS] = { { NULL, 0 } };
    const char *pattern = NULL;
    unsigned allowed = 0, want = method == QN_HEAD ? QN_GET : method;
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < n && !out->route; i++) {
        /* rows of one pattern differ by method */
        if (pattern && strcmp(pattern, routes[i].pattern))
            continue;
        piece found[QN_ROUTE_PARAMS] = { { NULL, 0 } };
        if (!match(routes[i].pattern, path, found, 0))
            continue;
        pattern = routes[i].pattern;
        memcpy(params, found, sizeof params);
        allowed |= routes[i].methods;
        if (routes[i].methods & want)
            out->route = &routes[i];
    }
    if (!pattern)
        return qn_fail(err, QN_NOT_FOUND, "no such path; see /openapi.yaml");
    for (size_t i = 0; i < n; i++)
        if (!strcmp(pattern, routes[i].pattern))
            allowed |= routes[i].methods;
    list_methods(allowed, out->allow);
    for (size_t i = 0; i < QN_ROUTE_PARAMS; i++) {
        qn_status st = decode(params[i], out->params[i], err);
        if (st != QN_OK) {
            out->route = NULL;
            return st;
        }
    }
    if (out->route || method == QN_OPTIONS)
        return QN_OK;
    return qn_fail(err, QN_INVALID, "method not allowed here; allowed: %s",
                   out->allow);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "server/routes.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const qn_route routes[] = {
    { QN_GET, "/", NULL },
    { QN_GET, "/v1/models", NULL },
    { QN_POST, "/v1/models/{}/versions/{}:infer", NULL },
    { QN_GET, "/v1/models/{}/versions/{}", NULL },
    { QN_POST, "/v1/models/{}:infer", NULL },
    { QN_GET, "/v1/models/{}/memory", NULL },
    { QN_GET, "/v1/models/{}", NULL },
    { QN_GET, "/v1/both", NULL },
    { QN_POST, "/v1/both", NULL },
};

static void test_find(void **state)
{
    static const struct {
        qn_method method;
        const char *path;
        qn_status want;
        int row; /* -1: none */
        const char *first, *second, *allow;
    } rows[] = {
        { QN_GET, "/", QN_OK, 0, "", "", "GET, HEAD, OPTIONS" },
        { QN_HEAD, "/", QN_OK, 0, "", "", NULL },
        { QN_GET, "/v1/models", QN_OK, 1, "", "", NULL },
        { QN_GET, "/v1/models/", QN_NOT_FOUND, -1, "", "", NULL },
        { QN_GET, "/v1/models/a", QN_OK, 6, "a", "", NULL },
        { QN_POST, "/v1/models/a:infer", QN_OK, 4, "a", "", NULL },
        { QN_POST, "/v1/models/a:b:infer", QN_OK, 4, "a:b", "", NULL },
        { QN_GET, "/v1/models/a:infer", QN_INVALID, -1, "a", "",
          "POST, OPTIONS" },
        { QN_GET, "/v1/models/a:other", QN_OK, 6, "a:other", "", NULL },
        { QN_POST, "/v1/models/a", QN_INVALID, -1, "a", "",
          "GET, HEAD, OPTIONS" },
        { QN_OPTIONS, "/v1/both", QN_OK, -1, "", "",
          "GET, HEAD, POST, OPTIONS" },
        { QN_POST, "/v1/both", QN_OK, 8, "", "", NULL },
        { QN_OTHER, "/v1/both", QN_INVALID, -1, "", "",
          "GET, HEAD, POST, OPTIONS" },
        { QN_GET, "/v1/models/a/memory", QN_OK, 5, "a", "", NULL },
        { QN_POST, "/v1/models/a/versions/2:infer", QN_OK, 2, "a", "2", NULL },
        { QN_GET, "/v1/models/a/versions/2", QN_OK, 3, "a", "2", NULL },
        { QN_GET, "/v1/models/a/b/c", QN_NOT_FOUND, -1, "", "", NULL },
        { QN_GET, "/v1/models/a%2Fb", QN_OK, 6, "a/b", "", NULL },
        { QN_GET, "/v1/models/%e4%B8%ad", QN_OK, 6, "\xe4\xb8\xad", "", NULL },
        { QN_GET, "/v1/models/a%", QN_FORMAT, -1, "", "", NULL },
        { QN_GET, "/v1/models/a%4", QN_FORMAT, -1, "", "", NULL },
        { QN_GET, "/v1/models/a%4g", QN_FORMAT, -1, "", "", NULL },
        { QN_GET, "/v1/models/a%00b", QN_FORMAT, -1, "", "", NULL },
        { QN_GET, "", QN_NOT_FOUND, -1, "", "", NULL },
        { QN_GET, "/v1/model", QN_NOT_FOUND, -1, "", "", NULL },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        qn_route_match m;
        qn_error err = { 0 };
        qn_status st = qn_route_find(routes, sizeof routes / sizeof routes[0],
                                     rows[i].method, rows[i].path, &m, &err);
        const qn_route *want = rows[i].row < 0 ? NULL : &routes[rows[i].row];
        if (st != rows[i].want || m.route != want)
            fail_msg("%s: status %d, route %s", rows[i].path, (int)st,
                     m.route ? m.route->pattern : "none");
        if (st != QN_FORMAT && (strcmp(m.params[0], rows[i].first) ||
                                strcmp(m.params[1], rows[i].second)))
            fail_msg("%s: parameters '%s' and '%s'", rows[i].path, m.params[0],
                     m.params[1]);
        if (rows[i].allow && strcmp(m.allow, rows[i].allow))
            fail_msg("%s: Allow '%s'", rows[i].path, m.allow);
    }
}

static void test_overlong(void **state)
{
    char path[600] = "/v1/models/";
    qn_route_match m;
    qn_error err = { 0 };
    (void)state;
    memset(path + 11, 'a', QN_ROUTE_PARAM_MAX - 1);
    assert_int_equal(qn_route_find(routes, 9, QN_GET, path, &m, &err), QN_OK);
    path[11 + QN_ROUTE_PARAM_MAX - 1] = 'a';
    assert_int_equal(qn_route_find(routes, 9, QN_GET, path, &m, &err),
                     QN_FORMAT);
}

static void test_methods(void **state)
{
    (void)state;
    assert_int_equal(qn_method_parse("GET"), QN_GET);
    assert_int_equal(qn_method_parse("HEAD"), QN_HEAD);
    assert_int_equal(qn_method_parse("POST"), QN_POST);
    assert_int_equal(qn_method_parse("OPTIONS"), QN_OPTIONS);
    assert_int_equal(qn_method_parse("get"), QN_OTHER);
    assert_int_equal(qn_method_parse("TRACE"), QN_OTHER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_overlong),
        cmocka_unit_test(test_methods),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Looking for accelerators on a machine without a driver, or without the
 * plug-in: one line, one reason, nothing left open. */
#include "runtime/device/plugin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct lines {
    int n;
    qn_log_level level;
    char last[1200];
} lines;

static void keep(void *arg, qn_log_level level, const char *text)
{
    lines *l = arg;
    l->n++;
    l->level = level;
    snprintf(l->last, sizeof l->last, "%s", text);
}

static void expect(const int *ordinals, uint32_t n, qn_status status,
                   qn_log_level level, const char *says)
{
    lines l = { 0 };
    qn_log log = { .write = keep, .arg = &l };
    qn_accels a;
    qn_error err = { 0 };
    memset(&a, 0xff, sizeof a);
    qn_status st = qn_accels_open(ordinals, n, &log, &a, &err);
    if (st != status || l.n != 1 || l.level != level ||
        !strstr(l.last, "cuda is not used: ") || !strstr(l.last, err.text) ||
        !strstr(err.text, says))
        fail_msg("%u devices: %s, %d lines, \"%s\"", n, qn_status_name(st), l.n,
                 l.last);
    assert_true(a.n == 0 && !a.plugin && !a.library);
    assert_int_equal(err.status, status);
    qn_accels_close(&a);
}

static void test_none(void **state)
{
    static const int ordinals[3] = { 0, 1, 0 };
    (void)state;
    assert_int_equal(setenv("QUERN_PLUGIN_DIR", "/nowhere", 1), 0);
    /* no driver, or no plug-in: both say "no ..." */
    expect(NULL, 0, QN_NOT_FOUND, QN_LOG_INFO, "no ");
    expect(ordinals, 2, QN_NOT_FOUND, QN_LOG_WARN, "no ");
    expect(ordinals, 3, QN_INVALID, QN_LOG_WARN, "cuda:0 is given twice");
    expect(NULL, 1, QN_INVALID, QN_LOG_WARN, "1 CUDA devices");
    expect(ordinals, QN_ACCEL_MAX + 1, QN_INVALID, QN_LOG_WARN, "at most 8");
}

/* Neither a log nor an error is needed. */
static void test_quiet(void **state)
{
    qn_accels a;
    (void)state;
    assert_int_equal(qn_accels_open(NULL, 0, NULL, &a, NULL), QN_NOT_FOUND);
    qn_accels_close(&a);
    qn_accels_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_quiet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

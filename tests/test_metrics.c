/* SPDX-License-Identifier: Apache-2.0 */
#include "server/metrics.h"

#include "runtime/base/alloc.h"

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

static void expect(const qn_sink *sink, const char *line)
{
    size_t n = strlen(line);
    for (size_t i = 0; i + n <= sink->len; i++)
        if ((!i || sink->data[i - 1] == '\n') &&
            !memcmp(sink->data + i, line, n))
            return;
    fail_msg("no line '%s' in:\n%.*s", line, (int)sink->len, sink->data);
}

static void test_histogram(void **state)
{
    qn_histogram h;
    qn_sink sink = qn_sink_heap();
    (void)state;
    memset(&h, 0, sizeof h);
    qn_histogram_add(&h, 50000);       /* on the bound: in the first */
    qn_histogram_add(&h, 50001);       /* past it: in the second */
    qn_histogram_add(&h, 20000000000); /* past the last */
    qn_metrics_histogram(&sink, "h", "a=\"b\"", &h);
    expect(&sink, "h_bucket{a=\"b\",le=\"5e-05\"} 1\n");
    expect(&sink, "h_bucket{a=\"b\",le=\"0.0001\"} 2\n");
    expect(&sink, "h_bucket{a=\"b\",le=\"10\"} 2\n");
    expect(&sink, "h_bucket{a=\"b\",le=\"+Inf\"} 3\n");
    expect(&sink, "h_count{a=\"b\"} 3\n");
    expect(&sink, "h_sum{a=\"b\"} 20.0001\n");
    assert_true(qn_histogram_quantile(&h, 0.5) == 1e-4);
    assert_true(qn_histogram_quantile(&h, 0.1) == 5e-5);
    qn_free(sink.data);
}

static void test_requests(void **state)
{
    static qn_metrics a, b;
    const qn_metrics *all[] = { &a, &b };
    const char *names[] = { "", "quote\"back\\slash" };
    qn_sink sink = qn_sink_heap();
    (void)state;
    qn_metrics_status(&a, 404);
    qn_metrics_status(&b, 200);
    qn_metrics_status(&b, 200);
    qn_metrics_status(&b, 418);
    qn_histogram_add(&b.phases[QN_PHASE_COMPUTE], 1000000);
    qn_metrics_requests(&sink, all, names, 2);
    expect(&sink, "quern_requests_total{model=\"\",status=\"404\"} 1\n");
    expect(&sink, "quern_requests_total{model=\"quote\\\"back\\\\slash\","
                  "status=\"200\"} 2\n");
    expect(&sink, "quern_requests_total{model=\"quote\\\"back\\\\slash\","
                  "status=\"other\"} 1\n");
    expect(&sink, "quern_phase_seconds_count{model=\"quote\\\"back\\\\slash\","
                  "phase=\"compute\"} 1\n");
    expect(&sink, "# TYPE quern_phase_seconds histogram\n");
    qn_free(sink.data);
}

static void test_values(void **state)
{
    static const struct {
        double value;
        const char *line;
    } rows[] = {
        { 0, "m 0\n" },
        { 1.5, "m 1.5\n" },
        { 8589934592.0, "m 8589934592\n" },
        { 0.000025, "m 2.5e-05\n" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        qn_sink sink = qn_sink_heap();
        qn_metrics_sample(&sink, "m", "", rows[i].value);
        expect(&sink, rows[i].line);
        qn_free(sink.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_histogram),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

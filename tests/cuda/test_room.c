/* SPDX-License-Identifier: Apache-2.0 */
/* What idle graphs keep is there for whoever needs it: a run of the cpu that
 * waits for host memory, a model that is loaded onto the card. */
#include "runtime/device/accel.h"
#include "tests/cuda/support/executor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

enum { DEPTH = 4, WARM = 4, HANGS_S = 60 };

static size_t graphs_of(qn_ledger *ledger)
{
    qn_ledger_state s;
    qn_ledger_read(ledger, &s);
    return s.by_class[QN_MEM_GRAPH];
}

static void ask(qn_session *s, answer *out)
{
    qn_region region = { 0 };
    qn_tensor in = model_input(MODEL_TRANSFORMER, 0, &region);
    executor_run(s, &in, 1, NULL, out);
    if (out->status != QN_OK)
        fail_msg("%s", out->err.text);
    qn_region_release(&region);
}

static void ask_often(qn_session *s)
{
    for (int i = 0; i < WARM; i++) {
        answer a;
        ask(s, &a);
        answer_free(&a);
    }
}

static size_t need_of(qn_session *s)
{
    qn_region region = { 0 };
    qn_tensor in = model_input(MODEL_TRANSFORMER, 0, &region);
    qn_plan *plan;
    qn_plan_report report;
    assert_int_equal(qn_session_plan(s, &in, &plan, NULL), QN_OK);
    qn_plan_read(plan, &report);
    qn_plan_release(plan);
    qn_region_release(&region);
    return report.lease_bytes;
}

/* A lease of all but about `left` bytes: at least `left` stay, and less than a
 * page more. */
static qn_lease fill(qn_pool *pool, qn_ledger *ledger, size_t page, size_t left)
{
    qn_ledger_state s;
    qn_error err = { 0 };
    qn_pool_trim(pool, 0);
    qn_ledger_read(ledger, &s);
    qn_lease lease = { .parts = { {
        .cls = QN_MEM_ARENA,
        .bytes = (s.budget - s.charged - left) / page * page } } };
    if (qn_pool_lease(pool, &lease, &err) != QN_OK)
        fail_msg("%s", err.text);
    return lease;
}

/* The card's graphs hold what a model of the cpu waits for. */
static void test_host_memory(void **state)
{
    (void)state;
    qn_runtime *rt = executor_runtime(&(qn_runtime_options){ .lanes = 1 });
    qn_ledger *ledger = qn_runtime_ledger(rt);
    qn_session *card = executor_session(
        rt, model_build(MODEL_TRANSFORMER, DEPTH),
        &(qn_session_options){ .streams = 1 }, NULL);
    qn_session *cpu;
    answer first, again;
    assert_int_equal(qn_session_new(rt, model_build(MODEL_TRANSFORMER, DEPTH),
                                    &(qn_session_options){ .streams = 1 }, &cpu,
                                    NULL),
                     QN_OK);
    ask(cpu, &first);
    ask_often(card);
    size_t kept = graphs_of(ledger), need = need_of(cpu);
    assert_true(kept >= 2 * (size_t)sysconf(_SC_PAGESIZE) && need > kept / 2);
    qn_lease lease = fill(qn_runtime_pool(rt), ledger,
                          (size_t)sysconf(_SC_PAGESIZE), need - kept / 2);
    alarm(HANGS_S); /* it would wait for ever */
    ask(cpu, &again);
    alarm(0);
    assert_null(answer_differs(&first, &again));
    assert_int_equal(graphs_of(ledger), 0);
    qn_pool_release(qn_runtime_pool(rt), &lease);
    answer_free(&first);
    answer_free(&again);
    qn_session_free(card);
    qn_session_free(cpu);
    assert_int_equal(executor_charged(rt), 0);
    qn_runtime_free(rt);
}

/* A model is loaded where graphs hold the memory. */
static void test_static_memory(void **state)
{
    (void)state;
    qn_runtime *rt = executor_runtime(&(qn_runtime_options){ .lanes = 1 });
    qn_ledger *ledger = qn_runtime_accel_ledger(rt, 0);
    qn_pool *pool = qn_runtime_accel_pool(rt, 0);
    size_t page = executor_accel()->ops->granule;
    const qn_session_options options = { .streams = 1 };
    qn_static_report report;
    qn_session *one = executor_session(
        rt, model_build(MODEL_TRANSFORMER, DEPTH), &options, NULL);
    qn_session_static(one, &report);
    ask_often(one);
    size_t kept = graphs_of(ledger);
    assert_true(kept && report.accel_bytes > 1);
    size_t left = report.accel_bytes - 1;
    qn_lease lease = fill(pool, ledger, page, 0);
    /* to the byte: what is left of the last page and a little less than enough */
    qn_ledger_state s;
    qn_ledger_read(ledger, &s);
    size_t odd = s.budget - s.charged > left ? s.budget - s.charged - left : 0;
    assert_int_equal(qn_ledger_charge(ledger, QN_MEM_BODY, odd, NULL), QN_OK);
    qn_session *two = executor_session(
        rt, model_build(MODEL_TRANSFORMER, DEPTH), &options, NULL);
    assert_int_equal(graphs_of(ledger), 0);
    qn_ledger_give_back(ledger, QN_MEM_BODY, odd);
    qn_pool_release(pool, &lease);
    qn_session_free(two);
    qn_session_free(one);
    assert_int_equal(executor_charged_device(rt), 0);
    qn_runtime_free(rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_memory),
        cmocka_unit_test(test_static_memory),
    };
    return cmocka_run_group_tests(tests, executor_setup, executor_teardown);
}

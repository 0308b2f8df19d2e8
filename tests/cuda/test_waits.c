/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is every wait that the planner keeps needed, and would anybody notice if one
 * were missing? Each wait of several plans is taken out in turn, of those of
 * streams and of the host; then
 *
 *   the verifier has to refuse the schedule without it
 *   an account of the launches that the device executed has to show a race
 *
 * The one looks at the schedule, the other at a log of the emulated driver; they
 * share nothing. With branches a step may not run: there is an input for each path.
 */
#include "runtime/plan/plan.h"
#include "tests/cuda/support/executor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { AT_LEAST = 200, CONTROL_DEPTH = 3, DEPTH = 5 };

typedef struct verified {
    uint32_t waits, missed; /* kept; not reported when they are taken out */
    size_t shared; /* buffers that were looked at */
} verified;

/* Called while the plan is built, with all that the verifier reads. */
static void on_planned(void *arg, const qn_schedule_problem *problem,
                       const qn_schedule *schedule,
                       const qn_schedule_buffer *buffers, size_t n_buffers,
                       const size_t *offsets)
{
    verified *v = arg;
    uint32_t n = schedule->wait_start[schedule->n];
    uint32_t *waits = calloc(n + 1u, sizeof *waits);
    uint32_t *start = calloc(schedule->n + 1u, sizeof *start);
    assert_true(waits && start);
    *v = (verified){ .waits = n, .shared = n_buffers };
    for (uint32_t k = 0; k < n; k++) {
        qn_schedule s = *schedule;
        qn_error err = { 0 };
        memcpy(waits, schedule->waits, k * sizeof *waits);
        memcpy(waits + k, schedule->waits + k + 1, (n - k - 1) * sizeof *waits);
        for (uint32_t p = 0; p <= schedule->n; p++)
            start[p] = schedule->wait_start[p] -
                       (schedule->wait_start[p] > k);
        s.waits = waits;
        s.wait_start = start;
        if (qn_schedule_verify(problem, &s, buffers, n_buffers, offsets,
                               &err) == QN_OK) {
            printf("# the verifier does not miss wait %u of %u\n", k, n);
            v->missed++;
        }
    }
    free(waits);
    free(start);
}

typedef struct totals {
    uint32_t plans, waits, of_host, verifier, races;
} totals;

/* Wait number k of step s, those of the host first, is gone. */
static void take_out(qn_step *s, uint32_t k, uint32_t *room)
{
    const uint32_t *from = k < s->n_host_waits ? s->host_waits : s->waits;
    uint32_t n = k < s->n_host_waits ? s->n_host_waits : s->n_waits;
    uint32_t at = k < s->n_host_waits ? k : k - s->n_host_waits;
    memcpy(room, from, at * sizeof *room);
    memcpy(room + at, from + at + 1, (n - at - 1) * sizeof *room);
    if (k < s->n_host_waits) {
        s->host_waits = room;
        s->n_host_waits--;
    } else {
        s->waits = room;
        s->n_waits--;
    }
}

/* A run for each path. True: the account shows a race. */
static bool races(qn_session *s, qn_plan *plan, int kind, account *a, char *text,
                  size_t size)
{
    account_report report;
    qn_region region = { 0 };
    account_restart(a);
    int sets = kind == MODEL_CONTROL ? 2 << CONTROL_DEPTH : 2;
    for (int set = 0; set < sets; set += 2) { /* one batch size, every path */
        answer got;
        qn_tensor in = model_input(kind, set, &region);
        executor_run_plan(s, plan, &in, 1, a, &got);
        /* what comes of a missing wait may be nonsense, even an error; not a
         * lost device */
        if (got.status != QN_OK && got.status != QN_RANGE &&
            got.status != QN_NO_MEMORY)
            fail_msg("%s: %s", qn_status_name(got.status), got.err.text);
        answer_free(&got);
    }
    qn_region_release(&region);
    bool clean = account_check(a, &report);
    snprintf(text, size, "%s", report.text);
    return !clean && report.races;
}

/* Operators as they are written: more steps. And where the arms of a branch end
 * in chains, each path waits for what the Add behind them reads, at places of
 * its own: its wait is for the planner, which goes by what all paths know at the
 * same place, and no path shows a race without it. */
static void one_plan(int kind, uint32_t streams, int depth, totals *t)
{
    account a;
    verified v = { 0 };
    qn_region region = { 0 };
    qn_plan *plan;
    qn_error err = { 0 };
    char text[400];
    account_open(&a, executor_emu());
    a.trace.planned = on_planned;
    void *arg = a.trace.arg;
    qn_runtime *rt = executor_runtime(&(qn_runtime_options){ .lanes = 2 });
    qn_session *s = executor_session(
        rt, model_build(kind, depth),
        &(qn_session_options){ .streams = streams, .no_graphs = true,
                               .no_passes = true }, &a);
    qn_tensor in = model_input(kind, 0, &region);
    a.trace.arg = &v;
    if (qn_session_plan(s, &in, &plan, &err) != QN_OK)
        fail_msg("%s", err.text);
    a.trace.arg = arg;
    a.trace.planned = NULL;
    if (races(s, plan, kind, &a, text, sizeof text))
        fail_msg("%s, %u streams: with all waits: %s", model_name(kind), streams,
                 text);
    uint32_t found = 0, missed = 0;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        qn_step whole = plan->steps[i];
        uint32_t n = whole.n_host_waits + whole.n_waits;
        uint32_t *room = calloc(n + 1u, sizeof *room);
        assert_non_null(room);
        for (uint32_t k = 0; k < n; k++) {
            take_out(&plan->steps[i], k, room);
            if (races(s, plan, kind, &a, text, sizeof text)) {
                found++;
            } else {
                missed++;
                printf("# %s, %u streams: no race without wait %u of step %u "
                       "(%s); %s\n",
                       model_name(kind), streams, k, i,
                       whole.node ? whole.node->op_name : "copy", text);
            }
            plan->steps[i] = whole;
            t->of_host += k < whole.n_host_waits;
        }
        free(room);
    }
    printf("# %-16s %u streams, depth %d: %3u waits (naive %3u), %3u reported by "
           "the verifier, %3u by the race detector\n",
           model_name(kind), streams, depth, plan->waits_kept,
           plan->waits_naive, v.waits - v.missed, found);
    assert_int_equal(found + missed, v.waits);
    assert_int_equal(plan->waits_kept, v.waits);
    t->plans++;
    t->waits += v.waits;
    t->verifier += v.waits - v.missed;
    t->races += found;
    qn_region_release(&region);
    qn_plan_release(plan);
    qn_session_free(s);
    qn_runtime_free(rt);
    account_close(&a);
}

static void test_each_wait(void **state)
{
    totals t = { 0 };
    (void)state;
    /* Without MODEL_DYNAMIC: there the host looks at a count in the middle, and
     * sees more than the planner counts on, so that a later wait tells nothing
     * new. */
    for (uint32_t streams = 2; streams <= 4; streams++)
        for (int kind = 0; kind <= MODEL_CONTROL; kind++)
            one_plan(kind, streams,
                     kind == MODEL_CONTROL ? CONTROL_DEPTH : DEPTH, &t);
    printf("# %u plans, %u waits, of these %u of the host: %u reported by the "
           "verifier, %u by the race detector\n",
           t.plans, t.waits, t.of_host, t.verifier, t.races);
    assert_true(t.waits >= AT_LEAST);
    assert_int_equal(t.verifier, t.waits);
    assert_int_equal(t.races, t.waits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_wait),
    };
    return cmocka_run_group_tests(tests, executor_setup, executor_teardown);
}

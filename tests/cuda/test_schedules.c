/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random schedules: delays of the device, 1 to 4 lanes, 1 to 4 streams, 1 to 16
 * clients at once, with and without captured graphs, over five models. Answers
 * are those of a plain run, bit for bit; an independent account of what was
 * executed (support/account.h) has no race, and no lane is given on early.
 *
 *   QN_SCHEDULES=1000 QN_SEED=1 build/tests/cuda/test_schedules
 */
#include "tests/cuda/support/executor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DEFAULT_SCHEDULES = 60, RUNS = 3, DEPTH = 2, MOST_CLIENTS = 16 };

static answer wanted[MODEL_KINDS][MODEL_SETS];

static void plain_answers(void)
{
    qn_runtime *rt = executor_runtime(&(qn_runtime_options){ .lanes = 1 });
    for (int k = 0; k < MODEL_KINDS; k++) {
        qn_session *s = executor_session(
            rt, model_build(k, DEPTH),
            &(qn_session_options){ .no_reuse = true, .no_graphs = true,
                                   .streams = 1 },
            NULL);
        for (int i = 0; i < MODEL_SETS; i++) {
            qn_region region = { 0 };
            qn_tensor in = model_input(k, i, &region);
            executor_run(s, &in, 1, NULL, &wanted[k][i]);
            if (wanted[k][i].status != QN_OK)
                fail_msg("%s: %s", model_name(k), wanted[k][i].err.text);
            qn_region_release(&region);
        }
        qn_session_free(s);
    }
    qn_runtime_free(rt);
}

static uint32_t below(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % n;
}

typedef struct schedule {
    uint64_t seed;
    uint32_t lanes, streams, delay_us;
    int clients;
    bool graphs;
    qn_session *sessions[MODEL_KINDS];
    account account;
    atomic_int wrong;
    char text[600]; /* the first that is wrong */
} schedule;

static void complain(schedule *s, const char *what, const char *model, int set)
{
    if (atomic_fetch_add(&s->wrong, 1) == 0)
        snprintf(s->text, sizeof s->text, "%s, input set %d: %s", model, set,
                 what);
}

static void client(void *arg, int number)
{
    schedule *s = arg;
    uint64_t state = s->seed * 977 + (uint64_t)number;
    for (int i = 0; i < RUNS; i++) {
        qn_region region = { 0 };
        int kind = (int)below(&state, MODEL_KINDS);
        int set = (int)below(&state, MODEL_SETS);
        answer got;
        qn_tensor in = model_input(kind, set, &region);
        executor_run(s->sessions[kind], &in, 1, &s->account, &got);
        const char *what = answer_differs(&wanted[kind][set], &got);
        if (what)
            complain(s, what, model_name(kind), set);
        answer_free(&got);
        qn_region_release(&region);
    }
}

static void draw_schedule(schedule *s)
{
    uint64_t state = s->seed * 7919;
    s->lanes = 1 + below(&state, 4);
    s->streams = 1 + below(&state, 4);
    s->clients = 1 + (int)below(&state, MOST_CLIENTS);
    s->delay_us = below(&state, 3) * 60;
    s->graphs = below(&state, 3) != 0;
}

typedef struct totals {
    size_t launches, waits, graphs, runs, reused;
} totals;

static void one_schedule(uint64_t seed, totals *t)
{
    schedule *s = calloc(1, sizeof *s);
    account_report report;
    assert_non_null(s);
    s->seed = seed;
    draw_schedule(s);
    account_open(&s->account, executor_emu());
    qn_runtime *rt = executor_runtime(&(qn_runtime_options){
        .lanes = s->lanes, .max_running = 32 });
    for (int k = 0; k < MODEL_KINDS; k++)
        s->sessions[k] = executor_session(
            rt, model_build(k, DEPTH),
            &(qn_session_options){ .streams = s->streams,
                                   .no_graphs = !s->graphs },
            &s->account);
    executor_emu()->delays(seed, s->delay_us);
    account_restart(&s->account);
    executor_clients(s->clients, client, s);
    bool clean = account_check(&s->account, &report);
    executor_emu()->delays(0, 0);
    for (int k = 0; k < MODEL_KINDS; k++)
        qn_session_free(s->sessions[k]);
    size_t left = executor_charged_device(rt), host = executor_charged(rt);
    qn_runtime_free(rt);
    account_close(&s->account);
    if (!clean || s->wrong || left || host ||
        report.runs != (size_t)s->clients * RUNS)
        fail_msg("QN_SEED=%llu: %u lanes, %u streams, %d clients, graphs %d: %d "
                 "wrong (%s); %zu races: %s; %zu runs; %zu, %zu bytes stay "
                 "charged",
                 (unsigned long long)seed, s->lanes, s->streams, s->clients,
                 s->graphs, s->wrong, s->text, report.races, report.text,
                 report.runs, left, host);
    t->launches += report.launches;
    t->waits += report.waits;
    t->graphs += report.graphs;
    t->runs += report.runs;
    t->reused += report.lanes_reused;
    free(s);
}

static void test_schedules(void **state)
{
    totals t = { 0 };
    (void)state;
    uint64_t n = executor_number("QN_SCHEDULES",
                                 getenv("QN_SEED") ? 1 : DEFAULT_SCHEDULES);
    uint64_t first = executor_number("QN_SEED", 1);
    plain_answers();
    for (uint64_t seed = first; seed < first + n; seed++)
        one_schedule(seed, &t);
    printf("# %llu schedules: %zu runs, %zu launches, %zu waits, %zu graph "
           "launches, streams passed on %zu times\n",
           (unsigned long long)n, t.runs, t.launches, t.waits, t.graphs,
           t.reused);
    assert_true(n < 20 || (t.graphs && t.waits && t.reused));
    for (int k = 0; k < MODEL_KINDS; k++)
        for (int i = 0; i < MODEL_SETS; i++)
            answer_free(&wanted[k][i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedules),
    };
    return cmocka_run_group_tests(tests, executor_setup, executor_teardown);
}

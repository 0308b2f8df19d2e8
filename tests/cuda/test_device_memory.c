/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device that runs out, and a device that is lost, under a runtime with its
 * sessions: each allocation fails in turn, of loading and of serving, and each
 * launch takes the context with it in turn. What fails says why, what it had
 * goes back to the byte, nobody waits for ever, and others are served.
 */
#include "runtime/device/accel.h"
#include "tests/cuda/support/executor.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { DEPTH = 1, HANGS = 150, RUNS = 4, CLIENTS = 4 };

static answer wanted[MODEL_KINDS], wanted_cpu;

static qn_session *on_the_cpu(qn_runtime *rt)
{
    qn_error err = { 0 };
    qn_session *s;
    if (qn_session_new(rt, model_build(MODEL_TRANSFORMER, DEPTH),
                       &(qn_session_options){ 0 }, &s, &err) != QN_OK)
        fail_msg("%s", err.text);
    return s;
}

static answer ask(qn_session *s, int kind)
{
    qn_region region = { 0 };
    answer a;
    qn_tensor in = model_input(kind, 0, &region);
    executor_run(s, &in, 1, NULL, &a);
    qn_region_release(&region);
    return a;
}

static int setup(void **state)
{
    int rc = executor_setup(state);
    qn_runtime *rt = executor_runtime(&(qn_runtime_options){ .lanes = 1 });
    for (int k = 0; k < MODEL_KINDS; k++) {
        qn_session *s = executor_session(
            rt, model_build(k, DEPTH),
            &(qn_session_options){ .no_graphs = true, .streams = 1 }, NULL);
        wanted[k] = ask(s, k);
        assert_int_equal(wanted[k].status, QN_OK);
        qn_session_free(s);
    }
    qn_session *cpu = on_the_cpu(rt);
    wanted_cpu = ask(cpu, MODEL_TRANSFORMER);
    assert_int_equal(wanted_cpu.status, QN_OK);
    qn_session_free(cpu);
    qn_runtime_free(rt);
    return rc;
}

static int teardown(void **state)
{
    for (int k = 0; k < MODEL_KINDS; k++)
        answer_free(&wanted[k]);
    answer_free(&wanted_cpu);
    return executor_teardown(state);
}

static int watch(void **state)
{
    (void)state;
    alarm(HANGS);
    return 0;
}

static qn_status new_runtime(qn_runtime **rt, qn_error *err)
{
    qn_accel *accel = executor_accel();
    return qn_runtime_new(
        &(qn_runtime_options){ .memory_budget = (size_t)64 << 20, .threads = 2,
                               .accels = &accel, .n_accels = 1,
                               .accel_budget = (size_t)64 << 20, .lanes = 2 },
        rt, err);
}

static qn_status new_session(qn_runtime *rt, int kind, qn_session **s,
                             qn_error *err)
{
    return qn_session_new(rt, model_build(kind, DEPTH),
                          &(qn_session_options){ .n_accels = 1, .streams = 2 },
                          s, err);
}

/* ---- out of memory ---- */

typedef struct outcome {
    int failures;
    qn_status status; /* of the first */
    char text[sizeof((qn_error *)0)->text];
} outcome;

static void note(outcome *o, qn_status st, const char *text)
{
    if (o->failures++ == 0) {
        o->status = st;
        snprintf(o->text, sizeof o->text, "%s", text);
    }
}

/* Load and serve; whatever fails is done again. */
static void serve(int kind, const char *what, outcome *o)
{
    qn_runtime *rt;
    qn_session *s;
    qn_error err = { 0 };
    uint64_t before = executor_emu()->bytes_in_use(0);
    qn_status st = new_runtime(&rt, &err);
    if (st != QN_OK) {
        note(o, st, err.text);
        if (new_runtime(&rt, &err) != QN_OK)
            fail_msg("%s: no runtime after that: %s", what, err.text);
    }
    st = new_session(rt, kind, &s, &err);
    if (st != QN_OK) {
        note(o, st, err.text);
        if (executor_charged(rt) || executor_charged_device(rt))
            fail_msg("%s: a session that failed leaves %zu and %zu bytes", what,
                     executor_charged(rt), executor_charged_device(rt));
        if (new_session(rt, kind, &s, &err) != QN_OK)
            fail_msg("%s: no session after that: %s", what, err.text);
    }
    for (int i = 0; i < RUNS; i++) {
        answer a = ask(s, kind);
        const char *differs = answer_differs(&wanted[kind], &a);
        if (a.status != QN_OK)
            note(o, a.status, a.err.text);
        else if (differs)
            fail_msg("%s: request %d: %s", what, i, differs);
        answer_free(&a);
    }
    qn_session_free(s);
    size_t host = executor_charged(rt), device = executor_charged_device(rt);
    qn_runtime_free(rt);
    if (host || device || executor_emu()->bytes_in_use(0) != before)
        fail_msg("%s: %zu bytes of the host, %zu of the device stay charged, "
                 "%lld more are in use",
                 what, host, device,
                 (long long)(executor_emu()->bytes_in_use(0) - before));
}

static const char *const allocating[] = {
    "cuMemAlloc", "cuMemHostAlloc", "cuMemAddressReserve", "cuMemCreate",
    "cuMemMap", "cuMemSetAccess", "cuStreamCreateWithPriority", "cuEventCreate",
    "cuModuleLoadData", "cuGraphInstantiate", "cuGraphUpload",
};

static void test_out_of_memory(void **state)
{
    const test_emu *emu = executor_emu();
    int injected = 0, failed = 0;
    (void)state;
    for (int kind = 0; kind < MODEL_KINDS; kind++)
        for (size_t i = 0; i < sizeof allocating / sizeof allocating[0]; i++)
            for (uint64_t nth = 1;; nth++) {
                outcome o = { 0 };
                char what[96];
                snprintf(what, sizeof what, "%s, %s %d", model_name(kind),
                         allocating[i], (int)nth);
                emu->reset_counts();
                emu->fail_at(allocating[i], nth, 2);
                serve(kind, what, &o);
                emu->fail_none();
                bool hit = emu->count(allocating[i]) >= nth;
                if (executor_accel()->ops->dead(executor_accel(), NULL))
                    fail_msg("%s: the device is lost", what);
                if (!hit && o.failures)
                    fail_msg("%s: %s", what, o.text);
                if (!hit)
                    break;
                injected++;
                failed += o.failures;
                if (o.failures > 1 ||
                    (o.failures && ((o.status != QN_NO_MEMORY &&
                                     o.status != QN_DEVICE) ||
                                    !o.text[0])))
                    fail_msg("%s: %d failures, %s \"%s\"", what, o.failures,
                             qn_status_name(o.status), o.text);
            }
    printf("# %d allocations failed, %d of them are told\n", injected, failed);
    assert_true(failed > 0);
}

/* ---- leaving the line ---- */

typedef struct line {
    qn_session *s;
    qn_plan *plan;
    atomic_int leased, left, bad;
    qn_status worst;
} line;

typedef struct waiting {
    qn_run run;
    atomic_bool called;
    qn_status status;
} waiting;

static void on_leased(qn_run *run, void *arg, qn_status status)
{
    waiting *w = arg;
    (void)run;
    w->status = status;
    atomic_store(&w->called, true);
}

/* A run in line goes from one pool's queue to the other's while it is
 * cancelled. Nothing runs: leases come and go. */
static void come_and_go(void *arg, int number)
{
    line *l = arg;
    uint32_t state = 1 + (uint32_t)number;
    for (int i = 0; i < 300; i++) {
        waiting w = { .called = false };
        state = state * 1664525u + 1013904223u;
        qn_run_init(&w.run, l->s, l->plan);
        qn_status st = qn_run_lease(&w.run, on_leased, &w, NULL);
        if (st == QN_NO_MEMORY) {
            for (uint32_t n = state >> 26; n && !atomic_load(&w.called); n--)
                sched_yield();
            if (qn_run_lease_cancel(&w.run)) {
                l->bad += atomic_load(&w.called) != 0;
                atomic_fetch_add(&l->left, 1);
            } else {
                while (!atomic_load(&w.called)) /* it will be */
                    sched_yield();
                st = w.status;
            }
        }
        if (st == QN_OK) {
            atomic_fetch_add(&l->leased, 1);
            for (uint32_t n = state >> 27; n; n--)
                sched_yield();
        } else if (st != QN_NO_MEMORY) {
            l->bad++;
            l->worst = st;
        }
        qn_run_release(&w.run);
    }
}

static void test_leaving(void **state)
{
    enum { THREADS = 8 };
    (void)state;
    qn_region region = { 0 };
    qn_tensor in = model_input(MODEL_TRANSFORMER, 0, &region);
    qn_error err = { 0 };
    size_t host = 0, device = 0;
    for (int turn = 0; turn < 2; turn++) { /* the first one measures */
        line l = { .s = NULL };
        qn_plan_report r;
        qn_runtime *rt = executor_runtime(&(qn_runtime_options){
            .lanes = 1, .memory_budget = host, .accel_budget = device,
            .max_running = 3 });
        l.s = executor_session(rt, model_build(MODEL_TRANSFORMER, DEPTH),
                               &(qn_session_options){ .no_graphs = true },
                               NULL);
        if (qn_session_plan(l.s, &in, &l.plan, &err) != QN_OK)
            fail_msg("%s", err.text);
        qn_plan_read(l.plan, &r);
        host = executor_charged(rt) + 2 * r.lease_bytes + 8192;
        device = executor_charged_device(rt) + r.device_bytes +
                 2 * executor_accel()->ops->granule;
        if (turn) {
            executor_clients(THREADS, come_and_go, &l);
            if (l.bad || !l.leased)
                fail_msg("%d bad, %s; %d leased, %d left", l.bad,
                         qn_status_name(l.worst), l.leased, l.left);
            printf("# %d leased, %d left the line\n", l.leased, l.left);
        }
        qn_plan_release(l.plan);
        qn_session_free(l.s);
        assert_int_equal(executor_charged(rt), 0);
        assert_int_equal(executor_charged_device(rt), 0);
        qn_runtime_free(rt);
    }
    qn_region_release(&region);
}

/* ---- lost ---- */

static const struct {
    const char *api;
    int code;
    int stride;
} poison[] = {
    { "cuLaunchKernel", 700, 3 },     { "cuMemcpyHtoDAsync", 719, 1 },
    { "cuMemcpyDtoHAsync", 719, 1 },  { "cuMemsetD8Async", 719, 1 },
    { "cuEventRecord", 719, 5 },      { "cuStreamWaitEvent", 719, 5 },
    { "cuEventQuery", 700, 5 },       { "cuStreamBeginCapture", 719, 1 },
    { "cuStreamEndCapture", 719, 1 }, { "cuGraphInstantiate", 719, 1 },
    { "cuGraphLaunch", 719, 1 },      { "cuMemCreate", 719, 1 },
    { "cuMemHostAlloc", 719, 1 },
};

typedef struct loss {
    qn_runtime *rt;
    qn_session *sessions[2], *cpu;
    const char *what;
    atomic_int lost, wrong;
    char text[300];
} loss;

static const int lost_kinds[2] = { MODEL_TRANSFORMER, MODEL_DYNAMIC };

static void complain(loss *l, const char *text)
{
    if (atomic_fetch_add(&l->wrong, 1) == 0)
        snprintf(l->text, sizeof l->text, "%.290s", text);
}

static void ask_cpu(loss *l)
{
    answer a = ask(l->cpu, MODEL_TRANSFORMER);
    const char *differs = answer_differs(&wanted_cpu, &a);
    if (differs)
        complain(l, differs);
    answer_free(&a);
}

static void client(void *arg, int number)
{
    loss *l = arg;
    for (int i = 0; i < RUNS; i++) {
        int k = (number + i / 2) % 2;
        answer a = ask(l->sessions[k], lost_kinds[k]);
        const char *differs = answer_differs(&wanted[lost_kinds[k]], &a);
        if (a.status == QN_DEVICE_LOST && a.err.text[0])
            atomic_fetch_add(&l->lost, 1);
        else if (differs)
            complain(l, differs);
        answer_free(&a);
        if (number == 0)
            ask_cpu(l);
    }
}

/* The n-th call of an API, after loading, takes the context with it. False: it
 * was not called so often. */
static bool lose(const char *api, uint64_t nth, int code, int clients)
{
    const test_emu *emu = executor_emu();
    qn_accel *accel = executor_accel();
    loss l = { .what = api };
    qn_error err = { 0 };
    char what[96];
    snprintf(what, sizeof what, "%s %d, %d clients", api, (int)nth, clients);
    if (new_runtime(&l.rt, &err) != QN_OK)
        fail_msg("%s: %s", what, err.text);
    for (int k = 0; k < 2; k++)
        if (new_session(l.rt, lost_kinds[k], &l.sessions[k], &err) != QN_OK)
            fail_msg("%s: %s", what, err.text);
    l.cpu = on_the_cpu(l.rt);
    emu->delays(nth, clients > 1 ? 30 : 0);
    emu->reset_counts();
    emu->fail_at(api, nth, code);
    executor_clients(clients, client, &l);
    emu->fail_none();
    emu->delays(0, 0);
    bool hit = emu->count(api) >= nth;
    bool dead = accel->ops->dead(accel, NULL);
    if (dead) { /* afterwards, too: at once, and others go on */
        for (int k = 0; k < 2; k++) {
            answer a = ask(l.sessions[k], lost_kinds[k]);
            if (a.status != QN_DEVICE_LOST)
                complain(&l, a.status == QN_OK ? "served by a lost device"
                                               : a.err.text);
            answer_free(&a);
        }
        ask_cpu(&l);
    }
    for (int k = 0; k < 2; k++)
        qn_session_free(l.sessions[k]);
    qn_session_free(l.cpu);
    size_t host = executor_charged(l.rt), device = executor_charged_device(l.rt);
    qn_runtime_free(l.rt);
    if (dead)
        executor_reopen();
    if (l.wrong || host || device || hit != dead || (!dead && l.lost))
        fail_msg("%s: hit %d, dead %d, %d lost, %d wrong: %s; %zu, %zu bytes "
                 "stay charged",
                 what, hit, dead, l.lost, l.wrong, l.text, host, device);
    return hit;
}

static void test_lost(void **state)
{
    int lost = 0;
    (void)state;
    for (size_t i = 0; i < sizeof poison / sizeof poison[0]; i++)
        for (int clients = 1; clients <= CLIENTS; clients += CLIENTS - 1)
            for (uint64_t nth = 1;
                 lose(poison[i].api, nth, poison[i].code, clients);
                 nth += (uint64_t)(poison[i].stride * clients * clients))
                lost++;
    printf("# the device was lost %d times\n", lost);
    /* and serves again, opened anew */
    outcome o = { 0 };
    serve(MODEL_CONTROL, "opened anew", &o);
    assert_int_equal(o.failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_out_of_memory, watch),
        cmocka_unit_test_setup(test_leaving, watch),
        cmocka_unit_test_setup(test_lost, watch),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

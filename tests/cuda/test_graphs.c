/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captured graphs: the same bits as plain launches whatever the lane, the
 * stream and the neighbours; plain launches wherever a capture fails; every byte
 * accounted for; and nobody waits for memory that idle graphs keep.
 */
#include "runtime/plan/plan.h"
#include "tests/cuda/support/executor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { CLIENTS = 16, DEPTH = 2, KINDS = MODEL_TRANSFORMER + 1, BATCHES = 6,
       LARGE = 16, HANGS = 150 };

static int set_of(int batch)
{
    return batch << 8;
}

/* Plain runs of one stream, without reuse. */
static answer wanted[KINDS][BATCHES];

static int setup(void **state)
{
    int rc = executor_setup(state);
    qn_runtime *rt = executor_runtime(&(qn_runtime_options){ .lanes = 1 });
    for (int k = 0; k < KINDS; k++) {
        qn_session *s = executor_session(
            rt, model_build(k, DEPTH),
            &(qn_session_options){ .no_reuse = true, .no_graphs = true,
                                   .streams = 1 },
            NULL);
        for (int b = 0; b < BATCHES; b++) {
            qn_region region = { 0 };
            qn_tensor in = model_input(k, set_of(b), &region);
            executor_run(s, &in, 1, NULL, &wanted[k][b]);
            if (wanted[k][b].status != QN_OK)
                fail_msg("%s: %s", model_name(k), wanted[k][b].err.text);
            qn_region_release(&region);
        }
        qn_session_free(s);
    }
    qn_runtime_free(rt);
    return rc;
}

static int teardown(void **state)
{
    for (int k = 0; k < KINDS; k++)
        for (int b = 0; b < BATCHES; b++)
            answer_free(&wanted[k][b]);
    return executor_teardown(state);
}

/* A test that hangs ends here, and says which it was. */
static int watch(void **state)
{
    (void)state;
    alarm(HANGS);
    return 0;
}

typedef struct bench {
    qn_runtime *rt;
    qn_session *sessions[KINDS];
    int runs, batches;
    atomic_int wrong;
    char text[512];
} bench;

static size_t of_class(qn_ledger *ledger, qn_mem cls)
{
    qn_ledger_state s;
    qn_ledger_read(ledger, &s);
    return s.by_class[cls];
}

static void open_bench(bench *b, const qn_runtime_options *o, uint32_t streams)
{
    b->rt = executor_runtime(o);
    for (int k = 0; k < KINDS; k++)
        b->sessions[k] = executor_session(
            b->rt, model_build(k, DEPTH),
            &(qn_session_options){ .streams = streams }, NULL);
}

static void close_bench(bench *b, const char *what)
{
    for (int k = 0; k < KINDS; k++)
        qn_session_free(b->sessions[k]);
    size_t host = executor_charged(b->rt);
    size_t device = executor_charged_device(b->rt);
    if (host || device)
        fail_msg("%s: %zu bytes of the host and %zu of the device stay charged",
                 what, host, device);
    qn_runtime_free(b->rt);
    if (b->wrong)
        fail_msg("%s: %d wrong: %s", what, b->wrong, b->text);
}

static void one(bench *b, int kind, int batch)
{
    qn_region region = { 0 };
    answer got;
    qn_tensor in = model_input(kind, set_of(batch), &region);
    executor_run(b->sessions[kind], &in, 1, NULL, &got);
    const char *what = answer_differs(&wanted[kind][batch], &got);
    if (what && atomic_fetch_add(&b->wrong, 1) == 0)
        snprintf(b->text, sizeof b->text, "%s, batch %d: %.400s",
                 model_name(kind), batch + 1, what);
    answer_free(&got);
    qn_region_release(&region);
}

static void client(void *arg, int number)
{
    bench *b = arg;
    for (int i = 0; i < b->runs; i++)
        one(b, (number + i) % KINDS, (number / 2 + i / 3) % b->batches);
}

static void test_equal(void **state)
{
    const test_emu *emu = executor_emu();
    (void)state;
    for (uint32_t lanes = 1; lanes <= 4; lanes++)
        for (uint32_t streams = 1; streams <= 4; streams += 3) {
            bench b = { .runs = 12, .batches = 3 };
            char what[64];
            snprintf(what, sizeof what, "%u lanes, %u streams", lanes, streams);
            uint64_t before = emu->bytes_in_use(0);
            open_bench(&b, &(qn_runtime_options){ .lanes = lanes,
                                                  .max_running = CLIENTS },
                       streams);
            emu->delays(lanes * 10 + streams, 50);
            emu->reset_counts();
            executor_clients(CLIENTS, client, &b);
            uint64_t graphs = emu->count("graph");
            emu->delays(0, 0);
            if (graphs < (uint64_t)(CLIENTS * b.runs / 3))
                fail_msg("%s: %llu of %d runs were graphs", what,
                         (unsigned long long)graphs, CLIENTS * b.runs);
            /* one is made when another run has all there are */
            assert_in_range(emu->count("cuGraphInstantiate"), 1,
                            (uint64_t)(CLIENTS * KINDS * b.batches));
            assert_true(of_class(qn_runtime_accel_ledger(b.rt, 0),
                                 QN_MEM_GRAPH) > 0);
            close_bench(&b, what);
            /* other lanes' memory went with the runtime */
            assert_int_equal(emu->bytes_in_use(0), before);
        }
}

/* More clients than may run at once are no reason to give up graphs. */
static void test_few_slots(void **state)
{
    bench b = { .runs = 12, .batches = 1 };
    (void)state;
    open_bench(&b, &(qn_runtime_options){ .lanes = 2, .max_running = 3 }, 2);
    executor_emu()->reset_counts();
    executor_clients(CLIENTS, client, &b);
    uint64_t graphs = executor_emu()->count("graph");
    close_bench(&b, "few slots");
    if (graphs < (uint64_t)(CLIENTS * b.runs / 2))
        fail_msg("%llu of %d runs were graphs", (unsigned long long)graphs,
                 CLIENTS * b.runs);
}

/* ---- failures ---- */

static const struct {
    const char *api;
    int code;
} failing[] = {
    { "cuStreamBeginCapture", 900 },
    { "cuStreamEndCapture", 901 },
    { "cuGraphInstantiate", 1 },
    { "cuGraphInstantiate", 2 },
    { "cuGraphUpload", 1 },
    { "cuGraphLaunch", 1 },
    { "cuGraphLaunch", 2 },
    { "cuLaunchKernel", 1 },
    { "cuEventRecord", 1 },
    { "cuStreamWaitEvent", 1 },
    { "cuMemsetD8Async", 1 },
    { "cuMemcpyHtoDAsync", 1 },
    { "cuMemcpyDtoHAsync", 1 },
};

/* The third run of a plan is captured: each call in it fails in turn. */
static void test_failures(void **state)
{
    const test_emu *emu = executor_emu();
    (void)state;
    for (size_t i = 0; i < sizeof failing / sizeof failing[0]; i++) {
        uint64_t nth = 1, calls = 1;
        for (; nth <= calls; nth++) {
            bench b = { .runs = 1 };
            char what[96];
            snprintf(what, sizeof what, "%s, call %d, %d", failing[i].api,
                     (int)nth, failing[i].code);
            open_bench(&b, &(qn_runtime_options){ .lanes = 1 }, 2);
            one(&b, MODEL_TRANSFORMER, 0);
            one(&b, MODEL_TRANSFORMER, 0);
            emu->reset_counts();
            if (nth == 1) { /* how many are there? those of a graph's run */
                one(&b, MODEL_TRANSFORMER, 0);
                calls = emu->count(failing[i].api);
                if (!calls)
                    fail_msg("%s is not called", failing[i].api);
                assert_int_equal(emu->count("graph"), 1);
                close_bench(&b, what);
                b = (bench){ .runs = 1 };
                open_bench(&b, &(qn_runtime_options){ .lanes = 1 }, 2);
                one(&b, MODEL_TRANSFORMER, 0);
                one(&b, MODEL_TRANSFORMER, 0);
                emu->reset_counts();
            }
            emu->fail_at(failing[i].api, nth, failing[i].code);
            one(&b, MODEL_TRANSFORMER, 0);
            emu->fail_none();
            for (int n = 0; n < 5; n++)
                one(&b, MODEL_TRANSFORMER, 0);
            if (!emu->count("graph"))
                fail_msg("%s: no graph afterwards", what);
            close_bench(&b, what);
        }
    }
}

/* A graph that can never be made is not tried for ever. */
static void test_hopeless(void **state)
{
    const test_emu *emu = executor_emu();
    bench b = { .runs = 1 };
    (void)state;
    open_bench(&b, &(qn_runtime_options){ .lanes = 1 }, 2);
    one(&b, MODEL_TRANSFORMER, 0);
    one(&b, MODEL_TRANSFORMER, 0);
    emu->reset_counts();
    for (int i = 0; i < 40; i++) {
        emu->fail_at("cuGraphInstantiate", 1, 1);
        one(&b, MODEL_TRANSFORMER, 0);
    }
    emu->fail_none();
    assert_int_equal(emu->count("graph"), 0);
    assert_in_range(emu->count("cuStreamBeginCapture"), 1, 10);
    close_bench(&b, "hopeless");
}

/* ---- memory ---- */

static size_t lease_of_device(bench *b, int kind, int batch)
{
    qn_region region = { 0 };
    qn_plan *plan;
    qn_plan_report r;
    qn_error err = { 0 };
    qn_tensor in = model_input(kind, set_of(batch), &region);
    if (qn_session_plan(b->sessions[kind], &in, &plan, &err) != QN_OK)
        fail_msg("%s", err.text);
    qn_plan_read(plan, &r);
    size_t bytes = r.device_bytes;
    qn_plan_release(plan);
    qn_region_release(&region);
    return bytes;
}

/* Room for a few leases, and more plans than that: graphs come and go. */
static void test_small_budget(void **state)
{
    const test_emu *emu = executor_emu();
    (void)state;
    bench b = { .runs = 24, .batches = BATCHES };
    open_bench(&b, &(qn_runtime_options){ .lanes = 2 }, 2);
    size_t most = 0;
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < BATCHES; i++) {
            size_t bytes = lease_of_device(&b, k, i);
            most = bytes > most ? bytes : most;
        }
    size_t fixed = executor_charged_device(b.rt); /* weights, plans */
    close_bench(&b, "measuring");
    for (size_t leases = 1; leases <= 4; leases++) {
        b = (bench){ .runs = 24, .batches = BATCHES };
        open_bench(&b, &(qn_runtime_options){
                           .lanes = 2,
                           .max_running = CLIENTS,
                           .accel_budget = fixed + leases * most + (64 << 10) },
                   2);
        emu->delays(leases, 20);
        emu->reset_counts();
        executor_clients(CLIENTS, client, &b);
        emu->delays(0, 0);
        /* the clients are gone; one alone has graphs again, plan by plan */
        for (int k = 0; k < KINDS; k++)
            for (int i = 0; i < BATCHES; i++)
                for (int n = 0; n < 4; n++)
                    one(&b, k, i);
        assert_true(emu->count("graph") > 0);
        assert_true(emu->count("cuGraphExecDestroy") > 0);
        close_bench(&b, "small budget");
    }
}

/* ---- making way ---- */

static qn_session *on_the_cpu(qn_runtime *rt)
{
    qn_error err = { 0 };
    qn_session *s;
    if (qn_session_new(rt, model_build(MODEL_INCEPTION, DEPTH),
                       &(qn_session_options){ 0 }, &s, &err) != QN_OK)
        fail_msg("%s", err.text);
    return s;
}

static size_t lease_of_host(qn_session *s, const qn_tensor *in)
{
    qn_plan *plan;
    qn_plan_report r;
    qn_error err = { 0 };
    if (qn_session_plan(s, in, &plan, &err) != QN_OK)
        fail_msg("%s", err.text);
    qn_plan_read(plan, &r);
    qn_plan_release(plan);
    return r.lease_bytes;
}

/* A run of a session on the cpu shares the host's memory with graphs: it gets
 * what they keep. */
static void test_make_way(void **state)
{
    (void)state;
    qn_region region = { 0 };
    qn_tensor in = model_input(MODEL_INCEPTION, set_of(LARGE), &region);
    size_t budget = 0;
    for (int turn = 0; turn < 2; turn++) { /* the first one measures */
        bench b = { .runs = 8, .batches = 1 };
        open_bench(&b, &(qn_runtime_options){ .lanes = 4,
                                              .memory_budget = budget },
                   2);
        qn_session *cpu = on_the_cpu(b.rt);
        size_t lease = lease_of_host(cpu, &in);
        client(&b, 0);
        size_t kept = of_class(qn_runtime_ledger(b.rt), QN_MEM_GRAPH);
        assert_true(kept > 0);
        budget = executor_charged(b.rt) + lease - 4096;
        if (turn) {
            answer got;
            executor_run(cpu, &in, 1, NULL, &got); /* or waits for ever */
            if (got.status != QN_OK)
                fail_msg("%s", got.err.text);
            answer_free(&got);
            assert_true(of_class(qn_runtime_ledger(b.rt), QN_MEM_GRAPH) < kept);
        }
        qn_session_free(cpu);
        close_bench(&b, "a run on the cpu");
    }
    qn_region_release(&region);
}

static void test_make_way_for_a_model(void **state)
{
    qn_error err = { 0 };
    (void)state;
    bench b = { .runs = 8, .batches = 1 };
    open_bench(&b, &(qn_runtime_options){ .lanes = 4 }, 2);
    client(&b, 0);
    qn_ledger_state l;
    (void)executor_charged_device(b.rt);
    qn_ledger_read(qn_runtime_accel_ledger(b.rt, 0), &l);
    assert_true(l.by_class[QN_MEM_GRAPH] > 0);
    size_t all = l.charged;
    close_bench(&b, "measuring");

    b = (bench){ .runs = 8, .batches = 1 };
    open_bench(&b, &(qn_runtime_options){ .lanes = 4, .accel_budget = all }, 2);
    client(&b, 0);
    qn_session *more;
    if (qn_session_new(b.rt, model_build(MODEL_TRANSFORMER, DEPTH),
                       &(qn_session_options){ .n_accels = 1 }, &more, &err) !=
        QN_OK)
        fail_msg("graphs are in the way of a model: %s", err.text);
    qn_session_free(more);
    close_bench(&b, "a model");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_equal, watch),
        cmocka_unit_test_setup(test_few_slots, watch),
        cmocka_unit_test_setup(test_failures, watch),
        cmocka_unit_test_setup(test_hopeless, watch),
        cmocka_unit_test_setup(test_small_budget, watch),
        cmocka_unit_test_setup(test_make_way, watch),
        cmocka_unit_test_setup(test_make_way_for_a_model, watch),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Models that are split over devices: random cuts against the uncut model on the
 * cpu, several runs at once, what stays on the host, failing calls. Emulated, or
 * on as many real cards as there are ranks.
 */
#include "models/ranks.h"
#include "runtime/base/clock.h"
#include "runtime/device/plugin.h"
#include "runtime/exec/session.h"
#include "runtime/graph/ranks.h"
#include "runtime/plan/plan.h"
#include "tests/cuda/support/library.h"
#include "tests/support/split.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DEVICES = 3, SEEDS = 24, AT_ONCE = 4, GUARD = 512, SKIPPED = 77 };
enum { NCCL_INVALID = 4, CUDA_ILLEGAL = 700 }; /* ncclInvalidArgument ... */

#define EXAMPLE "models/examples-split/mlp/"

static qn_accels accels;
static qn_runtime *runtime;
static const int64_t d4[] = { 4 };

static void check_empty(void)
{
    qn_ledger_state state;
    qn_pool_trim(qn_runtime_pool(runtime), 0);
    qn_ledger_read(qn_runtime_ledger(runtime), &state);
    assert_int_equal(state.charged, 0);
    for (uint32_t i = 0; i < accels.n; i++) {
        qn_pool_trim(qn_runtime_accel_pool(runtime, i), 0);
        qn_ledger_read(qn_runtime_accel_ledger(runtime, i), &state);
        assert_int_equal(state.charged, 0);
    }
}

static qn_session *session_of(qn_graph *g, uint32_t devices, uint32_t streams)
{
    qn_session_options o = { .n_accels = devices, .streams = streams };
    qn_session *s;
    qn_error err = { 0 };
    for (uint32_t i = 0; i < devices; i++)
        o.accels[i] = i;
    if (qn_session_new(runtime, g, &o, &s, &err) != QN_OK)
        fail_msg("%s", err.text);
    return s;
}

static qn_session *merged(qn_graph **parts, uint32_t n, uint32_t streams)
{
    qn_graph *g;
    qn_error err = { 0 };
    if (qn_graph_merge(parts, n, &g, &err) != QN_OK)
        fail_msg("%s", err.text);
    return session_of(g, n, streams);
}

static qn_plan *plan_of(qn_session *s, qn_dtype dtype, int rank,
                        const int64_t *dims)
{
    qn_plan *plan;
    qn_error err = { 0 };
    qn_tensor in = { .dtype = dtype, .shape = qn_shape_make(rank, dims) };
    if (qn_session_plan(s, &in, &plan, &err) != QN_OK)
        fail_msg("%s", err.text);
    return plan;
}

static qn_status run(qn_session *s, qn_plan *plan, const void *x, size_t bytes,
                     void *y, qn_error *err)
{
    qn_run r;
    qn_run_init(&r, s, plan);
    qn_status st = qn_run_lease(&r, NULL, NULL, err);
    if (st == QN_OK) {
        memcpy(qn_run_input(&r, 0).data, x, bytes);
        st = qn_run_sync(&r, err);
    }
    if (st == QN_OK)
        memcpy(y, qn_run_output(&r, 0).data, bytes);
    qn_run_release(&r);
    return st;
}

/* One arena a rank; nothing else in a block or its guards. */
static uint32_t check_blocks(const qn_plan *plan, uint32_t ranks)
{
    qn_plan_report r;
    qn_plan_read(plan, &r);
    for (uint32_t i = 0; i < r.n_collectives; i++)
        for (uint32_t k = 0; k < r.collectives[i].n_blocks; k++) {
            const qn_plan_block *b = &r.collectives[i].blocks[k];
            uint32_t launch = r.collectives[i].launch;
            assert_int_equal(r.collectives[i].ranks, ranks);
            assert_int_equal(b->space, b->rank + 1);
            assert_int_equal(b->guard, GUARD);
            assert_true(b->offset >= GUARD);
            for (uint32_t v = 0; v < r.n_values; v++) {
                const qn_plan_value *o = &r.values[v];
                bool lives = o->space == b->space && o->first <= launch &&
                             o->last >= launch;
                bool inside = o->offset >= b->offset &&
                              o->offset + o->bytes <= b->offset + b->bytes;
                bool apart = o->offset + o->bytes + GUARD <= b->offset ||
                             o->offset >= b->offset + b->bytes + GUARD;
                assert_true(!lives || inside || apart);
            }
        }
    return r.n_collectives;
}

static void test_random_cuts(void **state)
{
    const int64_t dims[] = { SPLIT_ROWS, SPLIT_WIDTH };
    uint32_t blocks = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        split s;
        float want[SPLIT_ROWS * SPLIT_WIDTH], got[SPLIT_ROWS * SPLIT_WIDTH];
        qn_error err = { 0 };
        uint32_t ranks = accels.n < 3 ? 2 : (uint32_t)(2 + seed % 2);
        split_build(&s, ranks, seed);
        qn_session *session = session_of(s.whole, 0, 1);
        qn_plan *plan = plan_of(session, QN_F32, 2, dims);
        if (run(session, plan, s.x, sizeof s.x, want, &err) != QN_OK)
            fail_msg("%s", err.text);
        qn_plan_release(plan);
        qn_session_free(session);
        session = merged(s.parts, ranks, (uint32_t)(seed / 2 % 3));
        plan = plan_of(session, QN_F32, 2, dims);
        blocks += check_blocks(plan, ranks);
        for (int again = 0; again < 3; again++) {
            memset(got, 0xff, sizeof got);
            if (run(session, plan, s.x, sizeof s.x, got, &err) != QN_OK)
                fail_msg("seed %d: %s", (int)seed, err.text);
            if (memcmp(got, want, sizeof got) != 0)
                fail_msg("seed %d: another answer", (int)seed);
        }
        qn_plan_release(plan);
        qn_session_free(session);
        split_release(&s);
        check_empty();
    }
    assert_true(blocks > SEEDS);
}

/* Several threads, two sessions with communicators of their own on the same
 * devices: no order of collectives may hold a device up. */
typedef struct client {
    pthread_t thread;
    qn_session *session;
    qn_plan *plan;
    const split *s;
    float got[SPLIT_ROWS * SPLIT_WIDTH];
    qn_status status;
    qn_error err;
} client;

static void *runs(void *arg)
{
    client *c = arg;
    for (int i = 0; c->status == QN_OK && i < 6; i++)
        c->status = run(c->session, c->plan, c->s->x, sizeof c->s->x, c->got,
                        &c->err);
    return NULL;
}

static void test_at_once(void **state)
{
    const int64_t dims[] = { SPLIT_ROWS, SPLIT_WIDTH };
    static split s[2];
    float want[2][SPLIT_ROWS * SPLIT_WIDTH];
    qn_session *session[2];
    qn_plan *plan[2];
    static client clients[AT_ONCE];
    qn_error err = { 0 };
    (void)state;
    for (int k = 0; k < 2; k++) {
        split_build(&s[k], 2, (uint64_t)(5 + k));
        qn_session *cpu = session_of(s[k].whole, 0, 1);
        qn_plan *p = plan_of(cpu, QN_F32, 2, dims);
        assert_int_equal(run(cpu, p, s[k].x, sizeof s[k].x, want[k], &err),
                         QN_OK);
        qn_plan_release(p);
        qn_session_free(cpu);
        session[k] = merged(s[k].parts, 2, 0);
        plan[k] = plan_of(session[k], QN_F32, 2, dims);
    }
    for (int i = 0; i < AT_ONCE; i++) {
        clients[i] = (client){ .session = session[i % 2], .plan = plan[i % 2],
                               .s = &s[i % 2] };
        assert_int_equal(pthread_create(&clients[i].thread, NULL, runs,
                                        &clients[i]), 0);
    }
    for (int i = 0; i < AT_ONCE; i++)
        pthread_join(clients[i].thread, NULL);
    for (int i = 0; i < AT_ONCE; i++) {
        if (clients[i].status != QN_OK)
            fail_msg("%s", clients[i].err.text);
        assert_memory_equal(clients[i].got, want[i % 2], sizeof want[0]);
    }
    for (int k = 0; k < 2; k++) {
        qn_plan_release(plan[k]);
        qn_session_free(session[k]);
        split_release(&s[k]);
    }
    check_empty();
}

/* y = AllReduce(-x) of one type; with a constant and an AllGather beside it. */
static qn_graph *plain(qn_dtype dtype, bool constants)
{
    static const float numbers[] = { 1, 2, 3, 4 };
    qn_graph *g = tg_new(NULL);
    qn_value_id v = tg_op1(g, "Neg", tg_input(g, "x", dtype, 1, d4));
    if (constants) {
        const int64_t d2[] = { 2 };
        qn_value_id in[] = { v, tg_const(g, dtype, 1, d4, numbers) }, out[2];
        tg_collective(g, "AllReduce", NULL, NULL, 0, 2, in, out);
        v = tg_op2(g, "Add", out[0], out[1]);
        v = tg_op2(g, "Sub", v, tg_collective1(g, "AllGather",
                                               tg_const(g, dtype, 1, d2,
                                                        numbers)));
    } else {
        v = tg_collective1(g, "AllReduce", v);
    }
    tg_output(g, v, "y");
    tg_finish(g);
    return g;
}

static void test_constants(void **state)
{
    const float x[] = { 1, -2, 3, 5 };
    float y[4];
    qn_graph *parts[] = { plain(QN_F32, true), plain(QN_F32, true) };
    qn_session *s = merged(parts, 2, 0);
    qn_plan *plan = plan_of(s, QN_F32, 1, d4);
    qn_error err = { 0 };
    (void)state;
    if (run(s, plan, x, sizeof x, y, &err) != QN_OK)
        fail_msg("%s", err.text);
    for (int i = 0; i < 4; i++) {
        float want = -2 * x[i] + 2 * (float)(i + 1) - (float)(i % 2 + 1);
        assert_true(y[i] <= want && y[i] >= want);
    }
    qn_plan_release(plan);
    qn_session_free(s);
    check_empty();
}

/* What the devices' library cannot add the host does. */
static void test_on_the_host(void **state)
{
    const int16_t x[] = { 1, -2, 300, 5 };
    int16_t y[4];
    qn_graph *parts[] = { plain(QN_I16, false), plain(QN_I16, false) };
    qn_session *s = merged(parts, 2, 0);
    qn_plan *plan = plan_of(s, QN_I16, 1, d4);
    qn_error err = { 0 };
    (void)state;
    for (uint32_t i = 0; i < plan->n_steps; i++)
        if (plan->steps[i].node &&
            !strcmp(plan->steps[i].node->op_name, "AllReduce"))
            assert_int_equal(plan->steps[i].space, 0);
    if (run(s, plan, x, sizeof x, y, &err) != QN_OK)
        fail_msg("%s", err.text);
    for (int i = 0; i < 4; i++)
        assert_int_equal(y[i], -2 * x[i]);
    qn_plan_release(plan);
    qn_session_free(s);
    check_empty();
}

/* The collective has a queue with a stream on every device. */
static void test_queue(void **state)
{
    qn_graph *parts[] = { plain(QN_F32, false), plain(QN_F32, false) };
    qn_session *s = merged(parts, 2, 0);
    qn_plan *plan = plan_of(s, QN_F32, 1, d4);
    uint32_t found = 0;
    (void)state;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const qn_step *step = &plan->steps[i];
        bool all = plan->queue_space[step->queue] == QN_SPACE_ALL;
        bool is = step->node && !strcmp(step->node->op_name, "AllReduce");
        assert_true(all == is);
        found += is;
        assert_true(!is || step->n_waits == 2); /* for each rank's Neg */
    }
    assert_int_equal(found, 1);
    qn_plan_release(plan);
    qn_session_free(s);
}

/* The example's files on two devices: the answer of the whole on the cpu. */
static void test_example(void **state)
{
    static const char *const ranks[] = { EXAMPLE "1/rank0.onnx",
                                         EXAMPLE "1/rank1.onnx" };
    static const char *const whole[] = { EXAMPLE "whole.onnx" };
    const int64_t dims[] = { 5, 16 };
    float x[5 * 16], y[2][5 * 16] = { { 0 } };
    qn_error err = { 0 };
    (void)state;
    for (int i = 0; i < 5 * 16; i++)
        x[i] = (float)(i * 37 % 29 - 14) / 8;
    for (int k = 0; k < 2; k++) {
        qn_model_files files;
        qn_graph *g;
        if (qn_model_open_ranks(k ? ranks : whole, k ? 2 : 1, &files, &g,
                                &err) != QN_OK)
            fail_msg("%s", err.text);
        qn_session *s = session_of(g, k ? 2 : 0, 0);
        qn_model_close_ranks(&files);
        qn_plan *plan = plan_of(s, QN_F32, 2, dims);
        qn_run r;
        qn_run_init(&r, s, plan);
        assert_int_equal(qn_run_lease(&r, NULL, NULL, &err), QN_OK);
        memcpy(qn_run_input(&r, 0).data, x, sizeof x);
        if (qn_run_sync(&r, &err) != QN_OK)
            fail_msg("%s", err.text);
        memcpy(y[k], qn_run_output(&r, 0).data, 5 * 6 * sizeof(float));
        qn_run_release(&r);
        qn_plan_release(plan);
        qn_session_free(s);
    }
    for (int i = 0; i < 5 * 6; i++)
        if (!(fabsf(y[0][i] - y[1][i]) <= 2e-6f))
            fail_msg("element %d: %g, whole %g", i, (double)y[1][i],
                     (double)y[0][i]);
    check_empty();
}

static void test_too_few_devices(void **state)
{
    qn_graph *parts[] = { plain(QN_F32, false), plain(QN_F32, false),
                          plain(QN_F32, false) }, *g;
    qn_session_options o = { .n_accels = 2, .accels = { 0, 1 } };
    qn_session *s;
    qn_error err = { 0 };
    (void)state;
    assert_int_equal(qn_graph_merge(parts, 3, &g, &err), QN_OK);
    assert_int_equal(qn_session_new(runtime, g, &o, &s, &err), QN_INVALID);
    assert_non_null(strstr(err.text, "split over 3 ranks"));
    assert_non_null(strstr(err.text, "has 2"));
    check_empty();
}

/* A call that fails ends the run, not the process, nor the session. */
static void test_failing_call(void **state)
{
    const float x[] = { 1, -2, 3, 5 };
    float y[4];
    qn_error err = { 0 };
    (void)state;
    if (!library_reset())
        return; /* real libraries do not fail on demand */
    qn_graph *parts[] = { plain(QN_F32, false), plain(QN_F32, false) };
    qn_session *s = merged(parts, 2, 0);
    qn_plan *plan = plan_of(s, QN_F32, 1, d4);
    library_fail("ncclAllReduce", 1, NCCL_INVALID);
    assert_int_equal(run(s, plan, x, sizeof x, y, &err), QN_DEVICE);
    library_fail(NULL, 0, 0);
    assert_non_null(strstr(err.text, "AllReduce"));
    if (run(s, plan, x, sizeof x, y, &err) != QN_OK)
        fail_msg("%s", err.text);
    assert_true(y[3] < -9 && y[3] > -11);
    qn_plan_release(plan);
    qn_session_free(s);
    check_empty();
}

/* Rank 1's kernel kills its device. What rank 0's waits for never comes: it is
 * told so, and the run ends. */
static void test_lost_device(void **state)
{
    const float x[] = { 1, -2, 3, 5 };
    float y[4];
    qn_error err = { 0 };
    qn_graph *parts[] = { plain(QN_F32, false), plain(QN_F32, false) };
    qn_session *s = merged(parts, 2, 0);
    qn_plan *plan = plan_of(s, QN_F32, 1, d4);
    (void)state;
    if (run(s, plan, x, sizeof x, y, &err) != QN_OK)
        fail_msg("%s", err.text);
    uint64_t start = qn_clock_ns();
    library_fail("cuLaunchKernel", 2, CUDA_ILLEGAL);
    assert_int_equal(run(s, plan, x, sizeof x, y, &err), QN_DEVICE_LOST);
    library_fail(NULL, 0, 0);
    assert_non_null(strstr(err.text, "cuda:1"));
    /* the emulation itself would give up after a minute */
    assert_true(qn_clock_ns() - start < 20000000000u);
    assert_int_equal(run(s, plan, x, sizeof x, y, &err), QN_DEVICE_LOST);
    qn_plan_release(plan);
    qn_session_free(s);
    check_empty();
}

static bool open_devices(qn_error *err)
{
    static const int ordinals[DEVICES] = { 0, 1, 2 };
    for (uint32_t n = DEVICES; n > 1; n--)
        if (qn_accels_open(ordinals, n, NULL, &accels, err) == QN_OK)
            return true;
    return false;
}

static bool open_all(qn_error *err)
{
    qn_runtime_options options = { .memory_budget = 256u << 20, .threads = 2,
                                   .accel_budget = 256u << 20 };
    if (!open_devices(err))
        return false;
    options.accels = accels.accel;
    options.n_accels = accels.n;
    return qn_runtime_new(&options, &runtime, err) == QN_OK;
}

static void close_all(void)
{
    qn_runtime_free(runtime);
    qn_accels_close(&accels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_random_cuts),
        cmocka_unit_test(test_at_once),
        cmocka_unit_test(test_on_the_host),
        cmocka_unit_test(test_example),
        cmocka_unit_test(test_too_few_devices),
        cmocka_unit_test(test_failing_call),
    };
    const struct CMUnitTest last[] = { cmocka_unit_test(test_lost_device) };
    qn_error err = { 0 };
    if (setenv("QN_EMU_DEVICES", "3", 0) != 0)
        return 1;
    if (!open_all(&err)) {
        printf("skipped: %s\n", err.text);
        return SKIPPED;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    bool emulated = library_reset();
    close_all();
    if (emulated && !failed) {
        if (!open_all(&err))
            return 1;
        failed = cmocka_run_group_tests(last, NULL, NULL);
        close_all();
    }
    return failed;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cuda/support/executor.h"

#include "runtime/device/plugin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SKIPPED = 77, CLIENTS = 64 };

static struct {
    const test_emu *emu;
    qn_accels accels;
    qn_log log;
} dev;

static void write_log(void *arg, qn_log_level level, const char *text)
{
    (void)arg;
    if (level >= QN_LOG_ERROR && getenv("QN_TEST_LOG"))
        fprintf(stderr, "# %s\n", text);
}

static void open_device(void)
{
    static const int first = 0;
    qn_error err = { 0 };
    dev.log = (qn_log){ .write = write_log, .level = QN_LOG_DEBUG };
    if (qn_accels_open(&first, 1, &dev.log, &dev.accels, &err) != QN_OK) {
        printf("skipped: %s\n", err.text);
        exit(SKIPPED);
    }
}

int executor_setup(void **state)
{
    (void)state;
    dev.emu = test_emu_find();
    if (!dev.emu) {
        printf("skipped: needs the emulated driver\n");
        exit(SKIPPED);
    }
    open_device();
    return 0;
}

int executor_teardown(void **state)
{
    (void)state;
    qn_accels_close(&dev.accels);
    return 0;
}

const test_emu *executor_emu(void)
{
    return dev.emu;
}

qn_accel *executor_accel(void)
{
    return dev.accels.accel[0];
}

void executor_reopen(void)
{
    qn_accels_close(&dev.accels);
    dev.emu->revive();
    open_device();
}

qn_runtime *executor_runtime(const qn_runtime_options *options)
{
    qn_runtime_options o = *options;
    qn_runtime *rt;
    qn_error err = { 0 };
    o.accels = dev.accels.accel;
    o.n_accels = 1;
    if (!o.memory_budget)
        o.memory_budget = (size_t)256 << 20;
    if (!o.threads)
        o.threads = 2;
    if (qn_runtime_new(&o, &rt, &err) != QN_OK)
        fail_msg("no runtime: %s", err.text);
    return rt;
}

qn_session *executor_session(qn_runtime *rt, qn_graph *graph,
                             const qn_session_options *options,
                             const account *a)
{
    qn_session_options o = *options;
    qn_session *s;
    qn_error err = { 0 };
    o.n_accels = 1;
    o.trace = a ? &a->trace : o.trace;
    if (qn_session_new(rt, graph, &o, &s, &err) != QN_OK)
        fail_msg("no session: %s", err.text);
    return s;
}

/* ---- answers ---- */

static size_t bytes_of(const qn_tensor *t)
{
    size_t bytes = 0;
    assert_int_equal(qn_tensor_bytes(t->dtype, &t->shape, &bytes, NULL), QN_OK);
    return bytes;
}

void answer_free(answer *a)
{
    for (uint32_t i = 0; i < a->n; i++)
        free(a->out[i].data);
    *a = (answer){ 0 };
}

const char *answer_differs(const answer *want, const answer *got)
{
    static _Thread_local char text[1536];
    if (want->status != got->status || want->n != got->n) {
        snprintf(text, sizeof text, "%s \"%s\", expected %s \"%s\"",
                 qn_status_name(got->status), got->err.text,
                 qn_status_name(want->status), want->err.text);
        return text;
    }
    for (uint32_t i = 0; i < want->n; i++) {
        const qn_tensor *x = &want->out[i], *y = &got->out[i];
        char a[QN_SHAPE_TEXT], b[QN_SHAPE_TEXT];
        size_t bytes = bytes_of(x), at = 0;
        if (x->dtype != y->dtype || !qn_shape_equal(&x->shape, &y->shape)) {
            snprintf(text, sizeof text, "output %u is %s, expected %s", i,
                     qn_shape_text(&y->shape, a), qn_shape_text(&x->shape, b));
            return text;
        }
        const char *p = x->data, *q = y->data;
        while (at < bytes && p[at] == q[at])
            at++;
        if (at < bytes) {
            snprintf(text, sizeof text, "output %u differs at byte %zu of %zu",
                     i, at, bytes);
            return text;
        }
    }
    return NULL;
}

/* ---- a request ---- */

typedef struct request {
    account_run account; /* first: what done_arg points at */
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool leased, done;
    qn_status lease_status;
    qn_run run;
} request;

static void tell(request *r, bool *what)
{
    pthread_mutex_lock(&r->lock);
    *what = true;
    pthread_cond_signal(&r->cond);
    pthread_mutex_unlock(&r->lock);
}

static void wait_for(request *r, const bool *what)
{
    pthread_mutex_lock(&r->lock);
    while (!*what)
        pthread_cond_wait(&r->cond, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

static void on_leased(qn_run *run, void *arg, qn_status status)
{
    request *r = arg;
    (void)run;
    r->lease_status = status;
    tell(r, &r->leased);
}

static void on_done(qn_run *run, void *arg)
{
    request *r = arg;
    (void)run;
    tell(r, &r->done);
}

static void take_answer(request *r, account *a, answer *out)
{
    const qn_io *io;
    uint32_t n = qn_session_outputs(r->run.session, &io);
    out->status = r->run.status;
    out->err = r->run.error;
    if (out->status != QN_OK)
        return;
    assert_true(n <= ANSWER_OUTPUTS);
    for (; out->n < n; out->n++) {
        qn_tensor t = qn_run_output(&r->run, out->n);
        size_t bytes = bytes_of(&t);
        out->out[out->n] = t;
        out->out[out->n].data = malloc(bytes + 1);
        assert_non_null(out->out[out->n].data);
        if (a)
            account_reads(&r->account, t.data, bytes);
        if (bytes)
            memcpy(out->out[out->n].data, t.data, bytes);
    }
}

void executor_run_plan(qn_session *s, qn_plan *plan, const qn_tensor *inputs,
                       uint32_t n_inputs, account *a, answer *out)
{
    request r = { .leased = false };
    *out = (answer){ 0 };
    pthread_mutex_init(&r.lock, NULL);
    pthread_cond_init(&r.cond, NULL);
    qn_run_init(&r.run, s, plan);
    out->status = qn_run_lease(&r.run, on_leased, &r, &out->err);
    if (out->status == QN_NO_MEMORY) {
        wait_for(&r, &r.leased);
        out->status = r.lease_status;
    }
    if (out->status == QN_OK) {
        if (a)
            account_leased(a, &r.account);
        for (uint32_t i = 0; i < n_inputs; i++) {
            qn_tensor in = qn_run_input(&r.run, i);
            size_t bytes = qn_present(&in) ? bytes_of(&in) : 0;
            if (a)
                account_fills(&r.account, in.data, bytes);
            if (bytes)
                memcpy(in.data, inputs[i].data, bytes);
        }
        qn_run_start(&r.run, on_done, &r);
        wait_for(&r, &r.done);
        take_answer(&r, a, out);
        if (a)
            account_releases(&r.account);
    }
    qn_run_release(&r.run);
    pthread_mutex_destroy(&r.lock);
    pthread_cond_destroy(&r.cond);
}

void executor_run(qn_session *s, const qn_tensor *inputs, uint32_t n_inputs,
                  account *a, answer *out)
{
    qn_plan *plan;
    *out = (answer){ 0 };
    out->status = qn_session_plan(s, inputs, &plan, &out->err);
    if (out->status != QN_OK)
        return;
    executor_run_plan(s, plan, inputs, n_inputs, a, out);
    qn_plan_release(plan);
}

/* ---- clients ---- */

typedef struct client {
    void (*fn)(void *arg, int client);
    void *arg;
    int number;
} client;

static void *client_main(void *arg)
{
    client *c = arg;
    c->fn(c->arg, c->number);
    return NULL;
}

void executor_clients(int n, void (*fn)(void *arg, int client), void *arg)
{
    pthread_t threads[CLIENTS];
    client clients[CLIENTS];
    assert_true(n <= CLIENTS);
    for (int i = 0; i < n; i++) {
        clients[i] = (client){ fn, arg, i };
        assert_int_equal(
            pthread_create(&threads[i], NULL, client_main, &clients[i]), 0);
    }
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

/* ---- memory ---- */

static size_t charged(qn_pool *pool, qn_ledger *ledger)
{
    qn_ledger_state state;
    qn_pool_trim(pool, 0);
    qn_ledger_read(ledger, &state);
    return state.charged;
}

size_t executor_charged(qn_runtime *rt)
{
    return charged(qn_runtime_pool(rt), qn_runtime_ledger(rt));
}

size_t executor_charged_device(qn_runtime *rt)
{
    return charged(qn_runtime_accel_pool(rt, 0),
                   qn_runtime_accel_ledger(rt, 0));
}

uint64_t executor_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

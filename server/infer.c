/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An inference, from body to answer.
 *
 *   prepare   scan, bind, plan          HTTP thread; a worker for a large body
 *                                       or a plan that is not there yet
 *   admit     watch the client, lease   suspended from here on
 *   decode    body -> IN                as prepare; a worker if it had to wait
 *   run       launches                  workers
 *   reply     OUT -> answer             the worker that ended the run
 *   finish    resume the connection
 *
 * A model whose runs take less than INLINE_NS goes all the way on the HTTP
 * thread: handing it over and back costs more.
 *
 * Memory: the exchange holds one reference until the answer is sent, admit()
 * another one while it runs, because a lease may be granted, run and answered
 * on other threads before the call that asked for it returns.
 */
#include "server/request.h"

#include "runtime/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    INLINE_BODY = 64 << 10, /* a larger body is read on a worker: 0.1 ms */
    INLINE_NS = 50000,
    RETRY_CANCEL_MS = 5
};

/* Where a request that may wait for memory is. Only QUEUED may be cancelled
 * by the watcher: before, the waiter is not set up; after, it is granted. */
enum { STAGE_START, STAGE_QUEUED, STAGE_LEASED };

static void drop(qn_request *r)
{
    if (atomic_fetch_sub(&r->refs, 1) != 1)
        return;
    if (r->run_ready)
        qn_run_release(&r->run);
    if (r->plan)
        qn_plan_release(r->plan);
    qn_replica_release(r->replica);
    qn_served_release(r->model);
    qn_region_release(&r->region);
    atomic_fetch_sub(&r->server->inferring, 1);
    qn_free(r);
}

static void release(qn_exchange *x)
{
    drop(x->user);
}

/* ---- the end ---- */

/* The answer is set. After this the request may be gone. */
static void finish(qn_request *r)
{
    qn_exchange *x = r->x;
    if (r->watching)
        qn_watch_remove(r->server->watch, &r->watched);
    r->watching = false;
    if (r->run_ready)
        qn_run_release(&r->run);
    r->run_ready = false;
    if (x->suspended)
        qn_exchange_resume(x);
}

static void fail(qn_request *r, qn_error *err)
{
    qn_devices_failed(r->server, r->replica, err);
    qn_server_answer_error(r->server, r->x, err);
    finish(r);
}

/* No lease. What the budget allows and the system, or a card, does not have now
 * may be there for the next one. */
static void fail_lease(qn_request *r, qn_error *err)
{
    qn_devices_failed(r->server, r->replica, err);
    if (err->status == QN_DEVICE)
        err->status = QN_NO_MEMORY;
    qn_server_answer_error(r->server, r->x, err);
    finish(r);
}

static void fail_with(qn_request *r, qn_status status, const char *text)
{
    qn_error err = { 0 };
    (void)!qn_fail(&err, status, "%s", text);
    fail(r, &err);
}

/* ---- run ---- */

static void count_time(qn_request *r, uint64_t ns)
{
    uint64_t old = atomic_load(&r->model->mean_ns);
    uint64_t all = atomic_load(&r->server->service_ns);
    atomic_store(&r->model->mean_ns, old ? old - old / 8 + ns / 8 : ns);
    atomic_store(&r->server->service_ns, all ? all - all / 16 + ns / 16 : ns);
}

static void done(qn_run *run, void *arg)
{
    qn_request *r = arg;
    qn_phases *p = &r->x->phases;
    uint64_t first = run->times.first_launch_ns;
    if (first) {
        p->compute = run->times.done_ns - first;
        p->queue += first - run->times.started_ns;
    }
    if (atomic_load(&r->gone)) {
        fail_with(r, QN_CANCELLED, "the client left");
    } else if (run->status != QN_OK) {
        fail(r, &run->error);
    } else {
        count_time(r, p->compute);
        qn_run_release_arena(run);
        qn_reply_infer(r);
        finish(r);
    }
}

static qn_status decode(qn_request *r, qn_error *err)
{
    qn_bound *b = &r->bound;
    qn_status st = QN_OK;
    uint64_t start = qn_clock_ns();
    for (uint32_t i = 0; i < b->n_inputs && st == QN_OK; i++) {
        if (!qn_present(&b->tensors[i]))
            continue;
        qn_tensor to = qn_run_input(&r->run, i);
        st = r->npy_in ? qn_npy_decode(&r->npy, &to, err)
                       : qn_decode(b->data[i], b->inputs[i].name, &to,
                                   &r->run.strings, err);
    }
    r->x->phases.decode = qn_clock_ns() - start;
    return st;
}

static void decode_and_run(qn_request *r)
{
    qn_error err = { 0 };
    if (decode(r, &err) != QN_OK)
        fail(r, &err);
    else
        qn_run_start(&r->run, done, r);
}

static void decode_job(void *arg)
{
    decode_and_run(arg);
}

/* ---- admission ---- */

/* The memory is there, or will never be. On whatever thread freed it. */
static void leased(qn_run *run, void *arg, qn_status status)
{
    qn_request *r = arg;
    (void)run;
    atomic_store(&r->stage, STAGE_LEASED);
    r->x->phases.queue += qn_clock_ns() - r->queued_ns;
    if (status == QN_OK) {
        r->job = (qn_job){ .fn = decode_job, .arg = r };
        qn_runtime_post(r->server->runtime, &r->job);
    } else {
        qn_error err = { 0 };
        (void)!qn_fail(&err, status,
                       "the memory that this request waited for cannot be had");
        fail_lease(r, &err);
    }
}

/* On the watcher's thread. */
static void fired(qn_watched *entry, qn_watch_why why)
{
    qn_request *r = entry->arg;
    if (why == QN_WATCH_GONE) {
        atomic_store(&r->gone, true);
        qn_run_cancel(&r->run);
    }
    int stage = atomic_load(&r->stage);
    if (stage == STAGE_QUEUED && qn_run_lease_cancel(&r->run)) {
        uint64_t now = qn_clock_ns();
        r->x->phases.queue += now - r->queued_ns;
        if (atomic_load(&r->gone))
            fail_with(r, QN_CANCELLED, "the client left");
        else if (r->deadline_ns && now >= r->deadline_ns)
            fail_with(r, QN_DEADLINE,
                      "the deadline passed while waiting for a turn");
        else
            fail_with(r, QN_NO_MEMORY,
                      "no memory and no turn to run within the longest wait");
    } else if (stage != STAGE_LEASED || why == QN_WATCH_TIME) {
        /* The call that queues it has not returned yet: look again. Once it
         * runs, only the client is of interest. */
        if (why == QN_WATCH_GONE)
            entry->fd = -1;
        entry->end_ns = stage == STAGE_LEASED
                            ? 0
                            : qn_clock_ns() + RETRY_CANCEL_MS * 1000000u;
        (void)!qn_watch_add(r->server->watch, entry);
    }
}

static void start_watching(qn_request *r)
{
    uint64_t end = r->queued_ns + (uint64_t)r->server->o.max_wait_ms * 1000000u;
    if (r->deadline_ns && r->deadline_ns < end)
        end = r->deadline_ns;
    r->watched = (qn_watched){ .fd = r->x->fd, .end_ns = end, .fired = fired,
                               .arg = r };
    r->watching =
        qn_watch_add(r->server->watch, &r->watched) == QN_OK;
}

/* Everything on this thread, if the model is that fast and memory is free. */
static bool run_inline(qn_request *r)
{
    qn_error err = { 0 };
    uint64_t mean = atomic_load(&r->model->mean_ns);
    if (r->x->suspended || !mean || mean > INLINE_NS ||
        !qn_run_is_simple(&r->run) ||
        qn_run_lease(&r->run, NULL, NULL, &err) != QN_OK)
        return false;
    if (decode(r, &err) != QN_OK || qn_run_sync(&r->run, &err) != QN_OK) {
        fail(r, &err);
        return true;
    }
    r->x->phases.compute =
        r->run.times.done_ns - r->run.times.first_launch_ns;
    count_time(r, r->x->phases.compute);
    qn_reply_infer(r);
    finish(r);
    return true;
}

/* Can it never have what it leases, even alone? Its own body and plan take part
 * of the budget, too, and stay while it waits. */
static bool never_fits(const qn_request *r, qn_error *err)
{
    qn_ledger_state s;
    qn_plan_report p;
    qn_plan_read(r->plan, &p);
    qn_ledger_read(r->server->ledger, &s);
    size_t most = s.budget - s.by_class[QN_MEM_STATIC];
    size_t own = r->x->body_len + p.plan_bytes;
    if (own <= most && p.lease_bytes <= most - own &&
        r->bound.string_bytes <= most - own - p.lease_bytes)
        return false;
    (void)!qn_fail(err, QN_TOO_LARGE,
                   "this request needs %zu bytes beside its body and plan of "
                   "%zu; the budget of %zu bytes leaves %zu beside the loaded "
                   "models",
                   p.lease_bytes + r->bound.string_bytes, own, s.budget, most);
    return true;
}

static void admit(qn_request *r)
{
    qn_error err = { 0 };
    if (never_fits(r, &err)) {
        fail(r, &err);
        return;
    }
    qn_run_init(&r->run, r->session, r->plan);
    r->run_ready = true;
    r->run.string_bytes = r->bound.string_bytes;
    r->run.deadline_ns = r->deadline_ns;
    r->queued_ns = qn_clock_ns();
    if (run_inline(r))
        return;
    if (!r->x->suspended)
        qn_exchange_suspend(r->x);
    atomic_fetch_add(&r->refs, 1);
    start_watching(r);
    qn_status st = qn_run_lease(&r->run, leased, r, &err);
    if (st == QN_OK) {
        atomic_store(&r->stage, STAGE_LEASED);
        decode_and_run(r);
    } else if (st == QN_NO_MEMORY) {
        int start = STAGE_START;
        atomic_compare_exchange_strong(&r->stage, &start, STAGE_QUEUED);
    } else {
        atomic_store(&r->stage, STAGE_LEASED);
        fail_lease(r, &err);
    }
    drop(r);
}

/* ---- preparation ---- */

static qn_status read_body(qn_request *r, qn_error *err)
{
    const qn_exchange *x = r->x;
    if (r->npy_in) {
        qn_status st = qn_npy_open(x->body, x->body_len, &r->npy, err);
        return st == QN_OK ? qn_bind_npy(&r->npy, r->session,
                                         &r->region, &r->bound, err)
                           : st;
    }
    qn_status st = qn_scan_body(
        x->body, x->body_len,
        &(qn_scan_options){ .max_depth = r->server->o.max_depth }, &r->region,
        &r->scan, err);
    if (st != QN_OK)
        return st;
    r->nested |= r->scan.nested;
    return qn_bind_scan(&r->scan, r->session, &r->region, &r->bound,
                        err);
}

static qn_status check_values(qn_request *r, qn_error *err)
{
    qn_bound *b = &r->bound;
    qn_status st = QN_OK;
    for (uint32_t i = 0; i < b->n_inputs && st == QN_OK && !r->npy_in; i++) {
        qn_tensor to = b->tensors[i];
        to.data = NULL;
        if (qn_present(&to))
            st = qn_decode(b->data[i], b->inputs[i].name, &to, NULL, err);
    }
    return st;
}

/* The plan is there. */
static void planned(qn_request *r)
{
    qn_error err = { 0 };
    if (r->npy_out && r->bound.n_wanted != 1) {
        (void)!qn_fail(&err, QN_INVALID,
                       "application/x-npy holds one tensor, %u outputs are "
                       "asked for",
                       r->bound.n_wanted);
        fail(r, &err);
    } else if (!r->validate) {
        admit(r);
    } else if (check_values(r, &err) != QN_OK) {
        fail(r, &err);
    } else {
        qn_reply_validate(r);
        finish(r);
    }
}

static void plan_on_worker(void *arg)
{
    qn_request *r = arg;
    qn_error err = { 0 };
    if (qn_session_plan(r->session, r->bound.tensors, &r->plan, &err) !=
        QN_OK)
        fail(r, &err);
    else
        planned(r);
}

static void prepare(qn_request *r)
{
    qn_error err = { 0 };
    qn_status st = read_body(r, &err);
    if (st == QN_OK)
        st = qn_session_plan_cached(r->session, r->bound.tensors,
                                    &r->plan, &err);
    if (st == QN_OK) {
        planned(r);
    } else if (st != QN_NOT_READY) {
        fail(r, &err);
    } else if (r->x->suspended) {
        plan_on_worker(r);
    } else {
        qn_exchange_suspend(r->x);
        r->job = (qn_job){ .fn = plan_on_worker, .arg = r };
        qn_runtime_post(r->server->runtime, &r->job);
    }
}

static void prepare_job(void *arg)
{
    prepare(arg);
}

/* ---- the start, on an HTTP thread ---- */

static bool says(const char *header, const char *type)
{
    size_t len = strlen(type);
    return header && !strncasecmp(header, type, len) &&
           (!header[len] || strchr("; ,", header[len]));
}

static bool is_true(const char *query)
{
    return query && (!*query || !strcmp(query, "1") || !strcmp(query, "true"));
}

static qn_status read_deadline(qn_request *r, qn_error *err)
{
    const char *text = qn_exchange_header(r->x, "X-Quern-Deadline-Ms");
    int64_t ms = r->server->o.deadline_ms;
    if (text) {
        char *end;
        ms = strtoll(text, &end, 10);
        if (end == text || *end || ms < 1 || ms > 86400000)
            return qn_fail(err, QN_INVALID,
                           "X-Quern-Deadline-Ms: expected 1 to 86400000");
    }
    if (ms)
        r->deadline_ns = r->x->started_ns + (uint64_t)ms * 1000000u;
    return QN_OK;
}

static qn_status read_headers(qn_request *r, unsigned *status, qn_error *err)
{
    qn_exchange *x = r->x;
    const char *coding = qn_exchange_header(x, "Content-Encoding");
    const char *nan = qn_exchange_query(x, "nan");
    *status = 0;
    if (coding && *coding && strcasecmp(coding, "identity")) {
        *status = 415;
        return qn_fail(err, QN_UNSUPPORTED,
                       "Content-Encoding '%.40s' is not understood", coding);
    }
    if (nan && strcmp(nan, "token") && strcmp(nan, "string"))
        return qn_fail(err, QN_INVALID, "nan: expected token or string");
    r->nan_tokens = nan ? !strcmp(nan, "token") : r->server->o.nan_tokens;
    r->nested = is_true(qn_exchange_query(x, "nested"));
    r->npy_in = says(qn_exchange_header(x, "Content-Type"), "application/x-npy");
    r->npy_out = says(qn_exchange_header(x, "Accept"), "application/x-npy");
    return read_deadline(r, err);
}

static void begin(qn_exchange *x, qn_server *server, bool validate)
{
    qn_error err = { 0 };
    unsigned status;
    qn_served *model = NULL;
    qn_replica *replica = NULL;
    snprintf(x->model, sizeof x->model, "%s", x->param[0]);
    if (qn_models_get(server->models, x->param[0], x->param[1], &model, &err) !=
        QN_OK) {
        qn_server_answer_error(server, x, &err);
        return;
    }
    x->metrics = model->metrics;
    snprintf(x->version, sizeof x->version, "%s", model->version);
    replica = qn_replica_choose(model->replicas, model->n_replicas, &err);
    qn_request *r = replica ? qn_calloc(1, sizeof *r) : NULL;
    if (!r) {
        if (replica)
            (void)!qn_fail(&err, QN_NO_MEMORY, "out of memory");
        else
            (void)qn_devices_look(server, NULL);
        qn_replica_release(replica);
        qn_served_release(model);
        qn_server_answer_error(server, x, &err);
        return;
    }
    r->server = server;
    r->x = x;
    r->model = model;
    r->replica = replica;
    r->session = replica->session;
    r->validate = validate;
    atomic_init(&r->refs, 1);
    atomic_fetch_add(&server->inferring, 1);
    x->user = r;
    x->release = release;
    if (read_headers(r, &status, &err) != QN_OK) {
        if (status)
            qn_answer_fault(x, status, &err);
        else
            qn_server_answer_error(server, x, &err);
    } else if (x->body_len > INLINE_BODY) {
        qn_exchange_suspend(x);
        r->job = (qn_job){ .fn = prepare_job, .arg = r };
        qn_runtime_post(server->runtime, &r->job);
    } else {
        prepare(r);
    }
}

void qn_handle_infer(qn_exchange *x, void *server)
{
    begin(x, server, false);
}

void qn_handle_validate(qn_exchange *x, void *server)
{
    begin(x, server, true);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A run: lease, start, completion. No heap call between lease and completion
 * once a lane exists for it. */
#include "runtime/base/clock.h"
#include "runtime/exec/launch.h"
#include "runtime/exec/queues.h"
#include "runtime/exec/session_impl.h"

#include <stddef.h>
#include <string.h>

void qn_run_init(qn_run *run, qn_session *session, qn_plan *plan)
{
    memset(run, 0, sizeof *run);
    run->session = session;
    run->plan = plan;
    atomic_fetch_add(&plan->refs, 1);
    atomic_init(&run->cancel, false);
}

qn_tensor qn_run_input(const qn_run *run, uint32_t i)
{
    const qn_plan *plan = run->plan;
    const qn_exec *e = run->exec;
    const qn_pvalue *v = &plan->values[plan->in_values[i]];
    if (v->addr.base != plan->base_io + i)
        return (qn_tensor){ 0 }; /* left out: its default is used */
    qn_tensor t = v->t;
    t.data = qn_exec_address(e, v->addr);
    return t;
}

qn_tensor qn_run_output(const qn_run *run, uint32_t i)
{
    const qn_plan *plan = run->plan;
    const qn_exec *e = run->exec;
    const qn_pvalue *v = &plan->values[plan->out_values[i]];
    qn_tensor t = v->t;
    if (v->dynamic != QN_NOT_DYNAMIC)
        t.shape = e->shapes[v->dynamic];
    t.data = qn_exec_address(e, v->addr);
    return t;
}

/* ---- lanes ---- */

qn_status qn_lane_new(qn_runtime *rt, qn_lane **out, qn_error *err)
{
    *out = NULL;
    qn_lane *lane = qn_calloc(1, sizeof *lane);
    if (!lane)
        return qn_fail(err, QN_NO_MEMORY, "no memory for a stream");
    qn_status st = rt->cpu->ops->stream_new(rt->cpu, &lane->stream, err);
    if (st != QN_OK) {
        qn_free(lane);
        return st;
    }
    *out = lane;
    return QN_OK;
}

qn_lane *qn_lane_take(qn_runtime *rt, qn_error *err)
{
    pthread_mutex_lock(&rt->lock);
    qn_lane *lane = rt->lanes;
    if (lane)
        rt->lanes = lane->next;
    pthread_mutex_unlock(&rt->lock);
    if (lane)
        return lane;
    return qn_lane_new(rt, &lane, err) == QN_OK ? lane : NULL;
}

void qn_lane_give(qn_runtime *rt, qn_lane *lane)
{
    pthread_mutex_lock(&rt->lock);
    lane->next = rt->lanes;
    rt->lanes = lane;
    pthread_mutex_unlock(&rt->lock);
}

/* ---- running ---- */

static void run_steps(qn_run *run, qn_team *team)
{
    run->times.first_launch_ns = qn_clock_ns();
    run->status = qn_exec_steps(run, team);
    run->times.done_ns = qn_clock_ns();
}

static void on_worker(void *arg, qn_team *team)
{
    qn_run *run = arg;
    qn_runtime *rt = run->session->runtime;
    qn_lane *lane = run->lane;
    run_steps(run, team);
    run->done(run, run->done_arg); /* the run may be gone after this */
    qn_lane_give(rt, lane);
}

static qn_issue *issue_of(const qn_run *run)
{
    return ((qn_exec *)run->exec)->issue;
}

/* The run, and its session, may be gone after this. Its devices' lanes go back
 * then, since done() may have to be quick with what it was called for. */
static void report(qn_run *run)
{
    qn_device_lane *held[QN_SESSION_ACCELS];
    qn_accel_slot *slots[QN_SESSION_ACCELS];
    uint32_t n = issue_of(run) ? issue_of(run)->n_held : 0;
    if (n) {
        memcpy(held, issue_of(run)->held, sizeof held);
        memcpy(slots, run->session->accels, sizeof slots);
    }
    run->done(run, run->done_arg);
    for (uint32_t i = 0; i < n; i++)
        qn_device_lane_give(slots[i], held[i]);
}

/* A stream of the host's workers, and this is the first work on it. */
static void start_on_host(qn_run *run, qn_work_fn fn)
{
    qn_lane *lane = qn_lane_take(run->session->runtime, &run->error);
    run->lane = lane;
    if (!lane) {
        run->status = run->error.status;
        report(run);
        return;
    }
    /* a lane is idle, so its queue cannot be full */
    (void)lane->stream->device->ops->submit(lane->stream, fn, run);
}

/* ---- on accelerators ---- */

static void walk(void *arg, qn_team *team);

static void walk_on(qn_run *run)
{
    qn_lane *lane = run->lane;
    (void)lane->stream->device->ops->submit(lane->stream, walk, run);
}

static void walk(void *arg, qn_team *team)
{
    qn_run *run = arg;
    qn_runtime *rt = run->session->runtime;
    qn_lane *lane = run->lane;
    if (!run->times.first_launch_ns)
        run->times.first_launch_ns = qn_clock_ns();
    if (!qn_issue_steps(run, team, walk_on))
        return; /* not even a look at it: it may go on already */
    run->times.done_ns = qn_clock_ns();
    report(run);
    qn_lane_give(rt, lane);
}

/* Lanes are taken in the devices' order, so runs cannot wait for each other in a
 * circle. */
static void take_lanes(qn_run *run);

static void lane_granted(qn_lane_wait *wait, qn_device_lane *lane)
{
    qn_issue *q = (qn_issue *)(void *)((char *)wait - offsetof(qn_issue, wait));
    qn_run *run = q->notice.arg; /* parked there */
    q->held[q->n_held++] = lane;
    take_lanes(run);
}

static void take_lanes(qn_run *run)
{
    qn_issue *q = issue_of(run);
    q->wait.granted = lane_granted;
    q->notice.arg = run;
    while (q->n_held + 1 < run->plan->n_spaces) {
        qn_device_lane *lane = qn_device_lane_take(
            run->session->accels[q->n_held], &q->wait);
        if (!lane)
            return;
        q->held[q->n_held++] = lane;
    }
    for (uint32_t i = 0; i < q->n_held; i++)
        q->lanes[i] = q->held[i]->alane;
    start_on_host(run, walk);
}

void qn_run_start(qn_run *run, qn_run_done done, void *arg)
{
    run->done = done;
    run->done_arg = arg;
    run->times.started_ns = qn_clock_ns();
    if (issue_of(run))
        take_lanes(run);
    else if (((qn_exec *)run->exec)->queues)
        qn_queues_start(run);
    else
        start_on_host(run, on_worker);
}

/* A run that has to be waited for. */
typedef struct waited {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool done;
} waited;

static void on_done(qn_run *run, void *arg)
{
    waited *w = arg;
    (void)run;
    pthread_mutex_lock(&w->lock);
    w->done = true;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->lock);
}

static void start_and_wait(qn_run *run)
{
    waited w = { .done = false };
    pthread_mutex_init(&w.lock, NULL);
    pthread_cond_init(&w.cond, NULL);
    qn_run_start(run, on_done, &w);
    pthread_mutex_lock(&w.lock);
    while (!w.done)
        pthread_cond_wait(&w.cond, &w.lock);
    pthread_mutex_unlock(&w.lock);
    pthread_cond_destroy(&w.cond);
    pthread_mutex_destroy(&w.lock);
}

bool qn_run_is_simple(const qn_run *run)
{
    return run->plan->n_spaces == 1 && run->plan->n_queues <= 1;
}

qn_status qn_run_sync(qn_run *run, qn_error *err)
{
    run->times.started_ns = qn_clock_ns();
    if (!qn_run_is_simple(run))
        start_and_wait(run);
    else
        run_steps(run, qn_cpu_device_team(run->session->runtime->cpu));
    if (run->status != QN_OK && err)
        *err = run->error;
    return run->status;
}

void qn_run_cancel(qn_run *run)
{
    atomic_store_explicit(&run->cancel, true, memory_order_relaxed);
}

void qn_run_release(qn_run *run)
{
    if (!run->plan)
        return;
    if (run->leased) /* it may be waiting */
        (void)qn_run_lease_cancel(run);
    qn_lease_release(run);
    qn_plan_release(run->plan);
    run->plan = NULL;
    run->exec = NULL;
}

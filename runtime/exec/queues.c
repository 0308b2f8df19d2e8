/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run on several of the host's queues: each is walked by itself, as work on a
 * stream of its own. A walk that has to wait for another ends, and is started
 * again by whoever makes the progress that it waits for: one worker can serve
 * any number of queues, and no thread waits.
 */
#include "runtime/exec/queues.h"

#include "runtime/base/clock.h"

#include <string.h>

size_t qn_queues_bytes(const qn_plan *plan)
{
    return plan->n_queues > 1 && plan->n_spaces == 1
               ? sizeof(qn_queues) + plan->n_queues * sizeof(qn_walk) : 0;
}

static qn_queues *queues_of(const qn_run *run)
{
    return ((qn_exec *)run->exec)->queues;
}

static void walk(void *arg, qn_team *team);

static void submit(qn_walk *w)
{
    qn_stream *stream = w->lane->stream;
    (void)stream->device->ops->submit(stream, walk, w);
}

/* Under the lock. */
static bool reached(const qn_queues *m, const qn_plan_record *r)
{
    return m->failed || m->walks[r->queue].done >= r->given;
}

/* False: it waits, and will be started again. */
static bool may_start(qn_walk *w, const qn_step *s)
{
    const qn_plan *plan = w->run->plan;
    qn_queues *m = queues_of(w->run);
    bool go = true;
    if (!s->n_waits)
        return true;
    pthread_mutex_lock(&m->lock);
    for (uint32_t k = 0; go && k < s->n_waits; k++)
        if (!reached(m, &plan->records[s->waits[k]])) {
            w->waits_for = &plan->records[s->waits[k]];
            go = false;
        }
    pthread_mutex_unlock(&m->lock);
    return go;
}

/* One more step of the queue has ended, or the run has failed: who waited for
 * that goes on. */
static void progress(qn_walk *w, qn_status st, uint32_t step)
{
    qn_queues *m = queues_of(w->run);
    qn_walk *ready[QN_PLAN_QUEUES];
    uint32_t n = 0;
    pthread_mutex_lock(&m->lock);
    if (st == QN_OK) {
        w->done++;
    } else if (!m->failed || step < m->failed_step) {
        m->failed = true; /* of several faults the earliest step's is told */
        m->failed_step = step;
        w->run->status = st;
        w->run->error = w->error;
    }
    for (uint32_t q = 0; q < w->run->plan->n_queues; q++) {
        qn_walk *other = &m->walks[q];
        if (other->waits_for && reached(m, other->waits_for)) {
            other->waits_for = NULL;
            ready[n++] = other;
        }
    }
    pthread_mutex_unlock(&m->lock);
    for (uint32_t i = 0; i < n; i++)
        submit(ready[i]);
}

static bool failed(qn_queues *m)
{
    pthread_mutex_lock(&m->lock);
    bool f = m->failed;
    pthread_mutex_unlock(&m->lock);
    return f;
}

/* The walk's last act. The last of all reports. */
static void leave(qn_walk *w)
{
    qn_run *run = w->run;
    qn_queues *m = queues_of(run);
    qn_lane *lanes[QN_PLAN_QUEUES];
    uint32_t n = run->plan->n_queues;
    qn_runtime *rt = run->session->runtime;
    pthread_mutex_lock(&m->lock);
    bool last = ++m->left == n;
    pthread_mutex_unlock(&m->lock);
    if (!last)
        return;
    for (uint32_t q = 0; q < n; q++)
        lanes[q] = m->walks[q].lane;
    pthread_mutex_destroy(&m->lock);
    run->times.done_ns = qn_clock_ns();
    run->done(run, run->done_arg); /* the run may be gone after this */
    for (uint32_t q = 0; q < n; q++)
        qn_lane_give(rt, lanes[q]);
}

static void walk(void *arg, qn_team *team)
{
    qn_walk *w = arg;
    qn_run *run = w->run;
    const qn_plan *plan = run->plan;
    for (; w->at < plan->n_steps; w->at++) {
        const qn_step *s = &plan->steps[w->at];
        uint32_t next;
        if (s->queue != w->queue)
            continue;
        if (!may_start(w, s))
            return; /* not even a look at it: it may go on already */
        if (failed(queues_of(run)))
            break;
        qn_status st = qn_exec_may_go_on(run, &w->error);
        if (st == QN_OK)
            st = qn_exec_step(run, w->at, team, &next);
        progress(w, st, w->at);
    }
    leave(w);
}

void qn_queues_start(qn_run *run)
{
    qn_queues *m = queues_of(run);
    const qn_plan *plan = run->plan;
    qn_status st = QN_OK;
    uint32_t n = 0;
    memset(m, 0, qn_queues_bytes(plan));
    for (; st == QN_OK && n < plan->n_queues; n++) {
        m->walks[n] = (qn_walk){ .run = run, .queue = n };
        m->walks[n].lane = qn_lane_take(run->session->runtime, &run->error);
        if (!m->walks[n].lane) {
            st = run->error.status;
            break;
        }
    }
    if (st != QN_OK) {
        while (n-- > 0)
            qn_lane_give(run->session->runtime, m->walks[n].lane);
        run->status = st;
        run->done(run, run->done_arg);
        return;
    }
    pthread_mutex_init(&m->lock, NULL);
    run->status = QN_OK;
    run->times.first_launch_ns = qn_clock_ns();
    /* the run may be over, and gone, as soon as the last one is submitted */
    for (uint32_t q = 0, all = plan->n_queues; q < all; q++)
        submit(&m->walks[q]);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who notices that events have been reached: one thread a device.
 *
 * New notices come through a locked list; the thread keeps those it waits for in
 * a list of its own, in order of arrival, and asks about all of them in turn,
 * since lanes overtake each other. Callbacks of the driver are no alternative:
 * they hold up the stream they are in, and may not call the driver.
 *
 * Between two rounds it waits, cheaper the longer nothing has happened:
 *
 *   under 50 us   not at all: small models answer sooner than a thread wakes up
 *   one lane      in the driver, for the oldest; nothing can overtake it. Not
 *                 where collectives may wait for a device that gets lost
 *   more lanes    asleep for a sixteenth of the time that has passed, 50 us to
 *                 1 ms: an answer is late by at most 6 %, a new notice wakes it.
 *                 Waiting in the driver here would hold up a run of 1 ms on
 *                 one lane behind one of 100 ms on another.
 */
#include "runtime/cuda/lane.h"

#include "runtime/base/clock.h"

#include <sched.h>
#include <time.h>

enum { HOT_NS = 50000, NAP_MOST_NS = 1000000, NAP_PART = 16 };

typedef struct waiting {
    qn_notice *first, **last;
} waiting;

/* ---- the thread ---- */

/* QN_OK: reached; QN_DEVICE_LOST: never will be; QN_BUSY: not yet. */
static qn_status state_of(qn_cuda_device *d, const qn_notice *n)
{
    qn_error err = { 0 };
    if (qn_cuda_dead(d))
        return QN_DEVICE_LOST;
    CUevent event = qn_cuda_event(n->lane, n->event);
    if (!event)
        return QN_OK; /* nothing was ever recorded */
    CUresult r = d->cu.event_query(event);
    if (r == CUDA_SUCCESS)
        return QN_OK;
    if (r == CUDA_ERROR_NOT_READY)
        return QN_BUSY;
    if (qn_cuda_check(d, r, &err, "asking for an event") != QN_DEVICE_LOST)
        qn_logf(&d->log, QN_LOG_ERROR, "%s", err.text);
    return QN_DEVICE_LOST;
}

/* One round over all; true if any was answered. A notice is its caller's again
 * as soon as its function is called. */
static bool sweep(qn_cuda_device *d, waiting *w)
{
    bool any = false;
    for (qn_notice **at = &w->first; *at;) {
        qn_notice *n = *at;
        qn_status st = state_of(d, n);
        if (st == QN_BUSY) {
            at = &n->next;
            continue;
        }
        *at = n->next;
        if (w->last == &n->next)
            w->last = at;
        n->fn(n->arg, st);
        any = true;
    }
    return any;
}

static void after(struct timespec *t, uint64_t ns)
{
    clock_gettime(CLOCK_MONOTONIC, t);
    ns += (uint64_t)t->tv_nsec;
    t->tv_sec += (time_t)(ns / 1000000000u);
    t->tv_nsec = (long)(ns % 1000000000u);
}

/* Move what is new behind what waits; with nothing of either, sleep until there
 * is; else for `nap` at most. False: time to end. */
static bool collect(qn_cuda_reaper *r, waiting *w, uint64_t nap, bool *fresh)
{
    struct timespec until;
    pthread_mutex_lock(&r->lock);
    while (!w->first && !r->first && !r->stop)
        pthread_cond_wait(&r->work, &r->lock);
    if (nap && !r->first && !r->stop) {
        after(&until, nap);
        (void)pthread_cond_timedwait(&r->work, &r->lock, &until);
    }
    *fresh = r->first != NULL;
    if (r->first) {
        *w->last = r->first;
        w->last = r->last;
        r->first = NULL;
        r->last = &r->first;
    }
    bool go_on = !r->stop || w->first;
    pthread_mutex_unlock(&r->lock);
    return go_on;
}

static uint64_t nap_for(uint64_t passed)
{
    uint64_t ns = passed / NAP_PART;
    return ns < HOT_NS ? HOT_NS : ns > NAP_MOST_NS ? NAP_MOST_NS : ns;
}

/* In the driver until the oldest is reached; what came of it shows in the next
 * round. */
static void block(qn_cuda_device *d, const waiting *w)
{
    CUevent event = qn_cuda_event(w->first->lane, w->first->event);
    if (event)
        qn_cuda_note(d, d->cu.event_sync(event), "waiting for an event");
}

static void *reap(void *arg)
{
    qn_cuda_device *d = arg;
    waiting w = { .first = NULL };
    bool fresh = false;
    uint64_t nap = 0, since = 0;
    w.last = &w.first;
    (void)d->cu.context_set(d->context);
    while (collect(&d->reaper, &w, nap, &fresh)) {
        uint64_t now = qn_clock_ns();
        if (fresh)
            since = now;
        if (sweep(d, &w))
            since = qn_clock_ns();
        nap = 0;
        bool hot = now < since + HOT_NS;
        bool peers = qn_cuda_comms_look(d, w.first && !hot);
        if (!w.first)
            continue;
        if (hot)
            sched_yield();
        else if (atomic_load(&d->lanes) <= 1 && !peers)
            block(d, &w);
        else
            nap = nap_for(now - since);
    }
    return NULL;
}

/* ---- the others ---- */

void qn_cuda_notify(qn_alane *lane, uint32_t event, qn_notice *notice)
{
    qn_cuda_reaper *r = &lane->device->reaper;
    notice->lane = lane;
    notice->event = event;
    notice->next = NULL;
    pthread_mutex_lock(&r->lock);
    *r->last = notice;
    r->last = &notice->next;
    pthread_cond_signal(&r->work);
    pthread_mutex_unlock(&r->lock);
}

qn_status qn_cuda_reaper_start(qn_cuda_device *d, qn_error *err)
{
    qn_cuda_reaper *r = &d->reaper;
    r->last = &r->first;
    if (pthread_create(&r->thread, NULL, reap, d) != 0)
        return qn_fail(err, QN_NO_MEMORY, "%s: no thread to watch events",
                       d->base.label);
    r->started = true;
    return QN_OK;
}

void qn_cuda_reaper_stop(qn_cuda_device *d)
{
    qn_cuda_reaper *r = &d->reaper;
    if (!r->started)
        return;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_signal(&r->work);
    pthread_mutex_unlock(&r->lock);
    (void)pthread_join(r->thread, NULL);
    r->started = false;
}

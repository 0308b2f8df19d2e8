/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cpu device: workers that drain streams.
 *
 *   ready ─► stream ─► stream ─► job ─► ...      one FIFO of runnable things
 *              │
 *              └ ring of commands: run, run, wait, run
 *
 * A stream is in `ready`, or on a worker, or parked (empty, or its next command
 * waits for an event). A worker takes one, runs commands until the stream is
 * parked, and takes the next; so a wait never holds a thread, and one worker
 * serves any acyclic set of waits.
 *
 * A launch can share its loop with idle workers: it publishes a loop (struct
 * loop), they take pieces of it. The caller takes part and never waits for a
 * worker that has not started a piece, so a descheduled or busy worker costs
 * nothing. Idle workers look for work for SPIN_NS before they sleep: waking a
 * thread costs 5 us and more, a chain of kernels has gaps of about 1 us.
 *
 * Locks: `lock` guards all queues and stream states. It is held for a few
 * instructions and never while work runs. Loops use atomics; joining one and
 * taking it back are under `lock`.
 */
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/device/device.h"
#include "runtime/exec/session.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

enum { RING = 64, MAX_WORKERS = 256, SPIN_NS = 20000, PIECES_PER_THREAD = 4 };

typedef struct cpu_device cpu_device;

typedef struct command {
    qn_work_fn fn; /* NULL: wait for the event */
    void *arg;
    qn_event event;
} command;

typedef struct cpu_stream {
    qn_stream base;
    struct cpu_stream *next; /* in `ready`, or in the waiters of an event */
    struct cpu_stream *waiters; /* streams parked on an event of this one */
    bool active; /* queued in `ready` or on a worker */
    uint64_t enqueued; /* epoch after the last command */
    atomic_uint_least64_t reached;
    unsigned head, count;
    command ring[RING];
} cpu_stream;

static_assert(offsetof(cpu_stream, base) == 0, "base comes first");

typedef struct loop {
    qn_piece_fn fn;
    void *arg;
    int64_t n, piece;
    atomic_int_least64_t next;
    int joined; /* thread numbers given out; under lock */
    atomic_int running;
    struct loop *below; /* the list of open loops */
} loop;

struct qn_team {
    cpu_device *device;
};

struct cpu_device {
    qn_device base;
    struct qn_team team;
    pthread_mutex_t lock;
    pthread_cond_t wake;   /* something is ready, or a loop is open */
    pthread_cond_t drained; /* a loop's last helper has left */
    cpu_stream *ready_head, *ready_tail;
    qn_job *jobs_head, *jobs_tail;
    loop *loops;
    atomic_uint signal_count; /* bumped when work appears: what spinners watch */
    atomic_int idle;          /* workers without work */
    int sleeping;
    bool stop, job_turn;
    int n_threads;
    pthread_t threads[MAX_WORKERS];
};

static_assert(offsetof(cpu_device, base) == 0, "base comes first");

/* ---- queues, all under lock ---- */

static void announce(cpu_device *d)
{
    atomic_fetch_add_explicit(&d->signal_count, 1, memory_order_release);
    if (d->sleeping)
        pthread_cond_signal(&d->wake);
}

static void push_ready(cpu_device *d, cpu_stream *s)
{
    s->active = true;
    s->next = NULL;
    if (d->ready_tail)
        d->ready_tail->next = s;
    else
        d->ready_head = s;
    d->ready_tail = s;
    announce(d);
}

static cpu_stream *pop_ready(cpu_device *d)
{
    cpu_stream *s = d->ready_head;
    if (s) {
        d->ready_head = s->next;
        if (!d->ready_head)
            d->ready_tail = NULL;
        s->next = NULL;
    }
    return s;
}

static bool reached(const qn_event *e)
{
    const cpu_stream *s = (const cpu_stream *)(const void *)e->stream;
    return !e->epoch ||
           atomic_load_explicit(&s->reached, memory_order_acquire) >= e->epoch;
}

/* One command has ended: advance the epoch and revive streams that waited. */
static void advance(cpu_device *d, cpu_stream *s)
{
    atomic_fetch_add_explicit(&s->reached, 1, memory_order_release);
    cpu_stream *w = s->waiters;
    s->waiters = NULL;
    while (w) {
        cpu_stream *next = w->next;
        push_ready(d, w); /* parks itself again if its epoch is still ahead */
        w = next;
    }
}

/* ---- workers ---- */

/* Drain one stream until it is empty or blocked. Enters and leaves locked. */
static void drain(cpu_device *d, cpu_stream *s)
{
    while (s->count) {
        command c = s->ring[s->head];
        if (!c.fn && !reached(&c.event)) {
            cpu_stream *on = (cpu_stream *)(void *)c.event.stream;
            s->active = false;
            s->next = on->waiters;
            on->waiters = s;
            return;
        }
        if (c.fn) {
            pthread_mutex_unlock(&d->lock);
            c.fn(c.arg, &d->team);
            pthread_mutex_lock(&d->lock);
        }
        s->head = (s->head + 1) % RING;
        s->count--;
        advance(d, s);
    }
    s->active = false;
}

static void run_pieces(loop *l, int thread)
{
    for (;;) {
        int64_t at = atomic_fetch_add_explicit(&l->next, l->piece,
                                               memory_order_relaxed);
        if (at >= l->n)
            return;
        l->fn(l->arg, at, l->n - at < l->piece ? l->n : at + l->piece, thread);
    }
}

/* Join an open loop that has pieces left; under lock, drops it while working. */
static bool help(cpu_device *d)
{
    for (loop *l = d->loops; l; l = l->below) {
        if (l->joined >= d->n_threads ||
            atomic_load_explicit(&l->next, memory_order_relaxed) >= l->n)
            continue;
        int thread = l->joined++;
        atomic_fetch_add_explicit(&l->running, 1, memory_order_relaxed);
        pthread_mutex_unlock(&d->lock);
        run_pieces(l, thread);
        pthread_mutex_lock(&d->lock);
        if (atomic_fetch_sub_explicit(&l->running, 1, memory_order_acq_rel) == 1)
            pthread_cond_broadcast(&d->drained);
        return true;
    }
    return false;
}

static bool work_once(cpu_device *d)
{
    if (help(d))
        return true;
    d->job_turn = !d->job_turn; /* neither jobs nor streams starve */
    if (d->jobs_head && (d->job_turn || !d->ready_head)) {
        qn_job *job = d->jobs_head;
        d->jobs_head = job->next;
        if (!d->jobs_head)
            d->jobs_tail = NULL;
        pthread_mutex_unlock(&d->lock);
        job->fn(job->arg);
        pthread_mutex_lock(&d->lock);
        return true;
    }
    cpu_stream *s = pop_ready(d);
    if (s)
        drain(d, s);
    return s != NULL;
}

/* Locked on entry and exit; returns when there may be work. */
static void rest(cpu_device *d)
{
    unsigned seen = atomic_load_explicit(&d->signal_count, memory_order_acquire);
    atomic_fetch_add_explicit(&d->idle, 1, memory_order_relaxed);
    pthread_mutex_unlock(&d->lock);
    uint64_t until = qn_clock_ns() + SPIN_NS;
    bool found = false;
    do {
        for (int i = 0; i < 64 && !found; i++) {
            found = atomic_load_explicit(&d->signal_count,
                                         memory_order_acquire) != seen;
            __builtin_ia32_pause();
        }
    } while (!found && qn_clock_ns() < until);
    pthread_mutex_lock(&d->lock);
    if (atomic_load_explicit(&d->signal_count, memory_order_acquire) == seen &&
        !d->stop) {
        d->sleeping++;
        pthread_cond_wait(&d->wake, &d->lock);
        d->sleeping--;
    }
    atomic_fetch_sub_explicit(&d->idle, 1, memory_order_relaxed);
}

static void *worker(void *arg)
{
    cpu_device *d = arg;
    pthread_mutex_lock(&d->lock);
    for (;;) {
        if (work_once(d))
            continue;
        if (d->stop)
            break;
        rest(d);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

void qn_parallel(qn_team *team, int64_t n, int64_t grain, qn_piece_fn fn,
                 void *arg)
{
    cpu_device *d = team ? team->device : NULL;
    if (n <= 0)
        return;
    if (grain < 1)
        grain = 1;
    if (!d || d->n_threads < 2 || n <= grain ||
        !atomic_load_explicit(&d->idle, memory_order_relaxed)) {
        fn(arg, 0, n, 0);
        return;
    }
    int64_t piece = n / ((int64_t)d->n_threads * PIECES_PER_THREAD);
    loop l = { .fn = fn, .arg = arg, .n = n,
               .piece = piece > grain ? piece : grain, .joined = 1 };
    pthread_mutex_lock(&d->lock);
    l.below = d->loops;
    d->loops = &l;
    announce(d);
    pthread_mutex_unlock(&d->lock);
    run_pieces(&l, 0);
    pthread_mutex_lock(&d->lock);
    loop **at = &d->loops;
    while (*at != &l)
        at = &(*at)->below;
    *at = l.below;
    while (atomic_load_explicit(&l.running, memory_order_acquire))
        pthread_cond_wait(&d->drained, &d->lock);
    pthread_mutex_unlock(&d->lock);
}

/* ---- the table ---- */

static cpu_device *device_of(const qn_stream *s)
{
    return (cpu_device *)(void *)s->device;
}

static qn_status cpu_stream_new(qn_device *device, qn_stream **out,
                                qn_error *err)
{
    cpu_stream *s = qn_calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return qn_fail(err, QN_NO_MEMORY, "no memory for a stream");
    s->base.device = device;
    *out = &s->base;
    return QN_OK;
}

static void cpu_stream_free(qn_stream *stream)
{
    qn_free(stream);
}

static qn_status enqueue(qn_stream *stream, command c)
{
    cpu_stream *s = (cpu_stream *)(void *)stream;
    cpu_device *d = device_of(stream);
    qn_status st = QN_OK;
    pthread_mutex_lock(&d->lock);
    if (s->count == RING) {
        st = QN_BUSY;
    } else {
        s->ring[(s->head + s->count) % RING] = c;
        s->count++;
        s->enqueued++;
        /* count 1 and not active: it was parked empty. A stream that is parked
         * on an event has its wait as first command, and comes back by it. */
        if (s->count == 1 && !s->active)
            push_ready(d, s);
    }
    pthread_mutex_unlock(&d->lock);
    return st;
}

static qn_status cpu_submit(qn_stream *stream, qn_work_fn fn, void *arg)
{
    return enqueue(stream, (command){ .fn = fn, .arg = arg });
}

static qn_status cpu_wait(qn_stream *stream, qn_event event)
{
    return enqueue(stream, (command){ .event = event });
}

static qn_event cpu_record(qn_stream *stream)
{
    cpu_stream *s = (cpu_stream *)(void *)stream;
    cpu_device *d = device_of(stream);
    pthread_mutex_lock(&d->lock);
    qn_event e = { stream, s->enqueued };
    pthread_mutex_unlock(&d->lock);
    return e;
}

static bool cpu_query(qn_event event)
{
    return reached(&event);
}

static int cpu_max_threads(const qn_device *device)
{
    return ((const cpu_device *)(const void *)device)->n_threads;
}

static void cpu_free(qn_device *device)
{
    cpu_device *d = (cpu_device *)(void *)device;
    pthread_mutex_lock(&d->lock);
    d->stop = true;
    atomic_fetch_add(&d->signal_count, 1);
    pthread_cond_broadcast(&d->wake);
    pthread_mutex_unlock(&d->lock);
    for (int i = 0; i < d->n_threads; i++)
        pthread_join(d->threads[i], NULL);
    pthread_cond_destroy(&d->wake);
    pthread_cond_destroy(&d->drained);
    pthread_mutex_destroy(&d->lock);
    qn_free(d);
}

static const struct qn_device_ops cpu_ops = {
    .name = "cpu",
    .free = cpu_free,
    .max_threads = cpu_max_threads,
    .stream_new = cpu_stream_new,
    .stream_free = cpu_stream_free,
    .submit = cpu_submit,
    .wait = cpu_wait,
    .record = cpu_record,
    .query = cpu_query,
};

qn_status qn_cpu_device_new(int threads, qn_device **out, qn_error *err)
{
    *out = NULL;
    if (threads <= 0)
        threads = qn_cpu_count();
    if (threads > MAX_WORKERS)
        threads = MAX_WORKERS;
    cpu_device *d = qn_calloc(1, sizeof *d);
    if (!d)
        return qn_fail(err, QN_NO_MEMORY, "no memory for the cpu device");
    d->base.ops = &cpu_ops;
    d->team.device = d;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->wake, NULL);
    pthread_cond_init(&d->drained, NULL);
    for (int i = 0; i < threads; i++) {
        if (pthread_create(&d->threads[i], NULL, worker, d) != 0) {
            cpu_free(&d->base);
            return qn_fail(err, QN_NO_MEMORY, "cannot start worker %d of %d",
                           i + 1, threads);
        }
        d->n_threads = i + 1;
    }
    *out = &d->base;
    return QN_OK;
}

void qn_cpu_device_post(qn_device *device, struct qn_job *job)
{
    cpu_device *d = (cpu_device *)(void *)device;
    job->next = NULL;
    pthread_mutex_lock(&d->lock);
    if (d->jobs_tail)
        d->jobs_tail->next = job;
    else
        d->jobs_head = job;
    d->jobs_tail = job;
    announce(d);
    pthread_mutex_unlock(&d->lock);
}

qn_team *qn_cpu_device_team(qn_device *device)
{
    return &((cpu_device *)(void *)device)->team;
}

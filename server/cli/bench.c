/* SPDX-License-Identifier: Apache-2.0 */
#include "server/cli/bench.h"

#include "runtime/base/alloc.h"
#include "server/cli/text.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct state {
    const qn_bench *bench;
    pthread_barrier_t ready;
    atomic_uint_fast64_t taken; /* runs handed out */
    atomic_uint_fast64_t done;
    atomic_bool stop;
    uint64_t end_ns; /* set before the barrier opens */
    pthread_mutex_t lock; /* guards status, error */
    qn_status status;
    qn_error error;
} state;

typedef struct worker {
    pthread_t thread;
    state *state;
    size_t index;
    uint64_t *ns; /* latencies */
    size_t n, cap;
} worker;

static void fail(state *s, qn_status status, const qn_error *err)
{
    pthread_mutex_lock(&s->lock);
    if (s->status == QN_OK) {
        s->status = status;
        s->error = *err;
    }
    pthread_mutex_unlock(&s->lock);
    atomic_store(&s->stop, true);
}

static bool keep(worker *w, uint64_t ns)
{
    if (w->n == w->cap) {
        size_t cap = w->cap ? w->cap * 2 : 4096;
        uint64_t *grown = qn_realloc(w->ns, cap, sizeof *grown);
        if (!grown)
            return false;
        w->ns = grown;
        w->cap = cap;
    }
    w->ns[w->n++] = ns;
    return true;
}

static void *work(void *arg)
{
    worker *w = arg;
    state *s = w->state;
    const qn_bench *b = s->bench;
    qn_error err = { 0 };
    qn_status st = QN_OK;
    for (uint64_t i = 0; i < b->warmup && st == QN_OK; i++)
        st = b->call(b->arg, w->index, &err);
    if (st != QN_OK)
        fail(s, st, &err);
    pthread_barrier_wait(&s->ready); /* all are warm */
    pthread_barrier_wait(&s->ready); /* the clock runs */
    while (!atomic_load(&s->stop)) {
        if (b->runs && atomic_fetch_add(&s->taken, 1) >= b->runs)
            break;
        uint64_t t = qn_clock_ns();
        if (!b->runs && t >= s->end_ns)
            break;
        st = b->call(b->arg, w->index, &err);
        if (st == QN_OK && !keep(w, qn_clock_ns() - t))
            st = qn_fail(&err, QN_NO_MEMORY, "out of memory");
        if (st != QN_OK) {
            fail(s, st, &err);
            break;
        }
        atomic_fetch_add(&s->done, 1);
    }
    return NULL;
}

static int by_time(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Nearest-rank percentile of sorted samples. */
static double at(const uint64_t *ns, size_t n, double q)
{
    size_t k = (size_t)ceil(q * (double)n);
    return (double)ns[k ? k - 1 : 0] * 1e-6;
}

static qn_status summarise(worker *workers, size_t n_workers, double seconds,
                           qn_bench_result *out, qn_error *err)
{
    size_t n = 0, k = 0;
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n_workers; i++)
        n += workers[i].n;
    if (!n)
        return qn_fail(err, QN_INVALID, "no run ended in time");
    uint64_t *all = qn_calloc(n, sizeof *all);
    if (!all)
        return qn_fail(err, QN_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < n_workers; i++) {
        if (workers[i].n)
            memcpy(all + k, workers[i].ns, workers[i].n * sizeof *all);
        k += workers[i].n;
    }
    qsort(all, n, sizeof *all, by_time);
    for (size_t i = 0; i < n; i++)
        sum += (double)all[i] * 1e-6;
    double mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += pow((double)all[i] * 1e-6 - mean, 2);
    *out = (qn_bench_result){ .runs = n,
                              .seconds = seconds,
                              .min_ms = (double)all[0] * 1e-6,
                              .p50_ms = at(all, n, 0.5),
                              .p90_ms = at(all, n, 0.9),
                              .p99_ms = at(all, n, 0.99),
                              .max_ms = (double)all[n - 1] * 1e-6,
                              .mean_ms = mean,
                              .stddev_ms = sqrt(squares / (double)n),
                              .per_s = (double)n / seconds };
    qn_free(all);
    return QN_OK;
}

static void show_progress(state *s)
{
    qn_progress progress;
    const struct timespec pause = { .tv_nsec = 20000000 };
    qn_progress_init(&progress, "runs");
    while (progress.on && !atomic_load(&s->stop)) {
        uint64_t done = atomic_load(&s->done);
        bool over = s->bench->runs ? done >= s->bench->runs
                                   : qn_clock_ns() >= s->end_ns;
        if (over)
            break;
        qn_progress_show(&progress, done, s->bench->runs, "");
        nanosleep(&pause, NULL);
    }
    qn_progress_end(&progress);
}

qn_status qn_bench_run(const qn_bench *bench, qn_bench_result *out,
                       qn_error *err)
{
    state s = { .bench = bench };
    size_t n = bench->concurrency, started = 0;
    worker *workers = qn_calloc(n, sizeof *workers);
    if (!workers)
        return qn_fail(err, QN_NO_MEMORY, "out of memory");
    pthread_mutex_init(&s.lock, NULL);
    pthread_barrier_init(&s.ready, NULL, (unsigned)n + 1);
    for (; started < n; started++) {
        workers[started].state = &s;
        workers[started].index = started;
        if (pthread_create(&workers[started].thread, NULL, work,
                           &workers[started]))
            break;
    }
    if (started < n) {
        /* the barrier cannot open any more: the process is about to end */
        qn_status st = qn_fail(err, QN_IO, "only %zu of %zu threads could start",
                               started, n);
        return st;
    }
    pthread_barrier_wait(&s.ready);
    uint64_t t = qn_clock_ns();
    s.end_ns = t + (uint64_t)bench->duration_ms * 1000000u;
    pthread_barrier_wait(&s.ready);
    show_progress(&s);
    for (size_t i = 0; i < n; i++)
        pthread_join(workers[i].thread, NULL);
    double seconds = (double)(qn_clock_ns() - t) * 1e-9;
    qn_status st = s.status;
    if (st != QN_OK)
        *err = s.error;
    else
        st = summarise(workers, n, seconds, out, err);
    for (size_t i = 0; i < n; i++)
        qn_free(workers[i].ns);
    qn_free(workers);
    pthread_barrier_destroy(&s.ready);
    pthread_mutex_destroy(&s.lock);
    return st;
}

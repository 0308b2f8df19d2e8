/* SPDX-License-Identifier: Apache-2.0 */
#include "server/watch.h"

#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct qn_watch {
    int epoll, wake;
    bool half_close;
    pthread_t thread;
    pthread_mutex_t lock; /* guards all below and every entry's place */
    pthread_cond_t idle;  /* `active` has changed */
    qn_watched **heap;    /* by end_ns, smallest first */
    size_t n_heap, limit, n;
    qn_watched *active; /* whose fired() is running */
    bool stop;
};

/* ---- heap ---- */

static void put(qn_watch *w, size_t i, qn_watched *e)
{
    w->heap[i] = e;
    e->heap = i + 1;
}

static void sift_up(qn_watch *w, size_t i)
{
    qn_watched *e = w->heap[i];
    for (; i && w->heap[(i - 1) / 2]->end_ns > e->end_ns; i = (i - 1) / 2)
        put(w, i, w->heap[(i - 1) / 2]);
    put(w, i, e);
}

static void sift_down(qn_watch *w, size_t i)
{
    qn_watched *e = w->heap[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= w->n_heap)
            break;
        if (child + 1 < w->n_heap &&
            w->heap[child + 1]->end_ns < w->heap[child]->end_ns)
            child++;
        if (w->heap[child]->end_ns >= e->end_ns)
            break;
        put(w, i, w->heap[child]);
        i = child;
    }
    put(w, i, e);
}

static void heap_add(qn_watch *w, qn_watched *e)
{
    if (!e->end_ns)
        return;
    put(w, w->n_heap++, e);
    sift_up(w, w->n_heap - 1);
}

static void heap_remove(qn_watch *w, qn_watched *e)
{
    if (!e->heap)
        return;
    size_t i = e->heap - 1;
    qn_watched *last = w->heap[--w->n_heap];
    e->heap = 0;
    if (last == e)
        return;
    put(w, i, last);
    sift_up(w, i);
    sift_down(w, last->heap - 1);
}

/* ---- entries; under the lock ---- */

static void take_out(qn_watch *w, qn_watched *e)
{
    if (e->fd >= 0)
        epoll_ctl(w->epoll, EPOLL_CTL_DEL, e->fd, NULL);
    heap_remove(w, e);
    e->in = false;
    w->n--;
}

static void wake(qn_watch *w)
{
    uint64_t one = 1;
    ssize_t n = write(w->wake, &one, sizeof one);
    (void)n; /* a full counter wakes as well */
}

qn_status qn_watch_add(qn_watch *watch, qn_watched *entry)
{
    qn_status st = QN_OK;
    pthread_mutex_lock(&watch->lock);
    if (watch->n == watch->limit) {
        st = QN_BUSY;
    } else {
        struct epoll_event e = { .events = watch->half_close ? EPOLLRDHUP : 0,
                                 .data.ptr = entry };
        entry->in = true;
        entry->heap = 0;
        watch->n++;
        heap_add(watch, entry);
        /* a socket that cannot be watched is not: its request goes on */
        if (entry->fd >= 0 &&
            epoll_ctl(watch->epoll, EPOLL_CTL_ADD, entry->fd, &e))
            entry->fd = -1;
        if (entry->heap == 1)
            wake(watch);
    }
    pthread_mutex_unlock(&watch->lock);
    return st;
}

bool qn_watch_remove(qn_watch *watch, qn_watched *entry)
{
    pthread_mutex_lock(&watch->lock);
    if (!pthread_equal(pthread_self(), watch->thread))
        while (watch->active == entry)
            pthread_cond_wait(&watch->idle, &watch->lock);
    bool was_in = entry->in;
    if (was_in)
        take_out(watch, entry);
    pthread_mutex_unlock(&watch->lock);
    return was_in;
}

void qn_watch_set_end(qn_watch *watch, qn_watched *entry, uint64_t end_ns)
{
    pthread_mutex_lock(&watch->lock);
    if (entry->in) {
        heap_remove(watch, entry);
        entry->end_ns = end_ns;
        heap_add(watch, entry);
        if (entry->heap == 1)
            wake(watch);
    }
    pthread_mutex_unlock(&watch->lock);
}

/* ---- the thread ---- */

static void fire(qn_watch *w, qn_watched *e, qn_watch_why why)
{
    take_out(w, e);
    w->active = e;
    pthread_mutex_unlock(&w->lock);
    e->fired(e, why);
    pthread_mutex_lock(&w->lock);
    w->active = NULL;
    pthread_cond_broadcast(&w->idle);
}

/* Milliseconds to the next limit, rounded up; -1: none. */
static int next_wait(const qn_watch *w)
{
    if (!w->n_heap)
        return -1;
    uint64_t now = qn_clock_ns(), end = w->heap[0]->end_ns;
    uint64_t ms = end > now ? (end - now + 999999) / 1000000 : 0;
    return ms > 60000 ? 60000 : (int)ms;
}

static void *watch_thread(void *arg)
{
    qn_watch *w = arg;
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        /* One event at a time: an entry that is taken out meanwhile must not
         * be met again in a list that was fetched before. */
        struct epoll_event event;
        int wait = next_wait(w);
        pthread_mutex_unlock(&w->lock);
        int n = epoll_wait(w->epoll, &event, 1, wait);
        pthread_mutex_lock(&w->lock);
        if (n == 1 && !event.data.ptr) {
            uint64_t drained;
            ssize_t k = read(w->wake, &drained, sizeof drained);
            (void)k;
        } else if (n == 1) {
            /* It may have left between the two calls: ask again, now that
             * nobody can leave. */
            n = epoll_wait(w->epoll, &event, 1, 0);
            if (n == 1 && event.data.ptr)
                fire(w, event.data.ptr, QN_WATCH_GONE);
        }
        uint64_t now = qn_clock_ns();
        while (w->n_heap && w->heap[0]->end_ns <= now)
            fire(w, w->heap[0], QN_WATCH_TIME);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static void release(qn_watch *w)
{
    if (w->epoll >= 0)
        close(w->epoll);
    if (w->wake >= 0)
        close(w->wake);
    pthread_cond_destroy(&w->idle);
    pthread_mutex_destroy(&w->lock);
    qn_free(w->heap);
    qn_free(w);
}

qn_status qn_watch_new(size_t limit, bool half_close, qn_watch **out,
                       qn_error *err)
{
    *out = NULL;
    qn_watch *w = qn_calloc(1, sizeof *w);
    if (!w)
        return qn_fail(err, QN_NO_MEMORY, "out of memory");
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->idle, NULL);
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    w->limit = limit;
    w->half_close = half_close;
    w->heap = qn_calloc(limit, sizeof(qn_watched *));
    struct epoll_event e = { .events = EPOLLIN };
    if (w->epoll < 0 || w->wake < 0 || !w->heap ||
        epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->wake, &e) ||
        pthread_create(&w->thread, NULL, watch_thread, w)) {
        qn_status st = qn_fail(err, QN_IO, "the watcher could not start: %s",
                               strerror(errno));
        release(w);
        return st;
    }
    *out = w;
    return QN_OK;
}

void qn_watch_free(qn_watch *watch)
{
    if (!watch)
        return;
    pthread_mutex_lock(&watch->lock);
    watch->stop = true;
    wake(watch);
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
    release(watch);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lease passes through two steps:
 *
 *   reserve   under the lock: choose cached ranges to use again and cached
 *             bytes to give up, and move the ledger's numbers in one step.
 *             Decides everything; makes no system call.
 *   commit    without the lock: unmap what was given up, map what is new.
 *
 * What is given up counts as CACHE, or already as the new lease, until it is
 * unmapped, and the new mapping is made only afterwards: the bytes mapped never
 * exceed the bytes charged. Cached bytes are given up to the page (the tail of
 * a range goes, the rest stays), so hardly any are in transit that another
 * lease could have had.
 *
 * One allocator for all sizes, splitting and coalescing, was rejected: it
 * fragments, and then refuses a request while enough bytes are free. Here the
 * kernel's page tables do the coalescing. A mapping costs some microseconds
 * and its first touches a page fault each; the cache saves both in the steady
 * state, where sizes repeat.
 */
#include "runtime/memory/pool.h"

#include "runtime/base/alloc.h"
#include "runtime/base/checked.h"
#include "runtime/memory/pages.h"
#include "runtime/memory/pool_impl.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What a lease will be made of. */
struct reservation {
    size_t need[QN_LEASE_PARTS]; /* whole pages */
    size_t total;                /* their sum */
    qn_range reuse[QN_LEASE_PARTS];
    size_t charge[QN_LEASE_PARTS]; /* less than reuse.bytes: cut the tail */
    qn_cache_list evicted;
    size_t surplus; /* bytes to unmap that the lease does not use: CACHE */
};

/* ---- reserve ---- */

static bool slot_free(const qn_pool *pool, const qn_lease *lease)
{
    return !lease->slot || !pool->max_slots ||
           pool->state.slots < pool->max_slots;
}

/* Whole pages of each part; false when the sum does not fit a size_t. */
static bool measure(const qn_pool *pool, const qn_lease *lease,
                    struct reservation *res)
{
    res->total = 0;
    for (int i = 0; i < QN_LEASE_PARTS; i++)
        if (!qn_align_size(lease->parts[i].bytes, pool->page, &res->need[i]) ||
            !qn_add_size(res->total, res->need[i], &res->total))
            return false;
    return true;
}

/* Bytes that a lease could have now: free ones, and those of the cache. */
static size_t available(qn_pool *pool)
{
    qn_ledger_state s;
    qn_ledger_read(pool->ledger, &s);
    return s.budget - s.charged + pool->cache.bytes;
}

/*
 * Charge the lease to the ledger, evicting as much as that takes. `tails` are
 * bytes of the reused ranges that will be cut off, so count as evicted.
 */
static bool charge(qn_pool *pool, const qn_lease *lease,
                   struct reservation *res, size_t tails)
{
    size_t by_class[QN_MEM_COUNT] = { 0 };
    size_t reused = 0, use = 0, gone = tails;
    for (int i = 0; i < QN_LEASE_PARTS; i++) {
        by_class[lease->parts[i].cls] += res->charge[i];
        if (res->reuse[i].data)
            reused += res->charge[i];
    }
    res->evicted = QN_CACHE_EMPTY;
    for (;;) {
        size_t missing, got;
        if (qn_ledger_exchange(pool->ledger, reused + use, by_class,
                               &missing) == QN_OK)
            break;
        use += missing;
        if (use <= gone)
            continue;
        if (use - gone > pool->cache.bytes) {
            qn_cache_restore(&pool->cache, res->evicted);
            return false;
        }
        /* Only whole pages can go; what others charged may be odd. */
        qn_cache_list more = qn_cache_detach(
            &pool->cache, qn_pool_whole_pages(pool, use - gone), &got);
        res->evicted = qn_cache_join(&pool->cache, more, res->evicted);
        gone += got;
    }
    res->surplus = gone - use;
    return true;
}

static bool can_cut(const qn_pool *pool, const qn_lease *lease, int part)
{
    return !pool->sources[lease->parts[part].source].whole;
}

/*
 * Under the lock. True: the ledger is charged and `res`, measured before, says
 * what to commit. False: it does not fit now, and nothing has changed. Where
 * others wait, reused ranges are cut to size: their bytes are wanted.
 */
static bool reserve(qn_pool *pool, const qn_lease *lease,
                    struct reservation *res, bool others_wait)
{
    qn_cache_list taken[QN_LEASE_PARTS];
    size_t tails = 0;
    unsigned parts = 0;
    if (res->total > available(pool) || !slot_free(pool, lease))
        return false;
    for (int i = 0; i < QN_LEASE_PARTS; i++) {
        taken[i] = QN_CACHE_EMPTY;
        res->reuse[i] = (qn_range){ 0 };
        res->charge[i] = res->need[i];
        if (!res->need[i])
            continue;
        parts++;
        taken[i] = qn_cache_take(&pool->cache, res->need[i],
                                 lease->parts[i].source);
        if (taken[i] == QN_CACHE_EMPTY)
            continue;
        qn_cache_next(&pool->cache, taken[i], &res->reuse[i]);
        res->charge[i] = res->reuse[i].bytes;
        if (!can_cut(pool, lease, i))
            continue;
        tails += res->reuse[i].bytes - res->need[i];
    }
    /* Whole ranges at first; cut to size if only that makes room. */
    bool cut = others_wait && tails;
    bool done = !cut && charge(pool, lease, res, 0);
    if (!done && tails) {
        for (int i = 0; i < QN_LEASE_PARTS; i++)
            if (can_cut(pool, lease, i))
                res->charge[i] = res->need[i];
        done = charge(pool, lease, res, tails);
    }
    for (int i = 0; i < QN_LEASE_PARTS; i++) {
        if (done)
            qn_cache_drop(&pool->cache, taken[i]);
        else
            qn_cache_restore(&pool->cache, taken[i]);
    }
    if (done) {
        for (int i = 0; i < QN_LEASE_PARTS; i++)
            pool->state.leased += res->charge[i];
        pool->state.leases += parts;
        pool->state.slots += lease->slot;
        pool->state.granted++;
        if (res->total > pool->largest)
            pool->largest = res->total;
    }
    return done;
}

/* ---- commit ---- */

/* A mapping failed: everything that was reserved goes. */
static qn_status roll_back(qn_pool *pool, const qn_lease *lease,
                           const struct reservation *res,
                           void *const data[QN_LEASE_PARTS], qn_error *err)
{
    size_t total = 0;
    unsigned parts = 0;
    for (int i = 0; i < QN_LEASE_PARTS; i++) {
        if (data[i])
            qn_pool_unmap(pool, lease->parts[i].source, data[i],
                          res->charge[i]);
        total += res->charge[i];
        parts += res->charge[i] != 0;
    }
    pthread_mutex_lock(&pool->lock);
    pool->state.leased -= total;
    pool->state.leases -= parts;
    pool->state.slots -= lease->slot;
    pool->state.granted--;
    pool->state.refused++;
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < QN_LEASE_PARTS; i++)
        qn_ledger_give_back(pool->ledger, lease->parts[i].cls, res->charge[i]);
    return qn_fail(err, QN_DEVICE,
                   "the system would not map %zu bytes that the budget allows",
                   res->total);
}

/* Without the lock. */
static qn_status commit(qn_pool *pool, qn_lease *lease,
                        const struct reservation *res, qn_error *err)
{
    void *data[QN_LEASE_PARTS];
    qn_status st = QN_OK;
    qn_pool_unmap_list(pool, res->evicted);
    for (int i = 0; i < QN_LEASE_PARTS; i++) {
        const qn_range *range = &res->reuse[i];
        data[i] = range->data;
        if (range->bytes > res->charge[i])
            qn_pool_unmap(pool, range->source, range->data + res->charge[i],
                          range->bytes - res->charge[i]);
    }
    for (int i = 0; i < QN_LEASE_PARTS && st == QN_OK; i++) {
        if (data[i] || !res->charge[i])
            continue;
        data[i] = qn_pool_map(pool, lease->parts[i].source, res->charge[i]);
        if (!data[i])
            st = QN_DEVICE;
    }
    if (st != QN_OK)
        st = roll_back(pool, lease, res, data, err);
    for (int i = 0; i < QN_LEASE_PARTS && st == QN_OK; i++) {
        lease->parts[i].data = data[i];
        lease->parts[i].charged = res->charge[i];
    }
    lease->holds_slot = st == QN_OK && lease->slot;
    /* Last: it may grant other leases. */
    qn_ledger_give_back(pool->ledger, QN_MEM_CACHE, res->surplus);
    return st;
}

/* ---- the queue ---- */

static void enqueue(qn_pool *pool, qn_waiter *w)
{
    w->prev = pool->last;
    w->next = NULL;
    if (pool->last)
        pool->last->next = w;
    else
        pool->first = w;
    pool->last = w;
    atomic_store(&w->queued_in, pool);
    pool->state.waiters++;
    pool->state.waited++;
}

static void dequeue(qn_pool *pool, qn_waiter *w)
{
    if (w->prev)
        w->prev->next = w->next;
    else
        pool->first = w->next;
    if (w->next)
        w->next->prev = w->prev;
    else
        pool->last = w->prev;
    atomic_store(&w->queued_in, NULL);
    pool->state.waiters--;
}

/* Room that is not static: what a single lease could ever have. */
static size_t ceiling(qn_pool *pool)
{
    qn_ledger_state s;
    qn_ledger_read(pool->ledger, &s);
    return s.budget - s.by_class[QN_MEM_STATIC];
}

/* May somebody new who fits go before all that wait? Those who fit themselves
 * are being granted, and one that was passed often enough comes next. Those that
 * static memory has outgrown hold nobody up; pick() tells them. */
static bool may_pass(qn_pool *pool)
{
    if (!pool->first)
        return true;
    size_t room = available(pool), most = ceiling(pool);
    for (const qn_waiter *w = pool->first; w; w = w->next)
        if (slot_free(pool, w->lease) &&
            (w->bytes <= room ||
             (w->bypassed >= QN_POOL_MAX_BYPASS && w->bytes <= most)))
            return false;
    return true;
}

static void count_pass(qn_pool *pool, const qn_waiter *end)
{
    for (qn_waiter *w = pool->first; w != end; w = w->next)
        w->bypassed++;
}

/* Under the lock: take the next waiter to be answered out of the queue. */
static qn_waiter *pick(qn_pool *pool, struct reservation *res, qn_status *st)
{
    size_t most = ceiling(pool);
    size_t room = available(pool);
    for (qn_waiter *w = pool->first; w; w = w->next) {
        *st = QN_OK;
        if (w->bytes > most)
            *st = QN_TOO_LARGE; /* static memory grew meanwhile */
        else if (!slot_free(pool, w->lease) || w->bytes > room ||
                 !measure(pool, w->lease, res) ||
                 !reserve(pool, w->lease, res, pool->state.waiters > 1))
            *st = QN_NO_MEMORY;
        if (*st == QN_OK)
            count_pass(pool, w);
        if (*st != QN_NO_MEMORY) {
            dequeue(pool, w);
            return w;
        }
        if (w->bypassed >= QN_POOL_MAX_BYPASS)
            break;
    }
    return NULL;
}

/* Answer all waiters that can be. No lock held. */
static void grant(qn_pool *pool)
{
    struct reservation res;
    qn_waiter *w;
    qn_status st;
    pthread_mutex_lock(&pool->lock);
    if (!pool->granting && pool->first) {
        /* Who comes meanwhile leaves it to this thread: the queue is looked at
         * once more, under the lock, before it stops. */
        pool->granting = true;
        while ((w = pick(pool, &res, &st)) != NULL) {
            pthread_mutex_unlock(&pool->lock);
            if (st == QN_OK)
                st = commit(pool, w->lease, &res, NULL);
            w->granted(w, st);
            pthread_mutex_lock(&pool->lock);
        }
        pool->granting = false;
    }
    pthread_mutex_unlock(&pool->lock);
}

static void freed(void *arg)
{
    grant(arg);
}

/* ---- public ---- */

qn_status qn_pool_new(qn_ledger *ledger, const qn_pool_options *options,
                      qn_pool **out, qn_error *err)
{
    *out = NULL;
    qn_pool *pool = qn_calloc(1, sizeof *pool);
    if (!pool)
        return qn_fail(err, QN_NO_MEMORY, "no heap for a pool");
    qn_status st = qn_cache_init(&pool->cache, err);
    if (st == QN_OK && pthread_mutex_init(&pool->lock, NULL) != 0) {
        qn_cache_release(&pool->cache);
        st = qn_fail(err, QN_NO_MEMORY, "no mutex for a pool");
    }
    if (st != QN_OK) {
        qn_free(pool);
        return st;
    }
    pool->ledger = ledger;
    pool->page = (size_t)sysconf(_SC_PAGESIZE);
    pool->max_waiters = 1024;
    pool->cache_bytes = QN_POOL_CACHE;
    pool->sources[0] = *qn_pages(options && options->huge_pages);
    if (options) {
        if (options->page)
            pool->page = options->page;
        if (options->max_waiters)
            pool->max_waiters = options->max_waiters;
        if (options->cache_bytes)
            pool->cache_bytes = qn_pool_whole_pages(pool, options->cache_bytes);
        pool->max_slots = options->max_slots;
        if (options->source)
            pool->sources[0] = *options->source;
        if (options->second)
            pool->sources[1] = *options->second;
    }
    for (unsigned i = 0; i < QN_POOL_SOURCES; i++)
        pool->cache.whole |= (unsigned)pool->sources[i].whole << i;
    qn_ledger_set_reclaimer(ledger, qn_pool_reclaim, pool);
    qn_ledger_set_listener(ledger, freed, pool);
    *out = pool;
    return QN_OK;
}

void qn_pool_free(qn_pool *pool)
{
    if (!pool)
        return;
    assert(pool->state.leases == 0 && !pool->first);
    qn_ledger_set_reclaimer(pool->ledger, NULL, NULL);
    qn_ledger_set_listener(pool->ledger, NULL, NULL);
    qn_pool_trim(pool, 0);
    qn_cache_release(&pool->cache);
    pthread_mutex_destroy(&pool->lock);
    qn_free(pool);
}

static qn_status refuse(qn_pool *pool, qn_status st, const char *why,
                        size_t wanted, size_t room, qn_error *err)
{
    char expected[sizeof err->expected], got[sizeof err->got];
    pthread_mutex_lock(&pool->lock);
    pool->state.refused++;
    pthread_mutex_unlock(&pool->lock);
    qn_fail(err, st, "a lease of %zu bytes %s %zu bytes", wanted, why, room);
    snprintf(expected, sizeof expected, "at most %zu bytes", room);
    snprintf(got, sizeof got, "%zu bytes", wanted);
    qn_error_where(err, NULL, expected, got);
    return st;
}

/* Lease now, or queue `w` if it is given (QN_NO_MEMORY): another thread may
 * grant it at once, so nobody looks at it again here. */
static qn_status lease_or_queue(qn_pool *pool, qn_lease *lease, qn_waiter *w,
                                qn_error *err)
{
    struct reservation res;
    if (!measure(pool, lease, &res))
        return refuse(pool, QN_TOO_LARGE, "exceeds the address space of",
                      SIZE_MAX, SIZE_MAX, err);
    size_t most = ceiling(pool);
    if (res.total > most)
        return refuse(pool, QN_TOO_LARGE,
                      "can never fit: the budget less static memory is",
                      res.total, most, err);

    pthread_mutex_lock(&pool->lock);
    size_t room = available(pool);
    bool ok = (lease->urgent || may_pass(pool)) &&
              reserve(pool, lease, &res, pool->first);
    bool full = pool->state.waiters >= pool->max_waiters;
    if (ok && !lease->urgent) {
        count_pass(pool, NULL);
    } else if (!ok && w && !full) {
        w->bytes = res.total;
        w->bypassed = 0;
        enqueue(pool, w);
    }
    pthread_mutex_unlock(&pool->lock);

    if (ok)
        return commit(pool, lease, &res, err);
    if (!w)
        return refuse(pool, QN_NO_MEMORY,
                      "does not fit now, or behind those that wait; free are",
                      res.total, room, err);
    if (full) {
        refuse(pool, QN_BUSY, "", res.total, room, err);
        return qn_fail(err, QN_BUSY,
                       "%zu leases wait for memory already, the most that may",
                       pool->max_waiters);
    }
    return QN_NO_MEMORY;
}

qn_status qn_pool_lease(qn_pool *pool, qn_lease *lease, qn_error *err)
{
    return lease_or_queue(pool, lease, NULL, err);
}

qn_status qn_pool_wait(qn_pool *pool, qn_waiter *waiter, qn_error *err)
{
    atomic_store(&waiter->queued_in, NULL);
    return lease_or_queue(pool, waiter->lease, waiter, err);
}

bool qn_pool_cancel(qn_pool *pool, qn_waiter *waiter)
{
    pthread_mutex_lock(&pool->lock);
    bool queued = atomic_load(&waiter->queued_in) == pool;
    if (queued)
        dequeue(pool, waiter);
    pthread_mutex_unlock(&pool->lock);
    if (queued)
        grant(pool); /* it may have been the one that held others up */
    return queued;
}

/*
 * Parts [from, to) go to the cache. Where its table is full they are unmapped:
 * nothing is lost but the pages' warmth.
 */
static void release(qn_pool *pool, qn_lease *lease, unsigned from, unsigned to)
{
    qn_range left[QN_LEASE_PARTS];
    unsigned n_left = 0;
    pthread_mutex_lock(&pool->lock);
    for (unsigned i = from; i < to; i++) {
        qn_lease_part *part = &lease->parts[i];
        if (!part->data)
            continue;
        qn_range range = { part->data, part->charged, part->source };
        part->data = NULL;
        part->charged = 0;
        pool->state.leased -= range.bytes;
        pool->state.leases--;
        qn_ledger_move(pool->ledger, part->cls, QN_MEM_CACHE, range.bytes);
        if (!qn_cache_put(&pool->cache, range))
            left[n_left++] = range;
    }
    bool empty = true;
    for (unsigned i = 0; i < QN_LEASE_PARTS; i++)
        empty &= !lease->parts[i].data;
    if (empty && lease->holds_slot) {
        lease->holds_slot = false;
        pool->state.slots--;
    }
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < n_left; i++) {
        qn_pool_unmap(pool, left[i].source, left[i].data, left[i].bytes);
        qn_ledger_give_back(pool->ledger, QN_MEM_CACHE, left[i].bytes);
    }
    grant(pool);
    qn_pool_trim_to_limit(pool);
}

void qn_pool_set_hoard(qn_pool *pool, bool (*give_up)(void *arg), void *arg)
{
    pool->hoard = give_up;
    pool->hoard_arg = arg;
}

void qn_pool_give_slot(qn_pool *pool, qn_lease *lease)
{
    pthread_mutex_lock(&pool->lock);
    if (lease->holds_slot)
        pool->state.slots--;
    lease->holds_slot = false;
    pthread_mutex_unlock(&pool->lock);
    grant(pool);
}

void qn_pool_release_part(qn_pool *pool, qn_lease *lease, unsigned part)
{
    assert(part < QN_LEASE_PARTS);
    release(pool, lease, part, part + 1);
}

void qn_pool_release(qn_pool *pool, qn_lease *lease)
{
    release(pool, lease, 0, QN_LEASE_PARTS);
}

void qn_pool_read(qn_pool *pool, qn_pool_state *out)
{
    pthread_mutex_lock(&pool->lock);
    *out = pool->state;
    out->cached = pool->cache.bytes;
    out->starved = 0;
    for (const qn_waiter *w = pool->first; w; w = w->next)
        out->starved += slot_free(pool, w->lease);
    pthread_mutex_unlock(&pool->lock);
}

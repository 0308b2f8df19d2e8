/* SPDX-License-Identifier: Apache-2.0 */
/* The pool from the inside: pool.c (leases, the queue), ranges.c (mapping,
 * unmapping, trimming). */
#ifndef QN_MEMORY_POOL_IMPL_H
#define QN_MEMORY_POOL_IMPL_H

#include "runtime/memory/cache.h"
#include "runtime/memory/pool.h"

#include <pthread.h>

#define QN_POOL_CACHE ((size_t)64 << 20)

struct qn_pool {
    qn_ledger *ledger;
    qn_pool_source sources[QN_POOL_SOURCES];
    size_t page, max_waiters, max_slots, cache_bytes;
    bool (*hoard)(void *arg); /* NULL: none */
    void *hoard_arg;

    pthread_mutex_t lock; /* guards all below */
    qn_cache cache;
    qn_waiter *first, *last;
    size_t largest;      /* lease so far, bytes */
    bool granting;       /* one thread at a time calls granted() */
    qn_pool_state state; /* `cached` is cache.bytes */
};

/* No lock held in any of these. */
void qn_pool_unmap(qn_pool *pool, unsigned source, void *data, size_t bytes);
/* Unmap a detached list and give its nodes back. */
void qn_pool_unmap_list(qn_pool *pool, qn_cache_list list);
/* The source, and once more with the cache gone, and with each lease of the hoard:
 * they hold mappings too. */
void *qn_pool_map(qn_pool *pool, unsigned source, size_t bytes);
/* Cached bytes above what is worth keeping go, oldest first. */
void qn_pool_trim_to_limit(qn_pool *pool);
/* The ledger's reclaimer. */
size_t qn_pool_reclaim(void *pool, size_t want);
/* SIZE_MAX if that does not fit. */
size_t qn_pool_whole_pages(const qn_pool *pool, size_t bytes);

#endif

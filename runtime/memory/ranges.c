/* SPDX-License-Identifier: Apache-2.0 */
/* Where the pool's address ranges come from, and where they go. */
#include "runtime/memory/pool_impl.h"

void qn_pool_unmap(qn_pool *pool, unsigned source, void *data, size_t bytes)
{
    const qn_pool_source *s = &pool->sources[source];
    s->unmap(s->arg, data, bytes);
}

/* Unmap a detached list and give its nodes back. No lock held. */
void qn_pool_unmap_list(qn_pool *pool, qn_cache_list list)
{
    qn_range range;
    if (list == QN_CACHE_EMPTY)
        return;
    for (qn_cache_list at = list; at != QN_CACHE_EMPTY;) {
        at = qn_cache_next(&pool->cache, at, &range);
        qn_pool_unmap(pool, range.source, range.data, range.bytes);
    }
    pthread_mutex_lock(&pool->lock);
    qn_cache_drop(&pool->cache, list);
    pthread_mutex_unlock(&pool->lock);
}

/* Give `want` cached bytes back to the ledger, or all above `keep`. No lock
 * held. */
static size_t give_up(qn_pool *pool, size_t want, size_t keep)
{
    size_t got = 0;
    qn_cache_list list = QN_CACHE_EMPTY;
    pthread_mutex_lock(&pool->lock);
    if (pool->cache.bytes > keep) {
        size_t most = pool->cache.bytes - keep;
        list = qn_cache_detach(&pool->cache, want < most ? want : most, &got);
    }
    pthread_mutex_unlock(&pool->lock);
    qn_pool_unmap_list(pool, list);
    qn_ledger_give_back(pool->ledger, QN_MEM_CACHE, got);
    return got;
}

size_t qn_pool_whole_pages(const qn_pool *pool, size_t bytes)
{
    return bytes > SIZE_MAX - pool->page
               ? SIZE_MAX
               : (bytes + pool->page - 1) / pool->page * pool->page;
}

size_t qn_pool_reclaim(void *arg, size_t want)
{
    qn_pool *pool = arg;
    size_t got = give_up(pool, qn_pool_whole_pages(pool, want), 0);
    while (got < want && pool->hoard && pool->hoard(pool->hoard_arg))
        got += give_up(pool, qn_pool_whole_pages(pool, want - got), 0);
    return got;
}

size_t qn_pool_trim(qn_pool *pool, size_t keep)
{
    return give_up(pool, SIZE_MAX, qn_pool_whole_pages(pool, keep));
}

void *qn_pool_map(qn_pool *pool, unsigned source, size_t bytes)
{
    const qn_pool_source *s = &pool->sources[source];
    void *p = s->map(s->arg, bytes);
    if (!p && qn_pool_trim(pool, 0))
        p = s->map(s->arg, bytes);
    while (!p && pool->hoard && pool->hoard(pool->hoard_arg)) {
        (void)qn_pool_trim(pool, 0);
        p = s->map(s->arg, bytes);
    }
    return p;
}

/* Cached bytes above what is worth keeping go, oldest first. Not all that was
 * ever leased at once is kept: under a mix of sizes that would creep up, and a
 * server's memory should be flat. No lock held. */
void qn_pool_trim_to_limit(qn_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    size_t keep = 2 * pool->largest;
    bool over = pool->cache.bytes > keep &&
                pool->cache.bytes > pool->cache_bytes;
    pthread_mutex_unlock(&pool->lock);
    if (over)
        give_up(pool, SIZE_MAX, keep > pool->cache_bytes ? keep
                                                         : pool->cache_bytes);
}

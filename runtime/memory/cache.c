/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thousand ranges are enough (a server keeps as many as it ran requests at
 * once, times their parts), so the index by size is a sorted array: insertion
 * moves at most 4 KiB, and look-up is one binary search.
 */
#include "runtime/memory/cache.h"

#include "runtime/base/alloc.h"

#include <string.h>

#define NONE QN_CACHE_EMPTY
#define SLACK_MIN ((size_t)64 << 10)

qn_status qn_cache_init(qn_cache *cache, qn_error *err)
{
    memset(cache, 0, sizeof *cache);
    cache->oldest = cache->newest = NONE;
    cache->nodes = qn_calloc(QN_CACHE_RANGES, sizeof *cache->nodes);
    cache->by_size = qn_calloc(QN_CACHE_RANGES, sizeof *cache->by_size);
    if (!cache->nodes || !cache->by_size) {
        qn_cache_release(cache);
        return qn_fail(err, QN_NO_MEMORY, "no heap for the pool's cache");
    }
    for (uint32_t i = 0; i < QN_CACHE_RANGES; i++)
        cache->nodes[i].older = i + 1 < QN_CACHE_RANGES ? i + 1 : NONE;
    return QN_OK;
}

void qn_cache_release(qn_cache *cache)
{
    qn_free(cache->nodes);
    qn_free(cache->by_size);
    memset(cache, 0, sizeof *cache);
}

/* First place in by_size whose range has at least `bytes`. */
static uint32_t find(const qn_cache *cache, size_t bytes)
{
    uint32_t lo = 0, hi = cache->n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (cache->nodes[cache->by_size[mid]].range.bytes < bytes)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void insert_size(qn_cache *cache, uint32_t id)
{
    uint32_t at = find(cache, cache->nodes[id].range.bytes);
    memmove(cache->by_size + at + 1, cache->by_size + at,
            (cache->n - at) * sizeof *cache->by_size);
    cache->by_size[at] = id;
    cache->n++;
}

static void remove_size(qn_cache *cache, uint32_t id)
{
    uint32_t at = find(cache, cache->nodes[id].range.bytes);
    while (cache->by_size[at] != id)
        at++;
    cache->n--;
    memmove(cache->by_size + at, cache->by_size + at + 1,
            (cache->n - at) * sizeof *cache->by_size);
}

static void unlink_age(qn_cache *cache, uint32_t id)
{
    const struct qn_cache_node *node = &cache->nodes[id];
    if (node->older == NONE)
        cache->oldest = node->newer;
    else
        cache->nodes[node->older].newer = node->newer;
    if (node->newer == NONE)
        cache->newest = node->older;
    else
        cache->nodes[node->newer].older = node->older;
}

/* Out of both orders; the node is still held. */
static void remove_node(qn_cache *cache, uint32_t id)
{
    remove_size(cache, id);
    unlink_age(cache, id);
    cache->bytes -= cache->nodes[id].range.bytes;
}

static uint32_t new_node(qn_cache *cache)
{
    uint32_t id = cache->free;
    if (id != NONE)
        cache->free = cache->nodes[id].older;
    return id;
}

static void free_node(qn_cache *cache, uint32_t id)
{
    cache->nodes[id].older = cache->free;
    cache->free = id;
}

bool qn_cache_put(qn_cache *cache, qn_range range)
{
    uint32_t id = new_node(cache);
    if (id == NONE)
        return false;
    cache->nodes[id] = (struct qn_cache_node){ range, cache->newest, NONE };
    if (cache->newest == NONE)
        cache->oldest = id;
    else
        cache->nodes[cache->newest].newer = id;
    cache->newest = id;
    insert_size(cache, id);
    cache->bytes += range.bytes;
    return true;
}

qn_cache_list qn_cache_take(qn_cache *cache, size_t need, unsigned source)
{
    size_t slack = need / 8 > SLACK_MIN ? need / 8 : SLACK_MIN;
    for (uint32_t at = find(cache, need); at < cache->n; at++) {
        uint32_t id = cache->by_size[at];
        if (cache->nodes[id].range.bytes - need > slack)
            break;
        if (cache->nodes[id].range.source != source)
            continue;
        remove_node(cache, id);
        cache->nodes[id].older = NONE;
        return id;
    }
    return NONE;
}

qn_cache_list qn_cache_detach(qn_cache *cache, size_t want, size_t *got)
{
    qn_cache_list list = NONE;
    *got = 0;
    while (*got < want && cache->oldest != NONE) {
        uint32_t id = cache->oldest;
        size_t left = want - *got;
        size_t bytes = cache->nodes[id].range.bytes;
        unsigned source = cache->nodes[id].range.source;
        uint32_t tail = bytes > left && !(cache->whole >> source & 1)
                            ? new_node(cache) : NONE;
        if (tail != NONE) {
            remove_size(cache, id);
            qn_range *range = &cache->nodes[id].range;
            range->bytes -= left;
            cache->bytes -= left;
            insert_size(cache, id);
            cache->nodes[tail].range =
                (qn_range){ range->data + range->bytes, left, source };
            id = tail;
            bytes = left;
        } else {
            remove_node(cache, id);
        }
        cache->nodes[id].older = list;
        list = id;
        *got += bytes;
    }
    return list;
}

qn_cache_list qn_cache_next(const qn_cache *cache, qn_cache_list list,
                            qn_range *out)
{
    *out = cache->nodes[list].range;
    return cache->nodes[list].older;
}

void qn_cache_drop(qn_cache *cache, qn_cache_list list)
{
    while (list != NONE) {
        qn_cache_list next = cache->nodes[list].older;
        free_node(cache, list);
        list = next;
    }
}

void qn_cache_restore(qn_cache *cache, qn_cache_list list)
{
    while (list != NONE) {
        struct qn_cache_node *node = &cache->nodes[list];
        qn_cache_list next = node->older;
        node->older = NONE;
        node->newer = cache->oldest;
        if (cache->oldest == NONE)
            cache->newest = list;
        else
            cache->nodes[cache->oldest].older = list;
        cache->oldest = list;
        insert_size(cache, list);
        cache->bytes += node->range.bytes;
        list = next;
    }
}

qn_cache_list qn_cache_join(qn_cache *cache, qn_cache_list a, qn_cache_list b)
{
    if (a == NONE)
        return b;
    qn_cache_list last = a;
    while (cache->nodes[last].older != NONE)
        last = cache->nodes[last].older;
    cache->nodes[last].older = b;
    return a;
}

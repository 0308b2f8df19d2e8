/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The address ranges that the pool keeps for the next lease, found by size and
 * given up by age. A fixed table made once: no call here touches the heap or
 * the kernel. Part of the pool, guarded by its lock.
 */
#ifndef QN_MEMORY_CACHE_H
#define QN_MEMORY_CACHE_H

#include "runtime/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { QN_CACHE_RANGES = 1024 };

typedef struct qn_range {
    unsigned char *data; /* NULL: none */
    size_t bytes;
    unsigned source; /* which of the pool's sources it came from */
} qn_range;

struct qn_cache_node {
    qn_range range;
    uint32_t older, newer; /* by age, or a free or leaving list by `older` */
};

/* Ranges that were taken out, their nodes still held. */
typedef uint32_t qn_cache_list;
#define QN_CACHE_EMPTY UINT32_MAX

typedef struct qn_cache {
    struct qn_cache_node *nodes; /* [QN_CACHE_RANGES] */
    uint32_t *by_size;           /* [n] ascending bytes; equal: newest first */
    uint32_t n;
    uint32_t oldest, newest, free;
    size_t bytes; /* sum of the ranges in it */
    unsigned whole; /* bit s: ranges of source s cannot be cut */
} qn_cache;

QN_NODISCARD qn_status qn_cache_init(qn_cache *cache, qn_error *err);
void qn_cache_release(qn_cache *cache);

/* False when the table is full. */
bool qn_cache_put(qn_cache *cache, qn_range range);

/*
 * Take out the smallest range of at least `need` bytes of that source that
 * wastes at most an eighth of need or 64 KiB, whichever is more: a list of one,
 * or empty.
 */
qn_cache_list qn_cache_take(qn_cache *cache, size_t need, unsigned source);

/*
 * Take out ranges, oldest first, until at least `want` bytes are out (or all).
 * Of the last one only the tail goes, if it can be cut and a node is free to
 * describe it, so that *got is then exactly `want`.
 */
qn_cache_list qn_cache_detach(qn_cache *cache, size_t want, size_t *got);

/* Walk a list (no lock needed). Then drop it: the ranges are somebody else's or
 * unmapped; or restore it: they are in the cache again, as the oldest. */
qn_cache_list qn_cache_next(const qn_cache *cache, qn_cache_list list,
                            qn_range *out);
void qn_cache_drop(qn_cache *cache, qn_cache_list list);
void qn_cache_restore(qn_cache *cache, qn_cache_list list);
/* One list of both, either of which may be empty. */
qn_cache_list qn_cache_join(qn_cache *cache, qn_cache_list a, qn_cache_list b);

#endif

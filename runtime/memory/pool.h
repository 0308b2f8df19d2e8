/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dynamic memory of the host: what requests run in.
 *
 * A lease is taken whole, all its parts or none, before the first launch, and
 * charged to the ledger by class. Each part has an address range of its own,
 * page-granular, so free bytes are always leasable bytes: fragmentation cannot
 * refuse a request. Ranges given back stay resident as CACHE for the next lease
 * of a similar size, and are unmapped, oldest first, as soon as anybody needs
 * their bytes.
 *
 * When a lease does not fit now the caller may wait: FIFO, with bounded bypass
 * (a smaller one may pass the head at most QN_POOL_MAX_BYPASS times).
 *
 * Thread-safe. Lock order: pool, then ledger. Grants are called without locks.
 */
#ifndef QN_MEMORY_POOL_H
#define QN_MEMORY_POOL_H

#include "runtime/memory/ledger.h"

#include <stdatomic.h>

#include <stdbool.h>

enum { QN_LEASE_PARTS = 4, QN_POOL_MAX_BYPASS = 16 };

typedef struct qn_pool qn_pool;

typedef struct qn_lease_part {
    qn_mem cls;
    unsigned source; /* of the pool's, by number */
    size_t bytes; /* wanted; 0: no part */
    /* results */
    void *data;   /* page-aligned; contents undefined; NULL for 0 bytes */
    size_t charged; /* bytes rounded up to pages */
} qn_lease_part;

/* Lies in the caller's memory: taking a lease makes no heap call once the pool
 * has seen the size. Zero-initialise, set parts[].cls and .bytes. */
typedef struct qn_lease {
    qn_lease_part parts[QN_LEASE_PARTS];
    /* Do not stand behind waiters: for the bodies and answers that those who
     * run need to finish. */
    bool urgent;
    /* Takes one of the pool's slots, from lease to release of the last part: for
     * those who compute, of whom more than the cores can serve would only hold
     * memory while they wait for each other. */
    bool slot;
    bool holds_slot; /* private */
} qn_lease;

/* Where address ranges come from: the host's pages, pinned memory, a device's.
 * Tests put a failing one here; bytes are whole pages. unmap may take the tail
 * of a range that map gave, unless `whole` is set. */
typedef struct qn_pool_source {
    void *(*map)(void *arg, size_t bytes); /* NULL on failure */
    void (*unmap)(void *arg, void *data, size_t bytes);
    void *arg;
    bool whole; /* ranges go back as they came */
} qn_pool_source;

enum { QN_POOL_SOURCES = 2 };

typedef struct qn_pool_options {
    size_t max_slots;    /* leases with `slot` set that are out at once; 0: any
                            number. More wait, whatever memory is free. */
    size_t cache_bytes;  /* given back ranges that stay mapped; 0: 64 MiB. Twice
                            the largest lease so far may stay in any case. */
    size_t max_waiters;  /* 0: 1024 */
    bool huge_pages;     /* madvise(MADV_HUGEPAGE) on parts of 2 MiB and more */
    const qn_pool_source *source; /* number 0; NULL: anonymous mappings */
    const qn_pool_source *second; /* number 1; NULL: none */
    size_t page;         /* what ranges are multiples of; 0: the system's */
} qn_pool_options;

/* options NULL: all defaults. Becomes the ledger's reclaimer and listener; the
 * ledger outlives the pool. */
QN_NODISCARD qn_status qn_pool_new(qn_ledger *ledger,
                                   const qn_pool_options *options,
                                   qn_pool **out, qn_error *err);
/* All leases must have been released, nobody may wait. NULL is fine. */
void qn_pool_free(qn_pool *pool);

/* Take it now. QN_TOO_LARGE: can never fit, with both numbers. QN_NO_MEMORY:
 * not now (or waiters are ahead). QN_DEVICE: it fits, but the system would not
 * map it. The lease is unchanged on failure. */
QN_NODISCARD qn_status qn_pool_lease(qn_pool *pool, qn_lease *lease,
                                     qn_error *err);

/* A place in the queue; the caller's memory, untouched until it is granted or
 * cancelled. */
typedef struct qn_waiter {
    qn_lease *lease;
    /* Called once, on a thread that gave memory back: QN_OK (the lease is
     * held), QN_DEVICE (the system would not map it) or QN_TOO_LARGE (static
     * memory has grown: it can never fit now). Must return quickly; may call
     * any pool function. Grants come one at a time, so a callback that releases
     * does not recurse into the next one. */
    void (*granted)(struct qn_waiter *waiter, qn_status status);
    void *arg;
    /* private */
    struct qn_waiter *prev, *next;
    size_t bytes;
    unsigned bypassed;
    /* Whose queue it is in, or NULL; written under that pool's lock. */
    _Atomic(struct qn_pool *) queued_in;
} qn_waiter;

/*
 * Take it now (QN_OK: held, granted() is not called), or queue for it
 * (QN_NO_MEMORY: granted() will be called, perhaps before this returns, but never
 * on this thread). QN_TOO_LARGE and QN_DEVICE as above, QN_BUSY when the queue
 * is full (with its length): these leave nothing queued.
 */
QN_NODISCARD qn_status qn_pool_wait(qn_pool *pool, qn_waiter *waiter,
                                    qn_error *err);
/* Leave the queue. True: granted() was not and will not be called. False: the
 * waiter is not in this pool's queue, though maybe in another's. */
bool qn_pool_cancel(qn_pool *pool, qn_waiter *waiter);

/* Somebody holds leases that he can do without: give_up() gives one back to its
 * pool, or returns false. It is called where bytes are missing, and without a
 * lock, by charges to the ledger and by mappings that fail. Leases are another
 * matter: see `starved`. Set it before the pool is used. */
void qn_pool_set_hoard(qn_pool *pool, bool (*give_up)(void *arg), void *arg);

/* Give back the lease's slot alone; its memory stays. Idempotent. */
void qn_pool_give_slot(qn_pool *pool, qn_lease *lease);
/* Give back one part (by index), or all that are left. Idempotent. */
void qn_pool_release_part(qn_pool *pool, qn_lease *lease, unsigned part);
void qn_pool_release(qn_pool *pool, qn_lease *lease);

typedef struct qn_pool_state {
    size_t leased, cached; /* bytes */
    size_t leases;         /* parts out */
    size_t waiters;
    size_t starved;        /* of these: wait for memory, and not for a slot */
    size_t slots;          /* in use */
    uint64_t granted, waited, refused; /* since the start */
} qn_pool_state;
void qn_pool_read(qn_pool *pool, qn_pool_state *out);

/* Unmap cached ranges down to `keep` bytes; returns what was given back. */
size_t qn_pool_trim(qn_pool *pool, size_t keep);

#endif

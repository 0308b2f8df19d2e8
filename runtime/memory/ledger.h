/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger: one account per memory (the host, each device), by class. The
 * sum of what is charged never exceeds the budget; a charge that would is
 * refused with the numbers, before anything is allocated.
 *
 * All calls are thread-safe (one mutex, held for a few instructions).
 */
#ifndef QN_MEMORY_LEDGER_H
#define QN_MEMORY_LEDGER_H

#include "runtime/base/status.h"

#include <stddef.h>
#include <stdint.h>

#define QN_MEM_LIST(X)                                                         \
    X(STATIC, "static", "packed weights, constants, tables of loaded models")  \
    X(ARENA, "arenas", "intermediate values and workspaces of requests")       \
    X(INPUT, "inputs", "decoded inputs of requests")                           \
    X(OUTPUT, "outputs", "results of requests")                                \
    X(SIDE, "side", "strings and values of unplanned size")                    \
    X(STATE, "state", "state of sequences")                                    \
    X(BODY, "bodies", "request bodies")                                        \
    X(RESPONSE, "responses", "encoded answers")                                \
    X(PLAN, "plans", "plans and their tables")                                 \
    X(CONNECTION, "connections", "per-connection buffers")                     \
    X(GRAPH, "graphs", "captured graphs, and the memory that they are bound to") \
    X(CACHE, "cached", "pages kept for the next lease, given up on demand")

typedef enum qn_mem {
#define QN_MEM_ENUM(name, text, what) QN_MEM_##name,
    QN_MEM_LIST(QN_MEM_ENUM)
#undef QN_MEM_ENUM
        QN_MEM_COUNT
} qn_mem;

const char *qn_mem_name(qn_mem cls); /* "arenas"; static storage */

typedef struct qn_ledger qn_ledger;

typedef struct qn_ledger_state {
    size_t budget;
    size_t charged;              /* sum over classes, CACHE included */
    size_t peak;                 /* highest `charged` so far */
    size_t by_class[QN_MEM_COUNT];
    size_t peak_by_class[QN_MEM_COUNT];
    uint64_t refused; /* charges turned down */
} qn_ledger_state;

QN_NODISCARD qn_status qn_ledger_new(size_t budget, qn_ledger **out,
                                     qn_error *err);
/* All charges must have been given back. NULL is fine. */
void qn_ledger_free(qn_ledger *ledger);

/*
 * QN_TOO_LARGE when bytes exceed what could ever be free (budget less STATIC);
 * QN_NO_MEMORY when they do not fit now. Before refusing, the ledger asks its
 * reclaimer (the pool) to give up cached pages, and idle graphs.
 */
QN_NODISCARD qn_status qn_ledger_charge(qn_ledger *ledger, qn_mem cls,
                                        size_t bytes, qn_error *err);
/* Charge several classes, all or none. */
QN_NODISCARD qn_status qn_ledger_charge_all(qn_ledger *ledger,
                                            const size_t by_class[QN_MEM_COUNT],
                                            qn_error *err);
void qn_ledger_give_back(qn_ledger *ledger, qn_mem cls, size_t bytes);
/* Change the class of charged bytes. */
void qn_ledger_move(qn_ledger *ledger, qn_mem from, qn_mem to, size_t bytes);

/*
 * For the pool: `cached` bytes of CACHE become free and by_class is charged, in
 * one step, all or none. Never asks the reclaimer nor calls the listener, so it
 * may be called under the pool's lock. QN_NO_MEMORY sets *missing (else 0): how
 * many more bytes of CACHE would have to go. Not counted as refused.
 */
QN_NODISCARD qn_status qn_ledger_exchange(qn_ledger *ledger, size_t cached,
                                          const size_t by_class[QN_MEM_COUNT],
                                          size_t *missing);

void qn_ledger_read(qn_ledger *ledger, qn_ledger_state *out);

/* One reclaimer: frees about `want` bytes of CACHE, gives them back through
 * qn_ledger_give_back, returns how many. Called without the ledger's lock. */
void qn_ledger_set_reclaimer(qn_ledger *ledger,
                             size_t (*reclaim)(void *arg, size_t want),
                             void *arg);

/* Called, without the lock, after bytes were given back (the pool wakes its
 * waiters). */
void qn_ledger_set_listener(qn_ledger *ledger, void (*freed)(void *arg),
                            void *arg);

#endif

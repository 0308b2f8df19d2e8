/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/memory/ledger.h"

#include "runtime/base/alloc.h"
#include "runtime/base/checked.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct qn_ledger {
    pthread_mutex_t lock; /* guards all below */
    qn_ledger_state state;
    size_t (*reclaim)(void *arg, size_t want);
    void *reclaim_arg;
    void (*freed)(void *arg);
    void *freed_arg;
};

const char *qn_mem_name(qn_mem cls)
{
    static const char *const names[] = {
#define QN_MEM_NAME(name, text, what) text,
        QN_MEM_LIST(QN_MEM_NAME)
#undef QN_MEM_NAME
    };
    return (unsigned)cls < QN_MEM_COUNT ? names[cls] : "?";
}

qn_status qn_ledger_new(size_t budget, qn_ledger **out, qn_error *err)
{
    *out = NULL;
    qn_ledger *ledger = qn_calloc(1, sizeof *ledger);
    if (!ledger)
        return qn_fail(err, QN_NO_MEMORY, "no heap for a ledger (%zu bytes)",
                       sizeof *ledger);
    if (pthread_mutex_init(&ledger->lock, NULL) != 0) {
        qn_free(ledger);
        return qn_fail(err, QN_NO_MEMORY, "no mutex for a ledger");
    }
    ledger->state.budget = budget;
    *out = ledger;
    return QN_OK;
}

void qn_ledger_free(qn_ledger *ledger)
{
    if (!ledger)
        return;
    assert(ledger->state.charged == 0);
    pthread_mutex_destroy(&ledger->lock);
    qn_free(ledger);
}

/* Under the lock, once it is known that the bytes fit. */
static void add(qn_ledger_state *s, qn_mem cls, size_t bytes)
{
    s->charged += bytes;
    s->by_class[cls] += bytes;
    if (s->by_class[cls] > s->peak_by_class[cls])
        s->peak_by_class[cls] = s->by_class[cls];
}

static void add_all(qn_ledger_state *s, const size_t by_class[QN_MEM_COUNT])
{
    for (int c = 0; c < QN_MEM_COUNT; c++)
        add(s, (qn_mem)c, by_class[c]);
    if (s->charged > s->peak)
        s->peak = s->charged;
}

static void subtract(qn_ledger_state *s, qn_mem cls, size_t bytes)
{
    assert(s->by_class[cls] >= bytes);
    s->by_class[cls] -= bytes;
    s->charged -= bytes;
}

static bool sum(const size_t by_class[QN_MEM_COUNT], size_t *total)
{
    *total = 0;
    for (int c = 0; c < QN_MEM_COUNT; c++)
        if (!qn_add_size(*total, by_class[c], total))
            return false;
    return true;
}

static void set_numbers(qn_error *err, size_t room, size_t wanted)
{
    char expected[sizeof err->expected], got[sizeof err->got];
    snprintf(expected, sizeof expected, "at most %zu bytes", room);
    snprintf(got, sizeof got, "%zu bytes", wanted);
    qn_error_where(err, NULL, expected, got);
}

static qn_status refuse_for_ever(const qn_ledger_state *s, size_t wanted,
                                 qn_error *err)
{
    size_t fixed = s->by_class[QN_MEM_STATIC];
    qn_fail(err, QN_TOO_LARGE,
            "%zu bytes can never fit: the budget is %zu bytes, %zu of them "
            "static", wanted, s->budget, fixed);
    set_numbers(err, s->budget - fixed, wanted);
    return QN_TOO_LARGE;
}

static qn_status refuse_now(const qn_ledger_state *s, size_t wanted,
                            qn_error *err)
{
    qn_fail(err, QN_NO_MEMORY,
            "%zu bytes do not fit now: %zu of %zu bytes are in use", wanted,
            s->charged, s->budget);
    set_numbers(err, s->budget - s->charged, wanted);
    return QN_NO_MEMORY;
}

qn_status qn_ledger_charge_all(qn_ledger *ledger,
                               const size_t by_class[QN_MEM_COUNT],
                               qn_error *err)
{
    size_t total;
    if (!sum(by_class, &total))
        return qn_fail(err, QN_TOO_LARGE, "the bytes wanted exceed %zu",
                       SIZE_MAX);

    qn_ledger_state *s = &ledger->state;
    qn_status st;
    pthread_mutex_lock(&ledger->lock);
    for (;;) {
        if (total > s->budget - s->by_class[QN_MEM_STATIC]) {
            st = refuse_for_ever(s, total, err);
            break;
        }
        size_t room = s->budget - s->charged;
        if (total <= room) {
            add_all(s, by_class);
            st = QN_OK;
            break;
        }
        size_t (*reclaim)(void *, size_t) = ledger->reclaim;
        void *arg = ledger->reclaim_arg;
        size_t freed = 0;
        if (reclaim &&
            (s->by_class[QN_MEM_CACHE] || s->by_class[QN_MEM_GRAPH])) {
            pthread_mutex_unlock(&ledger->lock);
            freed = reclaim(arg, total - room);
            pthread_mutex_lock(&ledger->lock);
        }
        /* Somebody else may have taken what was freed: try again for as long
         * as there is something to give up. */
        if (!freed && total > s->budget - s->charged) {
            st = refuse_now(s, total, err);
            break;
        }
    }
    if (st != QN_OK)
        s->refused++;
    pthread_mutex_unlock(&ledger->lock);
    return st;
}

qn_status qn_ledger_charge(qn_ledger *ledger, qn_mem cls, size_t bytes,
                           qn_error *err)
{
    size_t by_class[QN_MEM_COUNT] = { 0 };
    by_class[cls] = bytes;
    return qn_ledger_charge_all(ledger, by_class, err);
}

qn_status qn_ledger_exchange(qn_ledger *ledger, size_t cached,
                             const size_t by_class[QN_MEM_COUNT],
                             size_t *missing)
{
    qn_ledger_state *s = &ledger->state;
    size_t total;
    *missing = 0;
    if (!sum(by_class, &total))
        return QN_TOO_LARGE;
    pthread_mutex_lock(&ledger->lock);
    assert(cached <= s->by_class[QN_MEM_CACHE]);
    size_t room = s->budget - s->charged + cached;
    if (total <= room) {
        subtract(s, QN_MEM_CACHE, cached);
        add_all(s, by_class);
    } else {
        *missing = total - room;
    }
    pthread_mutex_unlock(&ledger->lock);
    return *missing ? QN_NO_MEMORY : QN_OK;
}

void qn_ledger_give_back(qn_ledger *ledger, qn_mem cls, size_t bytes)
{
    if (!bytes)
        return;
    pthread_mutex_lock(&ledger->lock);
    subtract(&ledger->state, cls, bytes);
    void (*freed)(void *) = ledger->freed;
    void *arg = ledger->freed_arg;
    pthread_mutex_unlock(&ledger->lock);
    if (freed)
        freed(arg);
}

void qn_ledger_move(qn_ledger *ledger, qn_mem from, qn_mem to, size_t bytes)
{
    pthread_mutex_lock(&ledger->lock);
    subtract(&ledger->state, from, bytes);
    add(&ledger->state, to, bytes);
    pthread_mutex_unlock(&ledger->lock);
}

void qn_ledger_read(qn_ledger *ledger, qn_ledger_state *out)
{
    pthread_mutex_lock(&ledger->lock);
    *out = ledger->state;
    pthread_mutex_unlock(&ledger->lock);
}

void qn_ledger_set_reclaimer(qn_ledger *ledger,
                             size_t (*reclaim)(void *arg, size_t want),
                             void *arg)
{
    pthread_mutex_lock(&ledger->lock);
    ledger->reclaim = reclaim;
    ledger->reclaim_arg = arg;
    pthread_mutex_unlock(&ledger->lock);
}

void qn_ledger_set_listener(qn_ledger *ledger, void (*freed)(void *arg),
                            void *arg)
{
    pthread_mutex_lock(&ledger->lock);
    ledger->freed = freed;
    ledger->freed_arg = arg;
    pthread_mutex_unlock(&ledger->lock);
}

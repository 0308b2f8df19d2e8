/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches requests that are suspended: is the client still there, is there time
 * left? One thread with an epoll set and a heap of times.
 *
 * A client is gone when its socket reports an error or a hang-up in both
 * directions (a reset does); a half-close, which a client may do right after
 * its request, counts only where asked for. While a connection is suspended
 * the HTTP library looks at neither.
 */
#ifndef QN_SERVER_WATCH_H
#define QN_SERVER_WATCH_H

#include "runtime/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct qn_watch qn_watch;

typedef enum qn_watch_why { QN_WATCH_GONE, QN_WATCH_TIME } qn_watch_why;

/* In the caller's memory, which must stay until it was removed. */
typedef struct qn_watched {
    int fd;          /* -1: only the time */
    uint64_t end_ns; /* CLOCK_MONOTONIC; 0: no limit */
    /* Called on the watcher's thread, after the entry was taken out; may call
     * any function here but qn_watch_free(), and put the entry in again. */
    void (*fired)(struct qn_watched *entry, qn_watch_why why);
    void *arg;
    /* private */
    size_t heap; /* place in the heap + 1; 0: not in it */
    bool in;
} qn_watched;

/* `limit`: most entries at once. half_close: that counts as gone. */
QN_NODISCARD qn_status qn_watch_new(size_t limit, bool half_close,
                                    qn_watch **out, qn_error *err);
/* No entry may be in. */
void qn_watch_free(qn_watch *watch);

/* No heap call. QN_BUSY: more than the limit. */
QN_NODISCARD qn_status qn_watch_add(qn_watch *watch, qn_watched *entry);
/*
 * After it returns fired() is not running and will not be called. False if it
 * was called. Safe to call twice, and from inside fired().
 */
bool qn_watch_remove(qn_watch *watch, qn_watched *entry);
/* Another time limit, for an entry that is still in. */
void qn_watch_set_end(qn_watch *watch, qn_watched *entry, uint64_t end_ns);

#endif

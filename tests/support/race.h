/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Did anything race? Reads a log of what ran and knows nothing of the plan that
 * it ran by.
 *
 * A log holds, for each queue in its order, what the queue did. The host is a
 * queue too. From that alone the detector finds what happens before what:
 *
 *   the order of one queue
 *   RECORD of an event, before what comes behind a WAIT for it
 *   ISSUE on the host, before the entry that carries its number
 *
 * and it reports two launches that touch the same bytes, one of them to write,
 * with neither before the other. Vector clocks, one number a queue; bytes in a
 * map of intervals, each with its last writer and each queue's last reader. If any two accesses race, at least one race is found, though not every pair.
 */
#ifndef QN_TESTS_SUPPORT_RACE_H
#define QN_TESTS_SUPPORT_RACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct race_range {
    uint32_t space; /* ranges of different spaces never meet */
    uint64_t begin, end;
} race_range;

typedef enum race_kind {
    RACE_LAUNCH, /* id: the step, for messages */
    RACE_RECORD, /* id: an event; each is recorded at most once in a log */
    RACE_WAIT,   /* id: an event; one that is never recorded is no wait */
    RACE_ISSUE   /* id: a number, not 0 and not twice: work was enqueued */
} race_kind;

typedef struct race_entry {
    race_kind kind;
    uint32_t queue;
    uint64_t id;
    uint64_t issue;   /* of the ISSUE that enqueued this; 0: unknown */
    size_t range;     /* of a launch: reads, then writes, in ranges[] */
    uint32_t n_reads, n_writes;
} race_entry;

/* {0} is an empty log. Entries of one queue are in its order; those of
 * different queues may be mixed in any way. Not thread-safe. */
typedef struct race_log {
    race_entry *entries;
    size_t n, cap;
    race_range *ranges;
    size_t n_ranges, cap_ranges;
} race_log;

/* False: no memory; the log is as before. Empty ranges are left out. */
bool race_log_launch(race_log *log, uint32_t queue, uint64_t issue,
                     uint64_t step, const race_range *reads, size_t n_reads,
                     const race_range *writes, size_t n_writes);
bool race_log_point(race_log *log, race_kind kind, uint32_t queue,
                    uint64_t issue, uint64_t id);
void race_log_free(race_log *log);

typedef struct race {
    const char *kind; /* "read after write", ... : the lower step is first */
    uint64_t first, second;        /* steps */
    uint32_t first_queue, second_queue;
    race_range bytes; /* that they share; maybe not all */
} race;

enum { RACE_MOST = 16 };

typedef struct race_report {
    size_t n_races; /* pairs of accesses to an interval */
    race races[RACE_MOST]; /* the first of them */
    size_t n_launches, n_unrecorded; /* waits for events never recorded */
    char text[256]; /* the first race, or what is wrong with the log */
} race_report;

/* True: the log makes sense and nothing races. False: see out->text; n_races 0
 * means a log that cannot have happened (a wait that is never reached, an event
 * recorded twice), or no memory. */
bool race_check(const race_log *log, race_report *out);

#endif

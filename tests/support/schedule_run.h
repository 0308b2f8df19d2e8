/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a schedule of a random problem in simulation: one issuing thread and the
 * queues, each of which moves when chance says so. */
#ifndef QN_TESTS_SUPPORT_SCHEDULE_RUN_H
#define QN_TESTS_SUPPORT_SCHEDULE_RUN_H

#include "tests/support/race.h"
#include "tests/support/schedule.h"

typedef struct schedule_run {
    /* given */
    const random_schedule *problem;
    const qn_schedule *schedule;
    const size_t *offsets; /* of buffers; NULL: each has its own bytes */
    uint64_t path;         /* bit k: the k-th jump_unless of the list jumps */
    /* results; schedule_run_release() */
    race_log log; /* the host is queue 0 with host_issues, and otherwise the
                     end is a queue of its own */
    uint64_t *began, *ended; /* [n] moves; 0: did not run */
    uint32_t stuck;     /* queues that never get on, with the issuing thread */
    uint32_t bad_edges; /* a step began before one it depends on had ended */
    uint32_t bad_bytes; /* a step found other bytes than it or its producer
                           had written, at its begin or its end */
    bool early;         /* the end was reached before a step had ended */
} schedule_run;

void schedule_run_do(schedule_run *run, uint32_t *seed);
void schedule_run_release(schedule_run *run);

#endif

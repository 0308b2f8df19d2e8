/* SPDX-License-Identifier: Apache-2.0 */
/* Runs whose plan has several of the host's queues. */
#ifndef QN_EXEC_QUEUES_H
#define QN_EXEC_QUEUES_H

#include "runtime/exec/launch.h"

/* One queue's walk through the list of steps. */
typedef struct qn_walk {
    qn_run *run;
    qn_lane *lane;
    uint32_t queue, at; /* the step to look at next */
    uint32_t done;      /* steps of this queue; guarded by the lock */
    const qn_plan_record *waits_for; /* guarded by the lock */
    qn_error error;
} qn_walk;

struct qn_queues {
    pthread_mutex_t lock;
    bool failed;
    uint32_t failed_step, left; /* left: walks that have ended */
    qn_walk walks[];
};

/* Bytes of the run's qn_queues; 0 if the plan needs none. */
size_t qn_queues_bytes(const qn_plan *plan);
/* Asynchronous, as qn_run_start(). */
void qn_queues_start(qn_run *run);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Running a plan's steps: what a run keeps at the head of its SIDE memory. */
#ifndef QN_EXEC_LAUNCH_H
#define QN_EXEC_LAUNCH_H

#include "runtime/exec/heap.h"
#include "runtime/exec/session_impl.h"
#include "runtime/plan/plan.h"

/* What a run that uses accelerators needs beside: see issue.c. */
typedef struct qn_issue {
    qn_alane *lanes[QN_SESSION_ACCELS];
    qn_device_lane *held[QN_SESSION_ACCELS];
    uint32_t n_held;
    qn_lane_wait wait; /* for the next lane */
    /* memory for values that could not be planned: taken, never given back
     * before the run's end, so that no order of launches matters */
    char *side[QN_SESSION_ACCELS];
    size_t side_used[QN_SESSION_ACCELS], side_bytes[QN_SESSION_ACCELS];
    qn_notice notice;
    uint32_t pc;        /* next step */
    uint32_t finishing; /* this step's counts are waited for; UINT32_MAX */
    const void *finish_state;
    void (*resume)(qn_run *run);
    bool lost; /* a device is gone: there is nothing to wait for */
    uint32_t ending;    /* lanes whose end was seen, when all is enqueued */
    bool apart[QN_SESSION_ACCELS]; /* each stream's end is waited for */
    bool begun, arrived, ended; /* arrived: the next step's records are made */
    /* pinned, as all of the lease's host memory is */
    int64_t counts[8];
    _Alignas(16) char faults[QN_SESSION_ACCELS][QN_FAULT_BYTES];
} qn_issue;

typedef struct qn_queues qn_queues; /* queues.h */

typedef struct qn_exec {
    void **bases;        /* [plan->n_bases] */
    qn_shape *shapes;    /* [plan->n_dynamics] physical, of what has run */
    qn_tensor *args;     /* [n_queues][max_args] of a queue's current step */
    const void **packed; /* [n_queues][max_args] */
    qn_heap heap;
    qn_issue *issue;   /* NULL: everything runs on the cpu, */
    qn_queues *queues; /* NULL: on one queue */
} qn_exec;

/* Bytes of a qn_exec and its tables, 64-byte aligned. */
size_t qn_exec_bytes(const qn_plan *plan);

/* Lay the tables into the run's lease and set the bases. */
void qn_exec_init(qn_run *run);

/* One step. Of a jump that is taken, *next becomes its target. On an accelerator
 * it is only enqueued. */
qn_status qn_exec_step(qn_run *run, uint32_t i, qn_team *team, uint32_t *next);
/* The run may go on: it was not cancelled, and its deadline has not passed. */
qn_status qn_exec_may_go_on(const qn_run *run, qn_error *err);
/* Behind a launch whose kernel has finish(), when the device is there. */
qn_status qn_exec_finish_step(qn_run *run, uint32_t i);

/*
 * The same for runs that use accelerators: enqueues as far as it can. True: it
 * has ended, run->status is set, and the device uses nothing of it any more.
 * False: it waits for the device; resume(run) is called on another thread when
 * it is to be called again.
 */
bool qn_issue_steps(qn_run *run, qn_team *team, void (*resume)(qn_run *run));

/* All steps in order on this thread, sharing loops with `team`. Looks at
 * run->cancel and run->deadline_ns before each launch. Returns run->status. */
qn_status qn_exec_steps(qn_run *run, qn_team *team);

/* Streams of the host's workers, one for each run or queue. */
qn_lane *qn_lane_take(qn_runtime *rt, qn_error *err);
void qn_lane_give(qn_runtime *rt, qn_lane *lane);

/* A device's arena: the planned bytes, then the word for faults of the data. */
static inline size_t qn_device_arena_bytes(const qn_plan *plan, unsigned space)
{
    return ((plan->arena_bytes[space] + 255) & ~(size_t)255) + QN_FAULT_BYTES;
}

/* All leases of a run. */
void qn_lease_release(qn_run *run);

void *qn_exec_address(const qn_exec *e, qn_addr addr);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Running a plan's steps: what a run keeps at the head of its SIDE memory. */
#ifndef QN_EXEC_LAUNCH_H
#define QN_EXEC_LAUNCH_H

#include "runtime/exec/heap.h"
#include "runtime/plan/plan.h"

typedef struct qn_exec {
    void **bases;        /* [plan->n_bases] */
    qn_shape *shapes;    /* [plan->n_dynamics] physical, of what has run */
    qn_tensor *args;     /* [plan->max_args] of the current step */
    const void **packed; /* [plan->max_args] */
    qn_heap heap;
} qn_exec;

/* Bytes of a qn_exec and its tables, 64-byte aligned. */
size_t qn_exec_bytes(const qn_plan *plan);

/* Lay the tables into run->lease and set the bases. */
void qn_exec_init(qn_run *run);

/* All steps in order on this thread, sharing loops with `team`. Looks at
 * run->cancel and run->deadline_ns before each launch. Returns run->status. */
qn_status qn_exec_steps(qn_run *run, qn_team *team);

void *qn_exec_address(const qn_exec *e, qn_addr addr);

#endif

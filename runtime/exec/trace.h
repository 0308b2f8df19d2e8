/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run gives out, told as it happens, for tests that check it by an
 * account of their own: which bytes does each launch touch, and in which order
 * was it given to whom? Costs one look at a pointer where nobody listens.
 *
 * Of runs that use accelerators; others tell nothing, nor do collectives. Functions are called on
 * the thread that walks the list, which can be another after each pause, and on
 * several threads at once for several runs. What a step enqueues it enqueues
 * on the thread, and after the call, that told of it.
 *
 * While launches are captured into a graph all is told as if it ran.
 */
#ifndef QN_EXEC_TRACE_H
#define QN_EXEC_TRACE_H

#include "runtime/exec/kernel.h"
#include "runtime/exec/session.h"
#include "runtime/plan/schedule.h"

/* One of: a kernel's launch; a copy; a fill, where src is NULL; a read by the
 * host, where dst is. */
typedef struct qn_trace_work {
    const qn_launch *launch;
    size_t workspace_bytes; /* of the launch */
    const void *dst, *src;
    size_t bytes;
    bool on_host; /* done by this thread, at once */
} qn_trace_work;

typedef struct qn_trace {
    void *arg;
    /* The walk begins, or begins again after a capture: streams are prepared. */
    void (*begin)(void *arg, const qn_run *run);
    /* It has come to a step: records and waits of the step, then its work. More
     * than once where it pauses. */
    void (*step)(void *arg, const qn_run *run, uint32_t step);
    void (*work)(void *arg, const qn_run *run, uint32_t step,
                 const qn_trace_work *work);
    /* Streams are joined, or a graph is launched. */
    void (*end)(void *arg, const qn_run *run);
    /* A plan was made: its schedule, which the verifier has passed, and its
     * layout. All of it is gone after the call. May be NULL, as the others. */
    void (*planned)(void *arg, const qn_schedule_problem *problem,
                    const qn_schedule *schedule,
                    const qn_schedule_buffer *buffers, size_t n_buffers,
                    const size_t *offsets);
} qn_trace;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On which queue does each step run, and what has to wait for what? Pure
 * functions of their arguments: no graph, no device, no clock.
 *
 *   queue   a FIFO of steps, in list order
 *   record  an event: what queue q was given before list position `at`
 *   wait    a step does not start before a record is reached
 *   clock   of a step: how far each chain is known to be when the step starts
 *   chain   the steps of one queue in one basic block. Without jumps there is
 *           one block, and chain q is queue q
 *
 * Whoever runs a schedule goes through the list once, by one thread. On arrival
 * at position p, whether from p - 1 or by a jump, it
 *
 *   1  records records[record_start[p] .. record_start[p + 1]), each on its
 *      queue
 *   2  lets the queue of step p wait for waits[wait_start[p] ..]
 *   3  gives step p to its queue
 *
 * and at position n, after 1, it waits for join[]. With host_issues queue 0 is
 * that thread: it waits by itself and runs the step before it goes on, so that
 * everything given to any queue later is behind it.
 *
 *     list      0 a(q1)   1 b(q2) waits 0   2 jump_unless -> 4   3 c(q1)   4
 *     records   {q1, at 1}: a               {q1, at 4}: c, if it ran
 *
 * A record is never put inside a branch for somebody outside it, but at the
 * first position behind the branch that all paths meet. So no wait ever meets
 * an event that was not recorded, and what a wait tells holds on every path.
 * Where paths meet, clocks are the meet (minimum) of theirs; on a path that
 * jumps over a block, the steps of that block count as ended.
 *
 * Waits are the fewest for the queues that were chosen: those cross-queue edges
 * of the transitive reduction of data edges and queue order. Behind branches
 * they are the fewest by the meet: what one path knows by one queue, and the
 * other by another, counts as not known.
 *
 * Rejected: a wait for each data edge (about twice as many on nets with
 * branches), and reachability by n^2 bits (50 MB for 20,000 steps).
 */
#ifndef QN_PLAN_SCHEDULE_H
#define QN_PLAN_SCHEDULE_H

#include "runtime/base/alloc.h"
#include "runtime/plan/layout.h"

enum {
    QN_SCHEDULE_MAX_QUEUES = 64, /* of all classes */
    QN_SCHEDULE_MAX_PER_CLASS = 4
};

typedef enum qn_flow {
    QN_FLOW_PLAIN,
    QN_FLOW_JUMP_UNLESS, /* goes on, or jumps to target */
    QN_FLOW_JUMP         /* jumps to target */
} qn_flow;

typedef struct qn_schedule_step {
    uint32_t class; /* 0: host; 1 .. n_compute: compute of that device; then
                       one a communicator */
    qn_flow flow;
    uint32_t target;  /* of jumps: in (step, n] */
    uint64_t cost;    /* any unit, the same for all */
    const char *name; /* for messages; may be NULL */
} qn_schedule_step;

typedef struct qn_schedule_problem {
    uint32_t n;
    const qn_schedule_step *steps; /* [n] */
    /* Step i comes after deps[dep_start[i] .. dep_start[i + 1]), all < i: it
     * reads what they write, writes what they read or write. Redundant and
     * repeated ones do no harm. */
    const uint32_t *dep_start; /* [n + 1] */
    const uint32_t *deps;
    uint32_t n_compute, n_comm; /* classes beside the host */
} qn_schedule_problem;

typedef struct qn_schedule_options {
    /* Most queues of one device, and of the host without host_issues: 1 to
     * QN_SCHEDULE_MAX_PER_CLASS. Each communicator always has its own. */
    uint32_t queues;
    bool host_issues; /* false: the host's queues are like any other. Plans
                         with jumps then get one queue for everything. */
    /* For choosing queues and for qn_schedule_makespan(), in units of cost: */
    uint64_t wait_cost;   /* from an event to a waiting queue */
    uint64_t launch_cost; /* host time to give a step to a device's queue */
} qn_schedule_options;

typedef struct qn_record {
    uint32_t queue, at; /* made on arrival at position `at`, 1 .. n */
    uint32_t step;      /* the last step of that queue before `at` */
} qn_record;

typedef struct qn_schedule_stats {
    uint64_t total;    /* sum of all costs; saturates */
    uint64_t critical; /* dearest path along data edges */
    uint32_t naive;    /* data edges between queues that order of issue does
                          not cover: a wait each without reduction */
    uint32_t waits;    /* those kept, without join[] */
} qn_schedule_stats;

/* Immutable once built. */
typedef struct qn_schedule {
    uint32_t n, n_queues, n_chains;
    bool host_issues;            /* queue 0 is the issuing thread */
    const uint32_t *queue_class; /* [n_queues] */
    const uint32_t *queue;       /* [n] */
    const uint32_t *chain, *pos; /* [n] pos counts from 1 in its chain */
    const uint32_t *clock;       /* [n][n_chains] */
    uint32_t n_records;
    const qn_record *records;     /* by at, then by queue */
    const uint32_t *record_start; /* [n + 2] */
    const uint32_t *wait_start;   /* [n + 1] */
    const uint32_t *waits;        /* numbers of records, latest first */
    uint32_t n_join;
    const uint32_t *join; /* numbers of records, latest first. The queue of
                             the first may wait for the others and report */
    qn_schedule_stats stats;
} qn_schedule;

/*
 * Choose queues, then waits. Deterministic: ties break by index. *out lies in
 * `region`, also after an error (then useless). Queues that got no step do not
 * exist, but for queue 0 with host_issues.
 *
 * Queues by list order: a step goes where it can start first by the costs
 * given, ties to the queue whose last step it follows, unless a costlier
 * follower of that step is still to come.
 *
 * QN_INVALID (which step and why), QN_TOO_LARGE (more than
 * QN_SCHEDULE_MAX_QUEUES), QN_NO_MEMORY.
 */
QN_NODISCARD qn_status qn_schedule_build(const qn_schedule_problem *problem,
                                         const qn_schedule_options *options,
                                         qn_region *region, qn_schedule *out,
                                         qn_error *err);

/*
 * The same with the number of queues, 1 to options->queues, that ends first by
 * simulation; fewer unless more gain at least `min_gain` (0 to 100) percent of
 * the makespan with one. makespan[0] is that of one queue, [1] of the choice.
 */
QN_NODISCARD qn_status qn_schedule_choose(const qn_schedule_problem *problem,
                                          const qn_schedule_options *options,
                                          uint32_t min_gain, qn_region *region,
                                          qn_schedule *out,
                                          uint64_t makespan[2], qn_error *err);

/*
 * When would the last step end? Queues run side by side at full speed; a
 * jump_unless goes on. Saturates. QN_NO_MEMORY.
 */
QN_NODISCARD qn_status qn_schedule_makespan(const qn_schedule_problem *problem,
                                            const qn_schedule_options *options,
                                            const qn_schedule *schedule,
                                            uint64_t *out, qn_error *err);

/* Has step a ended before b starts, in every run that runs both, whatever the
 * delays? One compare. */
static inline bool qn_schedule_before(const qn_schedule *s, uint32_t a,
                                      uint32_t b)
{
    return a != b &&
           s->clock[(size_t)b * s->n_chains + s->chain[a]] >= s->pos[a];
}

/* Memory that steps share. */
typedef struct qn_schedule_buffer {
    uint32_t space;       /* buffers of different spaces never meet */
    uint32_t n_uses;
    const uint32_t *uses; /* steps that write or read it, in any order; n: in
                             use until the run is over */
    size_t bytes;         /* for the verifier */
    const char *name;     /* for messages; may be NULL */
} qn_schedule_buffer;

/*
 * Which buffers may not share bytes: those of one space where neither has all
 * its uses before any use of the other. *out for qn_layout_solve() lies in
 * `region`; number i there is buffer i here, so for a layout per space pass the
 * buffers of one. A buffer without uses conflicts with none. On one queue these
 * are the pairs whose intervals [first use, last use] meet.
 * QN_INVALID (a use beyond n), QN_NO_MEMORY.
 */
QN_NODISCARD qn_status qn_schedule_conflicts(const qn_schedule *schedule,
                                             const qn_schedule_buffer *buffers,
                                             size_t n_buffers,
                                             qn_region *region,
                                             qn_conflicts *out, qn_error *err);

/*
 * Independent check of a schedule and a layout, from what is written above
 * alone; shares no code with what builds them and ignores clocks and chains.
 * Each step on a queue of its class; records and waits in order, no wait for
 * what some path does not record; each data edge ordered; everything ended when
 * join[] is reached; buffers whose bytes [offset, offset + bytes) overlap
 * ordered. offsets NULL: buffers are not looked at.
 * QN_INTERNAL names the steps or the buffers; QN_NO_MEMORY.
 */
QN_NODISCARD qn_status qn_schedule_verify(const qn_schedule_problem *problem,
                                          const qn_schedule *schedule,
                                          const qn_schedule_buffer *buffers,
                                          size_t n_buffers,
                                          const size_t *offsets,
                                          qn_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan, from the inside: what qn_session_plan() builds and runs read.
 *
 *   values[]   type, physical shape and address of everything that flows
 *   steps[]    flat launch records in order; control flow is forward jumps
 *
 *     If c        0  jump_unless c -> 3
 *       then: A   1  A        2  copy A -> y     (jump -> 5)
 *       else: B   3  B        4  copy B -> y
 *     ...         5  ...
 *
 * Because jumps only go forward, a value is alive in one interval of step
 * numbers, and the two branches of an If share memory without a special rule:
 * their intervals do not meet.
 *
 * An address is {base, offset}. Bases belong to the run: static memory, plan
 * constants, arena, one per input and output, one per dynamic value. No plan
 * holds a pointer to a request's data, so any number of runs share it.
 *
 * Dynamic values are those whose shape depends on data. Their steps infer and
 * prepare when they run. A value with a known bound has its place in the arena
 * at that bound; one without takes memory from the run's SIDE heap.
 */
#ifndef QN_PLAN_PLAN_H
#define QN_PLAN_PLAN_H

#include "runtime/exec/kernel.h"
#include "runtime/exec/session.h"
#include "runtime/plan/layout.h"

/* Three bases for each space, host first: static memory, plan constants, arena.
 * Then, from plan->base_io: inputs, outputs, dynamic values. */
enum { QN_BASE_STATIC, QN_BASE_PLAN, QN_BASE_ARENA, QN_SPACE_BASES };
#define QN_BASE_NONE UINT32_MAX

static inline uint32_t qn_base(uint8_t space, uint32_t which)
{
    return (uint32_t)space * QN_SPACE_BASES + which;
}

typedef struct qn_addr {
    uint32_t base;
    uint64_t offset;
} qn_addr;

#define QN_NOT_DYNAMIC UINT32_MAX

typedef struct qn_pvalue {
    qn_tensor t;     /* physical shape (a bound where dynamic); data NULL */
    qn_memory_order order;
    uint8_t space; /* whose memory it is in */
    qn_addr addr;
    uint32_t dynamic; /* row in the run's table of dynamic values */
} qn_pvalue;

typedef struct qn_dynamic {
    uint32_t value, base;
    qn_addr home;    /* where it lies if it fits; base NONE: SIDE heap */
    size_t capacity;
    uint32_t alias;  /* dynamic row whose memory this one shares (a view), or
                        QN_NOT_DYNAMIC */
    uint32_t last;   /* step after which its memory is free */
} qn_dynamic;

enum { QN_PLAN_QUEUES = 64 };

typedef enum qn_step_kind {
    QN_STEP_LAUNCH,
    QN_STEP_COPY,        /* out[0] = in[0] */
    QN_STEP_VIEW,        /* dynamic only: out[0] is in[0] with another shape */
    QN_STEP_JUMP,        /* to target */
    QN_STEP_JUMP_UNLESS, /* to target if in[0] is false */
} qn_step_kind;

/* How far a queue is: it has ended the first `given` steps that it was given.
 * On a device an event of the record's number. */
typedef struct qn_plan_record {
    uint32_t queue, given;
} qn_plan_record;

/* A queue that has a stream on each device: of collectives. */
#define QN_SPACE_ALL 0xff

typedef struct qn_step {
    qn_step_kind kind;
    bool dynamic;
    uint8_t space; /* where it runs; of a copy: the device that moves the bytes */
    /* Which FIFO it goes to; 0 is the host's. */
    uint16_t queue;
    /* Before it: make these records, then reach these on the host, which reads
     * something, then let its queue wait for these. */
    uint32_t first_record, n_records;
    uint32_t n_host_waits, n_waits;
    const uint32_t *host_waits, *waits; /* numbers of records */
    uint32_t clear; /* outputs to be zeroed before, see qn_prepare */
    uint32_t target;
    const qn_node *node;
    const qn_kernel *kernel;
    const void *state;
    const uint32_t *in, *out; /* values[]; QN_NO_VALUE if absent */
    uint32_t n_in, n_out;
    const qn_addr *packed; /* [n_in] base NONE where not packed; or NULL */
    qn_addr workspace;
    size_t workspace_bytes;
} qn_step;

struct qn_plan {
    qn_session *session;
    atomic_int refs;
    struct qn_plan *next; /* the cache's list, newest use first */
    bool building;
    uint64_t hash;
    const void *key;
    size_t key_bytes;
    qn_region region; /* owns all below */
    size_t charged;
    qn_pvalue *values;
    uint32_t n_values;
    qn_step *steps;
    uint32_t n_steps;
    uint32_t n_in, n_out, n_bases, base_io;
    uint32_t n_spaces;
    uint32_t n_queues;
    uint8_t queue_space[QN_PLAN_QUEUES];  /* whose stream a queue is, or ALL */
    uint8_t queue_stream[QN_PLAN_QUEUES]; /* its number there */
    qn_plan_record *records;
    uint32_t n_records, end_record; /* from there: made after the last step */
    uint32_t waits_naive, waits_kept; /* what the planner saw, and needs */
    bool capturable; /* all on one device, and the host reads nothing of it */
    /* That ended well, since the last capture that failed; and how many did. */
    atomic_uint plain_runs, capture_failures;
    struct qn_instance *instances; /* exec/graphs.c */
    const uint32_t *in_values, *out_values; /* values[] */
    size_t *in_offsets, *out_offsets;       /* in their lease parts */
    qn_dynamic *dynamics;
    uint32_t n_dynamics;
    char *consts[QN_SESSION_ACCELS + 1]; /* known values, by space: what
                                            QN_BASE_PLAN points at */
    size_t const_bytes[QN_SESSION_ACCELS + 1]; /* devices: charged there */
    size_t arena_bytes[QN_SESSION_ACCELS + 1], in_bytes, out_bytes;
    size_t device_side[QN_SESSION_ACCELS + 1]; /* for values that could not be
                                                  planned; see launch.h */
    size_t table_bytes;    /* head of SIDE: bases, shapes, arguments */
    size_t heap_bytes;     /* SIDE heap for dynamic values */
    size_t strings_bytes;  /* SIDE string heap */
    uint32_t max_args;
    qn_plan_report report;
};

/* Build for a key that is not cached. `values[i]` of inputs may be NULL. */
QN_NODISCARD qn_status qn_plan_build(qn_session *session,
                                     const qn_tensor *inputs, qn_plan *plan,
                                     qn_error *err);

/* NHWC of a logical N C H W shape; others as they are. */
qn_shape qn_physical_shape(const qn_shape *shape, qn_memory_order order);
qn_shape qn_logical_shape(const qn_shape *shape, qn_memory_order order);

#endif

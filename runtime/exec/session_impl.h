/* SPDX-License-Identifier: Apache-2.0 */
/* Runtime and session from the inside. */
#ifndef QN_EXEC_SESSION_IMPL_H
#define QN_EXEC_SESSION_IMPL_H

#include "runtime/device/accel.h"
#include "runtime/device/device.h"
#include "runtime/exec/session.h"

#include <pthread.h>

/* A lane: a stream that one run borrows from start to completion. */
typedef struct qn_lane {
    qn_stream *stream;
    struct qn_lane *next;
} qn_lane;

QN_NODISCARD qn_status qn_lane_new(qn_runtime *runtime, qn_lane **out,
                                   qn_error *err);

/* An accelerator of the runtime: its memory and its lanes. See accels.c. */
typedef struct qn_device_lane {
    qn_alane *alane;
    struct qn_device_lane *next;
} qn_device_lane;

typedef struct qn_lane_wait {
    void (*granted)(struct qn_lane_wait *wait, qn_device_lane *lane);
    struct qn_lane_wait *next;
} qn_lane_wait;

typedef struct qn_accel_slot {
    qn_accel *accel;
    qn_ledger *ledger;
    qn_pool *pool;
    qn_pool_source source;
    pthread_mutex_t lock;   /* guards lanes and waiters */
    qn_device_lane *lanes;  /* idle ones */
    qn_lane_wait *first, **last; /* runs that wait for one, in order */
    uint32_t n_lanes;
    pthread_mutex_t graph_lock; /* guards the instances of all plans here */
    struct qn_instance *newest, *oldest; /* idle ones, by last use */
    uint32_t n_instances;
} qn_accel_slot;

/* Lanes, ledger and pool of options.accels; qn_accel_slots_close() also after an
 * error. */
QN_NODISCARD qn_status qn_accel_slots_open(qn_runtime *runtime, qn_error *err);
/* All sessions and runs must be gone. */
void qn_accel_slots_close(qn_runtime *runtime);
/* Host memory that devices reach; for the host's pool. The runtime has some. */
qn_pool_source qn_pinned_source(qn_runtime *runtime);
/* An idle lane, or NULL: wait->granted() will be called with one, on the thread
 * that gives it back. */
qn_device_lane *qn_device_lane_take(qn_accel_slot *slot, qn_lane_wait *wait);
void qn_device_lane_give(qn_accel_slot *slot, qn_device_lane *lane);

struct qn_runtime {
    qn_runtime_options options;
    qn_device *cpu;
    qn_ledger *ledger;
    qn_pool *pool;
    qn_accel_slot *accels; /* [n_accels] */
    uint32_t n_accels;
    pthread_mutex_t lock; /* guards lanes */
    qn_lane *lanes;       /* idle ones */
    pthread_mutex_t exchange; /* held while a collective is enqueued */
};

/* ---- static memory ---- */

/* One constant of the model, by qn_value.slot. */
typedef struct qn_slot {
    const qn_const *data; /* while loading; NULL afterwards */
    qn_shape shape;
    size_t offset;   /* in the host's block; QN_UNPLACED if it is not there */
    bool plain;      /* is it? */
    uint32_t spaces; /* bit n: it is also in block n, at qn_static_offset() */
} qn_slot;
#define QN_UNPLACED SIZE_MAX

/* The packed form of input `input` of `node`. */
typedef struct qn_packed {
    const qn_node *node;
    uint32_t input;
    uint32_t slot;
    uint8_t space; /* whose block it is in: the node's place */
    size_t offset, bytes;
} qn_packed;

/* Block 0 is the host's; block n lies on the session's device n-1. */
typedef struct qn_static_block {
    char *data;
    size_t bytes; /* mapped and charged */
} qn_static_block;

typedef struct qn_static {
    uint32_t n_spaces;
    qn_static_block blocks[QN_SESSION_ACCELS + 1];
    size_t *device_offsets; /* [n_slots][n_spaces - 1] */
    qn_slot *slots;
    uint32_t n_slots;
    qn_packed *packed; /* sorted by (node, input) */
    uint32_t n_packed;
    size_t strings_offset; /* heap of all string constants */
} qn_static;

/* Size, charge, map and fill session->memory. Sets the slots of all constants of
 * the tree. */
QN_NODISCARD qn_status qn_static_build(qn_session *session, qn_error *err);
void qn_static_release(qn_session *session);
/* Where a plain constant lies in a space's block; QN_UNPLACED if nowhere. */
size_t qn_static_offset(const qn_static *st, uint32_t slot, uint8_t space);
/* NULL if that input is not packed. */
const qn_packed *qn_static_packed(const qn_static *st, const qn_node *node,
                                  uint32_t input);

struct qn_session {
    qn_runtime *runtime;
    qn_graph *graph;
    qn_session_options options;
    qn_static memory;
    qn_static_report report;
    qn_accel_slot *accels[QN_SESSION_ACCELS]; /* [options.n_accels] */
    qn_acomm *comm; /* of the ranks' accelerators; NULL without collectives */
    qn_io *inputs, *outputs;
    pthread_mutex_t lock; /* guards the plan cache */
    pthread_cond_t built;
    qn_plan *plans; /* newest use first */
    size_t plan_bytes;
};

/* Visit every graph of the tree, parents first. */
qn_status qn_graph_each(qn_graph *graph,
                        qn_status (*fn)(qn_graph *graph, void *arg,
                                        qn_error *err),
                        void *arg, qn_error *err);

#endif

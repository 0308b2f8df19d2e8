/* SPDX-License-Identifier: Apache-2.0 */
/* Runtime and session from the inside. */
#ifndef QN_EXEC_SESSION_IMPL_H
#define QN_EXEC_SESSION_IMPL_H

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

struct qn_runtime {
    qn_runtime_options options;
    qn_device *cpu;
    qn_ledger *ledger;
    qn_pool *pool;
    pthread_mutex_t lock; /* guards lanes */
    qn_lane *lanes;       /* idle ones */
};

/* ---- static memory ---- */

/* One constant of the model, by qn_value.slot. */
typedef struct qn_slot {
    const qn_const *data; /* while loading; NULL afterwards */
    qn_shape shape;
    size_t offset; /* in the block; QN_UNPLACED if only packed forms exist */
    bool plain;
} qn_slot;
#define QN_UNPLACED SIZE_MAX

/* The packed form of input `input` of `node`. */
typedef struct qn_packed {
    const qn_node *node;
    uint32_t input;
    uint32_t slot;
    size_t offset, bytes;
} qn_packed;

typedef struct qn_static {
    char *block;
    size_t bytes; /* mapped and charged */
    qn_slot *slots;
    uint32_t n_slots;
    qn_packed *packed; /* sorted by (node, input) */
    uint32_t n_packed;
    size_t strings_offset; /* heap of all string constants */
} qn_static;

/* Size, charge, map and fill. Sets the slots of all constants of the tree. */
QN_NODISCARD qn_status qn_static_build(qn_static *st, qn_graph *graph,
                                       qn_ledger *ledger,
                                       qn_static_report *report, qn_error *err);
void qn_static_release(qn_static *st, qn_ledger *ledger);
/* NULL if that input is not packed. */
const qn_packed *qn_static_packed(const qn_static *st, const qn_node *node,
                                  uint32_t input);

struct qn_session {
    qn_runtime *runtime;
    qn_graph *graph;
    qn_session_options options;
    qn_static memory;
    qn_static_report report;
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

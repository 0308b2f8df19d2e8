/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session is a model ready to run: kernel graph, static memory, plans. A run
 * is one inference in it. Any number of runs go on at once.
 *
 *   qn_runtime   workers, ledger, pool: one per process, made by the caller
 *   qn_session   from a finished graph; immutable but for its plan cache
 *   qn_plan      for exact input shapes; shared, immutable
 *   qn_run       a plan, a lease, and the progress of its launches
 */
#ifndef QN_EXEC_SESSION_H
#define QN_EXEC_SESSION_H

#include "runtime/base/log.h"
#include "runtime/graph/graph.h"
#include "runtime/exec/kernel.h"
#include "runtime/memory/pool.h"

#include <stdatomic.h>

typedef struct qn_runtime qn_runtime;
typedef struct qn_session qn_session;
typedef struct qn_plan qn_plan;

/* ---- runtime ---- */

typedef struct qn_runtime_options {
    size_t memory_budget; /* bytes; 0: what the machine or cgroup allows, less
                             an eighth */
    int threads;          /* workers; 0: cores by affinity and cgroup quota */
    size_t max_waiters;   /* runs queued for memory; 0: 1024 */
    int max_running;      /* runs that hold memory at once, others queue; 0: two
                             for each thread, and two to decode and encode */
    /* Opened devices, borrowed: they outlive the runtime. And the bytes that it
     * may use of each; 0: what is free now, less an eighth. */
    qn_accel *const *accels;
    uint32_t n_accels;
    size_t accel_budget;
    uint32_t lanes; /* of each device: runs that compute on it at once; 0: 4 */
    qn_log log;
} qn_runtime_options;

QN_NODISCARD qn_status qn_runtime_new(const qn_runtime_options *options,
                                      qn_runtime **out, qn_error *err);
/* All sessions must be gone. */
void qn_runtime_free(qn_runtime *runtime);
qn_ledger *qn_runtime_ledger(qn_runtime *runtime);
qn_pool *qn_runtime_pool(qn_runtime *runtime);
int qn_runtime_threads(const qn_runtime *runtime);
/* Number `i` of the accelerators; NULL behind the last. Ledger and pool of its
 * memory. */
qn_accel *qn_runtime_accel(qn_runtime *runtime, uint32_t i);
qn_ledger *qn_runtime_accel_ledger(qn_runtime *runtime, uint32_t i);
qn_pool *qn_runtime_accel_pool(qn_runtime *runtime, uint32_t i);

/* Run fn(arg) on a worker, after what was posted before. Never blocks. For work
 * that must not hold up an HTTP thread: building a plan, decoding a large body.
 * `job` is the caller's memory, in use until fn starts. */
typedef struct qn_job {
    void (*fn)(void *arg);
    void *arg;
    struct qn_job *next; /* private */
} qn_job;
void qn_runtime_post(qn_runtime *runtime, qn_job *job);

/* ---- session ---- */

enum { QN_SESSION_ACCELS = 8 };

typedef struct qn_session_options {
    bool no_reuse;         /* plain memory layout: the oracle */
    bool no_passes;        /* no fusion and no layout changes */
    bool sync_launch;      /* report each kernel before the next (debug log) */
    bool loose_shapes;     /* declared input shapes are advice: any shape that
                              the operators accept may come */
    size_t dynamic_bytes;  /* for values whose size cannot be planned; 0:
                              chosen by the plan */
    size_t plan_cache_bytes; /* 0: 64 MiB */
    /* Accelerators of the runtime, by number; part r of a split model runs on
     * number r of them, fewer are refused. None: the cpu. */
    uint32_t accels[QN_SESSION_ACCELS];
    uint32_t n_accels;
    qn_precision precision; /* of products on accelerators */
    uint32_t streams; /* of each device that a run uses at once; 0: chosen by the
                         plan, 1 on the cpu, one a rank there and at most 4 */
    bool no_graphs;   /* never capture launches into a graph */
    const struct qn_trace *trace; /* for tests, see exec/trace.h; NULL: none */
} qn_session_options;

/*
 * Takes the graph in every case. Static memory is sized, charged, then filled;
 * QN_TOO_LARGE or QN_NO_MEMORY with the numbers if it does not fit. Blocks for
 * as long as packing takes: call it on a loader thread.
 */
QN_NODISCARD qn_status qn_session_new(qn_runtime *runtime, qn_graph *graph,
                                      const qn_session_options *options,
                                      qn_session **out, qn_error *err);
/* All runs must be finished. Gives back the exact bytes. */
void qn_session_free(qn_session *session);

typedef struct qn_io {
    const char *name;
    qn_type type;
    int32_t rank; /* -1: any */
    const qn_dim *dims;
    bool optional; /* inputs: has a default in the model */
    /* inputs: shapes inside the model depend on the value, so it is part of the
     * plan's key and must be given to qn_session_plan() */
    bool value_in_key;
} qn_io;

uint32_t qn_session_inputs(const qn_session *session, const qn_io **out);
uint32_t qn_session_outputs(const qn_session *session, const qn_io **out);
/* After the passes; lives as long as the session. */
const qn_graph *qn_session_graph(const qn_session *session);

typedef struct qn_static_report {
    size_t bytes;        /* charged as STATIC */
    size_t packed;       /* of these, packed for kernels */
    size_t plain;        /* kept as they are */
    size_t folded;       /* computed at load */
    uint32_t kernels, folded_nodes, fused_nodes, dropped_constants;
    size_t accel_bytes;     /* on accelerators, all together */
    uint32_t accel_kernels; /* of `kernels`, placed there */
} qn_static_report;
void qn_session_static(const qn_session *session, qn_static_report *out);

/* An operator that has to run on the cpu, since the accelerator has no kernel
 * for it at these types; what works out shapes belongs there and is not meant. */
typedef struct qn_cpu_operator {
    const char *domain, *op; /* live as long as the session */
    uint32_t count;          /* kernels */
} qn_cpu_operator;
/* Writes at most `cap` of them, in the graph's order, and returns how many; 0 in
 * a session without accelerators. Looks at every kernel: not for a
 * request's path. QN_NO_MEMORY leaves some out. */
uint32_t qn_session_on_cpu(const qn_session *session, qn_cpu_operator *out,
                           uint32_t cap);

/* ---- plans ---- */

/*
 * The plan for these inputs: [n_inputs] dtype and shape; `data` too where
 * value_in_key. dtype QN_NONE leaves an optional input out. Checks dtypes,
 * ranks, fixed dimensions and that equal symbols have equal sizes (QN_SHAPE,
 * QN_TYPE with the input's name). Builds the plan if it is not cached, once
 * even when several threads ask; that can take milliseconds.
 */
QN_NODISCARD qn_status qn_session_plan(qn_session *session,
                                       const qn_tensor *inputs, qn_plan **out,
                                       qn_error *err);
/* Only if it is cached: QN_NOT_READY otherwise. Never blocks for long. */
QN_NODISCARD qn_status qn_session_plan_cached(qn_session *session,
                                              const qn_tensor *inputs,
                                              qn_plan **out, qn_error *err);
void qn_plan_release(qn_plan *plan);

typedef struct qn_plan_value {
    const char *name;
    qn_dtype dtype;
    qn_shape shape; /* a bound where `dynamic` */
    size_t offset, bytes;
    uint32_t first, last; /* launches, inclusive */
    bool dynamic;
    bool workspace;
    uint8_t space; /* 0 the host, n the session's accelerator n-1 */
} qn_plan_value;

/* What one rank sends or receives in a collective, in the arena of `space`:
 * contiguous, with `guard` bytes before and behind that belong to it. */
typedef struct qn_plan_block {
    uint32_t rank;
    bool output;
    uint8_t space;
    size_t offset, bytes, guard;
    size_t n_members;
    const uint32_t *members; /* private to the planner */
} qn_plan_block;

typedef struct qn_plan_collective {
    const char *name, *kind;
    uint32_t ranks, launch;
    uint32_t n_blocks;
    const qn_plan_block *blocks; /* rank by rank, input before output */
} qn_plan_collective;

typedef struct qn_plan_space {
    size_t arena_bytes, lower_bound;
} qn_plan_space;

/* What fusion made of a plan's launches (plan/fuse.c). */
typedef struct qn_plan_fused {
    uint32_t chains;      /* launches of ai.quern.Chain, */
    uint32_t chain_steps; /* and what they do */
    uint32_t attention;   /* launches of ai.quern.Attention */
    uint32_t sums;        /* biases and residuals that another launch adds, */
    uint32_t activations; /* functions that it applies */
    uint32_t saved;       /* launches that are not made for all of this */
} qn_plan_fused;

typedef struct qn_plan_report {
    size_t arena_bytes, lower_bound, no_reuse_bytes; /* over all devices */
    uint32_t n_spaces;        /* 1 and the session's accelerators */
    const qn_plan_space *spaces; /* [n_spaces] live as long as the plan */
    uint32_t queues;          /* FIFOs that a run uses, 1 or more */
    uint32_t waits, waits_naive; /* between them: kept, and one for each edge */
    bool capturable;          /* launches can become a graph */
    size_t device_bytes;      /* what a request leases on accelerators */
    uint32_t accel_launches;  /* of `launches`, on accelerators */
    uint32_t cpu_float_launches; /* on the cpu, with floating-point numbers */
    uint32_t copies;          /* between host and accelerators, */
    size_t copy_bytes;        /* and what they move */
    size_t input_bytes, output_bytes, side_bytes;
    size_t lease_bytes; /* of one request: arena and these, in whole pages */
    size_t plan_bytes;  /* charged as PLAN */
    uint32_t launches, peak_launch;
    qn_plan_fused fused;
    const char *peak_node; /* which kernel runs at the peak */
    const char *solver;    /* which method won */
    double build_ms;
    uint32_t n_values;
    const qn_plan_value *values; /* live as long as the plan */
    uint32_t n_inputs;
    const qn_tensor *inputs; /* types and shapes, as planned */
    uint32_t n_outputs;
    const qn_tensor *outputs; /* types and shapes (bounds where dynamic) */
    const bool *output_dynamic;
    uint32_t n_collectives; /* whose shapes are known before the run */
    const qn_plan_collective *collectives;
} qn_plan_report;
void qn_plan_read(const qn_plan *plan, qn_plan_report *out);

/* Iterate over cached plans, newest use first: keeps a reference for the
 * caller. Returns how many were written. */
size_t qn_session_plans(qn_session *session, qn_plan **out, size_t cap);

/* ---- runs ---- */

typedef enum qn_run_part { QN_PART_ARENA, QN_PART_IN, QN_PART_OUT, QN_PART_SIDE }
    qn_run_part;

typedef struct qn_run qn_run;
typedef void (*qn_run_done)(qn_run *run, void *arg);

/*
 * A run in the caller's memory (embed it in the request): no heap call between
 * lease and completion.
 *
 *   qn_run_init     borrows the plan (takes a reference)
 *   qn_run_lease    all memory at once, now or later
 *   qn_run_input    where to write input i
 *   qn_run_start    launches go to a stream; done() when the last has ended
 *   qn_run_output   valid after done() with status QN_OK
 *   qn_run_release  gives everything back; legal in any state but running
 */
typedef struct qn_run_times {
    uint64_t leased_ns, started_ns, first_launch_ns, done_ns; /* monotonic */
} qn_run_times;

struct qn_run {
    qn_session *session;
    qn_plan *plan;
    qn_lease lease; /* of the host, parts by qn_run_part */
    qn_lease device_leases[QN_SESSION_ACCELS]; /* ARENA and SIDE */
    qn_waiter waiter;
    unsigned waits_for; /* private: 0 the host's pool, n device n-1's */
    struct qn_instance *instance; /* private: whose memory and graph it has */
    qn_run_done done;
    void *done_arg;
    void (*leased)(qn_run *run, void *arg, qn_status status);
    void *leased_arg;
    atomic_bool cancel;
    uint64_t deadline_ns; /* CLOCK_MONOTONIC; 0: none */
    qn_status status;     /* after done() */
    qn_error error;
    qn_run_times times;
    size_t string_bytes; /* room for string inputs; set before the lease */
    qn_strings strings;  /* string inputs are put here before the start */
    void *exec;        /* private: tables in the lease */
    void *lane;        /* private */
};

void qn_run_init(qn_run *run, qn_session *session, qn_plan *plan);
/* `leased` NULL: now or QN_NO_MEMORY. Otherwise QN_OK: held now, leased() is
 * not called; QN_NO_MEMORY: leased() will be called (see qn_pool_wait). */
QN_NODISCARD qn_status qn_run_lease(qn_run *run,
                                    void (*leased)(qn_run *, void *, qn_status),
                                    void *arg, qn_error *err);
/* Leave the queue for memory; true: leased() will not be called. */
bool qn_run_lease_cancel(qn_run *run);
/* Input i: type and shape as planned, data in the lease to be written before
 * the start. dtype QN_NONE for one left out. */
qn_tensor qn_run_input(const qn_run *run, uint32_t i);
/* Strings of inputs go to run->strings by qn_string_put. */

/* Asynchronous: returns at once; done(run, arg) is called on a worker. */
void qn_run_start(qn_run *run, qn_run_done done, void *arg);
/* The same on this thread, for tools, tests and very small models. A run that is
 * not simple - it uses an accelerator, or several queues - goes to the workers,
 * and this thread waits for it: never call it on a worker then. */
bool qn_run_is_simple(const qn_run *run);
qn_status qn_run_sync(qn_run *run, qn_error *err);
/* Takes effect before the next launch; done() is still called. */
void qn_run_cancel(qn_run *run);
qn_tensor qn_run_output(const qn_run *run, uint32_t i);
/* The arena alone: outputs stay. */
void qn_run_release_arena(qn_run *run);
void qn_run_release(qn_run *run);

#endif

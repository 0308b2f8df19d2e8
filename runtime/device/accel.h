/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accelerators: devices with memory and queues of their own, behind one table
 * of functions. The table is filled by a plug-in (runtime/cuda/plugin.c); the
 * executor knows nothing of CUDA.
 *
 *   accel   one opened device: context, libraries, functions, reaper
 *   lane    what a run borrows from start to completion: QN_ACCEL_STREAMS
 *           streams, library workspaces, a word that kernels report faults of
 *           the data in, events. One thread enqueues on a lane at a time.
 *   queue   one stream of a lane; what kernels enqueue on
 *   event   a slot of a lane, recorded again and again; waiting refers to the
 *           last record
 *
 * Calls that are not marked "blocking" return at once and only enqueue. A call
 * that fails says so by status and err: QN_DEVICE_LOST when the device's context
 * is beyond use (dead() is true from then on, and every notify() that waits is
 * answered), QN_NO_MEMORY when device memory is exhausted, QN_DEVICE otherwise.
 * Nothing here allocates between lane_new() and lane_free() but
 * capture_end() and what notes say.
 */
#ifndef QN_DEVICE_ACCEL_H
#define QN_DEVICE_ACCEL_H

#include "runtime/base/log.h"
#include "runtime/exec/kernel.h"
#include "runtime/ops/collective.h"

enum {
    QN_ACCEL_STREAMS = 5,      /* 0: main, 1..3: more, COMM: collectives */
    QN_ACCEL_STREAM_COMM = 4,
    QN_ACCEL_MAX = 8,          /* devices of one process */
    QN_FAULT_BYTES = 64
};

typedef struct qn_alane qn_alane;
typedef struct qn_agraph qn_agraph; /* a captured graph, ready to launch */
typedef struct qn_acomm qn_acomm;   /* communicators of one lane set */

typedef struct qn_accel_info {
    char name[64];          /* of the card */
    char driver[32];        /* "13.0" */
    char libraries[160];    /* "cuBLASLt 13.0.2, cuDNN 9.19.0" */
    int capability;         /* 90 */
    int multiprocessors;
    size_t memory_total, memory_free; /* bytes, now */
    uint64_t launches;      /* kernels enqueued so far, copies and fills not */
    uint32_t lanes;
} qn_accel_info;

typedef enum qn_copy_kind {
    QN_COPY_TO_DEVICE,   /* from pinned memory */
    QN_COPY_FROM_DEVICE, /* to pinned memory */
    QN_COPY_ON_DEVICE,
    QN_COPY_PEER         /* between two accelerators; the source's in `peer` */
} qn_copy_kind;

/* One rank's share of a collective. `count` is NCCL's: elements sent by a rank
 * for ALL_GATHER, received by a rank for REDUCE_SCATTER, in all for the rest. */
typedef struct qn_collective_part {
    qn_alane *lane; /* on its stream QN_ACCEL_STREAM_COMM */
    const void *send;
    void *recv;
} qn_collective_part;

typedef struct qn_collective_call {
    qn_collective kind;
    qn_reduction reduction;
    qn_dtype dtype;
    size_t count;
    int root; /* BROADCAST */
    const qn_collective_part *parts; /* [ranks] */
} qn_collective_call;

/* Called once, on the reaper thread: QN_OK when the event has been reached,
 * QN_DEVICE_LOST when it never will. Must return quickly; must not call the
 * device but for query(). */
typedef void (*qn_notify_fn)(void *arg, qn_status status);
/* The caller's memory, in use until fn is called. */
typedef struct qn_notice {
    qn_notify_fn fn;
    void *arg;
    struct qn_notice *next; /* private */
    qn_alane *lane;         /* private */
    uint32_t event;         /* private */
} qn_notice;

struct qn_accel_ops {
    /* ---- the device ---- */
    void (*free)(qn_accel *accel); /* blocking; all else must be gone */
    void (*info)(qn_accel *accel, qn_accel_info *out);
    bool (*dead)(qn_accel *accel, qn_error *err); /* err: why; may be NULL */
    /* The kernel for a node on this device; NULL: it stays on the cpu. */
    const qn_kernel *(*kernel_find)(qn_accel *accel, const qn_node *node,
                                    uint32_t n_in, const qn_dtype *in);

    /* ---- memory; blocking, never on a request's path in the steady state ---- */
    size_t granule; /* bytes that map() works in: a power of two */
    void *(*map)(qn_accel *accel, size_t bytes); /* NULL: exhausted or dead */
    void (*unmap)(qn_accel *accel, void *data, size_t bytes);
    void *(*pin)(qn_accel *accel, size_t bytes); /* host memory, for any device */
    void (*unpin)(qn_accel *accel, void *data, size_t bytes);
    qn_status (*alloc)(qn_accel *accel, size_t bytes, void **out, qn_error *err);
    void (*release)(qn_accel *accel, void *data);
    /* Any host memory to the device; returns when it is there. */
    qn_status (*upload)(qn_accel *accel, void *dst, const void *src,
                        size_t bytes, qn_error *err);

    /* ---- lanes ---- */
    qn_status (*lane_new)(qn_accel *accel, qn_alane **out, qn_error *err);
    void (*lane_free)(qn_alane *lane); /* must be idle */
    /* Where this run's kernels report faults of the data: QN_FAULT_BYTES of device
     * memory, and as many of pinned memory to copy them to. They belong to the
     * run, so that a captured graph is bound to its memory alone, not to a lane.
     * NULL, NULL: the lane's own. */
    void (*fault_words)(qn_alane *lane, void *device, void *host);
    /* At a run's start: clears the fault word, in stream 0. */
    qn_status (*begin)(qn_alane *lane, qn_error *err);
    /* At a run's end, in stream 0, after everything else was joined there: copies
     * the fault word to the host. After notify(): */
    qn_status (*end)(qn_alane *lane, qn_error *err);
    /* ... what kernels reported: false if nothing. Which launch, and values. */
    bool (*fault)(qn_alane *lane, uint32_t *step, char *text, size_t size);

    /* ---- enqueueing; `s`: stream number ---- */
    qn_queue *(*queue)(qn_alane *lane, unsigned s);
    qn_status (*copy)(qn_alane *lane, unsigned s, qn_copy_kind kind, void *dst,
                      const void *src, size_t bytes, qn_accel *peer,
                      qn_error *err);
    qn_status (*clear)(qn_alane *lane, unsigned s, void *dst, size_t bytes,
                       qn_error *err);
    /* Events are numbered from 0 and made when first recorded; a plan uses few.
     * reserve() makes them beforehand. */
    qn_status (*reserve)(qn_alane *lane, uint32_t events, qn_error *err);
    qn_status (*record)(qn_alane *lane, unsigned s, uint32_t event,
                        qn_error *err);
    /* What is enqueued on stream s later starts after `event` of `from`, which
     * may be a lane of another device. */
    qn_status (*wait)(qn_alane *lane, unsigned s, qn_alane *from,
                      uint32_t event, qn_error *err);
    bool (*query)(qn_alane *lane, uint32_t event); /* reached, or dead */
    /* notice->fn is called when the event is reached. Never on this thread. */
    void (*notify)(qn_alane *lane, uint32_t event, qn_notice *notice);

    /* ---- captured graphs ---- */
    /* What is enqueued from now on, on any stream of the lane, is recorded and
     * not run. One capture at a time per device: QN_BUSY when another goes on. */
    qn_status (*capture_begin)(qn_alane *lane, qn_error *err);
    /* All streams must have been joined into stream 0. On failure, or with out
     * NULL, what was recorded is dropped and the lane is as before. `bytes`: device
     * memory that the graph took. */
    qn_status (*capture_end)(qn_alane *lane, qn_agraph **out, size_t *bytes,
                             qn_error *err);
    qn_status (*graph_launch)(qn_alane *lane, qn_agraph *graph, qn_error *err);
    void (*graph_free)(qn_accel *accel, qn_agraph *graph);

    /* ---- collectives ---- */
    /* Blocking. One rank for each of n different devices. Calls of these three
     * that share a device are made one after the other. */
    qn_status (*comm_new)(qn_accel *const *accels, int n, qn_acomm **out,
                          qn_error *err);
    void (*comm_free)(qn_acomm *comm);
    /* Enqueues on each part's COMM stream, behind the device's collectives so
     * far, whatever streams and communicators these used: devices that work on
     * two at once, in different orders, could wait for each other. Not while a
     * lane captures: QN_UNSUPPORTED. */
    qn_status (*collective)(qn_acomm *comm, const qn_collective_call *call,
                            qn_error *err);
};

struct qn_accel {
    const struct qn_accel_ops *ops;
    int ordinal;     /* the driver's number */
    char label[16];  /* "cuda:0" */
};

/* ---- the plug-in ---- */

enum { QN_PLUGIN_ABI = 1 };

/* What a plug-in may use of its host; it imports nothing. */
typedef struct qn_host_api {
    qn_log log;
} qn_host_api;

typedef struct qn_plugin {
    const char *name;    /* "cuda" */
    const char *version; /* "quern 0.1, cuda 13.0, sm_75 sm_90" */
    /* How many devices there are; 0 and err when there is no driver, no card, or
     * a library is missing: the text says which. Blocking, up to a second. */
    int (*count)(qn_error *err);
    qn_status (*open)(int ordinal, const qn_host_api *host, qn_accel **out,
                      qn_error *err);
} qn_plugin;

/* The plug-in's one exported symbol, "qn_plugin_query": NULL when it was built
 * for another abi. Static storage. */
typedef const qn_plugin *(*qn_plugin_query_fn)(uint32_t abi);

#endif

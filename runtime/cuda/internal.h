/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An opened CUDA device, for the files of the plug-in.
 *
 *   device.c  open, close, info         memory.c  address ranges, pinned, static
 *   lane.c    lanes, streams, events    launch.c  what kernels enqueue with
 *   module.c  device code               reaper.c  who answers notices
 *   graph.c   captured graphs           comm.c    collectives
 *   fault.c   what a driver's result means
 *   libs.c    cuBLASLt and cuDNN        registry.c  which kernel for a node
 *
 * Locks, none held while another is taken, nor across a callback:
 *   gate.lock     who may allocate, who may capture   (graph.c)
 *   code.lock     modules and functions               (module.c); held across a
 *                 load, by threads that prepare plans
 *   reaper.lock   notices that are new                (reaper.c)
 *   comms.lock    the device's communicators          (comm.c); a communicator's
 *                 own lock may be taken while it is held
 * The rest is immutable after qn_cuda_open(), or atomic.
 *
 * Every call makes the device's context current on its thread first
 * (qn_cuda_enter): threads serve several devices in turn.
 */
#ifndef QN_CUDA_INTERNAL_H
#define QN_CUDA_INTERNAL_H

#include "runtime/cuda/driver.h"
#include "runtime/cuda/kernel.h"
#include "runtime/device/accel.h"

#include <pthread.h>
#include <stdatomic.h>

/* Allocations keep out of captures, captures out of allocations: one on the same
 * card can break the other, whatever the mode of capture. */
typedef struct qn_cuda_gate {
    pthread_mutex_t lock;
    pthread_cond_t free;
    unsigned users;     /* calls that allocate or load */
    bool capturing;     /* else `by` means nothing */
    pthread_t by;
} qn_cuda_gate;

typedef struct qn_cuda_code {
    pthread_mutex_t lock;
    CUmodule *modules;    /* [images], NULL until first used */
    qn_cuda_fn *functions; /* list; lives as long as the device */
} qn_cuda_code;

typedef struct qn_cuda_reaper {
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t work; /* on CLOCK_MONOTONIC */
    qn_notice *first, **last; /* new ones */
    bool stop;
} qn_cuda_reaper;

/* Communicators that a device is in. */
typedef struct qn_cuda_comm_link {
    qn_acomm *comm;
    struct qn_cuda_comm_link *next;
} qn_cuda_comm_link;

typedef struct qn_cuda_comms {
    pthread_mutex_t lock;
    qn_cuda_comm_link *first;
} qn_cuda_comms;

typedef struct qn_cuda_device {
    qn_accel base; /* first: a qn_accel is one of these */
    struct qn_accel_ops ops; /* granule differs from card to card */
    qn_log log;
    qn_cuda_driver cu;
    CUdevice device;
    CUcontext context;
    bool retained;
    char name[64];
    size_t memory_total;
    qn_cuda_limits limits;
    int priority_high, priority_low; /* of streams; lower numbers win */
    CUstream upload;
    CUevent exchanged; /* the last collective; made with a first communicator */
    atomic_uint_fast64_t launches;
    atomic_uint lanes;
    /* why the context is beyond use: text is written by who sets `claimed`, and
     * read by who has seen `dead` */
    atomic_flag claimed;
    atomic_bool dead;
    char dead_text[320];
    qn_cuda_gate gate;
    qn_cuda_code code;
    qn_cuda_reaper reaper;
    qn_cuda_comms comms;
    /* libs.h: each library's functions and handle, NULL until opened */
    void *blas, *dnn;
    char blas_version[48], dnn_version[48]; /* "cuBLASLt 13.0.2" */
} qn_cuda_device;

_Static_assert(offsetof(qn_cuda_device, base) == 0, "base comes first");

static inline qn_cuda_device *qn_cuda_of(const qn_accel *accel)
{
    return (qn_cuda_device *)(uintptr_t)accel;
}

static inline CUdeviceptr qn_cuda_address(const void *p)
{
    return (CUdeviceptr)(uintptr_t)p;
}

static inline void *qn_cuda_pointer(CUdeviceptr p)
{
    return (void *)(uintptr_t)p;
}

/* ---- fault.c ---- */

typedef enum qn_cuda_meaning {
    QN_CUDA_FINE,
    QN_CUDA_MEMORY, /* this call found no memory; the next may */
    QN_CUDA_POISON, /* the context, and all that ran in it, is lost */
    QN_CUDA_OTHER   /* this call failed, others need not */
} qn_cuda_meaning;

qn_cuda_meaning qn_cuda_classify(CUresult result);

/* QN_OK for CUDA_SUCCESS; else err says "cuda:0: <what>: <the driver's text>",
 * and a result that poisons marks the device dead. Any thread. */
QN_NODISCARD qn_status qn_cuda_check(qn_cuda_device *d, CUresult result,
                                     qn_error *err, const char *what, ...)
    QN_PRINTF(4, 5);
/* For calls whose failure changes nothing but, perhaps, that the device is dead. */
void qn_cuda_note(qn_cuda_device *d, CUresult result, const char *what);
/* Marks the device dead; the first reason stays. */
void qn_cuda_kill(qn_cuda_device *d, const char *why);
/* QN_DEVICE_LOST and why; for dead devices. */
qn_status qn_cuda_lost(const qn_cuda_device *d, qn_error *err);
/* The context becomes this thread's; QN_DEVICE_LOST if the device is dead. */
QN_NODISCARD qn_status qn_cuda_enter(qn_cuda_device *d, qn_error *err);

static inline bool qn_cuda_dead(const qn_cuda_device *d)
{
    return atomic_load_explicit(&d->dead, memory_order_acquire);
}

/* ---- device.c ---- */

qn_status qn_cuda_open(int ordinal, const qn_host_api *host, qn_accel **out,
                       qn_error *err);

/* ---- graph.c: the gate ---- */

void qn_cuda_gate_init(qn_cuda_gate *gate);
void qn_cuda_gate_release(qn_cuda_gate *gate);
/* Around calls that allocate: waits while another thread captures. On a thread
 * that itself captures it fails with QN_INTERNAL. */
QN_NODISCARD qn_status qn_cuda_gate_enter(qn_cuda_device *d, qn_error *err);
void qn_cuda_gate_leave(qn_cuda_device *d);

/* Both of the above: enter the context, then the gate. */
QN_NODISCARD qn_status qn_cuda_enter_blocking(qn_cuda_device *d, qn_error *err);

/* ---- module.c ---- */

QN_NODISCARD qn_status qn_cuda_code_init(qn_cuda_device *d, qn_error *err);
void qn_cuda_code_release(qn_cuda_device *d);
CUfunction qn_cuda_fn_handle(const qn_cuda_fn *fn);
const char *qn_cuda_fn_name(const qn_cuda_fn *fn);

/* ---- reaper.c ---- */

QN_NODISCARD qn_status qn_cuda_reaper_start(qn_cuda_device *d, qn_error *err);
/* Answers what is still waiting; then no thread is left. */
void qn_cuda_reaper_stop(qn_cuda_device *d);

/* ---- the table's functions, by file ---- */

const qn_kernel *qn_cuda_kernel_find(qn_accel *accel, const qn_node *node,
                                     uint32_t n_in, const qn_dtype *in);
void *qn_cuda_map(qn_accel *accel, size_t bytes);
void qn_cuda_unmap(qn_accel *accel, void *data, size_t bytes);
void *qn_cuda_pin(qn_accel *accel, size_t bytes);
void qn_cuda_unpin(qn_accel *accel, void *data, size_t bytes);
qn_status qn_cuda_alloc(qn_accel *accel, size_t bytes, void **out,
                        qn_error *err);
void qn_cuda_release(qn_accel *accel, void *data);
qn_status qn_cuda_upload(qn_accel *accel, void *dst, const void *src,
                         size_t bytes, qn_error *err);
/* memory.c's part of opening: the granule, the stream-ordered pool */
QN_NODISCARD qn_status qn_cuda_memory_init(qn_cuda_device *d, qn_error *err);

qn_status qn_cuda_lane_new(qn_accel *accel, qn_alane **out, qn_error *err);
void qn_cuda_lane_free(qn_alane *lane);
qn_status qn_cuda_begin(qn_alane *lane, qn_error *err);
qn_status qn_cuda_end(qn_alane *lane, qn_error *err);
void qn_cuda_fault_words(qn_alane *lane, void *device, void *host);
bool qn_cuda_lane_fault(qn_alane *lane, uint32_t *step, char *text,
                        size_t size);
qn_queue *qn_cuda_queue(qn_alane *lane, unsigned s);
qn_status qn_cuda_lane_copy(qn_alane *lane, unsigned s, qn_copy_kind kind,
                            void *dst, const void *src, size_t bytes,
                            qn_accel *peer, qn_error *err);
qn_status qn_cuda_lane_clear(qn_alane *lane, unsigned s, void *dst,
                             size_t bytes, qn_error *err);
qn_status qn_cuda_reserve(qn_alane *lane, uint32_t events, qn_error *err);
qn_status qn_cuda_record(qn_alane *lane, unsigned s, uint32_t event,
                         qn_error *err);
qn_status qn_cuda_wait(qn_alane *lane, unsigned s, qn_alane *from,
                       uint32_t event, qn_error *err);
bool qn_cuda_query(qn_alane *lane, uint32_t event);
void qn_cuda_notify(qn_alane *lane, uint32_t event, qn_notice *notice);

qn_status qn_cuda_capture_begin(qn_alane *lane, qn_error *err);
qn_status qn_cuda_capture_end(qn_alane *lane, qn_agraph **out, size_t *bytes,
                              qn_error *err);
qn_status qn_cuda_graph_launch(qn_alane *lane, qn_agraph *graph, qn_error *err);
void qn_cuda_graph_free(qn_accel *accel, qn_agraph *graph);

qn_status qn_cuda_comm_new(qn_accel *const *accels, int n, qn_acomm **out,
                           qn_error *err);
void qn_cuda_comm_free(qn_acomm *comm);
/* Ends the device's collectives that wait for a device which is lost, and would
 * for ever. `ask`: those that are not known to be are asked. True: it is in some
 * communicator. */
bool qn_cuda_comms_look(qn_cuda_device *d, bool ask);
qn_status qn_cuda_collective(qn_acomm *comm, const qn_collective_call *call,
                             qn_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices behind one table of functions. The executor knows streams, events and
 * bytes; it does not know whether a kernel runs on this host's cores or on a
 * card, nor whether it has run when a call returns.
 *
 *   stream   a FIFO of work. Not a thread: on cpu it is a queue that workers
 *            drain, so one worker can serve any number of streams.
 *   event    a point on a stream: (stream, epoch). Reached when everything
 *            enqueued before that epoch has ended.
 *
 * Every call is asynchronous unless it says otherwise, and thread-safe; work
 * on one stream is enqueued by one thread at a time.
 */
#ifndef QN_DEVICE_DEVICE_H
#define QN_DEVICE_DEVICE_H

#include "runtime/base/status.h"
#include "runtime/exec/kernel.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct qn_device qn_device;
typedef struct qn_stream qn_stream;

typedef struct qn_event {
    qn_stream *stream;
    uint64_t epoch; /* 0: reached from the start */
} qn_event;

/*
 * A piece of work on a stream. On cpu run() executes on a worker and `team` is
 * what qn_parallel() shares the work among. On a device with a queue of its own
 * run() enqueues there and returns.
 */
typedef void (*qn_work_fn)(void *arg, qn_team *team);

struct qn_device_ops {
    const char *name; /* "cpu", "cuda"; static storage */
    void (*free)(qn_device *device);
    /* Host threads that may run one launch's pieces: the bound of the thread
     * numbers that kernels see. */
    int (*max_threads)(const qn_device *device);
    qn_status (*stream_new)(qn_device *device, qn_stream **out, qn_error *err);
    /* The stream must be idle. */
    void (*stream_free)(qn_stream *stream);
    /* FIFO. Never blocks; QN_BUSY when the stream's queue is full. */
    qn_status (*submit)(qn_stream *stream, qn_work_fn fn, void *arg);
    /* Nothing enqueued later starts before the event is reached. */
    qn_status (*wait)(qn_stream *stream, qn_event event);
    /* The point after all that is enqueued now. */
    qn_event (*record)(qn_stream *stream);
    /* Has it been reached? */
    bool (*query)(qn_event event);
};

struct qn_device {
    const struct qn_device_ops *ops;
};

struct qn_stream {
    qn_device *device;
};

/* The host's cores. threads 0: what affinity and the cgroup's quota allow. */
QN_NODISCARD qn_status qn_cpu_device_new(int threads, qn_device **out,
                                         qn_error *err);

/* Cores that this process may use: affinity, capped by the cgroup quota (v2
 * cpu.max, v1 cpu.cfs_quota_us), rounded up, at least 1. */
int qn_cpu_count(void);

/* Work outside any stream, after what was posted before it (cpu device only).
 * `job` stays with the caller, in use until fn is called. */
struct qn_job;
void qn_cpu_device_post(qn_device *device, struct qn_job *job);

/* What a thread outside the workers shares its loops with. */
qn_team *qn_cpu_device_team(qn_device *device);

#endif

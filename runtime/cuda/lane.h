/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes and queues inside, for the files of the plug-in that enqueue. */
#ifndef QN_CUDA_LANE_H
#define QN_CUDA_LANE_H

#include "runtime/cuda/internal.h"

/* One stream, and what libraries tie to a stream. */
struct qn_queue {
    qn_alane *lane;
    unsigned number;  /* 0 .. QN_ACCEL_STREAMS - 1 */
    CUstream stream;  /* CU_STREAM_NON_BLOCKING */
    void *dnn_handle; /* libs.h: qn_cuda_dnn_queue_open() */
};

/* Events lie in chunks that never move, because other lanes' threads look while
 * this one's makes more: chunk c holds EVENTS_FIRST << c of them. */
enum { QN_CUDA_EVENTS_FIRST = 32, QN_CUDA_EVENT_CHUNKS = 16 };
typedef _Atomic(CUevent) qn_cuda_event_slot; /* NULL until made */

struct qn_alane {
    qn_cuda_device *device;
    qn_queue queues[QN_ACCEL_STREAMS];
    _Atomic(qn_cuda_event_slot *) events[QN_CUDA_EVENT_CHUNKS];
    uint32_t n_events; /* made; the owner's thread only */
    CUdeviceptr fault;         /* struct qn_fault, cleared by begin() */
    struct qn_fault *fault_host; /* pinned, copied to by end() */
    /* those two, where the run brings none */
    CUdeviceptr own_fault;
    struct qn_fault *own_fault_host;
    /* between capture_begin() and capture_end(): launches are counted for the
     * graph, and again each time it runs */
    bool capturing;
    uint64_t captured;
};

/* The event's handle; NULL when it was never recorded. Any thread. */
CUevent qn_cuda_event(qn_alane *lane, uint32_t event);

/* One more kernel was enqueued on the queue: what libraries launch counts too. */
void qn_cuda_count(qn_queue *queue);

static inline qn_cuda_device *qn_cuda_queue_device(const qn_queue *queue)
{
    return queue->lane->device;
}

#endif

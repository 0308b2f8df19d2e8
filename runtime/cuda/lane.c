/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes: streams, events, the word that kernels report faults of the data in. */
#include "runtime/cuda/lane.h"

#include "runtime/cuda/libs.h"

#include <stdio.h>
#include <string.h>

/* ---- new and free ---- */

static qn_status streams_new(qn_alane *lane, qn_error *err)
{
    qn_cuda_device *d = lane->device;
    for (unsigned s = 0; s < QN_ACCEL_STREAMS; s++) {
        qn_queue *q = &lane->queues[s];
        /* what others wait for goes first where the card has a choice */
        int priority = s == QN_ACCEL_STREAM_COMM ? d->priority_high
                                                 : d->priority_low;
        qn_status st = qn_cuda_check(
            d, d->cu.stream_new(&q->stream, CU_STREAM_NON_BLOCKING, priority),
            err, "making stream %u of a lane", s);
        if (st != QN_OK) {
            q->stream = NULL;
            return st;
        }
        st = qn_cuda_dnn_queue_open(q, err);
        if (st != QN_OK)
            return st;
    }
    return QN_OK;
}

static qn_status fault_new(qn_alane *lane, qn_error *err)
{
    qn_cuda_device *d = lane->device;
    void *host = NULL;
    CUdeviceptr at = 0;
    qn_status st = qn_cuda_check(d, d->cu.mem_alloc(&at, sizeof(struct qn_fault)),
                                 err, "allocating a lane's fault word");
    if (st != QN_OK)
        return st;
    lane->fault = lane->own_fault = at;
    st = qn_cuda_check(d,
                       d->cu.host_alloc(&host, sizeof(struct qn_fault),
                                        CU_MEMHOSTALLOC_PORTABLE),
                       err, "pinning a lane's fault word");
    if (st != QN_OK)
        return st;
    lane->fault_host = lane->own_fault_host = host;
    memset(host, 0, sizeof(struct qn_fault));
    return QN_OK;
}

/* In a context that is current, behind the gate; on a dead device handles are
 * forgotten: they go with the context. */
static void lane_destroy(qn_alane *lane)
{
    qn_cuda_device *d = lane->device;
    for (unsigned s = 0; s < QN_ACCEL_STREAMS; s++) {
        qn_cuda_dnn_queue_close(&lane->queues[s]);
        if (lane->queues[s].stream)
            qn_cuda_note(d, d->cu.stream_free(lane->queues[s].stream),
                         "cuStreamDestroy");
    }
    for (uint32_t e = 0; e < lane->n_events; e++)
        qn_cuda_note(d, d->cu.event_free(qn_cuda_event(lane, e)),
                     "cuEventDestroy");
    for (unsigned c = 0; c < QN_CUDA_EVENT_CHUNKS; c++)
        qn_free(atomic_load(&lane->events[c]));
    if (lane->own_fault)
        qn_cuda_note(d, d->cu.mem_free(lane->own_fault), "cuMemFree");
    if (lane->own_fault_host)
        qn_cuda_note(d, d->cu.host_free(lane->own_fault_host),
                     "cuMemFreeHost");
    qn_free(lane);
}

qn_status qn_cuda_lane_new(qn_accel *accel, qn_alane **out, qn_error *err)
{
    qn_cuda_device *d = qn_cuda_of(accel);
    *out = NULL;
    qn_status st = qn_cuda_enter_blocking(d, err);
    if (st != QN_OK)
        return st;
    qn_alane *lane = qn_calloc(1, sizeof *lane);
    if (!lane) {
        qn_cuda_gate_leave(d);
        return qn_fail(err, QN_NO_MEMORY, "out of memory for a lane");
    }
    lane->device = d;
    for (unsigned s = 0; s < QN_ACCEL_STREAMS; s++)
        lane->queues[s] = (qn_queue){ .lane = lane, .number = s };
    st = streams_new(lane, err);
    if (st == QN_OK)
        st = fault_new(lane, err);
    if (st == QN_OK) {
        atomic_fetch_add(&d->lanes, 1);
        *out = lane;
    } else {
        lane_destroy(lane);
    }
    qn_cuda_gate_leave(d);
    return st;
}

void qn_cuda_lane_free(qn_alane *lane)
{
    if (!lane)
        return;
    qn_cuda_device *d = lane->device;
    bool gate = qn_cuda_enter_blocking(d, NULL) == QN_OK;
    if (!gate) /* libraries want it even to forget a handle */
        (void)d->cu.context_set(d->context);
    lane_destroy(lane);
    atomic_fetch_sub(&d->lanes, 1);
    if (gate)
        qn_cuda_gate_leave(d);
}

/* ---- faults of the data ---- */

void qn_cuda_fault_words(qn_alane *lane, void *device, void *host)
{
    _Static_assert(sizeof(struct qn_fault) <= QN_FAULT_BYTES, "see accel.h");
    lane->fault = device ? qn_cuda_address(device) : lane->own_fault;
    lane->fault_host = device ? host : lane->own_fault_host;
}

qn_status qn_cuda_begin(qn_alane *lane, qn_error *err)
{
    qn_cuda_device *d = lane->device;
    qn_status st = qn_cuda_enter(d, err);
    if (st != QN_OK)
        return st;
    return qn_cuda_check(d,
                         d->cu.fill8(lane->fault, 0, sizeof(struct qn_fault),
                                     lane->queues[0].stream),
                         err, "clearing the fault word");
}

qn_status qn_cuda_end(qn_alane *lane, qn_error *err)
{
    qn_cuda_device *d = lane->device;
    qn_status st = qn_cuda_enter(d, err);
    if (st != QN_OK)
        return st;
    return qn_cuda_check(d,
                         d->cu.copy_from_device(lane->fault_host, lane->fault,
                                                sizeof(struct qn_fault),
                                                lane->queues[0].stream),
                         err, "reading the fault word");
}

/* The word was copied to the host; the caller knows that the copy has ended. */
bool qn_cuda_lane_fault(qn_alane *lane, uint32_t *step, char *text,
                        size_t size)
{
    const struct qn_fault *f = lane->fault_host;
    long long value = f->value, limit = f->limit;
    switch ((enum qn_device_fault_code)f->code) {
    case QN_DEVICE_FAULT_NONE:
        return false;
    case QN_DEVICE_FAULT_INDEX:
        snprintf(text, size, "index %lld is outside [%lld, %lld]", value,
                 -limit, limit - 1);
        break;
    case QN_DEVICE_FAULT_DIVIDE:
        snprintf(text, size, "integer division by zero");
        break;
    case QN_DEVICE_FAULT_SIZE:
        snprintf(text, size, "a size of %lld where at most %lld fit", value,
                 limit);
        break;
    case QN_DEVICE_FAULT_VALUE:
        snprintf(text, size, "value %lld is outside its domain", value);
        break;
    default:
        snprintf(text, size, "fault %u, value %lld, limit %lld", f->code, value,
                 limit);
        break;
    }
    *step = f->step;
    return true;
}

/* ---- enqueueing ---- */

qn_queue *qn_cuda_queue(qn_alane *lane, unsigned s)
{
    return &lane->queues[s];
}

void qn_cuda_count(qn_queue *queue)
{
    qn_alane *lane = queue->lane;
    if (lane->capturing)
        lane->captured++;
    else
        atomic_fetch_add_explicit(&lane->device->launches, 1,
                                  memory_order_relaxed);
}

qn_status qn_cuda_lane_copy(qn_alane *lane, unsigned s, qn_copy_kind kind,
                            void *dst, const void *src, size_t bytes,
                            qn_accel *peer, qn_error *err)
{
    static const char *const what[] = { "to the device", "from the device",
                                        "on the device",
                                        "from another device" };
    qn_cuda_device *d = lane->device;
    CUstream stream = lane->queues[s].stream;
    CUdeviceptr to = qn_cuda_address(dst), from = qn_cuda_address(src);
    CUresult r = CUDA_SUCCESS;
    qn_status st = qn_cuda_enter(d, err);
    if (st != QN_OK || !bytes)
        return st;
    switch (kind) {
    case QN_COPY_TO_DEVICE:
        r = d->cu.copy_to_device(to, src, bytes, stream);
        break;
    case QN_COPY_FROM_DEVICE:
        r = d->cu.copy_from_device(dst, from, bytes, stream);
        break;
    case QN_COPY_ON_DEVICE:
        r = d->cu.copy_on_device(to, from, bytes, stream);
        break;
    case QN_COPY_PEER:
        r = d->cu.copy_peer(to, d->context, from, qn_cuda_of(peer)->context,
                            bytes, stream);
        break;
    }
    return qn_cuda_check(d, r, err, "copying %zu bytes %s", bytes, what[kind]);
}

qn_status qn_cuda_lane_clear(qn_alane *lane, unsigned s, void *dst,
                             size_t bytes, qn_error *err)
{
    qn_cuda_device *d = lane->device;
    qn_status st = qn_cuda_enter(d, err);
    if (st != QN_OK || !bytes)
        return st;
    return qn_cuda_check(d,
                         d->cu.fill8(qn_cuda_address(dst), 0, bytes,
                                     lane->queues[s].stream),
                         err, "clearing %zu bytes", bytes);
}

/* ---- events ---- */

/* Which chunk, and where in it: chunk c starts at FIRST * (2^c - 1). */
static unsigned chunk_of(uint32_t event, uint32_t *at)
{
    uint32_t n = event / QN_CUDA_EVENTS_FIRST + 1;
    unsigned c = 31u - (unsigned)__builtin_clz(n);
    *at = event - QN_CUDA_EVENTS_FIRST * ((UINT32_C(1) << c) - 1);
    return c;
}

CUevent qn_cuda_event(qn_alane *lane, uint32_t event)
{
    uint32_t at;
    unsigned c = chunk_of(event, &at);
    if (c >= QN_CUDA_EVENT_CHUNKS)
        return NULL;
    qn_cuda_event_slot *chunk =
        atomic_load_explicit(&lane->events[c], memory_order_acquire);
    return chunk ? atomic_load_explicit(&chunk[at], memory_order_acquire)
                 : NULL;
}

static qn_status event_new(qn_alane *lane, uint32_t event, qn_error *err)
{
    qn_cuda_device *d = lane->device;
    uint32_t at;
    unsigned c = chunk_of(event, &at);
    if (c >= QN_CUDA_EVENT_CHUNKS)
        return qn_fail(err, QN_TOO_LARGE, "%s: event %u of a lane is too many",
                       d->base.label, event);
    qn_cuda_event_slot *chunk =
        atomic_load_explicit(&lane->events[c], memory_order_relaxed);
    if (!chunk) {
        chunk = qn_calloc((size_t)QN_CUDA_EVENTS_FIRST << c, sizeof *chunk);
        if (!chunk)
            return qn_fail(err, QN_NO_MEMORY, "out of memory for events");
        atomic_store_explicit(&lane->events[c], chunk, memory_order_release);
    }
    CUevent e = NULL;
    /* no times; and a thread that waits for it sleeps */
    qn_status st = qn_cuda_check(
        d,
        d->cu.event_new(&e, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC),
        err, "making event %u of a lane", event);
    if (st == QN_OK) {
        atomic_store_explicit(&chunk[at], e, memory_order_release);
        lane->n_events = event + 1;
    }
    return st;
}

qn_status qn_cuda_reserve(qn_alane *lane, uint32_t events, qn_error *err)
{
    qn_status st = qn_cuda_enter(lane->device, err);
    while (st == QN_OK && lane->n_events < events)
        st = event_new(lane, lane->n_events, err);
    return st;
}

qn_status qn_cuda_record(qn_alane *lane, unsigned s, uint32_t event,
                         qn_error *err)
{
    qn_cuda_device *d = lane->device;
    qn_status st = event == UINT32_MAX
                       ? qn_fail(err, QN_INTERNAL, "no such event")
                       : qn_cuda_reserve(lane, event + 1, err);
    if (st != QN_OK)
        return st;
    return qn_cuda_check(d,
                         d->cu.event_record(qn_cuda_event(lane, event),
                                            lane->queues[s].stream),
                         err, "recording event %u", event);
}

qn_status qn_cuda_wait(qn_alane *lane, unsigned s, qn_alane *from,
                       uint32_t event, qn_error *err)
{
    qn_cuda_device *d = lane->device;
    CUevent e = qn_cuda_event(from, event);
    qn_status st = qn_cuda_enter(d, err);
    if (st == QN_OK && qn_cuda_dead(from->device))
        st = qn_cuda_lost(from->device, err);
    if (st != QN_OK || !e) /* never recorded: nothing to wait for */
        return st;
    return qn_cuda_check(d, d->cu.stream_wait(lane->queues[s].stream, e, 0),
                         err, "waiting for event %u", event);
}

bool qn_cuda_query(qn_alane *lane, uint32_t event)
{
    qn_cuda_device *d = lane->device;
    CUevent e = qn_cuda_event(lane, event);
    if (!e || qn_cuda_enter(d, NULL) != QN_OK)
        return true;
    CUresult r = d->cu.event_query(e);
    if (r == CUDA_ERROR_NOT_READY)
        return false;
    qn_cuda_note(d, r, "asking for an event");
    return r == CUDA_SUCCESS || qn_cuda_dead(d);
}

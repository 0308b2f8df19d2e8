/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captured graphs, and the gate between captures and allocations.
 *
 * Captures are of mode THREAD_LOCAL: what other threads enqueue goes on as ever.
 * What other threads *allocate* can still break one on the same card, so calls
 * that allocate wait for the end of a capture, and a capture does not begin
 * while there are any: it is refused with QN_BUSY, and the caller launches
 * plainly this time. Neither side waits while it holds anything.
 */
#include "runtime/cuda/lane.h"

struct qn_agraph {
    CUgraphExec exec;
    uint64_t launches; /* kernels in it */
};

/* ---- the gate ---- */

void qn_cuda_gate_init(qn_cuda_gate *gate)
{
    pthread_mutex_init(&gate->lock, NULL);
    pthread_cond_init(&gate->free, NULL);
}

void qn_cuda_gate_release(qn_cuda_gate *gate)
{
    pthread_cond_destroy(&gate->free);
    pthread_mutex_destroy(&gate->lock);
}

qn_status qn_cuda_gate_enter(qn_cuda_device *d, qn_error *err)
{
    qn_cuda_gate *g = &d->gate;
    pthread_mutex_lock(&g->lock);
    bool own = g->capturing && pthread_equal(g->by, pthread_self());
    while (g->capturing && !own)
        pthread_cond_wait(&g->free, &g->lock);
    if (!own)
        g->users++;
    pthread_mutex_unlock(&g->lock);
    return own ? qn_fail(err, QN_INTERNAL,
                         "%s: an allocation inside a capture", d->base.label)
               : QN_OK;
}

void qn_cuda_gate_leave(qn_cuda_device *d)
{
    pthread_mutex_lock(&d->gate.lock);
    d->gate.users--;
    pthread_mutex_unlock(&d->gate.lock);
}

qn_status qn_cuda_enter_blocking(qn_cuda_device *d, qn_error *err)
{
    qn_status st = qn_cuda_enter(d, err);
    return st == QN_OK ? qn_cuda_gate_enter(d, err) : st;
}

static bool gate_close(qn_cuda_gate *g)
{
    pthread_mutex_lock(&g->lock);
    bool got = !g->capturing && !g->users;
    if (got) {
        g->capturing = true;
        g->by = pthread_self();
    }
    pthread_mutex_unlock(&g->lock);
    return got;
}

static void gate_open(qn_cuda_gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->capturing = false;
    pthread_cond_broadcast(&g->free);
    pthread_mutex_unlock(&g->lock);
}

/* ---- capture ---- */

qn_status qn_cuda_capture_begin(qn_alane *lane, qn_error *err)
{
    qn_cuda_device *d = lane->device;
    qn_status st = qn_cuda_enter(d, err);
    if (st != QN_OK)
        return st;
    if (!gate_close(&d->gate))
        return qn_fail(err, QN_BUSY,
                       "%s: another capture or allocation is going on",
                       d->base.label);
    st = qn_cuda_check(d,
                       d->cu.capture_begin(lane->queues[0].stream,
                                           CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                       err, "beginning a capture");
    if (st != QN_OK) {
        gate_open(&d->gate);
        return st;
    }
    lane->capturing = true;
    lane->captured = 0;
    return QN_OK;
}

/* The stream leaves its capture, whatever comes of it: a call that fails because
 * of something older than the capture has not ended it. */
static CUresult end_capture(qn_cuda_device *d, CUstream stream, CUgraph *out)
{
    CUgraph late = NULL;
    CUresult r = d->cu.capture_end(stream, out);
    if (r == CUDA_SUCCESS)
        return r;
    *out = NULL;
    if (d->cu.capture_end(stream, &late) == CUDA_SUCCESS && late)
        qn_cuda_note(d, d->cu.graph_free(late), "cuGraphDestroy");
    return r;
}

static size_t free_bytes(qn_cuda_device *d)
{
    size_t left = 0, all = 0;
    return d->cu.mem_info(&left, &all) == CUDA_SUCCESS ? left : 0;
}

/* Uploading takes the graph's memory now, and not at its first launch. */
static qn_status instantiate(qn_alane *lane, CUgraph graph, qn_agraph *out,
                             size_t *bytes, qn_error *err)
{
    qn_cuda_device *d = lane->device;
    CUstream stream = lane->queues[0].stream;
    size_t before = free_bytes(d);
    qn_status st = qn_cuda_check(d, d->cu.graph_instantiate(&out->exec, graph, 0),
                                 err, "instantiating a graph");
    if (st != QN_OK) {
        out->exec = NULL;
        return st;
    }
    st = qn_cuda_check(d, d->cu.exec_upload(out->exec, stream), err,
                       "uploading a graph");
    size_t after = free_bytes(d);
    if (bytes)
        *bytes = before > after ? before - after : 0;
    return st;
}

qn_status qn_cuda_capture_end(qn_alane *lane, qn_agraph **out, size_t *bytes,
                              qn_error *err)
{
    qn_cuda_device *d = lane->device;
    CUgraph graph = NULL;
    qn_agraph *made = NULL;
    if (out)
        *out = NULL;
    if (bytes)
        *bytes = 0;
    if (!lane->capturing)
        return qn_fail(err, QN_INTERNAL, "%s: no capture to end",
                       d->base.label);
    /* also on a dead device: the stream leaves its capture, the gate opens */
    (void)d->cu.context_set(d->context);
    qn_status st = qn_cuda_check(
        d, end_capture(d, lane->queues[0].stream, &graph), err,
        "ending a capture");
    lane->capturing = false;
    if (st == QN_OK && out) {
        made = qn_calloc(1, sizeof *made);
        st = made ? instantiate(lane, graph, made, bytes, err)
                  : qn_fail(err, QN_NO_MEMORY, "out of memory for a graph");
    }
    if (graph)
        qn_cuda_note(d, d->cu.graph_free(graph), "cuGraphDestroy");
    if (st == QN_OK && made) {
        made->launches = lane->captured;
        *out = made;
    } else if (made) {
        if (made->exec)
            qn_cuda_note(d, d->cu.exec_free(made->exec), "cuGraphExecDestroy");
        qn_free(made);
    }
    gate_open(&d->gate);
    return st;
}

qn_status qn_cuda_graph_launch(qn_alane *lane, qn_agraph *graph, qn_error *err)
{
    qn_cuda_device *d = lane->device;
    qn_status st = qn_cuda_enter(d, err);
    if (st != QN_OK)
        return st;
    st = qn_cuda_check(d, d->cu.exec_launch(graph->exec, lane->queues[0].stream),
                       err, "launching a graph");
    if (st == QN_OK)
        atomic_fetch_add_explicit(&d->launches, graph->launches,
                                  memory_order_relaxed);
    return st;
}

void qn_cuda_graph_free(qn_accel *accel, qn_agraph *graph)
{
    qn_cuda_device *d = qn_cuda_of(accel);
    if (!graph)
        return;
    if (qn_cuda_enter_blocking(d, NULL) == QN_OK) {
        qn_cuda_note(d, d->cu.exec_free(graph->exec), "cuGraphExecDestroy");
        qn_cuda_gate_leave(d);
    }
    qn_free(graph);
}

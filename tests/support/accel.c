/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/accel.h"

#include "runtime/exec/kernel.h"
#include "runtime/ops/op.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { MEMORY = 256 << 20, GRANULE = 4096, FRESH = 0xff };

typedef struct test_accel {
    qn_accel base;
    atomic_size_t allocations; /* alive */
    atomic_uint lanes;
} test_accel;

struct qn_queue {
    qn_alane *lane;
};

struct qn_alane {
    test_accel *accel;
    qn_queue queues[QN_ACCEL_STREAMS];
};

/* ---- the device ---- */

static test_accel *own(qn_accel *accel)
{
    return (test_accel *)(void *)accel;
}

static void device_free(qn_accel *accel)
{
    free(accel);
}

static void device_info(qn_accel *accel, qn_accel_info *out)
{
    *out = (qn_accel_info){ .capability = 1, .multiprocessors = 1,
                            .memory_total = MEMORY, .memory_free = MEMORY,
                            .lanes = own(accel)->lanes };
    snprintf(out->name, sizeof out->name, "the process itself");
}

static bool device_dead(qn_accel *accel, qn_error *err)
{
    (void)accel, (void)err;
    return false;
}

/* Not what says in launch() how large its outputs are, nor strings. */
static const qn_kernel *device_kernel(qn_accel *accel, const qn_node *node,
                                      uint32_t n_in, const qn_dtype *in)
{
    (void)accel;
    if (node->op->flags & (QN_OP_BOUNDED | QN_OP_VIEW | QN_OP_CONTROL))
        return NULL;
    for (uint32_t i = 0; i < n_in; i++)
        if (in[i] == QN_STRING)
            return NULL;
    if (qn_node_int(node, "to", QN_NONE) != QN_NONE) /* maybe to strings */
        return NULL;
    return qn_cpu_kernel_find(node, n_in, in);
}

/* ---- memory ---- */

static void *fresh(qn_accel *accel, size_t bytes)
{
    size_t whole = (bytes + GRANULE) / GRANULE * GRANULE;
    void *p = aligned_alloc(GRANULE, whole);
    if (p) {
        memset(p, FRESH, whole);
        own(accel)->allocations++;
    }
    return p;
}

static void gone(qn_accel *accel, void *data)
{
    if (data)
        own(accel)->allocations--;
    free(data);
}

static void unmap(qn_accel *accel, void *data, size_t bytes)
{
    (void)bytes;
    gone(accel, data);
}

static qn_status device_alloc(qn_accel *accel, size_t bytes, void **out,
                              qn_error *err)
{
    *out = fresh(accel, bytes);
    return *out ? QN_OK : qn_fail(err, QN_NO_MEMORY, "%zu bytes", bytes);
}

static qn_status upload(qn_accel *accel, void *dst, const void *src,
                        size_t bytes, qn_error *err)
{
    (void)accel, (void)err;
    memcpy(dst, src, bytes);
    return QN_OK;
}

/* ---- lanes ---- */

static qn_status lane_new(qn_accel *accel, qn_alane **out, qn_error *err)
{
    qn_alane *lane = calloc(1, sizeof *lane);
    if (!lane)
        return qn_fail(err, QN_NO_MEMORY, "no memory for a lane");
    lane->accel = own(accel);
    for (int i = 0; i < QN_ACCEL_STREAMS; i++)
        lane->queues[i].lane = lane;
    lane->accel->lanes++;
    *out = lane;
    return QN_OK;
}

static void lane_free(qn_alane *lane)
{
    lane->accel->lanes--;
    free(lane);
}

static void fault_words(qn_alane *lane, void *device, void *host)
{
    (void)lane, (void)device, (void)host;
}

static qn_status nothing(qn_alane *lane, qn_error *err)
{
    (void)lane, (void)err;
    return QN_OK;
}

/* Kernels of the cpu say what is wrong where they run. */
static bool fault(qn_alane *lane, uint32_t *step, char *text, size_t size)
{
    (void)lane, (void)step, (void)text, (void)size;
    return false;
}

static qn_queue *queue(qn_alane *lane, unsigned s)
{
    return &lane->queues[s];
}

static qn_status copy(qn_alane *lane, unsigned s, qn_copy_kind kind, void *dst,
                      const void *src, size_t bytes, qn_accel *peer,
                      qn_error *err)
{
    (void)lane, (void)s, (void)kind, (void)peer, (void)err;
    memcpy(dst, src, bytes);
    return QN_OK;
}

static qn_status clear(qn_alane *lane, unsigned s, void *dst, size_t bytes,
                       qn_error *err)
{
    (void)lane, (void)s, (void)err;
    memset(dst, 0, bytes);
    return QN_OK;
}

/* What was enqueued has ended: events are reached when they are recorded. */
static qn_status reserve(qn_alane *lane, uint32_t events, qn_error *err)
{
    (void)lane, (void)events, (void)err;
    return QN_OK;
}

static qn_status record(qn_alane *lane, unsigned s, uint32_t event,
                        qn_error *err)
{
    (void)lane, (void)s, (void)event, (void)err;
    return QN_OK;
}

static qn_status wait_for(qn_alane *lane, unsigned s, qn_alane *from,
                          uint32_t event, qn_error *err)
{
    (void)lane, (void)s, (void)from, (void)event, (void)err;
    return QN_OK;
}

static bool query(qn_alane *lane, uint32_t event)
{
    (void)lane, (void)event;
    return true;
}

/* Asked for only where query() was false. */
static void notify(qn_alane *lane, uint32_t event, qn_notice *notice)
{
    (void)lane, (void)notice;
    fprintf(stderr, "event %u has been reached already\n", event);
    abort();
}

/* ---- what it has not ---- */

static qn_status capture_begin(qn_alane *lane, qn_error *err)
{
    (void)lane;
    return qn_fail(err, QN_UNSUPPORTED, "no graphs");
}

static qn_status capture_end(qn_alane *lane, qn_agraph **out, size_t *bytes,
                             qn_error *err)
{
    (void)out, (void)bytes;
    return capture_begin(lane, err);
}

static qn_status graph_launch(qn_alane *lane, qn_agraph *graph, qn_error *err)
{
    (void)graph;
    return capture_begin(lane, err);
}

static void graph_free(qn_accel *accel, qn_agraph *graph)
{
    (void)accel, (void)graph;
}

static qn_status comm_new(qn_accel *const *accels, int n, qn_acomm **out,
                          qn_error *err)
{
    (void)accels, (void)out;
    return qn_fail(err, QN_UNSUPPORTED, "no collectives of %d ranks", n);
}

static void comm_free(qn_acomm *comm)
{
    (void)comm;
}

static qn_status collective(qn_acomm *comm, const qn_collective_call *call,
                            qn_error *err)
{
    (void)comm, (void)call;
    return qn_fail(err, QN_UNSUPPORTED, "no collectives");
}

static const struct qn_accel_ops ops = {
    .free = device_free, .info = device_info, .dead = device_dead,
    .kernel_find = device_kernel, .granule = GRANULE, .map = fresh,
    .unmap = unmap, .pin = fresh, .unpin = unmap, .alloc = device_alloc,
    .release = gone, .upload = upload, .lane_new = lane_new,
    .lane_free = lane_free, .fault_words = fault_words, .begin = nothing,
    .end = nothing, .fault = fault, .queue = queue, .copy = copy,
    .clear = clear, .reserve = reserve, .record = record, .wait = wait_for,
    .query = query, .notify = notify,
    .capture_begin = capture_begin,
    .capture_end = capture_end, .graph_launch = graph_launch,
    .graph_free = graph_free, .comm_new = comm_new, .comm_free = comm_free,
    .collective = collective,
};

qn_accel *test_accel_new(void)
{
    test_accel *a = calloc(1, sizeof *a);
    assert_non_null(a);
    a->base.ops = &ops;
    snprintf(a->base.label, sizeof a->base.label, "test:0");
    return &a->base;
}

void test_accel_free(qn_accel *accel)
{
    assert_int_equal(own(accel)->allocations, 0);
    assert_int_equal(own(accel)->lanes, 0);
    accel->ops->free(accel);
}

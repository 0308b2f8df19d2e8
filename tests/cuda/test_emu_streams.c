/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events, captures and the log of the emulated driver, as cuda.h
 * describes them. */
#include "tests/cuda/emu/test.h"

#include <pthread.h>

/* --- streams and events */

/* Work that goes to and fro between two streams, ordered only by events. */
static void test_order(void **state)
{
    (void)state;
    unsigned *out = pinned_bytes(32);
    CUstream a = stream(), b = stream();
    CUevent there = event(), back = event();
    for (uint64_t seed = 1; seed <= 20; seed++) {
        unsigned want = 1;
        memset(out, 0, 32);
        out[0] = 1;
        qn_emu_delays(seed, 200);
        for (unsigned i = 0; i < 10; i++) {
            steps(a, out, i);
            OK(cuEventRecord(there, a)); /* the same event again */
            OK(cuStreamWaitEvent(b, there, 0));
            steps(b, out, 100 + i);
            OK(cuEventRecord(back, b));
            OK(cuStreamWaitEvent(a, back, 0));
            want = step(step(want, i), 100 + i);
        }
        OK(cuStreamSynchronize(a));
        assert_int_equal(out[0], want);
    }
    qn_emu_delays(0, 0);
    OK(cuEventDestroy(there));
    OK(cuEventDestroy(back));
    OK(cuStreamDestroy(a));
    OK(cuStreamDestroy(b));
    OK(cuMemFreeHost(out));
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static void pass_gate(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
}

/* A wait takes the record of its time; an event without one is no wait. */
static void test_event_rules(void **state)
{
    (void)state;
    CUstream a = stream(), b = stream(), c = stream();
    CUevent e = event();
    OK(cuEventQuery(e));
    OK(cuStreamWaitEvent(b, e, 0));
    OK(cuStreamSynchronize(b));
    pthread_mutex_lock(&gate);
    OK(cuEventRecord(e, c));
    OK(cuEventSynchronize(e));
    OK(cuStreamWaitEvent(b, e, 0)); /* this record, which is over */
    OK(qn_emu_enqueue(a, pass_gate, NULL, 0, "gate"));
    OK(cuEventRecord(e, a));
    OK(cuStreamSynchronize(b)); /* would hang if it waited for the second */
    assert_int_equal(cuEventQuery(e), CUDA_ERROR_NOT_READY);
    assert_int_equal(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
    pthread_mutex_unlock(&gate);
    OK(cuEventSynchronize(e));
    OK(cuEventQuery(e));
    OK(cuStreamDestroy(a));
    OK(cuStreamDestroy(b));
    assert_int_equal(cuStreamSynchronize(b), CUDA_ERROR_INVALID_HANDLE);
    OK(cuStreamDestroy(c));
    OK(cuEventDestroy(e));
}

/* The legacy stream waits for blocking streams and they for it. */
static void test_legacy_stream(void **state)
{
    (void)state;
    unsigned *out = pinned_bytes(32);
    CUstream a, b = stream();
    OK(cuStreamCreate(&a, CU_STREAM_DEFAULT));
    for (uint64_t seed = 1; seed < 10; seed++) {
        memset(out, 0, 32);
        qn_emu_delays(seed, 300);
        steps(a, out, 1);
        steps(NULL, out, 2);
        steps(a, out, 3);
        OK(cuStreamSynchronize(a));
        assert_int_equal(out[0], step(step(step(0, 1), 2), 3));
    }
    qn_emu_delays(0, 0);
    pthread_mutex_lock(&gate); /* but not for non-blocking ones */
    OK(qn_emu_enqueue(b, pass_gate, NULL, 0, "gate"));
    steps(NULL, out, 4);
    OK(cuStreamSynchronize(NULL));
    pthread_mutex_unlock(&gate);
    OK(cuStreamDestroy(a));
    OK(cuStreamDestroy(b));
    OK(cuMemFreeHost(out));
}

/* --- captures and graphs */

static CUgraphExec instantiate(CUgraph g)
{
    CUgraphExec e;
    OK(cuGraphInstantiate(&e, g, 0));
    OK(cuGraphDestroy(g));
    return e;
}

static void test_capture(void **state)
{
    (void)state;
    enum { N = 6 };
    unsigned *out = pinned_bytes(N * 32);
    CUstream a = stream(), b = stream();
    CUevent fork_here = event(), join_here = event();
    CUgraph graph;
    size_t n = 0;
    memset(out, 0, N * 32);
    OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    steps(a, out, 1);
    OK(cuEventRecord(fork_here, a));
    OK(cuStreamWaitEvent(b, fork_here, 0));
    steps(a, out, 2);
    steps(b, out + 8, 3);
    OK(cuMemcpyDtoDAsync((CUdeviceptr)(out + 16), (CUdeviceptr)(out + 8), 32,
                         b));
    OK(cuEventRecord(join_here, b));
    assert_int_equal(cuEventQuery(join_here), CUDA_ERROR_CAPTURED_EVENT);
    OK(cuStreamWaitEvent(a, join_here, 0));
    steps(a, out + 16, 4);
    OK(cuStreamEndCapture(a, &graph));
    OK(cuGraphGetNodes(graph, NULL, &n));
    assert_int_equal(n, 5);
    assert_int_equal(out[0], 0); /* nothing has run */
    CUgraphExec exec = instantiate(graph);
    OK(cuGraphUpload(exec, a));
    unsigned want[3] = { 0 };
    for (uint64_t seed = 0; seed < 30; seed++) {
        qn_emu_delays(seed, seed ? 50 : 0);
        OK(cuGraphLaunch(exec, seed & 1 ? a : b)); /* in turn, all the same */
        want[0] = step(step(want[0], 1), 2);
        want[1] = step(want[1], 3);
        want[2] = step(want[1], 4);
    }
    OK(cuGraphExecDestroy(exec)); /* with launches under way */
    OK(cuCtxSynchronize());
    qn_emu_delays(0, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(out[i * 8], want[i]);
    OK(cuEventDestroy(fork_here));
    OK(cuEventDestroy(join_here));
    OK(cuStreamDestroy(a));
    OK(cuStreamDestroy(b));
    OK(cuMemFreeHost(out));
}

static CUresult end_capture(CUstream s)
{
    CUgraph g;
    CUresult r = cuStreamEndCapture(s, &g);
    if (r == CUDA_SUCCESS)
        OK(cuGraphDestroy(g));
    else
        assert_null(g);
    return r;
}

static void test_capture_unjoined(void **state)
{
    (void)state;
    unsigned *out = pinned_bytes(32);
    CUstream a = stream(), b = stream();
    CUevent e = event();
    OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    steps(a, out, 1);
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    steps(b, out, 1);
    assert_int_equal(cuStreamEndCapture(b, &(CUgraph){ 0 }),
                     CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    assert_int_equal(end_capture(a), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    steps(b, out, 1);
    assert_int_equal(end_capture(a), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    steps(b, out, 1); /* both are plain streams again */
    OK(cuStreamSynchronize(b));
    OK(cuStreamSynchronize(a));
    OK(cuEventDestroy(e));
    OK(cuStreamDestroy(a));
    OK(cuStreamDestroy(b));
    OK(cuMemFreeHost(out));
}

static CUresult breaks_sync(CUstream s)
{
    return cuStreamSynchronize(s);
}
static CUresult breaks_query(CUstream s)
{
    return cuStreamQuery(s);
}
static CUresult breaks_alloc(CUstream s)
{
    (void)s;
    CUdeviceptr p;
    return cuMemAlloc(&p, 256);
}
static CUresult breaks_context_sync(CUstream s)
{
    (void)s;
    return cuCtxSynchronize();
}
static CUresult breaks_outside_wait(CUstream s)
{
    CUevent e = event();
    CUstream other = stream();
    OK(cuEventRecord(e, other));
    CUresult r = cuStreamWaitEvent(s, e, 0);
    OK(cuEventDestroy(e));
    OK(cuStreamDestroy(other));
    return r;
}
static CUresult breaks_pageable(CUstream s)
{
    static char host[256];
    void *p = pinned_bytes(256); /* allowed: the thread's mode is relaxed */
    CUresult r = cuMemcpyHtoDAsync((CUdeviceptr)p, host, 256, s);
    return r;
}

static void test_capture_broken(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        CUresult (*run)(CUstream s);
        CUresult want;
        CUstreamCaptureMode mode;
    } rows[] = {
        { "sync", breaks_sync, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
          CU_STREAM_CAPTURE_MODE_RELAXED },
        { "query", breaks_query, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
          CU_STREAM_CAPTURE_MODE_RELAXED },
        { "alloc, global", breaks_alloc, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
          CU_STREAM_CAPTURE_MODE_GLOBAL },
        { "alloc, local", breaks_alloc, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
          CU_STREAM_CAPTURE_MODE_THREAD_LOCAL },
        { "context", breaks_context_sync,
          CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
          CU_STREAM_CAPTURE_MODE_RELAXED },
        { "outside", breaks_outside_wait, CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
          CU_STREAM_CAPTURE_MODE_RELAXED },
        { "pageable", breaks_pageable, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
          CU_STREAM_CAPTURE_MODE_RELAXED },
    };
    unsigned *out = pinned_bytes(32);
    CUstream s = stream();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CUstreamCaptureStatus status;
        OK(cuStreamBeginCapture(s, rows[i].mode));
        steps(s, out, 1);
        CUresult r = rows[i].run(s);
        if (r != rows[i].want)
            fail_msg("%s: %d, not %d", rows[i].name, r, rows[i].want);
        OK(cuStreamIsCapturing(s, &status));
        assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        assert_int_equal(cuMemsetD8Async((CUdeviceptr)out, 0, 4, s),
                         CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        assert_int_equal(end_capture(s),
                         CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        OK(cuStreamSynchronize(s));
    }
    OK(cuStreamDestroy(s));
    OK(cuMemFreeHost(out));
}

/* What another thread does while this one captures. */
static void *alloc_elsewhere(void *arg)
{
    CUresult *r = arg;
    CUdeviceptr p;
    if (cuCtxSetCurrent(context) == CUDA_SUCCESS)
        *r = cuMemAlloc(&p, 256);
    if (*r == CUDA_SUCCESS)
        *r = cuMemFree(p);
    return NULL;
}

static void test_capture_threads(void **state)
{
    (void)state;
    CUstream s = stream();
    for (int local = 0; local < 2; local++) {
        CUresult r = CUDA_ERROR_UNKNOWN;
        pthread_t t;
        OK(cuStreamBeginCapture(s, local ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
                                         : CU_STREAM_CAPTURE_MODE_GLOBAL));
        assert_int_equal(pthread_create(&t, NULL, alloc_elsewhere, &r), 0);
        pthread_join(t, NULL);
        assert_int_equal(r, local ? CUDA_SUCCESS
                                  : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        assert_int_equal(end_capture(s),
                         local ? CUDA_SUCCESS
                               : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    OK(cuStreamDestroy(s));
}

/* --- log */

static size_t find_entry(const struct qn_emu_entry *log, size_t n,
                         uint32_t kind, uint64_t tag)
{
    for (size_t i = 0; i < n; i++)
        if (log[i].kind == kind && (!tag || log[i].tag == tag))
            return i;
    fail_msg("no entry of kind %u, tag %u", kind, (unsigned)tag);
    return 0;
}

static void test_log(void **state)
{
    (void)state;
    static struct qn_emu_entry log[64];
    unsigned *out = pinned_bytes(64);
    CUstream a = stream(), b = stream();
    CUevent e = event();
    CUgraph graph;
    qn_emu_reset_counts();
    qn_emu_log(true);
    qn_emu_tag(a, 11);
    steps(a, out, 1);
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    qn_emu_tag(b, 22);
    steps(b, out, 2);
    OK(cuStreamSynchronize(b));
    qn_emu_tag(a, 33);
    steps(a, out, 3); /* after b, by what the host saw */
    OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    qn_emu_tag(a, 44);
    steps(a, out, 4);
    qn_emu_tag(a, 55);
    steps(a, out, 5);
    OK(cuStreamEndCapture(a, &graph));
    CUgraphExec exec = instantiate(graph);
    OK(cuGraphLaunch(exec, a));
    OK(cuCtxSynchronize());
    qn_emu_log(false);
    size_t n = qn_emu_log_read(log, 64);
    assert_true(n <= 64);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(log[i].sequence, i + 1);
    size_t one = find_entry(log, n, QN_EMU_KERNEL, 11);
    size_t two = find_entry(log, n, QN_EMU_KERNEL, 22);
    size_t three = find_entry(log, n, QN_EMU_KERNEL, 33);
    size_t four = find_entry(log, n, QN_EMU_KERNEL, 44);
    size_t five = find_entry(log, n, QN_EMU_KERNEL, 55);
    size_t record = find_entry(log, n, QN_EMU_RECORD, 0);
    size_t wait = find_entry(log, n, QN_EMU_WAIT, 0);
    size_t seen = find_entry(log, n, QN_EMU_OBSERVED, 0);
    size_t edge = find_entry(log, n, QN_EMU_EDGE, 0);
    assert_string_equal(log[one].what, "tk_step");
    assert_int_equal(log[one].stream, qn_emu_stream_number(a));
    assert_int_equal(log[two].stream, qn_emu_stream_number(b));
    assert_true(one < record && record < wait && wait < two && two < seen);
    assert_int_equal(log[record].point, log[wait].point);
    assert_int_equal(log[wait].stream, qn_emu_stream_number(b));
    assert_true(log[three].enqueued > log[seen].sequence);
    assert_true(log[two].enqueued < log[seen].sequence);
    assert_int_equal(log[four].launch, log[five].launch);
    assert_int_equal(log[edge].node, log[five].node);
    assert_int_equal(log[edge].point, log[four].node);
    assert_int_equal(qn_emu_count("tk_step"), 5);
    assert_int_equal(qn_emu_count("kernel"), 5);
    assert_int_equal(qn_emu_count("graph"), 1);
    OK(cuGraphExecDestroy(exec));
    OK(cuEventDestroy(e));
    OK(cuStreamDestroy(a));
    OK(cuStreamDestroy(b));
    OK(cuMemFreeHost(out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_event_rules),
        cmocka_unit_test(test_legacy_stream),
        cmocka_unit_test(test_capture),
        cmocka_unit_test(test_capture_unjoined),
        cmocka_unit_test(test_capture_broken),
        cmocka_unit_test(test_capture_threads),
        cmocka_unit_test(test_log),
    };
    return cmocka_run_group_tests(tests, open_driver, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Every function of a device's table, on whatever libcuda.so.1 is found. What is
 * injected (faults, delays) is in test_plugin_faults.c. */
#include "tests/cuda/support/device_node.h"
#include "tests/cuda/support/emu.h"

#include "runtime/device/plugin.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SMALL = 4096 };

static const struct qn_accel_ops *ops(void)
{
    return device_accel()->ops;
}

static void ok(qn_status st, const qn_error *err)
{
    if (st != QN_OK)
        fail_msg("%s: %s", qn_status_name(st), err->text);
}

static void *alloc(size_t bytes)
{
    qn_error err = { 0 };
    void *p;
    ok(ops()->alloc(device_accel(), bytes, &p, &err), &err);
    assert_non_null(p);
    return p;
}

static void *pin(size_t bytes)
{
    void *p = ops()->pin(device_accel(), bytes);
    assert_non_null(p);
    return p;
}

static void drain(void)
{
    assert_int_equal(device_drain(device_accel(), device_lane()), QN_OK);
}

static void copy(unsigned s, qn_copy_kind kind, void *dst, const void *src,
                 size_t bytes)
{
    qn_error err = { 0 };
    ok(ops()->copy(device_lane(), s, kind, dst, src, bytes, NULL, &err), &err);
}

static void clear(unsigned s, void *dst, size_t bytes)
{
    qn_error err = { 0 };
    ok(ops()->clear(device_lane(), s, dst, bytes, &err), &err);
}

static void record(unsigned s, uint32_t event)
{
    qn_error err = { 0 };
    ok(ops()->record(device_lane(), s, event, &err), &err);
}

static void wait_for(unsigned s, uint32_t event)
{
    qn_error err = { 0 };
    ok(ops()->wait(device_lane(), s, device_lane(), event, &err), &err);
}

static void pattern(unsigned char *p, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)(i * 131 + i / 251 + seed);
}

/* ---- the device ---- */

static void test_info(void **state)
{
    qn_accel *a = device_accel();
    qn_accel_info i;
    (void)state;
    a->ops->info(a, &i);
    assert_string_equal(a->label, "cuda:0");
    assert_int_equal(a->ordinal, 0);
    assert_true(i.name[0] && i.driver[0]);
    assert_non_null(strstr(i.libraries, "cuBLASLt "));
    assert_non_null(strstr(i.libraries, "cuDNN "));
    assert_true(i.capability >= 75 && i.multiprocessors > 0);
    assert_true(i.memory_free > 0 && i.memory_free <= i.memory_total);
    assert_int_equal(i.lanes, 1);
    assert_false(a->ops->dead(a, NULL));
}

static void test_no_such_device(void **state)
{
    static const struct {
        int ordinals[QN_ACCEL_MAX + 1];
        uint32_t n;
        qn_status status;
        const char *says;
    } rows[] = {
        { { 99 }, 1, QN_NOT_FOUND, "there is no cuda:99" },
        { { -1 }, 1, QN_NOT_FOUND, "there is no cuda:-1" },
        { { 0, 0 }, 2, QN_INVALID, "cuda:0 is given twice" },
        { { 0, 1, 2, 3, 4, 5, 6, 7, 8 }, 9, QN_INVALID, "at most 8" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        qn_accels a;
        qn_error err = { 0 };
        qn_status st = qn_accels_open(rows[i].ordinals, rows[i].n, NULL, &a,
                                      &err);
        if (st != rows[i].status || !strstr(err.text, rows[i].says) || a.n ||
            a.library)
            fail_msg("row %zu: %s, \"%s\"", i, qn_status_name(st), err.text);
    }
}

/* ---- memory ---- */

static void test_map(void **state)
{
    size_t g = ops()->granule;
    unsigned char *host = pin(SMALL);
    (void)state;
    assert_true(g >= 4096 && (g & (g - 1)) == 0);
    assert_null(ops()->map(device_accel(), 0));
    assert_null(ops()->map(device_accel(), g + 1));
    assert_null(ops()->map(device_accel(), (size_t)1 << 60));
    assert_false(ops()->dead(device_accel(), NULL));
    for (size_t n = 1; n <= 3; n++) {
        unsigned char *p = ops()->map(device_accel(), n * g);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 256, 0);
        /* the last bytes are there, and are this range's */
        pattern(host, SMALL, (unsigned)n);
        copy(0, QN_COPY_TO_DEVICE, p + n * g - SMALL, host, SMALL);
        drain();
        memset(host, 0, SMALL);
        copy(0, QN_COPY_FROM_DEVICE, host, p + n * g - SMALL, SMALL);
        drain();
        unsigned char want[SMALL];
        pattern(want, SMALL, (unsigned)n);
        assert_memory_equal(host, want, SMALL);
        ops()->unmap(device_accel(), p, n * g);
    }
    ops()->unpin(device_accel(), host, SMALL);
}

static void test_alloc(void **state)
{
    qn_error err = { 0 };
    void *p = &err;
    (void)state;
    ok(ops()->alloc(device_accel(), 0, &p, &err), &err);
    assert_null(p);
    assert_int_equal(ops()->alloc(device_accel(), (size_t)1 << 60, &p, &err),
                     QN_NO_MEMORY);
    assert_null(p);
    assert_non_null(strstr(err.text, "cuda:0: allocating 1152921504606846976"));
    assert_false(ops()->dead(device_accel(), NULL));
    p = alloc(1);
    ops()->release(device_accel(), p);
    ops()->release(device_accel(), NULL);
}

/* From memory that is neither pinned nor aligned. */
static void test_upload(void **state)
{
    enum { N = 100003 };
    unsigned char *src = malloc(N + 1), *back = pin(N);
    unsigned char *p = alloc(N);
    qn_error err = { 0 };
    (void)state;
    pattern(src, N + 1, 5);
    ok(ops()->upload(device_accel(), p, src + 1, N, &err), &err);
    ok(ops()->upload(device_accel(), p, src, 0, &err), &err);
    copy(0, QN_COPY_FROM_DEVICE, back, p, N);
    drain();
    assert_memory_equal(back, src + 1, N);
    ops()->release(device_accel(), p);
    ops()->unpin(device_accel(), back, N);
    free(src);
}

static void test_copies(void **state)
{
    enum { N = 70001 };
    unsigned char *host = pin(N), *back = pin(N);
    unsigned char *a = alloc(N), *b = alloc(N);
    (void)state;
    pattern(host, N, 9);
    memset(back, 1, N);
    copy(1, QN_COPY_TO_DEVICE, a, host, N);
    copy(1, QN_COPY_ON_DEVICE, b, a, N);
    clear(1, b + 3, 60000);
    copy(1, QN_COPY_FROM_DEVICE, back, b, N);
    copy(1, QN_COPY_FROM_DEVICE, NULL, NULL, 0);
    record(1, 3);
    wait_for(0, 3);
    drain();
    memset(host + 3, 0, 60000);
    assert_memory_equal(back, host, N);
    ops()->release(device_accel(), a);
    ops()->release(device_accel(), b);
    ops()->unpin(device_accel(), host, N);
    ops()->unpin(device_accel(), back, N);
}

/* ---- streams and events ---- */

/* A chain over all streams: each link is right only if it waited. Events in
 * several chunks, recorded again and again. */
static void test_chain(void **state)
{
    enum { LINKS = 300, N = 64 };
    unsigned char *host = pin(N), *back = pin(N);
    unsigned char *cell = alloc((LINKS + 1) * N);
    qn_error err = { 0 };
    (void)state;
    ok(ops()->reserve(device_lane(), 40, &err), &err);
    for (unsigned round = 0; round < 2; round++) {
        pattern(host, N, round);
        clear(0, cell, (LINKS + 1) * N);
        copy(0, QN_COPY_TO_DEVICE, cell, host, N);
        record(0, 0);
        for (unsigned i = 0; i < LINKS; i++) {
            unsigned s = (i * 3 + 1) % QN_ACCEL_STREAMS;
            wait_for(s, i);
            copy(s, QN_COPY_ON_DEVICE, cell + (i + 1) * N, cell + i * N, N);
            record(s, i + 1);
        }
        wait_for(0, LINKS);
        copy(0, QN_COPY_FROM_DEVICE, back, cell + LINKS * N, N);
        drain();
        assert_memory_equal(back, host, N);
        assert_true(ops()->query(device_lane(), LINKS));
    }
    /* never recorded: nothing to wait for */
    wait_for(0, 100000);
    assert_true(ops()->query(device_lane(), 100000));
    drain();
    ops()->release(device_accel(), cell);
    ops()->unpin(device_accel(), host, N);
    ops()->unpin(device_accel(), back, N);
}

typedef struct answers {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    pthread_t by;
    int n, order[64];
    qn_status status[64];
} answers;

typedef struct ask {
    qn_notice notice;
    answers *to;
    int number;
} ask;

static void answer(void *arg, qn_status status)
{
    ask *a = arg;
    pthread_mutex_lock(&a->to->lock);
    a->to->order[a->to->n] = a->number;
    a->to->status[a->to->n++] = status;
    a->to->by = pthread_self();
    pthread_cond_signal(&a->to->cond);
    pthread_mutex_unlock(&a->to->lock);
}

static void wait_answers(answers *a, int n)
{
    pthread_mutex_lock(&a->lock);
    while (a->n < n)
        pthread_cond_wait(&a->cond, &a->lock);
    pthread_mutex_unlock(&a->lock);
}

static void test_notify(void **state)
{
    answers got = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER,
                    pthread_self(), 0, { 0 }, { QN_OK } };
    ask asks[32];
    (void)state;
    for (int i = 0; i < 32; i++) {
        asks[i] = (ask){ .notice = { .fn = answer, .arg = &asks[i] },
                         .to = &got,
                         .number = i };
        if (i) /* event 31 of the fresh range was never recorded */
            record((unsigned)i % QN_ACCEL_STREAMS, 2000 + (uint32_t)i);
        ops()->notify(device_lane(), 2000 + (uint32_t)i, &asks[i].notice);
    }
    wait_answers(&got, 32);
    int seen = 0;
    for (int i = 0; i < 32; i++) {
        assert_int_equal(got.status[i], QN_OK);
        seen ^= got.order[i] + 1;
    }
    int want = 0;
    for (int i = 0; i < 32; i++)
        want ^= i + 1;
    assert_int_equal(seen, want);
    assert_false(pthread_equal(got.by, pthread_self()));
}

/* Two lanes: the second one's event is recorded while the first has much to do,
 * and waits for no part of it. */
static void test_overtaking(void **state)
{
    enum { N = 1 << 20, TIMES = 200 };
    const test_emu *emu = test_emu_find();
    answers got = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER,
                    pthread_self(), 0, { 0 }, { QN_OK } };
    ask slow = { .notice = { .fn = answer, .arg = &slow }, .to = &got };
    ask fast = { .notice = { .fn = answer, .arg = &fast }, .to = &got,
                 .number = 1 };
    qn_alane *other;
    qn_error err = { 0 };
    void *p = alloc(N);
    (void)state;
    if (!emu)
        skip();
    ok(ops()->lane_new(device_accel(), &other, &err), &err);
    emu->delays(7, 1000);
    for (int i = 0; i < TIMES; i++)
        clear(0, p, N);
    record(0, 0);
    ops()->notify(device_lane(), 0, &slow.notice);
    ok(ops()->record(other, 0, 0, &err), &err);
    ops()->notify(other, 0, &fast.notice);
    wait_answers(&got, 2);
    emu->delays(0, 0);
    assert_int_equal(got.order[0], 1);
    assert_int_equal(got.order[1], 0);
    qn_accel_info info;
    ops()->info(device_accel(), &info);
    assert_int_equal(info.lanes, 2);
    ops()->lane_free(other);
    ops()->release(device_accel(), p);
}

/* ---- lanes ---- */

static void test_no_fault(void **state)
{
    qn_error err = { 0 };
    uint32_t step = 17;
    char text[80] = "untouched";
    (void)state;
    ok(ops()->begin(device_lane(), &err), &err);
    ok(ops()->end(device_lane(), &err), &err);
    drain();
    assert_false(ops()->fault(device_lane(), &step, text, sizeof text));
    assert_int_equal(step, 17);
    assert_string_equal(text, "untouched");
}

static void test_lanes(void **state)
{
    qn_alane *lanes[4];
    qn_error err = { 0 };
    (void)state;
    for (int i = 0; i < 4; i++)
        ok(ops()->lane_new(device_accel(), &lanes[i], &err), &err);
    for (int i = 0; i < 4; i++)
        for (unsigned s = 0; s < QN_ACCEL_STREAMS; s++)
            for (int k = 0; k < i; k++)
                assert_true(ops()->queue(lanes[i], s) !=
                            ops()->queue(lanes[k], s));
    /* lanes wait for each other's events */
    ok(ops()->record(lanes[0], 1, 5, &err), &err);
    ok(ops()->wait(lanes[1], 2, lanes[0], 5, &err), &err);
    ok(ops()->record(lanes[1], 2, 0, &err), &err);
    ok(ops()->wait(device_lane(), 0, lanes[1], 0, &err), &err);
    drain();
    for (int i = 0; i < 4; i++)
        ops()->lane_free(lanes[i]);
    ops()->lane_free(NULL);
}

/* ---- captured graphs ---- */

/* in -> a -> (b | c with a hole) -> out: three streams, forked and joined. */
static void enqueue_diamond(unsigned char *host, unsigned char *cells, size_t n)
{
    copy(0, QN_COPY_TO_DEVICE, cells, host, n);
    record(0, 10);
    wait_for(1, 10);
    wait_for(2, 10);
    copy(1, QN_COPY_ON_DEVICE, cells + n, cells, n);
    copy(2, QN_COPY_ON_DEVICE, cells + 2 * n, cells, n);
    clear(2, cells + 2 * n + 1, n / 2);
    record(1, 11);
    record(2, 12);
    wait_for(0, 11);
    wait_for(0, 12);
    copy(0, QN_COPY_FROM_DEVICE, host + n, cells + n, 2 * n);
}

static void test_graph(void **state)
{
    enum { N = 999 };
    unsigned char *host = pin(3 * N), plain[2 * N];
    unsigned char *cells = alloc(3 * N);
    qn_agraph *graph, *dropped;
    size_t bytes = 1;
    qn_error err = { 0 };
    (void)state;
    ok(ops()->capture_begin(device_lane(), &err), &err);
    memset(host, 7, 3 * N);
    enqueue_diamond(host, cells, N);
    ok(ops()->capture_end(device_lane(), &graph, &bytes, &err), &err);
    assert_non_null(graph);
    drain();
    assert_int_equal(host[N] + host[3 * N - 1], 14); /* recorded, not run */
    for (unsigned round = 0; round < 3; round++) {
        pattern(host, N, round);
        memset(host + N, 7, 2 * N);
        enqueue_diamond(host, cells, N);
        drain();
        memcpy(plain, host + N, 2 * N);
        memset(host + N, 7, 2 * N);
        ok(ops()->graph_launch(device_lane(), graph, &err), &err);
        drain();
        assert_memory_equal(host + N, plain, 2 * N);
        assert_memory_equal(plain, host, N);
    }
    /* dropped on request */
    ok(ops()->capture_begin(device_lane(), &err), &err);
    enqueue_diamond(host, cells, N);
    ok(ops()->capture_end(device_lane(), NULL, NULL, &err), &err);
    /* a stream that was not joined: no graph, and the lane goes on */
    ok(ops()->capture_begin(device_lane(), &err), &err);
    record(0, 10);
    wait_for(1, 10);
    clear(1, cells, N);
    assert_int_equal(ops()->capture_end(device_lane(), &dropped, &bytes, &err),
                     QN_DEVICE);
    assert_null(dropped);
    assert_int_equal(bytes, 0);
    memset(host + N, 7, 2 * N);
    enqueue_diamond(host, cells, N);
    drain();
    assert_memory_equal(host + N, plain, 2 * N);
    assert_int_equal(ops()->capture_end(device_lane(), &dropped, &bytes, &err),
                     QN_INTERNAL);
    ops()->graph_free(device_accel(), graph);
    ops()->graph_free(device_accel(), NULL);
    ops()->release(device_accel(), cells);
    ops()->unpin(device_accel(), host, 3 * N);
}

static void *alloc_thread(void *arg)
{
    void **p = arg;
    qn_error err = { 0 };
    if (ops()->alloc(device_accel(), SMALL, p, &err) != QN_OK)
        *p = NULL;
    return NULL;
}

/* One capture at a time; allocations elsewhere wait, here they are refused. */
static void test_gate(void **state)
{
    qn_alane *other;
    qn_agraph *graph;
    qn_error err = { 0 };
    void *p = NULL;
    unsigned char *cells = alloc(SMALL);
    pthread_t thread;
    (void)state;
    ok(ops()->lane_new(device_accel(), &other, &err), &err);
    ok(ops()->capture_begin(device_lane(), &err), &err);
    assert_int_equal(ops()->capture_begin(other, &err), QN_BUSY);
    assert_int_equal(ops()->alloc(device_accel(), SMALL, &p, &err),
                     QN_INTERNAL);
    assert_int_equal(pthread_create(&thread, NULL, alloc_thread, &p), 0);
    /* another lane works on meanwhile */
    ok(ops()->clear(other, 0, cells, SMALL, &err), &err);
    assert_int_equal(device_drain(device_accel(), other), QN_OK);
    clear(0, cells, SMALL);
    ok(ops()->capture_end(device_lane(), &graph, NULL, &err), &err);
    pthread_join(thread, NULL);
    assert_non_null(p);
    ok(ops()->capture_begin(other, &err), &err);
    ok(ops()->capture_end(other, NULL, NULL, &err), &err);
    ops()->graph_free(device_accel(), graph);
    ops()->lane_free(other);
    ops()->release(device_accel(), p);
    ops()->release(device_accel(), cells);
}

/* ---- kernels ---- */

/* Launches are counted when they run, also inside of graphs. */
static void test_counts(void **state)
{
    static const device_row row = { "MatMul", 13, NULL,
                                    { "f32 4,5", "f32 5,3" } };
    qn_accel_info before, after;
    (void)state;
    ops()->info(device_accel(), &before);
    device_rows_run(&row, 1);
    ops()->info(device_accel(), &after);
    assert_true(after.launches > before.launches);
}

static void test_strings_stay(void **state)
{
    static const qn_dtype text[1] = { QN_STRING };
    test_node t;
    (void)state;
    test_node_init(&t, "Identity", 13, 1, 1);
    assert_null(ops()->kernel_find(device_accel(), &t.node, 1, text));
    test_node_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_no_such_device),
        cmocka_unit_test(test_map),
        cmocka_unit_test(test_alloc),
        cmocka_unit_test(test_upload),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_notify),
        cmocka_unit_test(test_overtaking),
        cmocka_unit_test(test_no_fault),
        cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_graph),
        cmocka_unit_test(test_gate),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_strings_stay),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}

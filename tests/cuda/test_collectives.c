/* SPDX-License-Identifier: Apache-2.0 */
/* Two devices: copies between them, and collectives. */
#include "runtime/device/plugin.h"
#include "tests/cuda/support/device_node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 2, N = 1000, SKIPPED = 77 };

static qn_accels accels;
static qn_alane *lanes[RANKS];
static const struct qn_accel_ops *ops;

static void ok(qn_status st, const qn_error *err)
{
    if (st != QN_OK)
        fail_msg("%s: %s", qn_status_name(st), err->text);
}

static void join_and_drain(int rank)
{
    qn_error err = { 0 };
    ok(ops->record(lanes[rank], QN_ACCEL_STREAM_COMM, 1, &err), &err);
    ok(ops->wait(lanes[rank], 0, lanes[rank], 1, &err), &err);
    assert_int_equal(device_drain(accels.accel[rank], lanes[rank]), QN_OK);
}

/* Device memory of a rank, with what lies on the host in it. */
static void *put(int rank, const void *data, size_t bytes)
{
    qn_error err = { 0 };
    void *p;
    ok(ops->alloc(accels.accel[rank], bytes, &p, &err), &err);
    ok(ops->upload(accels.accel[rank], p, data, bytes, &err), &err);
    return p;
}

static void get(int rank, void *out, const void *from, size_t bytes)
{
    qn_error err = { 0 };
    void *pinned = ops->pin(accels.accel[rank], bytes);
    assert_non_null(pinned);
    ok(ops->copy(lanes[rank], 0, QN_COPY_FROM_DEVICE, pinned, from, bytes, NULL,
                 &err),
       &err);
    assert_int_equal(device_drain(accels.accel[rank], lanes[rank]), QN_OK);
    memcpy(out, pinned, bytes);
    ops->unpin(accels.accel[rank], pinned, bytes);
}

static void test_peer(void **state)
{
    unsigned char data[N], zero[N] = { 0 }, back[N];
    qn_error err = { 0 };
    (void)state;
    for (size_t i = 0; i < N; i++)
        data[i] = (unsigned char)(i * 7 + 1);
    void *from = put(0, data, N), *to = put(1, zero, N);
    /* the copy waits for an event of the other device */
    ok(ops->clear(lanes[0], 2, from, 10, &err), &err);
    ok(ops->record(lanes[0], 2, 3, &err), &err);
    ok(ops->wait(lanes[1], 1, lanes[0], 3, &err), &err);
    ok(ops->copy(lanes[1], 1, QN_COPY_PEER, to, from, N, accels.accel[0], &err),
       &err);
    ok(ops->record(lanes[1], 1, 4, &err), &err);
    ok(ops->wait(lanes[1], 0, lanes[1], 4, &err), &err);
    get(1, back, to, N);
    memset(data, 0, 10);
    assert_memory_equal(back, data, N);
    ops->release(accels.accel[0], from);
    ops->release(accels.accel[1], to);
}

static const struct {
    qn_collective kind;
    qn_reduction reduction;
    int root;
} calls[] = {
    { QN_ALL_REDUCE, QN_REDUCE_SUM, 0 },  { QN_ALL_REDUCE, QN_REDUCE_PROD, 0 },
    { QN_ALL_REDUCE, QN_REDUCE_MIN, 0 },  { QN_ALL_REDUCE, QN_REDUCE_MAX, 0 },
    { QN_ALL_REDUCE, QN_REDUCE_AVG, 0 },  { QN_ALL_GATHER, QN_REDUCE_SUM, 0 },
    { QN_REDUCE_SCATTER, QN_REDUCE_SUM, 0 }, { QN_BROADCAST, QN_REDUCE_SUM, 0 },
    { QN_BROADCAST, QN_REDUCE_SUM, 1 },
};

static float of(int rank, int64_t i)
{
    return (float)((i * 13 + rank * 5) % 29 - 14);
}

static float reduced(qn_reduction r, int64_t i)
{
    float a = of(0, i), b = of(1, i);
    switch (r) {
    case QN_REDUCE_PROD:
        return a * b;
    case QN_REDUCE_MIN:
        return a < b ? a : b;
    case QN_REDUCE_MAX:
        return a > b ? a : b;
    case QN_REDUCE_AVG:
        return (a + b) / 2;
    case QN_REDUCE_SUM:
        break;
    }
    return a + b;
}

/* What element i of a rank's result is, by the definition of each. */
static float expected(size_t call, int rank, int64_t i)
{
    switch (calls[call].kind) {
    case QN_ALL_GATHER:
        return of((int)(i / N), i % N);
    case QN_REDUCE_SCATTER:
        return reduced(calls[call].reduction, i + rank * N);
    case QN_BROADCAST:
        return of(calls[call].root, i);
    case QN_ALL_REDUCE:
        break;
    }
    return reduced(calls[call].reduction, i);
}

static void run_call(qn_acomm *comm, size_t c)
{
    static float host[RANKS * N], back[RANKS * N];
    bool gather = calls[c].kind == QN_ALL_GATHER;
    bool scatter = calls[c].kind == QN_REDUCE_SCATTER;
    int64_t sent = scatter ? RANKS * N : N, got = gather ? RANKS * N : N;
    qn_collective_part parts[RANKS];
    void *send[RANKS], *recv[RANKS];
    qn_error err = { 0 };
    for (int r = 0; r < RANKS; r++) {
        for (int64_t i = 0; i < sent; i++)
            host[i] = of(r, i);
        send[r] = put(r, host, (size_t)sent * sizeof(float));
        memset(host, 0xff, sizeof host);
        recv[r] = put(r, host, (size_t)got * sizeof(float));
        parts[r] = (qn_collective_part){ lanes[r], send[r], recv[r] };
    }
    qn_collective_call call = { .kind = calls[c].kind,
                                .reduction = calls[c].reduction,
                                .dtype = QN_F32,
                                .count = N,
                                .root = calls[c].root,
                                .parts = parts };
    ok(ops->collective(comm, &call, &err), &err);
    for (int r = 0; r < RANKS; r++)
        join_and_drain(r);
    for (int r = 0; r < RANKS; r++) {
        get(r, back, recv[r], (size_t)got * sizeof(float));
        for (int64_t i = 0; i < got; i++)
            if (back[i] != expected(c, r, i))
                fail_msg("call %zu, rank %d, element %d: %g, expected %g", c, r,
                         (int)i, (double)back[i], (double)expected(c, r, i));
        ops->release(accels.accel[r], send[r]);
        ops->release(accels.accel[r], recv[r]);
    }
}

static void test_collectives(void **state)
{
    qn_acomm *comm;
    qn_error err = { 0 };
    (void)state;
    ok(ops->comm_new(accels.accel, RANKS, &comm, &err), &err);
    for (size_t c = 0; c < sizeof calls / sizeof calls[0]; c++)
        run_call(comm, c);
    ops->comm_free(comm);
    ops->comm_free(NULL);
}

static void test_refused(void **state)
{
    qn_accel *twice[2] = { accels.accel[0], accels.accel[0] };
    qn_collective_part parts[RANKS] = { { lanes[0], NULL, NULL },
                                        { lanes[1], NULL, NULL } };
    qn_collective_call call = { .kind = QN_ALL_REDUCE,
                                .dtype = QN_BOOL,
                                .count = 1,
                                .parts = parts };
    qn_acomm *comm = NULL;
    qn_error err = { 0 };
    (void)state;
    assert_int_equal(ops->comm_new(twice, 2, &comm, &err), QN_INVALID);
    assert_non_null(strstr(err.text, "ranks 0 and 1 are both cuda:0"));
    assert_int_equal(ops->comm_new(twice, 0, &comm, &err), QN_INVALID);
    assert_null(comm);
    ok(ops->comm_new(accels.accel, RANKS, &comm, &err), &err);
    assert_int_equal(ops->collective(comm, &call, &err), QN_UNSUPPORTED);
    call.kind = QN_BROADCAST;
    call.root = RANKS;
    assert_int_equal(ops->collective(comm, &call, &err), QN_INVALID);
    call.root = 0;
    call.count = 0;
    ok(ops->collective(comm, &call, &err), &err);
    call.count = 1;
    parts[1].lane = lanes[0];
    assert_int_equal(ops->collective(comm, &call, &err), QN_INTERNAL);
    ops->comm_free(comm);
}

int main(void)
{
    static const int ordinals[RANKS] = { 0, 1 };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_peer),
        cmocka_unit_test(test_collectives),
        cmocka_unit_test(test_refused),
    };
    qn_error err = { 0 };
    if (setenv("QN_EMU_DEVICES", "2", 0) != 0)
        return 1;
    if (qn_accels_open(ordinals, RANKS, NULL, &accels, &err) != QN_OK) {
        printf("skipped: %s\n", err.text);
        return SKIPPED;
    }
    ops = accels.accel[0]->ops;
    for (int r = 0; r < RANKS; r++)
        if (ops->lane_new(accels.accel[r], &lanes[r], &err) != QN_OK) {
            printf("no lane: %s\n", err.text);
            return 1;
        }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int r = 0; r < RANKS; r++)
        ops->lane_free(lanes[r]);
    qn_accels_close(&accels);
    return failed;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The cpu device: FIFO order, events across streams with any number of workers,
 * shared loops, posted jobs. */
#include "runtime/base/alloc.h"
#include "runtime/device/device.h"
#include "runtime/exec/session.h"

#include <setjmp.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static const int worker_counts[] = { 1, 2, 5 };
#define EACH_COUNT(i)                                                          \
    for (size_t i = 0; i < sizeof worker_counts / sizeof worker_counts[0]; i++)

static qn_device *device_new(int threads)
{
    qn_error err = { 0 };
    qn_device *d;
    if (qn_cpu_device_new(threads, &d, &err) != QN_OK)
        fail_msg("%s", err.text);
    return d;
}

static qn_stream *stream_new(qn_device *d)
{
    qn_error err = { 0 };
    qn_stream *s;
    if (d->ops->stream_new(d, &s, &err) != QN_OK)
        fail_msg("%s", err.text);
    return s;
}

static void wait_for(qn_device *d, qn_event e)
{
    struct timespec pause = { .tv_nsec = 50000 };
    for (int i = 0; i < 200000 && !d->ops->query(e); i++)
        nanosleep(&pause, NULL);
    assert_true(d->ops->query(e));
}

typedef struct note {
    atomic_int *clock;
    int at;
} note;

static void take_note(void *arg, qn_team *team)
{
    note *n = arg;
    (void)team;
    n->at = atomic_fetch_add(n->clock, 1);
}

static void test_stream_is_fifo(void **state)
{
    (void)state;
    EACH_COUNT(c)
    {
        qn_device *d = device_new(worker_counts[c]);
        qn_stream *s = stream_new(d);
        atomic_int clock;
        note notes[40];
        atomic_init(&clock, 0);
        for (int i = 0; i < 40; i++) {
            notes[i] = (note){ &clock, -1 };
            assert_int_equal(d->ops->submit(s, take_note, &notes[i]), QN_OK);
        }
        wait_for(d, d->ops->record(s));
        for (int i = 0; i < 40; i++)
            assert_int_equal(notes[i].at, i);
        d->ops->free(d);
        qn_free(s);
    }
}

/* a -> b -> c -> a ...: each stream waits for the one before it. One worker has
 * to get through, since a wait parks the stream and not the thread. */
static void test_events_order_streams(void **state)
{
    enum { STREAMS = 4, ROUNDS = 8 };
    (void)state;
    EACH_COUNT(c)
    {
        qn_device *d = device_new(worker_counts[c]);
        qn_stream *s[STREAMS];
        atomic_int clock;
        note notes[ROUNDS * STREAMS];
        qn_event last = { NULL, 0 };
        atomic_init(&clock, 0);
        for (int i = 0; i < STREAMS; i++)
            s[i] = stream_new(d);
        for (int i = 0; i < ROUNDS * STREAMS; i++) {
            notes[i] = (note){ &clock, -1 };
            if (last.stream)
                assert_int_equal(d->ops->wait(s[i % STREAMS], last), QN_OK);
            assert_int_equal(d->ops->submit(s[i % STREAMS], take_note, &notes[i]),
                             QN_OK);
            last = d->ops->record(s[i % STREAMS]);
        }
        wait_for(d, last);
        for (int i = 0; i < ROUNDS * STREAMS; i++)
            assert_int_equal(notes[i].at, i);
        d->ops->free(d);
        for (int i = 0; i < STREAMS; i++)
            qn_free(s[i]);
    }
}

static void block(void *arg, qn_team *team)
{
    (void)team;
    while (!atomic_load((atomic_bool *)arg))
        ;
}

static void test_full_queue_is_busy(void **state)
{
    (void)state;
    qn_device *d = device_new(1);
    qn_stream *s = stream_new(d);
    atomic_bool go;
    atomic_init(&go, false);
    int accepted = 0;
    while (accepted < 10000 && d->ops->submit(s, block, &go) == QN_OK)
        accepted++;
    assert_in_range(accepted, 32, 9999);
    atomic_store(&go, true);
    wait_for(d, d->ops->record(s));
    d->ops->free(d);
    qn_free(s);
}

enum { LOOP = 10000 };

typedef struct loop_test {
    atomic_int seen[LOOP];
    atomic_int busy[8];
    atomic_bool clash;
} loop_test;

static void count_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    loop_test *t = arg;
    if (atomic_exchange(&t->busy[thread], 1))
        atomic_store(&t->clash, true);
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&t->seen[i], 1);
    atomic_store(&t->busy[thread], 0);
}

static void run_loops(void *arg, qn_team *team)
{
    for (int i = 0; i < 20; i++)
        qn_parallel(team, LOOP, 16, count_piece, arg);
}

static void test_loops_cover_each_item_once(void **state)
{
    static loop_test tests[3];
    (void)state;
    EACH_COUNT(c)
    {
        qn_device *d = device_new(worker_counts[c]);
        qn_stream *s[3];
        memset(tests, 0, sizeof tests);
        for (int i = 0; i < 3; i++) {
            s[i] = stream_new(d);
            assert_int_equal(d->ops->submit(s[i], run_loops, &tests[i]), QN_OK);
        }
        for (int i = 0; i < 3; i++)
            wait_for(d, d->ops->record(s[i]));
        for (int i = 0; i < 3; i++) {
            assert_false(atomic_load(&tests[i].clash));
            for (int k = 0; k < LOOP; k++)
                assert_int_equal(atomic_load(&tests[i].seen[k]), 20);
        }
        d->ops->free(d);
        for (int i = 0; i < 3; i++)
            qn_free(s[i]);
    }
}

static void test_loop_without_a_team(void **state)
{
    static loop_test t;
    (void)state;
    memset(&t, 0, sizeof t);
    qn_parallel(NULL, LOOP, 1, count_piece, &t);
    qn_parallel(NULL, 0, 1, count_piece, &t);
    for (int k = 0; k < LOOP; k++)
        assert_int_equal(atomic_load(&t.seen[k]), 1);
}

typedef struct job_test {
    qn_job job;
    atomic_int *clock;
    int at;
} job_test;

static void job_note(void *arg)
{
    job_test *j = arg;
    j->at = atomic_fetch_add(j->clock, 1);
}

static void test_jobs_run_in_order_on_one_worker(void **state)
{
    (void)state;
    qn_device *d = device_new(1);
    qn_stream *s = stream_new(d);
    job_test jobs[10];
    atomic_int clock;
    atomic_init(&clock, 0);
    for (int i = 0; i < 10; i++) {
        jobs[i] = (job_test){ .job = { .fn = job_note, .arg = &jobs[i] },
                              .clock = &clock, .at = -1 };
        qn_cpu_device_post(d, &jobs[i].job);
    }
    struct timespec pause = { .tv_nsec = 50000 };
    while (atomic_load(&clock) < 10)
        nanosleep(&pause, NULL);
    d->ops->free(d);
    for (int i = 0; i < 10; i++)
        assert_int_equal(jobs[i].at, i);
    qn_free(s);
}

static void test_cpu_count_is_sane(void **state)
{
    (void)state;
    assert_in_range(qn_cpu_count(), 1, 65536);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream_is_fifo),
        cmocka_unit_test(test_events_order_streams),
        cmocka_unit_test(test_full_queue_is_busy),
        cmocka_unit_test(test_loops_cover_each_item_once),
        cmocka_unit_test(test_loop_without_a_team),
        cmocka_unit_test(test_jobs_run_in_order_on_one_worker),
        cmocka_unit_test(test_cpu_count_is_sane),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

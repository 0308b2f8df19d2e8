/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The n-th allocation fails, for every n, while a problem is read, laid out,
 * checked and printed, while steps are put on queues, and while ledger and pool
 * are made: QN_NO_MEMORY comes back and nothing is leaked. And a lease makes no
 * heap call at all.
 */
#include "runtime/memory/pool.h"
#include "runtime/plan/report.h"
#include "runtime/plan/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static long countdown = -1; /* calls until one fails; negative: none does */
static long blocks;         /* of ours that are alive */
static long calls;

void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
void __real_free(void *p);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
void __wrap_free(void *p);

static bool fails(void)
{
    calls++;
    return countdown >= 0 && countdown-- == 0;
}

void *__wrap_calloc(size_t n, size_t size)
{
    void *p = fails() ? NULL : __real_calloc(n, size);
    blocks += p != NULL;
    return p;
}

void *__wrap_realloc(void *old, size_t size)
{
    void *p = fails() ? NULL : __real_realloc(old, size);
    blocks += !old && p;
    return p;
}

void *__wrap_aligned_alloc(size_t align, size_t size)
{
    void *p = fails() ? NULL : __real_aligned_alloc(align, size);
    blocks += p != NULL;
    return p;
}

void __wrap_free(void *p)
{
    calls++;
    blocks -= p != NULL;
    __real_free(p);
}

static void fail_each(const char *name, qn_status (*fn)(qn_error *err))
{
    long n = 0;
    for (;; n++) {
        qn_error err = { 0 };
        long before = blocks;
        countdown = n;
        qn_status st = fn(&err);
        bool failed = countdown < 0;
        countdown = -1;
        if (blocks != before)
            fail_msg("%s, allocation %ld: %ld blocks leaked", name, n,
                     blocks - before);
        if (!failed) {
            if (st != QN_OK)
                fail_msg("%s: %s", name, err.text);
            break;
        }
        if (st != QN_NO_MEMORY || !err.text[0])
            fail_msg("%s, allocation %ld: %s, \"%s\"", name, n,
                     qn_status_name(st), err.text);
    }
    if (n < 2)
        fail_msg("%s: only %ld allocations failed", name, n);
}

/* Hard enough to come to the search; with a group and alignments. */
static qn_status plan_csv(qn_error *err)
{
    static const char text[] = "id,lower,upper,size,align,group,group_pos\n"
                               "a,0,3,40,8,,\nb,1,5,24,8,,\nc,4,9,48,8,,\n"
                               "d,2,6,8,8,1,0\ne,5,7,16,8,1,1\nf,0,9,1,1,,\n"
                               "g,6,8,24,16,,\nh,0,2,32,8,,\ni,8,9,64,64,,\n";
    qn_region region = { 0 };
    qn_plan_csv csv;
    qn_layout_report report;
    qn_plan_text out = { 0 };
    size_t offsets[9];
    qn_status st = qn_plan_csv_read(text, sizeof text - 1, &region, &csv, err);
    if (st == QN_OK)
        st = qn_layout_run(&csv, &(qn_layout_options){ .search_steps = 500 },
                           offsets, &report, err);
    if (st == QN_OK)
        st = qn_layout_print(&csv, &report, 200, true, &out, err);
    if (st == QN_OK)
        st = qn_plan_csv_write(&csv, offsets, &out, err);
    qn_free(out.data);
    qn_region_release(&region);
    return st;
}

/* 0-1-2-3-0: a ring. */
static qn_status plan_conflicts(qn_error *err)
{
    const qn_buffer b[] = { { 0, 1, 10, 0, -1, 0 }, { 0, 1, 20, 0, -1, 0 },
                            { 1, 2, 30, 0, -1, 0 }, { 1, 2, 40, 0, -1, 0 } };
    const size_t start[] = { 0, 2, 4, 6, 8 };
    const uint32_t other[] = { 1, 3, 0, 2, 1, 3, 0, 2 };
    const qn_conflicts c = { start, other };
    size_t offsets[4];
    qn_layout_stats stats;
    qn_status st = qn_layout_solve(b, 4, &c, NULL, offsets, &stats, err);
    if (st == QN_OK)
        st = qn_layout_verify(b, 4, &c, offsets, stats.peak, err);
    if (st == QN_OK && stats.peak != 70)
        st = qn_fail(err, QN_INTERNAL, "peak %zu", stats.peak);
    return st;
}

/* Two queues and a branch. */
static qn_status plan_queues(qn_error *err)
{
    const qn_schedule_step steps[] = {
        { .class = 1, .cost = 5 }, { .class = 1, .cost = 5 },
        { .flow = QN_FLOW_JUMP_UNLESS, .target = 5 }, { .class = 1, .cost = 5 },
        { .flow = QN_FLOW_JUMP, .target = 6 }, { .class = 1, .cost = 5 },
        { .class = 1, .cost = 5 } };
    const uint32_t start[] = { 0, 0, 0, 1, 2, 2, 3, 7 };
    const uint32_t deps[] = { 0, 1, 0, 0, 1, 3, 5 };
    const uint32_t uses[] = { 0, 2, 5, 6, 1, 3, 6 };
    const qn_schedule_buffer b[] = { { 0, 4, uses, 8, NULL },
                                     { 0, 3, uses + 4, 8, NULL } };
    const qn_schedule_problem p = { .n = 7, .steps = steps, .dep_start = start,
                                    .deps = deps, .n_compute = 1 };
    const qn_schedule_options o = { .queues = 2, .host_issues = true };
    const size_t offsets[] = { 0, 8 };
    qn_region region = { 0 };
    qn_schedule s;
    qn_conflicts c;
    uint64_t span[2];
    qn_status st = qn_schedule_choose(&p, &o, 0, &region, &s, span, err);
    if (st == QN_OK)
        st = qn_schedule_conflicts(&s, b, 2, &region, &c, err);
    if (st == QN_OK)
        st = qn_schedule_verify(&p, &s, b, 2, offsets, err);
    if (st == QN_OK && (s.n_queues != 3 || c.start[2] != 2))
        st = qn_fail(err, QN_INTERNAL, "%u queues, %zu conflicts", s.n_queues,
                     c.start[2]);
    qn_region_release(&region);
    return st;
}

static qn_status make_pool(qn_error *err)
{
    qn_ledger *ledger = NULL;
    qn_pool *pool = NULL;
    qn_status st = qn_ledger_new(1 << 20, &ledger, err);
    if (st == QN_OK)
        st = qn_pool_new(ledger, NULL, &pool, err);
    qn_pool_free(pool);
    qn_ledger_free(ledger);
    return st;
}

static void test_failing_allocations(void **state)
{
    (void)state;
    fail_each("plan from CSV", plan_csv);
    fail_each("plan with conflicts", plan_conflicts);
    fail_each("schedule", plan_queues);
    fail_each("pool", make_pool);
}

static void granted(qn_waiter *waiter, qn_status status)
{
    *(qn_status *)waiter->arg = status;
}

static void test_lease_without_heap(void **state)
{
    (void)state;
    qn_ledger *ledger;
    qn_pool *pool;
    assert_int_equal(qn_ledger_new(1 << 20, &ledger, NULL), QN_OK);
    assert_int_equal(qn_pool_new(ledger, NULL, &pool, NULL), QN_OK);
    long before = calls;
    for (int i = 0; i < 100; i++) { /* new sizes, old ones, evictions, waits */
        qn_lease a = { .parts = { { .cls = QN_MEM_ARENA,
                                    .bytes = (size_t)(i % 7 + 1) << 16 },
                                  { .cls = QN_MEM_INPUT, .bytes = 5000 } } };
        qn_lease b = { .parts = { { .cls = QN_MEM_ARENA, .bytes = 1 << 20 } } };
        qn_status st = QN_INTERNAL;
        qn_waiter w = { .lease = &b, .granted = granted, .arg = &st };
        assert_int_equal(qn_pool_lease(pool, &a, NULL), QN_OK);
        assert_int_equal(qn_pool_wait(pool, &w, NULL), QN_NO_MEMORY);
        qn_pool_release(pool, &a);
        assert_int_equal(st, QN_OK);
        qn_pool_release(pool, &b);
    }
    qn_pool_trim(pool, 0);
    assert_int_equal(calls - before, 0);
    qn_pool_free(pool);
    qn_ledger_free(ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_lease_without_heap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

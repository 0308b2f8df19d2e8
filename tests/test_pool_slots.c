/* SPDX-License-Identifier: Apache-2.0 */
/* Slots of the pool, and how much it keeps. */
#include "runtime/memory/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { MIB = 1 << 20 };

typedef struct fixture {
    qn_ledger *ledger;
    qn_pool *pool;
    int granted;
} fixture;

static void open_pool(fixture *f, size_t slots, size_t cache)
{
    qn_error err = { 0 };
    qn_pool_options o = { .max_slots = slots, .cache_bytes = cache };
    f->granted = 0;
    if (qn_ledger_new(64 * MIB, &f->ledger, &err) != QN_OK ||
        qn_pool_new(f->ledger, &o, &f->pool, &err) != QN_OK)
        fail_msg("%s", err.text);
}

static void close_pool(fixture *f)
{
    qn_ledger_state s;
    qn_pool_free(f->pool);
    qn_ledger_read(f->ledger, &s);
    assert_int_equal(s.charged, 0);
    qn_ledger_free(f->ledger);
}

static qn_lease lease_of(size_t bytes, bool slot)
{
    return (qn_lease){ .parts = { { .cls = QN_MEM_ARENA, .bytes = bytes },
                                  { .cls = QN_MEM_OUTPUT, .bytes = 4096 } },
                       .slot = slot };
}

static void on_granted(qn_waiter *w, qn_status status)
{
    fixture *f = w->arg;
    assert_int_equal(status, QN_OK);
    f->granted++;
}

static void test_slots_bound_who_computes(void **state)
{
    enum { N = 5 };
    fixture f;
    qn_lease leases[N];
    qn_waiter waiters[N];
    qn_pool_state s;
    (void)state;
    open_pool(&f, 2, 0);
    for (int i = 0; i < N; i++) {
        leases[i] = lease_of(MIB, true);
        waiters[i] = (qn_waiter){ .lease = &leases[i], .granted = on_granted,
                                  .arg = &f };
        assert_int_equal(qn_pool_wait(f.pool, &waiters[i], NULL),
                         i < 2 ? QN_OK : QN_NO_MEMORY);
    }
    /* bodies and answers take no slot: they go past those who wait for one */
    qn_lease body = lease_of(MIB, false);
    assert_int_equal(qn_pool_lease(f.pool, &body, NULL), QN_OK);
    qn_pool_release_part(f.pool, &leases[0], 0);
    assert_int_equal(f.granted, 0); /* its answer is still out */
    qn_pool_release(f.pool, &leases[0]);
    assert_int_equal(f.granted, 1);
    qn_pool_read(f.pool, &s);
    assert_int_equal(s.slots, 2);
    assert_int_equal(s.waiters, 2);
    for (int i = 1; i < N; i++)
        qn_pool_release(f.pool, &leases[i]);
    assert_int_equal(f.granted, 3);
    for (int i = 0; i < N; i++)
        qn_pool_release(f.pool, &leases[i]);
    qn_pool_release(f.pool, &body);
    qn_pool_read(f.pool, &s);
    assert_int_equal(s.slots, 0);
    close_pool(&f);
}

static void test_cache_is_bounded(void **state)
{
    fixture f;
    qn_lease leases[8];
    qn_pool_state s;
    (void)state;
    open_pool(&f, 0, 2 * MIB);
    for (int i = 0; i < 8; i++) {
        leases[i] = lease_of(3 * MIB - 4096, false);
        assert_int_equal(qn_pool_lease(f.pool, &leases[i], NULL), QN_OK);
    }
    for (int i = 0; i < 8; i++) {
        qn_pool_release(f.pool, &leases[i]);
        qn_pool_read(f.pool, &s);
        /* twice the largest lease, though the option says less */
        assert_in_range(s.cached, 0, 6 * MIB);
    }
    assert_int_equal(s.cached, 6 * MIB);
    close_pool(&f);
}

/* Who waits for one pool, and then for another, may be cancelled by somebody who
 * has seen it wait for the first. */
static void test_cancel_in_another_pool(void **state)
{
    fixture f, g;
    qn_pool_state s;
    (void)state;
    open_pool(&f, 1, 0);
    open_pool(&g, 1, 0);
    qn_lease hold = lease_of(MIB, true), wanted = lease_of(MIB, true);
    qn_waiter w = { .lease = &wanted, .granted = on_granted, .arg = &g };
    assert_int_equal(qn_pool_lease(g.pool, &hold, NULL), QN_OK);
    assert_int_equal(qn_pool_wait(g.pool, &w, NULL), QN_NO_MEMORY);
    assert_false(qn_pool_cancel(f.pool, &w));
    qn_pool_read(f.pool, &s);
    assert_int_equal(s.waiters, 0);
    qn_pool_read(g.pool, &s);
    assert_int_equal(s.waiters, 1);
    assert_true(qn_pool_cancel(g.pool, &w));
    qn_pool_release(g.pool, &hold);
    assert_int_equal(g.granted, 0);
    close_pool(&f);
    close_pool(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots_bound_who_computes),
        cmocka_unit_test(test_cache_is_bounded),
        cmocka_unit_test(test_cancel_in_another_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

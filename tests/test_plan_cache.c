/* SPDX-License-Identifier: Apache-2.0 */
/* A session's plans: kept by exact key within a byte limit, built once however
 * many ask, and let go without a lock that others need. */
#include "runtime/exec/session.h"
#include "tests/support/graph.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { CHAIN = 40, PLANS = 64 };

typedef struct fixture {
    qn_runtime *runtime;
    qn_session *session;
    qn_error err;
} fixture;

/* y = a chain of operators over x [n], so that a plan takes some kilobytes. */
static void open_chain(fixture *f, size_t budget, size_t cache)
{
    static const int64_t any[] = { -1 };
    qn_runtime_options ro = { .memory_budget = budget, .threads = 2 };
    qn_session_options so = { .plan_cache_bytes = cache };
    qn_graph *g = tg_new(NULL);
    qn_value_id x = tg_input(g, "x", QN_F32, 1, any);
    for (int i = 0; i < CHAIN; i++)
        x = tg_op1(g, i % 2 ? "Neg" : "Tanh", x);
    tg_output(g, x, "y");
    tg_finish(g);
    memset(f, 0, sizeof *f);
    if (qn_runtime_new(&ro, &f->runtime, &f->err) != QN_OK ||
        qn_session_new(f->runtime, g, &so, &f->session, &f->err) != QN_OK)
        fail_msg("%s", f->err.text);
}

static void close_all(fixture *f)
{
    qn_ledger_state state;
    qn_session_free(f->session);
    qn_pool_trim(qn_runtime_pool(f->runtime), 0);
    qn_ledger_read(qn_runtime_ledger(f->runtime), &state);
    assert_int_equal(state.charged, 0);
    qn_runtime_free(f->runtime);
}

static qn_plan *plan_for(fixture *f, int64_t n)
{
    qn_tensor x = { .dtype = QN_F32, .shape = { 1, { n } } };
    qn_plan *plan;
    if (qn_session_plan(f->session, &x, &plan, &f->err) != QN_OK)
        fail_msg("n = %lld: %s", (long long)n, f->err.text);
    return plan;
}

static size_t charged(fixture *f, qn_mem cls)
{
    qn_ledger_state state;
    qn_ledger_read(qn_runtime_ledger(f->runtime), &state);
    return state.by_class[cls];
}

static void test_least_recently_used_go_first(void **state)
{
    fixture f;
    qn_plan *all[PLANS];
    qn_plan_report r;
    (void)state;
    open_chain(&f, 64u << 20, 0);
    qn_plan *one = plan_for(&f, 1);
    qn_plan_read(one, &r);
    qn_plan_release(one);
    close_all(&f);

    open_chain(&f, 64u << 20, 5 * r.plan_bytes);
    qn_plan *held = plan_for(&f, 1);
    for (int64_t n = 2; n <= 20; n++) {
        qn_plan_release(plan_for(&f, n));
        qn_plan_release(plan_for(&f, 2)); /* stays in use */
    }
    size_t count = qn_session_plans(f.session, all, PLANS);
    bool two = false;
    for (size_t i = 0; i < count; i++) {
        qn_plan_read(all[i], &r);
        two |= r.inputs[0].shape.dims[0] == 2;
        assert_true(r.inputs[0].shape.dims[0] != 1);
        qn_plan_release(all[i]);
    }
    assert_true(two);
    if (count < 3 || count > 6)
        fail_msg("%zu plans in a cache for five", count);
    /* the held one left the cache, but lives */
    qn_plan_read(held, &r);
    assert_int_equal(r.outputs[0].shape.dims[0], 1);
    size_t before = charged(&f, QN_MEM_PLAN);
    qn_plan_release(held);
    assert_true(charged(&f, QN_MEM_PLAN) < before);
    close_all(&f);
}

/* ---- one build ---- */

typedef struct asker {
    fixture *f;
    pthread_barrier_t *start;
    qn_plan *plan;
    pthread_t thread;
} asker;

static void *ask(void *arg)
{
    asker *a = arg;
    qn_tensor x = { .dtype = QN_F32, .shape = { 1, { 1000 } } };
    qn_error err = { 0 };
    pthread_barrier_wait(a->start);
    if (qn_session_plan(a->f->session, &x, &a->plan, &err) != QN_OK)
        a->plan = NULL;
    return NULL;
}

static void test_built_once(void **state)
{
    enum { ASKERS = 8 };
    fixture f;
    asker a[ASKERS];
    pthread_barrier_t start;
    (void)state;
    open_chain(&f, 64u << 20, 0);
    pthread_barrier_init(&start, NULL, ASKERS);
    for (int i = 0; i < ASKERS; i++) {
        a[i] = (asker){ .f = &f, .start = &start };
        assert_int_equal(pthread_create(&a[i].thread, NULL, ask, &a[i]), 0);
    }
    for (int i = 0; i < ASKERS; i++) {
        pthread_join(a[i].thread, NULL);
        assert_non_null(a[i].plan);
        assert_ptr_equal(a[i].plan, a[0].plan);
    }
    for (int i = 0; i < ASKERS; i++)
        qn_plan_release(a[i].plan);
    pthread_barrier_destroy(&start);
    close_all(&f);
}

/* ---- no lock held when memory goes back ---- */

typedef struct waiting {
    qn_lease lease;
    qn_waiter waiter;
    fixture *f;
    bool granted;
} waiting;

/* Needs the lock that guards the plans. */
static void granted(qn_waiter *waiter, qn_status status)
{
    waiting *w = waiter->arg;
    qn_plan *plans[PLANS];
    size_t n = qn_session_plans(w->f->session, plans, PLANS);
    for (size_t i = 0; i < n; i++)
        qn_plan_release(plans[i]);
    w->granted = status == QN_OK;
}

static void test_evicting_may_grant(void **state)
{
    fixture f;
    qn_ledger_state s;
    (void)state;
    open_chain(&f, 4u << 20, 0);
    qn_pool *pool = qn_runtime_pool(f.runtime);
    for (int64_t n = 1; n <= 20; n++)
        qn_plan_release(plan_for(&f, n));
    /* less than a page is free; a waiter wants one */
    qn_ledger_read(qn_runtime_ledger(f.runtime), &s);
    qn_lease rest = { 0 };
    rest.parts[0] = (qn_lease_part){
        .cls = QN_MEM_BODY, .bytes = (s.budget - s.charged) / 4096 * 4096 };
    assert_int_equal(qn_pool_lease(pool, &rest, &f.err), QN_OK);
    waiting w = { .f = &f };
    w.lease.parts[0] = (qn_lease_part){ .cls = QN_MEM_ARENA, .bytes = 4096 };
    w.waiter = (qn_waiter){ .lease = &w.lease, .granted = granted, .arg = &w };
    assert_int_equal(qn_pool_wait(pool, &w.waiter, &f.err), QN_NO_MEMORY);
    assert_false(w.granted);
    qn_plan_release(plan_for(&f, 21)); /* the others make room for it */
    assert_true(w.granted);
    qn_pool_release(pool, &w.lease);
    qn_pool_release(pool, &rest);
    close_all(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_least_recently_used_go_first),
        cmocka_unit_test(test_built_once),
        cmocka_unit_test(test_evicting_may_grant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

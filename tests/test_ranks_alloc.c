/* SPDX-License-Identifier: Apache-2.0 */
/* The n-th allocation fails, for every n, while ranks are merged, and while the
 * merged graph becomes a session and a plan: QN_NO_MEMORY, and nothing is left. */
#include "runtime/exec/session.h"
#include "runtime/graph/ranks.h"
#include "tests/support/split.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static atomic_long countdown = -1; /* calls until one fails; negative: never */
static atomic_long blocks;         /* of ours that are alive */

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
    blocks -= p != NULL;
    __real_free(p);
}

/* With a default that has to be compared, and a body that has to be adopted. */
static qn_graph *part(void)
{
    static const float ones[] = { 1, 1, 1, 1 };
    static const uint8_t yes = 1;
    const int64_t dims[] = { 4 };
    qn_graph *g = tg_new(NULL);
    qn_value_id x = tg_input(g, "x", QN_F32, 1, dims);
    qn_value_id c = tg_const(g, QN_F32, 1, dims, ones);
    g->values[x].data = g->values[c].data;
    qn_graph *a = tg_new(g), *b = tg_new(g);
    qn_value_id v = tg_op1(g, "If", tg_const(g, QN_BOOL, 0, NULL, &yes));
    tg_output(a, tg_op1(a, "Abs", tg_capture(a, x)), "a");
    tg_output(b, tg_op1(b, "Neg", tg_capture(b, x)), "b");
    tg_attr_graph(g, v, "then_branch", a);
    tg_attr_graph(g, v, "else_branch", b);
    v = tg_collective1(g, "AllReduce", v);
    tg_output(g, tg_op1(g, "Neg", v), "y");
    tg_finish(g);
    return g;
}

static qn_status plan(qn_runtime *runtime, qn_graph *g, qn_error *err)
{
    const int64_t dims[] = { 4 };
    qn_tensor x = { .dtype = QN_F32, .shape = qn_shape_make(1, dims) };
    qn_session *s;
    qn_plan *p;
    qn_status st = qn_session_new(runtime, g, NULL, &s, err);
    if (st != QN_OK)
        return st;
    st = qn_session_plan(s, &x, &p, err);
    if (st == QN_OK)
        qn_plan_release(p);
    qn_session_free(s);
    return st;
}

static void test_each(void **state)
{
    qn_runtime *runtime;
    qn_runtime_options options = { .memory_budget = 64u << 20, .threads = 1 };
    qn_error err = { 0 };
    (void)state;
    if (qn_runtime_new(&options, &runtime, &err) != QN_OK)
        fail_msg("%s", err.text);
    for (long n = 0;; n++) {
        long before = blocks;
        qn_graph *parts[] = { part(), part(), part() }, *g;
        err = (qn_error){ 0 };
        countdown = n;
        qn_status st = qn_graph_merge(parts, 3, &g, &err);
        if (st == QN_OK)
            st = plan(runtime, g, &err);
        bool through = countdown >= 0;
        countdown = -1;
        qn_pool_trim(qn_runtime_pool(runtime), 0);
        if (blocks != before)
            fail_msg("allocation %ld: %ld blocks are left", n, blocks - before);
        if (through) {
            assert_int_equal(st, QN_OK);
            assert_true(n > 10);
            break;
        }
        if (st != QN_NO_MEMORY || !err.text[0])
            fail_msg("allocation %ld: %s \"%s\"", n, qn_status_name(st),
                     err.text);
    }
    qn_ledger_state ledger;
    qn_ledger_read(qn_runtime_ledger(runtime), &ledger);
    assert_int_equal(ledger.charged, 0);
    qn_runtime_free(runtime);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_each) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

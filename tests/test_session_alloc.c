/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The n-th allocation fails, for every n, while a session is made, planned and
 * run: a clean QN_NO_MEMORY, no byte left charged, no block left, and the next
 * attempt gives the right answer. (Under ASan leaks show as well.)
 */
#include "runtime/exec/session.h"
#include "tests/support/graph.h"
#include "tests/support/random_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

enum { OUT_BYTES = 1 << 16 };

typedef struct attempt {
    qn_runtime *runtime;
    uint64_t seed;
    char out[OUT_BYTES]; /* outputs, one after another */
    size_t n_out;
} attempt;

static size_t charged(const attempt *a)
{
    qn_ledger_state state;
    qn_pool_trim(qn_runtime_pool(a->runtime), 0);
    qn_ledger_read(qn_runtime_ledger(a->runtime), &state);
    return state.charged;
}

static qn_status lease_and_run(qn_session *s, qn_plan *plan, const rg *r,
                               attempt *a, qn_error *err)
{
    qn_run run;
    const qn_io *io;
    qn_run_init(&run, s, plan);
    qn_status st = qn_run_lease(&run, NULL, NULL, err);
    for (uint32_t i = 0; st == QN_OK && i < qn_session_inputs(s, &io); i++) {
        qn_tensor in = qn_run_input(&run, i);
        size_t bytes = 0;
        if (qn_present(&in))
            st = qn_tensor_bytes(in.dtype, &in.shape, &bytes, err);
        if (bytes)
            memcpy(in.data, r->inputs[0][i].data, bytes);
    }
    if (st == QN_OK)
        st = qn_run_sync(&run, err);
    a->n_out = 0;
    for (uint32_t i = 0; st == QN_OK && i < r->n_outputs; i++) {
        qn_tensor t = qn_run_output(&run, i);
        size_t bytes;
        st = qn_tensor_bytes(t.dtype, &t.shape, &bytes, err);
        assert_true(bytes <= OUT_BYTES - a->n_out);
        if (bytes)
            memcpy(a->out + a->n_out, t.data, bytes);
        a->n_out += bytes;
    }
    qn_run_release(&run);
    return st;
}

/* Fails the n-th allocation; *through: there were fewer. */
static qn_status once(attempt *a, long n, bool *through, qn_error *err)
{
    rg r;
    qn_session *s;
    qn_plan *plan;
    qn_session_options options = { .dynamic_bytes = 1 << 20 };
    rg_build(&r, a->seed);
    countdown = n;
    qn_status st = qn_session_new(a->runtime, r.main.g, &options, &s, err);
    if (st == QN_OK) {
        st = qn_session_plan(s, r.inputs[0], &plan, err);
        if (st != QN_OK && countdown < 0) {
            /* the failure is over: the same session can plan now */
            qn_error second = { 0 };
            if (qn_session_plan(s, r.inputs[0], &plan, &second) != QN_OK)
                fail_msg("seed %llu, allocation %ld: a second plan: %s",
                         (unsigned long long)a->seed, n, second.text);
            qn_plan_release(plan);
        } else if (st == QN_OK) {
            st = lease_and_run(s, plan, &r, a, err);
            qn_plan_release(plan);
        }
        qn_session_free(s);
    }
    *through = countdown >= 0;
    countdown = -1;
    rg_release(&r);
    return st;
}

static void fail_each(attempt *a)
{
    char want[OUT_BYTES];
    qn_error err = { 0 };
    bool through;
    if (once(a, 1L << 40, &through, &err) != QN_OK)
        fail_msg("seed %llu: %s", (unsigned long long)a->seed, err.text);
    size_t n_want = a->n_out;
    memcpy(want, a->out, n_want);
    assert_int_equal(charged(a), 0);
    for (long n = 0;; n++) {
        long before = blocks;
        memset(&err, 0, sizeof err);
        qn_status st = once(a, n, &through, &err);
        if (blocks != before)
            fail_msg("seed %llu, allocation %ld: %ld blocks are left",
                     (unsigned long long)a->seed, n, blocks - before);
        if (charged(a))
            fail_msg("seed %llu, allocation %ld: %zu bytes stay charged",
                     (unsigned long long)a->seed, n, charged(a));
        if (st == QN_OK && (a->n_out != n_want ||
                            (n_want && memcmp(a->out, want, n_want) != 0)))
            fail_msg("seed %llu, allocation %ld: another answer",
                     (unsigned long long)a->seed, n);
        if (through) {
            assert_int_equal(st, QN_OK);
            assert_true(n > 10);
            return;
        }
        if (st != QN_NO_MEMORY || !err.text[0])
            fail_msg("seed %llu, allocation %ld: %s \"%s\"",
                     (unsigned long long)a->seed, n, qn_status_name(st),
                     err.text);
    }
}

static void test_session(void **state)
{
    /* chosen for convolutions, nested branches and shapes from data */
    static const uint64_t seeds[] = { 1, 27, 133, 178, 576 };
    qn_runtime_options options = { .memory_budget = 64u << 20, .threads = 1 };
    attempt a = { .seed = 0 };
    qn_error err = { 0 };
    const char *more = getenv("QN_GRAPHS");
    (void)state;
    if (qn_runtime_new(&options, &a.runtime, &err) != QN_OK)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
        a.seed = seeds[i];
        fail_each(&a);
    }
    for (uint64_t n = more ? strtoull(more, NULL, 10) : 0; n; n--) {
        a.seed = 1000 + n;
        fail_each(&a);
    }
    qn_runtime_free(a.runtime);
}

static void test_runtime(void **state)
{
    qn_runtime_options options = { .memory_budget = 64u << 20, .threads = 1 };
    (void)state;
    for (long n = 0;; n++) {
        qn_runtime *rt;
        qn_error err = { 0 };
        long before = blocks;
        countdown = n;
        qn_status st = qn_runtime_new(&options, &rt, &err);
        bool through = countdown >= 0;
        countdown = -1;
        qn_runtime_free(rt);
        assert_int_equal(blocks, before);
        if (through) {
            assert_int_equal(st, QN_OK);
            assert_true(n > 2);
            return;
        }
        assert_int_equal(st, QN_NO_MEMORY);
        assert_true(err.text[0] != 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runtime),
        cmocka_unit_test(test_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

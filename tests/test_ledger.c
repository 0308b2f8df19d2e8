/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger: refusals with their numbers, and sums that stay exact while
 * several threads charge, move and give back. */
#include "runtime/memory/ledger.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

static qn_ledger *make(size_t budget)
{
    qn_ledger *ledger;
    qn_error err = { 0 };
    assert_int_equal(qn_ledger_new(budget, &ledger, &err), QN_OK);
    return ledger;
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t fixed, used, want;
        qn_status status;
        const char *says, *expected;
    } rows[] = {
        { "fits exactly", 100, 200, 700, QN_OK, "", "" },
        { "one byte over", 100, 200, 701, QN_NO_MEMORY,
          "701 bytes do not fit now: 300 of 1000", "at most 700 bytes" },
        { "never, for static memory", 100, 0, 901, QN_TOO_LARGE,
          "901 bytes can never fit: the budget is 1000 bytes, 100",
          "at most 900 bytes" },
        { "never, at all", 0, 0, SIZE_MAX, QN_TOO_LARGE, "can never fit",
          "at most 1000 bytes" },
        { "nothing", 0, 1000, 0, QN_OK, "", "" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        qn_ledger *ledger = make(1000);
        qn_ledger_state s;
        qn_error err = { 0 };
        assert_int_equal(
            qn_ledger_charge(ledger, QN_MEM_STATIC, rows[i].fixed, NULL),
            QN_OK);
        assert_int_equal(
            qn_ledger_charge(ledger, QN_MEM_BODY, rows[i].used, NULL), QN_OK);
        qn_status st =
            qn_ledger_charge(ledger, QN_MEM_SIDE, rows[i].want, &err);
        qn_ledger_read(ledger, &s);
        size_t want = rows[i].fixed + rows[i].used +
                      (st == QN_OK ? rows[i].want : 0);
        if (st != rows[i].status || !strstr(err.text, rows[i].says) ||
            strcmp(err.expected, rows[i].expected) != 0 ||
            s.charged != want || s.peak != want ||
            s.refused != (st == QN_OK ? 0U : 1U))
            fail_msg("%s: status %s, \"%s\", charged %zu", rows[i].name,
                     qn_status_name(st), err.text, s.charged);
        if (st == QN_OK)
            qn_ledger_give_back(ledger, QN_MEM_SIDE, rows[i].want);
        qn_ledger_give_back(ledger, QN_MEM_BODY, rows[i].used);
        qn_ledger_give_back(ledger, QN_MEM_STATIC, rows[i].fixed);
        qn_ledger_free(ledger);
    }
}

static void test_all_or_none(void **state)
{
    (void)state;
    qn_ledger *ledger = make(100);
    qn_ledger_state s;
    size_t want[QN_MEM_COUNT] = { 0 };
    qn_error err = { 0 };
    want[QN_MEM_INPUT] = 60;
    want[QN_MEM_OUTPUT] = 41;
    assert_int_equal(qn_ledger_charge_all(ledger, want, &err), QN_TOO_LARGE);
    qn_ledger_read(ledger, &s);
    assert_int_equal(s.charged, 0);
    want[QN_MEM_OUTPUT] = SIZE_MAX - 10; /* the sum wraps */
    assert_int_equal(qn_ledger_charge_all(ledger, want, &err), QN_TOO_LARGE);
    want[QN_MEM_OUTPUT] = 40;
    assert_int_equal(qn_ledger_charge_all(ledger, want, &err), QN_OK);
    qn_ledger_move(ledger, QN_MEM_INPUT, QN_MEM_STATE, 60);
    qn_ledger_read(ledger, &s);
    assert_int_equal(s.charged, 100);
    assert_int_equal(s.by_class[QN_MEM_INPUT], 0);
    assert_int_equal(s.by_class[QN_MEM_STATE], 60);
    assert_int_equal(s.by_class[QN_MEM_OUTPUT], 40);
    assert_int_equal(s.peak_by_class[QN_MEM_INPUT], 60);
    qn_ledger_give_back(ledger, QN_MEM_STATE, 60);
    qn_ledger_give_back(ledger, QN_MEM_OUTPUT, 40);
    qn_ledger_read(ledger, &s);
    assert_int_equal(s.charged, 0);
    assert_int_equal(s.peak, 100);
    qn_ledger_free(ledger);
}

static void test_exchange(void **state)
{
    (void)state;
    qn_ledger *ledger = make(100);
    qn_ledger_state s;
    size_t want[QN_MEM_COUNT] = { 0 }, missing;
    assert_int_equal(qn_ledger_charge(ledger, QN_MEM_CACHE, 70, NULL), QN_OK);
    want[QN_MEM_ARENA] = 60;
    assert_int_equal(qn_ledger_exchange(ledger, 10, want, &missing),
                     QN_NO_MEMORY);
    assert_int_equal(missing, 20);
    qn_ledger_read(ledger, &s);
    assert_int_equal(s.by_class[QN_MEM_CACHE], 70);
    assert_int_equal(qn_ledger_exchange(ledger, 30, want, &missing), QN_OK);
    assert_int_equal(missing, 0);
    qn_ledger_read(ledger, &s);
    assert_int_equal(s.by_class[QN_MEM_CACHE], 40);
    assert_int_equal(s.charged, 100);
    qn_ledger_give_back(ledger, QN_MEM_CACHE, 40);
    qn_ledger_give_back(ledger, QN_MEM_ARENA, 60);
    qn_ledger_free(ledger);
}

struct reclaimer {
    qn_ledger *ledger;
    size_t step, calls, heard;
};

/* Gives up at most `step` bytes a call, so that a charge has to ask again. */
static size_t reclaim(void *arg, size_t want)
{
    struct reclaimer *r = arg;
    qn_ledger_state s;
    r->calls++;
    qn_ledger_read(r->ledger, &s);
    size_t n = want < r->step ? want : r->step;
    if (n > s.by_class[QN_MEM_CACHE])
        n = s.by_class[QN_MEM_CACHE];
    qn_ledger_give_back(r->ledger, QN_MEM_CACHE, n);
    return n;
}

static void heard(void *arg)
{
    ((struct reclaimer *)arg)->heard++;
}

static void test_reclaims(void **state)
{
    (void)state;
    struct reclaimer r = { make(100), 10, 0, 0 };
    qn_ledger_state s;
    qn_error err = { 0 };
    qn_ledger_set_reclaimer(r.ledger, reclaim, &r);
    qn_ledger_set_listener(r.ledger, heard, &r);
    assert_int_equal(qn_ledger_charge(r.ledger, QN_MEM_CACHE, 50, NULL),
                     QN_OK);
    assert_int_equal(qn_ledger_charge(r.ledger, QN_MEM_BODY, 50, NULL), QN_OK);
    assert_int_equal(r.calls, 0);
    assert_int_equal(qn_ledger_charge(r.ledger, QN_MEM_BODY, 25, &err), QN_OK);
    assert_int_equal(r.calls, 3);
    assert_int_equal(r.heard, 3);
    assert_int_equal(qn_ledger_charge(r.ledger, QN_MEM_BODY, 26, &err),
                     QN_NO_MEMORY);
    qn_ledger_read(r.ledger, &s);
    assert_int_equal(s.by_class[QN_MEM_CACHE], 0);
    assert_int_equal(s.charged, 75);
    assert_int_equal(s.refused, 1);
    qn_ledger_give_back(r.ledger, QN_MEM_BODY, 75);
    qn_ledger_free(r.ledger);
}

enum { THREADS = 4, STEPS = 20000, BUDGET = 1000 };

struct worker {
    qn_ledger *ledger;
    uint32_t seed;
    size_t held[QN_MEM_COUNT];
    atomic_size_t *over;
};

static uint32_t next(uint32_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 17;
    *s ^= *s << 5;
    return *s;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    qn_ledger_state s;
    for (int i = 0; i < STEPS; i++) {
        qn_mem cls = (qn_mem)(next(&w->seed) % QN_MEM_COUNT);
        size_t n = next(&w->seed) % 300;
        switch (next(&w->seed) % 4) {
        case 0:
        case 1:
            if (qn_ledger_charge(w->ledger, cls, n, NULL) == QN_OK)
                w->held[cls] += n;
            break;
        case 2:
            qn_ledger_give_back(w->ledger, cls, w->held[cls]);
            w->held[cls] = 0;
            break;
        default: {
            qn_mem to = (qn_mem)(next(&w->seed) % QN_MEM_COUNT);
            size_t half = w->held[cls] / 2;
            qn_ledger_move(w->ledger, cls, to, half);
            w->held[cls] -= half;
            w->held[to] += half;
        }
        }
        qn_ledger_read(w->ledger, &s);
        size_t total = 0;
        for (int c = 0; c < QN_MEM_COUNT; c++)
            total += s.by_class[c];
        if (s.charged > s.budget || total != s.charged || s.peak < s.charged)
            atomic_fetch_add(w->over, 1);
    }
    for (int c = 0; c < QN_MEM_COUNT; c++)
        qn_ledger_give_back(w->ledger, (qn_mem)c, w->held[c]);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    qn_ledger *ledger = make(BUDGET);
    atomic_size_t over = 0;
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ ledger, 77 + i, { 0 }, &over };
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]),
                         0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    qn_ledger_state s;
    qn_ledger_read(ledger, &s);
    assert_int_equal(atomic_load(&over), 0);
    assert_int_equal(s.charged, 0);
    assert_true(s.peak > BUDGET / 2);
    qn_ledger_free(ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_all_or_none),
        cmocka_unit_test(test_exchange),
        cmocka_unit_test(test_reclaims),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The race detector of support/race.h against logs written by hand, against all
 * pairs of accesses of random logs, and on a large one. */
#include "tests/support/race.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint32_t next(uint32_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 17;
    *s ^= *s << 5;
    return *s;
}

/* ---- by hand ---- */

/*
 * One word an entry, of queue 0 to 3 (0 is the host) and a number:
 *
 *   w1:100-200  r1:100-200  launch that writes, reads; steps number themselves
 *   e1=7  a1=7  record event 7; wait for it
 *   i0=3        the host issues 3; "1*3:" before a word: issued by that
 */
static const struct {
    const char *log, *want; /* "": fine */
} rows[] = {
    { "", "" },
    { "w1:0-8 r1:0-8 w1:4-6", "" },
    { "w1:0-8 r2:7-9", "read after write: step 0 on queue 1 and step 1 on "
                       "queue 2, space 0, bytes [7, 8)" },
    { "r1:0-8 w2:7-9", "write after read: step 0 on queue 1 and step 1 on "
                       "queue 2, space 0, bytes [7, 8)" },
    { "w1:0-8 w2:7-9", "write after write: step 0 on queue 1 and step 1 on "
                       "queue 2, space 0, bytes [7, 8)" },
    { "r1:0-8 r2:0-8", "" },
    { "w1:0-8 w2:8-9", "" },
    { "w1:0-8 e1=5 a2=5 w2:0-8", "" },
    { "a2=5 w2:0-8 w1:0-8 e1=5", "" }, /* the log's mixture means nothing */
    { "w1:0-8 e1=5 w2:0-8 a2=5", "write after write: step 0 on queue 1" },
    { "e1=5 w1:0-8 a2=5 w2:0-8", "write after write: step 0 on queue 1" },
    /* over a third queue */
    { "w1:0-8 e1=5 a2=5 e2=6 a3=6 r3:0-8", "" },
    { "w1:0-8 e1=5 e2=6 a2=5 a3=6 r3:0-8", "read after write" },
    /* a reader that another reader does not cover */
    { "w1:0-8 e1=5 a2=5 a3=5 r2:0-8 r3:0-8 e3=6 a1=6 w1:0-8",
      "write after read: step 1 on queue 2 and step 3 on queue 1" },
    /* the host: what it did before it issued is before what it issued */
    { "w0:0-8 i0=3 *3:r1:0-8", "" },
    { "i0=3 w0:0-8 *3:r1:0-8", "read after write: step 0 on queue 0" },
    { "i0=3 *3:w1:0-8 e1=5 a0=5 i0=4 *4:r2:0-8", "" },
    { "i0=3 *3:w1:0-8 i0=4 *4:r2:0-8 e1=5 a0=5", "read after write" },
    { "i0=3 *3:w1:0-8 r0:0-8", "read after write: step 0 on queue 1" },
    /* never recorded is no wait */
    { "w1:0-8 a2=5 w2:0-8", "write after write" },
    /* logs that cannot have happened */
    { "a1=5 e1=5", "queue 1 never gets past entry 0 (wait 5" },
    { "a1=5 e1=6 a2=6 e2=5", "never gets past entry 0 (wait 5" },
    { "e1=5 e2=5", "event 5 is in the log twice" },
    { "i0=5 i0=5", "issue 5 is in the log twice" },
    { "*9:r1:0-8", "queue 1 never gets past entry 0 (not a wait 0, issue 9" },
};

static bool add_word(race_log *log, const char *word, uint64_t *step)
{
    uint64_t issue = 0;
    char kind = 0, *p;
    uint32_t queue;
    if (*word == '*') {
        issue = strtoull(word + 1, &p, 10);
        word = p + 1;
    }
    kind = *word;
    queue = (uint32_t)(word[1] - '0');
    uint64_t a = strtoull(word + 3, &p, 10);
    if (kind == 'e' || kind == 'a' || kind == 'i')
        return race_log_point(log, kind == 'e'   ? RACE_RECORD
                                   : kind == 'a' ? RACE_WAIT
                                                 : RACE_ISSUE,
                              queue, issue, a);
    race_range r = { 0, a, strtoull(p + 1, &p, 10) };
    return race_log_launch(log, queue, issue, (*step)++, &r, kind == 'r', &r,
                           kind == 'w');
}

static void test_by_hand(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        race_log log = { 0 };
        race_report report;
        uint64_t step = 0;
        char text[128];
        snprintf(text, sizeof text, "%s", rows[i].log);
        char *at = text;
        while (*at) {
            char *end = at + strcspn(at, " ");
            bool last = !*end;
            *end = '\0';
            assert_true(add_word(&log, at, &step));
            at = last ? end : end + 1;
        }
        if (race_check(&log, &report) != !*rows[i].want ||
            !strstr(report.text, rows[i].want))
            fail_msg("%s: \"%s\", not \"%s\"", rows[i].log, report.text,
                     rows[i].want);
        race_log_free(&log);
    }
}

static void test_spaces_are_apart(void **state)
{
    (void)state;
    race_log log = { 0 };
    race_report report;
    race_range a[2] = { { 0, 0, 8 }, { 2, 0, 8 } }, b = { 1, 0, 8 },
               none = { 2, 4, 4 };
    assert_true(race_log_launch(&log, 0, 0, 0, NULL, 0, a, 2));
    assert_true(race_log_launch(&log, 1, 0, 1, &b, 1, &b, 1));
    assert_true(race_log_launch(&log, 2, 0, 2, &none, 1, &none, 1));
    assert_true(race_check(&log, &report));
    assert_int_equal(report.n_launches, 3);
    assert_true(race_log_launch(&log, 1, 0, 3, &a[1], 1, NULL, 0));
    assert_false(race_check(&log, &report));
    assert_int_equal(report.n_races, 1);
    assert_int_equal(report.races[0].bytes.space, 2);
    race_log_free(&log);
}

/* ---- against all pairs ---- */

enum { QUEUES = 4, ENTRIES = 40 };

/* Entries of a random log in an order in which they can run. */
static void random_log(race_log *log, uint32_t *seed)
{
    uint32_t events = 0;
    for (uint32_t i = 0; i < ENTRIES; i++) {
        uint32_t q = next(seed) % QUEUES, what = next(seed) % 5;
        race_range r[3];
        for (uint32_t k = 0; k < 3; k++) {
            r[k].space = next(seed) % 2;
            r[k].begin = next(seed) % 200;
            r[k].end = r[k].begin + next(seed) % 20;
        }
        if (what == 0)
            assert_true(race_log_point(log, RACE_RECORD, q, 0, ++events));
        else if (what < 3 && events)
            assert_true(race_log_point(log, RACE_WAIT, q, 0,
                                       1 + next(seed) % events));
        else
            assert_true(race_log_launch(log, q, 0, i, r, next(seed) % 3,
                                        r + 2, next(seed) % 2));
    }
}

static bool touch(const race_log *log, const race_entry *a,
                  const race_entry *b)
{
    for (uint32_t i = 0; i < a->n_reads + a->n_writes; i++)
        for (uint32_t k = 0; k < b->n_reads + b->n_writes; k++) {
            const race_range *x = &log->ranges[a->range + i],
                             *y = &log->ranges[b->range + k];
            if ((i >= a->n_reads || k >= b->n_reads) && x->space == y->space &&
                x->begin < y->end && y->begin < x->end)
                return true;
        }
    return false;
}

static bool any_race(const race_log *log)
{
    bool before[ENTRIES][ENTRIES] = { { false } };
    for (size_t b = 0; b < log->n; b++)
        for (size_t a = 0; a < b; a++) {
            const race_entry *x = &log->entries[a], *y = &log->entries[b];
            if (x->queue != y->queue &&
                !(x->kind == RACE_RECORD && y->kind == RACE_WAIT &&
                  x->id == y->id))
                continue;
            before[a][b] = true;
            for (size_t c = 0; c < a; c++)
                before[c][b] |= before[c][a];
        }
    for (size_t b = 0; b < log->n; b++)
        for (size_t a = 0; a < b; a++)
            if (!before[a][b] && log->entries[a].kind == RACE_LAUNCH &&
                log->entries[b].kind == RACE_LAUNCH &&
                touch(log, &log->entries[a], &log->entries[b]))
                return true;
    return false;
}

static void test_random_logs(void **state)
{
    (void)state;
    uint32_t seed = 1, raced = 0, fine = 0;
    for (uint32_t i = 0; i < 3000; i++) {
        race_log log = { 0 };
        race_report report;
        random_log(&log, &seed);
        log.n = 4 + i % (ENTRIES - 4); /* short ones are often fine */
        bool want = any_race(&log);
        if (race_check(&log, &report) == want)
            fail_msg("log %u: \"%s\"", i, report.text);
        raced += want;
        fine += !want;
        race_log_free(&log);
    }
    assert_true(raced > 500 && fine > 500);
}

/* ---- a large one: 2,000 launches, 10,000 ranges, 8 queues, one race ---- */

static void test_large_log(void **state)
{
    (void)state;
    race_log log = { 0 };
    race_report report;
    uint32_t seed = 7;
    for (uint32_t i = 0; i < 2000; i++) {
        race_range r[5];
        for (uint32_t k = 0; k < 5; k++) {
            r[k].begin = next(&seed) % 1000000;
            r[k].end = r[k].begin + 1 + next(&seed) % 20000;
            r[k].space = 0;
        }
        /* each launch waits for the one before */
        if (i)
            assert_true(race_log_point(&log, RACE_WAIT, i % 8, 0, i));
        assert_true(race_log_launch(&log, i % 8, 0, i, r, 4, r + 4, 1));
        assert_true(race_log_point(&log, RACE_RECORD, i % 8, 0, i + 1));
    }
    assert_true(race_check(&log, &report));
    assert_int_equal(report.n_launches, 2000);
    race_range all = { 0, 0, 2000000 };
    assert_true(race_log_launch(&log, 8, 0, 2000, NULL, 0, &all, 1));
    assert_false(race_check(&log, &report));
    assert_true(report.n_races > 1000);
    race_log_free(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_spaces_are_apart),
        cmocka_unit_test(test_random_logs),
        cmocka_unit_test(test_large_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

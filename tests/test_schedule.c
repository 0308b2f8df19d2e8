/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules against hand-made ones, against reachability by sets, against the
 * verifier, and in simulated runs whose log a race detector reads. P8, P9 and
 * P18 are those of runtime/README.md.
 */
#include "tests/support/race.h"
#include "tests/support/schedule.h"
#include "tests/support/schedule_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 60 };

/* ---- random problems, each on 1, 2 and 4 queues, by a host or by none ---- */

typedef struct trial {
    uint32_t number, seed;
    random_schedule r;
    qn_schedule_options o;
    qn_schedule s;
    qn_region region;
} trial;

static void build(trial *t)
{
    qn_error err = { 0 };
    t->region = (qn_region){ 0 };
    if (qn_schedule_build(&t->r.p, &t->o, &t->region, &t->s, &err) != QN_OK)
        fail_msg("trial %u: %s", t->number, err.text);
}

static void start_trial(trial *t, uint32_t number)
{
    t->number = number;
    t->seed = number * 2654435761u | 1;
    uint32_t *seed = &t->seed;
    random_schedule_shape shape = {
        .n = 1 + random_schedule_next(seed) % MOST,
        .n_compute = random_schedule_next(seed) % 3,
        .n_comm = random_schedule_next(seed) % 2,
        .host = random_schedule_next(seed) % 3 * 15,
        .comm = 15, .fan_in = 3,
        .reach = 1 + random_schedule_next(seed) % 20,
        .branches = number % 3 == 0 ? 20 : 0,
    };
    random_schedule_make(&t->r, &shape, seed);
    t->o = (qn_schedule_options){
        .queues = (uint32_t[]){ 1, 2, 4 }[number / 3 % 3],
        .host_issues = number % 2,
        .wait_cost = random_schedule_next(seed) % 3 * 10,
        .launch_cost = random_schedule_next(seed) % 2 * 5,
    };
    build(t);
}

static void end_trial(trial *t)
{
    qn_region_release(&t->region);
    random_schedule_free(&t->r);
}

static bool has_jumps(const trial *t)
{
    for (uint32_t i = 0; i < t->r.p.n; i++)
        if (t->r.steps[i].flow != QN_FLOW_PLAIN)
            return true;
    return false;
}

static uint64_t n_paths(const trial *t)
{
    uint32_t k = 0;
    for (uint32_t i = 0; i < t->r.p.n; i++)
        k += t->r.steps[i].flow == QN_FLOW_JUMP_UNLESS;
    return (uint64_t)1 << k;
}

#define EACH_TRIAL(t, n)                                                       \
    for (uint32_t n_##t = 0; n_##t < (n) && (start_trial(&t, n_##t), true);    \
         end_trial(&t), n_##t++)

/* ---- happens-before by sets, for lists without jumps ---- */

/* before[i]: bit a if step a has ended when step i starts. */
static void close_over(const trial *t, uint64_t before[MOST + 1])
{
    const qn_schedule *s = &t->s;
    for (uint32_t i = 0; i < s->n; i++) {
        before[i] = 0;
        for (uint32_t a = 0; a < i; a++) {
            bool direct = s->queue[a] == s->queue[i] ||
                          (s->host_issues && s->queue[a] == 0);
            for (uint32_t k = s->wait_start[i]; k < s->wait_start[i + 1]; k++) {
                const qn_record *r = &s->records[s->waits[k]];
                direct |= r->queue == s->queue[a] && a < r->at;
            }
            if (direct)
                before[i] |= before[a] | (uint64_t)1 << a;
        }
    }
}

static void test_before_is_reachability(void **state)
{
    (void)state;
    trial t;
    EACH_TRIAL(t, 400) {
        uint64_t before[MOST + 1];
        if (has_jumps(&t))
            continue;
        close_over(&t, before);
        for (uint32_t b = 0; b < t.s.n; b++)
            for (uint32_t a = 0; a < t.s.n; a++)
                if (qn_schedule_before(&t.s, a, b) !=
                    (before[b] >> a & 1))
                    fail_msg("trial %u: step %u before %u?", t.number, a, b);
        for (uint32_t i = 0; i < t.s.n; i++)
            for (uint32_t k = t.r.dep_start[i]; k < t.r.dep_start[i + 1]; k++)
                assert_true(before[i] >> t.r.deps[k] & 1);
    }
}

/* ---- runs: P8, P18 ---- */

/* No fault seen by whoever runs it, and none by who reads the log. */
static void check_run(const trial *t, const size_t *offsets, uint64_t path,
                      uint32_t *seed)
{
    schedule_run run = { .problem = &t->r, .schedule = &t->s,
                         .offsets = offsets, .path = path };
    race_report report;
    schedule_run_do(&run, seed);
    if (run.stuck || run.bad_edges || run.bad_bytes || run.early)
        fail_msg("trial %u, path %llx: %u stuck, %u edges, %u times other "
                 "bytes, early %d", t->number, (unsigned long long)path,
                 run.stuck, run.bad_edges, run.bad_bytes, run.early);
    if (!race_check(&run.log, &report) || report.n_unrecorded)
        fail_msg("trial %u, path %llx: %s, %zu waits for nothing", t->number,
                 (unsigned long long)path, report.text, report.n_unrecorded);
    for (uint32_t b = 0; b < t->s.n; b++)
        for (uint32_t a = 0; a < t->s.n; a++)
            if (run.began[a] && run.began[b] &&
                qn_schedule_before(&t->s, a, b) &&
                run.ended[a] > run.began[b])
                fail_msg("trial %u: step %u had to end before %u", t->number,
                         a, b);
    schedule_run_release(&run);
}

static void verify(const trial *t, const size_t *offsets)
{
    qn_error err = { 0 };
    if (qn_schedule_verify(&t->r.p, &t->s, t->r.buffers, t->r.p.n, offsets,
                           &err) != QN_OK)
        fail_msg("trial %u: %s", t->number, err.text);
}

static void test_runs(void **state)
{
    (void)state;
    trial t;
    EACH_TRIAL(t, 200) {
        verify(&t, NULL);
        for (uint32_t k = 0; k < 6; k++)
            check_run(&t, NULL, random_schedule_next(&t.seed) % n_paths(&t),
                      &t.seed);
    }
}

/* ---- no wait too many: P9 ---- */

/* A schedule without wait k of all, of which the last are join[]. */
typedef struct cut {
    qn_schedule s;
    uint32_t *waits, *start;
} cut;

static void cut_init(cut *c, const qn_schedule *s, uint32_t k)
{
    uint32_t n = s->n, all = s->wait_start[n] + s->n_join;
    c->s = *s;
    c->waits = calloc(all + 1, sizeof *c->waits);
    c->start = calloc(n + 2, sizeof *c->start);
    assert_true(c->waits && c->start);
    for (uint32_t i = 0, to = 0; i < all; i++)
        if (i != k)
            c->waits[to++] = i < s->wait_start[n]
                                 ? s->waits[i]
                                 : s->join[i - s->wait_start[n]];
    for (uint32_t i = 0; i <= n; i++)
        c->start[i] = s->wait_start[i] - (s->wait_start[i] > k);
    c->s.waits = c->waits;
    c->s.wait_start = c->start;
    c->s.join = c->waits + c->start[n];
    c->s.n_join = all - 1 - c->start[n];
}

static void cut_release(cut *c)
{
    free(c->waits);
    free(c->start);
}

/* On some path there is a race; with `wrong`, or a step that finds bytes of
 * another, which needs no race where all is in order. */
static bool races(const trial *t, const qn_schedule *s, const size_t *offsets,
                  bool wrong)
{
    uint32_t seed = 1;
    bool found = false;
    for (uint64_t path = 0; path < n_paths(t) && !found; path++) {
        schedule_run run = { .problem = &t->r, .schedule = s,
                             .offsets = offsets, .path = path };
        race_report report;
        schedule_run_do(&run, &seed);
        found = !race_check(&run.log, &report);
        if (found && !report.n_races)
            fail_msg("trial %u: %s", t->number, report.text);
        found |= wrong && run.bad_bytes;
        schedule_run_release(&run);
    }
    return found;
}

static void test_each_wait_is_needed(void **state)
{
    (void)state;
    trial t;
    uint32_t removed = 0, naive = 0, branchy = 0, rare = 0;
    EACH_TRIAL(t, 200) {
        const qn_schedule *s = &t.s;
        uint32_t all = s->wait_start[s->n] + s->n_join;
        assert_int_equal(s->stats.waits, s->wait_start[s->n]);
        if (s->stats.waits > s->stats.naive)
            fail_msg("trial %u: %u waits of %u", t.number, s->stats.waits,
                     s->stats.naive);
        removed += s->stats.waits;
        naive += s->stats.naive;
        for (uint32_t k = 0; k < all; k++) {
            qn_error err = { 0 };
            cut c;
            cut_init(&c, s, k);
            if (qn_schedule_verify(&t.r.p, &c.s, NULL, 0, NULL, &err) !=
                QN_INTERNAL)
                fail_msg("trial %u: the verifier misses wait %u", t.number, k);
            assert_non_null(strstr(err.text, "need not have ended"));
            /* Behind a branch, what one path knows by this queue and the
             * other by that counts as not known: see schedule.h. */
            bool seen = races(&t, &c.s, NULL, false);
            if (!seen && !has_jumps(&t))
                fail_msg("trial %u: no race without wait %u", t.number, k);
            rare += !seen;
            branchy += has_jumps(&t);
            cut_release(&c);
        }
    }
    assert_true(branchy > 200 && rare <= branchy / 100);
    assert_true(removed > 1000 && naive > removed * 5 / 4);
}

/* Every record is waited for. */
static void test_no_idle_records(void **state)
{
    (void)state;
    trial t;
    EACH_TRIAL(t, 300) {
        const qn_schedule *s = &t.s;
        bool *used = calloc(s->n_records + 1, sizeof *used);
        assert_non_null(used);
        for (uint32_t k = 0; k < s->wait_start[s->n]; k++)
            used[s->waits[k]] = true;
        for (uint32_t k = 0; k < s->n_join; k++)
            used[s->join[k]] = true;
        for (uint32_t r = 0; r < s->n_records; r++)
            assert_true(used[r]);
        free(used);
    }
}

/* ---- memory ---- */

static bool all_before(const trial *t, const uint64_t *before, uint32_t x,
                       uint32_t y)
{
    const qn_schedule_buffer *a = &t->r.buffers[x], *b = &t->r.buffers[y];
    for (uint32_t i = 0; i < a->n_uses; i++)
        for (uint32_t k = 0; k < b->n_uses; k++)
            if (!(before[b->uses[k]] >> a->uses[i] & 1))
                return false;
    return true;
}

static qn_conflicts conflicts_of(trial *t)
{
    qn_error err = { 0 };
    qn_conflicts c;
    if (qn_schedule_conflicts(&t->s, t->r.buffers, t->r.p.n, &t->region, &c,
                              &err) != QN_OK)
        fail_msg("trial %u: %s", t->number, err.text);
    return c;
}

static bool in_row(const qn_conflicts *c, uint32_t x, uint32_t y)
{
    for (size_t k = c->start[x]; k < c->start[x + 1]; k++)
        if (c->other[k] == y)
            return true;
    return false;
}

static void test_conflicts_are_those_of_sets(void **state)
{
    (void)state;
    trial t;
    uint32_t pairs = 0, apart = 0;
    EACH_TRIAL(t, 400) {
        uint64_t before[MOST + 1];
        qn_conflicts c = conflicts_of(&t);
        if (has_jumps(&t))
            continue;
        close_over(&t, before);
        for (uint32_t x = 0; x < t.s.n; x++)
            for (uint32_t y = 0; y < t.s.n; y++) {
                bool want = x != y &&
                            t.r.buffers[x].space == t.r.buffers[y].space &&
                            !all_before(&t, before, x, y) &&
                            !all_before(&t, before, y, x);
                if (in_row(&c, x, y) != want)
                    fail_msg("trial %u: buffers %u and %u: conflict %d",
                             t.number, x, y, !want);
                pairs += want;
                apart += !want;
            }
    }
    assert_true(pairs > 10000 && apart > 10000);
}

static qn_buffer interval_of(const qn_schedule_buffer *b)
{
    qn_buffer out = { .lower = UINT32_MAX, .bytes = b->bytes, .align = 4,
                      .group = -1 };
    for (uint32_t k = 0; k < b->n_uses; k++) {
        if (b->uses[k] < out.lower)
            out.lower = b->uses[k];
        if (b->uses[k] >= out.upper)
            out.upper = b->uses[k] + 1;
    }
    if (!b->n_uses)
        out = (qn_buffer){ .lower = 0, .upper = 1, .group = -1 };
    return out;
}

static void test_one_queue_is_intervals(void **state)
{
    (void)state;
    trial t;
    EACH_TRIAL(t, 300) {
        for (uint32_t i = 0; i < t.r.p.n; i++)
            t.r.steps[i].class = 0; /* all on the host */
        t.o.queues = 1;
        qn_region_release(&t.region);
        build(&t);
        qn_conflicts c = conflicts_of(&t);
        assert_int_equal(t.s.n_queues, 1);
        assert_int_equal(t.s.stats.waits + t.s.stats.naive, 0);
        assert_int_equal(t.s.n_join, !t.s.host_issues);
        for (uint32_t x = 0; x < t.s.n; x++)
            for (uint32_t y = 0; y < t.s.n; y++) {
                const qn_schedule_buffer *a = &t.r.buffers[x],
                                         *b = &t.r.buffers[y];
                qn_buffer p = interval_of(a), q = interval_of(b);
                bool want = x != y && a->n_uses && b->n_uses &&
                            a->space == b->space && p.lower < q.upper &&
                            q.lower < p.upper;
                if (in_row(&c, x, y) != want)
                    fail_msg("trial %u: buffers %u and %u", t.number, x, y);
            }
    }
}

/* Put all buffers into one space, so that the layout has something to do. */
static void lay_out(trial *t, size_t *offsets, qn_layout_stats *stats)
{
    qn_buffer b[MOST];
    qn_error err = { 0 };
    for (uint32_t i = 0; i < t->r.p.n; i++) {
        t->r.buffers[i].space = 0;
        b[i] = interval_of(&t->r.buffers[i]);
        if (!t->r.buffers[i].n_uses)
            t->r.buffers[i].bytes = 0;
    }
    qn_conflicts c = conflicts_of(t);
    if (qn_layout_solve(b, t->r.p.n, &c, NULL, offsets, stats, &err) ||
        qn_layout_verify(b, t->r.p.n, &c, offsets, stats->peak, &err))
        fail_msg("trial %u: %s", t->number, err.text);
}

static void test_layouts_run(void **state)
{
    (void)state;
    trial t;
    size_t peak = 0, total = 0;
    EACH_TRIAL(t, 200) {
        size_t offsets[MOST];
        qn_layout_stats stats;
        lay_out(&t, offsets, &stats);
        peak += stats.peak;
        total += stats.total;
        verify(&t, offsets);
        for (uint32_t k = 0; k < 4; k++)
            check_run(&t, offsets, random_schedule_next(&t.seed) % n_paths(&t),
                      &t.seed);
    }
    assert_true(peak < total * 3 / 4);
}

/* Two buffers that conflict, at one offset: both checks say so. */
static void test_wrong_layouts_are_seen(void **state)
{
    (void)state;
    trial t;
    uint32_t seen = 0;
    EACH_TRIAL(t, 300) {
        size_t offsets[MOST];
        qn_layout_stats stats;
        lay_out(&t, offsets, &stats);
        qn_conflicts c = conflicts_of(&t);
        uint32_t x = random_schedule_next(&t.seed) % t.s.n;
        if (has_jumps(&t) || c.start[x] == c.start[x + 1])
            continue;
        qn_error err = { 0 };
        char name[64];
        uint32_t y = c.other[c.start[x]];
        for (uint32_t i = 0; i < t.s.n; i++) /* the others elsewhere */
            offsets[i] = 1000u * (i + 1);
        offsets[x] = offsets[y];
        assert_int_equal(qn_schedule_verify(&t.r.p, &t.s, t.r.buffers, t.s.n,
                                            offsets, &err), QN_INTERNAL);
        snprintf(name, sizeof name, "buffer %u  at [%zu", x, offsets[x]);
        if (!strstr(err.text, name) || !strstr(err.text, "share bytes"))
            fail_msg("trial %u: \"%s\" without \"%s\"", t.number, err.text,
                     name);
        if (!races(&t, &t.s, offsets, true))
            fail_msg("trial %u: buffers %u and %u do no harm", t.number, x, y);
        seen++;
    }
    assert_true(seen > 100);
}

static void test_equal_problems_equal_schedules(void **state)
{
    (void)state;
    trial t;
    EACH_TRIAL(t, 200) {
        trial again = t;
        build(&again);
        const qn_schedule *a = &t.s, *b = &again.s;
        assert_int_equal(a->n_records, b->n_records);
        assert_int_equal(a->n_queues, b->n_queues);
        assert_memory_equal(a->queue, b->queue, a->n * sizeof *a->queue);
        assert_memory_equal(a->clock, b->clock,
                            (size_t)a->n * a->n_chains * sizeof *a->clock);
        assert_memory_equal(a->wait_start, b->wait_start,
                            (a->n + 1) * sizeof *a->wait_start);
        assert_memory_equal(a->waits, b->waits,
                            (a->stats.waits + a->n_join) * sizeof *a->waits);
        assert_memory_equal(a->records, b->records,
                            a->n_records * sizeof *a->records);
        qn_region_release(&again.region);
    }
}

/* ---- by hand ---- */

/* a depends on b: "0 1" -> two numbers; -1 ends */
typedef struct row {
    const char *what;
    uint32_t queues;
    bool host_issues;
    uint32_t n;
    qn_schedule_step steps[8];
    int deps[8][4]; /* plus one; 0 ends */
    const char *want;
} row;

#define DEV(c) { .class = 1, .cost = c }
#define HOST(c) { .cost = c }
#define COMM(c) { .class = 2, .cost = c }
#define UNLESS(t) { .flow = QN_FLOW_JUMP_UNLESS, .target = t, .cost = 1 }
#define JUMP(t) { .flow = QN_FLOW_JUMP, .target = t, .cost = 1 }

/* Steps as q<queue>, with the records that each waits for as queue@position;
 * then what the end waits for. */
static const row rows[] = {
    { "empty", 2, true, 0, { HOST(1) }, { { 0 } }, "end" },
    { "chain", 4, true, 3, { DEV(5), DEV(5), DEV(5) }, { { 0 }, { 1 }, { 2 } },
      "q1 q1 q1 end 1@3" },
    { "diamond: the longer arm stays, one wait there and one back", 2, true, 4,
      { DEV(5), DEV(5), DEV(9), DEV(5) }, { { 0 }, { 1 }, { 1 }, { 2, 3 } },
      "q1 q2(1@1) q1 q1(2@2) end 1@4" },
    { "an edge that others imply costs nothing", 1, true, 4,
      { DEV(5), COMM(5), DEV(5), COMM(1) },
      { { 0 }, { 1 }, { 2 }, { 1, 3 } },
      "q1 q2(1@1) q1(2@2) q2(1@3) end 2@4" },
    { "latest first: the second wait is covered", 1, true, 4,
      { DEV(5), COMM(5), COMM(5), DEV(1) },
      { { 0 }, { 1 }, { 1 }, { 2, 3 } },
      "q1 q2(1@1) q2 q1(2@3) end 1@4" },
    { "host: waits for results, is waited for by nobody", 1, true, 4,
      { HOST(1), DEV(5), HOST(1), DEV(5) }, { { 0 }, { 1 }, { 2 }, { 3 } },
      "q0 q1 q0(1@2) q1 end 1@4" },
    { "what the host waited for is behind everybody", 1, true, 4,
      { DEV(5), HOST(1), COMM(5), DEV(5) }, { { 0 }, { 1 }, { 1 }, { 3 } },
      "q1 q0(1@1) q2 q1(2@3) end 1@4" },
    { "two independent steps: the end waits for both", 2, true, 2,
      { DEV(5), DEV(5) }, { { 0 } }, "q1 q2 end 2@2 1@1" },
    { "the branch of schedule.h: recorded behind it", 1, true, 6,
      { DEV(5), COMM(5), UNLESS(4), DEV(1), HOST(1), COMM(1) },
      { { 0 }, { 1 }, { 0 }, { 0 }, { 0 }, { 4 } },
      "q1 q2(1@1) q0 q1 q0 q2(1@4) end 2@6" },
    { "a wait in a branch is worth nothing behind it", 1, true, 6,
      { DEV(5), UNLESS(3), COMM(1), HOST(1), COMM(1), DEV(1) },
      { { 0 }, { 0 }, { 1 }, { 0 }, { 1 }, { 5 } },
      "q1 q0 q2(1@1) q0 q2(1@1) q1(2@5) end 1@6" },
    { "in both arms it is", 1, true, 7,
      { DEV(5), UNLESS(4), COMM(1), JUMP(5), COMM(1), COMM(1), DEV(1) },
      { { 0 }, { 0 }, { 1 }, { 0 }, { 1 }, { 1 }, { 0 } },
      "q1 q0 q2(1@1) q0 q2(1@1) q2 q1 end 1@7 2@6" },
    { "arms do not wait for each other", 1, true, 5,
      { UNLESS(3), DEV(1), JUMP(4), COMM(1), HOST(1) },
      { { 0 }, { 0 }, { 0 }, { 2 }, { 0 } },
      "q0 q1 q0 q2 q0 end 1@4 2@4" },
    { "cpu queues: the host is like any other", 2, false, 4,
      { HOST(5), HOST(5), HOST(9), HOST(5) },
      { { 0 }, { 1 }, { 1 }, { 2, 3 } },
      "q0 q1(0@1) q0 q0(1@2) end 0@4" },
    { "cpu with jumps: one queue, also for communicators", 4, false, 4,
      { UNLESS(3), HOST(1), COMM(1), COMM(1) }, { { 0 } },
      "q0 q0 q0 q0 end 0@4" },
};

static void print(const qn_schedule *s, char *out, size_t size)
{
    size_t at = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i <= s->n; i++) {
        bool end = i == s->n;
        uint32_t n = end ? s->n_join : s->wait_start[i + 1] - s->wait_start[i];
        const uint32_t *w = end ? s->join : s->waits + s->wait_start[i];
        at += (size_t)(end ? snprintf(out + at, size - at, "end")
                           : snprintf(out + at, size - at, "q%u", s->queue[i]));
        for (uint32_t k = 0; k < n; k++)
            at += (size_t)snprintf(out + at, size - at, "%s%u@%u",
                                   end || k ? " " : "(", s->records[w[k]].queue,
                                   s->records[w[k]].at);
        at += (size_t)snprintf(out + at, size - at, "%s%s",
                               n && !end ? ")" : "", end ? "" : " ");
    }
}

static void test_by_hand(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const row *r = &rows[i];
        uint32_t start[9] = { 0 }, deps[32], n = 0;
        for (uint32_t k = 0; k < r->n; k++) {
            for (uint32_t d = 0; d < 4 && r->deps[k][d]; d++)
                deps[n++] = (uint32_t)r->deps[k][d] - 1;
            start[k + 1] = n;
        }
        qn_schedule_problem p = { .n = r->n, .steps = r->steps,
                                  .dep_start = start, .deps = deps,
                                  .n_compute = 1, .n_comm = 1 };
        qn_schedule_options o = { .queues = r->queues,
                                  .host_issues = r->host_issues };
        qn_region region = { 0 };
        qn_schedule s;
        qn_error err = { 0 };
        char text[256];
        if (qn_schedule_build(&p, &o, &region, &s, &err) != QN_OK ||
            qn_schedule_verify(&p, &s, NULL, 0, NULL, &err) != QN_OK)
            fail_msg("%s: %s", r->what, err.text);
        print(&s, text, sizeof text);
        if (strcmp(text, r->want))
            fail_msg("%s: \"%s\", not \"%s\"", r->what, text, r->want);
        qn_region_release(&region);
    }
}

static const struct {
    qn_schedule_step step;
    uint32_t dep, queues;
    bool host_issues;
    qn_status want;
    const char *says;
} bad[] = {
    { DEV(1), 0, 0, true, QN_INVALID, "0 queues a device, not 1 to 4" },
    { DEV(1), 0, 5, true, QN_INVALID, "5 queues a device, not 1 to 4" },
    { DEV(1), 1, 1, true, QN_INVALID, "step 1 last depends on step 1" },
    { DEV(1), 7, 1, true, QN_INVALID, "step 1 last depends on step 7" },
    { { .class = 3 }, 0, 1, true, QN_INVALID, "class 3, there are 0 to 2" },
    { { .class = UINT32_MAX }, 0, 1, true, QN_INVALID, "class 4294967295" },
    { JUMP(1), 0, 1, true, QN_INVALID, "last jumps to 1, not to 2 .. 2" },
    { JUMP(3), 0, 1, true, QN_INVALID, "jumps to 3" },
    { { .class = 1, .flow = QN_FLOW_JUMP, .target = 2 }, 0, 1, true, QN_INVALID,
      "jumps, but not on the host (class 1)" },
};

static void test_bad_problems(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        qn_schedule_step steps[2] = { HOST(1), bad[i].step };
        uint32_t start[3] = { 0, 0, 1 }, dep = bad[i].dep;
        qn_schedule_problem p = { .n = 2, .steps = steps, .dep_start = start,
                                  .deps = &dep, .n_compute = 1, .n_comm = 1 };
        qn_schedule_options o = { .queues = bad[i].queues,
                                  .host_issues = bad[i].host_issues };
        qn_region region = { 0 };
        qn_schedule s;
        qn_error err = { 0 };
        steps[1].name = "last";
        qn_status st = qn_schedule_build(&p, &o, &region, &s, &err);
        if (st != bad[i].want || !strstr(err.text, bad[i].says))
            fail_msg("row %zu: %s \"%s\"", i, qn_status_name(st), err.text);
        qn_region_release(&region);
    }
}

static void test_too_many_queues(void **state)
{
    (void)state;
    qn_schedule_step steps[65];
    uint32_t start[66] = { 0 };
    qn_schedule_problem p = { .n = 65, .steps = steps, .dep_start = start,
                              .n_comm = 65 };
    qn_schedule_options o = { .queues = 1, .host_issues = true };
    qn_region region = { 0 };
    qn_schedule s;
    qn_error err = { 0 };
    for (uint32_t i = 0; i < 65; i++)
        steps[i] = (qn_schedule_step){ .class = i + 1 };
    assert_int_equal(qn_schedule_build(&p, &o, &region, &s, &err),
                     QN_TOO_LARGE);
    p.n = 63;
    assert_int_equal(qn_schedule_build(&p, &o, &region, &s, &err), QN_OK);
    assert_int_equal(s.n_queues, 64);
    qn_region_release(&region);
}

/* ---- does it pay? ---- */

static const struct {
    const char *what;
    uint32_t n;
    qn_schedule_step steps[6];
    int deps[6][4];
    uint64_t wait_cost, launch_cost;
    uint32_t min_gain;
    uint64_t want[2];
    uint32_t queues; /* with the host's */
} pays[] = {
    { "a chain", 3, { DEV(5), DEV(5), DEV(5) }, { { 0 }, { 1 }, { 2 } }, 0, 0,
      0, { 15, 15 }, 2 },
    { "two chains", 4, { DEV(50), DEV(50), DEV(50), DEV(50) },
      { { 0 }, { 0 }, { 1 }, { 2 } }, 7, 0, 0, { 200, 100 }, 3 },
    { "three steps on two queues would gain less", 3,
      { DEV(50), DEV(50), DEV(50) }, { { 0 } }, 0, 0, 0, { 150, 50 }, 4 },
    { "gains under 40 percent are not wanted", 3,
      { DEV(60), DEV(20), DEV(20) }, { { 0 } }, 0, 0, 41, { 100, 100 }, 2 },
    { "the wait costs more than the queue gains", 3,
      { DEV(5), DEV(5), DEV(5) }, { { 0 }, { 1 }, { 1 } }, 50, 0, 0,
      { 15, 15 }, 2 },
    { "the thread that issues is what is slow", 3,
      { DEV(1), DEV(1), DEV(1) }, { { 0 } }, 0, 100, 0, { 301, 301 }, 2 },
    { "costs do not overflow", 2, { DEV(UINT64_MAX), DEV(9) }, { { 0 } }, 0, 0,
      0, { UINT64_MAX, UINT64_MAX }, 2 },
};

static void test_choice(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pays / sizeof pays[0]; i++) {
        uint32_t start[7] = { 0 }, deps[24], n = 0;
        for (uint32_t k = 0; k < pays[i].n; k++) {
            for (uint32_t d = 0; d < 4 && pays[i].deps[k][d]; d++)
                deps[n++] = (uint32_t)pays[i].deps[k][d] - 1;
            start[k + 1] = n;
        }
        qn_schedule_problem p = { .n = pays[i].n, .steps = pays[i].steps,
                                  .dep_start = start, .deps = deps,
                                  .n_compute = 1 };
        qn_schedule_options o = { .queues = 3, .host_issues = true,
                                  .wait_cost = pays[i].wait_cost,
                                  .launch_cost = pays[i].launch_cost };
        qn_region region = { 0 };
        qn_schedule s;
        qn_error err = { 0 };
        uint64_t got[2];
        if (qn_schedule_choose(&p, &o, pays[i].min_gain, &region, &s, got,
                               &err) != QN_OK)
            fail_msg("%s: %s", pays[i].what, err.text);
        if (got[0] != pays[i].want[0] || got[1] != pays[i].want[1] ||
            s.n_queues != pays[i].queues)
            fail_msg("%s: %llu, %llu on %u queues", pays[i].what,
                     (unsigned long long)got[0], (unsigned long long)got[1],
                     s.n_queues);
        qn_region_release(&region);
    }
}

/* More queues never end later in list order without costs of waiting, and
 * nothing ends before its critical path. */
static void test_makespan_bounds(void **state)
{
    (void)state;
    trial t;
    EACH_TRIAL(t, 300) {
        uint64_t span;
        qn_error err = { 0 };
        if (has_jumps(&t))
            continue;
        t.o.wait_cost = t.o.launch_cost = 0;
        qn_region_release(&t.region);
        build(&t);
        assert_int_equal(qn_schedule_makespan(&t.r.p, &t.o, &t.s, &span, &err),
                         QN_OK);
        assert_true(span >= t.s.stats.critical && span <= t.s.stats.total);
        if (t.s.n_queues == 1)
            assert_int_equal(span, t.s.stats.total);
    }
}

/* ---- the verifier looks at form, too ---- */

static void test_wrong_forms_are_seen(void **state)
{
    (void)state;
    const qn_schedule_step steps[3] = { DEV(1), COMM(1), DEV(1) };
    const uint32_t start[4] = { 0, 0, 1, 2 }, deps[2] = { 0, 1 };
    const qn_schedule_problem p = { .n = 3, .steps = steps, .dep_start = start,
                                    .deps = deps, .n_compute = 1, .n_comm = 1 };
    const qn_schedule_options o = { .queues = 2, .host_issues = true };
    qn_region region = { 0 };
    qn_schedule good, s;
    qn_error err = { 0 };
    assert_int_equal(qn_schedule_build(&p, &o, &region, &good, &err), QN_OK);
    const uint32_t all_on_1[3] = { 1, 1, 1 }, on_9[3] = { 1, 9, 1 };
    const uint32_t late[2] = { 1, 1 }, none[5] = { 0 };
    struct {
        const uint32_t *queue, *waits, *record_start;
        const char *says;
    } wrong[] = {
        { all_on_1, NULL, NULL, "step 1  of class 2 is on queue 1 of class 1" },
        { on_9, NULL, NULL, "step 1  is on queue 9 of 3" },
        { NULL, late, NULL, "step 1  waits for record 1 of 3, which was not" },
        { NULL, NULL, none, "0 of 3 records have a position" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        s = good;
        if (wrong[i].queue)
            s.queue = wrong[i].queue;
        if (wrong[i].waits)
            s.waits = wrong[i].waits;
        if (wrong[i].record_start)
            s.record_start = wrong[i].record_start;
        assert_int_equal(qn_schedule_verify(&p, &s, NULL, 0, NULL, &err),
                         QN_INTERNAL);
        if (!strstr(err.text, wrong[i].says))
            fail_msg("row %zu: \"%s\"", i, err.text);
    }
    qn_region_release(&region);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_bad_problems),
        cmocka_unit_test(test_too_many_queues),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_makespan_bounds),
        cmocka_unit_test(test_wrong_forms_are_seen),
        cmocka_unit_test(test_before_is_reachability),
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_each_wait_is_needed),
        cmocka_unit_test(test_no_idle_records),
        cmocka_unit_test(test_conflicts_are_those_of_sets),
        cmocka_unit_test(test_one_queue_is_intervals),
        cmocka_unit_test(test_layouts_run),
        cmocka_unit_test(test_wrong_layouts_are_seen),
        cmocka_unit_test(test_equal_problems_equal_schedules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

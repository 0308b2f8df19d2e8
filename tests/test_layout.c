/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner against hand-computed layouts, seeded random problems, problems
 * with a known optimum, and a quadratic check that knows nothing of it. The
 * numbers P1 to P7 are those of the planner's invariants in runtime/README.md.
 */
#include "runtime/base/alloc.h"
#include "runtime/plan/layout.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 400 };

static uint32_t next(uint32_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 17;
    *s ^= *s << 5;
    return *s;
}

/* ---- problems ---- */

typedef struct problem {
    size_t n;
    qn_buffer b[MOST];
    size_t offsets[MOST];
    qn_layout_stats stats;
    /* only where conflicts are given */
    bool by_conflicts;
    size_t start[MOST + 1];
    uint32_t other[MOST * MOST];
    qn_conflicts conflicts;
} problem;

static qn_buffer plain(uint32_t lower, uint32_t upper, size_t bytes)
{
    return (qn_buffer){ .lower = lower, .upper = upper, .bytes = bytes,
                        .group = -1 };
}

static bool meet(const qn_buffer *a, const qn_buffer *b)
{
    return a->lower < b->upper && b->lower < a->upper;
}

static const qn_conflicts *conflicts_of(const problem *p)
{
    return p->by_conflicts ? &p->conflicts : NULL;
}

static bool conflict(const problem *p, size_t i, size_t k)
{
    if (!p->by_conflicts)
        return meet(&p->b[i], &p->b[k]);
    for (size_t x = p->start[i]; x < p->start[i + 1]; x++)
        if (p->other[x] == k)
            return true;
    return false;
}

/* Lifetimes, and one pair in `rare` that share no moment. */
static void add_conflicts(problem *p, uint32_t *seed, uint32_t rare)
{
    static bool m[MOST][MOST];
    size_t at = 0;
    for (size_t i = 0; i < p->n; i++)
        for (size_t k = 0; k < i; k++)
            m[i][k] = m[k][i] =
                meet(&p->b[i], &p->b[k]) || next(seed) % rare == 0;
    for (size_t i = 0; i < p->n; i++) {
        p->start[i] = at;
        for (size_t k = 0; k < p->n; k++)
            if (k != i && m[i][k])
                p->other[at++] = (uint32_t)k;
    }
    p->start[p->n] = at;
    p->by_conflicts = true;
    p->conflicts = (qn_conflicts){ p->start, p->other };
}

enum { ALIGNED = 1, GROUPED = 2, EMPTY = 4, CONFLICTS = 8 };

static problem *random_problem(uint32_t *seed, size_t n, unsigned flags)
{
    problem *p = calloc(1, sizeof *p);
    uint32_t span = 4 + next(seed) % 100;
    assert_non_null(p);
    p->n = n;
    for (size_t i = 0; i < n; i++) {
        uint32_t lower = next(seed) % span;
        uint32_t life = 1 + next(seed) % (next(seed) % 8 ? 4 : span);
        p->b[i] = plain(lower, lower + life, 1 + next(seed) % 1000);
        if (flags & ALIGNED)
            p->b[i].align = 1U << next(seed) % 9;
        if (flags & EMPTY && next(seed) % 8 == 0)
            p->b[i].bytes = 0;
        if (flags & GROUPED && next(seed) % 3 == 0) {
            p->b[i].group = (int32_t)(next(seed) % (n / 8 + 1));
            p->b[i].group_pos = (uint32_t)(n - i); /* against the index */
        }
    }
    if (flags & CONFLICTS)
        add_conflicts(p, seed, 20);
    return p;
}

static void solve(problem *p, const qn_layout_options *options)
{
    qn_error err = { 0 };
    if (qn_layout_solve(p->b, p->n, conflicts_of(p), options, p->offsets,
                        &p->stats, &err) != QN_OK)
        fail_msg("solve: %s", err.text);
    if (qn_layout_verify(p->b, p->n, conflicts_of(p), p->offsets,
                         p->stats.peak, &err) != QN_OK)
        fail_msg("%s: %s", p->stats.winner, err.text);
}

/* P1, P2 and P7, pair by pair. */
static void check_slowly(const problem *p, uint32_t seed)
{
    for (size_t i = 0; i < p->n; i++) {
        const qn_buffer *a = &p->b[i];
        size_t from = p->offsets[i], end = from + a->bytes;
        if (end > p->stats.peak || (a->align > 1 && from % a->align))
            fail_msg("seed %u: buffer %zu at %zu, peak %zu", seed, i, from,
                     p->stats.peak);
        for (size_t k = 0; k < p->n; k++) {
            const qn_buffer *b = &p->b[k];
            size_t other = p->offsets[k];
            if (i != k && a->bytes && b->bytes && conflict(p, i, k) &&
                from < other + b->bytes && other < end)
                fail_msg("seed %u: %zu and %zu overlap", seed, i, k);
            if (a->group < 0 || a->group != b->group ||
                b->group_pos <= a->group_pos)
                continue;
            /* behind, and no further than the sizes and paddings between */
            size_t most = 0;
            for (size_t x = 0; x < p->n; x++)
                if (p->b[x].group == a->group &&
                    p->b[x].group_pos >= a->group_pos &&
                    p->b[x].group_pos <= b->group_pos)
                    most += p->b[x].bytes * (x != k) +
                            (p->b[x].align ? p->b[x].align - 1 : 0);
            if (other < end || other - from > most)
                if (p->stats.peak && other + from)
                    fail_msg("seed %u: group %d, %zu at %zu, %zu at %zu", seed,
                             a->group, i, from, k, other);
        }
    }
}

static void test_random(void **state)
{
    (void)state;
    for (uint32_t row = 1; row <= 160; row++) {
        uint32_t seed = row * 2654435761U;
        problem *p = random_problem(&seed, 1 + next(&seed) % 90, row % 16);
        solve(p, &(qn_layout_options){ .search_steps = 20000 });
        check_slowly(p, row);
        if (p->stats.lower_bound > p->stats.peak)
            fail_msg("row %u: bound %zu, peak %zu", row, p->stats.lower_bound,
                     p->stats.peak);
        solve(p, &(qn_layout_options){ .no_reuse = true });
        check_slowly(p, row);
        for (size_t i = 0; i < p->n; i++) /* every buffer its own bytes */
            for (size_t k = 0; k < i; k++)
                if (p->b[i].bytes && p->b[k].bytes &&
                    p->offsets[i] < p->offsets[k] + p->b[k].bytes &&
                    p->offsets[k] < p->offsets[i] + p->b[i].bytes)
                    fail_msg("row %u: plain layout shares bytes", row);
        free(p);
    }
}

/* ---- by hand ---- */

static void test_by_hand(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t n;
        qn_buffer b[6];
        size_t bound, peak;
    } rows[] = {
        { "nothing", 0, { { 0, 1, 0, 0, -1, 0 } }, 0, 0 },
        { "one", 1, { { 0, 1, 7, 0, -1, 0 } }, 7, 7 },
        { "touching lifetimes share", 2,
          { { 0, 2, 7, 0, -1, 0 }, { 2, 4, 9, 0, -1, 0 } }, 9, 9 },
        { "overlapping ones do not", 2,
          { { 0, 3, 7, 0, -1, 0 }, { 2, 4, 9, 0, -1, 0 } }, 16, 16 },
        { "a chain", 4,
          { { 0, 2, 4, 0, -1, 0 }, { 1, 3, 6, 0, -1, 0 },
            { 2, 4, 4, 0, -1, 0 }, { 3, 5, 6, 0, -1, 0 } }, 10, 10 },
        /* at 1 two of 4 live, at 3 the 8: the 4 between must lie at an end */
        { "a hole that must be avoided", 4,
          { { 0, 2, 4, 0, -1, 0 }, { 1, 4, 4, 0, -1, 0 },
            { 3, 6, 8, 0, -1, 0 }, { 5, 7, 4, 0, -1, 0 } }, 12, 12 },
        { "the last needs no padding", 2,
          { { 0, 1, 1, 64, -1, 0 }, { 0, 1, 1, 64, -1, 0 } }, 65, 65 },
        { "one alignment among others", 3,
          { { 0, 1, 3, 1, -1, 0 }, { 0, 1, 4, 4, -1, 0 },
            { 0, 1, 1, 1, -1, 0 } }, 8, 8 },
        { "a group lives as one", 3,
          { { 0, 1, 5, 0, 0, 0 }, { 3, 4, 5, 0, 0, 1 },
            { 2, 3, 5, 0, -1, 0 } }, 15, 15 },
        { "no bytes, no place", 2,
          { { 0, 9, 0, 64, -1, 0 }, { 0, 9, 3, 0, -1, 0 } }, 3, 3 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t offsets[6];
        qn_layout_stats stats;
        qn_error err = { 0 };
        if (qn_layout_solve(rows[i].b, rows[i].n, NULL, NULL, offsets, &stats,
                            &err) != QN_OK ||
            qn_layout_verify(rows[i].b, rows[i].n, NULL, offsets, stats.peak,
                             &err) != QN_OK)
            fail_msg("%s: %s", rows[i].name, err.text);
        if (stats.lower_bound != rows[i].bound || stats.peak != rows[i].peak)
            fail_msg("%s: bound %zu, peak %zu", rows[i].name,
                     stats.lower_bound, stats.peak);
    }
}

static void test_group_offsets(void **state)
{
    (void)state;
    qn_buffer b[] = {
        { 0, 2, 100, 16, 7, 2 }, { 0, 2, 30, 4, 7, 0 },
        { 0, 2, 9, 8, 7, 1 },    { 0, 2, 1000, 64, -1, 0 },
    };
    size_t offsets[4];
    qn_layout_stats stats;
    qn_error err = { 0 };
    assert_int_equal(
        qn_layout_solve(b, 4, NULL, NULL, offsets, &stats, &err), QN_OK);
    assert_int_equal(offsets[2] - offsets[1], 32);
    assert_int_equal(offsets[0] - offsets[1], 48);
    assert_int_equal(offsets[1] % 16, 0);
    /* 1000 first would push the group to 1008; the other way round it is 192 */
    assert_int_equal(stats.peak, 1008 + 148);
}

/* ---- conflicts ---- */

static void test_conflict_rows(void **state)
{
    (void)state;
    /* 0-1 and 1-2 may not overlap; 0 and 2 may, though they live together */
    const qn_buffer b[] = { plain(0, 4, 10), plain(0, 4, 20), plain(0, 4, 30) };
    size_t start[] = { 0, 1, 3, 4 };
    uint32_t other[] = { 1, 0, 2, 1 };
    qn_conflicts c = { start, other };
    size_t offsets[3];
    qn_layout_stats stats;
    qn_error err = { 0 };
    assert_int_equal(qn_layout_solve(b, 3, &c, NULL, offsets, &stats, &err),
                     QN_OK);
    assert_int_equal(stats.peak, 50);
    assert_int_equal(stats.lower_bound, 50);
    assert_int_equal(qn_layout_verify(b, 3, &c, offsets, 50, &err), QN_OK);
    static const struct {
        const char *says;
        size_t start[4];
        uint32_t other[4];
    } bad[] = {
        { "buffer 0 conflicts with 0", { 0, 1, 1, 1 }, { 0 } },
        { "buffer 1 conflicts with 3, of 3", { 0, 0, 1, 1 }, { 3 } },
        { "buffer 0 conflicts with 1, but not 1 with 0", { 0, 1, 1, 1 },
          { 1 } },
        { "do not ascend: 2, 1", { 0, 2, 3, 4 }, { 2, 1, 0, 0 } },
        { "conflicts of buffer 1 end before they start", { 0, 1, 0, 1 },
          { 1 } },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        c = (qn_conflicts){ bad[i].start, bad[i].other };
        qn_status st = qn_layout_solve(b, 3, &c, NULL, offsets, &stats, &err);
        if (st != QN_INVALID || !strstr(err.text, bad[i].says))
            fail_msg("row %zu: %s, \"%s\"", i, qn_status_name(st), err.text);
    }
}

/* Rows that repeat the lifetimes give as good a layout as the lifetimes. */
static void test_conflicts_as_lifetimes(void **state)
{
    (void)state;
    for (uint32_t row = 1; row <= 20; row++) {
        uint32_t seed = row * 40503U;
        problem *p = random_problem(&seed, 60, ALIGNED);
        solve(p, NULL);
        qn_layout_stats by_life = p->stats;
        add_conflicts(p, &seed, UINT32_MAX);
        solve(p, NULL);
        assert_int_equal(p->stats.lower_bound, by_life.lower_bound);
        if (p->stats.peak > by_life.peak + by_life.peak / 10)
            fail_msg("row %u: %zu by rows, %zu by lifetimes", row,
                     p->stats.peak, by_life.peak);
        free(p);
    }
}

/* ---- known optimum ---- */

struct cut {
    problem *p;
    uint32_t seed;
};

/* Cut time x bytes in two at random, never wasting any. */
static void cut(struct cut *c, uint32_t lower, uint32_t upper, size_t bytes,
                size_t pieces)
{
    bool in_time = next(&c->seed) % 2;
    if (pieces < 2 || (upper - lower < 2 && bytes < 2)) {
        c->p->b[c->p->n++] = plain(lower, upper, bytes);
        return;
    }
    if (upper - lower < 2)
        in_time = false;
    if (bytes < 2)
        in_time = true;
    size_t half = 1 + next(&c->seed) % (pieces - 1);
    if (in_time) {
        uint32_t at = lower + 1 + next(&c->seed) % (upper - lower - 1);
        cut(c, lower, at, bytes, half);
        cut(c, at, upper, bytes, pieces - half);
    } else {
        size_t at = 1 + next(&c->seed) % (bytes - 1);
        cut(c, lower, upper, at, half);
        cut(c, lower, upper, bytes - at, pieces - half);
    }
}

static void test_known_optimum(void **state)
{
    (void)state;
    size_t optimal = 0;
    const size_t rows = 60, height = 100000;
    for (uint32_t row = 1; row <= rows; row++) {
        struct cut c = { calloc(1, sizeof *c.p), row * 7919U };
        assert_non_null(c.p);
        cut(&c, 0, 1000, height, 4 + row);
        solve(c.p, NULL);
        if (c.p->stats.lower_bound != height)
            fail_msg("row %u: bound %zu", row, c.p->stats.lower_bound);
        if (c.p->stats.peak > height + height / 4)
            fail_msg("row %u: peak %zu of %zu", row, c.p->stats.peak, height);
        optimal += c.p->stats.peak == height;
        free(c.p);
    }
    /* 4 to 64 pieces without any slack: hard, yet many are solved */
    if (optimal < 30)
        fail_msg("only %zu of %zu are optimal", optimal, rows);
}

/* ---- bounds and greedies ---- */

static size_t live_bytes(const problem *p)
{
    size_t most = 0;
    for (size_t i = 0; i < p->n; i++) {
        size_t live = 0;
        for (size_t k = 0; k < p->n; k++)
            if (p->b[k].lower <= p->b[i].lower &&
                p->b[i].lower < p->b[k].upper)
                live += p->b[k].bytes;
        most = live > most ? live : most;
    }
    return most;
}

static void test_bound(void **state)
{
    (void)state;
    for (uint32_t row = 1; row <= 40; row++) {
        uint32_t seed = row * 69069U;
        problem *p = random_problem(&seed, 2 + row, EMPTY);
        size_t total = 0, before;
        solve(p, NULL);
        for (size_t i = 0; i < p->n; i++)
            total += p->b[i].bytes;
        assert_int_equal(p->stats.lower_bound, live_bytes(p)); /* P3 */
        assert_int_equal(p->stats.total, total);
        assert_true(p->stats.lower_bound <= p->stats.peak);
        assert_true(p->stats.peak <= total);
        before = p->stats.lower_bound;
        p->b[p->n++] = plain(next(&seed) % 50, 60, next(&seed) % 500);
        solve(p, NULL);
        assert_true(p->stats.lower_bound >= before);
        before = p->stats.lower_bound;
        for (size_t i = 0; i < p->n; i++) /* P6 */
            p->b[i].bytes *= 17;
        solve(p, NULL);
        assert_int_equal(p->stats.lower_bound, before * 17);
        free(p);
    }
}

/* First or best fit by size or start, as plainly as it can be written. */
static size_t greedy(const problem *p, bool by_size, bool best)
{
    size_t placed[MOST], at[MOST], n = 0, peak = 0;
    bool done[MOST] = { false };
    while (n < p->n) {
        size_t b = MOST;
        for (size_t i = 0; i < p->n; i++) {
            if (done[i])
                continue;
            if (b == MOST ||
                (by_size ? p->b[i].bytes > p->b[b].bytes
                         : p->b[i].lower < p->b[b].lower ||
                               (p->b[i].lower == p->b[b].lower &&
                                p->b[i].bytes > p->b[b].bytes)))
                b = i;
        }
        size_t found = SIZE_MAX, smallest = SIZE_MAX;
        /* candidates: the floor, and the end of each placed one */
        for (size_t k = 0; k <= n; k++) {
            size_t from = k ? at[placed[k - 1]] + p->b[placed[k - 1]].bytes : 0;
            size_t gap = SIZE_MAX;
            for (size_t i = 0; i < n && gap; i++) {
                size_t x = placed[i];
                if (!meet(&p->b[x], &p->b[b]))
                    continue;
                if (at[x] >= from)
                    gap = at[x] - from < gap ? at[x] - from : gap;
                else if (at[x] + p->b[x].bytes > from)
                    gap = 0;
            }
            if (gap < p->b[b].bytes)
                continue;
            if (best ? gap < smallest || (gap == smallest && from < found)
                     : from < found) {
                found = from;
                smallest = gap;
            }
        }
        done[b] = true;
        placed[n++] = b;
        at[b] = found;
        if (found + p->b[b].bytes > peak)
            peak = found + p->b[b].bytes;
    }
    return peak;
}

static void test_no_worse_than_greedy(void **state)
{
    (void)state;
    for (uint32_t row = 1; row <= 40; row++) { /* P4 */
        uint32_t seed = row * 22695477U;
        problem *p = random_problem(&seed, 10 + row, 0);
        solve(p, NULL);
        for (int way = 0; way < 4; way++)
            if (p->stats.peak > greedy(p, way & 1, way & 2))
                fail_msg("row %u: %zu by %s, greedy %d reaches %zu", row,
                         p->stats.peak, p->stats.winner, way,
                         greedy(p, way & 1, way & 2));
        free(p);
    }
}

/* ---- determinism ---- */

static void *solve_again(void *arg)
{
    problem *p = arg;
    qn_error err = { 0 };
    if (qn_layout_solve(p->b, p->n, conflicts_of(p), NULL, p->offsets,
                        &p->stats, &err) != QN_OK)
        memset(&p->stats, 0, sizeof p->stats);
    return NULL;
}

static void test_deterministic(void **state)
{
    (void)state;
    for (uint32_t row = 1; row <= 8; row++) { /* P5 */
        uint32_t seed = row * 1103515245U;
        struct cut c = { calloc(1, sizeof *c.p), seed };
        problem *p = c.p, *copies[3];
        pthread_t threads[3];
        assert_non_null(p);
        cut(&c, 0, 1000, 65536, 60); /* hard enough to come to the search */
        solve(p, NULL);
        for (int i = 0; i < 3; i++) {
            copies[i] = malloc(sizeof *p);
            assert_non_null(copies[i]);
            memcpy(copies[i], p, sizeof *p);
            memset(copies[i]->offsets, 0xff, sizeof p->offsets);
            assert_int_equal(
                pthread_create(&threads[i], NULL, solve_again, copies[i]), 0);
        }
        for (int i = 0; i < 3; i++) {
            pthread_join(threads[i], NULL);
            if (memcmp(copies[i]->offsets, p->offsets,
                       p->n * sizeof p->offsets[0]) != 0 ||
                copies[i]->stats.peak != p->stats.peak)
                fail_msg("row %u, thread %d: another layout", row, i);
            free(copies[i]);
        }
        /* P6: only the order of births and deaths counts */
        size_t *before = calloc(p->n, sizeof *before);
        assert_non_null(before);
        memcpy(before, p->offsets, p->n * sizeof *before);
        for (size_t i = 0; i < p->n; i++) {
            p->b[i].lower = p->b[i].lower * p->b[i].lower + 1000;
            p->b[i].upper = p->b[i].upper * p->b[i].upper + 1000;
        }
        solve(p, NULL);
        assert_memory_equal(before, p->offsets, p->n * sizeof *before);
        free(before);
        free(p);
    }
}

/* ---- the verifier ---- */

static void test_verifier_rejects(void **state)
{
    (void)state;
    /* 0 and 1 live together, 2 after both, 3 with 2; 4 and 5 are a group */
    const qn_buffer b[] = {
        { 0, 2, 64, 64, -1, 0 }, { 0, 2, 64, 64, -1, 0 },
        { 2, 4, 128, 64, -1, 0 }, { 2, 4, 10, 1, -1, 0 },
        { 4, 6, 10, 8, 3, 0 },   { 4, 6, 10, 8, 3, 1 },
        { 0, 6, 0, 64, -1, 0 },
    };
    static const struct {
        const char *name;
        size_t buffer, offset, peak;
        const char *says; /* NULL: it is legal */
    } rows[] = {
        { "as it is", 0, 0, 138, NULL },
        { "one byte of overlap", 3, 127, 138,
          "buffers 2 at [0, 128) and 3 at [127, 137) overlap" },
        { "the same place", 1, 0, 138, "overlap" },
        { "another moment", 3, 128, 138, NULL },
        { "misaligned", 1, 72, 138, "buffer 1 at 72 is not aligned to 64" },
        { "misaligned without bytes", 6, 1, 138, "not aligned" },
        { "above the peak", 3, 129, 138,
          "buffer 3 at 129, 10 bytes, ends beyond 138" },
        { "far above it", 0, SIZE_MAX - 63, 138, "ends beyond" },
        { "peak too small", 0, 0, 137, "ends beyond 137" },
        { "a gap in the group", 5, 24, 138,
          "buffer 5 of group 3 lies at 24, behind buffer 4 it should be at" },
        { "the group the wrong way round", 4, 32, 138, "of group 3" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t offsets[] = { 0, 64, 0, 128, 0, 16, 0 };
        qn_error err = { 0 };
        offsets[rows[i].buffer] = rows[i].offset;
        qn_status st = qn_layout_verify(b, 7, NULL, offsets, rows[i].peak,
                                        &err);
        if (rows[i].says ? st != QN_INTERNAL || !strstr(err.text, rows[i].says)
                         : st != QN_OK)
            fail_msg("%s: %s, \"%s\"", rows[i].name, qn_status_name(st),
                     err.text);
    }
    /* the same by rows: 0 and 3 share no moment, but are said to conflict */
    size_t start[] = { 0, 1, 1, 1, 2, 2, 2, 2 };
    uint32_t other[] = { 3, 0 };
    qn_conflicts c = { start, other };
    size_t offsets[] = { 0, 0, 0, 63, 0, 16, 0 };
    qn_error err = { 0 };
    assert_int_equal(qn_layout_verify(b, 7, &c, offsets, 138, &err),
                     QN_INTERNAL);
    assert_non_null(strstr(err.text, "buffers 0 at"));
    offsets[3] = 64;
    assert_int_equal(qn_layout_verify(b, 7, &c, offsets, 138, &err), QN_OK);
}

/* Move one buffer of a good layout: the verifier and the slow check agree. */
static void test_verifier_agrees(void **state)
{
    (void)state;
    size_t rejected = 0;
    for (uint32_t row = 1; row <= 60; row++) {
        uint32_t seed = row * 747796405U;
        problem *p = random_problem(&seed, 30, row % 2 ? CONFLICTS : 0);
        solve(p, NULL);
        for (int k = 0; k < 20; k++) {
            size_t i = next(&seed) % p->n, old = p->offsets[i];
            p->offsets[i] = next(&seed) % (p->stats.peak - p->b[i].bytes + 1);
            bool good = true;
            for (size_t x = 0; x < p->n; x++)
                if (x != i && conflict(p, i, x) &&
                    p->offsets[i] < p->offsets[x] + p->b[x].bytes &&
                    p->offsets[x] < p->offsets[i] + p->b[i].bytes)
                    good = false;
            qn_status st = qn_layout_verify(p->b, p->n, conflicts_of(p),
                                            p->offsets, p->stats.peak, NULL);
            if ((st == QN_OK) != good)
                fail_msg("row %u: buffer %zu moved to %zu, %s", row, i,
                         p->offsets[i], qn_status_name(st));
            rejected += !good;
            p->offsets[i] = old;
        }
        free(p);
    }
    assert_true(rejected > 100);
}

/* ---- what is refused ---- */

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *says;
        qn_status status;
        qn_buffer b[2];
    } rows[] = {
        { "buffer 1 lives in [3, 3)", QN_INVALID,
          { { 0, 1, 1, 0, -1, 0 }, { 3, 3, 1, 0, -1, 0 } } },
        { "buffer 0 lives in [5, 3)", QN_INVALID,
          { { 5, 3, 1, 0, -1, 0 }, { 0, 1, 1, 0, -1, 0 } } },
        { "buffer 1 has alignment 3", QN_INVALID,
          { { 0, 1, 1, 0, -1, 0 }, { 0, 1, 1, 3, -1, 0 } } },
        { "buffers 0 and 1 are both at position 4 of group 2", QN_INVALID,
          { { 0, 1, 1, 0, 2, 4 }, { 0, 1, 1, 0, 2, 4 } } },
        { "exceed an address", QN_TOO_LARGE,
          { { 0, 1, SIZE_MAX, 0, -1, 0 }, { 0, 1, 1, 0, -1, 0 } } },
        { "exceed an address", QN_TOO_LARGE,
          { { 0, 1, SIZE_MAX - 1, 64, -1, 0 }, { 0, 1, 1, 64, -1, 0 } } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t offsets[2];
        qn_layout_stats stats;
        qn_error err = { 0 };
        qn_status st = qn_layout_solve(rows[i].b, 2, NULL, NULL, offsets,
                                       &stats, &err);
        if (st != rows[i].status || !strstr(err.text, rows[i].says))
            fail_msg("row %zu: %s, \"%s\"", i, qn_status_name(st), err.text);
    }
}

/* ---- size ---- */

/* Many buffers; so many conflicts that they are not kept in rows, in one. */
static void test_large(void **state)
{
    (void)state;
    static const struct {
        size_t n;
        uint32_t life;
        unsigned percent; /* peak at most, of the bound */
    } rows[] = { { 20000, 12, 120 }, { 5000, 5000, 140 } };
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        size_t n = rows[row].n;
        uint32_t seed = 4711;
        qn_buffer *b = calloc(n, sizeof *b);
        size_t *offsets = calloc(n, sizeof *offsets);
        qn_layout_stats stats;
        qn_error err = { 0 };
        assert_non_null(b);
        assert_non_null(offsets);
        for (size_t i = 0; i < n; i++) {
            uint32_t lower = (uint32_t)i;
            b[i] = plain(lower, lower + 1 + next(&seed) % rows[row].life,
                         64 * (size_t)(1 + next(&seed) % 1000));
            b[i].align = 64;
        }
        if (qn_layout_solve(b, n, NULL, NULL, offsets, &stats, &err) != QN_OK ||
            qn_layout_verify(b, n, NULL, offsets, stats.peak, &err) != QN_OK)
            fail_msg("row %zu: %s", row, err.text);
        if (stats.peak / 100 * 100 > stats.lower_bound / 100 *
                                         rows[row].percent)
            fail_msg("row %zu: %zu of %zu", row, stats.peak,
                     stats.lower_bound);
        free(b);
        free(offsets);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_group_offsets),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_conflict_rows),
        cmocka_unit_test(test_conflicts_as_lifetimes),
        cmocka_unit_test(test_known_optimum),
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_no_worse_than_greedy),
        cmocka_unit_test(test_deterministic),
        cmocka_unit_test(test_verifier_rejects),
        cmocka_unit_test(test_verifier_agrees),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

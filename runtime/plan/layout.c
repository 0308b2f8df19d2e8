/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner's core: methods from cheap to dear, until one meets the bound.
 *
 *   portfolio   six static orders, by first fit, best fit and skyline
 *   search      over the orders of the skyline
 *
 * On 52 instances of real nets the portfolio always meets the bound. What each
 * method costs and reaches is printed by tests/bench/bench_layout.c.
 */
#include "runtime/plan/layout.h"

#include "runtime/base/checked.h"
#include "runtime/plan/layout_solver.h"

#include <string.h>

/* What a first request can wait for: a few milliseconds, and some layouts even
 * where there are many conflicts. */
#define DEFAULT_VISITS 1500000U
#define DEFAULT_LAYOUTS 16U
/* The portfolio starts no further order beyond this: about half a second. */
#define PORTFOLIO_VISITS 300000000U

qn_status qn_solver_init(qn_solver *s, const qn_problem *p, qn_region *region,
                         qn_error *err)
{
    size_t n = p->n;
    memset(s, 0, sizeof *s);
    s->p = p;
    s->peak = s->sky_peak = SIZE_MAX;
    s->winner = "none";
    s->best = qn_region_alloc(region, n, sizeof *s->best);
    s->offset = qn_region_alloc(region, n, sizeof *s->offset);
    s->current = qn_region_alloc(region, n, sizeof *s->current);
    s->sky_order = qn_region_alloc(region, n, sizeof *s->sky_order);
    s->order = qn_region_alloc(region, n, sizeof *s->order);
    s->left = qn_region_alloc(region, n, sizeof *s->left);
    s->rank = qn_region_alloc(region, n, sizeof *s->rank);
    s->fixed = qn_region_alloc(region, n, sizeof *s->fixed);
    s->lowest = qn_region_alloc(region, n, sizeof *s->lowest);
    s->spans = qn_region_alloc(region, n, sizeof *s->spans);
    s->placed = qn_region_alloc(region, n, sizeof *s->placed);
    s->placed_from = qn_region_alloc(region, n, sizeof *s->placed_from);
    s->placed_to = qn_region_alloc(region, n, sizeof *s->placed_to);
    if (!s->best || !s->offset || !s->current || !s->sky_order || !s->order ||
        !s->left || !s->rank || !s->fixed || !s->lowest || !s->spans ||
        !s->placed || !s->placed_from ||
        !s->placed_to)
        return qn_fail(err, QN_NO_MEMORY, "no heap to lay out %zu blocks", n);
    for (uint32_t b = 0; b < p->n; b++) {
        const qn_block *block = &p->blocks[b];
        s->fixed[b].align_mask = block->align - 1;
        s->fixed[b].limit = p->bound > block->bytes ? p->bound - block->bytes
                                                    : 0;
    }
    return QN_OK;
}

bool qn_solver_offer(qn_solver *s, size_t peak, const char *name)
{
    if (peak < s->peak) {
        s->peak = peak;
        s->winner = name;
        memcpy(s->best, s->offset, s->p->n * sizeof *s->best);
    }
    return s->peak <= s->p->bound;
}

/* ---- stages ---- */

static size_t skyline(qn_solver *s)
{
    qn_skyline run = { .limit = UINT64_MAX, .shift = 63 };
    qn_fit_skyline(s, &run);
    if (run.peak < s->sky_peak) {
        s->sky_peak = run.peak;
        memcpy(s->sky_order, s->order, s->p->n * sizeof *s->sky_order);
    }
    return run.peak;
}

static const struct {
    qn_order order;
    const char *first, *best, *skyline; /* names */
} greedy[] = {
#define ROW(order, name)                                                       \
    { QN_ORDER_##order, name "/first", name "/best", name "/skyline" }
    ROW(SIZE, "size"),         ROW(PEAK, "peak"), ROW(AREA, "area"),
    ROW(CONFLICT, "conflict"), ROW(LIFE, "life"), ROW(START, "start"),
#undef ROW
};

static qn_status run_portfolio(qn_solver *s, const qn_layout_options *options,
                               qn_region *region, qn_error *err)
{
    (void)options;
    for (size_t i = 0; i < sizeof greedy / sizeof greedy[0]; i++) {
        qn_status st = qn_solver_sort(s, greedy[i].order, region, err);
        if (st != QN_OK)
            return st;
        if (qn_solver_offer(s, qn_fit_first(s), greedy[i].first))
            break;
        /* Without rows a method costs so much that another order is better. */
        if (s->p->start &&
            (qn_solver_offer(s, skyline(s), greedy[i].skyline) ||
             qn_solver_offer(s, qn_fit_best(s), greedy[i].best)))
            break;
        if (s->visits > PORTFOLIO_VISITS)
            break;
    }
    return QN_OK;
}

static qn_status run_search(qn_solver *s, const qn_layout_options *options,
                            qn_region *region, qn_error *err)
{
    (void)region;
    (void)err;
    const qn_problem *p = s->p;
    uint64_t visits = options->search_steps;
    if (!p->start)
        return QN_OK; /* the skyline needs rows */
    if (!visits)
        visits = DEFAULT_VISITS + DEFAULT_LAYOUTS * (uint64_t)p->start[p->n];
    qn_solver_search(s, visits);
    return QN_OK;
}

/* Run in this order until the bound is met. An exact search (depth-first over
 * canonical layouts) belongs between the two. */
static qn_status (*const stages[])(qn_solver *s,
                                   const qn_layout_options *options,
                                   qn_region *region, qn_error *err) = {
    run_portfolio,
    run_search,
};

static void run_plain(qn_solver *s)
{
    const qn_problem *p = s->p;
    size_t at = 0;
    for (uint32_t b = 0; b < p->n; b++) {
        s->offset[b] = qn_round_up(at, p->blocks[b].align);
        at = s->offset[b] + p->blocks[b].used;
    }
    qn_solver_offer(s, at, "no-reuse");
}

static qn_status solve(const qn_problem *p, const qn_layout_options *options,
                       qn_region *region, qn_solver *s, qn_error *err)
{
    qn_status st = qn_solver_init(s, p, region, err);
    if (st == QN_OK && options->no_reuse) {
        run_plain(s);
    } else if (st == QN_OK && p->n == 0) {
        s->peak = 0;
    } else {
        for (size_t i = 0; i < sizeof stages / sizeof stages[0] &&
                           st == QN_OK && s->peak > p->bound; i++)
            st = stages[i](s, options, region, err);
    }
    return st;
}

qn_status qn_layout_solve(const qn_buffer *buffers, size_t n,
                          const qn_conflicts *conflicts,
                          const qn_layout_options *options, size_t *offsets,
                          qn_layout_stats *stats, qn_error *err)
{
    static const qn_layout_options defaults;
    qn_region region = { 0 };
    qn_problem p;
    qn_solver s;
    memset(stats, 0, sizeof *stats);
    qn_status st = qn_problem_build(buffers, n, conflicts, &region, &p, err);
    if (st == QN_OK)
        st = solve(&p, options ? options : &defaults, &region, &s, err);
    if (st == QN_OK) {
        for (size_t i = 0; i < n; i++)
            offsets[i] = p.block_of[i] == QN_NO_BLOCK
                             ? 0
                             : s.best[p.block_of[i]] + p.inner[i];
        *stats = (qn_layout_stats){ .lower_bound = p.bound, .peak = s.peak,
                                    .total = p.total, .winner = s.winner };
    }
    qn_region_release(&region);
    return st;
}

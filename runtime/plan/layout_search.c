/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local search over the order that the skyline breaks ties by (simulated
 * annealing). A move exchanges two blocks near one that reaches above the bound;
 * the cost is how far all of them do, which has a slope where the peak alone is
 * flat. The limit of acceptance is drawn before the layout is made, so that a
 * bad one is given up half-way.
 *
 * Deterministic on every machine: integers only, a fixed seed, and visits
 * instead of a clock.
 */
#include "runtime/plan/layout_solver.h"

#include <string.h>

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static uint32_t below(uint64_t *state, uint64_t n)
{
    return (uint32_t)((next(state) >> 32) % n);
}

/* About -log2(u) for u uniform in (0, 1], times 256. */
static uint64_t draw(uint64_t *state)
{
    uint32_t u = (uint32_t)(next(state) >> 32) | 1U;
    unsigned zeros = (unsigned)__builtin_clz(u);
    return zeros * 256U + (255U - ((u << zeros << 1) >> 24));
}

static uint32_t neighbour(const qn_problem *p, uint32_t b, uint64_t *state)
{
    size_t n = p->start[b + 1] - p->start[b];
    return n ? p->other[p->start[b] + below(state, n)] : b;
}

static uint32_t pick_high(const qn_problem *p, const size_t *offset,
                          uint64_t *state)
{
    uint32_t found = 0, n = 0;
    for (uint32_t b = 0; b < p->n; b++)
        if (offset[b] + p->blocks[b].bytes > p->bound && below(state, ++n) == 0)
            found = b;
    return found;
}

static void exchange(qn_solver *s, uint32_t *where, uint32_t x, uint32_t y)
{
    uint32_t ix = where[x], iy = where[y];
    s->order[ix] = y;
    s->order[iy] = x;
    where[x] = iy;
    where[y] = ix;
}

/* Units in which n blocks' excess cannot overflow. */
static unsigned cost_shift(const qn_problem *p)
{
    unsigned shift = 0;
    size_t most = 0;
    for (uint32_t b = 0; b < p->n; b++)
        most += p->blocks[b].bytes;
    while ((most >> shift) > UINT64_MAX / 1024 / p->n)
        shift++;
    return shift;
}

void qn_solver_search(qn_solver *s, uint64_t visits)
{
    const qn_problem *p = s->p;
    uint64_t state = 0x9e3779b97f4a7c15U, start = s->visits;
    uint32_t *where = s->placed; /* free: the greedy methods are done */
    size_t *current = s->current;
    qn_skyline run = { .limit = UINT64_MAX, .shift = cost_shift(p) };

    memcpy(s->order, s->sky_order, p->n * sizeof *s->order);
    for (uint32_t i = 0; i < p->n; i++)
        where[s->order[i]] = i;
    qn_fit_skyline(s, &run);
    memcpy(current, s->offset, p->n * sizeof *current);
    uint64_t cost = run.cost;
    uint64_t hot = (p->bound >> run.shift) / 500;

    while (s->visits - start < visits && s->peak > p->bound) {
        uint32_t high = pick_high(p, current, &state);
        uint32_t x = neighbour(p, high, &state);
        if (below(&state, 2))
            x = neighbour(p, x, &state);
        uint32_t y = below(&state, 2) ? high : neighbour(p, x, &state);
        s->visits += p->n;
        if (x == y)
            continue;
        /* cooling by the square of what is left, in 1/1024 */
        uint64_t left = 1024 - 1024 * (s->visits - start) / (visits + p->n);
        uint64_t heat = hot / 1024 * left / 1024 * left;
        run.limit = cost + heat / 256 * draw(&state);
        exchange(s, where, x, y);
        if (!qn_fit_skyline(s, &run)) {
            exchange(s, where, x, y);
            continue;
        }
        cost = run.cost;
        memcpy(current, s->offset, p->n * sizeof *current);
        qn_solver_offer(s, run.peak, "search");
    }
}

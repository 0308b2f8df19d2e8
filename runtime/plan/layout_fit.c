/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First fit and best fit: blocks in a given order, each into a gap between those
 * placed that conflict with it.
 *
 * These are found in the block's row, then sorted by offset; rows of real nets
 * have 4 to 20 entries. Without rows all placed blocks are looked at, which lie
 * sorted by offset, their sections in arrays of their own: 18,700 blocks take
 * 0.3 s, where rows would have taken 100 MB.
 */
#include "runtime/plan/layout_solver.h"

#include <string.h>

/* Ciura's gaps: rows are short, and mostly nearly sorted. */
static void sort_spans(qn_span *spans, uint32_t n)
{
    static const uint32_t gaps[] = { 1750, 701, 301, 132, 57, 23, 10, 4, 1 };
    for (size_t g = 0; g < sizeof gaps / sizeof gaps[0]; g++) {
        uint32_t gap = gaps[g];
        for (uint32_t i = gap; i < n; i++) {
            qn_span span = spans[i];
            uint32_t k = i;
            for (; k >= gap && spans[k - gap].offset > span.offset; k -= gap)
                spans[k] = spans[k - gap];
            spans[k] = span;
        }
    }
}

static uint32_t spans_of_row(qn_solver *s, uint32_t b, uint32_t rank)
{
    const qn_problem *p = s->p;
    uint32_t n = 0;
    for (size_t i = p->start[b]; i < p->start[b + 1]; i++) {
        uint32_t x = p->other[i];
        if (s->rank[x] < rank)
            s->spans[n++] = (qn_span){ s->offset[x],
                                       s->offset[x] + p->blocks[x].bytes };
    }
    s->visits += p->start[b + 1] - p->start[b];
    sort_spans(s->spans, n);
    return n;
}

static uint32_t spans_of_placed(qn_solver *s, uint32_t b, uint32_t n_placed)
{
    const qn_problem *p = s->p;
    uint32_t from = p->blocks[b].from, to = p->blocks[b].to, n = 0;
    for (uint32_t k = 0; k < n_placed; k++) {
        if (s->placed_from[k] >= to || s->placed_to[k] <= from)
            continue;
        uint32_t x = s->placed[k];
        s->spans[n++] = (qn_span){ s->offset[x],
                                   s->offset[x] + p->blocks[x].bytes };
    }
    s->visits += n_placed;
    return n;
}

static void open_slot(uint32_t *array, uint32_t at, uint32_t n, uint32_t value)
{
    memmove(array + at + 1, array + at, (n - at) * sizeof *array);
    array[at] = value;
}

static void insert_placed(qn_solver *s, uint32_t b, uint32_t n_placed)
{
    uint32_t lo = 0, hi = n_placed;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (s->offset[s->placed[mid]] < s->offset[b])
            lo = mid + 1;
        else
            hi = mid;
    }
    open_slot(s->placed, lo, n_placed, b);
    open_slot(s->placed_from, lo, n_placed, s->p->blocks[b].from);
    open_slot(s->placed_to, lo, n_placed, s->p->blocks[b].to);
}

static size_t find_gap(const qn_span *spans, uint32_t n, const qn_block *block,
                       bool best)
{
    size_t at = 0, found = 0, smallest = SIZE_MAX;
    for (uint32_t i = 0; i < n; i++) {
        if (spans[i].offset >= at && spans[i].offset - at >= block->bytes) {
            if (!best)
                return at;
            if (spans[i].offset - at < smallest) {
                smallest = spans[i].offset - at;
                found = at;
            }
        }
        size_t above = qn_round_up(spans[i].end, block->align);
        if (above > at)
            at = above;
    }
    return smallest == SIZE_MAX ? at : found;
}

static size_t fit(qn_solver *s, bool best)
{
    const qn_problem *p = s->p;
    size_t peak = 0;
    for (uint32_t i = 0; i < p->n; i++)
        s->rank[s->order[i]] = i;
    for (uint32_t i = 0; i < p->n; i++) {
        uint32_t b = s->order[i];
        uint32_t n = p->start ? spans_of_row(s, b, i)
                              : spans_of_placed(s, b, i);
        s->offset[b] = find_gap(s->spans, n, &p->blocks[b], best);
        if (!p->start)
            insert_placed(s, b, i);
        if (s->offset[b] + p->blocks[b].used > peak)
            peak = s->offset[b] + p->blocks[b].used;
    }
    return peak;
}

size_t qn_fit_first(qn_solver *solver)
{
    return fit(solver, false);
}

size_t qn_fit_best(qn_solver *solver)
{
    return fit(solver, true);
}

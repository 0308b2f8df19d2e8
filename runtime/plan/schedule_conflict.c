/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may not share bytes when steps run on several queues. x is before y if
 * each use of x has ended when any use of y starts: for each use u of x,
 *
 *   pos(u) <= least of y[chain(u)],   least = minimum of the clocks of y's uses
 *
 * Not all pairs are looked at. A buffer is *past* from the step on where the
 * clocks of all steps to come that use its space cover all its uses; only those
 * between first use and past are compared with one that begins. On one queue a
 * buffer is past right behind its last use, and the sweep is that of intervals.
 */
#include "runtime/plan/schedule.h"

#include <stdlib.h>
#include <string.h>

struct life {
    uint32_t space, buffer, first, last;
    uint32_t past; /* n + 1: never */
};

struct sweep {
    const qn_schedule *s;
    const qn_schedule_buffer *buffers;
    size_t n;           /* buffers with uses */
    struct life *lives; /* [n] by space, then by first use */
    bool *uses;         /* [n] does the step use the space at hand? */
    uint32_t *future;   /* [n + 1][n_chains] least of their clocks from here */
    uint32_t *least;    /* [n_chains] scratch */
    struct life *active;
    size_t *end;     /* [n_buffers] entries of a row so far */
    uint32_t *other; /* NULL: count */
};

static qn_status no_memory(qn_error *err, size_t n)
{
    return qn_fail(err, QN_NO_MEMORY, "no memory for the conflicts of %zu "
                   "buffers", n);
}

static void make_future(struct sweep *w)
{
    size_t c = w->s->n_chains, n = w->s->n;
    memset(w->future + n * c, 0xff, c * sizeof *w->future);
    for (size_t i = n; i-- > 0;)
        for (size_t k = 0; k < c; k++) {
            uint32_t a = w->s->clock[i * c + k], b = w->future[(i + 1) * c + k];
            w->future[i * c + k] = w->uses[i] && a < b ? a : b;
        }
}

/* Are all uses of a buffer in `row`? */
static bool in_row(const qn_schedule *s, const qn_schedule_buffer *b,
                   const uint32_t *row)
{
    for (uint32_t k = 0; k < b->n_uses; k++) {
        uint32_t u = b->uses[k];
        if (u == s->n || row[s->chain[u]] < s->pos[u])
            return false;
    }
    return true;
}

static uint32_t find_past(const struct sweep *w, const struct life *l)
{
    const qn_schedule_buffer *b = &w->buffers[l->buffer];
    uint32_t lo = l->last + 1, hi = w->s->n; /* future[] only grows */
    if (l->last == w->s->n)
        return w->s->n + 1;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (in_row(w->s, b, w->future + (size_t)mid * w->s->n_chains))
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

static int by_first(const void *pa, const void *pb)
{
    const struct life *a = pa, *b = pb;
    if (a->space != b->space)
        return a->space < b->space ? -1 : 1;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    return a->buffer < b->buffer ? -1 : a->buffer > b->buffer;
}

static qn_status find_lives(struct sweep *w, size_t n_buffers, qn_error *err)
{
    for (size_t i = 0; i < n_buffers; i++) {
        const qn_schedule_buffer *b = &w->buffers[i];
        struct life l = { b->space, (uint32_t)i, UINT32_MAX, 0, 0 };
        for (uint32_t k = 0; k < b->n_uses; k++) {
            if (b->uses[k] > w->s->n)
                return qn_fail(err, QN_INVALID,
                               "buffer %zu %s is used by step %u of %u", i,
                               b->name ? b->name : "", b->uses[k], w->s->n);
            l.first = b->uses[k] < l.first ? b->uses[k] : l.first;
            l.last = b->uses[k] > l.last ? b->uses[k] : l.last;
        }
        if (b->n_uses)
            w->lives[w->n++] = l;
    }
    qsort(w->lives, w->n, sizeof *w->lives, by_first);
    return QN_OK;
}

static void find_pasts(struct sweep *w)
{
    for (size_t from = 0, to; from < w->n; from = to) {
        memset(w->uses, 0, w->s->n * sizeof *w->uses);
        for (to = from; to < w->n &&
                        w->lives[to].space == w->lives[from].space; to++) {
            const qn_schedule_buffer *b = &w->buffers[w->lives[to].buffer];
            for (uint32_t k = 0; k < b->n_uses; k++)
                if (b->uses[k] < w->s->n)
                    w->uses[b->uses[k]] = true;
        }
        make_future(w);
        for (size_t i = from; i < to; i++)
            w->lives[i].past = find_past(w, &w->lives[i]);
    }
}

/* The clock that all uses of a buffer have. */
static const uint32_t *find_least(struct sweep *w, const struct life *l)
{
    const qn_schedule_buffer *b = &w->buffers[l->buffer];
    size_t c = w->s->n_chains;
    memset(w->least, 0xff, c * sizeof *w->least);
    for (uint32_t k = 0; k < b->n_uses; k++)
        for (size_t i = 0; i < c && b->uses[k] < w->s->n; i++) {
            uint32_t at = w->s->clock[b->uses[k] * c + i];
            w->least[i] = at < w->least[i] ? at : w->least[i];
        }
    return w->least;
}

static void add_pair(struct sweep *w, uint32_t a, uint32_t b)
{
    if (w->other) {
        w->other[w->end[a]] = b;
        w->other[w->end[b]] = a;
    }
    w->end[a]++;
    w->end[b]++;
}

static void run(struct sweep *w)
{
    size_t n_active = 0;
    for (size_t k = 0; k < w->n; k++) {
        const struct life *y = &w->lives[k];
        const uint32_t *least = NULL;
        size_t kept = 0;
        if (k && y->space != w->lives[k - 1].space)
            n_active = 0;
        for (size_t i = 0; i < n_active; i++) {
            const struct life x = w->active[i];
            if (x.past <= y->first)
                continue;
            w->active[kept++] = x;
            if (x.last < y->first) {
                if (!least)
                    least = find_least(w, y);
                if (in_row(w->s, &w->buffers[x.buffer], least))
                    continue;
            }
            add_pair(w, x.buffer, y->buffer);
        }
        w->active[kept] = *y;
        n_active = kept + 1;
    }
}

/* Rows of a symmetric relation, each ascending: write the transpose, row by
 * row. */
static void sort_rows(const size_t *start, size_t n, const uint32_t *from,
                      size_t *end, uint32_t *to)
{
    memcpy(end, start, n * sizeof *end);
    for (size_t i = 0; i < n; i++)
        for (size_t k = start[i]; k < start[i + 1]; k++)
            to[end[from[k]]++] = (uint32_t)i;
}

static qn_status make_rows(struct sweep *w, size_t n, qn_region *tmp,
                           qn_region *region, qn_conflicts *out, qn_error *err)
{
    size_t *start = qn_region_alloc(region, n + 1, sizeof *start);
    if (!start)
        return no_memory(err, n);
    run(w);
    for (size_t i = 0; i < n; i++) {
        start[i + 1] = start[i] + w->end[i];
        w->end[i] = start[i];
    }
    w->other = qn_region_alloc(tmp, start[n] + 1, sizeof *w->other);
    uint32_t *other = qn_region_alloc(region, start[n] + 1, sizeof *other);
    if (!w->other || !other)
        return no_memory(err, n);
    run(w);
    sort_rows(start, n, w->other, w->end, other);
    *out = (qn_conflicts){ start, other };
    return QN_OK;
}

qn_status qn_schedule_conflicts(const qn_schedule *s,
                                const qn_schedule_buffer *buffers, size_t n,
                                qn_region *region, qn_conflicts *out,
                                qn_error *err)
{
    qn_region tmp = { 0 };
    struct sweep w = { .s = s, .buffers = buffers };
    qn_status st = QN_OK;
    *out = (qn_conflicts){ 0 };
    w.future = qn_region_alloc(&tmp, ((size_t)s->n + 1) * s->n_chains,
                               sizeof *w.future);
    w.uses = qn_region_alloc(&tmp, (size_t)s->n + 1, sizeof *w.uses);
    w.least = qn_region_alloc(&tmp, s->n_chains, sizeof *w.least);
    w.lives = qn_region_alloc(&tmp, n + 1, sizeof *w.lives);
    w.active = qn_region_alloc(&tmp, n + 1, sizeof *w.active);
    w.end = qn_region_alloc(&tmp, n + 1, sizeof *w.end);
    if (!w.future || !w.uses || !w.least || !w.lives || !w.active || !w.end ||
        n > UINT32_MAX)
        st = no_memory(err, n);
    if (st == QN_OK)
        st = find_lives(&w, n, err);
    if (st == QN_OK)
        find_pasts(&w);
    if (st == QN_OK)
        st = make_rows(&w, n, &tmp, region, out, err);
    qn_region_release(&tmp);
    return st;
}

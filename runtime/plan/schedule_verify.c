/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of a schedule, written against schedule.h alone: no clocks and no
 * chains, but sets. Walk through the list like the issuing thread does, with a
 * set of steps for each queue: those that have ended, or do not run at all,
 * when the queue has done what it was given so far.
 *
 *   step i starts   set of its queue, with that of the issuing thread
 *   record          a copy of the queue's set
 *   wait            is joined into the step's
 *   jump            carries all sets to its target, with what it skips added
 *   arrival         the intersection over all paths
 *
 * A data edge d -> i holds if d is in the set that i starts with. Everything is
 * a bit set of n bits, n of them at most at a time.
 */
#include "runtime/plan/schedule.h"

#include <stdlib.h>
#include <string.h>

typedef uint64_t word;
enum { BITS = 64 };

struct verifier {
    const qn_schedule_problem *p;
    const qn_schedule *s;
    const qn_schedule_buffer *buffers;
    size_t n_buffers;
    const size_t *offsets;
    qn_region *region;
    size_t words, event_words;
    bool live; /* does any path lead here? */
    /* what travels along paths: sets of queues, then the set of records made */
    size_t state_words;
    word *state;
    word **pending; /* [n + 1] states that jumps carry, or NULL */
    word **events;  /* [n_records] set of a record, NULL before it was made */
    word *start;    /* set of the step at hand */
    /* buffers by step: who uses it */
    size_t *user_start; /* [n + 2] */
    uint32_t *users;
    word **before; /* [n_buffers] ended when any use starts; NULL: no bytes */
    bool jumps;
};

static qn_status no_memory(const struct verifier *v, qn_error *err)
{
    return qn_fail(err, QN_NO_MEMORY, "no memory to check %u steps", v->p->n);
}

static const char *step_name(const struct verifier *v, uint32_t i)
{
    return i < v->p->n && v->p->steps[i].name ? v->p->steps[i].name : "";
}

static bool has(const word *set, uint32_t i)
{
    return set[i / BITS] >> i % BITS & 1;
}

static void add(word *set, uint32_t i)
{
    set[i / BITS] |= (word)1 << i % BITS;
}

static word *set_of(const struct verifier *v, uint32_t queue)
{
    return v->state + queue * v->words;
}

static word *made(const struct verifier *v)
{
    return v->state + v->s->n_queues * v->words;
}

/* ---- form ---- */

static qn_status check_queues(const struct verifier *v, qn_error *err)
{
    const qn_schedule *s = v->s;
    bool single = !s->host_issues && v->jumps;
    if (s->n != v->p->n || (single && s->n_queues > 1))
        return qn_fail(err, QN_INTERNAL,
                       "a schedule of %u steps on %u queues for %u steps", s->n,
                       s->n_queues, v->p->n);
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t q = s->queue[i], class = v->p->steps[i].class;
        if (q >= s->n_queues)
            return qn_fail(err, QN_INTERNAL, "step %u %s is on queue %u of %u",
                           i, step_name(v, i), q, s->n_queues);
        if (!single && s->queue_class[q] != class)
            return qn_fail(err, QN_INTERNAL,
                           "step %u %s of class %u is on queue %u of class %u",
                           i, step_name(v, i), class, q, s->queue_class[q]);
        if (s->host_issues && (q == 0) != (class == 0))
            return qn_fail(err, QN_INTERNAL,
                           "step %u %s of class %u is on queue %u, and queue 0 "
                           "is the host", i, step_name(v, i), class, q);
    }
    for (uint32_t a = 0; a < s->n_queues && !single; a++)
        for (uint32_t b = a + 1; b < s->n_queues; b++)
            if (s->queue_class[a] == s->queue_class[b] &&
                s->queue_class[a] > v->p->n_compute)
                return qn_fail(err, QN_INTERNAL,
                               "queues %u and %u are of communicator %u", a, b,
                               s->queue_class[a] - v->p->n_compute - 1);
    return QN_OK;
}

static qn_status check_records(const struct verifier *v, qn_error *err)
{
    const qn_schedule *s = v->s;
    uint32_t n = 0;
    for (uint32_t p = 0; p <= s->n; p++) {
        if (s->record_start[p] != n || s->record_start[p + 1] < n ||
            s->record_start[p + 1] > s->n_records)
            return qn_fail(err, QN_INTERNAL,
                           "records of position %u are %u to %u of %u", p,
                           s->record_start[p], s->record_start[p + 1],
                           s->n_records);
        for (; n < s->record_start[p + 1]; n++)
            if (s->records[n].at != p || s->records[n].queue >= s->n_queues ||
                s->records[n].step >= p ||
                s->queue[s->records[n].step] != s->records[n].queue)
                return qn_fail(err, QN_INTERNAL,
                               "record %u of queue %u, step %u is at %u, not "
                               "%u", n, s->records[n].queue, s->records[n].step,
                               s->records[n].at, p);
    }
    if (n != s->n_records)
        return qn_fail(err, QN_INTERNAL, "%u of %u records have a position", n,
                       s->n_records);
    return QN_OK;
}

/* ---- the walk ---- */

static qn_status take_wait(const struct verifier *v, uint32_t r, uint32_t i,
                           word *set, qn_error *err)
{
    if (r >= v->s->n_records || !v->events[r] || !has(made(v), r))
        return qn_fail(err, QN_INTERNAL,
                       "step %u %s waits for record %u of %u, which %s", i,
                       step_name(v, i), r, v->s->n_records,
                       r < v->s->n_records && v->events[r]
                           ? "a path to it does not make"
                           : "was not made before it");
    for (size_t k = 0; k < v->words; k++)
        set[k] |= v->events[r][k];
    return QN_OK;
}

/* All that any queue is given from here on comes behind what the host did. */
static void host_is_before_all(const struct verifier *v)
{
    for (uint32_t q = 1; v->s->host_issues && q < v->s->n_queues; q++)
        for (size_t k = 0; k < v->words; k++)
            set_of(v, q)[k] |= set_of(v, 0)[k];
}

static qn_status arrive(struct verifier *v, uint32_t at, qn_error *err)
{
    const qn_schedule *s = v->s;
    const word *from = v->pending[at];
    if (from && v->live)
        host_is_before_all(v);
    if (from && !v->live)
        memcpy(v->state, from, v->state_words * sizeof *from);
    for (size_t k = 0; from && v->live && k < v->state_words; k++)
        v->state[k] &= from[k];
    v->live = v->live || from;
    for (uint32_t r = s->record_start[at];
         v->live && r < s->record_start[at + 1]; r++) {
        v->events[r] = qn_region_alloc(v->region, v->words, sizeof(word));
        if (!v->events[r])
            return no_memory(v, err);
        memcpy(v->events[r], set_of(v, s->records[r].queue),
               v->words * sizeof(word));
        add(made(v), r);
    }
    return QN_OK;
}

static qn_status take_jump(struct verifier *v, uint32_t i, qn_error *err)
{
    uint32_t to = v->p->steps[i].target;
    word *edge = qn_calloc(v->state_words, sizeof *edge), *old = v->pending[to];
    if (!edge)
        return no_memory(v, err);
    host_is_before_all(v);
    memcpy(edge, v->state, v->state_words * sizeof *edge);
    for (uint32_t q = 0; q < v->s->n_queues; q++)
        for (uint32_t k = i + 1; k < to; k++)
            add(edge + q * v->words, k);
    for (size_t k = 0; old && k < v->state_words; k++)
        old[k] &= edge[k];
    if (old)
        qn_free(edge);
    else
        v->pending[to] = edge;
    return QN_OK;
}

/* Buffers that step i uses are used after what it starts after. */
static void note_users(struct verifier *v, uint32_t i)
{
    for (size_t k = v->user_start[i]; k < v->user_start[i + 1]; k++) {
        word *before = v->before[v->users[k]];
        for (size_t w = 0; before && w < v->words; w++)
            before[w] &= v->start[w];
    }
}

static qn_status walk_step(struct verifier *v, uint32_t i, qn_error *err)
{
    const qn_schedule_problem *p = v->p;
    const qn_schedule *s = v->s;
    uint32_t q = s->queue[i];
    qn_status st = arrive(v, i, err);
    if (st != QN_OK || !v->live)
        return st;
    memcpy(v->start, set_of(v, q), v->words * sizeof(word));
    for (size_t k = 0; s->host_issues && k < v->words; k++)
        v->start[k] |= set_of(v, 0)[k];
    for (uint32_t k = s->wait_start[i]; k < s->wait_start[i + 1]; k++) {
        st = take_wait(v, s->waits[k], i, v->start, err);
        if (st != QN_OK)
            return st;
    }
    for (uint32_t k = p->dep_start[i]; k < p->dep_start[i + 1]; k++)
        if (!has(v->start, p->deps[k]))
            return qn_fail(err, QN_INTERNAL,
                           "step %u %s on queue %u need not have ended when "
                           "step %u %s on queue %u starts", p->deps[k],
                           step_name(v, p->deps[k]), s->queue[p->deps[k]], i,
                           step_name(v, i), q);
    note_users(v, i);
    memcpy(set_of(v, q), v->start, v->words * sizeof(word));
    add(set_of(v, q), i);
    if (p->steps[i].flow != QN_FLOW_PLAIN)
        st = take_jump(v, i, err);
    if (p->steps[i].flow == QN_FLOW_JUMP)
        v->live = false;
    return st;
}

static qn_status walk_end(struct verifier *v, qn_error *err)
{
    const qn_schedule *s = v->s;
    qn_status st = arrive(v, s->n, err);
    memset(v->start, 0, v->words * sizeof(word));
    if (s->host_issues)
        memcpy(v->start, set_of(v, 0), v->words * sizeof(word));
    for (uint32_t k = 0; k < s->n_join && st == QN_OK; k++)
        st = take_wait(v, s->join[k], s->n, v->start, err);
    for (uint32_t i = 0; i < s->n && st == QN_OK; i++)
        if (!has(v->start, i))
            return qn_fail(err, QN_INTERNAL,
                           "step %u %s on queue %u need not have ended when "
                           "the run has", i, step_name(v, i), s->queue[i]);
    return st;
}

static qn_status walk(struct verifier *v, qn_error *err)
{
    qn_status st = QN_OK;
    v->live = true;
    for (uint32_t i = 0; i < v->p->n && st == QN_OK; i++)
        st = walk_step(v, i, err);
    return st == QN_OK ? walk_end(v, err) : st;
}

/* ---- buffers ---- */

static qn_status find_users(struct verifier *v, qn_error *err)
{
    uint32_t n = v->p->n;
    size_t total = 0;
    v->user_start = qn_region_alloc(v->region, (size_t)n + 3, sizeof(size_t));
    v->before = qn_region_alloc(v->region, v->n_buffers + 1, sizeof(word *));
    if (!v->user_start || !v->before)
        return no_memory(v, err);
    for (size_t i = 0; i < v->n_buffers; i++) {
        const qn_schedule_buffer *b = &v->buffers[i];
        for (uint32_t k = 0; k < b->n_uses; k++) {
            if (b->uses[k] > n)
                return qn_fail(err, QN_INTERNAL,
                               "buffer %zu is used by step %u of %u", i,
                               b->uses[k], n);
            v->user_start[b->uses[k] + 2]++;
        }
        total += b->n_uses;
        if (!b->bytes || !b->n_uses)
            continue;
        v->before[i] = qn_region_alloc(v->region, v->words, sizeof(word));
        if (!v->before[i])
            return no_memory(v, err);
        memset(v->before[i], 0xff, v->words * sizeof(word));
    }
    v->users = qn_region_alloc(v->region, total + 1, sizeof *v->users);
    if (!v->users)
        return no_memory(v, err);
    for (uint32_t i = 0; i <= n; i++)
        v->user_start[i + 2] += v->user_start[i + 1];
    for (size_t i = 0; i < v->n_buffers; i++)
        for (uint32_t k = 0; k < v->buffers[i].n_uses; k++)
            v->users[v->user_start[v->buffers[i].uses[k] + 1]++] = (uint32_t)i;
    return QN_OK;
}

static bool is_before(const struct verifier *v, uint32_t a, uint32_t b)
{
    const qn_schedule_buffer *x = &v->buffers[a];
    for (uint32_t k = 0; k < x->n_uses; k++)
        if (x->uses[k] >= v->p->n || !has(v->before[b], x->uses[k]))
            return false;
    return true;
}

static qn_status check_pair(const struct verifier *v, uint32_t a, uint32_t b,
                            qn_error *err)
{
    const qn_schedule_buffer *x = &v->buffers[a], *y = &v->buffers[b];
    if (is_before(v, a, b) || is_before(v, b, a))
        return QN_OK;
    return qn_fail(err, QN_INTERNAL,
                   "buffer %u %s at [%zu, %zu) and buffer %u %s at [%zu, %zu) "
                   "share bytes of space %u, and neither is done with before "
                   "the other is used", a, x->name ? x->name : "",
                   v->offsets[a], v->offsets[a] + x->bytes, b,
                   y->name ? y->name : "", v->offsets[b],
                   v->offsets[b] + y->bytes, x->space);
}

/* A buffer's bytes begin or end here. */
struct edge {
    uint32_t space, begins;
    size_t offset;
    uint32_t buffer, first;
};

static int by_offset(const void *pa, const void *pb)
{
    const struct edge *a = pa, *b = pb;
    if (a->space != b->space)
        return a->space < b->space ? -1 : 1;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    if (a->begins != b->begins) /* ends come first */
        return a->begins < b->begins ? -1 : 1;
    return a->buffer < b->buffer ? -1 : a->buffer > b->buffer;
}

static bool earlier(const struct edge *a, const struct edge *b)
{
    return a->first != b->first ? a->first < b->first : a->buffer < b->buffer;
}

/*
 * Go through the bytes with the buffers that cover them, by first use. Without
 * jumps "before" is transitive and neighbours are enough: those that become so
 * are looked at when one comes between, or goes from between, others. With
 * jumps the one in the middle may not be used at all: look at all.
 */
static qn_status sweep(const struct verifier *v, const struct edge *edges,
                       size_t n, struct edge *on, qn_error *err)
{
    size_t n_on = 0;
    qn_status st = QN_OK;
    for (size_t e = 0; e < n && st == QN_OK; e++) {
        const struct edge *x = &edges[e];
        size_t lo = 0, hi = n_on;
        while (lo < hi) {
            size_t mid = lo + (hi - lo) / 2;
            if (earlier(&on[mid], x))
                lo = mid + 1;
            else
                hi = mid;
        }
        if (!x->begins) {
            memmove(on + lo, on + lo + 1, (n_on - lo - 1) * sizeof *on);
            n_on--;
            if (lo > 0 && lo < n_on)
                st = check_pair(v, on[lo - 1].buffer, on[lo].buffer, err);
            continue;
        }
        for (size_t k = v->jumps ? 0 : lo ? lo - 1 : 0;
             k < (v->jumps || lo + 1 > n_on ? n_on : lo + 1) && st == QN_OK;
             k++)
            st = check_pair(v, on[k].buffer, x->buffer, err);
        memmove(on + lo + 1, on + lo, (n_on - lo) * sizeof *on);
        on[lo] = *x;
        n_on++;
    }
    return st;
}

static qn_status check_buffers(const struct verifier *v, qn_error *err)
{
    struct edge *edges = qn_region_alloc(v->region, 2 * v->n_buffers + 1,
                                         sizeof *edges);
    struct edge *on = qn_region_alloc(v->region, v->n_buffers + 1, sizeof *on);
    size_t n = 0;
    if (!edges || !on)
        return no_memory(v, err);
    for (size_t i = 0; i < v->n_buffers; i++) {
        const qn_schedule_buffer *b = &v->buffers[i];
        struct edge e = { b->space, 1, v->offsets[i], (uint32_t)i, UINT32_MAX };
        if (!v->before[i])
            continue;
        if (b->bytes > SIZE_MAX - e.offset)
            return qn_fail(err, QN_INTERNAL,
                           "buffer %zu at %zu, %zu bytes, ends beyond memory",
                           i, e.offset, b->bytes);
        for (uint32_t k = 0; k < b->n_uses; k++)
            e.first = b->uses[k] < e.first ? b->uses[k] : e.first;
        edges[n++] = e;
        e.begins = 0;
        e.offset += b->bytes;
        edges[n++] = e;
    }
    qsort(edges, n, sizeof *edges, by_offset);
    return sweep(v, edges, n, on, err);
}

/* ---- all of it ---- */

static qn_status prepare(struct verifier *v, qn_error *err)
{
    size_t n = v->p->n;
    for (size_t i = 0; i < n; i++)
        v->jumps = v->jumps || v->p->steps[i].flow != QN_FLOW_PLAIN;
    v->words = n / BITS + 1;
    v->event_words = v->s->n_records / BITS + 1;
    v->state_words = v->s->n_queues * v->words + v->event_words;
    v->state = qn_region_alloc(v->region, v->state_words, sizeof(word));
    v->pending = qn_region_alloc(v->region, n + 1, sizeof(word *));
    v->events = qn_region_alloc(v->region, (size_t)v->s->n_records + 1,
                                sizeof(word *));
    v->start = qn_region_alloc(v->region, v->words, sizeof(word));
    if (!v->state || !v->pending || !v->events || !v->start)
        return no_memory(v, err);
    return find_users(v, err);
}

qn_status qn_schedule_verify(const qn_schedule_problem *problem,
                             const qn_schedule *schedule,
                             const qn_schedule_buffer *buffers,
                             size_t n_buffers, const size_t *offsets,
                             qn_error *err)
{
    qn_region region = { 0 };
    struct verifier v = { .p = problem, .s = schedule, .buffers = buffers,
                          .n_buffers = offsets ? n_buffers : 0,
                          .offsets = offsets, .region = &region };
    qn_status st = prepare(&v, err);
    if (st == QN_OK)
        st = check_queues(&v, err);
    if (st == QN_OK)
        st = check_records(&v, err);
    if (st == QN_OK)
        st = walk(&v, err);
    if (st == QN_OK && offsets)
        st = check_buffers(&v, err);
    for (uint32_t i = 0; v.pending && i <= problem->n; i++)
        qn_free(v.pending[i]);
    qn_region_release(&region);
    return st;
}

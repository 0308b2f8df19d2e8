/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks and the waits that they leave. One walk through the list with a row of
 * n_chains numbers for each queue: what has ended when that queue has done all
 * that it was given. A step starts with the row of its queue, and with that of
 * the issuing thread; a producer that this does not cover costs a wait, latest
 * first, because a later one may cover an earlier.
 *
 * Jumps. The state is joined along edges: on the edge of a jump the blocks that
 * it skips count as ended, where edges meet the minimum holds. A block runs as
 * a whole or not at all, so what is known of a chain is always a beginning of
 * it, and the minimum loses nothing. That is why chains end where blocks do.
 */
#include "runtime/plan/schedule_impl.h"

#include <stdlib.h>
#include <string.h>

/* Beyond this many bytes of clocks, chains are queues even with jumps: sound,
 * but a wait more here and there. */
#define MOST_CLOCK_BYTES ((size_t)64 << 20)

struct jump {
    uint32_t from, to;
};

struct tracker {
    const qn_schedule_problem *p;
    qn_schedule *s;
    qn_region *tmp;
    uint32_t n_queues, n_chains;
    uint32_t *queue, *chain, *pos, *clock;
    uint32_t *state;  /* [n_queues][n_chains] */
    uint32_t **saved; /* [n + 1] the state where jumps arrive, or NULL */
    uint32_t *count;  /* [n_chains] steps so far */
    uint32_t *ahead;  /* [n_chains] scratch */
    uint32_t *base, *other; /* [n_chains] scratch */
    struct jump *jumps;
    uint32_t n_jumps;
    uint32_t *need; /* scratch: producers that are not covered */
    /* records in order of creation; head[at] and next: those of a position */
    qn_record *records;
    uint32_t *head, *next;
    uint32_t n_records, cap_records;
    uint32_t *waits, n_waits, cap_waits;
    uint32_t *wait_start;
};

static qn_status no_memory(const struct tracker *t, qn_error *err)
{
    return qn_fail(err, QN_NO_MEMORY, "no memory for the clocks of %u steps",
                   t->p->n);
}

/* ---- rows ---- */

static void join(uint32_t *row, const uint32_t *with, uint32_t n)
{
    for (uint32_t c = 0; c < n; c++)
        row[c] = with[c] > row[c] ? with[c] : row[c];
}

static void meet(uint32_t *rows, const uint32_t *with, size_t n)
{
    for (size_t c = 0; c < n; c++)
        rows[c] = with[c] < rows[c] ? with[c] : rows[c];
}

static void reach(uint32_t *row, uint32_t chain, uint32_t pos)
{
    if (row[chain] < pos)
        row[chain] = pos;
}

static bool covers(const struct tracker *t, const uint32_t *row, uint32_t step)
{
    return row[t->chain[step]] >= t->pos[step];
}

/* ---- chains ---- */

static qn_status find_jumps(struct tracker *t, qn_error *err)
{
    const qn_schedule_problem *p = t->p;
    for (uint32_t i = 0; i < p->n; i++)
        t->n_jumps += p->steps[i].flow != QN_FLOW_PLAIN;
    t->jumps = qn_region_alloc(t->tmp, (size_t)t->n_jumps + 1,
                               sizeof *t->jumps);
    if (!t->jumps)
        return no_memory(t, err);
    t->n_jumps = 0;
    for (uint32_t i = 0; i < p->n; i++)
        if (p->steps[i].flow != QN_FLOW_PLAIN)
            t->jumps[t->n_jumps++] = (struct jump){ i, p->steps[i].target };
    return QN_OK;
}

/* A chain for each queue of each block. */
static qn_status cut_chains(struct tracker *t, qn_error *err)
{
    const qn_schedule_problem *p = t->p;
    uint32_t of[QN_SCHEDULE_MAX_QUEUES], n = 0;
    bool *starts = qn_region_alloc(t->tmp, (size_t)p->n + 2, sizeof *starts);
    if (!starts)
        return no_memory(t, err);
    starts[0] = true;
    for (uint32_t k = 0; k < t->n_jumps; k++)
        starts[t->jumps[k].from + 1] = starts[t->jumps[k].to] = true;
    for (uint32_t i = 0; i < p->n; i++) {
        uint32_t q = t->queue[i];
        if (starts[i])
            memset(of, 0xff, sizeof of);
        if (of[q] == UINT32_MAX)
            of[q] = n++;
        t->chain[i] = of[q];
    }
    t->n_chains = n ? n : 1;
    return QN_OK;
}

static qn_status make_chains(struct tracker *t, qn_error *err)
{
    const qn_schedule_problem *p = t->p;
    qn_status st = find_jumps(t, err);
    if (st == QN_OK && t->n_jumps)
        st = cut_chains(t, err);
    if (st == QN_OK &&
        (!t->n_jumps || t->n_chains > MOST_CLOCK_BYTES / sizeof(uint32_t) /
                                          ((size_t)p->n + 1))) {
        t->n_chains = t->n_queues;
        memcpy(t->chain, t->queue, p->n * sizeof *t->chain);
    }
    return st;
}

/* ---- records ---- */

/*
 * Where to record for step `b` that `s` has ended: the first position behind s
 * that no path to b goes around. Such a path jumps from before it to behind it,
 * and not beyond b.
 */
static uint32_t place_record(const struct tracker *t, uint32_t s, uint32_t b)
{
    uint32_t at = s + 1;
    bool moved = true;
    while (moved) {
        moved = false;
        for (uint32_t k = 0; k < t->n_jumps && t->jumps[k].from < at; k++)
            if (t->jumps[k].to > at && t->jumps[k].to <= b) {
                at = t->jumps[k].to;
                moved = true;
            }
    }
    return at;
}

static bool grow(void **p, uint32_t *cap, uint32_t n, size_t size)
{
    uint32_t want = *cap ? *cap : 64;
    void *q;
    if (n < *cap)
        return true;
    if (want > UINT32_MAX / 2)
        return false;
    want = *cap ? want * 2 : want;
    q = qn_realloc(*p, want, size);
    if (!q)
        return false;
    *p = q;
    *cap = want;
    return true;
}

/* The record of a queue at a position, found or made; UINT32_MAX: no memory. */
static uint32_t get_record(struct tracker *t, uint32_t queue, uint32_t at)
{
    void *p = t->records;
    uint32_t r = t->head[at];
    while (r != UINT32_MAX && t->records[r].queue != queue)
        r = t->next[r];
    if (r != UINT32_MAX)
        return r;
    uint32_t cap = t->cap_records;
    if (!grow(&p, &cap, t->n_records, sizeof *t->records))
        return UINT32_MAX;
    t->records = p;
    p = t->next;
    if (!grow(&p, &t->cap_records, t->n_records, sizeof *t->next))
        return UINT32_MAX;
    t->next = p;
    r = t->n_records++;
    t->records[r] = (qn_record){ queue, at, at - 1 };
    t->next[r] = t->head[at];
    t->head[at] = r;
    return r;
}

/* What is known once the queue reaches the point `at`. Positions where no jump
 * arrives have their record right behind a step of the queue. */
static void join_record(const struct tracker *t, uint32_t *row, uint32_t queue,
                        uint32_t at)
{
    if (t->saved[at]) {
        join(row, t->saved[at] + (size_t)queue * t->n_chains, t->n_chains);
    } else {
        uint32_t s = at - 1;
        join(row, t->clock + (size_t)s * t->n_chains, t->n_chains);
        reach(row, t->chain[s], t->pos[s]);
    }
}

/* ---- waits ---- */

struct candidate {
    uint32_t queue, at;
};

/* One for each queue that has something to wait for, latest first: what a queue
 * records later covers what it records earlier. */
static uint32_t find_candidates(const struct tracker *t, uint32_t n_need,
                                uint32_t b, struct candidate *out)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < n_need; k++) {
        uint32_t q = t->queue[t->need[k]], i = 0;
        uint32_t at = place_record(t, t->need[k], b);
        while (i < n && out[i].queue != q)
            i++;
        if (i == n)
            out[n++] = (struct candidate){ q, at };
        else if (out[i].at < at)
            out[i].at = at;
    }
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t k = i; k > 0 && (out[k].at > out[k - 1].at ||
                                       (out[k].at == out[k - 1].at &&
                                        out[k].queue < out[k - 1].queue));
             k--) {
            struct candidate c = out[k];
            out[k] = out[k - 1];
            out[k - 1] = c;
        }
    return n;
}

static bool covers_all(const struct tracker *t, const uint32_t *row,
                       uint32_t n_need)
{
    for (uint32_t k = 0; k < n_need; k++)
        if (!covers(t, row, t->need[k]))
            return false;
    return true;
}

/* Drop what the rest covers. Without jumps nothing is: a producer cannot come
 * before an earlier one. A record behind a branch may tell more. */
static uint32_t drop_covered(struct tracker *t, uint32_t n_need,
                             struct candidate *c, uint32_t n)
{
    size_t bytes = t->n_chains * sizeof *t->other;
    for (uint32_t i = 0; i < n && n > 1;) {
        memcpy(t->other, t->base, bytes);
        for (uint32_t k = 0; k < n; k++)
            if (k != i)
                join_record(t, t->other, c[k].queue, c[k].at);
        if (covers_all(t, t->other, n_need)) {
            memmove(c + i, c + i + 1, (n - i - 1) * sizeof *c);
            n--;
        } else {
            i++;
        }
    }
    return n;
}

/* Let `row` wait until it covers need[n_need]; the waits are appended. */
static qn_status add_waits(struct tracker *t, uint32_t *row, uint32_t n_need,
                           uint32_t b, qn_error *err)
{
    struct candidate c[QN_SCHEDULE_MAX_QUEUES];
    uint32_t n = 0, all = find_candidates(t, n_need, b, c);
    memcpy(t->base, row, t->n_chains * sizeof *row);
    for (uint32_t i = 0; i < all; i++) {
        bool open = false;
        for (uint32_t k = 0; k < n_need && !open; k++)
            open = t->queue[t->need[k]] == c[i].queue &&
                   !covers(t, row, t->need[k]);
        if (open) {
            join_record(t, row, c[i].queue, c[i].at);
            c[n++] = c[i];
        }
    }
    if (t->n_jumps)
        n = drop_covered(t, n_need, c, n);
    memcpy(row, t->base, t->n_chains * sizeof *row);
    for (uint32_t i = 0; i < n; i++) {
        void *p = t->waits;
        uint32_t r = get_record(t, c[i].queue, c[i].at);
        if (r == UINT32_MAX ||
            !grow(&p, &t->cap_waits, t->n_waits, sizeof *t->waits))
            return no_memory(t, err);
        t->waits = p;
        t->waits[t->n_waits++] = r;
        join_record(t, row, c[i].queue, c[i].at);
    }
    return QN_OK;
}

static int by_step(const void *pa, const void *pb)
{
    uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
    return a < b ? -1 : a > b;
}

/* Producers on other queues, each once, into need[]: those that `row` does not
 * cover. Counts what would be waited for without clocks. */
static uint32_t find_need(struct tracker *t, uint32_t i, const uint32_t *row)
{
    const qn_schedule_problem *p = t->p;
    uint32_t n = 0, kept = 0;
    for (uint32_t k = p->dep_start[i]; k < p->dep_start[i + 1]; k++) {
        uint32_t d = p->deps[k];
        if (t->queue[d] != t->queue[i] &&
            !(t->s->host_issues && t->queue[d] == 0))
            t->need[n++] = d;
    }
    if (n > 1)
        qsort(t->need, n, sizeof *t->need, by_step);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t d = t->need[k];
        if (k && d == t->need[k - 1])
            continue;
        t->s->stats.naive++;
        if (!covers(t, row, d))
            t->need[kept++] = d;
    }
    return kept;
}

/* ---- the walk ---- */

/* What the issuing thread knows is known to all that is given to a queue from
 * here on. Said before paths meet: one may know by the thread what the other
 * knows by the queue. */
static void tell_queues(struct tracker *t)
{
    for (uint32_t q = 1; t->s->host_issues && q < t->n_queues; q++)
        join(t->state + (size_t)q * t->n_chains, t->state, t->n_chains);
}

/* Carry the state along a jump over (from, to). */
static qn_status take_jump(struct tracker *t, struct jump j, qn_error *err)
{
    size_t size = (size_t)t->n_queues * t->n_chains;
    uint32_t *edge = qn_calloc(size, sizeof *edge);
    if (!edge)
        return no_memory(t, err);
    tell_queues(t);
    memcpy(edge, t->state, size * sizeof *edge);
    memcpy(t->ahead, t->count, t->n_chains * sizeof *t->ahead);
    for (uint32_t i = j.from + 1; i < j.to; i++)
        t->ahead[t->chain[i]]++;
    for (uint32_t q = 0; q < t->n_queues; q++)
        for (uint32_t c = 0; c < t->n_chains; c++)
            if (edge[(size_t)q * t->n_chains + c] >= t->count[c])
                reach(edge + (size_t)q * t->n_chains, c, t->ahead[c]);
    if (t->saved[j.to])
        meet(t->saved[j.to], edge, size);
    else if ((t->saved[j.to] = qn_region_alloc(t->tmp, size, sizeof *edge)))
        memcpy(t->saved[j.to], edge, size * sizeof *edge);
    qn_free(edge);
    return t->saved[j.to] ? QN_OK : no_memory(t, err);
}

static void arrive(struct tracker *t, uint32_t at)
{
    size_t size = (size_t)t->n_queues * t->n_chains;
    if (!t->saved[at])
        return;
    tell_queues(t);
    meet(t->state, t->saved[at], size);
    memcpy(t->saved[at], t->state, size * sizeof *t->state);
}

static qn_status walk_step(struct tracker *t, uint32_t i, qn_error *err)
{
    const qn_schedule_step *step = &t->p->steps[i];
    uint32_t q = t->queue[i], n = t->n_chains;
    uint32_t *row = t->clock + (size_t)i * n, *mine = t->state + (size_t)q * n;
    qn_status st = QN_OK;
    arrive(t, i);
    memcpy(row, mine, n * sizeof *row);
    if (t->s->host_issues && q)
        join(row, t->state, n);
    uint32_t n_need = find_need(t, i, row);
    t->wait_start[i] = t->n_waits;
    if (n_need)
        st = add_waits(t, row, n_need, i, err);
    t->count[t->chain[i]]++;
    memcpy(mine, row, n * sizeof *row);
    reach(mine, t->chain[i], t->pos[i]);
    if (st == QN_OK && step->flow != QN_FLOW_PLAIN)
        st = take_jump(t, (struct jump){ i, step->target }, err);
    if (step->flow == QN_FLOW_JUMP) /* nobody comes from here */
        memset(t->state, 0xff, (size_t)t->n_queues * n * sizeof *t->state);
    return st;
}

/* The end needs the last step of each chain. */
static qn_status walk_end(struct tracker *t, qn_error *err)
{
    uint32_t n = t->p->n, n_need = 0;
    uint32_t *row = t->ahead;
    arrive(t, n);
    memset(row, 0, t->n_chains * sizeof *row);
    if (t->s->host_issues)
        memcpy(row, t->state, t->n_chains * sizeof *row);
    for (uint32_t i = 0; i < n; i++)
        if (t->pos[i] == t->count[t->chain[i]] && !covers(t, row, i))
            t->need[n_need++] = i;
    t->wait_start[n] = t->n_waits;
    return n_need ? add_waits(t, row, n_need, n, err) : QN_OK;
}

static qn_status walk(struct tracker *t, qn_error *err)
{
    qn_status st = QN_OK;
    for (uint32_t i = 0; i < t->p->n && st == QN_OK; i++)
        st = walk_step(t, i, err);
    return st == QN_OK ? walk_end(t, err) : st;
}

/* ---- results ---- */

/* Number records by position, then by queue. */
static qn_status number_records(struct tracker *t, qn_region *region,
                                qn_error *err)
{
    uint32_t n = t->p->n, at = 0, last[QN_SCHEDULE_MAX_QUEUES] = { 0 };
    uint32_t *start = qn_region_alloc(region, (size_t)n + 2, sizeof *start);
    qn_record *records = qn_region_alloc(region, (size_t)t->n_records + 1,
                                         sizeof *records);
    uint32_t *waits = qn_region_alloc(region, (size_t)t->n_waits + 1,
                                      sizeof *waits);
    uint32_t *number = qn_region_alloc(t->tmp, (size_t)t->n_records + 1,
                                       sizeof *number);
    if (!start || !records || !waits || !number)
        return no_memory(t, err);
    for (uint32_t p = 0; p <= n; p++) {
        start[p] = at;
        for (uint32_t q = 0; q < t->n_queues && t->head[p] != UINT32_MAX; q++)
            for (uint32_t r = t->head[p]; r != UINT32_MAX; r = t->next[r])
                if (t->records[r].queue == q) {
                    number[r] = at;
                    records[at++] = (qn_record){ q, p, last[q] };
                }
        if (p < n)
            last[t->queue[p]] = p;
    }
    start[n + 1] = at;
    for (uint32_t k = 0; k < t->n_waits; k++)
        waits[k] = number[t->waits[k]];
    t->s->records = records;
    t->s->n_records = t->n_records;
    t->s->record_start = start;
    t->s->waits = waits;
    t->s->join = waits + t->wait_start[n];
    t->s->n_join = t->n_waits - t->wait_start[n];
    t->s->stats.waits = t->wait_start[n];
    return QN_OK;
}

static qn_status make_rows(struct tracker *t, qn_region *region, qn_error *err)
{
    size_t n = (size_t)t->p->n + 1, c = t->n_chains, bytes;
    if (__builtin_mul_overflow(n, c, &bytes))
        return qn_fail(err, QN_TOO_LARGE, "clocks of %u steps, %u chains",
                       t->p->n, t->n_chains);
    t->clock = qn_region_alloc(region, n * c, sizeof *t->clock);
    t->state = qn_region_alloc(t->tmp, t->n_queues * c, sizeof *t->state);
    t->saved = qn_region_alloc(t->tmp, n, sizeof *t->saved);
    t->count = qn_region_alloc(t->tmp, c, sizeof *t->count);
    t->ahead = qn_region_alloc(t->tmp, c, sizeof *t->ahead);
    t->base = qn_region_alloc(t->tmp, c, sizeof *t->base);
    t->other = qn_region_alloc(t->tmp, c, sizeof *t->other);
    /* a step's dependencies, or the last of each chain */
    size_t most = c;
    for (uint32_t i = 0; i < t->p->n; i++)
        if (t->p->dep_start[i + 1] - t->p->dep_start[i] > most)
            most = t->p->dep_start[i + 1] - t->p->dep_start[i];
    t->need = qn_region_alloc(t->tmp, most, sizeof *t->need);
    t->head = qn_region_alloc(t->tmp, n, sizeof *t->head);
    t->wait_start = qn_region_alloc(region, n, sizeof *t->wait_start);
    if (!t->clock || !t->state || !t->saved || !t->count || !t->ahead ||
        !t->base || !t->other || !t->need || !t->head || !t->wait_start)
        return no_memory(t, err);
    memset(t->head, 0xff, n * sizeof *t->head);
    for (uint32_t i = 0; i < t->p->n; i++)
        t->pos[i] = ++t->count[t->chain[i]];
    memset(t->count, 0, c * sizeof *t->count);
    return QN_OK;
}

qn_status qn_schedule_order(const qn_schedule_problem *p, qn_region *region,
                            qn_schedule *out, qn_error *err)
{
    qn_region tmp = { 0 };
    size_t n = (size_t)p->n + 1;
    struct tracker t = { .p = p, .s = out, .tmp = &tmp,
                         .n_queues = out->n_queues };
    qn_status st = QN_OK;
    t.queue = qn_region_alloc(&tmp, n, sizeof *t.queue);
    t.chain = qn_region_alloc(region, n, sizeof *t.chain);
    t.pos = qn_region_alloc(region, n, sizeof *t.pos);
    if (!t.queue || !t.chain || !t.pos)
        st = no_memory(&t, err);
    if (st == QN_OK) {
        memcpy(t.queue, out->queue, p->n * sizeof *t.queue);
        st = make_chains(&t, err);
    }
    if (st == QN_OK)
        st = make_rows(&t, region, err);
    if (st == QN_OK)
        st = walk(&t, err);
    if (st == QN_OK) {
        out->n_chains = t.n_chains;
        out->chain = t.chain;
        out->pos = t.pos;
        out->clock = t.clock;
        out->wait_start = t.wait_start;
        st = number_records(&t, region, err);
    }
    qn_free(t.records);
    qn_free(t.next);
    qn_free(t.waits);
    qn_region_release(&tmp);
    return st;
}

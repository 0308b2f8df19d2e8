/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/race.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the log ---- */

static bool grow(void **p, size_t *cap, size_t want, size_t size)
{
    size_t n = *cap ? *cap : 64;
    if (want <= *cap)
        return true;
    while (n < want)
        n *= 2;
    void *q = realloc(*p, n * size);
    if (!q)
        return false;
    *p = q;
    *cap = n;
    return true;
}

static bool append(race_log *log, const race_entry *e)
{
    void *p = log->entries;
    if (!grow(&p, &log->cap, log->n + 1, sizeof *log->entries))
        return false;
    log->entries = p;
    log->entries[log->n++] = *e;
    return true;
}

static uint32_t append_ranges(race_log *log, const race_range *r, size_t n)
{
    uint32_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (r[i].begin < r[i].end) {
            log->ranges[log->n_ranges++] = r[i];
            kept++;
        }
    return kept;
}

bool race_log_launch(race_log *log, uint32_t queue, uint64_t issue,
                     uint64_t step, const race_range *reads, size_t n_reads,
                     const race_range *writes, size_t n_writes)
{
    void *p = log->ranges;
    race_entry e = { .kind = RACE_LAUNCH, .queue = queue, .id = step,
                     .issue = issue, .range = log->n_ranges };
    if (!grow(&p, &log->cap_ranges, log->n_ranges + n_reads + n_writes,
              sizeof *log->ranges))
        return false;
    log->ranges = p;
    e.n_reads = append_ranges(log, reads, n_reads);
    e.n_writes = append_ranges(log, writes, n_writes);
    if (append(log, &e))
        return true;
    log->n_ranges = e.range;
    return false;
}

bool race_log_point(race_log *log, race_kind kind, uint32_t queue,
                    uint64_t issue, uint64_t id)
{
    race_entry e = { .kind = kind, .queue = queue, .id = id, .issue = issue };
    return append(log, &e);
}

void race_log_free(race_log *log)
{
    free(log->entries);
    free(log->ranges);
    memset(log, 0, sizeof *log);
}

/* ---- who touched which bytes last ---- */

struct access {
    uint32_t queue, clock; /* clock 0: nobody */
    uint64_t step;
};

struct interval {
    race_range bytes;
    struct access writer;
    struct access *readers; /* [n_queues] since the writer */
};

struct detector {
    const race_log *log;
    race_report *out;
    uint32_t n_queues;
    uint32_t *clock;  /* [n_queues][n_queues] */
    uint32_t **known; /* by entry: the clock of a RECORD or ISSUE that ran */
    size_t *order;    /* entries, by queue */
    size_t *at, *end; /* [n_queues] into order[] */
    size_t *points;   /* RECORD and ISSUE entries by kind and id */
    size_t n_points;
    /* intervals, disjoint, ascending by space and begin */
    struct interval **map;
    size_t n_map, cap_map;
    bool failed; /* no memory */
};

static struct interval *new_interval(struct detector *d, race_range bytes,
                                     const struct interval *like)
{
    struct interval *x = calloc(1, sizeof *x + d->n_queues *
                                                   sizeof *x->readers);
    if (!x) {
        d->failed = true;
        return NULL;
    }
    x->readers = (struct access *)(void *)(x + 1);
    if (like) {
        x->writer = like->writer;
        memcpy(x->readers, like->readers, d->n_queues * sizeof *x->readers);
    }
    x->bytes = bytes;
    return x;
}

/* First interval that ends behind `begin` of a space, or starts in a later. */
static size_t find(const struct detector *d, uint32_t space, uint64_t begin)
{
    size_t lo = 0, hi = d->n_map;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const race_range *r = &d->map[mid]->bytes;
        if (r->space < space || (r->space == space && r->end <= begin))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void insert(struct detector *d, size_t i, struct interval *x)
{
    void *p = d->map;
    if (!x || !grow(&p, &d->cap_map, d->n_map + 1, sizeof *d->map)) {
        free(x);
        d->failed = true;
        return;
    }
    d->map = p;
    memmove(d->map + i + 1, d->map + i, (d->n_map - i) * sizeof *d->map);
    d->map[i] = x;
    d->n_map++;
}

/* No interval reaches over `at` afterwards. */
static void cut(struct detector *d, uint32_t space, uint64_t at)
{
    size_t i = find(d, space, at);
    if (i == d->n_map || d->map[i]->bytes.space != space ||
        d->map[i]->bytes.begin >= at)
        return;
    struct interval *x = d->map[i];
    race_range right = { space, at, x->bytes.end };
    insert(d, i + 1, new_interval(d, right, x));
    if (!d->failed)
        x->bytes.end = at;
}

static bool inside(const struct detector *d, size_t i, const race_range *r)
{
    return i < d->n_map && d->map[i]->bytes.space == r->space &&
           d->map[i]->bytes.begin < r->end;
}

/* ---- races ---- */

static void report(struct detector *d, const struct access *a, bool a_writes,
                   const struct access *b, bool b_writes, race_range bytes)
{
    race_report *out = d->out;
    if (b->step < a->step) {
        const struct access *x = a;
        bool w = a_writes;
        a = b;
        a_writes = b_writes;
        b = x;
        b_writes = w;
    }
    race r = { .kind = !a_writes ? "write after read"
                       : b_writes ? "write after write" : "read after write",
               .first = a->step, .second = b->step, .first_queue = a->queue,
               .second_queue = b->queue, .bytes = bytes };
    if (out->n_races < RACE_MOST)
        out->races[out->n_races] = r;
    if (!out->n_races++)
        snprintf(out->text, sizeof out->text,
                 "%s: step %" PRIu64 " on queue %u and step %" PRIu64
                 " on queue %u, space %u, bytes [%" PRIu64 ", %" PRIu64 ")",
                 r.kind, r.first, r.first_queue, r.second, r.second_queue,
                 bytes.space, bytes.begin, bytes.end);
}

/* Has `a` ended before what queue q does now? */
static bool ordered(const struct detector *d, const struct access *a,
                    uint32_t q)
{
    return !a->clock || d->clock[q * d->n_queues + a->queue] >= a->clock;
}

static void read_range(struct detector *d, const struct access *by,
                       const race_range *r)
{
    uint64_t at = r->begin;
    cut(d, r->space, r->begin);
    cut(d, r->space, r->end);
    for (size_t i = find(d, r->space, r->begin); at < r->end && !d->failed;
         i++) {
        if (!inside(d, i, r) || d->map[i]->bytes.begin > at) {
            uint64_t to = inside(d, i, r) ? d->map[i]->bytes.begin : r->end;
            race_range gap = { r->space, at, to };
            insert(d, i, new_interval(d, gap, NULL));
            if (d->failed)
                return;
        }
        struct interval *x = d->map[i];
        if (!ordered(d, &x->writer, by->queue))
            report(d, &x->writer, true, by, false, x->bytes);
        x->readers[by->queue] = *by;
        at = x->bytes.end;
    }
}

static void write_range(struct detector *d, const struct access *by,
                        const race_range *r)
{
    cut(d, r->space, r->begin);
    cut(d, r->space, r->end);
    size_t from = find(d, r->space, r->begin), to = from;
    for (; inside(d, to, r); to++) {
        struct interval *x = d->map[to];
        if (!ordered(d, &x->writer, by->queue))
            report(d, &x->writer, true, by, true, x->bytes);
        for (uint32_t q = 0; q < d->n_queues; q++)
            if (!ordered(d, &x->readers[q], by->queue))
                report(d, &x->readers[q], false, by, true, x->bytes);
        free(x);
    }
    if (to > from)
        memmove(d->map + from, d->map + to, (d->n_map - to) * sizeof *d->map);
    d->n_map -= to - from;
    struct interval *x = new_interval(d, *r, NULL);
    if (x)
        x->writer = *by;
    insert(d, from, x);
}

static void launch(struct detector *d, const race_entry *e)
{
    uint32_t q = e->queue;
    const race_range *r = d->log->ranges + e->range;
    struct access by = { q, ++d->clock[q * d->n_queues + q], e->id };
    d->out->n_launches++;
    for (uint32_t k = 0; k < e->n_reads && !d->failed; k++)
        read_range(d, &by, r + k);
    for (uint32_t k = 0; k < e->n_writes && !d->failed; k++)
        write_range(d, &by, r + e->n_reads + k);
}

/* ---- order ---- */

/* qsort() has no context, so points carry their key. */
struct point {
    race_kind kind;
    uint64_t id;
    size_t entry;
};

static int by_id(const void *pa, const void *pb)
{
    const struct point *a = pa, *b = pb;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static bool sort_points(struct detector *d)
{
    const race_log *log = d->log;
    struct point *points = calloc(log->n + 1, sizeof *points);
    if (!points)
        return false;
    for (size_t i = 0; i < log->n; i++) {
        const race_entry *e = &log->entries[i];
        if (e->kind == RACE_RECORD || e->kind == RACE_ISSUE)
            points[d->n_points++] = (struct point){ e->kind, e->id, i };
    }
    qsort(points, d->n_points, sizeof *points, by_id);
    for (size_t k = 0; k < d->n_points; k++) {
        d->points[k] = points[k].entry;
        if (k && by_id(&points[k - 1], &points[k]) == 0)
            snprintf(d->out->text, sizeof d->out->text, "%s %" PRIu64
                     " is in the log twice", points[k].kind == RACE_RECORD
                     ? "event" : "issue", points[k].id);
    }
    free(points);
    return !d->out->text[0];
}

/* The entry that makes a point, or the number of entries. */
static size_t find_point(const struct detector *d, race_kind kind, uint64_t id)
{
    size_t lo = 0, hi = d->n_points;
    struct point want = { kind, id, 0 };
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2, i = d->points[mid];
        const race_entry *e = &d->log->entries[i];
        struct point have = { e->kind, e->id, i };
        int c = by_id(&have, &want);
        if (!c)
            return i;
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return d->log->n;
}

/* Join what a point knew into a queue's clock. False: it has not run yet. */
static bool take(struct detector *d, uint32_t q, size_t point)
{
    const uint32_t *from = d->known[point];
    uint32_t *to = d->clock + q * d->n_queues;
    if (!from)
        return false;
    for (uint32_t k = 0; k < d->n_queues; k++)
        to[k] = from[k] > to[k] ? from[k] : to[k];
    return true;
}

/* Run the next entry of a queue. False: it cannot run yet. */
static bool step(struct detector *d, uint32_t q)
{
    const race_log *log = d->log;
    size_t i = d->order[d->at[q]], point;
    const race_entry *e = &log->entries[i];
    if (e->issue) {
        point = find_point(d, RACE_ISSUE, e->issue);
        if (point == log->n || !take(d, q, point))
            return false;
    }
    if (e->kind == RACE_WAIT) {
        point = find_point(d, RACE_RECORD, e->id);
        if (point == log->n)
            d->out->n_unrecorded++;
        else if (!take(d, q, point))
            return false;
    } else if (e->kind == RACE_LAUNCH) {
        launch(d, e);
    } else {
        size_t bytes = d->n_queues * sizeof **d->known;
        d->known[i] = malloc(bytes);
        if (!d->known[i]) {
            d->failed = true;
            return false;
        }
        memcpy(d->known[i], d->clock + q * d->n_queues, bytes);
    }
    d->at[q]++;
    return true;
}

static void run(struct detector *d)
{
    bool moved = true;
    while (moved && !d->failed) {
        moved = false;
        for (uint32_t q = 0; q < d->n_queues; q++)
            while (d->at[q] < d->end[q] && step(d, q))
                moved = true;
    }
    for (uint32_t q = 0; q < d->n_queues && !d->failed; q++)
        if (d->at[q] < d->end[q]) {
            size_t i = d->order[d->at[q]];
            const race_entry *e = &d->log->entries[i];
            d->out->n_races = 0;
            snprintf(d->out->text, sizeof d->out->text,
                     "queue %u never gets past entry %zu (%s %" PRIu64
                     ", issue %" PRIu64 ")", q, i,
                     e->kind == RACE_WAIT ? "wait" : "not a wait", e->id,
                     e->issue);
            return;
        }
}

static bool prepare(struct detector *d)
{
    const race_log *log = d->log;
    for (size_t i = 0; i < log->n; i++)
        if (log->entries[i].queue >= d->n_queues)
            d->n_queues = log->entries[i].queue + 1;
    d->clock = calloc((size_t)d->n_queues * d->n_queues + 1,
                      sizeof *d->clock);
    d->known = calloc(log->n + 1, sizeof *d->known);
    d->order = calloc(log->n + 1, sizeof *d->order);
    d->at = calloc(d->n_queues + 1u, sizeof *d->at);
    d->end = calloc(d->n_queues + 1u, sizeof *d->end);
    d->points = calloc(log->n + 1, sizeof *d->points);
    if (!d->clock || !d->known || !d->order || !d->at || !d->end || !d->points)
        return false;
    for (size_t i = 0; i < log->n; i++)
        d->at[log->entries[i].queue + 1]++;
    for (uint32_t q = 0; q < d->n_queues; q++)
        d->at[q + 1] += d->at[q];
    memcpy(d->end, d->at, d->n_queues * sizeof *d->end);
    for (size_t i = 0; i < log->n; i++)
        d->order[d->end[log->entries[i].queue]++] = i;
    return true;
}

bool race_check(const race_log *log, race_report *out)
{
    struct detector d = { .log = log, .out = out };
    memset(out, 0, sizeof *out);
    if (!prepare(&d))
        d.failed = true;
    else if (sort_points(&d))
        run(&d);
    else if (!out->text[0])
        d.failed = true;
    if (d.failed) {
        out->n_races = 0;
        snprintf(out->text, sizeof out->text, "no memory for a log of %zu",
                 log->n);
    }
    for (size_t i = 0; i < d.n_map; i++)
        free(d.map[i]);
    for (size_t i = 0; d.known && i < log->n; i++)
        free(d.known[i]);
    free(d.map);
    free(d.clock);
    free(d.known);
    free(d.order);
    free(d.at);
    free(d.end);
    free(d.points);
    return !out->text[0];
}

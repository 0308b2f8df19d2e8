/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cuda/support/account.h"

#include "runtime/exec/launch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef enum tag_kind {
    TAG_BEGIN, TAG_STEP, TAG_HOST, TAG_END, TAG_LEASED, TAG_RELEASES
} tag_kind;

typedef struct account_tag {
    tag_kind kind;
    uint32_t run, step;
    const char *name;
} account_tag;

typedef struct account_range {
    uint64_t tag;
    bool writes;
    race_range bytes;
} account_range;

static void *grown(void *list, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return list;
    *cap = *cap ? 2 * *cap : 256;
    void *p = realloc(list, *cap * size);
    assert_non_null(p);
    return p;
}

/* ---- what is told ---- */

/* Tags count from 1. */
static uint64_t new_tag(account *a, account_tag tag)
{
    pthread_mutex_lock(&a->lock);
    a->tags = grown(a->tags, a->n_tags, &a->cap_tags, sizeof *a->tags);
    a->tags[a->n_tags] = tag;
    uint64_t number = ++a->n_tags;
    pthread_mutex_unlock(&a->lock);
    return number;
}

static void touch(account *a, uint64_t tag, bool writes, const void *p,
                  size_t bytes)
{
    if (!p || !bytes)
        return;
    uint64_t at = (uint64_t)(uintptr_t)p;
    pthread_mutex_lock(&a->lock);
    a->ranges = grown(a->ranges, a->n_ranges, &a->cap_ranges, sizeof *a->ranges);
    a->ranges[a->n_ranges++] =
        (account_range){ tag, writes, { 0, at, at + bytes } };
    pthread_mutex_unlock(&a->lock);
}

static _Thread_local uint64_t current; /* tag of what this thread enqueues */

static void enqueue_as(const account *a, uint64_t tag)
{
    current = tag;
    a->emu->tag_thread(tag);
}

static uint32_t number_of(const qn_run *run)
{
    return ((const account_run *)run->done_arg)->number;
}

static void on_begin(void *arg, const qn_run *run)
{
    account *a = arg;
    uint64_t tag = new_tag(a, (account_tag){ TAG_BEGIN, number_of(run), 0,
                                             "begin" });
    for (uint32_t n = 1; n < run->plan->n_spaces; n++) {
        const char *arena =
            run->device_leases[n - 1].parts[QN_PART_ARENA].data;
        touch(a, tag, true,
              arena + qn_device_arena_bytes(run->plan, n) - QN_FAULT_BYTES,
              QN_FAULT_BYTES);
    }
    enqueue_as(a, tag);
}

static void on_end(void *arg, const qn_run *run)
{
    account *a = arg;
    const qn_issue *q = ((const qn_exec *)run->exec)->issue;
    uint64_t tag = new_tag(a, (account_tag){ TAG_END, number_of(run), 0,
                                             "end" });
    for (uint32_t n = 1; n < run->plan->n_spaces; n++) {
        const char *arena =
            run->device_leases[n - 1].parts[QN_PART_ARENA].data;
        touch(a, tag, false,
              arena + qn_device_arena_bytes(run->plan, n) - QN_FAULT_BYTES,
              QN_FAULT_BYTES);
        touch(a, tag, true, q->faults[n - 1], QN_FAULT_BYTES);
    }
    enqueue_as(a, tag);
}

static const char *name_of(const qn_run *run, uint32_t step)
{
    const qn_step *s = &run->plan->steps[step];
    return s->node ? s->node->op_name : "copy";
}

static void on_step(void *arg, const qn_run *run, uint32_t step)
{
    account *a = arg;
    enqueue_as(a, new_tag(a, (account_tag){ TAG_STEP, number_of(run), step,
                                            name_of(run, step) }));
}

static void touch_tensor(account *a, uint64_t tag, bool writes,
                         const qn_tensor *t)
{
    size_t bytes;
    if (qn_present(t) && t->dtype != QN_STRING &&
        qn_tensor_bytes(t->dtype, &t->shape, &bytes, NULL) == QN_OK)
        touch(a, tag, writes, t->data, bytes);
}

/* Host memory that a device's kernel has as an input is read when it is made. */
static void touch_launch(account *a, const qn_run *run, uint64_t device,
                         uint64_t host, const qn_step *s,
                         const qn_trace_work *w)
{
    const qn_launch *k = w->launch;
    for (uint32_t i = 0; i < k->n_in; i++)
        if (s->in[i] != QN_NO_VALUE)
            touch_tensor(a, run->plan->values[s->in[i]].space ? device : host,
                         false, &k->in[i]);
    for (uint32_t i = 0; i < k->n_out; i++)
        if (s->out[i] != QN_NO_VALUE)
            touch_tensor(a, device, true, &k->out[i]);
    touch(a, device, true, k->workspace, w->workspace_bytes);
    if (s->space && s->kernel->finish)
        touch(a, device, true, k->counts, 8 * sizeof *k->counts);
}

static void on_work(void *arg, const qn_run *run, uint32_t step,
                    const qn_trace_work *w)
{
    account *a = arg;
    const qn_step *s = &run->plan->steps[step];
    uint64_t host = new_tag(a, (account_tag){ TAG_HOST, number_of(run), step,
                                              name_of(run, step) });
    uint64_t by = w->on_host ? host : current;
    if (w->launch) {
        touch_launch(a, run, by, host, s, w);
    } else {
        touch(a, by, true, w->dst, w->bytes);
        touch(a, by, false, w->src, w->bytes);
    }
    a->emu->log_mark(host);
}

/* ---- what clients do ---- */

void account_leased(account *a, account_run *run)
{
    run->account = a;
    pthread_mutex_lock(&a->lock);
    run->number = a->n_runs++;
    pthread_mutex_unlock(&a->lock);
    a->emu->log_mark(
        new_tag(a, (account_tag){ TAG_LEASED, run->number, 0, "lease" }));
}

static void client(const account_run *run, bool writes, const void *p,
                   size_t bytes)
{
    account *a = run->account;
    uint64_t tag = new_tag(a, (account_tag){ TAG_HOST, run->number, 0,
                                             "client" });
    touch(a, tag, writes, p, bytes);
    a->emu->log_mark(tag);
}

void account_fills(const account_run *run, const void *p, size_t bytes)
{
    client(run, true, p, bytes);
}

void account_reads(const account_run *run, const void *p, size_t bytes)
{
    client(run, false, p, bytes);
}

void account_releases(const account_run *run)
{
    account *a = run->account;
    a->emu->log_mark(
        new_tag(a, (account_tag){ TAG_RELEASES, run->number, 0, "release" }));
}

void account_open(account *a, const test_emu *emu)
{
    *a = (account){ .emu = emu };
    a->trace = (qn_trace){ .arg = a, .begin = on_begin, .step = on_step,
                           .work = on_work, .end = on_end };
    pthread_mutex_init(&a->lock, NULL);
    emu->log(true);
}

void account_restart(account *a)
{
    a->n_tags = a->n_ranges = 0;
    a->n_runs = 0;
    a->emu->log(true);
}

void account_close(account *a)
{
    a->emu->log(false);
    free(a->tags);
    free(a->ranges);
    pthread_mutex_destroy(&a->lock);
}

/* ---- putting it together ---- */

enum { MOST_STREAMS = 512, MOST_CHAINS = 24 };

typedef struct check {
    const account *a;
    struct qn_emu_entry *log;
    size_t n;
    size_t *first; /* [n_tags + 2] ranges[] by tag */
    race_range *ranges;
    uint8_t *writes;
    uint64_t most_point;
    uint32_t *run_of_point; /* by RECORD; UINT32_MAX */
    uint64_t streams[MOST_STREAMS];
    uint32_t queues[MOST_STREAMS][1 + MOST_CHAINS]; /* 0: not yet */
    uint32_t n_streams, n_queues; /* runs come first */
    race_log out;
    uint64_t next_issue, next_point;
    account_report *report;
} check;

static void *must(size_t n, size_t size)
{
    void *p = calloc(n + 1, size);
    assert_non_null(p);
    return p;
}

static const account_tag *tag_of(const check *c, uint64_t tag)
{
    return tag && tag <= c->a->n_tags ? &c->a->tags[tag - 1] : NULL;
}

/* Ranges by tag: a counting sort. */
static void sort_ranges(check *c)
{
    const account *a = c->a;
    c->first = must(a->n_tags + 3, sizeof *c->first);
    c->ranges = must(a->n_ranges, sizeof *c->ranges);
    c->writes = must(a->n_ranges, 1);
    for (size_t i = 0; i < a->n_ranges; i++)
        c->first[a->ranges[i].tag + 2]++;
    for (size_t t = 2; t < a->n_tags + 3; t++)
        c->first[t] += c->first[t - 1];
    for (size_t i = 0; i < a->n_ranges; i++) {
        size_t at = c->first[a->ranges[i].tag + 1]++;
        c->ranges[at] = a->ranges[i].bytes;
        c->writes[at] = a->ranges[i].writes;
    }
}

static void add_launch(check *c, uint32_t queue, uint64_t issue, uint64_t tag)
{
    race_range reads[256], writes[256];
    size_t n_reads = 0, n_writes = 0;
    if (!tag_of(c, tag))
        return;
    for (size_t i = c->first[tag]; i < c->first[tag + 1]; i++) {
        assert_true(n_reads < 256 && n_writes < 256);
        if (c->writes[i])
            writes[n_writes++] = c->ranges[i];
        else
            reads[n_reads++] = c->ranges[i];
    }
    assert_true(race_log_launch(&c->out, queue, issue, tag, reads, n_reads,
                                writes, n_writes));
    c->report->launches++;
}

static void add_point(check *c, race_kind kind, uint32_t queue, uint64_t issue,
                      uint64_t id)
{
    assert_true(race_log_point(&c->out, kind, queue, issue, id));
}

static uint32_t stream_index(check *c, uint64_t stream)
{
    uint32_t i = 0;
    while (i < c->n_streams && c->streams[i] != stream)
        i++;
    if (i == c->n_streams) {
        assert_true(i < MOST_STREAMS);
        c->streams[c->n_streams++] = stream;
    }
    return i;
}

/* Chain 0 is the stream itself. */
static uint32_t queue_of(check *c, uint32_t stream, uint32_t chain)
{
    uint32_t *q = &c->queues[stream][chain];
    if (!*q)
        *q = c->n_queues++;
    return *q;
}

/* ---- graphs ---- */

/* A launch: nodes go to chains, so that each follows one that it comes after. */
static void add_graph(check *c, size_t begin, size_t end, uint64_t issue)
{
    const struct qn_emu_entry *e = c->log;
    uint32_t stream = stream_index(c, e[begin].stream), nodes = 0;
    uint32_t queue = queue_of(c, stream, 0);
    for (size_t i = begin; i < end; i++)
        if (e[i].launch == e[begin].launch && e[i].node >= nodes)
            nodes = e[i].node + 1;
    uint64_t start = c->next_point++, base = c->next_point;
    c->next_point += nodes;
    uint32_t tail[MOST_CHAINS], chains = 0;
    uint32_t *chain = must(nodes, sizeof *chain);
    add_point(c, RACE_RECORD, queue, issue, start);
    for (size_t i = begin; i < end; i++) {
        if (e[i].launch != e[begin].launch || e[i].kind > QN_EMU_LIBRARY)
            continue;
        uint32_t n = e[i].node, at = MOST_CHAINS;
        size_t edges = i + 1;
        /* its edges follow, maybe between entries of other streams */
        for (size_t k = edges; k < end; k++) {
            if (e[k].launch != e[begin].launch)
                continue;
            if (e[k].kind != QN_EMU_EDGE || e[k].node != n)
                break;
            uint32_t before = (uint32_t)e[k].point;
            if (at == MOST_CHAINS && tail[chain[before]] == before)
                at = chain[before];
        }
        if (at == MOST_CHAINS) {
            assert_true(chains < MOST_CHAINS);
            at = chains++;
        }
        chain[n] = at;
        tail[at] = n;
        uint32_t q = queue_of(c, stream, 1 + at);
        add_point(c, RACE_WAIT, q, 0, start);
        for (size_t k = edges; k < end; k++) {
            if (e[k].launch != e[begin].launch)
                continue;
            if (e[k].kind != QN_EMU_EDGE || e[k].node != n)
                break;
            add_point(c, RACE_WAIT, q, 0, base + e[k].point);
        }
        add_launch(c, q, 0, e[i].tag);
        add_point(c, RACE_RECORD, q, 0, base + n);
    }
    for (uint32_t n = 0; n < nodes; n++)
        add_point(c, RACE_WAIT, queue, 0, base + n);
    free(chain);
    c->report->graphs++;
}

/* ---- entries ---- */

/* Enqueued by the host: the number of an ISSUE there. */
typedef struct issue {
    uint64_t at;
    uint32_t run;
    uint64_t number;
} issue;

static int by_time(const void *x, const void *y)
{
    const issue *a = x, *b = y;
    return a->at != b->at ? (a->at < b->at ? -1 : 1)
                          : (a->number > b->number) - (a->number < b->number);
}

/* By itself, and not as a part of a graph. */
static bool enqueued(const struct qn_emu_entry *e)
{
    return (e->kind <= QN_EMU_WAIT && !e->launch) ||
           e->kind == QN_EMU_GRAPH_BEGIN;
}

static void add_device(check *c, size_t i, uint64_t number)
{
    const struct qn_emu_entry *e = &c->log[i];
    uint32_t queue = queue_of(c, stream_index(c, e->stream), 0);
    size_t end = i;
    switch ((enum qn_emu_log_kind)e->kind) {
    case QN_EMU_KERNEL:
    case QN_EMU_COPY:
    case QN_EMU_LIBRARY:
        add_launch(c, queue, number, e->tag);
        break;
    case QN_EMU_RECORD:
        add_point(c, RACE_RECORD, queue, number, e->point);
        c->report->records++;
        break;
    case QN_EMU_WAIT:
        add_point(c, RACE_WAIT, queue, number, e->point);
        c->report->waits++;
        break;
    default: /* GRAPH_BEGIN */
        while (end < c->n && !(c->log[end].kind == QN_EMU_GRAPH_END &&
                               c->log[end].launch == e->launch))
            end++;
        add_graph(c, i, end, number);
        break;
    }
}

static void add_host(check *c, const struct qn_emu_entry *e, uint64_t *released,
                     uint32_t *n_released)
{
    const account_tag *t = tag_of(c, e->tag);
    if (e->kind == QN_EMU_OBSERVED) {
        uint32_t run = e->point <= c->most_point ? c->run_of_point[e->point]
                                                 : UINT32_MAX;
        if (run != UINT32_MAX)
            add_point(c, RACE_WAIT, run, 0, e->point);
        return;
    }
    if (!t)
        return;
    switch (t->kind) {
    case TAG_LEASED: /* what was given back before this may be here again */
        for (uint32_t i = 0; i < *n_released; i++)
            add_point(c, RACE_WAIT, t->run, 0, released[i]);
        break;
    case TAG_RELEASES:
        released[*n_released] = c->next_point++;
        add_point(c, RACE_RECORD, t->run, 0, released[*n_released]);
        ++*n_released;
        c->report->runs++;
        break;
    default:
        add_launch(c, t->run, 0, e->tag);
        break;
    }
}

static void find_points(check *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->log[i].kind >= QN_EMU_RECORD &&
            c->log[i].kind <= QN_EMU_OBSERVED &&
            c->log[i].point > c->most_point)
            c->most_point = c->log[i].point;
    c->next_point = c->most_point + 1;
    c->run_of_point = must(c->most_point + 1, sizeof *c->run_of_point);
    memset(c->run_of_point, 0xff,
           (c->most_point + 1) * sizeof *c->run_of_point);
    for (size_t i = 0; i < c->n; i++) {
        const account_tag *t = tag_of(c, c->log[i].tag);
        if (c->log[i].kind == QN_EMU_RECORD && t)
            c->run_of_point[c->log[i].point] = t->run;
    }
}

static void translate(check *c)
{
    issue *issues = must(c->n, sizeof *issues);
    uint64_t *number = must(c->n, sizeof *number);
    uint64_t *released = must(c->a->n_runs, sizeof *released);
    uint32_t n_released = 0;
    size_t n = 0, next = 0;
    for (size_t i = 0; i < c->n; i++) {
        const account_tag *t = tag_of(c, c->log[i].tag);
        if (!t || !enqueued(&c->log[i]))
            continue;
        number[i] = ++c->next_issue;
        issues[n++] = (issue){ c->log[i].enqueued, t->run, number[i] };
    }
    qsort(issues, n, sizeof *issues, by_time);
    for (size_t i = 0; i < c->n; i++) {
        const struct qn_emu_entry *e = &c->log[i];
        for (; next < n && issues[next].at <= e->sequence; next++)
            add_point(c, RACE_ISSUE, issues[next].run, 0,
                      issues[next].number);
        if (e->kind == QN_EMU_OBSERVED || e->kind == QN_EMU_MARK)
            add_host(c, e, released, &n_released);
        else if (enqueued(e))
            add_device(c, i, number[i]);
    }
    free(issues);
    free(number);
    free(released);
}

/* ---- lanes ---- */

/* On each stream: does a run's first item come to be enqueued behind the end of
 * what the run before it had there? */
static void check_lanes(check *c)
{
    typedef struct last {
        uint32_t run;
        uint64_t sequence;
        bool any;
    } last;
    last *lasts = must(c->n_streams, sizeof *lasts);
    for (size_t i = 0; i < c->n; i++) {
        const struct qn_emu_entry *e = &c->log[i];
        const account_tag *t = tag_of(c, e->tag);
        if (!t || !enqueued(e))
            continue;
        uint32_t s = stream_index(c, e->stream);
        last *l = &lasts[s];
        if (l->any && l->run != t->run) {
            c->report->lanes_reused++;
            if (e->enqueued <= l->sequence && !c->report->text[0])
                snprintf(c->report->text, sizeof c->report->text,
                         "stream %u was run %u's when run %u got it", s, l->run,
                         t->run);
        }
        *l = (last){ t->run, e->sequence, true };
    }
    free(lasts);
}

static void describe(const check *c, const race_report *r)
{
    const account_tag *x = tag_of(c, r->races[0].first);
    const account_tag *y = tag_of(c, r->races[0].second);
    if (!r->n_races || !x || !y)
        snprintf(c->report->text, sizeof c->report->text, "%s", r->text);
    else
        snprintf(c->report->text, sizeof c->report->text,
                 "%s: run %u step %u (%s%s), run %u step %u (%s%s): %s",
                 r->races[0].kind, x->run, x->step, x->name,
                 x->kind == TAG_HOST ? ", host" : "", y->run, y->step, y->name,
                 y->kind == TAG_HOST ? ", host" : "", r->text);
}

bool account_check(const account *a, account_report *out)
{
    check c = { .a = a, .report = out, .n_queues = a->n_runs + 1 };
    race_report *races = must(1, sizeof *races);
    *out = (account_report){ 0 };
    c.n = a->emu->log_read(NULL, 0);
    c.log = must(c.n, sizeof *c.log);
    assert_int_equal(a->emu->log_read(c.log, c.n), c.n);
    sort_ranges(&c);
    find_points(&c);
    translate(&c);
    check_lanes(&c);
    if (!race_check(&c.out, races))
        describe(&c, races);
    out->races = races->n_races;
    bool clean = !out->text[0];
    race_log_free(&c.out);
    free(races);
    free(c.log);
    free(c.first);
    free(c.ranges);
    free(c.writes);
    free(c.run_of_point);
    return clean;
}

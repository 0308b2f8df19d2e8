/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/schedule_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct item {
    race_kind kind;
    uint32_t id; /* step or record */
    uint64_t issue;
};

struct queue {
    struct item *items;
    uint32_t head, tail;
    bool busy; /* with the launch at its head */
};

struct sim {
    schedule_run *run;
    const qn_schedule *s;
    const qn_schedule_problem *p;
    struct queue *queues;
    bool *reached; /* by record */
    bool *runs;    /* by step: is it on the path? */
    uint64_t now, issues;
    size_t *own;      /* offsets where none are given */
    uint32_t *bytes;  /* who wrote a byte, step + 1; all spaces, one behind
                         the other */
    size_t n_spaces, space_bytes;
    /* the issuing thread */
    uint32_t at, next_wait;
    enum { ARRIVES, WAITS, STARTS, RUNS, ENDS, DONE } phase;
};

static void *get(size_t n, size_t size)
{
    void *p = calloc(n + 1, size);
    if (!p)
        fail_msg("no memory for %zu x %zu bytes", n, size);
    return p;
}

static void logged(bool ok)
{
    if (!ok)
        fail_msg("no memory for the log");
}

static race_range range_of(const struct sim *m, uint32_t b)
{
    const qn_schedule_buffer *x = &m->run->problem->buffers[b];
    size_t at = m->run->offsets ? m->run->offsets[b] : m->own[b];
    return (race_range){ x->space, at, at + x->bytes };
}

static uint32_t *bytes_of(const struct sim *m, uint32_t b)
{
    race_range r = range_of(m, b);
    return m->bytes + r.space * m->space_bytes + r.begin;
}

static bool holds(const struct sim *m, uint32_t b)
{
    const uint32_t *at = bytes_of(m, b);
    for (size_t k = 0; k < m->run->problem->buffers[b].bytes; k++)
        if (at[k] != b + 1)
            return false;
    return true;
}

static bool writes(const struct sim *m, uint32_t i)
{
    return m->p->steps[i].flow == QN_FLOW_PLAIN;
}

static void look(struct sim *m, uint32_t i)
{
    for (uint32_t k = m->p->dep_start[i]; k < m->p->dep_start[i + 1]; k++) {
        uint32_t d = m->p->deps[k];
        if (m->runs[d])
            m->run->bad_bytes += !holds(m, d);
    }
}

static void begin(struct sim *m, uint32_t i, uint64_t issue)
{
    uint32_t n = 0, from = m->p->dep_start[i], to = m->p->dep_start[i + 1];
    race_range *reads = get(to - from, sizeof *reads);
    race_range out = range_of(m, i);
    m->run->began[i] = ++m->now;
    for (uint32_t k = from; k < to; k++) {
        uint32_t d = m->p->deps[k];
        if (!m->runs[d])
            continue; /* in a branch that is not taken */
        m->run->bad_edges += !m->run->ended[d];
        reads[n++] = range_of(m, d);
    }
    logged(race_log_launch(&m->run->log, m->s->queue[i], issue, i, reads, n,
                           &out, writes(m, i)));
    free(reads);
    look(m, i);
    for (size_t k = 0; writes(m, i) && k < out.end - out.begin; k++)
        bytes_of(m, i)[k] = i + 1;
}

static void finish(struct sim *m, uint32_t i)
{
    look(m, i);
    if (writes(m, i))
        m->run->bad_bytes += !holds(m, i);
    m->run->ended[i] = ++m->now;
}

static bool move_queue(struct sim *m, uint32_t q)
{
    struct queue *x = &m->queues[q];
    const struct item *item = &x->items[x->head];
    if (x->head == x->tail)
        return false;
    if (item->kind == RACE_LAUNCH) {
        if (!x->busy)
            begin(m, item->id, item->issue);
        else
            finish(m, item->id);
        x->busy = !x->busy;
        x->head += !x->busy;
        return true;
    }
    if (item->kind == RACE_WAIT && !m->reached[item->id])
        return false;
    if (item->kind == RACE_RECORD)
        m->reached[item->id] = true;
    logged(race_log_point(&m->run->log, item->kind, q, item->issue, item->id));
    x->head++;
    return true;
}

/* ---- the issuing thread, as schedule.h says ---- */

static void give(struct sim *m, uint32_t q, race_kind kind, uint32_t id)
{
    struct item item = { .kind = kind, .id = id };
    if (m->s->host_issues) {
        item.issue = ++m->issues;
        logged(race_log_point(&m->run->log, RACE_ISSUE, 0, 0, item.issue));
    }
    m->queues[q].items[m->queues[q].tail++] = item;
}

static bool host_wait(struct sim *m, uint32_t queue, uint32_t record)
{
    if (!m->reached[record])
        return false;
    logged(race_log_point(&m->run->log, RACE_WAIT, queue, 0, record));
    return true;
}

static void go_on(struct sim *m)
{
    m->at++;
    while (m->at < m->s->n && !m->runs[m->at])
        m->at++;
    m->phase = ARRIVES;
}

static bool move_to_end(struct sim *m)
{
    const qn_schedule *s = m->s;
    uint32_t queue = s->host_issues ? 0 : s->n_queues;
    if (m->next_wait < s->n_join) {
        if (!host_wait(m, queue, s->join[m->next_wait]))
            return false;
        m->next_wait++;
        return true;
    }
    for (uint32_t i = 0; i < s->n; i++)
        m->run->early |= m->run->began[i] && !m->run->ended[i];
    for (uint32_t q = 0; q < s->n_queues; q++) /* what it never began */
        for (uint32_t k = m->queues[q].head; k < m->queues[q].tail; k++)
            m->run->early |= m->queues[q].items[k].kind == RACE_LAUNCH;
    race_range *all = get(m->n_spaces, sizeof *all);
    for (uint32_t k = 0; k < m->n_spaces; k++)
        all[k] = (race_range){ k, 0, m->space_bytes };
    logged(race_log_launch(&m->run->log, queue, 0, s->n, NULL, 0, all,
                           m->n_spaces));
    free(all);
    m->phase = DONE;
    return true;
}

static bool move_host(struct sim *m)
{
    const qn_schedule *s = m->s;
    uint32_t i = m->at, q = i < s->n ? s->queue[i] : 0;
    bool here = s->host_issues && q == 0;
    switch (m->phase) {
    case ARRIVES:
        for (uint32_t r = s->record_start[i]; r < s->record_start[i + 1]; r++)
            give(m, s->records[r].queue, RACE_RECORD, r);
        m->next_wait = i < s->n ? s->wait_start[i] : 0;
        m->phase = i < s->n ? WAITS : ENDS;
        return true;
    case WAITS:
        if (m->next_wait == s->wait_start[i + 1]) {
            m->phase = STARTS;
            return true;
        }
        if (!here)
            give(m, q, RACE_WAIT, s->waits[m->next_wait]);
        else if (!host_wait(m, 0, s->waits[m->next_wait]))
            return false;
        m->next_wait++;
        return true;
    case STARTS:
        if (here) {
            begin(m, i, 0);
            m->phase = RUNS;
        } else {
            give(m, q, RACE_LAUNCH, i);
            go_on(m);
        }
        return true;
    case RUNS:
        finish(m, i);
        go_on(m);
        return true;
    case ENDS:
        return move_to_end(m);
    case DONE:
        break;
    }
    return false;
}

/* ---- the whole ---- */

static void find_path(struct sim *m)
{
    uint32_t jumps = 0, to = 0;
    for (uint32_t i = 0; i < m->p->n; i++) {
        const qn_schedule_step *step = &m->p->steps[i];
        bool jump = step->flow == QN_FLOW_JUMP;
        if (step->flow == QN_FLOW_JUMP_UNLESS)
            jump = m->run->path >> jumps++ % 64 & 1;
        m->runs[i] = i >= to;
        if (m->runs[i] && jump)
            to = step->target;
    }
}

static void lay_out_own(struct sim *m)
{
    const random_schedule *r = m->run->problem;
    size_t at = 0;
    for (uint32_t i = 0; i < r->p.n; i++) {
        m->own[i] = at;
        at += r->buffers[i].bytes;
        if (r->buffers[i].space >= m->n_spaces)
            m->n_spaces = r->buffers[i].space + 1;
    }
    m->space_bytes = 1;
    for (uint32_t i = 0; i < r->p.n; i++) {
        size_t end = range_of(m, i).end;
        m->space_bytes = end > m->space_bytes ? end : m->space_bytes;
    }
}

void schedule_run_do(schedule_run *run, uint32_t *seed)
{
    const qn_schedule *s = run->schedule;
    size_t n = s->n;
    struct sim m = { .run = run, .s = s, .p = &run->problem->p };
    run->began = get(n, sizeof *run->began);
    run->ended = get(n, sizeof *run->ended);
    m.reached = get(s->n_records, sizeof *m.reached);
    m.queues = get(s->n_queues, sizeof *m.queues);
    for (uint32_t q = 0; q < s->n_queues; q++)
        m.queues[q].items = get(n + s->n_records + s->wait_start[n],
                                sizeof *m.queues[q].items);
    m.own = get(n, sizeof *m.own);
    lay_out_own(&m);
    m.runs = get(n, sizeof *m.runs);
    find_path(&m);
    m.bytes = get(m.n_spaces * m.space_bytes, sizeof *m.bytes);
    for (bool moved = true; moved;) {
        uint32_t all = s->n_queues + 1, q = random_schedule_next(seed) % all;
        moved = false;
        for (uint32_t k = 0; k < all && !moved; k++, q = (q + 1) % all)
            moved = q == s->n_queues ? move_host(&m) : move_queue(&m, q);
    }
    run->stuck = m.phase != DONE;
    for (uint32_t q = 0; q < s->n_queues; q++) {
        run->stuck += m.queues[q].head != m.queues[q].tail;
        free(m.queues[q].items);
    }
    free(m.queues);
    free(m.reached);
    free(m.runs);
    free(m.own);
    free(m.bytes);
}

void schedule_run_release(schedule_run *run)
{
    race_log_free(&run->log);
    free(run->began);
    free(run->ended);
    run->began = run->ended = NULL;
}

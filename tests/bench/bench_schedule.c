/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What schedules cost and save:
 *
 *   bench_schedule [STEPS [JUMPS]]
 *
 * A made-up net of about STEPS steps, in cells like those of inception nets:
 * arms of one to four steps side by side, then one that joins them, which also
 * takes the cell before; a tenth of the steps communicates; with JUMPS every
 * tenth cell is a branch. One line for each number of queues.
 */
#include "runtime/plan/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint32_t next(uint32_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 17;
    *s ^= *s << 5;
    return *s;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

typedef struct net {
    qn_schedule_problem p;
    qn_schedule_step *steps;
    uint32_t *start, *deps, *uses;
    qn_schedule_buffer *buffers;
    qn_buffer *lives;
    size_t *offsets;
} net;

static uint32_t add_step(net *t, uint32_t class, uint32_t *seed)
{
    uint32_t i = t->p.n++;
    t->steps[i] = (qn_schedule_step){ .class = class,
                                      .cost = 5 + next(seed) % 30 };
    t->start[i + 1] = t->start[i];
    return i;
}

static void add_dep(net *t, uint32_t i, uint32_t d)
{
    t->deps[t->start[i + 1]++] = d;
}

static void make(net *t, uint32_t n, bool jumps)
{
    uint32_t seed = 1, before = UINT32_MAX, last = UINT32_MAX;
    for (uint32_t cell = 0; t->p.n + 20 < n; cell++) {
        uint32_t ends[4], arms = 1 + next(&seed) % 4, jump = UINT32_MAX;
        if (jumps && cell % 10 == 9)
            jump = add_step(t, 0, &seed);
        for (uint32_t a = 0; a < arms; a++) {
            uint32_t len = 1 + next(&seed) % 4, from = last;
            for (uint32_t k = 0; k < len; k++) {
                uint32_t i = add_step(t, next(&seed) % 10 ? 1 : 2, &seed);
                if (from != UINT32_MAX)
                    add_dep(t, i, from);
                from = i;
            }
            ends[a] = from;
        }
        uint32_t i = add_step(t, 1, &seed);
        if (jump != UINT32_MAX) {
            t->steps[jump].flow = QN_FLOW_JUMP_UNLESS;
            t->steps[jump].target = i;
        }
        for (uint32_t a = 0; a < arms; a++)
            add_dep(t, i, ends[a]);
        if (before != UINT32_MAX)
            add_dep(t, i, before);
        before = last;
        last = i;
    }
}

static void add_use(net *t, uint32_t b, uint32_t *at, uint32_t step)
{
    t->uses[at[b]++] = step;
    t->buffers[b].n_uses++;
    if (t->lives[b].upper < step + 1)
        t->lives[b].upper = step + 1;
}

static bool make_buffers(net *t)
{
    uint32_t n = t->p.n, seed = 3;
    uint32_t *at = calloc(n + 2, sizeof *at);
    if (!at)
        return false;
    for (uint32_t k = 0; k < t->start[n]; k++)
        at[t->deps[k] + 1]++;
    for (uint32_t i = 0; i < n; i++) {
        at[i + 1] += at[i] + 1;
        t->buffers[i].uses = t->uses + at[i];
        t->buffers[i].bytes = 64 * (1 + next(&seed) % 100);
        if (!t->steps[i].class) { /* a jump */
            t->buffers[i].space = 1;
            t->buffers[i].bytes = 0;
        }
        t->lives[i] = (qn_buffer){ .lower = i, .group = -1,
                                   .bytes = t->buffers[i].bytes };
    }
    for (uint32_t i = 0; i < n; i++) {
        add_use(t, i, at, i);
        for (uint32_t k = t->start[i]; k < t->start[i + 1]; k++)
            add_use(t, t->deps[k], at, i);
    }
    free(at);
    return true;
}

static qn_status bench(net *t, uint32_t queues, qn_error *err)
{
    const qn_schedule_options o = { .queues = queues, .host_issues = true,
                                    .wait_cost = 2, .launch_cost = 1 };
    qn_region region = { 0 };
    qn_schedule s;
    qn_conflicts c;
    qn_layout_stats stats;
    uint64_t span = 0;
    double a = now_ms(), b = 0, d = 0, e = 0, f = 0;
    qn_status st = qn_schedule_build(&t->p, &o, &region, &s, err);
    b = now_ms();
    if (st == QN_OK)
        st = qn_schedule_conflicts(&s, t->buffers, t->p.n, &region, &c, err);
    d = now_ms();
    if (st == QN_OK)
        st = qn_layout_solve(t->lives, t->p.n, &c, NULL, t->offsets, &stats,
                             err);
    e = now_ms();
    if (st == QN_OK)
        st = qn_schedule_verify(&t->p, &s, t->buffers, t->p.n, t->offsets, err);
    f = now_ms();
    if (st == QN_OK)
        st = qn_schedule_makespan(&t->p, &o, &s, &span, err);
    if (st == QN_OK)
        printf("%u queues: makespan %.3f of total, critical %.3f; waits %u of "
               "%u, records %u; chains %u; pairs %zu, peak %zu\n"
               "  ms: build %.1f, conflicts %.1f, layout %.1f, verify %.1f\n",
               queues, (double)span / (double)s.stats.total,
               (double)s.stats.critical / (double)s.stats.total, s.stats.waits,
               s.stats.naive, s.n_records, s.n_chains, c.start[t->p.n] / 2,
               stats.peak, b - a, d - b, e - d, f - e);
    qn_region_release(&region);
    return st;
}

int main(int argc, char **argv)
{
    long want = argc > 1 ? strtol(argv[1], NULL, 10) : 20000;
    size_t n = want > 20 && want < 10000000 ? (size_t)want : 20000;
    net t = { .steps = calloc(n + 1, sizeof *t.steps),
              .start = calloc(n + 2, sizeof *t.start),
              .deps = calloc(4 * n, sizeof *t.deps),
              .uses = calloc(5 * n, sizeof *t.uses),
              .buffers = calloc(n + 1, sizeof *t.buffers),
              .lives = calloc(n + 1, sizeof *t.lives),
              .offsets = calloc(n + 1, sizeof *t.offsets) };
    qn_error err = { 0 };
    qn_status st = QN_OK;
    if (!t.steps || !t.start || !t.deps || !t.uses || !t.buffers || !t.lives ||
        !t.offsets)
        return 1;
    make(&t, (uint32_t)n, argc > 2);
    t.p = (qn_schedule_problem){ .n = t.p.n, .steps = t.steps,
                                 .dep_start = t.start, .deps = t.deps,
                                 .n_compute = 1, .n_comm = 1 };
    if (!make_buffers(&t))
        return 1;
    printf("%u steps, %u edges\n", t.p.n, t.start[t.p.n]);
    for (uint32_t q = 1; q <= QN_SCHEDULE_MAX_PER_CLASS && st == QN_OK; q *= 2)
        st = bench(&t, q, &err);
    if (st != QN_OK)
        fprintf(stderr, "%s\n", err.text);
    free(t.steps);
    free(t.start);
    free(t.deps);
    free(t.uses);
    free(t.buffers);
    free(t.lives);
    free(t.offsets);
    return st != QN_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

uint32_t random_schedule_next(uint32_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 17;
    *s ^= *s << 5;
    return *s;
}

static bool percent(uint32_t *seed, uint32_t of_100)
{
    return random_schedule_next(seed) % 100 < of_100;
}

/* Fill [from, to) with branches that nest: jump_unless, then, jump, else. */
static void make_flow(random_schedule *s, uint32_t from, uint32_t to,
                      const random_schedule_shape *shape, uint32_t *seed)
{
    for (uint32_t i = from; i + 6 < to; i++) {
        if (!percent(seed, shape->branches))
            continue;
        uint32_t len = 4 + random_schedule_next(seed) % (to - i - 5);
        uint32_t end = i + len, mid = i + 2 + random_schedule_next(seed) %
                                              (len - 2);
        s->steps[i].flow = QN_FLOW_JUMP_UNLESS;
        if (percent(seed, 60)) {
            s->steps[i].target = mid;
            s->steps[mid - 1].flow = QN_FLOW_JUMP;
            s->steps[mid - 1].target = end;
            make_flow(s, i + 1, mid - 1, shape, seed);
            make_flow(s, mid, end, shape, seed);
        } else {
            s->steps[i].target = end;
            make_flow(s, i + 1, end, shape, seed);
        }
        i = end - 1;
    }
}

/* Is there a path from a to b? */
static bool leads(const random_schedule *s, uint32_t a, uint32_t b, bool *at)
{
    memset(at, 0, (b + 1) * sizeof *at);
    at[a] = true;
    for (uint32_t i = a; i < b; i++) {
        if (!at[i])
            continue;
        if (s->steps[i].flow != QN_FLOW_PLAIN && s->steps[i].target <= b)
            at[s->steps[i].target] = true;
        if (s->steps[i].flow != QN_FLOW_JUMP)
            at[i + 1] = true;
    }
    return at[b];
}

static void make_steps(random_schedule *s, const random_schedule_shape *shape,
                       uint32_t *seed)
{
    for (uint32_t i = 0; i < shape->n; i++) {
        qn_schedule_step *step = &s->steps[i];
        step->cost = 1 + random_schedule_next(seed) % 100;
        if (step->flow != QN_FLOW_PLAIN || percent(seed, shape->host) ||
            !(shape->n_compute + shape->n_comm))
            step->class = 0;
        else if (shape->n_comm && percent(seed, shape->comm))
            step->class = 1 + shape->n_compute +
                          random_schedule_next(seed) % shape->n_comm;
        else if (shape->n_compute)
            step->class = 1 + random_schedule_next(seed) % shape->n_compute;
    }
}

static void make_deps(random_schedule *s, const random_schedule_shape *shape,
                      uint32_t *seed)
{
    bool *at = calloc(shape->n + 1, sizeof *at);
    uint32_t n = 0;
    assert_non_null(at);
    for (uint32_t i = 0; i < shape->n; i++) {
        uint32_t want = random_schedule_next(seed) % (shape->fan_in + 1);
        s->dep_start[i] = n;
        for (uint32_t k = 0; k < want && i; k++) {
            uint32_t back = random_schedule_next(seed) % shape->reach + 1;
            uint32_t d = back > i ? random_schedule_next(seed) % i : i - back;
            if (s->steps[d].flow == QN_FLOW_PLAIN &&
                (!shape->branches || leads(s, d, i, at)))
                s->deps[n++] = d;
        }
        if (n > s->dep_start[i] && percent(seed, 10)) /* said twice */
            s->deps[n] = s->deps[n - 1], n++;
    }
    s->dep_start[shape->n] = n;
    free(at);
}

static void make_buffers(random_schedule *s, uint32_t *seed)
{
    uint32_t n = s->p.n, at = 0;
    uint32_t *count = calloc(n + 1, sizeof *count);
    assert_non_null(count);
    for (uint32_t i = 0; i < n; i++)
        count[i] = 1;
    for (uint32_t k = 0; k < s->dep_start[n]; k++)
        count[s->deps[k]]++;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t class = s->steps[i].class, space = class;
        if (class > s->p.n_compute) /* communicators work in device memory */
            space = s->p.n_compute ? 1 : 0;
        s->buffers[i] = (qn_schedule_buffer){
            .space = space, .uses = s->uses + at,
            .bytes = 1 + random_schedule_next(seed) % 1000 };
        at += count[i];
        if (s->steps[i].flow == QN_FLOW_PLAIN)
            s->uses[s->buffers[i].uses - s->uses + s->buffers[i].n_uses++] = i;
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = s->dep_start[i]; k < s->dep_start[i + 1]; k++) {
            qn_schedule_buffer *b = &s->buffers[s->deps[k]];
            s->uses[b->uses - s->uses + b->n_uses++] = i;
        }
    free(count);
}

void random_schedule_make(random_schedule *s,
                          const random_schedule_shape *shape, uint32_t *seed)
{
    size_t n = shape->n, edges = n * (shape->fan_in + 1u);
    memset(s, 0, sizeof *s);
    s->steps = calloc(n + 1, sizeof *s->steps);
    s->dep_start = calloc(n + 1, sizeof *s->dep_start);
    s->deps = calloc(edges + 1, sizeof *s->deps);
    s->buffers = calloc(n + 1, sizeof *s->buffers);
    s->uses = calloc(edges + n + 1, sizeof *s->uses);
    if (!s->steps || !s->dep_start || !s->deps || !s->buffers || !s->uses)
        fail_msg("no memory for %zu steps", n);
    s->p = (qn_schedule_problem){ .n = shape->n, .steps = s->steps,
                                  .dep_start = s->dep_start, .deps = s->deps,
                                  .n_compute = shape->n_compute,
                                  .n_comm = shape->n_comm };
    make_flow(s, 0, shape->n, shape, seed);
    make_steps(s, shape, seed);
    make_deps(s, shape, seed);
    make_buffers(s, seed);
}

void random_schedule_free(random_schedule *s)
{
    free(s->steps);
    free(s->dep_start);
    free(s->deps);
    free(s->buffers);
    free(s->uses);
    memset(s, 0, sizeof *s);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plan/streams.h"

#include "runtime/exec/trace.h"
#include "runtime/ops/op.h"

#include <string.h>

/*
 * Costs in nanoseconds, of a large card, for choosing queues only: what a launch
 * takes at least, bytes at 2 TB/s, products at 30 TFLOP/s, copies from and to
 * the host at 25 GB/s.
 */
enum {
    LAUNCH_NS = 2500,
    BYTES_PER_NS = 2000,
    FLOPS_PER_NS = 30000,
    HOST_BYTES_PER_NS = 25,
    WAIT_NS = 1500,
    ENQUEUE_NS = 2500,
    /* More streams have to save this much of the time, percent, and cost at most
     * an eighth of the memory. */
    MIN_GAIN = 10
};

/* ---- what depends on what ---- */

/* Steps that touched a root's memory, newest first. */
typedef struct touch {
    uint32_t step;
    bool writes;
    struct touch *older;
} touch;

typedef struct gather {
    qn_builder *b;
    touch **roots; /* [b->n_values] */
    uint32_t *deps;
    size_t n_deps, cap_deps;
    bool jumps;
} gather;

static qn_status add_dep(gather *g, uint32_t on)
{
    if (g->n_deps == g->cap_deps) {
        size_t cap = g->cap_deps ? 2 * g->cap_deps : 1024;
        uint32_t *grown = qn_realloc(g->deps, cap, sizeof *grown);
        if (!grown)
            return qn_build_no_memory(g->b);
        g->deps = grown;
        g->cap_deps = cap;
    }
    g->deps[g->n_deps++] = on;
    return QN_OK;
}

/* Constants and inputs are written before the run. */
static bool tracked(const qn_builder *b, uint32_t value, uint32_t *root)
{
    if (value == QN_NO_VALUE)
        return false;
    *root = qn_build_root(b, value);
    return b->values[*root].kind == QN_BV_STEP;
}

static qn_status after_all(gather *g, uint32_t value, bool writes)
{
    uint32_t r;
    qn_status st = QN_OK;
    if (!tracked(g->b, value, &r))
        return st;
    for (const touch *t = g->roots[r]; st == QN_OK && t; t = t->older)
        if (writes || t->writes)
            st = add_dep(g, t->step);
    return st;
}

static qn_status note_touch(gather *g, uint32_t value, uint32_t at, bool writes)
{
    uint32_t r;
    if (!tracked(g->b, value, &r))
        return QN_OK;
    touch *t = qn_region_alloc(&g->b->scratch, 1, sizeof *t);
    if (!t)
        return qn_build_no_memory(g->b);
    /* where there are branches an older writer may be the last one that ran */
    bool covers = writes && !g->jumps;
    *t = (touch){ at, writes, covers ? NULL : g->roots[r] };
    g->roots[r] = t;
    return QN_OK;
}

static qn_status touch_step(gather *g, const qn_bstep *s, uint32_t at)
{
    qn_status st = QN_OK;
    for (uint32_t k = 0; st == QN_OK && k < s->n_in; k++)
        st = note_touch(g, s->in[k], at, false);
    for (uint32_t k = 0; st == QN_OK && k < s->n_out; k++)
        st = note_touch(g, s->out[k], at, true);
    return st;
}

/* Inputs that the host reads before it can enqueue the step: not what a copy
 * takes to the device. */
static bool host_reads(const qn_builder *b, const qn_bstep *s, uint32_t k)
{
    return s->space && s->in[k] != QN_NO_VALUE &&
           b->values[s->in[k]].space == 0 &&
           !(s->kind == QN_STEP_COPY && k == 0);
}

static bool in_plan(const qn_bstep *s)
{
    return s->live && !s->gone;
}

static bool has_host_side(const qn_builder *b, const qn_bstep *s)
{
    uint32_t r;
    for (uint32_t k = 0; k < s->n_in; k++)
        if (host_reads(b, s, k) && tracked(b, s->in[k], &r))
            return true;
    return false;
}

/* ---- costs ---- */

static size_t bytes_of(const qn_builder *b, uint32_t value)
{
    return value == QN_NO_VALUE ? 0 : b->values[value].bytes;
}

/* Multiply-adds for one element of the output, where that is more than a few. */
static uint64_t depth_of(const qn_builder *b, const qn_bstep *s)
{
    const char *name = s->node ? s->node->op_name : "";
    if (s->n_in < 2 || s->in[0] == QN_NO_VALUE || s->in[1] == QN_NO_VALUE)
        return 0;
    const qn_shape *x = &b->values[s->in[0]].shape;
    const qn_shape *w = &b->values[s->in[1]].shape;
    if (!strcmp(name, "MatMul") || !strcmp(name, "Gemm"))
        return x->rank > 0 ? (uint64_t)x->dims[x->rank - 1] : 0;
    if (strcmp(name, "Conv") != 0 || w->rank < 3)
        return 0;
    uint64_t k = 1;
    for (int i = 1; i < w->rank; i++)
        k *= (uint64_t)w->dims[i];
    return k;
}

static uint64_t cost_of(const qn_builder *b, const qn_bstep *s)
{
    uint64_t bytes = 0, out = 0;
    for (uint32_t k = 0; k < s->n_in; k++)
        bytes += bytes_of(b, s->in[k]);
    for (uint32_t k = 0; k < s->n_out; k++)
        out += bytes_of(b, s->out[k]);
    if (s->kind == QN_STEP_COPY)
        return LAUNCH_NS + out / HOST_BYTES_PER_NS;
    return LAUNCH_NS + (bytes + out) / BYTES_PER_NS +
           out / 4 * depth_of(b, s) * 2 / FLOPS_PER_NS;
}

/* ---- the problem ---- */

static bool is_collective(const qn_bstep *s)
{
    return s->node && (s->node->op->flags & QN_OP_COLLECTIVE);
}

static uint32_t class_of(const qn_builder *b, const qn_bstep *s)
{
    uint32_t devices = b->session->memory.n_spaces - 1;
    if (is_collective(s) && (s->space || !devices))
        return devices + 1;
    return s->space;
}

static qn_flow flow_of(const qn_bstep *s)
{
    return s->kind == QN_STEP_JUMP          ? QN_FLOW_JUMP
           : s->kind == QN_STEP_JUMP_UNLESS ? QN_FLOW_JUMP_UNLESS
                                            : QN_FLOW_PLAIN;
}

/* Places of steps in the problem; a jump's target may be a step that is gone, so
 * places[] is set for all, to that of the next one that is there. */
static uint32_t number(qn_builder *b, qn_streams *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->n_steps; i++) {
        bool there = in_plan(&b->steps[i]);
        s->host_side[i] = there && has_host_side(b, &b->steps[i]);
        n += s->host_side[i];
        s->place[i] = n;
        n += there;
    }
    s->place[b->n_steps] = n;
    return n;
}

/* Where a jump to step i arrives. */
static uint32_t arrival(const qn_builder *b, const qn_streams *s, uint32_t i)
{
    while (i < b->n_steps && !in_plan(&b->steps[i]))
        i++;
    return s->place[i] - (i < b->n_steps && s->host_side[i]);
}

static qn_status fill_step(gather *g, qn_streams *s, qn_schedule_step *steps,
                           uint32_t *start, uint32_t i)
{
    qn_builder *b = g->b;
    const qn_bstep *step = &b->steps[i];
    uint32_t at = s->place[i];
    qn_status st = QN_OK;
    if (s->host_side[i]) {
        steps[at - 1] = (qn_schedule_step){ .name = "host side" };
        s->order[at - 1] = i;
        start[at - 1] = (uint32_t)g->n_deps;
        for (uint32_t k = 0; st == QN_OK && k < step->n_in; k++)
            if (host_reads(b, step, k))
                st = after_all(g, step->in[k], false);
        for (uint32_t k = 0; st == QN_OK && k < step->n_in; k++)
            if (host_reads(b, step, k))
                st = note_touch(g, step->in[k], at - 1, false);
    }
    steps[at] = (qn_schedule_step){
        .class = class_of(b, step), .flow = flow_of(step),
        .target = step->kind == QN_STEP_JUMP || step->kind == QN_STEP_JUMP_UNLESS
                      ? arrival(b, s, step->target) : 0,
        .cost = cost_of(b, step),
        .name = step->node ? step->node->op_name : "copy" };
    s->order[at] = i;
    start[at] = (uint32_t)g->n_deps;
    for (uint32_t k = 0; st == QN_OK && k < step->n_in; k++)
        st = after_all(g, step->in[k], false);
    for (uint32_t k = 0; st == QN_OK && k < step->n_out; k++)
        st = after_all(g, step->out[k], true);
    return st == QN_OK ? touch_step(g, step, at) : st;
}

static qn_status make_problem(qn_builder *b, qn_streams *s)
{
    gather g = { .b = b };
    uint32_t n = number(b, s);
    qn_schedule_step *steps = qn_region_alloc(&b->scratch, n + 1u, sizeof *steps);
    uint32_t *start = qn_region_alloc(&b->scratch, n + 2u, sizeof *start);
    s->order = qn_region_alloc(&b->scratch, n + 1u, sizeof *s->order);
    g.roots = qn_region_alloc(&b->scratch, b->n_values + 1u, sizeof(touch *));
    qn_status st = steps && start && s->order && g.roots
                       ? QN_OK : qn_build_no_memory(b);
    for (uint32_t i = 0; i < b->n_steps; i++)
        g.jumps |= in_plan(&b->steps[i]) && flow_of(&b->steps[i]) != QN_FLOW_PLAIN;
    for (uint32_t i = 0; st == QN_OK && i < b->n_steps; i++)
        if (in_plan(&b->steps[i]))
            st = fill_step(&g, s, steps, start, i);
    uint32_t *deps = NULL;
    if (st == QN_OK) {
        start[n] = (uint32_t)g.n_deps;
        deps = qn_region_alloc(&b->scratch, g.n_deps + 1, sizeof *deps);
        st = deps ? QN_OK : qn_build_no_memory(b);
    }
    if (st == QN_OK && g.n_deps)
        memcpy(deps, g.deps, g.n_deps * sizeof *deps);
    qn_free(g.deps);
    s->problem = (qn_schedule_problem){
        .n = n, .steps = steps, .dep_start = start, .deps = deps,
        .n_compute = b->session->memory.n_spaces - 1, .n_comm = 1 };
    return st;
}

/* On the cpu a run has one table of arguments and one heap for each queue only
 * where nothing is worked out while it runs. */
static bool host_may_split(const qn_builder *b)
{
    for (uint32_t i = 0; i < b->n_steps; i++) {
        const qn_bstep *s = &b->steps[i];
        if (in_plan(s) && (s->dynamic || flow_of(s) != QN_FLOW_PLAIN))
            return false;
        for (uint32_t k = 0; in_plan(s) && k < s->n_out; k++)
            if (s->out[k] != QN_NO_VALUE &&
                b->values[s->out[k]].dtype == QN_STRING)
                return false;
    }
    return true;
}

static bool has_collective(const qn_builder *b)
{
    for (uint32_t i = 0; i < b->n_steps; i++)
        if (in_plan(&b->steps[i]) && is_collective(&b->steps[i]))
            return true;
    return false;
}

static uint32_t most_queues(uint32_t wanted)
{
    return wanted > QN_SCHEDULE_MAX_PER_CLASS ? QN_SCHEDULE_MAX_PER_CLASS
                                              : wanted;
}

static qn_status solve(qn_builder *b, qn_streams *s, uint32_t queues,
                       bool choose)
{
    qn_schedule_options o = { .queues = queues,
                              .host_issues = b->session->memory.n_spaces > 1,
                              .wait_cost = WAIT_NS,
                              .launch_cost = ENQUEUE_NS };
    uint64_t makespan[2];
    return choose ? qn_schedule_choose(&s->problem, &o, MIN_GAIN, &b->scratch,
                                       &s->schedule, makespan, b->err)
                  : qn_schedule_build(&s->problem, &o, &b->scratch, &s->schedule,
                                      b->err);
}

qn_status qn_build_streams(qn_builder *b)
{
    bool accelerated = b->session->memory.n_spaces > 1;
    uint32_t wanted = b->session->options.streams;
    b->streams = NULL;
    if (!accelerated && ((wanted <= 1 && !has_collective(b)) ||
                         !host_may_split(b)))
        return QN_OK;
    qn_streams *s = qn_region_alloc(&b->scratch, 1, sizeof *s);
    if (!s)
        return qn_build_no_memory(b);
    s->place = qn_region_alloc(&b->scratch, b->n_steps + 1u, sizeof *s->place);
    s->host_side = qn_region_alloc(&b->scratch, b->n_steps + 1u, sizeof(bool));
    if (!s->place || !s->host_side)
        return qn_build_no_memory(b);
    qn_status st = make_problem(b, s);
    if (st == QN_OK)
        st = solve(b, s, wanted ? most_queues(wanted)
                                : accelerated ? QN_SCHEDULE_MAX_PER_CLASS : 1,
                   !wanted);
    b->streams = s;
    return st;
}

qn_status qn_build_fewer_streams(qn_builder *b)
{
    return solve(b, b->streams, 1, false);
}

bool qn_streams_several(const qn_builder *b)
{
    const qn_schedule *s = &b->streams->schedule;
    for (uint32_t q = 1; q < s->n_queues; q++)
        if (s->queue_class[q] && s->queue_class[q] == s->queue_class[q - 1])
            return true;
    return false;
}

/* ---- who may share ---- */

/* Uses of each buffer, from the steps' values. */
typedef struct uses {
    qn_schedule_buffer *buffers; /* [places->n] */
    uint32_t *lists;
} uses;

/* The buffer of a value or of step i's workspace; NONE if it has none. */
static uint32_t *owners_index(qn_builder *b, const qn_places *p)
{
    size_t n = (size_t)b->n_values + b->n_steps + 1;
    uint32_t *index = qn_region_alloc(&b->scratch, n, sizeof *index);
    if (!index)
        return NULL;
    memset(index, 0xff, n * sizeof *index);
    for (size_t i = 0; i < p->n; i++)
        index[p->owners[i]] = (uint32_t)i;
    return index;
}

typedef void (*visit_fn)(uses *u, uint32_t buffer, uint32_t at);

static void count_use(uses *u, uint32_t buffer, uint32_t at)
{
    (void)at;
    u->buffers[buffer].n_uses++;
}

static void list_use(uses *u, uint32_t buffer, uint32_t at)
{
    qn_schedule_buffer *x = &u->buffers[buffer];
    u->lists[(size_t)(x->uses - u->lists) + x->n_uses++] = at;
}

static void visit_value(const qn_builder *b, const uint32_t *index, uses *u,
                        uint32_t value, uint32_t at, visit_fn fn)
{
    if (value == QN_NO_VALUE)
        return;
    uint32_t buffer = index[qn_build_root(b, value)];
    if (buffer != UINT32_MAX)
        fn(u, buffer, at);
}

static void visit_uses(const qn_builder *b, const uint32_t *index, uses *u,
                       visit_fn fn)
{
    const qn_streams *s = b->streams;
    for (uint32_t i = 0; i < b->n_steps; i++) {
        const qn_bstep *step = &b->steps[i];
        if (!in_plan(step))
            continue;
        for (uint32_t k = 0; k < step->n_in; k++) {
            visit_value(b, index, u, step->in[k], s->place[i], fn);
            if (s->host_side[i] && host_reads(b, step, k))
                visit_value(b, index, u, step->in[k], s->place[i] - 1, fn);
        }
        for (uint32_t k = 0; k < step->n_out; k++)
            visit_value(b, index, u, step->out[k], s->place[i], fn);
        if (index[b->n_values + i] != UINT32_MAX)
            fn(u, index[b->n_values + i], s->place[i]);
    }
}

static qn_status find_uses(qn_builder *b, const qn_places *p, uses *u)
{
    uint32_t *index = owners_index(b, p);
    u->buffers = qn_region_alloc(&b->scratch, p->n + 1, sizeof *u->buffers);
    if (!index || !u->buffers)
        return qn_build_no_memory(b);
    visit_uses(b, index, u, count_use);
    size_t total = 0;
    for (size_t i = 0; i < p->n; i++)
        total += u->buffers[i].n_uses;
    u->lists = qn_region_alloc(&b->scratch, total + 1, sizeof *u->lists);
    if (!u->lists)
        return qn_build_no_memory(b);
    total = 0;
    for (size_t i = 0; i < p->n; i++) {
        bool work = p->owners[i] >= b->n_values;
        uint32_t n = u->buffers[i].n_uses;
        u->buffers[i] = (qn_schedule_buffer){
            .uses = u->lists + total, .bytes = p->buffers[i].bytes,
            .name = work ? "workspace" : b->values[p->owners[i]].name };
        total += n;
    }
    visit_uses(b, index, u, list_use);
    return QN_OK;
}

/* Does one queue alone touch the space's buffers? Then list order is all. */
static bool one_queue(const qn_builder *b, const uses *u, const qn_places *p,
                      uint8_t space)
{
    const qn_schedule *s = &b->streams->schedule;
    uint32_t queue = UINT32_MAX;
    for (size_t i = p->start[space]; i < p->start[space + 1]; i++)
        for (uint32_t k = 0; k < u->buffers[i].n_uses; k++) {
            uint32_t q = s->queue[u->buffers[i].uses[k]];
            if (queue != UINT32_MAX && q != queue)
                return false;
            queue = q;
        }
    return true;
}

qn_status qn_build_conflicts(qn_builder *b, const qn_places *p, uint8_t space,
                             const qn_conflicts **out)
{
    uses u = { 0 };
    *out = NULL;
    if (!b->streams)
        return QN_OK;
    qn_status st = find_uses(b, p, &u);
    if (st != QN_OK || one_queue(b, &u, p, space))
        return st;
    qn_conflicts *c = qn_region_alloc(&b->scratch, 1, sizeof *c);
    if (!c)
        return qn_build_no_memory(b);
    *out = c;
    return qn_schedule_conflicts(&b->streams->schedule,
                                 u.buffers + p->start[space],
                                 p->start[space + 1] - p->start[space],
                                 &b->scratch, c, b->err);
}

qn_status qn_build_check_streams(qn_builder *b, const qn_places *p)
{
    uses u = { 0 };
    if (!b->streams)
        return QN_OK;
    qn_status st = find_uses(b, p, &u);
    for (uint8_t space = 0; space < b->session->memory.n_spaces; space++)
        for (size_t i = p->start[space]; st == QN_OK && i < p->start[space + 1];
             i++)
            u.buffers[i].space = space;
    if (st == QN_OK)
        st = qn_schedule_verify(&b->streams->problem, &b->streams->schedule,
                                u.buffers, p->n, p->offsets, b->err);
    const qn_trace *t = b->session->options.trace;
    if (st == QN_OK && t && t->planned)
        t->planned(t->arg, &b->streams->problem, &b->streams->schedule,
                   u.buffers, p->n, p->offsets);
    return st;
}

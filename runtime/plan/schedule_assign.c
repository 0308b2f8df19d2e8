/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which queue runs which step. Steps are looked at in list order, because that
 * is the order in which queues are filled; each goes where the costs say that
 * it starts first. What makes chains of it: a step prefers the queue whose last
 * step it follows, and leaves that place to the *heir*, the follower with the
 * longest way to go.
 */
#include "runtime/plan/schedule_impl.h"

#include <string.h>

/* One class and the queues that it may have. */
struct lanes {
    uint32_t first, most, used;
};

struct assign {
    const qn_schedule_problem *p;
    const qn_schedule_options *o;
    struct lanes *lanes;  /* by class */
    uint32_t *queue;      /* [n] before unused ones are dropped */
    uint64_t *way;        /* [n] cost from the step's start to the end */
    uint32_t *heir;       /* [n] UINT32_MAX: none */
    uint64_t *end;        /* [n] estimated */
    uint64_t *free_at;    /* by queue */
    uint32_t *last;       /* by queue, UINT32_MAX: none */
    uint64_t host;        /* how far the issuing thread is */
};

static void find_heirs(struct assign *a)
{
    const qn_schedule_problem *p = a->p;
    for (uint32_t i = 0; i < p->n; i++)
        a->heir[i] = UINT32_MAX;
    for (uint32_t i = p->n; i-- > 0;) {
        a->way[i] = qn_cost_add(a->way[i], p->steps[i].cost);
        for (uint32_t k = p->dep_start[i]; k < p->dep_start[i + 1]; k++) {
            uint32_t d = p->deps[k];
            uint32_t h = a->heir[d];
            if (a->way[i] > a->way[d])
                a->way[d] = a->way[i];
            if (p->steps[d].class == p->steps[i].class &&
                (h == UINT32_MAX || a->way[i] >= a->way[h]))
                a->heir[d] = i; /* i falls, so ties go to the lowest */
        }
    }
}

struct choice {
    uint64_t start;
    bool displaces; /* an heir that is still to come */
    bool breaks;    /* does not follow the queue's last step */
};

static bool better(const struct choice *x, const struct choice *y)
{
    if (x->start != y->start)
        return x->start < y->start;
    if (x->displaces != y->displaces)
        return !x->displaces;
    return !x->breaks && y->breaks;
}

static struct choice look_at(const struct assign *a, uint32_t i, uint32_t q)
{
    const qn_schedule_problem *p = a->p;
    struct choice c = { .start = a->free_at[q], .breaks = true };
    uint32_t last = a->last[q];
    if (c.start < a->host)
        c.start = a->host;
    for (uint32_t k = p->dep_start[i]; k < p->dep_start[i + 1]; k++) {
        uint32_t d = p->deps[k];
        uint64_t at = a->end[d];
        bool issued = a->o->host_issues && !p->steps[d].class;
        if (a->queue[d] != q && !issued)
            at = qn_cost_add(at, a->o->wait_cost);
        if (at > c.start)
            c.start = at;
        if (d == last)
            c.breaks = false;
    }
    if (last != UINT32_MAX && a->heir[last] != UINT32_MAX &&
        a->heir[last] > i) {
        /* then it, not this one, would pay for the change of queue */
        c.displaces = true;
        c.start = qn_cost_add(c.start, a->o->wait_cost);
    }
    return c;
}

static void assign_step(struct assign *a, uint32_t i)
{
    const qn_schedule_step *step = &a->p->steps[i];
    struct lanes *l = &a->lanes[step->class];
    /* queues without a step are all alike: look at one of them */
    uint32_t n = l->used < l->most ? l->used + 1 : l->most, best = l->first;
    bool device = a->o->host_issues && step->class;
    if (device)
        a->host = qn_cost_add(a->host, a->o->launch_cost);
    struct choice c = look_at(a, i, best);
    for (uint32_t q = l->first + 1; q < l->first + n; q++) {
        struct choice other = look_at(a, i, q);
        if (better(&other, &c)) {
            c = other;
            best = q;
        }
    }
    if (c.displaces) /* that was a preference, not time */
        c.start -= a->o->wait_cost;
    if (best - l->first == l->used)
        l->used++;
    a->queue[i] = best;
    a->last[best] = i;
    a->end[i] = a->free_at[best] = qn_cost_add(c.start, step->cost);
    if (a->o->host_issues && !device)
        a->host = a->end[i];
}

/* Number the classes' queues. Returns how many there may be, or 0: too many. */
static uint32_t make_lanes(struct assign *a)
{
    const qn_schedule_problem *p = a->p;
    uint32_t n = 0, n_classes = 1 + p->n_compute + p->n_comm;
    for (uint32_t i = 0; i < p->n; i++)
        a->lanes[p->steps[i].class].most = 1;
    if (a->o->host_issues)
        a->lanes[0].most = 1;
    for (uint32_t c = 0; c < n_classes; c++) {
        struct lanes *l = &a->lanes[c];
        if (l->most && c <= p->n_compute && (c || !a->o->host_issues))
            l->most = a->o->queues;
        l->first = n;
        n += l->most;
        if (n > QN_SCHEDULE_MAX_QUEUES)
            return 0;
    }
    return n ? n : 1;
}

/* Everything on queue 0, which is the host's. */
static qn_status assign_single(const qn_schedule_problem *p, qn_region *region,
                               qn_schedule *out, qn_error *err)
{
    out->n_queues = 1;
    out->queue = qn_region_alloc(region, (size_t)p->n + 1, sizeof *out->queue);
    out->queue_class = qn_region_alloc(region, 1, sizeof *out->queue_class);
    if (!out->queue || !out->queue_class)
        return qn_fail(err, QN_NO_MEMORY, "no memory to schedule %u steps",
                       p->n);
    return QN_OK;
}

/* Leave out queues without a step and write the result. */
static qn_status finish(struct assign *a, qn_region *region, qn_schedule *out,
                        qn_error *err)
{
    const qn_schedule_problem *p = a->p;
    uint32_t map[QN_SCHEDULE_MAX_QUEUES] = { 0 };
    uint32_t class[QN_SCHEDULE_MAX_QUEUES] = { 0 };
    uint32_t n = 0;
    if (a->o->host_issues && !a->lanes[0].used)
        a->lanes[0].used = 1;
    for (uint32_t c = 0; c < 1 + p->n_compute + p->n_comm; c++)
        for (uint32_t k = 0; k < a->lanes[c].used; k++) {
            map[a->lanes[c].first + k] = n;
            class[n++] = c;
        }
    uint32_t *queue = qn_region_alloc(region, (size_t)p->n + 1, sizeof *queue);
    uint32_t *classes = qn_region_alloc(region, (size_t)n + 1, sizeof *classes);
    if (!queue || !classes)
        return qn_fail(err, QN_NO_MEMORY, "no memory to schedule %u steps",
                       p->n);
    for (uint32_t i = 0; i < p->n; i++)
        queue[i] = map[a->queue[i]];
    memcpy(classes, class, n * sizeof *classes);
    out->n_queues = n;
    out->queue = queue;
    out->queue_class = classes;
    return QN_OK;
}

qn_status qn_schedule_assign(const qn_schedule_problem *p,
                             const qn_schedule_options *o, qn_region *region,
                             qn_schedule *out, qn_error *err)
{
    if (qn_schedule_is_single(p, o))
        return assign_single(p, region, out, err);
    qn_region tmp = { 0 };
    size_t n = (size_t)p->n + 1;
    uint64_t free_at[QN_SCHEDULE_MAX_QUEUES] = { 0 };
    uint32_t last[QN_SCHEDULE_MAX_QUEUES];
    struct assign a = { .p = p, .o = o, .free_at = free_at, .last = last };
    qn_status st = QN_OK;
    memset(last, 0xff, sizeof last);
    a.lanes = qn_region_alloc(&tmp, (size_t)1 + p->n_compute + p->n_comm,
                              sizeof *a.lanes);
    a.queue = qn_region_alloc(&tmp, n, sizeof *a.queue);
    a.heir = qn_region_alloc(&tmp, n, sizeof *a.heir);
    a.way = qn_region_alloc(&tmp, n, sizeof *a.way);
    a.end = qn_region_alloc(&tmp, n, sizeof *a.end);
    if (!a.lanes || !a.queue || !a.heir || !a.way || !a.end)
        st = qn_fail(err, QN_NO_MEMORY, "no memory to schedule %u steps", p->n);
    else if (!make_lanes(&a))
        st = qn_fail(err, QN_TOO_LARGE, "%u + %u classes with %u queues each "
                     "need more than %d queues", p->n_compute, p->n_comm,
                     o->queues, QN_SCHEDULE_MAX_QUEUES);
    if (st == QN_OK) {
        find_heirs(&a);
        for (uint32_t i = 0; i < p->n; i++)
            assign_step(&a, i);
        st = finish(&a, region, out, err);
    }
    qn_region_release(&tmp);
    return st;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plan/schedule.h"

#include "runtime/plan/schedule_impl.h"

#include <string.h>

static qn_status no_memory(qn_error *err, uint32_t n)
{
    return qn_fail(err, QN_NO_MEMORY, "no memory to schedule %u steps", n);
}

/* ---- is the problem one? ---- */

enum { MOST_CLASSES = 1024 }; /* far above QN_SCHEDULE_MAX_QUEUES */

static const char *name_of(const qn_schedule_problem *p, uint32_t i)
{
    return p->steps[i].name ? p->steps[i].name : "";
}

static qn_status check_step(const qn_schedule_problem *p,
                            const qn_schedule_options *o, uint32_t i,
                            qn_error *err)
{
    const qn_schedule_step *s = &p->steps[i];
    if (s->class > p->n_compute && s->class - p->n_compute > p->n_comm)
        return qn_fail(err, QN_INVALID,
                       "step %u %s: class %u, there are 0 to %u", i,
                       name_of(p, i), s->class, p->n_compute + p->n_comm);
    if (s->flow != QN_FLOW_PLAIN && (s->target <= i || s->target > p->n))
        return qn_fail(err, QN_INVALID,
                       "step %u %s jumps to %u, not to %u .. %u", i,
                       name_of(p, i), s->target, i + 1, p->n);
    if (s->flow != QN_FLOW_PLAIN && o->host_issues && s->class)
        return qn_fail(err, QN_INVALID,
                       "step %u %s jumps, but not on the host (class %u)", i,
                       name_of(p, i), s->class);
    if (p->dep_start[i] > p->dep_start[i + 1])
        return qn_fail(err, QN_INVALID,
                       "dependencies of step %u %s end before they start", i,
                       name_of(p, i));
    for (uint32_t k = p->dep_start[i]; k < p->dep_start[i + 1]; k++)
        if (p->deps[k] >= i)
            return qn_fail(err, QN_INVALID,
                           "step %u %s depends on step %u, which is not before "
                           "it", i, name_of(p, i), p->deps[k]);
    return QN_OK;
}

static qn_status check(const qn_schedule_problem *p,
                       const qn_schedule_options *o, qn_error *err)
{
    qn_status st = QN_OK;
    if (o->queues < 1 || o->queues > QN_SCHEDULE_MAX_PER_CLASS)
        return qn_fail(err, QN_INVALID, "%u queues a device, not 1 to %d",
                       o->queues, QN_SCHEDULE_MAX_PER_CLASS);
    if (p->n > UINT32_MAX - 2 || p->n_compute > MOST_CLASSES ||
        p->n_comm > MOST_CLASSES)
        return qn_fail(err, QN_TOO_LARGE,
                       "%u steps for %u devices and %u communicators", p->n,
                       p->n_compute, p->n_comm);
    for (uint32_t i = 0; i < p->n && st == QN_OK; i++)
        st = check_step(p, o, i, err);
    return st;
}

bool qn_schedule_is_single(const qn_schedule_problem *p,
                           const qn_schedule_options *o)
{
    if (o->host_issues)
        return false;
    for (uint32_t i = 0; i < p->n; i++)
        if (p->steps[i].flow != QN_FLOW_PLAIN)
            return true;
    return false;
}

/* ---- building ---- */

static qn_status measure(const qn_schedule_problem *p, qn_schedule *out,
                         qn_error *err)
{
    uint64_t *end = qn_calloc((size_t)p->n + 1, sizeof *end);
    qn_schedule_stats *stats = &out->stats;
    if (!end)
        return no_memory(err, p->n);
    for (uint32_t i = 0; i < p->n; i++) {
        for (uint32_t k = p->dep_start[i]; k < p->dep_start[i + 1]; k++)
            if (end[p->deps[k]] > end[i])
                end[i] = end[p->deps[k]];
        end[i] = qn_cost_add(end[i], p->steps[i].cost);
        stats->total = qn_cost_add(stats->total, p->steps[i].cost);
        if (end[i] > stats->critical)
            stats->critical = end[i];
    }
    qn_free(end);
    return QN_OK;
}

qn_status qn_schedule_build(const qn_schedule_problem *problem,
                            const qn_schedule_options *options,
                            qn_region *region, qn_schedule *out, qn_error *err)
{
    memset(out, 0, sizeof *out);
    qn_status st = check(problem, options, err);
    if (st != QN_OK)
        return st;
    out->n = problem->n;
    out->host_issues = options->host_issues;
    st = qn_schedule_assign(problem, options, region, out, err);
    if (st == QN_OK)
        st = qn_schedule_order(problem, region, out, err);
    if (st == QN_OK)
        st = measure(problem, out, err);
    return st;
}

/* ---- does it pay? ---- */

qn_status qn_schedule_makespan(const qn_schedule_problem *p,
                               const qn_schedule_options *o,
                               const qn_schedule *s, uint64_t *out,
                               qn_error *err)
{
    uint64_t *ready = qn_calloc((size_t)s->n_queues + 1, sizeof *ready);
    uint64_t *reached = qn_calloc((size_t)s->n_records + 1, sizeof *reached);
    uint64_t end = 0;
    uint32_t i = 0;
    *out = 0;
    if (!ready || !reached) {
        qn_free(ready);
        qn_free(reached);
        return no_memory(err, p->n);
    }
    while (i < p->n) {
        uint32_t q = s->queue[i];
        bool device = s->host_issues && q;
        for (uint32_t r = s->record_start[i]; r < s->record_start[i + 1]; r++)
            reached[r] = ready[s->records[r].queue];
        if (device) {
            ready[0] = qn_cost_add(ready[0], o->launch_cost);
            if (ready[q] < ready[0])
                ready[q] = ready[0];
        }
        for (uint32_t k = s->wait_start[i]; k < s->wait_start[i + 1]; k++) {
            uint64_t at = qn_cost_add(reached[s->waits[k]], o->wait_cost);
            if (ready[q] < at)
                ready[q] = at;
        }
        ready[q] = qn_cost_add(ready[q], p->steps[i].cost);
        i = p->steps[i].flow == QN_FLOW_JUMP ? p->steps[i].target : i + 1;
    }
    for (uint32_t q = 0; q < s->n_queues; q++)
        if (ready[q] > end)
            end = ready[q];
    qn_free(ready);
    qn_free(reached);
    *out = end;
    return QN_OK;
}

/* Without overflow for percentages up to 100. */
static uint64_t percent(uint64_t value, uint32_t of_100)
{
    return value / 100 * of_100 + value % 100 * of_100 / 100;
}

qn_status qn_schedule_choose(const qn_schedule_problem *problem,
                             const qn_schedule_options *options,
                             uint32_t min_gain, qn_region *region,
                             qn_schedule *out, uint64_t makespan[2],
                             qn_error *err)
{
    qn_schedule_options o = *options;
    uint32_t best = 1;
    memset(out, 0, sizeof *out);
    makespan[0] = makespan[1] = 0;
    qn_status st = check(problem, options, err);
    for (o.queues = 1; st == QN_OK && o.queues <= options->queues; o.queues++) {
        qn_region scratch = { 0 };
        qn_schedule s;
        uint64_t span = 0;
        st = qn_schedule_build(problem, &o, &scratch, &s, err);
        if (st == QN_OK)
            st = qn_schedule_makespan(problem, &o, &s, &span, err);
        qn_region_release(&scratch);
        if (o.queues == 1) {
            makespan[0] = makespan[1] = span;
        } else if (st == QN_OK && span < makespan[1] &&
                   makespan[1] - span >= percent(makespan[0], min_gain)) {
            makespan[1] = span;
            best = o.queues;
        }
    }
    o.queues = best;
    if (st == QN_OK)
        st = qn_schedule_build(problem, &o, region, out, err);
    return st;
}

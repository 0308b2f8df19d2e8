/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/graphs.h"
#include "runtime/exec/limits.h"
#include "runtime/exec/session_impl.h"

/* Kept back from the default budget for what the ledger does not count: code,
 * stacks, libraries, the kernel's share of sockets. */
enum { DEFAULT_RESERVE_SHARE = 8 };

enum { FIRST_LANES = 64 };

/* As many as runs may go on at once, and one per worker, which gives its lane
 * back after done(): so a run finds one without the heap. */
static qn_status first_lanes(qn_runtime *rt, qn_error *err)
{
    int n = rt->options.max_running;
    n = (n < FIRST_LANES ? n : FIRST_LANES) + qn_runtime_threads(rt);
    for (int i = 0; i < n; i++) {
        qn_lane *lane;
        qn_status st = qn_lane_new(rt, &lane, err);
        if (st != QN_OK)
            return st;
        lane->next = rt->lanes;
        rt->lanes = lane;
    }
    return QN_OK;
}

qn_status qn_runtime_new(const qn_runtime_options *options, qn_runtime **out,
                         qn_error *err)
{
    *out = NULL;
    qn_runtime *rt = qn_calloc(1, sizeof *rt);
    if (!rt)
        return qn_fail(err, QN_NO_MEMORY, "no memory for the runtime");
    if (options)
        rt->options = *options;
    if (!rt->options.memory_budget) {
        size_t limit = qn_memory_limit();
        rt->options.memory_budget = limit - limit / DEFAULT_RESERVE_SHARE;
    }
    pthread_mutex_init(&rt->lock, NULL);
    pthread_mutex_init(&rt->exchange, NULL);
    qn_status st = qn_accel_slots_open(rt, err);
    if (st == QN_OK)
        st = qn_cpu_device_new(rt->options.threads, &rt->cpu, err);
    if (st == QN_OK && rt->options.max_running <= 0)
        rt->options.max_running = 2 * qn_runtime_threads(rt) + 2;
    qn_pool_options pool = { .max_waiters = rt->options.max_waiters,
                             .max_slots = (size_t)rt->options.max_running,
                             .huge_pages = true };
    qn_pool_source pinned;
    if (rt->n_accels) {
        pinned = qn_pinned_source(rt);
        pool.second = &pinned;
    }
    if (st == QN_OK)
        st = qn_ledger_new(rt->options.memory_budget, &rt->ledger, err);
    if (st == QN_OK)
        st = qn_pool_new(rt->ledger, &pool, &rt->pool, err);
    if (st == QN_OK)
        st = first_lanes(rt, err);
    if (st != QN_OK) {
        qn_runtime_free(rt);
        return st;
    }
    if (rt->n_accels)
        qn_pool_set_hoard(rt->pool, qn_graphs_give_up, rt);
    for (uint32_t i = 0; i < rt->n_accels; i++)
        qn_pool_set_hoard(rt->accels[i].pool, qn_graphs_give_up, rt);
    *out = rt;
    return QN_OK;
}

void qn_runtime_free(qn_runtime *rt)
{
    if (!rt)
        return;
    /* workers first: they may be handing a lane back */
    qn_device *cpu = rt->cpu;
    if (cpu)
        cpu->ops->free(cpu);
    while (rt->lanes) {
        qn_lane *next = rt->lanes->next;
        qn_free(rt->lanes->stream);
        qn_free(rt->lanes);
        rt->lanes = next;
    }
    qn_pool_free(rt->pool);
    qn_ledger_free(rt->ledger);
    qn_accel_slots_close(rt); /* last: the pool had pinned memory */
    pthread_mutex_destroy(&rt->exchange);
    pthread_mutex_destroy(&rt->lock);
    qn_free(rt);
}

qn_ledger *qn_runtime_ledger(qn_runtime *runtime)
{
    return runtime->ledger;
}

qn_pool *qn_runtime_pool(qn_runtime *runtime)
{
    return runtime->pool;
}

int qn_runtime_threads(const qn_runtime *runtime)
{
    return runtime->cpu->ops->max_threads(runtime->cpu);
}

void qn_runtime_post(qn_runtime *runtime, qn_job *job)
{
    qn_cpu_device_post(runtime->cpu, job);
}

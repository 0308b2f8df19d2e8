/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/graphs.h"

#include <string.h>

enum {
    WARM_RUNS = 2,       /* plain ones: libraries have loaded what they load */
    MOST_DOUBLINGS = 12, /* of them, after captures that failed */
    MAX_INSTANCES = 128, /* of a device */
};

struct qn_instance {
    qn_plan *plan; /* not once the instance is out of its list */
    qn_runtime *runtime;
    qn_accel_slot *slot;
    qn_agraph *graph;
    size_t bytes; /* of the graph itself */
    qn_lease lease, device_lease;
    bool idle;
    qn_instance *next;           /* of the plan */
    qn_instance *newer, *older;  /* idle ones of the device */
};

/* Capturable plans use one device. */
static qn_accel_slot *slot_of(const qn_run *run)
{
    return run->session->accels[0];
}

/* ---- the list of idle ones, under slot->graph_lock ---- */

static void put_idle(qn_instance *i)
{
    qn_accel_slot *s = i->slot;
    i->idle = true;
    i->newer = NULL;
    i->older = s->newest;
    if (s->newest)
        s->newest->newer = i;
    else
        s->oldest = i;
    s->newest = i;
}

static void take_idle(qn_instance *i)
{
    qn_accel_slot *s = i->slot;
    i->idle = false;
    if (i->newer)
        i->newer->older = i->older;
    else
        s->newest = i->older;
    if (i->older)
        i->older->newer = i->newer;
    else
        s->oldest = i->newer;
}

static void leave_plan(qn_instance *i)
{
    qn_instance **at = &i->plan->instances;
    while (*at != i)
        at = &(*at)->next;
    *at = i->next;
    i->slot->n_instances--;
}

/* ---- bytes ---- */

/* Kept memory is a graph's; a run's is charged by its own classes. */
static void move_parts(qn_ledger *ledger, const qn_lease *lease, bool keep)
{
    for (unsigned p = 0; p < QN_LEASE_PARTS; p++) {
        const qn_lease_part *part = &lease->parts[p];
        if (part->charged)
            qn_ledger_move(ledger, keep ? part->cls : QN_MEM_GRAPH,
                           keep ? QN_MEM_GRAPH : part->cls, part->charged);
    }
}

static void move_leases(const qn_instance *i, bool keep)
{
    move_parts(i->runtime->ledger, &i->lease, keep);
    move_parts(i->slot->ledger, &i->device_lease, keep);
}

/* The graph goes; the leases are charged by their own classes again. */
static void free_graph(const qn_instance *i)
{
    i->slot->accel->ops->graph_free(i->slot->accel, i->graph);
    qn_ledger_give_back(i->slot->ledger, QN_MEM_GRAPH, i->bytes);
    move_leases(i, false);
}

/* No lock held, in no list. */
static void destroy(qn_instance *i)
{
    free_graph(i);
    qn_pool_release(i->runtime->pool, &i->lease);
    qn_pool_release(i->slot->pool, &i->device_lease);
    qn_free(i);
}

static bool drop_oldest(qn_accel_slot *slot)
{
    pthread_mutex_lock(&slot->graph_lock);
    qn_instance *i = slot->oldest;
    if (i) {
        take_idle(i);
        leave_plan(i);
    }
    pthread_mutex_unlock(&slot->graph_lock);
    if (i)
        destroy(i);
    return i != NULL;
}

/* ---- for runs ---- */

bool qn_graphs_lease(qn_run *run)
{
    if (!run->plan->capturable || run->string_bytes)
        return false;
    qn_accel_slot *slot = slot_of(run);
    pthread_mutex_lock(&slot->graph_lock);
    qn_instance *i = run->plan->instances;
    while (i && !i->idle)
        i = i->next;
    if (i)
        take_idle(i);
    pthread_mutex_unlock(&slot->graph_lock);
    if (!i)
        return false;
    run->instance = i;
    run->lease = i->lease;
    run->device_leases[0] = i->device_lease;
    return true;
}

qn_agraph *qn_graphs_of(const qn_run *run)
{
    return run->instance ? run->instance->graph : NULL;
}

void qn_graphs_forget(qn_run *run)
{
    qn_instance *i = run->instance;
    run->instance = NULL;
    pthread_mutex_lock(&i->slot->graph_lock);
    leave_plan(i);
    pthread_mutex_unlock(&i->slot->graph_lock);
    free_graph(i);
    qn_free(i); /* the run has the leases */
}

/* Somebody could use the memory: instances are not kept then. */
static bool starved(const qn_runtime *rt)
{
    qn_pool_state s;
    qn_pool_read(rt->pool, &s);
    for (uint32_t i = 0; !s.starved && i < rt->n_accels; i++)
        qn_pool_read(rt->accels[i].pool, &s);
    return s.starved;
}

static unsigned warm_after(const qn_plan *plan)
{
    unsigned n = atomic_load(&plan->capture_failures);
    return (unsigned)WARM_RUNS << (n < MOST_DOUBLINGS ? n : MOST_DOUBLINGS);
}

bool qn_graphs_wanted(const qn_run *run)
{
    const qn_plan *plan = run->plan;
    if (!plan->capturable || run->string_bytes || run->instance ||
        run->session->options.no_graphs || run->session->options.sync_launch ||
        atomic_load(&plan->plain_runs) < warm_after(plan))
        return false;
    qn_accel_slot *slot = slot_of(run);
    uint32_t n = 0;
    pthread_mutex_lock(&slot->graph_lock);
    for (const qn_instance *i = plan->instances; i; i = i->next)
        n++;
    pthread_mutex_unlock(&slot->graph_lock);
    /* more are not out at once: their leases are what runs have before and
     * after their time on a lane, too */
    const qn_runtime *rt = run->session->runtime;
    uint32_t most = (uint32_t)rt->options.max_running;
    return n < (most > slot->n_lanes ? most : slot->n_lanes) && !starved(rt);
}

bool qn_graphs_keep(qn_run *run, qn_agraph *graph, size_t bytes)
{
    qn_accel_slot *slot = slot_of(run);
    qn_instance *i = qn_calloc(1, sizeof *i);
    if (!i || qn_ledger_charge(slot->ledger, QN_MEM_GRAPH, bytes, NULL) !=
                  QN_OK) {
        qn_free(i);
        slot->accel->ops->graph_free(slot->accel, graph);
        return false;
    }
    *i = (qn_instance){ .plan = run->plan, .runtime = run->session->runtime,
                        .slot = slot, .graph = graph, .bytes = bytes,
                        .lease = run->lease,
                        .device_lease = run->device_leases[0] };
    /* a turn is a run's, not a graph's */
    qn_pool_give_slot(i->runtime->pool, &run->lease);
    i->lease.slot = i->lease.holds_slot = false;
    run->lease = i->lease;
    move_leases(i, true);
    run->instance = i;
    pthread_mutex_lock(&slot->graph_lock);
    i->next = run->plan->instances;
    run->plan->instances = i;
    bool over = ++slot->n_instances > MAX_INSTANCES;
    pthread_mutex_unlock(&slot->graph_lock);
    if (over)
        (void)drop_oldest(slot);
    qn_graphs_relieve(run->session->runtime); /* the slot is somebody's */
    return true;
}

void qn_graphs_return(qn_run *run)
{
    qn_instance *i = run->instance;
    qn_accel_slot *slot = i->slot;
    qn_runtime *rt = i->runtime;
    run->instance = NULL;
    memset(&run->lease, 0, sizeof run->lease);
    memset(run->device_leases, 0, sizeof run->device_leases);
    pthread_mutex_lock(&slot->graph_lock);
    put_idle(i); /* and then anybody's to drop */
    pthread_mutex_unlock(&slot->graph_lock);
    qn_graphs_relieve(rt);
}

void qn_graphs_failed(qn_run *run)
{
    atomic_fetch_add(&run->plan->capture_failures, 1);
    atomic_store(&run->plan->plain_runs, 0);
}

void qn_graphs_count(qn_run *run)
{
    if (run->plan->capturable && run->status == QN_OK &&
        atomic_load(&run->plan->plain_runs) < warm_after(run->plan))
        atomic_fetch_add(&run->plan->plain_runs, 1);
}

/* ---- giving up ---- */

bool qn_graphs_give_up(void *arg)
{
    const qn_runtime *rt = arg;
    bool any = false;
    for (uint32_t n = 0; n < rt->n_accels; n++)
        any |= drop_oldest(&rt->accels[n]);
    return any;
}

void qn_graphs_relieve(qn_runtime *rt)
{
    while (rt->n_accels && starved(rt) && qn_graphs_give_up(rt)) {
    }
}

void qn_graphs_drop_plan(qn_plan *plan)
{
    if (!plan->capturable)
        return;
    qn_accel_slot *slot = plan->session->accels[0];
    for (;;) {
        pthread_mutex_lock(&slot->graph_lock);
        qn_instance *i = plan->instances;
        if (i) {
            take_idle(i);
            leave_plan(i);
        }
        pthread_mutex_unlock(&slot->graph_lock);
        if (!i)
            return;
        destroy(i);
    }
}

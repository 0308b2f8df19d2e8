/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime's accelerators: their memory's ledger and pool, and their lanes,
 * which runs borrow in the order in which they ask. */
#include "runtime/exec/session_impl.h"

enum { BUDGET_RESERVE_SHARE = 8, DEFAULT_LANES = 4, MAX_LANES = 64 };

static void *map(void *arg, size_t bytes)
{
    qn_accel *accel = arg;
    return accel->ops->map(accel, bytes);
}

static void unmap(void *arg, void *data, size_t bytes)
{
    qn_accel *accel = arg;
    accel->ops->unmap(accel, data, bytes);
}

/* Pinned memory is every device's; one that is lost does not give any, nor take
 * it back. With all lost it goes when the process does. */
static qn_accel *living(const qn_runtime *rt)
{
    uint32_t i = 0;
    while (i + 1 < rt->n_accels &&
           rt->accels[i].accel->ops->dead(rt->accels[i].accel, NULL))
        i++;
    return rt->accels[i].accel;
}

static void *pin(void *arg, size_t bytes)
{
    qn_accel *accel = living(arg);
    return accel->ops->pin(accel, bytes);
}

static void unpin(void *arg, void *data, size_t bytes)
{
    qn_accel *accel = living(arg);
    accel->ops->unpin(accel, data, bytes);
}

qn_pool_source qn_pinned_source(qn_runtime *rt)
{
    return (qn_pool_source){ .map = pin, .unmap = unpin, .arg = rt,
                             .whole = true };
}

static qn_status make_lanes(qn_accel_slot *slot, uint32_t n, qn_error *err)
{
    qn_status st = QN_OK;
    for (uint32_t i = 0; st == QN_OK && i < n; i++) {
        qn_device_lane *lane = qn_calloc(1, sizeof *lane);
        if (!lane)
            return qn_fail(err, QN_NO_MEMORY, "no memory for a lane");
        st = slot->accel->ops->lane_new(slot->accel, &lane->alane, err);
        if (st != QN_OK) {
            qn_free(lane);
            break;
        }
        lane->next = slot->lanes;
        slot->lanes = lane;
        slot->n_lanes++;
    }
    return st;
}

static qn_status open_slot(qn_runtime *rt, qn_accel_slot *slot, qn_error *err)
{
    const qn_runtime_options *o = &rt->options;
    uint32_t lanes = o->lanes ? o->lanes : DEFAULT_LANES;
    size_t budget = o->accel_budget;
    qn_accel_info info;
    slot->last = &slot->first;
    pthread_mutex_init(&slot->lock, NULL);
    pthread_mutex_init(&slot->graph_lock, NULL);
    if (lanes > MAX_LANES)
        return qn_fail(err, QN_INVALID, "%u lanes, at most %d", lanes,
                       MAX_LANES);
    /* lanes first: what their libraries take is then no longer free */
    qn_status st = make_lanes(slot, lanes, err);
    slot->accel->ops->info(slot->accel, &info);
    if (!budget)
        budget = info.memory_free - info.memory_free / BUDGET_RESERVE_SHARE;
    if (st == QN_OK)
        st = qn_ledger_new(budget, &slot->ledger, err);
    slot->source = (qn_pool_source){ .map = map, .unmap = unmap,
                                     .arg = slot->accel, .whole = true };
    qn_pool_options pool = { .max_waiters = o->max_waiters,
                             .source = &slot->source,
                             .page = slot->accel->ops->granule };
    if (st == QN_OK)
        st = qn_pool_new(slot->ledger, &pool, &slot->pool, err);
    return st;
}

qn_status qn_accel_slots_open(qn_runtime *rt, qn_error *err)
{
    uint32_t n = rt->options.n_accels;
    qn_status st = QN_OK;
    rt->accels = qn_calloc(n + 1u, sizeof *rt->accels);
    if (!rt->accels)
        st = qn_fail(err, QN_NO_MEMORY, "no memory for %u devices", n);
    for (uint32_t i = 0; st == QN_OK && i < n; i++) {
        rt->accels[i].accel = rt->options.accels[i];
        rt->n_accels++;
        st = open_slot(rt, &rt->accels[i], err);
    }
    return st;
}

void qn_accel_slots_close(qn_runtime *rt)
{
    for (uint32_t i = 0; i < rt->n_accels; i++) {
        qn_accel_slot *slot = &rt->accels[i];
        while (slot->lanes) {
            qn_device_lane *next = slot->lanes->next;
            slot->accel->ops->lane_free(slot->lanes->alane);
            qn_free(slot->lanes);
            slot->lanes = next;
        }
        qn_pool_free(slot->pool);
        qn_ledger_free(slot->ledger);
        pthread_mutex_destroy(&slot->lock);
        pthread_mutex_destroy(&slot->graph_lock);
    }
    qn_free(rt->accels);
    rt->accels = NULL;
    rt->n_accels = 0;
}

qn_device_lane *qn_device_lane_take(qn_accel_slot *slot, qn_lane_wait *wait)
{
    pthread_mutex_lock(&slot->lock);
    qn_device_lane *lane = slot->lanes;
    if (lane) {
        slot->lanes = lane->next;
    } else {
        wait->next = NULL;
        *slot->last = wait;
        slot->last = &wait->next;
    }
    pthread_mutex_unlock(&slot->lock);
    return lane;
}

void qn_device_lane_give(qn_accel_slot *slot, qn_device_lane *lane)
{
    pthread_mutex_lock(&slot->lock);
    qn_lane_wait *wait = slot->first;
    if (wait) {
        slot->first = wait->next;
        if (!slot->first)
            slot->last = &slot->first;
    } else {
        lane->next = slot->lanes;
        slot->lanes = lane;
    }
    pthread_mutex_unlock(&slot->lock);
    if (wait)
        wait->granted(wait, lane);
}

qn_accel *qn_runtime_accel(qn_runtime *runtime, uint32_t i)
{
    return i < runtime->n_accels ? runtime->accels[i].accel : NULL;
}

qn_ledger *qn_runtime_accel_ledger(qn_runtime *runtime, uint32_t i)
{
    return i < runtime->n_accels ? runtime->accels[i].ledger : NULL;
}

qn_pool *qn_runtime_accel_pool(qn_runtime *runtime, uint32_t i)
{
    return i < runtime->n_accels ? runtime->accels[i].pool : NULL;
}

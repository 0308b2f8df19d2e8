/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a run: one lease of the host's pool and one of each device's.
 * All are taken, or none is held: a run waits for one pool at a time, with empty
 * hands, and takes the others when that one has granted. What fails then is
 * waited for next.
 */
#include "runtime/base/clock.h"
#include "runtime/exec/graphs.h"
#include "runtime/exec/launch.h"
#include "runtime/exec/session_impl.h"

static unsigned n_pools(const qn_run *run)
{
    return run->plan->n_spaces;
}

static qn_pool *pool_of(const qn_run *run, unsigned n)
{
    return n ? run->session->accels[n - 1]->pool : run->session->runtime->pool;
}

static qn_lease *lease_of(qn_run *run, unsigned n)
{
    return n ? &run->device_leases[n - 1] : &run->lease;
}

static void set_parts(qn_run *run)
{
    const qn_plan *p = run->plan;
    size_t side = p->report.side_bytes + run->string_bytes;
    unsigned source = p->n_spaces > 1; /* devices read and write pinned memory */
    const qn_lease_part host[QN_LEASE_PARTS] = {
        [QN_PART_ARENA] = { .cls = QN_MEM_ARENA, .bytes = p->arena_bytes[0] },
        [QN_PART_IN] = { .cls = QN_MEM_INPUT, .bytes = p->in_bytes },
        [QN_PART_OUT] = { .cls = QN_MEM_OUTPUT, .bytes = p->out_bytes },
        [QN_PART_SIDE] = { .cls = QN_MEM_SIDE, .bytes = side } };
    for (unsigned i = 0; i < QN_LEASE_PARTS; i++) {
        run->lease.parts[i] = host[i];
        run->lease.parts[i].source = source;
    }
    for (unsigned n = 1; n < p->n_spaces; n++) {
        qn_lease_part *parts = run->device_leases[n - 1].parts;
        parts[QN_PART_ARENA] = (qn_lease_part){
            .cls = QN_MEM_ARENA,
            .bytes = qn_device_arena_bytes(p, n) };
        parts[QN_PART_SIDE] = (qn_lease_part){ .cls = QN_MEM_SIDE,
                                               .bytes = p->device_side[n] };
    }
}

static void got_lease(qn_run *run)
{
    run->times.leased_ns = qn_clock_ns();
    qn_exec_init(run);
}

void qn_lease_release(qn_run *run)
{
    if (run->instance) {
        qn_graphs_return(run);
        return;
    }
    for (unsigned n = 0; n < n_pools(run); n++)
        qn_pool_release(pool_of(run, n), lease_of(run, n));
    /* whose turn it is now may still lack memory */
    qn_graphs_relieve(run->session->runtime);
}

/* Is a device of the run lost? Then its memory, and pinned memory, cannot be
 * had, which is not the system's refusal. */
static bool lost(const qn_run *run, qn_error *err)
{
    for (unsigned n = 1; n < n_pools(run); n++) {
        qn_accel *accel = run->session->accels[n - 1]->accel;
        if (accel->ops->dead(accel, err))
            return true;
    }
    return false;
}

/* Whose memory it is that fails. */
static qn_status name(const qn_run *run, unsigned n, qn_status st, qn_error *err)
{
    if (st == QN_DEVICE && lost(run, err))
        return QN_DEVICE_LOST;
    if (n && err)
        qn_error_prefix(err, "%s", run->session->accels[n - 1]->accel->label);
    return st;
}

/* All but number `held`, which is; on failure none is, and *at says which. */
static qn_status take_others(qn_run *run, unsigned held, unsigned *at,
                             qn_error *err)
{
    for (unsigned n = 0; n < n_pools(run); n++) {
        if (n == held)
            continue;
        qn_status st = qn_pool_lease(pool_of(run, n), lease_of(run, n), err);
        if (st != QN_OK) {
            *at = n;
            qn_lease_release(run);
            return name(run, n, st, err);
        }
    }
    return QN_OK;
}

/* From pool `n` on, until all is held or one has to be waited for. */
static qn_status wait_from(qn_run *run, unsigned n, qn_error *err)
{
    for (;;) {
        run->waits_for = n;
        run->waiter.lease = lease_of(run, n);
        qn_runtime *rt = run->session->runtime;
        qn_status st = qn_pool_wait(pool_of(run, n), &run->waiter, err);
        if (st == QN_NO_MEMORY) {
            /* in line: the run may be somebody else's now */
            qn_graphs_relieve(rt);
            return st;
        }
        if (st != QN_OK)
            return name(run, n, st, err);
        st = take_others(run, n, &n, err);
        if (st != QN_NO_MEMORY)
            return st;
    }
}

static void granted(qn_waiter *waiter, qn_status status)
{
    qn_run *run = waiter->arg;
    unsigned n = run->waits_for;
    if (status == QN_OK)
        status = take_others(run, n, &n, NULL);
    if (status == QN_NO_MEMORY)
        status = wait_from(run, n, NULL);
    if (status == QN_NO_MEMORY)
        return; /* in line again */
    status = name(run, 0, status, NULL);
    if (status == QN_OK)
        got_lease(run);
    run->leased(run, run->leased_arg, status);
}

qn_status qn_run_lease(qn_run *run, void (*leased)(qn_run *, void *, qn_status),
                       void *arg, qn_error *err)
{
    qn_status st;
    unsigned at;
    if (lost(run, err)) /* nothing to wait for */
        return QN_DEVICE_LOST;
    set_parts(run);
    if (qn_graphs_lease(run)) {
        got_lease(run);
        return QN_OK;
    }
    if (leased) {
        run->lease.slot = true;
        run->leased = leased;
        run->leased_arg = arg;
        run->waiter = (qn_waiter){ .granted = granted, .arg = run };
        st = wait_from(run, 0, err);
    } else {
        st = take_others(run, UINT32_MAX, &at, err);
        while (st == QN_NO_MEMORY && qn_graphs_give_up(run->session->runtime))
            st = take_others(run, UINT32_MAX, &at, err);
    }
    if (st == QN_OK)
        got_lease(run);
    return st;
}

bool qn_run_lease_cancel(qn_run *run)
{
    /* it may be on its way from one to another: then it is too late */
    bool left = false;
    for (unsigned n = 0; !left && n < n_pools(run); n++)
        left = qn_pool_cancel(pool_of(run, n), &run->waiter);
    return left;
}

void qn_run_release_arena(qn_run *run)
{
    if (run->instance)
        return; /* it is the graph's */
    qn_pool_release_part(pool_of(run, 0), &run->lease, QN_PART_ARENA);
    for (unsigned n = 1; n < n_pools(run); n++)
        qn_pool_release(pool_of(run, n), lease_of(run, n));
}

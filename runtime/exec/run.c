/* SPDX-License-Identifier: Apache-2.0 */
/* A run: lease, start, completion. No heap call between lease and completion
 * once a lane exists for it. */
#include "runtime/base/clock.h"
#include "runtime/exec/launch.h"
#include "runtime/exec/session_impl.h"

#include <string.h>

void qn_run_init(qn_run *run, qn_session *session, qn_plan *plan)
{
    memset(run, 0, sizeof *run);
    run->session = session;
    run->plan = plan;
    atomic_fetch_add(&plan->refs, 1);
    atomic_init(&run->cancel, false);
}

static void set_parts(qn_run *run)
{
    const qn_plan *p = run->plan;
    size_t side = p->report.side_bytes + run->string_bytes;
    run->lease.parts[QN_PART_ARENA] =
        (qn_lease_part){ .cls = QN_MEM_ARENA, .bytes = p->arena_bytes };
    run->lease.parts[QN_PART_IN] =
        (qn_lease_part){ .cls = QN_MEM_INPUT, .bytes = p->in_bytes };
    run->lease.parts[QN_PART_OUT] =
        (qn_lease_part){ .cls = QN_MEM_OUTPUT, .bytes = p->out_bytes };
    run->lease.parts[QN_PART_SIDE] =
        (qn_lease_part){ .cls = QN_MEM_SIDE, .bytes = side };
}

static void got_lease(qn_run *run)
{
    run->times.leased_ns = qn_clock_ns();
    qn_exec_init(run);
}

static void granted(qn_waiter *waiter, qn_status status)
{
    qn_run *run = waiter->arg;
    if (status == QN_OK)
        got_lease(run);
    run->leased(run, run->leased_arg, status);
}

qn_status qn_run_lease(qn_run *run, void (*leased)(qn_run *, void *, qn_status),
                       void *arg, qn_error *err)
{
    qn_pool *pool = run->session->runtime->pool;
    qn_status st;
    set_parts(run);
    if (leased) {
        run->lease.slot = true;
        run->leased = leased;
        run->leased_arg = arg;
        run->waiter = (qn_waiter){ .lease = &run->lease, .granted = granted,
                                   .arg = run };
        st = qn_pool_wait(pool, &run->waiter, err);
    } else {
        st = qn_pool_lease(pool, &run->lease, err);
    }
    if (st == QN_OK)
        got_lease(run);
    return st;
}

bool qn_run_lease_cancel(qn_run *run)
{
    return qn_pool_cancel(run->session->runtime->pool, &run->waiter);
}

qn_tensor qn_run_input(const qn_run *run, uint32_t i)
{
    const qn_plan *plan = run->plan;
    const qn_exec *e = run->exec;
    const qn_pvalue *v = &plan->values[plan->in_values[i]];
    if (v->addr.base != QN_BASE_IO + i)
        return (qn_tensor){ 0 }; /* left out: its default is used */
    qn_tensor t = v->t;
    t.data = qn_exec_address(e, v->addr);
    return t;
}

qn_tensor qn_run_output(const qn_run *run, uint32_t i)
{
    const qn_plan *plan = run->plan;
    const qn_exec *e = run->exec;
    const qn_pvalue *v = &plan->values[plan->out_values[i]];
    qn_tensor t = v->t;
    if (v->dynamic != QN_NOT_DYNAMIC)
        t.shape = e->shapes[v->dynamic];
    t.data = qn_exec_address(e, v->addr);
    return t;
}

/* ---- lanes ---- */

qn_status qn_lane_new(qn_runtime *rt, qn_lane **out, qn_error *err)
{
    *out = NULL;
    qn_lane *lane = qn_calloc(1, sizeof *lane);
    if (!lane)
        return qn_fail(err, QN_NO_MEMORY, "no memory for a stream");
    qn_status st = rt->cpu->ops->stream_new(rt->cpu, &lane->stream, err);
    if (st != QN_OK) {
        qn_free(lane);
        return st;
    }
    *out = lane;
    return QN_OK;
}

static qn_lane *take_lane(qn_runtime *rt, qn_error *err)
{
    pthread_mutex_lock(&rt->lock);
    qn_lane *lane = rt->lanes;
    if (lane)
        rt->lanes = lane->next;
    pthread_mutex_unlock(&rt->lock);
    if (lane)
        return lane;
    return qn_lane_new(rt, &lane, err) == QN_OK ? lane : NULL;
}

static void give_lane(qn_runtime *rt, qn_lane *lane)
{
    pthread_mutex_lock(&rt->lock);
    lane->next = rt->lanes;
    rt->lanes = lane;
    pthread_mutex_unlock(&rt->lock);
}

/* ---- running ---- */

static void run_steps(qn_run *run, qn_team *team)
{
    run->times.first_launch_ns = qn_clock_ns();
    run->status = qn_exec_steps(run, team);
    run->times.done_ns = qn_clock_ns();
}

static void on_worker(void *arg, qn_team *team)
{
    qn_run *run = arg;
    qn_runtime *rt = run->session->runtime;
    qn_lane *lane = run->lane;
    run_steps(run, team);
    run->done(run, run->done_arg); /* the run may be gone after this */
    give_lane(rt, lane);
}

void qn_run_start(qn_run *run, qn_run_done done, void *arg)
{
    qn_runtime *rt = run->session->runtime;
    run->done = done;
    run->done_arg = arg;
    run->times.started_ns = qn_clock_ns();
    qn_lane *lane = take_lane(rt, &run->error);
    if (!lane) {
        run->status = run->error.status;
        done(run, arg);
        return;
    }
    run->lane = lane;
    /* a lane is idle, so its queue cannot be full */
    (void)lane->stream->device->ops->submit(lane->stream, on_worker, run);
}

qn_status qn_run_sync(qn_run *run, qn_error *err)
{
    run->times.started_ns = qn_clock_ns();
    run_steps(run, qn_cpu_device_team(run->session->runtime->cpu));
    if (run->status != QN_OK && err)
        *err = run->error;
    return run->status;
}

void qn_run_cancel(qn_run *run)
{
    atomic_store_explicit(&run->cancel, true, memory_order_relaxed);
}

void qn_run_release_arena(qn_run *run)
{
    qn_pool_release_part(run->session->runtime->pool, &run->lease,
                         QN_PART_ARENA);
}

void qn_run_release(qn_run *run)
{
    if (!run->plan)
        return;
    if (run->leased) /* it may be waiting */
        (void)qn_run_lease_cancel(run);
    qn_pool_release(run->session->runtime->pool, &run->lease);
    qn_plan_release(run->plan);
    run->plan = NULL;
    run->exec = NULL;
}

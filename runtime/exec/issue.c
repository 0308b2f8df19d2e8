/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs that use accelerators. One thread at a time walks the list of steps:
 * what runs on the host it runs, what runs on a device it only enqueues, in the
 * list's order. Where the host needs what a device has not done yet the walk
 * ends, and goes on when the device's reaper says so: no thread waits.
 *
 *   begin ─ steps ... ─ join streams ─ end ─ (last event) ─ faults of the data
 *
 * Whatever happens the walk comes to its end: a run that fails or is cancelled
 * gives nothing back before the devices have passed all that it enqueued.
 */
#include "runtime/base/clock.h"
#include "runtime/exec/graphs.h"
#include "runtime/exec/launch.h"
#include "runtime/exec/session_impl.h"
#include "runtime/exec/trace.h"

static const struct qn_accel_ops *ops_of(const qn_run *run, uint32_t lane)
{
    return run->session->accels[lane]->accel->ops;
}

static uint32_t n_lanes(const qn_run *run)
{
    return run->plan->n_spaces - 1;
}

/* Lanes that have a stream of the queue: [*first, *end). */
static void lanes_of(const qn_run *run, uint32_t queue, uint32_t *first,
                     uint32_t *end)
{
    uint8_t space = run->plan->queue_space[queue];
    *first = space == QN_SPACE_ALL ? 0 : space ? space - 1u : 0;
    *end = space == QN_SPACE_ALL ? n_lanes(run) : space ? space : 0;
}

/* Behind the plan's own events: one for a stream's end, one for the walk's. */
static uint32_t stream_event(const qn_run *run, unsigned stream)
{
    return run->plan->n_records + stream;
}

static uint32_t walk_event(const qn_run *run)
{
    return run->plan->n_records + QN_ACCEL_STREAMS;
}

static void trace_begin(const qn_run *run)
{
    const qn_trace *t = run->session->options.trace;
    if (t && t->begin)
        t->begin(t->arg, run);
}

static void trace_step(const qn_run *run, uint32_t step)
{
    const qn_trace *t = run->session->options.trace;
    if (t && t->step)
        t->step(t->arg, run, step);
}

static void trace_end(const qn_run *run)
{
    const qn_trace *t = run->session->options.trace;
    if (t && t->end)
        t->end(t->arg, run);
}

static void note_lost(qn_run *run, uint32_t lane)
{
    qn_accel *accel = run->session->accels[lane]->accel;
    qn_exec *e = run->exec;
    qn_error why = { 0 };
    e->issue->lost = true;
    if (accel->ops->dead(accel, &why) && run->error.status != QN_DEVICE_LOST)
        run->error = why;
}

static void on_event(void *arg, qn_status status)
{
    qn_run *run = arg;
    qn_issue *q = ((qn_exec *)run->exec)->issue;
    if (status != QN_OK)
        q->lost = true;
    q->resume(run);
}

/* True: reached, or never to be, as on a lost device. False: on_event() will be
 * called. */
static bool reached(qn_run *run, uint32_t lane, uint32_t event)
{
    qn_issue *q = ((qn_exec *)run->exec)->issue;
    if (ops_of(run, lane)->query(q->lanes[lane], event))
        return true;
    q->notice = (qn_notice){ .fn = on_event, .arg = run };
    ops_of(run, lane)->notify(q->lanes[lane], event, &q->notice);
    return false;
}

/* The stream starts behind what stream 0 of its lane has so far. */
static qn_status start_behind(qn_run *run, uint32_t i, unsigned stream)
{
    qn_alane *lane = ((qn_exec *)run->exec)->issue->lanes[i];
    const struct qn_accel_ops *ops = ops_of(run, i);
    qn_status st = ops->record(lane, 0, stream_event(run, 0), &run->error);
    return st != QN_OK ? st
                       : ops->wait(lane, stream, lane, stream_event(run, 0),
                                   &run->error);
}

static qn_status begin(qn_run *run)
{
    const qn_issue *q = ((qn_exec *)run->exec)->issue;
    qn_status st = QN_OK;
    trace_begin(run);
    for (uint32_t i = 0; st == QN_OK && i < n_lanes(run); i++)
        st = ops_of(run, i)->begin(q->lanes[i], &run->error);
    /* other streams start behind it */
    for (uint32_t n = 0; st == QN_OK && n < run->plan->n_queues; n++) {
        uint32_t i, end;
        lanes_of(run, n, &i, &end);
        for (; st == QN_OK && run->plan->queue_stream[n] && i < end; i++)
            st = start_behind(run, i, run->plan->queue_stream[n]);
    }
    return st;
}

/* Streams that could not be joined are waited for one by one. An event that is
 * not recorded would be that of an earlier run, and reached: so a second try, in
 * case the first failed for want of memory. */
static void end_apart(qn_run *run, uint32_t i)
{
    qn_issue *q = ((qn_exec *)run->exec)->issue;
    for (unsigned s = 0; s < QN_ACCEL_STREAMS; s++)
        if (ops_of(run, i)->record(q->lanes[i], s, stream_event(run, s), NULL) !=
            QN_OK)
            (void)!ops_of(run, i)->record(q->lanes[i], s, stream_event(run, s),
                                          NULL);
    q->apart[i] = true;
}

/* All streams of a lane are joined into stream 0. */
static void end_lane(qn_run *run, uint32_t i)
{
    const qn_issue *q = ((qn_exec *)run->exec)->issue;
    const struct qn_accel_ops *ops = ops_of(run, i);
    qn_status st = QN_OK;
    for (uint32_t n = 0; st == QN_OK && n < run->plan->n_queues; n++) {
        unsigned stream = run->plan->queue_stream[n];
        uint32_t first, end;
        lanes_of(run, n, &first, &end);
        if (i < first || i >= end || !stream)
            continue;
        st = ops->record(q->lanes[i], stream, stream_event(run, stream),
                         &run->error);
        if (st == QN_OK)
            st = ops->wait(q->lanes[i], 0, q->lanes[i],
                           stream_event(run, stream), &run->error);
    }
    if (st == QN_OK)
        st = ops->end(q->lanes[i], &run->error);
    if (st == QN_OK)
        st = ops->record(q->lanes[i], 0, walk_event(run), &run->error);
    if (st != QN_OK)
        end_apart(run, i);
    if (st != QN_OK && run->status == QN_OK)
        run->status = st;
}

/* Each lane is asked by itself: that another device is lost says nothing of what
 * this one still does in the run's memory. */
static bool lane_ended(qn_run *run, uint32_t i)
{
    const qn_issue *q = ((qn_exec *)run->exec)->issue;
    if (!q->apart[i])
        return reached(run, i, walk_event(run));
    for (unsigned s = 0; s < QN_ACCEL_STREAMS; s++)
        if (!reached(run, i, stream_event(run, s)))
            return false;
    return true;
}

static void see_faults(qn_run *run, uint32_t i)
{
    const qn_issue *q = ((qn_exec *)run->exec)->issue;
    char text[160], node[QN_NODE_TEXT];
    uint32_t step;
    if (run->status != QN_OK ||
        !ops_of(run, i)->fault(q->lanes[i], &step, text, sizeof text))
        return;
    const qn_node *at =
        step < run->plan->n_steps ? run->plan->steps[step].node : NULL;
    run->status = qn_fail(&run->error, QN_RANGE, "%s: %s",
                          at ? qn_node_text(at, node) : "a kernel", text);
}

/* True: all lanes are done with this run. */
static bool finish(qn_run *run)
{
    qn_issue *q = ((qn_exec *)run->exec)->issue;
    if (!q->ended) {
        q->ended = true;
        trace_end(run);
        for (uint32_t i = 0; i < n_lanes(run); i++)
            end_lane(run, i);
    }
    while (q->ending < n_lanes(run)) {
        if (!lane_ended(run, q->ending))
            return false;
        if (ops_of(run, q->ending)->dead(
                run->session->accels[q->ending]->accel, NULL)) {
            note_lost(run, q->ending);
            run->status = QN_DEVICE_LOST;
        }
        see_faults(run, q->ending);
        q->ending++;
    }
    return true;
}

static qn_status record_on(qn_run *run, uint32_t queue, uint32_t event)
{
    const qn_issue *q = ((qn_exec *)run->exec)->issue;
    uint32_t i, end;
    qn_status st = QN_OK;
    lanes_of(run, queue, &i, &end);
    for (; st == QN_OK && i < end; i++)
        st = ops_of(run, i)->record(q->lanes[i], run->plan->queue_stream[queue],
                                    event, &run->error);
    return st;
}

static qn_status make_records(qn_run *run, uint32_t first, uint32_t n)
{
    qn_status st = QN_OK;
    for (uint32_t r = first; st == QN_OK && r < first + n; r++)
        st = record_on(run, run->plan->records[r].queue, r);
    return st;
}

/* False: the walk goes on later, and looks at all of them again. */
static bool host_waits(qn_run *run, const qn_step *s)
{
    const qn_issue *q = ((qn_exec *)run->exec)->issue;
    for (uint32_t k = 0; k < s->n_host_waits; k++) {
        uint32_t r = s->host_waits[k], i, end;
        lanes_of(run, run->plan->records[r].queue, &i, &end);
        for (; i < end; i++)
            if (!q->lost && !reached(run, i, r))
                return false;
    }
    return true;
}

/* Every stream of the step's queue waits for every stream of the record's. */
static qn_status stream_wait(qn_run *run, const qn_step *s, uint32_t r)
{
    const qn_issue *q = ((qn_exec *)run->exec)->issue;
    uint32_t to, to_end, from, from_end;
    qn_status st = QN_OK;
    lanes_of(run, s->queue, &to, &to_end);
    for (; st == QN_OK && to < to_end; to++) {
        lanes_of(run, run->plan->records[r].queue, &from, &from_end);
        for (; st == QN_OK && from < from_end; from++)
            st = ops_of(run, to)->wait(q->lanes[to],
                                       run->plan->queue_stream[s->queue],
                                       q->lanes[from], r, &run->error);
    }
    return st;
}

static qn_status stream_waits(qn_run *run, const qn_step *s)
{
    qn_status st = QN_OK;
    for (uint32_t k = 0; st == QN_OK && k < s->n_waits; k++)
        st = stream_wait(run, s, s->waits[k]);
    return st;
}

/* Step q->pc is enqueued, or has run. True: the host has to see its end before
 * anything else, to know a shape or to name the kernel that fails. */
static bool must_see(qn_run *run, const qn_step *s)
{
    const qn_issue *q = ((qn_exec *)run->exec)->issue;
    return s->space && (q->finishing != UINT32_MAX ||
                        run->session->options.sync_launch);
}

static qn_status go_on(qn_run *run, qn_team *team, bool *paused)
{
    qn_issue *q = ((qn_exec *)run->exec)->issue;
    qn_status st = QN_OK;
    if (q->finishing != UINT32_MAX && !q->lost)
        st = qn_exec_finish_step(run, q->finishing);
    q->finishing = UINT32_MAX;
    while (st == QN_OK && q->pc < run->plan->n_steps) {
        const qn_step *s = &run->plan->steps[q->pc];
        uint32_t next;
        trace_step(run, q->pc);
        st = qn_exec_may_go_on(run, &run->error);
        if (st == QN_OK && !q->arrived)
            st = make_records(run, s->first_record, s->n_records);
        q->arrived = true;
        if (st == QN_OK && !host_waits(run, s)) {
            *paused = true;
            return QN_OK;
        }
        if (q->lost)
            return QN_DEVICE_LOST;
        if (st == QN_OK && s->space)
            st = stream_waits(run, s);
        if (st == QN_OK)
            st = qn_exec_step(run, q->pc, team, &next);
        if (st != QN_OK)
            break;
        q->pc = next;
        q->arrived = false;
        if (!must_see(run, s))
            continue;
        st = record_on(run, s->queue, walk_event(run));
        if (st == QN_OK && !q->lost &&
            !reached(run, s->space - 1u, walk_event(run))) {
            *paused = true;
            return QN_OK;
        }
        if (st == QN_OK && q->finishing != UINT32_MAX && !q->lost)
            st = qn_exec_finish_step(run, q->finishing);
        q->finishing = UINT32_MAX;
    }
    return st;
}

static qn_status prepare_lanes(qn_run *run)
{
    qn_issue *q = ((qn_exec *)run->exec)->issue;
    qn_status st = QN_OK;
    for (uint32_t i = 0; st == QN_OK && i < n_lanes(run); i++) {
        const qn_lease_part *arena =
            &run->device_leases[i].parts[QN_PART_ARENA];
        char *word = (char *)arena->data +
                     qn_device_arena_bytes(run->plan, i + 1) - QN_FAULT_BYTES;
        ops_of(run, i)->fault_words(q->lanes[i], word, q->faults[i]);
        st = ops_of(run, i)->reserve(q->lanes[i], walk_event(run) + 1,
                                     &run->error);
    }
    return st;
}

/* ---- graphs ---- */

/* Record the walk instead of running it. True: the run has a graph now. */
static bool capture(qn_run *run)
{
    qn_issue *q = ((qn_exec *)run->exec)->issue;
    const struct qn_accel_ops *ops = ops_of(run, 0);
    qn_error err = { 0 };
    qn_agraph *graph = NULL;
    size_t bytes = 0;
    bool paused = false;
    qn_status st = ops->capture_begin(q->lanes[0], &err);
    if (st != QN_OK) {
        if (st != QN_BUSY)
            qn_graphs_failed(run);
        return false;
    }
    run->status = begin(run);
    if (run->status == QN_OK)
        run->status = go_on(run, NULL, &paused);
    trace_end(run);
    end_lane(run, 0);
    st = ops->capture_end(q->lanes[0], run->status == QN_OK ? &graph : NULL,
                          &bytes, &err);
    bool kept = run->status == QN_OK && st == QN_OK &&
                qn_graphs_keep(run, graph, bytes);
    if (!kept && run->status != QN_CANCELLED && run->status != QN_DEADLINE)
        qn_graphs_failed(run);
    /* nothing has run yet: the walk starts, or starts over */
    run->status = QN_OK;
    run->error = (qn_error){ 0 };
    q->pc = 0;
    q->arrived = false;
    return kept;
}

/* True: all that the run does is enqueued, as one graph. */
static bool launch_graph(qn_run *run)
{
    qn_issue *q = ((qn_exec *)run->exec)->issue;
    const struct qn_accel_ops *ops = ops_of(run, 0);
    if (!qn_graphs_of(run) && !(qn_graphs_wanted(run) && capture(run)))
        return false;
    trace_end(run);
    qn_status st = qn_exec_may_go_on(run, &run->error);
    if (st != QN_OK) { /* nothing to wait for but the lane's own past */
        run->status = st;
        st = ops->record(q->lanes[0], 0, walk_event(run), &run->error);
        q->ended = st == QN_OK;
        return true;
    }
    st = ops->graph_launch(q->lanes[0], qn_graphs_of(run), &run->error);
    if (st == QN_OK)
        st = ops->record(q->lanes[0], 0, walk_event(run), &run->error);
    if (st == QN_OK) {
        q->ended = true;
        return true;
    }
    qn_graphs_failed(run);
    qn_graphs_forget(run); /* plain launches say what is wrong, if it is more */
    run->error = (qn_error){ 0 };
    return false;
}

bool qn_issue_steps(qn_run *run, qn_team *team, void (*resume)(qn_run *run))
{
    qn_issue *q = ((qn_exec *)run->exec)->issue;
    bool paused = false;
    q->resume = resume;
    if (!q->begun) {
        q->begun = true;
        run->status = prepare_lanes(run);
        if (run->status == QN_OK && !launch_graph(run))
            run->status = begin(run);
    }
    if (!q->ended && run->status == QN_OK) {
        run->status = go_on(run, team, &paused);
        if (paused)
            return false;
    }
    if (!finish(run))
        return false;
    if (!run->instance)
        qn_graphs_count(run);
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/checked.h"
#include "runtime/base/clock.h"
#include "runtime/exec/launch.h"

#include "runtime/exec/collective.h"
#include "runtime/exec/eval.h"
#include "runtime/exec/queues.h"
#include "runtime/exec/session_impl.h"
#include "runtime/exec/trace.h"
#include "runtime/ops/op.h"

#include <string.h>

enum { QN_SIDE_ALIGN = 256 };

static size_t round64(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

static size_t n_args(const qn_plan *plan)
{
    return (size_t)plan->max_args * (plan->n_queues ? plan->n_queues : 1);
}

size_t qn_exec_bytes(const qn_plan *plan)
{
    return round64(sizeof(qn_exec)) + round64(plan->n_bases * sizeof(void *)) +
           round64(plan->n_dynamics * sizeof(qn_shape)) +
           round64(n_args(plan) * sizeof(qn_tensor)) +
           round64(n_args(plan) * sizeof(void *)) +
           (plan->n_spaces > 1 ? round64(sizeof(qn_issue)) : 0) +
           round64(qn_queues_bytes(plan));
}

static void *take(char **at, size_t bytes)
{
    void *p = *at;
    *at += round64(bytes);
    return p;
}

static void init_devices(qn_run *run, qn_exec *e)
{
    const qn_plan *plan = run->plan;
    memset(e->issue, 0, sizeof *e->issue);
    e->issue->finishing = UINT32_MAX;
    for (uint32_t n = 1; n < plan->n_spaces; n++) {
        const qn_lease_part *parts = run->device_leases[n - 1].parts;
        e->bases[qn_base((uint8_t)n, QN_BASE_ARENA)] =
            parts[QN_PART_ARENA].data;
        e->issue->side[n - 1] = parts[QN_PART_SIDE].data;
        e->issue->side_bytes[n - 1] = parts[QN_PART_SIDE].charged;
    }
}

void qn_exec_init(qn_run *run)
{
    const qn_plan *plan = run->plan;
    const qn_static *mem = &run->session->memory;
    char *at = run->lease.parts[QN_PART_SIDE].data;
    char *in = run->lease.parts[QN_PART_IN].data;
    char *out = run->lease.parts[QN_PART_OUT].data;
    qn_exec *e = take(&at, sizeof *e);
    e->bases = take(&at, plan->n_bases * sizeof(void *));
    e->shapes = take(&at, plan->n_dynamics * sizeof(qn_shape));
    e->args = take(&at, n_args(plan) * sizeof(qn_tensor));
    e->packed = take(&at, n_args(plan) * sizeof(void *));
    e->issue = plan->n_spaces > 1 ? take(&at, sizeof *e->issue) : NULL;
    size_t queues = qn_queues_bytes(plan);
    e->queues = queues ? take(&at, queues) : NULL;
    qn_heap_init(&e->heap, at, plan->heap_bytes);
    at += plan->heap_bytes;
    for (uint8_t n = 0; n < plan->n_spaces; n++) {
        e->bases[qn_base(n, QN_BASE_STATIC)] = mem->blocks[n].data;
        e->bases[qn_base(n, QN_BASE_PLAN)] = plan->consts[n];
    }
    e->bases[qn_base(0, QN_BASE_ARENA)] = run->lease.parts[QN_PART_ARENA].data;
    if (e->issue)
        init_devices(run, e);
    void **io = e->bases + plan->base_io;
    for (uint32_t i = 0; i < plan->n_in; i++)
        io[i] = in ? in + plan->in_offsets[i] : NULL;
    for (uint32_t i = 0; i < plan->n_out; i++)
        io[plan->n_in + i] = out ? out + plan->out_offsets[i] : NULL;
    for (uint32_t i = 0; i < plan->n_dynamics; i++)
        e->bases[plan->dynamics[i].base] = NULL;
    run->strings = (qn_strings){
        .base = { [QN_STRINGS_STATIC] =
                      mem->blocks[0].data
                          ? mem->blocks[0].data + mem->strings_offset : NULL,
                  [QN_STRINGS_REQUEST] = at },
        .limit = plan->strings_bytes + run->string_bytes };
    run->exec = e;
}

void *qn_exec_address(const qn_exec *e, qn_addr addr)
{
    if (addr.base == QN_BASE_NONE || !e->bases[addr.base])
        return NULL;
    return (char *)e->bases[addr.base] + addr.offset;
}

static qn_tensor tensor_at(const qn_plan *plan, const qn_exec *e, uint32_t row)
{
    if (row == QN_NO_VALUE)
        return (qn_tensor){ 0 };
    const qn_pvalue *v = &plan->values[row];
    qn_tensor t = v->t;
    if (v->dynamic != QN_NOT_DYNAMIC)
        t.shape = e->shapes[v->dynamic];
    t.data = qn_exec_address(e, v->addr);
    return t;
}

/* ---- dynamic values ---- */

static qn_status no_room(const qn_step *s, size_t bytes,
                         size_t used, size_t all, qn_error *err)
{
    char text[QN_NODE_TEXT];
    return qn_fail(err, QN_NO_MEMORY,
                   "%s: its result takes %zu bytes that could not be planned; "
                   "%zu of %zu bytes set aside for such values are free; raise "
                   "dynamic_bytes in config.json",
                   s->node ? qn_node_text(s->node, text) : "copy", bytes,
                   all - used, all);
}

/* Bytes that were set aside in the space of a step or value; NULL and the error
 * if there are too few. */
static void *side_alloc(qn_run *run, const qn_step *s, uint8_t space,
                        size_t bytes, qn_error *err)
{
    qn_exec *e = run->exec;
    void *p;
    if (!space) {
        p = qn_heap_alloc(&e->heap, bytes ? bytes : 1);
        if (!p)
            (void)no_room(s, bytes, e->heap.used, e->heap.bytes, err);
        return p;
    }
    qn_issue *q = e->issue;
    size_t used = q->side_used[space - 1], all = q->side_bytes[space - 1], need;
    if (!qn_align_size(bytes ? bytes : 1, QN_SIDE_ALIGN, &need) ||
        need > all - used) {
        (void)no_room(s, bytes, used, all, err);
        return NULL;
    }
    q->side_used[space - 1] += need;
    return q->side[space - 1] + used;
}

/* Find memory for a dynamic value of a now known shape. */
static qn_status place(qn_run *run, const qn_step *s, uint32_t row,
                       const qn_shape *physical, qn_error *err)
{
    qn_exec *e = run->exec;
    const qn_pvalue *v = &run->plan->values[row];
    if (v->dynamic == QN_NOT_DYNAMIC)
        return QN_OK;
    const qn_dynamic *d = &run->plan->dynamics[v->dynamic];
    size_t bytes;
    qn_status st = qn_tensor_bytes(v->t.dtype, physical, &bytes, err);
    if (st != QN_OK)
        return st;
    e->shapes[v->dynamic] = *physical;
    if (d->alias != QN_NOT_DYNAMIC) {
        e->bases[d->base] = e->bases[run->plan->dynamics[d->alias].base];
        return QN_OK;
    }
    void *home = qn_exec_address(e, d->home);
    if (home && bytes <= d->capacity) {
        e->bases[d->base] = home;
        return QN_OK;
    }
    if (s->kind == QN_STEP_VIEW) { /* where there are no bytes, no home either */
        e->bases[d->base] = home;
        return !bytes ? QN_OK
                      : qn_fail(err, QN_INTERNAL,
                                "a view grew from %zu to %zu bytes",
                                d->capacity, bytes);
    }
    e->bases[d->base] = side_alloc(run, s, v->space, bytes, err);
    return e->bases[d->base] ? QN_OK : QN_NO_MEMORY;
}

/* ---- for tests ---- */

static void trace(const qn_run *run, const qn_step *s, qn_trace_work work)
{
    const qn_trace *t = run->session->options.trace;
    const qn_exec *e = run->exec;
    if (t && t->work && e->issue)
        t->work(t->arg, run, (uint32_t)(s - run->plan->steps), &work);
}

/* Not where a device may read what was enqueued before. */
static void free_dead(qn_run *run, uint32_t step)
{
    qn_exec *e = run->exec;
    if (e->issue)
        return;
    for (uint32_t i = 0; i < run->plan->n_dynamics; i++) {
        const qn_dynamic *d = &run->plan->dynamics[i];
        if (d->last == step && d->alias == QN_NOT_DYNAMIC)
            qn_heap_free(&e->heap, e->bases[d->base]);
    }
}

/* ---- steps ---- */

static qn_tensor *args_of(const qn_run *run, const qn_step *s)
{
    const qn_exec *e = run->exec;
    return e->args + (size_t)s->queue * run->plan->max_args;
}

static const void **packed_of(const qn_run *run, const qn_step *s)
{
    const qn_exec *e = run->exec;
    return e->packed + (size_t)s->queue * run->plan->max_args;
}

/* Queues that run side by side do not share an error. */
static qn_error *err_of(qn_run *run, const qn_step *s)
{
    const qn_exec *e = run->exec;
    return e->queues ? &e->queues->walks[s->queue].error : &run->error;
}

static void bind_packed(const qn_run *run, const qn_step *s)
{
    const void **packed = packed_of(run, s);
    for (uint32_t i = 0; i < s->n_in; i++)
        packed[i] =
            s->packed ? qn_exec_address(run->exec, s->packed[i]) : NULL;
}

static qn_accel *accel_of(const qn_run *run, uint8_t space)
{
    return space ? run->session->accels[space - 1]->accel : NULL;
}

static qn_status zero(qn_run *run, const qn_step *s, void *data, size_t bytes)
{
    const qn_exec *e = run->exec;
    if (!bytes)
        return QN_OK;
    trace(run, s, (qn_trace_work){ .dst = data, .bytes = bytes,
                                   .on_host = !s->space });
    if (!s->space) {
        memset(data, 0, bytes);
        return QN_OK;
    }
    return accel_of(run, s->space)->ops->clear(
        e->issue->lanes[s->space - 1], run->plan->queue_stream[s->queue], data,
        bytes, err_of(run, s));
}

/* What the kernel asked for when it was prepared, see qn_prepare. */
static qn_status clear_before(qn_run *run, const qn_step *s, uint32_t clear,
                              const qn_tensor *out, void *workspace,
                              size_t workspace_bytes)
{
    qn_status st = QN_OK;
    for (uint32_t i = 0; st == QN_OK && i < s->n_out && i < 31; i++) {
        size_t bytes;
        if (!(clear >> i & 1) || !qn_present(&out[i]))
            continue;
        st = qn_tensor_bytes(out[i].dtype, &out[i].shape, &bytes, err_of(run, s));
        if (st == QN_OK)
            st = zero(run, s, out[i].data, bytes);
    }
    if (st == QN_OK && (clear & QN_CLEAR_WORKSPACE))
        st = zero(run, s, workspace, workspace_bytes);
    return st;
}

static qn_launch call_of(qn_run *run, const qn_step *s, qn_tensor *in,
                         qn_tensor *out, const void *state, void *workspace,
                         qn_team *team)
{
    qn_exec *e = run->exec;
    qn_launch k = { .node = s->node, .state = state, .n_in = s->n_in,
                    .n_out = s->n_out, .in = in, .out = out,
                    .packed = packed_of(run, s), .workspace = workspace,
                    .strings = &run->strings, .team = team,
                    .step = (uint32_t)(s - run->plan->steps),
                    .err = err_of(run, s) };
    if (s->space) {
        qn_accel *accel = accel_of(run, s->space);
        k.queue = accel->ops->queue(e->issue->lanes[s->space - 1],
                                    run->plan->queue_stream[s->queue]);
        k.counts = e->issue->counts;
    }
    return k;
}

static qn_status launch(qn_run *run, const qn_step *s, qn_tensor *in,
                        qn_tensor *out, const void *state, void *workspace,
                        size_t workspace_bytes, qn_team *team)
{
    qn_launch k = call_of(run, s, in, out, state, workspace, team);
    trace(run, s, (qn_trace_work){ .launch = &k,
                                   .workspace_bytes = workspace_bytes,
                                   .on_host = !s->space });
    return s->kernel->launch(&k);
}

static qn_status step_static(qn_run *run, const qn_step *s, qn_team *team)
{
    qn_exec *e = run->exec;
    qn_tensor *in = args_of(run, s), *out = in + s->n_in;
    for (uint32_t i = 0; i < s->n_in; i++)
        in[i] = tensor_at(run->plan, e, s->in[i]);
    for (uint32_t i = 0; i < s->n_out; i++)
        out[i] = tensor_at(run->plan, e, s->out[i]);
    bind_packed(run, s);
    void *workspace =
        s->workspace_bytes ? qn_exec_address(e, s->workspace) : NULL;
    if (s->clear) {
        qn_status st = clear_before(run, s, s->clear, out, workspace,
                                    s->workspace_bytes);
        if (st != QN_OK)
            return st;
    }
    if (s->space && (s->node->op->flags & QN_OP_COLLECTIVE))
        return qn_exec_collective(run, s, in, out, err_of(run, s));
    return launch(run, s, in, out, s->state, workspace, s->workspace_bytes,
                  team);
}

/* What lies on the host may be read for a shape. */
static void trace_host_read(const qn_run *run, const qn_step *s, uint32_t i,
                            const qn_tensor *t)
{
    size_t bytes;
    if (run->session->options.trace && !run->plan->values[s->in[i]].space &&
        qn_tensor_bytes(t->dtype, &t->shape, &bytes, NULL) == QN_OK)
        trace(run, s, (qn_trace_work){ .src = t->data, .bytes = bytes,
                                       .on_host = true });
}

/* Shapes of a dynamic step's outputs, from what its inputs are now. */
static qn_status infer_now(qn_run *run, const qn_step *s, qn_tensor *in,
                           qn_tensor *out)
{
    const qn_plan *plan = run->plan;
    for (uint32_t i = 0; i < s->n_in; i++) {
        in[i] = tensor_at(plan, run->exec, s->in[i]);
        if (s->in[i] == QN_NO_VALUE)
            continue;
        trace_host_read(run, s, i, &in[i]);
        in[i].shape = qn_logical_shape(&in[i].shape,
                                       plan->values[s->in[i]].order);
    }
    qn_status st = qn_eval_infer(s->node, in, out, &run->error);
    for (uint32_t i = 0; st == QN_OK && i < s->n_out; i++) {
        if (s->out[i] == QN_NO_VALUE) {
            out[i] = (qn_tensor){ 0 };
            continue;
        }
        qn_shape p = qn_physical_shape(&out[i].shape,
                                       plan->values[s->out[i]].order);
        st = place(run, s, s->out[i], &p, &run->error);
        out[i] = tensor_at(plan, run->exec, s->out[i]);
    }
    for (uint32_t i = 0; i < s->n_in; i++)
        if (s->in[i] != QN_NO_VALUE)
            in[i].shape = qn_physical_shape(&in[i].shape,
                                            plan->values[s->in[i]].order);
    return st;
}

/* State that is prepared while a request runs lies in the SIDE heap. Few kernels
 * have any; how much is known only when it has been too little. */
enum { LATE_STATE_BYTES = 64 << 10, LATE_STATE_GROWS = 2 };

static qn_status prepare_late(qn_run *run, const qn_step *s, qn_prepare *p,
                              void **state)
{
    qn_exec *e = run->exec;
    qn_region region;
    p->region = &region;
    for (size_t n = LATE_STATE_BYTES;; n *= LATE_STATE_GROWS) {
        *state = qn_heap_alloc(&e->heap, n);
        qn_region_init_fixed(&region, *state, *state ? n : 0);
        p->state = NULL;
        p->workspace = 0;
        qn_status st = s->kernel->prepare(p, &run->error);
        if (st != QN_NO_MEMORY)
            return st;
        if (!*state)
            return no_room(s, n, e->heap.used, e->heap.bytes, &run->error);
        qn_heap_free(&e->heap, *state);
        *state = NULL;
        run->error = (qn_error){ 0 };
    }
}

static qn_status prepare_now(qn_run *run, const qn_step *s, qn_tensor *in,
                             qn_tensor *out, qn_team *team)
{
    qn_exec *e = run->exec;
    qn_device *cpu = run->session->runtime->cpu;
    qn_prepare p = { .node = s->node, .n_in = s->n_in, .n_out = s->n_out,
                     .in = in, .out = out, .packed = packed_of(run, s),
                     .max_threads = cpu->ops->max_threads(cpu),
                     .accel = accel_of(run, s->space),
                     .precision = run->session->options.precision };
    void *state = NULL, *workspace = NULL;
    qn_status st = QN_OK;
    if (s->kernel->prepare)
        st = prepare_late(run, s, &p, &state);
    if (st == QN_OK && p.workspace) {
        workspace = side_alloc(run, s, s->space, p.workspace, &run->error);
        st = workspace ? QN_OK : QN_NO_MEMORY;
    }
    if (st == QN_OK && p.clear)
        st = clear_before(run, s, p.clear, out, workspace, p.workspace);
    if (st == QN_OK)
        st = launch(run, s, in, out, p.state, workspace, p.workspace, team);
    qn_heap_free(&e->heap, workspace); /* not a device's */
    if (s->space)
        e->issue->finish_state = p.state;
    else
        qn_heap_free(&e->heap, state);
    return st;
}

static void note_shapes(qn_run *run, const qn_step *s, const qn_tensor *out)
{
    qn_exec *e = run->exec;
    const qn_plan *plan = run->plan;
    for (uint32_t i = 0; i < s->n_out; i++)
        if (s->out[i] != QN_NO_VALUE &&
            plan->values[s->out[i]].dynamic != QN_NOT_DYNAMIC)
            e->shapes[plan->values[s->out[i]].dynamic] = out[i].shape;
}

static qn_status step_dynamic(qn_run *run, const qn_step *s, qn_team *team)
{
    qn_exec *e = run->exec;
    qn_tensor *in = args_of(run, s), *out = in + s->n_in;
    qn_status st = infer_now(run, s, in, out);
    if (st != QN_OK || s->kind == QN_STEP_VIEW)
        return st;
    bind_packed(run, s);
    st = prepare_now(run, s, in, out, team);
    if (st == QN_OK && s->space && s->kernel->finish)
        e->issue->finishing = (uint32_t)(s - run->plan->steps);
    else if (st == QN_OK)
        note_shapes(run, s, out);
    return st;
}

qn_status qn_exec_finish_step(qn_run *run, uint32_t i)
{
    qn_exec *e = run->exec;
    const qn_step *s = &run->plan->steps[i];
    qn_tensor *in = args_of(run, s), *out = in + s->n_in; /* as launched */
    trace(run, s, (qn_trace_work){ .src = e->issue->counts,
                                   .bytes = sizeof e->issue->counts,
                                   .on_host = true });
    qn_launch k = call_of(run, s, in, out, e->issue->finish_state, NULL,
                          NULL);
    qn_status st = s->kernel->finish(&k);
    if (st == QN_OK)
        note_shapes(run, s, out);
    return st;
}

static qn_status move_bytes(qn_run *run, const qn_step *s, void *dst,
                            const void *src, size_t bytes)
{
    const qn_plan *plan = run->plan;
    uint8_t from = plan->values[s->in[0]].space;
    uint8_t to = plan->values[s->out[0]].space;
    trace(run, s, (qn_trace_work){ .dst = dst, .src = src, .bytes = bytes,
                                   .on_host = !s->space });
    if (!s->space) {
        memcpy(dst, src, bytes);
        return QN_OK;
    }
    qn_accel *accel = accel_of(run, s->space);
    qn_copy_kind kind = !from ? QN_COPY_TO_DEVICE
                        : !to ? QN_COPY_FROM_DEVICE
                        : from == to ? QN_COPY_ON_DEVICE : QN_COPY_PEER;
    const qn_exec *e = run->exec;
    return accel->ops->copy(e->issue->lanes[s->space - 1],
                            plan->queue_stream[s->queue], kind, dst, src, bytes,
                            kind == QN_COPY_PEER ? accel_of(run, from) : NULL,
                            err_of(run, s));
}

/* With a node it is a view that needs bytes of its own, and has its own shape. */
static qn_status step_copy(qn_run *run, const qn_step *s)
{
    qn_exec *e = run->exec;
    qn_tensor in = tensor_at(run->plan, e, s->in[0]);
    size_t bytes;
    qn_status st =
        s->node && s->dynamic
            ? infer_now(run, s, args_of(run, s), args_of(run, s) + s->n_in)
            : place(run, s, s->out[0], &in.shape, err_of(run, s));
    if (st == QN_OK)
        st = qn_tensor_bytes(in.dtype, &in.shape, &bytes, err_of(run, s));
    qn_tensor out = tensor_at(run->plan, e, s->out[0]);
    if (st == QN_OK && bytes)
        st = move_bytes(run, s, out.data, in.data, bytes);
    return st;
}

static qn_status step_test(qn_run *run, const qn_step *s, bool *jump)
{
    qn_tensor c = tensor_at(run->plan, run->exec, s->in[0]);
    char node[QN_NODE_TEXT], shape[QN_SHAPE_TEXT];
    if (qn_count(&c) != 1)
        return qn_fail(&run->error, QN_SHAPE,
                       "%s: the condition must be one element, not %s",
                       qn_node_text(s->node, node),
                       qn_shape_text(&c.shape, shape));
    trace(run, s, (qn_trace_work){ .src = c.data, .bytes = 1, .on_host = true });
    *jump = !*(const uint8_t *)c.data;
    return QN_OK;
}

qn_status qn_exec_may_go_on(const qn_run *run, qn_error *err)
{
    if (atomic_load_explicit(&run->cancel, memory_order_relaxed))
        return qn_fail(err, QN_CANCELLED, "the request was cancelled");
    if (run->deadline_ns && qn_clock_ns() >= run->deadline_ns)
        return qn_fail(err, QN_DEADLINE, "the deadline has passed");
    return QN_OK;
}

static void tell(const qn_run *run, uint32_t i)
{
    const qn_step *s = &run->plan->steps[i];
    char text[QN_NODE_TEXT];
    if (s->node)
        qn_logf(&run->session->runtime->options.log, QN_LOG_DEBUG,
                "launch %u: %s", i, qn_node_text(s->node, text));
}

qn_status qn_exec_step(qn_run *run, uint32_t i, qn_team *team, uint32_t *next)
{
    const qn_step *s = &run->plan->steps[i];
    qn_status st = QN_OK;
    bool jump = false;
    *next = i + 1;
    if (run->session->options.sync_launch)
        tell(run, i);
    switch (s->kind) {
    case QN_STEP_JUMP:
        *next = s->target;
        break;
    case QN_STEP_JUMP_UNLESS:
        st = step_test(run, s, &jump);
        if (jump)
            *next = s->target;
        break;
    case QN_STEP_COPY:
        st = step_copy(run, s);
        break;
    case QN_STEP_VIEW:
    case QN_STEP_LAUNCH:
        st = s->dynamic ? step_dynamic(run, s, team)
                        : step_static(run, s, team);
        break;
    }
    if (s->dynamic)
        free_dead(run, i);
    return st;
}

qn_status qn_exec_steps(qn_run *run, qn_team *team)
{
    qn_status st = QN_OK;
    for (uint32_t i = 0; st == QN_OK && i < run->plan->n_steps;) {
        st = qn_exec_may_go_on(run, &run->error);
        if (st == QN_OK)
            st = qn_exec_step(run, i, team, &i);
    }
    run->status = st;
    return st;
}

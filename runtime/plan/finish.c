/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Last part of planning: what the builder knows becomes the tables that runs
 * read (runtime/plan/plan.h), in the plan's own region, without a pointer to
 * the builder.
 */
#include "runtime/base/checked.h"
#include "runtime/ops/op.h"
#include "runtime/exec/launch.h"
#include "runtime/plan/streams.h"

#include <string.h>

/* ---- tables ---- */

typedef struct tables {
    const qn_places *places;
    size_t *arena;       /* [n_values] offset of roots in the arena */
    size_t *work;        /* [n_steps] */
    uint32_t *renumber;  /* [n_steps + 1] finished number of a step */
    char *consts[QN_SESSION_ACCELS + 1]; /* known values, gathered by space */
} tables;

static qn_status gather_known(qn_builder *b, tables *t, uint8_t space,
                              size_t *offsets)
{
    size_t at = 0, align = space ? QN_DEVICE_ALIGN : QN_ARENA_ALIGN;
    for (uint32_t v = 0; v < b->n_values; v++) {
        const qn_bvalue *value = &b->values[v];
        if (value->kind != QN_BV_KNOWN || !value->used || value->space != space)
            continue;
        offsets[v] = at;
        if (!qn_add_size(at, value->bytes, &at) ||
            !qn_align_size(at, align, &at))
            return qn_fail(b->err, QN_TOO_LARGE, "plan constants overflow");
    }
    /* what goes to a device is needed until it is there */
    char *block = qn_region_alloc(space ? &b->scratch : &b->plan->region,
                                  at + 1, 1);
    t->consts[space] = block;
    b->plan->const_bytes[space] = at;
    if (!block)
        return qn_build_no_memory(b);
    for (uint32_t v = 0; v < b->n_values; v++) {
        const qn_bvalue *value = &b->values[v];
        if (value->kind == QN_BV_KNOWN && value->used && value->bytes &&
            value->space == space)
            memcpy(block + offsets[v], value->data, value->bytes);
    }
    return QN_OK;
}

static qn_addr home_of(const qn_builder *b, const tables *t,
                       const size_t *known, uint32_t v)
{
    const qn_plan *plan = b->plan;
    uint32_t r = qn_build_root(b, v);
    const qn_bvalue *root = &b->values[r];
    switch (root->kind) {
    case QN_BV_INPUT:
        return (qn_addr){ plan->base_io + root->slot, 0 };
    case QN_BV_CONST: {
        size_t offset = qn_static_offset(&b->session->memory, root->slot,
                                         root->space);
        return offset != QN_UNPLACED
                   ? (qn_addr){ qn_base(root->space, QN_BASE_STATIC), offset }
                   : (qn_addr){ QN_BASE_NONE, 0 };
    }
    case QN_BV_KNOWN:
        return (qn_addr){ qn_base(root->space, QN_BASE_PLAN), known[r] };
    case QN_BV_STEP:
        break;
    }
    if (root->dynamic && !root->bounded)
        return (qn_addr){ QN_BASE_NONE, 0 };
    if (root->output >= 0)
        return (qn_addr){ plan->base_io + plan->n_in + (uint32_t)root->output,
                          0 };
    return (qn_addr){ qn_base(root->space, QN_BASE_ARENA),
                      root->bytes ? t->arena[r] : 0 };
}

static qn_status finish_values(qn_builder *b, tables *t)
{
    qn_plan *plan = b->plan;
    size_t *known = qn_region_alloc(&b->scratch, b->n_values + 1u, sizeof *known);
    if (!known)
        return qn_build_no_memory(b);
    qn_status st = QN_OK;
    for (uint8_t space = 0; st == QN_OK && space < plan->n_spaces; space++)
        st = gather_known(b, t, space, known);
    if (st != QN_OK)
        return st;
    /* the run looks at all of them, the defaults of those left out, too */
    for (uint32_t i = 0; i < plan->n_in; i++)
        b->values[b->inputs[i]].used = true;
    for (uint32_t v = 0; v < b->n_values; v++) {
        qn_bvalue *value = &b->values[v];
        value->row = value->used ? plan->n_values++ : QN_NO_VALUE;
        if (value->used && value->kind == QN_BV_STEP && value->dynamic)
            plan->n_dynamics++;
    }
    plan->values = qn_region_alloc(&plan->region, plan->n_values + 1u,
                                   sizeof *plan->values);
    plan->dynamics = qn_region_alloc(&plan->region, plan->n_dynamics + 1u,
                                     sizeof *plan->dynamics);
    uint32_t *rows = qn_region_alloc(&b->scratch, b->n_values + 1u, sizeof *rows);
    if (!plan->values || !plan->dynamics || !rows)
        return qn_build_no_memory(b);
    uint32_t n = 0;
    for (uint32_t v = 0; v < b->n_values; v++) {
        const qn_bvalue *value = &b->values[v];
        if (!value->used)
            continue;
        qn_pvalue *p = &plan->values[value->row];
        *p = (qn_pvalue){ .t = qn_build_physical(b, v), .order = value->order,
                          .space = value->space,
                          .addr = home_of(b, t, known, v),
                          .dynamic = QN_NOT_DYNAMIC };
        p->t.data = NULL;
        if (value->kind != QN_BV_STEP || !value->dynamic)
            continue;
        uint32_t r = qn_build_root(b, v);
        uint32_t base = plan->base_io + plan->n_in + plan->n_out + n;
        rows[v] = p->dynamic = n;
        plan->dynamics[n++] = (qn_dynamic){
            .value = value->row, .base = base, .home = p->addr,
            .capacity = b->values[r].bytes,
            .alias = r != v && b->values[r].kind == QN_BV_STEP &&
                             b->values[r].dynamic
                         ? rows[r] : QN_NOT_DYNAMIC,
            .last = value->last >= b->n_steps
                        ? UINT32_MAX : t->renumber[b->values[r].last] };
        p->addr = (qn_addr){ base, 0 };
    }
    plan->n_bases = plan->base_io + plan->n_in + plan->n_out + plan->n_dynamics;
    return QN_OK;
}

static uint32_t *rows_of(qn_builder *b, const uint32_t *ids, uint32_t n)
{
    uint32_t *rows = qn_region_alloc(&b->plan->region, n + 1u, sizeof *rows);
    for (uint32_t i = 0; rows && i < n; i++)
        rows[i] = ids[i] == QN_NO_VALUE ? QN_NO_VALUE : b->values[ids[i]].row;
    return rows;
}

static qn_status finish_step(qn_builder *b, const tables *t, uint32_t i,
                             qn_step *out)
{
    const qn_bstep *s = &b->steps[i];
    const qn_static *mem = &b->session->memory;
    *out = (qn_step){ .kind = s->kind, .dynamic = s->dynamic, .node = s->node,
                      .kernel = s->node ? s->node->kernel : NULL,
                      .state = s->state, .n_in = s->n_in, .n_out = s->n_out,
                      .space = s->space,
                      .clear = s->clear,
                      .workspace = { qn_base(s->space, QN_BASE_ARENA),
                                     t->work[i] },
                      .workspace_bytes = s->workspace };
    if (s->kind == QN_STEP_JUMP || s->kind == QN_STEP_JUMP_UNLESS)
        out->target = t->renumber[s->target];
    out->in = rows_of(b, s->in, s->n_in);
    out->out = rows_of(b, s->out, s->n_out);
    qn_addr *packed = NULL;
    for (uint32_t k = 0; s->kind == QN_STEP_LAUNCH && k < s->n_in; k++) {
        const qn_packed *p = qn_static_packed(mem, s->owner, k);
        if (!p)
            continue;
        if (!packed) {
            packed = qn_region_alloc(&b->plan->region, s->n_in, sizeof *packed);
            if (!packed)
                return qn_build_no_memory(b);
            for (uint32_t j = 0; j < s->n_in; j++)
                packed[j].base = QN_BASE_NONE;
        }
        packed[k] = (qn_addr){ qn_base(p->space, QN_BASE_STATIC), p->offset };
    }
    out->packed = packed;
    uint32_t args = s->n_in + s->n_out;
    if (args > b->plan->max_args)
        b->plan->max_args = args;
    return out->in && out->out ? QN_OK : qn_build_no_memory(b);
}

/* ---- queues ---- */

/* Which stream of which device each queue is. */
static void finish_queues(qn_builder *b)
{
    const qn_schedule *s = &b->streams->schedule;
    qn_plan *plan = b->plan;
    uint8_t used[QN_SESSION_ACCELS + 1] = { 0 };
    plan->n_queues = s->n_queues;
    for (uint32_t q = 0; q < s->n_queues; q++) {
        bool comm = s->queue_class[q] >= plan->n_spaces;
        plan->queue_space[q] = comm ? (plan->n_spaces > 1 ? QN_SPACE_ALL : 0)
                                    : (uint8_t)s->queue_class[q];
        plan->queue_stream[q] =
            comm ? QN_ACCEL_STREAM_COMM : used[plan->queue_space[q]]++;
    }
    plan->waits_naive = s->stats.naive;
    plan->waits_kept = s->stats.waits;
}

/* Steps that each queue was given before a place in the list. */
static qn_status finish_records(qn_builder *b)
{
    const qn_schedule *s = &b->streams->schedule;
    qn_plan *plan = b->plan;
    uint32_t given[QN_PLAN_QUEUES] = { 0 }, r = 0;
    plan->records = qn_region_alloc(&plan->region, s->n_records + 1u,
                                    sizeof *plan->records);
    if (!plan->records)
        return qn_build_no_memory(b);
    for (uint32_t at = 0; at <= s->n; at++) {
        for (; r < s->n_records && s->records[r].at == at; r++)
            plan->records[r] = (qn_plan_record){
                s->records[r].queue, given[s->records[r].queue] };
        /* the host's side of a step is no step of the plan */
        if (at < s->n && b->streams->place[b->streams->order[at]] == at)
            given[s->queue[at]]++;
    }
    plan->n_records = s->n_records;
    plan->end_record = s->record_start[s->n];
    return QN_OK;
}

static qn_status copy_numbers(qn_builder *b, const uint32_t *from, uint32_t n,
                              const uint32_t **out)
{
    uint32_t *to = qn_region_alloc(&b->plan->region, n + 1u, sizeof *to);
    if (to && n)
        memcpy(to, from, n * sizeof *to);
    *out = to;
    return to ? QN_OK : qn_build_no_memory(b);
}

static qn_status queue_step(qn_builder *b, uint32_t i, qn_step *out)
{
    const qn_schedule *s = &b->streams->schedule;
    uint32_t at = b->streams->place[i], first = at - b->streams->host_side[i];
    bool host = s->host_issues && s->queue[at] == 0;
    uint32_t host_end = host ? at + 1 : at;
    out->queue = (uint16_t)s->queue[at];
    out->first_record = s->record_start[first];
    out->n_records = s->record_start[at + 1] - out->first_record;
    out->n_host_waits = s->wait_start[host_end] - s->wait_start[first];
    out->n_waits = s->wait_start[at + 1] - s->wait_start[host_end];
    qn_status st = copy_numbers(b, s->waits + s->wait_start[first],
                                out->n_host_waits, &out->host_waits);
    return st != QN_OK ? st
                       : copy_numbers(b, s->waits + s->wait_start[host_end],
                                      out->n_waits, &out->waits);
}

/* Launches read the host's memory when they are made, a graph's only when it is
 * captured: that is right for what never changes. */
static bool reads_host(const qn_plan *plan, const qn_step *s)
{
    for (uint32_t k = 0; k < s->n_in; k++) {
        if (s->in[k] == QN_NO_VALUE || (s->kind == QN_STEP_COPY && k == 0))
            continue;
        const qn_pvalue *v = &plan->values[s->in[k]];
        if (v->space == 0 && v->addr.base != QN_BASE_NONE &&
            v->addr.base != qn_base(0, QN_BASE_STATIC) &&
            v->addr.base != qn_base(0, QN_BASE_PLAN))
            return true;
    }
    return false;
}

static bool capturable(const qn_plan *plan)
{
    if (plan->n_spaces != 2 || plan->n_dynamics)
        return false;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const qn_step *s = &plan->steps[i];
        if (!s->space || s->dynamic || s->n_host_waits || reads_host(plan, s) ||
            (s->kind != QN_STEP_LAUNCH && s->kind != QN_STEP_COPY) ||
            (s->node && (s->node->op->flags & QN_OP_COLLECTIVE)))
            return false;
    }
    return plan->n_steps > 0;
}

static void renumber(qn_builder *b, tables *t)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->n_steps; i++) {
        t->renumber[i] = n;
        if (b->steps[i].live && !b->steps[i].gone)
            n++;
    }
    t->renumber[b->n_steps] = n;
    b->plan->n_steps = n;
}

static qn_status finish_steps(qn_builder *b, const tables *t)
{
    qn_plan *plan = b->plan;
    qn_status st = QN_OK;
    plan->steps =
        qn_region_alloc(&plan->region, plan->n_steps + 1u, sizeof *plan->steps);
    if (!plan->steps)
        return qn_build_no_memory(b);
    for (uint32_t i = 0; st == QN_OK && i < b->n_steps; i++)
        if (b->steps[i].live && !b->steps[i].gone) {
            qn_step *out = &plan->steps[t->renumber[i]];
            st = finish_step(b, t, i, out);
            if (st == QN_OK && b->streams)
                st = queue_step(b, i, out);
        }
    if (st == QN_OK && b->streams) {
        finish_queues(b);
        st = finish_records(b);
        plan->capturable = capturable(plan);
    }
    return st;
}

/* ---- inputs, outputs, sizes ---- */

static qn_status part_offsets(qn_builder *b, const uint32_t *ids, uint32_t n,
                              bool inputs, size_t **out, size_t *total)
{
    size_t at = 0;
    *out = qn_region_alloc(&b->plan->region, n + 1u, sizeof **out);
    if (!*out)
        return qn_build_no_memory(b);
    for (uint32_t i = 0; i < n; i++) {
        const qn_bvalue *v = &b->values[ids[i]];
        size_t bytes = v->bytes;
        if (inputs ? v->kind != QN_BV_INPUT : v->dynamic && !v->bounded)
            bytes = 0;
        (*out)[i] = at;
        if (!qn_add_size(at, bytes, &at) || !qn_align_size(at, QN_ARENA_ALIGN, &at))
            return qn_fail(b->err, QN_TOO_LARGE, "%s exceed SIZE_MAX bytes",
                           inputs ? "inputs" : "outputs");
    }
    *total = at;
    return QN_OK;
}

/* Default share for what cannot be planned: as much again as everything that
 * can, and room for small tensors. */
static size_t share_of(const qn_builder *b, bool unbounded, bool dynamic,
                       size_t planned)
{
    const qn_session_options *o = &b->session->options;
    if (unbounded)
        return o->dynamic_bytes ? o->dynamic_bytes : planned + ((size_t)4 << 20);
    /* state and workspaces that are prepared late */
    return dynamic ? planned + ((size_t)1 << 20) : 0;
}

static void size_side(qn_builder *b)
{
    qn_plan *plan = b->plan;
    const qn_session_options *o = &b->session->options;
    bool strings = false, dynamic = false, late[QN_SESSION_ACCELS + 1] = { 0 };
    bool unbounded[QN_SESSION_ACCELS + 1] = { 0 };
    for (uint32_t v = 0; v < b->n_values; v++) {
        const qn_bvalue *value = &b->values[v];
        strings |= value->used && value->dtype == QN_STRING;
        unbounded[value->space] |= value->used && value->dynamic &&
                                   !value->bounded;
    }
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        dynamic |= plan->steps[i].dynamic;
        late[plan->steps[i].space] |= plan->steps[i].dynamic;
    }
    plan->table_bytes = qn_exec_bytes(plan);
    size_t io = plan->in_bytes + plan->out_bytes;
    plan->heap_bytes = share_of(b, unbounded[0], dynamic,
                                plan->arena_bytes[0] + io);
    for (uint32_t n = 1; n < plan->n_spaces; n++)
        plan->device_side[n] = share_of(b, unbounded[n], late[n],
                                        plan->arena_bytes[n] + io);
    if (strings)
        plan->strings_bytes = o->dynamic_bytes ? o->dynamic_bytes
                                               : (size_t)1 << 20;
}

static qn_status finish_io(qn_builder *b)
{
    qn_plan *plan = b->plan;
    plan->in_values = rows_of(b, b->inputs, plan->n_in);
    plan->out_values = rows_of(b, b->outputs, plan->n_out);
    if (!plan->in_values || !plan->out_values)
        return qn_build_no_memory(b);
    qn_status st = part_offsets(b, b->inputs, plan->n_in, true,
                                &plan->in_offsets, &plan->in_bytes);
    if (st == QN_OK)
        st = part_offsets(b, b->outputs, plan->n_out, false,
                          &plan->out_offsets, &plan->out_bytes);
    if (st == QN_OK)
        size_side(b);
    return st;
}

/* Offsets by value and by step, from the layout's rows. */
static qn_status spread(qn_builder *b, tables *t)
{
    const qn_places *p = t->places;
    t->arena = qn_region_alloc(&b->scratch, b->n_values + 1u, sizeof *t->arena);
    t->work = qn_region_alloc(&b->scratch, b->n_steps + 1u, sizeof *t->work);
    t->renumber =
        qn_region_alloc(&b->scratch, b->n_steps + 2u, sizeof *t->renumber);
    if (!t->arena || !t->work || !t->renumber)
        return qn_build_no_memory(b);
    for (size_t i = 0; i < p->n; i++) {
        if (p->owners[i] < b->n_values)
            t->arena[p->owners[i]] = p->offsets[i];
        else
            t->work[p->owners[i] - b->n_values] = p->offsets[i];
    }
    return QN_OK;
}

qn_status qn_build_finish(qn_builder *b, const qn_places *p)
{
    qn_plan *plan = b->plan;
    tables t = { .places = p };
    qn_status st = spread(b, &t);
    if (st != QN_OK)
        return st;
    plan->n_in = b->session->graph->n_inputs;
    plan->n_out = b->session->graph->n_outputs;
    plan->n_spaces = b->session->memory.n_spaces;
    plan->base_io = plan->n_spaces * QN_SPACE_BASES;
    for (uint32_t space = 0; space < plan->n_spaces; space++)
        plan->arena_bytes[space] = p->stats[space].peak;
    renumber(b, &t);
    st = finish_values(b, &t);
    if (st == QN_OK)
        st = finish_steps(b, &t);
    if (st == QN_OK)
        st = finish_io(b);
    if (st == QN_OK)
        st = qn_build_report(b, p, t.renumber);
    if (st == QN_OK)
        st = qn_build_report_blocks(b, p, t.renumber);
    plan->consts[0] = t.consts[0];
    if (st == QN_OK && plan->n_spaces > 1)
        st = qn_plan_upload(plan, t.consts, b->err);
    return st;
}

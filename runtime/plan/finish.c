/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Last part of planning: what the builder knows becomes the tables that runs
 * read (runtime/plan/plan.h), in the plan's own region, without a pointer to
 * the builder.
 */
#include "runtime/base/checked.h"
#include "runtime/exec/launch.h"
#include "runtime/plan/build.h"

#include <string.h>
#include <unistd.h>

/* ---- tables ---- */

typedef struct tables {
    const qn_places *places;
    size_t *arena;       /* [n_values] offset of roots in the arena */
    size_t *work;        /* [n_steps] */
    uint32_t *renumber;  /* [n_steps + 1] finished number of a step */
    char *host;          /* known values, gathered */
    size_t host_bytes;
} tables;

static qn_status gather_known(qn_builder *b, tables *t, size_t *offsets)
{
    size_t at = 0;
    for (uint32_t v = 0; v < b->n_values; v++) {
        const qn_bvalue *value = &b->values[v];
        if (value->kind != QN_BV_KNOWN || !value->used)
            continue;
        offsets[v] = at;
        if (!qn_add_size(at, value->bytes, &at) ||
            !qn_align_size(at, QN_ARENA_ALIGN, &at))
            return qn_fail(b->err, QN_TOO_LARGE, "plan constants overflow");
    }
    t->host_bytes = at;
    t->host = qn_region_alloc(&b->plan->region, at + 1, 1);
    if (!t->host)
        return qn_build_no_memory(b);
    for (uint32_t v = 0; v < b->n_values; v++) {
        const qn_bvalue *value = &b->values[v];
        if (value->kind == QN_BV_KNOWN && value->used && value->bytes)
            memcpy(t->host + offsets[v], value->data, value->bytes);
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
        return (qn_addr){ QN_BASE_IO + root->slot, 0 };
    case QN_BV_CONST: {
        const qn_slot *slot = &b->session->memory.slots[root->slot];
        return slot->plain ? (qn_addr){ QN_BASE_STATIC, slot->offset }
                           : (qn_addr){ QN_BASE_NONE, 0 };
    }
    case QN_BV_KNOWN:
        return (qn_addr){ QN_BASE_PLAN, known[r] };
    case QN_BV_STEP:
        break;
    }
    if (root->dynamic && !root->bounded)
        return (qn_addr){ QN_BASE_NONE, 0 };
    if (root->output >= 0)
        return (qn_addr){ QN_BASE_IO + plan->n_in + (uint32_t)root->output, 0 };
    return (qn_addr){ QN_BASE_ARENA, root->bytes ? t->arena[r] : 0 };
}

static qn_status finish_values(qn_builder *b, tables *t)
{
    qn_plan *plan = b->plan;
    size_t *known = qn_region_alloc(&b->scratch, b->n_values + 1u, sizeof *known);
    if (!known)
        return qn_build_no_memory(b);
    qn_status st = gather_known(b, t, known);
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
                          .addr = home_of(b, t, known, v),
                          .dynamic = QN_NOT_DYNAMIC };
        p->t.data = NULL;
        if (value->kind != QN_BV_STEP || !value->dynamic)
            continue;
        uint32_t r = qn_build_root(b, v);
        uint32_t base = QN_BASE_IO + plan->n_in + plan->n_out + n;
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
    plan->n_bases = QN_BASE_IO + plan->n_in + plan->n_out + plan->n_dynamics;
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
                      .workspace = { QN_BASE_ARENA, t->work[i] },
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
        packed[k] = (qn_addr){ QN_BASE_STATIC, p->offset };
    }
    out->packed = packed;
    uint32_t args = s->n_in + s->n_out;
    if (args > b->plan->max_args)
        b->plan->max_args = args;
    return out->in && out->out ? QN_OK : qn_build_no_memory(b);
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
        if (b->steps[i].live && !b->steps[i].gone)
            st = finish_step(b, t, i, &plan->steps[t->renumber[i]]);
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

static void size_side(qn_builder *b)
{
    qn_plan *plan = b->plan;
    const qn_session_options *o = &b->session->options;
    bool strings = false, unbounded = false, dynamic = false;
    for (uint32_t v = 0; v < b->n_values; v++) {
        strings |= b->values[v].used && b->values[v].dtype == QN_STRING;
        unbounded |= b->values[v].used && b->values[v].dynamic &&
                     !b->values[v].bounded;
    }
    for (uint32_t i = 0; i < plan->n_steps; i++)
        dynamic |= plan->steps[i].dynamic;
    plan->table_bytes = qn_exec_bytes(plan);
    /* Default share for what cannot be planned: as much again as everything
     * that can, and room for small tensors. */
    size_t share = plan->arena_bytes + plan->in_bytes + plan->out_bytes;
    if (unbounded)
        plan->heap_bytes = o->dynamic_bytes ? o->dynamic_bytes
                                            : share + ((size_t)4 << 20);
    else if (dynamic) /* state and workspaces that are prepared late */
        plan->heap_bytes = share + ((size_t)1 << 20);
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

/* ---- report ---- */

/* The step with the most live bytes: a sweep over births and deaths. */
static qn_status peak_step(qn_builder *b, const qn_places *p, uint32_t *out)
{
    size_t n = (size_t)b->n_steps + 2, best = 0, live = 0;
    size_t *born = qn_region_alloc(&b->scratch, n, sizeof *born);
    size_t *gone = qn_region_alloc(&b->scratch, n, sizeof *gone);
    *out = 0;
    if (!born || !gone)
        return qn_build_no_memory(b);
    for (size_t i = 0; i < p->n; i++) {
        born[p->buffers[i].lower] += p->buffers[i].bytes;
        gone[p->buffers[i].upper] += p->buffers[i].bytes;
    }
    for (uint32_t s = 0; s < b->n_steps; s++) {
        live += born[s] - gone[s];
        if (live > best) {
            best = live;
            *out = s;
        }
    }
    return QN_OK;
}

/* What the pool charges: each part of the lease in whole pages. */
static size_t lease_bytes(const qn_plan *plan, size_t side)
{
    const size_t parts[] = { plan->arena_bytes, plan->in_bytes, plan->out_bytes,
                             side };
    size_t page = (size_t)sysconf(_SC_PAGESIZE), sum = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        size_t whole;
        if (!qn_align_size(parts[i], page, &whole) ||
            !qn_add_size(sum, whole, &sum))
            return SIZE_MAX;
    }
    return sum;
}

static qn_status report(qn_builder *b, const tables *t,
                        const qn_layout_stats *stats)
{
    qn_plan *plan = b->plan;
    qn_plan_report *r = &plan->report;
    const qn_places *p = t->places;
    qn_plan_value *values =
        qn_region_alloc(&plan->region, p->n + 1, sizeof *values);
    qn_tensor *outputs =
        qn_region_alloc(&plan->region, plan->n_out + 1u, sizeof *outputs);
    bool *dynamic =
        qn_region_alloc(&plan->region, plan->n_out + 1u, sizeof *dynamic);
    qn_tensor *inputs =
        qn_region_alloc(&plan->region, plan->n_in + 1u, sizeof *inputs);
    if (!values || !outputs || !dynamic || !inputs)
        return qn_build_no_memory(b);
    for (size_t i = 0; i < p->n; i++) {
        uint32_t owner = p->owners[i];
        bool work = owner >= b->n_values;
        uint32_t last = p->buffers[i].upper - 1;
        values[i] = (qn_plan_value){
            .name = work ? b->steps[owner - b->n_values].node->op_name
                         : b->values[owner].name,
            .offset = p->offsets[i], .bytes = p->buffers[i].bytes,
            .first = t->renumber[p->buffers[i].lower],
            .last = t->renumber[last > b->n_steps ? b->n_steps : last],
            .workspace = work };
        if (!work) {
            values[i].dtype = b->values[owner].dtype;
            values[i].shape = b->values[owner].shape;
            values[i].dynamic = b->values[owner].dynamic;
        }
    }
    for (uint32_t i = 0; i < plan->n_in; i++) {
        const qn_bvalue *v = &b->values[b->inputs[i]];
        inputs[i] = (qn_tensor){ .dtype = v->dtype, .shape = v->shape };
    }
    for (uint32_t i = 0; i < plan->n_out; i++) {
        const qn_bvalue *v = &b->values[b->outputs[i]];
        outputs[i] = (qn_tensor){ .dtype = v->dtype, .shape = v->shape };
        dynamic[i] = v->dynamic;
    }
    uint32_t peak;
    qn_status st = peak_step(b, p, &peak);
    if (st != QN_OK)
        return st;
    size_t side = plan->table_bytes + plan->heap_bytes + plan->strings_bytes;
    *r = (qn_plan_report){
        .arena_bytes = stats->peak, .lower_bound = stats->lower_bound,
        .no_reuse_bytes = stats->total, .input_bytes = plan->in_bytes,
        .output_bytes = plan->out_bytes,
        .side_bytes = side, .lease_bytes = lease_bytes(plan, side),
        .launches = plan->n_steps, .peak_launch = t->renumber[peak],
        .peak_node = p->n && b->steps[peak].node
                         ? b->steps[peak].node->op_name : "",
        .solver = stats->winner, .n_values = (uint32_t)p->n, .values = values,
        .n_inputs = plan->n_in, .inputs = inputs,
        .n_outputs = plan->n_out, .outputs = outputs,
        .output_dynamic = dynamic };
    return QN_OK;
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

qn_status qn_build_finish(qn_builder *b, const qn_places *p,
                          const qn_layout_stats *stats)
{
    qn_plan *plan = b->plan;
    tables t = { .places = p };
    qn_status st = spread(b, &t);
    if (st != QN_OK)
        return st;
    plan->arena_bytes = stats->peak;
    plan->n_in = b->session->graph->n_inputs;
    plan->n_out = b->session->graph->n_outputs;
    renumber(b, &t);
    st = finish_values(b, &t);
    if (st == QN_OK)
        st = finish_steps(b, &t);
    if (st == QN_OK)
        st = finish_io(b);
    if (st == QN_OK)
        st = report(b, &t, stats);
    plan->host = t.host;
    return st;
}

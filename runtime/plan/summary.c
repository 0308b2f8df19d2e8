/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan says of itself: qn_plan_read(). */
#include "runtime/base/checked.h"
#include "runtime/plan/build.h"

#include <unistd.h>

/* The step with the most live bytes in one space: a sweep over births and
 * deaths. */
static qn_status peak_step(qn_builder *b, const qn_places *p, uint8_t space,
                           uint32_t *out)
{
    size_t n = (size_t)b->n_steps + 2, best = 0, live = 0;
    size_t *born = qn_region_alloc(&b->scratch, n, sizeof *born);
    size_t *gone = qn_region_alloc(&b->scratch, n, sizeof *gone);
    *out = 0;
    if (!born || !gone)
        return qn_build_no_memory(b);
    for (size_t i = p->start[space]; i < p->start[space + 1]; i++) {
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

/* What the host's pool charges: each part of the lease in whole pages. */
static size_t lease_bytes(const qn_plan *plan, size_t side)
{
    const size_t parts[] = { plan->arena_bytes[0], plan->in_bytes,
                             plan->out_bytes, side };
    size_t page = (size_t)sysconf(_SC_PAGESIZE), sum = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        size_t whole;
        if (!qn_align_size(parts[i], page, &whole) ||
            !qn_add_size(sum, whole, &sum))
            return SIZE_MAX;
    }
    return sum;
}

static uint8_t space_of(const qn_places *p, size_t place)
{
    uint8_t space = 0;
    while (place >= p->start[space + 1])
        space++;
    return space;
}

static bool is_float(const qn_plan *plan, uint32_t row)
{
    return row != QN_NO_VALUE &&
           (QN_TYPES_FLOAT >> plan->values[row].t.dtype & 1);
}

static bool touches_floats(const qn_plan *plan, const qn_step *s)
{
    bool any = false;
    for (uint32_t i = 0; i < s->n_in; i++)
        any |= is_float(plan, s->in[i]);
    for (uint32_t i = 0; i < s->n_out; i++)
        any |= is_float(plan, s->out[i]);
    return any;
}

/* Launches by device, and copies between spaces. */
static void count_copies(const qn_plan *plan, qn_plan_report *r)
{
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const qn_step *s = &plan->steps[i];
        size_t bytes = 0;
        r->accel_launches += s->kind == QN_STEP_LAUNCH && s->space;
        r->cpu_float_launches += s->kind == QN_STEP_LAUNCH && !s->space &&
                                 touches_floats(plan, s);
        if (s->kind != QN_STEP_COPY ||
            plan->values[s->in[0]].space == plan->values[s->out[0]].space)
            continue;
        const qn_tensor *t = &plan->values[s->in[0]].t;
        if (qn_tensor_bytes(t->dtype, &t->shape, &bytes, NULL) != QN_OK)
            bytes = 0;
        r->copies++;
        r->copy_bytes += bytes;
    }
}

static bool report_spaces(qn_plan *plan, const qn_places *p)
{
    qn_plan_report *r = &plan->report;
    qn_plan_space *spaces =
        qn_region_alloc(&plan->region, plan->n_spaces, sizeof *spaces);
    if (!spaces)
        return false;
    for (uint32_t n = 0; n < plan->n_spaces; n++)
        spaces[n] = (qn_plan_space){ p->stats[n].peak, p->stats[n].lower_bound };
    r->spaces = spaces;
    r->n_spaces = plan->n_spaces;
    r->queues = plan->n_queues ? plan->n_queues : 1;
    r->waits = plan->waits_kept;
    r->waits_naive = plan->waits_naive;
    r->capturable = plan->capturable;
    return true;
}

qn_status qn_build_report(qn_builder *b, const qn_places *p,
                          const uint32_t *renumber)
{
    qn_plan *plan = b->plan;
    qn_plan_report *r = &plan->report;
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
            .first = renumber[p->buffers[i].lower],
            .last = renumber[last > b->n_steps ? b->n_steps : last],
            .workspace = work,
            .space = space_of(p, i) };
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
    uint8_t fullest = 0;
    size_t arenas = 0, bounds = 0, totals = 0, device_bytes = 0;
    for (uint8_t n = 0; n < plan->n_spaces; n++) {
        arenas += p->stats[n].peak;
        bounds += p->stats[n].lower_bound;
        totals += p->stats[n].total;
        if (p->stats[n].peak > p->stats[fullest].peak)
            fullest = n;
        if (n)
            device_bytes += plan->arena_bytes[n] + plan->device_side[n];
    }
    qn_status st = peak_step(b, p, fullest, &peak);
    if (st != QN_OK)
        return st;
    size_t side = plan->table_bytes + plan->heap_bytes + plan->strings_bytes;
    *r = (qn_plan_report){
        .arena_bytes = arenas, .lower_bound = bounds,
        .no_reuse_bytes = totals, .input_bytes = plan->in_bytes,
        .output_bytes = plan->out_bytes,
        .side_bytes = side, .lease_bytes = lease_bytes(plan, side),
        .launches = plan->n_steps, .peak_launch = renumber[peak],
        .fused = b->fused,
        .peak_node = p->n && b->steps[peak].node
                         ? b->steps[peak].node->op_name : "",
        .solver = p->stats[fullest].winner, .device_bytes = device_bytes,
        .n_values = (uint32_t)p->n, .values = values,
        .n_inputs = plan->n_in, .inputs = inputs,
        .n_outputs = plan->n_out, .outputs = outputs,
        .output_dynamic = dynamic };
    count_copies(plan, r);
    return report_spaces(plan, p) ? QN_OK : qn_build_no_memory(b);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Second half of planning: which steps are needed, who shares memory with whom,
 * where everything lies.
 *
 * Sharing, in step order (so the result is deterministic):
 *   view      out has in's bytes: one root, no step
 *   in place  out takes over the root of an input that nobody needs afterwards
 *   block     a value lies in the block that it would be copied into
 *   output    a root that holds a graph output lies in that output's buffer
 * Inputs, constants and known values are never written to.
 */
#include "runtime/base/checked.h"
#include "runtime/ops/op.h"
#include "runtime/plan/streams.h"

#include <string.h>

qn_shape qn_physical_shape(const qn_shape *shape, qn_memory_order order)
{
    qn_shape p = *shape;
    if (order == QN_ORDER_NHWC && p.rank == 4) {
        p.dims[1] = shape->dims[2];
        p.dims[2] = shape->dims[3];
        p.dims[3] = shape->dims[1];
    }
    return p;
}

qn_shape qn_logical_shape(const qn_shape *shape, qn_memory_order order)
{
    qn_shape l = *shape;
    if (order == QN_ORDER_NHWC && l.rank == 4) {
        l.dims[1] = shape->dims[3];
        l.dims[2] = shape->dims[1];
        l.dims[3] = shape->dims[2];
    }
    return l;
}

/* ---- which steps are needed ---- */

static void use(qn_builder *b, uint32_t value)
{
    if (value != QN_NO_VALUE)
        b->values[value].used = true;
}

static bool any_live(const qn_builder *b, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        if (b->steps[i].live && b->steps[i].kind != QN_STEP_JUMP)
            return true;
    return false;
}

/* Of outputs that nobody reads: kernels leave out those which the operator
 * calls optional, and find all others present. */
static void trim_outputs(qn_builder *b, qn_bstep *s)
{
    const qn_op *op = s->node ? s->node->op : NULL;
    for (uint32_t k = 0; k < s->n_out; k++) {
        if (s->out[k] == QN_NO_VALUE || b->values[s->out[k]].used)
            continue;
        if (op && k >= op->min_out && op->max_out != QN_VARIADIC)
            s->out[k] = QN_NO_VALUE;
        else
            use(b, s->out[k]);
    }
}

static void find_live(qn_builder *b)
{
    const qn_graph *g = b->session->graph;
    for (uint32_t i = 0; i < g->n_outputs; i++)
        use(b, b->outputs[i]);
    for (uint32_t i = b->n_steps; i-- > 0;) {
        qn_bstep *s = &b->steps[i];
        if (s->absorbed)
            continue;
        if (s->kind == QN_STEP_JUMP) {
            s->live = true; /* decided with its test, below */
            continue;
        }
        if (s->kind == QN_STEP_JUMP_UNLESS) {
            qn_bstep *skip = &b->steps[s->target - 1];
            s->live = any_live(b, i + 1, skip->target);
            skip->live = s->live;
        }
        for (uint32_t k = 0; k < s->n_out; k++)
            if (s->out[k] != QN_NO_VALUE)
                s->live |= b->values[s->out[k]].used;
        for (uint32_t k = 0; s->live && k < s->n_in; k++)
            use(b, s->in[k]);
        if (s->live)
            trim_outputs(b, s);
    }
}

static void find_lifetimes(qn_builder *b)
{
    for (uint32_t v = 0; v < b->n_values; v++) {
        b->values[v].first = UINT32_MAX;
        b->values[v].last = 0;
    }
    for (uint32_t i = 0; i < b->n_steps; i++) {
        const qn_bstep *s = &b->steps[i];
        if (!s->live)
            continue;
        for (uint32_t k = 0; k < s->n_in; k++)
            if (s->in[k] != QN_NO_VALUE)
                b->values[s->in[k]].last = i;
        for (uint32_t k = 0; k < s->n_out; k++) {
            if (s->out[k] == QN_NO_VALUE)
                continue;
            qn_bvalue *v = &b->values[s->out[k]];
            if (v->first == UINT32_MAX)
                v->first = i;
            v->last = i;
        }
    }
    for (uint32_t i = 0; i < b->session->graph->n_outputs; i++)
        b->values[b->outputs[i]].last = b->n_steps;
}

/* ---- sharing ---- */

uint32_t qn_build_root(const qn_builder *b, uint32_t v)
{
    while (b->values[v].root != v)
        v = b->values[v].root;
    return v;
}

/* Give `v` the memory of root `r`. */
static void merge(qn_builder *b, uint32_t v, uint32_t r)
{
    qn_bvalue *root = &b->values[r], *value = &b->values[v];
    value->root = r;
    if (value->last > root->last)
        root->last = value->last;
    if (value->output >= 0)
        root->output = value->output;
}

static void share_view(qn_builder *b, qn_bstep *s)
{
    uint32_t out = s->out[0], r = qn_build_root(b, s->in[0]);
    const qn_bvalue *root = &b->values[r];
    bool is_output = b->values[out].output >= 0;
    if (is_output && (root->kind != QN_BV_STEP || root->output >= 0 ||
                      root->group >= 0 || root->dynamic || b->values[out].dynamic)) {
        s->kind = QN_STEP_COPY;
        return;
    }
    merge(b, out, r);
    s->gone = !s->dynamic;
}

static bool can_take(const qn_builder *b, const qn_bstep *s, uint32_t at,
                     uint32_t i)
{
    uint32_t in = s->in[i], r = qn_build_root(b, in);
    const qn_bvalue *root = &b->values[r], *vin = &b->values[in],
                    *out = &b->values[s->out[0]];
    if (root->kind != QN_BV_STEP || root->dynamic || root->output >= 0 ||
        (root->group >= 0 && out->output >= 0) || root->space != out->space ||
        root->last != at || root->bytes != out->bytes ||
        vin->order != out->order || !qn_shape_equal(&vin->shape, &out->shape) ||
        qn_dtype_size(vin->dtype) != qn_dtype_size(out->dtype))
        return false;
    /* no other argument may look at the bytes that are being overwritten */
    for (uint32_t k = 0; k < s->n_in; k++)
        if (k != i && s->in[k] != QN_NO_VALUE && qn_build_root(b, s->in[k]) == r &&
            !(s->in[k] == in && (s->node->op->flags & QN_OP_ELEMENTWISE)))
            return false;
    return true;
}

static void share_in_place(qn_builder *b, qn_bstep *s, uint32_t at)
{
    uint32_t mask = s->node->op->inplace;
    if (s->dynamic || s->out[0] == QN_NO_VALUE ||
        b->values[s->out[0]].first != at)
        return;
    if (s->node->residual && s->n_in <= 32)
        mask |= (uint32_t)1 << (s->n_in - 1);
    for (uint32_t i = 0; i < s->n_in && i < 32; i++)
        if ((mask >> i & 1) && s->in[i] != QN_NO_VALUE && can_take(b, s, at, i)) {
            merge(b, s->out[0], qn_build_root(b, s->in[i]));
            return;
        }
}

/* The copy's source is not needed afterwards, and in no block yet. */
static void share_block(qn_builder *b, qn_bstep *s, uint32_t at)
{
    uint32_t r = qn_build_root(b, s->in[0]);
    qn_bvalue *root = &b->values[r];
    const qn_bvalue *staged = &b->values[s->out[0]];
    if (root->kind != QN_BV_STEP || root->dynamic || root->output >= 0 ||
        root->group >= 0 || root->space != staged->space ||
        root->bytes != staged->bytes || root->last != at)
        return;
    root->group = staged->group;
    root->group_pos = staged->group_pos;
    merge(b, s->out[0], r);
    s->gone = true;
}

static void share(qn_builder *b)
{
    for (uint32_t i = 0; i < b->n_steps; i++) {
        qn_bstep *s = &b->steps[i];
        if (!s->live)
            continue;
        if (s->kind == QN_STEP_VIEW)
            share_view(b, s);
        else if (s->kind == QN_STEP_LAUNCH && !b->session->options.no_reuse)
            share_in_place(b, s, i);
        else if (s->stage && !b->session->options.no_reuse)
            share_block(b, s, i);
    }
}

/* ---- kernels get to see their shapes ---- */

qn_tensor qn_build_physical(const qn_builder *b, uint32_t v)
{
    qn_tensor t = { 0 };
    if (v != QN_NO_VALUE) {
        const qn_bvalue *value = &b->values[v];
        t.dtype = value->dtype;
        t.shape = qn_physical_shape(&value->shape, value->order);
        memcpy(&t.data, &value->data, sizeof t.data);
    }
    return t;
}

static qn_status prepare_step(qn_builder *b, qn_bstep *s)
{
    const qn_kernel *kernel = s->node->kernel;
    const qn_session *session = b->session;
    const qn_static *mem = &session->memory;
    if (!kernel->prepare)
        return QN_OK;
    qn_tensor *in = qn_region_alloc(&b->scratch, s->n_in + 1u, sizeof *in);
    qn_tensor *out = qn_region_alloc(&b->scratch, s->n_out + 1u, sizeof *out);
    const void **packed =
        qn_region_alloc(&b->scratch, s->n_in + 1u, sizeof *packed);
    if (!in || !out || !packed)
        return qn_build_no_memory(b);
    for (uint32_t i = 0; i < s->n_in; i++) {
        const qn_packed *p = qn_static_packed(mem, s->owner, i);
        in[i] = qn_build_physical(b, s->in[i]);
        packed[i] = p ? mem->blocks[p->space].data + p->offset : NULL;
    }
    for (uint32_t i = 0; i < s->n_out; i++)
        out[i] = qn_build_physical(b, s->out[i]);
    qn_device *cpu = session->runtime->cpu;
    qn_prepare p = { .node = s->node, .n_in = s->n_in, .n_out = s->n_out,
                     .in = in, .out = out, .packed = packed,
                     .max_threads = cpu->ops->max_threads(cpu),
                     .region = &b->plan->region,
                     .accel = s->space ? session->accels[s->space - 1]->accel
                                       : NULL,
                     .precision = session->options.precision };
    qn_status st = kernel->prepare(&p, b->err);
    s->state = p.state;
    s->workspace = p.workspace;
    s->clear = p.clear;
    if (st != QN_OK) {
        char text[QN_NODE_TEXT];
        qn_error_prefix(b->err, "%s", qn_node_text(s->node, text));
    }
    return st;
}

/* ---- layout ---- */

static void add_place(qn_places *p, uint32_t owner, uint32_t first, uint32_t last,
                      size_t bytes, uint8_t space)
{
    p->owners[p->n] = owner;
    p->before[p->n] = p->behind[p->n] = 0;
    p->buffers[p->n++] = (qn_buffer){
        .lower = first, .upper = last + 1, .bytes = bytes, .group = -1,
        .align = space ? QN_DEVICE_ALIGN : QN_ARENA_ALIGN };
}

/* The place that was added last is one of a block's. */
static void join_block(const qn_builder *b, qn_places *p,
                       const qn_block_ends *ends, uint32_t v)
{
    qn_buffer *buffer = &p->buffers[p->n - 1];
    int32_t group = b->values[v].group;
    size_t before = ends->first[group] == v ? QN_BLOCK_GUARD : 0;
    size_t behind = ends->last[group] == v ? QN_BLOCK_GUARD : 0;
    buffer->group = group;
    buffer->group_pos = b->values[v].group_pos;
    p->before[p->n - 1] = before;
    p->behind[p->n - 1] = behind;
    if (!qn_add_size(buffer->bytes, before + behind, &buffer->bytes))
        buffer->bytes = SIZE_MAX; /* which the layout refuses */
}

/* Back to the values' own bytes. */
static void cut_guards(qn_places *p)
{
    for (size_t i = 0; i < p->n; i++) {
        p->offsets[i] += p->before[i];
        p->buffers[i].bytes -= p->before[i] + p->behind[i];
        p->before[i] = p->behind[i] = 0;
    }
}

static void collect(const qn_builder *b, qn_places *p, const qn_block_ends *ends,
                    uint8_t space)
{
    for (uint32_t v = 0; v < b->n_values; v++) {
        const qn_bvalue *value = &b->values[v];
        if (value->kind == QN_BV_STEP && value->root == v && value->used &&
            value->output < 0 && value->bytes && value->space == space &&
            (!value->dynamic || value->bounded))
            add_place(p, v, value->first, value->last, value->bytes, space);
        else
            continue;
        if (qn_build_in_block(b, v))
            join_block(b, p, ends, v);
    }
    for (uint32_t i = 0; i < b->n_steps; i++)
        if (b->steps[i].live && b->steps[i].workspace &&
            b->steps[i].space == space)
            add_place(p, b->n_values + i, i, i, b->steps[i].workspace, space);
}

static qn_status lay_out_space(qn_builder *b, qn_places *p, uint8_t space)
{
    size_t at = p->start[space], n = p->start[space + 1] - at;
    qn_layout_options options = { .no_reuse = b->session->options.no_reuse };
    const qn_conflicts *conflicts;
    qn_status st = qn_build_conflicts(b, p, space, &conflicts);
    if (st == QN_OK)
        st = qn_layout_solve(p->buffers + at, n, conflicts, &options,
                             p->offsets + at, &p->stats[space], b->err);
    if (st == QN_OK)
        st = qn_layout_verify(p->buffers + at, n, conflicts, p->offsets + at,
                              p->stats[space].peak, b->err);
    return st;
}

static qn_status lay_out(qn_builder *b, qn_places *p)
{
    size_t cap = (size_t)b->n_values + b->n_steps + 1;
    uint32_t n_spaces = b->session->memory.n_spaces;
    qn_block_ends ends;
    qn_status st = qn_build_find_guards(b, &ends);
    p->buffers = qn_region_alloc(&b->scratch, cap, sizeof *p->buffers);
    p->owners = qn_region_alloc(&b->scratch, cap, sizeof *p->owners);
    p->offsets = qn_region_alloc(&b->scratch, cap, sizeof *p->offsets);
    p->before = qn_region_alloc(&b->scratch, cap, sizeof *p->before);
    p->behind = qn_region_alloc(&b->scratch, cap, sizeof *p->behind);
    if (st != QN_OK || !p->buffers || !p->owners || !p->offsets || !p->before ||
        !p->behind)
        return qn_build_no_memory(b);
    for (uint8_t space = 0; space < n_spaces; space++) {
        collect(b, p, &ends, space);
        p->start[space + 1] = p->n;
    }
    for (uint8_t space = 0; st == QN_OK && space < n_spaces; space++)
        st = lay_out_space(b, p, space);
    return st == QN_OK ? qn_build_check_streams(b, p) : st;
}

static size_t all_arenas(const qn_builder *b, const qn_places *p)
{
    size_t sum = 0;
    for (uint32_t n = 0; n < b->session->memory.n_spaces; n++)
        sum += p->stats[n].peak;
    return sum;
}

/* Streams that were chosen, not asked for, may cost an eighth more memory. */
static qn_status weigh_streams(qn_builder *b, qn_places *p)
{
    if (!b->streams || b->session->options.streams || !qn_streams_several(b))
        return QN_OK;
    qn_schedule several = b->streams->schedule;
    size_t with = all_arenas(b, p);
    qn_places one = { 0 };
    qn_status st = qn_build_fewer_streams(b);
    if (st == QN_OK)
        st = lay_out(b, &one);
    if (st != QN_OK)
        return st;
    size_t without = all_arenas(b, &one);
    if (with > without + without / 8)
        *p = one;
    else
        b->streams->schedule = several;
    return QN_OK;
}

qn_status qn_build_place(qn_builder *b)
{
    qn_places p = { 0 };
    qn_status st = QN_OK;
    find_live(b);
    find_lifetimes(b);
    share(b);
    for (uint32_t i = 0; st == QN_OK && i < b->n_steps; i++) {
        qn_bstep *s = &b->steps[i];
        if (s->live && !s->gone && !s->dynamic && s->kind == QN_STEP_LAUNCH)
            st = prepare_step(b, s);
    }
    if (st == QN_OK)
        st = qn_build_streams(b);
    if (st == QN_OK)
        st = lay_out(b, &p);
    if (st == QN_OK)
        st = weigh_streams(b, &p);
    cut_guards(&p);
    if (st == QN_OK)
        st = qn_build_finish(b, &p);
    return st;
}

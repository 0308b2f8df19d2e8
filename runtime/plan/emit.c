/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First half of planning: the graph for given input shapes becomes a flat list
 * of steps.
 *
 * A value that can be computed from what is known already (shapes, constants,
 * small inputs that are part of the key) is computed here, once, and its node
 * disappears: that is how the Shape-Gather-Concat-Reshape tails of exporters
 * vanish. A branch whose condition is known is spliced in and the other one is
 * forgotten.
 */
#include "runtime/exec/eval.h"
#include "runtime/ops/op.h"
#include "runtime/plan/build.h"

#include <string.h>

enum {
    KNOWN_BYTES = 16 << 10, /* larger results are left to the request */
    KNOWN_INPUT_BYTES = 256 << 10,
    MAX_DEPTH = 64
};

qn_status qn_build_add_value(qn_builder *b, const qn_bvalue *v, uint32_t *out)
{
    if (b->n_values == b->cap_values) {
        uint32_t cap = b->cap_values ? b->cap_values * 2 : 256;
        qn_bvalue *grown = qn_realloc(b->values, cap, sizeof *grown);
        if (!grown)
            return qn_build_no_memory(b);
        b->values = grown;
        b->cap_values = cap;
    }
    *out = b->n_values++;
    b->values[*out] = *v;
    b->values[*out].root = *out;
    b->values[*out].output = -1;
    b->values[*out].twin = QN_NO_VALUE;
    b->values[*out].group = -1;
    return QN_OK;
}

qn_status qn_build_add_step(qn_builder *b, qn_step_kind kind,
                            const qn_node *node, uint32_t n_in, uint32_t n_out,
                            uint32_t *out)
{
    if (b->n_steps == b->cap_steps) {
        uint32_t cap = b->cap_steps ? b->cap_steps * 2 : 256;
        qn_bstep *grown = qn_realloc(b->steps, cap, sizeof *grown);
        if (!grown)
            return qn_build_no_memory(b);
        b->steps = grown;
        b->cap_steps = cap;
    }
    qn_bstep s = { .kind = kind, .node = node, .owner = node, .n_in = n_in,
                   .n_out = n_out, .groups = -1 };
    s.in = qn_region_alloc(&b->scratch, n_in + 1u, sizeof *s.in);
    s.out = qn_region_alloc(&b->scratch, n_out + 1u, sizeof *s.out);
    if (!s.in || !s.out)
        return qn_build_no_memory(b);
    *out = b->n_steps++;
    b->steps[*out] = s;
    return QN_OK;
}

qn_tensor qn_build_tensor(const qn_builder *b, uint32_t id)
{
    qn_tensor t = { 0 };
    if (id != QN_NO_VALUE) {
        const qn_bvalue *v = &b->values[id];
        t.dtype = v->dtype;
        t.shape = v->shape;
        memcpy(&t.data, &v->data, sizeof t.data);
    }
    return t;
}

/* ---- one node ---- */

typedef struct site {
    qn_tensor *in, *out;
    uint32_t *ids;      /* inputs, in the builder's numbers */
    bool all_known;     /* every present input has data */
    bool dynamic;       /* some input's shape is not known */
    bool unbounded;     /* ... nor bounded */
    bool values_known;  /* those that shapes depend on */
} site;

static qn_status look(qn_builder *b, const qn_node *node, const uint32_t *map,
                      site *s)
{
    s->in = qn_region_alloc(&b->scratch, node->n_in + 1u, sizeof *s->in);
    s->out = qn_region_alloc(&b->scratch, node->n_out + 1u, sizeof *s->out);
    s->ids = qn_region_alloc(&b->scratch, node->n_in + 1u, sizeof *s->ids);
    if (!s->in || !s->out || !s->ids)
        return qn_build_no_memory(b);
    s->all_known = s->values_known = true;
    for (uint32_t i = 0; i < node->n_in; i++) {
        s->ids[i] = node->in[i] == QN_NO_VALUE ? QN_NO_VALUE : map[node->in[i]];
        if (s->ids[i] == QN_NO_VALUE)
            continue;
        const qn_bvalue *v = &b->values[s->ids[i]];
        s->in[i] = qn_build_tensor(b, s->ids[i]);
        bool empty = !v->dynamic && qn_count(&s->in[i]) == 0;
        if (!v->data && !empty) {
            s->all_known = false;
            if (i < 32 && (node->op->value_in >> i & 1))
                s->values_known = false;
        }
        if (v->dynamic) {
            s->all_known = false;
            s->dynamic = true;
            s->unbounded |= !v->bounded;
        }
    }
    return QN_OK;
}

static bool looks_at_shape_only(const qn_node *node)
{
    return !node->domain[0] && (!strcmp(node->op_name, "Shape") ||
                                !strcmp(node->op_name, "Size"));
}

static bool is_order_change(const qn_node *node)
{
    return !strcmp(node->domain, "ai.quern") &&
           !strncmp(node->op_name, "ToChannels", 10);
}

/* A change of memory order that leaves every byte where it is. */
static bool order_is_view(const qn_node *node, const qn_tensor *in, bool exact)
{
    const int64_t *d = in->shape.dims;
    return is_order_change(node) && exact &&
           (d[1] == 1 || (d[2] == 1 && d[3] == 1));
}

static bool small_enough(const qn_node *node, const site *s)
{
    size_t in = 0, out = 0, bytes;
    for (uint32_t i = 0; i < node->n_in; i++)
        if (qn_present(&s->in[i]) && s->in[i].data &&
            qn_tensor_bytes(s->in[i].dtype, &s->in[i].shape, &bytes, NULL) ==
                QN_OK)
            in += bytes;
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (qn_tensor_bytes(s->out[i].dtype, &s->out[i].shape, &bytes, NULL) !=
            QN_OK)
            return false;
        out += bytes < KNOWN_BYTES ? bytes : KNOWN_BYTES + 1;
        if (s->out[i].dtype == QN_STRING)
            return false;
    }
    return in <= KNOWN_INPUT_BYTES && out <= KNOWN_BYTES;
}

/* Compute it now. False: leave it to the request (which then reports why). */
static bool evaluate(qn_builder *b, const qn_node *node, const site *s)
{
    qn_error ignored = { 0 };
    return qn_eval_node(node, s->in, s->out, &b->strings, &b->plan->region,
                        &ignored) == QN_OK;
}

static qn_status bind_outputs(qn_builder *b, const qn_graph *graph,
                              const qn_node *node, const site *s, bool known,
                              bool dynamic, bool bounded, uint8_t space,
                              uint32_t *map, uint32_t *out)
{
    for (uint32_t i = 0; i < node->n_out; i++) {
        out[i] = QN_NO_VALUE;
        if (node->out[i] == QN_NO_VALUE)
            continue;
        const qn_value *decl = &graph->values[node->out[i]];
        qn_bvalue v = { .kind = known ? QN_BV_KNOWN : QN_BV_STEP,
                        .name = decl->name,
                        .dtype = s->out[i].dtype,
                        .shape = s->out[i].shape,
                        .order = decl->order,
                        .data = known ? s->out[i].data : NULL,
                        .dynamic = dynamic,
                        .bounded = bounded,
                        .space = known ? 0 : space };
        if (!dynamic || bounded) {
            qn_status st =
                qn_tensor_bytes(v.dtype, &v.shape, &v.bytes, b->err);
            if (st != QN_OK) {
                char text[QN_NODE_TEXT];
                return qn_error_prefix(b->err, "%s", qn_node_text(node, text));
            }
        }
        qn_status st = qn_build_add_value(b, &v, &out[i]);
        if (st != QN_OK)
            return st;
        map[node->out[i]] = out[i];
    }
    return QN_OK;
}

/* Every input is brought to where the node runs, but for those that are read on
 * the host, and those that only lend their shape. */
static qn_status bring_inputs(qn_builder *b, const qn_node *node, bool view,
                              uint8_t space, uint32_t *ids)
{
    uint32_t host = node->op->value_in;
    if (node->kernel)
        host |= node->kernel->host_in;
    if (!b->session->options.n_accels || looks_at_shape_only(node))
        return QN_OK;
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (ids[i] == QN_NO_VALUE || (view && i == 0))
            continue;
        bool on_host = view || (i < 32 && (host >> i & 1));
        qn_status st =
            qn_build_in_space(b, ids[i], on_host ? 0 : space, &ids[i]);
        if (st != QN_OK)
            return st;
    }
    return QN_OK;
}

static qn_status emit_plain(qn_builder *b, const qn_graph *graph,
                            const qn_node *node, uint32_t *map)
{
    site s = { 0 };
    qn_status st = look(b, node, map, &s);
    if (st != QN_OK)
        return st;
    bool view = node->op->flags & QN_OP_VIEW;
    bool exact = !s.dynamic && s.values_known;
    bool bounded = !s.unbounded && s.values_known;
    if (exact || bounded) {
        /* what is wrong in a branch matters only if the request takes it */
        bool hard = exact && !b->maybe;
        qn_error soft = { 0 };
        st = qn_eval_infer(node, s.in, s.out, hard ? b->err : &soft);
        if (st != QN_OK && hard)
            return st;
        bounded = st == QN_OK;
    }
    if (!bounded) {
        /* only the types are certain; a view still has its input's bytes */
        for (uint32_t i = 0; i < node->n_out; i++)
            s.out[i] = (qn_tensor){
                .dtype = node->out[i] == QN_NO_VALUE
                             ? QN_NONE
                             : graph->values[node->out[i]].type.dtype };
        exact = false;
    }
    view |= order_is_view(node, &s.in[0], exact);
    bool data_shape = node->op->flags & QN_OP_BOUNDED;
    /* evaluation knows plain order only */
    bool known = exact && !(node->op->flags & QN_OP_RANDOM) &&
                 node->order == QN_ORDER_PLAIN && !is_order_change(node) &&
                 (s.all_known || looks_at_shape_only(node)) &&
                 small_enough(node, &s) && evaluate(b, node, &s);
    bool dynamic = !known && (!exact || data_shape);
    uint32_t step;
    uint32_t *out = qn_region_alloc(&b->scratch, node->n_out + 1u, sizeof *out);
    if (!out)
        return qn_build_no_memory(b);
    uint8_t space = view && s.ids[0] != QN_NO_VALUE
                        ? b->values[s.ids[0]].space : node->place;
    bool collective = !known && (node->op->flags & QN_OP_COLLECTIVE);
    int32_t groups = -1;
    st = known        ? QN_OK
         : collective ? qn_build_collective_in(b, node, dynamic || s.dynamic,
                                               s.ids, &groups)
                      : bring_inputs(b, node, view, space, s.ids);
    if (st == QN_OK)
        st = bind_outputs(b, graph, node, &s, known, dynamic, bounded, space,
                          map, out);
    if (st != QN_OK || known)
        return st;
    st = qn_build_add_step(b, view ? QN_STEP_VIEW : QN_STEP_LAUNCH, node, node->n_in,
                  node->n_out, &step);
    if (st != QN_OK)
        return st;
    b->steps[step].dynamic = dynamic || s.dynamic;
    b->steps[step].space = space;
    memcpy(b->steps[step].in, s.ids, node->n_in * sizeof *s.ids);
    memcpy(b->steps[step].out, out, node->n_out * sizeof *out);
    b->steps[step].groups = groups;
    if (collective)
        qn_build_collective_out(b, step);
    return QN_OK;
}

/* ---- graphs ---- */

static qn_status bind_constants(qn_builder *b, const qn_graph *graph,
                                uint32_t *map)
{
    const qn_static *mem = &b->session->memory;
    for (uint32_t i = 0; i < graph->n_values; i++) {
        const qn_value *v = &graph->values[i];
        if (v->kind != QN_VALUE_CONST)
            continue;
        const qn_slot *slot = &mem->slots[v->slot];
        qn_bvalue c = { .kind = QN_BV_CONST, .name = v->name,
                        .dtype = v->type.dtype, .shape = slot->shape,
                        .order = v->order, .slot = v->slot,
                        .data = slot->plain
                                    ? mem->blocks[0].data + slot->offset : NULL };
        qn_status st = qn_tensor_bytes(c.dtype, &c.shape, &c.bytes, b->err);
        if (st == QN_OK)
            st = qn_build_add_value(b, &c, &map[i]);
        if (st != QN_OK)
            return st;
    }
    return QN_OK;
}

qn_status qn_build_graph(qn_builder *b, const qn_graph *graph, uint32_t *map,
                         int depth)
{
    if (depth > MAX_DEPTH)
        return qn_fail(b->err, QN_UNSUPPORTED,
                       "graphs are nested deeper than %d", MAX_DEPTH);
    qn_status st = bind_constants(b, graph, map);
    for (uint32_t i = 0; st == QN_OK && i < graph->n_nodes; i++) {
        const qn_node *node = graph->nodes[i];
        st = node->op->flags & QN_OP_CONTROL
                 ? qn_build_if(b, graph, node, map, depth)
                 : emit_plain(b, graph, node, map);
    }
    return st;
}

static qn_status bind_inputs(qn_builder *b, const qn_tensor *inputs,
                             uint32_t *map)
{
    const qn_graph *g = b->session->graph;
    const qn_static *mem = &b->session->memory;
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        const qn_value *v = &g->values[g->inputs[i]];
        qn_bvalue in = { .kind = QN_BV_INPUT, .name = v->name, .slot = i,
                         .dtype = inputs[i].dtype, .shape = inputs[i].shape };
        if (!qn_present(&inputs[i])) { /* its default; checked by the caller */
            const qn_slot *slot = &mem->slots[v->slot];
            in = (qn_bvalue){ .kind = QN_BV_CONST, .name = v->name,
                              .dtype = v->type.dtype, .shape = slot->shape,
                              .slot = v->slot,
                              .data = mem->blocks[0].data + slot->offset };
        }
        qn_status st = qn_tensor_bytes(in.dtype, &in.shape, &in.bytes, b->err);
        if (st != QN_OK)
            return st;
        if (qn_present(&inputs[i]) && inputs[i].data) {
            /* part of the key: known while planning */
            void *copy = qn_region_alloc(&b->plan->region, in.bytes + 1, 1);
            if (!copy)
                return qn_build_no_memory(b);
            if (in.bytes)
                memcpy(copy, inputs[i].data, in.bytes);
            in.data = copy;
        }
        st = qn_build_add_value(b, &in, &map[g->inputs[i]]);
        if (st != QN_OK)
            return st;
        b->inputs[i] = map[g->inputs[i]];
    }
    return QN_OK;
}

/* Outputs that no step writes for themselves get a copy. */
static qn_status bind_outputs_of_graph(qn_builder *b, const uint32_t *map)
{
    const qn_graph *g = b->session->graph;
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        uint32_t v = map[g->outputs[i]];
        bool own = b->values[v].kind == QN_BV_STEP && b->values[v].output < 0 &&
                   b->values[v].space == 0 && b->values[v].group < 0;
        if (!own) {
            qn_bvalue copy = b->values[v];
            uint32_t from = v;
            copy.kind = QN_BV_STEP;
            copy.data = NULL;
            copy.space = 0;
            qn_status st = qn_build_add_value(b, &copy, &v);
            if (st == QN_OK)
                st = qn_build_copy(b, from, v);
            if (st != QN_OK)
                return st;
        }
        b->values[v].output = (int32_t)i;
        b->outputs[i] = v;
    }
    return QN_OK;
}

qn_status qn_build_emit(qn_builder *b, const qn_tensor *inputs)
{
    const qn_graph *g = b->session->graph;
    uint32_t *map = qn_region_alloc(&b->scratch, g->n_values + 1u, sizeof *map);
    b->inputs = qn_region_alloc(&b->scratch, g->n_inputs + 1u, sizeof *map);
    b->outputs = qn_region_alloc(&b->scratch, g->n_outputs + 1u, sizeof *map);
    if (!map || !b->inputs || !b->outputs)
        return qn_build_no_memory(b);
    for (uint32_t i = 0; i < g->n_values; i++)
        map[i] = QN_NO_VALUE;
    qn_status st = bind_inputs(b, inputs, map);
    if (st == QN_OK)
        st = qn_build_graph(b, g, map, 0);
    if (st == QN_OK)
        st = bind_outputs_of_graph(b, map);
    return st;
}

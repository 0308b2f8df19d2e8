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

static qn_status add_value(qn_builder *b, const qn_bvalue *v, uint32_t *out)
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
    return QN_OK;
}

static qn_status add_step(qn_builder *b, qn_step_kind kind, const qn_node *node,
                          uint32_t n_in, uint32_t n_out, uint32_t *out)
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
                   .n_out = n_out };
    s.in = qn_region_alloc(&b->scratch, n_in + 1u, sizeof *s.in);
    s.out = qn_region_alloc(&b->scratch, n_out + 1u, sizeof *s.out);
    if (!s.in || !s.out)
        return qn_build_no_memory(b);
    *out = b->n_steps++;
    b->steps[*out] = s;
    return QN_OK;
}

static qn_tensor tensor_of(const qn_builder *b, uint32_t id)
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
        s->in[i] = tensor_of(b, s->ids[i]);
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
                              bool dynamic, bool bounded, uint32_t *map,
                              uint32_t *out)
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
                        .bounded = bounded };
        if (!dynamic || bounded) {
            qn_status st =
                qn_tensor_bytes(v.dtype, &v.shape, &v.bytes, b->err);
            if (st != QN_OK) {
                char text[QN_NODE_TEXT];
                return qn_error_prefix(b->err, "%s", qn_node_text(node, text));
            }
        }
        qn_status st = add_value(b, &v, &out[i]);
        if (st != QN_OK)
            return st;
        map[node->out[i]] = out[i];
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
    st = bind_outputs(b, graph, node, &s, known, dynamic, bounded, map, out);
    if (st != QN_OK || known)
        return st;
    st = add_step(b, view ? QN_STEP_VIEW : QN_STEP_LAUNCH, node, node->n_in,
                  node->n_out, &step);
    if (st != QN_OK)
        return st;
    b->steps[step].dynamic = dynamic || s.dynamic;
    memcpy(b->steps[step].in, s.ids, node->n_in * sizeof *s.ids);
    memcpy(b->steps[step].out, out, node->n_out * sizeof *out);
    return QN_OK;
}

/* ---- control flow ---- */

static qn_status emit_graph(qn_builder *b, const qn_graph *graph, uint32_t *map,
                            int depth);

/* Values of a child graph, with its captures bound. */
static qn_status child_map(qn_builder *b, const qn_graph *child,
                           const uint32_t *parent, uint32_t **out)
{
    uint32_t *map =
        qn_region_alloc(&b->scratch, child->n_values + 1u, sizeof *map);
    if (!map)
        return qn_build_no_memory(b);
    for (uint32_t i = 0; i < child->n_values; i++)
        map[i] = child->values[i].kind == QN_VALUE_CAPTURE
                     ? parent[child->values[i].outer]
                     : QN_NO_VALUE;
    *out = map;
    return QN_OK;
}

static qn_status emit_copy(qn_builder *b, uint32_t from, uint32_t to)
{
    uint32_t step;
    qn_status st = add_step(b, QN_STEP_COPY, NULL, 1, 1, &step);
    if (st == QN_OK) {
        b->steps[step].in[0] = from;
        b->steps[step].out[0] = to;
        b->steps[step].dynamic = b->values[from].dynamic || b->values[to].dynamic;
    }
    return st;
}

/* The value that both branches of an If write: as large as the larger. Its shape
 * is a bound for what is inferred from it: per axis, where the ranks agree. */
static qn_status join_value(qn_builder *b, const qn_node *node, const char *name,
                            uint32_t x, uint32_t y, uint32_t *out)
{
    char text[QN_NODE_TEXT];
    const qn_bvalue *vx = &b->values[x], *vy = &b->values[y];
    if (vx->dtype != vy->dtype)
        return qn_fail(b->err, QN_TYPE,
                       "%s: one branch gives %s, the other %s",
                       qn_node_text(node, text), qn_dtype_name(vx->dtype),
                       qn_dtype_name(vy->dtype));
    bool same = qn_shape_equal(&vx->shape, &vy->shape) && !vx->dynamic &&
                !vy->dynamic;
    bool bounded = (!vx->dynamic || vx->bounded) && (!vy->dynamic || vy->bounded);
    const qn_bvalue *larger = vx->bytes >= vy->bytes ? vx : vy;
    qn_bvalue v = { .kind = QN_BV_STEP, .name = name, .dtype = vx->dtype,
                    .shape = larger->shape, .dynamic = !same,
                    .bounded = !same && bounded,
                    .bytes = bounded ? larger->bytes : 0 };
    for (int i = 0; bounded && vx->shape.rank == vy->shape.rank &&
                    i < v.shape.rank; i++)
        v.shape.dims[i] = vx->shape.dims[i] > vy->shape.dims[i]
                              ? vx->shape.dims[i] : vy->shape.dims[i];
    return add_value(b, &v, out);
}

static qn_status branch(qn_builder *b, const qn_graph *child,
                        const uint32_t *map, uint32_t *results, int depth)
{
    uint32_t *inner = NULL;
    qn_status st = child_map(b, child, map, &inner);
    if (st == QN_OK)
        st = emit_graph(b, child, inner, depth + 1);
    for (uint32_t i = 0; st == QN_OK && i < child->n_outputs; i++)
        results[i] = inner[child->outputs[i]];
    return st;
}

/* Insert the copies of one branch's results before step `at` is known: the
 * then-branch's copies have to come before the else-branch's steps, but the
 * joined values need both branches' shapes. So they are emitted as copies to a
 * value that is filled in afterwards. */
static qn_status branch_copies(qn_builder *b, const uint32_t *results,
                               uint32_t n, uint32_t *first)
{
    *first = b->n_steps;
    for (uint32_t i = 0; i < n; i++) {
        qn_status st = emit_copy(b, results[i], results[i]);
        if (st != QN_OK)
            return st;
    }
    return QN_OK;
}

static qn_status emit_if(qn_builder *b, const qn_graph *graph,
                         const qn_node *node, uint32_t *map, int depth)
{
    char text[QN_NODE_TEXT];
    const qn_attr *yes = qn_node_attr(node, "then_branch");
    const qn_attr *no = qn_node_attr(node, "else_branch");
    if (!yes || !no || !yes->graph || !no->graph ||
        yes->graph->n_outputs != node->n_out ||
        no->graph->n_outputs != node->n_out)
        return qn_fail(b->err, QN_FORMAT,
                       "%s: needs two branches with %u outputs each",
                       qn_node_text(node, text), node->n_out);
    uint32_t cond = map[node->in[0]];
    qn_tensor c = tensor_of(b, cond);
    if (!b->values[cond].dynamic && qn_count(&c) != 1) {
        char shape[QN_SHAPE_TEXT];
        return qn_fail(b->err, QN_SHAPE,
                       "%s: the condition must be one element, not %s",
                       qn_node_text(node, text), qn_shape_text(&c.shape, shape));
    }
    uint32_t n = node->n_out;
    uint32_t *rx = qn_region_alloc(&b->scratch, n + 1u, sizeof *rx);
    uint32_t *ry = qn_region_alloc(&b->scratch, n + 1u, sizeof *ry);
    if (!rx || !ry)
        return qn_build_no_memory(b);
    if (c.data) {
        qn_status st = branch(b, *(const uint8_t *)c.data ? yes->graph : no->graph,
                              map, rx, depth);
        for (uint32_t i = 0; st == QN_OK && i < n; i++)
            if (node->out[i] != QN_NO_VALUE)
                map[node->out[i]] = rx[i];
        return st;
    }
    uint32_t test, skip, copies_x, copies_y;
    qn_status st = add_step(b, QN_STEP_JUMP_UNLESS, node, 1, 0, &test);
    if (st != QN_OK)
        return st;
    b->steps[test].in[0] = cond;
    b->maybe++;
    st = branch(b, yes->graph, map, rx, depth);
    if (st == QN_OK)
        st = branch_copies(b, rx, n, &copies_x);
    if (st == QN_OK)
        st = add_step(b, QN_STEP_JUMP, node, 0, 0, &skip);
    if (st != QN_OK)
        return st;
    b->steps[test].target = b->n_steps;
    st = branch(b, no->graph, map, ry, depth);
    b->maybe--;
    if (st == QN_OK)
        st = branch_copies(b, ry, n, &copies_y);
    if (st != QN_OK)
        return st;
    b->steps[skip].target = b->n_steps;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t joined;
        const char *name = node->out[i] == QN_NO_VALUE
                               ? "" : graph->values[node->out[i]].name;
        st = join_value(b, node, name, rx[i], ry[i], &joined);
        if (st != QN_OK)
            return st;
        b->steps[copies_x + i].out[0] = b->steps[copies_y + i].out[0] = joined;
        b->steps[copies_x + i].dynamic = b->steps[copies_y + i].dynamic =
            b->values[joined].dynamic;
        if (node->out[i] != QN_NO_VALUE)
            map[node->out[i]] = joined;
    }
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
                        .data = slot->plain ? mem->block + slot->offset : NULL };
        qn_status st = qn_tensor_bytes(c.dtype, &c.shape, &c.bytes, b->err);
        if (st == QN_OK)
            st = add_value(b, &c, &map[i]);
        if (st != QN_OK)
            return st;
    }
    return QN_OK;
}

static qn_status emit_graph(qn_builder *b, const qn_graph *graph, uint32_t *map,
                            int depth)
{
    if (depth > MAX_DEPTH)
        return qn_fail(b->err, QN_UNSUPPORTED,
                       "graphs are nested deeper than %d", MAX_DEPTH);
    qn_status st = bind_constants(b, graph, map);
    for (uint32_t i = 0; st == QN_OK && i < graph->n_nodes; i++) {
        const qn_node *node = graph->nodes[i];
        st = node->op->flags & QN_OP_CONTROL
                 ? emit_if(b, graph, node, map, depth)
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
                              .data = mem->block + slot->offset };
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
        st = add_value(b, &in, &map[g->inputs[i]]);
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
        bool own = b->values[v].kind == QN_BV_STEP && b->values[v].output < 0;
        if (!own) {
            qn_bvalue copy = b->values[v];
            uint32_t from = v;
            copy.kind = QN_BV_STEP;
            copy.data = NULL;
            qn_status st = add_value(b, &copy, &v);
            if (st == QN_OK)
                st = emit_copy(b, from, v);
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
        st = emit_graph(b, g, map, 0);
    if (st == QN_OK)
        st = bind_outputs_of_graph(b, map);
    return st;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completing a graph, first half: structure. For each graph of the tree, from
 * its outputs backwards:
 *
 *   producers   value -> the one node that makes it
 *   live        nodes that an output needs; children are completed when their
 *               node turns out to be live, so that a value which only a dead
 *               node of a branch captures is not kept
 *   order       Kahn's algorithm with a heap on the model's order: a model that
 *               is sorted already stays as it is
 *   renumber    dead values go, children's captures follow
 *
 * The second half, operators and types, is types.c.
 */
#include "runtime/graph/finish.h"
#include "runtime/ops/collective.h"

#include <string.h>

enum { MAX_DEPTH = 128 };
#define NO_NODE UINT32_MAX

typedef struct work {
    qn_graph *g;
    qn_region scratch;
    uint32_t *producer; /* [n_values] node or NO_NODE */
    uint8_t *used;      /* [n_values] */
    uint8_t *live;      /* [n_nodes] */
    uint32_t *stack;    /* [n_nodes] live nodes whose inputs are to be marked */
    uint32_t n_stack;
    qn_error *err;
} work;

static qn_status structure(qn_graph *g, int depth, qn_error *err);

static qn_status no_memory(qn_error *err)
{
    return qn_fail(err, QN_NO_MEMORY, "out of memory to sort a graph");
}

static qn_status bad_value(work *w, const qn_node *node, qn_value_id id)
{
    char text[QN_NODE_TEXT];
    return qn_fail(w->err, QN_INTERNAL, "%s: value %u does not exist",
                   qn_node_text(node, text), id);
}

static qn_status find_producers(work *w)
{
    qn_graph *g = w->g;

    for (uint32_t i = 0; i < g->n_values; i++)
        w->producer[i] = NO_NODE;
    for (uint32_t k = 0; k < g->n_nodes; k++) {
        const qn_node *node = g->nodes[k];
        for (uint32_t i = 0; i < node->n_out; i++) {
            char a[QN_NODE_TEXT], b[QN_NODE_TEXT];
            qn_value_id id = node->out[i];
            if (id == QN_NO_VALUE)
                continue;
            if (id >= g->n_values)
                return bad_value(w, node, id);
            if (w->producer[id] != NO_NODE)
                return qn_fail(w->err, QN_FORMAT,
                               "value '%.80s' has two producers: %s and %s",
                               g->values[id].name,
                               qn_node_text(g->nodes[w->producer[id]], a),
                               qn_node_text(node, b));
            if (g->values[id].kind != QN_VALUE_NODE)
                return qn_fail(w->err, QN_FORMAT,
                               "%s makes value '%.80s', which is an input, a "
                               "constant or a value from outside already",
                               qn_node_text(node, a), g->values[id].name);
            w->producer[id] = k;
        }
    }
    return QN_OK;
}

static qn_status use(work *w, qn_value_id id, const char *user)
{
    const qn_value *v = &w->g->values[id];

    if (w->used[id])
        return QN_OK;
    w->used[id] = 1;
    if (v->kind != QN_VALUE_NODE)
        return QN_OK;
    uint32_t p = w->producer[id];
    if (p == NO_NODE)
        return qn_fail(w->err, QN_FORMAT,
                       "%s uses value '%.80s', which nothing makes", user,
                       v->name);
    if (!w->live[p]) {
        w->live[p] = 1;
        w->stack[w->n_stack++] = p;
    }
    return QN_OK;
}

static qn_status use_captures(work *w, const qn_graph *child, const char *user)
{
    for (uint32_t i = 0; i < child->n_values; i++) {
        if (child->values[i].kind != QN_VALUE_CAPTURE)
            continue;
        if (child->values[i].outer >= w->g->n_values)
            return qn_fail(w->err, QN_INTERNAL, "%s: capture of a value that "
                           "does not exist", user);
        qn_status st = use(w, child->values[i].outer, user);
        if (st != QN_OK)
            return st;
    }
    return QN_OK;
}

static qn_status use_node(work *w, const qn_node *node, int depth)
{
    char text[QN_NODE_TEXT];
    qn_status st = QN_OK;

    qn_node_text(node, text);
    for (uint32_t i = 0; i < node->n_in && st == QN_OK; i++) {
        if (node->in[i] == QN_NO_VALUE)
            continue;
        if (node->in[i] >= w->g->n_values)
            return bad_value(w, node, node->in[i]);
        st = use(w, node->in[i], text);
    }
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i] != QN_NO_VALUE)
            w->used[node->out[i]] = 1;
    for (uint32_t i = 0; i < node->n_attrs && st == QN_OK; i++) {
        qn_graph *child = node->attrs[i].graph;
        if (node->attrs[i].kind != QN_ATTR_GRAPH || !child)
            continue;
        st = structure(child, depth + 1, w->err);
        if (st == QN_OK)
            st = use_captures(w, child, text);
    }
    return st;
}

static qn_status mark_live(work *w, int depth)
{
    qn_graph *g = w->g;

    for (uint32_t i = 0; i < g->n_inputs; i++) {
        if (g->inputs[i] >= g->n_values)
            return qn_fail(w->err, QN_INTERNAL, "input %u does not exist", i);
        w->used[g->inputs[i]] = 1;
    }
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        if (g->outputs[i] >= g->n_values)
            return qn_fail(w->err, QN_INTERNAL, "output %u does not exist", i);
        qn_status st = use(w, g->outputs[i], "the list of outputs");
        if (st != QN_OK)
            return st;
    }
    /* ranks meet at each collective, whether or not this one reads the result */
    for (uint32_t k = 0; !g->parent && k < g->n_nodes; k++)
        if (!w->live[k] && qn_is_collective(g->nodes[k])) {
            w->live[k] = 1;
            w->stack[w->n_stack++] = k;
        }
    while (w->n_stack) {
        qn_status st = use_node(w, g->nodes[w->stack[--w->n_stack]], depth);
        if (st != QN_OK)
            return st;
    }
    return QN_OK;
}

/* ---- order ---- */

/* Calls fn for each value that a node needs from its own graph; the same one
 * may come several times. */
static void each_need(const qn_node *node,
                      void (*fn)(void *arg, qn_value_id id), void *arg)
{
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] != QN_NO_VALUE)
            fn(arg, node->in[i]);
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        const qn_graph *child = node->attrs[i].graph;
        if (node->attrs[i].kind != QN_ATTR_GRAPH || !child)
            continue;
        for (uint32_t k = 0; k < child->n_values; k++)
            if (child->values[k].kind == QN_VALUE_CAPTURE)
                fn(arg, child->values[k].outer);
    }
}

typedef struct order {
    const uint32_t *producer;
    uint32_t node;
    size_t *start;    /* [n_nodes + 1] rows of `reader` */
    uint32_t *reader; /* nodes that wait for this one */
    uint32_t *waits;  /* [n_nodes] needs that are not met yet */
    uint32_t *heap, n_heap;
    uint32_t found; /* a producer that has not run */
} order;

static void count_need(void *arg, qn_value_id id)
{
    order *o = arg;
    uint32_t p = o->producer[id];
    if (p == NO_NODE)
        return;
    o->start[p + 1]++;
    o->waits[o->node]++;
}

static void list_need(void *arg, qn_value_id id)
{
    order *o = arg;
    uint32_t p = o->producer[id];
    if (p != NO_NODE)
        o->reader[o->start[p]++] = o->node;
}

static void find_unmet(void *arg, qn_value_id id)
{
    order *o = arg;
    uint32_t p = o->producer[id];
    if (p != NO_NODE && o->waits[p])
        o->found = p;
}

static void push(order *o, uint32_t node)
{
    uint32_t at = o->n_heap++;
    while (at && o->heap[(at - 1) / 2] > node) {
        o->heap[at] = o->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    o->heap[at] = node;
}

static uint32_t pop(order *o)
{
    uint32_t top = o->heap[0], last = o->heap[--o->n_heap], at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= o->n_heap)
            break;
        if (child + 1 < o->n_heap && o->heap[child + 1] < o->heap[child])
            child++;
        if (o->heap[child] >= last)
            break;
        o->heap[at] = o->heap[child];
        at = child;
    }
    o->heap[at] = last;
    return top;
}

/* Some node still waits: walk backwards until one comes round again. */
static qn_status report_cycle(work *w, order *o)
{
    char text[QN_NODE_TEXT];
    uint32_t at = 0;

    while (at < w->g->n_nodes && !(w->live[at] && o->waits[at]))
        at++;
    for (uint32_t step = 0; step < w->g->n_nodes; step++) {
        each_need(w->g->nodes[at], find_unmet, o);
        at = o->found;
    }
    return qn_fail(w->err, QN_FORMAT,
                   "the graph has a cycle: %s needs its own result",
                   qn_node_text(w->g->nodes[at], text));
}

static qn_status sort_nodes(work *w)
{
    qn_graph *g = w->g;
    uint32_t n = g->n_nodes, done = 0, n_live = 0;
    order o = { .producer = w->producer };

    o.start = qn_region_alloc(&w->scratch, (size_t)n + 2, sizeof *o.start);
    o.waits = qn_region_alloc(&w->scratch, (size_t)n + 1, sizeof *o.waits);
    o.heap = qn_region_alloc(&w->scratch, (size_t)n + 1, sizeof *o.heap);
    qn_node **sorted = qn_region_alloc(g->region, (size_t)n + 1,
                                       sizeof *sorted);
    if (!o.start || !o.waits || !o.heap || !sorted)
        return no_memory(w->err);
    for (o.node = 0; o.node < n; o.node++)
        if (w->live[o.node]) {
            each_need(g->nodes[o.node], count_need, &o);
            n_live++;
        }
    for (uint32_t i = 0; i < n; i++)
        o.start[i + 1] += o.start[i];
    o.reader = qn_region_alloc(&w->scratch, o.start[n] + 1, sizeof *o.reader);
    if (!o.reader)
        return no_memory(w->err);
    /* list_need moves each row's start to its end: the next row's start */
    for (o.node = 0; o.node < n; o.node++)
        if (w->live[o.node])
            each_need(g->nodes[o.node], list_need, &o);
    for (uint32_t i = 0; i < n; i++)
        if (w->live[i] && !o.waits[i])
            push(&o, i);
    while (o.n_heap) {
        uint32_t k = pop(&o);
        sorted[done++] = g->nodes[k];
        for (size_t i = k ? o.start[k - 1] : 0; i < o.start[k]; i++)
            if (!--o.waits[o.reader[i]])
                push(&o, o.reader[i]);
    }
    if (done < n_live)
        return report_cycle(w, &o);
    g->nodes = sorted;
    g->n_nodes = done;
    g->cap_nodes = n + 1;
    g->n_dropped_nodes = n - done;
    return QN_OK;
}

/* ---- renumber ---- */

static void renumber_node(qn_node *node, const qn_value_id *to)
{
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] != QN_NO_VALUE)
            node->in[i] = to[node->in[i]];
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i] != QN_NO_VALUE)
            node->out[i] = to[node->out[i]];
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        qn_graph *child = node->attrs[i].graph;
        if (node->attrs[i].kind != QN_ATTR_GRAPH || !child)
            continue;
        for (uint32_t k = 0; k < child->n_values; k++)
            if (child->values[k].kind == QN_VALUE_CAPTURE)
                child->values[k].outer = to[child->values[k].outer];
    }
}

static qn_status renumber(work *w)
{
    qn_graph *g = w->g;
    uint32_t n = 0;
    qn_value_id *to = qn_region_alloc(&w->scratch, (size_t)g->n_values + 1,
                                      sizeof *to);
    if (!to)
        return no_memory(w->err);
    for (uint32_t i = 0; i < g->n_values; i++) {
        if (!w->used[i]) {
            g->n_dropped_constants += g->values[i].kind == QN_VALUE_CONST;
            continue;
        }
        to[i] = n;
        g->values[n++] = g->values[i];
    }
    g->n_values = n;
    for (uint32_t i = 0; i < g->n_inputs; i++)
        g->inputs[i] = to[g->inputs[i]];
    for (uint32_t i = 0; i < g->n_outputs; i++)
        g->outputs[i] = to[g->outputs[i]];
    for (uint32_t k = 0; k < g->n_nodes; k++) {
        qn_node *node = g->nodes[k];
        node->index = k;
        renumber_node(node, to);
        for (uint32_t i = 0; i < node->n_out; i++)
            if (node->out[i] != QN_NO_VALUE)
                g->values[node->out[i]].node = k;
    }
    return QN_OK;
}

static qn_status structure(qn_graph *g, int depth, qn_error *err)
{
    work w = { .g = g, .err = err };
    qn_status st;

    if (depth > MAX_DEPTH)
        return qn_fail(err, QN_TOO_LARGE,
                       "graphs are nested more than %d deep", MAX_DEPTH);
    size_t values = (size_t)g->n_values + 1, nodes = (size_t)g->n_nodes + 1;
    w.producer = qn_region_alloc(&w.scratch, values, sizeof *w.producer);
    w.used = qn_region_alloc(&w.scratch, values, 1);
    w.live = qn_region_alloc(&w.scratch, nodes, 1);
    w.stack = qn_region_alloc(&w.scratch, nodes, sizeof *w.stack);
    st = w.producer && w.used && w.live && w.stack ? QN_OK : no_memory(err);
    if (st == QN_OK)
        st = find_producers(&w);
    if (st == QN_OK)
        st = mark_live(&w, depth);
    if (st == QN_OK)
        st = sort_nodes(&w);
    if (st == QN_OK)
        st = renumber(&w);
    qn_region_release(&w.scratch);
    return st;
}

qn_status qn_graph_finish(qn_graph *graph, qn_error *err)
{
    qn_status st;

    if (graph->parent)
        return qn_fail(err, QN_INTERNAL, "a child graph cannot be finished "
                       "without its parents");
    st = structure(graph, 0, err);
    return st == QN_OK ? qn_graph_types(graph, err) : st;
}

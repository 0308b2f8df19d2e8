/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backwards from what decides shapes (shape inputs of operators, conditions of
 * If) to the inputs of the model. An operator that only looks at the shape of
 * its input ends the walk; so does heavy arithmetic, whose result is data, not
 * a shape.
 */
#include "runtime/exec/session_impl.h"
#include "runtime/ops/op.h"
#include "runtime/passes/passes.h"

#include <string.h>

typedef struct visited {
    const qn_graph *graph;
    struct visited *next;
    bool value[]; /* [graph->n_values] */
} visited;

typedef struct walk {
    bool *key; /* the result, by main input */
    const qn_graph *main;
    visited *seen;
    bool failed; /* out of memory */
} walk;

/* Was it visited before? Notes that it is now. */
static bool visit(walk *w, const qn_graph *graph, qn_value_id id)
{
    visited *v = w->seen;
    while (v && v->graph != graph)
        v = v->next;
    if (!v) {
        v = qn_calloc(1, sizeof *v + graph->n_values);
        if (!v) {
            w->failed = true;
            return true;
        }
        v->graph = graph;
        v->next = w->seen;
        w->seen = v;
    }
    bool before = v->value[id];
    v->value[id] = true;
    return before;
}

static bool ends_walk(const qn_node *node)
{
    static const char *const names[] = {
        "Shape",   "Size",    "Conv",    "ConvTranspose", "MatMul",
        "Gemm",    "LSTM",    "NonZero", "TopK",          "NonMaxSuppression",
        "MaxPool", "Softmax", "AveragePool",
    };
    if (node->domain[0] || node->op->flags & QN_OP_BOUNDED)
        return true;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(node->op_name, names[i]))
            return true;
    return false;
}

static void note_input(walk *w, const qn_graph *graph, qn_value_id id)
{
    const qn_value *v = &graph->values[id];
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        if (graph->inputs[i] == id && v->rank >= 0 && v->rank <= 1)
            w->key[i] = true;
}

static bool is_whole(qn_dtype t)
{
    const qn_dtypes whole = QN_BIT(U8) | QN_BIT(I8) | QN_BIT(U16) |
                            QN_BIT(I16) | QN_BIT(I32) | QN_BIT(I64) |
                            QN_BIT(U32) | QN_BIT(U64) | QN_BIT(BOOL);
    return whole >> t & 1;
}

/* An input that is itself read for a shape, whatever its type (Resize's scales,
 * Range's limits). */
static void mark_direct(walk *w, const qn_graph *graph, qn_value_id id)
{
    while (id != QN_NO_VALUE &&
           graph->values[id].kind == QN_VALUE_CAPTURE) {
        id = graph->values[id].outer;
        graph = graph->parent;
    }
    if (id != QN_NO_VALUE && graph == w->main &&
        graph->values[id].kind == QN_VALUE_INPUT)
        note_input(w, graph, id);
}

/* Inputs of numbers with a fraction are data: a plan for each of their values
 * would be a plan for each request.
 *
 * The stack is as deep as the chain of operators: past the limit an input is
 * left out of the key, which costs speed, not correctness. */
static void mark(walk *w, const qn_graph *graph, qn_value_id id, unsigned depth)
{
    if (id == QN_NO_VALUE || depth > 2000 || visit(w, graph, id))
        return;
    const qn_value *v = &graph->values[id];
    if (v->kind == QN_VALUE_CAPTURE) {
        mark(w, graph->parent, v->outer, depth + 1);
    } else if (v->kind == QN_VALUE_INPUT && graph == w->main) {
        if (is_whole(v->type.dtype))
            note_input(w, graph, id);
    } else if (v->kind == QN_VALUE_NODE) {
        const qn_node *node = graph->nodes[v->node];
        if (ends_walk(node))
            return;
        for (uint32_t k = 0; k < node->n_in; k++)
            mark(w, graph, node->in[k], depth + 1);
        for (uint32_t a = 0; a < node->n_attrs; a++) {
            const qn_graph *child = node->attrs[a].graph;
            for (uint32_t o = 0; child && o < child->n_outputs; o++)
                mark(w, child, child->outputs[o], depth + 1);
        }
    }
}

static qn_status roots(qn_graph *graph, void *arg, qn_error *err)
{
    walk *w = arg;
    (void)err;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const qn_node *node = graph->nodes[i];
        uint32_t wanted = node->op->value_in;
        if (node->op->flags & QN_OP_CONTROL)
            wanted |= 1; /* the condition */
        for (uint32_t k = 0; k < node->n_in && k < 32; k++)
            if (wanted >> k & 1) {
                mark_direct(w, graph, node->in[k]);
                mark(w, graph, node->in[k], 0);
            }
    }
    return QN_OK;
}

qn_status qn_pass_key_inputs(const qn_graph *graph, bool *out, qn_error *err)
{
    walk w = { .key = out, .main = graph };
    qn_graph *tree;
    memcpy(&tree, &graph, sizeof tree);
    memset(out, 0, graph->n_inputs * sizeof *out);
    qn_status st = qn_graph_each(tree, roots, &w, err);
    while (w.seen) {
        visited *next = w.seen->next;
        qn_free(w.seen);
        w.seen = next;
    }
    if (w.failed)
        return qn_fail(err, QN_NO_MEMORY, "no memory to walk the graph");
    return st;
}

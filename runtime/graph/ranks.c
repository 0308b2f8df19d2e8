/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/graph/ranks.h"

#include "runtime/ops/collective.h"

#include <string.h>

typedef struct merging {
    qn_graph **parts;
    uint32_t n;
    qn_graph *g; /* rank 0's, which takes the others */
    qn_region scratch;
    /* by rank: its nodes, and the next to be taken over */
    qn_node **nodes[QN_GRAPH_RANKS];
    uint32_t n_nodes[QN_GRAPH_RANKS], next[QN_GRAPH_RANKS];
    qn_error *err;
} merging;

static qn_status no_memory(qn_error *err)
{
    return qn_fail(err, QN_NO_MEMORY, "out of memory to merge ranks");
}

/* ---- what has to agree ---- */

static bool same_type(const qn_type *a, const qn_type *b)
{
    return a->kind == b->kind && a->dtype == b->dtype;
}

static bool same_dims(const qn_value *a, const qn_value *b)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++) {
        const char *x = a->dims[i].symbol, *y = b->dims[i].symbol;
        if (a->dims[i].value != b->dims[i].value || !x != !y ||
            (x && strcmp(x, y) != 0))
            return false;
    }
    return true;
}

static qn_status same_bytes(merging *m, const qn_const *a, const qn_const *b,
                            bool *same)
{
    *same = a->dtype == b->dtype && a->bytes == b->bytes &&
            qn_shape_equal(&a->shape, &b->shape) && a->dtype != QN_STRING;
    if (!*same)
        return QN_OK;
    void *x = qn_calloc(a->bytes + 1, 1), *y = qn_calloc(b->bytes + 1, 1);
    qn_status st = x && y ? qn_const_read(a, x, m->err) : no_memory(m->err);
    if (st == QN_OK)
        st = qn_const_read(b, y, m->err);
    if (st == QN_OK)
        *same = !memcmp(x, y, a->bytes);
    qn_free(x);
    qn_free(y);
    return st;
}

static qn_status check_input(merging *m, uint32_t rank, const qn_value *have,
                             const qn_value *more)
{
    bool same = !have->data == !more->data;
    qn_status st = QN_OK;
    if (!same_type(&have->type, &more->type) || !same_dims(have, more))
        return qn_fail(m->err, QN_INVALID,
                       "input '%.120s' of rank %u has another type or other "
                       "dimensions than that of a lower rank", more->name, rank);
    if (have->data && more->data)
        st = same_bytes(m, have->data, more->data, &same);
    return st != QN_OK || same
               ? st
               : qn_fail(m->err, QN_INVALID, "input '%.120s' of rank %u has "
                         "another default than that of a lower rank",
                         more->name, rank);
}

/* ---- values ---- */

static void adopt_children(qn_graph *g, qn_region *region)
{
    g->region = region;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t a = 0; a < g->nodes[i]->n_attrs; a++)
            if (g->nodes[i]->attrs[a].graph)
                adopt_children(g->nodes[i]->attrs[a].graph, region);
}

static void move_ids(qn_value_id *ids, uint32_t n, const qn_value_id *to)
{
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] != QN_NO_VALUE)
            ids[i] = to[ids[i]];
}

/* Nodes of one part now speak of the merged graph's values. */
static void move_nodes(merging *m, uint32_t rank, const qn_value_id *to)
{
    for (uint32_t i = 0; i < m->n_nodes[rank]; i++) {
        qn_node *node = m->nodes[rank][i];
        node->rank = (uint8_t)rank;
        move_ids(node->in, node->n_in, to);
        move_ids(node->out, node->n_out, to);
        for (uint32_t a = 0; a < node->n_attrs; a++) {
            qn_graph *child = node->attrs[a].graph;
            if (!child)
                continue;
            child->parent = m->g;
            for (uint32_t v = 0; v < child->n_values; v++)
                if (child->values[v].kind == QN_VALUE_CAPTURE)
                    child->values[v].outer = to[child->values[v].outer];
        }
    }
}

static qn_status add_input(merging *m, uint32_t rank, const qn_graph *part,
                           qn_value_id id, qn_value_id *to)
{
    const qn_value *v = &part->values[id];
    for (uint32_t i = 0; i < m->g->n_inputs; i++) {
        const qn_value *have = &m->g->values[m->g->inputs[i]];
        if (strcmp(have->name, v->name) != 0)
            continue;
        to[id] = m->g->inputs[i];
        return check_input(m, rank, have, v);
    }
    qn_status st = qn_graph_add_value(m->g, v, &to[id], m->err);
    return st == QN_OK ? qn_graph_add_input(m->g, to[id], m->err) : st;
}

static qn_status add_output(merging *m, uint32_t rank, const qn_graph *part,
                            uint32_t i, const qn_value_id *to)
{
    const char *name = part->output_names[i];
    for (uint32_t k = 0; k < m->g->n_outputs; k++) {
        if (strcmp(m->g->output_names[k], name) != 0)
            continue;
        return same_type(&m->g->values[m->g->outputs[k]].type,
                         &part->values[part->outputs[i]].type)
                   ? QN_OK
                   : qn_fail(m->err, QN_INVALID, "output '%.120s' of rank %u "
                             "has another type than that of a lower rank", name,
                             rank);
    }
    return qn_graph_add_output(m->g, to[part->outputs[i]],
                               &part->output_decls[i], m->err);
}

static qn_status add_part(merging *m, uint32_t rank)
{
    const qn_graph *part = m->parts[rank];
    qn_status st = QN_OK;
    qn_value_id *to = qn_region_alloc(&m->scratch, part->n_values + 1u,
                                      sizeof *to);
    if (!to)
        return no_memory(m->err);
    for (uint32_t i = 0; i < part->n_values; i++)
        to[i] = QN_NO_VALUE;
    for (uint32_t i = 0; st == QN_OK && i < part->n_inputs; i++)
        if (to[part->inputs[i]] == QN_NO_VALUE)
            st = add_input(m, rank, part, part->inputs[i], to);
    for (uint32_t i = 0; st == QN_OK && i < part->n_values; i++)
        if (to[i] == QN_NO_VALUE)
            st = qn_graph_add_value(m->g, &part->values[i], &to[i], m->err);
    for (uint32_t i = 0; st == QN_OK && i < part->n_outputs; i++)
        st = add_output(m, rank, part, i, to);
    if (st == QN_OK)
        move_nodes(m, rank, to);
    return st;
}

/* ---- collectives ---- */

static qn_status refuse_inside(const qn_graph *g, uint32_t rank, qn_error *err)
{
    char text[QN_NODE_TEXT];
    qn_status st = QN_OK;
    for (uint32_t i = 0; st == QN_OK && i < g->n_nodes; i++) {
        const qn_node *node = g->nodes[i];
        if (g->parent && qn_is_collective(node))
            return qn_fail(err, QN_UNSUPPORTED,
                           "rank %u: %s is in the body of another node; ranks "
                           "can exchange tensors in the main graph only", rank,
                           qn_node_text(node, text));
        for (uint32_t a = 0; st == QN_OK && a < node->n_attrs; a++)
            if (node->attrs[a].graph)
                st = refuse_inside(node->attrs[a].graph, rank, err);
    }
    return st;
}

static qn_status differ(merging *m, const qn_node *a, const qn_node *b,
                        uint32_t rank, const char *what)
{
    char x[QN_NODE_TEXT], y[QN_NODE_TEXT];
    return qn_fail(m->err, QN_INVALID,
                   "rank 0: %s and rank %u: %s are at one place among their "
                   "rank's collectives, but %s", qn_node_text(a, x), rank,
                   qn_node_text(b, y), what);
}

static qn_status check_pair(merging *m, const qn_node *a, const qn_node *b,
                            uint32_t rank)
{
    qn_collective_node x, y;
    qn_status st = qn_collective_read(a, &x, m->err);
    if (st == QN_OK)
        st = qn_collective_read(b, &y, m->err);
    if (st != QN_OK)
        return st;
    if (x.ranks != 1 || y.ranks != 1)
        return differ(m, a, b, rank, "one is merged already");
    if (x.kind != y.kind || a->opset != b->opset)
        return differ(m, a, b, rank, "they are not the same operator");
    if (x.reduction != y.reduction || x.root != y.root)
        return differ(m, a, b, rank, "their attributes differ");
    if (x.tensors != y.tensors)
        return differ(m, a, b, rank, "they have not the same number of tensors");
    if (m->g->values[a->in[0]].type.dtype != m->g->values[b->in[0]].type.dtype)
        return differ(m, a, b, rank, "their element types differ");
    return QN_OK;
}

static qn_node *current(const merging *m, uint32_t rank)
{
    return m->next[rank] < m->n_nodes[rank] ? m->nodes[rank][m->next[rank]]
                                            : NULL;
}

/* The ranks' next collectives as one node, in rank 0's place. */
static qn_status join(merging *m, qn_node **out)
{
    qn_node *first = current(m, 0);
    qn_graph *g = m->g;
    uint32_t n = first->n_in, all = n * m->n;
    qn_status st = QN_OK;
    for (uint32_t r = 1; st == QN_OK && r < m->n; r++)
        st = check_pair(m, first, current(m, r), r);
    if (st != QN_OK)
        return st;
    qn_node *node = qn_region_alloc(g->region, 1, sizeof *node);
    qn_value_id *ids = qn_region_alloc(g->region, 2 * (size_t)all, sizeof *ids);
    qn_attr *attrs = qn_region_alloc(g->region, first->n_attrs + 1u,
                                     sizeof *attrs);
    if (!node || !ids || !attrs)
        return no_memory(m->err);
    *node = *first;
    node->in = ids;
    node->out = ids + all;
    node->n_in = node->n_out = all;
    for (uint32_t r = 0; r < m->n; r++) {
        memcpy(node->in + r * n, current(m, r)->in, n * sizeof *ids);
        memcpy(node->out + r * n, current(m, r)->out, n * sizeof *ids);
        m->next[r]++;
    }
    /* a part may have said ranks = 1 */
    node->attrs = attrs;
    node->n_attrs = 0;
    for (uint32_t a = 0; a < first->n_attrs; a++)
        if (strcmp(first->attrs[a].name, "ranks") != 0)
            attrs[node->n_attrs++] = first->attrs[a];
    attrs[node->n_attrs++] =
        (qn_attr){ .name = "ranks", .kind = QN_ATTR_INT, .i = m->n };
    *out = node;
    return QN_OK;
}

/* Either each rank has come to a collective, or all are at their end. */
static qn_status check_turn(merging *m)
{
    char text[QN_NODE_TEXT];
    for (uint32_t r = 1; r < m->n; r++) {
        uint32_t has = current(m, 0) ? 0 : r, lacks = has ? 0 : r;
        if (!current(m, 0) == !current(m, r))
            continue;
        return qn_fail(m->err, QN_INVALID,
                       "rank %u: %s has no counterpart: rank %u has fewer "
                       "collectives", has,
                       qn_node_text(current(m, has), text), lacks);
    }
    return QN_OK;
}

/* Stretches between collectives, rank after rank. */
static qn_status list_nodes(merging *m)
{
    size_t total = 0;
    uint32_t n = 0;
    for (uint32_t r = 0; r < m->n; r++)
        total += m->n_nodes[r];
    if (total >= UINT32_MAX)
        return qn_fail(m->err, QN_TOO_LARGE, "%zu nodes in all ranks", total);
    qn_node **list = qn_region_alloc(m->g->region, total + 1, sizeof *list);
    if (!list)
        return no_memory(m->err);
    for (;;) {
        for (uint32_t r = 0; r < m->n; r++)
            while (current(m, r) && !qn_is_collective(current(m, r)))
                list[n++] = m->nodes[r][m->next[r]++];
        qn_status st = check_turn(m);
        if (st != QN_OK)
            return st;
        if (!current(m, 0))
            break;
        st = join(m, &list[n]);
        if (st != QN_OK)
            return st;
        n++;
    }
    m->g->nodes = list;
    m->g->n_nodes = n;
    m->g->cap_nodes = (uint32_t)total + 1;
    return QN_OK;
}

/* ---- the whole ---- */

static qn_status merge(merging *m)
{
    uint32_t nodes = 0, constants = 0;
    qn_status st = QN_OK;
    for (uint32_t r = 0; st == QN_OK && r < m->n; r++) {
        st = refuse_inside(m->parts[r], r, m->err);
        m->nodes[r] = m->parts[r]->nodes;
        m->n_nodes[r] = m->parts[r]->n_nodes;
        nodes += m->parts[r]->n_dropped_nodes;
        constants += m->parts[r]->n_dropped_constants;
    }
    for (uint32_t r = 1; st == QN_OK && r < m->n; r++)
        st = add_part(m, r);
    if (st == QN_OK)
        st = list_nodes(m);
    m->g->n_dropped_constants = constants; /* goes on counting */
    if (st == QN_OK)
        st = qn_graph_finish(m->g, m->err);
    m->g->n_dropped_nodes += nodes;
    m->g->n_ranks = m->n;
    return st;
}

qn_status qn_graph_merge(qn_graph **parts, uint32_t n, qn_graph **out,
                         qn_error *err)
{
    qn_error own = { 0 };
    merging m = { .parts = parts, .n = n, .err = err ? err : &own };
    qn_status st = QN_OK;
    *out = NULL;
    if (n < 1 || n > QN_GRAPH_RANKS) {
        for (uint32_t r = 0; r < n; r++)
            qn_graph_free(parts[r]);
        return qn_fail(err, QN_INVALID, "a model of %u ranks, 1 to %d expected",
                       n, QN_GRAPH_RANKS);
    }
    /* one region owns everything from here on, whatever happens */
    m.g = parts[0];
    for (uint32_t r = 1; r < n; r++) {
        adopt_children(parts[r], m.g->region);
        qn_region_splice(&m.g->own_region, &parts[r]->own_region);
    }
    if (n > 1)
        st = merge(&m);
    else
        m.g->n_ranks = 1;
    for (uint32_t r = 1; r < n; r++)
        qn_graph_free(parts[r]);
    qn_region_release(&m.scratch);
    if (st != QN_OK)
        qn_graph_free(m.g);
    else
        *out = m.g;
    return st;
}

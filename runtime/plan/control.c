/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control flow while a plan is built. Branches of an If are laid out one behind
 * the other with jumps around them (runtime/plan/plan.h); a branch whose
 * condition is known is spliced in and the other one is forgotten.
 */
#include "runtime/ops/op.h"
#include "runtime/plan/build.h"

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
                    .space = vx->space == vy->space ? vx->space : 0,
                    .bounded = !same && bounded,
                    .bytes = bounded ? larger->bytes : 0 };
    for (int i = 0; bounded && vx->shape.rank == vy->shape.rank &&
                    i < v.shape.rank; i++)
        v.shape.dims[i] = vx->shape.dims[i] > vy->shape.dims[i]
                              ? vx->shape.dims[i] : vy->shape.dims[i];
    return qn_build_add_value(b, &v, out);
}

static qn_status branch(qn_builder *b, const qn_graph *child,
                        const uint32_t *map, uint32_t *results, int depth)
{
    uint32_t *inner = NULL;
    uint32_t before = b->n_values;
    qn_status st = child_map(b, child, map, &inner);
    if (st == QN_OK)
        st = qn_build_graph(b, child, inner, depth + 1);
    if (b->maybe)
        qn_build_forget_twins(b, before);
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
        qn_status st = qn_build_copy(b, results[i], results[i]);
        if (st != QN_OK)
            return st;
    }
    return QN_OK;
}

qn_status qn_build_if(qn_builder *b, const qn_graph *graph,
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
    qn_tensor c = qn_build_tensor(b, cond);
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
    qn_status st = qn_build_in_space(b, cond, 0, &cond);
    if (st == QN_OK)
        st = qn_build_add_step(b, QN_STEP_JUMP_UNLESS, node, 1, 0, &test);
    if (st != QN_OK)
        return st;
    b->steps[test].in[0] = cond;
    b->maybe++;
    st = branch(b, yes->graph, map, rx, depth);
    if (st == QN_OK)
        st = branch_copies(b, rx, n, &copies_x);
    if (st == QN_OK)
        st = qn_build_add_step(b, QN_STEP_JUMP, node, 0, 0, &skip);
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
        qn_build_retarget(b, copies_x + i, joined);
        qn_build_retarget(b, copies_y + i, joined);
        if (node->out[i] != QN_NO_VALUE)
            map[node->out[i]] = joined;
    }
    return QN_OK;
}

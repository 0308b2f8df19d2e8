/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of collectives. In the arena the inputs of one rank lie behind each
 * other as one block, and so do its outputs, with QN_BLOCK_GUARD bytes that
 * nobody uses before and behind: one transfer can take a whole block, and what
 * a library reads ahead or touches in passing is nobody's.
 *
 * Each input is copied into a value of the block's. Where the copied value is
 * free to lie there itself the copy disappears (plan/place.c).
 */
#include "runtime/ops/collective.h"
#include "runtime/ops/op.h"
#include "runtime/plan/build.h"

static int32_t group_of(const qn_bstep *s, uint32_t rank, bool out)
{
    return s->groups + 2 * (int32_t)rank + out;
}

/* A value for tensor i of the step, and the copy that fills it. */
static qn_status stage(qn_builder *b, const qn_collective_node *c,
                       int32_t groups, uint32_t i, uint32_t *id)
{
    uint32_t staged;
    qn_bvalue v = b->values[*id];
    v.kind = QN_BV_STEP;
    v.data = NULL;
    qn_status st = qn_build_add_value(b, &v, &staged);
    if (st != QN_OK)
        return st;
    b->values[staged].group = groups + 2 * (int32_t)qn_collective_rank(c, i);
    b->values[staged].group_pos = i % c->tensors;
    st = qn_build_copy(b, *id, staged);
    if (st == QN_OK)
        b->steps[b->n_steps - 1].stage = true;
    *id = staged;
    return st;
}

qn_status qn_build_collective_in(qn_builder *b, const qn_node *node,
                                 bool dynamic, uint32_t *ids, int32_t *groups)
{
    qn_collective_node c;
    char text[QN_NODE_TEXT];
    qn_status st = qn_collective_read(node, &c, b->err);
    *groups = -1;
    if (dynamic && node->place)
        return qn_fail(b->err, QN_UNSUPPORTED,
                       "%s: shapes that depend on data cannot be exchanged "
                       "between accelerators", qn_node_text(node, text));
    for (uint32_t i = 0; st == QN_OK && i < node->n_in; i++)
        st = qn_build_in_space(b, ids[i], qn_node_space(node, i), &ids[i]);
    if (st != QN_OK || dynamic)
        return st;
    *groups = b->n_groups;
    b->n_groups += 2 * (int32_t)c.ranks;
    for (uint32_t i = 0; st == QN_OK && i < node->n_in; i++)
        st = stage(b, &c, *groups, i, &ids[i]);
    return st;
}

void qn_build_collective_out(qn_builder *b, uint32_t step)
{
    const qn_bstep *s = &b->steps[step];
    qn_collective_node c;
    if (qn_collective_read(s->node, &c, NULL) != QN_OK)
        return; /* it was read before */
    for (uint32_t i = 0; i < s->n_out; i++) {
        qn_bvalue *v = &b->values[s->out[i]];
        v->space = qn_node_space(s->node, i);
        if (s->groups < 0)
            continue;
        v->group = group_of(s, qn_collective_rank(&c, i), true);
        v->group_pos = i % c.tensors;
    }
}

/* ---- guards ---- */

bool qn_build_in_block(const qn_builder *b, uint32_t v)
{
    const qn_bvalue *value = &b->values[v];
    return value->group >= 0 && value->root == v && value->used && value->bytes;
}

qn_status qn_build_find_guards(qn_builder *b, qn_block_ends *out)
{
    size_t n = (size_t)b->n_groups + 1;
    out->first = qn_region_alloc(&b->scratch, n, sizeof *out->first);
    out->last = qn_region_alloc(&b->scratch, n, sizeof *out->last);
    if (!out->first || !out->last)
        return qn_build_no_memory(b);
    for (size_t g = 0; g < n; g++)
        out->first[g] = out->last[g] = QN_NO_VALUE;
    for (uint32_t v = 0; v < b->n_values; v++) {
        if (!qn_build_in_block(b, v))
            continue;
        uint32_t pos = b->values[v].group_pos;
        uint32_t *first = &out->first[b->values[v].group];
        uint32_t *last = &out->last[b->values[v].group];
        if (*first == QN_NO_VALUE || pos < b->values[*first].group_pos)
            *first = v;
        if (*last == QN_NO_VALUE || pos > b->values[*last].group_pos)
            *last = v;
    }
    return QN_OK;
}

/* ---- what a plan says of them ---- */

static void describe_block(const qn_builder *b, const qn_places *p,
                           const size_t *place, qn_plan_block *out)
{
    bool any = false;
    for (size_t g = 0; g < out->n_members; g++) {
        uint32_t v = qn_build_root(b, out->members[g]);
        size_t at = place[v];
        if (at == SIZE_MAX)
            continue; /* empty */
        if (!any)
            out->offset = p->offsets[at];
        any = true;
        out->bytes = p->offsets[at] + p->buffers[at].bytes - out->offset;
    }
    out->guard = any ? QN_BLOCK_GUARD : 0;
}

static qn_status describe(qn_builder *b, const qn_places *p,
                          const size_t *place, const qn_bstep *s,
                          qn_plan_collective *out)
{
    qn_collective_node c;
    qn_status st = qn_collective_read(s->node, &c, b->err);
    if (st != QN_OK)
        return st;
    qn_plan_block *blocks = qn_region_alloc(&b->plan->region, 2 * c.ranks,
                                            sizeof *blocks);
    if (!blocks)
        return qn_build_no_memory(b);
    for (uint32_t k = 0; k < 2 * c.ranks; k++) {
        uint32_t rank = k / 2, first = rank * c.tensors;
        blocks[k] = (qn_plan_block){
            .rank = rank, .output = k % 2,
            .space = qn_node_space(s->node, first), .n_members = c.tensors,
            .members = (k % 2 ? s->out : s->in) + first };
        describe_block(b, p, place, &blocks[k]);
        blocks[k].members = NULL;
    }
    *out = (qn_plan_collective){ .name = s->node->name,
                                 .kind = s->node->op_name, .ranks = c.ranks,
                                 .n_blocks = 2 * c.ranks, .blocks = blocks };
    return QN_OK;
}

qn_status qn_build_report_blocks(qn_builder *b, const qn_places *p,
                                 const uint32_t *renumber)
{
    qn_plan_report *r = &b->plan->report;
    uint32_t n = 0;
    qn_status st = QN_OK;
    for (uint32_t i = 0; i < b->n_steps; i++)
        n += b->steps[i].groups >= 0 && b->steps[i].live;
    if (!n)
        return QN_OK;
    size_t *place = qn_region_alloc(&b->scratch, b->n_values + 1u,
                                    sizeof *place);
    qn_plan_collective *list = qn_region_alloc(&b->plan->region, n,
                                               sizeof *list);
    if (!place || !list)
        return qn_build_no_memory(b);
    for (uint32_t v = 0; v < b->n_values; v++)
        place[v] = SIZE_MAX;
    for (size_t i = 0; i < p->n; i++)
        if (p->owners[i] < b->n_values)
            place[p->owners[i]] = i;
    n = 0;
    for (uint32_t i = 0; st == QN_OK && i < b->n_steps; i++) {
        if (b->steps[i].groups < 0 || !b->steps[i].live)
            continue;
        st = describe(b, p, place, &b->steps[i], &list[n]);
        list[n++].launch = renumber[i];
    }
    r->n_collectives = n;
    r->collectives = list;
    return st;
}

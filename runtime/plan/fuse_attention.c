/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention on accelerators: what exporters write of it becomes one launch of
 * ai.quern.Attention (runtime/ops/attention.c), which never stores the scores.
 *
 *   Q ─(Mul)──┐
 *             MatMul ─(Mul, Div)─(Add mask)─ Softmax ─┐
 *   K ─ Transpose ─(Mul)┘                             MatMul ─ Y
 *   V ────────────────────────────────────────────────┘
 *
 * Each value on the way has one reader. Numbers that Q, K or the scores are
 * multiplied with or divided by become the scale. K is wanted as it was before it
 * was transposed: the first MatMul's place is taken by what is left to do to it,
 * or by nothing. The launch is where the second MatMul was, since V and the mask
 * may not be there before.
 */
#include "runtime/plan/fuse.h"

#include "runtime/ops/attention.h"
#include "runtime/ops/op.h"

#include <math.h>
#include <string.h>

enum { TRANSPOSE_OPSET = 13 };

typedef struct found {
    uint32_t scores, softmax, weighted; /* steps; MatMul, Softmax, MatMul */
    uint32_t between[2], n_between;     /* steps; the scores' scale and mask */
    uint32_t q, keys, v, mask;          /* keys: K transposed */
    double scale;
    /* K is `from` with its axes in this order */
    uint32_t from;
    int64_t perm[QN_MAX_RANK];
} found;

static const qn_bvalue *value(const qn_fuse *f, uint32_t v)
{
    return &f->b->values[v];
}

static bool same_shape(const qn_fuse *f, uint32_t x, uint32_t y)
{
    return qn_shape_equal(&value(f, x)->shape, &value(f, y)->shape);
}

/* `v` is *inner times *by; *at (may be NULL) the step that does it. */
static bool scaled(const qn_fuse *f, uint32_t v, uint32_t *inner, double *by,
                   uint32_t *at)
{
    const qn_bstep *s = qn_fuse_producer(f, v);
    float number;
    if (!s || s->n_in != 2 || s->node->opset < 7 || s->node->domain[0])
        return false;
    bool divides = qn_fuse_named(s->node, "Div");
    if (!divides && !qn_fuse_named(s->node, "Mul"))
        return false;
    for (uint32_t k = 0; k < (divides ? 1 : 2); k++) {
        if (!qn_fuse_scalar(f, s->in[1 - k], value(f, v)->dtype, &number) ||
            !same_shape(f, s->in[k], v))
            continue;
        double factor = divides ? 1 / (double)number : (double)number;
        /* what is not finite, or hides that the scores are not, stays */
        if (!isfinite(factor) || factor == 0)
            return false;
        *by = factor;
        *inner = s->in[k];
        if (at)
            *at = qn_fuse_use_of(f, v).producer;
        return true;
    }
    return false;
}

static bool one_reader(const qn_fuse *f, uint32_t v)
{
    return qn_fuse_use_of(f, v).uses == 1 && value(f, v)->output < 0;
}

/* Q and K^T, and what is between `v` and their product. */
static bool match_scores(const qn_fuse *f, uint32_t v, found *m)
{
    uint32_t inner = v;
    double by;
    uint32_t step;
    if (!one_reader(f, v))
        return false;
    if (scaled(f, v, &inner, &by, &step)) {
        m->scale *= by;
        m->between[m->n_between++] = step;
    }
    const qn_bstep *s = qn_fuse_producer(f, inner);
    if (!s || !qn_fuse_named(s->node, "MatMul") || s->n_in != 2 ||
        !one_reader(f, inner))
        return false;
    m->scores = qn_fuse_use_of(f, inner).producer;
    m->q = s->in[0];
    m->keys = s->in[1];
    return true;
}

/* The same behind the Add of a mask, or without one. */
static bool match_masked(const qn_fuse *f, uint32_t v, found *m)
{
    found plain = *m;
    if (match_scores(f, v, &plain)) {
        *m = plain;
        return true;
    }
    const qn_bstep *s = qn_fuse_producer(f, v);
    if (!s || !one_reader(f, v) || !qn_fuse_named(s->node, "Add") ||
        s->n_in != 2 || s->node->opset < 7)
        return false;
    for (uint32_t k = 0; k < 2; k++) {
        found masked = *m;
        uint32_t scores = s->in[k], mask = s->in[1 - k];
        if (scores == mask || !same_shape(f, scores, v) ||
            !match_scores(f, scores, &masked))
            continue;
        masked.mask = mask;
        masked.between[masked.n_between++] = qn_fuse_use_of(f, v).producer;
        *m = masked;
        return true;
    }
    return false;
}

static bool over_last_axis(const qn_node *node, int rank)
{
    int64_t axis = qn_node_int(node, "axis", node->opset < 13 ? 1 : -1);
    return rank > 0 && (axis == -1 || axis == rank - 1);
}

/* Softmax step i and its surroundings. */
static bool match(const qn_fuse *f, uint32_t i, found *m)
{
    const qn_bstep *s = &f->b->steps[i];
    uint32_t weights = s->out[0];
    *m = (found){ .softmax = i, .mask = QN_NO_VALUE, .scale = 1 };
    if (!over_last_axis(s->node, value(f, weights)->shape.rank))
        return false;
    const qn_bstep *y = qn_fuse_only_reader(f, i, weights, &m->weighted);
    if (!y || !qn_fuse_named(y->node, "MatMul") || y->n_in != 2 ||
        y->in[0] != weights || y->space != s->space)
        return false;
    m->v = y->in[1];
    return match_masked(f, s->in[0], m) &&
           f->b->steps[m->scores].space == s->space &&
           f->jumps[m->scores] == f->jumps[m->weighted];
}

/* ---- Q and K as they were ---- */

/* Takes numbers off a value that has them multiplied in. */
static uint32_t unscaled(const qn_fuse *f, uint32_t v, double *scale)
{
    uint32_t inner;
    double by;
    for (int i = 0; i < 4 && scaled(f, v, &inner, &by, NULL); i++) {
        v = inner;
        *scale *= by;
    }
    return v;
}

/* K from K^T, through the Transpose that made it. */
static bool find_keys(const qn_fuse *f, found *m)
{
    uint32_t v = unscaled(f, m->keys, &m->scale);
    int rank = value(f, v)->shape.rank;
    const qn_bstep *s = qn_fuse_producer(f, v);
    if (rank < 2)
        return false;
    m->from = v;
    for (int i = 0; i < rank; i++)
        m->perm[i] = i;
    if (s && qn_fuse_named(s->node, "Transpose")) {
        size_t n;
        const int64_t *perm = qn_node_ints(s->node, "perm", &n);
        if (perm && n != (size_t)rank)
            return false;
        for (int i = 0; i < rank; i++)
            m->perm[i] = perm ? perm[i] : rank - 1 - i;
        m->from = unscaled(f, s->in[0], &m->scale);
    }
    int64_t last = m->perm[rank - 1];
    m->perm[rank - 1] = m->perm[rank - 2];
    m->perm[rank - 2] = last;
    return true;
}

static bool as_it_is(const found *m, int rank)
{
    for (int i = 0; i < rank; i++)
        if (m->perm[i] != i)
            return false;
    return true;
}

/* Fit the kernels' contract? The rest is up to the operator's own rules. */
static bool fits(const qn_fuse *f, const found *m)
{
    const qn_bstep *s = &f->b->steps[m->weighted];
    const uint32_t all[] = { m->q, m->from, m->v, s->out[0], m->mask };
    qn_dtype dtype = value(f, s->out[0])->dtype;
    const qn_shape *q = &value(f, m->q)->shape, *v = &value(f, m->v)->shape;
    if (dtype != QN_F32 && dtype != QN_F16 && dtype != QN_BF16)
        return false;
    for (int i = 0; i < (m->mask == QN_NO_VALUE ? 4 : 5); i++) {
        const qn_bvalue *x = value(f, all[i]);
        if (x->dtype != dtype || x->order != QN_ORDER_PLAIN ||
            (i != 3 && !qn_fuse_ready(f, all[i], s->space, m->weighted)))
            return false;
    }
    if (!qn_fuse_ready(f, m->from, s->space, m->scores))
        return false;
    for (int i = 0; i < q->rank; i++)
        if (!q->dims[i])
            return false;
    return q->rank >= 3 && v->rank == q->rank &&
           q->dims[q->rank - 1] <= QN_ATTENTION_DEPTH &&
           v->dims[v->rank - 1] <= QN_ATTENTION_DEPTH &&
           v->dims[v->rank - 2] > 0 && isfinite((float)m->scale) &&
           (float)m->scale != 0;
}

/* ---- the launch ---- */

/* The Transpose that is left for K, as a node and the value that it writes. */
static qn_status make_keys(const qn_fuse *f, const found *m, qn_node **node,
                           uint32_t *keys)
{
    const qn_bstep *s = &f->b->steps[m->scores];
    const qn_bvalue *from = value(f, m->from);
    qn_bvalue k = *from;
    const qn_attr perm = { .name = "perm", .kind = QN_ATTR_INTS,
                           .n = (size_t)k.shape.rank, .ints = m->perm };
    const qn_fuse_new of = { .domain = "", .op = "Transpose",
                             .opset = TRANSPOSE_OPSET, .like = s->node,
                             .space = s->space, .n_in = 1, .in = &m->from,
                             .n_attrs = 1, .attrs = &perm };
    for (int i = 0; i < k.shape.rank; i++)
        k.shape.dims[i] = from->shape.dims[m->perm[i]];
    k.kind = QN_BV_STEP;
    k.name = "";
    k.data = NULL;
    qn_status st = qn_fuse_make(f, &of, k.dtype, &k.shape, node);
    return st == QN_OK && *node ? qn_build_add_value(f->b, &k, keys) : st;
}

/* Steps that are read by nobody but what has just been replaced. Further ones
 * in front of them go when the plan looks for what it needs. */
static void drop(const qn_fuse *f, uint32_t v)
{
    qn_bstep *s = qn_fuse_producer(f, v);
    if (s && one_reader(f, v))
        qn_fuse_absorb(f, s);
}

static void absorb(const qn_fuse *f, const found *m, bool scores)
{
    qn_bstep *steps = f->b->steps;
    if (scores)
        qn_fuse_absorb(f, &steps[m->scores]);
    for (uint32_t i = 0; i < m->n_between; i++)
        qn_fuse_absorb(f, &steps[m->between[i]]);
    qn_fuse_absorb(f, &steps[m->softmax]);
}

static qn_status replace(qn_fuse *f, const found *m, uint32_t q_was)
{
    qn_bstep *scores = &f->b->steps[m->scores];
    qn_bstep *s = &f->b->steps[m->weighted];
    uint32_t in[4] = { m->q, m->from, m->v, m->mask };
    const qn_attr scale = { .name = "scale", .kind = QN_ATTR_FLOAT,
                            .f = (float)m->scale };
    qn_fuse_new of = { .domain = "ai.quern", .op = "Attention", .opset = 1,
                       .like = s->node, .space = s->space,
                       .n_in = m->mask == QN_NO_VALUE ? 3 : 4, .in = in,
                       .n_attrs = 1, .attrs = &scale };
    uint32_t y = s->out[0];
    qn_node *node, *turn = NULL;
    qn_status st = QN_OK;
    if (!as_it_is(m, value(f, m->from)->shape.rank)) {
        st = make_keys(f, m, &turn, &in[1]);
        if (st != QN_OK || !turn)
            return st;
    }
    st = qn_fuse_make(f, &of, value(f, y)->dtype, &value(f, y)->shape, &node);
    if (st != QN_OK || !node)
        return st;
    if (m->keys != m->from)
        drop(f, m->keys);
    if (q_was != m->q)
        drop(f, q_was);
    absorb(f, m, !turn);
    if (turn)
        st = qn_fuse_become(f, scores, turn, 1, &m->from, in[1]);
    f->b->fused.attention++;
    return st == QN_OK ? qn_fuse_become(f, s, node, of.n_in, in, y) : st;
}

qn_status qn_fuse_attention(qn_fuse *f)
{
    qn_status st = QN_OK;
    for (uint32_t i = 0; st == QN_OK && i < f->b->n_steps; i++) {
        const qn_bstep *s = &f->b->steps[i];
        found m;
        if (s->kind != QN_STEP_LAUNCH || s->dynamic || s->absorbed ||
            !s->space || s->n_out != 1 || s->out[0] == QN_NO_VALUE ||
            !qn_fuse_named(s->node, "Softmax") || !match(f, i, &m) ||
            !find_keys(f, &m))
            continue;
        uint32_t q_was = m.q;
        m.q = unscaled(f, m.q, &m.scale);
        if (fits(f, &m))
            st = replace(f, &m, q_was);
    }
    return st;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elementwise steps on an accelerator that follow one another become one launch
 * of ai.quern.Chain (runtime/ops/chain.h), with the same bits.
 *
 *   x ─ Div(sqrt 2) ─ Erf ─ Add(1) ─ Mul(x) ─ Mul(0.5)
 *
 * A run starts at a step whose result has the shape of one of its operands, the
 * first running value, and goes on while the running value has one reader, which
 * keeps its shape. Further operands broadcast to it: known numbers become part
 * of the program, others are inputs of the chain.
 *
 * The launch takes the place of the first of the run's steps before which all
 * operands are there. The earlier the better: the running value takes the same
 * bytes wherever it is, but operands live until the launch, and may go after it.
 */
#include "runtime/plan/fuse.h"

#include "runtime/ops/chain.h"
#include "runtime/ops/op.h"

#include <math.h>
#include <string.h>

typedef struct chain_run {
    qn_chain chain;
    uint32_t steps[QN_CHAIN_STEPS]; /* numbers, ascending */
    uint32_t in[QN_CHAIN_INPUTS];
    uint32_t n_in;
} chain_run;

/* ---- one step ---- */

/* What a step does to the running value; other: the value of its operand. */
typedef struct chain_link {
    qn_chain_step step;
    uint32_t other;
} chain_link;

static bool chain_type(qn_dtype t)
{
    return t == QN_F32 || t == QN_F16 || t == QN_BF16;
}

/* Bounds of a Clip from opset 11 on: absent or known. A bound that is no number
 * is left to the operator. */
static bool bounds(const qn_fuse *f, const qn_bstep *s, qn_chain_step *c)
{
    qn_dtype dtype = f->b->values[s->in[0]].dtype;
    float *to[] = { &c->a, &c->b };
    for (uint32_t i = 1; i < s->n_in; i++) {
        if (s->in[i] == QN_NO_VALUE)
            continue;
        if (i > 2 || !qn_fuse_scalar(f, s->in[i], dtype, to[i - 1]) ||
            isnan(*to[i - 1]))
            return false;
    }
    return true;
}

static bool link_one(const qn_fuse *f, const qn_bstep *s, uint32_t v, chain_link *out)
{
    qn_pointwise p;
    if (s->in[0] != v || !qn_pointwise_unary(s->node, &p) ||
        p.op >= QN_PW_UNARY_COUNT || (s->n_in > 1 && p.op != QN_PW_clip))
        return false;
    out->step = (qn_chain_step){ .op = p.op, .kind = QN_CHAIN_UNARY,
                                 .a = p.a, .b = p.b };
    return p.op != QN_PW_clip || bounds(f, s, &out->step);
}

static bool link_two(const qn_fuse *f, const qn_bstep *s, uint32_t v, chain_link *out)
{
    qn_pointwise p;
    float number;
    /* older opsets place the second operand by attributes */
    if (s->n_in != 2 || (s->in[0] != v && s->in[1] != v) ||
        s->node->op->infer != qn_infer_broadcast ||
        !qn_pointwise_binary(s->node, &p) || p.op < QN_PW_UNARY_COUNT ||
        p.op >= QN_PW_COUNT)
        return false;
    out->step = (qn_chain_step){ .op = p.op, .kind = QN_CHAIN_INPUT,
                                 .left = s->in[0] != v };
    out->other = s->in[s->in[0] == v];
    if (out->other == QN_NO_VALUE)
        return false;
    qn_dtype dtype = f->b->values[v].dtype;
    if (qn_fuse_scalar(f, out->other, dtype, &number)) {
        out->step.kind = QN_CHAIN_CONST;
        out->step.a = number;
        return true;
    }
    return f->b->values[out->other].dtype == dtype;
}

/* What step s does to `v`; false if it does not belong into a chain. */
static bool link_of(const qn_fuse *f, const qn_bstep *s, uint32_t v, chain_link *out)
{
    const qn_bvalue *x = &f->b->values[v], *y = &f->b->values[s->out[0]];
    if (!s->space || !s->node->kernel || s->node->domain[0] ||
        s->node->act != QN_ACT_NONE || s->node->residual || s->n_in < 1 ||
        x->dynamic || x->space != s->space || y->space != s->space ||
        !chain_type(x->dtype) || x->dtype != y->dtype || x->order != y->order ||
        !qn_shape_equal(&x->shape, &y->shape))
        return false;
    out->other = QN_NO_VALUE;
    return link_one(f, s, v, out) || link_two(f, s, v, out);
}

bool qn_fuse_links(const qn_fuse *f, const qn_bstep *s, uint32_t v)
{
    chain_link ignored;
    return link_of(f, s, v, &ignored);
}

/* ---- runs ---- */

/* Input number of the chain; false if it has too many, or the operand is not
 * where this chain runs. Readiness at the place is looked at by the caller. */
static bool add_input(const qn_fuse *f, chain_run *r, uint32_t v, uint8_t space,
                      uint32_t before, uint32_t *out)
{
    for (*out = 0; *out < r->n_in; ++*out)
        if (r->in[*out] == v)
            return true;
    if (r->n_in == QN_CHAIN_INPUTS || !qn_fuse_ready(f, v, space, before))
        return false;
    r->in[r->n_in++] = v;
    return true;
}

static bool add_step(const qn_fuse *f, chain_run *r, uint32_t i, const chain_link *l)
{
    const qn_bstep *s = &f->b->steps[i];
    qn_chain_step c = l->step;
    if (r->chain.n == QN_CHAIN_STEPS ||
        (c.kind == QN_CHAIN_INPUT &&
         !add_input(f, r, l->other, s->space, i, &c.input)))
        return false;
    r->steps[r->chain.n] = i;
    r->chain.steps[r->chain.n++] = c;
    return true;
}

/* The longest run whose first step is i, if any. */
static void find_run(const qn_fuse *f, uint32_t i, chain_run *r)
{
    const qn_bstep *s = &f->b->steps[i];
    chain_link l;
    memset(r, 0, sizeof *r);
    for (uint32_t k = 0; k < s->n_in && k < 2; k++) {
        if (s->in[k] == QN_NO_VALUE || !link_of(f, s, s->in[k], &l) ||
            !qn_fuse_ready(f, s->in[k], s->space, i))
            continue;
        r->in[0] = s->in[k];
        r->n_in = 1;
        if (add_step(f, r, i, &l))
            break;
    }
    while (r->chain.n) {
        uint32_t at = r->steps[r->chain.n - 1], v = f->b->steps[at].out[0];
        uint32_t next;
        s = qn_fuse_only_reader(f, at, v, &next);
        if (!s || s->space != f->b->steps[i].space || !link_of(f, s, v, &l) ||
            !add_step(f, r, next, &l))
            return;
    }
}

/* Number of the run's step in whose place all inputs are there. */
static uint32_t place_of(const qn_fuse *f, const chain_run *r)
{
    uint8_t space = f->b->steps[r->steps[0]].space;
    uint32_t k = 0;
    for (uint32_t i = 0; i < r->n_in; i++)
        while (k + 1 < r->chain.n &&
               !qn_fuse_ready(f, r->in[i], space, r->steps[k]))
            k++;
    return k;
}

enum { STEP_INTS = 4, STEP_FLOATS = 2 };

static qn_status make_chain(const qn_fuse *f, const chain_run *r)
{
    int64_t ints[STEP_INTS * QN_CHAIN_STEPS];
    float floats[STEP_FLOATS * QN_CHAIN_STEPS];
    uint32_t n = r->chain.n, kept = place_of(f, r);
    for (uint32_t i = 0; i < n; i++) {
        const qn_chain_step *c = &r->chain.steps[i];
        int64_t *to = &ints[STEP_INTS * i];
        to[0] = c->op;
        to[1] = c->kind;
        to[2] = c->input;
        to[3] = c->left;
        floats[STEP_FLOATS * i] = c->a;
        floats[STEP_FLOATS * i + 1] = c->b;
    }
    const qn_attr attrs[] = {
        { .name = "steps", .kind = QN_ATTR_INTS, .n = STEP_INTS * n,
          .ints = ints },
        { .name = "numbers", .kind = QN_ATTR_FLOATS, .n = STEP_FLOATS * n,
          .floats = floats },
    };
    qn_bstep *last = &f->b->steps[r->steps[n - 1]];
    uint32_t out = last->out[0];
    const qn_bvalue *y = &f->b->values[out];
    const qn_fuse_new of = { .domain = "ai.quern", .op = "Chain", .opset = 1,
                             .like = last->node, .space = last->space,
                             .n_in = r->n_in, .in = r->in, .n_attrs = 2,
                             .attrs = attrs };
    qn_node *node;
    qn_status st = qn_fuse_make(f, &of, y->dtype, &y->shape, &node);
    if (st != QN_OK || !node)
        return st;
    st = qn_fuse_become(f, &f->b->steps[r->steps[kept]], node, r->n_in, r->in,
                        out);
    for (uint32_t i = 0; i < n; i++)
        if (i != kept)
            qn_fuse_absorb(f, &f->b->steps[r->steps[i]]);
    f->b->fused.chains++;
    f->b->fused.chain_steps += n;
    return st;
}

qn_status qn_fuse_chains(const qn_fuse *f)
{
    qn_status st = QN_OK;
    for (uint32_t i = 0; st == QN_OK && i < f->b->n_steps; i++) {
        const qn_bstep *s = &f->b->steps[i];
        chain_run r;
        if (s->kind != QN_STEP_LAUNCH || s->dynamic || s->absorbed ||
            !s->space || s->n_out != 1 || s->out[0] == QN_NO_VALUE)
            continue;
        find_run(f, i, &r);
        if (r.chain.n > 1)
            st = make_chain(f, &r);
    }
    return st;
}

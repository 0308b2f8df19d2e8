/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step of the generator picks an operator and operands that suit it, runs it
 * with qn_eval_node, and keeps the node if that went well. Values that fusion
 * and folding may change in their last bits (`inexact`) go only where a small
 * change stays small: never into comparisons, casts, or a condition.
 */
#include "tests/support/random_nodes.h"

#include "runtime/exec/eval.h"
#include "runtime/ops/op.h"
#include "tests/support/graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_ELEMENTS = 2048, MAX_DEPTH = 3 };

uint32_t rg_below(rg *r, uint32_t n)
{
    uint64_t z = (r->state += 0x9e3779b97f4a7c15u); /* splitmix64 */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ (z >> 31)) >> 32) % (n ? n : 1);
}

bool rg_chance(rg *r, uint32_t percent)
{
    return rg_below(r, 100) < percent;
}

void *rg_room(qn_region *region, size_t n, size_t size)
{
    void *p = qn_region_alloc(region, n + 1, size);
    assert_non_null(p);
    return p;
}

static void fill(rg *r, qn_tensor *t, qn_region *region)
{
    int64_t n = qn_count(t);
    t->data = rg_room(region, (size_t)n, qn_dtype_size(t->dtype));
    for (int64_t i = 0; i < n; i++) {
        uint32_t x = rg_below(r, 1000);
        if (t->dtype == QN_F32)
            ((float *)t->data)[i] =
                x % 5 ? ((float)x - 500.0f) / 250.0f : (float)(x % 3);
        else if (t->dtype == QN_I64)
            ((int64_t *)t->data)[i] = (int64_t)(x % 4);
        else
            ((uint8_t *)t->data)[i] = x % 2;
    }
}

qn_shape rg_some_shape(rg *r, int rank)
{
    qn_shape s = { .rank = rank };
    for (int i = 0; i < rank; i++)
        s.dims[i] = rg_chance(r, 3) ? 0 : rg_chance(r, 25) ? 1 : 1 + rg_below(r, 5);
    return s;
}

/* ---- values ---- */

static rg_value *keep(rg_scope *s, rg_value v)
{
    if (s->n == RG_VALUES)
        return NULL;
    s->v[s->n] = v;
    return &s->v[s->n++];
}

static rg_value constant(rg_scope *s, qn_tensor t, const void *data)
{
    rg_value v = { .t = t };
    memcpy(&v.t.data, &data, sizeof data);
    v.id = tg_const(s->g, t.dtype, t.shape.rank, t.shape.dims, data);
    return v;
}

rg_value rg_some_constant(rg *r, rg_scope *s, qn_dtype dtype, qn_shape shape)
{
    qn_tensor t = { .dtype = dtype, .shape = shape };
    fill(r, &t, s->g->region);
    return constant(s, t, t.data);
}

rg_value rg_ints(rg_scope *s, int64_t n, const int64_t *values)
{
    qn_tensor t = { .dtype = QN_I64, .shape = qn_shape_make(1, &n) };
    int64_t *copy = rg_room(s->g->region, (size_t)n, sizeof *copy);
    if (n)
        memcpy(copy, values, (size_t)n * sizeof *copy);
    return constant(s, t, copy);
}

/* The value of an outer scope as a value of this one. */
static rg_value bring(rg_scope *s, const rg_scope *from, rg_value v)
{
    if (s == from)
        return v;
    v = bring(s->parent, from, v);
    v.id = tg_capture(s->g, v.id);
    return v;
}

static bool suits(const rg_value *v, rg_want w)
{
    return (w.types >> v->t.dtype & 1) && v->t.shape.rank >= w.min_rank &&
           v->t.shape.rank <= w.max_rank && !(w.exact && v->inexact);
}

bool rg_pick(rg *r, rg_scope *s, rg_want w, rg_value *out)
{
    for (int tries = 0; tries < 12; tries++) {
        rg_scope *from = s;
        while (from->parent && (rg_chance(r, 30) || !from->n))
            from = from->parent;
        if (!from->n)
            continue;
        uint32_t late = from->n < 4 ? from->n : 4;
        const rg_value *v = rg_chance(r, 50)
                                ? &from->v[from->n - 1 - rg_below(r, late)]
                                : &from->v[rg_below(r, from->n)];
        if (suits(v, w)) {
            *out = bring(s, from, *v);
            return true;
        }
    }
    return false;
}

const rg_want rg_any_type = { QN_BIT(F32) | QN_BIT(I64) | QN_BIT(BOOL), 0, 5,
                               false };
const rg_want rg_number = { QN_BIT(F32) | QN_BIT(I64), 0, 5, false };
const rg_want rg_real = { QN_BIT(F32), 0, 5, false };
const rg_want rg_exact_real = { QN_BIT(F32), 0, 5, true };
const rg_want rg_image = { QN_BIT(F32), 4, 4, false };

/* ---- nodes ---- */

void rg_attr_int(rg_spec *n, const char *name, int64_t value)
{
    n->attrs[n->n_attrs++] =
        (qn_attr){ .name = name, .kind = QN_ATTR_INT, .i = value };
}

void rg_attr_ints(rg_scope *s, rg_spec *n, const char *name, size_t count,
                      const int64_t *values)
{
    int64_t *copy = rg_room(s->g->region, count, sizeof *copy);
    memcpy(copy, values, count * sizeof *copy);
    n->attrs[n->n_attrs++] = (qn_attr){
        .name = name, .kind = QN_ATTR_INTS, .n = count, .ints = copy };
}

static bool small(const qn_tensor *t)
{
    int64_t n;
    return qn_shape_count(&t->shape, &n) && n <= MAX_ELEMENTS &&
           t->shape.rank <= 5;
}

bool rg_add(rg *r, rg_scope *s, const rg_spec *n, rg_value *first)
{
    qn_tensor in[RG_NODE_IN] = { 0 }, out[RG_NODE_IN];
    qn_value_id ids[RG_NODE_IN] = { 0 };
    qn_error err = { 0 };
    qn_node probe = { .op_name = n->op, .name = "", .domain = "", .opset = 18,
                      .n_in = n->n_in, .n_out = n->n_out, .in = ids, .out = ids,
                      .n_attrs = n->n_attrs, .attrs = n->attrs };
    bool inexact = n->fuses;
    probe.op = qn_op_find("", n->op, 18, NULL);
    if (!probe.op)
        fail_msg("no operator %s", n->op);
    for (uint32_t i = 0; i < n->n_in; i++) {
        ids[i] = n->in[i].id;
        if (ids[i] == QN_NO_VALUE)
            continue;
        in[i] = n->in[i].t;
        inexact |= n->in[i].inexact && strcmp(n->op, "Shape") != 0;
    }
    if (qn_eval_infer(&probe, in, out, &err) != QN_OK)
        return false;
    for (uint32_t i = 0; i < n->n_out; i++)
        if (!small(&out[i]))
            return false;
    if (s->n + n->n_out > RG_VALUES ||
        qn_eval_node(&probe, in, out, NULL, &r->region, &err) != QN_OK)
        return false;
    qn_node *node;
    if (qn_graph_add_node(s->g, n->n_in, n->n_out, n->n_attrs, &node, &err) !=
        QN_OK)
        fail_msg("%s", err.text);
    node->op_name = n->op;
    node->opset = 18;
    memcpy(node->in, ids, n->n_in * sizeof *ids);
    qn_attr *attrs;
    memcpy(&attrs, &node->attrs, sizeof attrs);
    if (n->n_attrs)
        memcpy(attrs, n->attrs, n->n_attrs * sizeof *attrs);
    for (uint32_t i = 0; i < n->n_out; i++) {
        qn_value v = { .name = n->op, .kind = QN_VALUE_NODE, .rank = -1 };
        rg_value result = { .t = out[i], .inexact = inexact };
        if (qn_graph_add_value(s->g, &v, &result.id, &err) != QN_OK)
            fail_msg("%s", err.text);
        node->out[i] = result.id;
        keep(s, result);
        if (!i && first)
            *first = result;
    }
    return true;
}

/* ---- If ---- */

static void gen(rg *r, rg_scope *s, uint32_t steps, int depth);

/* A condition of one element that comes from data. */
static bool condition(rg *r, rg_scope *s, rg_value *out)
{
    static const rg_want boolean = { QN_BIT(BOOL), 0, 2, true };
    for (int i = 0; i < 4 && rg_chance(r, 50); i++)
        if (rg_pick(r, s, boolean, out) && qn_count(&out->t) == 1)
            return true;
    rg_spec sum = { .op = "ReduceSum", .n_in = 1, .n_out = 1 };
    rg_spec greater = { .op = "Greater", .n_in = 2, .n_out = 1 };
    rg_attr_int(&sum, "keepdims", 0);
    if (!rg_pick(r, s, rg_exact_real, &sum.in[0]) ||
        !rg_add(r, s, &sum, &greater.in[0]))
        return false;
    greater.in[1] = rg_some_constant(r, s, QN_F32, (qn_shape){ 0 });
    return rg_add(r, s, &greater, out);
}

static rg_scope *branch(rg *r, rg_scope *s, int depth, uint32_t n,
                        const rg_value *like, rg_value *results)
{
    rg_scope *in = rg_room(&r->region, 1, sizeof *in);
    in->g = tg_new(s->g);
    in->parent = s;
    if (rg_chance(r, 90))
        gen(r, in, 1 + rg_below(r, 4), depth + 1);
    for (uint32_t i = 0; i < n; i++) {
        rg_want w = rg_any_type;
        if (like)
            w.types = (qn_dtypes)1 << like[i].t.dtype;
        if (rg_chance(r, 10) || !rg_pick(r, in, w, &results[i]))
            results[i] = rg_some_constant(r, in, like ? like[i].t.dtype : QN_F32,
                                       rg_some_shape(r, (int)rg_below(r, 4)));
        tg_output(in->g, results[i].id, "b");
    }
    return in;
}

static bool gen_if(rg *r, rg_scope *s, int depth)
{
    rg_value c, x[3], y[3];
    qn_error err = { 0 };
    uint32_t n = 1 + rg_below(r, 3);
    if (depth >= MAX_DEPTH || s->n + n > RG_VALUES || !condition(r, s, &c))
        return false;
    rg_scope *yes = branch(r, s, depth, n, NULL, x);
    rg_scope *no = branch(r, s, depth, n, x, y);
    qn_node *node;
    if (qn_graph_add_node(s->g, 1, n, 2, &node, &err) != QN_OK)
        fail_msg("%s", err.text);
    node->op_name = "If";
    node->opset = 18;
    node->in[0] = c.id;
    qn_attr *attrs;
    memcpy(&attrs, &node->attrs, sizeof attrs);
    attrs[0] = (qn_attr){ .name = "then_branch", .kind = QN_ATTR_GRAPH,
                          .graph = yes->g };
    attrs[1] = (qn_attr){ .name = "else_branch", .kind = QN_ATTR_GRAPH,
                          .graph = no->g };
    for (uint32_t i = 0; i < n && s->n < RG_VALUES; i++) {
        qn_value v = { .name = "If", .kind = QN_VALUE_NODE, .rank = -1 };
        rg_value joined = *(const uint8_t *)c.t.data ? x[i] : y[i];
        joined.inexact = x[i].inexact || y[i].inexact;
        if (qn_graph_add_value(s->g, &v, &joined.id, &err) != QN_OK)
            fail_msg("%s", err.text);
        node->out[i] = joined.id;
        keep(s, joined);
    }
    return true;
}

static void gen(rg *r, rg_scope *s, uint32_t steps, int depth)
{
    uint32_t before = s->n;
    for (uint32_t tries = 0; s->n < before + steps && tries < 20 * steps &&
                             s->n + 24 < RG_VALUES; tries++) {
        uint32_t k = rg_below(r, rg_n_kinds + 2u);
        if (k >= rg_n_kinds)
            (void)gen_if(r, s, depth);
        else
            (void)rg_kinds[k](r, s);
    }
}

/* ---- the main graph ---- */

static void input(rg *r, uint32_t i, qn_dtype dtype, int rank)
{
    static const char *const names[RG_INPUTS] = { "a", "b", "c",
                                                  "d", "e", "f" };
    qn_shape shape = rg_some_shape(r, rank);
    int64_t dims[QN_MAX_RANK];
    for (int k = 0; k < rank; k++)
        dims[k] = rg_chance(r, 50) ? -1 : shape.dims[k];
    rg_value v = { .id = tg_input(r->main.g, names[i], dtype, rank, dims) };
    for (int set = 0; set < RG_SETS; set++) {
        qn_tensor *t = &r->inputs[set][i];
        *t = (qn_tensor){ .dtype = dtype, .shape = shape };
        fill(r, t, &r->region);
    }
    if (rg_chance(r, 20)) { /* it has a default, which set 0 uses */
        qn_const *c = rg_room(r->main.g->region, 1, sizeof *c);
        *c = (qn_const){ .dtype = dtype, .shape = shape };
        size_t bytes = (size_t)qn_count(&r->inputs[0][i]) * qn_dtype_size(dtype);
        void *copy = rg_room(r->main.g->region, bytes, 1);
        if (bytes)
            memcpy(copy, r->inputs[0][i].data, bytes);
        c->bytes = bytes;
        c->data = copy;
        r->main.g->values[v.id].data = c;
        v.t = r->inputs[0][i];
        r->inputs[0][i] = (qn_tensor){ 0 };
    } else {
        v.t = r->inputs[0][i];
    }
    keep(&r->main, v);
}

void rg_build(rg *r, uint64_t seed)
{
    *r = (rg){ .seed = seed, .state = seed * 0x2545f4914f6cdd1du + 1 };
    r->main.g = tg_new(NULL);
    r->n_inputs = 1 + rg_below(r, RG_INPUTS);
    for (uint32_t i = 0; i < r->n_inputs; i++) {
        uint32_t k = rg_below(r, 10);
        if (k < 7)
            input(r, i, QN_F32, k < 3 ? 4 : (int)rg_below(r, 5));
        else
            input(r, i, k < 9 ? QN_I64 : QN_BOOL, (int)rg_below(r, 3));
    }
    gen(r, &r->main, 3 + rg_below(r, 20), 0);
    r->n_outputs = 1 + rg_below(r, RG_OUTPUTS);
    for (uint32_t i = 0; i < r->n_outputs; i++) {
        uint32_t late = r->main.n < 6 ? r->main.n : 6;
        const rg_value *v = rg_chance(r, 70)
                                ? &r->main.v[r->main.n - 1 - rg_below(r, late)]
                                : &r->main.v[rg_below(r, r->main.n)];
        rg_value out = *v;
        if (rg_chance(r, 4)) /* a constant as output */
            out = rg_some_constant(r, &r->main, QN_F32, rg_some_shape(r, 2));
        r->inexact[i] = out.inexact;
        tg_output(r->main.g, out.id, "o");
        if (rg_chance(r, 20) && i + 1 < r->n_outputs) {
            rg_spec view = { .op = "Flatten", .n_in = 1, .n_out = 1,
                             .in = { out } };
            if (rg_add(r, &r->main, &view, &out)) {
                r->inexact[++i] = out.inexact;
                tg_output(r->main.g, out.id, "o");
            }
        }
    }
    tg_finish(r->main.g);
}

void rg_release(rg *r)
{
    qn_region_release(&r->region);
}

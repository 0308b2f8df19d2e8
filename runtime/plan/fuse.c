/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fusion, on the list of steps, where every shape is exact:
 *
 *   Conv ─ Add(x, residual) ─ Relu      one launch, if `residual` is there
 *   Conv ─ HardSwish                    before the Conv runs and has the same
 *   Gemm ─ Clip(0, 6)                   shape as its output
 *
 * A step is absorbed only if nobody else reads the value in between and no jump
 * lies between the two. The absorbed step's output becomes the kernel's.
 */
#include "runtime/ops/op.h"
#include "runtime/plan/build.h"

#include <math.h>
#include <string.h>

typedef struct use_info {
    uint32_t uses;     /* readers, the model's outputs included */
    uint32_t reader;   /* one of them */
    uint32_t producer; /* UINT32_MAX: not written by a step */
} use_info;

static bool named(const qn_node *node, const char *name)
{
    return !node->domain[0] && !strcmp(node->op_name, name);
}

/* Bound of a Clip: absent, or one known float. */
static bool clip_bound(const qn_builder *b, const qn_bstep *s, uint32_t i,
                       float *bound)
{
    if (i >= s->n_in || s->in[i] == QN_NO_VALUE)
        return true;
    const qn_bvalue *v = &b->values[s->in[i]];
    if (!v->data || v->dtype != QN_F32 || v->bytes != sizeof *bound)
        return false;
    memcpy(bound, v->data, sizeof *bound);
    return true;
}

static bool activation(const qn_builder *b, const qn_bstep *s, qn_act *act,
                       float *x, float *y)
{
    const qn_node *n = s->node;
    *x = *y = 0;
    if (named(n, "Relu")) {
        *act = QN_ACT_RELU;
    } else if (named(n, "LeakyRelu")) {
        *act = QN_ACT_LEAKY;
        *x = qn_node_float(n, "alpha", 0.01f);
    } else if (named(n, "Sigmoid")) {
        *act = QN_ACT_SIGMOID;
    } else if (named(n, "Tanh")) {
        *act = QN_ACT_TANH;
    } else if (named(n, "HardSigmoid")) {
        *act = QN_ACT_HARD_SIGMOID;
        *x = qn_node_float(n, "alpha", 0.2f);
        *y = qn_node_float(n, "beta", 0.5f);
    } else if (named(n, "HardSwish")) {
        *act = QN_ACT_HARD_SWISH;
    } else if (named(n, "Clip")) {
        *act = QN_ACT_CLIP;
        *x = qn_node_float(n, "min", -INFINITY);
        *y = qn_node_float(n, "max", INFINITY);
        return clip_bound(b, s, 1, x) && clip_bound(b, s, 2, y);
    } else {
        return false;
    }
    return true;
}

static use_info *look(qn_builder *b)
{
    use_info *u = qn_region_alloc(&b->scratch, b->n_values + 1u, sizeof *u);
    if (!u)
        return NULL;
    for (uint32_t v = 0; v < b->n_values; v++)
        u[v].producer = UINT32_MAX;
    for (uint32_t i = 0; i < b->n_steps; i++) {
        const qn_bstep *s = &b->steps[i];
        for (uint32_t k = 0; k < s->n_in; k++)
            if (s->in[k] != QN_NO_VALUE) {
                u[s->in[k]].uses++;
                u[s->in[k]].reader = i;
            }
        for (uint32_t k = 0; k < s->n_out; k++)
            if (s->out[k] != QN_NO_VALUE)
                u[s->out[k]].producer = i;
    }
    for (uint32_t i = 0; i < b->session->graph->n_outputs; i++)
        u[b->outputs[i]].uses++;
    return u;
}

/* The one step that reads `v`, in the same straight line as step `i`. */
static qn_bstep *only_reader(qn_builder *b, const use_info *u, uint32_t i,
                             uint32_t v)
{
    if (u[v].uses != 1 || b->values[v].output >= 0)
        return NULL;
    uint32_t r = u[v].reader;
    for (uint32_t k = i + 1; k < r; k++)
        if (b->steps[k].kind == QN_STEP_JUMP ||
            b->steps[k].kind == QN_STEP_JUMP_UNLESS)
            return NULL;
    qn_bstep *s = &b->steps[r];
    return s->kind == QN_STEP_LAUNCH && !s->dynamic && s->n_out == 1 ? s : NULL;
}

/* Add(v, other) where `other` is ready before step i: its value, or NO_VALUE. */
static uint32_t residual_of(const qn_builder *b, const use_info *u, uint32_t i,
                            uint32_t v, const qn_bstep *add)
{
    if (!named(add->node, "Add") || add->n_in != 2 || add->node->opset < 7 ||
        add->in[0] == add->in[1])
        return QN_NO_VALUE;
    uint32_t other = add->in[add->in[0] == v];
    const qn_bvalue *x = &b->values[v], *y = &b->values[other];
    bool ready = y->kind == QN_BV_INPUT ||
                 (y->kind == QN_BV_STEP && u[other].producer < i);
    if (!ready || y->dynamic || x->order != y->order || x->dtype != y->dtype ||
        !qn_shape_equal(&x->shape, &y->shape))
        return QN_NO_VALUE;
    return other;
}

static qn_status copy_node(qn_builder *b, qn_bstep *s, qn_node **out)
{
    qn_node *node = qn_region_alloc(&b->plan->region, 1, sizeof *node);
    if (!node)
        return qn_fail(b->err, QN_NO_MEMORY, "no memory to fuse");
    *node = *s->node;
    s->node = *out = node; /* s->owner stays: packed weights go by it */
    return QN_OK;
}

enum { CONV_ARGS = 3 };

static qn_status add_residual(qn_builder *b, qn_bstep *s, uint32_t residual)
{
    uint32_t n = s->n_in < CONV_ARGS ? CONV_ARGS : s->n_in;
    uint32_t *in = qn_region_alloc(&b->scratch, n + 1u, sizeof *in);
    if (!in)
        return qn_fail(b->err, QN_NO_MEMORY, "no memory to fuse");
    for (uint32_t i = 0; i < n; i++)
        in[i] = i < s->n_in ? s->in[i] : QN_NO_VALUE;
    in[n] = residual;
    s->in = in;
    s->n_in = n + 1;
    return QN_OK;
}

static qn_status fuse_step(qn_builder *b, const use_info *u, uint32_t i)
{
    qn_bstep *s = &b->steps[i];
    qn_node *node = NULL;
    qn_act act;
    float x, y;
    qn_status st = QN_OK;
    uint32_t v = s->out[0];
    qn_bstep *next = only_reader(b, u, i, v);
    if (next && named(s->node, "Conv")) {
        uint32_t residual = residual_of(b, u, i, v, next);
        if (residual != QN_NO_VALUE) {
            st = copy_node(b, s, &node);
            if (st == QN_OK)
                st = add_residual(b, s, residual);
            if (st != QN_OK)
                return st;
            node->residual = true;
            next->gone = next->absorbed = true;
            v = s->out[0] = next->out[0];
            next = only_reader(b, u, i, v);
        }
    }
    if (!next || next->in[0] != v || !activation(b, next, &act, &x, &y))
        return QN_OK;
    if (!node)
        st = copy_node(b, s, &node);
    if (st != QN_OK)
        return st;
    node->act = act;
    node->act_a = x;
    node->act_b = y;
    next->gone = next->absorbed = true;
    s->out[0] = next->out[0];
    return QN_OK;
}

qn_status qn_build_fuse(qn_builder *b)
{
    qn_status st = QN_OK;
    const use_info *u = look(b);
    if (!u)
        return qn_fail(b->err, QN_NO_MEMORY, "no memory to fuse");
    for (uint32_t i = 0; st == QN_OK && i < b->n_steps; i++) {
        const qn_bstep *s = &b->steps[i];
        if (s->kind == QN_STEP_LAUNCH && !s->dynamic && !s->absorbed &&
            s->n_out == 1 && s->out[0] != QN_NO_VALUE && s->node->kernel &&
            (s->node->kernel->flags & QN_KERNEL_FUSES) &&
            b->values[s->out[0]].dtype == QN_F32)
            st = fuse_step(b, u, i);
    }
    return st;
}

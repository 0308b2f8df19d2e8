/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fusion, on the list of steps, where every shape is exact. Here: what a kernel
 * takes along as it stores,
 *
 *   Conv ─ Add(x, residual) ─ Relu      one launch, if `residual` is there
 *   Conv ─ HardSwish                    before the Conv runs and has the same
 *   Gemm ─ Clip(0, 6)                   shape as its output
 *
 * and what the passes for accelerators share. A step is absorbed only if nobody
 * else reads the value in between and no jump lies between the two. The absorbed
 * step's output becomes the kernel's.
 */
#include "runtime/plan/fuse.h"

#include "runtime/base/half.h"
#include "runtime/exec/eval.h"
#include "runtime/ops/op.h"

#include <math.h>
#include <string.h>

/* ---- what is known of the steps ---- */

static qn_status no_memory(const qn_fuse *f)
{
    return qn_fail(f->b->err, QN_NO_MEMORY, "no memory to fuse");
}

static bool is_jump(const qn_bstep *s)
{
    return s->kind == QN_STEP_JUMP || s->kind == QN_STEP_JUMP_UNLESS;
}

qn_status qn_fuse_look(qn_builder *b, qn_fuse *out)
{
    qn_fuse f = { .b = b, .n_values = b->n_values };
    f.use = qn_region_alloc(&b->scratch, b->n_values + 1u, sizeof *f.use);
    f.jumps = qn_region_alloc(&b->scratch, b->n_steps + 1u, sizeof *f.jumps);
    if (!f.use || !f.jumps)
        return no_memory(&f);
    for (uint32_t v = 0; v < b->n_values; v++)
        f.use[v] = (qn_fuse_use){ .producer = UINT32_MAX };
    f.jumps[0] = 0;
    for (uint32_t i = 0; i < b->n_steps; i++) {
        const qn_bstep *s = &b->steps[i];
        f.jumps[i + 1] = f.jumps[i] + is_jump(s);
        for (uint32_t k = 0; !s->absorbed && k < s->n_in; k++)
            if (s->in[k] != QN_NO_VALUE) {
                f.use[s->in[k]].uses++;
                f.use[s->in[k]].reader = i;
            }
        for (uint32_t k = 0; !s->absorbed && k < s->n_out; k++)
            if (s->out[k] != QN_NO_VALUE)
                f.use[s->out[k]].producer = i;
    }
    for (uint32_t i = 0; i < b->session->graph->n_outputs; i++)
        f.use[b->outputs[i]].uses++;
    *out = f;
    return QN_OK;
}

qn_fuse_use qn_fuse_use_of(const qn_fuse *f, uint32_t value)
{
    return value < f->n_values
               ? f->use[value]
               : (qn_fuse_use){ UINT32_MAX, UINT32_MAX, UINT32_MAX };
}

static bool plain_launch(const qn_bstep *s)
{
    return s->kind == QN_STEP_LAUNCH && !s->dynamic && !s->absorbed &&
           s->n_out == 1 && s->out[0] != QN_NO_VALUE;
}

qn_bstep *qn_fuse_producer(const qn_fuse *f, uint32_t value)
{
    uint32_t i =
        value == QN_NO_VALUE ? UINT32_MAX : qn_fuse_use_of(f, value).producer;
    if (i == UINT32_MAX)
        return NULL;
    qn_bstep *s = &f->b->steps[i];
    return plain_launch(s) && s->out[0] == value ? s : NULL;
}

qn_bstep *qn_fuse_only_reader(const qn_fuse *f, uint32_t i, uint32_t v,
                              uint32_t *at)
{
    qn_fuse_use u = qn_fuse_use_of(f, v);
    if (u.uses != 1 || u.reader == UINT32_MAX || u.reader <= i ||
        f->b->values[v].output >= 0 || f->jumps[u.reader] != f->jumps[i + 1])
        return NULL;
    if (at)
        *at = u.reader;
    qn_bstep *s = &f->b->steps[u.reader];
    return plain_launch(s) ? s : NULL;
}

bool qn_fuse_ready(const qn_fuse *f, uint32_t value, uint8_t space, uint32_t i)
{
    if (value == QN_NO_VALUE)
        return false;
    const qn_bvalue *v = &f->b->values[value];
    if (v->dynamic || v->space != space)
        return false;
    if (v->kind == QN_BV_CONST) /* not one that is kept in packed form alone */
        return qn_static_offset(&f->b->session->memory, v->slot, space) !=
               QN_UNPLACED;
    return v->kind != QN_BV_STEP || qn_fuse_use_of(f, value).producer < i;
}

bool qn_fuse_scalar(const qn_fuse *f, uint32_t value, qn_dtype dtype,
                    float *out)
{
    uint16_t half;
    if (value == QN_NO_VALUE)
        return false;
    const qn_bvalue *v = &f->b->values[value];
    if (!v->data || v->dtype != dtype || v->bytes != qn_dtype_size(dtype))
        return false;
    if (dtype == QN_F32) {
        memcpy(out, v->data, sizeof *out);
        return true;
    }
    if (dtype != QN_F16 && dtype != QN_BF16)
        return false;
    memcpy(&half, v->data, sizeof half);
    *out = dtype == QN_F16 ? qn_f16_to_f32(half) : qn_bf16_to_f32(half);
    return true;
}

bool qn_fuse_named(const qn_node *node, const char *name)
{
    return !node->domain[0] && !strcmp(node->op_name, name);
}

/* ---- changing steps ---- */

void qn_fuse_absorb(const qn_fuse *f, qn_bstep *s)
{
    s->gone = s->absorbed = true;
    f->b->fused.saved++;
}

qn_status qn_fuse_own_node(const qn_fuse *f, qn_bstep *s, qn_node **out)
{
    qn_node *node = qn_region_alloc(&f->b->plan->region, 1, sizeof *node);
    if (!node)
        return no_memory(f);
    *node = *s->node;
    s->node = *out = node; /* s->owner stays: packed weights go by it */
    return QN_OK;
}

static const void *copy_array(qn_region *region, const void *from, size_t n,
                              size_t size)
{
    void *to = from ? qn_region_alloc(region, n + 1, size) : NULL;
    if (to && n)
        memcpy(to, from, n * size);
    return to;
}

/* Integers and floats are all that nodes of passes have. */
static bool copy_attrs(qn_region *region, const qn_fuse_new *of, qn_node *node)
{
    qn_attr *attrs = qn_region_alloc(region, of->n_attrs + 1u, sizeof *attrs);
    for (uint32_t i = 0; attrs && i < of->n_attrs; i++) {
        attrs[i] = of->attrs[i];
        attrs[i].ints = copy_array(region, attrs[i].ints, attrs[i].n,
                                   sizeof *attrs[i].ints);
        attrs[i].floats = copy_array(region, attrs[i].floats, attrs[i].n,
                                     sizeof *attrs[i].floats);
        if ((of->attrs[i].ints && !attrs[i].ints) ||
            (of->attrs[i].floats && !attrs[i].floats))
            return false;
    }
    node->n_attrs = of->n_attrs;
    node->attrs = attrs;
    return attrs != NULL;
}

/* Does the operator give this, and has the device a kernel for it? */
static bool serves(const qn_fuse *f, const qn_fuse_new *of, qn_node *node,
                   const qn_tensor *in, qn_dtype *types, qn_dtype dtype,
                   const qn_shape *shape)
{
    qn_accel *accel = f->b->session->accels[of->space - 1]->accel;
    qn_error ignored = { 0 };
    qn_tensor out = { 0 };
    if ((node->op->check && node->op->check(node, &ignored) != QN_OK) ||
        qn_eval_infer(node, in, &out, &ignored) != QN_OK ||
        out.dtype != dtype || !qn_shape_equal(&out.shape, shape))
        return false;
    for (uint32_t i = 0; i < of->n_in; i++)
        types[i] = in[i].dtype;
    node->kernel = accel->ops->kernel_find(accel, node, of->n_in, types);
    return node->kernel != NULL;
}

qn_status qn_fuse_make(const qn_fuse *f, const qn_fuse_new *of, qn_dtype dtype,
                       const qn_shape *shape, qn_node **out)
{
    qn_region *region = &f->b->plan->region, *scratch = &f->b->scratch;
    const qn_op *op = qn_op_find(of->domain, of->op, of->opset, NULL);
    *out = NULL;
    if (!op)
        return QN_OK;
    qn_node *node = qn_region_alloc(region, 1, sizeof *node);
    uint32_t *ids = qn_region_alloc(region, of->n_in + 2u, sizeof *ids);
    qn_tensor *in = qn_region_alloc(scratch, of->n_in + 1u, sizeof *in);
    qn_dtype *types = qn_region_alloc(scratch, of->n_in + 1u, sizeof *types);
    if (!node || !ids || !in || !types)
        return no_memory(f);
    *node = (qn_node){ .name = of->like->name, .domain = of->domain,
                       .op_name = of->op, .opset = of->opset, .op = op,
                       .index = of->like->index, .n_in = of->n_in, .n_out = 1,
                       .in = ids, .out = ids + of->n_in,
                       .order = of->like->order, .place = of->space,
                       .rank = of->like->rank };
    for (uint32_t i = 0; i < of->n_in; i++) {
        ids[i] = of->in[i];
        in[i] = qn_build_tensor(f->b, of->in[i]);
    }
    if (!copy_attrs(region, of, node))
        return no_memory(f);
    if (serves(f, of, node, in, types, dtype, shape))
        *out = node;
    return QN_OK;
}

qn_status qn_fuse_become(const qn_fuse *f, qn_bstep *s, const qn_node *node,
                         uint32_t n_in, const uint32_t *in, uint32_t out)
{
    uint32_t *ids = qn_region_alloc(&f->b->scratch, n_in + 2u, sizeof *ids);
    if (!ids)
        return no_memory(f);
    memcpy(ids, in, n_in * sizeof *ids);
    ids[n_in] = out;
    s->node = s->owner = node;
    s->in = ids;
    s->n_in = n_in;
    s->out = ids + n_in;
    s->n_out = 1;
    return QN_OK;
}

/* ---- what kernels take along ---- */

/* Bound of a Clip: absent, or one known float. */
static bool clip_bound(const qn_fuse *f, const qn_bstep *s, uint32_t i,
                       float *bound)
{
    if (i >= s->n_in || s->in[i] == QN_NO_VALUE)
        return true;
    return qn_fuse_scalar(f, s->in[i], QN_F32, bound);
}

static bool activation(const qn_fuse *f, const qn_bstep *s, qn_act *act,
                       float *x, float *y)
{
    const qn_node *n = s->node;
    *x = *y = 0;
    if (qn_fuse_named(n, "Relu")) {
        *act = QN_ACT_RELU;
    } else if (qn_fuse_named(n, "LeakyRelu")) {
        *act = QN_ACT_LEAKY;
        *x = qn_node_float(n, "alpha", 0.01f);
    } else if (qn_fuse_named(n, "Sigmoid")) {
        *act = QN_ACT_SIGMOID;
    } else if (qn_fuse_named(n, "Tanh")) {
        *act = QN_ACT_TANH;
    } else if (qn_fuse_named(n, "HardSigmoid")) {
        *act = QN_ACT_HARD_SIGMOID;
        *x = qn_node_float(n, "alpha", 0.2f);
        *y = qn_node_float(n, "beta", 0.5f);
    } else if (qn_fuse_named(n, "HardSwish")) {
        *act = QN_ACT_HARD_SWISH;
    } else if (qn_fuse_named(n, "Clip")) {
        *act = QN_ACT_CLIP;
        *x = qn_node_float(n, "min", -INFINITY);
        *y = qn_node_float(n, "max", INFINITY);
        /* bounds that cross, or are none, are left to the operator */
        return clip_bound(f, s, 1, x) && clip_bound(f, s, 2, y) && *x <= *y;
    } else {
        return false;
    }
    return true;
}

/* Add(v, other) where `other` is ready before step i: its value, or NO_VALUE. */
static uint32_t residual_of(const qn_fuse *f, uint32_t i, uint32_t v,
                            const qn_bstep *add)
{
    if (!qn_fuse_named(add->node, "Add") || add->n_in != 2 ||
        add->node->opset < 7 || add->in[0] == add->in[1])
        return QN_NO_VALUE;
    uint32_t other = add->in[add->in[0] == v];
    const qn_bvalue *x = &f->b->values[v], *y = &f->b->values[other];
    bool ready = y->kind == QN_BV_INPUT ||
                 (y->kind == QN_BV_STEP &&
                  qn_fuse_use_of(f, other).producer < i);
    if (!ready || y->dynamic || x->order != y->order || x->dtype != y->dtype ||
        !qn_shape_equal(&x->shape, &y->shape))
        return QN_NO_VALUE;
    return other;
}

enum { CONV_ARGS = 3 };

static qn_status add_residual(const qn_fuse *f, qn_bstep *s, uint32_t residual)
{
    uint32_t n = s->n_in < CONV_ARGS ? CONV_ARGS : s->n_in;
    uint32_t *in = qn_region_alloc(&f->b->scratch, n + 1u, sizeof *in);
    if (!in)
        return no_memory(f);
    for (uint32_t i = 0; i < n; i++)
        in[i] = i < s->n_in ? s->in[i] : QN_NO_VALUE;
    in[n] = residual;
    s->in = in;
    s->n_in = n + 1;
    return QN_OK;
}

qn_status qn_fuse_residual(const qn_fuse *f, uint32_t i)
{
    qn_bstep *s = &f->b->steps[i];
    qn_bstep *next = qn_fuse_only_reader(f, i, s->out[0], NULL);
    uint32_t residual =
        next ? residual_of(f, i, s->out[0], next) : QN_NO_VALUE;
    qn_node *node;
    if (residual == QN_NO_VALUE)
        return QN_OK;
    qn_status st = qn_fuse_own_node(f, s, &node);
    if (st == QN_OK)
        st = add_residual(f, s, residual);
    if (st != QN_OK)
        return st;
    node->residual = true;
    s->out[0] = next->out[0];
    qn_fuse_absorb(f, next);
    f->b->fused.sums++;
    return QN_OK;
}

/* Libraries of products apply Relu only; anything else costs a pass over the
 * output there, which a chain that goes on with it has anyway. */
static bool left_to_chain(const qn_fuse *f, const qn_bstep *s, uint32_t at,
                          qn_act act)
{
    const qn_bstep *a = &f->b->steps[at];
    if (!s->space || act == QN_ACT_RELU ||
        !(s->node->kernel->flags & QN_KERNEL_ADDS))
        return false;
    const qn_bstep *behind = qn_fuse_only_reader(f, at, a->out[0], NULL);
    return behind && behind->space == s->space &&
           qn_fuse_links(f, a, s->out[0]) &&
           qn_fuse_links(f, behind, a->out[0]);
}

static qn_status fuse_activation(const qn_fuse *f, uint32_t i)
{
    qn_bstep *s = &f->b->steps[i];
    qn_node *node;
    qn_act act;
    float x, y;
    uint32_t at;
    qn_bstep *next = qn_fuse_only_reader(f, i, s->out[0], &at);
    if (!next || next->in[0] != s->out[0] ||
        !activation(f, next, &act, &x, &y) || left_to_chain(f, s, at, act))
        return QN_OK;
    qn_status st = qn_fuse_own_node(f, s, &node);
    if (st != QN_OK)
        return st;
    node->act = act;
    node->act_a = x;
    node->act_b = y;
    s->out[0] = next->out[0];
    qn_fuse_absorb(f, next);
    f->b->fused.activations++;
    return QN_OK;
}

static qn_status fuse_step(const qn_fuse *f, uint32_t i)
{
    const qn_bstep *s = &f->b->steps[i];
    qn_status st = QN_OK;
    if (!plain_launch(s) || !s->node->kernel)
        return QN_OK;
    if (s->space && (s->node->kernel->flags & QN_KERNEL_ADDS))
        st = qn_fuse_product(f, i);
    if (st != QN_OK || !(s->node->kernel->flags & QN_KERNEL_FUSES) ||
        f->b->values[s->out[0]].dtype != QN_F32)
        return st;
    if (qn_fuse_named(s->node, "Conv"))
        st = qn_fuse_residual(f, i);
    return st == QN_OK ? fuse_activation(f, i) : st;
}

/* Attention first: its mask looks like a residual of the scores. Chains last:
 * what a product or a convolution takes along costs no pass at all. */
qn_status qn_build_fuse(qn_builder *b)
{
    bool accels = b->session->options.n_accels > 0;
    qn_fuse f;
    qn_status st = qn_fuse_look(b, &f);
    if (st == QN_OK && accels)
        st = qn_fuse_attention(&f);
    if (st == QN_OK && b->fused.attention)
        st = qn_fuse_look(b, &f);
    for (uint32_t i = 0; st == QN_OK && i < b->n_steps; i++)
        st = fuse_step(&f, i);
    if (st == QN_OK && accels)
        st = qn_fuse_look(b, &f);
    return st == QN_OK && accels ? qn_fuse_chains(&f) : st;
}

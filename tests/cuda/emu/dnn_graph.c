/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for libcudnn.so.9: what an operation graph computes.
 *
 * A graph is followed from its convolution along the unique ids of virtual
 * tensors, whatever the order of the array. Errors of the client (unique ids
 * that mean two things, several producers) fail the graph; graphs that no
 * engine takes are finalized, and refused by heuristics and engines, as by the
 * real library. */
#include "tests/cuda/emu/dnn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct tensors {
    struct qn_dnn_tensor of[3 * 64];
    size_t n;
};

static bool same(const struct qn_dnn_tensor *a, const struct qn_dnn_tensor *b)
{
    if (a->align != b->align || a->type != b->type || a->dims != b->dims ||
        a->is_virtual != b->is_virtual)
        return false;
    for (int i = 0; i < a->dims; i++)
        if (a->dim[i] != b->dim[i] || a->stride[i] != b->stride[i])
            return false;
    return true;
}

static const cudnnBackendAttributeName_t ports[][3] = {
    /* input, second input, output: forward, backward, pointwise */
    { CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y },
    { CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX },
    { CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
      CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
      CUDNN_ATTR_OPERATION_POINTWISE_YDESC },
};

/* 0 forward, 1 backward, 2 pointwise, -1 no operation */
static int op_of(const struct qn_dnn_desc *d)
{
    switch (d->kind->type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
        return 0;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
        return 1;
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        return 2;
    default:
        return -1;
    }
}

static bool tensor_at(const struct qn_dnn_desc *op, int port,
                      struct qn_dnn_tensor *out)
{
    cudnnBackendAttributeName_t name = ports[op_of(op)][port];
    if (!qn_dnn_count(op, name))
        return false;
    *out = qn_dnn_tensor_of(qn_dnn_ref(op, name, 0));
    return true;
}

/* Each unique id means one tensor, with one producer; virtual tensors have
 * one. */
static cudnnStatus_t check_ids(const struct qn_dnn_desc *d, struct tensors *all)
{
    int64_t n = qn_dnn_count(d, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    int64_t produced[64];
    for (int64_t i = 0; i < n; i++) {
        const struct qn_dnn_desc *op =
            qn_dnn_ref(d, CUDNN_ATTR_OPERATIONGRAPH_OPS, i);
        if (op_of(op) < 0)
            return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
                               "graph: %s is no operation", op->kind->name);
        for (int port = 0; port < 3; port++) {
            struct qn_dnn_tensor t;
            if (!tensor_at(op, port, &t))
                continue;
            for (size_t j = 0; j < all->n; j++)
                if (all->of[j].uid == t.uid && !same(&all->of[j], &t))
                    return qn_dnn_fail(
                        CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES,
                        "graph: unique id %lld is two tensors",
                        (long long)t.uid);
            all->of[all->n++] = t;
            if (port < 2)
                continue;
            for (int64_t j = 0; j < i; j++)
                if (produced[j] == t.uid)
                    return qn_dnn_fail(
                        CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES,
                        "graph: unique id %lld is produced twice",
                        (long long)t.uid);
            produced[i] = t.uid;
        }
    }
    for (size_t j = 0; j < all->n; j++) {
        bool made = !all->of[j].is_virtual;
        for (int64_t i = 0; i < n; i++)
            made = made || produced[i] == all->of[j].uid;
        if (!made)
            return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM,
                               "graph: nothing produces virtual tensor %lld",
                               (long long)all->of[j].uid);
    }
    return CUDNN_STATUS_SUCCESS;
}

static void read_convolution(const struct qn_dnn_desc *op,
                             struct qn_dnn_graph *g)
{
    g->backward = op_of(op) == 1;
    const struct qn_dnn_desc *c = qn_dnn_ref(
        op,
        g->backward ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC
                    : CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
        0);
    g->alpha = qn_dnn_real(
        op,
        g->backward ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA
                    : CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
        1);
    g->beta = qn_dnn_real(
        op,
        g->backward ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA
                    : CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
        0);
    tensor_at(op, 0, &g->x);
    tensor_at(op, 1, &g->w);
    tensor_at(op, 2, &g->y);
    g->mode = (cudnnConvolutionMode_t)qn_dnn_enum(
        c, CUDNN_ATTR_CONVOLUTION_CONV_MODE);
    g->compute =
        (cudnnDataType_t)qn_dnn_enum(c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
    g->spatial = (int)qn_dnn_int(c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 0);
    for (int i = 0; i < g->spatial; i++) {
        g->pre[i] = qn_dnn_int(c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, i);
        g->post[i] = qn_dnn_int(c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, i);
        g->stride[i] = qn_dnn_int(c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, i);
        g->dilation[i] = qn_dnn_int(c, CUDNN_ATTR_CONVOLUTION_DILATIONS, i);
    }
    g->groups = (g->backward ? g->y.dim[1] : g->x.dim[1]) / g->w.dim[1];
}

static bool equal_dims(const struct qn_dnn_tensor *a,
                       const struct qn_dnn_tensor *b)
{
    for (int i = 0; i < a->dims; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

/* 1, C, 1, 1 with neighbouring channels */
static bool is_bias(const struct qn_dnn_tensor *b, const struct qn_dnn_tensor *y)
{
    for (int i = 0; i < b->dims; i++)
        if (b->dim[i] != (i == 1 ? y->dim[1] : 1))
            return false;
    return b->dim[1] == 1 || b->stride[1] == 1;
}

/* One operation behind the convolution; false: no engine knows it. */
static bool read_step(const struct qn_dnn_desc *op, struct qn_dnn_graph *g)
{
    const struct qn_dnn_desc *pw =
        qn_dnn_ref(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 0);
    if (g->n_steps == 3 || qn_dnn_enum(pw, CUDNN_ATTR_POINTWISE_MATH_PREC) !=
                               CUDNN_DATA_FLOAT)
        return false;
    struct qn_dnn_step s = {
        .mode =
            (cudnnPointwiseMode_t)qn_dnn_enum(pw, CUDNN_ATTR_POINTWISE_MODE),
        .alpha1 =
            qn_dnn_real(op, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, 1),
        .alpha2 =
            qn_dnn_real(op, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, 1),
        .lower = qn_dnn_real(pw, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, 0),
        .upper = qn_dnn_real(pw, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP,
                             (double)INFINITY),
        .slope = qn_dnn_real(pw, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, 0),
        .elu = qn_dnn_real(pw, CUDNN_ATTR_POINTWISE_ELU_ALPHA, 1),
        .softplus = qn_dnn_real(pw, CUDNN_ATTR_POINTWISE_SOFTPLUS_BETA, 1),
        .swish = qn_dnn_real(pw, CUDNN_ATTR_POINTWISE_SWISH_BETA, 1),
    };
    bool acted = g->n_steps > 0 &&
                 g->steps[g->n_steps - 1].mode != CUDNN_POINTWISE_ADD;
    if (acted || s.mode == CUDNN_POINTWISE_MUL)
        return false;
    struct qn_dnn_tensor b, y;
    tensor_at(op, 2, &y);
    if (!equal_dims(&g->y, &y))
        return false;
    if (s.mode == CUDNN_POINTWISE_ADD) {
        tensor_at(op, 1, &b);
        if (b.is_virtual)
            return false;
        if (is_bias(&b, &y) && !g->has_bias) {
            s.reads_bias = g->has_bias = true;
            g->bias = b;
        } else if (equal_dims(&b, &y) && !g->has_z) {
            s.reads_z = g->has_z = true;
            g->z = b;
        } else {
            return false;
        }
    }
    g->steps[g->n_steps++] = s;
    g->y = y;
    return true;
}

/* Follow the data; false: not a convolution with a chain behind it. */
static bool read_chain(const struct qn_dnn_desc *d, struct qn_dnn_graph *g)
{
    int64_t n = qn_dnn_count(d, CUDNN_ATTR_OPERATIONGRAPH_OPS), used = 0;
    for (int64_t i = 0; i < n; i++) {
        const struct qn_dnn_desc *op =
            qn_dnn_ref(d, CUDNN_ATTR_OPERATIONGRAPH_OPS, i);
        if (op_of(op) == 2)
            continue;
        if (used++)
            return false;
        read_convolution(op, g);
    }
    if (!used || g->x.is_virtual || g->w.is_virtual)
        return false;
    while (used < n) {
        const struct qn_dnn_desc *next = NULL;
        for (int64_t i = 0; i < n && !next; i++) {
            const struct qn_dnn_desc *op =
                qn_dnn_ref(d, CUDNN_ATTR_OPERATIONGRAPH_OPS, i);
            struct qn_dnn_tensor x;
            if (op_of(op) == 2 && tensor_at(op, 0, &x) && x.uid == g->y.uid)
                next = op;
        }
        /* What lies between stays in registers, as floats. */
        if (!next || !g->y.is_virtual || g->y.type != CUDNN_DATA_FLOAT ||
            !read_step(next, g))
            return false;
        used++;
    }
    return !g->y.is_virtual;
}

/* Whether the dimensions nest in this order, outermost first; a dimension of
 * one element can have any stride. */
static bool nests(const struct qn_dnn_tensor *t, bool channels_last,
                  bool *packed)
{
    int64_t inner = 1;
    *packed = true;
    for (int i = 0; i < t->dims; i++) {
        int at = t->dims - 1 - i;
        if (channels_last) /* from inside: C, W, H, D, N */
            at = i == 0 ? 1 : i == t->dims - 1 ? 0 : t->dims - i;
        if (t->dim[at] == 1)
            continue;
        if (t->stride[at] < inner)
            return false;
        if (t->stride[at] != inner)
            *packed = false;
        if (i == 0 && t->stride[at] != 1)
            return false;
        inner = t->stride[at] * t->dim[at];
    }
    return true;
}

static void read_layouts(struct qn_dnn_graph *g)
{
    const struct qn_dnn_tensor *all[] = { &g->x, &g->w, &g->y,
                                          g->has_z ? &g->z : &g->y };
    g->nchw = g->nhwc = true;
    bool packed_first = true, packed_last = true;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        bool packed;
        g->nchw = nests(all[i], false, &packed) && g->nchw;
        packed_first = packed_first && packed;
        g->nhwc = nests(all[i], true, &packed) && g->nhwc;
        packed_last = packed_last && packed;
    }
    g->packed = (g->nchw && packed_first) || (g->nhwc && packed_last);
}

static bool is_fixed(const struct qn_dnn_graph *g)
{
    int i = 0;
    if (i < g->n_steps && g->steps[i].reads_z)
        i++;
    if (i < g->n_steps && g->steps[i].reads_bias)
        i++;
    else
        return g->n_steps == 0;
    if (i < g->n_steps) {
        const struct qn_dnn_step *s = &g->steps[i];
        bool relu = s->mode == CUDNN_POINTWISE_RELU_FWD && s->lower == 0 &&
                    s->upper >= 3.4e38 && s->slope == 0;
        if (!relu && s->mode != CUDNN_POINTWISE_IDENTITY)
            return false;
        i++;
    }
    return i == g->n_steps;
}

static cudnnStatus_t refusal(const struct qn_dnn_graph *g)
{
    const struct qn_dnn_tensor *all[] = { &g->x, &g->w, &g->y,
                                          g->has_z ? &g->z : &g->x,
                                          g->has_bias ? &g->bias : &g->x };
    cudnnDataType_t compute = g->x.type == CUDNN_DATA_DOUBLE
                                  ? CUDNN_DATA_DOUBLE
                                  : CUDNN_DATA_FLOAT;
    if (g->compute != compute)
        return CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (!qn_dnn_size(all[i]->type) || all[i]->type != g->x.type)
            return CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE;
        if (qn_dnn_extent(all[i]) > INT32_MAX)
            return CUDNN_STATUS_NOT_SUPPORTED_SHAPE;
    }
    /* Kernels exist for images and volumes only. */
    if (g->spatial < 2)
        return CUDNN_STATUS_NOT_SUPPORTED_SHAPE;
    for (int i = 0; i < g->spatial; i++)
        if (g->pre[i] != g->post[i])
            return CUDNN_STATUS_NOT_SUPPORTED_PADDING;
    if (g->mode != CUDNN_CROSS_CORRELATION)
        return CUDNN_STATUS_NOT_SUPPORTED;
    if (!g->nchw && !g->nhwc)
        return CUDNN_STATUS_NOT_SUPPORTED_LAYOUT;
    if (g->n_steps && (g->beta != 0 || g->backward || g->alpha != 1))
        return CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN;
    /* In place is only for graphs of one operation. */
    if (g->n_steps &&
        (g->y.uid == g->x.uid || g->y.uid == g->w.uid ||
         (g->has_bias && g->y.uid == g->bias.uid) ||
         (g->has_z && g->y.uid == g->z.uid)))
        return CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t qn_dnn_finalize_graph(struct qn_dnn_desc *d)
{
    struct tensors *all = calloc(1, sizeof *all);
    struct qn_dnn_graph *g = calloc(1, sizeof *g);
    cudnnStatus_t st = CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    if (!all || !g)
        goto done;
    st = check_ids(d, all);
    if (st != CUDNN_STATUS_SUCCESS)
        goto done;
    if (read_chain(d, g)) {
        read_layouts(g);
        g->fixed_pattern = is_fixed(g);
        g->refused = refusal(g);
    } else {
        g->refused = CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN;
    }
    free(d->derived); /* of an attempt to finalize that failed */
    d->derived = g;
    g = NULL;
done:
    free(all);
    free(g);
    return st;
}

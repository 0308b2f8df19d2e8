/* SPDX-License-Identifier: Apache-2.0 */
/* Conv and ConvTranspose: which kernel for which node. The kernels are in
 * runtime/cpu/conv/. */
#include "runtime/cpu/conv/conv.h"
#include "runtime/base/checked.h"
#include "runtime/cpu/tables.h"

#include <string.h>

/* ---- shared ---- */

qn_status qn_conv_of(const qn_node *node, const qn_tensor *in, qn_conv *g,
                     qn_error *err)
{
    qn_shape x = in[0].shape;
    if (node->order == QN_ORDER_NHWC && x.rank == 4 &&
        !qn_node_int(node, "qn_plain_input", 0)) {
        const int64_t c = x.dims[3];
        x.dims[3] = x.dims[2];
        x.dims[2] = x.dims[1];
        x.dims[1] = c;
    }
    return qn_conv_read(node, &x, &in[1].shape, g, err);
}

const float *qn_conv_bias(const qn_launch *k)
{
    const uint32_t n = k->n_in - k->node->residual;
    return n > 2 && qn_present(&k->in[2]) ? k->in[2].data : NULL;
}

const float *qn_conv_residual(const qn_launch *k)
{
    return k->node->residual ? k->in[k->n_in - 1].data : NULL;
}

qn_gemm_end qn_conv_end(const qn_node *node)
{
    return (qn_gemm_end){ .act = node->act, .act_a = node->act_a,
                          .act_b = node->act_b };
}

qn_conv_at qn_conv_pixel(const qn_conv *g, int64_t pixel)
{
    qn_conv_at at;
    for (int axis = QN_CONV_DIMS - 1; axis >= 0; axis--) {
        at.o[axis] = pixel % g->out[axis];
        pixel /= g->out[axis];
    }
    at.n = pixel;
    return at;
}

void qn_conv_next(const qn_conv *g, qn_conv_at *at)
{
    for (int axis = QN_CONV_DIMS - 1; axis >= 0; axis--) {
        if (++at->o[axis] < g->out[axis])
            return;
        at->o[axis] = 0;
    }
    at->n++;
}

/* ---- packing ---- */

/* Only what depends on the weights: channels, taps, groups. */
static bool weights_of(const qn_node *node, const qn_tensor *w, bool transposed,
                       qn_conv *g)
{
    memset(g, 0, sizeof *g);
    if (w->shape.rank < 3 || w->shape.rank > 5 || w->dtype != QN_F32)
        return false;
    g->rank = w->shape.rank - 2;
    g->group = qn_node_int(node, "group", 1);
    g->taps = qn_shape_product(&w->shape, 2, w->shape.rank);
    if (g->group < 1 || g->group > INT32_MAX || !g->taps ||
        w->shape.dims[0] % g->group)
        return false;
    int64_t grouped;
    if (!qn_mul_i64(w->shape.dims[1], g->group, &grouped))
        return false;
    g->c = transposed ? w->shape.dims[0] : grouped;
    g->m = transposed ? grouped : w->shape.dims[0];
    return true;
}

static bool plain_input(const qn_node *node)
{
    return qn_node_int(node, "qn_plain_input", 0) != 0;
}

static size_t pack_size(const qn_node *node, uint32_t n_in, const qn_tensor *in,
                        uint32_t i)
{
    qn_conv g;
    (void)n_in;
    if (i != 1 || node->order != QN_ORDER_NHWC ||
        !weights_of(node, &in[1], false, &g))
        return 0;
    return qn_conv_last_packed(&g, plain_input(node)) * sizeof(float);
}

static qn_status pack(const qn_node *node, uint32_t n_in, const qn_tensor *in,
                      uint32_t i, void *dst, qn_error *err)
{
    qn_conv g;
    (void)n_in, (void)i;
    if (!weights_of(node, &in[1], false, &g))
        return qn_fail(err, QN_INTERNAL, "packing weights of unknown shape");
    qn_conv_last_pack(&g, plain_input(node), in[1].data, dst);
    return QN_OK;
}

static bool transpose_weights(const qn_node *node, const qn_tensor *in,
                              qn_conv *g)
{
    size_t n;
    const int64_t *s = qn_node_ints(node, "strides", &n);
    if (!weights_of(node, &in[1], true, g) || (n && n != (size_t)g->rank))
        return false;
    const int64_t *d = qn_node_ints(node, "dilations", &n);
    if (n && n != (size_t)g->rank)
        return false;
    for (int i = 0; i < QN_CONV_DIMS; i++) {
        int axis = i - (QN_CONV_DIMS - g->rank);
        g->kernel[i] = axis < 0 ? 1 : in[1].shape.dims[axis + 2];
        g->stride[i] = axis < 0 || !s ? 1 : s[axis];
        g->dilation[i] = axis < 0 || !d ? 1 : d[axis];
        if (g->stride[i] < 1 || g->stride[i] > 4096 || g->dilation[i] < 1 ||
            g->dilation[i] > INT32_MAX)
            return false;
    }
    return true;
}

static size_t transpose_pack_size(const qn_node *node, uint32_t n_in,
                                  const qn_tensor *in, uint32_t i)
{
    qn_conv g;
    (void)n_in;
    return i == 1 && transpose_weights(node, in, &g)
               ? qn_conv_transpose_packed(&g) * sizeof(float)
               : 0;
}

static qn_status transpose_pack(const qn_node *node, uint32_t n_in,
                                const qn_tensor *in, uint32_t i, void *dst,
                                qn_error *err)
{
    qn_conv g;
    (void)n_in, (void)i;
    if (!transpose_weights(node, in, &g))
        return qn_fail(err, QN_INTERNAL, "packing weights of unknown shape");
    qn_conv_transpose_pack(&g, in[1].data, dst);
    return QN_OK;
}

/* ---- table ---- */

static qn_status prepare(qn_prepare *p, qn_error *err)
{
    return p->node->order == QN_ORDER_NHWC ? qn_conv_last_prepare(p, err)
                                           : qn_conv_plain_prepare(p, err);
}

static qn_status launch(const qn_launch *k)
{
    return k->node->order == QN_ORDER_NHWC ? qn_conv_last_launch(k)
                                           : qn_conv_plain_launch(k);
}

static bool is_f32(const qn_node *node, uint32_t n_in, const qn_dtype *in)
{
    (void)node, (void)n_in;
    return in[0] == QN_F32;
}

#define ALL .domain = "", .since = 1, .until = UINT16_MAX

static const qn_kernel rows[] = {
    { ALL, .name = "Conv", .flags = QN_KERNEL_FUSES | QN_KERNEL_NHWC,
      .supports = is_f32, .pack_size = pack_size, .pack = pack,
      .prepare = prepare, .launch = launch },
    { ALL, .name = "Conv", .prepare = qn_conv_reference_prepare,
      .launch = qn_conv_reference },
    { ALL, .name = "ConvTranspose", .flags = QN_KERNEL_FUSES,
      .supports = is_f32, .pack_size = transpose_pack_size,
      .pack = transpose_pack, .prepare = qn_conv_transpose_prepare,
      .launch = qn_conv_transpose_launch },
    { ALL, .name = "ConvTranspose", .prepare = qn_conv_reference_prepare,
      .launch = qn_conv_reference },
};

QN_KERNEL_TABLE(qn_cpu_conv, rows);

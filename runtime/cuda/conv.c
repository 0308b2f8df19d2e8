/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conv and ConvTranspose. In this order:
 *
 *   nothing    an output without elements
 *   depthwise  own kernel: one channel in a group moves bytes, no more
 *   cuDNN      all of it in one graph; else the convolution alone, and bias,
 *              residual and activation by a kernel behind it (float only, since
 *              16-bit results are rounded once)
 *   own        double, geometry that cuDNN cannot say, what it refuses, and
 *              addresses that are not on 16 bytes
 *
 * cuDNN pads alike on both sides. Where that does not give the wanted output, x
 * is padded into the workspace first.
 */
#include "runtime/cuda/dnn.h"
#include "runtime/cuda/kernel.h"
#include "runtime/cuda/kernels/conv.h"
#include "runtime/cuda/tables.h"

#include "runtime/base/checked.h"
#include "runtime/ops/conv.h"

#include <stdio.h>
#include <string.h>

enum { THREADS = 256 };

/* a padded copy of x, and one of y, may take so much of the workspace */
static const size_t most_padded = (size_t)1 << 30;

typedef struct state {
    const qn_cuda_fn *own_fn; /* NULL: nothing to do */
    qn_cuda_grid own_grid;
    struct qn_conv_args own;
    const qn_cuda_dnn_plan *plan; /* NULL: own */
    bool plan_bias, plan_residual;
    /* workspace: padded x, y before its end, the library's */
    const qn_cuda_fn *pad_fn; /* NULL: x as it is */
    qn_cuda_grid pad_grid;
    struct qn_conv_pad_args pad;
    const qn_cuda_fn *finish_fn; /* NULL: the plan does all */
    qn_cuda_grid finish_grid;
    struct qn_conv_finish_args finish;
    bool apart; /* the plan writes to the workspace: y may be the residual */
    size_t apart_at, library_at;
} state;

static bool has_bias(const qn_node *node, uint32_t n_in, const qn_tensor *in)
{
    return n_in - node->residual > 2 && qn_present(&in[2]);
}

/* ---- own kernels ---- */

static const char *suffix(qn_dtype dtype)
{
    return dtype == QN_F64    ? "f64"
           : dtype == QN_F16  ? "f16"
           : dtype == QN_BF16 ? "bf16"
                              : "f32";
}

/* K of a K x K depthwise convolution that has a kernel of its own; 0: none. */
static int depthwise_taps(const qn_conv *g, bool transposed, qn_dtype dtype)
{
    const int64_t k = g->kernel[QN_CONV_W];
    int64_t far_h, far_w;
    if (transposed || dtype == QN_F64 || g->c != g->group ||
        g->kernel[QN_CONV_D] != 1 || g->out[QN_CONV_D] != 1 ||
        g->kernel[QN_CONV_H] != k || (k != 3 && k != 5) ||
        g->pad[QN_CONV_D] || g->in[QN_CONV_D] != 1)
        return 0;
    /* it counts in 32 bits along an axis */
    far_h = (g->out[QN_CONV_H] - 1) * g->stride[QN_CONV_H] +
            k * g->dilation[QN_CONV_H];
    far_w = (g->out[QN_CONV_W] - 1) * g->stride[QN_CONV_W] +
            k * g->dilation[QN_CONV_W];
    return far_h < INT32_MAX && far_w < INT32_MAX &&
                   g->in[QN_CONV_H] < INT32_MAX &&
                   g->in[QN_CONV_W] < INT32_MAX
               ? (int)k : 0;
}

static void fill_args(const qn_conv *g, bool transposed, const qn_node *node,
                      struct qn_conv_args *a)
{
    *a = (struct qn_conv_args){
        .n = g->n, .c = g->c, .m = g->m, .group = g->group,
        .per_in = g->c / g->group, .per_out = g->m / g->group,
        .taps = g->taps, .in_pixels = g->in_pixels,
        .out_pixels = g->out_pixels, .total = g->n * g->m * g->out_pixels,
        .by_taps = qn_fastdiv_of(g->taps),
        .by_pixels = qn_fastdiv_of(g->out_pixels),
        .by_m = qn_fastdiv_of(g->m), .transposed = transposed,
        .act = (int32_t)node->act, .act_a = node->act_a, .act_b = node->act_b,
    };
    for (int i = 0; i < QN_CONV_DIMS; i++) {
        a->in[i] = g->in[i];
        a->kernel[i] = g->kernel[i];
        a->stride[i] = g->stride[i];
        a->dilation[i] = g->dilation[i];
        a->pad[i] = g->pad[i];
        a->by_kernel[i] = qn_fastdiv_of(g->kernel[i]);
        a->by_out[i] = qn_fastdiv_of(g->out[i]);
    }
    a->tiles_m = (a->per_out + QN_CONV_TILE - 1) / QN_CONV_TILE;
    a->tiles_p = (g->out_pixels + QN_CONV_TILE - 1) / QN_CONV_TILE;
}

static qn_status own_prepare(qn_prepare *p, const qn_conv *g, bool transposed,
                             state *s, qn_error *err)
{
    const qn_dtype dtype = p->in[0].dtype;
    const int k = depthwise_taps(g, transposed, dtype);
    char name[32];
    fill_args(g, transposed, p->node, &s->own);
    const struct qn_conv_args *a = &s->own;
    s->own_grid = qn_cuda_grid_stride(p->accel, a->total, 1, THREADS, 8);
    if (k) {
        snprintf(name, sizeof name, "conv_depth%d_%s", k, suffix(dtype));
    } else if (a->per_out < 8 || a->per_in * a->taps < 8) {
        snprintf(name, sizeof name, "conv_each_%s", suffix(dtype));
    } else {
        int64_t tiles = a->tiles_m * a->tiles_p * g->group * g->n;
        snprintf(name, sizeof name, "conv_tile_%s", suffix(dtype));
        s->own_grid = (qn_cuda_grid){
            .grid = { (uint32_t)(tiles < INT32_MAX ? tiles : INT32_MAX) },
            .block = { QN_CONV_THREADS } };
    }
    return qn_cuda_find(p->accel, "conv", name, &s->own_fn, err);
}

/* ---- cuDNN ---- */

/* Equal padding on both sides gives this output. */
static bool symmetric(const qn_conv *g, bool transposed)
{
    for (int i = 0; i < QN_CONV_DIMS; i++) {
        const int64_t span = (g->kernel[i] - 1) * g->dilation[i] + 1;
        const int64_t from = transposed ? g->out[i] : g->in[i];
        const int64_t to = transposed ? g->in[i] : g->out[i];
        const int64_t all = from + 2 * g->pad[i] - span;
        if (g->pad[i] < 0 || all < 0 || all / g->stride[i] + 1 != to)
            return false;
    }
    return true;
}

/* Spatial sizes after two leading ones; 1-D convolutions are rows of 2-D. */
static void put_dims(const qn_conv *g, int64_t n, int64_t c, const int64_t *axes,
                     int64_t *out)
{
    const int rank = g->rank < 3 ? 2 : 3;
    out[0] = n;
    out[1] = c;
    for (int i = 0; i < rank; i++)
        out[2 + i] = axes[QN_CONV_DIMS - rank + i];
}

static void describe(const qn_conv *g, bool transposed, const int64_t *in,
                     bool padded, qn_cuda_dnn_conv *d)
{
    const int rank = g->rank < 3 ? 2 : 3, lead = QN_CONV_DIMS - rank;
    memset(d, 0, sizeof *d);
    d->rank = rank + 2;
    d->transposed = transposed;
    put_dims(g, g->n, g->c, in, d->x);
    put_dims(g, g->n, g->m, g->out, d->y);
    if (transposed)
        put_dims(g, g->c, g->m / g->group, g->kernel, d->w);
    else
        put_dims(g, g->m, g->c / g->group, g->kernel, d->w);
    for (int i = 0; i < rank; i++) {
        d->stride[i] = g->stride[lead + i];
        d->dilation[i] = g->dilation[lead + i];
        d->pad[i] = padded ? 0 : g->pad[lead + i];
    }
}

/* Prepares the padded copy; false: too large for one. */
static bool pad_prepare(qn_prepare *p, const qn_conv *g, int64_t *in,
                        size_t *bytes, state *s)
{
    int64_t pixels = 1, images;
    const size_t size = qn_dtype_size(p->in[0].dtype);
    for (int i = 0; i < QN_CONV_DIMS; i++) {
        in[i] = (g->out[i] - 1) * g->stride[i] +
                (g->kernel[i] - 1) * g->dilation[i] + 1;
        s->pad.in[i] = g->in[i];
        s->pad.before[i] = g->pad[i];
        s->pad.by_to[i] = qn_fastdiv_of(in[i]);
        if (!qn_mul_i64(pixels, in[i], &pixels))
            return false;
    }
    if (!qn_mul_i64(g->n, g->c, &images) ||
        !qn_mul_i64(images, pixels, &s->pad.total) ||
        !qn_mul_size((size_t)s->pad.total, size, bytes) ||
        *bytes > most_padded || !qn_align_size(*bytes, 256, bytes))
        return false;
    s->pad_grid = qn_cuda_grid_stride(p->accel, s->pad.total, 4, THREADS, 4);
    return true;
}

static qn_status finish_prepare(qn_prepare *p, const qn_conv *g, state *s,
                                qn_error *err)
{
    const struct qn_conv_args *a = &s->own;
    s->finish = (struct qn_conv_finish_args){
        .total = a->total, .by_pixels = qn_fastdiv_of(g->out_pixels),
        .by_m = qn_fastdiv_of(g->m), .act = a->act, .act_a = a->act_a,
        .act_b = a->act_b };
    s->finish_grid = qn_cuda_grid_stride(p->accel, a->total, 4, THREADS, 4);
    return qn_cuda_find(p->accel, "conv", "conv_finish", &s->finish_fn, err);
}

/* One graph with everything in it, else the convolution alone. */
static qn_status find_plan(qn_prepare *p, qn_cuda_dnn_conv *d, state *s,
                           qn_error *err)
{
    const qn_node *node = p->node;
    const bool f32 = p->in[0].dtype == QN_F32;
    const bool bias = has_bias(node, p->n_in, p->in);
    const bool relu = node->act == QN_ACT_RELU;
    d->dtype = (int32_t)p->in[0].dtype;
    d->tf32 = f32 && p->precision != QN_PRECISION_FP32;
    d->bias = s->plan_bias = bias;
    d->residual = s->plan_residual = node->residual;
    d->relu = relu;
    qn_status st = qn_cuda_dnn_find(p->accel, d, &s->plan, err);
    if (st != QN_OK || s->plan || !f32 || !(bias || node->residual || relu))
        return st;
    d->bias = d->residual = d->relu = 0;
    s->plan_bias = s->plan_residual = false;
    return qn_cuda_dnn_find(p->accel, d, &s->plan, err);
}

static qn_status dnn_prepare(qn_prepare *p, const qn_conv *g, bool transposed,
                             state *s, qn_error *err)
{
    const qn_node *node = p->node;
    const bool padded = !symmetric(g, transposed);
    const bool f32 = p->in[0].dtype == QN_F32;
    size_t bytes = 0, apart = 0;
    int64_t in[QN_CONV_DIMS];
    qn_cuda_dnn_conv d;

    memcpy(in, g->in, sizeof in);
    if (!g->c || !g->in_pixels || p->in[0].dtype == QN_F64 ||
        (!f32 && (node->residual || node->act != QN_ACT_NONE)) ||
        (padded && (transposed || !pad_prepare(p, g, in, &bytes, s))))
        return QN_OK;
    describe(g, transposed, in, padded, &d);
    qn_status st = find_plan(p, &d, s, err);
    if (st != QN_OK || !s->plan)
        return st;
    if (padded)
        st = qn_cuda_find(p->accel, "conv",
                          f32 ? "conv_pad_4" : "conv_pad_2", &s->pad_fn, err);
    const bool left = (node->act != QN_ACT_NONE && !d.relu) ||
                      (node->residual && !s->plan_residual) ||
                      (has_bias(node, p->n_in, p->in) && !s->plan_bias);
    if (st == QN_OK && left)
        st = finish_prepare(p, g, s, err);
    s->apart = node->residual && !s->plan_residual;
    if (s->apart && (!qn_mul_size((size_t)s->own.total, sizeof(float), &apart) ||
                     !qn_align_size(apart, 256, &apart)))
        return qn_fail(err, QN_TOO_LARGE, "%lld elements",
                       (long long)s->own.total);
    s->apart_at = bytes;
    s->library_at = bytes + apart;
    p->workspace = s->library_at + qn_cuda_dnn_workspace(s->plan);
    return st;
}

static qn_status prepare(qn_prepare *p, qn_error *err)
{
    const bool transposed = !strcmp(p->node->op->name, "ConvTranspose");
    state *s = qn_region_alloc(p->region, 1, sizeof *s);
    qn_conv g;
    if (!s)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for a convolution");
    p->state = s;
    qn_status st = qn_conv_read(p->node, &p->in[0].shape, &p->in[1].shape, &g,
                                err);
    if (st != QN_OK || !g.n || !g.m || !g.out_pixels)
        return st;
    st = own_prepare(p, &g, transposed, s, err);
    if (st == QN_OK && !depthwise_taps(&g, transposed, p->in[0].dtype))
        st = dnn_prepare(p, &g, transposed, s, err);
    return st;
}

/* ---- launch ---- */

static void *place(const qn_launch *k, size_t at)
{
    return at ? (char *)k->workspace + at : k->workspace;
}

static qn_status launch_plan(const qn_launch *k, const state *s, const void *bias,
                             const void *residual)
{
    const void *x = k->in[0].data;
    void *y = s->apart ? place(k, s->apart_at) : k->out[0].data;
    qn_status st = QN_OK;
    if (s->pad_fn) {
        struct qn_conv_pad_args pad = s->pad;
        pad.from = x;
        pad.to = k->workspace;
        x = pad.to;
        st = qn_cuda_launch(k, s->pad_fn, &s->pad_grid, &pad);
    }
    if (st == QN_OK)
        st = qn_cuda_dnn_run(k, s->plan, x, k->in[1].data, y,
                             s->plan_bias ? bias : NULL,
                             s->plan_residual ? residual : NULL,
                             place(k, s->library_at));
    if (st == QN_OK && s->finish_fn) {
        struct qn_conv_finish_args end = s->finish;
        end.x = y;
        end.y = k->out[0].data;
        end.bias = s->plan_bias ? NULL : bias;
        end.residual = s->plan_residual ? NULL : residual;
        st = qn_cuda_launch(k, s->finish_fn, &s->finish_grid, &end);
    }
    return st;
}

static qn_status launch(const qn_launch *k)
{
    const state *s = k->state;
    const qn_node *node = k->node;
    const void *bias = has_bias(node, k->n_in, k->in) ? k->in[2].data : NULL;
    const void *residual = node->residual ? k->in[k->n_in - 1].data : NULL;
    if (!s->own_fn)
        return QN_OK;
    if (s->plan && qn_cuda_dnn_serves(k->in[0].data, k->in[1].data,
                                      k->out[0].data, bias, residual))
        return launch_plan(k, s, bias, residual);
    struct qn_conv_args a = s->own;
    a.x = k->in[0].data;
    a.w = k->in[1].data;
    a.bias = bias;
    a.residual = residual;
    a.y = k->out[0].data;
    return qn_cuda_launch(k, s->own_fn, &s->own_grid, &a);
}

/* ---- table ---- */

static bool is_f32(const qn_node *node, uint32_t n_in, const qn_dtype *in)
{
    (void)node, (void)n_in;
    return in[0] == QN_F32;
}

/* only float is fused with what follows */
#define ROWS(op)                                                               \
    { .domain = "", .name = op, .since = 1, .until = UINT16_MAX,               \
      .flags = QN_KERNEL_FUSES, .supports = is_f32, .prepare = prepare,        \
      .launch = launch },                                                      \
    { .domain = "", .name = op, .since = 1, .until = UINT16_MAX,               \
      .prepare = prepare, .launch = launch }

static const qn_kernel rows[] = { ROWS("Conv"), ROWS("ConvTranspose") };

QN_KERNEL_TABLE(qn_cuda_conv, rows);

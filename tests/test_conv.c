/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conv and ConvTranspose against their definition in double, in all element
 * types, memory orders and with all that can be fused; geometry against values
 * worked out by hand or taken from ONNX Runtime 1.32.
 */
#include "tests/support/node.h"
#include "tests/support/packed.h"

#include "runtime/base/half.h"
#include "runtime/ops/conv.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* spatial rank; N, C, M, group; input, kernel, strides, dilations, pads,
 * output_padding */
typedef struct layer {
    const char *name;
    int rank;
    int64_t n, c, m, group;
    int64_t in[3], kernel[3], stride[3], dilation[3], pads[6], extra[3];
} layer;

#define ONES { 1, 1, 1 }

static const layer layers[] = {
    { "1x1", 2, 1, 19, 33, 1, { 5, 7 }, ONES, ONES, ONES, { 0 }, { 0 } },
    { "1x1 few outputs", 2, 2, 8, 5, 1, { 9, 11 }, ONES, ONES, ONES, { 0 },
      { 0 } },
    { "1x1 stride 2", 2, 1, 16, 40, 1, { 9, 8 }, ONES, { 2, 2 }, ONES, { 0 },
      { 0 } },
    { "3x3", 2, 1, 8, 16, 1, { 10, 9 }, { 3, 3 }, ONES, ONES, { 1, 1, 1, 1 },
      { 0 } },
    { "3x3 many", 2, 2, 70, 50, 1, { 7, 7 }, { 3, 3 }, ONES, ONES,
      { 1, 1, 1, 1 }, { 0 } },
    { "3x3 stride 2", 2, 1, 12, 20, 1, { 11, 14 }, { 3, 3 }, { 2, 2 }, ONES,
      { 0, 1, 1, 0 }, { 0 } },
    { "3x3 dilated", 2, 1, 5, 7, 1, { 12, 11 }, { 3, 3 }, ONES, { 2, 3 },
      { 2, 3, 2, 3 }, { 0 } },
    { "padding beyond the kernel", 2, 1, 3, 4, 1, { 4, 4 }, { 2, 2 }, { 3, 3 },
      ONES, { 5, 4, 3, 6 }, { 0 } },
    { "first layer", 2, 2, 3, 32, 1, { 17, 19 }, { 3, 3 }, { 2, 2 }, ONES,
      { 0, 0, 1, 1 }, { 0 } },
    { "7x7", 2, 1, 3, 24, 1, { 30, 29 }, { 7, 7 }, { 2, 2 }, ONES,
      { 3, 3, 3, 3 }, { 0 } },
    { "5x9", 2, 1, 2, 3, 1, { 14, 15 }, { 5, 9 }, ONES, ONES, { 2, 4, 2, 4 },
      { 0 } },
    { "groups", 2, 1, 12, 18, 3, { 8, 8 }, { 3, 3 }, ONES, ONES, { 1, 1, 1, 1 },
      { 0 } },
    { "depthwise", 2, 2, 35, 35, 35, { 9, 10 }, { 3, 3 }, ONES, ONES,
      { 1, 1, 1, 1 }, { 0 } },
    { "depthwise stride 2", 2, 1, 24, 24, 24, { 11, 13 }, { 5, 5 }, { 2, 2 },
      ONES, { 2, 2, 2, 2 }, { 0 } },
    { "depthwise wide", 2, 1, 3, 3, 3, { 3, 1100 }, { 3, 3 }, ONES, ONES,
      { 1, 1, 1, 1 }, { 0 } },
    { "channel multiplier", 2, 1, 6, 12, 6, { 7, 7 }, { 3, 3 }, ONES, ONES,
      { 1, 1, 1, 1 }, { 0 } },
    { "one channel", 2, 1, 1, 1, 1, { 6, 6 }, { 3, 3 }, ONES, ONES, { 0 },
      { 0 } },
    { "deep", 2, 1, 600, 9, 1, { 3, 3 }, { 3, 3 }, ONES, ONES, { 1, 1, 1, 1 },
      { 0 } },
    { "many outputs", 2, 1, 4, 450, 1, { 3, 4 }, { 2, 2 }, ONES, ONES, { 0 },
      { 0 } },
    { "1-D", 1, 2, 6, 10, 1, { 50 }, { 5 }, { 2 }, ONES, { 2, 1 }, { 0 } },
    { "1-D long kernel", 1, 1, 1, 130, 1, { 576 }, { 256 }, { 128 }, ONES,
      { 0 }, { 0 } },
    { "1-D depthwise", 1, 1, 9, 9, 9, { 40 }, { 7 }, ONES, { 2 }, { 6, 6 },
      { 0 } },
    { "3-D", 3, 1, 4, 6, 2, { 5, 6, 7 }, { 3, 2, 3 }, { 1, 2, 1 }, { 1, 1, 2 },
      { 1, 0, 2, 1, 1, 0 }, { 0 } },
    { "3-D depthwise", 3, 1, 3, 3, 3, { 4, 5, 6 }, { 2, 3, 3 }, ONES, ONES,
      { 0, 1, 1, 1, 1, 1 }, { 0 } },
    { "no image", 2, 0, 4, 8, 1, { 5, 5 }, { 3, 3 }, ONES, ONES, { 0 }, { 0 } },
};

static const layer transposed[] = {
    { "up 2", 2, 1, 6, 8, 1, { 5, 6 }, { 2, 2 }, { 2, 2 }, ONES, { 0 }, { 0 } },
    { "up 2 kernel 4", 2, 2, 40, 20, 1, { 6, 5 }, { 4, 4 }, { 2, 2 }, ONES,
      { 1, 1, 1, 1 }, { 0 } },
    { "stride 1", 2, 1, 5, 7, 1, { 6, 6 }, { 3, 3 }, ONES, ONES, { 1, 1, 1, 1 },
      { 0 } },
    { "stride over kernel", 2, 1, 3, 4, 1, { 4, 4 }, { 2, 3 }, { 3, 5 }, ONES,
      { 0 }, { 2, 1 } },
    { "dilated", 2, 1, 3, 4, 1, { 5, 4 }, { 3, 3 }, { 2, 3 }, { 2, 2 },
      { 1, 0, 2, 1 }, { 1, 1 } },
    { "groups", 2, 1, 6, 9, 3, { 4, 5 }, { 3, 3 }, { 2, 2 }, ONES,
      { 1, 1, 1, 1 }, { 1, 1 } },
    { "depthwise", 2, 1, 10, 10, 10, { 5, 5 }, { 4, 4 }, { 2, 2 }, ONES,
      { 1, 1, 1, 1 }, { 0 } },
    { "many outputs", 2, 1, 3, 230, 1, { 3, 3 }, { 3, 3 }, { 2, 2 }, ONES,
      { 0 }, { 0 } },
    { "deep", 2, 1, 700, 6, 1, { 3, 3 }, { 2, 2 }, ONES, ONES, { 0 }, { 0 } },
    { "1-D", 1, 1, 4, 6, 1, { 20 }, { 8 }, { 4 }, ONES, { 2, 2 }, { 0 } },
    { "3-D", 3, 1, 4, 3, 1, { 3, 4, 3 }, { 2, 3, 2 }, { 1, 2, 2 }, ONES,
      { 0, 1, 0, 0, 1, 0 }, { 0 } },
};

/* ---- data ---- */

static uint32_t seed;

static double number(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (double)((int)(seed >> 20 & 63) - 32) / 16;
}

static double get(qn_dtype dtype, const void *p, int64_t i)
{
    return dtype == QN_F32   ? (double)((const float *)p)[i]
           : dtype == QN_F64 ? ((const double *)p)[i]
           : dtype == QN_F16 ? (double)qn_f16_to_f32(((const uint16_t *)p)[i])
                             : (double)qn_bf16_to_f32(((const uint16_t *)p)[i]);
}

/* Ends where the block does: a kernel that reads past it is found by ASan. */
static void *make(qn_dtype dtype, int64_t n)
{
    void *p = malloc((size_t)n * qn_dtype_size(dtype) + (n == 0));
    assert_non_null(p);
    for (int64_t i = 0; i < n; i++) {
        double x = number();
        if (dtype == QN_F32)
            ((float *)p)[i] = (float)x;
        else if (dtype == QN_F64)
            ((double *)p)[i] = x;
        else if (dtype == QN_F16)
            ((uint16_t *)p)[i] = qn_f32_to_f16((float)x);
        else
            ((uint16_t *)p)[i] = qn_f32_to_bf16((float)x);
    }
    return p;
}

/* ---- the definition ---- */

typedef struct dims3 {
    int64_t v[3];
} dims3;

/* of a layer, with leading ones */
static dims3 three(const layer *l, const int64_t *v, int64_t otherwise)
{
    dims3 d = { { otherwise, otherwise, otherwise } };
    for (int i = 0; i < l->rank; i++)
        d.v[3 - l->rank + i] = v[i];
    return d;
}

static dims3 out_of(const layer *l, bool up)
{
    dims3 d = { { 1, 1, 1 } };
    for (int i = 0; i < l->rank; i++) {
        int64_t span = (l->kernel[i] - 1) * l->dilation[i] + 1;
        int64_t pads = l->pads[i] + l->pads[i + l->rank];
        d.v[3 - l->rank + i] =
            up ? (l->in[i] - 1) * l->stride[i] + span + l->extra[i] - pads
               : (l->in[i] + pads - span) / l->stride[i] + 1;
    }
    return d;
}

static void define(const layer *l, bool up, qn_dtype t, const void *x,
                   const void *w, double *y)
{
    const dims3 in = three(l, l->in, 1), k = three(l, l->kernel, 1);
    const dims3 s = three(l, l->stride, 1), dil = three(l, l->dilation, 1);
    const dims3 pad = three(l, l->pads, 0), out = out_of(l, up);
    const int64_t ci = l->c / l->group, mo = l->m / l->group;
    int64_t at = 0;
    for (int64_t n = 0; n < l->n; n++)
    for (int64_t m = 0; m < l->m; m++)
    for (int64_t a = 0; a < out.v[0]; a++)
    for (int64_t b = 0; b < out.v[1]; b++)
    for (int64_t c = 0; c < out.v[2]; c++, at++) {
        const int64_t o[3] = { a, b, c };
        y[at] = 0;
        for (int64_t i = 0; i < ci; i++)
        for (int64_t tap = 0; tap < k.v[0] * k.v[1] * k.v[2]; tap++) {
            const int64_t tt[3] = { tap / k.v[2] / k.v[1],
                                    tap / k.v[2] % k.v[1], tap % k.v[2] };
            int64_t p[3];
            bool ok = true;
            for (int d = 0; d < 3; d++) {
                if (up) {
                    int64_t q = o[d] + pad.v[d] - tt[d] * dil.v[d];
                    ok = ok && q >= 0 && q % s.v[d] == 0;
                    p[d] = q / s.v[d];
                } else {
                    p[d] = o[d] * s.v[d] + tt[d] * dil.v[d] - pad.v[d];
                }
                ok = ok && p[d] >= 0 && p[d] < in.v[d];
            }
            if (!ok)
                continue;
            int64_t ch = m / mo * ci + i;
            int64_t xi = (((n * l->c + ch) * in.v[0] + p[0]) * in.v[1] + p[1]) *
                             in.v[2] + p[2];
            int64_t taps = k.v[0] * k.v[1] * k.v[2];
            int64_t wi = (up ? ch * mo + m % mo : m * ci + i) * taps + tap;
            y[at] += get(t, x, xi) * get(t, w, wi);
        }
    }
}

/* The same, kept for the next call: one layer is run in many ways. */
static const double *defined(const layer *l, bool up, qn_dtype t, const void *x,
                             const void *w, int64_t n)
{
    static const layer *last;
    static qn_dtype last_type;
    static double y[1 << 18];
    assert_true((size_t)n < sizeof y / sizeof y[0]);
    if (last != l || last_type != t)
        define(l, up, t, x, w, y);
    last = l;
    last_type = t;
    return y;
}

/* ---- running ---- */

typedef struct extras {
    bool bias, residual, plain_input;
    qn_act act;
    qn_memory_order order;
    int packed; /* 0: test_node_run; 1: weights packed; 2: not constant */
} extras;

static const char *text_of(const extras *e, char *buf, size_t size)
{
    snprintf(buf, size, "bias %d residual %d act %d order %d plain input %d "
             "packed %d", e->bias, e->residual, (int)e->act, (int)e->order,
             e->plain_input, e->packed);
    return buf;
}

static void run(const layer *l, bool up, qn_dtype t, extras e)
{
    const dims3 out = out_of(l, up), in = three(l, l->in, 1);
    const int64_t taps = three(l, l->kernel, 1).v[0] *
                         three(l, l->kernel, 1).v[1] *
                         three(l, l->kernel, 1).v[2];
    const int64_t pixels = out.v[0] * out.v[1] * out.v[2];
    const int64_t n_y = l->n * l->m * pixels;
    const int64_t n_x = l->n * l->c * in.v[0] * in.v[1] * in.v[2];
    const int64_t n_w = l->c * l->m / l->group * taps;
    int64_t dx[5] = { l->n, l->c }, dw[5], dy[5] = { l->n, l->m };
    char text[128];
    test_node node;

    dw[0] = up ? l->c : l->m;
    dw[1] = up ? l->m / l->group : l->c / l->group;
    for (int i = 0; i < l->rank; i++) {
        dx[i + 2] = l->in[i];
        dw[i + 2] = l->kernel[i];
        dy[i + 2] = out.v[3 - l->rank + i];
    }
    seed = 7;
    void *x = make(t, n_x), *w = make(t, n_w), *b = make(t, l->m);
    void *r = make(t, n_y);
    const double *want = defined(l, up, t, x, w, n_y);
    test_node_init(&node, up ? "ConvTranspose" : "Conv", 22,
                   e.residual ? 4 : 3, 1);
    test_node_int(&node, "group", l->group);
    test_node_ints(&node, "strides", (size_t)l->rank, l->stride);
    test_node_ints(&node, "dilations", (size_t)l->rank, l->dilation);
    test_node_ints(&node, "kernel_shape", (size_t)l->rank, l->kernel);
    test_node_ints(&node, "pads", 2 * (size_t)l->rank, l->pads);
    if (up)
        test_node_ints(&node, "output_padding", (size_t)l->rank, l->extra);
    if (e.plain_input)
        test_node_int(&node, "qn_plain_input", 1);
    test_node_input(&node, 0, t, l->rank + 2, dx, x);
    test_node_input(&node, 1, t, l->rank + 2, dw, w);
    if (e.bias)
        test_node_input(&node, 2, t, 1, &l->m, b);
    if (e.residual)
        test_node_input(&node, 3, t, l->rank + 2, dy, r);
    node.node.residual = e.residual;
    node.node.act = e.act;
    node.node.act_a = e.act == QN_ACT_CLIP ? -1.5f : 0.25f;
    node.node.act_b = 3;
    node.node.order = e.order;
    qn_status st = e.packed ? test_node_run_packed(&node, e.packed == 1 ? 2 : 0)
                            : test_node_run(&node);
    if (st != QN_OK)
        fail_msg("%s: %s: %s", l->name, text_of(&e, text, sizeof text),
                 node.err.text);
    assert_int_equal(qn_count(&node.out[0]), n_y);
    double tol = t == QN_BF16 ? 8e-3 : t == QN_F16 ? 1e-3 : t == QN_F32 ? 1e-5
                                                                        : 1e-12;
    for (int64_t i = 0; i < n_y; i++) {
        double v = want[i];
        if (e.bias)
            v += get(t, b, i / pixels % l->m);
        if (e.residual)
            v += get(t, r, i);
        if (e.act == QN_ACT_RELU)
            v = v < 0 ? 0 : v;
        if (e.act == QN_ACT_LEAKY)
            v = v < 0 ? v / 4 : v;
        if (e.act == QN_ACT_CLIP)
            v = v < -1.5 ? -1.5 : v > 3 ? 3 : v;
        double g = get(t, node.out[0].data, i);
        if (!(fabs(g - v) <= tol * (1 + fabs(v))))
            fail_msg("%s %s: %s: index %lld: %.9g, expected %.9g", l->name,
                     qn_dtype_name(t), text_of(&e, text, sizeof text),
                     (long long)i, g, v);
    }
    test_node_release(&node);
    free(x), free(w), free(b), free(r);
}

/* Plain order, everything fused that can be. */
static void modes(const layer *l, bool up, extras e)
{
    for (e.packed = 0; e.packed < 3; e.packed++) {
        e.bias = e.residual = false;
        e.act = QN_ACT_NONE;
        if (!e.packed && e.order == QN_ORDER_NHWC)
            continue; /* test_node_run() does not transpose */
        run(l, up, QN_F32, e);
        e.bias = true;
        e.act = QN_ACT_RELU;
        run(l, up, QN_F32, e);
        e.residual = true;
        e.act = QN_ACT_CLIP;
        run(l, up, QN_F32, e);
        e.act = QN_ACT_LEAKY;
        run(l, up, QN_F32, e);
    }
}

static void test_plain(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++)
        modes(&layers[i], false, (extras){ 0 });
}

static void test_channels_last(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++)
        if (layers[i].rank == 2)
            modes(&layers[i], false, (extras){ .order = QN_ORDER_NHWC });
}

static void test_plain_input(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++)
        if (layers[i].rank == 2)
            modes(&layers[i], false,
                  (extras){ .order = QN_ORDER_NHWC, .plain_input = true });
}

static void test_transpose(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof transposed / sizeof transposed[0]; i++)
        modes(&transposed[i], true, (extras){ 0 });
}

static void test_types(void **state)
{
    static const qn_dtype types[] = { QN_F64, QN_F16, QN_BF16 };
    (void)state;
    for (size_t d = 0; d < 3; d++) {
        for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++)
            run(&layers[i], false, types[d], (extras){ .bias = true });
        for (size_t i = 0; i < sizeof transposed / sizeof transposed[0]; i++)
            run(&transposed[i], true, types[d], (extras){ .bias = true });
    }
}

/* ---- geometry ---- */

static const struct {
    const char *op, *rule;
    int64_t in, kernel, stride, dilation, output_shape;
    int64_t out, pad;
} rules[] = {
    { "Conv", "SAME_UPPER", 5, 3, 2, 1, 0, 3, 1 },
    { "Conv", "SAME_UPPER", 6, 3, 2, 1, 0, 3, 0 },
    { "Conv", "SAME_LOWER", 6, 3, 2, 1, 0, 3, 1 },
    { "Conv", "SAME_UPPER", 7, 2, 3, 2, 0, 3, 1 },
    { "Conv", "SAME_LOWER", 4, 1, 3, 1, 0, 2, 0 },
    { "Conv", "VALID", 6, 3, 2, 1, 0, 2, 0 },
    { "Conv", "NOTSET", 6, 3, 1, 1, 0, 4, 0 },
    { "ConvTranspose", "SAME_UPPER", 3, 3, 2, 1, 0, 6, 0 },
    { "ConvTranspose", "SAME_LOWER", 3, 3, 2, 1, 0, 6, 1 },
    { "ConvTranspose", "VALID", 3, 3, 2, 1, 0, 7, 0 },
    { "ConvTranspose", "NOTSET", 3, 3, 2, 1, 6, 6, 1 },
    { "ConvTranspose", "SAME_UPPER", 3, 3, 2, 1, 6, 6, 0 },
    { "ConvTranspose", "NOTSET", 3, 3, 2, 1, 8, 8, 0 },
    { "ConvTranspose", "SAME_UPPER", 3, 1, 2, 1, 0, 6, 0 },
};

static void test_geometry(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        test_node t;
        qn_conv g;
        test_node_init(&t, rules[i].op, 11, 2, 1);
        test_node_string(&t, "auto_pad", rules[i].rule);
        test_node_ints(&t, "strides", 1, &rules[i].stride);
        test_node_ints(&t, "dilations", 1, &rules[i].dilation);
        if (rules[i].output_shape)
            test_node_ints(&t, "output_shape", 1, &rules[i].output_shape);
        qn_shape x = qn_shape_make(3, (int64_t[]){ 1, 1, rules[i].in });
        qn_shape w = qn_shape_make(3, (int64_t[]){ 1, 1, rules[i].kernel });
        if (qn_conv_read(&t.node, &x, &w, &g, &t.err) != QN_OK)
            fail_msg("row %zu: %s", i, t.err.text);
        if (g.out[QN_CONV_W] != rules[i].out || g.pad[QN_CONV_W] != rules[i].pad)
            fail_msg("row %zu: out %lld pad %lld", i,
                     (long long)g.out[QN_CONV_W], (long long)g.pad[QN_CONV_W]);
        test_node_release(&t);
    }
}

/* ONNX Runtime 1.32: stride 2, weights 1 10 100, input 1 2 3. */
static void test_transpose_same(void **state)
{
    static const float x[] = { 1, 2, 3 }, w[] = { 1, 10, 100 };
    static const float upper[] = { 1, 10, 102, 20, 203, 30 };
    static const float lower[] = { 10, 102, 20, 203, 30, 300 };
    (void)state;
    for (int low = 0; low < 2; low++) {
        test_node t;
        test_node_init(&t, "ConvTranspose", 11, 2, 1);
        test_node_string(&t, "auto_pad", low ? "SAME_LOWER" : "SAME_UPPER");
        test_node_ints(&t, "strides", 1, (int64_t[]){ 2 });
        test_node_input(&t, 0, QN_F32, 3, (int64_t[]){ 1, 1, 3 }, x);
        test_node_input(&t, 1, QN_F32, 3, (int64_t[]){ 1, 1, 3 }, w);
        assert_int_equal(test_node_run(&t), QN_OK);
        test_node_expect_f32(&t, 0, 3, (int64_t[]){ 1, 1, 6 },
                             low ? lower : upper, 0, 0);
        test_node_release(&t);
    }
}

/* Bits of a pixel do not depend on the images around it. */
static void test_batch_invariant(void **state)
{
    enum { N = 5, C = 20, M = 40, HW = 7 * 7 };
    (void)state;
    seed = 3;
    float *x = make(QN_F32, N * C * HW), *w = make(QN_F32, M * C * 9);
    float whole[N * M * HW];
    for (int i = 0; i < N * C * HW; i++)
        x[i] *= 1.37f;
    for (int last = 0; last < 2; last++)
        for (int64_t n = N; n > 0; n--) {
            test_node t;
            test_node_init(&t, "Conv", 11, 2, 1);
            test_node_ints(&t, "pads", 4, (int64_t[]){ 1, 1, 1, 1 });
            test_node_input(&t, 0, QN_F32, 4, (int64_t[]){ n, C, 7, 7 }, x);
            test_node_input(&t, 1, QN_F32, 4, (int64_t[]){ M, C, 3, 3 }, w);
            t.node.order = last ? QN_ORDER_NHWC : QN_ORDER_PLAIN;
            assert_int_equal(test_node_run_packed(&t, 2), QN_OK);
            if (n == N)
                memcpy(whole, t.out[0].data, sizeof whole);
            if (memcmp(whole, t.out[0].data,
                       (size_t)n * M * HW * sizeof *whole))
                fail_msg("%lld images, order %d: other bits", (long long)n,
                         last);
            test_node_release(&t);
        }
    free(x), free(w);
}

static const struct {
    const char *op;
    int rx, rw;
    int64_t x[5], w[5], bias, group;
    const char *name;
    size_t n;
    int64_t v[6];
    qn_status status;
    const char *says;
} bad[] = {
    { "Conv", 2, 2, { 1, 2 }, { 1, 2 }, 0, 1, NULL, 0, { 0 }, QN_SHAPE,
      "spatial dimensions" },
    { "Conv", 4, 3, { 1, 2, 3, 3 }, { 1, 2, 3 }, 0, 1, NULL, 0, { 0 }, QN_SHAPE,
      "equal ranks" },
    { "Conv", 3, 3, { 1, 3, 5 }, { 4, 2, 3 }, 0, 1, NULL, 0, { 0 }, QN_SHAPE,
      "3 input channels, weights for 2" },
    { "Conv", 3, 3, { 1, 4, 5 }, { 3, 2, 3 }, 0, 2, NULL, 0, { 0 }, QN_SHAPE,
      "group 2" },
    { "Conv", 3, 3, { 1, 4, 5 }, { 4, 4, 3 }, 0, 0, NULL, 0, { 0 }, QN_INVALID,
      "group is 0" },
    { "Conv", 3, 3, { 1, 1, 5 }, { 1, 1, 9 }, 0, 1, NULL, 0, { 0 }, QN_SHAPE,
      "kernel of 9" },
    { "Conv", 3, 3, { 1, 1, 5 }, { 1, 1, 0 }, 0, 1, NULL, 0, { 0 }, QN_SHAPE,
      "no taps" },
    { "Conv", 3, 3, { 1, 1, 5 }, { 2, 1, 3 }, 3, 1, NULL, 0, { 0 }, QN_SHAPE,
      "bias [3], [2]" },
    { "Conv", 3, 3, { 1, 1, 5 }, { 1, 1, 3 }, 0, 1, "strides", 1, { 0 },
      QN_INVALID, "strides[0] is 0" },
    { "Conv", 3, 3, { 1, 1, 5 }, { 1, 1, 3 }, 0, 1, "strides", 2, { 1, 1 },
      QN_INVALID, "strides has 2" },
    { "Conv", 3, 3, { 1, 1, 5 }, { 1, 1, 3 }, 0, 1, "pads", 2, { -1, 0 },
      QN_INVALID, "pads[0] is -1" },
    { "Conv", 3, 3, { 1, 1, 5 }, { 1, 1, 3 }, 0, 1, "dilations", 1, { 9 },
      QN_SHAPE, "dilation 9" },
    { "Conv", 3, 3, { 1, 1, 5 }, { 1, 1, 3 }, 0, 1, "kernel_shape", 1, { 2 },
      QN_SHAPE, "kernel_shape" },
    { "ConvTranspose", 3, 3, { 1, 1, 2 }, { 1, 1, 2 }, 0, 1, "pads", 2,
      { 3, 3 }, QN_SHAPE, "cuts" },
    { "ConvTranspose", 3, 3, { 1, 2, 2 }, { 1, 1, 2 }, 0, 1, NULL, 0, { 0 },
      QN_SHAPE, "weights for 1" },
    { "ConvTranspose", 3, 3, { 1, 1, 2 }, { 1, 1, 2 }, 0, 1, "output_shape", 1,
      { -4 }, QN_INVALID, "output_shape[0] is -4" },
};

static void test_rejects(void **state)
{
    static const float data[256];
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        test_node t;
        test_node_init(&t, bad[i].op, 11, bad[i].bias ? 3 : 2, 1);
        test_node_int(&t, "group", bad[i].group);
        if (bad[i].name)
            test_node_ints(&t, bad[i].name, bad[i].n, bad[i].v);
        test_node_input(&t, 0, QN_F32, bad[i].rx, bad[i].x, data);
        test_node_input(&t, 1, QN_F32, bad[i].rw, bad[i].w, data);
        if (bad[i].bias)
            test_node_input(&t, 2, QN_F32, 1, &bad[i].bias, data);
        if (test_node_run(&t) != bad[i].status ||
            !strstr(t.err.text, bad[i].says))
            fail_msg("row %zu: \"%s\"", i, t.err.text);
        test_node_release(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_geometry),
        cmocka_unit_test(test_transpose_same),
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_channels_last),
        cmocka_unit_test(test_plain_input),
        cmocka_unit_test(test_transpose),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_batch_invariant),
        cmocka_unit_test(test_rejects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conv of float in plain order, one to three dimensions. Per image and group,
 *
 *     Y [m, pixels] = W [m, K] x B [K, pixels],   K = channels x taps
 *
 * W is read where it lies. B, the windows side by side, never exists as a
 * whole: each thread makes a few panels of some 32 KB and multiplies at once.
 */
#include "runtime/cpu/conv/conv.h"

#include <string.h>

typedef struct plain {
    qn_conv g;
    const qn_gemm_isa *isa;
    int64_t m, k; /* of one group */
    bool pointwise; /* B is the image itself */
} plain;

typedef struct plain_run {
    const plain *s;
    const qn_launch *k;
    const float *bias, *residual;
} plain_run;

/* One run of pixels of a panel in one output row. */
typedef struct span {
    int at, n;               /* columns of the panel */
    int64_t d, h, w;         /* input position of tap 0 of the first */
} span;

enum { MAX_SPANS = QN_GEMM_MAX_NR };

static int spans_of(const qn_conv *g, int64_t pixel, int n, span *out)
{
    int at = 0, count = 0;
    qn_conv_at p = qn_conv_pixel(g, pixel);
    while (at < n) {
        int64_t left = g->out[QN_CONV_W] - p.o[QN_CONV_W];
        span *s = &out[count++];
        s->at = at;
        s->n = left < n - at ? (int)left : n - at;
        s->d = p.o[QN_CONV_D] * g->stride[QN_CONV_D] - g->pad[QN_CONV_D];
        s->h = p.o[QN_CONV_H] * g->stride[QN_CONV_H] - g->pad[QN_CONV_H];
        s->w = p.o[QN_CONV_W] * g->stride[QN_CONV_W] - g->pad[QN_CONV_W];
        at += s->n;
        p.o[QN_CONV_W] = 0;
        if (++p.o[QN_CONV_H] == g->out[QN_CONV_H]) {
            p.o[QN_CONV_H] = 0;
            p.o[QN_CONV_D]++;
        }
    }
    return count;
}

/* dst[i] = row[w + i * step], zeros outside [0, width). */
static void copy_span(const float *row, int64_t width, int64_t w, int64_t step,
                      int n, float *dst)
{
    int i = 0;
    if (!row) {
        memset(dst, 0, (size_t)n * sizeof *dst);
        return;
    }
    for (; i < n && w + i * step < 0; i++)
        dst[i] = 0;
    int64_t fit = width - w > 0 ? (width - w + step - 1) / step : 0;
    int end = fit < n ? (int)fit : n;
    if (step == 1 && end > i) {
        memcpy(dst + i, row + w + i, (size_t)(end - i) * sizeof *dst);
        i = end;
    }
    for (; i < end; i++)
        dst[i] = row[w + i * step];
    for (; i < n; i++)
        dst[i] = 0;
}

/* Steps [k0, k1) of K for columns [n0, n0 + n). */
static void fill(const void *arg, int64_t batch, int64_t k0, int64_t k1,
                 int64_t n0, int n, int width, float *dst)
{
    const plain_run *r = arg;
    const qn_conv *g = &r->s->g;
    const int64_t per_in = g->c / g->group;
    const float *x = (const float *)r->k->in[0].data +
                     (batch / g->group * g->c + batch % g->group * per_in) *
                         g->in_pixels;
    span spans[MAX_SPANS];
    const int count = spans_of(g, n0, n, spans);
    int64_t c = k0 / g->taps, tap = k0 % g->taps;
    int64_t tw = tap % g->kernel[QN_CONV_W];
    int64_t th = tap / g->kernel[QN_CONV_W] % g->kernel[QN_CONV_H];
    int64_t td = tap / g->kernel[QN_CONV_W] / g->kernel[QN_CONV_H];

    for (int64_t k = k0; k < k1; k++, dst += width) {
        const float *image = x + c * g->in_pixels;
        for (int i = 0; i < count; i++) {
            const span *s = &spans[i];
            int64_t d = s->d + td * g->dilation[QN_CONV_D];
            int64_t h = s->h + th * g->dilation[QN_CONV_H];
            bool in = d >= 0 && d < g->in[QN_CONV_D] && h >= 0 &&
                      h < g->in[QN_CONV_H];
            copy_span(in ? image + (d * g->in[QN_CONV_H] + h) * g->in[QN_CONV_W]
                         : NULL,
                      g->in[QN_CONV_W], s->w + tw * g->dilation[QN_CONV_W],
                      g->stride[QN_CONV_W], s->n, dst + s->at);
        }
        for (int i = n; i < width; i++)
            dst[i] = 0;
        if (++tw < g->kernel[QN_CONV_W])
            continue;
        tw = 0;
        if (++th < g->kernel[QN_CONV_H])
            continue;
        th = 0;
        if (++td == g->kernel[QN_CONV_D]) {
            td = 0;
            c++;
        }
    }
}

static void view(const void *arg, int64_t batch, qn_gemm_view *v)
{
    const plain_run *r = arg;
    const plain *s = r->s;
    const qn_conv *g = &s->g;
    const int64_t group = batch % g->group, image = batch / g->group;
    const int64_t out = (image * g->m + group * s->m) * g->out_pixels;
    v->a = (const float *)r->k->in[1].data + group * s->m * s->k;
    v->lda = (size_t)s->k;
    v->c = (float *)r->k->out[0].data + out;
    v->ldc = (size_t)g->out_pixels;
    v->end = qn_conv_end(r->k->node);
    if (r->bias)
        v->end.row_bias = r->bias + group * s->m;
    if (r->residual) {
        v->end.residual = r->residual + out;
        v->end.ldr = (size_t)g->out_pixels;
    }
    if (s->pointwise && s->m <= 2 * s->isa->mr) {
        v->b = (const float *)r->k->in[0].data +
               (image * g->c + group * (g->c / g->group)) * g->in_pixels;
        v->ldb = (size_t)g->in_pixels;
    }
}

qn_status qn_conv_plain_prepare(qn_prepare *p, qn_error *err)
{
    plain *s = qn_region_alloc(p->region, 1, sizeof *s);
    if (!s)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for a convolution");
    qn_conv *g = &s->g;
    qn_status st = qn_conv_of(p->node, p->in, g, err);
    if (st != QN_OK)
        return st;
    s->isa = qn_gemm_best();
    s->m = g->m / g->group;
    s->k = g->c / g->group * g->taps;
    s->pointwise = g->taps == 1;
    for (int i = 0; i < QN_CONV_DIMS; i++)
        if (g->stride[i] != 1 || g->out[i] != g->in[i])
            s->pointwise = false;
    p->state = s;
    p->workspace = sizeof(float) * (size_t)p->max_threads *
                   qn_gemm_made_floats(s->isa, s->m, g->out_pixels, s->k);
    return QN_OK;
}

qn_status qn_conv_plain_launch(const qn_launch *k)
{
    const plain *s = k->state;
    plain_run r = { .s = s, .k = k, .bias = qn_conv_bias(k),
                    .residual = qn_conv_residual(k) };
    if (s->m == 1 && s->g.group == s->g.c && s->g.c > 1)
        return qn_conv_depthwise_plain(k, &s->g);
    qn_gemm_run_made(k->team, &(qn_gemm_made){
        .isa = s->isa, .batches = s->g.n * s->g.group, .m = s->m,
        .n = s->g.out_pixels, .k = s->k, .view = view, .fill = fill, .arg = &r,
        .workspace = k->workspace });
    return QN_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise convolution in plain order: an output row is the sum of shifted
 * input rows, one per tap. Padding is left out, not multiplied. */
#include "runtime/cpu/conv/conv.h"

typedef struct rows_run {
    const qn_launch *k;
    const qn_conv *g;
    const qn_gemm_isa *isa;
    const float *bias, *residual;
    qn_gemm_end end;
    bool clamp;
    float low, high;
} rows_run;

enum { STRIP = 512 };

/* acc[j] += w * what the tap sees of an input row at output o0 + j */
static void add_tap(const rows_run *r, const float *row, int64_t tap, float w,
                    int64_t o0, int64_t n, float *acc)
{
    const qn_conv *g = r->g;
    const int64_t s = g->stride[QN_CONV_W], width = g->in[QN_CONV_W];
    const int64_t shift = tap * g->dilation[QN_CONV_W] - g->pad[QN_CONV_W];
    int64_t from = shift < 0 ? (-shift + s - 1) / s : 0;
    int64_t to = width > shift ? (width - shift + s - 1) / s : 0;
    from = from > o0 ? from : o0;
    to = to < o0 + n ? to : o0 + n;
    if (from < to)
        r->isa->axpy(acc + (from - o0), row + (from * s + shift), (size_t)s, w,
                     (size_t)(to - from), false);
}

/* Columns [o0, o0 + n) of row (od, oh): summed beside the output, since a
 * residual may lie where that does. */
static void one_strip(const rows_run *r, int64_t image, int64_t od, int64_t oh,
                      int64_t o0, int64_t n)
{
    const qn_conv *g = r->g;
    const int64_t c = image % g->c;
    const float *x = (const float *)r->k->in[0].data + image * g->in_pixels;
    const float *w = (const float *)r->k->in[1].data + c * g->taps;
    const int64_t at = image * g->out_pixels +
                       (od * g->out[QN_CONV_H] + oh) * g->out[QN_CONV_W] + o0;
    float *y = (float *)r->k->out[0].data + at;
    float acc[STRIP] = { 0 };

    for (int64_t td = 0; td < g->kernel[QN_CONV_D]; td++)
        for (int64_t th = 0; th < g->kernel[QN_CONV_H]; th++) {
            int64_t d = od * g->stride[QN_CONV_D] - g->pad[QN_CONV_D] +
                        td * g->dilation[QN_CONV_D];
            int64_t h = oh * g->stride[QN_CONV_H] - g->pad[QN_CONV_H] +
                        th * g->dilation[QN_CONV_H];
            int64_t tap = (td * g->kernel[QN_CONV_H] + th) *
                          g->kernel[QN_CONV_W];
            if (d < 0 || d >= g->in[QN_CONV_D] || h < 0 ||
                h >= g->in[QN_CONV_H])
                continue;
            const float *row = x + (d * g->in[QN_CONV_H] + h) * g->in[QN_CONV_W];
            for (int64_t tw = 0; tw < g->kernel[QN_CONV_W]; tw++)
                add_tap(r, row, tw, w[tap + tw], o0, n, acc);
        }
    for (int64_t i = 0; i < n; i++) {
        float v = acc[i];
        if (r->bias)
            v += r->bias[c];
        if (r->residual)
            v += r->residual[at + i];
        if (r->clamp) { /* the upper bound wins */
            v = v < r->low ? r->low : v;
            v = v > r->high ? r->high : v;
        }
        y[i] = v;
    }
    r->isa->act(r->end.act, r->end.act_a, r->end.act_b, y, (size_t)n);
}

static void piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const rows_run *r = arg;
    const int64_t h = r->g->out[QN_CONV_H], d = r->g->out[QN_CONV_D];
    const int64_t w = r->g->out[QN_CONV_W];
    (void)thread;
    for (int64_t item = begin; item < end; item++)
        for (int64_t o = 0; o < w; o += STRIP)
            one_strip(r, item / h / d, item / h % d, item % h, o,
                      w - o < STRIP ? w - o : STRIP);
}

qn_status qn_conv_depthwise_plain(const qn_launch *k, const qn_conv *g)
{
    rows_run r = { .k = k, .g = g, .isa = qn_gemm_best(),
                   .bias = qn_conv_bias(k), .residual = qn_conv_residual(k),
                   .end = qn_conv_end(k->node) };
    const int64_t rows = g->n * g->c * g->out[QN_CONV_D] * g->out[QN_CONV_H];
    r.clamp = qn_gemm_clamp(&r.end, &r.low, &r.high);
    if (rows && g->out[QN_CONV_W])
        qn_parallel(k->team, rows,
                    1 + 100000 / (g->out[QN_CONV_W] * g->taps), piece, &r);
    return QN_OK;
}

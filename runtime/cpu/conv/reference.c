/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conv and ConvTranspose by their definition, any element type, plain order: an
 * output row is summed in strips, taps outermost, channels before taps. Both
 * 16-bit types are summed in float and rounded once.
 */
#include "runtime/cpu/conv/conv.h"

#include "runtime/base/half.h"

#include <string.h>

enum { STRIP = 128 };

typedef struct reference {
    qn_conv g;
    bool transposed;
} reference;

qn_status qn_conv_reference_prepare(qn_prepare *p, qn_error *err)
{
    reference *s = qn_region_alloc(p->region, 1, sizeof *s);
    if (!s)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for a convolution");
    s->transposed = !strcmp(p->node->op->name, "ConvTranspose");
    p->state = s;
    return qn_conv_of(p->node, p->in, &s->g, err);
}

/* The input index that output `o` sees through `tap`, or -1. */
static int64_t source(const reference *s, int axis, int64_t o, int64_t tap)
{
    const qn_conv *g = &s->g;
    int64_t at = tap * g->dilation[axis];
    if (s->transposed) {
        at = o + g->pad[axis] - at;
        if (at < 0 || at % g->stride[axis])
            return -1;
        at /= g->stride[axis];
    } else {
        at += o * g->stride[axis] - g->pad[axis];
    }
    return at >= 0 && at < g->in[axis] ? at : -1;
}

/* Weight number of (output channel m, input channel ic of its group, tap 0). */
static int64_t weight(const reference *s, int64_t m, int64_t ic)
{
    const qn_conv *g = &s->g;
    const int64_t per_in = g->c / g->group, per_out = g->m / g->group;
    if (s->transposed)
        return ((m / per_out * per_in + ic) * per_out + m % per_out) * g->taps;
    return (m * per_in + ic) * g->taps;
}

typedef struct reference_run {
    const reference *s;
    const qn_launch *k;
} reference_run;

#define SAME(x) (x)
#define REFERENCE(name, type, sum, get, put)                                   \
    static void add_##name(const reference *s, const type *x, const type *w,   \
                           int64_t o0, int64_t n, sum *acc)                    \
    {                                                                          \
        for (int64_t tap = 0; tap < s->g.kernel[QN_CONV_W]; tap++) {           \
            const sum v = get(w[tap]);                                         \
            for (int64_t j = 0; j < n; j++) {                                  \
                int64_t i = source(s, QN_CONV_W, o0 + j, tap);                 \
                if (i >= 0)                                                    \
                    acc[j] += v * get(x[i]);                                   \
            }                                                                  \
        }                                                                      \
    }                                                                          \
    static void strip_##name(const reference_run *r, int64_t n, int64_t m,     \
                             int64_t od, int64_t oh, int64_t o0, int64_t len)  \
    {                                                                          \
        const reference *s = r->s;                                             \
        const qn_conv *g = &s->g;                                              \
        const int64_t per_in = g->c / g->group;                                \
        const int64_t c0 = m / (g->m / g->group) * per_in;                     \
        const type *x = r->k->in[0].data, *w = r->k->in[1].data;               \
        const type *bias = r->k->n_in > 2 && qn_present(&r->k->in[2])          \
                               ? r->k->in[2].data : NULL;                      \
        sum acc[STRIP] = { 0 };                                                \
        for (int64_t ic = 0; ic < per_in; ic++)                                \
            for (int64_t td = 0; td < g->kernel[QN_CONV_D]; td++) {            \
                int64_t d = source(s, QN_CONV_D, od, td);                      \
                for (int64_t th = 0; d >= 0 && th < g->kernel[QN_CONV_H];      \
                     th++) {                                                   \
                    int64_t h = source(s, QN_CONV_H, oh, th);                  \
                    if (h < 0)                                                 \
                        continue;                                              \
                    int64_t row = ((n * g->c + c0 + ic) * g->in[QN_CONV_D] +   \
                                   d) * g->in[QN_CONV_H] + h;                  \
                    int64_t tap = (td * g->kernel[QN_CONV_H] + th) *           \
                                  g->kernel[QN_CONV_W];                        \
                    add_##name(s, x + row * g->in[QN_CONV_W],                  \
                               w + weight(s, m, ic) + tap, o0, len, acc);      \
                }                                                              \
            }                                                                  \
        type *y = (type *)r->k->out[0].data +                                  \
                  (((n * g->m + m) * g->out[QN_CONV_D] + od) *                 \
                       g->out[QN_CONV_H] + oh) * g->out[QN_CONV_W] + o0;       \
        for (int64_t j = 0; j < len; j++)                                      \
            y[j] = put(acc[j] + (bias ? get(bias[m]) : 0));                    \
    }                                                                          \
    static void piece_##name(void *arg, int64_t begin, int64_t end,            \
                             int thread)                                       \
    {                                                                          \
        const reference_run *r = arg;                                          \
        const qn_conv *g = &r->s->g;                                           \
        const int64_t w = g->out[QN_CONV_W];                                   \
        (void)thread;                                                          \
        for (int64_t item = begin; item < end; item++) {                       \
            int64_t oh = item % g->out[QN_CONV_H];                             \
            int64_t at = item / g->out[QN_CONV_H];                             \
            int64_t od = at % g->out[QN_CONV_D];                               \
            at /= g->out[QN_CONV_D];                                           \
            for (int64_t o = 0; o < w; o += STRIP)                             \
                strip_##name(r, at / g->m, at % g->m, od, oh, o,               \
                             w - o < STRIP ? w - o : STRIP);                   \
        }                                                                      \
    }

REFERENCE(f32, float, float, SAME, SAME)
REFERENCE(f64, double, double, SAME, SAME)
REFERENCE(f16, uint16_t, float, qn_f16_to_f32, qn_f32_to_f16)
REFERENCE(bf16, uint16_t, float, qn_bf16_to_f32, qn_f32_to_bf16)

qn_status qn_conv_reference(const qn_launch *k)
{
    reference_run r = { .s = k->state, .k = k };
    const qn_conv *g = &r.s->g;
    const int64_t rows = g->n * g->m * g->out[QN_CONV_D] * g->out[QN_CONV_H];
    const int64_t work = g->c / g->group * g->taps * g->out[QN_CONV_W] + 1;
    const qn_dtype dtype = k->in[0].dtype;
    if (!rows || !g->out[QN_CONV_W])
        return QN_OK;
    qn_parallel(k->team, rows, 1 + 20000 / work,
                dtype == QN_F32   ? piece_f32
                : dtype == QN_F64 ? piece_f64
                : dtype == QN_F16 ? piece_f16
                                  : piece_bf16,
                &r);
    return QN_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ConvTranspose of float in plain order, gathered: an output element takes from
 * the inputs that its taps reach, so no sum is scattered and none is shared.
 *
 * With stride s, outputs o with (o + pad) % s equal to f form a phase: all of
 * them see the same taps, those with tap * dilation % s == f, and neighbours of
 * one phase see neighbouring inputs. Each phase is thus one product
 *
 *     Y [m, outputs of the phase] = W [m, channels x taps of the phase] x B
 *
 * with B copied panel by panel as in plain.c, and its columns s apart. Weights
 * are reordered at load to [group][phase][m][channel][tap]: as many as before.
 */
#include "runtime/cpu/conv/conv.h"

#include "runtime/base/checked.h"

#include <string.h>

enum { ROWS = 96, STEPS = 512 }; /* of W at once; of K at once */

/* One phase along one axis. */
typedef struct axis_phase {
    int64_t taps;       /* how many it sees */
    int64_t first, n;   /* outputs first, first + stride ... */
} axis_phase;

static int64_t phase_taps(const qn_conv *g, int axis, int64_t f)
{
    int64_t n = 0;
    for (int64_t t = 0; t < g->kernel[axis]; t++)
        n += t * g->dilation[axis] % g->stride[axis] == f;
    return n;
}

/* The i-th tap of a phase. */
static int64_t phase_tap(const qn_conv *g, int axis, int64_t f, int64_t i)
{
    int64_t t = 0;
    for (; t < g->kernel[axis]; t++)
        if (t * g->dilation[axis] % g->stride[axis] == f && i-- == 0)
            break;
    return t;
}

static axis_phase axis_of(const qn_conv *g, int axis, int64_t f)
{
    const int64_t s = g->stride[axis];
    axis_phase p = { .taps = phase_taps(g, axis, f) };
    p.first = ((f - g->pad[axis]) % s + s) % s;
    if (g->out[axis] > p.first)
        p.n = (g->out[axis] - p.first + s - 1) / s;
    return p;
}

typedef struct phase {
    axis_phase axis[QN_CONV_DIMS];
    int64_t f[QN_CONV_DIMS];
    int64_t k;      /* steps: channels x taps */
    int64_t pixels; /* outputs */
    int64_t w;      /* floats before its weights, in a group */
} phase;

static int64_t phases(const qn_conv *g)
{
    return g->stride[QN_CONV_D] * g->stride[QN_CONV_H] * g->stride[QN_CONV_W];
}

/* Phase number `i`, given what the ones before took. */
static phase phase_of(const qn_conv *g, int64_t i, int64_t w)
{
    phase p = { .w = w, .k = g->c / g->group, .pixels = 1 };
    for (int axis = QN_CONV_DIMS - 1; axis >= 0; axis--) {
        p.f[axis] = i % g->stride[axis];
        i /= g->stride[axis];
        p.axis[axis] = axis_of(g, axis, p.f[axis]);
        p.k *= p.axis[axis].taps;
        p.pixels *= p.axis[axis].n;
    }
    return p;
}

/* ---- weights ---- */

size_t qn_conv_transpose_packed(const qn_conv *g)
{
    size_t floats;
    if (!qn_mul_size((size_t)g->c, (size_t)(g->m / g->group), &floats) ||
        !qn_mul_size(floats, (size_t)g->taps, &floats))
        return 0;
    return floats;
}

void qn_conv_transpose_pack(const qn_conv *g, const float *w, float *dst)
{
    const int64_t per_in = g->c / g->group, m = g->m / g->group;
    for (int64_t group = 0; group < g->group; group++)
        for (int64_t i = 0; i < phases(g); i++) {
            phase p = phase_of(g, i, 0);
            const axis_phase *a = p.axis;
            for (int64_t o = 0; p.k && o < m; o++)
                for (int64_t k = 0; k < p.k; k++) {
                    int64_t rest = k, tap[QN_CONV_DIMS];
                    for (int axis = QN_CONV_DIMS - 1; axis >= 0; axis--) {
                        tap[axis] = phase_tap(g, axis, p.f[axis],
                                              rest % a[axis].taps);
                        rest /= a[axis].taps;
                    }
                    int64_t at = (tap[QN_CONV_D] * g->kernel[QN_CONV_H] +
                                  tap[QN_CONV_H]) * g->kernel[QN_CONV_W] +
                                 tap[QN_CONV_W];
                    *dst++ = w[((group * per_in + rest) * m + o) * g->taps + at];
                }
        }
}

/* ---- plan ---- */

typedef struct transpose {
    qn_conv g;
    const qn_gemm_isa *isa;
    bool packed;
    int64_t m;        /* of one group */
    int64_t n_phases; /* those with outputs */
    const phase *phase;
    const int64_t *first; /* [n_phases + 1] items before each */
    int64_t row_blocks;
    size_t packed_floats, thread_floats;
} transpose;

qn_status qn_conv_transpose_prepare(qn_prepare *p, qn_error *err)
{
    transpose *s = qn_region_alloc(p->region, 1, sizeof *s);
    if (!s)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for a convolution");
    qn_conv *g = &s->g;
    qn_status st = qn_conv_of(p->node, p->in, g, err);
    if (st != QN_OK)
        return st;
    int64_t all;
    if (!qn_mul_i64(g->stride[QN_CONV_D] * g->stride[QN_CONV_H],
                    g->stride[QN_CONV_W], &all) || all > 1 << 16)
        return qn_fail(err, QN_UNSUPPORTED, "more than 65536 phases");
    s->isa = qn_gemm_best();
    s->packed = p->packed[1] != NULL;
    s->m = g->m / g->group;
    s->row_blocks = (s->m + ROWS - 1) / ROWS;
    phase *list = qn_region_alloc(p->region, (size_t)all, sizeof *list);
    int64_t *first = qn_region_alloc(p->region, (size_t)all + 1, sizeof *first);
    if (!list || !first)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for %lld phases",
                       (long long)all);
    const int64_t nr = 2 * s->isa->vec;
    int64_t w = 0;
    for (int64_t i = 0; i < all; i++) {
        phase one = phase_of(g, i, w);
        w += s->m * one.k;
        if (!one.pixels)
            continue;
        list[s->n_phases] = one;
        first[s->n_phases + 1] = first[s->n_phases] +
                                 (one.pixels + nr - 1) / nr * s->row_blocks *
                                     g->n * g->group;
        s->n_phases++;
    }
    s->phase = list;
    s->first = first;
    s->packed_floats = s->packed ? 0 : qn_conv_transpose_packed(g);
    s->packed_floats = (s->packed_floats + 15) & ~(size_t)15;
    s->thread_floats = (size_t)((STEPS + ROWS) * nr);
    p->workspace = sizeof(float) *
                   (s->packed_floats +
                    s->thread_floats * (size_t)p->max_threads);
    p->state = s;
    return QN_OK;
}

/* ---- launch ---- */

typedef struct transpose_run {
    const transpose *s;
    const qn_launch *k;
    const float *w, *bias, *residual;
    qn_gemm_end end;
} transpose_run;

/* Outputs j .. j + n of a phase as (d, h, w) numbers within it. */
typedef struct column {
    int64_t j[QN_CONV_DIMS];
} column;

static void columns_of(const phase *p, int64_t j, int n, column *out)
{
    for (int i = 0; i < n; i++, j++) {
        int64_t rest = j;
        for (int axis = QN_CONV_DIMS - 1; axis >= 0; axis--) {
            out[i].j[axis] = rest % p->axis[axis].n;
            rest /= p->axis[axis].n;
        }
    }
}

/* Steps [k0, k1) of K for these columns: dst[k1 - k0][width]. */
static void fill(const transpose_run *r, const phase *p, const float *x,
                 int64_t k0, int64_t k1, const column *cols, int n, int width,
                 float *dst)
{
    const qn_conv *g = &r->s->g;
    for (int64_t k = k0; k < k1; k++, dst += width) {
        int64_t rest = k, base[QN_CONV_DIMS];
        for (int axis = QN_CONV_DIMS - 1; axis >= 0; axis--) {
            const axis_phase *a = &p->axis[axis];
            int64_t tap = phase_tap(g, axis, p->f[axis], rest % a->taps);
            base[axis] = (a->first + g->pad[axis] - tap * g->dilation[axis]) /
                         g->stride[axis];
            rest /= a->taps;
        }
        const float *image = x + rest * g->in_pixels;
        for (int i = 0; i < n; i++) {
            int64_t d = base[QN_CONV_D] + cols[i].j[QN_CONV_D];
            int64_t h = base[QN_CONV_H] + cols[i].j[QN_CONV_H];
            int64_t w = base[QN_CONV_W] + cols[i].j[QN_CONV_W];
            bool in = d >= 0 && d < g->in[QN_CONV_D] && h >= 0 &&
                      h < g->in[QN_CONV_H] && w >= 0 && w < g->in[QN_CONV_W];
            dst[i] = in ? image[(d * g->in[QN_CONV_H] + h) * g->in[QN_CONV_W] +
                                w]
                        : 0;
        }
        for (int i = n; i < width; i++)
            dst[i] = 0;
    }
}

/* sum[rows][width] to their places, s apart, with what comes after the sum. */
static void spread(const transpose_run *r, const phase *p, int64_t out,
                   int64_t m0, int64_t rows, const column *cols, int n,
                   int width, float *sum)
{
    const qn_conv *g = &r->s->g;
    float *y = r->k->out[0].data, low, high;
    const bool clamp = qn_gemm_clamp(&r->end, &low, &high);
    int64_t to[QN_GEMM_MAX_NR];
    for (int i = 0; i < n; i++) {
        int64_t o[QN_CONV_DIMS];
        for (int axis = 0; axis < QN_CONV_DIMS; axis++)
            o[axis] = p->axis[axis].first + cols[i].j[axis] * g->stride[axis];
        to[i] = (o[QN_CONV_D] * g->out[QN_CONV_H] + o[QN_CONV_H]) *
                    g->out[QN_CONV_W] + o[QN_CONV_W];
    }
    for (int64_t row = 0; row < rows; row++, sum += width) {
        const int64_t base = out + row * g->out_pixels;
        for (int i = 0; i < n; i++) {
            float v = sum[i];
            if (r->bias)
                v += r->bias[m0 + row];
            if (r->residual)
                v += r->residual[base + to[i]];
            if (clamp)
                v = v < low ? low : v > high ? high : v;
            sum[i] = v;
        }
        r->s->isa->act(r->end.act, r->end.act_a, r->end.act_b, sum, (size_t)n);
        for (int i = 0; i < n; i++)
            y[base + to[i]] = sum[i];
    }
}

/* Item: (image, group, panel of pixels, block of rows). */
static void one_item(const transpose_run *r, const phase *p, int64_t item,
                     float *b)
{
    const transpose *s = r->s;
    const qn_conv *g = &s->g;
    const qn_gemm_isa *isa = s->isa;
    const int64_t nr = 2 * isa->vec, panels = (p->pixels + nr - 1) / nr;
    const int64_t rb = item % s->row_blocks, panel = item / s->row_blocks % panels;
    const int64_t group = item / s->row_blocks / panels % g->group;
    const int64_t image = item / s->row_blocks / panels / g->group;
    const int64_t r0 = s->m * rb / s->row_blocks;
    const int64_t rows = s->m * (rb + 1) / s->row_blocks - r0;
    const int64_t per_in = g->c / g->group, left = p->pixels - panel * nr;
    const int n = (int)(left < nr ? left : nr);
    const int width = qn_gemm_panel_width(isa, p->pixels, panel);
    const float *x = (const float *)r->k->in[0].data +
                     (image * g->c + group * per_in) * g->in_pixels;
    const float *w = r->w + group * per_in * s->m * g->taps + p->w + r0 * p->k;
    float *sum = b + STEPS * nr;
    column cols[QN_GEMM_MAX_NR];
    const float *a[QN_GEMM_MAX_MR];
    const int64_t tiles = (rows + isa->mr - 1) / isa->mr;
    int64_t k0 = 0;

    columns_of(p, panel * nr, n, cols);
    do {
        int64_t k1 = p->k - k0 < STEPS ? p->k : k0 + STEPS;
        fill(r, p, x, k0, k1, cols, n, width, b);
        for (int64_t i = 0; i < tiles; i++) {
            int64_t t0 = rows * i / tiles, t1 = rows * (i + 1) / tiles;
            for (int64_t t = t0; t < t1; t++)
                a[t - t0] = w + t * p->k;
            isa->tile[width > isa->vec][t1 - t0 - 1](&(qn_gemm_tile){
                .a = a, .a_off = (size_t)k0, .taps = 1,
                .depth = (size_t)(k1 - k0), .b = b, .ldb = (size_t)width,
                .first = k0 == 0, .last = false, .part = sum + t0 * width,
                .ldp = (size_t)width });
        }
        k0 = k1;
    } while (k0 < p->k);
    const int64_t m0 = group * s->m + r0;
    spread(r, p, (image * g->m + m0) * g->out_pixels, m0, rows, cols, n, width,
           sum);
}

static void piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const transpose_run *r = arg;
    const transpose *s = r->s;
    float *own = (float *)r->k->workspace + s->packed_floats +
                 s->thread_floats * (size_t)thread;
    int64_t at = 0;
    for (int64_t item = begin; item < end; item++) {
        while (item >= s->first[at + 1])
            at++;
        one_item(r, &s->phase[at], item - s->first[at], own);
    }
}

qn_status qn_conv_transpose_launch(const qn_launch *k)
{
    const transpose *s = k->state;
    const qn_conv *g = &s->g;
    transpose_run r = { .s = s, .k = k, .w = k->packed[1],
                        .bias = qn_conv_bias(k),
                        .residual = qn_conv_residual(k),
                        .end = qn_conv_end(k->node) };
    if (!s->packed) {
        qn_conv_transpose_pack(g, k->in[1].data, k->workspace);
        r.w = k->workspace;
    }
    const int64_t items = s->n_phases ? s->first[s->n_phases] : 0;
    const int64_t work = (g->c / g->group * g->taps / s->n_phases + 8) *
                         (s->m < ROWS ? s->m : ROWS) * 2 * s->isa->vec;
    if (items)
        qn_parallel(k->team, items, 1 + 500000 / (work + 1), piece, &r);
    return QN_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conv of float with output N H W C. The rows of the matrix product are output
 * pixels, of all images in one sequence; its K steps are taps, then channels:
 *
 *   rows[tap][pixel] -> C floats of the input, or zeros beyond its edge
 *
 * A depthwise layer has no K to speak of: a piece of an output row is summed
 * directly, from pointers to the columns that its windows share.
 *
 * With a plain input (a model's own, few channels) the windows of a few pixels
 * are copied side by side instead, K steps being channels, then taps.
 */
#include "runtime/cpu/conv/conv.h"

#include "runtime/base/checked.h"

#include <string.h>

enum {
    POINTERS = 2048, /* row pointers per thread, about */
    COPIED = 8192,   /* floats of copied windows per thread, about */
    ROW = 64,        /* depthwise: most pixels of an output row at once */
    SLACK = 8        /* floats past a copied window that may be overwritten */
};

typedef struct last {
    qn_conv g;
    const qn_gemm_isa *isa;
    bool plain_input, depthwise, packed;
    int64_t m, k;           /* of one group */
    int64_t rows;           /* pixels per block */
    int64_t blocks, cuts;   /* pieces of pixels; of a group's panels. Depthwise:
                               output rows; pieces of one */
    int64_t columns;        /* depthwise: of input pixels, for one piece */
    size_t group_floats;    /* packed weights of a group */
    size_t packed_bytes, thread_bytes; /* workspace */
    const int64_t *offset;  /* [taps] */
    const float *zeros;     /* [c] */
} last;

static bool is_depthwise(const qn_conv *g)
{
    return g->group == g->c && g->m == g->c && g->c > 1;
}

static bool group_floats(const qn_conv *g, size_t *floats)
{
    int64_t k;
    return qn_mul_i64(g->c / g->group, g->taps, &k) &&
           qn_gemm_packed_floats(qn_gemm_best(), k, g->m / g->group, floats) &&
           qn_align_size(*floats, 16, floats);
}

size_t qn_conv_last_packed(const qn_conv *g, bool plain_input)
{
    size_t floats;
    if (!plain_input && is_depthwise(g))
        return qn_mul_size((size_t)g->c, (size_t)g->taps, &floats) ? floats : 0;
    if (!group_floats(g, &floats) ||
        !qn_mul_size(floats, (size_t)g->group, &floats) ||
        floats > SIZE_MAX / 8)
        return 0;
    return floats;
}

void qn_conv_last_pack(const qn_conv *g, bool plain_input, const float *w,
                       float *dst)
{
    const int64_t per_in = g->c / g->group, m = g->m / g->group;
    const int64_t k = per_in * g->taps;
    size_t floats = 0;
    if (!plain_input && is_depthwise(g)) {
        for (int64_t c = 0; c < g->c; c++)
            for (int64_t t = 0; t < g->taps; t++)
                dst[t * g->c + c] = w[c * g->taps + t];
        return;
    }
    if (!group_floats(g, &floats))
        return; /* cannot be: the size was asked for before */
    for (int64_t i = 0; i < g->group; i++) {
        qn_gemm_source src = { .data = w + i * m * k, .dtype = QN_F32,
                               .s_inner = 1, .s_n = k };
        if (!plain_input) {
            src.inner_k = per_in;
            src.s_inner = g->taps;
            src.s_outer = 1;
        }
        qn_gemm_pack(qn_gemm_best(), &src, k, m, dst + (size_t)i * floats);
    }
}

/* ---- row pointers ---- */

void qn_conv_offsets(const qn_conv *g, int64_t *offset)
{
    const int64_t w = g->kernel[QN_CONV_W];
    for (int64_t t = 0; t < g->taps; t++)
        offset[t] = (t / w * g->dilation[QN_CONV_H] * g->in[QN_CONV_W] +
                     t % w * g->dilation[QN_CONV_W]) * g->c;
}

void qn_conv_rows(const qn_conv *g, const int64_t *offset, const float *x,
                  const float *zeros, int64_t pixel, int64_t n, size_t step,
                  const float **rows)
{
    const int64_t ih = g->in[QN_CONV_H], iw = g->in[QN_CONV_W];
    const int64_t dh = g->dilation[QN_CONV_H], dw = g->dilation[QN_CONV_W];
    const int64_t reach_h = (g->kernel[QN_CONV_H] - 1) * dh;
    const int64_t reach_w = (g->kernel[QN_CONV_W] - 1) * dw;
    qn_conv_at at = qn_conv_pixel(g, pixel);
    for (int64_t i = 0; i < n; i++, qn_conv_next(g, &at)) {
        int64_t h = at.o[QN_CONV_H] * g->stride[QN_CONV_H] - g->pad[QN_CONV_H];
        int64_t w = at.o[QN_CONV_W] * g->stride[QN_CONV_W] - g->pad[QN_CONV_W];
        /* may lie before the image: a number, not a pointer, until used */
        int64_t base = ((at.n * ih + h) * iw + w) * g->c;
        if (h >= 0 && w >= 0 && h + reach_h < ih && w + reach_w < iw) {
            for (int64_t t = 0; t < g->taps; t++)
                rows[(size_t)t * step + (size_t)i] = x + (base + offset[t]);
            continue;
        }
        int64_t t = 0;
        for (int64_t y = h; y <= h + reach_h; y += dh)
            for (int64_t z = w; z <= w + reach_w; z += dw, t++) {
                bool in = y >= 0 && y < ih && z >= 0 && z < iw;
                rows[(size_t)t * step + (size_t)i] =
                    in ? x + (base + offset[t]) : zeros;
            }
    }
}

/* ---- copied windows of a plain input ---- */

/* One window, channels of group `group`: dst[k], may overwrite SLACK more. */
static void copy_window(const last *s, const float *x, const float *x_end,
                        const qn_conv_at *at, int64_t group, float *dst)
{
    const qn_conv *g = &s->g;
    const int64_t ih = g->in[QN_CONV_H], iw = g->in[QN_CONV_W];
    const int64_t kw = g->kernel[QN_CONV_W], dw = g->dilation[QN_CONV_W];
    const int64_t per_in = g->c / g->group;
    const int64_t h0 = at->o[QN_CONV_H] * g->stride[QN_CONV_H] -
                       g->pad[QN_CONV_H];
    const int64_t w0 = at->o[QN_CONV_W] * g->stride[QN_CONV_W] -
                       g->pad[QN_CONV_W];
    const bool inside = w0 >= 0 && w0 + (kw - 1) * dw < iw;
    for (int64_t c = 0; c < per_in; c++) {
        const int64_t plane = (at->n * g->c + group * per_in + c) * ih;
        for (int64_t t = 0; t < g->kernel[QN_CONV_H]; t++, dst += kw) {
            int64_t h = h0 + t * g->dilation[QN_CONV_H];
            if (h < 0 || h >= ih) {
                memset(dst, 0, (size_t)kw * sizeof *dst);
                continue;
            }
            int64_t row = (plane + h) * iw;
            if (inside && dw == 1 && kw <= SLACK &&
                x_end - x - row - w0 >= SLACK) {
                memcpy(dst, x + row + w0, SLACK * sizeof *dst);
                continue;
            }
            for (int64_t i = 0; i < kw; i++) {
                int64_t w = w0 + i * dw;
                dst[i] = w >= 0 && w < iw ? x[row + w] : 0;
            }
        }
    }
}

/* ---- plan ---- */

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Pixels per block, and how finely columns are cut where blocks are few. */
static void choose_blocks(last *s)
{
    const qn_conv *g = &s->g;
    const int64_t pixels = g->n * g->out_pixels, mr = s->isa->mr;
    const int64_t panels = ceil_div(s->m, 2 * s->isa->vec);
    int64_t rows = s->plain_input ? COPIED / (s->k + SLACK) : POINTERS / g->taps;
    if (s->depthwise) {
        const int64_t width = g->out[QN_CONV_W];
        s->blocks = pixels ? pixels / width : 0;
        s->cuts = ceil_div(width, ROW);
        s->rows = s->cuts ? ceil_div(width, s->cuts) : 0;
        s->columns = (s->rows - 1) * g->stride[QN_CONV_W] +
                     (g->kernel[QN_CONV_W] - 1) * g->dilation[QN_CONV_W] + 1;
        return;
    }
    rows = rows > QN_GEMM_MAX_ROWS ? QN_GEMM_MAX_ROWS : rows;
    rows = rows < mr ? mr : rows / mr * mr;
    s->blocks = pixels ? ceil_div(pixels, rows) : 0;
    s->rows = s->blocks ? ceil_div(pixels, s->blocks) : 0;
    s->cuts = 1;
    if (s->blocks && s->blocks < 16 && !s->plain_input) {
        /* about a million multiply-adds are worth a hand-over */
        int64_t work = s->rows * s->k * 2 * s->isa->vec + 1;
        s->cuts = ceil_div(panels, ceil_div(1000000, work));
    }
}

qn_status qn_conv_last_prepare(qn_prepare *p, qn_error *err)
{
    last *s = qn_region_alloc(p->region, 1, sizeof *s);
    if (!s)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for a convolution");
    qn_conv *g = &s->g;
    qn_status st = qn_conv_of(p->node, p->in, g, err);
    if (st != QN_OK)
        return st;
    s->isa = qn_gemm_best();
    s->plain_input = qn_node_int(p->node, "qn_plain_input", 0) != 0;
    s->depthwise = !s->plain_input && is_depthwise(g);
    s->packed = p->packed[1] != NULL;
    s->m = g->m / g->group;
    s->k = g->c / g->group * g->taps;
    if (!group_floats(g, &s->group_floats))
        return qn_fail(err, QN_TOO_LARGE, "weights of %lld x %lld",
                       (long long)s->m, (long long)s->k);
    choose_blocks(s);
    int64_t *offset = qn_region_alloc(p->region, (size_t)g->taps,
                                      sizeof *offset);
    float *zeros = qn_region_alloc(p->region, (size_t)g->c + 1, sizeof *zeros);
    if (!offset || !zeros)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for a convolution");
    qn_conv_offsets(g, offset);
    s->offset = offset;
    s->zeros = zeros;
    s->packed_bytes = s->packed ? 0
                                : qn_conv_last_packed(g, s->plain_input) *
                                      sizeof(float);
    s->thread_bytes =
        s->plain_input
            ? (size_t)(s->rows * (s->k + SLACK)) * sizeof(float)
            : (size_t)(s->depthwise ? s->columns * g->kernel[QN_CONV_H]
                                    : s->rows * g->taps) *
                  sizeof(const float *);
    if (!qn_align_size(s->packed_bytes, 64, &s->packed_bytes) ||
        !qn_align_size(s->thread_bytes, 64, &s->thread_bytes))
        return qn_fail(err, QN_TOO_LARGE, "workspace of a convolution");
    p->workspace = s->packed_bytes + s->thread_bytes * (size_t)p->max_threads;
    p->state = s;
    return QN_OK;
}

/* ---- launch ---- */

typedef struct last_run {
    const last *s;
    const qn_launch *k;
    const float *w, *x, *x_end;
    qn_gemm_end end;
} last_run;

/* Panels of cut `cut` of one group for a block of pixels. */
static void multiply(const last_run *r, const float *const *rows, size_t step,
                     int64_t pixel, int64_t n, int64_t group, int64_t cut)
{
    const last *s = r->s;
    const qn_conv *g = &s->g;
    const int64_t panels = ceil_div(s->m, 2 * s->isa->vec);
    const int64_t at = pixel * g->m + group * s->m;
    qn_gemm_end end = r->end;
    if (end.bias)
        end.bias += group * s->m;
    if (end.residual)
        end.residual += at;
    qn_gemm_run_block(&(qn_gemm_block){
        .isa = s->isa, .rows = rows, .step = step,
        .offset = s->plain_input ? 0 : (size_t)(group * (g->c / g->group)),
        .taps = s->plain_input ? 1 : (size_t)g->taps,
        .depth = s->plain_input ? (size_t)s->k : (size_t)(g->c / g->group),
        .m = n, .n = s->m, .p0 = panels * cut / s->cuts,
        .p1 = panels * (cut + 1) / s->cuts,
        .b = r->w + (size_t)group * s->group_floats,
        .c = (float *)r->k->out[0].data + at, .ldc = (size_t)g->m,
        .end = &end });
}

/* Pixels [o0, o1) of output row `row`, counted through all images. */
static void depthwise_row(const last_run *r, const float **cols, int64_t row,
                          int64_t o0, int64_t o1)
{
    const last *s = r->s;
    const qn_conv *g = &s->g;
    const size_t c = (size_t)g->c;
    const int64_t ih = g->in[QN_CONV_H], iw = g->in[QN_CONV_W];
    const int64_t pixel = row * g->out[QN_CONV_W] + o0;
    const int64_t h0 = row % g->out[QN_CONV_H] * g->stride[QN_CONV_H] -
                       g->pad[QN_CONV_H];
    const int64_t w0 = o0 * g->stride[QN_CONV_W] - g->pad[QN_CONV_W];
    const int64_t n = (o1 - o0 - 1) * g->stride[QN_CONV_W] +
                      (g->kernel[QN_CONV_W] - 1) * g->dilation[QN_CONV_W] + 1;
    for (int64_t t = 0; t < g->kernel[QN_CONV_H]; t++) {
        const int64_t h = h0 + t * g->dilation[QN_CONV_H];
        const bool in = h >= 0 && h < ih;
        const int64_t base = (row / g->out[QN_CONV_H] * ih + h) * iw;
        const float **to = cols + t * s->columns;
        for (int64_t i = 0, w = w0; i < n; i++, w++)
            to[i] = in && w >= 0 && w < iw ? r->x + (base + w) * g->c : s->zeros;
    }
    float *out = (float *)r->k->out[0].data + pixel * g->c;
    qn_depthwise d = {
        .a = cols, .a_step = (size_t)s->columns,
        .kh = (size_t)g->kernel[QN_CONV_H], .kw = (size_t)g->kernel[QN_CONV_W],
        .stride = (size_t)g->stride[QN_CONV_W],
        .dilation = (size_t)g->dilation[QN_CONV_W], .w = r->w, .channels = c,
        .c = out, .ldc = c, .bias = r->end.bias, .ldr = c, .pixels = o1 - o0 };
    if (r->end.residual)
        d.residual = r->end.residual + pixel * g->c;
    d.clamp = qn_gemm_clamp(&r->end, &d.low, &d.high);
    s->isa->depthwise(&d);
    s->isa->act(r->end.act, r->end.act_a, r->end.act_b, out,
                (size_t)(o1 - o0) * c);
}

static void copied_block(const last_run *r, float *buffer, int64_t pixel,
                         int64_t n)
{
    const last *s = r->s;
    const int64_t ld = s->k + SLACK;
    const float *rows[QN_GEMM_MAX_ROWS];
    for (int64_t group = 0; group < s->g.group; group++) {
        qn_conv_at at = qn_conv_pixel(&s->g, pixel);
        for (int64_t i = 0; i < n; i++, qn_conv_next(&s->g, &at)) {
            rows[i] = buffer + i * ld;
            copy_window(s, r->x, r->x_end, &at, group, buffer + i * ld);
        }
        multiply(r, rows, 0, pixel, n, group, 0);
    }
}

static void piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const last_run *r = arg;
    const last *s = r->s;
    const int64_t pixels = s->g.n * s->g.out_pixels;
    void *own = (char *)r->k->workspace + s->packed_bytes +
                s->thread_bytes * (size_t)thread;
    const float **rows = own;
    int64_t filled = -1;
    for (int64_t item = begin; item < end; item++) {
        int64_t block = item / s->cuts, cut = item % s->cuts;
        if (s->depthwise) {
            const int64_t width = s->g.out[QN_CONV_W];
            depthwise_row(r, rows, block, width * cut / s->cuts,
                          width * (cut + 1) / s->cuts);
            continue;
        }
        int64_t p0 = pixels * block / s->blocks;
        int64_t n = pixels * (block + 1) / s->blocks - p0;
        if (s->plain_input) {
            copied_block(r, own, p0, n);
            continue;
        }
        if (filled != block)
            qn_conv_rows(&s->g, s->offset, r->x, s->zeros, p0, n,
                         (size_t)s->rows, rows);
        filled = block;
        for (int64_t group = 0; group < s->g.group; group++)
            multiply(r, rows, (size_t)s->rows, p0, n, group, cut);
    }
}

qn_status qn_conv_last_launch(const qn_launch *k)
{
    const last *s = k->state;
    const qn_conv *g = &s->g;
    last_run r = { .s = s, .k = k, .w = k->packed[1], .x = k->in[0].data,
                   .end = qn_conv_end(k->node) };
    if (!s->blocks || !g->m)
        return QN_OK;
    r.x_end = r.x + g->n * g->c * g->in_pixels;
    r.end.bias = qn_conv_bias(k);
    r.end.residual = qn_conv_residual(k);
    r.end.ldr = (size_t)g->m;
    if (!s->packed) {
        qn_conv_last_pack(g, s->plain_input, k->in[1].data, k->workspace);
        r.w = k->workspace;
    }
    int64_t work = s->rows * (s->k + 8) * g->m / s->cuts + 1;
    if (s->depthwise)
        work = s->rows * (s->k + 8) * g->c;
    qn_parallel(k->team, s->blocks * s->cuts, ceil_div(500000, work), piece, &r);
    return QN_OK;
}

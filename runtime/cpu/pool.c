/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pooling kernels. Three ways, chosen per launch:
 *
 *   whole   float, the window is the whole input: one fold per plane
 *   rows    float, up to three spatial axes, plain order: the rows under a
 *           window fold into one row of W, then its columns at the stride; and
 *           NHWC with two axes: one call per output pixel, over channels
 *   plain   everything else, element by element in double: the oracle
 *
 * Padding never takes part: -inf for a maximum that sees nothing else, 0 for a
 * mean. A window without any element gives index -1.
 */
#include "runtime/ops/pool.h"
#include "runtime/cpu/element.h"
#include "runtime/cpu/grain.h"
#include "runtime/cpu/simd/span.h"
#include "runtime/cpu/simd/window.h"
#include "runtime/cpu/tables.h"

#include <math.h>
#include <string.h>

typedef enum pool_kind { POOL_MAX, POOL_MEAN, POOL_LP } pool_kind;

typedef struct pool_state {
    qn_shape in; /* physical */
    qn_pool_geometry g;
    int64_t batch, channels, in_size, out_size; /* sizes: spatial elements */
    pool_kind kind;
    bool nhwc, include_pad, column_major;
    double p;
} pool_state;

typedef struct pool_job {
    const pool_state *s;
    qn_dtype dtype;
    const void *x;
    void *y;
    int64_t *indices;    /* NULL: not wanted */
    const float *counts; /* [out W]: columns that a mean divides by */
    float *scratch;      /* [threads][in W] */
    const qn_span_table *span;
    const qn_window_table *window;
} pool_job;

static qn_status resolve(const qn_node *node, const qn_shape *physical,
                         pool_state *s, qn_error *err)
{
    qn_shape logical = *physical;
    s->in = *physical;
    s->nhwc = node->order == QN_ORDER_NHWC && physical->rank == 4;
    if (s->nhwc) {
        logical.dims[1] = physical->dims[3];
        logical.dims[2] = physical->dims[1];
        logical.dims[3] = physical->dims[2];
    }
    qn_status st = qn_pool_geometry_of(node, &logical, &s->g, err);
    if (st != QN_OK)
        return st;
    s->batch = logical.dims[0];
    s->channels = logical.dims[1];
    s->in_size = s->out_size = 1;
    for (int i = 0; i < s->g.n; i++) {
        s->in_size *= s->g.in[i];
        s->out_size *= s->g.out[i];
    }
    const char *name = node->op_name;
    if (!strncmp(name, "Global", 6))
        name += 6;
    s->kind = name[0] == 'M' ? POOL_MAX : name[0] == 'A' ? POOL_MEAN : POOL_LP;
    s->include_pad = qn_node_int(node, "count_include_pad", 0) != 0;
    s->column_major = qn_node_int(node, "storage_order", 0) != 0;
    const qn_attr *p = qn_node_attr(node, "p");
    s->p = !p ? 2 : p->kind == QN_ATTR_FLOAT ? (double)p->f : (double)p->i;
    return QN_OK;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a > 0 ? (a + b - 1) / b : -(-a / b);
}

static int64_t clamp(int64_t v, int64_t lo, int64_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

/* Taps [*from, *to) of output o whose positions lie in [low, high). */
static void taps(const qn_pool_geometry *g, int axis, int64_t o, int64_t low,
                 int64_t high, int64_t *from, int64_t *to)
{
    int64_t start = o * g->stride[axis] - g->lo[axis], d = g->dilation[axis];
    *from = clamp(ceil_div(low - start, d), 0, g->kernel[axis]);
    *to = clamp(ceil_div(high - start, d), *from, g->kernel[axis]);
}

static void taps_inside(const qn_pool_geometry *g, int axis, int64_t o,
                        int64_t *from, int64_t *to)
{
    taps(g, axis, o, 0, g->in[axis], from, to);
}

/* How many positions along an axis a mean divides by. */
static int64_t counted(const pool_state *s, int axis, int64_t o)
{
    const qn_pool_geometry *g = &s->g;
    int64_t from, to;
    if (s->include_pad)
        taps(g, axis, o, -g->lo[axis], g->in[axis] + g->hi[axis], &from, &to);
    else
        taps_inside(g, axis, o, &from, &to);
    return to > from ? to - from : 1;
}

static bool covers_all(const pool_state *s)
{
    for (int i = 0; i < s->g.n; i++)
        if (s->g.kernel[i] != s->g.in[i] || s->g.out[i] != 1 || s->g.lo[i] ||
            s->g.hi[i] || s->g.dilation[i] != 1)
            return false;
    return true;
}

/* ---- plain ---- */

/* Index within the spatial axes as Indices counts it. */
static int64_t spatial_index(const pool_state *s, const int64_t *at)
{
    int64_t index = 0;
    for (int j = 0; j < s->g.n; j++) {
        int i = s->column_major ? s->g.n - 1 - j : j;
        index = index * s->g.in[i] + at[i];
    }
    return index;
}

typedef struct plain_window {
    double value;
    int64_t index; /* of the maximum, -1 if there is none */
} plain_window;

static double lp_term(double v, double p)
{
    v = fabs(v);
    return p == 2 ? v * v : p == 1 ? v : pow(v, p);
}

static plain_window plain_one(const pool_job *j, const int64_t *o, int64_t base,
                              int64_t step)
{
    const pool_state *s = j->s;
    const qn_pool_geometry *g = &s->g;
    int64_t from[QN_MAX_RANK], to[QN_MAX_RANK], k[QN_MAX_RANK], at[QN_MAX_RANK];
    plain_window w = { s->kind == POOL_MAX ? -INFINITY : 0, -1 };
    bool any = true;
    for (int i = 0; i < g->n; i++) {
        taps_inside(g, i, o[i], &from[i], &to[i]);
        k[i] = from[i];
        any = any && from[i] < to[i];
    }
    while (any) {
        int64_t offset = 0;
        for (int i = 0; i < g->n; i++) {
            at[i] = o[i] * g->stride[i] - g->lo[i] + k[i] * g->dilation[i];
            offset = offset * g->in[i] + at[i];
        }
        double v = qn_load_f64(j->x, j->dtype, base + offset * step);
        if (s->kind == POOL_MEAN)
            w.value += v;
        else if (s->kind == POOL_LP)
            w.value += lp_term(v, s->p);
        else if (w.index < 0 || v > w.value || (isnan(v) && !isnan(w.value)))
            w.value = v, w.index = spatial_index(s, at);
        int i = g->n - 1;
        for (; i >= 0 && ++k[i] == to[i]; i--)
            k[i] = from[i];
        any = i >= 0;
    }
    if (s->kind == POOL_LP)
        w.value = s->p == 2   ? sqrt(w.value)
                  : s->p == 1 ? w.value
                              : pow(w.value, 1 / s->p);
    for (int i = 0; s->kind == POOL_MEAN && i < g->n; i++)
        w.value /= (double)counted(s, i, o[i]);
    return w;
}

/* items: planes, batch x channels */
static void plain_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const pool_job *j = arg;
    const pool_state *s = j->s;
    (void)thread;
    for (int64_t plane = begin; plane < end; plane++) {
        int64_t image = plane / s->channels, c = plane % s->channels;
        int64_t step = s->nhwc ? s->channels : 1;
        int64_t in =
            s->nhwc ? image * s->in_size * step + c : plane * s->in_size;
        int64_t out =
            s->nhwc ? image * s->out_size * step + c : plane * s->out_size;
        int64_t o[QN_MAX_RANK] = { 0 };
        for (int64_t n = 0; n < s->out_size; n++, out += step) {
            plain_window w = plain_one(j, o, in, step);
            qn_store_f64(j->y, j->dtype, out, w.value);
            if (j->indices)
                j->indices[out] =
                    w.index < 0 ? -1 : plane * s->in_size + w.index;
            for (int i = s->g.n - 1; i >= 0 && ++o[i] == s->g.out[i]; i--)
                o[i] = 0;
        }
    }
}

/* ---- whole ---- */

static void whole_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const pool_job *j = arg;
    const float *x = j->x;
    float *y = j->y;
    int64_t n = j->s->in_size;
    (void)thread;
    for (int64_t plane = begin; plane < end; plane++) {
        const float *p = x + plane * n;
        y[plane] = j->s->kind == POOL_MAX
                       ? j->span->max(p, n)
                       : (float)(j->span->sum(p, n) / (double)n);
    }
}

/* items: images x blocks of channels */
static void whole_nhwc_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const pool_job *j = arg;
    const pool_state *s = j->s;
    int64_t blocks = (s->channels + QN_SPAN_COLS - 1) / QN_SPAN_COLS;
    (void)thread;
    for (int64_t item = begin; item < end; item++) {
        int64_t image = item / blocks, c = item % blocks * QN_SPAN_COLS;
        int64_t cols = clamp(s->channels - c, 0, QN_SPAN_COLS);
        const float *x =
            (const float *)j->x + image * s->in_size * s->channels + c;
        float *y = (float *)j->y + image * s->channels + c;
        if (s->kind == POOL_MAX) {
            for (int64_t i = 0; i < cols; i++)
                y[i] = -INFINITY;
            j->span->max_rows(y, x, s->in_size, s->channels, cols);
            continue;
        }
        double total[QN_SPAN_COLS] = { 0 };
        j->span->sum_rows(total, x, s->in_size, s->channels, cols);
        for (int64_t i = 0; i < cols; i++)
            y[i] = (float)(total[i] / (double)s->in_size);
    }
}

/* ---- rows ---- */

/* The state with axes D, H, W: missing ones in front have one element. */
static void three_axes(pool_state *s)
{
    qn_pool_geometry *g = &s->g, old = s->g;
    int shift = 3 - old.n;
    g->n = 3;
    for (int i = 0; i < 3; i++) {
        bool had = i >= shift;
        g->in[i] = had ? old.in[i - shift] : 1;
        g->out[i] = had ? old.out[i - shift] : 1;
        g->kernel[i] = had ? old.kernel[i - shift] : 1;
        g->stride[i] = had ? old.stride[i - shift] : 1;
        g->dilation[i] = had ? old.dilation[i - shift] : 1;
        g->lo[i] = had ? old.lo[i - shift] : 0;
        g->hi[i] = had ? old.hi[i - shift] : 0;
    }
}

/* A row for each slice of the window, and one for their fold. */
static int64_t scratch_floats(const qn_pool_geometry *g)
{
    int w = g->n - 1;
    int64_t slices = g->n < 3 ? 1 : clamp(g->kernel[0], 1, g->in[0]);
    return (1 + slices) * g->in[w];
}

static const qn_window_fold *fold_of(const pool_job *j)
{
    return j->s->kind == POOL_MAX ? &j->window->max : &j->window->sum;
}

/* Rows [h0, h1) of the window in one slice; NULL if there are none. Returns a
 * row of the input itself where that is the only one. */
static const float *fold_slice(const pool_job *j, const float *slice,
                               int64_t oh, float *scratch)
{
    const qn_pool_geometry *g = &j->s->g;
    int64_t h0, h1, w = g->in[2];
    taps_inside(g, 1, oh, &h0, &h1);
    if (h0 == h1)
        return NULL;
    int64_t ih = oh * g->stride[1] - g->lo[1] + h0 * g->dilation[1];
    const float *first = slice + ih * w;
    if (h1 - h0 == 1)
        return first;
    fold_of(j)->rows(scratch, first, h1 - h0, g->dilation[1] * w, w);
    return scratch;
}

/* The rows under output row (od, oh) folded into one; NULL if there are none.
 * scratch: a row for the result, then one for each slice of the window. */
static const float *fold_rows(const pool_job *j, const float *plane, int64_t od,
                              int64_t oh, float *scratch)
{
    const qn_pool_geometry *g = &j->s->g;
    int64_t d0, d1, w = g->in[2];
    taps_inside(g, 0, od, &d0, &d1);
    for (int64_t d = d0; d < d1; d++) {
        int64_t id = od * g->stride[0] - g->lo[0] + d * g->dilation[0];
        float *into = scratch + (1 + d - d0) * w;
        const float *row = fold_slice(j, plane + id * g->in[1] * w, oh, into);
        if (!row || d1 - d0 == 1)
            return row;
        if (row != into)
            memcpy(into, row, (size_t)w * sizeof *into);
    }
    if (d0 == d1)
        return NULL;
    fold_of(j)->rows(scratch, scratch + w, d1 - d0, w, w);
    return scratch;
}

/* Outputs whose window hangs over an end see fewer taps. */
static void fold_edge(const pool_job *j, const float *row, float *out,
                      int64_t begin, int64_t end)
{
    const qn_pool_geometry *g = &j->s->g;
    for (int64_t o = begin; o < end; o++) {
        int64_t from, to;
        taps_inside(g, 2, o, &from, &to);
        int64_t at = o * g->stride[2] - g->lo[2] + from * g->dilation[2];
        if (!row || from == to)
            out[o] = j->s->kind == POOL_MAX ? -INFINITY : 0;
        else
            fold_of(j)->columns(out + o, row + at, 1, 1, to - from,
                                g->dilation[2]);
    }
}

static void fold_columns(const pool_job *j, const float *row, float *out)
{
    const qn_pool_geometry *g = &j->s->g;
    int64_t stride = g->stride[2], n = g->out[2], lo = g->lo[2];
    int64_t last = (g->kernel[2] - 1) * g->dilation[2];
    int64_t from = row ? clamp(ceil_div(lo, stride), 0, n) : n;
    int64_t to = clamp(ceil_div(g->in[2] + lo - last, stride), from, n);
    fold_edge(j, row, out, 0, from);
    if (from < to)
        fold_of(j)->columns(out + from, row + from * stride - lo, to - from,
                            stride, g->kernel[2], g->dilation[2]);
    fold_edge(j, row, out, to, n);
}

/* items: planes, batch x channels */
static void rows_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const pool_job *j = arg;
    const pool_state *s = j->s;
    const qn_pool_geometry *g = &s->g;
    float *scratch = j->scratch + thread * scratch_floats(g);
    for (int64_t plane = begin; plane < end; plane++) {
        const float *x = (const float *)j->x + plane * s->in_size;
        float *y = (float *)j->y + plane * s->out_size;
        for (int64_t od = 0; od < g->out[0]; od++)
            for (int64_t oh = 0; oh < g->out[1]; oh++, y += g->out[2]) {
                fold_columns(j, fold_rows(j, x, od, oh, scratch), y);
                if (s->kind == POOL_MEAN)
                    j->window->divide_each(
                        y, (float)(counted(s, 0, od) * counted(s, 1, oh)),
                        j->counts, g->out[2]);
            }
    }
}

/* items: batch x output rows; axes of g are H, W */
static void nhwc_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const pool_job *j = arg;
    const pool_state *s = j->s;
    const qn_pool_geometry *g = &s->g;
    int64_t channels = s->channels, col = g->dilation[1] * channels;
    int64_t row = g->dilation[0] * g->in[1] * channels;
    (void)thread;
    for (int64_t item = begin; item < end; item++) {
        int64_t image = item / g->out[0], oh = item % g->out[0], h0, h1;
        const float *x = (const float *)j->x + image * s->in_size * channels;
        float *y = (float *)j->y + item * g->out[1] * channels;
        taps_inside(g, 0, oh, &h0, &h1);
        int64_t ih = oh * g->stride[0] - g->lo[0] + h0 * g->dilation[0];
        for (int64_t ow = 0; ow < g->out[1]; ow++, y += channels) {
            int64_t w0, w1;
            taps_inside(g, 1, ow, &w0, &w1);
            int64_t iw = ow * g->stride[1] - g->lo[1] + w0 * g->dilation[1];
            if (h0 == h1 || w0 == w1) {
                for (int64_t c = 0; c < channels; c++)
                    y[c] = s->kind == POOL_MAX ? -INFINITY : 0;
                continue;
            }
            const float *p = x + (ih * g->in[1] + iw) * channels;
            fold_of(j)->taps(y, p, h1 - h0, row, w1 - w0, col, channels);
            if (s->kind == POOL_MEAN)
                j->window->divide(
                    y, (float)(counted(s, 0, oh) * counted(s, 1, ow)),
                    channels);
        }
    }
}

/* ---- choice ---- */

static size_t counts_bytes(int64_t out_w)
{
    return ((size_t)out_w * sizeof(float) + 63) & ~(size_t)63;
}

static bool by_rows(const pool_state *s)
{
    return !s->nhwc && s->g.n >= 1 && s->g.n <= 3;
}

static void run_float(pool_job *j, pool_state *s, const qn_launch *k)
{
    int64_t window = 1;
    for (int i = 0; i < s->g.n; i++)
        window *= s->g.kernel[i] < s->g.in[i] ? s->g.kernel[i] : s->g.in[i];
    if (covers_all(s)) {
        int64_t blocks = (s->channels + QN_SPAN_COLS - 1) / QN_SPAN_COLS;
        if (s->nhwc)
            qn_parallel(k->team, s->batch * blocks,
                        qn_grain((double)s->in_size * QN_SPAN_COLS * 0.1),
                        whole_nhwc_piece, j);
        else
            qn_parallel(k->team, s->batch * s->channels,
                        qn_grain(10 + (double)s->in_size * 0.1), whole_piece,
                        j);
        return;
    }
    if (s->nhwc) {
        double pixels = (double)(s->g.out[1] * s->channels);
        qn_parallel(k->team, s->batch * s->g.out[0],
                    qn_grain(pixels * (double)window * 0.15), nhwc_piece, j);
        return;
    }
    three_axes(s);
    const qn_pool_geometry *g = &s->g;
    float *counts = k->workspace;
    for (int64_t ow = 0; s->kind == POOL_MEAN && ow < g->out[2]; ow++)
        counts[ow] = (float)counted(s, 2, ow);
    j->counts = counts;
    j->scratch =
        (float *)(void *)((char *)k->workspace + counts_bytes(g->out[2]));
    qn_parallel(k->team, s->batch * s->channels,
                qn_grain((double)s->out_size * (double)window * 0.3),
                rows_piece, j);
}

static qn_status pool_launch(const qn_launch *k)
{
    pool_state s;
    if (qn_shape_equal(&((const pool_state *)k->state)->in, &k->in[0].shape)) {
        s = *(const pool_state *)k->state;
    } else { /* planned by a bound */
        qn_status st = resolve(k->node, &k->in[0].shape, &s, k->err);
        if (st != QN_OK)
            return st;
    }
    bool indices = k->n_out > 1 && qn_present(&k->out[1]);
    pool_job j = { .s = &s,
                   .dtype = k->in[0].dtype,
                   .x = k->in[0].data,
                   .y = k->out[0].data,
                   .indices = indices ? k->out[1].data : NULL,
                   .span = qn_span_pick(),
                   .window = qn_window_pick() };
    bool fast = j.dtype == QN_F32 && !indices && s.kind != POOL_LP;
    if (fast && (covers_all(&s) || by_rows(&s) || s.nhwc)) {
        run_float(&j, &s, k);
        return QN_OK;
    }
    qn_parallel(k->team, s.batch * s.channels,
                qn_grain((double)s.out_size * 50), plain_piece, &j);
    return QN_OK;
}

static qn_status pool_prepare(qn_prepare *p, qn_error *err)
{
    pool_state *s = qn_region_alloc(p->region, 1, sizeof *s);
    if (!s)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for a pooling state");
    qn_status st = resolve(p->node, &p->in[0].shape, s, err);
    if (st != QN_OK)
        return st;
    if (p->in[0].dtype == QN_F32 && by_rows(s)) {
        int w = s->g.n - 1;
        p->workspace = counts_bytes(s->g.out[w]) +
                       (size_t)p->max_threads * sizeof(float) *
                           (size_t)scratch_floats(&s->g);
    }
    p->state = s;
    return QN_OK;
}

#define ROW(op)                                                      \
    {                                                                \
        .domain = "", .name = op, .since = 1, .until = QN_OPSET_MAX, \
        .flags = QN_KERNEL_NHWC, .prepare = pool_prepare,            \
        .launch = pool_launch                                        \
    }

static const qn_kernel kernels[] = {
    ROW("MaxPool"),           ROW("AveragePool"),   ROW("LpPool"),
    ROW("GlobalAveragePool"), ROW("GlobalMaxPool"), ROW("GlobalLpPool"),
};

QN_KERNEL_TABLE(qn_cpu_pool, kernels);

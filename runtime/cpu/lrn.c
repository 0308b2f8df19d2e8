/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Normalisations along chosen axes: LRN (a window of channels),
 * LpNormalization, MeanVarianceNormalization.
 */
#include "runtime/cpu/element.h"
#include "runtime/cpu/grain.h"
#include "runtime/cpu/reduce.h"
#include "runtime/cpu/simd/norm.h"
#include "runtime/cpu/simd/span.h"
#include "runtime/cpu/tables.h"
#include "runtime/ops/op.h"

#include <math.h>

/* ---- LRN ---- */

typedef struct lrn_job {
    const void *x;
    void *y;
    qn_dtype dtype;
    int64_t channels, size; /* size: positions of one image */
    qn_lrn p;
    float *scratch; /* NHWC: [threads][channels + window] */
    const qn_norm_table *norm;
} lrn_job;

/* items: images x blocks of positions */
static void lrn_columns_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const lrn_job *j = arg;
    int64_t blocks = (j->size + QN_SPAN_COLS - 1) / QN_SPAN_COLS;
    (void)thread;
    for (int64_t item = begin; item < end; item++) {
        int64_t from = item % blocks * QN_SPAN_COLS;
        int64_t cols =
            j->size - from < QN_SPAN_COLS ? j->size - from : QN_SPAN_COLS;
        int64_t at = item / blocks * j->channels * j->size + from;
        j->norm->lrn_columns((float *)j->y + at, (const float *)j->x + at,
                             j->channels, j->size, cols, &j->p);
    }
}

/* items: pixels */
static void lrn_pixels_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const lrn_job *j = arg;
    int64_t n = j->channels + j->p.before + j->p.after;
    float *squares = j->scratch + thread * n;
    for (int64_t i = 0; i < n; i++)
        squares[i] = 0;
    for (int64_t p = begin; p < end; p++)
        j->norm->lrn_pixel((float *)j->y + p * j->channels,
                           (const float *)j->x + p * j->channels, j->channels,
                           squares, &j->p);
}

/* items: images x positions, plain order, any type */
static void lrn_plain_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const lrn_job *j = arg;
    (void)thread;
    for (int64_t item = begin; item < end; item++) {
        int64_t base = item / j->size * j->channels * j->size + item % j->size;
        for (int64_t c = 0; c < j->channels; c++) {
            double sum = 0;
            int64_t from = c > j->p.before ? c - j->p.before : 0;
            for (int64_t r = from; r < j->channels && r <= c + j->p.after;
                 r++) {
                double v = qn_load_f64(j->x, j->dtype, base + r * j->size);
                sum += v * v;
            }
            double d = pow((double)j->p.bias + (double)j->p.alpha * sum,
                           (double)j->p.beta);
            int64_t at = base + c * j->size;
            qn_store_f64(j->y, j->dtype, at,
                         qn_load_f64(j->x, j->dtype, at) / d);
        }
    }
}

static qn_lrn lrn_params(const qn_node *node)
{
    int64_t size = qn_node_int(node, "size", 1);
    return (qn_lrn){ .alpha = qn_node_float(node, "alpha", 1e-4f) / (float)size,
                     .beta = qn_node_float(node, "beta", 0.75f),
                     .bias = qn_node_float(node, "bias", 1.0f),
                     .before = (size - 1) / 2,
                     .after = size / 2 };
}

static bool lrn_nhwc(const qn_node *node, const qn_shape *s)
{
    return node->order == QN_ORDER_NHWC && s->rank == 4;
}

/* A window wider than the channels needs no more than them. */
static void clip_window(qn_lrn *p, int64_t channels)
{
    p->before = p->before < channels ? p->before : channels;
    p->after = p->after < channels ? p->after : channels;
}

static qn_status lrn_launch(const qn_launch *k)
{
    const qn_shape *s = &k->in[0].shape;
    lrn_job j = { .x = k->in[0].data,
                  .y = k->out[0].data,
                  .dtype = k->in[0].dtype,
                  .p = lrn_params(k->node),
                  .scratch = k->workspace,
                  .norm = qn_norm_pick() };
    if (lrn_nhwc(k->node, s)) {
        j.channels = s->dims[3];
        clip_window(&j.p, j.channels);
        qn_parallel(k->team, qn_shape_product(s, 0, 3),
                    qn_grain(20 + (double)j.channels * 2), lrn_pixels_piece,
                    &j);
        return QN_OK;
    }
    j.channels = s->dims[1];
    j.size = qn_shape_product(s, 2, s->rank);
    clip_window(&j.p, j.channels);
    int64_t blocks = (j.size + QN_SPAN_COLS - 1) / QN_SPAN_COLS;
    if (j.dtype == QN_F32)
        qn_parallel(k->team, s->dims[0] * blocks,
                    qn_grain((double)j.channels * QN_SPAN_COLS * 1.5),
                    lrn_columns_piece, &j);
    else
        qn_parallel(k->team, s->dims[0] * j.size,
                    qn_grain((double)j.channels * 50), lrn_plain_piece, &j);
    return QN_OK;
}

static qn_status lrn_prepare(qn_prepare *p, qn_error *err)
{
    const qn_shape *s = &p->in[0].shape;
    (void)err;
    if (lrn_nhwc(p->node, s)) {
        qn_lrn params = lrn_params(p->node);
        clip_window(&params, s->dims[3]);
        p->workspace = (size_t)p->max_threads * sizeof(float) *
                       (size_t)(s->dims[3] + params.before + params.after);
    }
    return QN_OK;
}

static bool is_float(const qn_node *node, uint32_t n_in, const qn_dtype *in)
{
    (void)node, (void)n_in;
    return in[0] == QN_F32;
}

/* ---- groups of elements along axes ---- */

typedef struct axes_job {
    qn_reduce_view v;
    bool mvn;
    int64_t p;
} axes_job;

static double element(const qn_reduce_view *v, int64_t base, int64_t i,
                      int64_t *at)
{
    *at = base + qn_reduce_offset(v->n_folded, v->folded, v->folded_stride, i);
    return qn_load_f64(v->x, v->dtype, *at);
}

/* y = (x - mean) / (deviation + 1e-9) */
static void mvn_group(const qn_reduce_view *v, int64_t base)
{
    double mean = 0, deviation = 0;
    int64_t at;
    for (int64_t i = 0; i < v->count; i++)
        mean += element(v, base, i, &at);
    mean /= (double)v->count;
    for (int64_t i = 0; i < v->count; i++) {
        double d = element(v, base, i, &at) - mean;
        deviation += d * d;
    }
    double divisor = sqrt(deviation / (double)v->count) + 1e-9;
    for (int64_t i = 0; i < v->count; i++) {
        double x = element(v, base, i, &at);
        qn_store_f64(v->y, v->dtype, at, (x - mean) / divisor);
    }
}

/* y = x / norm; all zero stays zero */
static void lp_group(const qn_reduce_view *v, int64_t base, int64_t p)
{
    double norm = 0;
    int64_t at;
    for (int64_t i = 0; i < v->count; i++) {
        double x = element(v, base, i, &at);
        norm += p == 1 ? fabs(x) : x * x;
    }
    norm = p == 1 ? norm : sqrt(norm);
    for (int64_t i = 0; i < v->count; i++) {
        double x = element(v, base, i, &at);
        qn_store_f64(v->y, v->dtype, at, norm == 0 ? x : x / norm);
    }
}

static void axes_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const axes_job *j = arg;
    (void)thread;
    for (int64_t o = begin; o < end; o++) {
        int64_t base =
            qn_reduce_offset(j->v.n_kept, j->v.kept, j->v.kept_stride, o);
        if (j->mvn)
            mvn_group(&j->v, base);
        else
            lp_group(&j->v, base, j->p);
    }
}

static qn_status axes_launch(const qn_launch *k)
{
    static const int64_t usual[] = { 0, 2, 3 };
    const qn_shape *s = &k->in[0].shape;
    axes_job j = { .mvn = k->node->op_name[0] == 'M',
                   .p = qn_node_int(k->node, "p", 2) };
    int64_t axis = qn_node_int(k->node, "axis", -1);
    const int64_t *axes = &axis;
    size_t n = 1;
    uint32_t mask = 0;
    if (j.mvn && !(axes = qn_node_ints(k->node, "axes", &n)))
        axes = usual, n = 3;
    for (size_t i = 0; i < n; i++)
        mask |= 1u << (axes[i] < 0 ? axes[i] + s->rank : axes[i]);
    qn_reduce_split(&j.v, s, mask);
    j.v.dtype = k->in[0].dtype;
    j.v.x = k->in[0].data;
    j.v.y = k->out[0].data;
    qn_parallel(k->team, j.v.outputs, qn_grain(20 + (double)j.v.count * 30),
                axes_piece, &j);
    return QN_OK;
}

#define ROW(op, fl, sup, prep, fn)                                   \
    {                                                                \
        .domain = "", .name = op, .since = 1, .until = QN_OPSET_MAX, \
        .flags = fl, .supports = sup, .prepare = prep, .launch = fn  \
    }

static const qn_kernel kernels[] = {
    ROW("LRN", QN_KERNEL_NHWC, is_float, lrn_prepare, lrn_launch),
    ROW("LRN", 0, NULL, NULL, lrn_launch),
    ROW("LpNormalization", 0, NULL, NULL, axes_launch),
    ROW("MeanVarianceNormalization", 0, NULL, NULL, axes_launch),
};

QN_KERNEL_TABLE(qn_cpu_lrn, kernels);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BatchNormalization, InstanceNormalization, GroupNormalization.
 *
 *     y = (x - mean) / sqrt(var + epsilon) * scale + bias
 *
 * seen as [batch, channels, size] (NHWC: [batch, size, channels]). The
 * difference comes first, so that a large mean costs no digits. Statistics:
 * batch over batch and size, or given; instance over size; group over a run of
 * channels and size. Variances are those of the population. Float tensors run
 * in float with sums as in simd/span.h, the other types in double.
 */
#include "runtime/cpu/simd/norm.h"
#include "runtime/cpu/element.h"
#include "runtime/cpu/grain.h"
#include "runtime/cpu/simd/span.h"
#include "runtime/cpu/tables.h"
#include "runtime/ops/norm.h"

#include <math.h>

typedef struct norm_job {
    const void *x;
    void *y;
    qn_dtype dtype;
    int64_t batch, channels, size;
    bool last; /* channels are innermost */
    const qn_tensor *scale, *bias;
    double epsilon;
    int64_t group; /* channels that share statistics */
    bool scale_by_group;
    double *mean, *var; /* batch: [channels] */
    float *m, *a, *b;   /* batch, float: [channels] */
    const qn_span_table *span;
    const qn_norm_table *norm;
} norm_job;

static double param(const qn_tensor *t, int64_t i)
{
    return qn_load_f64(t->data, t->dtype, i);
}

/* Offset of element i of plane (image, c), and the step to the next. */
static int64_t plane_at(const norm_job *j, int64_t image, int64_t c)
{
    return j->last ? image * j->size * j->channels + c
                   : (image * j->channels + c) * j->size;
}

static int64_t plane_step(const norm_job *j)
{
    return j->last ? j->channels : 1;
}

static double plane_sum(const norm_job *j, int64_t image, int64_t c)
{
    int64_t at = plane_at(j, image, c), step = plane_step(j);
    double sum = 0;
    if (j->dtype == QN_F32 && step == 1)
        return j->span->sum((const float *)j->x + at, j->size);
    for (int64_t i = 0; i < j->size; i++)
        sum += qn_load_f64(j->x, j->dtype, at + i * step);
    return sum;
}

static double plane_deviation(const norm_job *j, int64_t image, int64_t c,
                              double mean)
{
    int64_t at = plane_at(j, image, c), step = plane_step(j);
    double sum = 0;
    if (j->dtype == QN_F32 && step == 1)
        return j->span->sum_sq((const float *)j->x + at, j->size, (float)mean);
    for (int64_t i = 0; i < j->size; i++) {
        double d = qn_load_f64(j->x, j->dtype, at + i * step) - mean;
        sum += d * d;
    }
    return sum;
}

static void plane_affine(const norm_job *j, int64_t image, int64_t c,
                         double mean, double a, double b)
{
    int64_t at = plane_at(j, image, c), step = plane_step(j);
    if (j->dtype == QN_F32 && step == 1) {
        j->norm->affine((float *)j->y + at, (const float *)j->x + at, j->size,
                        (float)mean, (float)a, (float)b);
        return;
    }
    for (int64_t i = 0; i < j->size; i++, at += step)
        qn_store_f64(j->y, j->dtype, at,
                     (qn_load_f64(j->x, j->dtype, at) - mean) * a + b);
}

/* ---- batch ---- */

/* items: channels */
static void batch_stats_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const norm_job *j = arg;
    double count = (double)j->batch * (double)j->size;
    (void)thread;
    for (int64_t c = begin; c < end; c++) {
        double sum = 0, deviation = 0;
        for (int64_t n = 0; n < j->batch; n++)
            sum += plane_sum(j, n, c);
        j->mean[c] = sum / count;
        for (int64_t n = 0; n < j->batch; n++)
            deviation += plane_deviation(j, n, c, j->mean[c]);
        j->var[c] = deviation / count;
    }
}

static double batch_factor(const norm_job *j, int64_t c)
{
    return param(j->scale, c) / sqrt(j->var[c] + j->epsilon);
}

/* items: planes */
static void batch_planes_piece(void *arg, int64_t begin, int64_t end,
                               int thread)
{
    const norm_job *j = arg;
    (void)thread;
    for (int64_t p = begin; p < end; p++) {
        int64_t c = p % j->channels;
        plane_affine(j, p / j->channels, c, j->mean[c], batch_factor(j, c),
                     param(j->bias, c));
    }
}

/* items: pixels, all channels side by side */
static void batch_pixels_piece(void *arg, int64_t begin, int64_t end,
                               int thread)
{
    const norm_job *j = arg;
    (void)thread;
    for (int64_t p = begin; p < end; p++)
        j->norm->affine_each((float *)j->y + p * j->channels,
                             (const float *)j->x + p * j->channels, j->channels,
                             j->m, j->a, j->b);
}

static void batch_apply(norm_job *j, qn_team *team)
{
    bool pixels = j->dtype == QN_F32 && (j->last || j->size == 1);
    if (!pixels) {
        double ns =
            (double)j->size * (j->dtype == QN_F32 && !j->last ? 0.15 : 5);
        qn_parallel(team, j->batch * j->channels, qn_grain(10 + ns),
                    batch_planes_piece, j);
        return;
    }
    for (int64_t c = 0; c < j->channels; c++) {
        j->m[c] = (float)j->mean[c];
        j->a[c] = (float)batch_factor(j, c);
        j->b[c] = (float)param(j->bias, c);
    }
    qn_parallel(team, j->batch * j->size,
                qn_grain(5 + (double)j->channels * 0.2), batch_pixels_piece, j);
}

static bool wanted(const qn_launch *k, uint32_t i)
{
    return i < k->n_out && qn_present(&k->out[i]) && k->out[i].data;
}

/* running = momentum * given + (1 - momentum) * of the batch */
static void running(const qn_launch *k, uint32_t out, uint32_t in,
                    const double *batch, int64_t n)
{
    double momentum = (double)qn_node_float(k->node, "momentum", 0.9f);
    for (int64_t c = 0; wanted(k, out) && c < n; c++)
        qn_store_f64(k->out[out].data, k->out[out].dtype, c,
                     param(&k->in[in], c) * momentum +
                         batch[c] * (1 - momentum));
}

static void saved(const qn_launch *k, uint32_t out, const double *batch,
                  int64_t n)
{
    for (int64_t c = 0; wanted(k, out) && c < n; c++)
        qn_store_f64(k->out[out].data, k->out[out].dtype, c, batch[c]);
}

static norm_job job(const qn_launch *k)
{
    const qn_shape *s = &k->in[0].shape;
    norm_job j = { .x = k->in[0].data,
                   .y = k->out[0].data,
                   .dtype = k->in[0].dtype,
                   .scale = &k->in[1],
                   .bias = &k->in[2],
                   .batch = s->dims[0],
                   .epsilon = (double)qn_node_float(k->node, "epsilon", 1e-5f),
                   .channels = s->rank > 1 ? s->dims[1] : 1,
                   .size = qn_shape_product(s, 2, s->rank),
                   .group = 1,
                   .span = qn_span_pick(),
                   .norm = qn_norm_pick() };
    if (k->node->order == QN_ORDER_NHWC && s->rank == 4) {
        j.last = true;
        j.channels = s->dims[3];
        j.size = s->dims[1] * s->dims[2];
    }
    return j;
}

static qn_status batch_launch(const qn_launch *k)
{
    norm_job j = job(k);
    if (!qn_node_int(k->node, "spatial", 1)) { /* a pair for each position */
        j.channels *= j.size;
        j.size = 1;
    }
    j.mean = k->workspace;
    j.var = j.mean + j.channels;
    j.m = (float *)(j.var + j.channels);
    j.a = j.m + j.channels;
    j.b = j.a + j.channels;
    if (qn_batchnorm_trains(k->node)) {
        qn_parallel(k->team, j.channels,
                    qn_grain((double)j.batch * (double)j.size),
                    batch_stats_piece, &j);
        running(k, 1, 3, j.mean, j.channels);
        running(k, 2, 4, j.var, j.channels);
        saved(k, 3, j.mean, j.channels);
        saved(k, 4, j.var, j.channels);
    } else {
        for (int64_t c = 0; c < j.channels; c++) {
            j.mean[c] = param(&k->in[3], c);
            j.var[c] = param(&k->in[4], c);
        }
    }
    batch_apply(&j, k->team);
    return QN_OK;
}

static qn_status batch_prepare(qn_prepare *p, qn_error *err)
{
    (void)err;
    p->workspace =
        (size_t)qn_count(&p->in[1]) * (2 * sizeof(double) + 3 * sizeof(float));
    return QN_OK;
}

/* Positions that each have a scale of their own only make sense in plain
 * order. */
static bool is_spatial(const qn_node *node, uint32_t n_in, const qn_dtype *in)
{
    (void)n_in, (void)in;
    return qn_node_int(node, "spatial", 1) != 0;
}

/* ---- instance and group ---- */

/* items: images x groups */
static void group_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const norm_job *j = arg;
    int64_t groups = j->channels / j->group;
    double count = (double)j->group * (double)j->size;
    (void)thread;
    for (int64_t item = begin; item < end; item++) {
        int64_t image = item / groups, first = item % groups * j->group;
        double sum = 0, deviation = 0;
        for (int64_t c = first; c < first + j->group; c++)
            sum += plane_sum(j, image, c);
        double mean = sum / count;
        for (int64_t c = first; c < first + j->group; c++)
            deviation += plane_deviation(j, image, c, mean);
        double inv = 1 / sqrt(deviation / count + j->epsilon);
        for (int64_t c = first; c < first + j->group; c++) {
            int64_t i = j->scale_by_group ? c / j->group : c;
            plane_affine(j, image, c, mean, inv * param(j->scale, i),
                         param(j->bias, i));
        }
    }
}

static qn_status group_launch(const qn_launch *k)
{
    norm_job j = job(k);
    int64_t groups = j.channels;
    if (k->node->op_name[0] == 'G') {
        groups = qn_node_int(k->node, "num_groups", 1);
        j.scale_by_group = k->node->opset < 21;
    }
    if (!j.channels)
        return QN_OK;
    j.group = j.channels / groups;
    double ns =
        (double)j.group * (double)j.size * (j.dtype == QN_F32 ? 0.4 : 10);
    qn_parallel(k->team, j.batch * groups, qn_grain(20 + ns), group_piece, &j);
    return QN_OK;
}

#define ROW(op, fl, sup, prep, fn)                                   \
    {                                                                \
        .domain = "", .name = op, .since = 1, .until = QN_OPSET_MAX, \
        .flags = fl, .supports = sup, .prepare = prep, .launch = fn  \
    }

static const qn_kernel kernels[] = {
    ROW("BatchNormalization", QN_KERNEL_NHWC, is_spatial, batch_prepare,
        batch_launch),
    ROW("BatchNormalization", 0, NULL, batch_prepare, batch_launch),
    ROW("InstanceNormalization", 0, NULL, NULL, group_launch),
    ROW("GroupNormalization", 0, NULL, NULL, group_launch),
};

QN_KERNEL_TABLE(qn_cpu_norm, kernels);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LayerNormalization and RMSNormalization over the trailing axes: rows of n.
 *
 *     layer:  y = (x - mean) / sqrt(var + epsilon) * scale + bias
 *     rms:    y = x / sqrt(mean of squares + epsilon) * scale
 *
 * The usual scale has one element per position of a row; float has a vector
 * loop for that. Any other shape that broadcasts goes element by element in
 * double, as do the other types.
 */
#include "runtime/cpu/element.h"
#include "runtime/cpu/grain.h"
#include "runtime/cpu/simd/norm.h"
#include "runtime/cpu/simd/span.h"
#include "runtime/cpu/tables.h"
#include "runtime/ops/op.h"

#include <math.h>

typedef struct layer_job {
    const qn_tensor *x, *scale, *bias; /* bias NULL: none */
    qn_tensor *y, *mean, *inv;         /* mean, inv NULL: not wanted */
    int64_t rows, n;
    double epsilon;
    bool rms, by_row; /* by_row: scale and bias are [n], or one is absent */
    const qn_span_table *span;
    const qn_norm_table *norm;
} layer_job;

static void write_stat(qn_tensor *t, int64_t row, double v)
{
    if (t)
        qn_store_f64(t->data, t->dtype, row, v);
}

/* items: rows */
static void float_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const layer_job *j = arg;
    const float *scale = j->scale->data, *bias = j->bias ? j->bias->data : NULL;
    double n = (double)j->n;
    (void)thread;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)j->x->data + row * j->n;
        float *y = (float *)j->y->data + row * j->n;
        double mean = j->rms ? 0 : j->span->sum(x, j->n) / n;
        double inv =
            1 / sqrt(j->span->sum_sq(x, j->n, (float)mean) / n + j->epsilon);
        j->norm->layer(y, x, j->n, (float)mean, (float)inv, scale, bias);
        write_stat(j->mean, row, mean);
        write_stat(j->inv, row, inv);
    }
}

/* Element of a tensor that broadcasts to the shape of x, at flat index i. */
static double broadcast(const layer_job *j, const qn_tensor *t, int64_t i)
{
    const qn_shape *x = &j->x->shape, *s = &t->shape;
    int64_t offset = 0, stride = 1;
    for (int d = x->rank - 1, e = s->rank - 1; e >= 0; d--, e--) {
        int64_t at = i % x->dims[d];
        i /= x->dims[d];
        if (s->dims[e] != 1)
            offset += at * stride;
        stride *= s->dims[e];
    }
    return qn_load_f64(t->data, t->dtype, offset);
}

static double at(const layer_job *j, const qn_tensor *t, int64_t row, int64_t i)
{
    return j->by_row ? qn_load_f64(t->data, t->dtype, i)
                     : broadcast(j, t, row * j->n + i);
}

static void plain_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const layer_job *j = arg;
    const void *x = j->x->data;
    qn_dtype type = j->x->dtype;
    double n = (double)j->n;
    (void)thread;
    for (int64_t row = begin; row < end; row++) {
        int64_t base = row * j->n;
        double mean = 0, deviation = 0;
        for (int64_t i = 0; !j->rms && i < j->n; i++)
            mean += qn_load_f64(x, type, base + i) / n;
        for (int64_t i = 0; i < j->n; i++) {
            double d = qn_load_f64(x, type, base + i) - mean;
            deviation += d * d;
        }
        double inv = 1 / sqrt(deviation / n + j->epsilon);
        for (int64_t i = 0; i < j->n; i++) {
            double v = (qn_load_f64(x, type, base + i) - mean) * inv *
                       at(j, j->scale, row, i);
            if (j->bias)
                v += at(j, j->bias, row, i);
            qn_store_f64(j->y->data, j->y->dtype, base + i, v);
        }
        write_stat(j->mean, row, mean);
        write_stat(j->inv, row, inv);
    }
}

/* Whether t has the trailing dimensions of x from `axis` on, and no more but
 * leading ones. */
static bool is_row(const qn_tensor *t, const qn_shape *x, int axis)
{
    int tail = x->rank - axis;
    if (!t)
        return true;
    if (t->shape.rank < tail)
        return false;
    for (int i = 0; i < t->shape.rank; i++) {
        int at_x = axis + i - (t->shape.rank - tail);
        if (t->shape.dims[i] != (at_x < axis ? 1 : x->dims[at_x]))
            return false;
    }
    return true;
}

static qn_tensor *optional(const qn_launch *k, uint32_t i)
{
    return i < k->n_out && qn_present(&k->out[i]) && k->out[i].data ? &k->out[i]
                                                                    : NULL;
}

static qn_status layer_launch(const qn_launch *k)
{
    const qn_shape *s = &k->in[0].shape;
    int64_t given = qn_node_int(k->node, "axis", -1);
    int axis = (int)(given < 0 ? given + s->rank : given);
    layer_job j = { .x = &k->in[0],
                    .scale = &k->in[1],
                    .y = &k->out[0],
                    .rms = k->node->op_name[0] == 'R',
                    .epsilon = (double)qn_node_float(k->node, "epsilon", 1e-5f),
                    .mean = optional(k, 1),
                    .inv = optional(k, 2),
                    .span = qn_span_pick(),
                    .norm = qn_norm_pick() };
    if (k->n_in > 2 && qn_present(&k->in[2]))
        j.bias = &k->in[2];
    j.rows = qn_shape_product(s, 0, axis);
    j.n = qn_shape_product(s, axis, s->rank);
    j.by_row = is_row(j.scale, s, axis) && is_row(j.bias, s, axis);
    bool fast =
        j.by_row && k->in[0].dtype == QN_F32 && k->in[1].dtype == QN_F32;
    qn_parallel(k->team, j.rows, qn_grain(30 + (double)j.n * (fast ? 0.5 : 20)),
                fast ? float_piece : plain_piece, &j);
    return QN_OK;
}

static const qn_kernel kernels[] = {
    { .domain = "",
      .name = "LayerNormalization",
      .since = 1,
      .until = QN_OPSET_MAX,
      .launch = layer_launch },
    { .domain = "",
      .name = "RMSNormalization",
      .since = 1,
      .until = QN_OPSET_MAX,
      .launch = layer_launch },
};

QN_KERNEL_TABLE(qn_cpu_layernorm, kernels);

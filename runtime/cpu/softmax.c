/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Softmax, LogSoftmax, Hardmax over the middle axis of [outer, n, inner].
 *
 *     y = exp(x - max) / sum exp(x - max),  log y = (x - max) - log sum
 *
 * The maximum is subtracted first, so nothing overflows; a row of -inf alone
 * gives NaN, as NumPy does. Float has vector loops for inner == 1 (rows) and
 * for inner > 1 (blocks of columns); other types run in double.
 */
#include "runtime/cpu/simd/softmax.h"

#include "runtime/cpu/element.h"
#include "runtime/cpu/grain.h"
#include "runtime/cpu/simd/span.h"
#include "runtime/cpu/tables.h"
#include "runtime/ops/op.h"

#include <math.h>

typedef struct softmax_job {
    const void *x;
    void *y;
    qn_dtype dtype;
    int64_t outer, n, inner;
    int log;
    const qn_span_table *span;
    const qn_softmax_table *soft;
} softmax_job;

static softmax_job view(const qn_launch *k)
{
    const qn_shape *s = &k->in[0].shape;
    softmax_job j = { .x = k->in[0].data,
                      .y = k->out[0].data,
                      .dtype = k->in[0].dtype,
                      .span = qn_span_pick(),
                      .soft = qn_softmax_pick(),
                      .log = k->node->op_name[0] == 'L' };
    bool flat = k->node->opset < 13;
    int64_t axis = qn_node_int(k->node, "axis", flat ? 1 : -1);
    int at = (int)(axis < 0 ? axis + s->rank : axis);
    if (s->rank == 0)
        at = 0;
    int behind = flat || at >= s->rank ? s->rank : at + 1;
    j.outer = qn_shape_product(s, 0, at);
    j.n = qn_shape_product(s, at, behind);
    j.inner = qn_shape_product(s, behind, s->rank);
    return j;
}

static void rows_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const softmax_job *j = arg;
    (void)thread;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)j->x + row * j->n;
        float *y = (float *)j->y + row * j->n;
        float max = j->span->max(x, j->n);
        double sum = j->soft->exp_sum(j->log ? NULL : y, x, j->n, max);
        if (j->log)
            j->soft->subtract(y, x, j->n, max, (float)log(sum));
        else
            j->soft->scale(y, j->n, (float)(1.0 / sum));
    }
}

/* items: outer x blocks of columns */
static void columns_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const softmax_job *j = arg;
    int64_t blocks = (j->inner + QN_SPAN_COLS - 1) / QN_SPAN_COLS;
    (void)thread;
    for (int64_t item = begin; item < end; item++) {
        int64_t from = item % blocks * QN_SPAN_COLS;
        int64_t cols =
            j->inner - from < QN_SPAN_COLS ? j->inner - from : QN_SPAN_COLS;
        int64_t at = item / blocks * j->n * j->inner + from;
        const float *x = (const float *)j->x + at;
        float max[QN_SPAN_COLS];
        for (int64_t i = 0; i < cols; i++)
            max[i] = -INFINITY;
        j->span->max_rows(max, x, j->n, j->inner, cols);
        j->soft->columns((float *)j->y + at, x, j->n, j->inner, cols, max,
                         j->log);
    }
}

/* Position of the first maximum; the first NaN if there is one. */
static int64_t first_max(const softmax_job *j, int64_t base)
{
    int64_t best = 0;
    double most = -INFINITY;
    for (int64_t i = 0; i < j->n; i++) {
        double v = qn_load_f64(j->x, j->dtype, base + i * j->inner);
        if (i == 0 || v > most || (isnan(v) && !isnan(most)))
            most = v, best = i;
    }
    return best;
}

static void plain_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const softmax_job *j = arg;
    (void)thread;
    for (int64_t item = begin; item < end; item++) {
        int64_t base = item / j->inner * j->n * j->inner + item % j->inner;
        if (!j->n)
            continue;
        double max =
            qn_load_f64(j->x, j->dtype, base + first_max(j, base) * j->inner);
        double sum = 0;
        for (int64_t i = 0; i < j->n; i++)
            sum += exp(qn_load_f64(j->x, j->dtype, base + i * j->inner) - max);
        double log_sum = log(sum);
        for (int64_t i = 0; i < j->n; i++) {
            int64_t at = base + i * j->inner;
            double v = qn_load_f64(j->x, j->dtype, at) - max;
            qn_store_f64(j->y, j->dtype, at,
                         j->log ? v - log_sum : exp(v) / sum);
        }
    }
}

static void hardmax_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const softmax_job *j = arg;
    (void)thread;
    for (int64_t item = begin; item < end; item++) {
        int64_t base = item / j->inner * j->n * j->inner + item % j->inner;
        int64_t best = first_max(j, base);
        for (int64_t i = 0; i < j->n; i++)
            qn_store_f64(j->y, j->dtype, base + i * j->inner, i == best);
    }
}

static qn_status softmax_launch(const qn_launch *k)
{
    softmax_job j = view(k);
    if (j.dtype != QN_F32) {
        qn_parallel(k->team, j.outer * j.inner, qn_grain((double)j.n * 30),
                    plain_piece, &j);
    } else if (j.inner == 1) {
        qn_parallel(k->team, j.outer, qn_grain(20 + (double)j.n * 0.8),
                    rows_piece, &j);
    } else {
        int64_t blocks = (j.inner + QN_SPAN_COLS - 1) / QN_SPAN_COLS;
        qn_parallel(k->team, j.outer * blocks,
                    qn_grain((double)j.n * QN_SPAN_COLS * 0.8), columns_piece,
                    &j);
    }
    return QN_OK;
}

static qn_status hardmax_launch(const qn_launch *k)
{
    softmax_job j = view(k);
    qn_parallel(k->team, j.outer * j.inner, qn_grain((double)j.n * 10),
                hardmax_piece, &j);
    return QN_OK;
}

#define ROW(op, fn)                                                  \
    {                                                                \
        .domain = "", .name = op, .since = 1, .until = QN_OPSET_MAX, \
        .launch = fn                                                 \
    }

static const qn_kernel kernels[] = {
    ROW("Softmax", softmax_launch),
    ROW("LogSoftmax", softmax_launch),
    ROW("Hardmax", hardmax_launch),
};

QN_KERNEL_TABLE(qn_cpu_softmax, kernels);

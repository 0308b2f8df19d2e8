/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions. Work is split by outputs only, so the order of a sum depends on
 * shapes alone. Float has two fast forms, by where the innermost axis goes:
 *
 *   spans  folded: each output folds contiguous spans
 *   rows   kept: blocks of columns fold row by row
 */
#include "runtime/cpu/reduce.h"

#include "runtime/cpu/grain.h"
#include "runtime/cpu/simd/softmax.h"
#include "runtime/cpu/simd/span.h"
#include "runtime/cpu/tables.h"
#include "runtime/ops/reduce.h"

#include <math.h>
#include <string.h>

typedef struct reduce_job {
    qn_reduce_view v;
    const qn_span_table *span;
    const qn_softmax_table *soft;
} reduce_job;

static qn_reduce_kind kind_of(const char *op_name)
{
    static const char *const names[] = {
        [QN_REDUCE_SUM] = "Sum",        [QN_REDUCE_MEAN] = "Mean",
        [QN_REDUCE_MAX] = "Max",        [QN_REDUCE_MIN] = "Min",
        [QN_REDUCE_PROD] = "Prod",      [QN_REDUCE_L1] = "L1",
        [QN_REDUCE_L2] = "L2",          [QN_REDUCE_SUM_SQUARE] = "SumSquare",
        [QN_REDUCE_LOG_SUM] = "LogSum", [QN_REDUCE_LOG_SUM_EXP] = "LogSumExp",
    };
    size_t i = 0;
    while (strcmp(op_name + strlen("Reduce"), names[i]))
        i++;
    return (qn_reduce_kind)i;
}

static void reverse(int64_t *a, int n)
{
    for (int i = 0; i < n / 2; i++) {
        int64_t t = a[i];
        a[i] = a[n - 1 - i];
        a[n - 1 - i] = t;
    }
}

void qn_reduce_split(qn_reduce_view *v, const qn_shape *s, uint32_t mask)
{
    int64_t stride = 1;
    int before = -1; /* kind of the axis just behind: 0 kept, 1 folded */
    v->n_kept = v->n_folded = 0;
    v->outputs = v->count = 1;
    for (int i = s->rank - 1; i >= 0; i--) { /* innermost first, turned below */
        int fold = (mask >> i) & 1;
        int64_t *sizes = fold ? v->folded : v->kept;
        int64_t *strides = fold ? v->folded_stride : v->kept_stride;
        int *n = fold ? &v->n_folded : &v->n_kept;
        int64_t d = s->dims[i];
        *(fold ? &v->count : &v->outputs) *= d;
        if (d != 1 && fold == before) {
            sizes[*n - 1] *= d;
        } else if (d != 1) {
            sizes[*n] = d;
            strides[(*n)++] = stride;
            before = fold;
        }
        stride *= d;
    }
    reverse(v->kept, v->n_kept);
    reverse(v->kept_stride, v->n_kept);
    reverse(v->folded, v->n_folded);
    reverse(v->folded_stride, v->n_folded);
}

/* ---- float, innermost axis folded ---- */

static double span_fold(const reduce_job *j, const float *x, int64_t n,
                        double acc, bool first)
{
    float m;
    switch (j->v.kind) {
    case QN_REDUCE_MAX:
    case QN_REDUCE_LOG_SUM_EXP: /* its first pass */
        m = j->span->max(x, n);
        return first || (double)m > acc || isnan(m) ? (double)m : acc;
    case QN_REDUCE_MIN:
        m = j->span->min(x, n);
        return first || (double)m < acc || isnan(m) ? (double)m : acc;
    case QN_REDUCE_L1:
        return acc + j->span->sum_abs(x, n);
    case QN_REDUCE_L2:
    case QN_REDUCE_SUM_SQUARE:
        return acc + j->span->sum_sq(x, n, 0);
    default:
        return acc + j->span->sum(x, n);
    }
}

static double finish(const qn_reduce_view *v, double acc)
{
    switch (v->kind) {
    case QN_REDUCE_MEAN:
        return acc / (double)v->count;
    case QN_REDUCE_L2:
        return sqrt(acc);
    case QN_REDUCE_LOG_SUM:
        return log(acc);
    default:
        return acc;
    }
}

static double log_sum_exp(const reduce_job *j, const float *x, int64_t strips,
                          int64_t n, double max)
{
    const qn_reduce_view *v = &j->v;
    double sum = 0;
    if (!isfinite(max))
        return max;
    for (int64_t s = 0; s < strips; s++)
        sum += j->soft->exp_sum(NULL,
                                x + qn_reduce_offset(v->n_folded - 1, v->folded,
                                                     v->folded_stride, s),
                                n, (float)max);
    return log(sum) + max;
}

/* items: outputs */
static void spans_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const reduce_job *j = arg;
    const qn_reduce_view *v = &j->v;
    int outer = v->n_folded - 1;
    int64_t n = v->folded[outer], strips = v->count / n;
    (void)thread;
    for (int64_t o = begin; o < end; o++) {
        const float *x =
            (const float *)v->x +
            qn_reduce_offset(v->n_kept, v->kept, v->kept_stride, o);
        double acc = 0;
        for (int64_t s = 0; s < strips; s++)
            acc = span_fold(
                j, x + qn_reduce_offset(outer, v->folded, v->folded_stride, s),
                n, acc, s == 0);
        if (v->kind == QN_REDUCE_LOG_SUM_EXP)
            acc = log_sum_exp(j, x, strips, n, acc);
        ((float *)v->y)[o] = (float)finish(v, acc);
    }
}

/* ---- float, innermost axis kept ---- */

static void rows_fold(const reduce_job *j, const float *x, int64_t cols,
                      float *y)
{
    const qn_reduce_view *v = &j->v;
    int last = v->n_folded - 1;
    int64_t rows = v->folded[last], stride = v->folded_stride[last];
    bool max = v->kind == QN_REDUCE_MAX, min = v->kind == QN_REDUCE_MIN;
    double total[QN_SPAN_COLS] = { 0 };
    for (int64_t i = 0; (max || min) && i < cols; i++)
        y[i] = max ? -INFINITY : INFINITY;
    for (int64_t s = 0; s < v->count / rows; s++) {
        const float *p =
            x + qn_reduce_offset(last, v->folded, v->folded_stride, s);
        if (max)
            j->span->max_rows(y, p, rows, stride, cols);
        else if (min)
            j->span->min_rows(y, p, rows, stride, cols);
        else if (v->kind == QN_REDUCE_L1)
            j->span->sum_abs_rows(total, p, rows, stride, cols);
        else if (v->kind == QN_REDUCE_L2 || v->kind == QN_REDUCE_SUM_SQUARE)
            j->span->sum_sq_rows(total, p, rows, stride, cols);
        else
            j->span->sum_rows(total, p, rows, stride, cols);
    }
    for (int64_t i = 0; !max && !min && i < cols; i++)
        y[i] = (float)finish(v, total[i]);
}

/* items: outer kept positions x blocks of columns */
static void rows_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const reduce_job *j = arg;
    const qn_reduce_view *v = &j->v;
    int outer = v->n_kept - 1;
    int64_t inner = v->kept[outer];
    int64_t blocks = (inner + QN_SPAN_COLS - 1) / QN_SPAN_COLS;
    (void)thread;
    for (int64_t item = begin; item < end; item++) {
        int64_t from = item % blocks * QN_SPAN_COLS;
        int64_t cols =
            inner - from < QN_SPAN_COLS ? inner - from : QN_SPAN_COLS;
        const float *x =
            (const float *)v->x + from +
            qn_reduce_offset(outer, v->kept, v->kept_stride, item / blocks);
        rows_fold(j, x, cols, (float *)v->y + item / blocks * inner + from);
    }
}

static void plain_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const reduce_job *j = arg;
    (void)thread;
    qn_reduce_plain(&j->v, begin, end);
}

/* ---- choice ---- */

static void run(reduce_job *j, qn_team *team)
{
    const qn_reduce_view *v = &j->v;
    bool fast = v->dtype == QN_F32 && v->count > 0 && v->n_folded > 0 &&
                v->kind != QN_REDUCE_PROD;
    bool spans = fast && v->folded_stride[v->n_folded - 1] == 1;
    if (spans) {
        qn_parallel(team, v->outputs, qn_grain(15 + (double)v->count * 0.15),
                    spans_piece, j);
    } else if (fast && v->kind != QN_REDUCE_LOG_SUM_EXP) {
        int64_t inner = v->kept[v->n_kept - 1];
        int64_t blocks = (inner + QN_SPAN_COLS - 1) / QN_SPAN_COLS;
        qn_parallel(team, v->outputs / inner * blocks,
                    qn_grain((double)v->count * QN_SPAN_COLS * 0.1), rows_piece,
                    j);
    } else {
        qn_parallel(team, v->outputs, qn_grain(10 + (double)v->count * 2),
                    plain_piece, j);
    }
}

static qn_status reduce_launch(const qn_launch *k)
{
    reduce_job j = { .span = qn_span_pick(), .soft = qn_softmax_pick() };
    uint32_t mask;
    qn_status st = qn_reduce_axes(k->node, k->n_in, k->in, &mask, k->err);
    if (st != QN_OK)
        return st;
    j.v.kind = kind_of(k->node->op_name);
    j.v.dtype = k->in[0].dtype;
    j.v.x = k->in[0].data;
    j.v.y = k->out[0].data;
    qn_reduce_split(&j.v, &k->in[0].shape, mask);
    if (j.v.outputs == 0)
        return QN_OK;
    if (j.v.n_folded == 0 &&
        j.v.kind <= QN_REDUCE_PROD) { /* one element each */
        memcpy(j.v.y, j.v.x, (size_t)j.v.outputs * qn_dtype_size(j.v.dtype));
        return QN_OK;
    }
    run(&j, k->team);
    return QN_OK;
}

#define ROW(op)                                                      \
    {                                                                \
        .domain = "", .name = op, .since = 1, .until = QN_OPSET_MAX, \
        .launch = reduce_launch                                      \
    }

static const qn_kernel kernels[] = {
    ROW("ReduceSum"),       ROW("ReduceMean"),      ROW("ReduceMax"),
    ROW("ReduceMin"),       ROW("ReduceProd"),      ROW("ReduceL1"),
    ROW("ReduceL2"),        ROW("ReduceSumSquare"), ROW("ReduceLogSum"),
    ROW("ReduceLogSumExp"),
};

QN_KERNEL_TABLE(qn_cpu_reduce, kernels);

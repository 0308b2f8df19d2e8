/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions: ReduceSum and its like over any axes. One launch folds each
 * output, or a share of it; where there are few outputs of many elements a
 * second launch folds the shares.
 */
#include "runtime/cuda/fold.h"
#include "runtime/cuda/kernels/reduce.h"
#include "runtime/cuda/tables.h"
#include "runtime/cuda/typed.h"
#include "runtime/ops/reduce.h"

#include <stdio.h>
#include <string.h>

enum { PARTIAL = 16 }; /* bytes: a maximum and a sum, for LogSumExp */

typedef struct reduce_state {
    const qn_cuda_fn *fold, *finish;
    int32_t kind;
} reduce_state;

static int32_t kind_of(const char *op_name)
{
    static const char *const names[] = {
        [QN_CUDA_FOLD_SUM] = "Sum",
        [QN_CUDA_FOLD_MEAN] = "Mean",
        [QN_CUDA_FOLD_MAX] = "Max",
        [QN_CUDA_FOLD_MIN] = "Min",
        [QN_CUDA_FOLD_PROD] = "Prod",
        [QN_CUDA_FOLD_L1] = "L1",
        [QN_CUDA_FOLD_L2] = "L2",
        [QN_CUDA_FOLD_SUM_SQUARE] = "SumSquare",
        [QN_CUDA_FOLD_LOG_SUM] = "LogSum",
        [QN_CUDA_FOLD_LOG_SUM_EXP] = "LogSumExp",
    };
    int32_t i = 0;
    while (strcmp(op_name + strlen("Reduce"), names[i]))
        i++;
    return i;
}

/* Integers of one signedness share a function. */
static const char *suffix_of(qn_dtype t)
{
    return t == QN_I8 || t == QN_I32 || t == QN_I64 ? "signed"
           : t == QN_U8 || t == QN_U32 || t == QN_U64 || t == QN_BOOL
               ? "unsigned"
               : qn_cuda_suffix(t);
}

static void range_of(qn_dtype t, struct qn_reduce_args *a)
{
    int bits = 8 * (int)qn_dtype_size(t);
    bool negative = t == QN_I8 || t == QN_I32 || t == QN_I64;
    a->size = bits / 8;
    a->high = UINT64_MAX >> (64 - bits + negative);
    a->low = negative ? -(int64_t)a->high - 1 : 0;
    if (t == QN_BOOL)
        a->high = 1;
}

static qn_status reduce_prepare(qn_prepare *p, qn_error *err)
{
    reduce_state *s;
    char name[32];
    const char *suffix = suffix_of(p->in[0].dtype);
    qn_status st = qn_cuda_state(p, sizeof *s, &s, err);
    if (st != QN_OK)
        return st;
    snprintf(name, sizeof name, "reduce_%s", suffix);
    st = qn_cuda_find(p->accel, "reduce", name, &s->fold, err);
    snprintf(name, sizeof name, "reduce_finish_%s", suffix);
    if (st == QN_OK)
        st = qn_cuda_find(p->accel, "reduce", name, &s->finish, err);
    if (st != QN_OK)
        return st;
    s->kind = kind_of(p->node->op_name);
    /* For any shape: a launch may see less than the plan's bound, and split
     * what the plan would not. */
    p->workspace = (size_t)QN_FOLD_PARTIALS * PARTIAL;
    return QN_OK;
}

static qn_status reduce_launch(const qn_launch *k)
{
    const reduce_state *s = k->state;
    struct qn_reduce_args a = { .x = k->in[0].data,
                                .y = k->out[0].data,
                                .partial = k->workspace,
                                .kind = s->kind };
    uint32_t mask;
    qn_status st = qn_reduce_axes(k->node, k->n_in, k->in, &mask, k->err);
    if (st != QN_OK)
        return st;
    qn_fold_axes(&a.f, &k->in[0].shape, mask);
    if (a.f.outputs == 0)
        return QN_OK;
    if (a.f.n_folded == 0 && a.f.count == 1 &&
        s->kind <= QN_CUDA_FOLD_PROD) /* one element each */
        return qn_cuda_copy(k, a.y, a.x,
                            (size_t)a.f.outputs *
                                qn_dtype_size(k->in[0].dtype));
    range_of(k->in[0].dtype, &a);
    qn_fold_plan(&a.f, true);
    qn_cuda_grid grid = qn_fold_grid(&a.f);
    st = qn_cuda_launch(k, s->fold, &grid, &a);
    if (st != QN_OK || a.f.splits == 1)
        return st;
    grid = qn_fold_grid_finish(&a.f);
    return qn_cuda_launch(k, s->finish, &grid, &a);
}

#define ROW(op)                                                      \
    {                                                                \
        .domain = "", .name = op, .since = 1, .until = QN_OPSET_MAX, \
        .prepare = reduce_prepare, .launch = reduce_launch           \
    }

static const qn_kernel kernels[] = {
    ROW("ReduceSum"),       ROW("ReduceMean"),      ROW("ReduceMax"),
    ROW("ReduceMin"),       ROW("ReduceProd"),      ROW("ReduceL1"),
    ROW("ReduceL2"),        ROW("ReduceSumSquare"), ROW("ReduceLogSum"),
    ROW("ReduceLogSumExp"),
};

QN_KERNEL_TABLE(qn_cuda_reduce, kernels);

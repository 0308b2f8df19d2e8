/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Max, Min, Sum and Mean of any number of operands, and Where.
 *
 * More operands than one launch takes go in several, with the accumulators in
 * the workspace between them: 16-bit floats are still rounded once, and the
 * output, which may lie over an operand, is written by the last.
 */
#include "runtime/cuda/kernels/variadic.h"

#include "runtime/base/checked.h"
#include "runtime/cuda/tables.h"
#include "runtime/cuda/walk.h"
#include "runtime/ops/op.h"
#include "runtime/ops/pointwise.h"

#include <stdio.h>
#include <string.h>

_Static_assert((int)QN_FOLD_MOST == (int)QN_CUDA_OPERANDS,
               "one merge is one launch");

typedef struct state {
    const qn_cuda_fn *fn;
    qn_cuda_grid grid;
    int op;
    bool mean;
    int width;
} state;

static size_t wide_size(qn_dtype dtype)
{
    return dtype == QN_F16 || dtype == QN_BF16 ? 4 : qn_dtype_size(dtype);
}

static qn_status new_state(qn_prepare *p, int width, const char *name,
                           state **out, qn_error *err)
{
    state *s = qn_region_alloc(p->region, 1, sizeof *s);
    *out = s;
    if (!s)
        return qn_fail(err, QN_NO_MEMORY, "no memory for a kernel's state");
    s->width = width;
    s->grid = qn_cuda_walk_grid(p->accel, qn_count(&p->out[0]), width);
    p->state = s;
    return qn_cuda_find(p->accel, "variadic", name, &s->fn, err);
}

static qn_status prepare_fold(qn_prepare *p, qn_error *err)
{
    const char *op = p->node->op->name;
    qn_dtype dtype = p->out[0].dtype;
    char name[32];
    state *s;
    snprintf(name, sizeof name, "variadic_%s", qn_cuda_suffix(dtype));
    qn_status st = new_state(p, qn_cuda_width(qn_dtype_size(dtype), 1), name,
                             &s, err);
    if (st != QN_OK)
        return st;
    s->op = !strcmp(op, "Max")   ? QN_PW_max
            : !strcmp(op, "Min") ? QN_PW_min
                                 : QN_PW_add;
    s->mean = !strcmp(op, "Mean");
    if (p->n_in > QN_FOLD_MOST &&
        !qn_mul_size((size_t)qn_count(&p->out[0]), wide_size(dtype),
                     &p->workspace))
        return qn_fail(err, QN_TOO_LARGE, "no memory for %lld sums",
                       (long long)qn_count(&p->out[0]));
    return QN_OK;
}

/* Operands [from, from + n). */
static qn_status fold_some(const qn_launch *k, uint32_t from, uint32_t n)
{
    const state *s = k->state;
    const qn_dtype dtype = k->out[0].dtype;
    const size_t bytes = qn_dtype_size(dtype);
    const qn_shape *shapes[QN_FOLD_MOST];
    const void *data[QN_FOLD_MOST];
    size_t size[QN_FOLD_MOST];
    struct qn_fold_args a = { .n = (int32_t)n, .op = s->op,
                              .count = (double)k->n_in };
    qn_status st = QN_OK;
    qn_cuda_merge m;
    qn_cuda_part p;
    if (from == 0)
        a.flags |= QN_FOLD_FIRST;
    if (from + n == k->n_in)
        a.flags |= QN_FOLD_LAST | (s->mean ? QN_FOLD_MEAN : 0);
    for (uint32_t i = 0; i < n; i++) {
        shapes[i] = &k->in[from + i].shape;
        data[i] = k->in[from + i].data;
        size[i] = bytes;
    }
    qn_cuda_merge_init(&m, &k->out[0].shape, (int)n, shapes);
    qn_cuda_part_init(&p, &m, QN_WALK_MOST);
    while (st == QN_OK && qn_cuda_part_next(&p)) {
        qn_cuda_part_walk(&p, data, size, k->out[0].data, bytes, s->width,
                          &a.walk);
        for (int i = 0; i < (int)n; i++)
            qn_cuda_part_operand(&p, i, data[i], bytes, &a.in[i]);
        a.y = qn_cuda_part_out(&p, k->out[0].data, bytes);
        if (k->workspace)
            a.sum = qn_cuda_part_out(&p, k->workspace, wide_size(dtype));
        st = qn_cuda_launch(k, s->fn, &s->grid, &a);
    }
    return st;
}

static qn_status launch_fold(const qn_launch *k)
{
    qn_status st = QN_OK;
    for (uint32_t i = 0; st == QN_OK && i < k->n_in; i += QN_FOLD_MOST) {
        uint32_t n = k->n_in - i;
        st = fold_some(k, i, n < QN_FOLD_MOST ? n : QN_FOLD_MOST);
    }
    return st;
}

/* ---- Where ---- */

static qn_status prepare_where(qn_prepare *p, qn_error *err)
{
    size_t size = qn_dtype_size(p->out[0].dtype);
    char name[32];
    state *s;
    snprintf(name, sizeof name, "variadic_where_%zu", size);
    return new_state(p, qn_cuda_width(size, 1), name, &s, err);
}

static qn_status launch_where(const qn_launch *k)
{
    const state *s = k->state;
    const size_t bytes = qn_dtype_size(k->out[0].dtype);
    const qn_shape *shapes[3];
    const void *data[3];
    const size_t size[3] = { 1, bytes, bytes };
    struct qn_where_args a = { 0 };
    qn_status st = QN_OK;
    qn_cuda_merge m;
    qn_cuda_part p;
    for (int i = 0; i < 3; i++) {
        shapes[i] = &k->in[i].shape;
        data[i] = k->in[i].data;
    }
    qn_cuda_merge_init(&m, &k->out[0].shape, 3, shapes);
    qn_cuda_part_init(&p, &m, QN_WALK_MOST);
    while (st == QN_OK && qn_cuda_part_next(&p)) {
        qn_cuda_part_walk(&p, data, size, k->out[0].data, bytes, s->width,
                          &a.walk);
        qn_cuda_part_operand(&p, 0, data[0], 1, &a.c);
        for (int i = 0; i < 2; i++)
            qn_cuda_part_operand(&p, i + 1, data[i + 1], bytes, &a.in[i]);
        a.y = qn_cuda_part_out(&p, k->out[0].data, bytes);
        st = qn_cuda_launch(k, s->fn, &s->grid, &a);
    }
    return st;
}

static bool no_strings(const qn_node *node, uint32_t n_in, const qn_dtype *in)
{
    (void)node;
    return in[n_in - 1] != QN_STRING;
}

#define FOLD(op)                                                               \
    { .name = op, .domain = "", .since = 1, .until = UINT16_MAX,               \
      .prepare = prepare_fold, .launch = launch_fold }

static const qn_kernel rows[] = {
    FOLD("Max"),
    FOLD("Min"),
    FOLD("Sum"),
    FOLD("Mean"),
    { .name = "Where", .domain = "", .since = 1, .until = UINT16_MAX,
      .supports = no_strings, .prepare = prepare_where,
      .launch = launch_where },
};

QN_KERNEL_TABLE(qn_cuda_variadic, rows);

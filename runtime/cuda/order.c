/* SPDX-License-Identifier: Apache-2.0 */
/* Between memory orders, and Dropout, which copies. */
#include "runtime/cuda/kernels/order.h"

#include "runtime/cuda/kernel.h"
#include "runtime/cuda/tables.h"
#include "runtime/ops/op.h"

#include <stdio.h>
#include <string.h>

typedef struct state {
    const qn_cuda_fn *fn;
    qn_cuda_grid grid;
    struct qn_order_args args; /* but for the addresses */
} state;

static qn_status prepare(qn_prepare *p, qn_error *err)
{
    const int64_t *d = p->in[0].shape.dims;
    const int64_t n = qn_count(&p->in[0]);
    bool last = !strcmp(p->node->op->name, "ToChannelsLast");
    int64_t rows = last ? d[1] : d[1] * d[2];
    int64_t cols = last ? d[2] * d[3] : d[3];
    bool tiles = rows > QN_ORDER_NARROW && cols > QN_ORDER_NARROW;
    char name[32];
    state *s = qn_region_alloc(p->region, 1, sizeof *s);
    if (!s)
        return qn_fail(err, QN_NO_MEMORY, "no memory for a kernel's state");
    s->args = (struct qn_order_args){ .rows = rows, .cols = cols, .items = n };
    if (tiles) {
        int64_t r = (rows + QN_ORDER_TILE - 1) / QN_ORDER_TILE;
        int64_t c = (cols + QN_ORDER_TILE - 1) / QN_ORDER_TILE;
        s->args.items = n ? d[0] * r * c : 0;
        s->args.row_tiles = qn_fastdiv_of(r);
        s->args.col_tiles = qn_fastdiv_of(c);
    } else {
        s->args.row_tiles = qn_fastdiv_of(rows);
        s->args.col_tiles = qn_fastdiv_of(cols);
    }
    s->grid = qn_cuda_grid_stride(p->accel,
                                  tiles ? s->args.items * QN_ORDER_THREADS : n,
                                  1, QN_ORDER_THREADS, 4);
    snprintf(name, sizeof name, "order_%s_%zu", tiles ? "tiles" : "single",
             qn_dtype_size(p->in[0].dtype));
    p->state = s;
    return qn_cuda_find(p->accel, "order", name, &s->fn, err);
}

static qn_status launch(const qn_launch *k)
{
    const state *s = k->state;
    struct qn_order_args a = s->args;
    a.x = k->in[0].data;
    a.y = k->out[0].data;
    return qn_cuda_launch(k, s->fn, &s->grid, &a);
}

static bool supports(const qn_node *node, uint32_t n_in, const qn_dtype *in)
{
    (void)node, (void)n_in;
    return qn_dtype_size(in[0]) <= 8;
}

/* ---- Dropout, in inference: the data, and a mask of ones ---- */

static bool inference(const qn_node *node, uint32_t n_in, const qn_dtype *in)
{
    (void)node;
    /* the third input says whether to train: that draws random numbers in
     * order, on the cpu */
    return n_in < 3 && in[0] != QN_STRING;
}

static qn_status prepare_dropout(qn_prepare *p, qn_error *err)
{
    qn_dtype mask = p->n_out > 1 ? p->out[1].dtype : QN_NONE;
    char name[32];
    state *s = qn_region_alloc(p->region, 1, sizeof *s);
    if (!s)
        return qn_fail(err, QN_NO_MEMORY, "no memory for a kernel's state");
    p->state = s;
    if (mask == QN_NONE)
        return QN_OK;
    s->grid = qn_cuda_grid_stride(p->accel, qn_count(&p->in[0]), 1,
                                  QN_ORDER_THREADS, 4);
    snprintf(name, sizeof name, "order_fill_%zu", qn_dtype_size(mask));
    return qn_cuda_find(p->accel, "order", name, &s->fn, err);
}

static uint64_t one_of(qn_dtype dtype)
{
    switch ((int)dtype) {
    case QN_F16:
        return 0x3c00;
    case QN_F32:
        return 0x3f800000;
    case QN_F64:
        return 0x3ff0000000000000;
    }
    return 1; /* bool */
}

static qn_status launch_dropout(const qn_launch *k)
{
    const state *s = k->state;
    const qn_tensor *x = &k->in[0], *y = &k->out[0];
    qn_status st = QN_OK;
    if (y->data && y->data != x->data)
        st = qn_cuda_copy(k, y->data, x->data,
                          (size_t)qn_count(x) * qn_dtype_size(x->dtype));
    if (st != QN_OK || k->n_out < 2 || !k->out[1].data)
        return st;
    struct qn_order_fill_args a = { .y = k->out[1].data,
                                    .count = qn_count(x),
                                    .value = one_of(k->out[1].dtype) };
    return qn_cuda_launch(k, s->fn, &s->grid, &a);
}

static const qn_kernel rows[] = {
    { .domain = "ai.quern", .name = "ToChannelsLast", .since = 1, .until = 1,
      .supports = supports, .prepare = prepare, .launch = launch },
    { .domain = "ai.quern", .name = "ToChannelsFirst", .since = 1, .until = 1,
      .supports = supports, .prepare = prepare, .launch = launch },
    { .domain = "", .name = "Dropout", .since = 1, .until = UINT16_MAX,
      .supports = inference, .prepare = prepare_dropout,
      .launch = launch_dropout },
};

QN_KERNEL_TABLE(qn_cuda_order, rows);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NonZero. The output is planned for its bound; how many columns it has is
 * counted on the device and told by finish().
 *
 * Workspace: counts [blocks + 1] of 8 bytes.
 */
#include "runtime/cuda/kernels/nonzero.h"
#include "runtime/cuda/kernel.h"
#include "runtime/cuda/tables.h"
#include "runtime/ops/op.h"

typedef struct nonzero_state {
    const qn_cuda_fn *count, *scan, *write;
    struct qn_nonzero_args args;
} nonzero_state;

static bool supports(const qn_node *node, uint32_t n_in, const qn_dtype *in)
{
    (void)node, (void)n_in;
    return in[0] != QN_STRING;
}

/* Bits that make an element count; for 16 bytes, of both halves. */
static uint64_t mask_of(qn_dtype dtype)
{
    switch (dtype) {
    case QN_F16:
    case QN_BF16:
        return 0x7fff;
    case QN_F32:
        return 0x7fffffff;
    case QN_C64:
        return 0x7fffffff7fffffff;
    case QN_F64:
    case QN_C128:
        return 0x7fffffffffffffff;
    default:
        return UINT64_MAX;
    }
}

static qn_status prepare(qn_prepare *p, qn_error *err)
{
    const qn_shape *shape = &p->in[0].shape;
    nonzero_state *s = qn_region_alloc(p->region, 1, sizeof *s);
    if (!s)
        return qn_fail(err, QN_NO_MEMORY, "no memory for a kernel's state");
    struct qn_nonzero_args *a = &s->args;
    const int64_t unit = QN_NONZERO_THREADS * 4; /* a block's least piece */
    a->n = qn_count(&p->in[0]);
    a->piece = a->n / (QN_NONZERO_BLOCKS * unit) * unit + unit;
    a->blocks = (int32_t)((a->n + a->piece - 1) / a->piece);
    if (a->blocks == 0)
        a->blocks = 1;
    a->rank = shape->rank;
    a->size = (uint32_t)qn_dtype_size(p->in[0].dtype);
    a->wide = a->n >= (int64_t)1 << 31;
    a->mask = mask_of(p->in[0].dtype);
    for (int d = 0; d < shape->rank; d++)
        a->div[d] = qn_fastdiv_of(shape->dims[shape->rank - 1 - d]);
    p->workspace = ((size_t)a->blocks + 1) * sizeof(int64_t);
    p->state = s;
    qn_status st = qn_cuda_find(p->accel, "nonzero", "qn_nonzero_count",
                                &s->count, err);
    if (st == QN_OK)
        st =
            qn_cuda_find(p->accel, "nonzero", "qn_nonzero_scan", &s->scan, err);
    if (st == QN_OK)
        st = qn_cuda_find(p->accel, "nonzero", "qn_nonzero_write", &s->write,
                          err);
    return st;
}

static qn_status launch(const qn_launch *k)
{
    const nonzero_state *s = k->state;
    struct qn_nonzero_args a = s->args;
    qn_cuda_grid pieces = { .grid = { (uint32_t)a.blocks },
                            .block = { QN_NONZERO_THREADS } };
    qn_cuda_grid one = { .grid = { 1 }, .block = { QN_NONZERO_BLOCKS } };
    a.src = k->in[0].data;
    a.dst = k->out[0].data;
    a.counts = k->workspace;
    qn_status st = qn_cuda_launch(k, s->count, &pieces, &a);
    if (st == QN_OK)
        st = qn_cuda_launch(k, s->scan, &one, &a);
    if (st == QN_OK && a.rank)
        st = qn_cuda_launch(k, s->write, &pieces, &a);
    return st == QN_OK ? qn_cuda_read(k, a.counts + a.blocks, 1) : st;
}

static qn_status finish(const qn_launch *k)
{
    const nonzero_state *s = k->state;
    k->out[0].shape =
        qn_shape_make(2, (int64_t[]){ s->args.rank, k->counts[0] });
    return QN_OK;
}

static const qn_kernel rows[] = {
    { .domain = "", .name = "NonZero", .since = 1, .until = QN_OPSET_MAX,
      .supports = supports, .prepare = prepare, .launch = launch,
      .finish = finish },
};

QN_KERNEL_TABLE(qn_cuda_nonzero, rows);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MatMul and Gemm. Besides what ONNX says, passes may add inputs: a MatMul may
 * have a bias [N] as input 2, and either a residual as its last input.
 */
#include "runtime/ops/tables.h"

#define OLD QN_TYPES_IEEE
#define WIDE                                                                   \
    (QN_TYPES_IEEE | QN_BIT(I32) | QN_BIT(I64) | QN_BIT(U32) | QN_BIT(U64))

static qn_status infer_matmul(const qn_infer *in, qn_error *err)
{
    char ta[QN_SHAPE_TEXT], tb[QN_SHAPE_TEXT];
    qn_shape a = in->in[0].shape, b = in->in[1].shape, out;
    const bool row = a.rank == 1, column = b.rank == 1;

    if (!a.rank || !b.rank)
        return qn_fail(err, QN_SHAPE, "a scalar cannot be multiplied: %s, %s",
                       qn_shape_text(&a, ta), qn_shape_text(&b, tb));
    int64_t ka = a.dims[a.rank - 1];
    int64_t kb = column ? b.dims[0] : b.dims[b.rank - 2];
    if (ka != kb)
        return qn_fail(err, QN_SHAPE, "%s times %s: inner dimensions %lld and "
                       "%lld differ", qn_shape_text(&a, ta),
                       qn_shape_text(&b, tb), (long long)ka, (long long)kb);
    int64_t m = row ? 1 : a.dims[a.rank - 2];
    int64_t n = column ? 1 : b.dims[b.rank - 1];
    a.rank = row ? 0 : a.rank - 2;
    b.rank = column ? 0 : b.rank - 2;
    qn_status st = qn_shape_broadcast(&a, &b, &out, err);
    if (st != QN_OK)
        return st;
    if (out.rank + !row + !column > QN_MAX_RANK)
        return qn_fail(err, QN_SHAPE, "rank %d, at most %d", out.rank + 2,
                       QN_MAX_RANK);
    if (!row)
        out.dims[out.rank++] = m;
    if (!column)
        out.dims[out.rank++] = n;
    in->out[0].shape = out;
    return QN_OK;
}

static qn_status infer_gemm(const qn_infer *in, qn_error *err)
{
    char ta[QN_SHAPE_TEXT], tb[QN_SHAPE_TEXT];
    const qn_node *node = in->node;
    const qn_shape *a = &in->in[0].shape, *b = &in->in[1].shape;
    const bool flip_a = qn_node_int(node, "transA", 0) != 0;
    const bool flip_b = qn_node_int(node, "transB", 0) != 0;

    if (a->rank != 2 || b->rank != 2)
        return qn_fail(err, QN_SHAPE, "matrices expected, got %s and %s",
                       qn_shape_text(a, ta), qn_shape_text(b, tb));
    if (a->dims[!flip_a] != b->dims[flip_b])
        return qn_fail(err, QN_SHAPE, "%s%s times %s%s: inner dimensions %lld "
                       "and %lld differ", qn_shape_text(a, ta),
                       flip_a ? " transposed" : "", qn_shape_text(b, tb),
                       flip_b ? " transposed" : "",
                       (long long)a->dims[!flip_a], (long long)b->dims[flip_b]);
    qn_shape out = qn_shape_make(
        2, (int64_t[]){ a->dims[flip_a], b->dims[!flip_b] });
    uint32_t n_in = in->n_in - node->residual;
    if (n_in > 2 && qn_present(&in->in[2])) {
        const qn_shape *c = &in->in[2].shape;
        for (int i = 0; i < c->rank; i++)
            if (c->rank > 2 ||
                (c->dims[c->rank - 1 - i] != 1 &&
                 c->dims[c->rank - 1 - i] != out.dims[1 - i]))
                return qn_fail(err, QN_SHAPE, "input 2, %s, cannot broadcast "
                               "to %s", qn_shape_text(c, ta),
                               qn_shape_text(&out, tb));
    }
    in->out[0].shape = out;
    return QN_OK;
}

/* In place on the residual: a tile is read before it is written. */
#define MATMUL(from, to, set)                                                  \
    { .domain = "", .name = "MatMul", .since = from, .until = to, .min_in = 2, \
      .max_in = 2, .min_out = 1, .max_out = 1, .flags = QN_OP_SAME_TYPE,       \
      .inplace = 1 << 2 | 1 << 3, .types = { set }, .infer = infer_matmul }

#define GEMM(from, to, least, set)                                             \
    { .domain = "", .name = "Gemm", .since = from, .until = to,                \
      .min_in = least, .max_in = 3, .min_out = 1, .max_out = 1,                \
      .flags = QN_OP_SAME_TYPE, .inplace = 1 << 2 | 1 << 3, .types = { set },  \
      .infer = infer_gemm }

static const qn_op rows[] = {
    MATMUL(1, 8, OLD),
    MATMUL(9, 12, WIDE),
    MATMUL(13, QN_OPSET_MAX, WIDE | QN_BIT(BF16)),
    GEMM(1, 8, 3, OLD),
    GEMM(9, 10, 3, WIDE),
    GEMM(11, 12, 2, WIDE),
    GEMM(13, QN_OPSET_MAX, 2, WIDE | QN_BIT(BF16)),
};

QN_OP_TABLE(qn_ops_matmul, rows);

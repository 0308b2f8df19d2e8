/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scaled dot-product attention, put in by a pass where a model has the pieces:
 *
 *     Y = softmax(Q K^T * scale + mask) V        over each batch and head
 *
 *   Q [B, H, S, D]   K [B, G, T, D]   V [B, G, T, E]   ->   Y [B, H, S, E]
 *
 * G divides H: H / G heads in a row share keys and values. Without the axis of
 * batches all are of rank 3, [H, S, D] and so on. The mask, input 3, broadcasts
 * to [B, H, S, T], or [H, S, T]. Attributes: `scale`, by default 1 / sqrt(D), and
 * `causal`: query i sees keys up to i + T - S only, so that the last query sees
 * all. A query that sees nothing gives NaN, as Softmax of -inf alone does.
 */
#include "runtime/ops/attention.h"

#include "runtime/ops/tables.h"

#include <math.h>
#include <string.h>

static qn_status attention_shapes(const qn_infer *in, qn_error *err)
{
    const qn_shape *q = &in->in[0].shape, *k = &in->in[1].shape,
                   *v = &in->in[2].shape;
    char tq[QN_SHAPE_TEXT], tk[QN_SHAPE_TEXT], tv[QN_SHAPE_TEXT];
    int h = q->rank - 3; /* axis of heads */
    bool good = (h == 0 || h == 1) && k->rank == q->rank && v->rank == q->rank &&
                (!h || (k->dims[0] == q->dims[0] && v->dims[0] == q->dims[0])) &&
                k->dims[h] == v->dims[h] && k->dims[h + 1] == v->dims[h + 1] &&
                k->dims[h + 2] == q->dims[h + 2];
    if (good && (k->dims[h] ? q->dims[h] % k->dims[h] : q->dims[h]))
        good = false;
    if (!good)
        return qn_fail(err, QN_SHAPE,
                       "Q %s, K %s, V %s: expected [B, H, S, D], [B, G, T, D] "
                       "and [B, G, T, E] where G divides H",
                       qn_shape_text(q, tq), qn_shape_text(k, tk),
                       qn_shape_text(v, tv));
    return QN_OK;
}

static qn_status attention_infer(const qn_infer *in, qn_error *err)
{
    qn_status st = attention_shapes(in, err);
    if (st != QN_OK)
        return st;
    const qn_shape *q = &in->in[0].shape;
    qn_shape scores = *q, both;
    int last = q->rank - 1;
    scores.dims[last] = in->in[1].shape.dims[last - 1];
    if (in->n_in > 3 && qn_present(&in->in[3])) {
        st = qn_shape_broadcast(&scores, &in->in[3].shape, &both, err);
        if (st != QN_OK)
            return st;
        if (!qn_shape_equal(&both, &scores)) {
            char a[QN_SHAPE_TEXT], b[QN_SHAPE_TEXT];
            return qn_fail(err, QN_SHAPE,
                           "the mask is %s, which does not broadcast to %s",
                           qn_shape_text(&in->in[3].shape, a),
                           qn_shape_text(&scores, b));
        }
    }
    in->out[0].shape = *q;
    in->out[0].shape.dims[last] = in->in[2].shape.dims[last];
    return QN_OK;
}

void qn_attention_of(const qn_node *node, uint32_t n_in, const qn_tensor *in,
                     qn_attention *out)
{
    const qn_shape *q = &in[0].shape, *k = &in[1].shape;
    int h = q->rank - 3;
    memset(out, 0, sizeof *out);
    out->batch = h ? q->dims[0] : 1;
    out->heads = q->dims[h];
    out->queries = q->dims[h + 1];
    out->depth = q->dims[h + 2];
    out->groups = k->dims[h];
    out->keys = k->dims[h + 1];
    out->values = in[2].shape.dims[h + 2];
    out->causal = qn_node_int(node, "causal", 0) != 0;
    const qn_attr *scale = qn_node_attr(node, "scale");
    out->scale = scale ? (double)scale->f : 1 / sqrt((double)out->depth);
    out->masked = n_in > 3 && qn_present(&in[3]);
    if (!out->masked)
        return;
    const qn_shape *m = &in[3].shape;
    int64_t stride = 1;
    for (int i = m->rank - 1, axis = 3; i >= 0; i--, axis--) {
        out->mask_stride[axis] = m->dims[i] != 1 ? stride : 0;
        stride *= m->dims[i];
    }
}

static const qn_op rows[] = {
    { .domain = "ai.quern",
      .name = "Attention",
      .since = 1,
      .until = 1,
      .min_in = 3,
      .max_in = 4,
      .min_out = 1,
      .max_out = 1,
      .flags = QN_OP_SAME_TYPE,
      .types = { QN_TYPES_FLOAT },
      .infer = attention_infer },
};

QN_OP_TABLE(qn_ops_attention, rows);

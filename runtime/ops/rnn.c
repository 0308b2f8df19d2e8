/* SPDX-License-Identifier: Apache-2.0 */
/* LSTM, GRU and RNN: attributes, activations, shapes. */
#include "runtime/ops/rnn.h"

#include "runtime/base/checked.h"
#include "runtime/ops/tables.h"

#include <string.h>
#include <strings.h>

static const struct {
    const char *name;
    bool alpha, beta; /* which it takes from the lists */
    float a, b;       /* without */
} acts[] = {
    [QN_RNN_AFFINE] = { "Affine", true, true, 1, 0 },
    [QN_RNN_RELU] = { "Relu", false, false, 0, 0 },
    [QN_RNN_LEAKY] = { "LeakyRelu", true, false, 0.01f, 0 },
    [QN_RNN_THRESHOLDED] = { "ThresholdedRelu", true, false, 1, 0 },
    [QN_RNN_TANH] = { "Tanh", false, false, 0, 0 },
    [QN_RNN_SCALED_TANH] = { "ScaledTanh", true, true, 1, 1 },
    [QN_RNN_SIGMOID] = { "Sigmoid", false, false, 0, 0 },
    [QN_RNN_HARD_SIGMOID] = { "HardSigmoid", true, true, 0.2f, 0.5f },
    [QN_RNN_ELU] = { "Elu", true, false, 1, 0 },
    [QN_RNN_SOFTSIGN] = { "Softsign", false, false, 0, 0 },
    [QN_RNN_SOFTPLUS] = { "Softplus", false, false, 0, 0 },
};

qn_rnn_kind qn_rnn_kind_of(const qn_node *node, int *gates)
{
    const char *name = node->op->name;
    qn_rnn_kind kind = !strcmp(name, "LSTM")  ? QN_LSTM
                       : !strcmp(name, "GRU") ? QN_GRU
                                              : QN_RNN;
    *gates = kind == QN_LSTM ? 4 : kind == QN_GRU ? 3 : 1;
    return kind;
}

static qn_status read_direction(const qn_node *node, qn_rnn *r, qn_error *err)
{
    const char *s = qn_node_string(node, "direction", "forward");
    r->directions = !strcmp(s, "bidirectional") ? 2 : 1;
    r->reverse = !strcmp(s, "reverse");
    if (r->directions == 1 && !r->reverse && strcmp(s, "forward"))
        return qn_fail(err, QN_INVALID, "direction '%.40s' is unknown", s);
    return QN_OK;
}

static qn_status find_act(const qn_text *name, qn_rnn_fn *fn, qn_error *err)
{
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++)
        if (!strcasecmp(name->s, acts[i].name)) {
            *fn = (qn_rnn_fn){ (qn_rnn_act)i, acts[i].a, acts[i].b };
            return QN_OK;
        }
    return qn_fail(err, QN_UNSUPPORTED, "activation '%.40s' is unknown",
                   name->s);
}

/* alpha and beta are handed out in order, to the functions that take them. */
static qn_status read_acts(const qn_node *node, qn_rnn *r, qn_error *err)
{
    const int per = r->kind == QN_LSTM ? 3 : r->kind == QN_GRU ? 2 : 1;
    const qn_attr *names = qn_node_attr(node, "activations");
    size_t n_alpha, n_beta, a = 0, b = 0;
    const float *alpha = qn_node_floats(node, "activation_alpha", &n_alpha);
    const float *beta = qn_node_floats(node, "activation_beta", &n_beta);
    const bool given = names && names->kind == QN_ATTR_STRINGS && names->n;

    if (given && names->n != (size_t)(per * r->directions))
        return qn_fail(err, QN_INVALID, "%zu activations, %d expected", names->n,
                       per * r->directions);
    for (int d = 0; d < r->directions; d++)
        for (int i = 0; i < per; i++) {
            qn_rnn_fn *fn = &r->fn[d][i];
            fn->act = i || r->kind == QN_RNN ? QN_RNN_TANH : QN_RNN_SIGMOID;
            qn_status st = given ? find_act(&names->strings[d * per + i], fn, err)
                                 : QN_OK;
            if (st != QN_OK)
                return st;
            if (acts[fn->act].alpha && a < n_alpha)
                fn->alpha = alpha[a++];
            if (acts[fn->act].beta && b < n_beta)
                fn->beta = beta[b++];
        }
    return QN_OK;
}

static qn_status expect(const qn_tensor *in, uint32_t n_in, uint32_t i, int rank,
                        const int64_t *dims, qn_error *err)
{
    char got[QN_SHAPE_TEXT], text[QN_SHAPE_TEXT];
    const qn_shape want = qn_shape_make(rank, dims);
    if (i >= n_in || !qn_present(&in[i]) || qn_shape_equal(&in[i].shape, &want))
        return QN_OK;
    return qn_fail(err, QN_SHAPE, "input %u is %s, expected %s", i,
                   qn_shape_text(&in[i].shape, got), qn_shape_text(&want, text));
}

static qn_status check_shapes(const qn_rnn *r, const qn_tensor *in,
                              uint32_t n_in, qn_error *err)
{
    const int64_t d = r->directions, h = r->hidden;
    const int64_t b = r->batch_first ? r->batch : d;
    const int64_t c = r->batch_first ? d : r->batch;
    int64_t rows, bias;
    if (!qn_mul_i64(h, r->gates, &rows) || !qn_mul_i64(rows, 2, &bias))
        return qn_fail(err, QN_TOO_LARGE, "hidden size %lld", (long long)h);
    qn_status st = expect(in, n_in, 1, 3, (int64_t[]){ d, rows, r->inputs }, err);
    if (st == QN_OK)
        st = expect(in, n_in, 2, 3, (int64_t[]){ d, rows, h }, err);
    if (st == QN_OK)
        st = expect(in, n_in, 3, 2, (int64_t[]){ d, bias }, err);
    if (st == QN_OK)
        st = expect(in, n_in, QN_RNN_LENS, 1, &r->batch, err);
    if (st == QN_OK)
        st = expect(in, n_in, QN_RNN_H0, 3, (int64_t[]){ b, c, h }, err);
    if (st == QN_OK)
        st = expect(in, n_in, QN_RNN_C0, 3, (int64_t[]){ b, c, h }, err);
    if (st == QN_OK)
        st = expect(in, n_in, QN_RNN_P, 2, (int64_t[]){ d, 3 * h }, err);
    return st;
}

qn_status qn_rnn_read(const qn_node *node, uint32_t n_in, const qn_tensor *in,
                      qn_rnn *out, qn_error *err)
{
    char text[QN_SHAPE_TEXT];
    qn_rnn r = { 0 };
    const qn_shape *x = &in[0].shape, *rec = &in[2].shape;

    r.kind = qn_rnn_kind_of(node, &r.gates);
    if (x->rank != 3 || rec->rank != 3)
        return qn_fail(err, QN_SHAPE, "input %u is %s: rank 3 expected",
                       x->rank != 3 ? 0 : 2,
                       qn_shape_text(x->rank != 3 ? x : rec, text));
    r.batch_first = qn_node_int(node, "layout", 0) != 0;
    r.steps = x->dims[r.batch_first];
    r.batch = x->dims[!r.batch_first];
    r.inputs = x->dims[2];
    r.hidden = rec->dims[2];
    int64_t said = qn_node_int(node, "hidden_size", r.hidden);
    if (said != r.hidden)
        return qn_fail(err, QN_INVALID, "hidden_size is %lld, but the weights "
                       "%s say %lld", (long long)said, qn_shape_text(rec, text),
                       (long long)r.hidden);
    r.input_forget = qn_node_int(node, "input_forget", 0) != 0;
    r.linear_before_reset = qn_node_int(node, "linear_before_reset", 0) != 0;
    r.clip = qn_node_float(node, "clip", 0);
    if (!(r.clip >= 0))
        return qn_fail(err, QN_INVALID, "clip is %g", (double)r.clip);
    qn_status st = read_direction(node, &r, err);
    if (st == QN_OK)
        st = read_acts(node, &r, err);
    if (st == QN_OK)
        st = check_shapes(&r, in, n_in, err);
    if (st == QN_OK)
        *out = r;
    return st;
}

static qn_status types(const qn_node *node, uint32_t n_in, const qn_dtype *in,
                       uint32_t n_out, qn_dtype *out, qn_error *err)
{
    (void)node;
    for (uint32_t i = 0; i < n_in; i++)
        if (i != QN_RNN_LENS && in[i] != QN_NONE && in[i] != in[0])
            return qn_fail(err, QN_TYPE, "input %u is %s, input 0 is %s", i,
                           qn_dtype_name(in[i]), qn_dtype_name(in[0]));
    for (uint32_t i = 0; i < n_out; i++)
        out[i] = in[0];
    return QN_OK;
}

static qn_status infer(const qn_infer *in, qn_error *err)
{
    qn_rnn r;
    qn_status st = qn_rnn_read(in->node, in->n_in, in->in, &r, err);
    if (st != QN_OK)
        return st;
    const int64_t d = r.directions, b = r.batch, h = r.hidden, t = r.steps;
    for (uint32_t i = 0; i < in->n_out; i++)
        if (i == 0)
            in->out[i].shape = qn_shape_make(
                4, r.batch_first ? (int64_t[]){ b, t, d, h }
                                 : (int64_t[]){ t, d, b, h });
        else
            in->out[i].shape = qn_shape_make(
                3, r.batch_first ? (int64_t[]){ b, d, h }
                                 : (int64_t[]){ d, b, h });
    return QN_OK;
}

#define ROW(op, from, to, inputs, outputs, set)                                \
    { .domain = "", .name = op, .since = from, .until = to, .min_in = 3,       \
      .max_in = inputs, .min_out = 0, .max_out = outputs,                      \
      .types = { set, set, set, set, QN_BIT(I32), set }, .out_types = types,   \
      .infer = infer }

static const qn_op rows[] = {
    ROW("LSTM", 1, 21, 8, 3, QN_TYPES_IEEE),
    ROW("LSTM", 22, QN_OPSET_MAX, 8, 3, QN_TYPES_FLOAT),
    ROW("GRU", 1, 21, 6, 2, QN_TYPES_IEEE),
    ROW("GRU", 22, QN_OPSET_MAX, 6, 2, QN_TYPES_FLOAT),
    ROW("RNN", 1, 21, 6, 2, QN_TYPES_IEEE),
    ROW("RNN", 22, QN_OPSET_MAX, 6, 2, QN_TYPES_FLOAT),
};

QN_OP_TABLE(qn_ops_rnn, rows);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conv followed by BatchNormalization (inference) is one Conv with other
 * weights:  f = scale / sqrt(var + eps);  W' = W f,  b' = (b - mean) f + beta,
 * per output channel. (Ioffe & Szegedy, arXiv 1502.03167, section 3.1.) The new
 * weights are computed when static memory is filled, from the file's bytes.
 */
#include "runtime/exec/session_impl.h"
#include "runtime/ops/op.h"
#include "runtime/passes/passes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct norm {
    const qn_const *weight, *bias; /* bias may be NULL */
    const qn_const *scale, *beta, *mean, *var;
    double epsilon;
    int64_t channels;
} norm;

static qn_status read_floats(const qn_const *c, float *out, qn_error *err)
{
    return c ? qn_const_read(c, out, err) : QN_OK;
}

/* scale, beta, mean, var, bias: 5 rows of [channels] floats. */
static qn_status read_params(const norm *n, float **out, qn_error *err)
{
    const qn_const *const rows[] = { n->scale, n->beta, n->mean, n->var,
                                     n->bias };
    float *p = qn_calloc((size_t)n->channels, 5 * sizeof *p);
    qn_status st = p ? QN_OK : qn_fail(err, QN_NO_MEMORY, "no memory to fold");
    for (int i = 0; st == QN_OK && i < 5; i++)
        st = read_floats(rows[i], p + i * n->channels, err);
    *out = p;
    return st;
}

static double factor(const norm *n, const float *p, int64_t c)
{
    return (double)p[c] /
           sqrt((double)p[3 * n->channels + c] + n->epsilon);
}

static qn_status fill_weight(const qn_const *c, void *dst, qn_error *err)
{
    const norm *n = c->fill_arg;
    float *p, *w = dst;
    qn_status st = read_params(n, &p, err);
    if (st == QN_OK)
        st = qn_const_read(n->weight, dst, err);
    int64_t inner = (int64_t)(c->bytes / sizeof *w) / n->channels;
    for (int64_t o = 0; st == QN_OK && o < n->channels; o++) {
        double f = factor(n, p, o);
        for (int64_t i = 0; i < inner; i++)
            w[o * inner + i] = (float)((double)w[o * inner + i] * f);
    }
    qn_free(p);
    return st;
}

static qn_status fill_bias(const qn_const *c, void *dst, qn_error *err)
{
    const norm *n = c->fill_arg;
    float *p, *b = dst;
    qn_status st = read_params(n, &p, err);
    for (int64_t o = 0; st == QN_OK && o < n->channels; o++)
        b[o] = (float)(((double)p[4 * n->channels + o] -
                        (double)p[2 * n->channels + o]) *
                           factor(n, p, o) +
                       (double)p[n->channels + o]);
    qn_free(p);
    return st;
}

static const qn_const *float_const(const qn_graph *g, qn_value_id id)
{
    if (id == QN_NO_VALUE || g->values[id].kind != QN_VALUE_CONST ||
        g->values[id].data->dtype != QN_F32)
        return NULL;
    return g->values[id].data;
}

static bool is_vector(const qn_const *c, int64_t n)
{
    return c && c->shape.rank == 1 && c->shape.dims[0] == n;
}

/* Are `conv` and the node that reads it a pair to fold? */
static bool matches(const qn_graph *g, const qn_node *conv, const qn_node *bn,
                    norm *n)
{
    if (strcmp(bn->op_name, "BatchNormalization") || bn->domain[0] ||
        bn->n_out != 1 || bn->n_in != 5 || bn->in[0] != conv->out[0] ||
        qn_node_int(bn, "training_mode", 0) || qn_node_int(bn, "spatial", 1) != 1)
        return false;
    if (bn->opset < 7 && !qn_node_int(bn, "is_test", 0))
        return false;
    n->weight = float_const(g, conv->in[1]);
    /* once per Conv: filling goes down such a chain on the stack */
    if (!n->weight || n->weight->shape.rank < 3 ||
        n->weight->fill == fill_weight)
        return false;
    n->channels = n->weight->shape.dims[0];
    bool has_bias = conv->n_in > 2 && conv->in[2] != QN_NO_VALUE;
    n->bias = has_bias ? float_const(g, conv->in[2]) : NULL;
    n->scale = float_const(g, bn->in[1]);
    n->beta = float_const(g, bn->in[2]);
    n->mean = float_const(g, bn->in[3]);
    n->var = float_const(g, bn->in[4]);
    n->epsilon = (double)qn_node_float(bn, "epsilon", 1e-5f);
    return n->channels > 0 && (!has_bias || is_vector(n->bias, n->channels)) &&
           is_vector(n->scale, n->channels) && is_vector(n->beta, n->channels) &&
           is_vector(n->mean, n->channels) && is_vector(n->var, n->channels);
}

static qn_status add_const(qn_graph *g, const norm *n, const qn_shape *shape,
                           qn_status (*fill)(const qn_const *, void *,
                                             qn_error *),
                           qn_value_id *out, qn_error *err)
{
    qn_const *c = qn_region_alloc(g->region, 1, sizeof *c);
    if (!c)
        return qn_fail(err, QN_NO_MEMORY, "no memory to fold");
    *c = (qn_const){ .dtype = QN_F32, .shape = *shape, .fill = fill,
                     .fill_arg = n };
    qn_status st = qn_tensor_bytes(QN_F32, shape, &c->bytes, err);
    if (st != QN_OK)
        return st;
    qn_value v = { .kind = QN_VALUE_CONST, .rank = -1, .data = c,
                   .type = { .kind = QN_TYPE_TENSOR, .dtype = QN_F32 } };
    return qn_graph_add_value(g, &v, out, err);
}

static qn_status fold_pair(qn_graph *g, qn_node *conv, const qn_node *bn,
                           const norm *found, qn_error *err)
{
    norm *n = qn_region_alloc(g->region, 1, sizeof *n);
    qn_value_id *in = qn_region_alloc(g->region, 3, sizeof *in);
    qn_value_id weight = QN_NO_VALUE, bias = QN_NO_VALUE;
    if (!n || !in)
        return qn_fail(err, QN_NO_MEMORY, "no memory to fold");
    *n = *found;
    qn_shape channels = qn_shape_make(1, &n->channels);
    qn_status st = add_const(g, n, &n->weight->shape, fill_weight, &weight, err);
    if (st == QN_OK)
        st = add_const(g, n, &channels, fill_bias, &bias, err);
    if (st != QN_OK)
        return st;
    in[0] = conv->in[0];
    in[1] = weight;
    in[2] = bias;
    conv->in = in;
    conv->n_in = 3;
    conv->out[0] = bn->out[0];
    return QN_OK;
}

static qn_status fold_graph(qn_graph *g, void *arg, qn_error *err)
{
    qn_static_report *report = arg;
    uint32_t *uses = qn_calloc(g->n_values + 1u, sizeof *uses);
    qn_node **producer = qn_calloc(g->n_values + 1u, sizeof *producer);
    qn_status st = QN_OK;
    uint32_t kept = 0, n_values = g->n_values;
    if (!uses || !producer)
        st = qn_fail(err, QN_NO_MEMORY, "no memory to fold");
    else
        qn_count_uses(g, uses);
    for (uint32_t i = 0; st == QN_OK && i < g->n_nodes; i++) {
        qn_node *node = g->nodes[i];
        norm n = { 0 };
        qn_value_id x = node->n_in ? node->in[0] : QN_NO_VALUE;
        qn_node *conv = x < n_values && uses[x] == 1 ? producer[x] : NULL;
        if (conv && matches(g, conv, node, &n)) {
            st = fold_pair(g, conv, node, &n, err);
            producer[node->out[0]] = conv;
            report->fused_nodes++;
            continue;
        }
        if (!strcmp(node->op_name, "Conv") && !node->domain[0])
            producer[node->out[0]] = node;
        g->nodes[kept++] = node;
    }
    if (st == QN_OK) {
        g->n_nodes = kept;
        qn_graph_renumber(g);
    }
    qn_free(producer);
    qn_free(uses);
    return st;
}

qn_status qn_pass_batchnorm(qn_graph *graph, qn_static_report *report,
                            qn_error *err)
{
    return qn_graph_each(graph, fold_graph, report, err);
}

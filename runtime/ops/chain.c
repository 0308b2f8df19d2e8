/* SPDX-License-Identifier: Apache-2.0 */
/* The program of ai.quern.Chain, and what shapes it takes. */
#include "runtime/ops/chain.h"

#include "runtime/ops/tables.h"

enum { STEP_INTS = 4, STEP_FLOATS = 2 };

static qn_status bad(uint32_t step, const char *what, int64_t v, qn_error *err)
{
    return qn_fail(err, QN_INVALID, "step %u: %s is %lld", step, what,
                   (long long)v);
}

static qn_status read_step(const qn_node *node, uint32_t i, const int64_t *v,
                           const float *numbers, qn_chain_step *out,
                           qn_error *err)
{
    bool two = v[0] > QN_PW_BEFORE_BINARY;
    if (v[0] < 0 || v[0] >= QN_PW_COUNT)
        return bad(i, "function", v[0], err);
    if (two ? v[1] != QN_CHAIN_CONST && v[1] != QN_CHAIN_INPUT
            : v[1] != QN_CHAIN_UNARY)
        return bad(i, "kind", v[1], err);
    if (v[1] == QN_CHAIN_INPUT &&
        (v[2] < 0 || v[2] >= node->n_in ||
         node->in[v[2]] == QN_NO_VALUE))
        return bad(i, "input", v[2], err);
    *out = (qn_chain_step){ .op = (int)v[0],
                            .kind = (qn_chain_kind)v[1],
                            .left = two && v[3] != 0,
                            .a = numbers[0],
                            .b = numbers[1] };
    if (v[1] == QN_CHAIN_INPUT)
        out->input = (uint32_t)v[2];
    return QN_OK;
}

qn_status qn_chain_read(const qn_node *node, qn_chain *out, qn_error *err)
{
    size_t n_ints, n_floats;
    const int64_t *ints = qn_node_ints(node, "steps", &n_ints);
    const float *floats = qn_node_floats(node, "numbers", &n_floats);
    size_t n = n_ints / STEP_INTS;

    *out = (qn_chain){ 0 };
    if (n < 1 || n > QN_CHAIN_STEPS || n_ints != n * STEP_INTS)
        return qn_fail(err, QN_INVALID,
                       "attribute steps has %zu numbers, expected 4 for each "
                       "of up to %d steps",
                       n_ints, QN_CHAIN_STEPS);
    if (n_floats != n * STEP_FLOATS)
        return qn_fail(err, QN_INVALID,
                       "attribute numbers has %zu, expected 2 for each of %zu "
                       "steps",
                       n_floats, n);
    for (uint32_t i = 0; i < n; i++) {
        qn_status st = read_step(node, i, ints + STEP_INTS * i,
                                 floats + STEP_FLOATS * i, &out->steps[i], err);
        if (st != QN_OK)
            return st;
    }
    out->n = (uint32_t)n;
    return QN_OK;
}

static qn_status check_chain(const qn_node *node, qn_error *err)
{
    qn_chain chain;
    return qn_chain_read(node, &chain, err);
}

static qn_status infer_chain(const qn_infer *in, qn_error *err)
{
    const qn_shape *x = &in->in[0].shape;
    for (uint32_t i = 1; i < in->n_in; i++) {
        char tx[QN_SHAPE_TEXT], ti[QN_SHAPE_TEXT];
        qn_shape all;
        if (!qn_present(&in->in[i]))
            continue;
        qn_status st = qn_shape_broadcast(x, &in->in[i].shape, &all, err);
        if (st != QN_OK)
            return st;
        if (!qn_shape_equal(&all, x))
            return qn_fail(err, QN_SHAPE,
                           "input %u of shape %s does not broadcast to input "
                           "0's shape %s",
                           i, qn_shape_text(&in->in[i].shape, ti),
                           qn_shape_text(x, tx));
    }
    in->out[0].shape = *x;
    return QN_OK;
}

static const qn_op rows[] = {
    { .domain = "ai.quern", .name = "Chain", .since = 1, .until = 1,
      .min_in = 1, .max_in = QN_CHAIN_INPUTS, .min_out = 1, .max_out = 1,
      .flags = QN_OP_ELEMENTWISE | QN_OP_SAME_TYPE, .inplace = 0xff,
      .types = { QN_BIT(F32) | QN_BIT(F16) | QN_BIT(BF16) },
      .check = check_chain, .infer = infer_chain },
};

QN_OP_TABLE(qn_ops_chain, rows);

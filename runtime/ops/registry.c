/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking operators up, and the rules that several families share. The search
 * is linear over some 150 rows and runs once per node at load.
 */
#include "runtime/ops/tables.h"

#include <string.h>

static const qn_op_table *const tables[] = {
#define FAMILY(name) &qn_ops_##name,
    QN_OP_FAMILIES(FAMILY)
#undef FAMILY
};

const qn_op *qn_op_find(const char *domain, const char *name, int opset,
                        bool *known)
{
    const qn_op *found = NULL;
    if (known)
        *known = false;
    if (!strcmp(domain, "ai.onnx"))
        domain = "";
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        for (size_t i = 0; i < tables[t]->n; i++) {
            const qn_op *op = &tables[t]->rows[i];
            if (strcmp(op->name, name) || strcmp(op->domain, domain))
                continue;
            if (known)
                *known = true;
            if (opset >= op->since && opset <= op->until)
                found = op;
        }
    return found;
}

qn_status qn_types_bool(const qn_node *node, uint32_t n_in, const qn_dtype *in,
                        uint32_t n_out, qn_dtype *out, qn_error *err)
{
    (void)node, (void)n_in, (void)in, (void)err;
    for (uint32_t i = 0; i < n_out; i++)
        out[i] = QN_BOOL;
    return QN_OK;
}

qn_status qn_types_i64(const qn_node *node, uint32_t n_in, const qn_dtype *in,
                       uint32_t n_out, qn_dtype *out, qn_error *err)
{
    (void)node, (void)n_in, (void)in, (void)err;
    for (uint32_t i = 0; i < n_out; i++)
        out[i] = QN_I64;
    return QN_OK;
}

qn_status qn_types_same_i64(const qn_node *node, uint32_t n_in,
                            const qn_dtype *in, uint32_t n_out, qn_dtype *out,
                            qn_error *err)
{
    (void)node, (void)n_in, (void)err;
    for (uint32_t i = 0; i < n_out; i++)
        out[i] = i ? QN_I64 : in[0];
    return QN_OK;
}

qn_status qn_infer_broadcast(const qn_infer *in, qn_error *err)
{
    qn_shape shape = { 0 };
    for (uint32_t i = 0; i < in->n_in; i++) {
        if (!qn_present(&in->in[i]))
            continue;
        qn_status st = qn_shape_broadcast(&shape, &in->in[i].shape, &shape, err);
        if (st != QN_OK)
            return st;
    }
    in->out[0].shape = shape;
    return QN_OK;
}

qn_status qn_infer_ints(const qn_infer *in, uint32_t i, int64_t *out,
                        size_t cap, size_t *n, qn_error *err)
{
    const qn_tensor *t = &in->in[i];
    int64_t count = qn_count(t);
    *n = 0;
    if (t->dtype != QN_I64 && t->dtype != QN_I32)
        return qn_fail(err, QN_TYPE, "input %u is %s, int64 or int32 expected",
                       i, qn_dtype_name(t->dtype));
    if (!t->data && count)
        return qn_fail(err, QN_INTERNAL, "the value of input %u is not known", i);
    if ((size_t)count > cap)
        return qn_fail(err, QN_RANGE, "input %u has %lld elements, at most %zu "
                       "make sense", i, (long long)count, cap);
    for (int64_t k = 0; k < count; k++)
        out[k] = t->dtype == QN_I64 ? ((const int64_t *)t->data)[k]
                                    : ((const int32_t *)t->data)[k];
    *n = (size_t)count;
    return QN_OK;
}

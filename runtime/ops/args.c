/* SPDX-License-Identifier: Apache-2.0 */
/* Reading arguments that are an attribute in one version of an operator and an
 * input in the next. */
#include "runtime/base/half.h"
#include "runtime/ops/move.h"

#include <string.h>

qn_status qn_read_axes(const qn_infer *in, const char *attr, uint32_t i,
                       int rank, int axes[QN_MAX_RANK], size_t *n, bool *given,
                       qn_error *err)
{
    int64_t raw[QN_MAX_RANK];
    bool seen[QN_MAX_RANK] = { false };
    qn_status st = QN_OK;

    *n = 0;
    *given = false;
    if (attr) {
        const int64_t *ints = qn_node_ints(in->node, attr, n);
        if (!ints && !qn_node_attr(in->node, attr))
            return QN_OK;
        if (*n > QN_MAX_RANK)
            return qn_fail(err, QN_INVALID, "%s has %zu entries, at most %d "
                           "make sense", attr, *n, QN_MAX_RANK);
        if (*n)
            memcpy(raw, ints, *n * sizeof *raw);
    } else {
        if (i >= in->n_in || !qn_present(&in->in[i]))
            return QN_OK;
        st = qn_infer_ints(in, i, raw, QN_MAX_RANK, n, err);
        if (st != QN_OK)
            return st;
    }
    for (size_t k = 0; k < *n; k++) {
        st = qn_axis(raw[k], rank, &axes[k], err);
        if (st != QN_OK)
            return st;
        if (seen[axes[k]])
            return qn_fail(err, QN_INVALID, "axis %d is listed twice", axes[k]);
        seen[axes[k]] = true;
    }
    *given = true;
    return QN_OK;
}

qn_status qn_read_scalar(const qn_infer *in, uint32_t i, double *out,
                         qn_error *err)
{
    const qn_tensor *t = &in->in[i];
    if (!t->data || qn_count(t) != 1)
        return qn_fail(err, QN_SHAPE, "input %u has %lld elements, 1 expected",
                       i, (long long)qn_count(t));
    switch (t->dtype) {
#define CASE(name, type, convert)                                              \
    case QN_##name: {                                                          \
        type v;                                                                \
        memcpy(&v, t->data, sizeof v);                                         \
        *out = (double)convert(v);                                             \
        return QN_OK;                                                          \
    }
        CASE(F32, float, )
        CASE(F64, double, )
        CASE(F16, uint16_t, qn_f16_to_f32)
        CASE(BF16, uint16_t, qn_bf16_to_f32)
        CASE(I8, int8_t, )
        CASE(I16, int16_t, )
        CASE(I32, int32_t, )
        CASE(I64, int64_t, )
        CASE(U8, uint8_t, )
        CASE(U16, uint16_t, )
        CASE(U32, uint32_t, )
        CASE(U64, uint64_t, )
#undef CASE
    default:
        return qn_fail(err, QN_TYPE, "input %u is %s, a number expected", i,
                       qn_dtype_name(t->dtype));
    }
}

qn_status qn_check_output(const qn_infer *in, uint32_t i, qn_error *err)
{
    size_t bytes;
    return qn_tensor_bytes(in->out[i].dtype, &in->out[i].shape, &bytes, err);
}

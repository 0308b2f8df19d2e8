/* SPDX-License-Identifier: Apache-2.0 */
#include "server/codec/npy.h"

#include "runtime/base/checked.h"

static qn_status head(const qn_tensor *tensor, char out[QN_NPY_HEAD],
                      size_t *len, size_t *bytes, qn_error *err)
{
    qn_status st;

    /* in a file it becomes float32; an answer keeps its type or says no */
    if (tensor->dtype == QN_BF16)
        return qn_fail(err, QN_UNSUPPORTED,
                       ".npy has no elements of type BF16: ask for JSON");
    st = qn_tensor_bytes(tensor->dtype, &tensor->shape, bytes, err);
    return st == QN_OK ? qn_npy_head(tensor, out, len, err) : st;
}

qn_status qn_npy_bytes(const qn_tensor *tensor, size_t *bytes, qn_error *err)
{
    char text[QN_NPY_HEAD];
    size_t len, data;
    qn_status st = head(tensor, text, &len, &data, err);

    *bytes = 0;
    if (st == QN_OK && !qn_add_size(len, data, bytes))
        st = qn_fail(err, QN_TOO_LARGE, "%zu bytes of elements", data);
    return st;
}

qn_status qn_npy_write(qn_sink *sink, const qn_tensor *tensor, qn_error *err)
{
    char text[QN_NPY_HEAD];
    size_t len, data;
    qn_status st = head(tensor, text, &len, &data, err);

    if (st == QN_OK)
        st = qn_sink_put(sink, text, len, err);
    return st == QN_OK ? qn_sink_put(sink, tensor->data, data, err) : st;
}

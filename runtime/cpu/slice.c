/* SPDX-License-Identifier: Apache-2.0 */
/* Slice: one strided copy. Bounds are read from the inputs at launch, so that
 * a slice whose bounds were computed takes the same way. */
#include "runtime/cpu/strided.h"
#include "runtime/cpu/tables.h"
#include "runtime/ops/move.h"

enum { MAX_IN = 5 };

static qn_status launch_slice(const qn_launch *k)
{
    const qn_tensor *data = &k->in[0];
    qn_tensor in[MAX_IN];
    int64_t from[QN_MAX_RANK], to[QN_MAX_RANK];
    qn_strided s = { 0 };
    qn_slice slice;

    for (uint32_t i = 0; i < k->n_in && i < MAX_IN; i++)
        in[i] = k->in[i];
    in[0].shape = qn_node_logical_shape(k->node, &data->shape);
    qn_status st = qn_slice_resolve(
        &(qn_infer){ .node = k->node, .n_in = k->n_in, .in = in }, &slice,
        k->err);
    if (st != QN_OK)
        return st;
    size_t size = qn_dtype_size(data->dtype);
    const char *src = data->data;
    qn_strides(&data->shape, from);
    qn_strides(&k->out[0].shape, to);
    if (qn_count(&k->out[0]) == 0)
        return QN_OK;
    int axis[QN_MAX_RANK]; /* logical axis of each axis in memory */
    for (int d = 0; d < data->shape.rank; d++)
        axis[qn_memory_axis(k->node, data->shape.rank, d)] = d;
    for (int m = 0; m < data->shape.rank; m++) {
        int d = axis[m];
        src += slice.start[d] * from[m] * (int64_t)size;
        qn_strided_add(&s, slice.count[d], slice.step[d] * from[m], to[m]);
    }
    qn_strided_copy(k->team, &s, size, src, k->out[0].data);
    return QN_OK;
}

static const qn_kernel rows[] = {
    { .domain = "", .name = "Slice", .since = 1, .until = QN_OPSET_MAX,
      .flags = QN_KERNEL_NHWC, .launch = launch_slice },
};

QN_KERNEL_TABLE(qn_cpu_slice, rows);

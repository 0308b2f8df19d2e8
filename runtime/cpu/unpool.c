/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MaxUnpool: the inverse of MaxPool. Indices count positions of the tensor that
 * the window, strides and pads imply; each value goes to the same coordinates
 * of the output, which output_shape may have made larger. Everything else is 0.
 */
#include "runtime/cpu/tables.h"
#include "runtime/ops/op.h"
#include "runtime/ops/pool.h"

#include <string.h>

/* Flat index over `from` as flat index over `to`; -1 outside of either. */
static int64_t moved(const qn_shape *from, const qn_shape *to, int64_t index)
{
    int64_t out = 0, stride = 1;
    if (index < 0)
        return -1;
    for (int i = from->rank - 1; i >= 0; i--) {
        int64_t at = index % from->dims[i];
        if (at >= to->dims[i])
            return -1;
        out += at * stride;
        stride *= to->dims[i];
        index /= from->dims[i];
    }
    return index ? -1 : out;
}

static qn_status unpool_launch(const qn_launch *k)
{
    qn_shape implied;
    qn_status st = qn_unpool_shape(k->node, &k->in[0].shape, &implied, k->err);
    if (st != QN_OK)
        return st;
    size_t size = qn_dtype_size(k->in[0].dtype);
    int64_t n = qn_count(&k->in[0]), cells = qn_count(&k->out[0]);
    const int64_t *indices = k->in[1].data;
    const char *x = k->in[0].data;
    char *y = k->out[0].data;
    if (cells)
        memset(y, 0, (size_t)cells * size);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = cells ? moved(&implied, &k->out[0].shape, indices[i]) : -1;
        if (at < 0)
            return qn_launch_fail(k, QN_RANGE,
                                  "index %lld is %lld, outside the output",
                                  (long long)i, (long long)indices[i]);
        memcpy(y + (size_t)at * size, x + (size_t)i * size, size);
    }
    return QN_OK;
}

static const qn_kernel kernels[] = {
    { .domain = "",
      .name = "MaxUnpool",
      .since = 1,
      .until = QN_OPSET_MAX,
      .launch = unpool_launch },
};

QN_KERNEL_TABLE(qn_cpu_unpool, kernels);

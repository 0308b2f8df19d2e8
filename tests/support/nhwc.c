/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/nhwc.h"

#include <string.h>

enum { MAX_ARGS = 16 };

static qn_shape memory_shape(const qn_shape *s)
{
    qn_shape m = *s;
    if (s->rank == 4) {
        m.dims[1] = s->dims[2];
        m.dims[2] = s->dims[3];
        m.dims[3] = s->dims[1];
    }
    return m;
}

/* Logical element (n, c, h, w) lies at ((n * H + h) * W + w) * C + c. */
static void reorder(const qn_tensor *t, bool to_memory, const char *src,
                    char *dst)
{
    size_t size = qn_dtype_size(t->dtype);
    const int64_t *d = t->shape.dims;
    size_t plain = 0;
    for (int64_t n = 0; n < d[0]; n++)
        for (int64_t c = 0; c < d[1]; c++)
            for (int64_t h = 0; h < d[2]; h++)
                for (int64_t w = 0; w < d[3]; w++, plain++) {
                    size_t last = (size_t)(((n * d[2] + h) * d[3] + w) * d[1] + c);
                    memcpy(dst + (to_memory ? last : plain) * size,
                           src + (to_memory ? plain : last) * size, size);
                }
}

static void *allocate(qn_region *region, const qn_tensor *t)
{
    return qn_region_alloc(region, (size_t)qn_count(t), qn_dtype_size(t->dtype));
}

qn_status test_nhwc_run(const qn_node *plain, const qn_tensor *in,
                        qn_tensor *out, qn_region *region, qn_error *err)
{
    qn_tensor inputs[MAX_ARGS], outputs[MAX_ARGS];
    const void *packed[MAX_ARGS] = { NULL };
    const qn_kernel *kernel;
    qn_node node = *plain;
    qn_status st = qn_eval_infer(&node, in, out, err);
    if (st == QN_OK)
        st = qn_eval_kernel(&node, in, &kernel, err);
    if (st == QN_OK && !(kernel->flags & QN_KERNEL_NHWC))
        st = qn_fail(err, QN_UNSUPPORTED, "plain order only");
    if (st != QN_OK)
        return st;
    node.order = QN_ORDER_NHWC;
    for (uint32_t i = 0; i < node.n_in; i++) {
        inputs[i] = in[i];
        if (!qn_present(&in[i]) || in[i].shape.rank != 4)
            continue;
        inputs[i].shape = memory_shape(&in[i].shape);
        inputs[i].data = allocate(region, &in[i]);
        reorder(&in[i], true, in[i].data, inputs[i].data);
    }
    for (uint32_t i = 0; i < node.n_out; i++) {
        outputs[i] = out[i];
        outputs[i].shape = memory_shape(&out[i].shape);
        outputs[i].data = allocate(region, &out[i]);
        out[i].data = allocate(region, &out[i]);
    }
    qn_prepare p = { .node = &node, .n_in = node.n_in, .n_out = node.n_out,
                     .in = inputs, .out = outputs, .packed = packed,
                     .max_threads = 1, .region = region };
    if (kernel->prepare)
        st = kernel->prepare(&p, err);
    if (st != QN_OK)
        return st;
    st = kernel->launch(&(qn_launch){
        .node = &node, .state = p.state, .n_in = node.n_in,
        .n_out = node.n_out, .in = inputs, .out = outputs, .packed = packed,
        .workspace = qn_region_alloc(region, p.workspace, 1), .err = err });
    for (uint32_t i = 0; st == QN_OK && i < node.n_out; i++)
        reorder(&out[i], false, outputs[i].data, out[i].data);
    return st;
}

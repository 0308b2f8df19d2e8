/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/eval.h"

#include "runtime/ops/op.h"

static qn_status types_of(const qn_node *node, const qn_tensor *in,
                          qn_region *region, qn_dtype **out, qn_error *err)
{
    qn_dtype *types = qn_region_alloc(region, node->n_in + 1u, sizeof *types);
    if (!types)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for %u types",
                       node->n_in);
    for (uint32_t i = 0; i < node->n_in; i++)
        types[i] = in[i].dtype;
    *out = types;
    return QN_OK;
}

qn_status qn_eval_infer(const qn_node *node, const qn_tensor *in,
                        qn_tensor *out, qn_error *err)
{
    const qn_op *op = node->op;
    char text[QN_NODE_TEXT];
    qn_region region = { 0 };
    qn_dtype *types = NULL, *results = NULL;
    qn_status st = types_of(node, in, &region, &types, err);
    if (st != QN_OK)
        goto done;
    results = qn_region_alloc(&region, node->n_out + 1u, sizeof *results);
    if (!results) {
        st = qn_fail(err, QN_NO_MEMORY, "out of memory");
        goto done;
    }
    for (uint32_t i = 0; i < node->n_out; i++)
        results[i] = node->n_in ? types[0] : QN_NONE;
    if (op->out_types)
        st = op->out_types(node, node->n_in, types, node->n_out, results, err);
    if (st != QN_OK)
        goto named;
    for (uint32_t i = 0; i < node->n_out; i++) {
        out[i] = (qn_tensor){ .dtype = results[i] };
        if (!op->infer)
            out[i].shape = in[0].shape;
    }
    if (op->infer)
        st = op->infer(&(qn_infer){ .node = node,
                                    .n_in = node->n_in,
                                    .n_out = node->n_out,
                                    .in = in,
                                    .out = out },
                       err);
named:
    if (st != QN_OK)
        qn_error_prefix(err, "%s", qn_node_text(node, text));
done:
    qn_region_release(&region);
    return st;
}

qn_status qn_eval_kernel(const qn_node *node, const qn_tensor *in,
                         const qn_kernel **out, qn_error *err)
{
    qn_region region = { 0 };
    qn_dtype *types;
    *out = NULL;
    qn_status st = types_of(node, in, &region, &types, err);
    if (st == QN_OK && !(*out = qn_cpu_kernel_find(node, node->n_in, types))) {
        char text[QN_NODE_TEXT];
        st = qn_fail(err, QN_UNSUPPORTED, "%s: no cpu kernel for %s input",
                     qn_node_text(node, text),
                     qn_dtype_name(node->n_in ? types[0] : QN_NONE));
    }
    qn_region_release(&region);
    return st;
}

static qn_status allocate_outputs(const qn_node *node, qn_tensor *out,
                                  qn_region *region, qn_error *err)
{
    for (uint32_t i = 0; i < node->n_out; i++) {
        size_t bytes;
        if (!qn_present(&out[i]))
            continue;
        qn_status st = qn_tensor_bytes(out[i].dtype, &out[i].shape, &bytes, err);
        if (st != QN_OK)
            return st;
        out[i].data = qn_region_alloc(region, bytes, 1);
        if (!out[i].data)
            return qn_fail(err, QN_NO_MEMORY, "no memory for %zu bytes", bytes);
    }
    return QN_OK;
}

static qn_status run(const qn_node *node, const qn_tensor *in, qn_tensor *out,
                     const qn_kernel *kernel, qn_strings *strings,
                     qn_region *region, qn_error *err)
{
    const void **packed = qn_region_alloc(region, node->n_in + 1u, sizeof *packed);
    if (!packed)
        return qn_fail(err, QN_NO_MEMORY, "out of memory");
    qn_prepare p = { .node = node, .n_in = node->n_in, .n_out = node->n_out,
                     .in = in, .out = out, .packed = packed, .max_threads = 1,
                     .region = region };
    if (kernel->prepare) {
        qn_status st = kernel->prepare(&p, err);
        if (st != QN_OK)
            return st;
    }
    void *workspace = p.workspace ? qn_region_alloc(region, p.workspace, 1) : NULL;
    if (p.workspace && !workspace)
        return qn_fail(err, QN_NO_MEMORY, "no memory for a workspace of %zu bytes",
                       p.workspace);
    return kernel->launch(&(qn_launch){
        .node = node, .state = p.state, .n_in = node->n_in,
        .n_out = node->n_out, .in = in, .out = out, .packed = packed,
        .workspace = workspace, .strings = strings, .err = err });
}

qn_status qn_eval_node(const qn_node *node, const qn_tensor *in, qn_tensor *out,
                       qn_strings *strings, qn_region *region, qn_error *err)
{
    const qn_kernel *kernel;
    char text[QN_NODE_TEXT];
    if (node->op->flags & QN_OP_CONTROL)
        return qn_fail(err, QN_UNSUPPORTED, "%s: control flow needs a session",
                       qn_node_text(node, text));
    qn_status st = qn_eval_infer(node, in, out, err);
    if (st == QN_OK)
        st = allocate_outputs(node, out, region, err);
    if (st != QN_OK)
        return st;
    if (node->op->flags & QN_OP_VIEW) {
        size_t bytes;
        st = qn_tensor_bytes(in[0].dtype, &in[0].shape, &bytes, err);
        if (st == QN_OK && bytes)
            __builtin_memcpy(out[0].data, in[0].data, bytes);
        return st;
    }
    st = qn_eval_kernel(node, in, &kernel, err);
    if (st != QN_OK)
        return st;
    return run(node, in, out, kernel, strings, region, err);
}

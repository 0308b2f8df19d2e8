/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/eval.h"

#include "runtime/ops/op.h"

/* Nodes of up to this many arguments, all but a few Concats, need no heap. */
enum { FEW = 32 };

/* Element types of the inputs: `few` if they fit, else from the heap. */
static qn_dtype *types_of(const qn_node *node, const qn_tensor *in,
                          qn_dtype few[FEW])
{
    qn_dtype *types =
        node->n_in <= FEW ? few : qn_calloc(node->n_in, sizeof *types);
    for (uint32_t i = 0; types && i < node->n_in; i++)
        types[i] = in[i].dtype;
    return types;
}

static qn_status infer_types(const qn_node *node, const qn_dtype *types,
                             qn_tensor *out, qn_error *err)
{
    qn_dtype few[FEW];
    qn_dtype *results =
        node->n_out <= FEW ? few : qn_calloc(node->n_out, sizeof *results);
    qn_status st = QN_OK;
    if (!results)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for %u types",
                       node->n_out);
    for (uint32_t i = 0; i < node->n_out; i++)
        results[i] = node->n_in ? types[0] : QN_NONE;
    if (node->op->out_types)
        st = node->op->out_types(node, node->n_in, types, node->n_out, results,
                                 err);
    for (uint32_t i = 0; i < node->n_out; i++)
        out[i] = (qn_tensor){ .dtype = results[i] };
    if (results != few)
        qn_free(results);
    return st;
}

qn_status qn_eval_infer(const qn_node *node, const qn_tensor *in,
                        qn_tensor *out, qn_error *err)
{
    char text[QN_NODE_TEXT];
    qn_dtype few[FEW], *types = types_of(node, in, few);
    if (!types)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for %u types",
                       node->n_in);
    qn_status st = infer_types(node, types, out, err);
    for (uint32_t i = 0; st == QN_OK && !node->op->infer && i < node->n_out; i++)
        out[i].shape = in[0].shape;
    if (st == QN_OK && node->op->infer)
        st = node->op->infer(&(qn_infer){ .node = node,
                                          .n_in = node->n_in,
                                          .n_out = node->n_out,
                                          .in = in,
                                          .out = out },
                             err);
    if (st != QN_OK)
        qn_error_prefix(err, "%s", qn_node_text(node, text));
    if (types != few)
        qn_free(types);
    return st;
}

qn_status qn_eval_kernel(const qn_node *node, const qn_tensor *in,
                         const qn_kernel **out, qn_error *err)
{
    qn_dtype few[FEW], *types = types_of(node, in, few);
    *out = NULL;
    if (!types)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for %u types",
                       node->n_in);
    *out = qn_cpu_kernel_find(node, node->n_in, types);
    if (types != few)
        qn_free(types);
    if (!*out) {
        char text[QN_NODE_TEXT];
        return qn_fail(err, QN_UNSUPPORTED, "%s: no cpu kernel for %s input",
                       qn_node_text(node, text),
                       qn_dtype_name(node->n_in ? in[0].dtype : QN_NONE));
    }
    return QN_OK;
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

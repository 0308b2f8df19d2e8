/* SPDX-License-Identifier: Apache-2.0 */
/* The ONNX reader and graph builder, and every constant of what they accept. */
#include "models/model.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

unsigned long fuzz_accepted;

enum { MAX_CONST = 1 << 20 };

static void read_const(const qn_const *c)
{
    qn_error err = { 0 };
    if (c->bytes > MAX_CONST)
        return;
    void *dst = malloc(c->bytes ? c->bytes : 1);
    if (dst && qn_const_read(c, dst, &err) != QN_OK && !err.text[0])
        abort(); /* a failure has to say why */
    free(dst);
}

static void read_graph(const qn_graph *g)
{
    for (uint32_t i = 0; i < g->n_values; i++)
        if (g->values[i].data)
            read_const(g->values[i].data);
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t k = 0; k < g->nodes[i]->n_attrs; k++) {
            const qn_attr *a = &g->nodes[i]->attrs[k];
            if (a->kind == QN_ATTR_TENSOR)
                read_const(a->tensor);
            if (a->kind == QN_ATTR_GRAPH)
                read_graph(a->graph);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    qn_model_file *file;
    qn_graph *graph;
    qn_error err = { 0 };

    if (qn_model_parse(data, size, &file, &graph, &err) != QN_OK) {
        if (!err.text[0] || file || graph)
            abort();
        return 0;
    }
    read_graph(graph);
    qn_graph_free(graph);
    qn_model_close(file);
    fuzz_accepted++;
    return 0;
}

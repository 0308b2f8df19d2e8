/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Write protobuf messages, and ONNX models of them, for tests. A message grows
 * in its own buffer; nesting copies the child into the parent and frees it.
 * Out of memory aborts the test program.
 */
#ifndef QN_TESTS_SUPPORT_PB_H
#define QN_TESTS_SUPPORT_PB_H

#include <stddef.h>
#include <stdint.h>

typedef struct pb {
    uint8_t *data;
    size_t n, cap;
} pb;

void pb_free(pb *m);
void pb_raw(pb *m, const void *bytes, size_t n); /* no tag */
void pb_varint(pb *m, uint64_t v);               /* no tag */
void pb_int(pb *m, uint32_t field, int64_t v);
void pb_float(pb *m, uint32_t field, float v);
void pb_bytes(pb *m, uint32_t field, const void *bytes, size_t n);
void pb_text(pb *m, uint32_t field, const char *text);
/* Takes the child's bytes. */
void pb_put(pb *m, uint32_t field, pb *child);

/* ---- ONNX; field numbers are those of onnx.proto ---- */

enum {
    PB_GRAPH_NODE = 1,
    PB_GRAPH_NAME = 2,
    PB_GRAPH_INITIALIZER = 5,
    PB_GRAPH_INPUT = 11,
    PB_GRAPH_OUTPUT = 12,
    PB_GRAPH_SPARSE = 15,
    PB_NODE_ATTRIBUTE = 5,
    PB_NODE_DOMAIN = 7,
    PB_ATTR_G = 6,
    PB_ATTR_TYPE = 20,
    PB_MODEL_GRAPH = 7,
    PB_MODEL_IMPORT = 8,
    PB_MODEL_METADATA = 14,
    PB_MODEL_FUNCTION = 25,
    PB_TENSOR_INT32 = 5,
    PB_TENSOR_STRING = 6,
    PB_TENSOR_INT64 = 7,
    PB_TENSOR_RAW = 9
};

/* "a,b,,c": names by commas, empty ones are omitted arguments; "" is none. */
void pb_add_node(pb *graph, const char *op, const char *name, const char *in,
                 const char *out);
/* A node to be completed; then pb_put(graph, PB_GRAPH_NODE, &node). */
pb pb_node(const char *op, const char *name, const char *in, const char *out);
/* A dtype and a shape text: "2,N,?" mixes sizes, symbols and unknowns; "" is a
 * scalar, NULL no shape. */
pb pb_value(const char *name, int dtype, const char *shape);
void pb_add_input(pb *graph, const char *name, int dtype, const char *shape);
void pb_add_output(pb *graph, const char *name, int dtype, const char *shape);
/* name, dtype and dims; elements are up to the caller. */
pb pb_tensor(const char *name, int dtype, int rank, const int64_t *dims);
/* float32 vector as raw data. */
void pb_add_floats(pb *graph, const char *name, int n, const float *values);
/* An attribute that holds a graph; takes it. */
void pb_add_graph_attr(pb *node, const char *name, pb *graph);
void pb_add_int_attr(pb *node, const char *name, int64_t value);
void pb_add_import(pb *model, const char *domain, int64_t version);
/* Takes the graph; imports `opset` of the ONNX domain unless it is 0. */
pb pb_model(int64_t ir, int64_t opset, pb *graph);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to models/onnx/: what the parts of the ONNX reader share.
 *
 *   model.c     file, imports, metadata       graph.c     one GraphProto
 *   node.c      nodes, constants              function.c  inlining
 *   attr.c      attributes                    type.c      types, dimensions
 *   tensor.c    where initializers' bytes are fill.c      decoding them
 *   sparse.c    sparse initializers           external.c  files beside it
 *   scope.c     names                         wire.c, text.c  bytes
 *
 * Names resolve from the inside out: a graph's own inputs, initializers and
 * node outputs first, all of them whatever their order in the file, then those
 * of the enclosing graph, and so on. What is found outside becomes a capture
 * at each level in between. The body of a function is a scope of its own, from
 * which nothing outside is seen, though its nodes join the caller's graph.
 */
#ifndef QN_MODELS_ONNX_READER_H
#define QN_MODELS_ONNX_READER_H

#include "models/model.h"
#include "models/onnx/text.h"
#include "models/onnx/wire.h"

/* Limits on what a file may ask for; real models stay far below. */
enum {
    QN_ONNX_MAX_DEPTH = 64,      /* graphs inside graphs */
    QN_ONNX_MAX_CALLS = 32,      /* functions inside functions */
    QN_ONNX_MAX_NODES = 1 << 20, /* after functions are inlined */
    QN_ONNX_MAX_TYPE_DEPTH = 16, /* sequence of optional of ... */
    QN_ONNX_IR_MIN = 3,
    QN_ONNX_IR_MAX = 13
};

/* ONNX numbers its fields; these are onnx.proto's. */

typedef struct qn_import {
    qn_span domain; /* "" for ai.onnx */
    int version;
} qn_import;

typedef struct qn_imports {
    size_t n;
    qn_import *list;
} qn_imports;

typedef struct qn_function {
    qn_span domain, name, overload;
    qn_wire body;
    qn_imports imports;
} qn_function;

/* A file beside the model that was mapped. */
typedef struct qn_external {
    struct qn_external *next;
    char *path;
    const uint8_t *bytes;
    size_t len;
} qn_external;

struct qn_model_file {
    qn_region region;
    const uint8_t *bytes;
    size_t len;
    void *map; /* NULL: the caller's bytes */
    char *folder; /* real path of the model's folder; NULL: none */
    qn_external *externals;
    qn_model_info info;
};

typedef struct qn_reader {
    qn_model_file *file;
    qn_region *region; /* the graph's: names, arrays, constants */
    qn_region scratch; /* for the time of reading */
    int64_t ir_version;
    qn_imports imports;
    size_t n_functions;
    qn_function *functions;
    uint32_t n_nodes; /* so far, in all graphs */
    bool named;       /* the error says at which node */
    qn_error *err;
} qn_reader;

QN_NODISCARD qn_status qn_reader_no_memory(qn_reader *r);

/* ---- scope.c ---- */

typedef struct qn_scope_slot {
    qn_span name;
    qn_value_id id;
    bool used, formal;
} qn_scope_slot;

/* Lives in the caller's frame; its table in the reader's scratch memory. */
typedef struct qn_scope {
    struct qn_scope *parent; /* where to look next; NULL: nowhere */
    qn_graph *graph;
    const qn_imports *imports;
    const qn_attr *call; /* attributes of the function call we are in */
    uint32_t n_call;
    int depth, calls; /* graphs, functions around this one */
    size_t n, cap;
    qn_scope_slot *slots;
} qn_scope;

qn_scope_slot *qn_scope_find(const qn_scope *scope, qn_span name);
/* QN_FORMAT if the name is there already. id may be QN_NO_VALUE: a formal
 * input that the caller left out. */
QN_NODISCARD qn_status qn_scope_add(qn_reader *r, qn_scope *scope,
                                    qn_span name, qn_value_id id);
/* The value of a name for use in scope->graph. QN_FORMAT if there is none. */
QN_NODISCARD qn_status qn_scope_resolve(qn_reader *r, qn_scope *scope,
                                        qn_span name, qn_value_id *out);
/* Opset of a domain; 0 if it is not imported. */
int qn_scope_opset(const qn_scope *scope, qn_span domain);

/* ---- tensor.c, sparse.c, external.c ---- */

/* A TensorProto as a constant in the region. `name` is the tensor's own. */
QN_NODISCARD qn_status qn_onnx_tensor(qn_reader *r, qn_wire w, qn_span *name,
                                      const qn_const **out);
/* A SparseTensorProto, as the dense constant that it stands for. */
QN_NODISCARD qn_status qn_onnx_sparse(qn_reader *r, qn_wire w, qn_span *name,
                                      const qn_const **out);
/*
 * The bytes of external data: entries of TensorProto.external_data. The file is
 * mapped once. QN_INVALID for a location outside the model's folder, QN_IO,
 * QN_NOT_FOUND, QN_FORMAT for a range outside the file. len UINT64_MAX: up to
 * its end.
 */
QN_NODISCARD qn_status qn_onnx_external(qn_reader *r, qn_span location,
                                        uint64_t offset, uint64_t len,
                                        const uint8_t **bytes, size_t *n);
/* Map a whole regular file, read-only; *bytes is NULL for an empty one.
 * `path` goes into messages. Takes fd. */
QN_NODISCARD qn_status qn_onnx_map(int fd, const char *path,
                                   const uint8_t **bytes, size_t *len,
                                   qn_error *err);

/* ---- fill.c ---- */

/* Where the elements of a constant come from. */
typedef struct qn_source {
    qn_wire tensor;   /* the TensorProto, for field-coded elements */
    uint32_t field;   /* which field; set by qn_onnx_elements */
    const uint8_t *raw; /* raw_data or external bytes; NULL: neither */
} qn_source;

/* Set data, or fill and fill_arg, of a constant whose dtype, shape and bytes
 * are known. Checks that the number of elements is right; `c` and `source` live
 * in the region. */
QN_NODISCARD qn_status qn_onnx_elements(qn_const *c, qn_source *source,
                                        size_t raw_len, const char *name,
                                        qn_error *err);

/* ---- type.c ---- */

/* A ValueInfoProto: name, type, rank and dims; kind NONE, rank -1 where it says
 * nothing. */
QN_NODISCARD qn_status qn_onnx_value_info(qn_reader *r, qn_wire w,
                                          qn_span *name, qn_value *out);
/* Append one occurrence of a repeated int64 field to a shape. */
QN_NODISCARD qn_status qn_onnx_shape(qn_reader *r, const qn_field *field,
                                     qn_shape *shape);
/* Dimensions in the region from a shape. */
QN_NODISCARD qn_status qn_onnx_dims(qn_reader *r, const qn_shape *shape,
                                    const qn_dim **out);

/* ---- graph.c, node.c, attr.c, function.c ---- */

/* A GraphProto as a new graph; outer NULL for the main one, which the caller
 * frees even after a failure. */
QN_NODISCARD qn_status qn_onnx_graph(qn_reader *r, qn_wire w, qn_scope *outer,
                                     qn_graph **out);
/* Make values for a node's outputs; those of a function that are bound to
 * values of the caller already are left. */
QN_NODISCARD qn_status qn_onnx_declare(qn_reader *r, qn_scope *scope,
                                       qn_wire w);
/* Add the node, or the constant that it is, or the body that it calls. */
QN_NODISCARD qn_status qn_onnx_node(qn_reader *r, qn_scope *scope, qn_wire w);
/* *present is false if the attribute refers to one that the caller left out. */
QN_NODISCARD qn_status qn_onnx_attr(qn_reader *r, qn_scope *scope, qn_wire w,
                                    qn_attr *out, bool *present);

typedef struct qn_call {
    const char *name, *op; /* for messages */
    uint32_t n_in, n_out, n_attrs;
    const qn_value_id *in, *out;
    const qn_attr *attrs;
} qn_call;

const qn_function *qn_onnx_function(const qn_reader *r, qn_span domain,
                                    qn_span name, qn_span overload);
QN_NODISCARD qn_status qn_onnx_inline(qn_reader *r, qn_scope *scope,
                                      const qn_function *f,
                                      const qn_call *call);
/* One OperatorSetIdProto into a list made for it. */
QN_NODISCARD qn_status qn_onnx_import(qn_reader *r, qn_wire w,
                                      qn_imports *imports);
/* "ai.onnx" is "". */
qn_span qn_onnx_domain(qn_span domain);

/* digest.c: SHA-256 in lower-case hex. QN_INTERNAL if the library fails. */
QN_NODISCARD qn_status qn_onnx_digest(const void *bytes, size_t len,
                                      char sha256[QN_SHA256_TEXT],
                                      qn_error *err);

#endif

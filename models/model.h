/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a model is: a file read into a kernel graph, with its metadata. A folder
 * of models with versions is in models/repository.h.
 */
#ifndef QN_MODELS_MODEL_H
#define QN_MODELS_MODEL_H

#include "runtime/graph/graph.h"

typedef struct qn_model_file qn_model_file;

/*
 * Map an ONNX file and read it into a finished graph. Constants point into the
 * mapping, which must outlive the graph's use of them: close the file after
 * qn_session_new() (which copies or packs all it needs).
 *
 * QN_NOT_FOUND, QN_IO, QN_FORMAT (with the byte offset), QN_UNSUPPORTED
 * (operator, opset and node), QN_TOO_LARGE. Nothing is leaked on failure.
 */
QN_NODISCARD qn_status qn_model_open(const char *path, qn_model_file **file,
                                     qn_graph **graph, qn_error *err);
/* The same from memory (fuzzing, tests); no external data. The bytes are
 * borrowed until qn_model_close(). */
QN_NODISCARD qn_status qn_model_parse(const void *bytes, size_t len,
                                      qn_model_file **file, qn_graph **graph,
                                      qn_error *err);
void qn_model_close(qn_model_file *file);

typedef struct qn_model_info {
    int64_t ir_version;
    int64_t opset; /* of the ONNX domain */
    const char *producer, *producer_version, *graph_name, *doc;
    size_t file_bytes; /* external data included */
    uint32_t n_metadata;
    const char *const *metadata; /* key, value, key, value ... */
} qn_model_info;
const qn_model_info *qn_model_get_info(const qn_model_file *file);

/*
 * SHA-256, in lower-case hex, of the model (i = 0) and of each file of external
 * data that it uses (i = 1 ...), with its name below the model's folder ("" for
 * the model). Computed from the mapping: of just the bytes that were loaded, at
 * the cost of reading them once. QN_NOT_FOUND past the last file; QN_INTERNAL
 * if the digest library fails.
 */
enum { QN_SHA256_TEXT = 65 };
QN_NODISCARD qn_status qn_model_digest(const qn_model_file *file, uint32_t i,
                                       const char **name,
                                       char sha256[QN_SHA256_TEXT],
                                       qn_error *err);

/* One serialised TensorProto (input_0.pb of test folders): copies into memory
 * from qn_calloc, which the caller frees; strings in out->strings. */
typedef struct qn_tensor_file {
    char *name;
    qn_tensor tensor;
    char *strings; /* heap of string elements (QN_STRINGS_STATIC) */
    size_t string_bytes;
} qn_tensor_file;
QN_NODISCARD qn_status qn_tensor_pb_read(const char *path, qn_tensor_file *out,
                                         qn_error *err);
QN_NODISCARD qn_status qn_tensor_pb_write(const char *path, const char *name,
                                          const qn_tensor *tensor,
                                          const qn_strings *strings,
                                          qn_error *err);
/* .npy, versions 1.0 to 3.0, C order (Fortran order is transposed). Writing:
 * bfloat16 becomes float32, 4 and 2 bit integers become 8 bit ones; strings and
 * the 8 and 4 bit floats are QN_UNSUPPORTED. */
QN_NODISCARD qn_status qn_tensor_npy_read(const char *path, qn_tensor_file *out,
                                          qn_error *err);
QN_NODISCARD qn_status qn_tensor_npy_write(const char *path,
                                           const qn_tensor *tensor,
                                           qn_error *err);
void qn_tensor_file_release(qn_tensor_file *file);

#endif

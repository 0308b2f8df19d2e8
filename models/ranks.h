/* SPDX-License-Identifier: Apache-2.0 */
/* A model of one file, or of one for each rank: read into one graph. */
#ifndef QN_MODELS_RANKS_H
#define QN_MODELS_RANKS_H

#include "models/model.h"

typedef struct qn_model_files {
    uint32_t n;
    qn_model_file *files[QN_GRAPH_RANKS]; /* by rank */
} qn_model_files;

/*
 * Open paths[0..n), each as qn_model_open() does, and merge their graphs
 * (runtime/graph/ranks.h); one path is just a model. The files outlive the
 * graph's use of their constants, see there. QN_INVALID: n is 0 or more than
 * QN_GRAPH_RANKS; errors of one of several files name its rank. Nothing is left
 * open on failure.
 */
QN_NODISCARD qn_status qn_model_open_ranks(const char *const *paths, uint32_t n,
                                           qn_model_files *out, qn_graph **graph,
                                           qn_error *err);
void qn_model_close_ranks(qn_model_files *files);

/* Bytes of all of them, external data included. */
size_t qn_model_ranks_bytes(const qn_model_files *files);

/* SHA-256 of the model: of its one file; of several, of their digests as text,
 * one behind the other. QN_INTERNAL. */
QN_NODISCARD qn_status qn_model_ranks_digest(const qn_model_files *files,
                                             char sha256[QN_SHA256_TEXT],
                                             qn_error *err);

#endif

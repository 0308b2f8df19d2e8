/* SPDX-License-Identifier: Apache-2.0 */
#include "models/ranks.h"

#include "models/onnx/reader.h"
#include "runtime/graph/ranks.h"

#include <string.h>

qn_status qn_model_open_ranks(const char *const *paths, uint32_t n,
                              qn_model_files *out, qn_graph **graph,
                              qn_error *err)
{
    qn_graph *parts[QN_GRAPH_RANKS];
    qn_status st = QN_OK;

    memset(out, 0, sizeof *out);
    *graph = NULL;
    if (n < 1 || n > QN_GRAPH_RANKS)
        return qn_fail(err, QN_INVALID, "a model of %u files, 1 to %d expected",
                       n, QN_GRAPH_RANKS);
    while (st == QN_OK && out->n < n) {
        st = qn_model_open(paths[out->n], &out->files[out->n], &parts[out->n],
                           err);
        if (st == QN_OK)
            out->n++;
        else if (n > 1)
            qn_error_prefix(err, "rank %u", out->n);
    }
    if (st != QN_OK)
        for (uint32_t r = 0; r < out->n; r++)
            qn_graph_free(parts[r]);
    else if (n == 1)
        *graph = parts[0];
    else
        st = qn_graph_merge(parts, n, graph, err);
    if (st != QN_OK)
        qn_model_close_ranks(out);
    return st;
}

void qn_model_close_ranks(qn_model_files *files)
{
    for (uint32_t r = 0; r < files->n; r++)
        qn_model_close(files->files[r]);
    memset(files, 0, sizeof *files);
}

size_t qn_model_ranks_bytes(const qn_model_files *files)
{
    size_t bytes = 0;

    for (uint32_t r = 0; r < files->n; r++)
        bytes += qn_model_get_info(files->files[r])->file_bytes;
    return bytes;
}

qn_status qn_model_ranks_digest(const qn_model_files *files,
                                char sha256[QN_SHA256_TEXT], qn_error *err)
{
    char all[QN_GRAPH_RANKS * QN_SHA256_TEXT], one[QN_SHA256_TEXT];
    const char *name;
    size_t at = 0;
    qn_status st = QN_OK;

    sha256[0] = 0;
    for (uint32_t r = 0; st == QN_OK && r < files->n; r++) {
        st = qn_model_digest(files->files[r], 0, &name, one, err);
        memcpy(all + at, one, QN_SHA256_TEXT - 1);
        at += QN_SHA256_TEXT - 1;
    }
    if (st == QN_OK && files->n == 1)
        memcpy(sha256, one, QN_SHA256_TEXT);
    else if (st == QN_OK)
        st = qn_onnx_digest(all, at, sha256, err);
    return st;
}

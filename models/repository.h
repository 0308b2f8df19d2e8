/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A repository is a folder of models:
 *
 *   <dir>/<id>/<version>/model.onnx     versions are numbers from 1
 *   <dir>/<id>/config.json              optional
 *   <dir>/<id>/model.onnx               short form of version 1
 *
 * In place of model.onnx there are several files if "ranks" in config.json names
 * them; then a version is where the first of them is.
 *
 * A scan says what is there and what of it should be served; it reads the
 * configurations and checks that the files exist, but opens no model. What is
 * wrong with one model is that entry's state and reason: the others go on.
 *
 * No globals, no threads, no caches: every call reads the folder. Any number of
 * threads may call.
 */
#ifndef QN_MODELS_REPOSITORY_H
#define QN_MODELS_REPOSITORY_H

#include "runtime/exec/kernel.h"
#include "runtime/graph/graph.h"

#include <stdbool.h>

enum { QN_MODEL_ID_MAX = 128 };

/* ---- config.json ---- */

typedef enum qn_versions_kind {
    QN_VERSIONS_LATEST, /* the highest number; the default */
    QN_VERSIONS_ALL,
    QN_VERSIONS_LIST
} qn_versions_kind;

typedef enum qn_config_device {
    QN_CONFIG_DEVICE_ANY, /* not given: what the server's flags say */
    QN_CONFIG_CPU,
    QN_CONFIG_CUDA,       /* every card that the server has opened */
    QN_CONFIG_CUDA_N      /* that card */
} qn_config_device;

/*
 * Keys of config.json. An unknown key is an error that suggests the nearest
 * known one; so is a value of the wrong type, or one that Quern cannot honour.
 *
 *   "versions"       "latest", "all", or a list of numbers
 *   "required"       true: the server is not ready while this model fails
 *   "dynamic_bytes"  bytes for values whose size cannot be planned; a number,
 *                    or a text like "16M" (K, M, G: powers of 1024)
 *   "no_reuse"       true: every value gets memory of its own
 *   "passes"         false: no fusion and no layout changes
 *   "device"         "cpu"; "cuda": a replica on every card that is open;
 *                    "cuda:N": on the card that the driver gives that number
 *   "precision"      "fp32", "tf32", "fp16" or "bf16": of products on cards
 *   "streams"        0 to 4: of a card that a request uses at once; 0: as many
 *                    as pay
 *   "graphs"         false: every kernel is launched, none from a graph
 *   "ranks"          a list of files in the version's folder, which are the
 *                    parts of one model, see models/ranks.h; else it is
 *                    model.onnx
 *
 * What "device", "precision", "streams" and "graphs" do not say the server's
 * flags do. "batching", "state" and "contiguous" are known names that are not
 * supported yet: QN_UNSUPPORTED.
 */
enum { QN_CONFIG_STREAMS = 4, QN_CONFIG_ORDINAL = 1023 };

typedef struct qn_model_config {
    qn_versions_kind versions;
    size_t n_versions;
    const uint64_t *version_list; /* ascending, no doubles */
    bool required;
    size_t dynamic_bytes; /* 0: not given */
    bool no_reuse;
    bool passes; /* true unless switched off */
    uint32_t n_ranks;         /* 0: not given */
    const char *const *ranks; /* names of files */
    qn_config_device device;
    int ordinal; /* CUDA_N: the driver's number */
    bool has_precision, has_streams, has_graphs; /* given? */
    qn_precision precision;
    uint32_t streams;
    bool graphs;
} qn_model_config;

/* What holds without a config.json. */
qn_model_config qn_model_config_default(void);

/*
 * Parse the text of a config.json. Arrays go into `region`. QN_FORMAT (with
 * line and column), QN_INVALID (unknown key, with a suggestion), QN_TYPE,
 * QN_RANGE, QN_UNSUPPORTED, each with the key; QN_NO_MEMORY. *out holds the
 * defaults after an error.
 */
QN_NODISCARD qn_status qn_model_config_parse(const char *text, size_t len,
                                             qn_region *region,
                                             qn_model_config *out,
                                             qn_error *err);

/* ---- scan ---- */

typedef enum qn_entry_state {
    QN_ENTRY_FOUND,  /* to be loaded */
    QN_ENTRY_BROKEN  /* cannot be: see error */
} qn_entry_state;

typedef struct qn_repository_entry {
    const char *id;
    uint64_t version; /* 0: unknown, the whole model is broken */
    const char *path; /* of the model's (first) file; "" if version is 0 */
    uint32_t n_files; /* 1, or the number of ranks; 0 if version is 0 */
    const char *const *files; /* their paths */
    bool latest;      /* the highest version of this id in this scan */
    qn_model_config config;
    qn_entry_state state;
    qn_error error;   /* BROKEN: why, naming the file */
} qn_repository_entry;

typedef struct qn_repository {
    size_t n;
    qn_repository_entry *entries; /* by id (bytewise), then version */
    qn_region region;             /* owns all of it */
} qn_repository;

/* [A-Za-z0-9._-]{1,128}, not starting with '.'. */
bool qn_model_id_valid(const char *id);

/*
 * List a repository. QN_NOT_FOUND or QN_IO if the folder itself cannot be
 * read, QN_NO_MEMORY; *out is empty then. Files in the folder, and names that
 * start with '.', are passed over; a folder whose name is no valid id is a
 * broken entry.
 */
QN_NODISCARD qn_status qn_repository_scan(const char *dir, qn_repository *out,
                                          qn_error *err);
/* One id only; QN_NOT_FOUND if there is no such folder. */
QN_NODISCARD qn_status qn_repository_scan_one(const char *dir, const char *id,
                                              qn_repository *out,
                                              qn_error *err);
void qn_repository_release(qn_repository *repository);

#endif

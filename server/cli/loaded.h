/* SPDX-License-Identifier: Apache-2.0 */
/* A model loaded by a command, without a server: file to session to answer. */
#ifndef QN_SERVER_CLI_LOADED_H
#define QN_SERVER_CLI_LOADED_H

#include "models/ranks.h"
#include "runtime/exec/session.h"
#include "server/cli/devices.h"

typedef struct qn_loaded {
    qn_accels accels; /* opened for this; none if they were borrowed */
    qn_runtime *runtime;
    qn_session *session;
    int64_t ir_version, opset;
    size_t file_bytes;
} qn_loaded;

typedef struct qn_load_options {
    const char *device; /* as --device; NULL: cpu */
    /* Not NULL: opened already, and borrowed; `device` is not looked at. */
    const qn_accels *accels;
    qn_runtime_options runtime;
    qn_session_options session;
} qn_load_options;

/* What the flags say that every command with a model has: memory-budget, threads,
 * no-passes and those of devices. */
qn_load_options qn_load_options_read(const qn_options *o);

/* Read the file, or the files of all ranks, make a runtime and a session. Close in
 * every case. */
QN_NODISCARD qn_status qn_loaded_open(qn_loaded *out, const char *const *paths,
                                      uint32_t n, const qn_load_options *options,
                                      qn_error *err);
void qn_loaded_close(qn_loaded *loaded);

/* Index of the session's input, -1 if there is none of that name. */
int qn_loaded_input(const qn_loaded *loaded, const char *name);

/*
 * One inference on this thread. inputs: [n_inputs] in the session's order,
 * dtype QN_NONE where one is left out; string elements lie in `strings`
 * (QN_STRINGS_STATIC). On QN_OK the outputs are read with qn_run_output() until
 * qn_run_release(run); on failure nothing is held.
 */
QN_NODISCARD qn_status qn_loaded_run(qn_loaded *loaded,
                                     const qn_tensor_file *inputs, qn_run *run,
                                     qn_error *err);

/* Inputs by name, the rest (`name` empty) by position among those without a
 * default; frees nothing. out: [n_inputs], shallow copies. */
QN_NODISCARD qn_status qn_loaded_bind(const qn_loaded *loaded,
                                      const qn_tensor_file *given, size_t n,
                                      qn_tensor_file *out, qn_error *err);

/*
 * Inputs for a model that nobody gave any: floats from a fixed generator in
 * [0, 1), zeros of other types, ones where shapes depend on the value.
 *
 *   shapes    "name=1x3x224x224", or "1x3x224x224" for a model with one input;
 *             what is left open (symbols, unknown sizes) is 1
 *   given     overrides, by name; shallow copies
 *   out       [n_inputs]; what was made (not `given`) is released with
 *             qn_tensor_file_release(); inputs with a default are left out
 *             unless a shape or a tensor names them
 */
QN_NODISCARD qn_status qn_loaded_make(const qn_loaded *loaded,
                                      const char *const *shapes,
                                      size_t n_shapes,
                                      const qn_tensor_file *given,
                                      size_t n_given, qn_tensor_file *out,
                                      qn_error *err);

/* "name=file.npy" or "file.pb", each read into out[i]; sets *read to how many are
 * to be released, on failure too. */
QN_NODISCARD qn_status qn_tensor_files_read(const char *const *specs, size_t n,
                                            qn_tensor_file *out, size_t *read,
                                            qn_error *err);

/* Read a .npy or .pb file by its ending. */
QN_NODISCARD qn_status qn_tensor_file_read(const char *path,
                                           qn_tensor_file *out, qn_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "server/cli/loaded.h"

#include <string.h>

/* A part of a split model on each card; others take one. */
static uint32_t cards_for(const qn_graph *graph, uint32_t open)
{
    uint32_t wanted = graph->n_ranks > 1 ? graph->n_ranks : 1;
    return wanted < open ? wanted : open;
}

qn_status qn_loaded_open(qn_loaded *out, const char *const *paths, uint32_t n,
                         const qn_load_options *options, qn_error *err)
{
    qn_model_files files;
    qn_graph *graph = NULL;
    *out = (qn_loaded){ 0 };
    qn_status st = qn_model_open_ranks(paths, n, &files, &graph, err);
    if (st != QN_OK)
        return st;
    const qn_model_info *info = qn_model_get_info(files.files[0]);
    out->ir_version = info->ir_version;
    out->opset = info->opset;
    out->file_bytes = qn_model_ranks_bytes(&files);
    const qn_accels *accels = options->accels;
    if (!accels) {
        st = qn_devices_open(options->device, &options->runtime.log,
                             &out->accels, err);
        accels = &out->accels;
    }
    if (st == QN_UNSUPPORTED) /* which would speak of the model */
        st = err->status = QN_DEVICE;
    qn_runtime_options runtime = options->runtime;
    qn_session_options session = options->session;
    runtime.accels = accels->accel;
    runtime.n_accels = accels->n;
    session.n_accels = cards_for(graph, accels->n);
    for (uint32_t i = 0; i < session.n_accels; i++)
        session.accels[i] = i;
    if (st == QN_OK)
        st = qn_runtime_new(&runtime, &out->runtime, err);
    if (st == QN_OK)
        st = qn_session_new(out->runtime, graph, &session, &out->session, err);
    else
        qn_graph_free(graph);
    qn_model_close_ranks(&files);
    return st;
}

qn_load_options qn_load_options_read(const qn_options *o)
{
    qn_load_options l = { .device = qn_opt_text(o, "device") };
    const qn_accels none = { 0 };
    qn_devices_runtime(o, &none, &l.runtime);
    qn_devices_session(o, &none, &l.session);
    l.runtime.memory_budget = qn_opt_size(o, "memory-budget");
    l.runtime.threads = (int)qn_opt_int(o, "threads");
    l.session.no_passes = qn_opt_bool(o, "no-passes");
    return l;
}

void qn_loaded_close(qn_loaded *loaded)
{
    if (loaded->session)
        qn_session_free(loaded->session);
    if (loaded->runtime)
        qn_runtime_free(loaded->runtime);
    qn_accels_close(&loaded->accels);
    *loaded = (qn_loaded){ 0 };
}

int qn_loaded_input(const qn_loaded *loaded, const char *name)
{
    const qn_io *io;
    uint32_t n = qn_session_inputs(loaded->session, &io);
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(io[i].name, name))
            return (int)i;
    return -1;
}

/* Bind by name? Every input that has to be given is there by its name. Before
 * IR 4 initializers were listed as inputs too; they are constants, and what is
 * given for them is ignored. */
static bool named(const qn_loaded *loaded, const qn_tensor_file *given,
                  size_t n)
{
    const qn_io *io;
    uint32_t n_inputs = qn_session_inputs(loaded->session, &io), found = 0;
    size_t known = 0;
    for (size_t i = 0; i < n; i++)
        known += given[i].name && qn_loaded_input(loaded, given[i].name) >= 0;
    for (uint32_t i = 0; i < n_inputs; i++) {
        bool there = io[i].optional;
        for (size_t k = 0; k < n && !there; k++)
            there = given[k].name && !strcmp(given[k].name, io[i].name);
        found += there;
    }
    return known == n || (loaded->ir_version < 4 && found == n_inputs);
}

qn_status qn_loaded_bind(const qn_loaded *loaded, const qn_tensor_file *given,
                         size_t n, qn_tensor_file *out, qn_error *err)
{
    const qn_io *io;
    uint32_t n_inputs = qn_session_inputs(loaded->session, &io);
    bool by_name = named(loaded, given, n);
    uint32_t at = 0;
    memset(out, 0, n_inputs * sizeof *out);
    for (size_t i = 0; i < n; i++) {
        uint32_t to;
        if (by_name) {
            int at_name = qn_loaded_input(loaded, given[i].name);
            if (at_name < 0)
                continue; /* a constant of an old model */
            to = (uint32_t)at_name;
        } else {
            while (at < n_inputs && io[at].optional && n_inputs - at > n - i)
                at++;
            to = at++;
        }
        if (to >= n_inputs)
            return qn_fail(err, QN_INVALID,
                           "%zu inputs given, the model has %u", n, n_inputs);
        if (qn_present(&out[to].tensor))
            return qn_fail(err, QN_INVALID, "input '%s' given twice",
                           io[to].name);
        out[to] = given[i];
        /* test folders of ONNX before 1.13 hold bfloat16 as uint16 */
        if (io[to].type.dtype == QN_BF16 && given[i].tensor.dtype == QN_U16)
            out[to].tensor.dtype = QN_BF16;
    }
    for (uint32_t i = 0; i < n_inputs; i++)
        if (!qn_present(&out[i].tensor) && !io[i].optional)
            return qn_fail(err, QN_INVALID, "input '%s' is missing",
                           io[i].name);
    return QN_OK;
}

static qn_status fill(qn_run *run, uint32_t i, const qn_tensor_file *from,
                      qn_error *err)
{
    qn_tensor to = qn_run_input(run, i);
    size_t bytes;
    qn_status st =
        qn_tensor_bytes(from->tensor.dtype, &from->tensor.shape, &bytes, err);
    if (st != QN_OK || !bytes)
        return st;
    if (from->tensor.dtype != QN_STRING) {
        memcpy(to.data, from->tensor.data, bytes);
        return QN_OK;
    }
    qn_strings heap = { .base = { from->strings } };
    const qn_string *in = from->tensor.data;
    qn_string *out = to.data;
    for (int64_t k = 0; k < qn_count(&from->tensor) && st == QN_OK; k++)
        st = qn_string_put(&run->strings, qn_string_bytes(&heap, in[k]),
                           (size_t)in[k].len, &out[k], err);
    return st;
}

qn_status qn_loaded_run(qn_loaded *loaded, const qn_tensor_file *inputs,
                        qn_run *run, qn_error *err)
{
    const qn_io *io;
    uint32_t n = qn_session_inputs(loaded->session, &io);
    qn_plan *plan = NULL;
    qn_tensor *tensors = qn_calloc(n + 1u, sizeof *tensors);
    if (!tensors)
        return qn_fail(err, QN_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < n; i++)
        tensors[i] = inputs[i].tensor;
    qn_status st = qn_session_plan(loaded->session, tensors, &plan, err);
    qn_free(tensors);
    if (st != QN_OK)
        return st;
    qn_run_init(run, loaded->session, plan);
    qn_plan_release(plan);
    for (uint32_t i = 0; i < n; i++)
        if (inputs[i].tensor.dtype == QN_STRING)
            run->string_bytes += inputs[i].string_bytes;
    st = qn_run_lease(run, NULL, NULL, err);
    for (uint32_t i = 0; i < n && st == QN_OK; i++)
        if (qn_present(&inputs[i].tensor))
            st = fill(run, i, &inputs[i], err);
    if (st == QN_OK)
        st = qn_run_sync(run, err);
    if (st != QN_OK)
        qn_run_release(run);
    return st;
}

qn_status qn_tensor_file_read(const char *path, qn_tensor_file *out,
                              qn_error *err)
{
    size_t len = strlen(path);
    if (len > 4 && !strcmp(path + len - 4, ".npy"))
        return qn_tensor_npy_read(path, out, err);
    if (len > 3 && !strcmp(path + len - 3, ".pb"))
        return qn_tensor_pb_read(path, out, err);
    return qn_fail(err, QN_INVALID, "%s: expected a file that ends in .npy or .pb",
                   path);
}

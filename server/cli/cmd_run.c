/* SPDX-License-Identifier: Apache-2.0 */
/* quern run: one inference, no server. */
#include "server/cli/commands.h"
#include "server/cli/compare.h"
#include "server/cli/loaded.h"
#include "server/cli/preview.h"
#include "server/cli/text.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_INPUTS = 256 };

/* "dir/name.npy", or .pb where the type has no .npy form. */
static qn_status save(const char *dir, const char *name, const qn_tensor *t,
                      const qn_strings *strings, qn_error *err)
{
    char safe[128], path[4096];
    size_t n = 0;
    for (const char *p = name; *p && n + 1 < sizeof safe; p++)
        safe[n++] = strchr("/\\:*?\"<>| ", *p) ? '_' : *p;
    safe[n] = 0;
    snprintf(path, sizeof path, "%s/%s.npy", dir, safe);
    /* NumPy has no name of its own for bfloat16, FP8 and the small integers:
     * what reads them back would not know what they are */
    qn_dtypes named = QN_TYPES_IEEE | QN_TYPES_INT | QN_TYPES_COMPLEX |
                      QN_BIT(BOOL);
    qn_status st = qn_dtypes_has(named, t->dtype)
                       ? qn_tensor_npy_write(path, t, err)
                       : QN_UNSUPPORTED;
    if (st != QN_UNSUPPORTED)
        return st;
    snprintf(path, sizeof path, "%s/%s.pb", dir, safe);
    return qn_tensor_pb_write(path, name, t, strings, err);
}

static qn_status report(const qn_loaded *loaded, const qn_run *run,
                        const char *dir, bool json, qn_error *err)
{
    static const char *const columns[] = { "output", "type", "shape",
                                           "values" };
    const qn_io *io;
    uint32_t n = qn_session_outputs(loaded->session, &io);
    qn_table table;
    json_t *list = json_array();
    qn_status st = QN_OK;
    qn_table_init(&table, columns, 4);
    if (dir && mkdir(dir, 0777) && errno != EEXIST)
        st = qn_fail(err, QN_IO, "%s: %s", dir, strerror(errno));
    for (uint32_t i = 0; i < n && st == QN_OK; i++) {
        char values[160], shape[QN_SHAPE_TEXT];
        qn_tensor t = qn_run_output(run, i);
        qn_preview(&t, &run->strings, values, sizeof values);
        qn_shape_text(&t.shape, shape);
        qn_table_cell(&table, "%s", io[i].name);
        qn_table_cell(&table, "%s", qn_dtype_name(t.dtype));
        qn_table_cell(&table, "%s", shape);
        qn_table_cell(&table, "%s", values);
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "name",
                                              io[i].name, "type",
                                              qn_dtype_name(t.dtype), "shape",
                                              shape, "values", values));
        if (dir)
            st = save(dir, io[i].name, &t, &run->strings, err);
    }
    if (st == QN_OK && json)
        qn_print_json(json_pack("{s:O, s:f}", "outputs", list, "ms",
                                (double)(run->times.done_ns -
                                         run->times.started_ns) *
                                    1e-6));
    else if (st == QN_OK)
        qn_table_print(&table, stdout);
    json_decref(list);
    qn_table_release(&table);
    return st;
}

static qn_status infer(qn_loaded *loaded, const qn_options *o,
                       const qn_tensor_file *given, size_t n_given,
                       qn_error *err)
{
    const qn_io *io;
    uint32_t n = qn_session_inputs(loaded->session, &io);
    qn_tensor_file *in = qn_calloc(n + 1u, sizeof *in);
    const char *const *shapes;
    size_t n_shapes = qn_opt_list(o, "shape", &shapes);
    qn_run run = { 0 };
    bool made = n_shapes > 0 || qn_opt_bool(o, "made-up");
    if (!in)
        return qn_fail(err, QN_NO_MEMORY, "out of memory");
    qn_status st = made ? qn_loaded_make(loaded, shapes, n_shapes, given,
                                         n_given, in, err)
                        : qn_loaded_bind(loaded, given, n_given, in, err);
    if (st == QN_OK)
        st = qn_loaded_run(loaded, in, &run, err);
    if (st == QN_OK) {
        st = report(loaded, &run, qn_opt_text(o, "output-dir"),
                    qn_opt_bool(o, "json"), err);
        qn_run_release(&run);
    }
    for (uint32_t i = 0; i < n && made; i++) {
        bool borrowed = false;
        for (size_t k = 0; k < n_given; k++)
            borrowed |= in[i].tensor.data == given[k].tensor.data;
        if (!borrowed)
            qn_tensor_file_release(&in[i]);
    }
    qn_free(in);
    return st;
}

int qn_cmd_run(const qn_options *options)
{
    qn_error err = { 0 };
    qn_loaded loaded = { 0 };
    qn_tensor_file given[MAX_INPUTS] = { 0 };
    const char *const *specs;
    size_t n = qn_opt_list(options, "input", &specs), n_read = 0;
    qn_status st = n > MAX_INPUTS
                       ? qn_fail(&err, QN_INVALID, "more than %d inputs",
                                 MAX_INPUTS)
                       : qn_tensor_files_read(specs, n, given, &n_read, &err);
    qn_load_options load = qn_load_options_read(options);
    load.session.dynamic_bytes = qn_opt_size(options, "dynamic-bytes");
    load.session.no_reuse = qn_opt_bool(options, "no-reuse");
    load.session.loose_shapes = qn_opt_bool(options, "any-shape");
    if (st == QN_OK)
        st = qn_loaded_open(&loaded, options->args,
                            (uint32_t)options->n_args, &load, &err);
    if (st == QN_OK)
        st = infer(&loaded, options, given, n, &err);
    qn_loaded_close(&loaded);
    for (size_t i = 0; i < n_read; i++)
        qn_tensor_file_release(&given[i]);
    return st == QN_OK ? 0 : qn_complain(&err);
}

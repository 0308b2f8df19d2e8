/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs of a command: read from files, or made up from shapes. */
#include "server/cli/loaded.h"
#include "server/cli/text.h"

#include <string.h>

qn_status qn_tensor_files_read(const char *const *specs, size_t n,
                               qn_tensor_file *out, size_t *read,
                               qn_error *err)
{
    *read = 0;
    for (size_t i = 0; i < n; i++) {
        const char *path = specs[i], *equals = strchr(path, '=');
        if (equals)
            path = equals + 1;
        qn_status st = qn_tensor_file_read(path, &out[i], err);
        if (st != QN_OK)
            return st;
        ++*read;
        if (equals) {
            qn_free(out[i].name);
            out[i].name = qn_calloc((size_t)(equals - specs[i]) + 1, 1);
            if (!out[i].name)
                return qn_fail(err, QN_NO_MEMORY, "out of memory");
            memcpy(out[i].name, specs[i], (size_t)(equals - specs[i]));
        }
    }
    return QN_OK;
}

/* The shape given for input `name`; false if none. */
static bool shape_of(const char *name, bool only, const char *const *shapes,
                     size_t n, const char **out)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < n; i++) {
        const char *equals = strrchr(shapes[i], '=');
        if (equals && (size_t)(equals - shapes[i]) == len &&
            !memcmp(shapes[i], name, len)) {
            *out = equals + 1;
            return true;
        }
        if (!equals && only) {
            *out = shapes[i];
            return true;
        }
    }
    return false;
}

static void declared_shape(const qn_io *io, qn_shape *out)
{
    *out = (qn_shape){ .rank = io->rank < 0 ? 0 : io->rank };
    for (int i = 0; i < out->rank; i++)
        out->dims[i] = io->dims[i].value >= 0 ? io->dims[i].value : 1;
}

static void fill_value(const qn_io *io, const qn_tensor *t)
{
    int64_t n = qn_count(t);
    uint64_t x = 0x9e3779b97f4a7c15u;
    if (t->dtype == QN_F32 || t->dtype == QN_F64) {
        for (int64_t i = 0; i < n; i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            double v = (double)(x >> 40) * 0x1p-24;
            if (t->dtype == QN_F32)
                ((float *)t->data)[i] = (float)v;
            else
                ((double *)t->data)[i] = v;
        }
    } else if (io->value_in_key && t->dtype == QN_I64) {
        for (int64_t i = 0; i < n; i++)
            ((int64_t *)t->data)[i] = 1;
    } else if (io->value_in_key && t->dtype == QN_I32) {
        for (int64_t i = 0; i < n; i++)
            ((int32_t *)t->data)[i] = 1;
    }
}

static qn_status make_one(const qn_io *io, const char *text,
                          qn_tensor_file *out, qn_error *err)
{
    size_t bytes;
    qn_status st = QN_OK;
    if (io->type.kind != QN_TYPE_TENSOR)
        return qn_fail(err, QN_UNSUPPORTED, "input '%s' is not a tensor",
                       io->name);
    out->tensor.dtype = io->type.dtype;
    declared_shape(io, &out->tensor.shape);
    if (text)
        st = qn_parse_shape(text, &out->tensor.shape, err);
    if (st == QN_OK)
        st = qn_tensor_bytes(out->tensor.dtype, &out->tensor.shape, &bytes, err);
    if (st != QN_OK) {
        qn_error_prefix(err, "input '%s'", io->name);
        return st;
    }
    out->tensor.data = qn_calloc(bytes + 1, 1);
    if (!out->tensor.data)
        return qn_fail(err, QN_NO_MEMORY, "input '%s': no memory for %zu bytes",
                       io->name, bytes);
    fill_value(io, &out->tensor);
    return QN_OK;
}

static qn_status check_names(const qn_loaded *loaded, const char *const *shapes,
                             size_t n_shapes, const qn_tensor_file *given,
                             size_t n_given, qn_error *err)
{
    for (size_t i = 0; i < n_shapes; i++) {
        char name[256];
        const char *equals = strrchr(shapes[i], '=');
        if (!equals)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(equals - shapes[i]),
                 shapes[i]);
        if (qn_loaded_input(loaded, name) < 0)
            return qn_fail(err, QN_INVALID, "the model has no input '%s'", name);
    }
    for (size_t i = 0; i < n_given; i++)
        if (given[i].name && *given[i].name &&
            qn_loaded_input(loaded, given[i].name) < 0)
            return qn_fail(err, QN_INVALID, "the model has no input '%s'",
                           given[i].name);
    return QN_OK;
}

qn_status qn_loaded_make(const qn_loaded *loaded, const char *const *shapes,
                         size_t n_shapes, const qn_tensor_file *given,
                         size_t n_given, qn_tensor_file *out, qn_error *err)
{
    const qn_io *io;
    uint32_t n = qn_session_inputs(loaded->session, &io);
    memset(out, 0, n * sizeof *out);
    qn_status st =
        check_names(loaded, shapes, n_shapes, given, n_given, err);
    for (uint32_t i = 0; i < n && st == QN_OK; i++) {
        const char *text = NULL;
        bool found = false;
        for (size_t k = 0; k < n_given; k++) {
            const char *name = given[k].name;
            if (name && *name ? !strcmp(name, io[i].name) : k == i) {
                out[i] = given[k];
                found = true;
            }
        }
        if (found)
            continue;
        if (shape_of(io[i].name, n == 1, shapes, n_shapes, &text) ||
            !io[i].optional)
            st = make_one(&io[i], text, &out[i], err);
    }
    return st;
}

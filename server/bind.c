/* SPDX-License-Identifier: Apache-2.0 */
#include "server/bind.h"

#include <stdio.h>
#include <string.h>

/* Values that shapes depend on are shapes, axes and the like. */
enum { MAX_KEY_ELEMENTS = 65536 };

static qn_status no_memory(qn_error *err)
{
    return qn_fail(err, QN_NO_MEMORY, "out of memory for the request's tables");
}

static qn_status start(qn_session *session, qn_region *region, qn_bound *out,
                       qn_error *err)
{
    *out = (qn_bound){ 0 };
    out->n_inputs = qn_session_inputs(session, &out->inputs);
    out->n_outputs = qn_session_outputs(session, &out->outputs);
    out->tensors =
        qn_region_alloc(region, out->n_inputs + 1u, sizeof *out->tensors);
    out->data = qn_region_alloc(region, out->n_inputs + 1u, sizeof *out->data);
    out->wanted =
        qn_region_alloc(region, out->n_outputs + 1u, sizeof *out->wanted);
    return out->tensors && out->data && out->wanted ? QN_OK : no_memory(err);
}

static int find(const qn_io *io, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(io[i].name, name))
            return (int)i;
    return -1;
}

/* "'a', 'b', ...": what there is, for a message. */
static const char *names(const qn_io *io, uint32_t n, char *buf, size_t size)
{
    size_t len = 0;
    buf[0] = 0;
    for (uint32_t i = 0; i < n && len + 8 < size; i++)
        len += (size_t)snprintf(buf + len, size - len, "%s'%.60s'",
                                i ? ", " : "", io[i].name);
    return buf;
}

static qn_status unknown(const char *what, const char *name, const qn_io *io,
                         uint32_t n, qn_error *err)
{
    char list[400];
    qn_status st =
        qn_fail(err, QN_INVALID, "the model has no %s '%.80s', it has %s", what,
                name, names(io, n, list, sizeof list));
    qn_error_where(err, name, NULL, NULL);
    return st;
}

static qn_status want_outputs(const qn_scan *scan, qn_bound *b, qn_error *err)
{
    b->n_wanted = scan ? scan->n_outputs : 0;
    if (!b->n_wanted) {
        b->n_wanted = b->n_outputs;
        for (uint32_t i = 0; i < b->n_outputs; i++)
            b->wanted[i] = i;
        return QN_OK;
    }
    if (b->n_wanted > b->n_outputs)
        return qn_fail(err, QN_INVALID,
                       "%u outputs are asked for, the model has %u",
                       b->n_wanted, b->n_outputs);
    for (uint32_t i = 0; i < b->n_wanted; i++) {
        const char *name = scan->outputs[i].name;
        int k = find(b->outputs, b->n_outputs, name);
        if (k < 0)
            return unknown("output", name, b->outputs, b->n_outputs, err);
        for (uint32_t j = 0; j < i; j++)
            if (b->wanted[j] == (uint32_t)k)
                return qn_fail(err, QN_INVALID,
                               "output '%.80s' is asked for twice", name);
        b->wanted[i] = (uint32_t)k;
    }
    return QN_OK;
}

/* The only input that has to be given; -1 if there are several. */
static int only_input(const qn_bound *b)
{
    int only = -1;
    for (uint32_t i = 0; i < b->n_inputs; i++) {
        if (b->inputs[i].optional)
            continue;
        if (only >= 0)
            return -1;
        only = (int)i;
    }
    return only < 0 && b->n_inputs == 1 ? 0 : only;
}

/* Its values are part of the plan's key: decode them now. */
static qn_status read_key(qn_bound *b, uint32_t i, qn_region *region,
                          qn_error *err)
{
    qn_tensor *t = &b->tensors[i];
    int64_t n;
    size_t bytes;
    if (!qn_shape_count(&t->shape, &n) || n > MAX_KEY_ELEMENTS ||
        t->dtype == QN_STRING) {
        qn_status st = qn_fail(err, QN_TOO_LARGE,
                               "input '%.80s': shapes depend on its values, "
                               "which may be %d at most",
                               b->inputs[i].name, MAX_KEY_ELEMENTS);
        qn_error_where(err, b->inputs[i].name, NULL, NULL);
        return st;
    }
    qn_status st = qn_tensor_bytes(t->dtype, &t->shape, &bytes, err);
    if (st != QN_OK)
        return st;
    t->data = qn_region_alloc(region, bytes + 1, 1);
    if (!t->data)
        return no_memory(err);
    return b->data[i] ? qn_decode(b->data[i], b->inputs[i].name, t, NULL, err)
                      : QN_OK;
}

static qn_status bind_one(qn_bound *b, const qn_scan_input *in, uint32_t i,
                          qn_region *region, qn_error *err)
{
    const qn_io *io = &b->inputs[i];
    qn_status st = QN_OK;
    if (b->data[i])
        st = qn_fail(err, QN_INVALID, "input '%.80s' is given twice", io->name);
    else if (io->type.kind != QN_TYPE_TENSOR)
        st = qn_fail(err, QN_UNSUPPORTED, "input '%.80s' is not a tensor",
                     io->name);
    else if (!in->data.text)
        st = qn_fail(err, QN_INVALID, "input '%.80s' has no data", io->name);
    else if (in->dtype != QN_NONE && in->dtype != io->type.dtype)
        st = qn_fail(err, QN_TYPE, "input '%.80s': datatype is %s, the model "
                     "takes %s", io->name, qn_dtype_wire(in->dtype),
                     qn_dtype_wire(io->type.dtype));
    if (st != QN_OK) {
        qn_error_where(err, io->name,
                       st == QN_TYPE ? qn_dtype_wire(io->type.dtype) : NULL,
                       st == QN_TYPE ? qn_dtype_wire(in->dtype) : NULL);
        return st;
    }
    b->data[i] = &in->data;
    b->tensors[i] = (qn_tensor){ .dtype = io->type.dtype, .shape = in->shape };
    if (io->type.dtype == QN_STRING) {
        size_t bytes = 0;
        st = qn_decode_string_bytes(&in->data, QN_STRING, &bytes, err);
        if (st != QN_OK) {
            qn_error_prefix(err, "input '%.80s'", io->name);
            snprintf(err->tensor, sizeof err->tensor, "%s", io->name);
            return st;
        }
        b->string_bytes += bytes;
    }
    return st == QN_OK && io->value_in_key ? read_key(b, i, region, err) : st;
}

static qn_status all_given(const qn_bound *b, qn_error *err)
{
    for (uint32_t i = 0; i < b->n_inputs; i++)
        if (!qn_present(&b->tensors[i]) && !b->inputs[i].optional) {
            qn_status st = qn_fail(err, QN_INVALID, "input '%.80s' is missing",
                                   b->inputs[i].name);
            qn_error_where(err, b->inputs[i].name, NULL, NULL);
            return st;
        }
    return QN_OK;
}

qn_status qn_bind_scan(const qn_scan *scan, qn_session *session,
                       qn_region *region, qn_bound *out, qn_error *err)
{
    char list[400];
    qn_status st = start(session, region, out, err);
    if (st == QN_OK && scan->form == QN_SCAN_NONE)
        st = qn_fail(err, QN_INVALID, "the body has no \"inputs\"");
    for (uint32_t k = 0; k < scan->n_inputs && st == QN_OK; k++) {
        const qn_scan_input *in = &scan->inputs[k];
        int i = in->name ? find(out->inputs, out->n_inputs, in->name)
                         : only_input(out);
        if (i >= 0)
            st = bind_one(out, in, (uint32_t)i, region, err);
        else if (in->name)
            st = unknown("input", in->name, out->inputs, out->n_inputs, err);
        else
            st = qn_fail(err, QN_INVALID,
                         "the model has several inputs, name them: %s",
                         names(out->inputs, out->n_inputs, list, sizeof list));
    }
    if (st == QN_OK)
        st = all_given(out, err);
    return st == QN_OK ? want_outputs(scan, out, err) : st;
}

qn_status qn_bind_npy(const qn_npy *npy, qn_session *session, qn_region *region,
                      qn_bound *out, qn_error *err)
{
    qn_status st = start(session, region, out, err);
    if (st != QN_OK)
        return st;
    int i = only_input(out);
    if (i < 0)
        return qn_fail(err, QN_INVALID,
                       "application/x-npy holds one tensor, the model has %u "
                       "inputs",
                       out->n_inputs);
    const qn_io *io = &out->inputs[i];
    if (npy->dtype != io->type.dtype) {
        st = qn_fail(err, QN_TYPE, "input '%.80s': the array is %s, the model "
                     "takes %s", io->name, qn_dtype_name(npy->dtype),
                     qn_dtype_name(io->type.dtype));
        qn_error_where(err, io->name, qn_dtype_wire(io->type.dtype),
                       qn_dtype_wire(npy->dtype));
        return st;
    }
    qn_tensor *t = &out->tensors[i];
    *t = (qn_tensor){ .dtype = npy->dtype, .shape = npy->shape };
    if (io->value_in_key)
        st = read_key(out, (uint32_t)i, region, err);
    if (st == QN_OK && io->value_in_key)
        st = qn_npy_decode(npy, t, err);
    if (st == QN_OK)
        st = all_given(out, err);
    return st == QN_OK ? want_outputs(NULL, out, err) : st;
}

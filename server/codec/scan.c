/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second half of a scan: from the envelope's tree to inputs and outputs,
 * and the checks that need name, type, shape and values together.
 */
#include "server/codec/scan.h"

#include "runtime/base/checked.h"
#include "server/codec/envelope.h"
#include "server/codec/lex.h"
#include "server/codec/tree.h"
#include "server/codec/values.h"

#include <stdio.h>
#include <string.h>

typedef struct binding {
    const char *body;
    size_t len;
    const qn_scan_options *options;
    size_t tail_used;
    const qn_envelope *envelope;
    qn_scan *out;
    qn_error *err;
} binding;

static qn_scan_options definite(const qn_scan_options *options)
{
    qn_scan_options o = options ? *options : (qn_scan_options){ 0 };

    if (!o.max_depth)
        o.max_depth = 64;
    if (o.max_depth > 256)
        o.max_depth = 256;
    if (!o.max_envelope)
        o.max_envelope = (size_t)1 << 20;
    if (!o.max_inputs)
        o.max_inputs = 1024;
    return o;
}

/* ---- one input ---- */

static qn_status read_shape(const qn_param *from, const char *name,
                            qn_shape *out, qn_error *err)
{
    int64_t count;
    char text[QN_SHAPE_TEXT];

    if (!from || from->kind != QN_PARAM_LIST)
        return qn_fail(err, QN_FORMAT, "input '%s': \"shape\" is %s", name,
                       from ? "not a list" : "missing");
    if (from->items.n > QN_MAX_RANK)
        return qn_fail(err, QN_SHAPE,
                       "input '%s': a shape of %u dimensions, at most %d", name,
                       (unsigned)from->items.n, QN_MAX_RANK);
    out->rank = (int32_t)from->items.n;
    for (uint32_t i = 0; i < from->items.n; i++) {
        const qn_param *dim = &from->items.items[i];

        if (dim->kind == QN_PARAM_REAL)
            return qn_fail(err, QN_SHAPE,
                           "input '%s': shape[%u] is %g, not an integer", name,
                           (unsigned)i, dim->real);
        if (dim->kind != QN_PARAM_INT)
            return qn_fail(err, QN_SHAPE, "input '%s': shape[%u] is no number",
                           name, (unsigned)i);
        if (dim->integer < 0)
            return qn_fail(err, QN_SHAPE,
                           "input '%s': shape[%u] is %lld, negative", name,
                           (unsigned)i, (long long)dim->integer);
        out->dims[i] = dim->integer;
    }
    if (!qn_shape_count(out, &count))
        return qn_fail(err, QN_SHAPE,
                       "input '%s': shape %s has more elements than fit 63 bits",
                       name, qn_shape_text(out, text));
    return QN_OK;
}

static qn_status count_differs(const qn_scan_input *in, int64_t want,
                               qn_error *err)
{
    char text[QN_SHAPE_TEXT];

    return qn_fail(err, QN_SHAPE,
                   "input '%s': shape %s has %lld elements, data has %lld",
                   in->name, qn_shape_text(&in->shape, text), (long long)want,
                   (long long)in->data.count);
}

static qn_status bind_values(binding *b, qn_scan_input *in, int64_t index)
{
    int64_t want = qn_shape_product(&in->shape, 0, in->shape.rank);

    in->data = b->envelope->cuts[index];
    if (in->data.count != want) {
        qn_scan_data again;

        /* miscounted because the text is wrong? Then that is the error. */
        if (!qn_values_scan(in->data.text, b->body + b->len, b->body, true,
                            &again, b->err))
            return qn_error_prefix(b->err, "input '%s'", in->name);
        return count_differs(in, want, b->err);
    }
    return QN_OK;
}

/* The next `size` bytes behind the JSON part. */
static qn_status bind_raw(binding *b, qn_scan_input *in, int64_t size)
{
    size_t left = b->options->tail_bytes - b->tail_used, bytes;
    unsigned bits = qn_dtype_file_bits(in->dtype);
    int64_t count = qn_shape_product(&in->shape, 0, in->shape.rank);
    char text[QN_SHAPE_TEXT];

    if (size < 0)
        return qn_fail(b->err, QN_INVALID,
                       "input '%s': binary_data_size is %lld", in->name,
                       (long long)size);
    if ((uint64_t)size > left)
        return qn_fail(b->err, QN_FORMAT,
                       "input '%s': binary_data_size is %lld, but %zu bytes of "
                       "binary data are left",
                       in->name, (long long)size, left);
    if (in->dtype != QN_STRING) {
        if (!qn_mul_size((size_t)count, bits, &bytes))
            bytes = SIZE_MAX;
        else
            bytes = bytes / 8 + (bytes % 8 != 0);
        if (bytes != (size_t)size)
            return qn_fail(b->err, QN_SHAPE,
                           "input '%s': %s of shape %s takes %zu bytes, "
                           "binary_data_size is %lld",
                           in->name, qn_dtype_wire(in->dtype),
                           qn_shape_text(&in->shape, text), bytes,
                           (long long)size);
    }
    in->data.raw = true;
    in->data.text = size ? (const char *)b->options->tail + b->tail_used : "";
    in->data.len = (size_t)size;
    in->data.offset = b->len + b->tail_used;
    in->data.count = count;
    b->tail_used += (size_t)size;
    return QN_OK;
}

static qn_status read_object(const qn_params *from, const char *key,
                             const char *what, const char *name,
                             qn_params *out, qn_error *err)
{
    const qn_param *p = qn_params_find(from, key);

    if (!p || p->kind == QN_PARAM_NULL)
        return QN_OK;
    if (p->kind != QN_PARAM_OBJECT)
        return qn_fail(err, QN_FORMAT, "%s '%s': \"%s\" is not an object", what,
                       name, key);
    *out = p->items;
    return QN_OK;
}

static qn_status read_input(binding *b, const qn_param *from, uint32_t i,
                            qn_scan_input *in)
{
    const qn_param *type, *data, *size;
    qn_status st;

    if (from->kind != QN_PARAM_OBJECT)
        return qn_fail(b->err, QN_FORMAT, "inputs[%u] is not an object",
                       (unsigned)i);
    in->name = qn_params_string(&from->items, "name", NULL);
    if (!in->name)
        return qn_fail(b->err, QN_FORMAT, "inputs[%u] has no \"name\"",
                       (unsigned)i);
    type = qn_params_find(&from->items, "datatype");
    if (!type || type->kind != QN_PARAM_STRING)
        return qn_fail(b->err, QN_FORMAT, "input '%s': \"datatype\" is %s",
                       in->name, type ? "not a string" : "missing");
    in->dtype = qn_dtype_from_wire(type->string, type->len);
    if (in->dtype == QN_NONE)
        return qn_fail(b->err, QN_TYPE,
                       "input '%s': there is no datatype '%.32s'", in->name,
                       type->string);
    st = read_shape(qn_params_find(&from->items, "shape"), in->name, &in->shape,
                    b->err);
    if (st == QN_OK)
        st = read_object(&from->items, "parameters", "input", in->name,
                         &in->params, b->err);
    if (st != QN_OK)
        return st;
    data = qn_params_find(&from->items, "data");
    size = qn_params_find(&in->params, "binary_data_size");
    if (size && size->kind != QN_PARAM_INT)
        return qn_fail(b->err, QN_FORMAT,
                       "input '%s': binary_data_size is not an integer",
                       in->name);
    if (data && data->kind == QN_PARAM_INT) {
        if (size)
            return qn_fail(b->err, QN_FORMAT,
                           "input '%s' has both \"data\" and binary_data_size",
                           in->name);
        return bind_values(b, in, data->integer);
    }
    return size ? bind_raw(b, in, size->integer) : QN_OK;
}

/* ---- the three forms ---- */

static qn_status read_long(binding *b, const qn_params *list)
{
    for (uint32_t i = 0; i < list->n; i++) {
        qn_scan_input *in = &b->out->inputs[i];
        qn_status st = read_input(b, &list->items[i], i, in);

        if (st != QN_OK) {
            qn_error_where(b->err, in->name, NULL, NULL);
            return st;
        }
        for (uint32_t k = 0; k < i; k++)
            if (!strcmp(b->out->inputs[k].name, in->name))
                return qn_fail(b->err, QN_FORMAT, "input '%s' is given twice",
                               in->name);
    }
    return QN_OK;
}

static void read_short(binding *b, const qn_param *inputs)
{
    for (uint32_t i = 0; i < b->out->n_inputs; i++) {
        qn_scan_input *in = &b->out->inputs[i];
        const qn_param *at = inputs->kind == QN_PARAM_OBJECT
                                 ? &inputs->items.items[i]
                                 : inputs;

        in->name = at == inputs ? NULL : at->key;
        in->data = b->envelope->cuts[at->integer];
        in->shape = in->data.nesting;
    }
}

static qn_status read_inputs(binding *b, const qn_params *root,
                             qn_region *region)
{
    const qn_param *inputs = qn_params_find(root, "inputs");
    uint32_t n = 0;

    if (!inputs)
        return QN_OK;
    n = b->out->form == QN_SCAN_SINGLE ? 1 : inputs->items.n;
    if (n > b->options->max_inputs)
        return qn_fail(b->err, QN_TOO_LARGE, "%u inputs, at most %u",
                       (unsigned)n, (unsigned)b->options->max_inputs);
    if (n) {
        b->out->inputs = qn_region_alloc(region, n, sizeof *b->out->inputs);
        if (!b->out->inputs)
            return qn_fail(b->err, QN_NO_MEMORY, "no memory for the request");
    }
    b->out->n_inputs = n;
    if (b->out->form == QN_SCAN_LONG)
        return read_long(b, &inputs->items);
    read_short(b, inputs);
    return QN_OK;
}

static qn_status read_outputs(binding *b, const qn_params *root,
                              qn_region *region)
{
    const qn_param *list = qn_params_find(root, "outputs");
    qn_status st = QN_OK;

    if (!list || list->kind == QN_PARAM_NULL)
        return QN_OK;
    if (list->kind != QN_PARAM_LIST)
        return qn_fail(b->err, QN_FORMAT, "\"outputs\" is not a list");
    b->out->has_outputs = true;
    if (list->items.n > b->options->max_inputs)
        return qn_fail(b->err, QN_TOO_LARGE, "%u outputs, at most %u",
                       (unsigned)list->items.n,
                       (unsigned)b->options->max_inputs);
    if (!list->items.n)
        return QN_OK;
    b->out->outputs =
        qn_region_alloc(region, list->items.n, sizeof *b->out->outputs);
    if (!b->out->outputs)
        return qn_fail(b->err, QN_NO_MEMORY, "no memory for the request");
    for (uint32_t i = 0; i < list->items.n && st == QN_OK; i++) {
        const qn_param *from = &list->items.items[i];
        qn_scan_output *o = &b->out->outputs[i];

        o->name = from->kind == QN_PARAM_OBJECT
                      ? qn_params_string(&from->items, "name", NULL)
                      : NULL;
        if (!o->name)
            return qn_fail(b->err, QN_FORMAT, "outputs[%u] has no \"name\"",
                           (unsigned)i);
        for (uint32_t k = 0; k < i; k++)
            if (!strcmp(b->out->outputs[k].name, o->name))
                return qn_fail(b->err, QN_FORMAT, "output '%s' is given twice",
                               o->name);
        b->out->n_outputs++;
        st = read_object(&from->items, "parameters", "output", o->name,
                         &o->params, b->err);
    }
    return st;
}

/* Everything at the top but what has a place of its own. */
static qn_status read_extra(binding *b, const qn_params *root,
                            qn_region *region)
{
    static const char *const known[] = { "id", "nested", "parameters",
                                         "inputs", "outputs" };
    qn_param *items = NULL;

    if (root->n) {
        items = qn_region_alloc(region, root->n, sizeof *items);
        if (!items)
            return qn_fail(b->err, QN_NO_MEMORY, "no memory for the request");
    }
    b->out->extra.items = items;
    for (uint32_t i = 0; i < root->n; i++) {
        size_t k = 0;

        while (k < sizeof known / sizeof known[0] &&
               strcmp(known[k], root->items[i].key) != 0)
            k++;
        if (k == sizeof known / sizeof known[0])
            items[b->out->extra.n++] = root->items[i];
    }
    return QN_OK;
}

static qn_status read_top(binding *b, const qn_params *root)
{
    const qn_param *id = qn_params_find(root, "id");
    const qn_param *nested = qn_params_find(root, "nested");
    const qn_param *params = qn_params_find(root, "parameters");

    if (id && id->kind != QN_PARAM_STRING && id->kind != QN_PARAM_NULL)
        return qn_fail(b->err, QN_FORMAT, "\"id\" is not a string");
    if (nested && nested->kind != QN_PARAM_BOOL)
        return qn_fail(b->err, QN_FORMAT, "\"nested\" is not true or false");
    if (params && params->kind != QN_PARAM_OBJECT &&
        params->kind != QN_PARAM_NULL)
        return qn_fail(b->err, QN_FORMAT, "\"parameters\" is not an object");
    b->out->id = id ? id->string : NULL;
    b->out->nested = nested && nested->boolean;
    if (params)
        b->out->params = params->items;
    return QN_OK;
}

/* The tree of an envelope; parse errors get their place in the body. */
static qn_status parse(const qn_envelope *envelope, qn_region *region,
                       qn_params *root, qn_error *err)
{
    size_t at;
    qn_status st = qn_tree_parse(envelope->text, envelope->len, region, root,
                                 &at, err);

    if (st == QN_FORMAT)
        qn_error_prefix(err, "byte %zu", qn_envelope_place(envelope, at));
    return st;
}

qn_status qn_scan_body(const char *body, size_t len,
                       const qn_scan_options *options, qn_region *region,
                       qn_scan *out, qn_error *err)
{
    qn_scan_options o = definite(options);
    qn_error spare = { 0 };
    qn_envelope envelope;
    qn_params root;

    body = len ? body : ""; /* may be NULL */
    binding b = { .body = body, .len = len, .options = &o,
                  .envelope = &envelope, .out = out,
                  .err = err ? err : &spare };
    qn_status st;

    err = b.err;
    memset(out, 0, sizeof *out);
    st = qn_envelope_read(body, len, &o, true, region, &envelope, err);
    if (st == QN_OK)
        st = parse(&envelope, region, &root, err);
    if (st != QN_OK)
        return st;
    out->form = envelope.form;
    st = read_top(&b, &root);
    if (st == QN_OK)
        st = read_inputs(&b, &root, region);
    if (st == QN_OK)
        st = read_outputs(&b, &root, region);
    if (st == QN_OK)
        st = read_extra(&b, &root, region);
    if (st == QN_OK && b.tail_used != o.tail_bytes)
        st = qn_fail(err, QN_FORMAT,
                     "%zu bytes of binary data belong to no input",
                     o.tail_bytes - b.tail_used);
    return st;
}

qn_status qn_scan_object(const char *body, size_t len,
                         const qn_scan_options *options, qn_region *region,
                         qn_params *out, qn_error *err)
{
    qn_scan_options o = definite(options);
    qn_error spare = { 0 };
    qn_envelope envelope;
    qn_status st;

    err = err ? err : &spare;
    *out = (qn_params){ 0 };
    if (!len || qn_lex_space(body, body + len) == body + len)
        return QN_OK; /* body may be NULL */
    st = qn_envelope_read(body, len, &o, false, region, &envelope, err);
    return st == QN_OK ? parse(&envelope, region, out, err) : st;
}

const qn_scan_input *qn_scan_find(const qn_scan *scan, const char *name)
{
    for (uint32_t i = 0; i < scan->n_inputs; i++)
        if (scan->inputs[i].name && !strcmp(scan->inputs[i].name, name))
            return &scan->inputs[i];
    return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* ModelProto: the file, its imports and metadata, the main graph. */
#include "models/onnx/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    MODEL_IR_VERSION = 1,
    MODEL_PRODUCER = 2,
    MODEL_PRODUCER_VERSION = 3,
    MODEL_DOC = 6,
    MODEL_GRAPH = 7,
    MODEL_OPSET_IMPORT = 8,
    MODEL_METADATA = 14,
    MODEL_FUNCTION = 25,
    IMPORT_DOMAIN = 1,
    IMPORT_VERSION = 2,
    ENTRY_KEY = 1,
    ENTRY_VALUE = 2,
    FUNCTION_NAME = 1,
    FUNCTION_OPSET_IMPORT = 9,
    FUNCTION_DOMAIN = 10,
    FUNCTION_OVERLOAD = 13,
    MAX_IMPORTS = 4096,
    MAX_FUNCTIONS = 65536
};

typedef struct proto {
    uint64_t ir_version;
    qn_span producer, producer_version, doc;
    qn_wire graph;
    bool has_graph;
    size_t n_imports, n_metadata, n_functions;
} proto;

qn_span qn_onnx_domain(qn_span domain)
{
    return qn_span_is(domain, "ai.onnx") ? (qn_span){ "", 0 } : domain;
}

static qn_status read_field(qn_reader *r, const qn_field *f, proto *p)
{
    switch (f->number) {
    case MODEL_IR_VERSION:
        p->ir_version = f->value;
        return qn_field_want(f, QN_WIRE_VARINT, r->err);
    case MODEL_PRODUCER:
        return qn_field_span(f, &p->producer, r->err);
    case MODEL_PRODUCER_VERSION:
        return qn_field_span(f, &p->producer_version, r->err);
    case MODEL_DOC:
        return qn_field_span(f, &p->doc, r->err);
    case MODEL_GRAPH:
        p->graph = f->body;
        p->has_graph = true;
        return qn_field_want(f, QN_WIRE_LEN, r->err);
    case MODEL_OPSET_IMPORT:
        p->n_imports++;
        return qn_field_want(f, QN_WIRE_LEN, r->err);
    case MODEL_METADATA:
        p->n_metadata++;
        return qn_field_want(f, QN_WIRE_LEN, r->err);
    case MODEL_FUNCTION:
        p->n_functions++;
        return qn_field_want(f, QN_WIRE_LEN, r->err);
    default:
        return QN_OK;
    }
}

static qn_status read_head(qn_reader *r, qn_wire w, proto *p)
{
    qn_field f;
    qn_status st;

    memset(p, 0, sizeof *p);
    while ((st = qn_wire_next(&w, &f, r->err)) == QN_OK && f.number) {
        st = read_field(r, &f, p);
        if (st != QN_OK)
            return st;
    }
    if (st != QN_OK)
        return st;
    if (!p->ir_version || !p->has_graph)
        return qn_fail(r->err, QN_FORMAT, "not an ONNX model: %s",
                       p->has_graph ? "it has no IR version"
                                    : "there is no graph in it");
    if (p->ir_version < QN_ONNX_IR_MIN || p->ir_version > QN_ONNX_IR_MAX)
        return qn_fail(r->err, QN_UNSUPPORTED,
                       "IR version %llu, Quern reads %d to %d",
                       (unsigned long long)p->ir_version, QN_ONNX_IR_MIN,
                       QN_ONNX_IR_MAX);
    if (p->n_imports > MAX_IMPORTS || p->n_functions > MAX_FUNCTIONS)
        return qn_fail(r->err, QN_TOO_LARGE,
                       "%zu opset imports and %zu functions, at most %d and %d "
                       "make sense", p->n_imports, p->n_functions, MAX_IMPORTS,
                       MAX_FUNCTIONS);
    return QN_OK;
}

/* Twice the same domain: the higher version, whatever the order. */
qn_status qn_onnx_import(qn_reader *r, qn_wire w, qn_imports *imports)
{
    qn_import in = { { "", 0 }, 0 };
    qn_field f;
    qn_status st;

    while ((st = qn_wire_next(&w, &f, r->err)) == QN_OK && f.number) {
        if (f.number == IMPORT_DOMAIN) {
            st = qn_field_span(&f, &in.domain, r->err);
        } else if (f.number == IMPORT_VERSION) {
            st = qn_field_want(&f, QN_WIRE_VARINT, r->err);
            /* negative versions are huge ones here; UINT16_MAX exceeds all */
            in.version = f.value > UINT16_MAX ? UINT16_MAX : (int)f.value;
        }
        if (st != QN_OK)
            return st;
    }
    if (st != QN_OK)
        return st;
    in.domain = qn_onnx_domain(in.domain);
    for (size_t i = 0; i < imports->n; i++) {
        qn_import *have = &imports->list[i];
        if (!qn_span_equal(have->domain, in.domain))
            continue;
        if (have->version < in.version)
            have->version = in.version;
        return QN_OK;
    }
    imports->list[imports->n++] = in;
    return QN_OK;
}

static qn_status read_imports(qn_reader *r, qn_wire w, uint32_t number,
                              size_t n, qn_imports *out)
{
    qn_field f;
    qn_status st;

    out->list = qn_region_alloc(&r->scratch, n + 1, sizeof *out->list);
    if (!out->list)
        return qn_reader_no_memory(r);
    while ((st = qn_wire_next(&w, &f, r->err)) == QN_OK && f.number) {
        if (f.number != number)
            continue;
        st = qn_onnx_import(r, f.body, out);
        if (st != QN_OK)
            return st;
    }
    return st;
}

/* Domains that a function does not import itself come from the model. */
static qn_status add_model_imports(qn_reader *r, qn_imports *own, size_t cap)
{
    for (size_t i = 0; i < r->imports.n; i++) {
        bool have = false;
        for (size_t k = 0; k < own->n; k++)
            have = have || qn_span_equal(own->list[k].domain,
                                         r->imports.list[i].domain);
        if (have)
            continue;
        if (own->n == cap)
            return qn_fail(r->err, QN_INTERNAL, "imports of a function");
        own->list[own->n++] = r->imports.list[i];
    }
    return QN_OK;
}

static qn_status read_function(qn_reader *r, qn_wire w, qn_function *out)
{
    qn_wire walk = w;
    qn_field f;
    size_t n = 0;
    qn_status st;

    out->body = w;
    while ((st = qn_wire_next(&walk, &f, r->err)) == QN_OK && f.number) {
        if (f.number == FUNCTION_NAME)
            st = qn_field_span(&f, &out->name, r->err);
        else if (f.number == FUNCTION_DOMAIN)
            st = qn_field_span(&f, &out->domain, r->err);
        else if (f.number == FUNCTION_OVERLOAD)
            st = qn_field_span(&f, &out->overload, r->err);
        else if (f.number == FUNCTION_OPSET_IMPORT)
            st = qn_field_want(&f, QN_WIRE_LEN, r->err);
        if (st != QN_OK)
            return st;
        n += f.number == FUNCTION_OPSET_IMPORT;
    }
    if (st != QN_OK)
        return st;
    if (n > MAX_IMPORTS)
        return qn_fail(r->err, QN_TOO_LARGE, "a function with %zu opset "
                       "imports", n);
    out->domain = qn_onnx_domain(out->domain);
    size_t cap = n + r->imports.n;
    st = read_imports(r, w, FUNCTION_OPSET_IMPORT, cap, &out->imports);
    return st == QN_OK ? add_model_imports(r, &out->imports, cap) : st;
}

static qn_status read_functions(qn_reader *r, qn_wire w, size_t n)
{
    qn_field f;
    qn_status st;

    r->functions = qn_region_alloc(&r->scratch, n + 1, sizeof *r->functions);
    if (!r->functions)
        return qn_reader_no_memory(r);
    while ((st = qn_wire_next(&w, &f, r->err)) == QN_OK && f.number) {
        if (f.number != MODEL_FUNCTION)
            continue;
        st = read_function(r, f.body, &r->functions[r->n_functions++]);
        if (st != QN_OK)
            return st;
    }
    return st;
}

/* ---- metadata ---- */

static qn_status put_text(qn_reader *r, qn_span span, const char **out)
{
    *out = qn_span_text(&r->file->region, span);
    return *out ? QN_OK : qn_reader_no_memory(r);
}

static qn_status read_entry(qn_reader *r, qn_wire w, const char **pair)
{
    qn_span key = { 0 }, value = { 0 };
    qn_field f;
    qn_status st;

    while ((st = qn_wire_next(&w, &f, r->err)) == QN_OK && f.number) {
        if (f.number == ENTRY_KEY)
            st = qn_field_span(&f, &key, r->err);
        else if (f.number == ENTRY_VALUE)
            st = qn_field_span(&f, &value, r->err);
        if (st != QN_OK)
            return st;
    }
    if (st == QN_OK)
        st = put_text(r, key, &pair[0]);
    return st == QN_OK ? put_text(r, value, &pair[1]) : st;
}

static qn_status read_info(qn_reader *r, qn_wire w, const proto *p,
                           const qn_graph *graph)
{
    qn_model_info *info = &r->file->info;
    const char **pairs = qn_region_alloc(&r->file->region,
                                         2 * p->n_metadata + 1, sizeof *pairs);
    qn_field f;
    qn_status st;

    if (!pairs)
        return qn_reader_no_memory(r);
    info->ir_version = r->ir_version;
    for (size_t i = 0; i < r->imports.n; i++)
        if (!r->imports.list[i].domain.len)
            info->opset = r->imports.list[i].version;
    st = put_text(r, p->producer, &info->producer);
    if (st == QN_OK)
        st = put_text(r, p->producer_version, &info->producer_version);
    if (st == QN_OK)
        st = put_text(r, p->doc, &info->doc);
    if (st == QN_OK)
        st = put_text(r, (qn_span){ graph->name, strlen(graph->name) },
                      &info->graph_name);
    while (st == QN_OK &&
           (st = qn_wire_next(&w, &f, r->err)) == QN_OK && f.number)
        if (f.number == MODEL_METADATA)
            st = read_entry(r, f.body, &pairs[2 * info->n_metadata++]);
    info->metadata = pairs;
    return st;
}

/* ---- the model ---- */

static qn_status read_model(qn_reader *r, qn_wire w, qn_graph **graph)
{
    proto p;
    qn_status st = read_head(r, w, &p);

    if (st != QN_OK)
        return st;
    r->ir_version = (int64_t)p.ir_version;
    st = read_imports(r, w, MODEL_OPSET_IMPORT, p.n_imports, &r->imports);
    if (st == QN_OK)
        st = read_functions(r, w, p.n_functions);
    if (st == QN_OK)
        st = qn_onnx_graph(r, p.graph, NULL, graph);
    if (st == QN_OK)
        st = qn_graph_finish(*graph, r->err);
    return st == QN_OK ? read_info(r, w, &p, *graph) : st;
}

/* Takes the file in every case. */
static qn_status read_file(qn_model_file *opened, qn_model_file **file,
                           qn_graph **graph, qn_error *err)
{
    qn_error own = { 0 };
    qn_reader r = { .file = opened, .err = err ? err : &own };

    opened->info.file_bytes = opened->len;
    qn_status st = read_model(&r, qn_wire_make(opened->bytes, opened->len),
                              graph);
    qn_region_release(&r.scratch);
    if (st != QN_OK) {
        qn_graph_free(*graph);
        *graph = NULL;
        qn_model_close(opened);
        return st;
    }
    *file = opened;
    return QN_OK;
}

static qn_status new_file(qn_model_file **out, qn_error *err)
{
    *out = qn_calloc(1, sizeof **out);
    return *out ? QN_OK
                : qn_fail(err, QN_NO_MEMORY, "out of memory for a model file");
}

/* Real path of the folder that a path's file is in, for external data. A model
 * that is itself a link keeps the folder it was asked for in. */
static qn_status set_folder(qn_model_file *file, const char *path,
                            qn_error *err)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 1;
    char *folder = slash ? qn_region_strndup(&file->region, n ? path : "/",
                                             n ? n : 1)
                         : qn_region_strndup(&file->region, ".", 1);
    char *real = folder ? realpath(folder, NULL) : NULL;

    if (!folder)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for a path");
    if (!real)
        return qn_fail(err, QN_IO, "%.400s: %s", folder, strerror(errno));
    file->folder = qn_region_strndup(&file->region, real, strlen(real));
    free(real);
    if (!file->folder)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for a path");
    return QN_OK;
}

static qn_status map_file(qn_model_file *file, const char *path, qn_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return qn_fail(err, errno == ENOENT ? QN_NOT_FOUND : QN_IO,
                       "%.400s: %s", path, strerror(errno));
    qn_status st = qn_onnx_map(fd, path, &file->bytes, &file->len, err);
    if (st == QN_OK && !file->bytes)
        st = qn_fail(err, QN_FORMAT, "%.400s is empty", path);
    file->map = (void *)(uintptr_t)file->bytes;
    return st == QN_OK ? set_folder(file, path, err) : st;
}

qn_status qn_model_open(const char *path, qn_model_file **file,
                        qn_graph **graph, qn_error *err)
{
    qn_model_file *opened;
    qn_status st = new_file(&opened, err);

    *file = NULL;
    *graph = NULL;
    if (st != QN_OK)
        return st;
    st = map_file(opened, path, err);
    if (st != QN_OK) {
        qn_model_close(opened);
        return st;
    }
    return read_file(opened, file, graph, err);
}

qn_status qn_model_parse(const void *bytes, size_t len, qn_model_file **file,
                         qn_graph **graph, qn_error *err)
{
    qn_model_file *opened;
    qn_status st = new_file(&opened, err);

    *file = NULL;
    *graph = NULL;
    if (st != QN_OK)
        return st;
    opened->bytes = bytes;
    opened->len = len;
    return read_file(opened, file, graph, err);
}

void qn_model_close(qn_model_file *file)
{
    if (!file)
        return;
    for (qn_external *e = file->externals; e; e = e->next)
        if (e->bytes)
            munmap((void *)(uintptr_t)e->bytes, e->len);
    if (file->map)
        munmap(file->map, file->len);
    qn_region_release(&file->region);
    qn_free(file);
}

const qn_model_info *qn_model_get_info(const qn_model_file *file)
{
    return &file->info;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "models/survey.h"

#include "models/onnx/reader.h"
#include "runtime/ops/op.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Fields of onnx.proto. */
enum {
    MODEL_GRAPH = 7, MODEL_OPSET_IMPORT = 8, MODEL_FUNCTION = 25,
    GRAPH_NODE = 1,
    FUNCTION_NAME = 1, FUNCTION_NODE = 7, FUNCTION_DOMAIN = 10,
    NODE_OP_TYPE = 4, NODE_ATTRIBUTE = 5, NODE_DOMAIN = 7,
    ATTRIBUTE_GRAPH = 6, ATTRIBUTE_GRAPHS = 11,
    OPSET_DOMAIN = 1, OPSET_VERSION = 2
};

enum { MAX_IMPORTS = 64, MAX_FUNCTIONS = 1024 };

typedef struct text {
    char s[64];
} text;

typedef struct state {
    qn_survey *out;
    text domains[MAX_IMPORTS];
    int versions[MAX_IMPORTS];
    size_t n_imports;
    text *functions; /* "domain:name" */
    size_t n_functions;
    qn_error *err;
} state;

static void copy(text *to, const qn_field *f)
{
    size_t n = f->type == QN_WIRE_LEN ? qn_wire_left(&f->body) : 0;
    if (n >= sizeof to->s)
        n = sizeof to->s - 1;
    if (n)
        memcpy(to->s, f->body.at, n);
    to->s[n] = 0;
    if (!strcmp(to->s, "ai.onnx"))
        to->s[0] = 0;
}

static qn_status read_import(state *s, qn_wire w)
{
    qn_field f;
    text domain = { "" };
    int version = 0;
    qn_status st;
    while ((st = qn_wire_next(&w, &f, s->err)) == QN_OK && f.number) {
        if (f.number == OPSET_DOMAIN)
            copy(&domain, &f);
        if (f.number == OPSET_VERSION && f.value < 1000000)
            version = (int)f.value;
    }
    if (st == QN_OK && s->n_imports < MAX_IMPORTS) {
        s->domains[s->n_imports] = domain;
        s->versions[s->n_imports++] = version;
    }
    return st;
}

static int opset_of(const state *s, const char *domain)
{
    for (size_t i = 0; i < s->n_imports; i++)
        if (!strcmp(s->domains[i].s, domain))
            return s->versions[i];
    return 0;
}

static void function_key(char key[130], const char *domain, const char *name)
{
    snprintf(key, 130, "%s:%s", domain, name);
}

static bool is_function(const state *s, const char *domain, const char *op)
{
    char key[130];
    function_key(key, domain, op);
    for (size_t i = 0; i < s->n_functions; i++)
        if (!strncmp(s->functions[i].s, key, sizeof s->functions[i].s - 1))
            return true;
    return false;
}

static qn_status count(state *s, const char *domain, const char *op)
{
    qn_survey *out = s->out;
    out->nodes++;
    for (size_t i = 0; i < out->n; i++)
        if (!strcmp(out->rows[i].op, op) &&
            !strcmp(out->rows[i].domain, domain)) {
            out->rows[i].count++;
            return QN_OK;
        }
    if (out->n == out->cap) {
        size_t cap = out->cap ? out->cap * 2 : 32;
        qn_survey_row *grown = qn_realloc(out->rows, cap, sizeof *grown);
        if (!grown)
            return qn_fail(s->err, QN_NO_MEMORY, "out of memory");
        out->rows = grown;
        out->cap = cap;
    }
    qn_survey_row *row = &out->rows[out->n++];
    *row = (qn_survey_row){ .opset = opset_of(s, domain), .count = 1 };
    snprintf(row->domain, sizeof row->domain, "%s", domain);
    snprintf(row->op, sizeof row->op, "%s", op);
    /* Constant is read, not run */
    row->supported = qn_op_find(domain, op, row->opset, NULL) ||
                     is_function(s, domain, op) ||
                     (!*domain && !strcmp(op, "Constant"));
    out->unsupported += !row->supported;
    return QN_OK;
}

static qn_status read_nodes(state *s, qn_wire w, uint32_t field, int depth);

static qn_status read_attribute(state *s, qn_wire w, int depth)
{
    qn_field f;
    qn_status st;
    while ((st = qn_wire_next(&w, &f, s->err)) == QN_OK && f.number)
        if (f.type == QN_WIRE_LEN &&
            (f.number == ATTRIBUTE_GRAPH || f.number == ATTRIBUTE_GRAPHS)) {
            st = read_nodes(s, f.body, GRAPH_NODE, depth + 1);
            if (st != QN_OK)
                break;
        }
    return st;
}

static qn_status read_node(state *s, qn_wire w, int depth)
{
    qn_field f;
    text op = { "" }, domain = { "" };
    qn_status st;
    while ((st = qn_wire_next(&w, &f, s->err)) == QN_OK && f.number) {
        if (f.number == NODE_OP_TYPE)
            copy(&op, &f);
        else if (f.number == NODE_DOMAIN)
            copy(&domain, &f);
        else if (f.number == NODE_ATTRIBUTE && f.type == QN_WIRE_LEN)
            st = read_attribute(s, f.body, depth);
        if (st != QN_OK)
            return st;
    }
    return st == QN_OK ? count(s, domain.s, op.s) : st;
}

/* Nodes of a GraphProto or FunctionProto, by the field that holds them. */
static qn_status read_nodes(state *s, qn_wire w, uint32_t field, int depth)
{
    qn_field f;
    qn_status st;
    if (depth > QN_ONNX_MAX_DEPTH)
        return qn_fail(s->err, QN_TOO_LARGE, "graphs nested deeper than %d",
                       QN_ONNX_MAX_DEPTH);
    while ((st = qn_wire_next(&w, &f, s->err)) == QN_OK && f.number)
        if (f.number == field && f.type == QN_WIRE_LEN) {
            st = read_node(s, f.body, depth);
            if (st != QN_OK)
                break;
        }
    return st;
}

static qn_status read_function_name(state *s, qn_wire w)
{
    qn_field f;
    text name = { "" }, domain = { "" };
    qn_status st;
    while ((st = qn_wire_next(&w, &f, s->err)) == QN_OK && f.number) {
        if (f.number == FUNCTION_NAME)
            copy(&name, &f);
        if (f.number == FUNCTION_DOMAIN)
            copy(&domain, &f);
    }
    if (st == QN_OK && s->n_functions < MAX_FUNCTIONS) {
        char key[130];
        function_key(key, domain.s, name.s);
        snprintf(s->functions[s->n_functions].s, sizeof(text), "%.63s", key);
        s->n_functions++;
    }
    return st;
}

/* Imports and functions may stand behind the graph: two passes. */
static qn_status read_model(state *s, qn_wire w, bool names)
{
    qn_field f;
    qn_status st;
    while ((st = qn_wire_next(&w, &f, s->err)) == QN_OK && f.number) {
        if (f.type != QN_WIRE_LEN)
            continue;
        if (names && f.number == MODEL_OPSET_IMPORT)
            st = read_import(s, f.body);
        else if (names && f.number == MODEL_FUNCTION)
            st = read_function_name(s, f.body);
        else if (!names && f.number == MODEL_GRAPH)
            st = read_nodes(s, f.body, GRAPH_NODE, 0);
        else if (!names && f.number == MODEL_FUNCTION)
            st = read_nodes(s, f.body, FUNCTION_NODE, 0);
        if (st != QN_OK)
            return st;
    }
    return st;
}

static int by_name(const void *a, const void *b)
{
    const qn_survey_row *x = a, *y = b;
    int d = strcmp(x->domain, y->domain);
    return d ? d : strcmp(x->op, y->op);
}

qn_status qn_model_survey(const char *path, qn_survey *out, qn_error *err)
{
    const uint8_t *bytes = NULL;
    size_t len = 0;
    state s = { .out = out, .err = err };
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return qn_fail(err, QN_NOT_FOUND, "%s: %s", path, strerror(errno));
    qn_status st = qn_onnx_map(fd, path, &bytes, &len, err);
    if (st != QN_OK)
        return st;
    s.functions = qn_calloc(MAX_FUNCTIONS, sizeof *s.functions);
    if (!s.functions)
        st = qn_fail(err, QN_NO_MEMORY, "out of memory");
    if (st == QN_OK && bytes)
        st = read_model(&s, qn_wire_make(bytes, len), true);
    if (st == QN_OK && bytes)
        st = read_model(&s, qn_wire_make(bytes, len), false);
    if (out->n)
        qsort(out->rows, out->n, sizeof *out->rows, by_name);
    qn_free(s.functions);
    if (bytes) {
        union {
            const uint8_t *from;
            void *to;
        } map = { .from = bytes };
        munmap(map.to, len);
    }
    return st;
}

void qn_survey_release(qn_survey *survey)
{
    qn_free(survey->rows);
    *survey = (qn_survey){ 0 };
}

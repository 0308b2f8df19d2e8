/* SPDX-License-Identifier: Apache-2.0 */
/* AttributeProto. */
#include "models/onnx/reader.h"

#include <string.h>

enum {
    ATTR_NAME = 1,
    ATTR_F = 2,
    ATTR_I = 3,
    ATTR_S = 4,
    ATTR_T = 5,
    ATTR_G = 6,
    ATTR_FLOATS = 7,
    ATTR_INTS = 8,
    ATTR_STRINGS = 9,
    ATTR_TENSORS = 10,
    ATTR_GRAPHS = 11,
    ATTR_TP = 14,
    ATTR_TYPE_PROTOS = 15,
    ATTR_TYPE = 20,
    ATTR_REF = 21,
    ATTR_SPARSE = 22,
    ATTR_SPARSES = 23
};

/* AttributeProto.AttributeType and the field that carries each. */
static const struct {
    uint32_t field;
    int kind; /* qn_attr_kind, -1: not one that Quern reads */
    const char *name;
} kinds[] = {
    { 0, -1, "undefined" },
    { ATTR_F, QN_ATTR_FLOAT, "float" },
    { ATTR_I, QN_ATTR_INT, "int" },
    { ATTR_S, QN_ATTR_STRING, "string" },
    { ATTR_T, QN_ATTR_TENSOR, "tensor" },
    { ATTR_G, QN_ATTR_GRAPH, "graph" },
    { ATTR_FLOATS, QN_ATTR_FLOATS, "floats" },
    { ATTR_INTS, QN_ATTR_INTS, "ints" },
    { ATTR_STRINGS, QN_ATTR_STRINGS, "strings" },
    { ATTR_TENSORS, -1, "a list of tensors" },
    { ATTR_GRAPHS, -1, "a list of graphs" },
    { ATTR_SPARSE, QN_ATTR_TENSOR, "sparse tensor" },
    { ATTR_SPARSES, -1, "a list of sparse tensors" },
    { ATTR_TP, -1, "a type" },
    { ATTR_TYPE_PROTOS, -1, "a list of types" },
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

typedef struct proto {
    qn_span name, ref;
    uint64_t type;
    qn_field value; /* last occurrence of the field that carries the value */
    size_t n;       /* elements of a list */
} proto;

static uint32_t type_of_field(uint32_t field)
{
    for (uint32_t i = 1; i < N_KINDS; i++)
        if (kinds[i].field == field)
            return i;
    return 0;
}

static qn_wire_type number_type(uint32_t field)
{
    return field == ATTR_FLOATS ? QN_WIRE_I32 : QN_WIRE_VARINT;
}

/* Name, reference and type; files of old have no type: it is that of the first
 * field which carries a value. */
static qn_status read_head(qn_reader *r, qn_wire w, proto *p)
{
    qn_field f;
    uint32_t seen = 0;
    qn_status st;

    memset(p, 0, sizeof *p);
    while ((st = qn_wire_next(&w, &f, r->err)) == QN_OK && f.number) {
        if (f.number == ATTR_NAME)
            st = qn_field_span(&f, &p->name, r->err);
        else if (f.number == ATTR_REF)
            st = qn_field_span(&f, &p->ref, r->err);
        else if (f.number == ATTR_TYPE)
            p->type = f.value;
        else if (!seen)
            seen = type_of_field(f.number);
        if (st != QN_OK)
            return st;
    }
    if (st == QN_OK && p->type == 0)
        p->type = seen;
    return st;
}

/* The value's field, and how many elements its list has. */
static qn_status read_value(qn_reader *r, qn_wire w, uint32_t field, proto *p)
{
    qn_field f;
    qn_status st;

    while ((st = qn_wire_next(&w, &f, r->err)) == QN_OK && f.number) {
        size_t n = 1;
        if (f.number != field)
            continue;
        if (field == ATTR_INTS || field == ATTR_FLOATS)
            st = qn_numbers_count(&f, number_type(field), &n, r->err);
        if (st != QN_OK)
            return st;
        p->n += n;
        p->value = f;
    }
    return st;
}

static qn_status read_text(qn_reader *r, const qn_field *f, qn_text *out)
{
    qn_span span;
    qn_status st = qn_field_span(f, &span, r->err);

    if (st != QN_OK)
        return st;
    out->s = qn_region_strndup(r->region, span.len ? span.s : "", span.len);
    out->len = span.len;
    return out->s ? QN_OK : qn_reader_no_memory(r);
}

static qn_status read_numbers(qn_reader *r, const qn_field *f, int64_t *ints,
                              float *floats, size_t *at)
{
    qn_numbers it;
    uint64_t v;
    qn_status st = qn_numbers_start(&it, f, number_type(f->number), r->err);

    while (st == QN_OK && qn_numbers_more(&it)) {
        st = qn_numbers_next(&it, &v, r->err);
        if (st != QN_OK)
            return st;
        uint32_t bits = (uint32_t)v;
        if (ints)
            ints[(*at)++] = (int64_t)v;
        else
            memcpy(&floats[(*at)++], &bits, sizeof bits);
    }
    return st;
}

static qn_status read_list(qn_reader *r, qn_wire w, uint32_t field, size_t n,
                           qn_attr *a)
{
    int64_t *ints = NULL;
    float *floats = NULL;
    qn_text *texts = NULL;
    size_t at = 0;
    qn_field f;
    qn_status st;

    if (field == ATTR_INTS)
        a->ints = ints = qn_region_alloc(r->region, n + 1, sizeof *ints);
    else if (field == ATTR_FLOATS)
        a->floats = floats = qn_region_alloc(r->region, n + 1, sizeof *floats);
    else
        a->strings = texts = qn_region_alloc(r->region, n + 1, sizeof *texts);
    if (!ints && !floats && !texts)
        return qn_reader_no_memory(r);
    a->n = n;
    while ((st = qn_wire_next(&w, &f, r->err)) == QN_OK && f.number) {
        if (f.number != field)
            continue;
        st = texts ? read_text(r, &f, &texts[at++])
                   : read_numbers(r, &f, ints, floats, &at);
        if (st != QN_OK)
            return st;
    }
    return st;
}

static qn_status read_graph(qn_reader *r, qn_scope *scope, const qn_field *f,
                            qn_graph **out)
{
    qn_status st = qn_field_want(f, QN_WIRE_LEN, r->err);
    return st == QN_OK ? qn_onnx_graph(r, f->body, scope, out) : st;
}

static qn_status read_tensor(qn_reader *r, const qn_field *f,
                             const qn_const **out)
{
    qn_span name;
    qn_status st = qn_field_want(f, QN_WIRE_LEN, r->err);

    if (st != QN_OK)
        return st;
    if (f->number == ATTR_SPARSE)
        return qn_onnx_sparse(r, f->body, &name, out);
    return qn_onnx_tensor(r, f->body, &name, out);
}

static qn_status convert(qn_reader *r, qn_scope *scope, qn_wire w,
                         const proto *p, qn_attr *a)
{
    uint32_t bits = (uint32_t)p->value.value;
    qn_status st;

    switch (a->kind) {
    case QN_ATTR_FLOAT:
        memcpy(&a->f, &bits, sizeof bits);
        return p->n ? qn_field_want(&p->value, QN_WIRE_I32, r->err) : QN_OK;
    case QN_ATTR_INT:
        a->i = (int64_t)p->value.value;
        return p->n ? qn_field_want(&p->value, QN_WIRE_VARINT, r->err) : QN_OK;
    case QN_ATTR_STRING:
        if (p->n)
            return read_text(r, &p->value, &a->s);
        a->s.s = "";
        return QN_OK;
    case QN_ATTR_TENSOR:
    case QN_ATTR_GRAPH:
        if (!p->n)
            return qn_fail(r->err, QN_FORMAT, "attribute '%.60s' is a %s, but "
                           "has none", a->name, kinds[p->type].name);
        st = a->kind == QN_ATTR_TENSOR
                 ? read_tensor(r, &p->value, &a->tensor)
                 : read_graph(r, scope, &p->value, &a->graph);
        return st;
    default:
        return read_list(r, w, kinds[p->type].field, p->n, a);
    }
}

/* An attribute of a function's node that names one of the call's. */
static qn_status refer(qn_reader *r, const qn_scope *scope, const proto *p,
                       qn_attr *out, bool *present)
{
    const char *ref, *name = out->name;
    qn_status st = qn_span_name(&r->scratch, p->ref, "an attribute", &ref,
                                r->err);

    *present = false;
    if (st != QN_OK)
        return st;
    for (uint32_t i = 0; i < scope->n_call; i++) {
        if (strcmp(scope->call[i].name, ref) != 0)
            continue;
        /* its captures are numbered for the caller's graph, and two nodes
         * cannot share a child */
        if (scope->call[i].kind == QN_ATTR_GRAPH)
            return qn_fail(r->err, QN_UNSUPPORTED, "attribute '%.60s': a graph "
                           "handed to a function", ref);
        *out = scope->call[i];
        out->name = name;
        *present = true;
    }
    return QN_OK;
}

qn_status qn_onnx_attr(qn_reader *r, qn_scope *scope, qn_wire w, qn_attr *out,
                       bool *present)
{
    proto p;
    qn_status st = read_head(r, w, &p);

    memset(out, 0, sizeof *out);
    *present = true;
    if (st == QN_OK)
        st = qn_span_name(r->region, p.name, "an attribute", &out->name,
                          r->err);
    if (st != QN_OK)
        return st;
    if (p.ref.len)
        return refer(r, scope, &p, out, present);
    if (p.type == 0 || p.type >= N_KINDS)
        return qn_fail(r->err, QN_FORMAT, "attribute '%.60s' has no value, or "
                       "type %llu", out->name, (unsigned long long)p.type);
    if (kinds[p.type].kind < 0)
        return qn_fail(r->err, QN_UNSUPPORTED, "attribute '%.60s' is %s",
                       out->name, kinds[p.type].name);
    out->kind = (qn_attr_kind)kinds[p.type].kind;
    st = read_value(r, w, kinds[p.type].field, &p);
    return st == QN_OK ? convert(r, scope, w, &p, out) : st;
}

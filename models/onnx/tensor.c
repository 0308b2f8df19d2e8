/* SPDX-License-Identifier: Apache-2.0 */
/* TensorProto: dtype, shape, and where the elements are. */
#include "models/onnx/reader.h"

#include <string.h>

/* Numbers of onnx.proto. */
enum {
    TENSOR_DIMS = 1,
    TENSOR_DATA_TYPE = 2,
    TENSOR_SEGMENT = 3,
    TENSOR_NAME = 8,
    TENSOR_RAW_DATA = 9,
    TENSOR_EXTERNAL_DATA = 13,
    TENSOR_DATA_LOCATION = 14,
    ENTRY_KEY = 1,
    ENTRY_VALUE = 2,
    LOCATION_EXTERNAL = 1
};

typedef struct proto {
    qn_span name;
    qn_shape shape;
    uint64_t data_type, location_kind;
    bool segment, has_raw;
    qn_wire raw;
    qn_span location;
    uint64_t offset, length;
} proto;

/* Decimal digits only. */
static bool decimal(qn_span s, uint64_t *out)
{
    uint64_t v = 0;

    for (size_t i = 0; i < s.len; i++) {
        unsigned digit = (unsigned)(unsigned char)s.s[i] - '0';
        if (digit > 9 || __builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, digit, &v))
            return false;
    }
    *out = v;
    return s.len > 0;
}

static qn_status read_entry(qn_reader *r, qn_wire w, proto *p)
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
    if (st != QN_OK)
        return st;
    if (qn_span_is(key, "location")) {
        p->location = value;
    } else if (qn_span_is(key, "offset") || qn_span_is(key, "length")) {
        uint64_t *to = key.s[0] == 'o' ? &p->offset : &p->length;
        if (!decimal(value, to))
            return qn_fail(r->err, QN_FORMAT,
                           "byte %zu: external data with %.6s '%.*s'",
                           qn_wire_offset(&w), key.s,
                           (int)(value.len < 40 ? value.len : 40), value.s);
    }
    return QN_OK;
}

static qn_status read_field(qn_reader *r, const qn_field *f, proto *p)
{
    qn_status st = QN_OK;

    switch (f->number) {
    case TENSOR_DIMS:
        return qn_onnx_shape(r, f, &p->shape);
    case TENSOR_DATA_TYPE:
        p->data_type = f->value;
        return qn_field_want(f, QN_WIRE_VARINT, r->err);
    case TENSOR_SEGMENT:
        p->segment = true;
        return QN_OK;
    case TENSOR_NAME:
        return qn_field_span(f, &p->name, r->err);
    case TENSOR_RAW_DATA:
        p->has_raw = true;
        p->raw = f->body;
        return qn_field_want(f, QN_WIRE_LEN, r->err);
    case TENSOR_EXTERNAL_DATA:
        st = qn_field_want(f, QN_WIRE_LEN, r->err);
        return st == QN_OK ? read_entry(r, f->body, p) : st;
    case TENSOR_DATA_LOCATION:
        p->location_kind = f->value;
        return qn_field_want(f, QN_WIRE_VARINT, r->err);
    default:
        return QN_OK;
    }
}

static qn_status read_proto(qn_reader *r, qn_wire w, proto *p)
{
    qn_field f;
    qn_status st;

    memset(p, 0, sizeof *p);
    p->length = UINT64_MAX;
    while ((st = qn_wire_next(&w, &f, r->err)) == QN_OK && f.number) {
        st = read_field(r, &f, p);
        if (st != QN_OK)
            return st;
    }
    return st;
}

static qn_status elements(qn_reader *r, qn_wire w, const proto *p, qn_const *c,
                          const char *name)
{
    qn_source *source = qn_region_alloc(r->region, 1, sizeof *source);
    size_t raw_len = 0;

    if (!source)
        return qn_reader_no_memory(r);
    source->tensor = w;
    if (p->location_kind == LOCATION_EXTERNAL) {
        if (c->dtype == QN_STRING)
            return qn_fail(r->err, QN_UNSUPPORTED, "tensor '%.100s': strings "
                           "as external data", name);
        qn_status st = qn_onnx_external(r, p->location, p->offset, p->length,
                                        &source->raw, &raw_len);
        if (st != QN_OK) {
            qn_error_prefix(r->err, "tensor '%.100s'", name);
            return st;
        }
        /* an unstated length may leave bytes behind that are others' */
        size_t bits = qn_dtype_file_bits(c->dtype);
        size_t n = c->bytes / qn_dtype_size(c->dtype);
        size_t want = bits < 8 ? n / (8 / bits) + (n % (8 / bits) != 0)
                               : c->bytes;
        if (p->length == UINT64_MAX && raw_len > want)
            raw_len = want;
    } else if (p->has_raw) {
        source->raw = p->raw.at;
        raw_len = qn_wire_left(&p->raw);
    }
    return qn_onnx_elements(c, source, raw_len, name, r->err);
}

qn_status qn_onnx_tensor(qn_reader *r, qn_wire w, qn_span *name,
                         const qn_const **out)
{
    proto p;
    const char *text;
    qn_status st = read_proto(r, w, &p);

    *out = NULL;
    if (st == QN_OK)
        st = qn_span_name(&r->scratch, p.name, "a tensor", &text, r->err);
    if (st != QN_OK)
        return st;
    *name = p.name;
    if (p.segment)
        return qn_fail(r->err, QN_UNSUPPORTED,
                       "tensor '%.100s' is cut into segments", text);
    if (p.data_type > INT32_MAX || !qn_dtype_valid((int)p.data_type))
        return qn_fail(r->err, QN_UNSUPPORTED,
                       "tensor '%.100s' has element type %llu, which Quern "
                       "does not know",
                       text, (unsigned long long)p.data_type);
    if (p.location_kind > LOCATION_EXTERNAL)
        return qn_fail(r->err, QN_UNSUPPORTED,
                       "tensor '%.100s' has data location %llu", text,
                       (unsigned long long)p.location_kind);
    qn_const *c = qn_region_alloc(r->region, 1, sizeof *c);
    if (!c)
        return qn_reader_no_memory(r);
    c->dtype = (qn_dtype)p.data_type;
    c->shape = p.shape;
    st = qn_tensor_bytes(c->dtype, &c->shape, &c->bytes, r->err);
    if (st == QN_OK)
        st = elements(r, w, &p, c, text);
    if (st == QN_OK)
        *out = c;
    return st;
}

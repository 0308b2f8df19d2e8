/* SPDX-License-Identifier: Apache-2.0 */
/* TypeProto, ValueInfoProto, TensorShapeProto. */
#include "models/onnx/reader.h"

#include <string.h>

enum {
    INFO_NAME = 1,
    INFO_TYPE = 2,
    TYPE_TENSOR = 1,
    TYPE_SEQUENCE = 4,
    TYPE_MAP = 5,
    TYPE_OPAQUE = 7,
    TYPE_SPARSE = 8,
    TYPE_OPTIONAL = 9,
    TENSOR_ELEM = 1,
    TENSOR_SHAPE = 2,
    SHAPE_DIM = 1,
    DIM_VALUE = 1,
    DIM_PARAM = 2,
    MAP_KEY = 1,
    MAP_VALUE = 2,
    ELEM_TYPE = 1
};

static qn_status read_type(qn_reader *r, qn_wire w, qn_value *v, int depth);

/* Every negative size means "any": exporters write -1 for that. */
static qn_status read_dim(qn_reader *r, qn_wire w, qn_dim *dim)
{
    qn_field f;
    qn_span symbol = { 0 };
    qn_status st;

    dim->value = -1;
    while ((st = qn_wire_next(&w, &f, r->err)) == QN_OK && f.number) {
        if (f.number == DIM_VALUE) {
            st = qn_field_want(&f, QN_WIRE_VARINT, r->err);
            dim->value = f.value > INT64_MAX ? -1 : (int64_t)f.value;
        } else if (f.number == DIM_PARAM) {
            st = qn_field_span(&f, &symbol, r->err);
        }
        if (st != QN_OK)
            return st;
    }
    if (st == QN_OK && dim->value < 0 && symbol.len)
        st = qn_span_name(r->region, symbol, "a dimension", &dim->symbol,
                          r->err);
    return st;
}

static qn_status read_shape(qn_reader *r, qn_wire w, qn_value *v)
{
    qn_wire again = w;
    qn_field f;
    int32_t rank = 0;
    qn_status st;

    while ((st = qn_wire_next(&w, &f, r->err)) == QN_OK && f.number) {
        if (f.number != SHAPE_DIM)
            continue;
        if (rank == QN_MAX_RANK)
            return qn_fail(r->err, QN_UNSUPPORTED,
                           "byte %zu: a tensor of rank above %d",
                           qn_wire_offset(&f.body), QN_MAX_RANK);
        rank++;
    }
    if (st != QN_OK)
        return st;
    qn_dim *dims = qn_region_alloc(r->region, (size_t)rank + 1, sizeof *dims);
    if (!dims)
        return qn_reader_no_memory(r);
    for (int32_t i = 0; i < rank;) {
        st = qn_wire_next(&again, &f, r->err);
        if (st == QN_OK && f.number == SHAPE_DIM)
            st = qn_field_want(&f, QN_WIRE_LEN, r->err);
        if (st == QN_OK && f.number == SHAPE_DIM)
            st = read_dim(r, f.body, &dims[i++]);
        if (st != QN_OK)
            return st;
    }
    v->rank = rank;
    v->dims = dims;
    return QN_OK;
}

static qn_status read_elem(qn_reader *r, const qn_field *f, qn_dtype *out)
{
    qn_status st = qn_field_want(f, QN_WIRE_VARINT, r->err);

    if (st != QN_OK)
        return st;
    if (f->value > INT32_MAX || !qn_dtype_valid((int)f->value))
        return qn_fail(r->err, QN_UNSUPPORTED,
                       "byte %zu: element type %llu, which Quern does not know",
                       qn_wire_offset(&f->body), (unsigned long long)f->value);
    *out = (qn_dtype)f->value;
    return QN_OK;
}

static qn_status read_tensor_type(qn_reader *r, qn_wire w, qn_value *v)
{
    qn_field f;
    qn_status st;

    v->type.kind = QN_TYPE_TENSOR;
    while ((st = qn_wire_next(&w, &f, r->err)) == QN_OK && f.number) {
        if (f.number == TENSOR_ELEM) {
            st = read_elem(r, &f, &v->type.dtype);
        } else if (f.number == TENSOR_SHAPE) {
            st = qn_field_want(&f, QN_WIRE_LEN, r->err);
            if (st == QN_OK)
                st = read_shape(r, f.body, v);
        }
        if (st != QN_OK)
            return st;
    }
    /* a tensor type without its element type says nothing */
    if (st == QN_OK && v->type.dtype == QN_NONE)
        v->type.kind = QN_TYPE_NONE;
    return st;
}

/* Sequence, optional and map: one type inside, for maps with a key type. */
static qn_status read_container(qn_reader *r, qn_wire w, qn_type_kind kind,
                                qn_value *v, int depth)
{
    uint32_t elem = kind == QN_TYPE_MAP ? MAP_VALUE : ELEM_TYPE;
    qn_value inner = { .rank = -1 };
    qn_field f;
    qn_status st;

    if (depth >= QN_ONNX_MAX_TYPE_DEPTH)
        return qn_fail(r->err, QN_UNSUPPORTED,
                       "byte %zu: a type nested more than %d deep",
                       qn_wire_offset(&w), QN_ONNX_MAX_TYPE_DEPTH);
    v->type.kind = kind;
    while ((st = qn_wire_next(&w, &f, r->err)) == QN_OK && f.number) {
        if (kind == QN_TYPE_MAP && f.number == MAP_KEY) {
            st = read_elem(r, &f, &v->type.dtype);
        } else if (f.number == elem) {
            st = qn_field_want(&f, QN_WIRE_LEN, r->err);
            if (st == QN_OK)
                st = read_type(r, f.body, &inner, depth + 1);
        }
        if (st != QN_OK)
            return st;
    }
    if (st != QN_OK)
        return st;
    qn_type *type = qn_region_alloc(r->region, 1, sizeof *type);
    if (!type)
        return qn_reader_no_memory(r);
    *type = inner.type;
    v->type.elem = type;
    return QN_OK;
}

static qn_status read_type(qn_reader *r, qn_wire w, qn_value *v, int depth)
{
    qn_field f;
    qn_status st;

    while ((st = qn_wire_next(&w, &f, r->err)) == QN_OK && f.number) {
        if (f.number == TYPE_TENSOR || f.number == TYPE_SEQUENCE ||
            f.number == TYPE_MAP || f.number == TYPE_OPTIONAL)
            st = qn_field_want(&f, QN_WIRE_LEN, r->err);
        if (st != QN_OK)
            return st;
        switch (f.number) {
        case TYPE_TENSOR:
            st = read_tensor_type(r, f.body, v);
            break;
        case TYPE_SEQUENCE:
            st = read_container(r, f.body, QN_TYPE_SEQUENCE, v, depth);
            break;
        case TYPE_MAP:
            st = read_container(r, f.body, QN_TYPE_MAP, v, depth);
            break;
        case TYPE_OPTIONAL:
            st = read_container(r, f.body, QN_TYPE_OPTIONAL, v, depth);
            break;
        case TYPE_OPAQUE:
        case TYPE_SPARSE:
            st = qn_fail(r->err, QN_UNSUPPORTED, "byte %zu: %s",
                         qn_wire_offset(&f.body),
                         f.number == TYPE_OPAQUE ? "an opaque type"
                                                 : "a sparse tensor type");
            break;
        default:
            break;
        }
        if (st != QN_OK)
            return st;
    }
    return st;
}

qn_status qn_onnx_value_info(qn_reader *r, qn_wire w, qn_span *name,
                             qn_value *out)
{
    qn_field f;
    qn_status st;

    memset(out, 0, sizeof *out);
    out->rank = -1;
    *name = (qn_span){ 0 };
    while ((st = qn_wire_next(&w, &f, r->err)) == QN_OK && f.number) {
        if (f.number == INFO_NAME) {
            st = qn_field_span(&f, name, r->err);
        } else if (f.number == INFO_TYPE) {
            st = qn_field_want(&f, QN_WIRE_LEN, r->err);
            if (st == QN_OK)
                st = read_type(r, f.body, out, 0);
        }
        if (st != QN_OK)
            return st;
    }
    return st == QN_OK ? qn_span_name(r->region, *name, "a value", &out->name,
                                      r->err)
                       : st;
}

qn_status qn_onnx_dims(qn_reader *r, const qn_shape *shape, const qn_dim **out)
{
    qn_dim *dims = qn_region_alloc(r->region, (size_t)shape->rank + 1,
                                   sizeof *dims);
    if (!dims)
        return qn_reader_no_memory(r);
    for (int32_t i = 0; i < shape->rank; i++)
        dims[i].value = shape->dims[i];
    *out = dims;
    return QN_OK;
}

qn_status qn_onnx_shape(qn_reader *r, const qn_field *f, qn_shape *shape)
{
    qn_numbers it;
    uint64_t v;
    qn_status st = qn_numbers_start(&it, f, QN_WIRE_VARINT, r->err);

    while (st == QN_OK && qn_numbers_more(&it)) {
        st = qn_numbers_next(&it, &v, r->err);
        if (st != QN_OK)
            return st;
        if (v > INT64_MAX)
            return qn_fail(r->err, QN_FORMAT, "byte %zu: a dimension is %lld",
                           qn_wire_offset(&f->body), (long long)v);
        if (shape->rank == QN_MAX_RANK)
            return qn_fail(r->err, QN_UNSUPPORTED,
                           "byte %zu: a tensor of rank above %d",
                           qn_wire_offset(&f->body), QN_MAX_RANK);
        shape->dims[shape->rank++] = (int64_t)v;
    }
    return st;
}

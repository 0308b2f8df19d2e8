/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SparseTensorProto: values [n], indices [n] (flat) or [n, rank], dims. Becomes
 * a dense constant whose fill scatters the values over zeros. Indices have to
 * ascend, which ONNX demands and which rules out duplicates.
 */
#include "models/onnx/reader.h"

#include <string.h>

enum { SPARSE_VALUES = 1, SPARSE_INDICES = 2, SPARSE_DIMS = 3 };

typedef struct sparse {
    const qn_const *values, *indices;
} sparse;

/* Bytes of a constant: in place, or decoded into *owned. */
static qn_status bytes_of(const qn_const *c, const void **bytes, void **owned,
                          qn_error *err)
{
    *owned = NULL;
    *bytes = c->data;
    if (c->data)
        return QN_OK;
    *owned = qn_calloc(1, c->bytes);
    if (!*owned)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for %zu bytes of a "
                       "sparse tensor", c->bytes);
    *bytes = *owned;
    return qn_const_read(c, *owned, err);
}

/* Flat position of entry k; false if it is outside the shape. */
static bool position(const qn_shape *shape, const char *indices, int32_t rank,
                     size_t k, int64_t count, int64_t *out)
{
    int64_t at = 0, v;

    if (rank == 1) {
        memcpy(&v, indices + k * sizeof v, sizeof v);
        *out = v;
        return v >= 0 && v < count;
    }
    for (int32_t d = 0; d < shape->rank; d++) {
        size_t i = k * (size_t)shape->rank + (size_t)d;
        memcpy(&v, indices + i * sizeof v, sizeof v);
        if (v < 0 || v >= shape->dims[d])
            return false;
        at = at * shape->dims[d] + v;
    }
    *out = at;
    return true;
}

static qn_status scatter(const qn_const *c, const char *values,
                         const char *indices, char *dst, qn_error *err)
{
    const sparse *s = c->fill_arg;
    size_t size = qn_dtype_size(c->dtype), n = s->values->bytes / size;
    int64_t before = -1, at, count = qn_shape_product(&c->shape, 0,
                                                      c->shape.rank);

    for (size_t k = 0; k < n; k++) {
        if (!position(&c->shape, indices, s->indices->shape.rank, k, count,
                      &at))
            return qn_fail(err, QN_RANGE, "entry %zu of a sparse tensor lies "
                           "outside its shape", k);
        if (at <= before)
            return qn_fail(err, QN_FORMAT, "entry %zu of a sparse tensor is "
                           "not in ascending order", k);
        before = at;
        memcpy(dst + (size_t)at * size, values + k * size, size);
    }
    return QN_OK;
}

static qn_status fill_sparse(const qn_const *c, void *dst, qn_error *err)
{
    const sparse *s = c->fill_arg;
    const void *values, *indices;
    void *own_values = NULL, *own_indices = NULL;
    qn_status st = bytes_of(s->values, &values, &own_values, err);

    if (st == QN_OK)
        st = bytes_of(s->indices, &indices, &own_indices, err);
    if (st == QN_OK) {
        memset(dst, 0, c->bytes);
        st = scatter(c, values, indices, dst, err);
    }
    qn_free(own_values);
    qn_free(own_indices);
    return st;
}

static bool fits(const qn_const *c, const sparse *s)
{
    const qn_shape *v = &s->values->shape, *i = &s->indices->shape;

    if (v->rank != 1 || s->indices->dtype != QN_I64 || i->rank < 1 ||
        i->rank > 2 || i->dims[0] != v->dims[0] || c->shape.rank < 1)
        return false;
    return i->rank == 1 || i->dims[1] == c->shape.rank;
}

qn_status qn_onnx_sparse(qn_reader *r, qn_wire w, qn_span *name,
                         const qn_const **out)
{
    qn_field f;
    qn_span ignored;
    qn_status st;
    qn_const *c = qn_region_alloc(r->region, 1, sizeof *c);
    sparse *s = qn_region_alloc(r->region, 1, sizeof *s);
    size_t at = qn_wire_offset(&w);

    *out = NULL;
    if (!c || !s)
        return qn_reader_no_memory(r);
    while ((st = qn_wire_next(&w, &f, r->err)) == QN_OK && f.number) {
        if (f.number == SPARSE_VALUES || f.number == SPARSE_INDICES)
            st = qn_field_want(&f, QN_WIRE_LEN, r->err);
        if (st == QN_OK && f.number == SPARSE_VALUES)
            st = qn_onnx_tensor(r, f.body, name, &s->values);
        else if (st == QN_OK && f.number == SPARSE_INDICES)
            st = qn_onnx_tensor(r, f.body, &ignored, &s->indices);
        else if (st == QN_OK && f.number == SPARSE_DIMS)
            st = qn_onnx_shape(r, &f, &c->shape);
        if (st != QN_OK)
            return st;
    }
    if (st != QN_OK)
        return st;
    if (!s->values || !s->indices || !fits(c, s))
        return qn_fail(r->err, QN_FORMAT, "byte %zu: a sparse tensor whose "
                       "values, indices and shape do not fit together", at);
    if (s->values->dtype == QN_STRING)
        return qn_fail(r->err, QN_UNSUPPORTED, "byte %zu: a sparse tensor of "
                       "strings", at);
    c->dtype = s->values->dtype;
    c->fill = fill_sparse;
    c->fill_arg = s;
    st = qn_tensor_bytes(c->dtype, &c->shape, &c->bytes, r->err);
    if (st == QN_OK)
        *out = c;
    return st;
}

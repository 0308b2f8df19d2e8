/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements of constants. Where the file has them as memory wants them, the
 * constant points into the mapping; where not, a fill function decodes them
 * straight into their final place:
 *
 *   raw_data                      bytes; 4 and 2 bit types several to a byte,
 *                                 low bits first; bools not all 0 or 1
 *   float_data 4, double_data 10  packed: bytes as they are; else one by one
 *   int32_data 5                  varints: int32, int16, int8, uint16, uint8,
 *                                 bool, the 16-bit and 8-bit floats; 4 and 2
 *                                 bit types as in raw_data, a byte per number
 *   int64_data 7, uint64_data 11  varints: int64; uint64, uint32
 *   string_data 6                 the heap is the tensor's own bytes
 */
#include "models/onnx/reader.h"

#include "runtime/base/checked.h"

#include <assert.h>
#include <string.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "ONNX files are little-endian, and are used in place");

enum { FLOAT_DATA = 4, INT32_DATA = 5, STRING_DATA = 6, INT64_DATA = 7,
       DOUBLE_DATA = 10, UINT64_DATA = 11 };

static size_t count_of(const qn_const *c)
{
    return c->bytes / qn_dtype_size(c->dtype);
}

static bool is_signed(qn_dtype dtype)
{
    return dtype == QN_I4 || dtype == QN_I2;
}

/* Element `part` of a byte that holds 8 / bits of them. */
static uint8_t small(uint8_t byte, unsigned part, unsigned bits, bool sign)
{
    unsigned v = (unsigned)byte >> (part * bits) & ((1u << bits) - 1);
    unsigned top = 1u << (bits - 1);

    return (uint8_t)(sign ? (v ^ top) - top : v);
}

static qn_status fill_small(const qn_const *c, void *dst, qn_error *err)
{
    const qn_source *s = c->fill_arg;
    unsigned bits = qn_dtype_file_bits(c->dtype), per = 8 / bits;
    uint8_t *out = dst;

    (void)err;
    for (size_t i = 0; i < c->bytes; i++)
        out[i] = small(s->raw[i / per], (unsigned)(i % per), bits,
                       is_signed(c->dtype));
    return QN_OK;
}

static qn_status fill_bool(const qn_const *c, void *dst, qn_error *err)
{
    const qn_source *s = c->fill_arg;
    uint8_t *out = dst;

    (void)err;
    for (size_t i = 0; i < c->bytes; i++)
        out[i] = s->raw[i] != 0;
    return QN_OK;
}

static qn_wire_type wire_type(uint32_t field)
{
    return field == FLOAT_DATA    ? QN_WIRE_I32
           : field == DOUBLE_DATA ? QN_WIRE_I64
                                  : QN_WIRE_VARINT;
}

static bool known_number_field(uint32_t field)
{
    return field == FLOAT_DATA || field == DOUBLE_DATA || field == INT32_DATA ||
           field == INT64_DATA || field == UINT64_DATA;
}

static qn_status changed(qn_error *err)
{
    return qn_fail(err, QN_IO, "the model file changed while it was read");
}

/* Numbers of one width, `size` bytes each; fields may be split. */
static qn_status fill_numbers(const qn_const *c, void *dst, qn_error *err)
{
    const qn_source *s = c->fill_arg;
    bool half = c->dtype == QN_C64 || c->dtype == QN_C128;
    size_t size = qn_dtype_size(c->dtype) / (half ? 2 : 1);
    size_t n = c->bytes / size, at = 0;
    qn_wire w = s->tensor;
    qn_field f;
    qn_status st;

    while ((st = qn_wire_next(&w, &f, err)) == QN_OK && f.number) {
        qn_numbers it;
        uint64_t v;
        if (f.number != s->field)
            continue;
        st = qn_numbers_start(&it, &f, wire_type(s->field), err);
        while (st == QN_OK && qn_numbers_more(&it)) {
            if (at == n)
                return changed(err);
            st = qn_numbers_next(&it, &v, err);
            if (st != QN_OK)
                return st;
            if (c->dtype == QN_BOOL)
                v = v != 0;
            memcpy((char *)dst + at++ * size, &v, size);
        }
        if (st != QN_OK)
            return st;
    }
    return st == QN_OK && at != n ? changed(err) : st;
}

/* int32_data of a type below a byte: each number is a byte of raw data. */
static qn_status fill_small_numbers(const qn_const *c, void *dst, qn_error *err)
{
    const qn_source *s = c->fill_arg;
    unsigned bits = qn_dtype_file_bits(c->dtype), per = 8 / bits;
    uint8_t *out = dst;
    size_t at = 0;
    qn_wire w = s->tensor;
    qn_field f;
    qn_status st;

    while ((st = qn_wire_next(&w, &f, err)) == QN_OK && f.number) {
        qn_numbers it;
        uint64_t v;
        if (f.number != s->field)
            continue;
        st = qn_numbers_start(&it, &f, QN_WIRE_VARINT, err);
        while (st == QN_OK && qn_numbers_more(&it)) {
            st = qn_numbers_next(&it, &v, err);
            for (unsigned k = 0; st == QN_OK && k < per && at < c->bytes; k++)
                out[at++] = small((uint8_t)v, k, bits, is_signed(c->dtype));
        }
        if (st != QN_OK)
            return st;
    }
    return st == QN_OK && at != c->bytes ? changed(err) : st;
}

static qn_status fill_strings(const qn_const *c, void *dst, qn_error *err)
{
    const qn_source *s = c->fill_arg;
    qn_string *out = dst;
    size_t n = count_of(c), at = 0;
    qn_wire w = s->tensor;
    qn_field f;
    qn_status st;

    while ((st = qn_wire_next(&w, &f, err)) == QN_OK && f.number) {
        if (f.number != STRING_DATA)
            continue;
        if (at == n)
            return changed(err);
        size_t len = qn_wire_left(&f.body);
        qn_string e = { 0, 0 };
        if (len)
            e = qn_string_at(QN_STRINGS_STATIC,
                             (size_t)((const char *)f.body.at - c->strings),
                             len);
        memcpy(&out[at++], &e, sizeof e);
    }
    return st == QN_OK && at != n ? changed(err) : st;
}

/* ---- choosing ---- */

static qn_status wrong_count(const qn_const *c, const char *name, size_t got,
                             size_t want, const char *unit, qn_error *err)
{
    char shape[QN_SHAPE_TEXT];

    return qn_fail(err, QN_FORMAT,
                   "tensor '%.100s': %zu %s for %s of shape %s, %zu expected",
                   name, got, unit, qn_dtype_name(c->dtype),
                   qn_shape_text(&c->shape, shape), want);
}

static bool plain_bools(const uint8_t *p, size_t n)
{
    uint8_t any = 0;

    for (size_t i = 0; i < n; i++)
        any |= p[i];
    return any <= 1;
}

static qn_status from_raw(qn_const *c, const qn_source *s, size_t len,
                          const char *name, qn_error *err)
{
    unsigned bits = qn_dtype_file_bits(c->dtype);
    size_t n = count_of(c), want = c->bytes;

    if (c->dtype == QN_STRING && len)
        return qn_fail(err, QN_FORMAT, "tensor '%.100s': strings as raw bytes",
                       name);
    if (bits < 8)
        want = n / (8 / bits) + (n % (8 / bits) != 0);
    if (len != want)
        return wrong_count(c, name, len, want, "bytes", err);
    if (bits < 8)
        c->fill = fill_small;
    else if (c->dtype == QN_BOOL && !plain_bools(s->raw, len))
        c->fill = fill_bool;
    else
        c->data = s->raw;
    return QN_OK;
}

/* Which field of a TensorProto carries elements of a type. */
static uint32_t field_of(qn_dtype dtype)
{
    switch (dtype) {
    case QN_F32:
    case QN_C64:
        return FLOAT_DATA;
    case QN_F64:
    case QN_C128:
        return DOUBLE_DATA;
    case QN_I64:
        return INT64_DATA;
    case QN_U32:
    case QN_U64:
        return UINT64_DATA;
    case QN_STRING:
        return STRING_DATA;
    default:
        return INT32_DATA;
    }
}

typedef struct tally {
    size_t numbers, fields;
    const uint8_t *first, *last; /* bytes of the strings; of a lone field */
    bool packed;
} tally;

static qn_status count_elements(const qn_source *s, tally *t, qn_error *err)
{
    qn_wire w = s->tensor;
    qn_field f;
    qn_status st;

    while ((st = qn_wire_next(&w, &f, err)) == QN_OK && f.number) {
        size_t n = 1;
        if (f.number != s->field)
            continue;
        if (known_number_field(s->field))
            st = qn_numbers_count(&f, wire_type(s->field), &n, err);
        else
            st = qn_field_want(&f, QN_WIRE_LEN, err);
        if (st != QN_OK)
            return st;
        t->numbers += n;
        t->fields++;
        t->packed = f.type == QN_WIRE_LEN;
        if (!t->first)
            t->first = f.body.at;
        t->last = f.body.end;
    }
    return st;
}

static qn_status from_fields(qn_const *c, const qn_source *s, const char *name,
                             qn_error *err)
{
    tally t = { 0 };
    size_t n = count_of(c), want = n;
    unsigned bits = qn_dtype_file_bits(c->dtype);
    qn_status st = count_elements(s, &t, err);

    if (st != QN_OK)
        return st;
    if (c->dtype == QN_C64 || c->dtype == QN_C128)
        want = 2 * n;
    else if (bits < 8)
        want = n / (8 / bits) + (n % (8 / bits) != 0);
    if (t.numbers != want)
        return wrong_count(c, name, t.numbers, want, "elements", err);
    if (!n)
        return QN_OK;
    if (c->dtype == QN_STRING) {
        c->strings = (const char *)t.first;
        c->string_bytes = (size_t)(t.last - t.first);
        c->fill = fill_strings;
    } else if (bits < 8) {
        c->fill = fill_small_numbers;
    } else if (t.fields == 1 && t.packed && s->field != INT32_DATA &&
               wire_type(s->field) != QN_WIRE_VARINT) {
        c->data = t.first;
    } else {
        c->fill = fill_numbers;
    }
    return QN_OK;
}

qn_status qn_onnx_elements(qn_const *c, qn_source *source, size_t raw_len,
                           const char *name, qn_error *err)
{
    qn_status st;

    c->fill_arg = source;
    if (source->raw && (raw_len || !c->bytes)) {
        st = from_raw(c, source, raw_len, name, err);
    } else {
        source->field = field_of(c->dtype);
        st = from_fields(c, source, name, err);
    }
    if (!c->data && !c->fill)
        c->data = ""; /* no bytes: never read */
    return st;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "models/onnx/wire.h"

#include <string.h>

enum { START_GROUP = 3, END_GROUP = 4, MAX_GROUPS = 16 };

qn_wire qn_wire_make(const void *bytes, size_t len)
{
    return (qn_wire){ bytes, bytes,
                      len ? (const uint8_t *)bytes + len : bytes };
}

static qn_status broken(const qn_wire *w, const char *what, qn_error *err)
{
    return qn_fail(err, QN_FORMAT, "byte %zu: %s", qn_wire_offset(w), what);
}

/* At most ten bytes; the tenth may only carry the top bit. */
static qn_status varint(qn_wire *w, uint64_t *out, qn_error *err)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (w->at == w->end)
            return broken(w, "the file ends inside a number", err);
        uint8_t b = *w->at;
        if (shift == 63 && b > 1)
            break;
        w->at++;
        v |= (uint64_t)(b & 127u) << shift;
        if (b < 128) {
            *out = v;
            return QN_OK;
        }
    }
    return broken(w, "a number has more than 64 bits", err);
}

/* Little-endian, 4 or 8 bytes. */
static qn_status fixed(qn_wire *w, size_t n, uint64_t *out, qn_error *err)
{
    uint64_t v = 0;

    if (qn_wire_left(w) < n)
        return broken(w, "the file ends inside a number", err);
    for (size_t i = 0; i < n; i++)
        v |= (uint64_t)w->at[i] << (8 * i);
    w->at += n;
    *out = v;
    return QN_OK;
}

static qn_status one(qn_wire *w, qn_field *f, unsigned *raw_type, qn_error *err)
{
    uint64_t tag, len;
    qn_status st = varint(w, &tag, err);

    if (st != QN_OK)
        return st;
    *raw_type = (unsigned)(tag & 7u);
    tag >>= 3;
    if (tag == 0 || tag > 0x1fffffffu)
        return broken(w, "not a field number; is this an ONNX file?", err);
    f->number = (uint32_t)tag;
    f->type = (qn_wire_type)*raw_type;
    f->value = 0;
    f->body = (qn_wire){ w->base, w->at, w->at };
    switch (*raw_type) {
    case QN_WIRE_VARINT:
        return varint(w, &f->value, err);
    case QN_WIRE_I64:
        return fixed(w, 8, &f->value, err);
    case QN_WIRE_I32:
        return fixed(w, 4, &f->value, err);
    case QN_WIRE_LEN:
        st = varint(w, &len, err);
        if (st != QN_OK)
            return st;
        if (len > qn_wire_left(w))
            return qn_fail(err, QN_FORMAT,
                           "byte %zu: field %u says it has %llu bytes, %zu are "
                           "left", qn_wire_offset(w), f->number,
                           (unsigned long long)len, qn_wire_left(w));
        f->body = (qn_wire){ w->base, w->at, w->at + len };
        w->at += len;
        return QN_OK;
    case START_GROUP:
    case END_GROUP:
        return QN_OK;
    default:
        return broken(w, "not a wire type; is this an ONNX file?", err);
    }
}

/* Nothing in ONNX is a group: read to the matching end, and drop it. */
static qn_status skip_group(qn_wire *w, uint32_t number, qn_error *err)
{
    uint32_t open[MAX_GROUPS];
    int depth = 1;

    open[0] = number;
    while (depth) {
        qn_field f;
        unsigned type;
        qn_status st = one(w, &f, &type, err);
        if (st != QN_OK)
            return st;
        if (type == END_GROUP && f.number != open[--depth])
            return broken(w, "a group ends that was not open", err);
        if (type == START_GROUP) {
            if (depth == MAX_GROUPS)
                return broken(w, "groups are nested too deep", err);
            open[depth++] = f.number;
        }
    }
    return QN_OK;
}

qn_status qn_wire_next(qn_wire *w, qn_field *f, qn_error *err)
{
    for (;;) {
        unsigned type;
        if (w->at == w->end) {
            memset(f, 0, sizeof *f);
            return QN_OK;
        }
        qn_status st = one(w, f, &type, err);
        if (st != QN_OK)
            return st;
        if (type == END_GROUP)
            return broken(w, "a group ends that was not open", err);
        if (type != START_GROUP)
            return QN_OK;
        st = skip_group(w, f->number, err);
        if (st != QN_OK)
            return st;
    }
}

qn_status qn_field_want(const qn_field *f, qn_wire_type type, qn_error *err)
{
    if (f->type == type)
        return QN_OK;
    return qn_fail(err, QN_FORMAT,
                   "byte %zu: field %u has wire type %d, %d expected",
                   qn_wire_offset(&f->body), f->number, (int)f->type,
                   (int)type);
}

qn_status qn_numbers_start(qn_numbers *it, const qn_field *f,
                           qn_wire_type type, qn_error *err)
{
    memset(it, 0, sizeof *it);
    it->type = type;
    it->body = f->body;
    if (f->type == QN_WIRE_LEN)
        return QN_OK;
    it->single = true;
    it->value = f->value;
    it->body.at = it->body.end;
    return qn_field_want(f, type, err);
}

qn_status qn_numbers_next(qn_numbers *it, uint64_t *value, qn_error *err)
{
    if (it->single) {
        it->single = false;
        *value = it->value;
        return QN_OK;
    }
    if (it->type == QN_WIRE_VARINT)
        return varint(&it->body, value, err);
    return fixed(&it->body, it->type == QN_WIRE_I32 ? 4 : 8, value, err);
}

qn_status qn_numbers_count(const qn_field *f, qn_wire_type type, size_t *n,
                           qn_error *err)
{
    qn_numbers it;
    size_t count = 0;
    uint64_t ignored;
    qn_status st = qn_numbers_start(&it, f, type, err);

    if (st == QN_OK && !it.single && type != QN_WIRE_VARINT) {
        size_t size = type == QN_WIRE_I32 ? 4 : 8;
        if (qn_wire_left(&it.body) % size)
            return broken(&it.body, "packed numbers with bytes left over", err);
        *n = qn_wire_left(&it.body) / size;
        return QN_OK;
    }
    for (; st == QN_OK && qn_numbers_more(&it); count++)
        st = qn_numbers_next(&it, &ignored, err);
    *n = count;
    return st;
}

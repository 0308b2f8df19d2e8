/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protobuf's wire format, read in place: no copy, no recursion, no allocation.
 * A message is a range of bytes; its fields come one by one, in the order of
 * the file. Lengths are compared with what is left, never added to a pointer
 * first. (protobuf.dev, "Encoding".)
 *
 * Errors are QN_FORMAT with the offset in the file of the offending byte.
 */
#ifndef QN_MODELS_ONNX_WIRE_H
#define QN_MODELS_ONNX_WIRE_H

#include "runtime/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum qn_wire_type {
    QN_WIRE_VARINT = 0,
    QN_WIRE_I64 = 1,
    QN_WIRE_LEN = 2, /* strings, bytes, messages, packed numbers */
    QN_WIRE_I32 = 5
} qn_wire_type;

/* Bytes that are left of a message; `base` is the file's first byte. */
typedef struct qn_wire {
    const uint8_t *base, *at, *end;
} qn_wire;

typedef struct qn_field {
    uint32_t number; /* 0: the message has ended */
    qn_wire_type type;
    uint64_t value; /* of the number types, zero-extended */
    qn_wire body;   /* of QN_WIRE_LEN */
} qn_field;

qn_wire qn_wire_make(const void *bytes, size_t len);

/* The next field; number 0 at the end. Groups are skipped over. */
QN_NODISCARD qn_status qn_wire_next(qn_wire *w, qn_field *field, qn_error *err);

/* QN_FORMAT unless the field has this type. */
QN_NODISCARD qn_status qn_field_want(const qn_field *field, qn_wire_type type,
                                     qn_error *err);

static inline size_t qn_wire_left(const qn_wire *w)
{
    return (size_t)(w->end - w->at);
}

static inline size_t qn_wire_offset(const qn_wire *w)
{
    return (size_t)(w->at - w->base);
}

/*
 * The numbers of a repeated field, whether packed or not: one occurrence of the
 * field gives any number of values.
 *
 *   qn_numbers it;
 *   st = qn_numbers_start(&it, &field, QN_WIRE_VARINT, err);
 *   while (st == QN_OK && qn_numbers_more(&it))
 *       st = qn_numbers_next(&it, &value, err);
 */
typedef struct qn_numbers {
    qn_wire body;
    qn_wire_type type;
    bool single;
    uint64_t value;
} qn_numbers;

QN_NODISCARD qn_status qn_numbers_start(qn_numbers *it, const qn_field *field,
                                        qn_wire_type type, qn_error *err);
static inline bool qn_numbers_more(const qn_numbers *it)
{
    return it->single || it->body.at < it->body.end;
}
QN_NODISCARD qn_status qn_numbers_next(qn_numbers *it, uint64_t *value,
                                       qn_error *err);
/* How many values this occurrence has. */
QN_NODISCARD qn_status qn_numbers_count(const qn_field *field,
                                        qn_wire_type type, size_t *n,
                                        qn_error *err);

#endif

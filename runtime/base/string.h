/* SPDX-License-Identifier: Apache-2.0 */
/*
 * String elements. A tensor of strings holds {where, length} pairs; the bytes
 * lie in one of three heaps. Because an element names its heap, kernels that
 * only move elements (Gather, Concat, Reshape ...) copy 16 bytes and never look
 * at the text, and nothing in tensor memory is a pointer.
 */
#ifndef QN_BASE_STRING_H
#define QN_BASE_STRING_H

#include "runtime/base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef enum qn_string_heap {
    QN_STRINGS_STATIC, /* the model's block: initializers */
    QN_STRINGS_PLAN,   /* constants of a plan */
    QN_STRINGS_REQUEST, /* SIDE of a request: inputs and computed strings */
    QN_STRINGS_HEAPS
} qn_string_heap;

/* where: heap in the top byte, offset of the first byte below. All zero is the
 * empty string. */
typedef struct qn_string {
    uint64_t where;
    uint64_t len;
} qn_string;

typedef struct qn_strings {
    char *base[QN_STRINGS_HEAPS];
    /* the request's heap: append-only, a quota leased with the request */
    size_t used, limit;
} qn_strings;

static inline qn_string qn_string_at(qn_string_heap heap, size_t offset,
                                     size_t len)
{
    return (qn_string){ ((uint64_t)heap << 56) | (uint64_t)offset, len };
}

/* The bytes of an element, not NUL-terminated; "" for an empty one. */
static inline const char *qn_string_bytes(const qn_strings *strings,
                                          qn_string s)
{
    const char *base = strings ? strings->base[s.where >> 56] : NULL;
    return s.len && base ? base + (s.where & (((uint64_t)1 << 56) - 1)) : "";
}

/* Append to the request's heap. QN_NO_MEMORY with both numbers when the quota
 * is used up. Not thread-safe: call it outside parallel sections. */
QN_NODISCARD qn_status qn_string_put(qn_strings *strings, const char *bytes,
                                     size_t len, qn_string *out, qn_error *err);

#endif

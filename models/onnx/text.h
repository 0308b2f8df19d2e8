/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of model files: names are UTF-8 without NUL, or the file is refused. */
#ifndef QN_MODELS_ONNX_TEXT_H
#define QN_MODELS_ONNX_TEXT_H

#include "models/onnx/wire.h"
#include "runtime/base/alloc.h"

/* Bytes inside the file, not NUL-terminated. */
typedef struct qn_span {
    const char *s;
    size_t len;
} qn_span;

bool qn_span_equal(qn_span a, qn_span b);
bool qn_span_is(qn_span a, const char *s);

/* The bytes of a string field; QN_FORMAT if it is not one. */
QN_NODISCARD qn_status qn_field_span(const qn_field *field, qn_span *out,
                                     qn_error *err);

/* Copy of a name into the region; QN_FORMAT if it is not UTF-8 or has a NUL,
 * QN_NO_MEMORY. `what` says in the message whose name it is. */
QN_NODISCARD qn_status qn_span_name(qn_region *region, qn_span span,
                                    const char *what, const char **out,
                                    qn_error *err);

/* Copy of a free text, for people: what is not UTF-8, and control characters
 * but newline and tab, become '?'. NULL when out of memory. */
char *qn_span_text(qn_region *region, qn_span span);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Planning problems as text, in the format of MiniMalloc: one header line names
 * the columns, in any order, then one buffer a line.
 *
 *   id,lower,upper,size[,align][,offset][,group,group_pos]
 *
 * A buffer lives in [lower, upper). `id` is any text without comma, quote or
 * line break. `alignment` is read as align; columns of other names are errors.
 * An empty align or group means none. Lines end in LF or CRLF; empty ones are
 * skipped.
 */
#ifndef QN_PLAN_CSV_H
#define QN_PLAN_CSV_H

#include "runtime/base/alloc.h"
#include "runtime/plan/layout.h"

typedef struct qn_plan_csv {
    size_t n;
    qn_buffer *buffers; /* [n] */
    const char **ids;   /* [n] */
    size_t *offsets;    /* [n], NULL if the column is missing */
} qn_plan_csv;

/*
 * Read `len` bytes. Everything lies in `region`. QN_FORMAT with line and column
 * (both from 1; the column counts bytes), QN_RANGE for a number that does not
 * fit, QN_TOO_LARGE for 2^31 buffers and more, QN_NO_MEMORY.
 */
QN_NODISCARD qn_status qn_plan_csv_read(const char *text, size_t len,
                                        qn_region *region, qn_plan_csv *out,
                                        qn_error *err);

/* A growing text; zero-initialise it, qn_free(data) at the end. */
typedef struct qn_plan_text {
    char *data; /* NUL-terminated */
    size_t len, cap;
} qn_plan_text;

QN_NODISCARD qn_status qn_plan_text_add(qn_plan_text *out, qn_error *err,
                                        const char *fmt, ...) QN_PRINTF(3, 4);

/* Append the problem and, where offsets are not NULL, the layout: the columns
 * align and group only if some buffer has one. QN_NO_MEMORY; what was there
 * stays. */
QN_NODISCARD qn_status qn_plan_csv_write(const qn_plan_csv *csv,
                                         const size_t *offsets,
                                         qn_plan_text *out, qn_error *err);

#endif

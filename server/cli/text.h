/* SPDX-License-Identifier: Apache-2.0 */
/* Output for people: aligned tables, sizes, progress. */
#ifndef QN_SERVER_CLI_TEXT_H
#define QN_SERVER_CLI_TEXT_H

#include "runtime/base/shape.h"
#include "runtime/base/clock.h"

#include <jansson.h>
#include <stdio.h>

enum { QN_BYTES_TEXT = 32 };

/* "7.23 MB" (powers of 1000), "512 B"; returns buf. */
const char *qn_bytes_text(size_t bytes, char buf[QN_BYTES_TEXT]);

/*
 * A table that is kept until it is printed, so that columns fit their widest
 * cell. A column whose name begins with '>' is aligned to the right.
 */
typedef struct qn_table {
    const char *const *columns;
    size_t n_columns;
    char **cells; /* row by row */
    size_t n_cells, cap_cells;
} qn_table;

void qn_table_init(qn_table *table, const char *const *columns, size_t n);
/* The next cell, from left to right. Cells are dropped when memory is out. */
void qn_table_cell(qn_table *table, const char *fmt, ...) QN_PRINTF(2, 3);
void qn_table_print(const qn_table *table, FILE *to);
void qn_table_release(qn_table *table);

/* Progress on one line of stderr; nothing where stderr is no terminal. */
typedef struct qn_progress {
    bool on;
    uint64_t last_ns;
    char unit[16];
} qn_progress;

void qn_progress_init(qn_progress *progress, const char *unit);
/* "123/606 cases  what": at most ten times a second. total 0: unknown. */
void qn_progress_show(qn_progress *progress, size_t done, size_t total,
                      const char *what);
/* Wipe the line. */
void qn_progress_end(qn_progress *progress);

/* "quern: text" on stderr; returns 1, or 2 for QN_INVALID: the exit status. */
int qn_complain(const qn_error *err);

/* Print one JSON object with a newline on stdout; takes the reference. */
void qn_print_json(json_t *root);

/* The dimensions of "1x3x224x224" (or "1,3,..."); "" or "scalar" is rank 0. */
QN_NODISCARD qn_status qn_parse_shape(const char *text, qn_shape *out,
                                      qn_error *err);

#endif

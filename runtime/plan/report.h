/* SPDX-License-Identifier: Apache-2.0 */
/* What `quern plan` says about a layout: solve, check, and print. */
#ifndef QN_PLAN_REPORT_H
#define QN_PLAN_REPORT_H

#include "runtime/plan/csv.h"

enum { QN_PLAN_TOP = 10 };

/* Effort for a tool that may take about a second, in search steps. */
#define QN_PLAN_STEPS 400000000U

typedef struct qn_layout_report {
    qn_layout_stats stats;
    size_t buffers;
    double ratio;  /* peak / lower bound; 1 if both are 0 */
    double ms;     /* of solving, not of checking */
    uint64_t hash; /* of the offsets: equal problems give equal ones */
    /* the largest buffers alive when most bytes are, largest first */
    uint32_t peak_time;
    size_t n_top, top[QN_PLAN_TOP];
} qn_layout_report;

/* Solve and verify; offsets[csv->n]. Errors of qn_layout_solve/_verify. */
QN_NODISCARD qn_status qn_layout_run(const qn_plan_csv *csv,
                                     const qn_layout_options *options,
                                     size_t *offsets, qn_layout_report *out,
                                     qn_error *err);

/* Append a table for people, or one JSON object and a newline. capacity 0:
 * none asked for; otherwise "fits" says whether peak <= capacity. */
QN_NODISCARD qn_status qn_layout_print(const qn_plan_csv *csv,
                                       const qn_layout_report *report,
                                       size_t capacity, bool json,
                                       qn_plan_text *out, qn_error *err);

#endif

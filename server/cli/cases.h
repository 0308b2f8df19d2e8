/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test cases in the layout of the ONNX backend tests:
 *
 *   <case>/model.onnx
 *   <case>/test_data_set_<n>/input_<k>.pb, output_<k>.pb
 *   <case>/EXPECT            optional; its first word: "error": the model or
 *                            the request must be refused; "any": any answer or
 *                            error will do, a crash will not
 */
#ifndef QN_SERVER_CLI_CASES_H
#define QN_SERVER_CLI_CASES_H

#include "server/cli/compare.h"
#include "server/cli/loaded.h"

#include <stdbool.h>

typedef struct qn_cases {
    char **dirs; /* sorted */
    size_t n, cap;
} qn_cases;

/* Find all cases below `dir` (links are not followed into folders), append
 * them. QN_NOT_FOUND: no such folder. */
QN_NODISCARD qn_status qn_cases_find(qn_cases *cases, const char *dir,
                                     qn_error *err);
void qn_cases_sort(qn_cases *cases);
void qn_cases_release(qn_cases *cases);

typedef enum qn_verdict { QN_PASSED, QN_FAILED, QN_SKIPPED } qn_verdict;

typedef struct qn_case_options {
    qn_tolerance tolerance;
    qn_load_options load;
} qn_case_options;

typedef struct qn_case_result {
    qn_verdict verdict;
    double seconds;
    /* over all data sets of a case that ran: launches on accelerators, and
     * launches on the cpu that read or write floating-point numbers */
    uint32_t accel_launches, cpu_float_launches;
    char reason[640]; /* "" for a pass */
} qn_case_result;

/* Run one case in this process. */
void qn_case_run(const char *dir, const qn_case_options *options,
                 qn_case_result *out);

#endif

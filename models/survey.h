/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which operators a model uses, whether Quern has them or not: reads the nodes
 * of all graphs and functions of the file, and nothing else. For tools; loading
 * stops at the first operator that it does not know.
 */
#ifndef QN_MODELS_SURVEY_H
#define QN_MODELS_SURVEY_H

#include "runtime/base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct qn_survey_row {
    char domain[64], op[64];
    int opset;      /* 0: its domain is not imported */
    size_t count;   /* nodes */
    bool supported; /* at this opset; functions of the model are */
} qn_survey_row;

typedef struct qn_survey {
    qn_survey_row *rows; /* sorted by domain and name */
    size_t n, cap;
    size_t nodes, unsupported; /* nodes in all; rows not supported */
} qn_survey;

/* Adds what the file has to *out, which is {0} at first: a split model has several
 * files. QN_NOT_FOUND, QN_IO, QN_FORMAT. Release in every case. */
QN_NODISCARD qn_status qn_model_survey(const char *path, qn_survey *out,
                                       qn_error *err);
void qn_survey_release(qn_survey *survey);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The small values of a request's envelope: parameters, attributes, whatever
 * else stands beside the tensors. A plain tree, all of it in the region that
 * the scan was given, so it lives as long as the request and is never freed
 * by itself.
 */
#ifndef QN_CODEC_PARAM_H
#define QN_CODEC_PARAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum qn_param_kind {
    QN_PARAM_NULL,
    QN_PARAM_BOOL,
    QN_PARAM_INT,
    QN_PARAM_REAL,
    QN_PARAM_STRING,
    QN_PARAM_LIST,
    QN_PARAM_OBJECT
} qn_param_kind;

typedef struct qn_param qn_param;

typedef struct qn_params {
    uint32_t n;
    const qn_param *items;
} qn_params;

struct qn_param {
    const char *key; /* NUL-terminated UTF-8; NULL for an item of a list */
    qn_param_kind kind;
    bool boolean;
    int64_t integer;
    double real;        /* of an INT too */
    const char *string; /* NUL-terminated UTF-8 without an inner NUL */
    size_t len;
    qn_params items; /* of a LIST or OBJECT */
};

/* NULL if there is none. Keys are unique. */
const qn_param *qn_params_find(const qn_params *params, const char *key);
/* The value, or `missing` where the key is absent or of another kind. */
bool qn_params_bool(const qn_params *params, const char *key, bool missing);
int64_t qn_params_int(const qn_params *params, const char *key,
                      int64_t missing);
const char *qn_params_string(const qn_params *params, const char *key,
                             const char *missing);

#endif

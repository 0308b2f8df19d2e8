/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first half of a scan: walk the body, measure the values of tensors, and
 * write the envelope, where each of them is replaced by its number.
 *
 *     {"inputs": [{"name": "x", "data": [1, 2]}]}   body
 *     {"inputs": [{"name": "x", "data": 0}]}        envelope, cuts[0] = [1, 2]
 */
#ifndef QN_CODEC_ENVELOPE_H
#define QN_CODEC_ENVELOPE_H

#include "server/codec/scan.h"

typedef struct qn_envelope {
    qn_scan_form form;
    uint32_t n_cuts;
    qn_scan_data *cuts;
    char *text;
    size_t len;
} qn_envelope;

/* Options as qn_scan_body, already made definite. `cut` false: a body without
 * tensors, "inputs" is nothing special. */
QN_NODISCARD qn_status qn_envelope_read(const char *body, size_t len,
                                        const qn_scan_options *options,
                                        bool cut, qn_region *region,
                                        qn_envelope *out, qn_error *err);

/* Where byte `at` of the envelope lies in the body. */
size_t qn_envelope_place(const qn_envelope *envelope, size_t at);

#endif

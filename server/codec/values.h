/* SPDX-License-Identifier: Apache-2.0 */
/* The extent, count and nesting of one tensor's values: what the scan does
 * with them before anybody knows their type. */
#ifndef QN_CODEC_VALUES_H
#define QN_CODEC_VALUES_H

#include "server/codec/scan.h"

/*
 * Measure the value at p (an array nested to QN_MAX_RANK, or a bare value) and
 * set `out`; returns the byte after it, NULL on failure. `body` is where byte
 * offsets count from. With `strict` every number's grammar is checked; without,
 * a run of characters that numbers are made of is trusted to be numbers.
 * Errors: QN_FORMAT, QN_SHAPE.
 */
const char *qn_values_scan(const char *p, const char *end, const char *body,
                           bool strict, qn_scan_data *out, qn_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* An error as an HTTP client sees it. */
#ifndef QN_CODEC_FAULT_H
#define QN_CODEC_FAULT_H

#include "server/codec/json.h"

/* 200 for QN_OK, 499 for QN_CANCELLED (only ever logged), 500 for a fault of
 * ours or a number that is no status. */
unsigned qn_fault_http(qn_status status);

/* {"error": text, "code": "SHAPE", "details": {"tensor", "index", "expected",
 * "got"}}; members that are not known are left out, "details" too if empty. */
QN_NODISCARD qn_status qn_fault_write(qn_sink *sink, const qn_error *fault,
                                      qn_error *err);

#endif

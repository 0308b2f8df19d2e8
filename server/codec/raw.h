/* SPDX-License-Identifier: Apache-2.0 */
/* Binary tensor data: the layout is described in decode.h. */
#ifndef QN_CODEC_RAW_H
#define QN_CODEC_RAW_H

#include "server/codec/decode.h"

/* Bytes of all string elements; QN_FORMAT unless `bytes` is exactly `count`
 * length-prefixed elements. */
QN_NODISCARD qn_status qn_raw_strings(const char *bytes, size_t len,
                                      int64_t count, size_t *out,
                                      qn_error *err);
/* As qn_decode, for data->raw whose length fits type and count. */
QN_NODISCARD qn_status qn_raw_decode(const qn_scan_data *data,
                                     const qn_tensor *out, qn_strings *strings,
                                     qn_error *err);

#endif

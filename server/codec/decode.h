/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a request's bytes into tensor memory, without a step between.
 *
 * What an element may be, by type:
 *   FP32 FP64 FP16 BF16, FP8, FP4   a number, rounded to nearest, ties to even;
 *            NaN, Infinity, -Infinity as bare words or as strings; null is NaN.
 *            A finite number too large for the type is QN_RANGE. Types without
 *            an infinity (or NaN) refuse it with QN_RANGE
 *   INT*, UINT*   a number whose exact value is an integer of the type: 2, 2.0
 *            and 2e0 are the same; 1.5 is QN_TYPE, 256 into UINT8 QN_RANGE
 *   BOOL     true, false, or a number equal to 0 or 1
 *   BYTES    a string, or {"b64": "..."}
 * Complex types are QN_UNSUPPORTED.
 *
 * Raw bytes (binary tensor data): little-endian, row-major; BOOL bytes are 0 or
 * 1 (QN_RANGE otherwise); BYTES elements are a uint32 length and the bytes;
 * 4- and 2-bit types are packed, lowest bits first.
 */
#ifndef QN_CODEC_DECODE_H
#define QN_CODEC_DECODE_H

#include "runtime/base/string.h"
#include "server/codec/scan.h"

/*
 * Heap bytes that the strings of `data` take, exactly: ask before leasing. 0
 * for other types.  Errors: QN_FORMAT, QN_TYPE as qn_decode.
 */
QN_NODISCARD qn_status qn_decode_string_bytes(const qn_scan_data *data,
                                              qn_dtype dtype, size_t *bytes,
                                              qn_error *err);

/*
 * Write every element of `data` to out->data, which has room for out->shape;
 * out->data NULL only checks. Strings go to `strings` (NULL is fine for other
 * types, and for a check).
 *
 *   name   the tensor, for messages; may be NULL
 *   out    dtype and shape set; left partly written on failure
 *
 * Errors name the flat index and the text: QN_FORMAT, QN_TYPE, QN_RANGE as
 * above; QN_SHAPE when counts differ; QN_UNSUPPORTED; QN_NO_MEMORY when the
 * string heap is full.
 */
QN_NODISCARD qn_status qn_decode(const qn_scan_data *data, const char *name,
                                 const qn_tensor *out, qn_strings *strings,
                                 qn_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tensor codec: bodies to tensors and back. One request's way through it:
 *
 *     qn_scan_body           what is there: names, types, shapes, byte ranges
 *       (check against the model; qn_decode_string_bytes; plan; lease)
 *     qn_decode              each input, straight into the lease
 *       (run)
 *     qn_reply_bound         how much the answer can take: charge it
 *     qn_reply_write         the answer
 *
 * or, for application/x-npy, qn_npy_open, qn_npy_decode, qn_npy_write. A
 * failure at any step is one qn_error: qn_fault_http and qn_fault_write.
 *
 * Nothing here has state: every function may run on any thread.
 */
#ifndef QN_CODEC_CODEC_H
#define QN_CODEC_CODEC_H

#include "server/codec/decode.h"
#include "server/codec/encode.h"
#include "server/codec/fault.h"
#include "server/codec/json.h"
#include "server/codec/npy.h"
#include "server/codec/number.h"
#include "server/codec/param.h"
#include "server/codec/scan.h"

#endif

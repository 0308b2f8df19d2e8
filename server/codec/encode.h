/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From tensor memory to the text or bytes of an answer.
 *
 * Floats are printed as the shortest text that reads back to the same value of
 * their own type (always with ".0" or an exponent, so 1.0 stays a float); NaN,
 * Infinity and -Infinity as strings, or as bare words on request. Strings that
 * are not UTF-8 go out as {"b64": "..."}. Complex types are QN_UNSUPPORTED.
 */
#ifndef QN_CODEC_ENCODE_H
#define QN_CODEC_ENCODE_H

#include "runtime/base/shape.h"
#include "runtime/base/string.h"
#include "server/codec/json.h"

typedef struct qn_encode_options {
    bool nested;     /* nested arrays instead of one flat one */
    bool nan_tokens; /* NaN, not "NaN" */
} qn_encode_options;

/* The values of `tensor` take at most this many bytes as text. */
QN_NODISCARD qn_status qn_encode_bound(const qn_tensor *tensor,
                                       const qn_strings *strings,
                                       const qn_encode_options *options,
                                       size_t *bytes, qn_error *err);

/*
 * The values as a JSON array. Flat unless options->nested; then a scalar is a
 * bare value and a tensor of rank n is n arrays deep.
 * Errors: QN_UNSUPPORTED, or what the sink says.
 */
QN_NODISCARD qn_status qn_encode_values(qn_sink *sink, const qn_tensor *tensor,
                                        const qn_strings *strings,
                                        const qn_encode_options *options,
                                        qn_error *err);

/* Bytes that qn_encode_raw() appends, exactly. QN_TOO_LARGE for a string of
 * 4 GiB or more. */
QN_NODISCARD qn_status qn_encode_raw_bytes(const qn_tensor *tensor,
                                           const qn_strings *strings,
                                           size_t *bytes, qn_error *err);
/* Raw little-endian bytes as in qn_decode. */
QN_NODISCARD qn_status qn_encode_raw(qn_sink *sink, const qn_tensor *tensor,
                                     const qn_strings *strings, qn_error *err);

typedef struct qn_reply_output {
    const char *name;
    qn_tensor tensor;
    bool binary; /* "parameters": {"binary_data_size": n}; no "data" */
} qn_reply_output;

/* An answer of the Open Inference Protocol; NULL strings are left out. */
typedef struct qn_reply {
    const char *model_name, *model_version, *id;
    uint32_t n_outputs;
    const qn_reply_output *outputs;
    const qn_strings *strings; /* where string elements lie */
    qn_encode_options options;
} qn_reply;

/* Bytes that the whole answer, raw bytes too, stays within: charge these. */
QN_NODISCARD qn_status qn_reply_bound(const qn_reply *reply, size_t *bytes,
                                      qn_error *err);
/*
 * The JSON part, then the raw bytes of binary outputs in order. `json_bytes`
 * (may be NULL) is the length of the JSON part, which the header
 * Inference-Header-Content-Length needs when an output is binary; it counts
 * what is in the sink, so a sink that drains cannot be asked for it.
 */
QN_NODISCARD qn_status qn_reply_write(qn_sink *sink, const qn_reply *reply,
                                      size_t *json_bytes, qn_error *err);

#endif

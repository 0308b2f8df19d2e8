/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a request body holds, found in one pass before anything is decoded.
 *
 *     {"id": "7", "inputs": [{"name": "x", "shape": [2], "datatype": "FP32",
 *                             "data": [1.5, 2]}]}
 *                                     ^^^^^^^^ stays in the body: qn_scan_data
 *
 * The values of tensors are cut out; the rest, the envelope, is small and goes
 * through Jansson. Element counts and nesting are known after the scan, so
 * sizes can be checked and leased before the first number is read.
 *
 * Three forms of "inputs":
 *   LONG    [{"name", "shape", "datatype", "data"?, "parameters"?}, ...], the
 *           Open Inference Protocol
 *   NAMED   {"x": nested, "y": nested}: shape from nesting, type from the model
 *   SINGLE  nested: as NAMED, for a model with one input
 * An array is LONG if it is empty or its first item is an object whose first
 * key is not "b64"; an object is always NAMED.
 *
 * "data" null counts as absent: with neither data nor binary_data_size the
 * input's data.text is NULL, and qn_decode refuses it.
 *
 * Rules: UTF-8 is checked, depth is bounded, a key given twice is refused, and
 * so is anything after the closing brace. "data" may be nested or flat; it has
 * to be regular, and its element count has to equal the product of "shape".
 * With `tail`, "binary_data_size" in an input's parameters replaces "data":
 * sizes are taken from the tail in input order and must use it up.
 *
 * What the scan leaves to qn_decode is the grammar of single numbers.
 *
 * Thread rule: pure functions of their arguments.
 */
#ifndef QN_CODEC_SCAN_H
#define QN_CODEC_SCAN_H

#include "runtime/base/alloc.h"
#include "runtime/base/shape.h"
#include "server/codec/param.h"

typedef enum qn_scan_form {
    QN_SCAN_NONE, /* no "inputs" at all */
    QN_SCAN_LONG,
    QN_SCAN_NAMED,
    QN_SCAN_SINGLE
} qn_scan_form;

/* Kinds of elements seen in a tensor's data. */
enum {
    QN_SCAN_NUMBERS = 1, /* numbers, NaN, Infinity, -Infinity */
    QN_SCAN_STRINGS = 2,
    QN_SCAN_BOOLS = 4,
    QN_SCAN_NULLS = 8,
    QN_SCAN_BLOBS = 16 /* {"b64": "..."} */
};

/* The values of one tensor, still text (or raw bytes), inside the body. */
typedef struct qn_scan_data {
    const char *text; /* NULL: the input has no data */
    size_t len;
    size_t offset;       /* of `text` in the body, for messages */
    bool raw;            /* little-endian bytes, not JSON */
    unsigned kinds;      /* QN_SCAN_*; 0 if raw or empty */
    int64_t count;       /* elements; those of `shape` if raw */
    qn_shape nesting;    /* rank 0: a bare value. Unset if raw */
    size_t string_bytes; /* bytes of all strings and blobs, once decoded */
} qn_scan_data;

typedef struct qn_scan_input {
    const char *name; /* NUL-terminated; NULL in form SINGLE */
    qn_dtype dtype;   /* QN_NONE in the short forms: ask the model */
    qn_shape shape;   /* declared, or from nesting in the short forms */
    qn_params params;
    qn_scan_data data;
} qn_scan_input;

typedef struct qn_scan_output {
    const char *name;
    qn_params params;
} qn_scan_output;

typedef struct qn_scan {
    qn_scan_form form;
    const char *id; /* NULL if absent */
    bool nested;    /* "nested": true: answer with nested arrays */
    qn_params params;
    uint32_t n_inputs, n_outputs;
    qn_scan_input *inputs;
    qn_scan_output *outputs; /* n_outputs 0: all outputs */
    bool has_outputs;        /* an "outputs" key was there, maybe empty */
    qn_params extra;         /* every other top-level key: "attributes" ... */
} qn_scan;

/* Zero-initialised: the defaults. */
typedef struct qn_scan_options {
    unsigned max_depth;  /* 0: 64; at most 256 */
    size_t max_envelope; /* bytes of body without tensor data; 0: 1 MiB */
    uint32_t max_inputs; /* 0: 1024 */
    const void *tail;    /* binary tensor data after the JSON part */
    size_t tail_bytes;
} qn_scan_options;

/*
 * Scan body[0, len), which need not end in NUL and must outlive `out`; the
 * tables and names go to `region`.
 *
 * Errors, each with byte offset, tensor or index where there is one:
 *   QN_FORMAT     no JSON, wrong kind of value, twice the same key, bad UTF-8
 *   QN_SHAPE      irregular nesting, negative or fractional dimension, a
 *                 product that overflows, count other than the shape's, more
 *                 than QN_MAX_RANK dimensions
 *   QN_TYPE       a datatype that does not exist
 *   QN_TOO_LARGE  deeper, larger or more than an option allows
 *   QN_NO_MEMORY  the heap
 */
QN_NODISCARD qn_status qn_scan_body(const char *body, size_t len,
                                    const qn_scan_options *options,
                                    qn_region *region, qn_scan *out,
                                    qn_error *err);

/* A body that is one JSON object without tensors (admin calls), as a tree.
 * An empty or blank body gives no items. Same limits and errors. */
QN_NODISCARD qn_status qn_scan_object(const char *body, size_t len,
                                      const qn_scan_options *options,
                                      qn_region *region, qn_params *out,
                                      qn_error *err);

/* NULL if there is none of that name. */
const qn_scan_input *qn_scan_find(const qn_scan *scan, const char *name);

#endif

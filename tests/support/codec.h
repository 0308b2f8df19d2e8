/* SPDX-License-Identifier: Apache-2.0 */
/* What the codec's tests share. */
#ifndef QN_TESTS_SUPPORT_CODEC_H
#define QN_TESTS_SUPPORT_CODEC_H

#include "server/codec/codec.h"

/*
 * Scan a copy of `body` that ends where its memory ends, so that reading on is
 * caught by ASan. The copy and all of `out` go with test_scan_release().
 */
typedef struct test_scan {
    qn_status status;
    qn_error err;
    qn_scan scan;
    qn_region region;
    char *body;
} test_scan;
void test_scan_body(test_scan *out, const char *body, size_t len,
                    const qn_scan_options *options);
void test_scan_release(test_scan *scan);

/* Scan {"inputs": {"x": <json>}} as one tensor and decode it: data is from qn_calloc,
 * strings lie in a heap of exactly the size that was asked for. */
typedef struct test_tensor {
    qn_status status;
    qn_error err;
    qn_tensor tensor;
    qn_strings strings;
} test_tensor;
void test_tensor_decode(test_tensor *out, const char *json, qn_dtype dtype);
void test_tensor_release(test_tensor *tensor);

#endif

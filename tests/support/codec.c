/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void test_scan_body(test_scan *out, const char *body, size_t len,
                    const qn_scan_options *options)
{
    memset(out, 0, sizeof *out);
    out->body = malloc(len ? len : 1);
    if (!out->body)
        abort();
    if (len)
        memcpy(out->body, body, len);
    out->status = qn_scan_body(out->body, len, options, &out->region,
                               &out->scan, &out->err);
}

void test_scan_release(test_scan *scan)
{
    qn_region_release(&scan->region);
    free(scan->body);
}

static void decode(test_tensor *out, const qn_scan_input *in, qn_dtype dtype)
{
    size_t bytes = 0, heap = 0;

    out->tensor.dtype = dtype;
    out->tensor.shape = in->shape;
    out->status = qn_tensor_bytes(dtype, &in->shape, &bytes, &out->err);
    if (out->status == QN_OK)
        out->status = qn_decode_string_bytes(&in->data, dtype, &heap, &out->err);
    if (out->status != QN_OK)
        return;
    out->tensor.data = qn_calloc(bytes ? bytes : 1, 1);
    out->strings.base[QN_STRINGS_REQUEST] = qn_calloc(heap ? heap : 1, 1);
    out->strings.limit = heap;
    out->status = qn_decode(&in->data, in->name, &out->tensor, &out->strings,
                            &out->err);
    if (out->status == QN_OK && out->strings.used != heap) {
        fprintf(stderr, "%zu bytes of strings were announced, %zu came\n", heap,
                out->strings.used);
        abort();
    }
}

void test_tensor_decode(test_tensor *out, const char *json, qn_dtype dtype)
{
    size_t len = strlen(json) + 24;
    char *body = malloc(len);
    test_scan scan;
    int n;

    memset(out, 0, sizeof *out);
    if (!body)
        abort();
    n = snprintf(body, len, "{\"inputs\":{\"x\":%s}}", json);
    test_scan_body(&scan, body, (size_t)n, NULL);
    out->status = scan.status;
    out->err = scan.err;
    if (scan.status == QN_OK && scan.scan.n_inputs == 1)
        decode(out, &scan.scan.inputs[0], dtype);
    else if (scan.status == QN_OK)
        out->status = qn_fail(&out->err, QN_INVALID, "%u inputs",
                              (unsigned)scan.scan.n_inputs);
    test_scan_release(&scan);
    free(body);
}

void test_tensor_release(test_tensor *tensor)
{
    qn_free(tensor->tensor.data);
    qn_free(tensor->strings.base[QN_STRINGS_REQUEST]);
}

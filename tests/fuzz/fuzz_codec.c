/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies of requests: scan, decode into every type, encode, and the way back.
 * An input that starts as a .npy file is read as one; otherwise what follows
 * the first NUL, if any, is binary tensor data behind the JSON part.
 */
#include "server/codec/codec.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

unsigned long fuzz_accepted;

enum { MAX_BYTES = 1 << 22 };

static void must(int ok)
{
    if (!ok)
        abort();
}

/* A failure has to say why, in text that an answer can carry. */
static void check_error(qn_status st, const qn_error *err)
{
    qn_sink sink = qn_sink_heap();
    qn_error why = { 0 };

    must(err->status == st && err->text[0]);
    must(qn_fault_write(&sink, err, &why) == QN_OK);
    must(qn_utf8_valid(sink.data, sink.len));
    qn_free(sink.data);
}

typedef struct decoded {
    qn_tensor tensor;
    qn_strings strings;
} decoded;

static void release(decoded *d)
{
    free(d->tensor.data);
    free(d->strings.base[QN_STRINGS_REQUEST]);
}

static int decode(const qn_scan_data *data, const qn_shape *shape,
                  qn_dtype dtype, decoded *out)
{
    qn_error err = { 0 };
    size_t bytes, heap;
    qn_status st = qn_tensor_bytes(dtype, shape, &bytes, &err);

    memset(out, 0, sizeof *out);
    if (st == QN_OK && bytes > MAX_BYTES)
        return 0;
    if (st == QN_OK)
        st = qn_decode_string_bytes(data, dtype, &heap, &err);
    if (st == QN_OK) {
        out->tensor = (qn_tensor){ dtype, *shape, malloc(bytes ? bytes : 1) };
        out->strings.base[QN_STRINGS_REQUEST] = malloc(heap ? heap : 1);
        out->strings.limit = heap;
        must(out->tensor.data && out->strings.base[QN_STRINGS_REQUEST]);
        st = qn_decode(data, "x", &out->tensor, &out->strings, &err);
        qn_tensor check = { dtype, *shape, NULL };
        must(qn_decode(data, "x", &check, NULL, NULL) == st);
        must(st != QN_OK || out->strings.used == heap);
    }
    if (st != QN_OK)
        check_error(st, &err);
    return st == QN_OK;
}

static void compare(const decoded *a, const decoded *b)
{
    const qn_string *s = a->tensor.data, *t = b->tensor.data;
    int64_t n = qn_count(&a->tensor);

    must(n == qn_count(&b->tensor));
    if (a->tensor.dtype != QN_STRING) {
        must(!n || !memcmp(s, t, (size_t)n * qn_dtype_size(a->tensor.dtype)));
        return;
    }
    for (int64_t i = 0; i < n; i++)
        must(s[i].len == t[i].len &&
             !memcmp(qn_string_bytes(&a->strings, s[i]),
                     qn_string_bytes(&b->strings, t[i]), s[i].len));
}

/* Encode, within the bound, scan and decode again: the same values. */
static void round_trip(const decoded *d, bool nested)
{
    static const char head[] = "{\"inputs\":{\"x\":";
    qn_encode_options o = { .nested = nested, .nan_tokens = nested };
    qn_error err = { 0 };
    qn_region region = { 0 };
    qn_scan scan;
    decoded again;
    size_t bound;

    if (qn_encode_bound(&d->tensor, &d->strings, &o, &bound, &err) != QN_OK ||
        bound > 16 * MAX_BYTES)
        return;
    size_t lead = sizeof head - 1;
    char *text = malloc(lead + bound + 2);
    must(text != NULL);
    memcpy(text, head, lead);
    qn_sink sink = qn_sink_fixed(text, lead + bound);
    sink.len = lead;
    must(qn_encode_values(&sink, &d->tensor, &d->strings, &o, &err) == QN_OK);
    memcpy(text + sink.len, "}}", 2);
    must(qn_scan_body(text, sink.len + 2, NULL, &region, &scan, &err) == QN_OK);
    must(scan.n_inputs == 1);
    if (nested && qn_count(&d->tensor))
        must(qn_shape_equal(&scan.inputs[0].shape, &d->tensor.shape));
    must(decode(&scan.inputs[0].data, &scan.inputs[0].shape, d->tensor.dtype,
                &again));
    compare(d, &again);
    release(&again);
    qn_region_release(&region);
    free(text);
}

static void use_input(const qn_scan_input *in)
{
    for (int t = QN_NONE + 1; t < QN_DTYPE_COUNT; t++) {
        qn_dtype dtype = in->dtype == QN_NONE ? (qn_dtype)t : in->dtype;
        decoded d;

        if (in->data.text && decode(&in->data, &in->shape, dtype, &d)) {
            fuzz_accepted += t == 1;
            if (!in->data.raw) { /* raw NaN may have any bits */
                round_trip(&d, false);
                round_trip(&d, true);
            }
            release(&d);
        } else if (in->data.text) {
            release(&d);
        }
        if (in->dtype != QN_NONE)
            break;
    }
}

static void use_npy(const uint8_t *data, size_t size)
{
    qn_error err = { 0 };
    qn_npy npy;
    qn_status st = qn_npy_open(data, size, &npy, &err);
    qn_sink sink = qn_sink_heap();

    if (st != QN_OK) {
        check_error(st, &err);
        return;
    }
    qn_tensor t = { npy.dtype, npy.shape, malloc(npy.bytes ? npy.bytes : 1) };
    must(t.data != NULL);
    if (npy.dtype != QN_STRING) {
        must(qn_npy_decode(&npy, &t, &err) == QN_OK);
        must(qn_npy_write(&sink, &t, &err) == QN_OK);
        must(qn_npy_open(sink.data, sink.len, &npy, &err) == QN_OK);
        must(!npy.bytes || !memcmp(npy.data, t.data, npy.bytes));
        fuzz_accepted++;
    }
    free(t.data);
    qn_free(sink.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *body = (const char *)data;
    const char *nul = size ? memchr(body, 0, size) : NULL;
    size_t json = nul ? (size_t)(nul - body) : size;
    qn_scan_options o = { .tail = nul ? nul + 1 : NULL,
                          .tail_bytes = nul ? size - json - 1 : 0 };
    qn_region region = { 0 };
    qn_error err = { 0 };
    qn_params params;
    qn_scan scan;

    if (size >= 6 && !memcmp(data, "\x93NUMPY", 6)) {
        use_npy(data, size);
        return 0;
    }
    qn_status st = qn_scan_body(body, json, &o, &region, &scan, &err);
    if (st == QN_OK) {
        for (uint32_t i = 0; i < scan.n_inputs; i++)
            use_input(&scan.inputs[i]);
        fuzz_accepted += !scan.n_inputs;
    } else {
        check_error(st, &err);
    }
    memset(&err, 0, sizeof err);
    st = qn_scan_object(body, json, NULL, &region, &params, &err);
    if (st != QN_OK)
        check_error(st, &err);
    qn_region_release(&region);
    return 0;
}

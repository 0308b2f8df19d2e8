/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nanoseconds per element of the codec's steps, on 150,528 elements (one
 * 3x224x224 image): the best and the median of the repeats, in CPU time of the
 * thread, since other work on the machine only ever adds.
 *
 *     bench_codec [repeats]
 */
#include "runtime/base/alloc.h"
#include "server/codec/codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N = 150528 };

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void report(const char *what, double *ns, int repeats, size_t bytes)
{
    qsort(ns, (size_t)repeats, sizeof *ns, by_value);
    printf("  %-7s %7.2f ns/element best, %7.2f median, %7.1f MB/s\n", what,
           ns[0] / N, ns[repeats / 2] / N, (double)bytes * 1e3 / ns[0]);
}

static uint64_t next_random(uint64_t *seed)
{
    uint64_t z = (*seed += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

enum { SHORTEST, DIGITS_17, DECIMALS_4, BYTES, LARGE };

static char *put(char *p, int kind, uint64_t r)
{
    float f = (float)((double)(r >> 11) * 0x1p-53 * 5.2 - 2.6);

    switch (kind) {
    case SHORTEST:
        return qn_print_f32(p, f);
    case DIGITS_17:
        return p + snprintf(p, 28, "%.17g", (double)f);
    case DECIMALS_4:
        return p + snprintf(p, 28, "%.4f", (double)f);
    case BYTES:
        return qn_print_u64(p, r & 255);
    default:
        return qn_print_i64(p, (int64_t)r);
    }
}

/* `text` is a tensor as JSON; returns whether all went well. */
static int measure(const char *what, const char *text, qn_dtype dtype,
                   int repeats)
{
    size_t len = strlen(text) + 16, size = qn_dtype_size(dtype);
    char *body = malloc(len), *out = malloc(N * size);
    double *ns = calloc((size_t)repeats, sizeof *ns);
    qn_error err = { 0 };
    qn_region region = { 0 };
    qn_scan scan;
    qn_sink sink = qn_sink_heap();
    int ok = 0;

    if (!body || !out || !ns)
        goto done;
    len = (size_t)snprintf(body, len, "{\"inputs\":%s}", text);
    printf("%s, %zu bytes\n", what, len);
    for (int r = 0; r < repeats; r++) {
        double start = now_ns();

        qn_region_release(&region);
        if (qn_scan_body(body, len, NULL, &region, &scan, &err) != QN_OK)
            goto done;
        ns[r] = now_ns() - start;
    }
    report("scan", ns, repeats, len);
    qn_tensor t = { dtype, scan.inputs[0].shape, out };
    for (int r = 0; r < repeats; r++) {
        double start = now_ns();

        if (qn_decode(&scan.inputs[0].data, "x", &t, NULL, &err) != QN_OK)
            goto done;
        ns[r] = now_ns() - start;
    }
    report("decode", ns, repeats, len);
    for (int r = 0; r < repeats; r++) {
        double start = now_ns();

        sink.len = 0;
        if (qn_encode_values(&sink, &t, NULL, NULL, &err) != QN_OK)
            goto done;
        ns[r] = now_ns() - start;
    }
    report("encode", ns, repeats, sink.len);
    ok = 1;
done:
    if (!ok)
        printf("  failed: %s\n", err.text);
    qn_free(sink.data);
    qn_region_release(&region);
    free(body);
    free(out);
    free(ns);
    return ok;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *what;
        qn_dtype dtype;
        int kind; /* of put() */
    } cases[] = {
        { "FP32, shortest text, [-2.6, 2.6]", QN_F32, SHORTEST },
        { "FP32, 17 digits", QN_F32, DIGITS_17 },
        { "FP32, 4 decimals", QN_F32, DECIMALS_4 },
        { "FP32, whole numbers 0 to 255", QN_F32, BYTES },
        { "FP64, 17 digits", QN_F64, DIGITS_17 },
        { "FP16, 4 decimals", QN_F16, DECIMALS_4 },
        { "UINT8", QN_U8, BYTES },
        { "INT64, up to 19 digits", QN_I64, LARGE },
    };
    int repeats = argc > 1 ? atoi(argv[1]) : 15, ok = 1;
    char *text = malloc((size_t)N * 28 + 2);

    if (!text || repeats < 1)
        return 2;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        uint64_t seed = 1;
        char *p = text;

        *p++ = '[';
        for (int i = 0; i < N; i++) {
            p = put(p, cases[c].kind, next_random(&seed));
            *p++ = i + 1 < N ? ',' : ']';
        }
        *p = 0;
        ok &= measure(cases[c].what, text, cases[c].dtype, repeats);
    }
    free(text);
    return ok ? 0 : 1;
}

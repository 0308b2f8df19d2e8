/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How close the planner comes, and how fast, over CSV files:
 *
 *   bench_layout [--steps N] FILE.csv...
 *
 * Prints one line a file: buffers, lower bound, peak, ratio, milliseconds (best
 * of three where that is cheap), method; then the worst ratio. Times are of this
 * machine; everything else repeats exactly.
 */
#include "runtime/plan/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_file(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    char *data = NULL;
    long size = -1;
    if (!f)
        return NULL;
    if (fseek(f, 0, SEEK_END) == 0)
        size = ftell(f);
    if (size >= 0 && fseek(f, 0, SEEK_SET) == 0)
        data = malloc((size_t)size + 1);
    if (data && fread(data, 1, (size_t)size, f) != (size_t)size) {
        free(data);
        data = NULL;
    }
    fclose(f);
    *len = (size_t)size;
    return data;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static qn_status bench(const char *path, const qn_layout_options *options,
                       double *worst, qn_error *err)
{
    qn_region region = { 0 };
    qn_plan_csv csv;
    qn_layout_report r, again;
    size_t len = 0;
    char *text = read_file(path, &len);
    if (!text)
        return qn_fail(err, QN_IO, "cannot read %s", path);
    qn_status st = qn_plan_csv_read(text, len, &region, &csv, err);
    size_t *offsets = st == QN_OK ? malloc((csv.n + 1) * sizeof *offsets)
                                  : NULL;
    if (st == QN_OK && !offsets)
        st = qn_fail(err, QN_NO_MEMORY, "no heap for %zu offsets", csv.n);
    if (st == QN_OK)
        st = qn_layout_run(&csv, options, offsets, &r, err);
    for (int i = 0; i < 2 && st == QN_OK && r.ms < 100; i++) {
        st = qn_layout_run(&csv, options, offsets, &again, err);
        if (st == QN_OK && again.hash != r.hash)
            st = qn_fail(err, QN_INTERNAL, "two runs, two layouts");
        if (st == QN_OK && again.ms < r.ms)
            r.ms = again.ms;
    }
    if (st == QN_OK) {
        printf("%-48s %6zu %12zu %12zu %7.4f %9.2f  %s\n", base_name(path),
               r.buffers, r.stats.lower_bound, r.stats.peak, r.ratio, r.ms,
               r.stats.winner);
        if (r.ratio > *worst)
            *worst = r.ratio;
    }
    free(offsets);
    free(text);
    qn_region_release(&region);
    return st;
}

int main(int argc, char **argv)
{
    qn_layout_options options = { 0 };
    double worst = 0;
    int first = 1, failed = 0;
    if (argc > 2 && strcmp(argv[1], "--steps") == 0) {
        options.search_steps = strtoull(argv[2], NULL, 10);
        first = 3;
    }
    if (first >= argc) {
        fprintf(stderr, "usage: bench_layout [--steps N] FILE.csv...\n");
        return 2;
    }
    printf("%-48s %6s %12s %12s %7s %9s  %s\n", "file", "n", "lower bound",
           "peak", "ratio", "ms", "method");
    for (int i = first; i < argc; i++) {
        qn_error err = { 0 };
        if (bench(argv[i], &options, &worst, &err) != QN_OK) {
            fprintf(stderr, "%s: %s\n", argv[i], err.text);
            failed = 1;
        }
    }
    printf("worst ratio %.4f\n", worst);
    return failed;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers for Prometheus. Counters are atomics that only grow; a histogram is
 * one counter a bucket, so observing is one addition and needs no lock.
 */
#ifndef QN_SERVER_METRICS_H
#define QN_SERVER_METRICS_H

#include "server/codec/json.h"

#include <stdatomic.h>

/* Upper bounds in seconds; one bucket more for what is above. */
#define QN_BUCKETS_LIST                                                        \
    { 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2,                      \
      2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5, 5, 10 }
enum { QN_BUCKETS = 17 };

typedef struct qn_histogram {
    atomic_uint_fast64_t bucket[QN_BUCKETS + 1];
    atomic_uint_fast64_t sum_ns;
} qn_histogram;

void qn_histogram_add(qn_histogram *h, uint64_t ns);
/* Estimate of the q-th quantile in seconds (upper bound of its bucket); 0 if
 * nothing was observed. */
double qn_histogram_quantile(const qn_histogram *h, double q);

/* Status codes that are counted one by one; others under the last. */
#define QN_COUNTED_STATUS                                                      \
    { 200, 400, 404, 405, 413, 415, 429, 499, 500, 503, 504, 0 }
enum { QN_COUNTED = 12 };

typedef enum qn_phase {
    QN_PHASE_QUEUE,
    QN_PHASE_DECODE,
    QN_PHASE_COMPUTE,
    QN_PHASE_ENCODE,
    QN_PHASES
} qn_phase;

/* Of one model, or of everything that is none's. */
typedef struct qn_metrics {
    atomic_uint_fast64_t by_status[QN_COUNTED];
    atomic_uint_fast64_t bytes_in, bytes_out;
    qn_histogram phases[QN_PHASES];
    qn_histogram total;
} qn_metrics;

void qn_metrics_status(qn_metrics *m, unsigned status);

/* ---- the text format ---- */

/* "# HELP", "# TYPE". */
void qn_metrics_family(qn_sink *sink, const char *name, const char *type,
                       const char *help);
/* name{labels} value; labels "" or `a="b",c="d"`. */
void qn_metrics_sample(qn_sink *sink, const char *name, const char *labels,
                       double value);
/* All samples of a histogram. */
void qn_metrics_histogram(qn_sink *sink, const char *name, const char *labels,
                          const qn_histogram *h);
/* A label's value with backslash, quote and newline escaped; returns buf. */
const char *qn_metrics_label(const char *value, char *buf, size_t size);
/* Families of the requests: models[i] has the name names[i]. */
void qn_metrics_requests(qn_sink *sink, const qn_metrics *const *models,
                         const char *const *names, size_t n);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "server/metrics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double bounds[QN_BUCKETS] = QN_BUCKETS_LIST;
static const unsigned counted[QN_COUNTED] = QN_COUNTED_STATUS;
static const char *const phase_names[QN_PHASES] = { "queue", "decode",
                                                    "compute", "encode" };

void qn_histogram_add(qn_histogram *h, uint64_t ns)
{
    double s = (double)ns * 1e-9;
    size_t i = 0;
    while (i < QN_BUCKETS && s > bounds[i])
        i++;
    atomic_fetch_add_explicit(&h->bucket[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->sum_ns, ns, memory_order_relaxed);
}

static uint64_t read_count(const atomic_uint_fast64_t *c)
{
    return atomic_load_explicit(c, memory_order_relaxed);
}

double qn_histogram_quantile(const qn_histogram *h, double q)
{
    uint64_t n = 0, seen = 0;
    for (size_t i = 0; i <= QN_BUCKETS; i++)
        n += read_count(&h->bucket[i]);
    for (size_t i = 0; i <= QN_BUCKETS && n; i++) {
        seen += read_count(&h->bucket[i]);
        if ((double)seen >= q * (double)n)
            return i < QN_BUCKETS ? bounds[i] : 2 * bounds[QN_BUCKETS - 1];
    }
    return 0;
}

void qn_metrics_status(qn_metrics *m, unsigned status)
{
    size_t i = 0;
    while (i + 1 < QN_COUNTED && counted[i] != status)
        i++;
    atomic_fetch_add_explicit(&m->by_status[i], 1, memory_order_relaxed);
}

/* ---- text ---- */

static void put(qn_sink *sink, const char *text, int len)
{
    qn_error err = { 0 };
    if (len > 0 && qn_sink_put(sink, text, (size_t)len, &err) != QN_OK)
        return; /* the heap is out: the page ends early */
}

void qn_metrics_family(qn_sink *sink, const char *name, const char *type,
                       const char *help)
{
    char line[512];
    put(sink, line,
        snprintf(line, sizeof line, "# HELP %s %s\n# TYPE %s %s\n", name, help,
                 name, type));
}

void qn_metrics_sample(qn_sink *sink, const char *name, const char *labels,
                       double value)
{
    char line[768];
    const char *open = *labels ? "{" : "", *close = *labels ? "}" : "";
    int n;
    if (value == floor(value) && fabs(value) < 9e15)
        n = snprintf(line, sizeof line, "%s%s%s%s %.0f\n", name, open, labels,
                     close, value);
    else
        n = snprintf(line, sizeof line, "%s%s%s%s %.9g\n", name, open, labels,
                     close, value);
    put(sink, line, n);
}

void qn_metrics_histogram(qn_sink *sink, const char *name, const char *labels,
                          const qn_histogram *h)
{
    char full[128], with[512];
    uint64_t n = 0;
    const char *comma = *labels ? "," : "";
    snprintf(full, sizeof full, "%s_bucket", name);
    for (size_t i = 0; i <= QN_BUCKETS; i++) {
        n += read_count(&h->bucket[i]);
        if (i < QN_BUCKETS)
            snprintf(with, sizeof with, "%s%sle=\"%g\"", labels, comma,
                     bounds[i]);
        else
            snprintf(with, sizeof with, "%s%sle=\"+Inf\"", labels, comma);
        qn_metrics_sample(sink, full, with, (double)n);
    }
    snprintf(full, sizeof full, "%s_sum", name);
    qn_metrics_sample(sink, full, labels, (double)read_count(&h->sum_ns) * 1e-9);
    snprintf(full, sizeof full, "%s_count", name);
    qn_metrics_sample(sink, full, labels, (double)n);
}

const char *qn_metrics_label(const char *value, char *buf, size_t size)
{
    size_t n = 0;
    for (const char *p = value; *p && n + 3 < size; p++) {
        if (*p == '\\' || *p == '"' || *p == '\n')
            buf[n++] = '\\';
        buf[n++] = *p == '\n' ? 'n' : *p;
    }
    buf[n] = 0;
    return buf;
}

static void put_counts(qn_sink *sink, const qn_metrics *const *models,
                       const char *const *names, size_t n)
{
    qn_metrics_family(sink, "quern_requests_total", "counter",
                      "Requests by model and HTTP status.");
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < QN_COUNTED; k++) {
            char model[288], labels[340], status[16];
            uint64_t count = read_count(&models[i]->by_status[k]);
            if (!count)
                continue;
            if (counted[k])
                snprintf(status, sizeof status, "%u", counted[k]);
            else
                snprintf(status, sizeof status, "other");
            snprintf(labels, sizeof labels, "model=\"%s\",status=\"%s\"",
                     qn_metrics_label(names[i], model, sizeof model), status);
            qn_metrics_sample(sink, "quern_requests_total", labels,
                              (double)count);
        }
}

static void put_bytes(qn_sink *sink, const qn_metrics *const *models,
                      const char *const *names, size_t n)
{
    char model[288], labels[340];
    qn_metrics_family(sink, "quern_received_bytes_total", "counter",
                      "Bytes of request bodies.");
    for (size_t i = 0; i < n; i++) {
        snprintf(labels, sizeof labels, "model=\"%s\"",
                 qn_metrics_label(names[i], model, sizeof model));
        qn_metrics_sample(sink, "quern_received_bytes_total", labels,
                          (double)read_count(&models[i]->bytes_in));
    }
    qn_metrics_family(sink, "quern_sent_bytes_total", "counter",
                      "Bytes of answers.");
    for (size_t i = 0; i < n; i++) {
        snprintf(labels, sizeof labels, "model=\"%s\"",
                 qn_metrics_label(names[i], model, sizeof model));
        qn_metrics_sample(sink, "quern_sent_bytes_total", labels,
                          (double)read_count(&models[i]->bytes_out));
    }
}

void qn_metrics_requests(qn_sink *sink, const qn_metrics *const *models,
                         const char *const *names, size_t n)
{
    char model[288], labels[340];
    put_counts(sink, models, names, n);
    put_bytes(sink, models, names, n);
    qn_metrics_family(sink, "quern_phase_seconds", "histogram",
                      "Time of the phases of an inference.");
    for (size_t i = 0; i < n; i++)
        for (size_t p = 0; p < QN_PHASES && *names[i]; p++) {
            snprintf(labels, sizeof labels, "model=\"%s\",phase=\"%s\"",
                     qn_metrics_label(names[i], model, sizeof model),
                     phase_names[p]);
            qn_metrics_histogram(sink, "quern_phase_seconds", labels,
                                 &models[i]->phases[p]);
        }
    qn_metrics_family(sink, "quern_request_seconds", "histogram",
                      "From the first header to the answer sent.");
    for (size_t i = 0; i < n; i++) {
        snprintf(labels, sizeof labels, "model=\"%s\"",
                 qn_metrics_label(names[i], model, sizeof model));
        qn_metrics_histogram(sink, "quern_request_seconds", labels,
                             &models[i]->total);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* GET /metrics, in the Prometheus text format. */
#include "server/api.h"
#include "server/cli/commands.h"
#include "runtime/base/clock.h"

#include <stdio.h>
#include <string.h>

enum { MAX_MODELS = 1024 };

typedef struct collection {
    const qn_metrics *metrics[MAX_MODELS];
    const char *names[MAX_MODELS];
    size_t n;
    size_t by_state[4];
} collection;

static void collect(const qn_model_row *row, void *arg)
{
    collection *c = arg;
    c->by_state[row->state]++;
    if (c->n && c->metrics[c->n - 1] == row->metrics)
        return;
    if (c->n == MAX_MODELS)
        return;
    c->metrics[c->n] = row->metrics;
    c->names[c->n++] = row->id;
}

static void gauge(qn_sink *sink, const char *name, const char *help,
                  double value)
{
    qn_metrics_family(sink, name, "gauge", help);
    qn_metrics_sample(sink, name, "", value);
}

static void counter(qn_sink *sink, const char *name, const char *help,
                    uint64_t value)
{
    qn_metrics_family(sink, name, "counter", help);
    qn_metrics_sample(sink, name, "", (double)value);
}

static void put_memory(qn_sink *sink, qn_server *server)
{
    char labels[64];
    qn_ledger_state s;
    qn_ledger_read(server->ledger, &s);
    gauge(sink, "quern_memory_budget_bytes", "Memory that may be charged.",
          (double)s.budget);
    gauge(sink, "quern_memory_peak_bytes", "Most that was ever charged.",
          (double)s.peak);
    qn_metrics_family(sink, "quern_memory_bytes", "gauge",
                      "Memory charged, by class.");
    for (int c = 0; c < QN_MEM_COUNT; c++) {
        snprintf(labels, sizeof labels, "class=\"%s\"",
                 qn_mem_name((qn_mem)c));
        qn_metrics_sample(sink, "quern_memory_bytes", labels,
                          (double)s.by_class[c]);
    }
    counter(sink, "quern_memory_refused_total",
            "Charges that did not fit the budget.", s.refused);
}

static void put_queue(qn_sink *sink, qn_server *server)
{
    qn_pool_state p;
    qn_pool_read(server->pool, &p);
    gauge(sink, "quern_waiting_requests", "Requests that wait for memory.",
          (double)p.waiters);
    gauge(sink, "quern_inferring_requests", "Requests from body to answer.",
          (double)atomic_load(&server->inferring));
    gauge(sink, "quern_leases", "Parts of memory that are leased.",
          (double)p.leases);
    gauge(sink, "quern_leased_bytes", "Bytes that are leased.",
          (double)p.leased);
    counter(sink, "quern_leases_granted_total", "Leases granted.", p.granted);
    counter(sink, "quern_leases_waited_total", "Leases that had to wait.",
            p.waited);
}

static void put_http(qn_sink *sink, qn_server *server)
{
    qn_http_state h;
    qn_http_read(server->http, &h);
    gauge(sink, "quern_connections", "Open connections.",
          (double)h.connections);
    counter(sink, "quern_connections_accepted_total", "Connections accepted.",
            h.accepted);
    counter(sink, "quern_connections_refused_total",
            "Connections turned away for want of memory.", h.refused);
}

static void put_models(qn_sink *sink, const collection *c)
{
    qn_metrics_family(sink, "quern_models", "gauge",
                      "Model versions, by state.");
    for (int i = 0; i < 4; i++) {
        char labels[64];
        snprintf(labels, sizeof labels, "state=\"%s\"",
                 qn_model_state_name((qn_model_state)i));
        qn_metrics_sample(sink, "quern_models", labels,
                          (double)c->by_state[i]);
    }
}

void qn_handle_metrics(qn_exchange *x, void *arg)
{
    qn_server *server = arg;
    qn_sink sink = qn_sink_heap();
    qn_error err = { 0 };
    collection *c = qn_calloc(1, sizeof *c);
    if (!c) {
        (void)!qn_fail(&err, QN_NO_MEMORY, "out of memory");
        qn_server_answer_error(server, x, &err);
        return;
    }
    c->metrics[0] = &server->others;
    c->names[0] = "";
    c->n = 1;
    qn_models_each(server->models, collect, c);
    qn_metrics_family(&sink, "quern_info", "gauge", "What is running.");
    qn_metrics_sample(&sink, "quern_info", "version=\"" QUERN_VERSION "\"", 1);
    gauge(&sink, "quern_uptime_seconds", "Time since the start.",
          (double)(qn_clock_ns() - server->started_ns) * 1e-9);
    put_models(&sink, c);
    put_http(&sink, server);
    put_queue(&sink, server);
    put_memory(&sink, server);
    qn_metrics_requests(&sink, c->metrics, c->names, c->n);
    qn_free(c);
    qn_answer_heap(x, 200, "text/plain; version=0.0.4; charset=utf-8",
                   sink.data, sink.len);
}

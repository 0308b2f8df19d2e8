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

/* What holds of one card. */
typedef double (*reading)(qn_server *server, uint32_t i);

static double read_lost(qn_server *server, uint32_t i)
{
    qn_accel *accel = server->devices.accels.accel[i];
    return accel->ops->dead(accel, NULL);
}

static double read_launches(qn_server *server, uint32_t i)
{
    qn_accel_info info;
    qn_accel *accel = server->devices.accels.accel[i];
    accel->ops->info(accel, &info);
    return (double)info.launches;
}

static double read_faults(qn_server *server, uint32_t i)
{
    return (double)atomic_load(&server->devices.faults[i]);
}

static double read_budget(qn_server *server, uint32_t i)
{
    qn_ledger_state s;
    qn_ledger_read(qn_runtime_accel_ledger(server->runtime, i), &s);
    return (double)s.budget;
}

static double read_peak(qn_server *server, uint32_t i)
{
    qn_ledger_state s;
    qn_ledger_read(qn_runtime_accel_ledger(server->runtime, i), &s);
    return (double)s.peak;
}

static void put_device_memory(qn_sink *sink, qn_server *server)
{
    static const char name[] = "quern_device_memory_bytes";
    qn_metrics_family(sink, name, "gauge",
                      "Memory of a card that is charged, by class.");
    for (uint32_t i = 0; i < server->devices.accels.n; i++) {
        char labels[96];
        qn_ledger_state s;
        qn_ledger_read(qn_runtime_accel_ledger(server->runtime, i), &s);
        for (int c = 0; c < QN_MEM_COUNT; c++) {
            snprintf(labels, sizeof labels, "device=\"%s\",class=\"%s\"",
                     server->devices.accels.accel[i]->label,
                     qn_mem_name((qn_mem)c));
            qn_metrics_sample(sink, name, labels, (double)s.by_class[c]);
        }
    }
}

static void put_devices(qn_sink *sink, qn_server *server)
{
    static const struct {
        const char *name, *type, *help;
        reading read;
    } rows[] = {
        { "quern_device_lost", "gauge",
          "1: beyond use until the process starts anew.", read_lost },
        { "quern_device_faults_total", "counter",
          "Requests that failed because of the card.", read_faults },
        { "quern_device_launches_total", "counter", "Kernels launched.",
          read_launches },
        { "quern_device_memory_budget_bytes", "gauge",
          "Memory of a card that may be charged.", read_budget },
        { "quern_device_memory_peak_bytes", "gauge",
          "Most of it that was ever charged.", read_peak },
    };
    uint32_t n = server->devices.accels.n;
    (void)qn_devices_look(server, NULL);
    for (size_t k = 0; n && k < sizeof rows / sizeof rows[0]; k++) {
        qn_metrics_family(sink, rows[k].name, rows[k].type, rows[k].help);
        for (uint32_t i = 0; i < n; i++) {
            char labels[64];
            snprintf(labels, sizeof labels, "device=\"%s\"",
                     server->devices.accels.accel[i]->label);
            qn_metrics_sample(sink, rows[k].name, labels,
                              rows[k].read(server, i));
        }
    }
    if (n)
        put_device_memory(sink, server);
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
    put_devices(&sink, server);
    qn_metrics_requests(&sink, c->metrics, c->names, c->n);
    qn_free(c);
    qn_answer_heap(x, 200, "text/plain; version=0.0.4; charset=utf-8",
                   sink.data, sink.len);
}

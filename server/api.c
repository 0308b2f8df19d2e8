/* SPDX-License-Identifier: Apache-2.0 */
#include "server/api.h"

#include "server/assets.h"
#include "server/cli/commands.h"
#include "runtime/base/clock.h"
#include "server/codec/fault.h"

#include <stdio.h>
#include <string.h>

unsigned qn_server_retry_after(qn_server *server)
{
    qn_pool_state pool;
    qn_pool_read(server->pool, &pool);
    int threads = qn_runtime_threads(server->runtime);
    double one = (double)atomic_load(&server->service_ns) * 1e-9;
    double s = one * (double)(pool.waiters + 1) / (threads > 0 ? threads : 1);
    return s < 1 ? 1 : s > 60 ? 60 : (unsigned)(s + 0.999);
}

void qn_server_answer_error(qn_server *server, qn_exchange *x,
                            const qn_error *err)
{
    unsigned status = qn_fault_http(err->status);
    if (status == 429 || status == 503)
        qn_answer_header(x, "Retry-After", "%u",
                         qn_server_retry_after(server));
    qn_answer_fault(x, status, err);
}

void qn_api_answer_json(qn_server *server, qn_exchange *x, unsigned status,
                        qn_json *json, qn_sink *sink)
{
    qn_error err = { 0 };
    if (qn_json_finish(json, &err) == QN_OK) {
        qn_answer_heap(x, status, "application/json", sink->data, sink->len);
    } else {
        qn_free(sink->data);
        qn_server_answer_error(server, x, &err);
    }
}

static void handle_live(qn_exchange *x, void *server)
{
    static const char text[] = "{\"live\":true}";
    (void)server;
    qn_answer_static(x, 200, "application/json", text, sizeof text - 1);
}

static void handle_ready(qn_exchange *x, void *arg)
{
    qn_server *server = arg;
    char why[768] = "shutting down";
    bool draining = atomic_load(&server->draining);
    qn_error lost = { 0 };
    bool ready = !draining && qn_models_ready(server->models, why, sizeof why);
    if (qn_devices_look(server, &lost) && !draining &&
        !server->devices.fall_back) {
        ready = false;
        snprintf(why, sizeof why, "%s", lost.text);
    }
    qn_sink sink = qn_sink_heap();
    qn_json j;
    qn_json_init(&j, &sink);
    qn_json_object(&j, NULL);
    qn_json_bool(&j, "ready", ready);
    if (!ready)
        qn_json_string(&j, "reason", why);
    qn_json_end(&j);
    qn_api_answer_json(server, x, ready ? 200 : 503, &j, &sink);
}

static void write_http(qn_json *j, qn_server *server)
{
    qn_http_state h;
    qn_http_read(server->http, &h);
    qn_json_object(j, "http");
    qn_json_uint(j, "connections", h.connections);
    qn_json_uint(j, "active", h.active);
    qn_json_uint(j, "accepted", h.accepted);
    qn_json_uint(j, "refused", h.refused);
    qn_json_uint(j, "requests", h.requests);
    qn_json_end(j);
}

static void write_queue(qn_json *j, qn_server *server)
{
    qn_pool_state p;
    qn_pool_read(server->pool, &p);
    qn_json_object(j, "queue");
    qn_json_uint(j, "inferring", atomic_load(&server->inferring));
    qn_json_uint(j, "waiting_for_memory", p.waiters);
    qn_json_uint(j, "leases", p.leases);
    qn_json_uint(j, "leased_bytes", p.leased);
    qn_json_uint(j, "cached_bytes", p.cached);
    qn_json_uint(j, "granted", p.granted);
    qn_json_uint(j, "waited", p.waited);
    qn_json_uint(j, "refused", p.refused);
    qn_json_end(j);
}

static void write_device(qn_json *j, qn_server *server, uint32_t i)
{
    qn_accel *accel = server->devices.accels.accel[i];
    qn_accel_info info;
    qn_error why = { 0 };
    accel->ops->info(accel, &info);
    bool dead = accel->ops->dead(accel, &why);
    qn_json_object(j, NULL);
    qn_json_string(j, "label", accel->label);
    qn_json_string(j, "name", info.name);
    qn_json_bool(j, "lost", dead);
    if (dead)
        qn_json_string(j, "reason", why.text);
    qn_json_string(j, "driver", info.driver);
    qn_json_string(j, "libraries", info.libraries);
    qn_json_int(j, "capability", info.capability);
    qn_json_int(j, "multiprocessors", info.multiprocessors);
    qn_json_uint(j, "lanes", info.lanes);
    qn_json_uint(j, "launches", info.launches);
    qn_json_uint(j, "faults", atomic_load(&server->devices.faults[i]));
    qn_json_uint(j, "memory_total", info.memory_total);
    qn_json_uint(j, "memory_free", info.memory_free);
    qn_write_ledger(j, "memory", qn_runtime_accel_ledger(server->runtime, i));
    qn_json_end(j);
}

/* As "memory" is the host's, that of each is the card's. */
static void write_devices(qn_json *j, qn_server *server)
{
    (void)qn_devices_look(server, NULL);
    qn_json_array(j, "devices");
    for (uint32_t i = 0; i < server->devices.accels.n; i++)
        write_device(j, server, i);
    qn_json_end(j);
    if (*server->devices.closed)
        qn_json_string(j, "devices_closed", server->devices.closed);
}

static void handle_status(qn_exchange *x, void *arg)
{
    qn_server *server = arg;
    qn_sink sink = qn_sink_heap();
    qn_json j;
    qn_json_init(&j, &sink);
    qn_json_object(&j, NULL);
    qn_json_string(&j, "name", "quern");
    qn_json_string(&j, "version", QUERN_VERSION);
    qn_json_double(&j, "uptime_s",
                   (double)(qn_clock_ns() - server->started_ns) * 1e-9);
    qn_json_bool(&j, "draining", atomic_load(&server->draining));
    qn_json_int(&j, "threads", qn_runtime_threads(server->runtime));
    write_http(&j, server);
    write_queue(&j, server);
    qn_write_ledger(&j, "memory", server->ledger);
    write_devices(&j, server);
    qn_json_end(&j);
    qn_api_answer_json(server, x, 200, &j, &sink);
}

static void handle_asset(qn_exchange *x, void *server)
{
    const qn_asset *a = qn_asset_find(x->route->pattern);
    (void)server;
    qn_answer_header(x, "Content-Security-Policy",
                     "default-src 'self'; frame-ancestors 'none'");
    qn_answer_header(x, "Cache-Control", "no-cache");
    qn_answer_static(x, 200, a->type, a->data, (size_t)(a->end - a->data));
}

/* Of two patterns that match, the first counts. */
const qn_route qn_server_routes[] = {
    { QN_GET, "/healthz", handle_live },
    { QN_GET, "/readyz", handle_ready },
    { QN_GET, "/metrics", qn_handle_metrics },
    { QN_GET, "/v1/status", handle_status },
    { QN_GET, "/v1/models", qn_handle_models },
    { QN_POST, "/v1/models/{}/versions/{}:infer", qn_handle_infer },
    { QN_POST, "/v1/models/{}/versions/{}:validate", qn_handle_validate },
    { QN_GET, "/v1/models/{}/versions/{}/memory", qn_handle_memory },
    { QN_GET, "/v1/models/{}/versions/{}/graph", qn_handle_graph },
    { QN_GET, "/v1/models/{}/versions/{}/example", qn_handle_example },
    { QN_GET, "/v1/models/{}/versions/{}", qn_handle_model },
    { QN_POST, "/v1/models/{}:infer", qn_handle_infer },
    { QN_POST, "/v1/models/{}:validate", qn_handle_validate },
    { QN_GET, "/v1/models/{}/memory", qn_handle_memory },
    { QN_GET, "/v1/models/{}/graph", qn_handle_graph },
    { QN_GET, "/v1/models/{}/example", qn_handle_example },
    { QN_GET, "/v1/models/{}", qn_handle_model },
    { QN_GET, "/openapi.yaml", handle_asset },
    { QN_GET, "/", handle_asset },
    { QN_GET, "/style.css", handle_asset },
    { QN_GET, "/console.js", handle_asset },
    { QN_GET, "/icon.svg", handle_asset },
};

size_t qn_server_n_routes(void)
{
    return sizeof qn_server_routes / sizeof qn_server_routes[0];
}

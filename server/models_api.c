/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/models, /v1/models/<id>, /graph. */
#include "server/api.h"

#include <stdio.h>
#include <string.h>

enum { MAX_OPERATORS = 64 };

/* ---- the list ---- */

typedef struct listing {
    qn_json *json;
    const char *id; /* whose versions are open; or the only id wanted */
    bool any, ready;
} listing;

static void write_version(qn_json *j, const qn_model_row *row)
{
    qn_json_object(j, NULL);
    if (row->version)
        qn_json_format(j, "version", "%llu", (unsigned long long)row->version);
    else
        qn_json_null(j, "version");
    qn_json_string(j, "state", qn_model_state_name(row->state));
    if (*row->reason)
        qn_json_string(j, "reason", row->reason);
    if (row->served)
        qn_json_uint(j, "static_bytes", row->served->memory.bytes);
    qn_json_end(j);
}

static void list_row(const qn_model_row *row, void *arg)
{
    listing *l = arg;
    if (!l->id || strcmp(l->id, row->id)) {
        if (l->id) {
            qn_json_end(l->json);
            qn_json_end(l->json);
        }
        l->id = row->id;
        qn_json_object(l->json, NULL);
        qn_json_string(l->json, "id", row->id);
        qn_json_bool(l->json, "required", row->required);
        qn_json_array(l->json, "versions");
    }
    write_version(l->json, row);
}

void qn_handle_models(qn_exchange *x, void *arg)
{
    qn_server *server = arg;
    qn_sink sink = qn_sink_heap();
    qn_json j;
    listing l = { .json = &j };
    qn_json_init(&j, &sink);
    qn_json_object(&j, NULL);
    qn_json_array(&j, "models");
    qn_models_each(server->models, list_row, &l);
    if (l.id) {
        qn_json_end(&j);
        qn_json_end(&j);
    }
    qn_json_end(&j);
    qn_json_end(&j);
    qn_api_answer_json(server, x, 200, &j, &sink);
}

/* ---- one model ---- */

static void own_version(const qn_model_row *row, void *arg)
{
    listing *l = arg;
    if (!strcmp(l->id, row->id)) {
        l->any = true;
        write_version(l->json, row);
    }
}

/* The words that TensorFlow Serving's clients look for. */
static void own_status(const qn_model_row *row, void *arg)
{
    static const char *const states[] = { "START", "LOADING", "AVAILABLE",
                                          "END" };
    listing *l = arg;
    if (strcmp(l->id, row->id))
        return;
    qn_json_object(l->json, NULL);
    qn_json_format(l->json, "version", "%llu",
                   (unsigned long long)row->version);
    qn_json_string(l->json, "state", states[row->state]);
    qn_json_object(l->json, "status");
    qn_json_string(l->json, "error_code",
                   row->state == QN_MODEL_FAILED ? "UNKNOWN" : "OK");
    qn_json_string(l->json, "error_message", row->reason);
    qn_json_end(l->json);
    qn_json_end(l->json);
}

static void write_io(qn_json *j, const qn_io *io)
{
    qn_json_object(j, NULL);
    qn_json_string(j, "name", io->name);
    qn_json_string(j, "datatype", qn_dtype_wire(io->type.dtype));
    if (io->rank >= 0) {
        qn_json_array(j, "shape");
        for (int i = 0; i < io->rank; i++)
            qn_json_int(j, NULL, io->dims[i].value);
        qn_json_end(j);
        qn_json_array(j, "dimensions");
        for (int i = 0; i < io->rank; i++) {
            if (io->dims[i].value >= 0)
                qn_json_format(j, NULL, "%lld", (long long)io->dims[i].value);
            else
                qn_json_string(j, NULL, io->dims[i].symbol);
        }
        qn_json_end(j);
    }
    if (io->optional)
        qn_json_bool(j, "optional", true);
    qn_json_end(j);
}

/* What a request moves between host and card, by the newest plan. */
static void write_copies(qn_json *j, const qn_served *s)
{
    qn_plan *plan;
    qn_plan_report r;
    if (!qn_session_plans(s->session, &plan, 1))
        return;
    qn_plan_read(plan, &r);
    qn_plan_release(plan);
    qn_json_uint(j, "launches", r.launches);
    qn_json_uint(j, "accel_launches", r.accel_launches);
    qn_json_uint(j, "copies", r.copies);
    qn_json_uint(j, "copy_bytes", r.copy_bytes);
}

static void write_cpu_operators(qn_json *j, const qn_served *s)
{
    qn_cpu_operator rows[MAX_OPERATORS];
    uint32_t n = qn_session_on_cpu(s->session, rows, MAX_OPERATORS);
    qn_json_array(j, "on_cpu");
    for (uint32_t i = 0; i < n; i++) {
        qn_json_object(j, NULL);
        qn_json_string(j, "operator", rows[i].op);
        if (*rows[i].domain)
            qn_json_string(j, "domain", rows[i].domain);
        qn_json_uint(j, "kernels", rows[i].count);
        qn_json_end(j);
    }
    qn_json_end(j);
}

/* Device, and where it is a card: precision, what runs there and what not. */
static void write_places(qn_json *j, const qn_served *s)
{
    char text[QN_REPLICA_TEXT];
    qn_json_string(j, "device", qn_replica_text(&s->replicas[0], text));
    qn_json_array(j, "replicas");
    for (uint32_t i = 0; i < s->n_replicas; i++) {
        const qn_replica *r = &s->replicas[i];
        qn_json_object(j, NULL);
        qn_json_string(j, "device", qn_replica_text(r, text));
        qn_json_bool(j, "lost", qn_replica_lost(r, NULL));
        qn_json_uint(j, "in_flight", atomic_load(&r->in_flight));
        qn_json_end(j);
    }
    qn_json_end(j);
    if (!s->replicas[0].n_accels)
        return;
    qn_json_object(j, "placement");
    qn_json_string(j, "precision", qn_precision_name(s->precision));
    qn_json_uint(j, "kernels", s->memory.kernels);
    qn_json_uint(j, "accel_kernels", s->memory.accel_kernels);
    write_cpu_operators(j, s);
    write_copies(j, s);
    qn_json_end(j);
}

static void write_served(qn_json *j, const qn_served *s)
{
    const qn_io *io;
    qn_json_string(j, "version", s->version);
    qn_json_array(j, "inputs");
    uint32_t n = qn_session_inputs(s->session, &io);
    for (uint32_t i = 0; i < n; i++)
        write_io(j, &io[i]);
    qn_json_end(j);
    qn_json_array(j, "outputs");
    n = qn_session_outputs(s->session, &io);
    for (uint32_t i = 0; i < n; i++)
        write_io(j, &io[i]);
    qn_json_end(j);
    write_places(j, s);
    qn_json_object(j, "memory");
    qn_json_uint(j, "static_bytes", s->memory.bytes);
    if (s->memory.accel_bytes)
        qn_json_uint(j, "device_static_bytes", s->memory.accel_bytes);
    qn_json_end(j);
    qn_json_object(j, "file");
    qn_json_string(j, "sha256", s->sha256);
    qn_json_uint(j, "bytes", s->file_bytes);
    qn_json_int(j, "ir_version", s->ir_version);
    qn_json_int(j, "opset", s->opset);
    qn_json_string(j, "producer", s->producer);
    if (*s->doc)
        qn_json_string(j, "doc", s->doc);
    qn_json_end(j);
    qn_json_double(j, "load_ms", s->load_ms);
}

void qn_handle_model(qn_exchange *x, void *arg)
{
    qn_server *server = arg;
    qn_served *served = NULL;
    qn_error err = { 0 };
    qn_status st = qn_models_get(server->models, x->param[0], x->param[1],
                                 &served, &err);
    if (st == QN_NOT_FOUND) {
        qn_server_answer_error(server, x, &err);
        return;
    }
    qn_sink sink = qn_sink_heap();
    qn_json j;
    listing l = { .json = &j, .id = x->param[0] };
    qn_json_init(&j, &sink);
    qn_json_object(&j, NULL);
    qn_json_string(&j, "name", x->param[0]);
    qn_json_bool(&j, "ready", served != NULL);
    if (!served) {
        qn_json_string(&j, "error", err.text);
        qn_json_string(&j, "code", qn_status_name(err.status));
        qn_answer_header(x, "Retry-After", "%u", qn_server_retry_after(server));
    }
    qn_json_array(&j, "versions");
    qn_models_each(server->models, own_version, &l);
    qn_json_end(&j);
    if (served)
        write_served(&j, served);
    qn_json_array(&j, "model_version_status");
    qn_models_each(server->models, own_status, &l);
    qn_json_end(&j);
    qn_json_end(&j);
    qn_served_release(served);
    qn_api_answer_json(server, x, st == QN_OK ? 200 : 503, &j, &sink);
}

/* ---- the graph ---- */

static void write_names(qn_json *j, const char *key, const qn_graph *g,
                        const qn_value_id *ids, uint32_t n)
{
    qn_json_array(j, key);
    for (uint32_t i = 0; i < n; i++) {
        if (ids[i] == QN_NO_VALUE)
            qn_json_null(j, NULL);
        else
            qn_json_uint(j, NULL, ids[i]);
    }
    (void)g;
    qn_json_end(j);
}

static void write_graph(qn_json *j, const qn_graph *g)
{
    static const char *const kinds[] = { "input", "constant", "intermediate",
                                         "capture" };
    qn_json_array(j, "kernels");
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const qn_node *n = g->nodes[i];
        qn_json_object(j, NULL);
        qn_json_string(j, "name", n->name);
        qn_json_string(j, "operator", n->op_name);
        if (*n->domain)
            qn_json_string(j, "domain", n->domain);
        qn_json_int(j, "opset", n->opset);
        write_names(j, "inputs", g, n->in, n->n_in);
        write_names(j, "outputs", g, n->out, n->n_out);
        qn_json_end(j);
    }
    qn_json_end(j);
    qn_json_array(j, "values");
    for (uint32_t i = 0; i < g->n_values; i++) {
        const qn_value *v = &g->values[i];
        qn_json_object(j, NULL);
        qn_json_string(j, "name", v->name);
        qn_json_string(j, "kind", kinds[v->kind]);
        qn_json_string(j, "datatype", qn_dtype_wire(v->type.dtype));
        qn_json_end(j);
    }
    qn_json_end(j);
    write_names(j, "inputs", g, g->inputs, g->n_inputs);
    write_names(j, "outputs", g, g->outputs, g->n_outputs);
}

void qn_handle_graph(qn_exchange *x, void *arg)
{
    qn_server *server = arg;
    qn_served *served;
    qn_error err = { 0 };
    if (qn_models_get(server->models, x->param[0], x->param[1], &served,
                      &err) != QN_OK) {
        qn_server_answer_error(server, x, &err);
        return;
    }
    qn_sink sink = qn_sink_heap();
    qn_json j;
    qn_json_init(&j, &sink);
    qn_json_object(&j, NULL);
    qn_json_string(&j, "model_name", served->id);
    qn_json_string(&j, "model_version", served->version);
    write_graph(&j, qn_session_graph(served->session));
    qn_json_end(&j);
    qn_served_release(served);
    qn_api_answer_json(server, x, 200, &j, &sink);
}

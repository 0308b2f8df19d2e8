/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/models/<id>/memory: what is planned, to the byte. */
#include "server/api.h"

#include <string.h>

enum { MAX_PLANS = 256 };

void qn_write_ledger(qn_json *json, const char *key, qn_ledger *ledger)
{
    qn_ledger_state s;
    qn_ledger_read(ledger, &s);
    qn_json_object(json, key);
    qn_json_uint(json, "budget", s.budget);
    qn_json_uint(json, "charged", s.charged);
    qn_json_uint(json, "peak", s.peak);
    qn_json_uint(json, "refused", s.refused);
    qn_json_object(json, "by_class");
    for (int c = 0; c < QN_MEM_COUNT; c++)
        qn_json_uint(json, qn_mem_name((qn_mem)c), s.by_class[c]);
    qn_json_end(json);
    qn_json_end(json);
}

static void write_values(qn_json *j, const qn_plan_report *r)
{
    qn_json_array(j, "values");
    for (uint32_t i = 0; i < r->n_values; i++) {
        const qn_plan_value *v = &r->values[i];
        qn_json_object(j, NULL);
        qn_json_string(j, "name", v->name ? v->name : "");
        if (v->workspace) {
            qn_json_bool(j, "workspace", true);
        } else {
            qn_json_string(j, "datatype", qn_dtype_wire(v->dtype));
            qn_json_ints(j, v->dynamic ? "shape_at_most" : "shape",
                         v->shape.dims, (size_t)v->shape.rank);
        }
        qn_json_uint(j, "offset", v->offset);
        qn_json_uint(j, "bytes", v->bytes);
        qn_json_uint(j, "first", v->first);
        qn_json_uint(j, "last", v->last);
        if (v->space)
            qn_json_uint(j, "space", v->space);
        qn_json_end(j);
    }
    qn_json_end(j);
}

static void write_shapes(qn_json *j, const char *key, const qn_tensor *t,
                         uint32_t n)
{
    qn_json_array(j, key);
    for (uint32_t i = 0; i < n; i++) {
        if (qn_present(&t[i]))
            qn_json_ints(j, NULL, t[i].shape.dims, (size_t)t[i].shape.rank);
        else
            qn_json_null(j, NULL);
    }
    qn_json_end(j);
}

/* Leases of so many bytes that a budget takes right now. What is cached counts
 * as free. */
static size_t leases(const qn_ledger_state *s, size_t one)
{
    size_t left = s->budget - s->charged + s->by_class[QN_MEM_CACHE];
    return one ? left / one : 0;
}

/* How many more requests of this plan there is memory for, on the host and on
 * the cards. A model that is cut over several counts only the host's. */
static size_t fits(const qn_served *served, const qn_plan_report *r,
                   const qn_ledger_state *host)
{
    size_t n = leases(host, r->lease_bytes), there = 0;
    for (uint32_t i = 0; i < served->n_replicas && r->device_bytes; i++) {
        const qn_replica *p = &served->replicas[i];
        qn_ledger_state s;
        if (p->n_accels != 1)
            return n;
        qn_ledger_read(qn_runtime_accel_ledger(p->runtime, p->accels[0]), &s);
        if (!qn_replica_lost(p, NULL))
            there += leases(&s, r->device_bytes);
    }
    return r->device_bytes && there < n ? there : n;
}

static void write_plan(qn_json *j, const qn_served *served, qn_plan *plan,
                       const qn_ledger_state *s, bool values)
{
    qn_plan_report r;
    qn_plan_read(plan, &r);
    qn_json_object(j, NULL);
    write_shapes(j, "input_shapes", r.inputs, r.n_inputs);
    write_shapes(j, "output_shapes", r.outputs, r.n_outputs);
    qn_json_uint(j, "arena_bytes", r.arena_bytes);
    qn_json_uint(j, "lower_bound", r.lower_bound);
    qn_json_uint(j, "no_reuse_bytes", r.no_reuse_bytes);
    qn_json_uint(j, "input_bytes", r.input_bytes);
    qn_json_uint(j, "output_bytes", r.output_bytes);
    qn_json_uint(j, "side_bytes", r.side_bytes);
    qn_json_uint(j, "plan_bytes", r.plan_bytes);
    if (r.device_bytes) {
        qn_json_uint(j, "device_bytes", r.device_bytes);
        qn_json_uint(j, "accel_launches", r.accel_launches);
        qn_json_uint(j, "copies", r.copies);
        qn_json_uint(j, "copy_bytes", r.copy_bytes);
    }
    qn_json_uint(j, "launches", r.launches);
    qn_json_uint(j, "launches_saved", r.fused.saved);
    qn_json_uint(j, "peak_launch", r.peak_launch);
    qn_json_string(j, "peak_kernel", r.peak_node ? r.peak_node : "");
    qn_json_string(j, "solver", r.solver ? r.solver : "");
    qn_json_double(j, "build_ms", r.build_ms);
    qn_json_uint(j, "more_requests_fit", fits(served, &r, s));
    if (values)
        write_values(j, &r);
    qn_json_end(j);
}

static void write_static(qn_json *j, const qn_static_report *m)
{
    qn_json_object(j, "static");
    qn_json_uint(j, "bytes", m->bytes);
    qn_json_uint(j, "packed", m->packed);
    qn_json_uint(j, "plain", m->plain);
    qn_json_uint(j, "folded", m->folded);
    qn_json_uint(j, "kernels", m->kernels);
    qn_json_uint(j, "folded_nodes", m->folded_nodes);
    qn_json_uint(j, "fused_nodes", m->fused_nodes);
    qn_json_uint(j, "dropped_constants", m->dropped_constants);
    if (m->accel_kernels) {
        qn_json_uint(j, "device_bytes", m->accel_bytes);
        qn_json_uint(j, "accel_kernels", m->accel_kernels);
    }
    qn_json_end(j);
}

static void write_memory(qn_json *j, qn_server *server, qn_served *served,
                         qn_plan **plans, size_t n, bool values)
{
    qn_ledger_state s;
    qn_pool_state p;
    qn_ledger_read(server->ledger, &s);
    qn_pool_read(server->pool, &p);
    qn_json_object(j, NULL);
    qn_json_string(j, "model_name", served->id);
    qn_json_string(j, "model_version", served->version);
    write_static(j, &served->memory);
    qn_json_uint(j, "budget", s.budget);
    qn_json_uint(j, "charged", s.charged);
    qn_json_uint(j, "leased", p.leased);
    qn_json_array(j, "plans");
    for (size_t i = 0; i < n; i++)
        write_plan(j, served, plans[i], &s, values);
    qn_json_end(j);
    qn_json_end(j);
}

void qn_handle_memory(qn_exchange *x, void *arg)
{
    qn_server *server = arg;
    qn_served *served;
    qn_plan *plans[MAX_PLANS];
    qn_error err = { 0 };
    const char *want = qn_exchange_query(x, "values");
    if (qn_models_get(server->models, x->param[0], x->param[1], &served,
                      &err) != QN_OK) {
        qn_server_answer_error(server, x, &err);
        return;
    }
    qn_sink sink = qn_sink_heap();
    qn_json j;
    size_t n = qn_session_plans(served->session, plans, MAX_PLANS);
    qn_json_init(&j, &sink);
    write_memory(&j, server, served, plans, n,
                 !want || (strcmp(want, "false") && strcmp(want, "0")));
    for (size_t i = 0; i < n; i++)
        qn_plan_release(plans[i]);
    qn_served_release(served);
    qn_api_answer_json(server, x, 200, &j, &sink);
}

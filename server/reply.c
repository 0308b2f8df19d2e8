/* SPDX-License-Identifier: Apache-2.0 */
#include "server/request.h"

#include "runtime/base/clock.h"

/* What a card may have rounded is said. */
static void precision_header(qn_request *r)
{
    if (r->replica->n_accels)
        qn_answer_header(r->x, "X-Quern-Precision", "%s",
                         qn_precision_name(r->model->precision));
}

static void times_header(qn_request *r)
{
    const qn_phases *p = &r->x->phases;
    qn_answer_header(r->x, "Server-Timing",
                     "queue;dur=%.3f, decode;dur=%.3f, compute;dur=%.3f, "
                     "encode;dur=%.3f",
                     (double)p->queue * 1e-6, (double)p->decode * 1e-6,
                     (double)p->compute * 1e-6, (double)p->encode * 1e-6);
}

/*
 * Memory for the answer. Where not even a server that does nothing else could
 * have it beside what this request holds, trying again is no use.
 */
static qn_status make_room(qn_request *r, size_t bytes, qn_buffer *buffer,
                           qn_error *err)
{
    qn_ledger_state s;
    size_t own = r->x->body_len;
    qn_status st =
        qn_buffer_init(r->server->pool, QN_MEM_RESPONSE, bytes, buffer, err);
    if (st != QN_NO_MEMORY)
        return st;
    for (int i = 0; i < QN_LEASE_PARTS; i++)
        own += r->run.lease.parts[i].charged;
    qn_ledger_read(r->server->ledger, &s);
    size_t most = s.budget - s.by_class[QN_MEM_STATIC];
    if (own <= most && bytes <= most - own)
        return st;
    return qn_fail(err, QN_TOO_LARGE,
                   "the answer needs up to %zu bytes and the request holds "
                   "%zu; the budget of %zu bytes leaves %zu beside the loaded "
                   "models",
                   bytes, own, s.budget, most);
}

static qn_status write_npy(qn_request *r, qn_buffer *buffer, qn_error *err)
{
    size_t bytes;
    qn_tensor t = qn_run_output(&r->run, r->bound.wanted[0]);
    qn_status st = qn_npy_bytes(&t, &bytes, err);
    if (st == QN_OK)
        st = make_room(r, bytes, buffer, err);
    if (st != QN_OK)
        return st;
    qn_sink sink = qn_buffer_sink(buffer);
    st = qn_npy_write(&sink, &t, err);
    buffer->len = sink.len;
    return st;
}

static qn_status write_json(qn_request *r, qn_buffer *buffer, qn_error *err)
{
    size_t bytes;
    const qn_bound *b = &r->bound;
    qn_reply_output *outputs =
        qn_region_alloc(&r->region, b->n_wanted + 1u, sizeof *outputs);
    if (!outputs)
        return qn_fail(err, QN_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < b->n_wanted; i++) {
        outputs[i].name = b->outputs[b->wanted[i]].name;
        outputs[i].tensor = qn_run_output(&r->run, b->wanted[i]);
    }
    qn_reply reply = { .model_name = r->model->id,
                       .model_version = r->model->version,
                       .id = r->scan.id,
                       .n_outputs = b->n_wanted,
                       .outputs = outputs,
                       .strings = &r->run.strings,
                       .options = { .nested = r->nested,
                                    .nan_tokens = r->nan_tokens } };
    qn_status st = qn_reply_bound(&reply, &bytes, err);
    if (st == QN_OK)
        st = make_room(r, bytes, buffer, err);
    if (st != QN_OK)
        return st;
    qn_sink sink = qn_buffer_sink(buffer);
    st = qn_reply_write(&sink, &reply, NULL, err);
    buffer->len = sink.len;
    return st;
}

void qn_reply_infer(qn_request *r)
{
    qn_buffer buffer = { .len = 0 };
    qn_error err = { 0 };
    uint64_t start = qn_clock_ns();
    qn_status st = r->npy_out ? write_npy(r, &buffer, &err)
                              : write_json(r, &buffer, &err);
    r->x->phases.encode = qn_clock_ns() - start;
    if (st == QN_OK) {
        times_header(r);
        precision_header(r);
        qn_answer_buffer(r->x, 200,
                         r->npy_out ? "application/x-npy" : "application/json",
                         &buffer);
        return;
    }
    qn_buffer_release(r->server->pool, &buffer);
    qn_server_answer_error(r->server, r->x, &err);
}

static void write_tensor(qn_json *j, const char *name, const qn_tensor *t,
                         bool bound)
{
    qn_json_object(j, NULL);
    qn_json_string(j, "name", name);
    qn_json_string(j, "datatype", qn_dtype_wire(t->dtype));
    qn_json_ints(j, bound ? "shape_at_most" : "shape", t->shape.dims,
                 (size_t)t->shape.rank);
    qn_json_end(j);
}

static void write_bytes(qn_json *j, const qn_plan_report *p, size_t strings)
{
    qn_json_object(j, "bytes");
    qn_json_uint(j, "arena", p->arena_bytes);
    qn_json_uint(j, "inputs", p->input_bytes);
    qn_json_uint(j, "outputs", p->output_bytes);
    qn_json_uint(j, "side", p->side_bytes + strings);
    qn_json_uint(j, "total",
                 p->arena_bytes + p->input_bytes + p->output_bytes +
                     p->side_bytes + strings);
    qn_json_uint(j, "lower_bound", p->lower_bound);
    qn_json_end(j);
}

void qn_reply_validate(qn_request *r)
{
    qn_sink sink = qn_sink_heap();
    qn_error err = { 0 };
    qn_plan_report p;
    qn_json j;
    const qn_bound *b = &r->bound;
    qn_plan_read(r->plan, &p);
    qn_json_init(&j, &sink);
    qn_json_object(&j, NULL);
    qn_json_bool(&j, "valid", true);
    qn_json_string(&j, "model_name", r->model->id);
    qn_json_string(&j, "model_version", r->model->version);
    qn_json_array(&j, "inputs");
    for (uint32_t i = 0; i < b->n_inputs; i++)
        if (qn_present(&b->tensors[i]))
            write_tensor(&j, b->inputs[i].name, &b->tensors[i], false);
    qn_json_end(&j);
    qn_json_array(&j, "outputs");
    for (uint32_t i = 0; i < b->n_wanted; i++) {
        uint32_t k = b->wanted[i];
        write_tensor(&j, b->outputs[k].name, &p.outputs[k],
                     p.output_dynamic[k]);
    }
    qn_json_end(&j);
    write_bytes(&j, &p, b->string_bytes);
    qn_json_end(&j);
    if (qn_json_finish(&j, &err) == QN_OK) {
        qn_answer_heap(r->x, 200, "application/json", sink.data, sink.len);
    } else {
        qn_free(sink.data);
        qn_server_answer_error(r->server, r->x, &err);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request without its socket: method and path on the first line, then the
 * body; everything that a server does with them, up to the answer's text.
 *
 *     POST /v1/models/digits:infer
 *     {"inputs": ...}
 *
 * The model is the example, read from models/examples at the first input.
 */
#include "models/model.h"
#include "runtime/exec/session.h"
#include "server/bind.h"
#include "server/server.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

unsigned long fuzz_accepted;

enum { MAX_PATH_BYTES = 1024, BUDGET = 64 << 20, MAX_IMAGES = 32 };

static qn_runtime *runtime;
static qn_session *session;

static void must(int ok)
{
    if (!ok)
        abort();
}

static void start(void)
{
    qn_error err = { 0 };
    qn_model_file *file;
    qn_graph *graph;
    must(qn_model_open("models/examples/digits/1/model.onnx", &file, &graph,
                       &err) == QN_OK);
    must(qn_runtime_new(&(qn_runtime_options){ .memory_budget = BUDGET,
                                               .threads = 1 },
                        &runtime, &err) == QN_OK);
    must(qn_session_new(runtime, graph, &(qn_session_options){ 0 }, &session,
                        &err) == QN_OK);
    qn_model_close(file);
}

/* Says why, in words that an answer can carry. */
static void refused(const qn_error *err)
{
    qn_sink sink = qn_sink_heap();
    qn_error ignored = { 0 };
    must(err->status != QN_OK && err->text[0]);
    must(qn_fault_http(err->status) != 500);
    must(qn_fault_write(&sink, err, &ignored) == QN_OK);
    qn_free(sink.data);
}

static qn_status answer(const qn_bound *b, const qn_scan *scan, qn_run *run,
                        qn_error *err)
{
    qn_sink sink = qn_sink_heap();
    qn_reply_output outputs[4];
    size_t bound;
    must(b->n_wanted <= 4);
    for (uint32_t i = 0; i < b->n_wanted; i++)
        outputs[i] = (qn_reply_output){
            .name = b->outputs[b->wanted[i]].name,
            .tensor = qn_run_output(run, b->wanted[i])
        };
    qn_reply reply = { .model_name = "digits", .model_version = "1",
                       .id = scan->id, .n_outputs = b->n_wanted,
                       .outputs = outputs, .strings = &run->strings,
                       .options = { .nested = scan->nested } };
    qn_status st = qn_reply_bound(&reply, &bound, err);
    if (st == QN_OK)
        st = qn_reply_write(&sink, &reply, NULL, err);
    must(st != QN_OK || sink.len <= bound);
    qn_free(sink.data);
    return st;
}

static qn_status infer(const qn_bound *b, const qn_scan *scan, qn_error *err)
{
    qn_plan *plan;
    qn_run run;
    qn_status st = qn_session_plan(session, b->tensors, &plan, err);
    if (st != QN_OK)
        return st;
    memset(&run, 0, sizeof run);
    qn_run_init(&run, session, plan);
    qn_plan_release(plan);
    run.string_bytes = b->string_bytes;
    st = qn_run_lease(&run, NULL, NULL, err);
    for (uint32_t i = 0; i < b->n_inputs && st == QN_OK; i++) {
        qn_tensor to = qn_run_input(&run, i);
        if (qn_present(&b->tensors[i]))
            st = qn_decode(b->data[i], b->inputs[i].name, &to, &run.strings,
                           err);
    }
    if (st == QN_OK)
        st = qn_run_sync(&run, err);
    if (st == QN_OK)
        st = answer(b, scan, &run, err);
    qn_run_release(&run);
    return st;
}

static qn_status read_body(const char *body, size_t len, qn_error *err)
{
    qn_region region = { 0 };
    qn_scan scan;
    qn_bound bound;
    qn_status st = qn_scan_body(body, len, &(qn_scan_options){ 0 }, &region,
                                &scan, err);
    if (st == QN_OK)
        st = qn_bind_scan(&scan, session, &region, &bound, err);
    /* many images take long, and test nothing that few do not */
    if (st == QN_OK && bound.tensors[0].shape.rank == 4 &&
        bound.tensors[0].shape.dims[0] <= MAX_IMAGES)
        st = infer(&bound, &scan, err);
    qn_region_release(&region);
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char line[MAX_PATH_BYTES];
    qn_route_match match;
    qn_error err = { 0 };
    const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
    size_t n = end ? (size_t)(end - data) : size;
    if (!session)
        start();
    if (n >= sizeof line)
        return 0;
    if (n)
        memcpy(line, data, n);
    line[n] = 0;
    char *path = strchr(line, ' ');
    if (path)
        *path++ = 0;
    else
        path = line;
    qn_status st = qn_route_find(qn_server_routes, qn_server_n_routes(),
                                 qn_method_parse(line), path, &match, &err);
    if (st != QN_OK) {
        refused(&err);
        return 0;
    }
    if (!match.route || !(match.route->methods & QN_POST))
        return 0;
    const char *body = end ? (const char *)end + 1 : "";
    st = read_body(body, end ? size - n - 1 : 0, &err);
    if (st == QN_OK)
        fuzz_accepted++;
    else
        refused(&err);
    return 0;
}

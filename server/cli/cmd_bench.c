/* SPDX-License-Identifier: Apache-2.0 */
/* quern bench: a model in this process, or a server over HTTP. */
#include "server/cli/bench.h"
#include "server/cli/client.h"
#include "server/cli/commands.h"
#include "server/cli/loaded.h"
#include "server/cli/text.h"

#include <semaphore.h>
#include <string.h>

/* ---- a model in this process ---- */

typedef struct local {
    qn_loaded loaded;
    qn_tensor_file *inputs;
    uint32_t n_inputs;
    qn_plan *plan;
} local;

static void wake(qn_run *run, void *arg)
{
    (void)run;
    sem_post(arg);
}

static void leased(qn_run *run, void *arg, qn_status status)
{
    run->status = status;
    sem_post(arg);
}

static void wait_for(sem_t *s)
{
    while (sem_wait(s))
        ;
}

static qn_status call_local(void *arg, size_t worker, qn_error *err)
{
    local *l = arg;
    qn_run run = { 0 };
    sem_t done;
    (void)worker;
    sem_init(&done, 0, 0);
    qn_run_init(&run, l->loaded.session, l->plan);
    qn_status st = qn_run_lease(&run, leased, &done, err);
    if (st == QN_NO_MEMORY) {
        wait_for(&done);
        st = run.status;
    }
    for (uint32_t i = 0; i < l->n_inputs && st == QN_OK; i++) {
        size_t bytes = 0;
        qn_tensor to = qn_run_input(&run, i);
        const qn_tensor *from = &l->inputs[i].tensor;
        if (!qn_present(from))
            continue;
        st = qn_tensor_bytes(from->dtype, &from->shape, &bytes, err);
        if (st == QN_OK && bytes)
            memcpy(to.data, from->data, bytes);
    }
    if (st == QN_OK) {
        qn_run_start(&run, wake, &done);
        wait_for(&done);
        st = run.status;
        if (st != QN_OK)
            *err = run.error;
    }
    qn_run_release(&run);
    sem_destroy(&done);
    return st;
}

static qn_status open_local(local *l, const qn_options *o, qn_error *err)
{
    const qn_io *io;
    const char *const *shapes;
    size_t n_shapes = qn_opt_list(o, "shape", &shapes);
    qn_load_options load = qn_load_options_read(o);
    qn_status st = qn_loaded_open(&l->loaded, o->args, (uint32_t)o->n_args,
                                  &load, err);
    if (st != QN_OK)
        return st;
    l->n_inputs = qn_session_inputs(l->loaded.session, &io);
    l->inputs = qn_calloc(l->n_inputs + 1u, sizeof *l->inputs);
    qn_tensor *tensors = qn_calloc(l->n_inputs + 1u, sizeof *tensors);
    if (!l->inputs || !tensors)
        st = qn_fail(err, QN_NO_MEMORY, "out of memory");
    if (st == QN_OK)
        st = qn_loaded_make(&l->loaded, shapes, n_shapes, NULL, 0, l->inputs,
                            err);
    for (uint32_t i = 0; i < l->n_inputs && st == QN_OK; i++)
        tensors[i] = l->inputs[i].tensor;
    if (st == QN_OK)
        st = qn_session_plan(l->loaded.session, tensors, &l->plan, err);
    qn_free(tensors);
    return st;
}

static void close_local(local *l)
{
    if (l->plan)
        qn_plan_release(l->plan);
    for (uint32_t i = 0; i < l->n_inputs && l->inputs; i++)
        qn_tensor_file_release(&l->inputs[i]);
    qn_free(l->inputs);
    qn_loaded_close(&l->loaded);
}

/* ---- a server ---- */

typedef struct remote {
    qn_url url;
    int timeout_ms;
    qn_client *clients; /* [concurrency] */
    char *body;
    size_t len;
} remote;

static qn_status call_remote(void *arg, size_t worker, qn_error *err)
{
    remote *r = arg;
    qn_client *c = &r->clients[worker];
    qn_answer answer;
    qn_status st = QN_OK;
    if (c->fd < 0)
        st = qn_client_open(c, &r->url, r->timeout_ms, err);
    if (st == QN_OK)
        st = qn_client_call(c, r->body ? "POST" : "GET", r->url.path, r->body,
                            r->len, &answer, err);
    if (st != QN_OK)
        return st;
    if (answer.status != 200)
        return qn_fail(err, QN_IO, "status %d: %.*s", answer.status,
                       (int)(answer.len > 300 ? 300 : answer.len),
                       answer.body);
    if (answer.closes)
        qn_client_close(c);
    return QN_OK;
}

/* The model's own example request: GET <model>/example. */
static qn_status fetch_example(remote *r, qn_error *err)
{
    qn_client c;
    qn_answer answer = { 0 };
    char path[sizeof r->url.path + 16];
    snprintf(path, sizeof path, "%.*s/example",
             (int)(strlen(r->url.path) - strlen(":infer")), r->url.path);
    qn_status st = qn_client_open(&c, &r->url, r->timeout_ms, err);
    if (st == QN_OK)
        st = qn_client_call(&c, "GET", path, NULL, 0, &answer, err);
    if (st == QN_OK) {
        json_t *root = json_loadb(answer.body, answer.len, JSON_ALLOW_NUL, NULL);
        json_t *request = json_object_get(root, "request");
        r->body = request ? json_dumps(request, JSON_COMPACT) : NULL;
        r->len = r->body ? strlen(r->body) : 0;
        json_decref(root);
        if (!r->body)
            st = qn_fail(err, QN_IO, "GET %s: status %d, no example; give --body",
                         path, answer.status);
    }
    qn_client_close(&c);
    return st;
}

static qn_status read_body(remote *r, const char *path, qn_error *err)
{
    FILE *f = fopen(path, "rb");
    long size = -1;
    if (f && !fseek(f, 0, SEEK_END))
        size = ftell(f);
    if (size >= 0)
        r->body = malloc((size_t)size + 1);
    if (r->body && !fseek(f, 0, SEEK_SET))
        r->len = fread(r->body, 1, (size_t)size, f);
    if (f)
        fclose(f);
    return r->body ? QN_OK : qn_fail(err, QN_IO, "cannot read %s", path);
}

static qn_status open_remote(remote *r, const qn_options *o, size_t concurrency,
                             qn_error *err)
{
    qn_status st = qn_url_parse(o->args[0], &r->url, err);
    if (st != QN_OK)
        return st;
    const char *body = qn_opt_text(o, "body");
    char *path = r->url.path;
    size_t len = strlen(path);
    bool model = !strncmp(path, "/v1/models/", 11);
    if (model && !strchr(path, ':') && len + 7 < sizeof r->url.path)
        memcpy(path + len, ":infer", 7);
    r->timeout_ms = (int)qn_opt_int(o, "timeout");
    r->clients = qn_calloc(concurrency, sizeof *r->clients);
    if (!r->clients)
        return qn_fail(err, QN_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < concurrency; i++)
        r->clients[i].fd = -1;
    if (body)
        return read_body(r, body, err);
    len = strlen(path);
    if (len > 6 && !strcmp(path + len - 6, ":infer"))
        return fetch_example(r, err);
    return QN_OK;
}

static void close_remote(remote *r, size_t concurrency)
{
    for (size_t i = 0; i < concurrency && r->clients; i++)
        qn_client_close(&r->clients[i]);
    qn_free(r->clients);
    free(r->body);
}

/* ---- report ---- */

static void report(const char *what, int threads, size_t concurrency,
                   const qn_bench_result *r, bool json)
{
    if (json) {
        qn_print_json(json_pack(
            "{s:s, s:i, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}",
            "model", what, "threads", threads, "concurrency",
            (json_int_t)concurrency, "runs", (json_int_t)r->runs, "seconds",
            r->seconds, "p50_ms", r->p50_ms, "p90_ms", r->p90_ms, "p99_ms",
            r->p99_ms, "min_ms", r->min_ms, "max_ms", r->max_ms, "mean_ms",
            r->mean_ms, "stddev_ms", r->stddev_ms, "inferences_per_s",
            r->per_s));
        return;
    }
    printf("%s\n", what);
    if (threads)
        printf("threads      %d\n", threads);
    printf("concurrency  %zu\n"
           "runs         %llu in %.2f s\n"
           "latency ms   p50 %.3f  p90 %.3f  p99 %.3f  min %.3f  max %.3f  "
           "mean %.3f +- %.3f\n"
           "throughput   %.1f inferences/s\n",
           concurrency, (unsigned long long)r->runs, r->seconds, r->p50_ms,
           r->p90_ms, r->p99_ms, r->min_ms, r->max_ms, r->mean_ms, r->stddev_ms,
           r->per_s);
}

int qn_cmd_bench(const qn_options *options)
{
    qn_error err = { 0 };
    qn_bench_result result = { 0 };
    local l = { 0 };
    remote r = { 0 };
    const char *what = options->args[0];
    bool url = strstr(what, "://") != NULL;
    size_t concurrency = (size_t)qn_opt_int(options, "concurrency");
    qn_status st = url ? open_remote(&r, options, concurrency, &err)
                       : open_local(&l, options, &err);
    int threads = !url && st == QN_OK ? qn_runtime_threads(l.loaded.runtime) : 0;
    if (st == QN_OK)
        st = qn_bench_run(
            &(qn_bench){ .concurrency = concurrency,
                         .runs = (uint64_t)qn_opt_int(options, "runs"),
                         .duration_ms = qn_opt_int(options, "duration"),
                         .warmup = (uint64_t)qn_opt_int(options, "warmup"),
                         .call = url ? call_remote : call_local,
                         .arg = url ? (void *)&r : (void *)&l },
            &result, &err);
    if (st == QN_OK)
        report(what, threads, concurrency, &result,
               qn_opt_bool(options, "json"));
    if (url)
        close_remote(&r, concurrency);
    else
        close_local(&l);
    return st == QN_OK ? 0 : qn_complain(&err);
}

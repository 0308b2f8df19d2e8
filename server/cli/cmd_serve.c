/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quern serve: puts the parts together, waits for a signal, takes them apart.
 *
 * The end, on SIGTERM or SIGINT: unready at once; no new connections, but those
 * that the system has accepted; every request whose last byte has come gets its
 * answer; then exit 0. A second signal ends the process at once. The signals
 * are blocked in all threads and read from a descriptor, so no handler runs in
 * the middle of anything.
 */
#include "server/cli/commands.h"
#include "server/cli/text.h"
#include "runtime/base/clock.h"
#include "server/log.h"
#include "server/server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

static void on_completed(qn_exchange *x, bool sent, void *arg)
{
    qn_server *server = arg;
    qn_metrics *m = x->metrics ? x->metrics : &server->others;
    const qn_phases *p = &x->phases;
    uint64_t total = qn_clock_ns() - x->started_ns;
    qn_metrics_status(m, sent ? x->status : 499);
    atomic_fetch_add(&m->bytes_in, x->body_len);
    atomic_fetch_add(&m->bytes_out, sent ? x->answer_len : 0);
    qn_histogram_add(&m->total, total);
    if (x->metrics && x->status == 200 && p->compute) {
        qn_histogram_add(&m->phases[QN_PHASE_QUEUE], p->queue);
        qn_histogram_add(&m->phases[QN_PHASE_DECODE], p->decode);
        qn_histogram_add(&m->phases[QN_PHASE_COMPUTE], p->compute);
        qn_histogram_add(&m->phases[QN_PHASE_ENCODE], p->encode);
    }
    qn_log_request(&server->log, x, sent);
}

static void on_listener_log(void *arg, const char *text)
{
    qn_server *server = arg;
    qn_logf(&server->log, QN_LOG_DEBUG, "listener: %s", text);
}

/* Room for the connections that were asked for. */
static void raise_file_limit(const qn_log *log, size_t connections)
{
    struct rlimit r;
    rlim_t want = connections + 256;
    if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur >= want)
        return;
    r.rlim_cur = r.rlim_max < want ? r.rlim_max : want;
    if (setrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur < want)
        qn_logf(log, QN_LOG_WARN,
                "%zu connections need %zu open files, the system allows %zu",
                connections, (size_t)want, (size_t)r.rlim_cur);
}

static int open_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &set, SFD_CLOEXEC);
}

static int wait_signal(int fd)
{
    struct signalfd_siginfo info;
    ssize_t n;
    do
        n = read(fd, &info, sizeof info);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof info ? (int)info.ssi_signo : SIGTERM;
}

static void *second_signal(void *arg)
{
    int fd = *(const int *)arg;
    _exit(128 + wait_signal(fd));
}

static qn_log_level level_of(const char *name)
{
    static const char *const names[] = { "debug", "info", "warn", "error" };
    for (int i = 0; i < 4; i++)
        if (!strcmp(name, names[i]))
            return (qn_log_level)i;
    return QN_LOG_INFO;
}

static qn_status start(qn_server *s, const qn_options *o, qn_error *err)
{
    const char *const *required;
    const char *dir = qn_opt_text(o, "models");
    size_t n = qn_opt_list(o, "require", &required);
    size_t connections = (size_t)qn_opt_int(o, "max-connections");
    if (!dir)
        return qn_fail(err, QN_INVALID,
                       "--models DIR is needed; see quern serve --help");
    raise_file_limit(&s->log, connections);
    s->o = (qn_server_options){
        .max_body = qn_opt_size(o, "max-body"),
        .max_depth = (unsigned)qn_opt_int(o, "max-depth"),
        .max_wait_ms = qn_opt_int(o, "max-wait"),
        .deadline_ms = qn_opt_int(o, "deadline"),
        .nan_tokens = !strcmp(qn_opt_text(o, "nan"), "token"),
        .budget = qn_opt_size(o, "memory-budget")
    };
    qn_status st = qn_runtime_new(
        &(qn_runtime_options){ .memory_budget = s->o.budget,
                               .threads = (int)qn_opt_int(o, "threads"),
                               .max_waiters = (size_t)qn_opt_int(o, "queue"),
                               .log = s->log },
        &s->runtime, err);
    if (st != QN_OK)
        return st;
    s->pool = qn_runtime_pool(s->runtime);
    s->ledger = qn_runtime_ledger(s->runtime);
    st = qn_watch_new(connections, qn_opt_bool(o, "half-close-cancels"),
                      &s->watch, err);
    if (st == QN_OK)
        st = qn_models_new(dir, s->runtime, required, n, &s->log, &s->models,
                           err);
    if (st != QN_OK)
        return st;
    return qn_http_start(
        &(qn_http_options){
            .host = qn_opt_text(o, "host"),
            .port = (uint16_t)qn_opt_int(o, "port"),
            .threads = (unsigned)qn_opt_int(o, "http-threads"),
            .connection_memory = qn_opt_size(o, "connection-memory"),
            .max_connections = (unsigned)connections,
            .idle_timeout_s =
                (unsigned)((qn_opt_int(o, "idle-timeout") + 999) / 1000),
            .max_body = s->o.max_body,
            .pool = s->pool,
            .ledger = s->ledger,
            .routes = qn_server_routes,
            .n_routes = qn_server_n_routes(),
            .arg = s,
            .completed = on_completed,
            .log = on_listener_log },
        &s->http, err);
}

static void announce(qn_server *s, const qn_options *o)
{
    qn_ledger_state ledger;
    const char *host = qn_opt_text(o, "host");
    bool v6 = strchr(host, ':') != NULL;
    qn_ledger_read(s->ledger, &ledger);
    qn_logf(&s->log, QN_LOG_INFO,
            "quern %s on http://%s%s%s:%u, %zu bytes of memory, %d threads",
            QUERN_VERSION, v6 ? "[" : "", host, v6 ? "]" : "",
            qn_http_port(s->http), ledger.budget,
            qn_runtime_threads(s->runtime));
}

/* True: everything was answered. */
static bool drain(qn_server *s, const qn_options *o, int signals)
{
    pthread_t thread;
    pthread_attr_t attr;
    static int fd; /* outlives this call: the thread is never joined */
    fd = signals;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attr, second_signal, &fd))
        qn_logf(&s->log, QN_LOG_WARN, "no thread for a second signal");
    pthread_attr_destroy(&attr);
    uint64_t limit = (uint64_t)qn_opt_int(o, "drain-timeout") * 1000000u;
    bool all = qn_http_drain(s->http, qn_clock_ns() + limit);
    qn_logf(&s->log, all ? QN_LOG_INFO : QN_LOG_ERROR,
            all ? "all requests are answered"
                : "requests are left after the drain timeout");
    return all;
}

static void stop(qn_server *s)
{
    qn_http_stop(s->http);
    qn_models_free(s->models);
    qn_watch_free(s->watch);
    if (s->runtime)
        qn_runtime_free(s->runtime);
}

int qn_cmd_serve(const qn_options *options)
{
    qn_error err = { 0 };
    qn_server *s = qn_calloc(1, sizeof *s);
    if (!s)
        return 1;
    int signals = open_signals();
    s->started_ns = qn_clock_ns();
    s->log = qn_server_log(level_of(qn_opt_text(options, "log-level")));
    qn_status st = start(s, options, &err);
    if (st == QN_OK) {
        announce(s, options);
        int signal_number = wait_signal(signals);
        atomic_store(&s->draining, true);
        qn_logf(&s->log, QN_LOG_INFO, "%s: draining",
                signal_number == SIGINT ? "SIGINT" : "SIGTERM");
        if (!drain(s, options, signals))
            _exit(1); /* runs are still going: nothing can be taken apart */
    }
    stop(s);
    qn_free(s);
    return st == QN_OK ? 0 : qn_complain(&err);
}

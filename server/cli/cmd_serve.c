/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quern serve: puts the parts together, waits for a signal, takes them apart.
 *
 * The end, on SIGTERM or SIGINT: unready at once; no new connections, but those
 * that the system has accepted; every request whose last byte has come gets its
 * answer; then exit 0. A second signal ends the process at once. The signals
 * are blocked in all threads and read from a descriptor, so no handler runs in
 * the middle of anything.
 *
 * A lost card ends it in the same way, but with status 1, so that whoever
 * supervises it starts it anew; --on-device-fault cpu goes on without the card.
 */
#include "server/cli/commands.h"
#include "server/cli/devices.h"
#include "server/cli/text.h"
#include "runtime/base/clock.h"
#include "server/log.h"
#include "server/server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    LOOK_MS = 100,     /* how often the cards are looked at */
    UNREADY_MS = 1000, /* so long /readyz says that one is lost before the end */
    SIGNAL_NONE = 0    /* a card was lost */
};

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

/* Within the time, if it is not negative. */
static bool signal_within(int fd, int ms)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    return poll(&p, 1, ms) > 0;
}

/* The signal that ends the server, or SIGNAL_NONE if a card does. */
static int wait_end(qn_server *s, int fd)
{
    qn_error why = { 0 };
    while (s->devices.accels.n && !signal_within(fd, LOOK_MS)) {
        if (!qn_devices_look(s, &why) || s->devices.fall_back)
            continue;
        if (signal_within(fd, UNREADY_MS))
            break;
        qn_logf(&s->log, QN_LOG_INFO, "%s; draining", why.text);
        return SIGNAL_NONE;
    }
    return wait_signal(fd);
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

/* The cards that --device names. Only a word that makes no sense is an error:
 * what cannot be opened is a line in the log, and the cpu serves. */
static qn_status open_devices(qn_server *s, const qn_options *o, qn_error *err)
{
    qn_devices *d = &s->devices;
    qn_error why = { 0 };
    d->fall_back = !strcmp(qn_opt_text(o, "on-device-fault"), "cpu");
    qn_status st = qn_devices_open(qn_opt_text(o, "device"), &s->log,
                                   &d->accels, &why);
    if (st == QN_INVALID) {
        *err = why;
        return st;
    }
    if (st != QN_OK)
        snprintf(d->closed, sizeof d->closed, "%.500s", why.text);
    return QN_OK;
}

static qn_status start_models(qn_server *s, const qn_options *o, qn_error *err)
{
    qn_models_options m = { .dir = qn_opt_text(o, "models"),
                            .fall_back = s->devices.fall_back,
                            .log = s->log };
    if (*s->devices.closed)
        m.closed = s->devices.closed;
    m.n_required = qn_opt_list(o, "require", &m.required);
    qn_devices_session(o, &s->devices.accels, &m.session);
    return qn_models_new(&m, s->runtime, &s->models, err);
}

static qn_status start_runtime(qn_server *s, const qn_options *o, qn_error *err)
{
    qn_runtime_options r = { .memory_budget = s->o.budget,
                             .threads = (int)qn_opt_int(o, "threads"),
                             .max_waiters = (size_t)qn_opt_int(o, "queue"),
                             .log = s->log };
    qn_devices *d = &s->devices;
    qn_devices_runtime(o, &d->accels, &r);
    qn_status st = qn_runtime_new(&r, &s->runtime, err);
    if (!d->accels.n || (st != QN_NO_MEMORY && st != QN_DEVICE &&
                         st != QN_DEVICE_LOST))
        return st;
    /* they open, but there is no memory for streams and libraries */
    snprintf(d->closed, sizeof d->closed, "%.500s", err->text);
    qn_logf(&s->log, QN_LOG_WARN, "cuda is not used: %s", d->closed);
    qn_accels_close(&d->accels);
    *err = (qn_error){ 0 };
    qn_devices_runtime(o, &d->accels, &r);
    return qn_runtime_new(&r, &s->runtime, err);
}

static qn_status start(qn_server *s, const qn_options *o, qn_error *err)
{
    size_t connections = (size_t)qn_opt_int(o, "max-connections");
    if (!qn_opt_text(o, "models"))
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
    qn_status st = open_devices(s, o, err);
    if (st == QN_OK)
        st = start_runtime(s, o, err);
    if (st != QN_OK)
        return st;
    s->pool = qn_runtime_pool(s->runtime);
    s->ledger = qn_runtime_ledger(s->runtime);
    st = qn_watch_new(connections, qn_opt_bool(o, "half-close-cancels"),
                      &s->watch, err);
    if (st == QN_OK)
        st = start_models(s, o, err);
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
    qn_accels_close(&s->devices.accels);
}

int qn_cmd_serve(const qn_options *options)
{
    qn_error err = { 0 };
    qn_server *s = qn_calloc(1, sizeof *s);
    if (!s)
        return 1;
    bool lost = false;
    int signals = open_signals();
    s->started_ns = qn_clock_ns();
    s->log = qn_server_log(level_of(qn_opt_text(options, "log-level")));
    qn_status st = start(s, options, &err);
    if (st == QN_OK) {
        announce(s, options);
        int signal_number = wait_end(s, signals);
        lost = signal_number == SIGNAL_NONE;
        atomic_store(&s->draining, true);
        if (!lost)
            qn_logf(&s->log, QN_LOG_INFO, "%s: draining",
                    signal_number == SIGINT ? "SIGINT" : "SIGTERM");
        if (!drain(s, options, signals))
            _exit(1); /* runs are still going: nothing can be taken apart */
    }
    stop(s);
    qn_free(s);
    return st == QN_OK ? lost : qn_complain(&err);
}

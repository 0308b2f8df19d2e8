/* SPDX-License-Identifier: Apache-2.0 */
#include "server/models.h"

#include "runtime/base/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPORTED = 16, RETIRE_MS = 1000 };

typedef struct entry {
    const qn_repository_entry *source;
    qn_model_state state;
    bool required;
    char reason[640];
    qn_served *served;
    qn_metrics *metrics; /* shared by the versions of an id */
} entry;

struct qn_models {
    qn_models_options o;
    qn_repository repository;
    qn_runtime *runtime;
    qn_log log;
    char dir[512]; /* with a slash; cut out of reasons that clients may see */
    entry *entries; /* [repository.n] */
    qn_metrics *metrics; /* [repository.n], one an id */
    pthread_mutex_t lock; /* guards states, reasons, `served` and `look` */
    pthread_cond_t changed; /* look, stop */
    bool look;              /* a card was lost */
    qn_served *retired;     /* the loader's: gone, but in somebody's hands */
    pthread_t loader;
    bool loading; /* the thread exists */
    atomic_bool stop;
};

const char *qn_model_state_name(qn_model_state state)
{
    static const char *const names[] = { "WAITING", "LOADING", "READY",
                                         "FAILED" };
    return (unsigned)state < 4 ? names[state] : "?";
}

/* ---- loading ---- */

static void copy(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from ? from : "");
}

static void describe(qn_served *s, const qn_model_files *files)
{
    const qn_model_info *info = qn_model_get_info(files->files[0]);
    s->ir_version = info->ir_version;
    s->opset = info->opset;
    s->file_bytes = qn_model_ranks_bytes(files);
    copy(s->producer, sizeof s->producer, info->producer);
    copy(s->doc, sizeof s->doc, info->doc);
}

static qn_session_options options_of(const qn_models *m,
                                     const qn_model_config *c)
{
    qn_session_options o = m->o.session;
    o.no_reuse = c->no_reuse;
    o.no_passes = !c->passes;
    o.dynamic_bytes = c->dynamic_bytes;
    if (c->has_precision)
        o.precision = c->precision;
    if (c->has_streams)
        o.streams = c->streams;
    if (c->has_graphs)
        o.no_graphs = !c->graphs;
    return o;
}

/* On the cards that r says. */
static qn_status open_session(qn_models *m, const qn_repository_entry *e,
                              qn_served *s, qn_replica *r, qn_error *err)
{
    qn_session_options options = options_of(m, &e->config);
    qn_model_files files;
    qn_graph *graph = NULL;
    qn_status st = qn_model_open_ranks(e->files, e->n_files, &files, &graph,
                                       err);
    if (st != QN_OK)
        return st;
    describe(s, &files);
    st = qn_model_ranks_digest(&files, s->sha256, err);
    if (st != QN_OK) {
        qn_graph_free(graph);
        qn_model_close_ranks(&files);
        return st;
    }
    memcpy(options.accels, r->accels, sizeof options.accels);
    options.n_accels = r->n_accels;
    s->precision = options.precision;
    st = qn_session_new(m->runtime, graph, &options, &r->session, err);
    qn_model_close_ranks(&files);
    return st;
}

static qn_status open_replicas(qn_models *m, const qn_repository_entry *e,
                               qn_served *s, qn_error *err)
{
    uint32_t on[QN_ACCEL_MAX] = { 0 }, n;
    uint32_t ranks = e->config.n_ranks ? e->config.n_ranks : 1;
    qn_status st = qn_replicas_place(m->runtime, &e->config, m->o.closed,
                                     m->o.fall_back, on, &n, err);
    for (uint32_t i = 0; st == QN_OK && i < (n ? n : 1); i++) {
        qn_replica *r = &s->replicas[i];
        r->runtime = m->runtime;
        r->n_accels = n ? ranks : 0;
        memcpy(r->accels, on + i * ranks, ranks * sizeof *on);
        st = open_session(m, e, s, r, err);
        s->n_replicas += st == QN_OK;
    }
    s->session = s->replicas[0].session;
    return st;
}

static void free_served(qn_served *s)
{
    for (uint32_t i = 0; i < s->n_replicas; i++)
        qn_session_free(s->replicas[i].session);
    qn_free(s);
}

static void warm(qn_served *s)
{
    uint64_t run_ns = 0;
    for (uint32_t i = 0; i < s->n_replicas; i++)
        qn_warm(s->replicas[i].session, &s->open, &run_ns);
    atomic_store(&s->mean_ns, run_ns);
}

static qn_status load(qn_models *m, entry *e, qn_served **out, qn_error *err)
{
    uint64_t start = qn_clock_ns();
    const qn_repository_entry *source = e->source;
    *out = NULL;
    qn_served *s = qn_calloc(1, sizeof *s);
    if (!s)
        return qn_fail(err, QN_NO_MEMORY, "out of memory");
    s->id = source->id;
    s->metrics = e->metrics;
    snprintf(s->version, sizeof s->version, "%llu",
             (unsigned long long)source->version);
    /* <folder>/<version>/model.onnx, or <folder>/model.onnx */
    copy(s->folder, sizeof s->folder, source->path);
    char *slash = strrchr(s->folder, '/');
    if (slash)
        *slash = 0;
    slash = strrchr(s->folder, '/');
    if (slash && !strcmp(slash + 1, s->version))
        *slash = 0;
    qn_status st = open_replicas(m, source, s, err);
    if (st != QN_OK) {
        free_served(s);
        return st;
    }
    qn_session_static(s->session, &s->memory);
    warm(s);
    s->load_ms = (double)(qn_clock_ns() - start) * 1e-6;
    *out = s;
    return QN_OK;
}

/* Clients learn what is wrong, not where the repository lies. */
static void cut_dir(const qn_models *m, char *text)
{
    size_t len = strlen(m->dir);
    for (char *p = strstr(text, m->dir); len && p; p = strstr(p, m->dir))
        memmove(p, p + len, strlen(p + len) + 1);
}

static void set_state(qn_models *m, entry *e, qn_model_state state,
                      const char *reason, qn_served *served)
{
    pthread_mutex_lock(&m->lock);
    e->state = state;
    snprintf(e->reason, sizeof e->reason, "%s", reason);
    cut_dir(m, e->reason);
    e->served = served;
    pthread_mutex_unlock(&m->lock);
}

/* What runs where, and what it costs that not all does. */
static void report_places(const qn_models *m, const qn_served *s)
{
    qn_cpu_operator rows[REPORTED];
    qn_plan *plan;
    qn_plan_report p = { 0 };
    char text[512] = "", place[QN_REPLICA_TEXT];
    size_t len = 0;
    uint32_t n = qn_session_on_cpu(s->session, rows, REPORTED);
    if (!s->replicas[0].n_accels)
        return;
    for (uint32_t i = 0; i < n && len < sizeof text; i++) {
        int w = snprintf(text + len, sizeof text - len, "%s%s x %u",
                         i ? ", " : "; on the cpu: ", rows[i].op, rows[i].count);
        len += w > 0 ? (size_t)w : 0;
    }
    if (qn_session_plans(s->session, &plan, 1)) {
        qn_plan_read(plan, &p);
        qn_plan_release(plan);
    }
    for (uint32_t i = 0; i < s->n_replicas; i++)
        qn_logf(&m->log, QN_LOG_INFO,
                "model %s version %s on %s: %u of %u kernels%s; a request copies "
                "%zu bytes in %u pieces; %zu bytes static there",
                s->id, s->version, qn_replica_text(&s->replicas[i], place),
                s->memory.accel_kernels, s->memory.kernels, text, p.copy_bytes,
                p.copies, s->memory.accel_bytes);
}

/* Cards can be lost while a model is loaded onto them: then without those. */
static qn_status load_somewhere(qn_models *m, entry *e, qn_served **out,
                                qn_error *err)
{
    qn_status st = load(m, e, out, err);
    for (int i = 0; i < QN_ACCEL_MAX && st == QN_DEVICE_LOST; i++)
        st = load(m, e, out, err);
    return st;
}

static void load_one(qn_models *m, entry *e, const char *reason)
{
    qn_error err = { 0 };
    qn_served *served;
    const char *id = e->source->id;
    unsigned long long version = e->source->version;
    set_state(m, e, QN_MODEL_LOADING, reason, NULL);
    if (load_somewhere(m, e, &served, &err) != QN_OK) {
        set_state(m, e, QN_MODEL_FAILED, err.text, NULL);
        qn_logf(&m->log, QN_LOG_ERROR, "model %s version %llu failed: %s", id,
                version, err.text);
        return;
    }
    const qn_static_report *r = &served->memory;
    qn_logf(&m->log, QN_LOG_INFO,
            "model %s version %llu ready in %.0f ms: %zu bytes static (%zu "
            "packed, %zu plain), %u kernels, %u nodes folded, %u fused, %u "
            "constants dropped",
            id, version, served->load_ms, r->bytes, r->packed, r->plain,
            r->kernels, r->folded_nodes, r->fused_nodes, r->dropped_constants);
    report_places(m, served);
    set_state(m, e, QN_MODEL_READY, "", served);
}

/* ---- models whose cards are lost ---- */

static void free_retired(qn_models *m)
{
    for (qn_served **at = &m->retired; *at;) {
        qn_served *s = *at;
        if (atomic_load(&s->refs)) {
            at = &s->next;
        } else {
            *at = s->next;
            free_served(s);
        }
    }
}

/* Its memory first: who has it gets an answer soon, but a slow client may take
 * long to read that. */
static void replace(qn_models *m, entry *e)
{
    const struct timespec pause = { .tv_nsec = 1000000 };
    qn_served *old = e->served;
    set_state(m, e, QN_MODEL_LOADING, "its device is lost", NULL);
    old->next = m->retired;
    m->retired = old;
    for (int i = 0; i < RETIRE_MS && atomic_load(&old->refs); i++)
        nanosleep(&pause, NULL);
    free_retired(m);
    load_one(m, e, "its device is lost");
}

static void replace_lost(qn_models *m)
{
    for (size_t i = 0; i < m->repository.n && !atomic_load(&m->stop); i++)
        if (m->entries[i].served && qn_served_lost(m->entries[i].served, NULL))
            replace(m, &m->entries[i]);
}

/* Sleeps until there may be something to do. False: the end. */
static bool wait_for_look(qn_models *m, bool *look)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec++;
    pthread_mutex_lock(&m->lock);
    if (!m->look && !atomic_load(&m->stop)) {
        if (m->retired)
            pthread_cond_timedwait(&m->changed, &m->lock, &end);
        else
            pthread_cond_wait(&m->changed, &m->lock);
    }
    *look = m->look;
    m->look = false;
    pthread_mutex_unlock(&m->lock);
    return !atomic_load(&m->stop);
}

static void serve_looks(qn_models *m)
{
    bool look;
    while (wait_for_look(m, &look)) {
        free_retired(m);
        if (look)
            replace_lost(m);
    }
}

static void *loader(void *arg)
{
    qn_models *m = arg;
    for (size_t i = 0; i < m->repository.n && !atomic_load(&m->stop); i++) {
        entry *e = &m->entries[i];
        if (e->state == QN_MODEL_WAITING)
            load_one(m, e, "");
    }
    if (m->o.fall_back && qn_runtime_accel(m->runtime, 0))
        serve_looks(m);
    return NULL;
}

void qn_models_look(qn_models *models)
{
    pthread_mutex_lock(&models->lock);
    models->look = true;
    pthread_cond_signal(&models->changed);
    pthread_mutex_unlock(&models->lock);
}

/* ---- the registry ---- */

static void fill_entries(qn_models *m)
{
    const qn_repository *r = &m->repository;
    for (size_t i = 0; i < r->n; i++) {
        entry *e = &m->entries[i];
        e->source = &r->entries[i];
        bool same = i && !strcmp(r->entries[i - 1].id, r->entries[i].id);
        e->metrics = same ? m->entries[i - 1].metrics : &m->metrics[i];
        e->required = r->entries[i].config.required;
        if (r->entries[i].state == QN_ENTRY_BROKEN) {
            e->state = QN_MODEL_FAILED;
            snprintf(e->reason, sizeof e->reason, "%s",
                     r->entries[i].error.text);
            cut_dir(m, e->reason);
            qn_logf(&m->log, QN_LOG_ERROR, "model %s failed: %s",
                    r->entries[i].id, e->reason);
        }
    }
}

static qn_status mark_required(qn_models *m, const char *const *required,
                               size_t n, qn_error *err)
{
    for (size_t k = 0; k < n; k++) {
        bool found = false;
        for (size_t i = 0; i < m->repository.n; i++)
            if (!strcmp(m->repository.entries[i].id, required[k]))
                m->entries[i].required = found = true;
        if (!found)
            return qn_fail(err, QN_NOT_FOUND,
                           "required model '%s' is not in the repository",
                           required[k]);
    }
    return QN_OK;
}

qn_status qn_models_new(const qn_models_options *options, qn_runtime *runtime,
                        qn_models **out, qn_error *err)
{
    const char *dir = options->dir;
    *out = NULL;
    qn_models *m = qn_calloc(1, sizeof *m);
    if (!m)
        return qn_fail(err, QN_NO_MEMORY, "out of memory");
    m->o = *options;
    m->runtime = runtime;
    m->log = options->log;
    size_t len = strlen(dir);
    snprintf(m->dir, sizeof m->dir, "%s%s", dir,
             len && dir[len - 1] == '/' ? "" : "/");
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->changed, NULL);
    qn_status st = qn_repository_scan(dir, &m->repository, err);
    if (st == QN_OK) {
        m->entries = qn_calloc(m->repository.n + 1, sizeof *m->entries);
        m->metrics = qn_calloc(m->repository.n + 1, sizeof *m->metrics);
        if (!m->entries || !m->metrics)
            st = qn_fail(err, QN_NO_MEMORY, "out of memory");
    }
    if (st == QN_OK) {
        fill_entries(m);
        st = mark_required(m, options->required, options->n_required, err);
    }
    if (st == QN_OK && pthread_create(&m->loader, NULL, loader, m))
        st = qn_fail(err, QN_IO, "the loader thread could not start");
    if (st != QN_OK) {
        qn_models_free(m);
        return st;
    }
    m->loading = true;
    *out = m;
    return QN_OK;
}

void qn_models_free(qn_models *models)
{
    if (!models)
        return;
    const struct timespec pause = { .tv_nsec = 1000000 };
    atomic_store(&models->stop, true);
    pthread_mutex_lock(&models->lock);
    pthread_cond_signal(&models->changed);
    pthread_mutex_unlock(&models->lock);
    if (models->loading)
        pthread_join(models->loader, NULL);
    for (size_t i = 0; i < models->repository.n && models->entries; i++) {
        qn_served *s = models->entries[i].served;
        if (!s)
            continue;
        while (atomic_load(&s->refs))
            nanosleep(&pause, NULL);
        free_served(s);
    }
    while (models->retired) {
        free_retired(models);
        nanosleep(&pause, NULL);
    }
    qn_free(models->entries);
    qn_free(models->metrics);
    qn_repository_release(&models->repository);
    pthread_cond_destroy(&models->changed);
    pthread_mutex_destroy(&models->lock);
    qn_free(models);
}

static qn_status absent(const qn_models *m, const char *id, const char *version,
                        qn_error *err)
{
    for (size_t i = 0; i < m->repository.n; i++)
        if (!strcmp(m->repository.entries[i].id, id))
            return qn_fail(err, QN_NOT_FOUND, "model '%s' has no version '%s'",
                           id, version);
    return qn_fail(err, QN_NOT_FOUND,
                   "no model '%s'; GET /v1/models lists them", id);
}

qn_status qn_models_get(qn_models *models, const char *id, const char *version,
                        qn_served **out, qn_error *err)
{
    const entry *last = NULL;
    qn_served *found = NULL;
    qn_status st = QN_OK;
    char text[24];
    bool any = !version || !*version;
    *out = NULL;
    pthread_mutex_lock(&models->lock);
    for (size_t i = 0; i < models->repository.n; i++) {
        const entry *e = &models->entries[i];
        if (strcmp(e->source->id, id))
            continue;
        snprintf(text, sizeof text, "%llu",
                 (unsigned long long)e->source->version);
        if (!any && strcmp(text, version))
            continue;
        last = e;
        if (e->served)
            found = e->served;
    }
    if (found)
        atomic_fetch_add(&found->refs, 1);
    else if (last && last->state == QN_MODEL_FAILED)
        st = qn_fail(err, QN_NOT_READY, "model '%s' failed to load: %s", id,
                     last->reason);
    else if (last)
        st = qn_fail(err, QN_NOT_READY, "model '%s' is still loading", id);
    pthread_mutex_unlock(&models->lock);
    *out = found;
    return found || st != QN_OK ? st
                                : absent(models, id, any ? "" : version, err);
}

void qn_served_release(qn_served *served)
{
    if (served)
        atomic_fetch_sub(&served->refs, 1);
}

bool qn_served_lost(const qn_served *served, qn_error *err)
{
    uint32_t i = 0;
    while (i < served->n_replicas && qn_replica_lost(&served->replicas[i], err))
        i++;
    return i == served->n_replicas;
}

bool qn_models_ready(qn_models *models, char *why, size_t size)
{
    bool ready = true;
    pthread_mutex_lock(&models->lock);
    for (size_t i = 0; i < models->repository.n && ready; i++) {
        const entry *e = &models->entries[i];
        bool failed = e->state == QN_MODEL_FAILED;
        qn_error lost = { 0 };
        ready = e->state == QN_MODEL_READY || (failed && !e->required);
        if (ready && e->served && qn_served_lost(e->served, &lost)) {
            ready = false;
            snprintf(why, size, "model %s: %s", e->source->id, lost.text);
        } else if (!ready)
            snprintf(why, size, "model %s: %s%s%s", e->source->id,
                     failed ? "failed" : "loading", *e->reason ? ": " : "",
                     e->reason);
    }
    pthread_mutex_unlock(&models->lock);
    return ready;
}

void qn_models_each(qn_models *models,
                    void (*fn)(const qn_model_row *row, void *arg), void *arg)
{
    pthread_mutex_lock(&models->lock);
    for (size_t i = 0; i < models->repository.n; i++) {
        const entry *e = &models->entries[i];
        fn(&(qn_model_row){ .id = e->source->id,
                            .version = e->source->version,
                            .state = e->state,
                            .reason = e->reason,
                            .latest = e->source->latest,
                            .required = e->required,
                            .served = e->served,
                            .metrics = e->metrics },
           arg);
    }
    pthread_mutex_unlock(&models->lock);
}

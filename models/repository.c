/* SPDX-License-Identifier: Apache-2.0 */
#include "models/repository.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_CONFIG = 1 << 20, FIRST_CAP = 16 };

bool qn_model_id_valid(const char *id)
{
    size_t n = strlen(id);

    return n >= 1 && n <= QN_MODEL_ID_MAX && id[0] != '.' &&
           strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                      "0123456789._-") == n;
}

/* ---- small file helpers ---- */

static qn_status no_memory(qn_error *err)
{
    return qn_fail(err, QN_NO_MEMORY, "out of memory to list models");
}

static char *join(qn_region *region, const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    char *path = qn_region_alloc(region, n + m + 2, 1);

    if (!path)
        return NULL;
    memcpy(path, a, n);
    path[n] = '/';
    memcpy(path + n + 1, b, m);
    return path;
}

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

typedef struct names {
    char **list;
    size_t n, cap;
} names;

static int by_name(const void *a, const void *b)
{
    char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

static qn_status add_name(qn_region *region, names *to, const char *name,
                          qn_error *err)
{
    if (to->n == to->cap) {
        size_t cap = to->cap ? 2 * to->cap : FIRST_CAP;
        char **list = qn_region_alloc(region, cap, sizeof *list);
        if (!list)
            return no_memory(err);
        if (to->n)
            memcpy(list, to->list, to->n * sizeof *list);
        to->list = list;
        to->cap = cap;
    }
    to->list[to->n] = qn_region_strndup(region, name, strlen(name));
    return to->list[to->n++] ? QN_OK : no_memory(err);
}

/* Folders in a folder, sorted; names that start with '.' are passed over. */
static qn_status list_folders(qn_region *region, const char *path, names *out,
                              qn_error *err)
{
    const struct dirent *e;
    qn_status st = QN_OK;
    DIR *dir = opendir(path);

    memset(out, 0, sizeof *out);
    if (!dir)
        return qn_fail(err, errno == ENOENT ? QN_NOT_FOUND : QN_IO,
                       "%.400s: %s", path, strerror(errno));
    while (st == QN_OK && (e = readdir(dir))) {
        if (e->d_name[0] == '.')
            continue;
        char *full = join(region, path, e->d_name);
        if (!full)
            st = no_memory(err);
        else if (is_folder(full))
            st = add_name(region, out, e->d_name, err);
    }
    closedir(dir);
    if (st == QN_OK && out->n)
        qsort(out->list, out->n, sizeof *out->list, by_name);
    return st;
}

/* ---- entries ---- */

typedef struct scan {
    qn_repository *out;
    size_t cap;
    qn_region scratch;
    qn_error *err;
} scan;

static qn_status add_entry(scan *s, const qn_repository_entry *entry)
{
    qn_repository *r = s->out;

    if (r->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : FIRST_CAP;
        qn_repository_entry *list = qn_region_alloc(&r->region, cap,
                                                    sizeof *list);
        if (!list)
            return no_memory(s->err);
        if (r->n)
            memcpy(list, r->entries, r->n * sizeof *list);
        r->entries = list;
        s->cap = cap;
    }
    r->entries[r->n++] = *entry;
    return QN_OK;
}

/* One of the model's faults, or ours, which ends the scan. */
static qn_status add_broken(scan *s, qn_repository_entry *entry)
{
    if (entry->error.status == QN_NO_MEMORY)
        return no_memory(s->err);
    entry->state = QN_ENTRY_BROKEN;
    return add_entry(s, entry);
}

static qn_status read_config(qn_region *region, const char *path,
                             qn_model_config *out, qn_error *err)
{
    qn_status st;

    *out = qn_model_config_default();
    FILE *f = fopen(path, "rbe");
    if (!f && errno == ENOENT)
        return QN_OK;
    if (!f)
        return qn_fail(err, QN_IO, "config.json: %s", strerror(errno));
    char *text = qn_calloc(1, MAX_CONFIG + 1);
    size_t n = text ? fread(text, 1, MAX_CONFIG + 1, f) : 0;
    if (!text)
        st = qn_fail(err, QN_NO_MEMORY, "out of memory for config.json");
    else if (ferror(f))
        st = qn_fail(err, QN_IO, "cannot be read");
    else if (n > MAX_CONFIG)
        st = qn_fail(err, QN_TOO_LARGE, "more than %d bytes", MAX_CONFIG);
    else
        st = qn_model_config_parse(text, n, region, out, err);
    qn_free(text);
    fclose(f);
    if (st != QN_OK)
        qn_error_prefix(err, "config.json");
    return st;
}

/* A version's number; 0 if the name is none. No leading zeros: "01" and "1"
 * would be two folders of one version. */
static uint64_t version_of(const char *name)
{
    uint64_t v = 0;

    if (*name == '0')
        return 0;
    for (; *name; name++) {
        unsigned digit = (unsigned)(unsigned char)*name - '0';
        if (digit > 9 || __builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, digit, &v))
            return 0;
    }
    return v <= INT64_MAX ? v : 0;
}

typedef struct versions {
    uint64_t *list;
    size_t n;
    bool short_form; /* <id>/model.onnx is there */
    const char *folder;
    const char *const *names; /* of the files of a version: model.onnx */
    uint32_t n_names;
} versions;

static int by_number(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static const char *const one_file[] = { "model.onnx" };

static qn_status find_versions(scan *s, const char *folder,
                               const qn_model_config *config, versions *out)
{
    names folders;
    qn_status st = list_folders(&s->scratch, folder, &folders, s->err);

    memset(out, 0, sizeof *out);
    out->folder = folder;
    out->names = config->n_ranks ? config->ranks : one_file;
    out->n_names = config->n_ranks ? config->n_ranks : 1;
    if (st != QN_OK)
        return st;
    out->list = qn_region_alloc(&s->scratch, folders.n + 1, sizeof *out->list);
    char *direct = join(&s->scratch, folder, out->names[0]);
    if (!out->list || !direct)
        return no_memory(s->err);
    for (size_t i = 0; i < folders.n; i++) {
        uint64_t v = version_of(folders.list[i]);
        if (v)
            out->list[out->n++] = v;
    }
    qsort(out->list, out->n, sizeof *out->list, by_number);
    out->short_form = is_file(direct);
    if (out->short_form && (!out->n || out->list[0] != 1)) {
        memmove(out->list + 1, out->list, out->n * sizeof *out->list);
        out->list[0] = 1;
        out->n++;
    }
    return QN_OK;
}

static bool has_version(const versions *v, uint64_t version)
{
    return v->n && bsearch(&version, v->list, v->n, sizeof version, by_number);
}

static qn_status list_files(scan *s, const char *folder, const versions *v,
                            qn_repository_entry *entry)
{
    qn_region *region = &s->out->region;
    const char **files = qn_region_alloc(region, v->n_names, sizeof *files);

    for (uint32_t i = 0; files && i < v->n_names; i++) {
        files[i] = join(region, folder, v->names[i]);
        if (!files[i])
            files = NULL;
    }
    if (!files)
        return QN_NO_MEMORY;
    entry->files = files;
    entry->n_files = v->n_names;
    entry->path = files[0];
    return QN_OK;
}

static qn_status add_version(scan *s, const versions *v,
                             qn_repository_entry *entry, uint64_t version)
{
    qn_region *region = &s->out->region;
    char number[24];

    snprintf(number, sizeof number, "%llu", (unsigned long long)version);
    entry->version = version;
    entry->state = QN_ENTRY_FOUND;
    entry->latest = v->n && version == v->list[v->n - 1];
    const char *folder = join(region, v->folder, number);
    if (!folder || list_files(s, folder, v, entry) != QN_OK)
        return no_memory(s->err);
    if (version == 1 && v->short_form) {
        if (is_file(entry->path)) {
            (void)qn_fail(&entry->error, QN_INVALID, "version 1 is there "
                          "twice: %.80s and 1/%.80s", v->names[0], v->names[0]);
            return add_broken(s, entry);
        }
        if (list_files(s, v->folder, v, entry) != QN_OK)
            return no_memory(s->err);
    }
    if (!has_version(v, version)) {
        (void)qn_fail(&entry->error, QN_NOT_FOUND, "config.json asks for "
                      "version %s, which is not there", number);
        return add_broken(s, entry);
    }
    for (uint32_t i = 0; i < entry->n_files; i++)
        if (!is_file(entry->files[i])) {
            (void)qn_fail(&entry->error, QN_NOT_FOUND, "%s/%.80s is not there",
                          number, v->names[i]);
            return add_broken(s, entry);
        }
    return add_entry(s, entry);
}

static qn_status add_versions(scan *s, const versions *v,
                              const qn_repository_entry *model)
{
    const qn_model_config *c = &model->config;
    size_t n = c->versions == QN_VERSIONS_LIST ? c->n_versions : v->n;
    size_t from = c->versions == QN_VERSIONS_LATEST ? n - 1 : 0;
    qn_status st = QN_OK;

    for (size_t i = from; i < n && st == QN_OK; i++) {
        qn_repository_entry entry = *model;
        st = add_version(s, v, &entry, c->versions == QN_VERSIONS_LIST
                                           ? c->version_list[i] : v->list[i]);
    }
    return st;
}

static qn_status scan_model(scan *s, const char *dir, const char *id)
{
    qn_region *region = &s->out->region;
    qn_repository_entry model = { .path = "",
                                  .config = qn_model_config_default() };
    versions v;

    model.id = qn_region_strndup(region, id, strlen(id));
    char *folder = join(region, dir, id);
    char *config = folder ? join(&s->scratch, folder, "config.json") : NULL;
    if (!model.id || !config)
        return no_memory(s->err);
    if (!qn_model_id_valid(id)) {
        (void)qn_fail(&model.error, QN_INVALID, "the folder's name is no model "
                      "id: 1 to %d of A-Z a-z 0-9 . _ - expected",
                      QN_MODEL_ID_MAX);
        return add_broken(s, &model);
    }
    if (read_config(region, config, &model.config, &model.error) != QN_OK)
        return add_broken(s, &model);
    qn_status st = find_versions(s, folder, &model.config, &v);
    if (st == QN_NO_MEMORY)
        return st;
    if (st != QN_OK) {
        (void)qn_fail(&model.error, st, "the folder cannot be read");
        return add_broken(s, &model);
    }
    if (!v.n) {
        (void)qn_fail(&model.error, QN_NOT_FOUND, "no version: %s/1/%.80s "
                      "expected", id, v.names[0]);
        return add_broken(s, &model);
    }
    return add_versions(s, &v, &model);
}

/* ---- scans ---- */

static qn_status finish(scan *s, qn_status st)
{
    qn_region_release(&s->scratch);
    if (st != QN_OK)
        qn_repository_release(s->out);
    return st;
}

qn_status qn_repository_scan(const char *dir, qn_repository *out, qn_error *err)
{
    scan s = { .out = out, .err = err };
    names ids;

    memset(out, 0, sizeof *out);
    qn_status st = list_folders(&s.scratch, dir, &ids, err);
    for (size_t i = 0; st == QN_OK && i < ids.n; i++)
        st = scan_model(&s, dir, ids.list[i]);
    return finish(&s, st);
}

qn_status qn_repository_scan_one(const char *dir, const char *id,
                                 qn_repository *out, qn_error *err)
{
    scan s = { .out = out, .err = err };
    qn_status st = QN_OK;

    memset(out, 0, sizeof *out);
    if (!qn_model_id_valid(id))
        return qn_fail(err, QN_NOT_FOUND, "no model '%.128s': not a model id",
                       id);
    char *folder = join(&s.scratch, dir, id);
    if (!folder)
        st = no_memory(err);
    else if (!is_folder(folder))
        st = qn_fail(err, QN_NOT_FOUND, "no model '%s'", id);
    if (st == QN_OK)
        st = scan_model(&s, dir, id);
    return finish(&s, st);
}

void qn_repository_release(qn_repository *repository)
{
    qn_region_release(&repository->region);
    memset(repository, 0, sizeof *repository);
}

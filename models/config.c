/* SPDX-License-Identifier: Apache-2.0 */
/* config.json of a model: one row per key. */
#include "models/repository.h"

#include "runtime/base/checked.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KEY = 64, MAX_VERSIONS = 10000, MAX_NAME = 255 };

typedef qn_status (*reader)(const char *key, const json_t *value,
                            qn_region *region, qn_model_config *out,
                            qn_error *err);

static const char *kind_of(const json_t *v)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object",   [JSON_ARRAY] = "a list",
        [JSON_STRING] = "a text",      [JSON_INTEGER] = "an integer",
        [JSON_REAL] = "a real number", [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",        [JSON_NULL] = "null",
    };
    return names[json_typeof(v)];
}

static qn_status wrong_type(const char *key, const char *want, const json_t *v,
                            qn_error *err)
{
    qn_status st = qn_fail(err, QN_TYPE, "\"%s\" is %s, %s expected", key,
                           kind_of(v), want);
    qn_error_where(err, NULL, want, kind_of(v));
    return st;
}

static qn_status read_bool(const char *key, const json_t *v, bool *out,
                           qn_error *err)
{
    if (!json_is_boolean(v))
        return wrong_type(key, "true or false", v, err);
    *out = json_is_true(v);
    return QN_OK;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static qn_status read_versions(const char *key, const json_t *v,
                               qn_region *region, qn_model_config *out,
                               qn_error *err)
{
    const char *want = "\"latest\", \"all\" or a list of numbers";
    size_t n = json_array_size(v), kept = 0;

    if (json_is_string(v)) {
        const char *text = json_string_value(v);
        if (strcmp(text, "latest") != 0 && strcmp(text, "all") != 0)
            return qn_fail(err, QN_INVALID, "\"%s\" is \"%.40s\", %s expected",
                           key, text, want);
        out->versions = text[0] == 'l' ? QN_VERSIONS_LATEST : QN_VERSIONS_ALL;
        return QN_OK;
    }
    if (!json_is_array(v))
        return wrong_type(key, want, v, err);
    if (n == 0 || n > MAX_VERSIONS)
        return qn_fail(err, QN_RANGE, "\"%s\" lists %zu versions, 1 to %d "
                       "expected", key, n, MAX_VERSIONS);
    uint64_t *list = qn_region_alloc(region, n, sizeof *list);
    if (!list)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for %zu versions", n);
    for (size_t i = 0; i < n; i++) {
        const json_t *e = json_array_get(v, i);
        if (!json_is_integer(e))
            return wrong_type(key, want, e, err);
        if (json_integer_value(e) < 1)
            return qn_fail(err, QN_RANGE, "\"%s\" lists version %lld; versions "
                           "start at 1", key, (long long)json_integer_value(e));
        list[i] = (uint64_t)json_integer_value(e);
    }
    qsort(list, n, sizeof *list, by_number);
    for (size_t i = 0; i < n; i++)
        if (!i || list[i] != list[kept - 1])
            list[kept++] = list[i];
    out->versions = QN_VERSIONS_LIST;
    out->version_list = list;
    out->n_versions = kept;
    return QN_OK;
}

static qn_status read_required(const char *key, const json_t *v,
                               qn_region *region, qn_model_config *out,
                               qn_error *err)
{
    (void)region;
    return read_bool(key, v, &out->required, err);
}

static qn_status read_no_reuse(const char *key, const json_t *v,
                               qn_region *region, qn_model_config *out,
                               qn_error *err)
{
    (void)region;
    return read_bool(key, v, &out->no_reuse, err);
}

static qn_status read_passes(const char *key, const json_t *v,
                             qn_region *region, qn_model_config *out,
                             qn_error *err)
{
    (void)region;
    return read_bool(key, v, &out->passes, err);
}

/* "16M": digits and at most one suffix, a power of 1024. */
static bool parse_bytes(const char *s, size_t *out)
{
    static const char suffixes[] = "KMG";
    size_t v = 0, factor = 1;

    if (*s < '0' || *s > '9')
        return false;
    for (; *s >= '0' && *s <= '9'; s++)
        if (!qn_mul_size(v, 10, &v) || !qn_add_size(v, (size_t)(*s - '0'), &v))
            return false;
    if (*s) {
        const char *at = strchr(suffixes, *s);
        if (!at || s[1])
            return false;
        factor = (size_t)1 << (10 * (at - suffixes + 1));
    }
    return qn_mul_size(v, factor, out);
}

static qn_status read_dynamic_bytes(const char *key, const json_t *v,
                                    qn_region *region, qn_model_config *out,
                                    qn_error *err)
{
    (void)region;
    if (json_is_integer(v) && json_integer_value(v) >= 0) {
        out->dynamic_bytes = (size_t)json_integer_value(v);
        return QN_OK;
    }
    if (json_is_string(v)) {
        if (parse_bytes(json_string_value(v), &out->dynamic_bytes))
            return QN_OK;
        return qn_fail(err, QN_RANGE, "\"%s\" is \"%.40s\", a number of bytes "
                       "like 1048576 or \"16M\" expected", key,
                       json_string_value(v));
    }
    if (json_is_integer(v))
        return qn_fail(err, QN_RANGE, "\"%s\" is %lld, which is negative", key,
                       (long long)json_integer_value(v));
    return wrong_type(key, "a number of bytes", v, err);
}

/* The number behind "cuda:", -1 if it is none. */
static int ordinal_of(const char *text)
{
    int v = 0;

    if (!*text || strspn(text, "0123456789") != strlen(text))
        return -1;
    for (; *text && v <= QN_CONFIG_ORDINAL; text++)
        v = 10 * v + (*text - '0');
    return v <= QN_CONFIG_ORDINAL ? v : -1;
}

static qn_status read_device(const char *key, const json_t *v,
                             qn_region *region, qn_model_config *out,
                             qn_error *err)
{
    static const char cuda[] = "cuda";
    const char *text = json_string_value(v);
    const size_t len = sizeof cuda - 1;

    (void)region;
    if (!text)
        return wrong_type(key, "a text", v, err);
    if (!strcmp(text, "cpu")) {
        out->device = QN_CONFIG_CPU;
    } else if (!strcmp(text, cuda)) {
        out->device = QN_CONFIG_CUDA;
    } else {
        out->ordinal = !strncmp(text, cuda, len) && text[len] == ':'
                           ? ordinal_of(text + len + 1) : -1;
        if (out->ordinal < 0)
            return qn_fail(err, QN_INVALID, "\"%s\" is \"%.40s\", \"cpu\", "
                           "\"cuda\" or \"cuda:N\" expected", key, text);
        out->device = QN_CONFIG_CUDA_N;
    }
    return QN_OK;
}

/* A file beside the others, not a path. */
static bool file_name(const char *name)
{
    size_t n = strlen(name);
    return n && n <= MAX_NAME && name[0] != '.' && !strchr(name, '/');
}

static qn_status read_ranks(const char *key, const json_t *v, qn_region *region,
                            qn_model_config *out, qn_error *err)
{
    const char *want = "a list of file names, one a rank";
    size_t n = json_array_size(v);

    if (!json_is_array(v))
        return wrong_type(key, want, v, err);
    if (n < 1 || n > QN_GRAPH_RANKS)
        return qn_fail(err, QN_RANGE, "\"%s\" lists %zu files, 1 to %d expected",
                       key, n, QN_GRAPH_RANKS);
    const char **names = qn_region_alloc(region, n, sizeof *names);
    if (!names)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for %zu names", n);
    for (size_t i = 0; i < n; i++) {
        const json_t *e = json_array_get(v, i);
        const char *name = json_string_value(e);
        if (!name)
            return wrong_type(key, want, e, err);
        if (!file_name(name))
            return qn_fail(err, QN_INVALID, "\"%s\" lists \"%.40s\", the name of "
                           "a file in the version's folder expected", key, name);
        for (size_t k = 0; k < i; k++)
            if (!strcmp(names[k], name))
                return qn_fail(err, QN_INVALID, "\"%s\" lists \"%.40s\" twice",
                               key, name);
        names[i] = qn_region_strndup(region, name, strlen(name));
        if (!names[i])
            return qn_fail(err, QN_NO_MEMORY, "out of memory for a name");
    }
    out->ranks = names;
    out->n_ranks = (uint32_t)n;
    return QN_OK;
}

static qn_status read_precision(const char *key, const json_t *v,
                                qn_region *region, qn_model_config *out,
                                qn_error *err)
{
    static const char *const names[] = {
        [QN_PRECISION_FP32] = "fp32", [QN_PRECISION_TF32] = "tf32",
        [QN_PRECISION_FP16] = "fp16", [QN_PRECISION_BF16] = "bf16",
    };
    const char *text = json_string_value(v);

    (void)region;
    if (!text)
        return wrong_type(key, "a text", v, err);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(text, names[i])) {
            out->has_precision = true;
            out->precision = (qn_precision)i;
            return QN_OK;
        }
    return qn_fail(err, QN_INVALID, "\"%s\" is \"%.40s\", \"fp32\", \"tf32\", "
                   "\"fp16\" or \"bf16\" expected", key, text);
}

static qn_status read_streams(const char *key, const json_t *v,
                              qn_region *region, qn_model_config *out,
                              qn_error *err)
{
    (void)region;
    if (!json_is_integer(v))
        return wrong_type(key, "an integer", v, err);
    if (json_integer_value(v) < 0 || json_integer_value(v) > QN_CONFIG_STREAMS)
        return qn_fail(err, QN_RANGE, "\"%s\" is %lld, 0 to %d expected", key,
                       (long long)json_integer_value(v), QN_CONFIG_STREAMS);
    out->has_streams = true;
    out->streams = (uint32_t)json_integer_value(v);
    return QN_OK;
}

static qn_status read_graphs(const char *key, const json_t *v,
                             qn_region *region, qn_model_config *out,
                             qn_error *err)
{
    (void)region;
    qn_status st = read_bool(key, v, &out->graphs, err);
    out->has_graphs = st == QN_OK;
    return st;
}

static qn_status refuse(const char *key, const json_t *v, qn_region *region,
                        qn_model_config *out, qn_error *err)
{
    (void)v, (void)region, (void)out;
    return qn_fail(err, QN_UNSUPPORTED, "\"%s\" is not supported yet", key);
}

static const struct {
    const char *key;
    reader read;
} keys[] = {
    { "versions", read_versions },   { "required", read_required },
    { "no_reuse", read_no_reuse },   { "dynamic_bytes", read_dynamic_bytes },
    { "passes", read_passes },       { "device", read_device },
    { "precision", read_precision }, { "streams", read_streams },
    { "graphs", read_graphs },
    { "batching", refuse },          { "state", refuse },
    { "ranks", read_ranks },         { "contiguous", refuse },
};
enum { N_KEYS = sizeof keys / sizeof keys[0] };

/* Edits between two short texts (Levenshtein), one row at a time. */
static size_t distance(const char *a, const char *b)
{
    size_t row[MAX_KEY + 1], n = strlen(b);

    for (size_t k = 0; k <= n; k++)
        row[k] = k;
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t k = 0; k < n; k++) {
            size_t best = diagonal + (a[i] != b[k]);
            diagonal = row[k + 1];
            if (row[k] + 1 < best)
                best = row[k] + 1;
            if (row[k + 1] + 1 < best)
                best = row[k + 1] + 1;
            row[k + 1] = best;
        }
    }
    return row[n];
}

static qn_status unknown_key(const char *key, qn_error *err)
{
    size_t best = SIZE_MAX, at = 0;

    if (strlen(key) > MAX_KEY)
        return qn_fail(err, QN_INVALID, "unknown key \"%.64s...\"", key);
    for (size_t i = 0; i < N_KEYS; i++) {
        size_t d = distance(key, keys[i].key);
        if (d < best) {
            best = d;
            at = i;
        }
    }
    return qn_fail(err, QN_INVALID, "unknown key \"%s\"; did you mean \"%s\"?",
                   key, keys[at].key);
}

static qn_status read_key(const char *key, const json_t *value,
                          qn_region *region, qn_model_config *out,
                          qn_error *err)
{
    for (size_t i = 0; i < N_KEYS; i++)
        if (!strcmp(key, keys[i].key))
            return keys[i].read(key, value, region, out, err);
    return unknown_key(key, err);
}

qn_model_config qn_model_config_default(void)
{
    return (qn_model_config){ .versions = QN_VERSIONS_LATEST, .passes = true };
}

qn_status qn_model_config_parse(const char *text, size_t len,
                                qn_region *region, qn_model_config *out,
                                qn_error *err)
{
    json_error_t why;
    const char *key;
    json_t *value;
    qn_model_config config = qn_model_config_default();
    qn_status st = QN_OK;

    *out = config;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return qn_fail(err, QN_FORMAT, "line %d, column %d: %s", why.line,
                       why.column, why.text);
    if (!json_is_object(root))
        st = qn_fail(err, QN_TYPE, "the file holds %s, an object expected",
                     kind_of(root));
    else
        json_object_foreach(root, key, value) {
            st = read_key(key, value, region, &config, err);
            if (st != QN_OK)
                break;
        }
    json_decref(root);
    if (st == QN_OK)
        *out = config;
    return st;
}

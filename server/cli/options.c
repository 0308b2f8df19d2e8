/* SPDX-License-Identifier: Apache-2.0 */
#include "server/cli/options.h"

#include "runtime/base/alloc.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

static bool parse_scaled(const char *text, const char *const *units,
                         const double *scale, size_t n, double otherwise,
                         int64_t *out)
{
    char *end;
    if (!isdigit((unsigned char)text[0]))
        return false;
    double v = strtod(text, &end);
    double factor = otherwise;
    if (*end) {
        size_t i = 0;
        while (i < n && strcasecmp(end, units[i]))
            i++;
        if (i == n)
            return false;
        factor = scale[i];
    }
    v *= factor;
    if (!(v < 9.2e18))
        return false;
    *out = (int64_t)v;
    return true;
}

bool qn_parse_size(const char *text, int64_t *bytes)
{
    static const char *const units[] = { "b",  "k",   "kb", "kib", "m",
                                         "mb", "mib", "g",  "gb",  "gib",
                                         "t",  "tb",  "tib" };
    static const double scale[] = { 1,       0x1p10f, 0x1p10f, 0x1p10f, 0x1p20f,
                                    0x1p20f, 0x1p20f, 0x1p30f, 0x1p30f, 0x1p30f,
                                    0x1p40f, 0x1p40f, 0x1p40f };
    return parse_scaled(text, units, scale, sizeof scale / sizeof scale[0], 1,
                        bytes);
}

bool qn_parse_duration(const char *text, int64_t *ms)
{
    static const char *const units[] = { "ms", "s", "m", "min", "h" };
    static const double scale[] = { 1, 1e3, 6e4, 6e4, 3.6e6 };
    return parse_scaled(text, units, scale, sizeof scale / sizeof scale[0], 1e3,
                        ms);
}

static bool parse_bool(const char *text, int64_t *out)
{
    static const char *const words[] = { "false", "true", "no", "yes",
                                         "off",   "on",   "0",  "1" };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (!strcasecmp(text, words[i])) {
            *out = (int64_t)(i & 1);
            return true;
        }
    return false;
}

static bool is_choice(const char *words, const char *text)
{
    size_t len = strlen(text);
    for (const char *p = words; *p; p += *p == '|') {
        size_t n = strcspn(p, "|");
        if (n == len && !memcmp(p, text, n))
            return true;
        p += n;
    }
    return false;
}

static qn_status bad_value(const qn_flag *f, const char *text,
                           const char *wanted, qn_error *err)
{
    return qn_fail(err, QN_INVALID, "--%s: '%s' is not %s", f->name, text,
                   wanted);
}

static qn_status set_int(const qn_flag *f, qn_option_value *v, const char *text,
                         qn_error *err)
{
    char *end, range[80];
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (errno || end == text || *end)
        return bad_value(f, text, "a whole number", err);
    if ((f->min || f->max) && (n < f->min || n > f->max)) {
        snprintf(range, sizeof range, "between %lld and %lld",
                 (long long)f->min, (long long)f->max);
        return bad_value(f, text, range, err);
    }
    v->number = n;
    return QN_OK;
}

static qn_status append(qn_option_value *v, const char *text, qn_error *err)
{
    char **grown = qn_realloc(v->list, v->n_list + 1, sizeof *grown);
    if (grown) {
        v->list = grown;
        v->list[v->n_list] = qn_strdup(text);
    }
    if (!grown || !v->list[v->n_list])
        return qn_fail(err, QN_NO_MEMORY, "out of memory");
    v->n_list++;
    return QN_OK;
}

static void clear(qn_option_value *v)
{
    for (size_t i = 0; i < v->n_list; i++)
        qn_free(v->list[i]);
    qn_free(v->list);
    qn_free(v->text);
    *v = (qn_option_value){ 0 };
}

/* A source of higher rank replaces; a repeated one appends to a list. */
static qn_status set(const qn_flag *f, qn_option_value *v, const char *text,
                     int rank, qn_error *err)
{
    if (rank < v->rank)
        return QN_OK;
    if (rank > v->rank || f->kind != QN_FLAG_LIST)
        clear(v);
    v->rank = rank;
    switch (f->kind) {
    case QN_FLAG_LIST:
        return append(v, text, err);
    case QN_FLAG_CHOICE:
        if (!is_choice(f->meta, text))
            return bad_value(f, text, f->meta, err);
        break;
    case QN_FLAG_TEXT:
        break;
    case QN_FLAG_BOOL:
        return parse_bool(text, &v->number)
                   ? QN_OK
                   : bad_value(f, text, "true or false", err);
    case QN_FLAG_INT:
        return set_int(f, v, text, err);
    case QN_FLAG_NUMBER: {
        char *end;
        v->fraction = strtod(text, &end);
        return end != text && !*end && v->fraction >= 0
                   ? QN_OK
                   : bad_value(f, text, "a number >= 0", err);
    }
    case QN_FLAG_SIZE:
        return qn_parse_size(text, &v->number)
                   ? QN_OK
                   : bad_value(f, text, "a size such as 512, 32K or 2G", err);
    case QN_FLAG_DURATION:
        return qn_parse_duration(text, &v->number)
                   ? QN_OK
                   : bad_value(f, text, "a time such as 500ms, 10s or 2m", err);
    }
    v->text = qn_strdup(text);
    return v->text ? QN_OK : qn_fail(err, QN_NO_MEMORY, "out of memory");
}

/* ---- suggestions ---- */

static size_t distance(const char *a, const char *b)
{
    enum { LIMIT = 64 };
    size_t n = strlen(a), m = strlen(b), row[LIMIT + 1];
    if (n > LIMIT || m > LIMIT)
        return LIMIT;
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]);
            size_t best = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = change < best ? change : best;
        }
    }
    return row[m];
}

const char *qn_nearest(const char *word, const char *const *candidates,
                       size_t n)
{
    const char *best = NULL;
    size_t least = strlen(word) / 3 + 1;
    for (size_t i = 0; i < n; i++) {
        size_t d = distance(word, candidates[i]);
        if (d <= least && (!best || d < least)) {
            best = candidates[i];
            least = d;
        }
    }
    return best;
}

static qn_status unknown(const char *what, const char *name,
                         const qn_command *command, char separator,
                         qn_error *err)
{
    char names[QN_MAX_FLAGS][48];
    const char *list[QN_MAX_FLAGS];
    for (size_t i = 0; i < command->n_flags; i++) {
        snprintf(names[i], sizeof names[i], "%s", command->flags[i].name);
        for (char *p = names[i]; *p; p++)
            *p = *p == '-' ? separator : *p;
        list[i] = names[i];
    }
    const char *near = qn_nearest(name, list, command->n_flags);
    const char *dashes = separator == '-' ? "--" : "";
    if (near)
        return qn_fail(err, QN_INVALID, "unknown %s %s%s; did you mean %s%s?",
                       what, dashes, name, dashes, near);
    return qn_fail(err, QN_INVALID, "unknown %s %s%s; see quern %s --help",
                   what, dashes, name, command->name);
}

/* ---- sources ---- */

/* Index of the flag called name[0..len); -1 if there is none. Underscores in
 * a config key stand for dashes. */
static int find(const qn_command *command, const char *name, size_t len,
                bool key)
{
    for (size_t i = 0; i < command->n_flags; i++) {
        const char *f = command->flags[i].name;
        size_t k = 0;
        while (k < len && f[k] &&
               name[k] == (key && f[k] == '-' ? '_' : f[k]))
            k++;
        if (k == len && !f[k])
            return (int)i;
    }
    return -1;
}

static qn_status from_json(const qn_flag *f, qn_option_value *v, json_t *value,
                           qn_error *err)
{
    char text[64];
    if (json_is_array(value) && f->kind == QN_FLAG_LIST) {
        size_t i;
        json_t *one;
        json_array_foreach(value, i, one)
        {
            qn_status st = json_is_string(one)
                               ? set(f, v, json_string_value(one), 1, err)
                               : qn_fail(err, QN_INVALID,
                                         "'%s': entry %zu is not a string",
                                         f->name, i);
            if (st != QN_OK)
                return st;
        }
        return QN_OK;
    }
    if (json_is_string(value))
        return set(f, v, json_string_value(value), 1, err);
    if (json_is_boolean(value))
        return set(f, v, json_is_true(value) ? "true" : "false", 1, err);
    if (json_is_integer(value))
        snprintf(text, sizeof text, "%lld",
                 (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, sizeof text, "%.9f", json_real_value(value));
    else
        return qn_fail(err, QN_INVALID,
                       "'%s': expected a string, number or boolean", f->name);
    return set(f, v, text, 1, err);
}

static qn_status read_file(qn_options *o, const char *path,
                           const qn_command *known, size_t n_known,
                           qn_error *err)
{
    json_error_t at;
    const char *key;
    json_t *value, *root = json_load_file(path, JSON_REJECT_DUPLICATES, &at);
    qn_status st = QN_OK;
    if (!root)
        return qn_fail(err, QN_FORMAT, "config file %s, line %d: %s", path,
                       at.line, at.text);
    if (!json_is_object(root))
        st = qn_fail(err, QN_FORMAT, "config file %s: not an object", path);
    json_object_foreach(root, key, value)
    {
        int i = find(o->command, key, strlen(key), true);
        bool elsewhere = false;
        for (size_t k = 0; k < n_known && i < 0; k++)
            elsewhere |= find(&known[k], key, strlen(key), true) >= 0;
        if (elsewhere)
            continue;
        st = i < 0 ? unknown("key", key, o->command, '_', err)
                   : from_json(&o->command->flags[i], &o->values[i], value, err);
        if (st != QN_OK) {
            qn_error_prefix(err, "config file %s", path);
            break;
        }
    }
    json_decref(root);
    return st;
}

static qn_status read_environment(qn_options *o, char *(*env)(const char *),
                                  qn_error *err)
{
    for (size_t i = 0; i < o->command->n_flags; i++) {
        char name[64] = "QUERN_";
        size_t n = 6;
        for (const char *p = o->command->flags[i].name;
             *p && n + 1 < sizeof name; p++)
            name[n++] = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
        name[n] = 0;
        const char *text = env(name);
        if (!text || !*text)
            continue;
        qn_status st = set(&o->command->flags[i], &o->values[i], text, 2, err);
        if (st != QN_OK) {
            qn_error_prefix(err, "%s", name);
            return st;
        }
    }
    return QN_OK;
}

/* One "--flag"; *i moves over a value that is an argument of its own. */
static qn_status read_flag(qn_options *o, int argc, char **argv, int *i,
                           qn_error *err)
{
    const char *name = argv[*i] + 2, *value = strchr(name, '=');
    size_t len = value ? (size_t)(value - name) : strlen(name);
    int k = find(o->command, name, len, false);
    if (k < 0 && !value && !strncmp(name, "no-", 3)) {
        k = find(o->command, name + 3, len - 3, false);
        if (k >= 0 && o->command->flags[k].kind == QN_FLAG_BOOL)
            return set(&o->command->flags[k], &o->values[k], "false", 3, err);
        k = -1;
    }
    if (k < 0) {
        char word[48];
        snprintf(word, sizeof word, "%.*s", (int)len, name);
        return unknown("flag", word, o->command, '-', err);
    }
    const qn_flag *f = &o->command->flags[k];
    if (value)
        value++;
    else if (f->kind == QN_FLAG_BOOL)
        value = "true";
    else if (++*i < argc)
        value = argv[*i];
    else
        return qn_fail(err, QN_INVALID, "--%s needs a value (%s)", f->name,
                       f->meta);
    return set(f, &o->values[k], value, 3, err);
}

static qn_status read_line(qn_options *o, int argc, char **argv, qn_error *err)
{
    bool flags = true;
    for (int i = 0; i < argc; i++) {
        const char *a = argv[i];
        if (flags && !strcmp(a, "--")) {
            flags = false;
        } else if (flags && (!strcmp(a, "--help") || !strcmp(a, "-h"))) {
            o->help = true;
        } else if (flags && !strncmp(a, "--", 2)) {
            qn_status st = read_flag(o, argc, argv, &i, err);
            if (st != QN_OK)
                return st;
        } else if (flags && a[0] == '-' && a[1]) {
            return qn_fail(err, QN_INVALID,
                           "unknown flag %s (flags begin with two dashes)", a);
        } else {
            o->args_owned[o->n_args++] = a;
        }
    }
    return QN_OK;
}

static qn_status check_args(const qn_options *o, qn_error *err)
{
    const qn_command *c = o->command;
    if (o->n_args < c->min_args)
        return qn_fail(err, QN_INVALID, "missing argument; usage: quern %s %s",
                       c->name, c->args);
    if (c->max_args >= 0 && o->n_args > c->max_args)
        return qn_fail(err, QN_INVALID, "unexpected argument '%s'",
                       o->args[c->max_args]);
    return QN_OK;
}

qn_status qn_options_parse(qn_options *out, const qn_command *command, int argc,
                           char **argv, char *(*env)(const char *),
                           const qn_command *known, size_t n_known,
                           qn_error *err)
{
    assert(command->n_flags <= QN_MAX_FLAGS);
    *out = (qn_options){ .command = command };
    out->args_owned = qn_calloc((size_t)argc + 1, sizeof *out->args_owned);
    if (!out->args_owned)
        return qn_fail(err, QN_NO_MEMORY, "out of memory");
    out->args = out->args_owned;
    for (size_t i = 0; i < command->n_flags; i++) {
        const qn_flag *f = &command->flags[i];
        qn_status st =
            f->value ? set(f, &out->values[i], f->value, 0, err) : QN_OK;
        if (st != QN_OK)
            return st;
    }
    qn_status st = read_line(out, argc, argv, err);
    if (st != QN_OK || out->help)
        return st;
    st = read_environment(out, env, err);
    int config = find(command, "config", 6, false);
    if (st == QN_OK && config >= 0 && out->values[config].text)
        st = read_file(out, out->values[config].text, known, n_known, err);
    return st == QN_OK ? check_args(out, err) : st;
}

void qn_options_release(qn_options *options)
{
    for (size_t i = 0; i < QN_MAX_FLAGS; i++)
        clear(&options->values[i]);
    qn_free(options->args_owned);
    *options = (qn_options){ 0 };
}

/* ---- reading ---- */

static const qn_option_value *value_of(const qn_options *o, const char *flag)
{
    int i = find(o->command, flag, strlen(flag), false);
    assert(i >= 0);
    return &o->values[i];
}

const char *qn_opt_text(const qn_options *options, const char *flag)
{
    return value_of(options, flag)->text;
}

int64_t qn_opt_int(const qn_options *options, const char *flag)
{
    return value_of(options, flag)->number;
}

bool qn_opt_bool(const qn_options *options, const char *flag)
{
    return value_of(options, flag)->number != 0;
}

double qn_opt_number(const qn_options *options, const char *flag)
{
    return value_of(options, flag)->fraction;
}

size_t qn_opt_size(const qn_options *options, const char *flag)
{
    return (size_t)value_of(options, flag)->number;
}

size_t qn_opt_list(const qn_options *options, const char *flag,
                   const char *const **out)
{
    const qn_option_value *v = value_of(options, flag);
    *out = (const char *const *)v->list;
    return v->n_list;
}

/* ---- help ---- */

void qn_options_help(const qn_command *command, FILE *to)
{
    fprintf(to, "quern %s%s%s%s\n\n%s\n", command->name,
            *command->args ? " " : "", command->args,
            command->n_flags ? " [flags]" : "", command->summary);
    if (command->example)
        fprintf(to, "\n    %s\n", command->example);
    if (command->n_flags)
        fprintf(to, "\n");
    for (size_t i = 0; i < command->n_flags; i++) {
        const qn_flag *f = &command->flags[i];
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s", f->name, f->meta ? " " : "",
                 f->meta ? f->meta : "");
        fprintf(to, "  %-26s ", left);
        if (strlen(left) > 26)
            fprintf(to, "\n%29s", "");
        fputs(f->help, to);
        if (f->value && f->kind != QN_FLAG_BOOL && strcmp(f->value, "0"))
            fprintf(to, " [%s]", f->value);
        fprintf(to, "\n");
    }
    if (find(command, "config", 6, false) >= 0)
        fprintf(to, "\nEach flag is also an environment variable (QUERN_"
                    "<FLAG>) and a key of the\nconfig file (dashes become "
                    "underscores). Sizes: 512, 32K, 2G. Times: 500ms, 10s.\n");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "server/cli/cases.h"

#include "server/cli/loaded.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_TEXT = 4096, MAX_TENSORS = 256 };

/* ---- finding ---- */

static bool is_file(const char *path)
{
    struct stat s;
    return !stat(path, &s) && S_ISREG(s.st_mode);
}

static bool is_dir(const char *path)
{
    struct stat s;
    return !stat(path, &s) && S_ISDIR(s.st_mode);
}

static qn_status add_case(qn_cases *cases, const char *dir, qn_error *err)
{
    if (cases->n == cases->cap) {
        size_t cap = cases->cap ? cases->cap * 2 : 256;
        char **grown = qn_realloc(cases->dirs, cap, sizeof *grown);
        if (!grown)
            return qn_fail(err, QN_NO_MEMORY, "out of memory");
        cases->dirs = grown;
        cases->cap = cap;
    }
    cases->dirs[cases->n] = qn_strdup(dir);
    if (!cases->dirs[cases->n])
        return qn_fail(err, QN_NO_MEMORY, "out of memory");
    cases->n++;
    return QN_OK;
}

static bool is_case(const char *dir)
{
    char path[PATH_TEXT];
    snprintf(path, sizeof path, "%s/model.onnx", dir);
    if (!is_file(path))
        return false;
    snprintf(path, sizeof path, "%s/EXPECT", dir);
    if (is_file(path))
        return true;
    snprintf(path, sizeof path, "%s/test_data_set_0", dir);
    return is_dir(path);
}

static qn_status find_below(qn_cases *cases, const char *dir, int depth,
                            qn_error *err)
{
    if (is_case(dir))
        return add_case(cases, dir, err);
    DIR *d = opendir(dir);
    if (!d)
        return qn_fail(err, QN_NOT_FOUND, "%s: %s", dir, strerror(errno));
    qn_status st = QN_OK;
    struct dirent *e;
    while (st == QN_OK && (e = readdir(d))) {
        char path[PATH_TEXT];
        struct stat s;
        if (e->d_name[0] == '.')
            continue;
        int len = snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (len < 0 || (size_t)len >= sizeof path || depth > 32)
            continue;
        if (!lstat(path, &s) && S_ISDIR(s.st_mode))
            st = find_below(cases, path, depth + 1, err);
    }
    closedir(d);
    return st;
}

qn_status qn_cases_find(qn_cases *cases, const char *dir, qn_error *err)
{
    char path[PATH_TEXT];
    size_t len = strlen(dir);
    while (len > 1 && dir[len - 1] == '/')
        len--;
    snprintf(path, sizeof path, "%.*s", (int)len, dir);
    return find_below(cases, path, 0, err);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void qn_cases_sort(qn_cases *cases)
{
    if (cases->n)
        qsort(cases->dirs, cases->n, sizeof *cases->dirs, by_text);
}

void qn_cases_release(qn_cases *cases)
{
    for (size_t i = 0; i < cases->n; i++)
        qn_free(cases->dirs[i]);
    qn_free(cases->dirs);
    *cases = (qn_cases){ 0 };
}

/* ---- running ---- */

typedef enum expect { EXPECT_ANSWER, EXPECT_ERROR, EXPECT_ANY } expect;

static expect read_expect(const char *dir)
{
    char path[PATH_TEXT], word[16] = "";
    snprintf(path, sizeof path, "%s/EXPECT", dir);
    FILE *f = fopen(path, "r");
    if (!f)
        return EXPECT_ANSWER;
    if (!fgets(word, sizeof word, f))
        word[0] = 0;
    fclose(f);
    if (!strncmp(word, "error", 5))
        return EXPECT_ERROR;
    return strncmp(word, "any", 3) ? EXPECT_ANSWER : EXPECT_ANY;
}

typedef struct tensor_set {
    qn_tensor_file *files; /* [MAX_TENSORS] */
    size_t n;
} tensor_set;

static qn_status read_set(const char *dir, int set, const char *kind,
                          tensor_set *out, qn_error *err)
{
    char path[PATH_TEXT];
    out->n = 0;
    out->files = qn_calloc(MAX_TENSORS, sizeof *out->files);
    if (!out->files)
        return qn_fail(err, QN_NO_MEMORY, "out of memory");
    while (out->n < MAX_TENSORS) {
        snprintf(path, sizeof path, "%s/test_data_set_%d/%s_%zu.pb", dir, set,
                 kind, out->n);
        if (!is_file(path))
            break;
        qn_status st = qn_tensor_pb_read(path, &out->files[out->n], err);
        if (st != QN_OK) {
            qn_error_prefix(err, "%s_%zu.pb", kind, out->n);
            return st;
        }
        out->n++;
    }
    return QN_OK;
}

static void release_set(tensor_set *set)
{
    for (size_t i = 0; i < set->n; i++)
        qn_tensor_file_release(&set->files[i]);
    qn_free(set->files);
    *set = (tensor_set){ 0 };
}

static qn_status compare_outputs(const qn_loaded *loaded, const qn_run *run,
                                 const tensor_set *want,
                                 qn_tolerance tolerance, qn_error *err)
{
    const qn_io *io;
    uint32_t n = qn_session_outputs(loaded->session, &io);
    if (want->n > n)
        return qn_fail(err, QN_INVALID, "%u outputs, %zu expected", n, want->n);
    for (uint32_t i = 0; i < want->n; i++) {
        qn_tensor got = qn_run_output(run, i);
        qn_strings heap = { .base = { want->files[i].strings } };
        qn_status st = qn_compare(&got, &run->strings, &want->files[i].tensor,
                                  &heap, tolerance, err);
        if (st != QN_OK) {
            qn_error_prefix(err, "output '%s'", io[i].name);
            return st;
        }
    }
    return QN_OK;
}

/* `refused`: the failure came from the model, not from a wrong answer. */
static qn_status run_set(qn_loaded *loaded, const char *dir, int set,
                         const qn_case_options *options, bool *refused,
                         qn_error *err)
{
    tensor_set in = { 0 }, want = { 0 };
    const qn_io *io;
    uint32_t n = qn_session_inputs(loaded->session, &io);
    qn_tensor_file *bound = qn_calloc(n + 1u, sizeof *bound);
    qn_run run = { 0 };
    *refused = false;
    qn_status st = bound ? read_set(dir, set, "input", &in, err)
                         : qn_fail(err, QN_NO_MEMORY, "out of memory");
    if (st == QN_OK)
        st = read_set(dir, set, "output", &want, err);
    if (st == QN_OK)
        st = qn_loaded_bind(loaded, in.files, in.n, bound, err);
    if (st == QN_OK) {
        st = qn_loaded_run(loaded, bound, &run, err);
        *refused = st != QN_OK;
    }
    if (st == QN_OK) {
        st = compare_outputs(loaded, &run, &want, options->tolerance, err);
        qn_run_release(&run);
    }
    release_set(&in);
    release_set(&want);
    qn_free(bound);
    return st;
}

static qn_status run_sets(qn_loaded *loaded, const char *dir,
                          const qn_case_options *options, bool *refused,
                          qn_error *err)
{
    qn_status st = QN_OK;
    for (int set = 0; st == QN_OK; set++) {
        char path[PATH_TEXT];
        snprintf(path, sizeof path, "%s/test_data_set_%d", dir, set);
        if (!is_dir(path))
            break;
        st = run_set(loaded, dir, set, options, refused, err);
        if (st != QN_OK)
            qn_error_prefix(err, "test_data_set_%d", set);
    }
    return st;
}

/* Where the launches of the session's plans go. */
static void count_launches(qn_session *session, qn_case_result *out)
{
    enum { MOST = 32 };
    qn_plan *plans[MOST];
    size_t n = qn_session_plans(session, plans, MOST);
    for (size_t i = 0; i < n; i++) {
        qn_plan_report r;
        qn_plan_read(plans[i], &r);
        out->accel_launches += r.accel_launches;
        out->cpu_float_launches += r.cpu_float_launches;
        qn_plan_release(plans[i]);
    }
}

static void judge(qn_case_result *out, qn_verdict verdict, const char *why)
{
    out->verdict = verdict;
    snprintf(out->reason, sizeof out->reason, "%s", why);
}

void qn_case_run(const char *dir, const qn_case_options *options,
                 qn_case_result *out)
{
    char path[PATH_TEXT];
    qn_error err = { 0 };
    qn_loaded loaded;
    bool refused = false;
    expect want = read_expect(dir);
    memset(out, 0, sizeof *out);
    snprintf(path, sizeof path, "%s/model.onnx", dir);
    qn_load_options how = options->load;
    how.session.loose_shapes = true; /* the data decide */
    qn_status load = qn_loaded_open(&loaded, (const char *[]){ path }, 1, &how,
                                    &err);
    qn_status st = load;
    if (load == QN_OK)
        st = run_sets(&loaded, dir, options, &refused, &err);
    if (load == QN_OK)
        count_launches(loaded.session, out);
    qn_loaded_close(&loaded);

    if (want == EXPECT_ANY)
        judge(out, QN_PASSED, "");
    else if (want == EXPECT_ERROR && (load != QN_OK || refused))
        judge(out, QN_PASSED, "");
    else if (want == EXPECT_ERROR)
        judge(out, QN_FAILED, "answered where an error was expected");
    else if (load == QN_UNSUPPORTED)
        judge(out, QN_SKIPPED, err.text);
    else
        judge(out, st == QN_OK ? QN_PASSED : QN_FAILED,
              st == QN_OK ? "" : err.text);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quern verify: cases run in child processes, so that a crash or a hang is one
 * failed case. A child has one case, or --batch of them: opening a card takes
 * longer than most cases. What a child that ended leaves goes to another. This
 * process never starts a thread: that is what makes forking safe.
 */
#include "server/cli/cases.h"
#include "server/cli/commands.h"
#include "server/cli/text.h"

#include "runtime/base/alloc.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_JOBS = 64 };

typedef struct child {
    pid_t pid; /* 0: free */
    int fd;
    size_t next, end;    /* its cases that have no result yet */
    size_t got;          /* bytes of `result` so far */
    uint64_t started_ns; /* of case `next` */
    qn_case_result result;
} child;

/* Cases [next, end). */
typedef struct range {
    size_t next, end;
} range;

typedef struct verify {
    qn_cases cases;
    qn_case_result *results; /* [cases.n] */
    size_t counts[3];        /* by verdict */
    size_t next, done;
    range left[MAX_JOBS]; /* by children that ended early */
    size_t n_left;
    qn_case_options options;
    int64_t timeout_ms;
    size_t jobs, batch;
    child children[MAX_JOBS];
    qn_progress progress;
} verify;

/* In the child: a result for each case, until a card is lost. */
static int run_cases(const verify *v, range r, int fd)
{
    qn_case_options options = v->options;
    qn_accels accels;
    qn_error err = { 0 };
    qn_status st = QN_OK;
    bool lost = false;
    if (v->batch > 1) {
        st = qn_devices_open(options.load.device, &options.load.runtime.log,
                             &accels, &err);
        options.load.accels = &accels;
    }
    for (size_t i = r.next; i < r.end && !lost; i++) {
        qn_case_result result = { .verdict = QN_FAILED };
        uint64_t t = qn_clock_ns();
        if (st == QN_OK)
            qn_case_run(v->cases.dirs[i], &options, &result);
        else
            snprintf(result.reason, sizeof result.reason, "%s", err.text);
        result.seconds = (double)(qn_clock_ns() - t) * 1e-9;
        if (write(fd, &result, sizeof result) != (ssize_t)sizeof result)
            return 1;
        for (uint32_t k = 0; options.load.accels && k < accels.n; k++)
            lost |= accels.accel[k]->ops->dead(accels.accel[k], NULL);
    }
    if (options.load.accels)
        qn_accels_close(&accels);
    return 0;
}

static range take(verify *v)
{
    if (v->n_left)
        return v->left[--v->n_left];
    range r = { v->next, v->next + v->batch };
    if (r.end > v->cases.n)
        r.end = v->cases.n;
    v->next = r.end;
    return r;
}

static qn_status start(verify *v, child *c, qn_error *err)
{
    int fds[2];
    if (pipe(fds))
        return qn_fail(err, QN_IO, "pipe: %s", strerror(errno));
    range r = take(v);
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        close(fds[0]);
        close(fds[1]);
        return qn_fail(err, QN_IO, "fork: %s", strerror(errno));
    }
    if (pid == 0) {
        close(fds[0]);
        exit(run_cases(v, r, fds[1]));
    }
    close(fds[1]);
    *c = (child){ .pid = pid, .fd = fds[0], .next = r.next, .end = r.end,
                  .started_ns = qn_clock_ns() };
    return QN_OK;
}

static void judge(verify *v, child *c, const qn_case_result *r)
{
    v->results[c->next++] = *r;
    v->counts[r->verdict]++;
    v->done++;
    c->got = 0;
    c->started_ns = qn_clock_ns();
}

/* The child's pipe is closed, or the time of its case is over. */
static void finish(verify *v, child *c, bool late)
{
    qn_case_result r = { .verdict = QN_FAILED };
    int status = 0;
    if (late)
        kill(c->pid, SIGKILL);
    close(c->fd);
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (late)
        snprintf(r.reason, sizeof r.reason, "no answer within %g s",
                 (double)v->timeout_ms * 1e-3);
    else if (WIFSIGNALED(status))
        snprintf(r.reason, sizeof r.reason, "crashed: signal %d (%s)",
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(r.reason, sizeof r.reason, "ended with status %d",
                 WEXITSTATUS(status));
    /* one that ends well with cases left has lost its card, and said so */
    bool blamed = late || !WIFEXITED(status) || WEXITSTATUS(status);
    if (blamed && c->next < c->end) {
        judge(v, c, &r);
    } else if (blamed) { /* had answered all, and then did not end well */
        v->counts[v->results[c->next - 1].verdict]--;
        v->results[c->next - 1] = r;
        v->counts[QN_FAILED]++;
    }
    if (c->next < c->end)
        v->left[v->n_left++] = (range){ c->next, c->end };
    c->pid = 0;
}

static void collect(verify *v)
{
    struct pollfd fds[MAX_JOBS];
    size_t at[MAX_JOBS], n = 0;
    for (size_t i = 0; i < v->jobs; i++)
        if (v->children[i].pid) {
            fds[n] = (struct pollfd){ .fd = v->children[i].fd,
                                      .events = POLLIN };
            at[n++] = i;
        }
    poll(fds, (nfds_t)n, 100);
    for (size_t i = 0; i < n; i++) {
        child *c = &v->children[at[i]];
        uint64_t ms = (qn_clock_ns() - c->started_ns) / 1000000u;
        if (fds[i].revents) {
            char *into = (char *)&c->result + c->got;
            ssize_t got = read(c->fd, into, sizeof c->result - c->got);
            if (got > 0)
                c->got += (size_t)got;
            else if (got == 0 || errno != EINTR)
                finish(v, c, false);
            if (c->got == sizeof c->result)
                judge(v, c, &c->result);
        } else if (ms > (uint64_t)v->timeout_ms) {
            finish(v, c, true);
        }
    }
}

static qn_status run_all(verify *v, qn_error *err)
{
    for (size_t running = 1; v->done < v->cases.n || running;) {
        for (size_t i = 0; i < v->jobs; i++)
            if (!v->children[i].pid && (v->n_left || v->next < v->cases.n)) {
                qn_status st = start(v, &v->children[i], err);
                if (st != QN_OK)
                    return st;
            }
        collect(v);
        running = 0;
        for (size_t i = 0; i < v->jobs; i++)
            running += v->children[i].pid != 0;
        qn_progress_show(&v->progress, v->done, v->cases.n,
                         v->done < v->cases.n ? v->cases.dirs[v->done] : "");
    }
    qn_progress_end(&v->progress);
    return QN_OK;
}

static const char *short_name(const char *dir)
{
    const char *slash = strrchr(dir, '/');
    return slash && slash[1] ? slash + 1 : dir;
}

static void print_json(const verify *v)
{
    static const char *const words[] = { "passed", "failed", "skipped" };
    json_t *list = json_array();
    for (size_t i = 0; i < v->cases.n; i++) {
        const qn_case_result *r = &v->results[i];
        json_t *reason = json_string(r->reason);
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:o, s:f, s:I, s:I}", "name",
                            short_name(v->cases.dirs[i]), "path",
                            v->cases.dirs[i], "result", words[r->verdict],
                            "reason", reason ? reason : json_string("?"),
                            "seconds", r->seconds, "accel_launches",
                            (json_int_t)r->accel_launches, "cpu_float_launches",
                            (json_int_t)r->cpu_float_launches));
    }
    qn_print_json(json_pack("{s:I, s:I, s:I, s:o}", "passed",
                            (json_int_t)v->counts[QN_PASSED], "failed",
                            (json_int_t)v->counts[QN_FAILED], "skipped",
                            (json_int_t)v->counts[QN_SKIPPED], "cases", list));
}

static void print_failures(const verify *v)
{
    for (size_t i = 0; i < v->cases.n; i++)
        if (v->results[i].verdict == QN_FAILED)
            printf("FAILED  %s\n        %s\n", v->cases.dirs[i],
                   v->results[i].reason);
}

static int by_reason(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Equal reasons would fill pages: they are counted by their words up to the
 * node. */
static void print_skips(const verify *v)
{
    const char **reasons = qn_calloc(v->cases.n + 1, sizeof *reasons);
    size_t n = 0;
    if (!reasons)
        return;
    for (size_t i = 0; i < v->cases.n; i++) {
        qn_case_result *r = &v->results[i];
        if (r->verdict != QN_SKIPPED)
            continue;
        char *node = strstr(r->reason, " node ");
        if (node)
            *node = 0;
        reasons[n++] = r->reason;
    }
    qsort(reasons, n, sizeof *reasons, by_reason);
    for (size_t i = 0, k; i < n; i = k) {
        for (k = i; k < n && !strcmp(reasons[i], reasons[k]); k++)
            ;
        printf("skipped %4zu  %s\n", k - i, reasons[i]);
    }
    qn_free(reasons);
}

static qn_status prepare(verify *v, const qn_options *o, qn_error *err)
{
    for (int i = 0; i < o->n_args; i++) {
        qn_status st = qn_cases_find(&v->cases, o->args[i], err);
        if (st != QN_OK)
            return st;
    }
    if (!v->cases.n)
        return qn_fail(err, QN_NOT_FOUND,
                       "no case (a folder with model.onnx and test_data_set_0) "
                       "below %s",
                       o->args[0]);
    qn_cases_sort(&v->cases);
    v->results = qn_calloc(v->cases.n, sizeof *v->results);
    if (!v->results)
        return qn_fail(err, QN_NO_MEMORY, "out of memory");
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t jobs = qn_opt_int(o, "jobs");
    v->jobs = (size_t)(jobs ? jobs : cores > 0 ? cores : 1);
    if (v->jobs > MAX_JOBS)
        v->jobs = MAX_JOBS;
    v->batch = (size_t)qn_opt_int(o, "batch");
    v->timeout_ms = qn_opt_int(o, "timeout");
    v->options = (qn_case_options){
        .tolerance = { qn_opt_number(o, "rtol"), qn_opt_number(o, "atol") },
        .load = qn_load_options_read(o)
    };
    v->options.load.session.no_reuse = qn_opt_bool(o, "no-reuse");
    qn_progress_init(&v->progress, "cases");
    return QN_OK;
}

int qn_cmd_verify(const qn_options *options)
{
    static verify v; /* large; one command runs in a process */
    qn_error err = { 0 };
    qn_status st = prepare(&v, options, &err);
    if (st == QN_OK)
        st = run_all(&v, &err);
    int status = st == QN_OK ? v.counts[QN_FAILED] != 0 : qn_complain(&err);
    if (st == QN_OK && qn_opt_bool(options, "json")) {
        print_json(&v);
    } else if (st == QN_OK) {
        print_failures(&v);
        if (!qn_opt_bool(options, "quiet"))
            print_skips(&v);
        printf("%zu passed, %zu failed, %zu skipped\n", v.counts[QN_PASSED],
               v.counts[QN_FAILED], v.counts[QN_SKIPPED]);
    }
    qn_free(v.results);
    qn_cases_release(&v.cases);
    return status;
}

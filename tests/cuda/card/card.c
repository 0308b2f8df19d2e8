/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests/cuda/gpu-check.sh asks a card, as rows of Markdown:
 *
 *   card networks DIR [small]   write whole networks (networks.h) as ONNX files
 *   card open                   the card, and what opening and lanes cost
 *   card compare FILE...        each model against the cpu at every precision;
 *                               captured graphs against plain launches
 *   card chosen FILE...         what cuDNN was asked for and what it chose
 *
 * Exit status: 0, 1 when a comparison failed, 77 without a card.
 */
#include "runtime/base/alloc.h"
#include "server/cli/loaded.h"
#include "tests/cuda/card/networks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SKIPPED = 77, LANES = 3, AGAIN = 12 };

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* DEBUG lines about cuDNN go to stdout as rows when `arg` says so. */
static void write_log(void *arg, qn_log_level level, const char *text)
{
    const char *chosen = strstr(text, "cuDNN: ");
    if (arg && chosen && level == QN_LOG_DEBUG) {
        const char *what = chosen + 7, *last = strrchr(what, ':');
        printf("| %.*s | %s |\n", (int)(last - what), what, last + 2);
    } else if (level >= QN_LOG_WARN) {
        fprintf(stderr, "# %s\n", text);
    }
}

static qn_status open_card(const qn_log *log, qn_accels *accels)
{
    static const int first = 0;
    qn_error err = { 0 };
    qn_status st = qn_accels_open(&first, 1, log, accels, &err);
    if (st != QN_OK)
        printf("skipped: %s\n", err.text);
    return st;
}

/* ---- networks ---- */

static int write_networks(const char *dir, int small)
{
    for (int i = 0; i < NETWORKS; i++) {
        char path[512];
        pb model = network_build(i, small);
        snprintf(path, sizeof path, "%s/%s.onnx", dir, network_name(i));
        FILE *f = fopen(path, "wb");
        size_t n = f ? fwrite(model.data, 1, model.n, f) : 0;
        bool ok = n == model.n;
        if (f)
            ok = !fclose(f) && ok;
        pb_free(&model);
        if (!ok) {
            fprintf(stderr, "card: cannot write %s\n", path);
            return 1;
        }
    }
    return 0;
}

/* ---- opening ---- */

static size_t free_bytes(qn_accel *a)
{
    qn_accel_info info;
    a->ops->info(a, &info);
    return info.memory_free;
}

static int report_open(void)
{
    qn_accels accels;
    qn_log log = { .write = write_log, .level = QN_LOG_WARN };
    qn_error err = { 0 };
    qn_alane *lanes[LANES] = { NULL };
    double t = now_ms();
    if (open_card(&log, &accels) != QN_OK)
        return SKIPPED;
    double opened = now_ms() - t;
    qn_accel *a = accels.accel[0];
    qn_accel_info info;
    a->ops->info(a, &info);
    printf("| card | %s, compute capability %d.%d, %d multiprocessors, "
           "%.1f GiB |\n",
           info.name, info.capability / 10, info.capability % 10,
           info.multiprocessors,
           (double)info.memory_total / (double)(1u << 30));
    printf("| driver's CUDA | %s |\n| libraries | %s |\n", info.driver,
           info.libraries);
    printf("| opening the device | %.0f ms |\n", opened);
    int status = 0;
    for (int i = 0; i < LANES && !status; i++) {
        size_t before = free_bytes(a);
        t = now_ms();
        status = a->ops->lane_new(a, &lanes[i], &err) != QN_OK;
        double ms = now_ms() - t;
        size_t after = free_bytes(a);
        printf("| lane %d | %.1f ms, %.1f MiB of device memory |\n", i + 1, ms,
               (double)(before > after ? before - after : 0) / (1 << 20));
    }
    if (status)
        printf("| lanes | FAILED: %s |\n", err.text);
    for (int i = 0; i < LANES; i++)
        a->ops->lane_free(lanes[i]);
    qn_accels_close(&accels);
    return status;
}

/* ---- comparing ---- */

typedef struct model {
    qn_loaded loaded;
    qn_tensor_file *inputs; /* those of the first session of a file */
} model;

static qn_status open_model(model *m, const char *path,
                            const qn_load_options *options, qn_error *err)
{
    const qn_io *io;
    qn_status st = qn_loaded_open(&m->loaded, &path, 1, options, err);
    if (st != QN_OK)
        return st;
    uint32_t n = qn_session_inputs(m->loaded.session, &io);
    m->inputs = qn_calloc(n + 1u, sizeof *m->inputs);
    return m->inputs ? qn_loaded_make(&m->loaded, NULL, 0, NULL, 0, m->inputs,
                                      err)
                     : qn_fail(err, QN_NO_MEMORY, "out of memory");
}

static void close_model(model *m)
{
    const qn_io *io;
    uint32_t n = m->loaded.session ? qn_session_inputs(m->loaded.session, &io)
                                   : 0;
    for (uint32_t i = 0; i < n && m->inputs; i++)
        qn_tensor_file_release(&m->inputs[i]);
    qn_free(m->inputs);
    qn_loaded_close(&m->loaded);
    *m = (model){ 0 };
}

/* Output 0 of one run, copied: n floats, which the caller frees. */
static qn_status answer(model *m, float **out, size_t *n, qn_error *err)
{
    qn_run run = { 0 };
    qn_status st = qn_loaded_run(&m->loaded, m->inputs, &run, err);
    if (st != QN_OK)
        return st;
    qn_tensor y = qn_run_output(&run, 0);
    size_t bytes = 0;
    st = y.dtype == QN_F32
             ? qn_tensor_bytes(y.dtype, &y.shape, &bytes, err)
             : qn_fail(err, QN_UNSUPPORTED, "output 0 is not of floats");
    *out = st == QN_OK ? qn_calloc(bytes + 1, 1) : NULL;
    if (*out)
        memcpy(*out, y.data, bytes);
    else if (st == QN_OK)
        st = qn_fail(err, QN_NO_MEMORY, "out of memory");
    *n = bytes / sizeof **out;
    qn_run_release(&run);
    return st;
}

/* max |got - want| / max |want|; NaN if one of them has NaN. */
static double error_of(const float *got, const float *want, size_t n)
{
    double most = 0, top = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)got[i] - (double)want[i]);
        double w = fabs((double)want[i]);
        if (!(d <= most))
            most = d;
        if (!(w <= top))
            top = w;
    }
    return most / (top > 0 ? top : 1);
}

static size_t graph_bytes(const model *m)
{
    qn_ledger_state s;
    qn_ledger_read(qn_runtime_accel_ledger(m->loaded.runtime, 0), &s);
    return s.by_class[QN_MEM_GRAPH];
}

typedef struct verdict {
    double error[QN_PRECISION_BF16 + 1]; /* by precision */
    uint32_t launches, on_cpu;
    bool same;     /* graphs and plain launches, every time */
    size_t graphs; /* bytes; 0: none was captured */
} verdict;

/* The first run is plain, later ones are captured and replayed. */
static qn_status compare_graphs(model *m, const float *plain, size_t n,
                                verdict *v, qn_error *err)
{
    qn_status st = QN_OK;
    v->same = true;
    for (int i = 0; i < AGAIN && st == QN_OK; i++) {
        float *got = NULL;
        size_t k = 0;
        st = answer(m, &got, &k, err);
        if (st == QN_OK && (k != n || memcmp(got, plain, n * sizeof *got)))
            v->same = false;
        qn_free(got);
    }
    v->graphs = graph_bytes(m);
    return st;
}

static void count_launches(const model *m, verdict *v)
{
    qn_plan *plan;
    qn_plan_report r;
    if (!qn_session_plans(m->loaded.session, &plan, 1))
        return;
    qn_plan_read(plan, &r);
    v->launches = r.accel_launches;
    v->on_cpu = r.cpu_float_launches;
    qn_plan_release(plan);
}

static qn_status compare_one(const char *path, const qn_accels *accels,
                             const float *want, size_t n, qn_precision p,
                             verdict *v, qn_error *err)
{
    model m = { 0 };
    float *got = NULL;
    size_t k = 0;
    qn_load_options o = { .accels = accels };
    o.session.precision = p;
    o.session.no_graphs = true;
    qn_status st = open_model(&m, path, &o, err);
    if (st == QN_OK)
        st = answer(&m, &got, &k, err);
    if (st == QN_OK && k != n)
        st = qn_fail(err, QN_SHAPE, "%zu numbers, the cpu has %zu", k, n);
    if (st == QN_OK)
        v->error[p] = error_of(got, want, n);
    if (st == QN_OK && p == QN_PRECISION_FP32) {
        count_launches(&m, v);
        close_model(&m);
        o.session.no_graphs = false;
        st = open_model(&m, path, &o, err);
        if (st == QN_OK)
            st = compare_graphs(&m, got, n, v, err);
    }
    qn_free(got);
    close_model(&m);
    return st;
}

/* Largest error over largest value. FP32 differs by the order of sums; TF32 and
 * FP16 round operands to 11 bits, BF16 to 8; depth adds up. */
static const double limits[] = { [QN_PRECISION_FP32] = 1e-4,
                                 [QN_PRECISION_TF32] = 2e-2,
                                 [QN_PRECISION_FP16] = 2e-2,
                                 [QN_PRECISION_BF16] = 1e-1 };

static int compare(const char *path, const qn_accels *accels)
{
    const qn_accels none = { 0 };
    qn_load_options on_cpu = { .accels = &none };
    model cpu = { 0 };
    verdict v = { .same = false };
    float *want = NULL;
    size_t n = 0;
    qn_error err = { 0 };
    qn_status st = open_model(&cpu, path, &on_cpu, &err);
    if (st == QN_OK)
        st = answer(&cpu, &want, &n, &err);
    for (int p = QN_PRECISION_FP32; p <= QN_PRECISION_BF16 && st == QN_OK; p++)
        st = compare_one(path, accels, want, n, (qn_precision)p, &v, &err);
    qn_free(want);
    close_model(&cpu);
    const char *slash = strrchr(path, '/');
    printf("| %s ", slash ? slash + 1 : path);
    if (st != QN_OK) {
        printf("| FAILED: %s |\n", err.text);
        return 1;
    }
    bool good = v.same && !v.on_cpu;
    printf("| %u | %u ", v.launches, v.on_cpu);
    for (int p = QN_PRECISION_FP32; p <= QN_PRECISION_BF16; p++) {
        bool near = v.error[p] <= limits[p];
        printf("| %.1e%s ", v.error[p], near ? "" : " FAILED");
        good = good && near;
    }
    printf("| %s, ", v.same ? "equal" : "FAILED: differ");
    if (v.graphs)
        printf("%.2f MiB ", (double)v.graphs / (1 << 20));
    else
        printf("none captured ");
    printf("| %s |\n", good ? "passed" : "FAILED");
    return !good;
}

static int compare_all(char **paths, int n)
{
    qn_accels accels;
    qn_log log = { .write = write_log, .level = QN_LOG_WARN };
    int failed = 0;
    if (open_card(&log, &accels) != QN_OK)
        return SKIPPED;
    for (int i = 0; i < n; i++) {
        failed |= compare(paths[i], &accels);
        fflush(stdout);
    }
    qn_accels_close(&accels);
    return failed;
}

static int show_chosen(char **paths, int n)
{
    qn_accels accels;
    static char wanted;
    qn_log log = { .write = write_log, .arg = &wanted, .level = QN_LOG_DEBUG };
    int failed = 0;
    if (open_card(&log, &accels) != QN_OK)
        return SKIPPED;
    for (int i = 0; i < n; i++)
        for (int p = QN_PRECISION_FP32; p <= QN_PRECISION_TF32; p++) {
            model m = { 0 };
            float *got = NULL;
            size_t k;
            qn_error err = { 0 };
            qn_load_options o = { .accels = &accels };
            o.session.precision = (qn_precision)p;
            qn_status st = open_model(&m, paths[i], &o, &err);
            if (st == QN_OK)
                st = answer(&m, &got, &k, &err);
            if (st != QN_OK) {
                printf("| %s | FAILED: %s |\n", paths[i], err.text);
                failed = 1;
            }
            qn_free(got);
            close_model(&m);
        }
    qn_accels_close(&accels);
    return failed;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "networks") && argc > 2)
        return write_networks(argv[2], argc > 3 && !strcmp(argv[3], "small"));
    if (!strcmp(what, "open"))
        return report_open();
    if (!strcmp(what, "compare"))
        return compare_all(argv + 2, argc - 2);
    if (!strcmp(what, "chosen"))
        return show_chosen(argv + 2, argc - 2);
    fprintf(stderr, "card: networks DIR [small], open, compare FILE..., "
                    "chosen FILE...\n");
    return 2;
}

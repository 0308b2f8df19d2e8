/* SPDX-License-Identifier: Apache-2.0 */
/* What a device does when the driver refuses, runs out, loses its context, is
 * late or is not there. Needs the emulated driver, which can be asked for it. */
#include "runtime/device/plugin.h"
#include "tests/cuda/support/device_node.h"
#include "tests/cuda/support/emu.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const test_emu *emu;

enum { N = 4096, SKIPPED = 77 };

static qn_status open_one(qn_accels *a, qn_error *err)
{
    static const int first = 0;
    return qn_accels_open(&first, 1, NULL, a, err);
}

/* ---- one run of everything that can fail ---- */

typedef struct latch {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    int left;
    qn_status worst;
} latch;

static void reached(void *arg, qn_status status)
{
    latch *l = arg;
    pthread_mutex_lock(&l->lock);
    if (status != QN_OK)
        l->worst = status;
    if (--l->left == 0)
        pthread_cond_signal(&l->cond);
    pthread_mutex_unlock(&l->lock);
}

static qn_status wait_for(latch *l)
{
    pthread_mutex_lock(&l->lock);
    while (l->left)
        pthread_cond_wait(&l->cond, &l->lock);
    pthread_mutex_unlock(&l->lock);
    return l->worst;
}

static qn_status drain(qn_alane *lane, const struct qn_accel_ops *o,
                       qn_error *err)
{
    latch l = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 1, QN_OK };
    qn_notice n = { .fn = reached, .arg = &l };
    qn_status st = o->record(lane, 0, 0, err);
    if (st != QN_OK)
        return st;
    o->notify(lane, 0, &n);
    return wait_for(&l);
}

/* One operator on [4, 4] tensors, so that device code and libraries come in. */
static qn_status compute(qn_accel *accel, qn_alane *lane, const char *op,
                         uint32_t n_in, char *mem, qn_error *err)
{
    static const qn_dtype types[2] = { QN_F32, QN_F32 };
    const struct qn_accel_ops *o = accel->ops;
    test_node t;
    test_node_init(&t, op, 14, n_in, 1);
    const qn_kernel *k = o->kernel_find(accel, &t.node, n_in, types);
    const qn_tensor square = { QN_F32, qn_shape_make(2, (int64_t[]){ 4, 4 }),
                               NULL };
    qn_tensor in[2] = { square, square }, out = square;
    const void *packed[2] = { NULL, NULL };
    qn_prepare p = { .node = &t.node, .n_in = n_in, .n_out = 1, .in = in,
                     .out = &out, .packed = packed, .max_threads = 1,
                     .region = &t.region, .accel = accel };
    void *workspace = NULL;
    assert_non_null(k);
    qn_status st = k->prepare ? k->prepare(&p, err) : QN_OK;
    if (st == QN_OK && p.workspace)
        st = o->alloc(accel, p.workspace, &workspace, err);
    in[0].data = mem;
    in[1].data = mem + 256;
    out.data = mem + 512;
    if (st == QN_OK)
        st = k->launch(&(qn_launch){ .node = &t.node,
                                     .state = p.state,
                                     .n_in = n_in,
                                     .n_out = 1,
                                     .in = in,
                                     .out = &out,
                                     .packed = packed,
                                     .workspace = workspace,
                                     .queue = o->queue(lane, 0),
                                     .err = err });
    if (st == QN_OK)
        st = drain(lane, o, err);
    o->release(accel, workspace);
    test_node_release(&t);
    return st;
}

static qn_status graph(qn_accel *accel, qn_alane *lane, char *mem,
                       qn_error *err)
{
    const struct qn_accel_ops *o = accel->ops;
    qn_agraph *g = NULL;
    qn_status st = o->capture_begin(lane, err);
    if (st != QN_OK)
        return st;
    st = o->clear(lane, 0, mem, N, err);
    qn_status ended = o->capture_end(lane, st == QN_OK ? &g : NULL, NULL,
                                     st == QN_OK ? err : NULL);
    if (st == QN_OK)
        st = ended;
    if (st == QN_OK)
        st = o->graph_launch(lane, g, err);
    if (st == QN_OK)
        st = drain(lane, o, err);
    o->graph_free(accel, g);
    return st;
}

static qn_status use(qn_accel *accel, qn_alane *lane, char *host, char *mapped,
                     qn_error *err)
{
    const struct qn_accel_ops *o = accel->ops;
    void *block = NULL;
    qn_status st = o->alloc(accel, N, &block, err);
    if (st == QN_OK)
        st = o->upload(accel, block, host, N, err);
    if (st == QN_OK)
        st = o->begin(lane, err);
    if (st == QN_OK)
        st = o->copy(lane, 0, QN_COPY_TO_DEVICE, mapped, host, N, NULL, err);
    if (st == QN_OK)
        st = o->copy(lane, 0, QN_COPY_ON_DEVICE, block, mapped, N, NULL, err);
    if (st == QN_OK)
        st = o->record(lane, 1, 1, err);
    if (st == QN_OK)
        st = o->wait(lane, 0, lane, 1, err);
    if (st == QN_OK)
        st = o->copy(lane, 0, QN_COPY_FROM_DEVICE, host, mapped, N, NULL, err);
    if (st == QN_OK)
        st = o->end(lane, err);
    /* in any case: what was enqueued must not outlive its memory */
    qn_status drained = drain(lane, o, st == QN_OK ? err : NULL);
    if (st == QN_OK)
        st = drained;
    if (st == QN_OK)
        st = compute(accel, lane, "Relu", 1, mapped, err);
    if (st == QN_OK)
        st = compute(accel, lane, "MatMul", 2, mapped, err);
    if (st == QN_OK)
        st = graph(accel, lane, mapped, err);
    o->release(accel, block);
    return st;
}

/* Opens, uses everything, closes. `lost` says whether the device was dead. */
static qn_status scenario(bool *lost, qn_error *err)
{
    qn_accels a;
    qn_alane *lane = NULL;
    *lost = false;
    qn_status st = open_one(&a, err);
    if (st != QN_OK)
        return st;
    qn_accel *accel = a.accel[0];
    const struct qn_accel_ops *o = accel->ops;
    st = o->lane_new(accel, &lane, err);
    char *host = o->pin(accel, N), *mapped = o->map(accel, o->granule);
    if (st == QN_OK && (!host || !mapped))
        st = qn_fail(err, o->dead(accel, NULL) ? QN_DEVICE_LOST : QN_NO_MEMORY,
                     "no pinned or mapped memory");
    if (st == QN_OK) {
        memset(host, 0, N);
        st = use(accel, lane, host, mapped, err);
    }
    *lost = o->dead(accel, NULL);
    o->lane_free(lane);
    o->unpin(accel, host, N);
    o->unmap(accel, mapped, o->granule);
    qn_accels_close(&a);
    return st;
}

/* ---- running out ---- */

static const char *const allocating[] = {
    "cuDevicePrimaryCtxRetain", "cuStreamCreateWithPriority",
    "cuMemAlloc", "cuMemHostAlloc", "cuMemAddressReserve", "cuMemCreate",
    "cuMemMap", "cuMemSetAccess", "cuEventCreate",
    "cuModuleLoadData", "cuGraphInstantiate", "cuGraphUpload",
};

/* The n-th call of each function that allocates fails: the run ends with an
 * error that says so, all that it had goes back, and the next run succeeds. */
static void test_out_of_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof allocating / sizeof allocating[0]; i++)
        for (uint64_t nth = 1; nth < 100; nth++) {
            qn_error err = { 0 };
            bool lost;
            emu->fail_at(allocating[i], nth, 2);
            qn_status st = scenario(&lost, &err);
            emu->fail_none();
            if (lost || (st != QN_OK && st != QN_NO_MEMORY))
                fail_msg("%s, call %d: %s, \"%s\"", allocating[i], (int)nth,
                         qn_status_name(st), err.text);
            if (emu->bytes_in_use(0))
                fail_msg("%s, call %d: %llu bytes are still in use",
                         allocating[i], (int)nth,
                         (unsigned long long)emu->bytes_in_use(0));
            if (st == QN_OK) {
                if (nth == 1)
                    fail_msg("%s was never called", allocating[i]);
                break;
            }
        }
}

/* ---- one call fails, nothing else does ---- */

static void test_one_call(void **state)
{
    static const struct {
        const char *api;
        int code;
        const char *says;
    } rows[] = {
        { "cuMemcpyHtoDAsync", 1, "uploading 4096 bytes" },
        { "cuMemsetD8Async", 1, "clearing the fault word" },
        { "cuEventRecord", 1, "recording event 1" },
        { "cuStreamWaitEvent", 400, "waiting for event 1" },
        { "cuMemcpyDtoDAsync", 1, "copying 4096 bytes on the device" },
        { "cuMemcpyDtoHAsync", 1, "copying 4096 bytes from the device" },
        { "cuStreamBeginCapture", 900, "beginning a capture" },
        { "cuStreamEndCapture", 901, "ending a capture" },
        { "cuGraphLaunch", 1, "launching a graph" },
        { "cuDeviceGetAttribute", 1, "attribute" },
        { "cuStreamSynchronize", 999, "uploading 4096 bytes" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        qn_error err = { 0 };
        bool lost;
        emu->fail_at(rows[i].api, 1, rows[i].code);
        qn_status st = scenario(&lost, &err);
        emu->fail_none();
        if (lost || st != QN_DEVICE || !strstr(err.text, rows[i].says))
            fail_msg("row %zu, %s: %s, \"%s\"", i, rows[i].api,
                     qn_status_name(st), err.text);
        err = (qn_error){ 0 };
        if (scenario(&lost, &err) != QN_OK)
            fail_msg("row %zu: the next run: \"%s\"", i, err.text);
        assert_int_equal(emu->bytes_in_use(0), 0);
    }
}

/* ---- a lost context ---- */

static const int poison[] = { 4,   214, 220, 226, 700, 702, 709, 710, 714,
                              715, 716, 717, 718, 719, 721, 810, 911 };

static void expect_lost(qn_accel *accel, qn_alane *lane, char *mapped,
                        char *host)
{
    const struct qn_accel_ops *o = accel->ops;
    qn_error err = { 0 };
    qn_accel_info info;
    void *p = host;
    qn_alane *other;
    qn_agraph *g;
    latch l = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 1, QN_OK };
    qn_notice n = { .fn = reached, .arg = &l };
    assert_true(o->dead(accel, &err));
    assert_int_equal(err.status, QN_DEVICE_LOST);
    assert_non_null(strstr(err.text, "cuda:0 is lost: "));
    assert_null(o->map(accel, o->granule));
    assert_null(o->pin(accel, N));
    assert_int_equal(o->alloc(accel, N, &p, &err), QN_DEVICE_LOST);
    assert_null(p);
    assert_int_equal(o->upload(accel, mapped, host, N, &err), QN_DEVICE_LOST);
    assert_int_equal(o->lane_new(accel, &other, &err), QN_DEVICE_LOST);
    assert_int_equal(o->begin(lane, &err), QN_DEVICE_LOST);
    assert_int_equal(o->end(lane, &err), QN_DEVICE_LOST);
    assert_int_equal(o->clear(lane, 0, mapped, N, &err), QN_DEVICE_LOST);
    assert_int_equal(o->copy(lane, 0, QN_COPY_FROM_DEVICE, host, mapped, N, NULL,
                             &err),
                     QN_DEVICE_LOST);
    assert_int_equal(o->record(lane, 0, 0, &err), QN_DEVICE_LOST);
    assert_int_equal(o->wait(lane, 0, lane, 0, &err), QN_DEVICE_LOST);
    assert_int_equal(o->capture_begin(lane, &err), QN_DEVICE_LOST);
    assert_int_equal(o->capture_end(lane, &g, NULL, &err), QN_INTERNAL);
    assert_true(o->query(lane, 0));
    o->notify(lane, 0, &n);
    assert_int_equal(wait_for(&l), QN_DEVICE_LOST);
    o->info(accel, &info);
    assert_int_equal(info.memory_free, 0);
}

/* Some calls into a run the context is lost: notices that wait are answered, the
 * first reason stays, everything says so, closing works. */
static void test_sticky(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof poison / sizeof poison[0]; i++) {
        qn_accels a;
        qn_error err = { 0 };
        qn_alane *lanes[2];
        latch l = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 6,
                    QN_OK };
        qn_notice n[6];
        assert_int_equal(open_one(&a, &err), QN_OK);
        qn_accel *accel = a.accel[0];
        const struct qn_accel_ops *o = accel->ops;
        for (int k = 0; k < 2; k++)
            assert_int_equal(o->lane_new(accel, &lanes[k], &err), QN_OK);
        char *mapped = o->map(accel, o->granule), *host = o->pin(accel, N);
        assert_true(mapped && host);
        emu->delays(i + 1, 20000);
        for (int k = 0; k < 6; k++) {
            n[k] = (qn_notice){ .fn = reached, .arg = &l };
            for (int m = 0; m < 40; m++)
                assert_int_equal(o->clear(lanes[k & 1], 0, mapped, N, &err),
                                 QN_OK);
            assert_int_equal(o->record(lanes[k & 1], 0, (uint32_t)k, &err),
                             QN_OK);
            o->notify(lanes[k & 1], (uint32_t)k, &n[k]);
        }
        emu->fail_at("cuMemcpyDtoDAsync", 1, poison[i]);
        qn_status st = o->copy(lanes[0], 0, QN_COPY_ON_DEVICE, mapped, mapped + N,
                               N, NULL, &err);
        if (st != QN_DEVICE_LOST)
            fail_msg("code %d: %s, \"%s\"", poison[i], qn_status_name(st),
                     err.text);
        assert_int_equal(wait_for(&l), QN_DEVICE_LOST);
        emu->delays(0, 0);
        /* the copy's, or the reaper's if that was faster */
        char first[sizeof err.text];
        snprintf(first, sizeof first, "%s", err.text);
        if (!strstr(first, "copying 4096 bytes on the device") &&
            !strstr(first, "asking for an event"))
            fail_msg("code %d: \"%s\"", poison[i], first);
        for (int k = 0; k < 2; k++)
            expect_lost(accel, lanes[k], mapped, host);
        o->dead(accel, &err);
        assert_string_equal(err.text, first);
        for (int k = 0; k < 2; k++)
            o->lane_free(lanes[k]);
        o->unpin(accel, host, N);
        o->unmap(accel, mapped, o->granule);
        qn_accels_close(&a);
        emu->fail_none();
        emu->revive();
    }
    qn_error err = { 0 };
    bool lost;
    if (scenario(&lost, &err) != QN_OK)
        fail_msg("after reviving: \"%s\"", err.text);
}

/* A kernel that fails does so after its launch: whoever asks next finds out. */
static void test_late_fault(void **state)
{
    qn_error err = { 0 };
    bool lost;
    (void)state;
    emu->fail_at("cuLaunchKernel", 1, 719);
    qn_status st = scenario(&lost, &err);
    emu->fail_none();
    emu->revive();
    assert_int_equal(st, QN_DEVICE_LOST);
    assert_true(lost);
    assert_int_equal(scenario(&lost, &err), QN_OK);
}

/* A launch that is refused names node and function, and ends nothing else. */
static void test_refused_launch(void **state)
{
    qn_error err = { 0 };
    bool lost;
    (void)state;
    emu->fail_at("cuLaunchKernel", 1, 701);
    qn_status st = scenario(&lost, &err);
    emu->fail_none();
    if (st != QN_DEVICE || lost || !strstr(err.text, "Relu (opset 14) node 'n'") ||
        !strstr(err.text, "launching "))
        fail_msg("%s: \"%s\"", qn_status_name(st), err.text);
}

/* ---- the reaper ---- */

enum { LANES = 4, ROUNDS = 60 };

typedef struct asked {
    qn_notice notice;
    qn_alane *lane;
    const struct qn_accel_ops *ops;
    uint32_t event;
    atomic_int answers;
    atomic_bool early;
    latch *all;
} asked;

static void asked_answer(void *arg, qn_status status)
{
    asked *a = arg;
    if (status != QN_OK || !a->ops->query(a->lane, a->event))
        atomic_store(&a->early, true);
    atomic_fetch_add(&a->answers, 1);
    reached(a->all, status);
}

/* Random delays on four lanes: one answer each, none before its event. */
static void test_reaper(void **state)
{
    qn_accels a;
    qn_error err = { 0 };
    qn_alane *lanes[LANES];
    static asked asks[LANES * ROUNDS];
    (void)state;
    assert_int_equal(open_one(&a, &err), QN_OK);
    const struct qn_accel_ops *o = a.accel[0]->ops;
    char *mem = o->map(a.accel[0], o->granule);
    assert_non_null(mem);
    for (int i = 0; i < LANES; i++)
        assert_int_equal(o->lane_new(a.accel[0], &lanes[i], &err), QN_OK);
    for (uint64_t seed = 1; seed <= 4; seed++) {
        latch l = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER,
                    LANES * ROUNDS, QN_OK };
        emu->delays(seed, seed & 1 ? 300 : 3000);
        for (uint32_t i = 0; i < LANES * ROUNDS; i++) {
            qn_alane *lane = lanes[(i * 7 + i / 5) % LANES];
            asked *k = &asks[i];
            unsigned s = i % QN_ACCEL_STREAMS;
            k->notice = (qn_notice){ .fn = asked_answer, .arg = k };
            k->lane = lane;
            k->ops = o;
            k->event = i;
            k->all = &l;
            atomic_store(&k->answers, 0);
            atomic_store(&k->early, false);
            assert_int_equal(o->clear(lane, s, mem, N, &err), QN_OK);
            assert_int_equal(o->record(lane, s, i, &err), QN_OK);
            o->notify(lane, i, &k->notice);
        }
        assert_int_equal(wait_for(&l), QN_OK);
        for (uint32_t i = 0; i < LANES * ROUNDS; i++)
            if (atomic_load(&asks[i].answers) != 1 ||
                atomic_load(&asks[i].early))
                fail_msg("seed %d, notice %u: %d answers%s", (int)seed, i,
                         atomic_load(&asks[i].answers),
                         atomic_load(&asks[i].early) ? ", early" : "");
    }
    emu->delays(0, 0);
    for (int i = 0; i < LANES; i++)
        o->lane_free(lanes[i]);
    o->unmap(a.accel[0], mem, o->granule);
    qn_accels_close(&a);
}

/* ---- what is missing ---- */

typedef struct lines {
    int n;
    char last[1200];
    qn_log_level level;
} lines;

static void keep_line(void *arg, qn_log_level level, const char *text)
{
    lines *l = arg;
    l->n++;
    l->level = level;
    snprintf(l->last, sizeof l->last, "%s", text);
}

/* The child: prints what opening every device, and device 0, says. */
static int probe(void)
{
    static const int first = 0;
    for (uint32_t n = 0; n < 2; n++) {
        lines l = { .n = 0 };
        qn_log log = { .write = keep_line, .arg = &l };
        qn_accels a;
        qn_error err = { 0 };
        qn_status st = qn_accels_open(&first, n, &log, &a, &err);
        printf("%s|%d|%d|%s|%s\n", qn_status_name(st), l.n, (int)l.level, l.last,
               err.text);
        qn_accels_close(&a);
    }
    return 0;
}

static void write_file(const char *dir, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void run_child(const char *const env[][2], char *out, size_t size)
{
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; env[i][0]; i++)
            if (setenv(env[i][0], env[i][1], 1) != 0)
                _exit(3);
        dup2(pipes[1], 1);
        close(pipes[0]);
        execl("/proc/self/exe", "test", "--probe", (char *)NULL);
        _exit(4);
    }
    close(pipes[1]);
    size_t n = 0;
    for (ssize_t got; (got = read(pipes[0], out + n, size - 1 - n)) > 0;)
        n += (size_t)got;
    out[n] = '\0';
    close(pipes[0]);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        fail_msg("the child ended with %d: %s", status, out);
}

/* One line each, and the reason in it. */
static void test_missing(void **state)
{
    char dir[] = "/tmp/quern-test-XXXXXX", path[1024], out[8192];
    const char *libs = getenv("LD_LIBRARY_PATH");
    static const struct {
        const char *broken;  /* a library that does not load */
        const char *plugins; /* QUERN_PLUGIN_DIR; "": the directory; NULL: as is */
        const char *env, *value; /* of the emulated driver */
        const char *status, *says;
    } rows[] = {
        { "libcuda.so.1", NULL, NULL, NULL, "NOT_FOUND", "no CUDA driver: " },
        { "libcublasLt.so.13", NULL, NULL, NULL, "NOT_FOUND",
          "libcublasLt.so.13 cannot be opened: " },
        { "libcudnn.so.9", NULL, NULL, NULL, "NOT_FOUND",
          "libcudnn.so.9 cannot be opened: " },
        { NULL, "/nowhere", NULL, NULL, "NOT_FOUND",
          "no libquern-cuda.so in '/nowhere', where QUERN_PLUGIN_DIR points" },
        { NULL, "relative", NULL, NULL, "INVALID",
          "QUERN_PLUGIN_DIR 'relative' is not an absolute path" },
        { "libquern-cuda.so", "", NULL, NULL, "NOT_FOUND",
          "libquern-cuda.so does not load: " },
        { NULL, NULL, "QN_EMU_VERSION", "12040", "UNSUPPORTED",
          "the CUDA driver is too old: it can do CUDA 12.4, 13.0 is needed" },
        { NULL, NULL, "QN_EMU_FAIL", "cuInit:1:100,cuInit:2:100", "NOT_FOUND",
          "the CUDA driver is there, but no device" },
        { NULL, NULL, "QN_EMU_FAIL", "cuInit:1:803,cuInit:2:803", "DEVICE",
          "the CUDA driver does not start: cuInit: " },
    };
    (void)state;
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *env[4][2] = { { NULL, NULL } };
        int n = 0;
        if (rows[i].broken)
            write_file(dir, rows[i].broken, "this is no library\n");
        snprintf(path, sizeof path, "%s:%s", dir, libs ? libs : "");
        env[n][0] = "LD_LIBRARY_PATH";
        env[n++][1] = path;
        if (rows[i].plugins) {
            env[n][0] = "QUERN_PLUGIN_DIR";
            env[n++][1] = rows[i].plugins[0] ? rows[i].plugins : dir;
        }
        if (rows[i].env) {
            env[n][0] = rows[i].env;
            env[n++][1] = rows[i].value;
        }
        run_child((const char *const(*)[2])env, out, sizeof out);
        char want[400];
        /* every device: INFO; device 0 by name: WARN */
        for (int k = 0; k < 2; k++) {
            char *line = out, *end = strchr(out, '\n');
            if (k && end)
                line = end + 1;
            snprintf(want, sizeof want, "%s|1|%d|cuda is not used: ",
                     rows[i].status, k ? QN_LOG_WARN : QN_LOG_INFO);
            if (strncmp(line, want, strlen(want)) ||
                !strstr(line, rows[i].says))
                fail_msg("row %zu: \"%s\", expected \"%s...%s\"", i, line, want,
                         rows[i].says);
        }
        if (rows[i].broken) {
            snprintf(path, sizeof path, "%s/%s", dir, rows[i].broken);
            unlink(path);
        }
    }
    rmdir(dir);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_one_call),
        cmocka_unit_test(test_sticky),        cmocka_unit_test(test_late_fault),
        cmocka_unit_test(test_refused_launch),
        cmocka_unit_test(test_reaper),        cmocka_unit_test(test_missing),
    };
    if (argc > 1 && !strcmp(argv[1], "--probe"))
        return probe();
    emu = test_emu_find();
    if (!emu) {
        printf("skipped: needs the emulated libcuda.so.1\n");
        return SKIPPED;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

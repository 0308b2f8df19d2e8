/* SPDX-License-Identifier: Apache-2.0 */
/* The emulated driver does what cuda.h and the programming guide say, and
 * notices what a client or a kernel may not do. What has to end the process is
 * run in a child: this program with the case's name as argument. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda.h>

#include "tests/cuda/emu/emu.h"
#include "tests/cuda/emu/testkernels.h"

#define OK(call) assert_int_equal(call, CUDA_SUCCESS)

static CUcontext context;
static CUmodule module;

static CUfunction function(const char *name)
{
    CUfunction f;
    OK(cuModuleGetFunction(&f, module, name));
    return f;
}

static void launch(const char *name, unsigned grid, unsigned block,
                   unsigned shared, CUstream s, struct tk_args *a)
{
    void *params[] = { a };
    OK(cuLaunchKernel(function(name), grid, 1, 1, block, 1, 1, shared, s,
                      params, NULL));
}

static void *device_bytes(size_t bytes)
{
    CUdeviceptr p;
    OK(cuMemAlloc(&p, bytes));
    return (void *)p;
}

static void *pinned_bytes(size_t bytes)
{
    void *p;
    OK(cuMemHostAlloc(&p, bytes, 0));
    return p;
}

static void device_free(void *p)
{
    OK(cuMemFree((CUdeviceptr)p));
}

static CUstream stream(void)
{
    CUstream s;
    OK(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, 0));
    return s;
}

static CUevent event(void)
{
    CUevent e;
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    return e;
}

static int open_driver(void **state)
{
    static const char image[] = ".version 9.0"; /* looked at, not used */
    (void)state;
    setenv("QN_EMU_KERNELS", QN_EMU_DIR "/libtestkernels-emu.so", 1);
    setenv("QN_EMU_DEVICES", "2", 1);
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuModuleLoadData(&module, image));
    return 0;
}

/* --- what has to end the process */

static char *device_word;

static void dies_host_read(void)
{
    device_word = device_bytes(64);
    putchar(device_word[3]);
}
static void dies_host_syscall(void)
{
    device_word = device_bytes(64);
    /* the kernel refuses what this thread may not read */
    if (write(STDERR_FILENO, device_word, 4) < 0)
        qn_emu_report("write refused");
}
static void dies_kernel_oob(void)
{
    struct tk_args a = { .in = device_bytes(1 << 16),
                         .out = device_bytes(1024),
                         .n = 256,
                         .extra = 1 };
    launch("tk_copy", 2, 256, 0, NULL, &a);
    cuCtxSynchronize();
}
static void dies_after_free(void)
{
    struct tk_args a = { .in = device_bytes(1024), .out = device_bytes(1024) };
    a.n = 256;
    device_free((void *)(uintptr_t)a.in);
    launch("tk_copy", 1, 256, 0, NULL, &a);
    cuCtxSynchronize();
}
static void dies_leaves(void)
{
    struct tk_args a = { .out = device_bytes(1024), .extra = 40 };
    launch("tk_leaves", 1, 64, 0, NULL, &a);
    cuCtxSynchronize();
}
static void dies_two_barriers(void)
{
    struct tk_args a = { .out = device_bytes(1024) };
    launch("tk_two_barriers", 1, 64, 0, NULL, &a);
    cuCtxSynchronize();
}
static void dies_half_shuffle(void)
{
    struct tk_args a = { .out = device_bytes(1024) };
    launch("tk_half_shuffle", 1, 32, 0, NULL, &a);
    cuCtxSynchronize();
}
static void dies_shared_overrun(void)
{
    struct tk_args a = { .out = device_bytes(1024), .extra = 7 };
    launch("tk_shared_overrun", 1, 64, 0, NULL, &a);
    cuCtxSynchronize();
}
static void dies_misaligned(void)
{
    struct tk_args a = { .in = device_bytes(1024), .out = device_bytes(1024) };
    launch("tk_misaligned", 1, 1, 0, NULL, &a);
    cuCtxSynchronize();
}
static void dies_written_past_end(void)
{
    struct tk_args a = { .in = device_bytes(1024), .out = device_bytes(4) };
    a.n = 2;
    launch("tk_copy", 1, 32, 0, NULL, &a);
    device_free(a.out);
}
static void dies_old_name(void)
{
    void *own = NULL;
    CUresult (*get)(const char *, void **, int, cuuint64_t,
                    CUdriverProcAddressQueryResult *) = cuGetProcAddress;
    void (*call)(void);
    OK(get("cuMemAlloc", &own, 3010, 0, NULL));
    memcpy(&call, &own, sizeof call);
    call();
}

static const struct {
    const char *name;
    void (*run)(void);
    const char *says;
    int needs_keys;
} deaths[] = {
    { "host_read", dies_host_read, "the host touches device memory", 1 },
    { "host_syscall", dies_host_syscall, "write refused", 0 },
    { "kernel_oob", dies_kernel_oob,
      "kernel tk_copy, block (1,0,0), thread (0,0,0)", 0 },
    { "after_free", dies_after_free, "kernel tk_copy, block (0,0,0)", 0 },
    { "leaves", dies_leaves, "of 64 threads exit without the barrier", 0 },
    { "two_barriers", dies_two_barriers, "others of its block are at", 0 },
    { "half_shuffle", dies_half_shuffle, "divergence, no thread can go on",
      0 },
    { "shared_overrun", dies_shared_overrun, "behind 128 bytes of shared", 0 },
    { "misaligned", dies_misaligned, "misaligned access of 16 bytes", 0 },
    { "written_past_end", dies_written_past_end, "written past its end", 0 },
    { "old_name", dies_old_name, "look up cuMemAlloc_v2", 0 },
};
enum { N_DEATHS = sizeof deaths / sizeof deaths[0] };

static int child(const char *name)
{
    for (size_t i = 0; i < N_DEATHS; i++)
        if (!strcmp(deaths[i].name, name)) {
            open_driver(NULL);
            deaths[i].run();
        }
    return 0; /* it should not come here */
}

/* Output of this program run for one case; its wait status. */
static int run_child(const char *name, char *text, size_t bytes)
{
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        execl("/proc/self/exe", "test_emu", "--dies", name, (char *)NULL);
        _exit(0);
    }
    close(ends[1]);
    size_t n = 0;
    ssize_t got;
    while ((got = read(ends[0], text + n, bytes - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void test_deaths(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_DEATHS; i++) {
        static char text[65536];
        int status = run_child(deaths[i].name, text, sizeof text);
        if (status == 0)
            fail_msg("%s: the process lives; '%s'", deaths[i].name, text);
        if (!strstr(text, deaths[i].says) && !deaths[i].needs_keys)
            fail_msg("%s: says '%s'", deaths[i].name, text);
    }
}

/* --- device code */

static void test_softmax(void **state)
{
    enum { ROWS = 3, COLS = 1000 };
    (void)state;
    float *in = pinned_bytes(ROWS * COLS * sizeof *in);
    float *out = pinned_bytes(ROWS * COLS * sizeof *out);
    struct tk_args a = { .in = device_bytes(ROWS * COLS * sizeof *in),
                         .out = device_bytes(ROWS * COLS * sizeof *in),
                         .n = COLS };
    CUstream s = stream();
    for (int i = 0; i < ROWS * COLS; i++)
        in[i] = (float)((i * 7919) % 1013) * 0.01f - 5.0f;
    OK(cuMemcpyHtoDAsync((CUdeviceptr)a.in, in, sizeof(float) * ROWS * COLS,
                         s));
    launch("tk_softmax", ROWS, 256, 0, s, &a);
    OK(cuMemcpyDtoHAsync(out, (CUdeviceptr)a.out, sizeof(float) * ROWS * COLS,
                         s));
    OK(cuStreamSynchronize(s));
    for (int r = 0; r < ROWS; r++) {
        double sum = 0;
        for (int i = 0; i < COLS; i++)
            sum += exp(in[r * COLS + i]);
        for (int i = 0; i < COLS; i++) {
            double want = exp(in[r * COLS + i]) / sum;
            double got = out[r * COLS + i];
            if (!(fabs(got - want) < 1e-6 * want + 1e-9))
                fail_msg("row %d, column %d: %.9g, not %.9g", r, i, got, want);
        }
    }
    OK(cuStreamDestroy(s));
    OK(cuMemFreeHost(in));
    OK(cuMemFreeHost(out));
    device_free(a.out);
    device_free((void *)(uintptr_t)a.in);
}

static void test_groups(void **state)
{
    (void)state;
    enum { THREADS = 48 };
    static unsigned out[THREADS * 8];
    struct tk_args a = { .out = device_bytes(sizeof out) };
    launch("tk_groups", 1, THREADS, 0, NULL, &a);
    OK(cuMemcpyDtoH(out, (CUdeviceptr)a.out, sizeof out));
    for (unsigned t = 0; t < THREADS; t++) {
        unsigned lane = t & 31, base = t & ~31u, votes = 0;
        for (unsigned k = base; k < base + 32 && k < THREADS; k++)
            votes |= (unsigned)(k % 3 == 0) << (k & 31);
        /* lanes 16 to 31 of the second warp are not there */
        unsigned want[8] = { lane < 16 ? t ^ 1u : base + 17,
                             votes,
                             (lane & 7) + 3 < 8 ? t + 3 : t,
                             (lane & 15) >= 2 ? t - 2 : t,
                             10, /* 0, 5, .. 45 */
                             (base == 32) * 2u + (base == 0),
                             2,
                             base == 0 ? 32 : 16 };
        for (unsigned k = 0; k < 8; k++)
            if (out[t * 8 + k] != want[k])
                fail_msg("thread %u, word %u: 0x%x, not 0x%x", t, k,
                         out[t * 8 + k], want[k]);
    }
    device_free(a.out);
}

/* Value of a half, from the definition of the format. */
static double half_value(unsigned bits)
{
    int exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
    double v = exponent == 31  ? (fraction ? NAN : INFINITY)
               : exponent == 0 ? ldexp(fraction, -24)
                               : ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 ? -v : v;
}

static double bf16_value(unsigned bits)
{
    int exponent = (int)(bits >> 7 & 255), fraction = (int)(bits & 127);
    double v = exponent == 255 ? (fraction ? NAN : INFINITY)
               : exponent == 0 ? ldexp(fraction, -133)
                               : ldexp(128 + fraction, exponent - 134);
    return bits >> 15 ? -v : v;
}

/* Nearest of all numbers of a format, ties to the even one, by bisection over
 * its positive numbers; `limit` is the bits of infinity. */
static unsigned nearest(double v, double (*value)(unsigned), unsigned limit)
{
    unsigned sign = signbit(v) ? 0x8000u : 0, low = 0, high = limit;
    v = fabs(v);
    while (high - low > 1) {
        unsigned mid = (low + high) / 2;
        if (value(mid) <= v)
            low = mid;
        else
            high = mid;
    }
    if (isinf(v))
        return sign | limit;
    /* infinity stands for the number that would come next */
    double above = high == limit ? 2 * value(low) - value(low - 1)
                                 : value(high);
    double down = v - value(low), up = above - v;
    return sign | (down < up || (down == up && low % 2 == 0) ? low : high);
}

static void test_narrow(void **state)
{
    (void)state;
    enum { N = 65536 };
    float *in = pinned_bytes(N * sizeof *in);
    unsigned *out = pinned_bytes(N * sizeof *out);
    struct qn_fault *fault = pinned_bytes(sizeof *fault);
    struct tk_args a = { .in = in, .out = out, .n = N };
    a.fault.word = fault;
    for (uint32_t pass = 0, bits = 12345; pass < 4; pass++) {
        memset(fault, 0, sizeof *fault);
        for (uint32_t i = 0; i < N; i++) {
            if (pass == 0) { /* all halves, and what lies between them */
                in[i] = (float)half_value(i);
            } else if (pass == 1) {
                double mid = (half_value(i) + half_value(i ^ 1)) / 2;
                in[i] = i % 3 ? (float)mid : nextafterf((float)mid, 9e9f);
            } else {
                bits = bits * 1664525u + 1013904223u;
                memcpy(&in[i], &bits, sizeof bits);
                if (pass == 3) /* near the range of halves */
                    in[i] = ldexpf(frexpf(in[i], &(int){ 0 }),
                                   (int)(bits % 47) - 29);
            }
        }
        launch("tk_narrow", N / 256, 256, 0, NULL, &a);
        OK(cuCtxSynchronize());
        assert_int_equal(fault->code, QN_DEVICE_FAULT_NONE);
        for (uint32_t i = 0; i < N; i++) {
            unsigned h = nearest(in[i], half_value, 0x7c00);
            unsigned b = nearest(in[i], bf16_value, 0x7f80);
            bool nan = isnan(in[i]);
            bool fine = nan ? isnan(half_value(out[i] >> 16)) &&
                                  isnan(bf16_value(out[i] & 0xffff))
                            : out[i] == (h << 16 | b);
            if (!fine)
                fail_msg("pass %u, %a: 0x%08x, not 0x%04x%04x", pass,
                         (double)in[i], out[i], h, b);
        }
    }
    float *wide = (float *)out;
    a.out = wide;
    launch("tk_widen", N / 256, 256, 0, NULL, &a);
    OK(cuCtxSynchronize());
    for (uint32_t i = 0; i < N; i++)
        if (!isnan(half_value(i)) && (double)wide[i] != half_value(i))
            fail_msg("half 0x%04x is %g", i, (double)wide[i]);
    OK(cuMemFreeHost(in));
    OK(cuMemFreeHost(out));
    OK(cuMemFreeHost(fault));
}

static void test_divide(void **state)
{
    (void)state;
    static const int64_t divisors[] = { 1,     2,          3,
                                        7,     641,        65536,
                                        65537, 2147483646, 2147483647,
                                        (int64_t)1 << 31,  1000000007 };
    struct qn_fault *fault = pinned_bytes(sizeof *fault);
    for (size_t i = 0; i < sizeof divisors / sizeof divisors[0]; i++)
        for (int64_t step = 1; step < (int64_t)1 << 40; step *= 1009) {
            struct tk_args a = { .n = 4096, .extra = step };
            a.divisor = qn_fastdiv_of(divisors[i]);
            a.fault.word = fault;
            memset(fault, 0, sizeof *fault);
            launch("tk_divide", 4, 64, 0, NULL, &a);
            OK(cuCtxSynchronize());
            if (fault->code)
                fail_msg("%lld / %lld", (long long)fault->value,
                         (long long)divisors[i]);
        }
    OK(cuMemFreeHost(fault));
}

static void test_atomics(void **state)
{
    (void)state;
    enum { STREAMS = 4, GRID = 20, BLOCK = 96 };
    unsigned *out = pinned_bytes(16);
    struct tk_args a = { .out = out };
    CUstream s[STREAMS];
    memset(out, 0, 16);
    for (int i = 0; i < STREAMS; i++) {
        s[i] = stream();
        launch("tk_atomics", GRID, BLOCK, 0, s[i], &a);
    }
    OK(cuCtxSynchronize());
    unsigned n = GRID * BLOCK;
    float sum;
    memcpy(&sum, &out[3], sizeof sum);
    assert_int_equal(out[0], STREAMS * (n * (n - 1) / 2));
    assert_int_equal(out[1], n - 1);
    assert_int_equal(out[2], 0xffffffffu);
    assert_true(sum == 0.5f * STREAMS * (float)n);
    for (int i = 0; i < STREAMS; i++)
        OK(cuStreamDestroy(s[i]));
    OK(cuMemFreeHost(out));
}

static void test_shared_is_fresh(void **state)
{
    (void)state;
    unsigned *out = pinned_bytes(64 * sizeof *out);
    struct tk_args a = { .out = out };
    launch("tk_shared_fresh", 3, 64, 256, NULL, &a); /* later blocks too */
    OK(cuCtxSynchronize());
    for (int i = 0; i < 64; i++)
        assert_int_equal(out[i], 0xffffffffu);
    OK(cuMemFreeHost(out));
}

static void test_reductions(void **state)
{
    (void)state;
    float *in = pinned_bytes(4096), *out = pinned_bytes(4096);
    struct qn_fault *fault = pinned_bytes(sizeof *fault);
    memset(fault, 0, sizeof *fault);
    for (int i = 0; i < 1024; i++)
        in[i] = sinf((float)i) * 1e3f + 1e-3f * (float)i;
    for (unsigned n = 32; n <= 1024; n += 32) {
        struct tk_args a = { .in = in, .out = out, .n = n };
        double sum = 0, size = 0;
        a.fault.word = fault;
        launch("tk_reduce", 1, n, 0, NULL, &a);
        OK(cuCtxSynchronize());
        if (fault->code)
            fail_msg("%u threads, thread %d: value %d differs", n,
                     (int)fault->limit, (int)fault->value);
        for (unsigned i = 0; i < n; i++) {
            sum += in[i];
            size += fabs((double)in[i]);
        }
        for (unsigned i = 0; i < n; i++)
            if (!(fabs(out[i] - sum) <= size * 1e-6))
                fail_msg("%u threads: %g, not %g", n, (double)out[i], sum);
    }
    OK(cuMemFreeHost(in));
    OK(cuMemFreeHost(out));
    OK(cuMemFreeHost(fault));
}

static void test_launch_limits(void **state)
{
    (void)state;
    struct tk_args a = { .out = device_bytes(1024) };
    void *params[] = { &a };
    CUfunction f = function("tk_softmax");
    static const struct {
        unsigned grid, block, shared;
        CUresult want;
    } rows[] = {
        { 0, 32, 0, CUDA_ERROR_INVALID_VALUE },
        { 1, 0, 0, CUDA_ERROR_INVALID_VALUE },
        { 1, 1025, 0, CUDA_ERROR_INVALID_VALUE },
        { 1, 512, 0, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES },
        { 1, 32, 49153, CUDA_ERROR_INVALID_VALUE },
        { 1, 32, 49152, CUDA_SUCCESS },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(cuLaunchKernel(f, rows[i].grid, 1, 1, rows[i].block,
                                        1, 1, rows[i].shared, NULL, params,
                                        NULL),
                         rows[i].want);
    OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                          100000));
    OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 100000, NULL, params, NULL));
    assert_int_equal(
        cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                           232449),
        CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuModuleGetFunction(&f, module, "no_such_kernel"),
                     CUDA_ERROR_NOT_FOUND);
    CUmodule other;
    assert_int_equal(cuModuleLoadData(&other, "something else"),
                     CUDA_ERROR_INVALID_IMAGE);
    OK(cuCtxSynchronize());
    device_free(a.out);
}

/* --- streams and events */

static unsigned step(unsigned v, unsigned by)
{
    return v * 3u + by;
}

static void steps(CUstream s, void *out, int64_t by)
{
    struct tk_args a = { .out = out, .n = 8, .extra = by };
    launch("tk_step", 1, 32, 0, s, &a);
}

/* Work that goes to and fro between two streams, ordered only by events. */
static void test_order(void **state)
{
    (void)state;
    unsigned *out = pinned_bytes(32);
    CUstream a = stream(), b = stream();
    CUevent there = event(), back = event();
    for (uint64_t seed = 1; seed <= 20; seed++) {
        unsigned want = 1;
        memset(out, 0, 32);
        out[0] = 1;
        qn_emu_delays(seed, 200);
        for (unsigned i = 0; i < 10; i++) {
            steps(a, out, i);
            OK(cuEventRecord(there, a)); /* the same event again */
            OK(cuStreamWaitEvent(b, there, 0));
            steps(b, out, 100 + i);
            OK(cuEventRecord(back, b));
            OK(cuStreamWaitEvent(a, back, 0));
            want = step(step(want, i), 100 + i);
        }
        OK(cuStreamSynchronize(a));
        assert_int_equal(out[0], want);
    }
    qn_emu_delays(0, 0);
    OK(cuEventDestroy(there));
    OK(cuEventDestroy(back));
    OK(cuStreamDestroy(a));
    OK(cuStreamDestroy(b));
    OK(cuMemFreeHost(out));
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static void pass_gate(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
}

/* A wait takes the record of its time; an event without one is no wait. */
static void test_event_rules(void **state)
{
    (void)state;
    CUstream a = stream(), b = stream(), c = stream();
    CUevent e = event();
    OK(cuEventQuery(e));
    OK(cuStreamWaitEvent(b, e, 0));
    OK(cuStreamSynchronize(b));
    pthread_mutex_lock(&gate);
    OK(cuEventRecord(e, c));
    OK(cuEventSynchronize(e));
    OK(cuStreamWaitEvent(b, e, 0)); /* this record, which is over */
    OK(qn_emu_enqueue(a, pass_gate, NULL, 0, "gate"));
    OK(cuEventRecord(e, a));
    OK(cuStreamSynchronize(b)); /* would hang if it waited for the second */
    assert_int_equal(cuEventQuery(e), CUDA_ERROR_NOT_READY);
    assert_int_equal(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
    pthread_mutex_unlock(&gate);
    OK(cuEventSynchronize(e));
    OK(cuEventQuery(e));
    OK(cuStreamDestroy(a));
    OK(cuStreamDestroy(b));
    assert_int_equal(cuStreamSynchronize(b), CUDA_ERROR_INVALID_HANDLE);
    OK(cuStreamDestroy(c));
    OK(cuEventDestroy(e));
}

/* The legacy stream waits for blocking streams and they for it. */
static void test_legacy_stream(void **state)
{
    (void)state;
    unsigned *out = pinned_bytes(32);
    CUstream a, b = stream();
    OK(cuStreamCreate(&a, CU_STREAM_DEFAULT));
    for (uint64_t seed = 1; seed < 10; seed++) {
        memset(out, 0, 32);
        qn_emu_delays(seed, 300);
        steps(a, out, 1);
        steps(NULL, out, 2);
        steps(a, out, 3);
        OK(cuStreamSynchronize(a));
        assert_int_equal(out[0], step(step(step(0, 1), 2), 3));
    }
    qn_emu_delays(0, 0);
    pthread_mutex_lock(&gate); /* but not for non-blocking ones */
    OK(qn_emu_enqueue(b, pass_gate, NULL, 0, "gate"));
    steps(NULL, out, 4);
    OK(cuStreamSynchronize(NULL));
    pthread_mutex_unlock(&gate);
    OK(cuStreamDestroy(a));
    OK(cuStreamDestroy(b));
    OK(cuMemFreeHost(out));
}

/* --- captures and graphs */

static CUgraphExec instantiate(CUgraph g)
{
    CUgraphExec e;
    OK(cuGraphInstantiate(&e, g, 0));
    OK(cuGraphDestroy(g));
    return e;
}

static void test_capture(void **state)
{
    (void)state;
    enum { N = 6 };
    unsigned *out = pinned_bytes(N * 32);
    CUstream a = stream(), b = stream();
    CUevent fork_here = event(), join_here = event();
    CUgraph graph;
    size_t n = 0;
    memset(out, 0, N * 32);
    OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    steps(a, out, 1);
    OK(cuEventRecord(fork_here, a));
    OK(cuStreamWaitEvent(b, fork_here, 0));
    steps(a, out, 2);
    steps(b, out + 8, 3);
    OK(cuMemcpyDtoDAsync((CUdeviceptr)(out + 16), (CUdeviceptr)(out + 8), 32,
                         b));
    OK(cuEventRecord(join_here, b));
    assert_int_equal(cuEventQuery(join_here), CUDA_ERROR_CAPTURED_EVENT);
    OK(cuStreamWaitEvent(a, join_here, 0));
    steps(a, out + 16, 4);
    OK(cuStreamEndCapture(a, &graph));
    OK(cuGraphGetNodes(graph, NULL, &n));
    assert_int_equal(n, 5);
    assert_int_equal(out[0], 0); /* nothing has run */
    CUgraphExec exec = instantiate(graph);
    OK(cuGraphUpload(exec, a));
    unsigned want[3] = { 0 };
    for (uint64_t seed = 0; seed < 30; seed++) {
        qn_emu_delays(seed, seed ? 50 : 0);
        OK(cuGraphLaunch(exec, seed & 1 ? a : b)); /* in turn, all the same */
        want[0] = step(step(want[0], 1), 2);
        want[1] = step(want[1], 3);
        want[2] = step(want[1], 4);
    }
    OK(cuGraphExecDestroy(exec)); /* with launches under way */
    OK(cuCtxSynchronize());
    qn_emu_delays(0, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(out[i * 8], want[i]);
    OK(cuEventDestroy(fork_here));
    OK(cuEventDestroy(join_here));
    OK(cuStreamDestroy(a));
    OK(cuStreamDestroy(b));
    OK(cuMemFreeHost(out));
}

static CUresult end_capture(CUstream s)
{
    CUgraph g;
    CUresult r = cuStreamEndCapture(s, &g);
    if (r == CUDA_SUCCESS)
        OK(cuGraphDestroy(g));
    else
        assert_null(g);
    return r;
}

static void test_capture_unjoined(void **state)
{
    (void)state;
    unsigned *out = pinned_bytes(32);
    CUstream a = stream(), b = stream();
    CUevent e = event();
    OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    steps(a, out, 1);
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    steps(b, out, 1);
    assert_int_equal(cuStreamEndCapture(b, &(CUgraph){ 0 }),
                     CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    assert_int_equal(end_capture(a), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    steps(b, out, 1);
    assert_int_equal(end_capture(a), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    steps(b, out, 1); /* both are plain streams again */
    OK(cuStreamSynchronize(b));
    OK(cuStreamSynchronize(a));
    OK(cuEventDestroy(e));
    OK(cuStreamDestroy(a));
    OK(cuStreamDestroy(b));
    OK(cuMemFreeHost(out));
}

static CUresult breaks_sync(CUstream s)
{
    return cuStreamSynchronize(s);
}
static CUresult breaks_query(CUstream s)
{
    return cuStreamQuery(s);
}
static CUresult breaks_alloc(CUstream s)
{
    (void)s;
    CUdeviceptr p;
    return cuMemAlloc(&p, 256);
}
static CUresult breaks_context_sync(CUstream s)
{
    (void)s;
    return cuCtxSynchronize();
}
static CUresult breaks_outside_wait(CUstream s)
{
    CUevent e = event();
    CUstream other = stream();
    OK(cuEventRecord(e, other));
    CUresult r = cuStreamWaitEvent(s, e, 0);
    OK(cuEventDestroy(e));
    OK(cuStreamDestroy(other));
    return r;
}
static CUresult breaks_pageable(CUstream s)
{
    static char host[256];
    void *p = pinned_bytes(256); /* allowed: the thread's mode is relaxed */
    CUresult r = cuMemcpyHtoDAsync((CUdeviceptr)p, host, 256, s);
    return r;
}

static void test_capture_broken(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        CUresult (*run)(CUstream s);
        CUresult want;
        CUstreamCaptureMode mode;
    } rows[] = {
        { "sync", breaks_sync, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
          CU_STREAM_CAPTURE_MODE_RELAXED },
        { "query", breaks_query, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
          CU_STREAM_CAPTURE_MODE_RELAXED },
        { "alloc, global", breaks_alloc, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
          CU_STREAM_CAPTURE_MODE_GLOBAL },
        { "alloc, local", breaks_alloc, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
          CU_STREAM_CAPTURE_MODE_THREAD_LOCAL },
        { "context", breaks_context_sync,
          CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
          CU_STREAM_CAPTURE_MODE_RELAXED },
        { "outside", breaks_outside_wait, CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
          CU_STREAM_CAPTURE_MODE_RELAXED },
        { "pageable", breaks_pageable, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
          CU_STREAM_CAPTURE_MODE_RELAXED },
    };
    unsigned *out = pinned_bytes(32);
    CUstream s = stream();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CUstreamCaptureStatus status;
        OK(cuStreamBeginCapture(s, rows[i].mode));
        steps(s, out, 1);
        CUresult r = rows[i].run(s);
        if (r != rows[i].want)
            fail_msg("%s: %d, not %d", rows[i].name, r, rows[i].want);
        OK(cuStreamIsCapturing(s, &status));
        assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        assert_int_equal(cuMemsetD8Async((CUdeviceptr)out, 0, 4, s),
                         CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        assert_int_equal(end_capture(s),
                         CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        OK(cuStreamSynchronize(s));
    }
    OK(cuStreamDestroy(s));
    OK(cuMemFreeHost(out));
}

/* What another thread does while this one captures. */
static void *alloc_elsewhere(void *arg)
{
    CUresult *r = arg;
    CUdeviceptr p;
    if (cuCtxSetCurrent(context) == CUDA_SUCCESS)
        *r = cuMemAlloc(&p, 256);
    if (*r == CUDA_SUCCESS)
        *r = cuMemFree(p);
    return NULL;
}

static void test_capture_threads(void **state)
{
    (void)state;
    CUstream s = stream();
    for (int local = 0; local < 2; local++) {
        CUresult r = CUDA_ERROR_UNKNOWN;
        pthread_t t;
        OK(cuStreamBeginCapture(s, local ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
                                         : CU_STREAM_CAPTURE_MODE_GLOBAL));
        assert_int_equal(pthread_create(&t, NULL, alloc_elsewhere, &r), 0);
        pthread_join(t, NULL);
        assert_int_equal(r, local ? CUDA_SUCCESS
                                  : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        assert_int_equal(end_capture(s),
                         local ? CUDA_SUCCESS
                               : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    OK(cuStreamDestroy(s));
}

/* --- memory */

static void test_copies(void **state)
{
    (void)state;
    char plain[300], *pinned = pinned_bytes(300);
    void *a = device_bytes(300), *b = device_bytes(300);
    CUstream s = stream();
    for (int i = 0; i < 300; i++)
        plain[i] = (char)(i * 7);
    OK(cuMemcpyHtoDAsync((CUdeviceptr)a, plain, 300, s));
    memset(plain, 0, sizeof plain); /* pageable: was copied before return */
    OK(cuMemcpyDtoDAsync((CUdeviceptr)b, (CUdeviceptr)a, 300, s));
    OK(cuMemcpyDtoHAsync(pinned, (CUdeviceptr)b, 300, s));
    OK(cuStreamSynchronize(s));
    for (int i = 0; i < 300; i++)
        assert_int_equal(pinned[i], (char)(i * 7));
    OK(cuMemcpyDtoH(plain, (CUdeviceptr)b, 300));
    assert_memory_equal(plain, pinned, 300);
    OK(cuMemsetD32Async((CUdeviceptr)a, 0x01020304, 75, s));
    OK(cuMemcpyDtoHAsync(plain, (CUdeviceptr)a, 300, s));
    assert_int_equal(plain[297], 3); /* waited: not pinned */
    static const struct {
        ptrdiff_t from;
        size_t bytes;
    } bad[] = { { 0, 301 }, { -1, 2 }, { 300, 1 }, { 0, SIZE_MAX } };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(
            cuMemcpyDtoHAsync(plain,
                              (CUdeviceptr)((char *)a + bad[i].from),
                              bad[i].bytes, s),
            CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyDtoHAsync(plain, (CUdeviceptr)plain, 4, s),
                     CUDA_ERROR_INVALID_VALUE);
    assert_true(qn_emu_device_range(a, 300));
    assert_false(qn_emu_device_range(a, 301));
    assert_false(qn_emu_device_range(plain, 1));
    device_free(a);
    assert_false(qn_emu_device_range(a, 1));
    assert_int_equal(cuMemFree((CUdeviceptr)a), CUDA_ERROR_INVALID_VALUE);
    device_free(b);
    OK(cuStreamDestroy(s));
    OK(cuMemFreeHost(pinned));
}

/* What nobody has written is NaN. */
static void test_fresh_memory(void **state)
{
    (void)state;
    unsigned out[4];
    void *a = device_bytes(sizeof out);
    OK(cuMemcpyDtoH(out, (CUdeviceptr)a, sizeof out));
    for (int i = 0; i < 4; i++)
        assert_int_equal(out[i], 0xffffffffu);
    device_free(a);
}

static void test_register(void **state)
{
    (void)state;
    static char host[8192];
    OK(cuMemHostRegister(host, 4096, 0));
    assert_int_equal(cuMemHostRegister(host + 4000, 200, 0),
                     CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    assert_true(qn_emu_device_range(host, 4096));
    assert_int_equal(cuMemHostUnregister(host + 1),
                     CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    OK(cuMemHostUnregister(host));
}

static void test_virtual(void **state)
{
    (void)state;
    CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED };
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemAccessDesc access = { .location = prop.location,
                               .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    CUmemGenericAllocationHandle one, two;
    CUdeviceptr at;
    size_t page;
    unsigned word = 7;
    uint64_t before = qn_emu_bytes_in_use(0);
    OK(cuMemGetAllocationGranularity(&page, &prop,
                                     CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    OK(cuMemAddressReserve(&at, 8 * page, 0, 0, 0));
    OK(cuMemCreate(&one, page, &prop, 0));
    OK(cuMemCreate(&two, 2 * page, &prop, 0));
    assert_int_equal(qn_emu_bytes_in_use(0) - before, 3 * page);
    assert_int_equal(cuMemCreate(&one, page + 1, &prop, 0),
                     CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(at, page, 0, one, 0));
    OK(cuMemMap(at + page, 2 * page, 0, two, 0));
    assert_int_equal(cuMemMap(at, page, 0, one, 0), CUDA_ERROR_INVALID_VALUE);
    assert_false(qn_emu_device_range((void *)at, 1)); /* no access yet */
    OK(cuMemSetAccess(at, 3 * page, &access, 1));
    assert_true(qn_emu_device_range((void *)at, 3 * page));
    assert_false(qn_emu_device_range((void *)at, 3 * page + 1));
    /* across two mappings; then the memory of one somewhere else */
    OK(cuMemsetD32(at + page - 64, 5, 64));
    assert_int_equal(cuMemUnmap(at, page / 2), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(at, 3 * page));
    assert_int_equal(cuMemsetD32(at, 5, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(at + 4 * page, page, 0, one, 0));
    OK(cuMemSetAccess(at + 4 * page, page, &access, 1));
    OK(cuMemcpyDtoH(&word, at + 5 * page - 4, 4));
    assert_int_equal(word, 5);
    OK(cuMemcpyDtoH(&word, at + 4 * page, 4));
    assert_int_equal(word, 0xffffffffu);
    OK(cuMemRelease(one)); /* mapped: still there */
    OK(cuMemRelease(two));
    assert_int_equal(qn_emu_bytes_in_use(0) - before, page);
    assert_int_equal(cuMemAddressFree(at, 8 * page), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(at + 4 * page, page));
    OK(cuMemAddressFree(at, 8 * page));
    assert_int_equal(qn_emu_bytes_in_use(0), before);
}

static void test_pool(void **state)
{
    (void)state;
    CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED };
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemoryPool pool;
    CUdeviceptr p;
    CUstream s = stream();
    cuuint64_t all = UINT64_MAX, used;
    uint64_t before = qn_emu_bytes_in_use(0);
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    OK(cuMemAllocFromPoolAsync(&p, 1000, pool, s));
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    assert_int_equal(used, 1000);
    OK(cuMemsetD8Async(p, 1, 1000, s));
    OK(cuMemFreeAsync(p, s));
    assert_int_equal(cuMemFreeAsync(p, s), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemsetD8Async(p, 1, 1, s), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamSynchronize(s));
    assert_int_equal(qn_emu_bytes_in_use(0), before);
    OK(cuMemPoolDestroy(pool));
    OK(cuStreamDestroy(s));
}

static void test_out_of_memory(void **state)
{
    (void)state;
    size_t total;
    CUdeviceptr p;
    OK(cuMemGetInfo(NULL, &total));
    qn_emu_set_memory(0, qn_emu_bytes_in_use(0) + 1024);
    assert_int_equal(cuMemAlloc(&p, 1025), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc(&p, 1024));
    OK(cuMemFree(p));
    qn_emu_set_memory(0, total);
}

static void test_peers(void **state)
{
    (void)state;
    CUcontext other;
    CUdeviceptr far, near = (CUdeviceptr)device_bytes(64);
    unsigned word;
    OK(cuDevicePrimaryCtxRetain(&other, 1));
    OK(cuCtxPushCurrent(other));
    OK(cuMemAlloc(&far, 64));
    OK(cuMemsetD32(far, 99, 16));
    OK(cuCtxPopCurrent(NULL));
    OK(cuCtxEnablePeerAccess(other, 0));
    assert_int_equal(cuCtxEnablePeerAccess(other, 0),
                     CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    OK(cuMemcpyPeerAsync(near, context, far, other, 64, NULL));
    OK(cuMemcpyDtoH(&word, near, 4));
    assert_int_equal(word, 99);
    assert_int_equal(cuMemcpyPeerAsync(near, other, far, context, 64, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(far));
    OK(cuMemFree(near));
    OK(cuDevicePrimaryCtxRelease(1));
}

/* --- failures */

static void test_injection(void **state)
{
    (void)state;
    CUdeviceptr p;
    qn_emu_reset_counts();
    qn_emu_fail_at("cuMemAlloc", 3, CUDA_ERROR_OUT_OF_MEMORY);
    for (int i = 1; i <= 5; i++) {
        CUresult r = cuMemAlloc(&p, 64);
        assert_int_equal(r, i == 3 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
        if (r == CUDA_SUCCESS)
            OK(cuMemFree(p));
    }
    assert_int_equal(qn_emu_count("cuMemAlloc"), 5);
    assert_int_equal(qn_emu_fail("cublasLtMatmul"), 0);
    qn_emu_fail_at("cublasLtMatmul", 1, 14);
    assert_int_equal(qn_emu_fail("cublasLtMatmul"), 14);
    assert_int_equal(qn_emu_fail("cublasLtMatmul"), 0);
}

static void test_sticky(void **state)
{
    (void)state;
    unsigned *out = pinned_bytes(32);
    CUstream s = stream(), t = stream();
    CUevent e = event();
    CUfunction f = function("tk_step");
    memset(out, 0, 32);
    qn_emu_fail_at("cuLaunchKernel", 2, CUDA_ERROR_ILLEGAL_ADDRESS);
    steps(s, out, 1);
    steps(s, out, 2); /* succeeds: the kernel is what fails */
    CUresult r = cuStreamSynchronize(s);
    assert_int_equal(r, CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(out[0], 1);
    /* whatever the call and the stream */
    CUdeviceptr p;
    struct tk_args a = { .out = out, .n = 8 };
    void *params[] = { &a };
    assert_int_equal(cuMemAlloc(&p, 64), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuEventRecord(e, t), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuEventQuery(e), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(
        cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, t, params, NULL),
        CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_true(qn_emu_dead(0));
    assert_false(qn_emu_dead(1)); /* the other device lives */
    qn_emu_revive();
    OK(cuStreamSynchronize(t));
    OK(cuEventDestroy(e));
    OK(cuStreamDestroy(s));
    OK(cuStreamDestroy(t));
    OK(cuMemFreeHost(out));
}

/* --- names, counters, log */

static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int version;
        void *want;
    } rows[] = {
        { "cuMemAlloc", 13000, NULL },
        { "cuMemAlloc", 3020, NULL },
        { "cuGraphInstantiate", 13000, NULL },
        { "cuStreamDestroy", 13000, NULL },
        { "cuLaunchKernel", 4000, NULL },
    };
    void *want[sizeof rows / sizeof rows[0]];
    CUresult (*alloc)(CUdeviceptr *, size_t) = cuMemAlloc;
    CUresult (*graph)(CUgraphExec *, CUgraph, unsigned long long) =
        cuGraphInstantiate;
    CUresult (*destroy)(CUstream) = cuStreamDestroy;
    __typeof__(&cuLaunchKernel) start = cuLaunchKernel;
    memcpy(&want[0], &alloc, sizeof alloc);
    memcpy(&want[1], &alloc, sizeof alloc);
    memcpy(&want[2], &graph, sizeof graph);
    memcpy(&want[3], &destroy, sizeof destroy);
    memcpy(&want[4], &start, sizeof start);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        void *p = NULL;
        CUdriverProcAddressQueryResult how;
        OK(cuGetProcAddress(rows[i].name, &p, rows[i].version, 0, &how));
        assert_int_equal(how, CU_GET_PROC_ADDRESS_SUCCESS);
        assert_ptr_equal(p, want[i]);
    }
    void *p;
    assert_int_equal(cuGetProcAddress("cuNothing", &p, 13000, 0, NULL),
                     CUDA_ERROR_NOT_FOUND);
    const char *name;
    OK(cuGetErrorName(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, &name));
    assert_string_equal(name, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED");
}

static size_t find_entry(const struct qn_emu_entry *log, size_t n,
                         uint32_t kind, uint64_t tag)
{
    for (size_t i = 0; i < n; i++)
        if (log[i].kind == kind && (!tag || log[i].tag == tag))
            return i;
    fail_msg("no entry of kind %u, tag %u", kind, (unsigned)tag);
    return 0;
}

static void test_log(void **state)
{
    (void)state;
    static struct qn_emu_entry log[64];
    unsigned *out = pinned_bytes(64);
    CUstream a = stream(), b = stream();
    CUevent e = event();
    CUgraph graph;
    qn_emu_reset_counts();
    qn_emu_log(true);
    qn_emu_tag(a, 11);
    steps(a, out, 1);
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    qn_emu_tag(b, 22);
    steps(b, out, 2);
    OK(cuStreamSynchronize(b));
    qn_emu_tag(a, 33);
    steps(a, out, 3); /* after b, by what the host saw */
    OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    qn_emu_tag(a, 44);
    steps(a, out, 4);
    qn_emu_tag(a, 55);
    steps(a, out, 5);
    OK(cuStreamEndCapture(a, &graph));
    CUgraphExec exec = instantiate(graph);
    OK(cuGraphLaunch(exec, a));
    OK(cuCtxSynchronize());
    qn_emu_log(false);
    size_t n = qn_emu_log_read(log, 64);
    assert_true(n <= 64);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(log[i].sequence, i + 1);
    size_t one = find_entry(log, n, QN_EMU_KERNEL, 11);
    size_t two = find_entry(log, n, QN_EMU_KERNEL, 22);
    size_t three = find_entry(log, n, QN_EMU_KERNEL, 33);
    size_t four = find_entry(log, n, QN_EMU_KERNEL, 44);
    size_t five = find_entry(log, n, QN_EMU_KERNEL, 55);
    size_t record = find_entry(log, n, QN_EMU_RECORD, 0);
    size_t wait = find_entry(log, n, QN_EMU_WAIT, 0);
    size_t seen = find_entry(log, n, QN_EMU_OBSERVED, 0);
    size_t edge = find_entry(log, n, QN_EMU_EDGE, 0);
    assert_string_equal(log[one].what, "tk_step");
    assert_int_equal(log[one].stream, qn_emu_stream_number(a));
    assert_int_equal(log[two].stream, qn_emu_stream_number(b));
    assert_true(one < record && record < wait && wait < two && two < seen);
    assert_int_equal(log[record].point, log[wait].point);
    assert_int_equal(log[wait].stream, qn_emu_stream_number(b));
    assert_true(log[three].enqueued > log[seen].sequence);
    assert_true(log[two].enqueued < log[seen].sequence);
    assert_int_equal(log[four].launch, log[five].launch);
    assert_int_equal(log[edge].node, log[five].node);
    assert_int_equal(log[edge].point, log[four].node);
    assert_int_equal(qn_emu_count("tk_step"), 5);
    assert_int_equal(qn_emu_count("kernel"), 5);
    assert_int_equal(qn_emu_count("graph"), 1);
    OK(cuGraphExecDestroy(exec));
    OK(cuEventDestroy(e));
    OK(cuStreamDestroy(a));
    OK(cuStreamDestroy(b));
    OK(cuMemFreeHost(out));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_narrow),
        cmocka_unit_test(test_divide),
        cmocka_unit_test(test_atomics),
        cmocka_unit_test(test_shared_is_fresh),
        cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_launch_limits),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_event_rules),
        cmocka_unit_test(test_legacy_stream),
        cmocka_unit_test(test_capture),
        cmocka_unit_test(test_capture_unjoined),
        cmocka_unit_test(test_capture_broken),
        cmocka_unit_test(test_capture_threads),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_fresh_memory),
        cmocka_unit_test(test_register),
        cmocka_unit_test(test_virtual),
        cmocka_unit_test(test_pool),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_peers),
        cmocka_unit_test(test_injection),
        cmocka_unit_test(test_sticky),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_deaths),
    };
    if (argc == 3 && !strcmp(argv[1], "--dies"))
        return child(argv[2]);
    return cmocka_run_group_tests(tests, open_driver, NULL);
}

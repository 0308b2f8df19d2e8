/* SPDX-License-Identifier: Apache-2.0 */
/* Device code under emulation does what the programming guide says, and what a
 * kernel or a client may not do is noticed. What has to end the process is run
 * in a child: this program with the case's name as argument. */
#include "tests/cuda/emu/test.h"

#include <math.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

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
        cmocka_unit_test(test_deaths),
    };
    if (argc == 3 && !strcmp(argv[1], "--dies"))
        return child(argv[2]);
    return cmocka_run_group_tests(tests, open_driver, NULL);
}

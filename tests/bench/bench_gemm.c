/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GFLOP/s of the packed matrix product on one thread, per instruction set, by the
 * thread's own clock (other work on the machine counts less):
 * the best of several rounds. Not a test.
 *
 *     make build/tests/bench/bench_gemm && build/tests/bench/bench_gemm [m n k]
 */
#include "runtime/cpu/gemm/gemm.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float *numbers(size_t n)
{
    float *p = aligned_alloc(64, (n * sizeof *p + 63) & ~(size_t)63);
    for (size_t i = 0; p && i < n; i++)
        p[i] = (float)((int)(i * 2654435761u % 1000u) - 500) * 1e-3f;
    return p;
}

static void bench(const qn_gemm_isa *isa, const char *name, int64_t m,
                  int64_t n, int64_t k)
{
    size_t packed = 0;
    if (!qn_gemm_packed_floats(isa, k, n, &packed))
        return;
    float *a = numbers((size_t)(m * k)), *b = numbers((size_t)(k * n));
    float *p = numbers(packed), *c = numbers((size_t)(m * n));
    qn_gemm_source src = { .data = b, .dtype = QN_F32, .s_inner = n, .s_n = 1 };
    qn_gemm_end end = { .bias = b, .act = QN_ACT_RELU };
    double best = 1e9, work = 2.0 * (double)m * (double)n * (double)k;
    if (!a || !b || !p || !c)
        goto done;
    qn_gemm_pack(isa, &src, k, n, p);
    int repeat = 1 + (int)(2e8 / work);
    for (int round = 0; round < 7; round++) {
        double t = now();
        for (int i = 0; i < repeat; i++)
            qn_gemm_run(NULL, isa, m, n, k, a, (size_t)k, p, c, (size_t)n,
                        &end);
        t = (now() - t) / repeat;
        best = t < best ? t : best;
    }
    printf("%-7s %5lld x %5lld x %5lld  %9.1f us  %7.1f GFLOP/s\n", name,
           (long long)m, (long long)n, (long long)k, best * 1e6,
           work / best * 1e-9);
done:
    free(a), free(b), free(p), free(c);
}

int main(int argc, char **argv)
{
    static const int64_t shapes[][3] = {
        { 128, 768, 768 },  { 128, 3072, 768 }, { 128, 768, 3072 },
        { 1, 768, 768 },    { 2, 768, 768 },    { 4, 768, 768 },
        { 16, 768, 768 },   { 3136, 64, 64 },   { 3136, 256, 64 },
        { 784, 512, 128 },  { 196, 1024, 256 }, { 49, 2048, 512 },
        { 49, 512, 4608 },  { 12544, 16, 32 },  { 3136, 24, 144 },
        { 1, 1000, 2048 },  { 1024, 1024, 1024 },
    };
    static const char *const names[] = { "base", "avx2", "avx512" };
    for (int level = argc == 4; level <= (int)qn_isa_best(); level++) {
        const qn_gemm_isa *isa = QN_ISA_PICK(qn_gemm_kernels, level);
        if (argc == 4) {
            bench(isa, names[level], atoll(argv[1]), atoll(argv[2]),
                  atoll(argv[3]));
            continue;
        }
        for (size_t i = 0; level && i < sizeof shapes / sizeof shapes[0]; i++)
            bench(isa, names[level], shapes[i][0], shapes[i][1], shapes[i][2]);
    }
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* MatMul and Gemm on a device against the cpu, and which way they took. */
#include "tests/cuda/support/device_node.h"
#include "tests/cuda/support/library.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N_OF(rows) (sizeof(rows) / sizeof(rows)[0])

enum { NOT_SUPPORTED = 15 }; /* CUBLAS_STATUS_NOT_SUPPORTED */

static const device_row matmul[] = {
    { "MatMul", 13, NULL, { "f32 4,8", "f32 8,12" } },
    { "MatMul", 13, NULL, { "f32 65,17", "f32 17,67" } },
    { "MatMul", 13, NULL, { "f32 1,64", "f32 64,96" } },
    { "MatMul", 13, NULL, { "f32 3,5", "f32 5" } },
    { "MatMul", 13, NULL, { "f32 5", "f32 5,3" } },
    { "MatMul", 13, NULL, { "f32 7", "f32 7" } },
    { "MatMul", 13, NULL, { "f32 1,1", "f32 1,1" } },
    { "MatMul", 13, NULL, { "f32 2,300", "f32 300,4" }, .atol = 1e-4 },
    /* batches: rows, one for one, one for all, a loop */
    { "MatMul", 13, NULL, { "f32 3,4,8", "f32 8,12" } },
    { "MatMul", 13, NULL, { "f32 3,4,8", "f32 3,8,12" } },
    { "MatMul", 13, NULL, { "f32 4,8", "f32 3,8,12" } },
    { "MatMul", 13, NULL, { "f32 2,3,4,8", "f32 2,3,8,12" } },
    { "MatMul", 13, NULL, { "f32 2,3,4,8", "f32 2,1,8,12" } },
    { "MatMul", 13, NULL, { "f32 2,1,4,8", "f32 1,3,8,12" } },
    { "MatMul", 13, NULL, { "f32 2,1,3,5", "f32 3,5,7" } },
    { "MatMul", 13, NULL, { "f32 2,1,3,1,4,4", "f32 1,2,1,2,4,4" } },
    { "MatMul", 13, NULL, { "f32 9,1,9,1,2,3", "f32 1,9,1,2,3,2" } },
    { "MatMul", 13, NULL, { "f32 5", "f32 2,3,5,4" } },
    { "MatMul", 13, NULL, { "f32 2,3,4,5", "f32 5" } },
    { "MatMul", 13, NULL, { "f32 1,1,4,8", "f32 1,1,1,8,12" } },
    /* nothing */
    { "MatMul", 13, NULL, { "f32 0,8", "f32 8,12" } },
    { "MatMul", 13, NULL, { "f32 4,0", "f32 0,3" } },
    { "MatMul", 13, NULL, { "f32 4,8", "f32 8,0" } },
    { "MatMul", 13, NULL, { "f32 0,4,8", "f32 0,8,2" } },
    /* a fused bias */
    { "MatMul", 13, NULL, { "f32 4,8", "f32 8,12", "f32 12" } },
    { "MatMul", 13, NULL, { "f32 3,4,8", "f32 3,8,12", "f32 12" } },
    { "MatMul", 13, NULL, { "f32 8", "f32 8,12", "f32 12" }, .in_place = true },
    /* where the library's fast algorithms do not go */
    { "MatMul", 13, NULL, { "f32 4,8", "f32 8,12" }, .shift = 1 },
    { "MatMul", 13, NULL, { "f32 2,4,8", "f32 2,8,12", "f32 12" }, .shift = 3 },
    /* other types */
    { "MatMul", 13, NULL, { "f64 5,70", "f64 70,9" } },
    { "MatMul", 13, NULL, { "f64 2,3,4", "f64 2,4,5" } },
    { "MatMul", 13, NULL, { "f16 9,40", "f16 40,8" } },
    { "MatMul", 13, NULL, { "f16 2,9,3", "f16 2,3,5" }, .shift = 1 },
    { "MatMul", 13, NULL, { "bf16 9,40", "bf16 40,8" } },
    { "MatMul", 13, NULL, { "f16 4,0", "f16 0,3" } },
    { "MatMul", 13, NULL, { "i32 5,70", "i32 70,66" } },
    { "MatMul", 13, NULL, { "i64 2,1,3,4", "i64 3,4,5" } },
    { "MatMul", 13, NULL, { "u32 3,4", "u32 4,5" } },
    { "MatMul", 13, NULL, { "u64 3,4", "u64 4,5" } },
    { "MatMul", 13, NULL, { "i32 1,2: 2147483647 -2147483648",
                            "i32 2,2: 3 5 7 9" } },
    { "MatMul", 13, NULL, { "i64 1,1: 9223372036854775807", "i64 1,1: 3" } },
    { "MatMul", 13, NULL, { "f32 2,2: nan 1 2 inf", "f32 2,2: 1 0 1 1" } },
};

static const device_row gemm[] = {
    { "Gemm", 13, NULL, { "f32 4,8", "f32 8,12" } },
    { "Gemm", 13, "transA=1", { "f32 8,4", "f32 8,12" } },
    { "Gemm", 13, "transB=1", { "f32 4,8", "f32 12,8" } },
    { "Gemm", 13, "transA=1 transB=1", { "f32 8,4", "f32 12,8" } },
    { "Gemm", 13, "transA=1 transB=1 alpha=0.5", { "f32 70,65", "f32 66,70" } },
    { "Gemm", 13, "alpha=0.5 beta=2.0", { "f32 4,8", "f32 8,12", "f32 4,12" } },
    { "Gemm", 13, "beta=2.0", { "f32 4,8", "f32 8,12", "f32 4,12" },
      .in_place = true },
    /* C of every kind */
    { "Gemm", 13, NULL, { "f32 4,8", "f32 8,12", "f32 12" } },
    { "Gemm", 13, NULL, { "f32 4,8", "f32 8,12", "f32 1,12" } },
    { "Gemm", 13, NULL, { "f32 4,8", "f32 8,12", "f32 4,1" } },
    { "Gemm", 13, NULL, { "f32 4,8", "f32 8,12", "f32 1" } },
    { "Gemm", 13, NULL, { "f32 4,8", "f32 8,12", "f32 : 2.5" } },
    { "Gemm", 13, NULL, { "f32 4,8", "f32 8,12", "f32 1,1" } },
    { "Gemm", 13, "beta=0.25", { "f32 4,8", "f32 8,12", "f32 12" } },
    { "Gemm", 13, "beta=0.25", { "f32 4,8", "f32 8,12", "f32 4,1" } },
    { "Gemm", 13, NULL, { "f32 1,8", "f32 8,12", "f32 1,12" },
      .in_place = true },
    { "Gemm", 13, NULL, { "f32 4,8", "f32 8,1", "f32 4,1" }, .in_place = true },
    { "Gemm", 13, NULL, { "f32 4,0", "f32 0,3", "f32 3" } },
    { "Gemm", 13, "transB=1", { "f32 4,8", "f32 12,8", "f32 12" }, .shift = 1 },
    { "Gemm", 13, "transB=1", { "f32 4,8", "f32 12,8", "f32 12" },
      .constants = 1 << 1 | 1 << 2 },
    { "Gemm", 13, "alpha=0.5 beta=2.0", { "f64 4,8", "f64 8,12", "f64 12" } },
    { "Gemm", 13, "transA=1", { "f64 8,4", "f64 8,12", "f64 4,12" } },
    { "Gemm", 13, "alpha=0.5 beta=2.0", { "f16 4,8", "f16 8,12", "f16 12" } },
    { "Gemm", 13, NULL, { "f16 4,8", "f16 8,12", "f16 12" } },
    { "Gemm", 13, "transB=1", { "f16 5,9", "f16 7,9", "f16 5,1" } },
    { "Gemm", 13, "transB=1", { "bf16 5,9", "bf16 7,9", "bf16 5,7" } },
    { "Gemm", 13, "alpha=-1.0 beta=2.0", { "i32 4,8", "i32 8,12", "i32 12" } },
    { "Gemm", 13, "alpha=-1.0 beta=-3.0 transA=1",
      { "u64 8,4", "u64 8,12", "u64 4,1" } },
};

/* Inputs in halves are exact in all formats below: what differs is the sum. */
static const device_row rounded[] = {
    { "MatMul", 13, NULL, { "f32 17,40", "f32 40,24" },
      .precision = QN_PRECISION_TF32 },
    { "MatMul", 13, NULL, { "f32 17,40", "f32 40,24", "f32 24" },
      .precision = QN_PRECISION_FP16 },
    { "MatMul", 13, NULL, { "f32 3,5,7", "f32 3,7,9" },
      .precision = QN_PRECISION_BF16 },
    { "Gemm", 13, "transA=1 beta=0.5", { "f32 40,17", "f32 40,24", "f32 17,1" },
      .precision = QN_PRECISION_FP16 },
    { "MatMul", 13, NULL, { "f32 2,1,3,8", "f32 1,5,8,8" },
      .precision = QN_PRECISION_BF16 },
    { "MatMul", 13, NULL, { "f64 5,7", "f64 7,9" },
      .precision = QN_PRECISION_FP16 },
};

static void test_matmul(void **state)
{
    (void)state;
    device_rows_run(matmul, N_OF(matmul));
}

static void test_gemm(void **state)
{
    (void)state;
    device_rows_run(gemm, N_OF(gemm));
}

/* The same between aligned addresses. */
static void test_views(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_OF(matmul) + N_OF(gemm); i++) {
        device_row r = i < N_OF(matmul) ? matmul[i] : gemm[i - N_OF(matmul)];
        r.shift = 1;
        device_rows_run(&r, 1);
    }
}

/* Where the library has no algorithm the own kernel does all of it. */
static void test_own(void **state)
{
    (void)state;
    if (!library_reset())
        skip();
    for (size_t i = 0; i < N_OF(matmul) + N_OF(gemm); i++) {
        const device_row *r = i < N_OF(matmul) ? &matmul[i]
                                               : &gemm[i - N_OF(matmul)];
        library_reset();
        for (uint64_t k = 1; k <= 4; k++) /* fused or not, aligned or not */
            library_fail("cublasLtMatmulAlgoGetHeuristic", k, NOT_SUPPORTED);
        device_rows_run(r, 1);
        library_fail(NULL, 0, 0);
        assert_int_equal(0, library_count("cublasLtMatmul"));
    }
}

static void test_precision(void **state)
{
    (void)state;
    device_rows_run(rounded, N_OF(rounded));
}

/* ---- what passes fuse ---- */

typedef struct fused_row {
    const char *op, *attrs, *in[4];
    qn_act act;
    float a, b;
    bool residual; /* the last input */
    device_options o;
} fused_row;

static const fused_row fused[] = {
    { "MatMul", NULL, { "f32 4,8", "f32 8,12" }, QN_ACT_RELU, 0, 0, false, { 0 } },
    { "MatMul", NULL, { "f32 4,8", "f32 8,12", "f32 12" }, QN_ACT_RELU, 0, 0,
      false, { 0 } },
    { "MatMul", NULL, { "f32 4,8", "f32 8,12", "f32 12" }, QN_ACT_TANH, 0, 0,
      false, { .shift = 1 } },
    { "MatMul", NULL, { "f32 3,4,8", "f32 3,8,12", "", "f32 3,4,12" },
      QN_ACT_HARD_SWISH, 0, 0, true, { 0 } },
    { "MatMul", NULL, { "f32 3,4,8", "f32 3,8,12", "f32 12", "f32 3,4,12" },
      QN_ACT_RELU, 0, 0, true, { .in_place = true } },
    { "Gemm", "beta=0.5", { "f32 4,8", "f32 8,12", "f32 4,1", "f32 4,12" },
      QN_ACT_CLIP, -1, 2, true, { 0 } },
    { "Gemm", "beta=0.5", { "f32 4,8", "f32 8,12", "f32 12" },
      QN_ACT_LEAKY, 0.1f, 0, false, { 0 } },
    { "Gemm", "transB=1", { "f32 5,9", "f32 7,9", "f32 7" }, QN_ACT_SIGMOID, 0,
      0, false, { 0 } },
    { "Gemm", NULL, { "f32 4,0", "f32 0,12", "f32 12" }, QN_ACT_HARD_SIGMOID,
      0.2f, 0.5f, false, { 0 } },
};

static void test_fused(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_OF(fused); i++) {
        const fused_row *r = &fused[i];
        uint32_t n = 0;
        char name[64];
        test_node t = { 0 };
        while (n < 4 && r->in[n])
            n++;
        snprintf(name, sizeof name, "fused row %zu, %s", i, r->op);
        test_node_init(&t, r->op, 13, n, 1);
        test_node_attrs(&t, r->attrs);
        for (uint32_t k = 0; k < n; k++)
            t.in[k] = test_row_tensor(&t.region, r->in[k]);
        t.node.act = r->act;
        t.node.act_a = r->a;
        t.node.act_b = r->b;
        t.node.residual = r->residual;
        device_node_run(&t, &r->o, name);
        test_node_release(&t);
    }
}

/* ---- which way ---- */

static const struct {
    const char *in[3];
    qn_precision precision;
    uint32_t shift;
    const char *ran;  /* this many times */
    uint64_t times;
    const char *not_ran;
} ways[] = {
    { { "f32 4,8", "f32 8,12" }, 0, 0, "cublasLtMatmul", 1, "matmul_f32" },
    { { "f32 4,8", "f32 8,12", "f32 12" }, 0, 0, "cublasLtMatmul", 1,
      "matmul_spread_4" },
    { { "f32 5,7", "f32 7,3" }, 0, 1, "cublasLtMatmul", 1, "matmul_f32" },
    { { "f32 2,1,4,8", "f32 1,3,8,12" }, 0, 0, "cublasLtMatmul", 2,
      "matmul_f32" },
    { { "f64 4,8", "f64 8,12" }, 0, 0, "cublasLtMatmul", 1, "matmul_f64" },
    { { "f64 4,8", "f64 8,12", "f64 12" }, 0, 0, "matmul_spread_8", 1,
      "matmul_f64" },
    { { "f16 4,8", "f16 8,16", "f16 16" }, 0, 0, "cublasLtMatmul", 1,
      "matmul_f16" },
    { { "f32 4,8", "f32 8,12" }, QN_PRECISION_FP16, 0, "matmul_cast_f16", 2,
      "matmul_f32" },
    { { "f32 4,8", "f32 8,12" }, QN_PRECISION_BF16, 0, "cublasLtMatmul", 1,
      "matmul_cast_f16" },
    { { "i32 4,8", "i32 8,12" }, 0, 0, "matmul_u32", 1, "cublasLtMatmul" },
};

static void test_ways(void **state)
{
    (void)state;
    if (!library_reset()) {
        print_message("skipped: this driver counts nothing\n");
        skip();
    }
    for (size_t i = 0; i < N_OF(ways); i++) {
        const device_options o = { .precision = ways[i].precision,
                                   .shift = ways[i].shift };
        const uint32_t n = ways[i].in[2] ? 3 : 2;
        test_node t = { 0 };
        test_node_init(&t, "MatMul", 13, n, 1);
        for (uint32_t k = 0; k < n; k++)
            t.in[k] = test_row_tensor(&t.region, ways[i].in[k]);
        library_reset();
        device_node_run(&t, &o, ways[i].in[0]);
        if (library_count(ways[i].ran) != ways[i].times ||
            library_count(ways[i].not_ran))
            fail_msg("row %zu: %s ran %llu times, %s %llu times", i,
                     ways[i].ran, (unsigned long long)library_count(ways[i].ran),
                     ways[i].not_ran,
                     (unsigned long long)library_count(ways[i].not_ran));
        test_node_release(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matmul),    cmocka_unit_test(test_gemm),
        cmocka_unit_test(test_views),     cmocka_unit_test(test_own),
        cmocka_unit_test(test_precision), cmocka_unit_test(test_fused),
        cmocka_unit_test(test_ways),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}

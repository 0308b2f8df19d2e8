/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What fusion makes of launches on the device: the same bits for chains, close
 * answers for attention and for sums that products take along.
 */
#include "runtime/device/plugin.h"
#include "tests/cuda/support/library.h"
#include "tests/support/fusion.h"
#include "tests/support/graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEEDS = 30, SKIPPED = 77 };

static qn_accels accels;
static qn_runtime *runtime;
static const qn_dtype types[] = { QN_F32, QN_F16, QN_BF16 };
static const double tolerance[] = { 2e-5, 5e-3, 4e-2 };
enum { TYPES = sizeof types / sizeof types[0] };

static void check_empty(void)
{
    qn_ledger_state state;
    qn_pool_trim(qn_runtime_accel_pool(runtime, 0), 0);
    qn_ledger_read(qn_runtime_accel_ledger(runtime, 0), &state);
    assert_int_equal(state.charged, 0);
}

static void test_chains_keep_bits(void **state)
{
    uint32_t chains = 0, steps = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        qn_dtype dtype = types[seed % TYPES];
        fusion_answer plain, fused;
        char what[32];
        snprintf(what, sizeof what, "seed %d", (int)seed);
        fusion_run(runtime, fusion_elementwise, &seed, dtype, true, true,
                   &plain);
        fusion_run(runtime, fusion_elementwise, &seed, dtype, true, false,
                   &fused);
        fusion_same_bits(&plain, &fused, what);
        assert_int_equal(plain.launches - fused.launches, fused.fused.saved);
        chains += fused.fused.chains;
        steps += fused.fused.chain_steps;
        fusion_release(&plain);
        fusion_release(&fused);
    }
    assert_true(chains >= SEEDS);
    assert_true(steps > 3 * chains);
    check_empty();
}

static void test_attention(void **state)
{
    (void)state;
    for (size_t r = 0; r < fusion_n_attentions; r++)
        for (size_t t = 0; t < TYPES; t++) {
            const fusion_attention *a = &fusion_attentions[r];
            fusion_answer cpu, fused;
            fusion_run(runtime, fusion_attend, a, types[t], false, true, &cpu);
            fusion_run(runtime, fusion_attend, a, types[t], true, false,
                       &fused);
            fusion_close(&cpu, &fused, tolerance[t], tolerance[t], a->what);
            if (fused.fused.attention != a->found)
                fail_msg("%s: %u launches of Attention, expected %u", a->what,
                         fused.fused.attention, a->found);
            fusion_release(&cpu);
            fusion_release(&fused);
        }
    check_empty();
}

/* ---- products ---- */

enum { ROWS = 6, INNER = 10, COLUMNS = 7 };

typedef struct product {
    const char *what;
    int b_rank;        /* of the second operand */
    bool gemm;
    int bias_rank;     /* 0: none */
    int64_t bias[3];
    bool bias_is_input, bias_first;
    bool residual, late_residual;
    const char *act;   /* NULL: none */
    bool act_goes_on;  /* with another elementwise operator */
    uint32_t sums, activations, chains;
} product;

static void multiply(fusion_model *m, const void *arg)
{
    const product *p = arg;
    static const int64_t a[] = { 2, ROWS, INNER };
    static const int64_t b[] = { 2, INNER, COLUMNS };
    static const int64_t y[] = { 2, ROWS, COLUMNS };
    const int skip = p->gemm ? 1 : 0;
    m->state = 9;
    qn_value_id x = fusion_input(m, 3 - skip, a + skip);
    qn_value_id r = QN_NO_VALUE, c = QN_NO_VALUE;
    /* an input is copied just before its first reader */
    if (p->residual)
        r = tg_op1(m->g, "Neg", fusion_input(m, 3 - skip, y + skip));
    if (p->bias_is_input)
        c = tg_op1(m->g, "Neg", fusion_input(m, p->bias_rank, p->bias));
    qn_value_id w = p->b_rank == 3 ? fusion_input(m, 3, b)
                    : p->b_rank == 2 ? fusion_weights(m, 2, b + 1, 1)
                                     : fusion_weights(m, 1, b + 1, 1);
    qn_value_id v = tg_op2(m->g, p->gemm ? "Gemm" : "MatMul", x, w);
    if (p->late_residual)
        r = tg_op1(m->g, "Sigmoid", tg_op2(m->g, p->gemm ? "Gemm" : "MatMul",
                                           x, w));
    if (p->bias_rank) {
        if (!p->bias_is_input)
            c = fusion_weights(m, p->bias_rank, p->bias, 1);
        v = p->bias_first ? tg_op2(m->g, "Add", c, v)
                          : tg_op2(m->g, "Add", v, c);
    }
    if (r != QN_NO_VALUE)
        v = tg_op2(m->g, "Add", v, r);
    if (p->act)
        v = tg_op1(m->g, p->act, v);
    if (p->act_goes_on)
        v = tg_op1(m->g, "Neg", v);
    tg_output(m->g, v, "y");
}

/* 16-bit types have no activations in products. */
static const product products[] = {
    { "bias", 2, false, 1, { COLUMNS }, false, false, false, false, NULL,
      false, 1, 0, 0 },
    { "bias first", 2, false, 1, { COLUMNS }, false, true, false, false, NULL,
      false, 1, 0, 0 },
    { "bias of two axes", 2, false, 2, { 1, COLUMNS }, true, false, false,
      false, NULL, false, 1, 0, 0 },
    { "bias and residual", 2, false, 1, { COLUMNS }, false, false, true, false,
      NULL, false, 2, 0, 0 },
    { "all", 2, false, 1, { COLUMNS }, false, false, true, false, "Relu", false,
      2, 1, 0 },
    { "residual", 2, false, 0, { 0 }, false, false, true, false, NULL, false, 1,
      0, 0 },
    { "a batch", 3, false, 1, { COLUMNS }, false, false, true, false, "Relu",
      false, 2, 1, 0 },
    { "Gemm", 2, true, 0, { 0 }, false, false, true, false, NULL, false, 1, 0,
      0 },
    { "activation", 2, false, 1, { COLUMNS }, false, false, false, false,
      "Sigmoid", false, 1, 1, 0 },
    { "activation for the chain", 2, false, 1, { COLUMNS }, false, false, false,
      false, "Sigmoid", true, 1, 0, 1 },
    { "a column is no bias", 2, false, 2, { ROWS, 1 }, false, false, false,
      false, NULL, false, 0, 0, 0 },
    { "one number is no bias", 2, false, 1, { 1 }, false, false, false, false,
      NULL, false, 0, 0, 0 },
    { "rows of vectors", 1, false, 1, { ROWS }, false, false, false, false,
      NULL, false, 0, 0, 0 },
    { "a late residual", 2, false, 0, { 0 }, false, false, false, true, NULL,
      false, 0, 0, 1 },
};

static void test_products(void **state)
{
    (void)state;
    for (size_t r = 0; r < sizeof products / sizeof products[0]; r++)
        for (size_t t = 0; t < TYPES; t++) {
            const product *p = &products[r];
            fusion_answer cpu, fused;
            bool is_float = types[t] == QN_F32;
            uint32_t applied = is_float ? p->activations : 0;
            fusion_run(runtime, multiply, p, types[t], false, true, &cpu);
            fusion_run(runtime, multiply, p, types[t], true, false, &fused);
            fusion_close(&cpu, &fused, tolerance[t], 4 * tolerance[t], p->what);
            if (fused.fused.sums != p->sums ||
                fused.fused.activations != applied ||
                (is_float && fused.fused.chains != p->chains))
                fail_msg("%s, %s: %u sums, %u activations, %u chains; expected "
                         "%u, %u, %u", p->what, qn_dtype_name(types[t]),
                         fused.fused.sums, fused.fused.activations,
                         fused.fused.chains, p->sums, applied, p->chains);
            fusion_release(&cpu);
            fusion_release(&fused);
        }
    check_empty();
}

static void test_layer(void **state)
{
    (void)state;
    for (size_t t = 0; t < TYPES; t++) {
        fusion_answer cpu, plain, fused;
        fusion_run(runtime, fusion_block, NULL, types[t], false, true, &cpu);
        fusion_run(runtime, fusion_block, NULL, types[t], true, true, &plain);
        fusion_run(runtime, fusion_block, NULL, types[t], true, false, &fused);
        /* two normalisations amplify what 16 bits leave out */
        fusion_close(&cpu, &fused, 10 * tolerance[t], 10 * tolerance[t],
                     "a layer, and the cpu");
        fusion_close(&plain, &fused, 10 * tolerance[t], 10 * tolerance[t],
                     "a layer, and unfused");
        assert_int_equal(fused.fused.attention, 1);
        /* six biases, two residuals */
        assert_int_equal(fused.fused.sums, 8);
        /* Gelu, and two chains of each normalisation */
        assert_int_equal(fused.fused.chains, 5);
        assert_int_equal(plain.launches - fused.launches, fused.fused.saved);
        assert_true(fused.fused.saved >= 20);
        fusion_release(&cpu);
        fusion_release(&plain);
        fusion_release(&fused);
    }
    check_empty();
}

/* No kernel is launched that the plan does not count. */
static void test_launches(void **state)
{
    fusion_answer fused;
    (void)state;
    if (!library_reset())
        skip();
    fusion_run(runtime, fusion_block, NULL, QN_F32, true, false, &fused);
    uint64_t kernels = library_count("cuLaunchKernel");
    /* steps that are not: the library's products, copies */
    assert_true(kernels > 0 && kernels <= fused.launches);
    fusion_release(&fused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chains_keep_bits),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_layer),
        cmocka_unit_test(test_launches),
    };
    qn_error err = { 0 };
    if (qn_accels_open((const int[]){ 0 }, 1, NULL, &accels, &err) != QN_OK) {
        printf("skipped: %s\n", err.text);
        return SKIPPED;
    }
    qn_runtime_options options = { .memory_budget = 256u << 20, .threads = 2,
                                   .accels = accels.accel, .n_accels = 1,
                                   .accel_budget = 256u << 20 };
    if (qn_runtime_new(&options, &runtime, &err) != QN_OK) {
        printf("no runtime: %s\n", err.text);
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    qn_runtime_free(runtime);
    qn_accels_close(&accels);
    return failed;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ai.quern.Attention on the cpu. Expected values: NumPy, in double.
 */
#include "tests/support/rows.h"

#include <setjmp.h>
#include <stdio.h>

#include <cmocka.h>

static const test_row rows[] = {
    { "ai.quern.Attention",
      1,
      NULL,
      { "f32 1,1,2,2",
        "f32 1,1,3,2",
        "f32 1,1,3,2" },
      { "f32 1,1,2,2: 0.1885748 -2.061425 1.43266 -0.8173405" },
      .rtol = 2e-06,
      .atol = 2e-06 },
    { "ai.quern.Attention",
      1,
      "scale=0.25",
      { "f32 2,2,2,3",
        "f32 2,2,3,3",
        "f32 2,2,3,2" },
      { "f32 2,2,2,2: 0.2021956 -2.047804 1.696519 -0.5534805 "
        "-0.901692 1.381005 -1.446789 1.926001 -0.02270027 0.5223734 "
        "0.9421767 -0.1585763 1.224539 -0.4681158 -0.02995464 "
        "-2.221355" },
      .rtol = 2e-06,
      .atol = 2e-06 },
    { "ai.quern.Attention",
      1,
      NULL,
      { "f32 1,2,2,2",
        "f32 1,2,3,2",
        "f32 1,2,3,2",
        "f32 2,3" },
      { "f32 1,2,2,2: 0.1680783 -2.081922 1.366007 -0.8839934 "
        "0.4758288 -1.697751 -0.8058988 2.693266" },
      .rtol = 2e-06,
      .atol = 2e-06 },
    { "ai.quern.Attention",
      1,
      NULL,
      { "f32 1,2,2,2",
        "f32 1,1,3,2",
        "f32 1,1,3,1",
        "f32 1,2,1,3" },
      { "f32 1,2,2,1: 0.04563039 0.9893695 -0.3419208 -1.942459" },
      .rtol = 2e-06,
      .atol = 2e-06 },
    { "ai.quern.Attention",
      1,
      "causal=1",
      { "f32 1,1,3,2",
        "f32 1,1,3,2",
        "f32 1,1,3,2" },
      { "f32 1,1,3,2: 0 -2.25 0.6937738 -1.556226 2.381976 0.1319757" },
      .rtol = 2e-06,
      .atol = 2e-06 },
    { "ai.quern.Attention",
      1,
      "causal=1",
      { "f32 1,1,2,2",
        "f32 1,1,4,2",
        "f32 1,1,4,2" },
      { "f32 1,1,2,2: 0.1885748 -2.061425 1.421825 -0.8100264" },
      .rtol = 2e-06,
      .atol = 2e-06 },
    { "ai.quern.Attention",
      1,
      "causal=1",
      { "f32 1,1,3,2",
        "f32 1,1,2,2",
        "f32 1,1,2,2" },
      { "f32 1,1,3,2: nan nan 0 -2.25 1.148921 -1.101079" },
      .rtol = 2e-06,
      .atol = 2e-06 },
    { "ai.quern.Attention",
      1,
      NULL,
      { "f32 1,1,2,2",
        "f32 1,1,2,2",
        "f32 1,1,2,2",
        "f32 2,2: 0 -inf -inf -inf" },
      { "f32 1,1,2,2: 0 -2.25 nan nan" },
      .rtol = 2e-06,
      .atol = 2e-06 },
    { "ai.quern.Attention",
      1,
      NULL,
      { "f16 1,1,2,4",
        "f16 1,1,3,4",
        "f16 1,1,3,2" },
      { "f16 1,1,2,2: 0.01096991 -2.23903 1.249972 -1.000028" },
      .rtol = 0.001,
      .atol = 0.001 },
    { "ai.quern.Attention",
      1,
      NULL,
      { "bf16 1,1,2,4",
        "bf16 1,1,3,4",
        "bf16 1,1,3,2" },
      { "bf16 1,1,2,2: 0.01096991 -2.23903 1.249972 -1.000028" },
      .rtol = 0.008,
      .atol = 0.008 },
    { "ai.quern.Attention",
      1,
      NULL,
      { "f64 1,1,2,4",
        "f64 1,1,3,4",
        "f64 1,1,3,2" },
      { "f64 1,1,2,2: 0.01096991 -2.23903 1.249972 -1.000028" },
      .rtol = 1e-06,
      .atol = 1e-06 },
    { "ai.quern.Attention", 1, NULL,
      { "f32 1,1,0,2:", "f32 1,1,3,2", "f32 1,1,3,2" },
      { "f32 1,1,0,2:" }, .rtol = 0 },
    /* no keys: a sum of nothing */
    { "ai.quern.Attention", 1, NULL,
      { "f32 1,1,1,2", "f32 1,1,0,2:", "f32 1,1,0,2:" },
      { "f32 1,1,1,2: 0 0" }, .rtol = 0 },
};

static void test_known_values(void **state)
{
    (void)state;
    test_rows_run(rows, sizeof rows / sizeof rows[0]);
}

static const test_row bad[] = {
    { "ai.quern.Attention", 1, NULL,
      { "f32 1,2,2", "f32 1,1,3,2", "f32 1,1,3,2" },
      .status = QN_SHAPE, .says = "Q [1, 2, 2]" },
    { "ai.quern.Attention", 1, NULL,
      { "f32 1,3,2,2", "f32 1,2,3,2", "f32 1,2,3,2" },
      .status = QN_SHAPE, .says = "where G divides H" },
    { "ai.quern.Attention", 1, NULL,
      { "f32 1,3,2,2", "f32 1,0,3,2:", "f32 1,0,3,2:" },
      .status = QN_SHAPE, .says = "where G divides H" },
    { "ai.quern.Attention", 1, NULL,
      { "f32 1,1,2,2", "f32 1,1,3,3", "f32 1,1,3,3" },
      .status = QN_SHAPE, .says = "K [1, 1, 3, 3]" },
    { "ai.quern.Attention", 1, NULL,
      { "f32 1,1,2,2", "f32 1,1,3,2", "f32 1,1,4,2" },
      .status = QN_SHAPE, .says = "V [1, 1, 4, 2]" },
    { "ai.quern.Attention", 1, NULL,
      { "f32 1,1,2,2", "f32 1,1,3,2", "f32 1,1,3,2", "f32 2,2,3" },
      .status = QN_SHAPE, .says = "the mask is [2, 2, 3]" },
    { "ai.quern.Attention", 1, NULL,
      { "f32 1,1,2,2", "f32 1,1,3,2", "f32 1,1,3,2", "f32 2" },
      .status = QN_SHAPE, .says = "[2]" },
};

static void test_refuses_bad_shapes(void **state)
{
    (void)state;
    test_rows_run(bad, sizeof bad / sizeof bad[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_refuses_bad_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

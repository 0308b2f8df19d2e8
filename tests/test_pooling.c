/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MaxPool, AveragePool, LpPool and the global ones.
 * Expected values: ONNX Runtime 1.32 on the CPU, and NumPy where it has no
 * kernel or follows another rule.
 */
#include "tests/support/rows.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const test_row rows[] = {
    { "MaxPool",
      1,
      "kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]",
      { "f32 1,2,5,5" },
      { "f32 1,2,3,3: 0.25 1.5 2.75 0.75 2 2.75 1 2.25 1.25 2.75 1.75 1.75 "
        "2.75 2.25 2.25 2.5 2.5 2.25" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "MaxPool",
      8,
      "kernel_shape=[2,2] strides=[2,2]",
      { "f32 1,1,4,4" },
      { "f32 1,1,2,2: 2.5 1.5 2.75 0.75", "i64 1,1,2,2: 4 7 9 15" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "MaxPool",
      8,
      "kernel_shape=[2,2] storage_order=1",
      { "f32 2,1,3,4" },
      { "f32 2,1,2,3: 2.5 1.25 1.5 2.75 2.75 1.5 2 2 0.75 2 2.25 2.25",
        "i64 2,1,2,3: 1 6 10 5 5 10 16 16 21 16 20 20" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "MaxPool",
      10,
      "kernel_shape=[3,3] strides=[2,2] ceil_mode=1",
      { "f32 1,1,5,6" },
      { "f32 1,1,2,3: 1.75 2.75 2.5 2.5 2.25 2.25" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "MaxPool",
      11,
      "kernel_shape=[2] dilations=[3]",
      { "f32 1,1,7" },
      { "f32 1,1,4: 0 2.5 1.25 -1" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "MaxPool",
      12,
      "kernel_shape=[3,3] pads=[1,1,1,1]",
      { "i8 1,1,4,4" },
      { "i8 1,1,4,4: 10 10 6 6 11 11 11 6 11 11 11 6 11 11 11 3" },
      .rtol = 0 },
    { "MaxPool",
      12,
      "kernel_shape=[2,2] strides=[2,2]",
      { "u8 1,1,4,4" },
      { "u8 1,1,2,2: 21 17 22 14" },
      .rtol = 0 },
    { "MaxPool",
      12,
      "kernel_shape=[2,2] strides=[2,2] pads=[1,1,1,1]",
      { "f32 1,1,2,2: -1 -2 -3 -4" },
      { "f32 1,1,2,2: -1 -2 -3 -4", "i64 1,1,2,2: 0 1 2 3" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "MaxPool",
      12,
      "kernel_shape=[3,3] strides=[2,2] auto_pad=SAME_UPPER",
      { "f32 1,1,5,5" },
      { "f32 1,1,3,3: 0.25 1.5 2.75 0.75 2 2.75 1 2.25 1.25" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "MaxPool",
      12,
      "kernel_shape=[2,2] auto_pad=SAME_LOWER",
      { "f32 1,1,4,4" },
      { "f32 1,1,4,4: 0 0 1.25 1.25 2.5 2.5 1.25 1.5 2.5 2.75 2.75 1.5 "
        "1.75 2.75 2.75 0.75" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "MaxPool",
      12,
      "kernel_shape=[2,3] auto_pad=VALID strides=[2,1]",
      { "f32 1,1,5,5" },
      { "f32 1,1,2,3: 1.5 1.5 2.75 2 2 2" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "MaxPool",
      12,
      "kernel_shape=[2,2,2]",
      { "f32 1,1,3,3,4" },
      { "f32 1,1,2,2,3: 2.5 2 1.5 2.75 2.75 2.25 2.5 2.75 2.75 2 2.75 2.75" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "MaxPool",
      22,
      "kernel_shape=[3]",
      { "f16 1,2,6" },
      { "f16 1,2,4: 1.25 1.25 2.5 2.5 1.5 2.75 2.75 2.75" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "MaxPool",
      12,
      "kernel_shape=[2]",
      { "f32 1,1,5: 1 nan 3 4 5" },
      { "f32 1,1,4: nan nan 4 5" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "AveragePool",
      7,
      "kernel_shape=[2,2] pads=[1,1,0,0]",
      { "f32 1,1,4,4" },
      { "f32 1,1,4,4: 0 -1.125 -0.5 0.125 1.25 0.125 -0.6875 -0.0625 0.875 "
        "1.1875 0.375 -0.4375 0.5 0.8125 0 -0.8125" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "AveragePool",
      7,
      "kernel_shape=[2,2] pads=[1,1,0,0] count_include_pad=1",
      { "f32 1,1,4,4" },
      { "f32 1,1,4,4: 0 -0.5625 -0.25 0.0625 0.625 0.125 -0.6875 -0.0625 "
        "0.4375 1.1875 0.375 -0.4375 0.25 0.8125 0 -0.8125" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "AveragePool",
      11,
      "kernel_shape=[3,3] strides=[2,2] ceil_mode=1",
      { "f32 1,1,4,4: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16" },
      { "f32 1,1,2,2: 6 7.5 12 13.5" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "AveragePool",
      11,
      "kernel_shape=[7] strides=[3] pads=[3,3] ceil_mode=1 "
      "count_include_pad=1",
      { "f32 1,1,9: 1 1 1 1 1 1 1 1 1" },
      { "f32 1,1,4: 0.5714286 1 0.8571429 0.5" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "AveragePool",
      19,
      "kernel_shape=[7] strides=[3] pads=[3,3] ceil_mode=1 "
      "count_include_pad=1",
      { "f32 1,1,9: 1 1 1 1 1 1 1 1 1" },
      { "f32 1,1,4: 0.5714286 1 0.8571429 0.5" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "AveragePool",
      19,
      "kernel_shape=[5,1] auto_pad=SAME_LOWER count_include_pad=1",
      { "f32 1,1,6,2: 0 1 2 3 4 5 6 7 8 9 10 11" },
      { "f32 1,1,6,2: 1.2 1.8 2.4 3.2 4 5 6 7 5.6 6.4 4.8 5.4" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "AveragePool",
      19,
      "kernel_shape=[3] dilations=[2] pads=[2,1]",
      { "f32 1,1,7" },
      { "f32 1,1,6: 0.625 -1.625 1.25 -1 0.5833333 -0.375" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "AveragePool",
      19,
      "kernel_shape=[2,3,2] strides=[1,2,1]",
      { "f32 1,2,3,4,3" },
      { "f32 1,2,2,1,2: -0.2916667 -0.1458333 0.1666667 -0.1666667 0.125 "
        "-0.2083333 0.1041667 -0.2291667" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "LpPool",
      2,
      "kernel_shape=[2,2] p=1",
      { "f32 1,1,4,4" },
      { "f32 1,1,3,3: 5 5.75 5.75 6.25 5.5 5.75 5.75 6.5 5.75" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "LpPool",
      11,
      "kernel_shape=[3] strides=[2] p=3",
      { "f32 1,1,5" },
      { "f32 1,1,2: 2.37188 2.648504" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "LpPool",
      18,
      "kernel_shape=[2,2] strides=[2,2]",
      { "f32 1,1,4,4" },
      { "f32 1,1,2,2: 3.372684 2.968585 3.381937 3.381937" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "GlobalAveragePool",
      1,
      NULL,
      { "f32 2,2,3,3" },
      { "f32 2,2,1,1: -0.05555556 0.1388889 0.25 -0.1388889" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "GlobalMaxPool",
      1,
      NULL,
      { "f32 2,2,5" },
      { "f32 2,2,1: 2.5 2.75 1.75 2" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "GlobalLpPool",
      2,
      NULL,
      { "f32 1,2,3,3" },
      { "f32 1,2,1,1: 4.555217 5.344389" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "MaxUnpool",
      11,
      "kernel_shape=[2,2] strides=[2,2]",
      { "f32 1,1,2,2: 1 2 3 4", "i64 1,1,2,2: 5 7 13 15" },
      { "f32 1,1,4,4: 0 0 0 0 0 1 0 2 0 0 0 0 0 3 0 4" },
      .rtol = 0 },
    { "MaxUnpool",
      11,
      "kernel_shape=[2,2] strides=[2,2]",
      { "f32 1,1,2,2: 5 6 7 8", "i64 1,1,2,2: 5 7 13 15", "i64 4: 1 1 5 5" },
      { "f32 1,1,5,5: 0 0 0 0 0 0 5 0 6 0 0 0 0 0 0 0 7 0 8 0 0 0 0 0 0" },
      .rtol = 0 },
    { "MaxUnpool",
      9,
      "kernel_shape=[2] strides=[2]",
      { "f16 2,1,2: 1 2 3 4", "i64 2,1,2: 0 3 5 6" },
      { "f16 2,1,4: 1 0 0 2 0 3 4 0" },
      .rtol = 0 },
};

static void test_known_values(void **state)
{
    (void)state;
    test_rows_run(rows, sizeof rows / sizeof rows[0]);
}

static const test_row refused[] = {
    { "MaxPool",
      12,
      "",
      { "f32 1,1,4,4" },
      { NULL },
      .status = QN_INVALID,
      .says = "kernel_shape is missing" },
    { "MaxPool",
      12,
      "kernel_shape=[2,2,2]",
      { "f32 1,1,4,4" },
      { NULL },
      .status = QN_SHAPE,
      .says = "kernel_shape has 3 numbers for 2" },
    { "MaxPool",
      12,
      "kernel_shape=[0,2]",
      { "f32 1,1,4,4" },
      { NULL },
      .status = QN_RANGE,
      .says = "kernel_shape[0] is 0" },
    { "MaxPool",
      12,
      "kernel_shape=[2,2] strides=[1,9999999999]",
      { "f32 1,1,4,4" },
      { NULL },
      .status = QN_RANGE,
      .says = "strides[1] is 9999999999" },
    { "AveragePool",
      11,
      "kernel_shape=[2,2] pads=[1,1]",
      { "f32 1,1,4,4" },
      { NULL },
      .status = QN_SHAPE,
      .says = "pads has 2 numbers" },
    { "AveragePool",
      11,
      "kernel_shape=[2,5]",
      { "f32 1,1,4,4" },
      { NULL },
      .status = QN_SHAPE,
      .says = "axis 1: a window of 5 does not fit into 4" },
    { "AveragePool",
      11,
      "kernel_shape=[2,2] auto_pad=SOMEHOW",
      { "f32 1,1,4,4" },
      { NULL },
      .status = QN_INVALID,
      .says = "auto_pad 'SOMEHOW'" },
    { "GlobalMaxPool",
      1,
      "",
      { "f32 4" },
      { NULL },
      .status = QN_SHAPE,
      .says = "input is [4]" },
    { "MaxUnpool",
      11,
      "kernel_shape=[2] strides=[2]",
      { "f32 1,1,2", "i64 1,1,2: 0 9" },
      { NULL },
      .status = QN_RANGE,
      .says = "index 1 is 9, outside the output" },
    { "MaxUnpool",
      11,
      "kernel_shape=[2] strides=[2]",
      { "f32 1,1,2", "i64 1,1,2: -1 1" },
      { NULL },
      .status = QN_RANGE,
      .says = "index 0 is -1" },
    { "MaxUnpool",
      11,
      "kernel_shape=[2]",
      { "f32 1,1,2", "i64 1,1,3: 0 1 2" },
      { NULL },
      .status = QN_SHAPE,
      .says = "indices are [1, 1, 3]" },
};

static void test_refuses_bad_windows(void **state)
{
    (void)state;
    test_rows_run(refused, sizeof refused / sizeof refused[0]);
}

static void expect_close(const test_node *a, const qn_tensor *got,
                         const qn_tensor *want, const char *what)
{
    assert_true(qn_shape_equal(&got->shape, &want->shape));
    for (int64_t i = 0; i < qn_count(want); i++) {
        double g = test_value(got, i), w = test_value(want, i);
        if (!(g == w || fabs(g - w) <= 1e-5 + 1e-5 * fabs(w)))
            fail_msg("%s, %s: index %lld is %.9g, expected %.9g",
                     a->node.op_name, what, (long long)i, g, w);
    }
}

static const struct {
    const char *op;
    int opset;
    const char *attrs, *dims;
} shapes[] = {
    { "MaxPool", 12, "kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]",
      "2,40,17,19" },
    { "MaxPool", 12, "kernel_shape=[2,3] strides=[1,3] dilations=[2,2]",
      "1,35,9,33" },
    { "MaxPool", 12, "kernel_shape=[5,5] pads=[2,2,2,2]", "1,9,8,40" },
    { "MaxPool", 12, "kernel_shape=[2,2] strides=[2,2] ceil_mode=1",
      "1,1,35,35" },
    { "MaxPool", 12, "kernel_shape=[4,4] strides=[7,5] ceil_mode=1",
      "1,3,30,31" },
    { "AveragePool", 11, "kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]",
      "2,40,17,19" },
    { "AveragePool", 19,
      "kernel_shape=[2,3] dilations=[3,2] pads=[0,3,2,1] count_include_pad=1",
      "1,35,9,33" },
    { "AveragePool", 11, "kernel_shape=[8,8]", "1,70,8,8" },
    { "AveragePool", 11, "kernel_shape=[3,3] strides=[2,2] auto_pad=SAME_LOWER",
      "1,8,12,13" },
    { "GlobalAveragePool", 1, "", "2,300,7,9" },
    { "GlobalMaxPool", 1, "", "2,300,7,9" },
};

/* The vector loops and the channels-last ones against the plain version, which
 * doubles take. */
static void test_fast_equals_plain(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        test_node t[3];
        for (int k = 0; k < 3; k++) {
            char text[64];
            snprintf(text, sizeof text, "%s %s", k ? "f32" : "f64",
                     shapes[i].dims);
            test_node_init(&t[k], shapes[i].op, shapes[i].opset, 1, 1);
            test_node_attrs(&t[k], shapes[i].attrs);
            t[k].in[0] = test_row_tensor(&t[k].region, text);
            assert_int_equal(k < 2 ? test_node_run(&t[k])
                                   : test_node_run_nhwc(&t[k]),
                             QN_OK);
        }
        expect_close(&t[1], &t[1].out[0], &t[0].out[0], shapes[i].attrs);
        expect_close(&t[2], &t[2].out[0], &t[0].out[0], "channels last");
        for (int k = 0; k < 3; k++)
            test_node_release(&t[k]);
    }
}

/* NaN wins in both orders; infinities of both signs are no NaN. */
static void test_extremes_survive(void **state)
{
    static const float specials[] = { NAN, INFINITY, -INFINITY };
    (void)state;
    for (int k = 2; k <= 4; k++) {
        test_node a, b;
        char attrs[32];
        snprintf(attrs, sizeof attrs, "kernel_shape=[%d,%d]", k, k);
        test_node_init(&a, "MaxPool", 12, 1, 1);
        test_node_attrs(&a, attrs);
        a.in[0] = test_row_tensor(&a.region, "f32 1,40,9,10");
        for (int64_t i = 0; i < 120; i++)
            ((float *)a.in[0].data)[i * i * 7 % 3600] = specials[i % 3];
        test_node_init(&b, "MaxPool", 12, 1, 1);
        test_node_attrs(&b, attrs);
        b.in[0] = a.in[0];
        assert_int_equal(test_node_run(&a), QN_OK);
        assert_int_equal(test_node_run_nhwc(&b), QN_OK);
        const float *x = a.in[0].data;
        int64_t h = 10 - k, w = 11 - k, i = 0;
        for (int64_t c = 0; c < 40; c++)
            for (int64_t y = 0; y < h; y++)
                for (int64_t z = 0; z < w; z++, i++) {
                    double want = -INFINITY;
                    for (int64_t t = 0; t < k * k; t++) {
                        double v =
                            (double)x[(c * 9 + y + t / k) * 10 + z + t % k];
                        want = isnan(v) || v > want ? v : want;
                    }
                    double got[2] = { test_value(&a.out[0], i),
                                      test_value(&b.out[0], i) };
                    for (int o = 0; o < 2; o++)
                        if (!(got[o] == want || (isnan(got[o]) && isnan(want))))
                            fail_msg("window %d order %d index %lld: %g, "
                                     "expected %g",
                                     k, o, (long long)i, got[o], want);
                }
        test_node_release(&a);
        test_node_release(&b);
    }
}

/* Indices count positions of the logical tensor in either order. */
static void test_indices_channels_last(void **state)
{
    test_node a, b;
    (void)state;
    test_node_init(&a, "MaxPool", 12, 1, 2);
    test_node_init(&b, "MaxPool", 12, 1, 2);
    test_node *both[2] = { &a, &b };
    for (int k = 0; k < 2; k++) {
        test_node_attrs(both[k],
                        "kernel_shape=[3,2] strides=[2,1] pads=[1,0,1,1]");
        both[k]->in[0] = test_row_tensor(&both[k]->region, "f32 2,5,6,7");
    }
    assert_int_equal(test_node_run(&a), QN_OK);
    assert_int_equal(test_node_run_nhwc(&b), QN_OK);
    expect_close(&b, &b.out[0], &a.out[0], "values");
    expect_close(&b, &b.out[1], &a.out[1], "indices");
    test_node_release(&a);
    test_node_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_refuses_bad_windows),
        cmocka_unit_test(test_fast_equals_plain),
        cmocka_unit_test(test_extremes_survive),
        cmocka_unit_test(test_indices_channels_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

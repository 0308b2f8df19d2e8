/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Softmax, LogSoftmax, Hardmax.
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
    { "Softmax",
      7,
      NULL,
      { "f32 2,2,3" },
      { "f32 2,2,3: 0.05425894 0.005718851 0.1893823 0.01996075 0.6610093 "
        "0.06966987 0.006000362 0.1987047 0.02094332 0.6935476 0.07309938 "
        "0.007704618" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "Softmax",
      11,
      "axis=2",
      { "f32 2,2,2" },
      { "f32 2,2,2: 0.9046505 0.09534947 0.9046505 0.09534947 0.9046505 "
        "0.09534947 0.02931223 0.9706877" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "Softmax",
      13,
      NULL,
      { "f32 2,3" },
      { "f32 2,3: 0.2175927 0.0229341 0.7594732 0.02659165 0.8805944 "
        "0.09281397" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "Softmax",
      13,
      "axis=1",
      { "f32 2,3,2" },
      { "f32 2,3,2: 0.05997779 0.05997779 0.2093431 0.2093431 0.7306791 "
        "0.7306791 0.05997779 0.2207936 0.2093431 0.7706454 0.7306791 "
        "0.008561097" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "Softmax",
      13,
      "axis=0",
      { "f32 3,2" },
      { "f32 3,2: 0.05997779 0.05997779 0.2093431 0.2093431 0.7306791 "
        "0.7306791" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "LogSoftmax",
      7,
      NULL,
      { "f32 2,2,3" },
      { "f32 2,2,3: -2.913987 -5.163988 -1.663987 -3.913987 -0.4139874 "
        "-2.663987 -5.115935 -1.615935 -3.865935 -0.3659354 -2.615935 "
        "-4.865935" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "LogSoftmax",
      11,
      "axis=2",
      { "f32 2,2,2" },
      { "f32 2,2,2: -0.1002066 -2.350207 -0.1002066 -2.350207 -0.1002066 "
        "-2.350207 -3.52975 -0.02975042" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "LogSoftmax",
      13,
      NULL,
      { "f32 2,3" },
      { "f32 2,3: -1.52513 -3.77513 -0.2751302 -3.627158 -0.1271582 "
        "-2.377158" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "LogSoftmax",
      13,
      "axis=1",
      { "f32 2,3,2" },
      { "f32 2,3,2: -2.813781 -2.813781 -1.563781 -1.563781 -0.3137809 "
        "-0.3137809 -2.813781 -1.510527 -1.563781 -0.260527 -0.3137809 "
        "-4.760527" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "LogSoftmax",
      13,
      "axis=0",
      { "f32 3,2" },
      { "f32 3,2: -2.813781 -2.813781 -1.563781 -1.563781 -0.3137809 "
        "-0.3137809" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "Hardmax",
      7,
      NULL,
      { "f32 2,2,3" },
      { "f32 2,2,3: 0 0 0 0 1 0 0 0 0 1 0 0" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "Hardmax",
      11,
      "axis=2",
      { "f32 2,2,2" },
      { "f32 2,2,2: 1 0 1 0 1 0 0 1" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "Hardmax",
      13,
      NULL,
      { "f32 2,3" },
      { "f32 2,3: 0 0 1 0 1 0" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "Hardmax",
      13,
      "axis=1",
      { "f32 2,3,2" },
      { "f32 2,3,2: 0 0 0 0 1 1 0 0 0 1 1 0" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "Hardmax",
      13,
      "axis=0",
      { "f32 3,2" },
      { "f32 3,2: 0 0 0 0 1 1" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "Softmax",
      13,
      NULL,
      { "f64 2,3" },
      { "f64 2,3: 0.217592710903 0.0229341029995 0.759473186097 "
        "0.0265916463734 0.88059438798 0.0928139656466" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "LogSoftmax",
      13,
      "axis=0",
      { "f64 2,3" },
      { "f64 2,3: -0.313261687518 -4.75861448376 -0.313261687518 "
        "-1.31326168752 -0.00861448376218 -1.31326168752" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "Softmax",
      13,
      NULL,
      { "f32 2,3: 10000 10000 -10000 -10000 -10000 -10000" },
      { "f32 2,3: 0.5 0.5 0 0.3333333 0.3333333 0.3333333" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "LogSoftmax",
      13,
      NULL,
      { "f32 1,3: 10000 9998 -10000" },
      { "f32 1,3: -0.126928 -2.126928 -20000.13" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "Softmax",
      13,
      NULL,
      { "f32 3,3: -inf 0 0 -inf -inf -inf nan 0 0" },
      { "f32 3,3: 0 0.5 0.5 nan nan nan nan nan nan" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "Hardmax",
      13,
      NULL,
      { "f32 2,3: 1 3 3 2 2 1" },
      { "f32 2,3: 0 1 0 1 0 0" },
      .rtol = 2e-06,
      .atol = 1e-06 },
};

static void test_known_values(void **state)
{
    (void)state;
    test_rows_run(rows, sizeof rows / sizeof rows[0]);
}

static const test_row refused[] = {
    { "Softmax",
      13,
      "axis=2",
      { "f32 2,3" },
      { NULL },
      .status = QN_RANGE,
      .says = "axis 2 is outside [-2, 1]" },
    { "LogSoftmax",
      11,
      "axis=-4",
      { "f32 2,3" },
      { NULL },
      .status = QN_RANGE,
      .says = "axis -4" },
};

static void test_refuses_bad_axes(void **state)
{
    (void)state;
    test_rows_run(refused, sizeof refused / sizeof refused[0]);
}

static const struct {
    const char *dims, *attrs;
} shapes[] = {
    { "5,1000", "axis=-1" },  { "3,31", "axis=-1" },  { "2,700,3", "axis=1" },
    { "40,5,300", "axis=1" }, { "1000,4", "axis=0" }, { "1,1", "axis=1" },
};

/* Float runs in vector loops, double does not. */
static void test_fast_equals_plain(void **state)
{
    static const char *const ops[] = { "Softmax", "LogSoftmax" };
    (void)state;
    for (size_t r = 0; r < 2 * sizeof shapes / sizeof shapes[0]; r++) {
        test_node t[2];
        for (int k = 0; k < 2; k++) {
            char text[64];
            snprintf(text, sizeof text, "%s %s", k ? "f32" : "f64",
                     shapes[r / 2].dims);
            test_node_init(&t[k], ops[r % 2], 13, 1, 1);
            test_node_attrs(&t[k], shapes[r / 2].attrs);
            t[k].in[0] = test_row_tensor(&t[k].region, text);
            assert_int_equal(test_node_run(&t[k]), QN_OK);
        }
        for (int64_t i = 0; i < qn_count(&t[0].out[0]); i++) {
            double g = test_value(&t[1].out[0], i);
            double w = test_value(&t[0].out[0], i);
            if (!(fabs(g - w) <= 1e-9 + 1e-6 * fabs(w)))
                fail_msg("%s of %s %s: index %lld is %.9g, expected %.9g",
                         ops[r % 2], shapes[r / 2].dims, shapes[r / 2].attrs,
                         (long long)i, g, w);
        }
        test_node_release(&t[0]);
        test_node_release(&t[1]);
    }
}

/* The planner may give input and output one address. */
static void test_in_place(void **state)
{
    static const char *const axes[] = { "axis=-1", "axis=0" };
    (void)state;
    for (size_t k = 0; k < 4; k++) {
        test_node t;
        const qn_kernel *kernel;
        test_node_init(&t, k / 2 ? "LogSoftmax" : "Softmax", 13, 1, 1);
        test_node_attrs(&t, axes[k % 2]);
        t.in[0] = test_row_tensor(&t.region, "f32 37,41");
        assert_int_equal(test_node_run(&t), QN_OK);
        assert_int_equal(qn_eval_kernel(&t.node, t.in, &kernel, &t.err), QN_OK);
        qn_tensor same = t.in[0];
        assert_int_equal(kernel->launch(&(qn_launch){ .node = &t.node,
                                                      .n_in = 1,
                                                      .n_out = 1,
                                                      .in = &same,
                                                      .out = &same }),
                         QN_OK);
        assert_memory_equal(same.data, t.out[0].data, 37 * 41 * sizeof(float));
        test_node_release(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_refuses_bad_axes),
        cmocka_unit_test(test_fast_equals_plain),
        cmocka_unit_test(test_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

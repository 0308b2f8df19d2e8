/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Normalisations.
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
    { "BatchNormalization",
      7,
      NULL,
      { "f32 2,3,2,2", "f32 3", "f32 3: 0.5 -1 2", "f32 3: 1 0 -0.5",
        "f32 3: 0.5 2 1" },
      { "f32 2,3,2,2: 0.5 0.5 0.5 0.5 -4.977466 -1.397747 2.181973 "
        "-3.386479 1.687502 6.06248 3.249994 0.4375079 0.5 0.5 0.5 0.5 "
        "1.386479 -4.181973 -0.6022534 2.977466 3.874991 1.062505 5.437483 "
        "4.187489" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "BatchNormalization",
      9,
      "epsilon=0.01",
      { "f32 4,3", "f32 3", "f32 3: 0.5 -1 2", "f32 3: 1 0 -0.5",
        "f32 3: 0.5 2 1" },
      { "f32 4,3: 0.5 2.570812 4.176644 0.5 -4.967569 2.932847 0.5 "
        "-3.380542 1.689051 0.5 -1.793514 0.4452543" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "BatchNormalization",
      6,
      "is_test=1",
      { "f32 2,3,2,2", "f32 3", "f32 3: 0.5 -1 2", "f32 3: 1 0 -0.5",
        "f32 3: 0.5 2 1" },
      { "f32 2,3,2,2: 0.5 0.5 0.5 0.5 -4.977466 -1.397747 2.181973 "
        "-3.386479 1.687502 6.06248 3.249994 0.4375079 0.5 0.5 0.5 0.5 "
        "1.386479 -4.181973 -0.6022534 2.977466 3.874991 1.062505 5.437483 "
        "4.187489" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "BatchNormalization",
      1,
      "is_test=1 consumed_inputs=[0,0,0,1,1]",
      { "f32 2,3,2,2", "f32 3", "f32 3: 0.5 -1 2", "f32 3: 1 0 -0.5",
        "f32 3: 0.5 2 1" },
      { "f32 2,3,2,2: 0.5 0.5 0.5 0.5 -4.977466 -1.397747 2.181973 "
        "-3.386479 1.687502 6.06248 3.249994 0.4375079 0.5 0.5 0.5 0.5 "
        "1.386479 -4.181973 -0.6022534 2.977466 3.874991 1.062505 5.437483 "
        "4.187489" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "BatchNormalization",
      14,
      "training_mode=1 momentum=0.75",
      { "f32 2,3,2,2", "f32 3", "f32 3: 0.5 -1 2", "f32 3: 1 0 -0.5",
        "f32 3: 0.5 2 1" },
      { "f32 2,3,2,2: 0.5 0.5 0.5 0.5 -4.17405 -1.317405 1.53924 -2.90443 "
        "0.9759623 3.843268 2 0.1567322 0.5 0.5 0.5 0.5 0.9044302 -3.53924 "
        "-0.682595 2.17405 2.409615 0.5663472 3.433653 2.614423",
        "f32 3: 0.6640625 0 -0.25", "f32 3: 0.9411621 2.285156 1.332031" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "BatchNormalization",
      15,
      "training_mode=1",
      { "f32 2,3,5", "f32 3", "f32 3: 0.5 -1 2", "f32 3: 1 0 -0.5",
        "f32 3: 0.5 2 1" },
      { "f32 2,3,5: 0.5 0.5 0.5 0.5 0.5 -0.7775804 2.558713 -2.631077 "
        "0.7052167 -4.484573 2.474083 0.7673843 3.422249 1.71555 "
        "0.008851528 0.5 0.5 0.5 0.5 0.5 -1.889678 1.446615 -3.743175 "
        "-2.260378 1.075916 3.991148 2.28445 0.5777512 3.232616 1.525917",
        "f32 3: 0.89 0.04000001 -0.4625", "f32 3: 0.7190001 2.03025 1.171563" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "BatchNormalization",
      9,
      NULL,
      { "f32 2,3,2", "f32 3", "f32 3: 0.5 -1 2", "f32 3: 1 0 -0.5",
        "f32 3: 0.5 2 1" },
      { "f32 2,3,2: 0.5 0.5 -2.007896 1.290672 3.764712 1.896193 0.5 0.5 "
        "0.9241648 -4.206941 2.103807 0.2352875",
        "f32 3: 0.83125 0.05625 -0.4125", "f32 3: 0.6855469 2.035547 1.126562",
        "f32 3: -0.6875 0.5625 0.375", "f32 3: 2.355469 2.355469 2.265625" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "BatchNormalization",
      6,
      NULL,
      { "f32 2,3,2", "f32 3", "f32 3: 0.5 -1 2", "f32 3: 1 0 -0.5",
        "f32 3: 0.5 2 1" },
      { "f32 2,3,2: 0.5 0.5 -2.007896 1.290672 3.764712 1.896193 0.5 0.5 "
        "0.9241648 -4.206941 2.103807 0.2352875",
        "f32 3: 0.83125 0.05625 -0.4125",
        "f32 3: 0.6855469 2.035547 1.126562" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "BatchNormalization",
      7,
      "spatial=0",
      { "f32 2,2,2", "f32 2,2", "f32 2,2", "f32 2,2: 0 1 -1 0",
        "f32 2,2: 1 2 0.5 1" },
      { "f32 2,2,2: 0 2.920705 5.227436 -5.00679e-06 0 -1.05676 -0.5177492 "
        "-2.499992" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "BatchNormalization",
      9,
      NULL,
      { "f32 5", "f32 1: 2", "f32 1: 1", "f32 1: 0.5", "f32 1: 4" },
      { "f32 5: 0.5000006 -1.749997 1.749999 -0.4999981 2.999998" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "InstanceNormalization",
      6,
      NULL,
      { "f32 2,2,4", "f32 2: 1 2", "f32 2: 0 -1" },
      { "f32 2,2,4: 0.3885132 -1.359796 1.359796 -0.3885132 1.305801 "
        "-1.371903 -4.049608 0.1157101 -0.5578551 1.524804 0.1859517 "
        "-1.1529 1.305801 -1.371903 -4.049608 0.1157101" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "GroupNormalization",
      18,
      "num_groups=2",
      { "f32 1,4,3", "f32 2: 1 2", "f32 2: 0 -1" },
      { "f32 1,4,3: -0.08229204 -1.563549 0.7406284 -0.7406284 1.563549 "
        "0.08229204 -3.378945 0.6992465 -1.922448 2.155743 -0.4659511 "
        "-3.087646" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "GroupNormalization",
      21,
      "num_groups=2 epsilon=0.01",
      { "f32 1,4,3", "f32 4", "f32 4: 0 -1 1 2" },
      { "f32 1,4,3: 0 0 0 0.662818 -4.510393 -1.184758 -0.4843262 2.060233 "
        "0.4244449 0.4247967 1.733427 3.042058" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "LayerNormalization",
      17,
      NULL,
      { "f32 2,3,4", "f32 4", "f32 4: 0 1 2 3" },
      { "f32 2,3,4: 0 4.059542 3.699745 3.388513 0 1.418391 0.09399533 "
        "2.442145 0 -2.430809 2.23244 4.1529 0 1.418391 0.09399533 "
        "2.442145 0 -2.430809 2.23244 4.1529 0 4.627338 3.404525 2.658029",
        "f32 2,3,1: -0.5 0.5625 0.1875 -0.1875 -0.5625 0.8125",
        "f32 2,3,1: 0.7770264 0.5950454 0.5950454 0.5950454 0.5950454 "
        "0.7816487" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "LayerNormalization",
      17,
      "axis=1 epsilon=0.1",
      { "f32 2,3,2", "f32 3,2" },
      { "f32 2,3,2: -0 3.444148 0.9063547 0.7250838 3.826831 0.02014121 -0 "
        "-1.880016 -0.5669889 -1.551759 0.6565135 -0.2566371",
        "f32 2,1,1: 0.125 0.04166666", "f32 2,1,1: 0.6445189 0.5729572" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "LayerNormalization",
      17,
      NULL,
      { "f32 2,2,3", "f32 2,1,3", "f32 1: 0.5" },
      { "f32 2,2,3: 0.5 3.47787 1.866656 0.5 -2.477871 0.212283 1.593325 "
        "3.808745 0.4424566 -0.724743 0.5 0.1938142" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "RMSNormalization",
      23,
      NULL,
      { "f32 2,4", "f32 4" },
      { "f32 2,4: 0 3.666688 1.131694 0.7242841 0 -0.317405 -1.410689 "
        "-0.8464134" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "LRN",
      1,
      "size=3 alpha=0.5 beta=0.75 bias=1.5",
      { "f32 1,5,2,1" },
      { "f32 1,5,2,1: 0 -1.128166 0.5771639 -0.4998525 0.9835812 0.1458122 "
        "-0.8164676 0.635023 -0.4068365 1.167109" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "LRN",
      13,
      "size=4 alpha=0.25 beta=0.5 bias=1.0",
      { "f32 1,6,1,2" },
      { "f32 1,6,1,2: 0 -1.913378 0.9480909 -0.8101915 1.877293 0.1928971 "
        "-1.537822 1.115375 -0.6575959 2.047065 0.4877686 -1.356604" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "LpNormalization",
      1,
      "p=1",
      { "f32 2,3" },
      { "f32 2,3: 0 -0.6428571 0.3571429 -0.2666667 0.6666667 0.06666667" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "LpNormalization",
      1,
      "axis=0",
      { "f32 3,2" },
      { "f32 3,2: 0 -0.9091372 0.4472136 -0.404061 0.8944272 0.1010153" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "LpNormalization",
      1,
      NULL,
      { "f32 2,2: 0 0 3 4" },
      { "f32 2,2: 0 0 0.6 0.8" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "MeanVarianceNormalization",
      13,
      NULL,
      { "f32 2,2,2,2" },
      { "f32 2,2,2,2: 0.1017446 -1.363378 0.9157015 -0.5494209 1.343015 "
        "0.0362977 -1.270419 0.7622517 -0.3866295 1.89245 0.4273274 "
        "-1.037795 0.9074425 -0.3992747 -1.705992 0.3266793" },
      .rtol = 2e-06,
      .atol = 1e-06 },
};

static void test_known_values(void **state)
{
    (void)state;
    test_rows_run(rows, sizeof rows / sizeof rows[0]);
}

static const test_row refused[] = {
    { "BatchNormalization",
      9,
      "",
      { "f32 1,3,2,2", "f32 3", "f32 2", "f32 3", "f32 3" },
      { NULL },
      .status = QN_SHAPE,
      .says = "B has 2 elements, expected 3" },
    { "BatchNormalization",
      9,
      "",
      { "f32 : 1", "f32 1", "f32 1", "f32 1", "f32 1" },
      { NULL },
      .status = QN_SHAPE,
      .says = "X is a scalar" },
    { "InstanceNormalization",
      6,
      "",
      { "f32 1,3,2", "f32 2", "f32 3" },
      { NULL },
      .status = QN_SHAPE,
      .says = "scale has 2 elements, expected 3" },
    { "GroupNormalization",
      21,
      "num_groups=2",
      { "f32 1,3,2", "f32 3", "f32 3" },
      { NULL },
      .status = QN_SHAPE,
      .says = "3 channels do not split into 2 groups" },
    { "LayerNormalization",
      17,
      "axis=2",
      { "f32 2,3", "f32 3" },
      { NULL },
      .status = QN_RANGE,
      .says = "axis 2" },
    { "LayerNormalization",
      17,
      "",
      { "f32 2,3", "f32 2,2,3" },
      { NULL },
      .status = QN_SHAPE,
      .says = "does not broadcast" },
    { "LayerNormalization",
      17,
      "stash_type=11",
      { "f32 2,3", "f32 3" },
      { NULL },
      .status = QN_UNSUPPORTED,
      .says = "stash_type is 11" },
    { "LRN",
      13,
      "size=0",
      { "f32 1,3,2,2" },
      { NULL },
      .status = QN_RANGE,
      .says = "size is 0" },
};

static void test_refuses_bad_parameters(void **state)
{
    (void)state;
    test_rows_run(refused, sizeof refused / sizeof refused[0]);
}

static const struct {
    const char *op;
    int opset;
    const char *attrs;
    const char *in[5]; /* dimensions */
    bool nhwc;
} shapes[] = {
    { "BatchNormalization",
      15,
      "",
      { "2,37,6,7", "37", "37", "37", "37" },
      .nhwc = true },
    { "BatchNormalization",
      15,
      "training_mode=1",
      { "3,37,6,7", "37", "37", "37", "37" },
      true },
    { "BatchNormalization",
      15,
      "",
      { "5,300", "300", "300", "300", "300" },
      .nhwc = false },
    { "InstanceNormalization", 6, "", { "2,3,700", "3", "3" }, .nhwc = false },
    { "GroupNormalization",
      21,
      "num_groups=5",
      { "2,20,33", "20", "20" },
      .nhwc = false },
    { "LayerNormalization",
      17,
      "",
      { "7,1000", "1000", "1000" },
      .nhwc = false },
    { "LayerNormalization",
      17,
      "axis=1",
      { "3,40,17", "40,17", "40,17" },
      .nhwc = false },
    { "RMSNormalization", 23, "", { "7,1000", "1000" }, .nhwc = false },
    { "LRN", 13, "size=5 alpha=0.5", { "2,37,6,50" }, .nhwc = true },
    { "LRN",
      13,
      "size=4 alpha=0.5 beta=0.6 bias=2.0",
      { "1,300,5,3" },
      .nhwc = true },
    { "LRN", 13, "size=99 alpha=0.5", { "1,7,5,3" }, .nhwc = true },
};

/* Element type of input i: variances have to be positive. */
static void load(test_node *t, size_t row, qn_dtype dtype)
{
    for (uint32_t i = 0; i < t->node.n_in; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s %s", dtype == QN_F32 ? "f32" : "f64",
                 shapes[row].in[i]);
        t->in[i] = test_row_tensor(&t->region, text);
        for (int64_t k = 0; i == 4 && k < qn_count(&t->in[i]); k++)
            if (dtype == QN_F32)
                ((float *)t->in[i].data)[k] =
                    (float)fabs(test_filler(k)) + 0.5f;
            else
                ((double *)t->in[i].data)[k] = fabs(test_filler(k)) + 0.5;
    }
}

static void test_fast_equals_plain(void **state)
{
    (void)state;
    for (size_t row = 0; row < sizeof shapes / sizeof shapes[0]; row++) {
        test_node t[3];
        uint32_t n_in = 0;
        while (n_in < 5 && shapes[row].in[n_in])
            n_in++;
        int ways = shapes[row].nhwc ? 3 : 2;
        for (int k = 0; k < ways; k++) {
            test_node_init(&t[k], shapes[row].op, shapes[row].opset, n_in, 1);
            test_node_attrs(&t[k], shapes[row].attrs);
            load(&t[k], row, k ? QN_F32 : QN_F64);
            assert_int_equal(k < 2 ? test_node_run(&t[k])
                                   : test_node_run_nhwc(&t[k]),
                             QN_OK);
        }
        for (int k = 1; k < ways; k++)
            for (int64_t i = 0; i < qn_count(&t[0].out[0]); i++) {
                double g = test_value(&t[k].out[0], i);
                double w = test_value(&t[0].out[0], i);
                if (!(fabs(g - w) <= 2e-5 + 1e-5 * fabs(w)))
                    fail_msg(
                        "row %zu %s way %d index %lld: %.9g, expected %.9g",
                        row, shapes[row].op, k, (long long)i, g, w);
            }
        for (int k = 0; k < ways; k++)
            test_node_release(&t[k]);
    }
}

/* Half-precision tensors are computed wide and rounded once. */
static void test_half_rounds_once(void **state)
{
    static const char *const types[] = { "f16", "bf16" };
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        test_node t;
        char x[16], p[16];
        snprintf(x, sizeof x, "%s 3,50", types[k]);
        snprintf(p, sizeof p, "%s 50", types[k]);
        test_node_init(&t, "LayerNormalization", 17, 3, 1);
        t.in[0] = test_row_tensor(&t.region, x);
        t.in[1] = test_row_tensor(&t.region, p);
        t.in[2] = test_row_tensor(&t.region, p);
        assert_int_equal(test_node_run(&t), QN_OK);
        for (int64_t r = 0; r < 3; r++) {
            double mean = 0, var = 0;
            for (int64_t i = 0; i < 50; i++)
                mean += test_value(&t.in[0], r * 50 + i) / 50;
            for (int64_t i = 0; i < 50; i++)
                var += pow(test_value(&t.in[0], r * 50 + i) - mean, 2) / 50;
            for (int64_t i = 0; i < 50; i++) {
                double s = test_value(&t.in[1], i);
                double w = (test_value(&t.in[0], r * 50 + i) - mean) /
                               sqrt(var + 1e-5) * s +
                           s;
                double g = test_value(&t.out[0], r * 50 + i);
                if (!(fabs(g - w) <=
                      fabs(w) * (k ? 1.0 / 256 : 1.0 / 2048) + 1e-6))
                    fail_msg("%s row %lld index %lld: %.9g, exact %.9g",
                             types[k], (long long)r, (long long)i, g, w);
            }
        }
        test_node_release(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_refuses_bad_parameters),
        cmocka_unit_test(test_fast_equals_plain),
        cmocka_unit_test(test_half_rounds_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

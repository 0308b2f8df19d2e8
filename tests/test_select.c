/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TopK, NonZero, NonMaxSuppression.
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
    { "TopK",
      1,
      "k=2",
      { "f32 2,4" },
      { "f32 2,2: 1.25 0 2.5 1.5", "i64 2,2: 2 0 0 3" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "TopK",
      10,
      NULL,
      { "f32 2,4", "i64 1: 3" },
      { "f32 2,3: 1.25 0 -1 2.5 1.5 0.25", "i64 2,3: 2 0 3 0 3 1" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "TopK",
      11,
      "axis=0 largest=0",
      { "f32 3,4", "i64 1: 2" },
      { "f32 2,4: -0.75 -2.25 -2 -1.75 0 0.25 0.5 -1",
        "i64 2,4: 2 0 1 2 0 1 2 0" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "TopK",
      11,
      "axis=1",
      { "f32 2,3,2", "i64 1: 2" },
      { "f32 2,2,2: 2.5 0.25 1.25 -1 0.5 2.75 -0.75 1.5",
        "i64 2,2,2: 2 2 1 1 2 1 1 0" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "TopK",
      11,
      NULL,
      { "f32 5: 1 2 2 1 2", "i64 1: 4" },
      { "f32 4: 2 2 2 1", "i64 4: 1 2 4 0" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "TopK",
      11,
      "largest=0",
      { "f32 5: 1 2 2 1 2", "i64 1: 3" },
      { "f32 3: 1 1 2", "i64 3: 0 3 1" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "TopK",
      11,
      NULL,
      { "f32 6: 1 nan -0 0 -inf inf", "i64 1: 6" },
      { "f32 6: nan inf 1 -0 0 -inf", "i64 6: 1 5 0 2 3 4" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "TopK",
      11,
      "largest=0",
      { "f32 3: 1 nan 2", "i64 1: 3" },
      { "f32 3: 1 2 nan", "i64 3: 0 2 1" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "TopK",
      11,
      NULL,
      { "i64 2,5", "i64 1: 2" },
      { "i64 2,2: 10 5 11 6", "i64 2,2: 4 2 4 2" },
      .rtol = 0 },
    { "TopK",
      11,
      NULL,
      { "i64 3: -4611686018427387904 4611686018427387904 0", "i64 1: 2" },
      { "i64 2: 4611686018427387904 0", "i64 2: 1 2" },
      .rtol = 0 },
    { "TopK",
      11,
      NULL,
      { "u8 2,5", "i64 1: 2" },
      { "u8 2,2: 21 16 22 17", "i64 2,2: 4 2 4 2" },
      .rtol = 0 },
    { "TopK",
      11,
      "axis=0",
      { "f64 2,3", "i64 1: 1" },
      { "f64 1,3: 0 2.5 1.25", "i64 1,3: 0 1 0" },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "TopK",
      11,
      NULL,
      { "f32 2,3", "i64 1: 0" },
      { "f32 2,0: ", "i64 2,0: " },
      .rtol = 2e-06,
      .atol = 1e-06 },
    { "NonZero",
      9,
      NULL,
      { "f32 2,2: 1 0 1 1" },
      { "i64 2,3: 0 1 1 0 0 1" },
      .rtol = 0 },
    { "NonZero",
      13,
      NULL,
      { "f32 2,3: 0 0 2 -0 nan 0" },
      { "i64 2,2: 0 1 2 1" },
      .rtol = 0 },
    { "NonZero", 13, NULL, { "bool 3: 0 1 1" }, { "i64 1,2: 1 2" }, .rtol = 0 },
    { "NonZero",
      13,
      NULL,
      { "i32 2,2,2" },
      { "i64 3,7: 0 0 0 1 1 1 1 0 1 1 0 0 1 1 1 0 1 0 1 0 1" },
      .rtol = 0 },
    { "NonZero", 13, NULL, { "f32 2: 0 0" }, { "i64 1,0: " }, .rtol = 0 },
    { "NonZero", 13, NULL, { "f32 2,0: " }, { "i64 2,0: " }, .rtol = 0 },
    { "NonZero", 13, NULL, { "i64 : 5" }, { "i64 0,1: " }, .rtol = 0 },
    { "NonZero", 13, NULL, { "i64 : 0" }, { "i64 0,0: " }, .rtol = 0 },
    { "NonMaxSuppression",
      10,
      NULL,
      { "f32 1,6,4: 0 0 1 1 0 0.1 1 1.1 0 -0.1 1 0.9 0 10 1 11 0 10.1 1 "
        "11.1 0 100 1 101",
        "f32 1,1,6: 0.9 0.75 0.6 0.95 0.5 0.3", "i64 1: 3", "f32 1: 0.5",
        "f32 1: 0" },
      { "i64 3,3: 0 0 3 0 0 0 0 0 5" },
      .rtol = 0 },
    { "NonMaxSuppression",
      11,
      NULL,
      { "f32 1,6,4: 0 0 1 1 0 0.1 1 1.1 0 -0.1 1 0.9 0 10 1 11 0 10.1 1 "
        "11.1 0 100 1 101",
        "f32 1,1,6: 0.9 0.75 0.6 0.95 0.5 0.3", "i64 1: 30", "f32 1: 0.5" },
      { "i64 3,3: 0 0 3 0 0 0 0 0 5" },
      .rtol = 0 },
    { "NonMaxSuppression",
      11,
      NULL,
      { "f32 1,6,4: 0 0 1 1 0 0.1 1 1.1 0 -0.1 1 0.9 0 10 1 11 0 10.1 1 "
        "11.1 0 100 1 101",
        "f32 1,1,6: 0.9 0.75 0.6 0.95 0.5 0.3", "i64 1: 30", "f32 1: 0.5",
        "f32 1: 0.4" },
      { "i64 2,3: 0 0 3 0 0 0" },
      .rtol = 0 },
    { "NonMaxSuppression",
      11,
      NULL,
      { "f32 1,6,4: 0 0 1 1 0 0.1 1 1.1 0 -0.1 1 0.9 0 10 1 11 0 10.1 1 "
        "11.1 0 100 1 101",
        "f32 1,1,6: 0.9 0.75 0.6 0.95 0.5 0.3" },
      { "i64 0,3: " },
      .rtol = 0 },
    { "NonMaxSuppression",
      11,
      NULL,
      { "f32 1,6,4: 0 0 1 1 0 0.1 1 1.1 0 -0.1 1 0.9 0 10 1 11 0 10.1 1 "
        "11.1 0 100 1 101",
        "f32 1,1,6: 0.9 0.75 0.6 0.95 0.5 0.3", "i64 1: 0", "f32 1: 0.5" },
      { "i64 0,3: " },
      .rtol = 0 },
    { "NonMaxSuppression",
      11,
      NULL,
      { "f32 1,6,4: 0 0 1 1 0 0.1 1 1.1 0 -0.1 1 0.9 0 10 1 11 0 10.1 1 "
        "11.1 0 100 1 101",
        "f32 1,1,6: 0.9 0.75 0.6 0.95 0.5 0.3", "i64 1: 2" },
      { "i64 2,3: 0 0 3 0 0 0" },
      .rtol = 0 },
    { "NonMaxSuppression",
      11,
      NULL,
      { "f32 1,6,4: 0 0 1 1 0 0.1 1 1.1 0 -0.1 1 0.9 0 10 1 11 0 10.1 1 "
        "11.1 0 100 1 101",
        "f32 1,1,6: 0.9 0.75 0.6 0.95 0.5 0.3", "i64 1: 6", "f32 1: 1" },
      { "i64 6,3: 0 0 3 0 0 0 0 0 1 0 0 2 0 0 4 0 0 5" },
      .rtol = 0 },
    { "NonMaxSuppression",
      11,
      NULL,
      { "f32 1,6,4: 1 1 0 0 1 1.1 0 0.1 1 0.9 0 -0.1 1 11 0 10 1 11.1 0 "
        "10.1 1 101 0 100",
        "f32 1,1,6: 0.9 0.75 0.6 0.95 0.5 0.3", "i64 1: 3", "f32 1: 0.5",
        "f32 1: 0" },
      { "i64 3,3: 0 0 3 0 0 0 0 0 5" },
      .rtol = 0 },
    { "NonMaxSuppression",
      11,
      "center_point_box=1",
      { "f32 1,6,4: 0.5 0.5 1 1 0.5 0.6 1 1 0.5 0.4 1 1 0.5 10.5 1 1 0.5 "
        "10.6 1 1 0.5 100.5 1 1",
        "f32 1,1,6: 0.9 0.75 0.6 0.95 0.5 0.3", "i64 1: 3", "f32 1: 0.5",
        "f32 1: 0" },
      { "i64 3,3: 0 0 3 0 0 0 0 0 5" },
      .rtol = 0 },
    { "NonMaxSuppression",
      11,
      NULL,
      { "f32 2,2,4: 0 0 1 1 0 0 1 1 0 0 1 1 5 5 6 6",
        "f32 2,2,2: 0.5 0.5 0.2 0.9 0.1 0.1 0.3 0.2", "i64 1: 2",
        "f32 1: 0.5" },
      { "i64 6,3: 0 0 0 0 1 1 1 0 0 1 0 1 1 1 0 1 1 1" },
      .rtol = 0 },
    { "NonMaxSuppression",
      11,
      NULL,
      { "f32 2,2,4: 0 0 1 1 0 0 1 1 0 0 1 1 5 5 6 6",
        "f32 2,2,2: 0.5 0.5 0.2 0.9 0.1 0.1 0.3 0.2", "i64 1: 1", "",
        "f32 1: 0.25" },
      { "i64 3,3: 0 0 0 0 1 1 1 1 0" },
      .rtol = 0 },
    { "NonMaxSuppression",
      11,
      NULL,
      { "f32 1,0,4: ", "f32 1,2,0: ", "i64 1: 3" },
      { "i64 0,3: " },
      .rtol = 0 },
};

static void test_known_values(void **state)
{
    (void)state;
    test_rows_run(rows, sizeof rows / sizeof rows[0]);
}

static const test_row refused[] = {
    { "TopK",
      11,
      "",
      { "f32 3", "i64 1: 5" },
      { NULL },
      .status = QN_RANGE,
      .says = "K is 5, but axis 0 has 3 elements" },
    { "TopK",
      11,
      "",
      { "f32 3", "i64 1: -1" },
      { NULL },
      .status = QN_RANGE,
      .says = "K is -1" },
    { "TopK",
      11,
      "axis=1",
      { "f32 3", "i64 1: 1" },
      { NULL },
      .status = QN_RANGE,
      .says = "axis 1" },
    { "TopK",
      1,
      "",
      { "f32 3" },
      { NULL },
      .status = QN_INVALID,
      .says = "attribute k is missing" },
    { "NonMaxSuppression",
      11,
      "",
      { "f32 1,6,4", "f32 1,1,5" },
      { NULL },
      .status = QN_SHAPE,
      .says = "boxes [1, 6, 4] and scores [1, 1, 5]" },
    { "NonMaxSuppression",
      11,
      "",
      { "f32 1,6,4", "f32 1,1,6", "i64 1: 3", "f32 1: 1.5" },
      { NULL },
      .status = QN_RANGE,
      .says = "iou_threshold is 1.5" },
    { "NonMaxSuppression",
      11,
      "",
      { "f32 1,6,4", "f32 1,1,6", "i64 2: 3 3" },
      { NULL },
      .status = QN_SHAPE,
      .says = "input 2 has 2 elements" },
};

static void test_refuses_bad_arguments(void **state)
{
    (void)state;
    test_rows_run(refused, sizeof refused / sizeof refused[0]);
}

/* Against taking the best of what is left, k times. The filler has 23 values:
 * nearly everything ties. */
static void test_topk_ties_by_index(void **state)
{
    enum { N = 500 };
    (void)state;
    for (int64_t k = 1; k <= N; k = k * 3 + 1) {
        test_node t;
        bool taken[N] = { false };
        test_node_init(&t, "TopK", 11, 2, 2);
        t.in[0] = test_row_tensor(&t.region, "f32 500");
        test_node_input(&t, 1, QN_I64, 1, (int64_t[]){ 1 }, &k);
        assert_int_equal(test_node_run(&t), QN_OK);
        for (int64_t i = 0; i < k; i++) {
            int64_t best = -1;
            for (int64_t p = 0; p < N; p++)
                if (!taken[p] &&
                    (best < 0 || test_filler(p) > test_filler(best)))
                    best = p;
            taken[best] = true;
            if (((int64_t *)t.out[1].data)[i] != best)
                fail_msg("k %lld place %lld: %lld, expected %lld", (long long)k,
                         (long long)i, (long long)((int64_t *)t.out[1].data)[i],
                         (long long)best);
        }
        test_node_release(&t);
    }
}

enum { BOXES = 400, CLASSES = 3, MOST = 60 };

static float noise(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / (float)(1 << 24);
}

static float overlap(const float *a, const float *b)
{
    float h = fminf(a[2], b[2]) - fmaxf(a[0], b[0]);
    float w = fminf(a[3], b[3]) - fmaxf(a[1], b[1]);
    float common = h > 0 && w > 0 ? h * w : 0;
    return common / ((a[2] - a[0]) * (a[3] - a[1]) +
                     (b[2] - b[0]) * (b[3] - b[1]) - common);
}

/* Greedy selection as the operator's text has it, for one class. */
static int naive(const float *boxes, const float *scores, int *picked)
{
    bool gone[BOXES] = { false };
    int n = 0;
    while (n < MOST) {
        int best = -1;
        for (int i = 0; i < BOXES; i++)
            if (!gone[i] && scores[i] > 0.1f &&
                (best < 0 || scores[i] > scores[best]))
                best = i;
        if (best < 0)
            break;
        picked[n++] = best;
        for (int i = 0; i < BOXES; i++)
            gone[i] = gone[i] || i == best ||
                      overlap(boxes + 4 * i, boxes + 4 * best) > 0.4f;
    }
    return n;
}

static void test_nms_equals_naive(void **state)
{
    static float boxes[BOXES * 4], scores[CLASSES * BOXES];
    static const int64_t most = MOST;
    static const float iou = 0.4f, score = 0.1f;
    const int64_t one = 1;
    uint32_t seed = 7;
    test_node t;
    int64_t row = 0;
    (void)state;
    for (int i = 0; i < BOXES; i++) {
        boxes[4 * i] = noise(&seed);
        boxes[4 * i + 1] = noise(&seed);
        boxes[4 * i + 2] = boxes[4 * i] + 0.02f + 0.2f * noise(&seed);
        boxes[4 * i + 3] = boxes[4 * i + 1] + 0.02f + 0.2f * noise(&seed);
    }
    for (int i = 0; i < CLASSES * BOXES; i++)
        scores[i] = floorf(noise(&seed) * 50) / 50; /* ties */
    test_node_init(&t, "NonMaxSuppression", 11, 5, 1);
    test_node_input(&t, 0, QN_F32, 3, (int64_t[]){ 1, BOXES, 4 }, boxes);
    test_node_input(&t, 1, QN_F32, 3, (int64_t[]){ 1, CLASSES, BOXES }, scores);
    test_node_input(&t, 2, QN_I64, 1, &one, &most);
    test_node_input(&t, 3, QN_F32, 1, &one, &iou);
    test_node_input(&t, 4, QN_F32, 1, &one, &score);
    assert_int_equal(test_node_run(&t), QN_OK);
    for (int c = 0; c < CLASSES; c++) {
        int picked[MOST], n = naive(boxes, scores + c * BOXES, picked);
        for (int i = 0; i < n; i++, row++) {
            const int64_t *got = (const int64_t *)t.out[0].data + 3 * row;
            assert_true(row < t.out[0].shape.dims[0]);
            if (got[0] != 0 || got[1] != c || got[2] != picked[i])
                fail_msg("row %lld: class %lld box %lld, expected %d %d",
                         (long long)row, (long long)got[1], (long long)got[2],
                         c, picked[i]);
        }
    }
    assert_int_equal(row, t.out[0].shape.dims[0]);
    test_node_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_refuses_bad_arguments),
        cmocka_unit_test(test_topk_ties_by_index),
        cmocka_unit_test(test_nms_equals_naive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

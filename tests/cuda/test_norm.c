/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisations on a device. */
#include "tests/cuda/support/device_node.h"

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static const device_row rows[] = {
    { "BatchNormalization", 15, NULL,
      { "f32 2,3,4,4", "f32 3", "f32 3", "f32 3", "f32 3: 1 2 0.5" }, .n_out = 1 },
    { "BatchNormalization", 15, "epsilon=0.01",
      { "f32 2,3,5,5", "f32 3", "f32 3", "f32 3", "f32 3: 1 2 0.5" },
      .in_place = true },
    { "BatchNormalization", 15, NULL,
      { "f32 2,3,4,4", "f32 3", "f32 3", "f32 3", "f32 3: 1 2 0.5" },
      .shift = 1 },
    { "BatchNormalization", 15, NULL,
      { "f32 5,4", "f32 4", "f32 4", "f32 4", "f32 4: 1 2 0.5 3" }, .n_out = 1 },
    { "BatchNormalization", 15, NULL,
      { "f16 2,3,4,4", "f16 3", "f16 3", "f16 3", "f16 3: 1 2 0.5" }, .n_out = 1 },
    { "BatchNormalization", 15, NULL,
      { "f16 2,3,4,4", "f32 3", "f32 3", "f32 3", "f32 3: 1 2 0.5" }, .n_out = 1 },
    { "BatchNormalization", 15, NULL,
      { "bf16 2,3,8,4", "f32 3", "bf16 3", "f64 3", "f64 3: 1 2 0.5" }, .n_out = 1 },
    { "BatchNormalization", 15, NULL,
      { "f64 2,3,4", "f64 3", "f64 3", "f64 3", "f64 3: 1 2 0.5" }, .n_out = 1 },
    { "BatchNormalization", 15, NULL,
      { "f32 2,8,3,3", "f32 8", "f32 8", "f32 8",
        "f32 8: 1 2 0.5 1 2 3 4 5" }, .nhwc = true },
    { "BatchNormalization", 15, NULL,
      { "f32 2,3,3,3", "f32 3", "f32 3", "f32 3", "f32 3: 1 2 0.5" },
      .nhwc = true },
    { "BatchNormalization", 7, "spatial=0",
      { "f32 2,2,2", "f32 2,2", "f32 2,2", "f32 2,2", "f32 2,2: 1 2 0.5 1" }, .n_out = 1 },
    { "BatchNormalization", 15, "training_mode=1 momentum=0.8",
      { "f32 2,3,4,4", "f32 3", "f32 3", "f32 3", "f32 3: 1 2 0.5" },
      .n_out = 3 },
    { "BatchNormalization", 15, NULL,
      { "f32 0,3,4:", "f32 3", "f32 3", "f32 3", "f32 3: 1 2 0.5" }, .n_out = 1 },
    { "BatchNormalization", 15, NULL,
      { "f32 7", "f32 1", "f32 1", "f32 1", "f32 1: 2" }, .n_out = 1 },
    { "InstanceNormalization", 6, NULL, { "f32 2,3,5,5", "f32 3", "f32 3" }, .n_out = 1 },
    { "InstanceNormalization", 6, NULL, { "f32 2,3,8,8", "f32 3", "f32 3" },
      .in_place = true },
    { "InstanceNormalization", 6, NULL, { "f16 2,3,40", "f16 3", "f16 3" }, .n_out = 1 },
    { "InstanceNormalization", 22, NULL, { "bf16 2,3,8,8", "bf16 3", "bf16 3" }, .n_out = 1 },
    { "InstanceNormalization", 6, NULL, { "f64 2,3,5", "f64 3", "f64 3" }, .n_out = 1 },
    /* few images: split over blocks */
    { "InstanceNormalization", 6, NULL, { "f32 1,2,40000", "f32 2", "f32 2" },
      .in_place = true },
    { "InstanceNormalization", 6, NULL, { "f32 1,1,40001", "f32 1", "f32 1" }, .n_out = 1 },
    { "GroupNormalization", 21, "num_groups=2",
      { "f32 2,4,5,5", "f32 4", "f32 4" }, .n_out = 1 },
    { "GroupNormalization", 21, "num_groups=2",
      { "f16 2,4,4,4", "f16 4", "f16 4" }, .in_place = true },
    { "GroupNormalization", 18, "num_groups=2",
      { "f32 2,4,5,5", "f32 2", "f32 2" }, .n_out = 1 },
    { "GroupNormalization", 21, "num_groups=2",
      { "f32 1,4,20000", "f32 4", "f32 4" }, .n_out = 1 },
    { "LayerNormalization", 17, NULL, { "f32 5,20", "f32 20", "f32 20" }, .n_out = 1 },
    { "LayerNormalization", 17, NULL, { "f32 9,64", "f32 64", "f32 64" },
      .in_place = true },
    { "LayerNormalization", 17, NULL, { "f32 9,300", "f32 300" }, .n_out = 3 },
    { "LayerNormalization", 17, NULL, { "f32 3,768", "f32 768", "f32 768" },
      .n_out = 3 },
    { "LayerNormalization", 17, NULL, { "f32 3,1024", "f32 1024", "f32 1024" }, .n_out = 1 },
    { "LayerNormalization", 17, NULL, { "f32 3,2048", "f32 2048", "f32 2048" },
      .n_out = 3, .in_place = true },
    { "LayerNormalization", 17, NULL, { "f32 3,1500", "f32 1500", "f32 1500" },
      .shift = 1 },
    { "LayerNormalization", 17, NULL, { "f16 3,768", "f16 768", "f16 768" }, .n_out = 1 },
    { "LayerNormalization", 17, NULL, { "f16 3,1504", "f16 1504", "f16 1504" }, .n_out = 1 },
    { "LayerNormalization", 17, NULL, { "bf16 3,77", "bf16 77", "bf16 77" }, .n_out = 1 },
    { "LayerNormalization", 17, NULL, { "f64 3,77", "f64 77", "f64 77" }, .n_out = 1 },
    { "LayerNormalization", 17, "axis=1",
      { "f32 3,4,5", "f32 4,5", "f32 4,5" }, .n_out = 1 },
    /* parameters that broadcast, or are of their own type */
    { "LayerNormalization", 17, "axis=1", { "f32 3,4,5", "f32 5", "f32 4,1" }, .n_out = 1 },
    { "LayerNormalization", 17, NULL, { "f32 3,4,5", "f32 3,4,5", "f32 : 1.5" },
      .n_out = 3 },
    { "RMSNormalization", 23, NULL, { "f32 3,300", "f32 300" }, .n_out = 1 },
    { "RMSNormalization", 23, NULL, { "f32 3,2000", "f32 2000" }, .n_out = 1 },
    { "RMSNormalization", 23, NULL, { "f16 3,300", "f32 300" }, .n_out = 1 },
    { "RMSNormalization", 23, NULL, { "f32 3,30", "bf16 30" }, .n_out = 1 },
    { "LayerNormalization", 17, NULL, { "f32 0,20:", "f32 20", "f32 20" }, .n_out = 1 },
    { "LRN", 13, "size=3", { "f32 2,7,3,5" }, .n_out = 1 },
    { "LRN", 13, "size=4 alpha=0.5 beta=0.6 bias=2.0", { "f32 2,7,3,5" }, .n_out = 1 },
    { "LRN", 13, "size=50", { "f16 1,7,9" }, .n_out = 1 },
    { "LRN", 13, "size=5", { "f64 2,7,3,5" }, .n_out = 1 },
    { "LRN", 13, "size=3", { "bf16 2,7" }, .n_out = 1 },
    { "LRN", 13, "size=3 alpha=0.5", { "f32 2,7,3,5" }, .nhwc = true },
    { "LpNormalization", 22, NULL, { "f32 5,70" }, .in_place = true },
    { "LpNormalization", 22, "p=1", { "f32 5,2000" }, .n_out = 1 },
    { "LpNormalization", 22, "axis=1", { "f16 2,30,33" }, .n_out = 1 },
    { "LpNormalization", 22, NULL, { "f32 2,3: 0 0 0 3 4 0" }, .n_out = 1 },
    { "MeanVarianceNormalization", 13, NULL, { "f32 2,3,5,4" },
      .in_place = true },
    { "MeanVarianceNormalization", 13, "axes=[1]", { "f16 2,30,5,4" }, .n_out = 1 },
    { "MeanVarianceNormalization", 13, "axes=[0,1,2,3]", { "f64 2,3,20,20" }, .n_out = 1 },
};

static void test_rows(void **state)
{
    (void)state;
    device_rows_run(rows, sizeof rows / sizeof rows[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_rows) };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling on a device: windows, whole planes, both orders. */
#include "tests/cuda/support/device_node.h"

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static const device_row rows[] = {
    { "MaxPool", 12, "kernel_shape=[2,2]", { "f32 2,3,6,7" }, .n_out = 1 },
    { "MaxPool", 12, "kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]",
      { "f32 2,3,9,8" }, .n_out = 2 },
    { "MaxPool", 12, "kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]",
      { "f32 2,5,9,8" }, .nhwc = true },
    { "MaxPool", 12, "kernel_shape=[2,2] dilations=[2,3] storage_order=1",
      { "f32 2,3,9,8" }, .n_out = 2 },
    { "MaxPool", 12, "kernel_shape=[3,3] strides=[2,2] ceil_mode=1",
      { "f32 1,2,8,8" }, .n_out = 2 },
    { "MaxPool", 12, "kernel_shape=[3] strides=[2] auto_pad=SAME_LOWER",
      { "f16 2,3,17" }, .n_out = 2 },
    { "MaxPool", 12, "kernel_shape=[2,2,2] storage_order=1",
      { "f32 1,2,4,5,3" }, .n_out = 2 },
    { "MaxPool", 12, "kernel_shape=[2,2,2,2] storage_order=1",
      { "f32 1,2,4,3,3,3" }, .n_out = 2 },
    { "MaxPool", 12, "kernel_shape=[2,2,2,2,2]", { "f32 1,2,2,3,3,3,2" }, .n_out = 1 },
    { "MaxPool", 12, "kernel_shape=[3,3]", { "i8 2,3,6,7" }, .n_out = 2 },
    { "MaxPool", 12, "kernel_shape=[3,3]", { "u8 2,3,6,7" }, .n_out = 1 },
    { "MaxPool", 22, "kernel_shape=[3,3]", { "bf16 2,3,6,7" }, .n_out = 2 },
    { "MaxPool", 12, "kernel_shape=[3,3]", { "f64 2,3,6,7" }, .n_out = 2 },
    { "MaxPool", 12, "kernel_shape=[2]", { "f32 1,1,6: 1 nan 3 nan nan 2" },
      .n_out = 2 },
    { "MaxPool", 12, "kernel_shape=[2]", { "f32 1,1,3: -inf -inf 1" },
      .n_out = 2 },
    { "MaxPool", 12, "kernel_shape=[1] pads=[2,2]", { "f32 1,2,3" },
      .n_out = 2 },
    { "MaxPool", 12, "kernel_shape=[1] pads=[2,2]", { "i8 1,2,3" }, .n_out = 1 },
    { "MaxPool", 12, "kernel_shape=[6,7]", { "f32 2,3,6,7" }, .n_out = 2 },
    { "MaxPool", 12, "kernel_shape=[6,7]", { "u8 2,3,6,7" }, .n_out = 1 },
    { "MaxPool", 12, "kernel_shape=[2,2]", { "f32 0,3,6,7:" }, .n_out = 2 },
    { "AveragePool", 19, "kernel_shape=[3,3] pads=[1,1,1,1]",
      { "f32 2,3,6,7" }, .n_out = 1 },
    { "AveragePool", 19,
      "kernel_shape=[3,3] pads=[1,1,1,1] count_include_pad=1",
      { "f32 2,3,6,7" }, .n_out = 1 },
    { "AveragePool", 19,
      "kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1] ceil_mode=1 "
      "count_include_pad=1",
      { "f32 2,3,6,7" }, .n_out = 1 },
    { "AveragePool", 19, "kernel_shape=[3,3] dilations=[2,2]",
      { "f16 2,3,9,9" }, .n_out = 1 },
    { "AveragePool", 19, "kernel_shape=[3,3] pads=[1,1,1,1]",
      { "f32 2,5,6,7" }, .nhwc = true },
    { "AveragePool", 19, "kernel_shape=[2,3,2] pads=[1,0,1,0,1,0]",
      { "f64 1,2,4,5,3" }, .n_out = 1 },
    { "AveragePool", 22, "kernel_shape=[2,1,2,2]", { "bf16 1,2,4,3,3,3" }, .n_out = 1 },
    { "LpPool", 18, "kernel_shape=[3,3] p=2", { "f32 2,3,6,7" }, .n_out = 1 },
    { "LpPool", 18, "kernel_shape=[3,3] p=1 pads=[1,1,1,1]",
      { "f32 2,3,6,7" }, .n_out = 1 },
    { "LpPool", 18, "kernel_shape=[3] p=3", { "f16 2,3,9" }, .n_out = 1 },
    { "GlobalAveragePool", 1, NULL, { "f32 2,3,7,7" }, .n_out = 1 },
    { "GlobalAveragePool", 1, NULL, { "f32 2,3,40,50" }, .n_out = 1 },
    { "GlobalAveragePool", 1, NULL, { "f16 2,3,7,7" }, .n_out = 1 },
    { "GlobalAveragePool", 1, NULL, { "f32 2,40,7,7" }, .nhwc = true },
    { "GlobalAveragePool", 1, NULL, { "f32 2,3" }, .n_out = 1 },
    { "GlobalMaxPool", 1, NULL, { "f32 2,3,7,7" }, .n_out = 1 },
    { "GlobalMaxPool", 1, NULL, { "f32 2,3,40,50" }, .n_out = 1 },
    { "GlobalMaxPool", 1, NULL, { "f32 2,40,7,7" }, .nhwc = true },
    { "GlobalMaxPool", 1, NULL, { "f32 1,2,2: 1 nan 2 3" }, .n_out = 1 },
    { "GlobalMaxPool", 1, NULL, { "f32 1,2,0:" }, .n_out = 1 },
    { "GlobalLpPool", 2, NULL, { "f32 2,3,7,7" }, .n_out = 1 },
    { "GlobalLpPool", 2, "p=3", { "f64 2,3,7,7" }, .n_out = 1 },
    { "MaxUnpool", 11, "kernel_shape=[2,2] strides=[2,2]",
      { "f32 1,1,2,2", "i64 1,1,2,2: 5 7 13 15" }, .n_out = 1 },
    { "MaxUnpool", 11, "kernel_shape=[2,2] strides=[2,2]",
      { "f16 1,1,2,2", "i64 1,1,2,2: 5 7 13 15", "i64 4: 1 1 5 5" }, .n_out = 1 },
    { "MaxUnpool", 11, "kernel_shape=[2,2] strides=[2,2]",
      { "f64 1,1,2,2", "i64 1,1,2,2: 5 5 5 15" }, .n_out = 1 },
    { "MaxUnpool", 11, "kernel_shape=[2,2] strides=[2,2]",
      { "f32 1,1,2,2", "i64 1,1,2,2: 5 7 13 16" }, .faults = true },
    { "MaxUnpool", 11, "kernel_shape=[2,2] strides=[2,2]",
      { "f32 1,1,2,2", "i64 1,1,2,2: 5 7 -1 15" }, .faults = true },
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

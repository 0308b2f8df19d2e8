/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax, LogSoftmax, Hardmax on a device: each way through softmax.cu. */
#include "tests/cuda/support/device_node.h"

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static const device_row rows[] = {
    /* warps of every width, in registers */
    { "Softmax", 13, NULL, { "f32 5,1" }, .n_out = 1 },
    { "Softmax", 13, NULL, { "f32 9,33" }, .n_out = 1 },
    { "Softmax", 13, NULL, { "f32 3,128" }, .n_out = 1 },
    { "Softmax", 13, NULL, { "f32 3,200" }, .in_place = true },
    { "Softmax", 13, NULL, { "f32 3,500" }, .n_out = 1 },
    { "Softmax", 13, NULL, { "f32 2,1024" }, .n_out = 1 },
    { "Softmax", 13, NULL, { "f16 7,1000" }, .in_place = true },
    { "Softmax", 13, NULL, { "bf16 7,77" }, .n_out = 1 },
    { "Softmax", 13, NULL, { "f64 7,77" }, .n_out = 1 },
    { "LogSoftmax", 13, NULL, { "f32 7,77" }, .n_out = 1 },
    { "LogSoftmax", 13, NULL, { "f16 3,700" }, .n_out = 1 },
    /* blocks */
    { "Softmax", 13, NULL, { "f32 3,1025" }, .in_place = true },
    { "Softmax", 13, NULL, { "f32 2,4096" }, .in_place = true },
    { "Softmax", 13, NULL, { "f32 2,4096" }, .shift = 1 },
    { "Softmax", 13, NULL, { "f16 2,9000" }, .n_out = 1 },
    { "Softmax", 13, NULL, { "f64 2,1500" }, .n_out = 1 },
    { "LogSoftmax", 13, NULL, { "f32 3,2000" }, .n_out = 1 },
    { "LogSoftmax", 13, NULL, { "bf16 3,2000" }, .n_out = 1 },
    /* another axis */
    { "Softmax", 13, "axis=1", { "f32 2,300,5" }, .in_place = true },
    { "Softmax", 13, "axis=0", { "f32 70,40" }, .n_out = 1 },
    { "Softmax", 13, "axis=1", { "f16 2,30,33" }, .n_out = 1 },
    { "Softmax", 13, "axis=1", { "f64 2,30,3" }, .n_out = 1 },
    { "LogSoftmax", 13, "axis=1", { "f32 2,19,50" }, .n_out = 1 },
    /* until opset 12: a matrix split before the axis */
    { "Softmax", 11, NULL, { "f32 3,4,5" }, .n_out = 1 },
    { "Softmax", 11, "axis=0", { "f32 3,4,5" }, .n_out = 1 },
    { "Softmax", 11, "axis=2", { "f32 3,4" }, .n_out = 1 },
    { "LogSoftmax", 11, "axis=1", { "f32 3,4,500" }, .n_out = 1 },
    /* what is no number */
    { "Softmax", 13, NULL, { "f32 2,3: -inf -inf -inf 1 -inf 2" }, .n_out = 1 },
    { "Softmax", 13, NULL, { "f32 2,3: nan 1 2 inf 1 2" }, .n_out = 1 },
    { "LogSoftmax", 13, NULL, { "f32 3,3: nan 1 2 inf 1 2 -inf 0 1" }, .n_out = 1 },
    { "LogSoftmax", 13, NULL, { "f32 1,3: -inf -inf -inf" }, .n_out = 1 },
    { "Softmax", 13, "axis=0", { "f32 3,3: nan 1 -inf inf 1 -inf 5 1 -inf" }, .n_out = 1 },
    { "Softmax", 13, "axis=0", { "f32 3,2: -inf nan -inf -inf 4 1" }, .n_out = 1 },
    /* no elements, no axes */
    { "Softmax", 13, NULL, { "f32 0,3:" }, .n_out = 1 },
    { "Softmax", 13, NULL, { "f32 3,0:" }, .n_out = 1 },
    { "Softmax", 13, NULL, { "f32 : 2.5" }, .n_out = 1 },
    { "Hardmax", 13, NULL, { "f32 5,7" }, .n_out = 1 },
    { "Hardmax", 13, NULL, { "f32 2,2000" }, .in_place = true },
    { "Hardmax", 13, "axis=1", { "f16 2,30,33" }, .n_out = 1 },
    { "Hardmax", 13, NULL, { "f32 2,4: 1 3 3 2 nan 1 nan 5" }, .n_out = 1 },
    { "Hardmax", 11, "axis=1", { "f64 3,4,5" }, .n_out = 1 },
    { "Hardmax", 13, NULL, { "f32 : 2.5" }, .n_out = 1 },
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

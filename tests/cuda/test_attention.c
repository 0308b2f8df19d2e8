/* SPDX-License-Identifier: Apache-2.0 */
/* ai.quern.Attention on a device: each depth, parts of tiles, masks. */
#include "tests/cuda/support/device_node.h"

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>


static const device_row rows[] = {
    { "ai.quern.Attention", 1, NULL,
      { "f32 1,1,1,8", "f32 1,1,5,8", "f32 1,1,5,8" }, .n_out = 1 },
    { "ai.quern.Attention", 1, NULL,
      { "f32 2,2,70,32", "f32 2,2,70,32", "f32 2,2,70,32" }, .n_out = 1 },
    { "ai.quern.Attention", 1, NULL,
      { "f32 1,2,65,64", "f32 1,2,130,64", "f32 1,2,130,64" }, .n_out = 1 },
    { "ai.quern.Attention", 1, NULL,
      { "f32 1,1,64,128", "f32 1,1,40,128", "f32 1,1,40,128" }, .n_out = 1 },
    { "ai.quern.Attention", 1, "scale=0.1",
      { "f32 1,4,5,20", "f32 1,2,33,20", "f32 1,2,33,7" }, .shift = 1 },
    { "ai.quern.Attention", 1, NULL,
      { "f32 1,2,9,48", "f32 1,2,70,48", "f32 1,2,70,100", "f32 9,70" }, .n_out = 1 },
    { "ai.quern.Attention", 1, NULL,
      { "f32 2,2,9,16", "f32 2,2,70,16", "f32 2,2,70,16", "f32 2,1,1,70" }, .n_out = 1 },
    { "ai.quern.Attention", 1, NULL,
      { "f32 2,2,9,16", "f32 2,2,70,16", "f32 2,2,70,16", "f32 2,1,1" }, .n_out = 1 },
    { "ai.quern.Attention", 1, "causal=1",
      { "f32 1,2,100,32", "f32 1,2,100,32", "f32 1,2,100,32" }, .n_out = 1 },
    { "ai.quern.Attention", 1, "causal=1",
      { "f32 1,1,70,32", "f32 1,1,150,32", "f32 1,1,150,32" }, .n_out = 1 },
    /* queries that see nothing give NaN */
    { "ai.quern.Attention", 1, "causal=1",
      { "f32 1,1,70,32", "f32 1,1,5,32", "f32 1,1,5,32" }, .n_out = 1 },
    { "ai.quern.Attention", 1, NULL,
      { "f32 1,1,2,2", "f32 1,1,2,2", "f32 1,1,2,2",
        "f32 2,2: 0 -inf -inf -inf" }, .n_out = 1 },
    { "ai.quern.Attention", 1, NULL,
      { "f32 1,1,2,2", "f32 1,1,2,2", "f32 1,1,2,2",
        "f32 2,2: 0 inf nan 0" }, .n_out = 1 },
    { "ai.quern.Attention", 1, NULL,
      { "f32 1,1,1,2", "f32 1,1,0,2:", "f32 1,1,0,2:" }, .n_out = 1 },
    { "ai.quern.Attention", 1, NULL,
      { "f32 1,1,0,2:", "f32 1,1,3,2", "f32 1,1,3,2" }, .n_out = 1 },
    { "ai.quern.Attention", 1, NULL,
      { "f16 1,2,70,64", "f16 1,2,70,64", "f16 1,2,70,64" },
      .rtol = 2e-3, .atol = 2e-3 },
    { "ai.quern.Attention", 1, "causal=1",
      { "f16 1,2,20,128", "f16 1,1,40,128", "f16 1,1,40,128", "f16 20,40" },
      .rtol = 2e-3, .atol = 2e-3 },
    { "ai.quern.Attention", 1, NULL,
      { "bf16 1,2,20,40", "bf16 1,2,70,40", "bf16 1,2,70,24" },
      .rtol = 1.6e-2, .atol = 1.6e-2 },
    { "ai.quern.Attention", 1, NULL,
      { "f64 1,1,2,2", "f64 1,1,3,2", "f64 1,1,3,2" }, .no_kernel = true },
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

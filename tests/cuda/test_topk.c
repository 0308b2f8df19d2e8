/* SPDX-License-Identifier: Apache-2.0 */
/* TopK and NonMaxSuppression on a device. */
#include "tests/cuda/support/device_node.h"

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static const device_row rows[] = {
    { "TopK", 11, NULL, { "f32 3,7", "i64 1: 3" }, .n_out = 2 },
    { "TopK", 11, "largest=0", { "f32 3,7", "i64 1: 7" }, .n_out = 2 },
    { "TopK", 11, "axis=1", { "f32 2,40,5", "i64 1: 9" }, .n_out = 2 },
    { "TopK", 11, "axis=0", { "f32 40,3", "i64 1: 1" }, .n_out = 2 },
    { "TopK", 11, NULL, { "f32 2,1000", "i64 1: 900" }, .n_out = 2 },
    /* selection: ties everywhere, so the index decides */
    { "TopK", 11, NULL, { "f32 2,3000", "i64 1: 10" }, .n_out = 2 },
    { "TopK", 11, "largest=0", { "f32 2,3000", "i64 1: 300" }, .n_out = 2 },
    { "TopK", 11, NULL, { "f32 1,70000", "i64 1: 5" }, .n_out = 2 },
    { "TopK", 11, "axis=0", { "f16 1500,2", "i64 1: 33" }, .n_out = 2 },
    { "TopK", 24, NULL, { "bf16 2,1500", "i64 1: 33" }, .n_out = 2 },
    { "TopK", 11, NULL, { "f64 2,1500", "i64 1: 33" }, .n_out = 2 },
    { "TopK", 11, NULL, { "i8 2,1500", "i64 1: 33" }, .n_out = 2 },
    { "TopK", 11, "largest=0", { "u8 2,1500", "i64 1: 33" }, .n_out = 2 },
    { "TopK", 11, NULL, { "i16 2,1500", "i64 1: 33" }, .n_out = 2 },
    { "TopK", 11, NULL, { "u16 2,1500", "i64 1: 33" }, .n_out = 2 },
    { "TopK", 11, "largest=0", { "i32 2,1500", "i64 1: 33" }, .n_out = 2 },
    { "TopK", 11, NULL, { "u32 2,1500", "i64 1: 33" }, .n_out = 2 },
    { "TopK", 11, NULL, { "i64 2,1500", "i64 1: 33" }, .n_out = 2 },
    { "TopK", 11, "largest=0", { "u64 2,1500", "i64 1: 33" }, .n_out = 2 },
    /* entries past shared memory */
    { "TopK", 11, NULL, { "f32 2,2500", "i64 1: 2500" }, .n_out = 2 },
    { "TopK", 11, NULL, { "f32 1,5000", "i64 1: 2100" }, .n_out = 2 },
    { "TopK", 11, NULL, { "f32 6: 1 nan -0 0 -inf inf", "i64 1: 6" },
      .n_out = 2 },
    { "TopK", 11, "largest=0", { "f32 3: 1 nan 2", "i64 1: 3" }, .n_out = 2 },
    { "TopK", 11, NULL, { "f32 2,3", "i64 1: 0" }, .n_out = 2 },
    { "TopK", 11, NULL, { "f32 0,3:", "i64 1: 2" }, .n_out = 2 },
    { "TopK", 11, NULL,
      { "i64 3: -4611686018427387904 4611686018427387904 0", "i64 1: 2" },
      .n_out = 2 },
    { "TopK", 1, "k=2", { "f32 3,7" }, .n_out = 2 },
    { "NonMaxSuppression", 11, NULL,
      { "f32 1,6,4: 0 0 1 1 0 0.1 1 1.1 0 -0.1 1 0.9 0 10 1 11 "
        "0 10.1 1 11.1 0 100 1 101",
        "f32 1,1,6: 0.9 0.75 0.6 0.95 0.5 0.3", "i64 1: 3", "f32 1: 0.5",
        "f32 1: 0" }, .n_out = 1 },
    { "NonMaxSuppression", 11, "center_point_box=1",
      { "f32 1,6,4: 0.5 0.5 1 1 0.5 0.6 1 1 0.5 0.4 1 1 0.5 10.5 1 1 "
        "0.5 10.6 1 1 0.5 100.5 1 1",
        "f32 1,1,6: 0.9 0.75 0.6 0.95 0.5 0.3", "i64 1: 3", "f32 1: 0.5",
        "f32 1: 0.4" }, .n_out = 1 },
    { "NonMaxSuppression", 11, NULL,
      { "f32 2,50,4", "f32 2,3,50", "i64 1: 20", "f32 1: 0.3" }, .n_out = 1 },
    { "NonMaxSuppression", 11, NULL,
      { "f32 1,700,4", "f32 1,2,700", "i64 1: 1000", "f32 1: 0.7",
        "f32 1: 0.5" }, .n_out = 1 },
    { "NonMaxSuppression", 11, NULL,
      { "f32 1,3,4", "f32 1,1,3: nan 1 nan", "i64 1: 3" }, .n_out = 1 },
    { "NonMaxSuppression", 11, NULL, { "f32 1,6,4", "f32 1,1,6" }, .n_out = 1 },
    { "NonMaxSuppression", 11, NULL, { "f32 1,0,4:", "f32 1,1,0:", "i64 1: 3" }, .n_out = 1 },
    { "NonMaxSuppression", 11, NULL, { "f32 0,3,4:", "f32 0,1,3:", "i64 1: 3" }, .n_out = 1 },
    { "NonMaxSuppression", 11, NULL,
      { "f32 1,3,4", "f32 1,1,3", "i64 1: 3", "f32 1: 1.5" },
      .faults = true },
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

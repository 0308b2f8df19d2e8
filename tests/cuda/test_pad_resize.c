/* SPDX-License-Identifier: Apache-2.0 */
/* Pad and Resize on the device. */
#include "tests/cuda/support/device_node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define RUN(rows) device_rows_run(rows, sizeof rows / sizeof rows[0])

static void test_pad(void **state)
{
    static const device_row rows[] = {
        { "Pad", 13, NULL, { "f32 3", "i64 2: 2 1", "f32 : 7.5" } },
        { "Pad", 13, NULL, { "f32 3", "i64 2: 2 1" } },
        { "Pad", 13, NULL, { "f32 2,3", "i64 4: 0 0 0 0" } },
        { "Pad", 13, NULL, { "f32 2,3,4", "i64 6: 1 0 2 0 3 1", "f32 : -1" } },
        { "Pad", 13, NULL, { "f32 2,3,8", "i64 6: 1 0 0 0 3 0", "f32 : -1" } },
        { "Pad", 13, NULL, { "u8 2,3,32", "i64 6: 1 0 0 0 3 0", "u8 : 200" } },
        { "Pad", 13, NULL, { "f16 2,3,8", "i64 6: 1 2 0 0 3 0", "f16 : 3" } },
        { "Pad", 13, NULL, { "f16 2,3,8", "i64 6: 1 2 0 0 3 0", "f16 : 3" },
          .shift = 1 },
        { "Pad", 13, NULL, { "i64 2,3,2", "i64 6: 1 2 0 0 3 0", "i64 : -9" } },
        { "Pad", 13, NULL, { "f64 0,2", "i64 4: 1 0 2 1", "f64 : 4" } },
        { "Pad", 13, NULL, { "f32 2,5", "i64 4: 0 -1 0 -2" } },
        { "Pad", 13, NULL, { "f32 2,5", "i64 4: 1 -1 -1 2", "f32 : 3" } },
        { "Pad", 13, NULL, { "f32 5", "i64 2: -3 -2" } },
        { "Pad", 13, "mode=reflect", { "f32 3,4", "i64 4: 2 3 1 2" } },
        { "Pad", 13, "mode=reflect", { "bf16 1,2,6,5", "i64 8: 0 0 3 3 0 0 2 1" } },
        { "Pad", 13, "mode=edge", { "f32 3,4", "i64 4: 2 3 1 5" } },
        { "Pad", 13, "mode=edge", { "f32 3,4,4", "i64 6: 2 3 0 1 5 0" } },
        { "Pad", 13, "mode=edge", { "i8 4,5", "i64 4: -1 2 1 -2" } },
        { "Pad", 19, "mode=wrap", { "f32 3,4", "i64 4: 5 3 1 9" } },
        { "Pad", 18, NULL, { "f32 3,4,5", "i64 2: 1 2", "f32 : 1", "i64 1: -2" } },
        { "Pad", 13, NULL, { "f32 1,3,4,5", "i64 8: 0 1 2 0 0 0 1 3" },
          .nhwc = true },
        { "Pad", 13, "mode=reflect", { "f16 2,8,4,5", "i64 8: 0 0 2 1 0 0 1 3" },
          .nhwc = true },
        { "Pad", 2, "pads=[1,0,0,2] value=2.5", { "f16 2,3" } },
        { "Pad", 2, "pads=[1,0,0,2] value=2.5", { "f64 2,3" } },
        { "Pad", 1, "paddings=[1,0,0,2] mode=edge", { "f32 2,3" } },
    };
    (void)state;
    RUN(rows);
}

#define COORDS(name)                                                           \
    { "Resize", 19, "mode=linear coordinate_transformation_mode=" name,        \
      { "f32 1,2,5,7", "", "f32 4: 1 1 2.5 0.7" } },                           \
    { "Resize", 19, "mode=nearest coordinate_transformation_mode=" name,       \
      { "f32 1,2,5,7", "", "f32 4: 1 1 2.5 0.7" } },                           \
    { "Resize", 19, "mode=cubic coordinate_transformation_mode=" name,         \
      { "f32 1,2,5,7", "", "f32 4: 1 1 2.5 0.7" } }

static void test_resize_coordinates(void **state)
{
    static const device_row rows[] = {
        COORDS("half_pixel"),
        COORDS("half_pixel_symmetric"),
        COORDS("pytorch_half_pixel"),
        COORDS("align_corners"),
        COORDS("asymmetric"),
    };
    (void)state;
    RUN(rows);
}

static void test_resize_nearest(void **state)
{
    static const device_row rows[] = {
        { "Resize", 13, NULL, { "f32 1,2,3,4", "", "f32 4: 1 1 2 2" } },
        { "Resize", 13, NULL, { "f32 1,2,3,4", "", "f32 4: 1 1 2 2" },
          .shift = 1 },
        { "Resize", 13, NULL, { "u8 1,8,3,4", "", "f32 4: 1 1 2 3" },
          .nhwc = true },
        { "Resize", 13, NULL, { "f16 1,5,3,4", "", "f32 4: 1 1 2 3" },
          .nhwc = true },
        { "Resize", 13, "nearest_mode=floor",
          { "i64 7", "", "", "i64 1: 5" } },
        { "Resize", 13, "nearest_mode=ceil", { "f64 7,4", "", "", "i64 2: 5 4" } },
        { "Resize", 13, "nearest_mode=round_prefer_ceil",
          { "bool 7,2,4", "", "", "i64 3: 9 2 4" } },
        { "Resize", 13, NULL, { "f32 2,3", "", "f32 2: 1 1" } },
        { "Resize", 13, NULL, { "f32 2,3", "", "", "i64 2: 0 3" } },
        { "Resize", 13, NULL, { "f32 2,2,3,2,3", "", "f32 5: 2 1 2 0.5 2" } },
        { "Resize", 11, "coordinate_transformation_mode=tf_half_pixel_for_nn",
          { "f32 1,1,6,6", "f32 0:", "f32 4: 1 1 0.5 2" } },
        { "Resize", 13,
          "coordinate_transformation_mode=tf_crop_and_resize "
          "extrapolation_value=-9.0",
          { "f32 4,5", "f32 4: -0.2 0.1 1.3 0.8", "", "i64 2: 6 3" } },
        { "Resize", 13,
          "coordinate_transformation_mode=tf_crop_and_resize "
          "extrapolation_value=300.7",
          { "u8 4,16", "f32 4: -0.2 0 1.3 1", "f32 2: 1.5 1" } },
        { "Resize", 13,
          "coordinate_transformation_mode=tf_crop_and_resize "
          "extrapolation_value=-3.5",
          { "i16 4,5", "f32 4: -0.2 0.1 1.3 0.8", "", "i64 2: 6 3" } },
        { "Resize", 13,
          "coordinate_transformation_mode=tf_crop_and_resize "
          "extrapolation_value=-3.5",
          { "f16 4,8", "f32 4: -0.2 0 1.3 1", "f32 2: 1.5 1" } },
        { "Resize", 10, "mode=nearest", { "f32 1,1,4,5", "f32 4: 1 1 0.6 1.5" } },
        { "Upsample", 9, "mode=nearest", { "f32 1,2,3,3", "f32 4: 1 1 2 3" } },
    };
    (void)state;
    RUN(rows);
}

/* Integers are cut, so a last bit would show. */
static void test_resize_blends(void **state)
{
    static const device_row rows[] = {
        { "Resize", 13, "mode=linear", { "f32 2,3,5,7", "", "f32 4: 1 1 2 2" } },
        { "Resize", 13, "mode=linear", { "f32 2,3,5,7", "", "f32 4: 1 1 2 2" },
          .nhwc = true },
        { "Resize", 13, "mode=linear", { "f16 1,3,5,7", "", "f32 4: 1 1 2 0.4" } },
        { "Resize", 13, "mode=linear", { "bf16 9,7", "", "f32 2: 1 1.7" } },
        { "Resize", 13, "mode=linear", { "f64 1,3,5,7", "", "f32 4: 1 1 2 0.4" } },
        { "Resize", 13, "mode=linear", { "u8 1,3,5,7", "", "f32 4: 1 1 3 2.2" } },
        { "Resize", 13, "mode=linear", { "i32 1,3,5,7", "", "f32 4: 1 1 3 2.2" } },
        { "Resize", 13, "mode=linear", { "i64 1,3,5,7", "", "f32 4: 1 1 3 2.2" } },
        { "Resize", 13, "mode=linear", { "f32 1,3,4,5,6", "", "f32 5: 1 1 2 0.5 2" } },
        { "Resize", 13, "mode=linear", { "f32 3,3,4,2,3", "", "f32 5: 2 2 0.5 2 2" } },
        { "Resize", 13, "mode=linear", { "u8 3,3,4,2,3", "", "f32 5: 2 2 0.5 2 2" } },
        { "Resize", 13, "mode=linear", { "f32 1,3", "", "f32 2: 1 1" } },
        { "Resize", 13, "mode=linear", { "f32 1,3", "", "", "i64 2: 1 0" } },
        { "Resize", 13, "mode=linear coordinate_transformation_mode=align_corners",
          { "u8 4,4", "", "", "i64 2: 7 10" } },
        { "Resize", 13, "mode=cubic", { "u8 1,1,5,7", "", "f32 4: 1 1 2 2.6" } },
        { "Resize", 13, "mode=cubic", { "i8 1,1,5,7", "", "f32 4: 1 1 2 2.6" } },
        { "Resize", 13, "mode=cubic cubic_coeff_a=-0.5 exclude_outside=1",
          { "f32 1,2,5,7", "", "f32 4: 1 1 2 2.6" } },
        { "Resize", 13, "mode=cubic exclude_outside=1",
          { "f32 1,2,5,7", "", "f32 4: 1 1 2 2.6" }, .nhwc = true },
        { "Resize", 18, "mode=linear antialias=1",
          { "f32 1,2,9,12", "", "f32 4: 1 1 0.3 0.6" } },
        { "Resize", 18, "mode=cubic antialias=1",
          { "f32 1,2,9,12", "", "f32 4: 1 1 0.3 0.6" } },
        { "Resize", 18, "mode=cubic antialias=1 exclude_outside=1",
          { "f16 9,12", "", "f32 2: 0.3 2" } },
        { "Resize", 18, "mode=linear antialias=1",
          { "u8 9,12", "", "f32 2: 0.3 0.5" } },
        { "Resize", 13,
          "mode=linear coordinate_transformation_mode=tf_crop_and_resize "
          "extrapolation_value=10.25",
          { "f32 1,2,6,5", "f32 8: 0 0 -0.2 0.1 1 1 1.3 0.8", "",
            "i64 4: 1 2 4 8" } },
        { "Resize", 13,
          "mode=cubic coordinate_transformation_mode=tf_crop_and_resize "
          "extrapolation_value=10.25",
          { "u8 6,5", "f32 4: -0.2 0.1 1.3 0.8", "", "i64 2: 4 8" } },
        { "Resize", 18,
          "mode=linear keep_aspect_ratio_policy=not_larger axes=[1,2]",
          { "f32 2,5,8", "", "", "i64 2: 9 9" } },
        { "Upsample", 9, "mode=linear", { "f32 1,2,3,3", "f32 4: 1 1 2 3" } },
    };
    (void)state;
    RUN(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pad),
        cmocka_unit_test(test_resize_coordinates),
        cmocka_unit_test(test_resize_nearest),
        cmocka_unit_test(test_resize_blends),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}

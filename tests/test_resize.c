/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resize and Upsample. Expected values of one axis come from the reference
 * evaluator of onnx 1.22 (onnx.reference) unless a row says otherwise; several
 * axes, both memory orders and all types are compared with one axis at a time.
 */
#include "tests/support/nhwc.h"
#include "tests/support/node.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const float ramp[6] = { 1, 2, 4, 8, 16, 32 };

static void run(test_node *t, const char *row)
{
    if (test_node_run(t) != QN_OK)
        fail_msg("%s: %s", row, t->err.text);
}

static void expect_refused(test_node *t, const char *row, qn_status want,
                           const char *says)
{
    qn_status st = test_node_run(t);
    if (st != want || !strstr(t->err.text, says))
        fail_msg("%s: status %s, \"%s\"", row, qn_status_name(st), t->err.text);
    test_node_release(t);
}

static void resize(test_node *t, int opset, const char *mode, const char *coords)
{
    test_node_init(t, "Resize", opset, 4, 1);
    test_node_string(t, "mode", mode);
    test_node_string(t, "coordinate_transformation_mode", coords);
}

/* ---- one axis: 1 2 4 8 16 32 ---- */

static const struct {
    const char *mode, *coords;
    float scale;
    int n;
    float want[12];
} lines[] = {
    { "linear", "half_pixel", 2, 12,
      { 1, 1.25f, 1.75f, 2.5f, 3.5f, 5, 7, 10, 14, 20, 28, 32 } },
    { "linear", "half_pixel", 0.6f, 3, { 1.3333333f, 4, 13.333333f } },
    { "linear", "half_pixel_symmetric", 0.6f, 3, { 1.8333334f, 6, 18.666666f } },
    { "linear", "pytorch_half_pixel", 0.6f, 3, { 1.3333333f, 4, 13.333333f } },
    { "linear", "align_corners", 2, 12,
      { 1, 1.4545455f, 1.9090909f, 2.7272727f, 3.6363637f, 5.090909f, 6.909091f,
        9.454545f, 13.090909f, 17.454546f, 24.727272f, 32 } },
    { "linear", "align_corners", 0.6f, 3, { 1, 3.8461537f, 14.769229f } },
    { "linear", "asymmetric", 2, 12,
      { 1, 1.5f, 2, 3, 4, 6, 8, 12, 16, 24, 32, 32 } },
    { "linear", "asymmetric", 0.6f, 3, { 1, 3.3333333f, 10.666666f } },
    { "cubic", "half_pixel", 2, 12,
      { 0.89453125f, 1.15625f, 1.5625f, 2.4179688f, 3.1601562f, 4.8359375f,
        6.3203125f, 9.671875f, 12.640625f, 20.46875f, 28.65625f, 33.6875f } },
    { "cubic", "half_pixel", 0.6f, 3, { 1.2037055f, 4, 11.92592f } },
    { "cubic", "half_pixel_symmetric", 0.6f, 3, { 1.6828707f, 5.4375f,
                                                  18.990753f } },
    { "cubic", "align_corners", 0.6f, 3, { 1, 3.68366f, 13.687754f } },
    { "cubic", "asymmetric", 0.6f, 3, { 1, 2.9814806f, 10.074086f } },
};

static void test_lines(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        test_node t;
        resize(&t, 19, lines[i].mode, lines[i].coords);
        test_node_input(&t, 0, QN_F32, 1, (int64_t[]){ 6 }, ramp);
        test_node_input(&t, 2, QN_F32, 1, (int64_t[]){ 1 }, &lines[i].scale);
        run(&t, lines[i].coords);
        test_node_expect_f32(&t, 0, 1, (int64_t[]){ lines[i].n }, lines[i].want,
                             2e-6, 0);
        test_node_release(&t);
    }
}

static const struct {
    const char *mode;
    float cubic_a;
    int exclude, antialias;
    float scale;  /* 0: a size */
    int64_t size;
    int n;
    float want[9];
} filters[] = {
    { "cubic", -0.5f, 0, 0, 1.5f, 0, 9,
      { 0.94212991f, 1.375f, 2.2523136f, 3.5393534f, 5.625f, 9.0092545f,
        14.157413f, 24.5f, 32.925926f } },
    { "cubic", -0.5f, 1, 0, 1.5f, 0, 9,
      { 0.93421078f, 1.3529412f, 2.2523134f, 3.5393534f, 5.625f, 9.0092535f,
        14.157413f, 24.941177f, 33.052628f } },
    { "linear", -0.75f, 0, 1, 0, 4, 4,
      { 1.3333334f, 3.7777777f, 10.222222f, 26.666666f } },
    { "linear", -0.75f, 0, 1, 0, 2, 2, { 2.7777777f, 18.222221f } },
    { "cubic", -0.75f, 0, 1, 0, 4, 4,
      { 1.141206f, 3.0956779f, 9.4459972f, 27.37962f } },
    { "cubic", -0.75f, 0, 1, 0, 2, 2, { 1.2715969f, 18.561729f } },
    { "cubic", -0.75f, 1, 1, 0, 2, 2, { 1.8896098f, 17.259741f } },
};

static void test_filters(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
        test_node t;
        resize(&t, 18, filters[i].mode, "half_pixel");
        test_node_float(&t, "cubic_coeff_a", filters[i].cubic_a);
        test_node_int(&t, "exclude_outside", filters[i].exclude);
        test_node_int(&t, "antialias", filters[i].antialias);
        test_node_input(&t, 0, QN_F32, 1, (int64_t[]){ 6 }, ramp);
        if (filters[i].size)
            test_node_input(&t, 3, QN_I64, 1, (int64_t[]){ 1 },
                            &filters[i].size);
        else
            test_node_input(&t, 2, QN_F32, 1, (int64_t[]){ 1 },
                            &filters[i].scale);
        run(&t, filters[i].mode);
        test_node_expect_f32(&t, 0, 1, (int64_t[]){ filters[i].n },
                             filters[i].want, 1e-5, 0);
        test_node_release(&t);
    }
}

static const struct {
    const char *coords, *rounding;
    float four[4], nine[9]; /* resized to 4 and to 9 */
} nearest[] = {
    { "half_pixel", "round_prefer_floor", { 1, 4, 8, 32 },
      { 1, 1, 2, 4, 4, 8, 16, 16, 32 } },
    { "half_pixel", "round_prefer_ceil", { 1, 4, 8, 32 },
      { 1, 2, 2, 4, 8, 8, 16, 32, 32 } },
    { "half_pixel", "floor", { 1, 2, 8, 16 }, { 1, 1, 2, 2, 4, 8, 8, 16, 32 } },
    { "half_pixel", "ceil", { 2, 4, 16, 32 },
      { 1, 2, 4, 4, 8, 16, 16, 32, 32 } },
    { "align_corners", "round_prefer_floor", { 1, 4, 8, 32 },
      { 1, 2, 2, 4, 4, 8, 16, 16, 32 } },
    { "align_corners", "round_prefer_ceil", { 1, 4, 8, 32 },
      { 1, 2, 2, 4, 8, 8, 16, 16, 32 } },
    { "align_corners", "floor", { 1, 2, 8, 32 },
      { 1, 1, 2, 2, 4, 8, 8, 16, 32 } },
    { "asymmetric", "round_prefer_floor", { 1, 2, 8, 16 },
      { 1, 2, 2, 4, 8, 8, 16, 32, 32 } },
    { "asymmetric", "round_prefer_ceil", { 1, 4, 8, 32 },
      { 1, 2, 2, 4, 8, 8, 16, 32, 32 } },
    { "asymmetric", "floor", { 1, 2, 8, 16 }, { 1, 1, 2, 4, 4, 8, 16, 16, 32 } },
    { "asymmetric", "ceil", { 1, 4, 8, 32 },
      { 1, 2, 4, 4, 8, 16, 16, 32, 32 } },
    /* (o + 0.5) / scale, worked out by hand */
    { "tf_half_pixel_for_nn", "floor", { 1, 4, 8, 32 },
      { 1, 2, 2, 4, 8, 8, 16, 32, 32 } },
};

static void test_nearest(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof nearest / sizeof nearest[0]; i++)
        for (int nine = 0; nine < 2; nine++) {
            int64_t n = nine ? 9 : 4;
            test_node t;
            resize(&t, 11, "nearest", nearest[i].coords);
            test_node_string(&t, "nearest_mode", nearest[i].rounding);
            test_node_input(&t, 0, QN_F32, 1, (int64_t[]){ 6 }, ramp);
            test_node_input(&t, 1, QN_F32, 1, (int64_t[]){ 0 }, NULL);
            test_node_input(&t, 2, QN_F32, 1, (int64_t[]){ 0 }, NULL);
            test_node_input(&t, 3, QN_I64, 1, (int64_t[]){ 1 }, &n);
            run(&t, nearest[i].coords);
            test_node_expect_f32(&t, 0, 1, &n,
                                 nine ? nearest[i].nine : nearest[i].four, 0, 0);
            test_node_release(&t);
        }
}

static void test_crop(void **state)
{
    static const float roi[2] = { 0.1f, 1.15f };
    static const float linear[5] = { 1.5f, 3.625f, 9, 23, -1 };
    static const float cubic[5] = { 1.3125f, 3.3226929f, 8.9590054f, 23.707525f,
                                    -1 };
    /* from 0.5, 1.81, 3.125, 4.44 and 5.75; a tie goes to the floor */
    static const float moved[5] = { 1, 4, 8, 16, -1 };
    static const char *const modes[3] = { "linear", "cubic", "nearest" };
    const float *want[3] = { linear, cubic, moved };
    static const int64_t five = 5;
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        test_node t;
        resize(&t, 13, modes[i], "tf_crop_and_resize");
        test_node_float(&t, "extrapolation_value", -1);
        test_node_input(&t, 0, QN_F32, 1, (int64_t[]){ 6 }, ramp);
        test_node_input(&t, 1, QN_F32, 1, (int64_t[]){ 2 }, roi);
        test_node_input(&t, 3, QN_I64, 1, (int64_t[]){ 1 }, &five);
        run(&t, modes[i]);
        test_node_expect_f32(&t, 0, 1, &five, want[i], 1e-5, 0);
        test_node_release(&t);
    }
}

/* ---- several axes, orders, types ---- */

/* [2, 3, 4, 5] resized to [2, 3, h, w]: W alone, then H alone, must agree. */
static void test_separable(void **state)
{
    static const struct {
        const char *mode;
        int64_t h, w;
    } rows[] = {
        { "nearest", 8, 10 }, { "nearest", 3, 7 },  { "linear", 8, 10 },
        { "linear", 3, 7 },   { "linear", 9, 2 },   { "cubic", 7, 9 },
        { "linear", 2, 3 },   { "nearest", 12, 15 }, { "cubic", 3, 11 },
    };
    float data[120];
    (void)state;
    for (int i = 0; i < 120; i++)
        data[i] = (float)(i * 37 % 101) / 8.0f;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const int64_t both[4] = { 2, 3, rows[i].h, rows[i].w };
        const int64_t wide[4] = { 2, 3, 4, rows[i].w };
        test_node t, w, h;
        resize(&t, 13, rows[i].mode, "half_pixel");
        test_node_input(&t, 0, QN_F32, 4, (int64_t[]){ 2, 3, 4, 5 }, data);
        test_node_input(&t, 3, QN_I64, 1, (int64_t[]){ 4 }, both);
        run(&t, rows[i].mode);
        resize(&w, 13, rows[i].mode, "half_pixel");
        w.in[0] = t.in[0];
        test_node_input(&w, 3, QN_I64, 1, (int64_t[]){ 4 }, wide);
        run(&w, rows[i].mode);
        resize(&h, 13, rows[i].mode, "half_pixel");
        h.in[0] = w.out[0];
        h.in[3] = t.in[3];
        run(&h, rows[i].mode);
        test_node_expect_f32(&t, 0, 4, both, h.out[0].data, 1e-5, 1e-6);

        qn_tensor last[1];
        if (test_nhwc_run(&t.node, t.in, last, &t.region, &t.err) != QN_OK)
            fail_msg("row %zu channels-last: %s", i, t.err.text);
        test_node_expect(&t, 0, QN_F32, 4, both, last[0].data);
        test_node_release(&h);
        test_node_release(&w);
        test_node_release(&t);
    }
}

static void test_types(void **state)
{
    static const uint8_t u8[3] = { 0, 255, 100 },
                         u8_want[6] = { 0, 63, 191, 216, 138, 100 },
                         over[6] = { 0, 63, 213, 246, 144, 83 };
    static const int8_t i8[3] = { -100, 100, -5 },
                        i8_want[6] = { -100, -50, 50, 73, 21, -5 };
    static const int64_t i64[3] = { 0, (int64_t)1 << 40, 0 },
                         i64_want[6] = { 0, (int64_t)1 << 38, (int64_t)3 << 38,
                                         (int64_t)3 << 38, (int64_t)1 << 38, 0 };
    static const double f64[3] = { 0, 1, 3 },
                        f64_want[6] = { 0, 0.25, 0.75, 1.5, 2.5, 3 };
    static const uint16_t f16[3] = { 0, 0x3c00, 0x4200 },
                          f16_want[6] = { 0, 0x3400, 0x3a00, 0x3e00, 0x4100,
                                          0x4200 };
    static const struct {
        qn_dtype dtype;
        const char *mode;
        const void *in, *want;
    } rows[] = {
        { QN_U8, "linear", u8, u8_want },    { QN_I8, "linear", i8, i8_want },
        { QN_I64, "linear", i64, i64_want }, { QN_F64, "linear", f64, f64_want },
        { QN_F16, "linear", f16, f16_want }, { QN_U8, "cubic", u8, over },
    };
    static const float two = 2;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        test_node t;
        resize(&t, 13, rows[i].mode, "half_pixel");
        test_node_input(&t, 0, rows[i].dtype, 1, (int64_t[]){ 3 }, rows[i].in);
        test_node_input(&t, 2, QN_F32, 1, (int64_t[]){ 1 }, &two);
        run(&t, qn_dtype_name(rows[i].dtype));
        test_node_expect(&t, 0, rows[i].dtype, 1, (int64_t[]){ 6 },
                         rows[i].want);
        test_node_release(&t);
    }
    qn_string s[2] = { qn_string_at(QN_STRINGS_STATIC, 7, 1),
                       qn_string_at(QN_STRINGS_STATIC, 9, 1) };
    qn_string want[4] = { s[0], s[0], s[1], s[1] };
    test_node t;
    resize(&t, 13, "nearest", "half_pixel");
    test_node_input(&t, 0, QN_STRING, 1, (int64_t[]){ 2 }, s);
    test_node_input(&t, 2, QN_F32, 1, (int64_t[]){ 1 }, &two);
    run(&t, "string");
    test_node_expect(&t, 0, QN_STRING, 1, (int64_t[]){ 4 }, want);
    test_node_release(&t);
}

/* ---- arguments ---- */

static void test_policy(void **state)
{
    static const struct {
        const char *policy;
        int64_t h, w;
    } rows[] = { { "not_larger", 5, 6 },
                 { "not_smaller", 6, 8 },
                 { "stretch", 6, 6 } };
    static const float data[12] = { 0 };
    static const int64_t sizes[2] = { 6, 6 };
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        test_node t;
        resize(&t, 18, "linear", "half_pixel");
        test_node_string(&t, "keep_aspect_ratio_policy", rows[i].policy);
        test_node_input(&t, 0, QN_F32, 2, (int64_t[]){ 3, 4 }, data);
        test_node_input(&t, 3, QN_I64, 1, (int64_t[]){ 2 }, sizes);
        run(&t, rows[i].policy);
        assert_int_equal(t.out[0].shape.dims[0], rows[i].h);
        assert_int_equal(t.out[0].shape.dims[1], rows[i].w);
        test_node_release(&t);
    }
}

static void test_axes(void **state)
{
    static const float want[10] = { 0.5f, 2.5f, 2.1f, 4.1f, 4.5f,
                                    6.5f, 6.9f, 8.9f, 8.5f, 10.5f };
    static const int64_t sizes[2] = { 2, 5 }, axes[2] = { 1, -2 };
    float data[12];
    test_node t;
    (void)state;
    for (int i = 0; i < 12; i++)
        data[i] = (float)i;
    resize(&t, 18, "linear", "half_pixel");
    test_node_ints(&t, "axes", 2, axes);
    test_node_input(&t, 0, QN_F32, 2, (int64_t[]){ 3, 4 }, data);
    test_node_input(&t, 3, QN_I64, 1, (int64_t[]){ 2 }, sizes);
    run(&t, "axes");
    test_node_expect_f32(&t, 0, 2, (int64_t[]){ 5, 2 }, want, 1e-6, 0);
    test_node_release(&t);
}

/* Reports from the field: a single output element. */
static void test_to_one(void **state)
{
    static const struct {
        const char *coords;
        float want;
    } rows[] = { { "pytorch_half_pixel", 0 },
                 { "half_pixel", 4.5f },
                 { "align_corners", 0 } };
    static const int64_t sizes[4] = { 1, 1, 1, 1 };
    float data[10];
    (void)state;
    for (int i = 0; i < 10; i++)
        data[i] = (float)i;
    for (size_t i = 0; i < 3; i++) {
        test_node t;
        resize(&t, 13, "linear", rows[i].coords);
        test_node_input(&t, 0, QN_F32, 4, (int64_t[]){ 1, 1, 1, 10 }, data);
        test_node_input(&t, 3, QN_I64, 1, (int64_t[]){ 4 }, sizes);
        run(&t, rows[i].coords);
        test_node_expect_f32(&t, 0, 4, sizes, &rows[i].want, 0, 0);
        test_node_release(&t);
    }
}

/* A scale of 0 has no filter width; nothing is computed. */
static void test_to_nothing(void **state)
{
    static const char *const modes[2] = { "linear", "cubic" };
    static const int64_t none = 0;
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        test_node t;
        resize(&t, 18, modes[i], "half_pixel");
        test_node_int(&t, "antialias", 1);
        test_node_input(&t, 0, QN_F32, 1, (int64_t[]){ 6 }, ramp);
        test_node_input(&t, 3, QN_I64, 1, (int64_t[]){ 1 }, &none);
        run(&t, modes[i]);
        test_node_expect_f32(&t, 0, 1, &none, NULL, 0, 0);
        test_node_release(&t);
    }
}

static void scaled(test_node *t, const float *scales, int64_t n)
{
    resize(t, 13, "nearest", "half_pixel");
    test_node_input(t, 0, QN_F32, 1, (int64_t[]){ 6 }, ramp);
    test_node_input(t, 2, QN_F32, 1, &n, scales);
}

static void test_refused(void **state)
{
    static const float bad[3] = { 0, -1, INFINITY }, two[2] = { 2, 2 },
                       huge = 1e30f;
    static const int64_t size = 3, negative = -3;
    test_node t;
    (void)state;
    for (int i = 0; i < 3; i++) {
        scaled(&t, &bad[i], 1);
        expect_refused(&t, "scale", QN_RANGE, "scale of axis 0");
    }
    scaled(&t, two, 2);
    expect_refused(&t, "count", QN_SHAPE, "2 scales for 1 axes");
    scaled(&t, &huge, 1);
    expect_refused(&t, "huge", QN_TOO_LARGE, "above 2^62");
    scaled(&t, two, 1);
    test_node_input(&t, 3, QN_I64, 1, (int64_t[]){ 1 }, &size);
    expect_refused(&t, "both", QN_INVALID, "both scales and sizes");
    scaled(&t, NULL, 0);
    expect_refused(&t, "neither", QN_INVALID, "neither scales nor sizes");
    scaled(&t, NULL, 0);
    test_node_input(&t, 3, QN_I64, 1, (int64_t[]){ 1 }, &negative);
    expect_refused(&t, "negative", QN_INVALID, "resize to -3");
    resize(&t, 13, "nearest", "sideways");
    expect_refused(&t, "coords", QN_INVALID, "'sideways'");
    resize(&t, 13, "nearest", "tf_crop_and_resize");
    test_node_input(&t, 0, QN_F32, 1, (int64_t[]){ 6 }, ramp);
    test_node_input(&t, 2, QN_F32, 1, (int64_t[]){ 1 }, two);
    expect_refused(&t, "roi", QN_SHAPE, "roi has 0 entries");
}

/* ---- older forms ---- */

static void test_upsample(void **state)
{
    static const float in[4] = { 1, 2, 3, 4 }, scales[4] = { 1, 1, 2, 3 },
                       shrink[4] = { 1, 1, 0.5f, 1 };
    static const float want[24] = { 1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2,
                                    3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4 };
    static const int64_t dims[4] = { 1, 1, 2, 2 }, out[4] = { 1, 1, 4, 6 };
    test_node t;
    (void)state;
    for (int form = 0; form < 4; form++) {
        static const int opsets[4] = { 1, 7, 9, 10 };
        test_node_init(&t, form < 3 ? "Upsample" : "Resize", opsets[form],
                       form < 2 ? 1 : 2, 1);
        test_node_input(&t, 0, QN_F32, 4, dims, in);
        if (form == 0) {
            test_node_float(&t, "height_scale", 2);
            test_node_float(&t, "width_scale", 3);
        } else if (form == 1) {
            test_node_floats(&t, "scales", 4, scales);
        } else {
            test_node_input(&t, 1, QN_F32, 1, (int64_t[]){ 4 }, scales);
        }
        run(&t, "Upsample");
        test_node_expect_f32(&t, 0, 4, out, want, 0, 0);
        test_node_release(&t);
    }
    test_node_init(&t, "Upsample", 9, 2, 1);
    test_node_input(&t, 0, QN_F32, 4, dims, in);
    test_node_input(&t, 1, QN_F32, 1, (int64_t[]){ 4 }, shrink);
    expect_refused(&t, "shrink", QN_RANGE, "does not shrink");

    /* Resize 10 rounds up when it shrinks: 0, 1 2/3 and 3 1/3 */
    static const float six = 0.6f, picked[3] = { 1, 4, 16 };
    test_node_init(&t, "Resize", 10, 2, 1);
    test_node_input(&t, 0, QN_F32, 1, (int64_t[]){ 6 }, ramp);
    test_node_input(&t, 1, QN_F32, 1, (int64_t[]){ 1 }, &six);
    run(&t, "Resize 10");
    test_node_expect_f32(&t, 0, 1, (int64_t[]){ 3 }, picked, 0, 0);
    test_node_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),     cmocka_unit_test(test_filters),
        cmocka_unit_test(test_nearest),   cmocka_unit_test(test_crop),
        cmocka_unit_test(test_separable), cmocka_unit_test(test_types),
        cmocka_unit_test(test_policy),    cmocka_unit_test(test_axes),
        cmocka_unit_test(test_to_one),    cmocka_unit_test(test_refused),
        cmocka_unit_test(test_upsample),  cmocka_unit_test(test_to_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

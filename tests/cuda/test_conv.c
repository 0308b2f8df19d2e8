/* SPDX-License-Identifier: Apache-2.0 */
/* Conv and ConvTranspose on a device against the cpu, and which way they took. */
#include "tests/cuda/support/device_node.h"
#include "tests/cuda/support/library.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N_OF(rows) (sizeof(rows) / sizeof(rows)[0])

enum { NOT_SUPPORTED = 3000 }; /* CUDNN_STATUS_NOT_SUPPORTED */

static const device_row conv[] = {
    { "Conv", 11, NULL, { "f32 1,3,8,8", "f32 4,3,3,3" } },
    { "Conv", 11, "pads=[1,1,1,1]", { "f32 2,3,7,9", "f32 5,3,3,3", "f32 5" } },
    { "Conv", 11, "strides=[2,2] pads=[1,1,1,1]",
      { "f32 1,8,9,9", "f32 8,8,3,3", "f32 8" } },
    { "Conv", 11, "dilations=[2,3] strides=[2,1]",
      { "f32 1,2,11,13", "f32 3,2,3,3" } },
    { "Conv", 11, NULL, { "f32 2,16,5,5", "f32 24,16,1,1", "f32 24" } },
    { "Conv", 11, "pads=[2,2,2,2]", { "f32 1,3,6,6", "f32 2,3,5,5" } },
    { "Conv", 11, NULL, { "f32 1,70,9,9", "f32 67,70,2,2" }, .atol = 1e-3 },
    /* padding that differs, or is worked out */
    { "Conv", 11, "pads=[0,1,2,0]", { "f32 1,3,6,6", "f32 4,3,3,3", "f32 4" } },
    { "Conv", 11, "pads=[2,0,0,0] strides=[2,2]",
      { "f32 2,3,7,7", "f32 4,3,3,3" } },
    { "Conv", 11, "auto_pad=SAME_UPPER strides=[2,2]",
      { "f32 1,3,6,7", "f32 4,3,3,2", "f32 4" } },
    { "Conv", 11, "auto_pad=SAME_LOWER", { "f32 1,3,6,7", "f32 4,3,4,2" } },
    { "Conv", 11, "auto_pad=VALID", { "f32 1,3,6,7", "f32 4,3,3,3" } },
    /* one and three dimensions */
    { "Conv", 11, "pads=[2,2]", { "f32 2,3,20", "f32 4,3,5", "f32 4" } },
    { "Conv", 11, "pads=[0,3] strides=[3]", { "f32 2,3,20", "f32 4,3,5" } },
    { "Conv", 11, "pads=[1,1,1,1,1,1]",
      { "f32 1,2,4,5,6", "f32 3,2,3,3,3", "f32 3" } },
    { "Conv", 11, "pads=[0,1,0,1,0,2] dilations=[1,2,1]",
      { "f32 1,8,4,5,6", "f32 9,8,2,2,3" } },
    /* groups */
    { "Conv", 11, "group=2 pads=[1,1,1,1]",
      { "f32 1,4,6,6", "f32 6,2,3,3", "f32 6" } },
    { "Conv", 11, "group=2", { "f32 2,20,5,5", "f32 18,10,3,3" } },
    { "Conv", 11, "group=4 pads=[1,1,1,1]",
      { "f32 2,4,6,7", "f32 4,1,3,3", "f32 4" } },
    { "Conv", 11, "group=4 pads=[0,1,2,1] strides=[2,1] dilations=[1,2]",
      { "f32 2,4,9,9", "f32 8,1,3,3" } },
    { "Conv", 11, "group=3 pads=[2,2,2,2]", { "f32 1,3,7,7", "f32 3,1,5,5" } },
    { "Conv", 11, "group=3 pads=[3,3,3,3]", { "f32 1,3,7,7", "f32 3,1,7,7" } },
    { "Conv", 11, "group=3 pads=[1,1]", { "f32 2,3,9", "f32 6,1,3" } },
    { "Conv", 11, "group=2 pads=[1,1,1,1,1,1]",
      { "f32 1,2,3,4,5", "f32 2,1,3,3,3" } },
    /* nothing, or next to it */
    { "Conv", 11, NULL, { "f32 0,3,8,8", "f32 4,3,3,3" } },
    { "Conv", 11, NULL, { "f32 1,0,4,4", "f32 4,0,3,3", "f32 4" } },
    { "Conv", 11, NULL, { "f32 1,3,8,8", "f32 0,3,3,3" } },
    { "Conv", 11, NULL, { "f32 1,1,1,1", "f32 1,1,1,1", "f32 1" } },
    { "Conv", 11, "strides=[5,5]", { "f32 1,2,3,3", "f32 2,2,2,2" } },
    /* views */
    { "Conv", 11, "pads=[1,1,1,1]", { "f32 1,16,6,6", "f32 8,16,3,3", "f32 8" },
      .shift = 1 },
    { "Conv", 11, "group=4 pads=[1,1,1,1]", { "f16 2,4,6,7", "f16 4,1,3,3" },
      .shift = 1 },
    { "Conv", 11, "pads=[1,1,1,1]", { "f32 1,3,6,6", "f32 4,3,3,3", "f32 4" },
      .constants = 1 << 1 | 1 << 2 },
    /* other types */
    { "Conv", 11, "pads=[1,1,1,1]", { "f64 1,3,6,6", "f64 4,3,3,3", "f64 4" } },
    { "Conv", 11, "strides=[2,2]", { "f64 1,4,7,7", "f64 9,4,3,3" } },
    { "Conv", 11, "pads=[1,1,1,1]", { "f16 1,3,6,6", "f16 4,3,3,3", "f16 4" } },
    { "Conv", 11, "pads=[0,0,1,1]", { "f16 1,8,6,6", "f16 8,8,3,3" } },
    { "Conv", 22, "pads=[1,1,1,1]",
      { "bf16 1,3,6,6", "bf16 4,3,3,3", "bf16 4" } },
    { "Conv", 11, "group=4 pads=[2,2,2,2]", { "f16 2,4,6,7", "f16 4,1,5,5" } },
    { "Conv", 22, "group=2", { "bf16 2,4,6,7", "bf16 4,2,3,3" }, .shift = 1 },
    { "Conv", 11, NULL,
      { "f32 1,1,2,3: nan 1 2 3 inf 4", "f32 1,1,1,1: 2" } },
};

static const device_row transpose[] = {
    { "ConvTranspose", 11, NULL, { "f32 1,3,5,5", "f32 3,4,3,3" } },
    { "ConvTranspose", 11, "strides=[2,2]",
      { "f32 2,3,5,4", "f32 3,4,3,3", "f32 4" } },
    { "ConvTranspose", 11, "strides=[2,2] pads=[1,1,1,1]",
      { "f32 1,8,5,5", "f32 8,9,3,3" } },
    { "ConvTranspose", 11, "strides=[2,2] pads=[1,1,1,1] output_padding=[1,1]",
      { "f32 1,8,5,5", "f32 8,9,3,3", "f32 9" } },
    { "ConvTranspose", 11, "strides=[3,2] pads=[0,1,2,0]",
      { "f32 1,3,4,4", "f32 3,4,3,3", "f32 4" } },
    { "ConvTranspose", 11, "strides=[2,2] output_shape=[10,12]",
      { "f32 1,3,5,5", "f32 3,4,3,3" } },
    { "ConvTranspose", 11, "dilations=[2,2]", { "f32 1,3,5,5", "f32 3,4,3,3" } },
    { "ConvTranspose", 11, "strides=[4,4]", { "f32 1,3,3,3", "f32 3,2,2,2" } },
    { "ConvTranspose", 11, "strides=[2,2] auto_pad=SAME_UPPER",
      { "f32 1,3,5,5", "f32 3,4,3,3" } },
    { "ConvTranspose", 11, "group=2 strides=[2,2]",
      { "f32 1,4,5,5", "f32 4,3,3,3", "f32 6" } },
    { "ConvTranspose", 11, "group=4 strides=[2,2]",
      { "f32 1,4,5,5", "f32 4,1,3,3" } },
    { "ConvTranspose", 11, "strides=[2]", { "f32 2,3,9", "f32 3,4,3" } },
    { "ConvTranspose", 11, "strides=[2,1,2]",
      { "f32 1,2,3,4,5", "f32 2,3,2,3,2", "f32 3" } },
    { "ConvTranspose", 11, NULL, { "f32 0,3,5,5", "f32 3,4,3,3" } },
    { "ConvTranspose", 11, NULL, { "f32 1,0,5,5", "f32 0,4,3,3", "f32 4" } },
    { "ConvTranspose", 11, "strides=[2,2]", { "f32 1,20,4,4", "f32 20,9,3,3" },
      .shift = 1 },
    { "ConvTranspose", 11, "strides=[2,2]",
      { "f64 2,3,5,4", "f64 3,4,3,3", "f64 4" } },
    { "ConvTranspose", 11, "strides=[2,2]",
      { "f16 2,3,5,4", "f16 3,4,3,3", "f16 4" } },
    { "ConvTranspose", 22, "strides=[2,2]", { "bf16 2,3,5,4", "bf16 3,4,3,3" } },
};

static void test_conv(void **state)
{
    (void)state;
    device_rows_run(conv, N_OF(conv));
}

static void test_transpose(void **state)
{
    (void)state;
    device_rows_run(transpose, N_OF(transpose));
}

/* The same between aligned addresses: cuDNN is out, the own kernels do all. */
static void test_views(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_OF(conv) + N_OF(transpose); i++) {
        device_row r = i < N_OF(conv) ? conv[i] : transpose[i - N_OF(conv)];
        r.shift = 1;
        if (library_reset()) {
            device_rows_run(&r, 1);
            assert_int_equal(0, library_count("cudnnBackendExecute"));
        } else {
            device_rows_run(&r, 1);
        }
    }
}

/* ---- what passes fuse, and which way it goes ---- */

typedef struct fused_row {
    const char *op, *attrs, *in[4];
    qn_act act;
    float a, b;
    bool residual; /* the last input */
    device_options o;
    uint64_t library; /* executions of cuDNN */
    const char *ran;  /* an own kernel that has to run, or NULL: none at all */
} fused_row;

#define X8 "f32 1,8,6,6"
#define W8 "f32 8,8,3,3"
#define SAME "pads=[1,1,1,1]"

static const fused_row fused[] = {
    { "Conv", SAME, { X8, W8 }, 0, 0, 0, false, { 0 }, 1, NULL },
    { "Conv", SAME, { X8, W8, "f32 8" }, 0, 0, 0, false, { 0 }, 1, NULL },
    { "Conv", SAME, { X8, W8, "f32 8" }, QN_ACT_RELU, 0, 0, false, { 0 }, 1,
      NULL },
    /* not one of the patterns that an exact engine knows: a kernel behind it */
    { "Conv", SAME, { X8, W8, "", X8 }, QN_ACT_NONE, 0, 0, true, { 0 }, 1,
      "conv_finish" },
    { "Conv", SAME, { X8, W8, "f32 8", X8 }, QN_ACT_RELU, 0, 0, true, { 0 }, 1,
      NULL },
    { "Conv", SAME, { X8, W8, "f32 8", X8 }, QN_ACT_RELU, 0, 0, true,
      { .in_place = true }, 1, NULL },
    { "Conv", SAME, { X8, W8, "f32 8" }, QN_ACT_CLIP, 0, 6, false, { 0 }, 1,
      "conv_finish" },
    /* the upper bound wins */
    { "Conv", SAME, { X8, W8, "f32 8" }, QN_ACT_CLIP, 0.5f, -0.25f, false,
      { 0 }, 1, "conv_finish" },
    { "Conv", NULL, { "f32 1,2,1,1", "f32 2,2,1,1", "", "f32 1,2,1,1" },
      QN_ACT_RELU, 0, 0, true, { .in_place = true }, 1, NULL },
    { "Conv", SAME, { X8, W8, "f32 8", X8 }, QN_ACT_HARD_SWISH, 0, 0, true,
      { .in_place = true }, 1, "conv_finish" },
    { "Conv", SAME, { X8, W8, "f32 8", X8 }, QN_ACT_RELU, 0, 0, true,
      { .shift = 1 }, 0, "conv_tile_f32" },
    { "Conv", "pads=[0,0,1,1]", { X8, W8, "f32 8" }, QN_ACT_SIGMOID, 0, 0,
      false, { .precision = QN_PRECISION_TF32 }, 1, "conv_pad_4" },
    { "Conv", "pads=[1,1,1,1] group=8",
      { X8, "f32 8,1,3,3", "f32 8", X8 }, QN_ACT_CLIP, 0, 6, true,
      { .in_place = true }, 0, "conv_depth3_f32" },
    { "Conv", SAME, { "f64 1,8,6,6", "f64 9,8,3,3" }, 0, 0, 0, false, { 0 }, 0,
      "conv_tile_f64" },
    { "Conv", SAME, { "f16 1,8,6,6", "f16 8,8,3,3", "f16 8" }, 0, 0, 0, false,
      { 0 }, 1, NULL },
    { "ConvTranspose", "strides=[2,2]", { X8, W8 }, 0, 0, 0, false, { 0 }, 1,
      NULL },
    { "ConvTranspose", "strides=[2,2]", { X8, W8, "f32 8" }, QN_ACT_TANH, 0, 0,
      false, { 0 }, 1, "conv_finish" },
    { "ConvTranspose", "strides=[2,2] output_padding=[1,1]", { X8, W8, "f32 8" },
      QN_ACT_LEAKY, 0.1f, 0, false, { 0 }, 1, "conv_finish" },
    { "ConvTranspose", "strides=[1,1] pads=[0,0,1,1]", { X8, W8, "f32 8" },
      QN_ACT_LEAKY, 0.1f, 0, false, { 0 }, 0, "conv_tile_f32" },
};

static void test_fused(void **state)
{
    const bool counts = library_reset();
    (void)state;
    for (size_t i = 0; i < N_OF(fused); i++) {
        const fused_row *r = &fused[i];
        uint32_t n = 0;
        char name[64];
        test_node t = { 0 };
        while (n < 4 && r->in[n])
            n++;
        snprintf(name, sizeof name, "fused row %zu, %s", i, r->op);
        test_node_init(&t, r->op, 11, n, 1);
        test_node_attrs(&t, r->attrs);
        for (uint32_t k = 0; k < n; k++)
            t.in[k] = test_row_tensor(&t.region, r->in[k]);
        t.node.act = r->act;
        t.node.act_a = r->a;
        t.node.act_b = r->b;
        t.node.residual = r->residual;
        if (counts)
            library_reset();
        device_node_run(&t, &r->o, name);
        if (counts && (library_count("cudnnBackendExecute") != r->library ||
                       library_count(r->ran ? r->ran : "kernel") !=
                           (r->ran != NULL)))
            fail_msg("%s: cuDNN ran %llu times, %s %llu times", name,
                     (unsigned long long)library_count("cudnnBackendExecute"),
                     r->ran ? r->ran : "own kernels",
                     (unsigned long long)library_count(r->ran ? r->ran
                                                             : "kernel"));
        test_node_release(&t);
    }
}

/* What cuDNN refuses, at whatever point, is done all the same. */
static void test_refusals(void **state)
{
    static const struct {
        const char *api;
        int calls; /* that are refused */
        const char *ran;
    } rows[] = {
        { "cudnnBackendCreateDescriptor", 2, "conv_tile_f32" },
        { "cudnnBackendSetAttribute", 2, "conv_tile_f32" },
        { "cudnnBackendFinalize", 1, "conv_finish" }, /* of the fused graph */
        { "cudnnBackendFinalize", 2, "conv_tile_f32" },
    };
    (void)state;
    if (!library_reset())
        skip();
    for (size_t i = 0; i < N_OF(rows); i++) {
        char x[32];
        test_node t = { 0 };
        test_node_init(&t, "Conv", 11, 3, 1);
        snprintf(x, sizeof x, "f32 1,8,9,%d", 9 + (int)i); /* unknown so far */
        t.in[0] = test_row_tensor(&t.region, x);
        t.in[1] = test_row_tensor(&t.region, "f32 8,8,3,3");
        t.in[2] = test_row_tensor(&t.region, "f32 8");
        library_reset();
        for (int k = 0; k < rows[i].calls; k++)
            library_fail(rows[i].api, (uint64_t)k + 1, NOT_SUPPORTED);
        device_node_run(&t, &(device_options){ 0 }, rows[i].api);
        library_fail(NULL, 0, 0);
        if (library_count(rows[i].ran) != 1)
            fail_msg("row %zu: %s refused, %s ran %llu times", i, rows[i].api,
                     rows[i].ran,
                     (unsigned long long)library_count(rows[i].ran));
        test_node_release(&t);
    }
}

/* Two layers of one shape share a plan, another shape has its own. */
static void test_plans_are_kept(void **state)
{
    static const char *const in[] = { "f32 1,8,7,5", "f32 1,8,7,5",
                                      "f32 1,8,7,6" };
    uint64_t before = 0;
    (void)state;
    if (!library_reset())
        skip();
    for (int i = 0; i < 3; i++) {
        test_node t = { 0 };
        test_node_init(&t, "Conv", 11, 2, 1);
        t.in[0] = test_row_tensor(&t.region, in[i]);
        t.in[1] = test_row_tensor(&t.region, "f32 8,8,3,3");
        library_reset();
        device_node_run(&t, &(device_options){ 0 }, in[i]);
        const uint64_t made = library_count("cudnnBackendCreateDescriptor");
        if (i == 0)
            before = made;
        if (i == 1 && made != 1) /* the variant pack */
            fail_msg("%llu descriptors for a known shape",
                     (unsigned long long)made);
        if (i == 2 && made < before)
            fail_msg("%llu descriptors for a new shape, %llu before",
                     (unsigned long long)made, (unsigned long long)before);
        test_node_release(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv),     cmocka_unit_test(test_transpose),
        cmocka_unit_test(test_views),    cmocka_unit_test(test_fused),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_plans_are_kept),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Slice and Pad: bounds at the ends of int64, negative steps and pads, every
 * mode, both memory orders. */
#include "tests/support/move.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Slice ---- */

#define LAST INT64_MAX
#define FIRST INT64_MIN

static const struct {
    int64_t start, end, step;
    int n;
    uint8_t want[5];
} slices[] = { /* of 0 1 2 3 4 */
    { 1, 3, 1, 2, { 1, 2 } },
    { -1, INT32_MAX, -1, 0, { 0 } },
    { -1, FIRST, -1, 5, { 4, 3, 2, 1, 0 } },
    { LAST, FIRST, -2, 3, { 4, 2, 0 } },
    { -1, -4, -1, 3, { 4, 3, 2 } },
    { 3, 0, -1, 3, { 3, 2, 1 } },
    { FIRST, LAST, 1, 5, { 0, 1, 2, 3, 4 } },
    { 1, LAST, LAST, 1, { 1 } },
    { 4, FIRST, FIRST, 1, { 4 } },
    { -100, 2, 1, 2, { 0, 1 } },
    { -100, -200, -1, 1, { 0 } }, /* the start is clamped to element 0 */
    { 3, 1, 1, 0, { 0 } },
    { 5, 5, 1, 0, { 0 } },
    { 0, 5, 3, 2, { 0, 3 } },
};

static void slice_node(test_node *t, const int64_t *start, const int64_t *end,
                       const int64_t *axis, const int64_t *step)
{
    static const uint8_t data[5] = { 0, 1, 2, 3, 4 };
    static const int64_t one[1] = { 1 };
    test_node_init(t, "Slice", 13, 5, 1);
    test_node_input(t, 0, QN_U8, 1, (int64_t[]){ 5 }, data);
    test_node_input(t, 1, QN_I64, 1, one, start);
    test_node_input(t, 2, QN_I64, 1, one, end);
    if (axis)
        test_node_input(t, 3, QN_I64, 1, one, axis);
    if (step)
        test_node_input(t, 4, QN_I64, 1, one, step);
}

static void test_slice_bounds(void **state)
{
    static const int64_t axes[2] = { 0, -1 };
    (void)state;
    for (size_t i = 0; i < sizeof slices / sizeof slices[0]; i++) {
        test_node t;
        slice_node(&t, &slices[i].start, &slices[i].end, &axes[i & 1],
                   &slices[i].step);
        test_move_run(&t, "Slice", i);
        if (t.out[0].shape.dims[0] != slices[i].n)
            fail_msg("Slice row %zu: %lld elements", i,
                     (long long)t.out[0].shape.dims[0]);
        test_node_expect(&t, 0, QN_U8, 1, (int64_t[]){ slices[i].n },
                         slices[i].want);
        test_node_release(&t);
    }
}

static void test_slice_axes(void **state)
{
    static const int64_t starts[3] = { -1, 1, 2 }, ends[3] = { FIRST, 3, 0 },
                         axes[3] = { 3, 1, -2 }, steps[3] = { -2, 1, -1 };
    static const int64_t dims[4] = { 2, 4, 3, 5 };
    uint8_t *data = move_pattern();
    (void)state;
    for (int k = 0; k < TEST_MOVE_TYPES; k++) {
        int64_t o[QN_MAX_RANK];
        test_node t;
        test_node_init(&t, "Slice", 11, 5, 1);
        test_node_input(&t, 0, test_move_types[k], 4, dims, data);
        test_node_input(&t, 1, QN_I64, 1, (int64_t[]){ 3 }, starts);
        test_node_input(&t, 2, QN_I64, 1, (int64_t[]){ 3 }, ends);
        test_node_input(&t, 3, QN_I64, 1, (int64_t[]){ 3 }, axes);
        test_node_input(&t, 4, QN_I64, 1, (int64_t[]){ 3 }, steps);
        test_move_run(&t, "Slice axes", 0);
        assert_int_equal(qn_count(&t.out[0]), 2 * 2 * 2 * 3);
        for (int64_t at = 0; at < qn_count(&t.out[0]); at++) {
            test_unravel(&t.out[0].shape, at, o);
            int64_t in[4] = { o[0], 1 + o[1], 2 - o[2], 4 - 2 * o[3] };
            test_move_element(&t, at, move_element(&t.in[0], in), "Slice axes", 0);
        }
        test_move_nhwc(&t, "Slice", 0);
        test_node_release(&t);
    }
    free(data);
}

static void test_slice_args(void **state)
{
    static const int64_t zero = 0, two = 2, five = 5, axes[2] = { 0, 0 };
    static const uint8_t data[5] = { 0, 1, 2, 3, 4 }, want[2] = { 2, 3 };
    test_node t;
    (void)state;
    slice_node(&t, &two, &five, NULL, &zero);
    test_move_refused(&t, "step", QN_INVALID, "step of axis 0 is 0");
    slice_node(&t, &two, &five, &five, NULL);
    test_move_refused(&t, "axis", QN_RANGE, "axis 5");
    slice_node(&t, &two, &five, NULL, NULL);
    t.in[3] = t.in[1];
    t.in[3].shape.dims[0] = 2;
    t.in[3].data = (void *)(uintptr_t)axes;
    test_move_refused(&t, "twice", QN_INVALID, "listed twice");

    test_node_init(&t, "Slice", 1, 1, 1);
    test_node_input(&t, 0, QN_U8, 1, &five, data);
    test_node_ints(&t, "starts", 1, &two);
    test_node_ints(&t, "ends", 1, (int64_t[]){ -1 });
    test_move_run(&t, "Slice 1", 0);
    test_node_expect(&t, 0, QN_U8, 1, &two, want);
    test_node_release(&t);
}

/* ---- Pad ---- */

typedef struct pad_row {
    const char *mode;
    int rank;
    int64_t dims[4], pads[8];
} pad_row;

static const pad_row pads[] = {
    { "constant", 0, { 0 }, { 0 } },
    { "constant", 1, { 5 }, { 2, 3 } },
    { "constant", 2, { 0, 3 }, { 2, 0, 0, 1 } },
    { "constant", 4, { 2, 3, 4, 5 }, { 0, 0, 1, 2, 0, 0, 3, 1 } },
    { "constant", 4, { 2, 3, 4, 5 }, { 1, 2, 0, 0, 0, 1, 0, 0 } },
    { "constant", 4, { 2, 3, 4, 5 }, { 0, -1, 2, 0, 0, 3, -2, -5 } },
    { "reflect", 2, { 3, 4 }, { 1, 0, 0, 2 } },
    { "reflect", 4, { 1, 3, 4, 5 }, { 0, 2, 3, 4, 0, 1, 2, 3 } },
    { "reflect", 1, { 6 }, { -2, 3 } },
    { "edge", 4, { 2, 3, 1, 5 }, { 1, 0, 4, 2, 0, 2, 3, 9 } },
    { "edge", 2, { 4, 4 }, { -1, 2, 2, -3 } },
    { "wrap", 2, { 3, 4 }, { 7, 2, 1, 13 } },
    { "wrap", 1, { 5 }, { 3, -1 } },
};

/* Output index to input index by the mode's definition, one step at a time;
 * -1: the constant. */
static int64_t pad_source(const pad_row *p, int d, int64_t o)
{
    int64_t before = p->pads[d], after = p->pads[d + p->rank];
    int64_t first = before < 0 ? -before : 0;
    int64_t n = p->dims[d] - first - (after < 0 ? -after : 0);
    int64_t i = o - (before > 0 ? before : 0);
    if (p->mode[0] == 'c' && (i < 0 || i >= n))
        return -1;
    while (i < 0 || i >= n) {
        if (p->mode[0] == 'r')
            i = i < 0 ? -i : 2 * n - 2 - i;
        else if (p->mode[0] == 'e')
            i = i < 0 ? 0 : n - 1;
        else
            i += i < 0 ? n : -n;
    }
    return first + i;
}

static void test_pad(void **state)
{
    uint8_t *data = move_pattern();
    static const uint64_t value[2] = { 0x1122334455667788u, 0x99aabbccddeeff00u };
    (void)state;
    for (size_t i = 0; i < sizeof pads / sizeof pads[0]; i++)
        for (int k = 0; k < TEST_MOVE_TYPES; k++) {
            const pad_row *p = &pads[i];
            int64_t o[QN_MAX_RANK], in[QN_MAX_RANK];
            test_node t;
            test_node_init(&t, "Pad", 19, 3, 1);
            test_node_string(&t, "mode", p->mode);
            test_node_input(&t, 0, test_move_types[k], p->rank, p->dims, data);
            test_node_input(&t, 1, QN_I64, 1, (int64_t[]){ 2 * p->rank },
                            p->pads);
            test_node_input(&t, 2, test_move_types[k], 0, NULL, value);
            test_move_run(&t, "Pad", i);
            for (int64_t at = 0; at < qn_count(&t.out[0]); at++) {
                bool constant = false;
                test_unravel(&t.out[0].shape, at, o);
                for (int d = 0; d < p->rank; d++) {
                    in[d] = pad_source(p, d, o[d]);
                    constant = constant || in[d] < 0;
                }
                const void *want = constant ? (const void *)value
                                            : move_element(&t.in[0], in);
                test_move_element(&t, at, want, "Pad", i);
            }
            if (p->rank == 4)
                test_move_nhwc(&t, "Pad", i);
            test_node_release(&t);
        }
    free(data);
}

static void pad_node(test_node *t, int opset, const char *mode, int64_t n,
                     const int64_t *amounts)
{
    static const float data[6] = { 1, 2, 3, 4, 5, 6 };
    test_node_init(t, "Pad", opset, 2, 1);
    test_node_string(t, "mode", mode);
    test_node_input(t, 0, QN_F32, 2, (int64_t[]){ 3, 2 }, data);
    test_node_input(t, 1, QN_I64, 1, &n, amounts);
}

static void test_pad_args(void **state)
{
    static const int64_t big[4] = { 0, 2, 0, 0 }, cut[4] = { -2, 0, -2, 0 },
                         huge[4] = { INT64_MAX, 0, INT64_MAX, 0 },
                         one[4] = { 0, 1, 0, 0 }, mix[4] = { -3, 0, 3, 0 };
    static const float want[9] = { 9, 1, 2, 9, 3, 4, 9, 5, 6 };
    static const int32_t last = -1;
    test_node t;
    (void)state;
    pad_node(&t, 13, "reflect", 4, big);
    test_move_refused(&t, "reflect", QN_RANGE, "axis 1: reflecting 2");
    pad_node(&t, 13, "reflect", 4, mix);
    test_move_refused(&t, "reflect of nothing", QN_RANGE, "axis 0");
    pad_node(&t, 13, "edge", 4, mix);
    test_move_refused(&t, "edge of nothing", QN_RANGE, "axis 0 is empty");
    pad_node(&t, 13, "constant", 4, cut);
    test_move_refused(&t, "cut", QN_RANGE, "cut more than axis 0");
    pad_node(&t, 13, "constant", 4, huge);
    test_move_refused(&t, "huge", QN_TOO_LARGE, "axis 0");
    pad_node(&t, 13, "constant", 3, one);
    test_move_refused(&t, "count", QN_SHAPE, "3 pads");
    pad_node(&t, 18, "wrap", 4, one);
    test_move_refused(&t, "wrap at 18", QN_INVALID, "no padding mode 'wrap'");

    static const float data[6] = { 1, 2, 3, 4, 5, 6 };
    for (int opset = 1; opset <= 2; opset++) {
        test_node_init(&t, "Pad", opset, 1, 1);
        test_node_ints(&t, opset == 1 ? "paddings" : "pads", 4, one);
        test_node_float(&t, "value", 9);
        test_node_input(&t, 0, QN_F32, 2, (int64_t[]){ 3, 2 }, data);
        test_move_run(&t, "Pad attribute", (size_t)opset);
        test_node_expect_f32(&t, 0, 2, (int64_t[]){ 3, 3 }, want, 0, 0);
        test_node_release(&t);
    }
    static const int64_t left[2] = { 1, 0 };
    static const float nine = 9;
    test_node_init(&t, "Pad", 18, 4, 1);
    test_node_input(&t, 0, QN_F32, 2, (int64_t[]){ 3, 2 }, data);
    test_node_input(&t, 1, QN_I64, 1, (int64_t[]){ 2 }, left);
    test_node_input(&t, 2, QN_F32, 0, NULL, &nine);
    test_node_input(&t, 3, QN_I32, 1, (int64_t[]){ 1 }, &last);
    test_move_run(&t, "Pad axes", 0);
    test_node_expect_f32(&t, 0, 2, (int64_t[]){ 3, 3 }, want, 0, 0);
    test_node_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slice_bounds),
        cmocka_unit_test(test_slice_axes),
        cmocka_unit_test(test_slice_args),
        cmocka_unit_test(test_pad),
        cmocka_unit_test(test_pad_args),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Every pair of element types, bit for bit as on the cpu; memory orders and
 * Dropout, which only move. */
#include "runtime/ops/op.h"
#include "tests/cuda/support/device_node.h"
#include "tests/cuda/support/fill.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static bool is_number(int d)
{
    return d != QN_STRING &&
           !qn_dtypes_has(QN_TYPES_COMPLEX, (qn_dtype)d);
}

static void cast(qn_dtype from, qn_dtype to, int64_t n, const char *attrs,
                 fill_kind kind, const device_options *how)
{
    char label[160];
    test_node t;
    test_node_init(&t, "Cast", 25, 1, 1);
    test_node_int(&t, "to", to);
    test_node_attrs(&t, attrs);
    test_fill(&t, 0, from, 1, &n, kind);
    snprintf(label, sizeof label, "%s to %s, %s", qn_dtype_name(from),
             qn_dtype_name(to), attrs);
    (void)device_node_run(&t, how, label);
    test_node_release(&t);
}

static void test_pairs(void **state)
{
    (void)state;
    for (int from = 1; from < QN_DTYPE_COUNT; from++)
        for (int to = 1; to < QN_DTYPE_COUNT; to++) {
            if (!is_number(from) || !is_number(to))
                continue;
            bool small = qn_dtype_size((qn_dtype)from) <= 1;
            device_options how = { .exact = true };
            cast((qn_dtype)from, (qn_dtype)to, small ? 256 : 701, "",
                 small ? FILL_BITS : FILL_ANY, &how);
            how.shift = 1;
            how.in_place = qn_dtype_size((qn_dtype)from) ==
                           qn_dtype_size((qn_dtype)to);
            cast((qn_dtype)from, (qn_dtype)to, 258, "saturate=0", FILL_BITS,
                 &how);
        }
}

static void test_rounding(void **state)
{
    (void)state;
    static const char *const modes[] = { "round_mode=up", "round_mode=down",
                                         "round_mode=nearest",
                                         "round_mode=nearest saturate=0" };
    static const qn_dtype from[] = { QN_F32, QN_F16, QN_F64, QN_I64 };
    for (size_t m = 0; m < 4; m++)
        for (size_t f = 0; f < 4; f++)
            for (int kind = FILL_ANY; kind <= FILL_BITS; kind++)
                cast(from[f], QN_F8E8M0, 1031, modes[m], (fill_kind)kind,
                     &(device_options){ .exact = true });
}

/* All codes of half, and a sweep of floats, into the small floats. */
static void test_codes(void **state)
{
    (void)state;
    static const qn_dtype to[] = { QN_F8E4M3FN, QN_F8E4M3FNUZ, QN_F8E5M2,
                                   QN_F8E5M2FNUZ, QN_F4E2M1, QN_BF16, QN_F32,
                                   QN_I8, QN_U4 };
    for (size_t k = 0; k < sizeof to / sizeof to[0]; k++) {
        device_options how = { .exact = true };
        cast(QN_F16, to[k], 65536, "", FILL_BITS, &how);
        cast(QN_F32, to[k], 40000, "saturate=0", FILL_BITS, &how);
    }
}

static const device_row others[] = {
    { "CastLike", 19, NULL, { "f32 100", "f16 1" } },
    { "CastLike", 19, NULL, { "f32 100", "i8 0" } },
    { "Cast", 6, "to=FLOAT16", { "f32 100" }, .no_kernel = false },
    { "Cast", 13, "to=1", { "f32 100" }, .in_place = true },
    { "Cast", 13, "to=8", { "f32 100" }, .no_kernel = true },
    { "BitCast", 26, "to=6", { "f32 100" }, .in_place = true },
    { "BitCast", 26, "to=9", { "u8 100" } },
    { "BitCast", 26, "to=3", { "u8 100" }, .shift = 1 },
    { "Dropout", 13, NULL, { "f32 5,3" }, .n_out = 2 },
    { "Dropout", 13, NULL, { "f16 5,3", "f32 : 0.5" }, .n_out = 2,
      .in_place = true },
    { "Dropout", 7, NULL, { "f16 1000" }, .n_out = 2 },
    { "Dropout", 7, NULL, { "f64 10" }, .n_out = 2 },
    { "Dropout", 7, NULL, { "f32 10" }, .n_out = 2 },
    { "Dropout", 13, NULL, { "f32 0,3" }, .n_out = 2 },
    { "Dropout", 13, NULL, { "f32 5", "f32 : 0.5", "bool : 1" }, .n_out = 2,
      .no_kernel = true },
};

static void test_others(void **state)
{
    (void)state;
    device_rows_run(others, sizeof others / sizeof others[0]);
}

static void test_orders(void **state)
{
    (void)state;
    static const int64_t dims[][4] = {
        { 2, 3, 5, 7 },    { 1, 64, 7, 7 },  { 3, 40, 9, 11 }, { 2, 8, 8, 9 },
        { 1, 9, 1, 9 },    { 2, 33, 33, 1 }, { 1, 1, 1, 1 },   { 0, 3, 4, 4 },
        { 2, 0, 40, 40 },  { 5, 12, 3, 100 }, { 2, 100, 65, 33 },
    };
    static const qn_dtype types[] = { QN_U8, QN_F16, QN_F32, QN_I64 };
    static const char *const ops[] = { "ToChannelsLast", "ToChannelsFirst" };
    for (size_t r = 0; r < sizeof dims / sizeof dims[0]; r++)
        for (size_t d = 0; d < 4; d++)
            for (size_t o = 0; o < 2; o++) {
                char label[160];
                test_node t;
                test_node_init(&t, "Identity", 13, 1, 1);
                t.node.domain = "ai.quern";
                t.node.op_name = ops[o];
                t.node.opset = 1;
                t.node.op = qn_op_find("ai.quern", ops[o], 1, NULL);
                assert_non_null(t.node.op);
                test_fill(&t, 0, types[d], 4, dims[r], FILL_BITS);
                test_label(label, ops[o], types[d], r);
                (void)device_node_run(
                    &t, &(device_options){ .exact = true, .shift = r % 2 },
                    label);
                test_node_release(&t);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs),  cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_codes),  cmocka_unit_test(test_others),
        cmocka_unit_test(test_orders),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}

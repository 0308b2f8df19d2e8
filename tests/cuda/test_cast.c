/* SPDX-License-Identifier: Apache-2.0 */
/* Every pair of element types, bit for bit as on the cpu. */
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
};

static void test_others(void **state)
{
    (void)state;
    device_rows_run(others, sizeof others / sizeof others[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs),  cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_codes),  cmocka_unit_test(test_others),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}

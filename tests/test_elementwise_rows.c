/* SPDX-License-Identifier: Apache-2.0 */
/* The elementwise operators' rows against the standard's own schemas. */
#include "runtime/ops/op.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    const char *name;
    int since;
    qn_dtypes types[3];
} want[] = {
#include "tests/elementwise_types.inc"
};

static qn_dtypes types_of(const qn_op *op, int i)
{
    int last = i < op->max_in ? i : -1;
    while (last > 0 && !op->types[last])
        last--;
    return last < 0 ? 0 : op->types[last];
}

/* The row in force when a version came has exactly its types. */
static void test_types(void **state)
{
    (void)state;
    for (size_t r = 0; r < sizeof want / sizeof want[0]; r++) {
        const qn_op *op = qn_op_find("", want[r].name, want[r].since, NULL);
        if (!op)
            fail_msg("no %s at opset %d", want[r].name, want[r].since);
        for (int i = 0; i < 3; i++) {
            qn_dtypes got = types_of(op, i);
            if (op->max_in == QN_VARIADIC && i > 0)
                continue;
            if (got != want[r].types[i])
                fail_msg("%s opset %d input %d: types 0x%x, expected 0x%x",
                         want[r].name, want[r].since, i, (unsigned)got,
                         (unsigned)want[r].types[i]);
        }
    }
}

/* A row never reaches back before its version, nor past the next one's. */
static void test_ranges(void **state)
{
    (void)state;
    for (size_t r = 0; r < sizeof want / sizeof want[0]; r++) {
        bool first = r == 0 || strcmp(want[r - 1].name, want[r].name);
        const qn_op *before =
            qn_op_find("", want[r].name, want[r].since - 1, NULL);
        if (first ? before != NULL : before == NULL)
            fail_msg("%s at opset %d: %s row", want[r].name,
                     want[r].since - 1, first ? "unexpected" : "no");
        if (!first && want[r - 1].types[0] != want[r].types[0] &&
            before == qn_op_find("", want[r].name, want[r].since, NULL))
            fail_msg("%s: opset %d has the row of opset %d", want[r].name,
                     want[r].since - 1, want[r].since);
    }
}

static void test_reaches_latest(void **state)
{
    (void)state;
    for (size_t r = 0; r < sizeof want / sizeof want[0]; r++)
        if (!qn_op_find("", want[r].name, QN_OPSET_MAX, NULL))
            fail_msg("no %s at opset %d", want[r].name, QN_OPSET_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_reaches_latest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* ai.quern.Chain: the same bits as its operators one by one, known values, and
 * programs and shapes that are refused. */
#include "runtime/ops/op.h"
#include "tests/support/chain.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_same_bits(void **state)
{
    (void)state;
    const qn_dtype types[] = { QN_F32, QN_F16, QN_BF16 };
    for (size_t r = 0; r < test_n_chains; r++)
        for (size_t k = 0; k < 3; k++) {
            test_chain_attrs attrs;
            test_node n;
            test_chain_init(&n, &test_chains[r], types[k], &attrs);
            if (test_node_run(&n) != QN_OK)
                fail_msg("row %zu of %s: %s", r, qn_dtype_name(types[k]),
                         n.err.text);
            size_t count = (size_t)qn_count(&n.out[0]);
            size_t size = qn_dtype_size(types[k]);
            char *want = malloc(count * size + 1);
            assert_non_null(want);
            test_chain_singles(&n, &test_chains[r], test_node_run, want);
            for (size_t i = 0; i < count; i++)
                if (memcmp(want + i * size, (char *)n.out[0].data + i * size,
                           size))
                    fail_msg("row %zu of %s differs at %zu", r,
                             qn_dtype_name(types[k]), i);
            free(want);
            test_node_release(&n);
        }
}

static void make(test_node *n, test_chain_attrs *attrs, uint32_t count,
                 const qn_chain_step *steps)
{
    test_chain c = { .x = { 2, { 2, 3 } }, .n_operands = 1,
                     .operands = { { 1, { 3 } } }, .n = count };
    for (uint32_t i = 0; i < count && i < QN_CHAIN_STEPS; i++)
        c.steps[i] = steps[i];
    test_chain_init(n, &c, QN_F32, attrs);
}

static void test_known_values(void **state)
{
    (void)state;
    const float x[] = { -2, -1, 0, 1, 2, NAN }, bias[] = { 1, 0, 4 };
    /* 10 - (2 x + bias), at most 8 */
    const qn_chain_step steps[] = {
        { .op = QN_PW_mul, .kind = QN_CHAIN_CONST, .a = 2 },
        { .op = QN_PW_add, .kind = QN_CHAIN_INPUT, .input = 1 },
        { .op = QN_PW_sub, .kind = QN_CHAIN_CONST, .left = true, .a = 10 },
        { .op = QN_PW_clip, .a = -100, .b = 8 },
    };
    const float want[] = { 8, 8, 6, 7, 6, NAN };
    test_chain_attrs attrs;
    test_node n;
    make(&n, &attrs, 4, steps);
    test_node_input(&n, 0, QN_F32, 2, (int64_t[]){ 2, 3 }, x);
    test_node_input(&n, 1, QN_F32, 1, (int64_t[]){ 3 }, bias);
    assert_int_equal(test_node_run(&n), QN_OK);
    test_node_expect_f32(&n, 0, 2, (int64_t[]){ 2, 3 }, want, 0, 0);
    test_node_release(&n);
}

static void test_refused_programs(void **state)
{
    (void)state;
    static const struct {
        int64_t step[4];
        const char *says;
    } rows[] = {
        { { -1, 0, 0, 0 }, "step 0: function is -1" },
        { { QN_PW_COUNT, 1, 0, 0 }, "step 0: function is" },
        { { QN_PW_relu, QN_CHAIN_CONST, 0, 0 }, "step 0: kind is 1" },
        { { QN_PW_add, QN_CHAIN_UNARY, 0, 0 }, "step 0: kind is 0" },
        { { QN_PW_add, 3, 0, 0 }, "step 0: kind is 3" },
        { { QN_PW_add, QN_CHAIN_INPUT, 2, 0 }, "step 0: input is 2" },
        { { QN_PW_add, QN_CHAIN_INPUT, -1, 0 }, "step 0: input is -1" },
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        test_chain_attrs attrs;
        test_node n;
        make(&n, &attrs, 1, &(qn_chain_step){ .op = QN_PW_relu });
        memcpy(attrs.steps, rows[r].step, sizeof rows[r].step);
        qn_status st = test_node_run(&n);
        if (st != QN_INVALID || !strstr(n.err.text, rows[r].says))
            fail_msg("row %zu: status %d, \"%s\"", r, (int)st, n.err.text);
        test_node_release(&n);
    }
}

static void test_refused_lengths(void **state)
{
    (void)state;
    static const struct {
        size_t steps, numbers;
        const char *says;
    } rows[] = {
        { 0, 0, "attribute steps has 0 numbers" },
        { 6, 2, "attribute steps has 6 numbers" },
        { 4 * 17, 34, "attribute steps has 68 numbers" },
        { 4, 1, "attribute numbers has 1" },
    };
    static const int64_t steps[4 * 17];
    static const float numbers[34];
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        test_chain_attrs attrs;
        test_node n;
        make(&n, &attrs, 1, &(qn_chain_step){ .op = QN_PW_relu });
        n.node.n_attrs = 0;
        test_node_ints(&n, "steps", rows[r].steps, steps);
        test_node_floats(&n, "numbers", rows[r].numbers, numbers);
        qn_status st = test_node_run(&n);
        if (st != QN_INVALID || !strstr(n.err.text, rows[r].says))
            fail_msg("row %zu: status %d, \"%s\"", r, (int)st, n.err.text);
        test_node_release(&n);
    }
}

static void test_refused_shapes(void **state)
{
    (void)state;
    static const struct {
        int rank;
        int64_t dims[3];
    } rows[] = { { 1, { 2 } }, { 3, { 2, 2, 3 } }, { 2, { 3, 2 } } };
    const float data[12] = { 0 };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        test_chain_attrs attrs;
        test_node n;
        make(&n, &attrs, 1,
             &(qn_chain_step){ .op = QN_PW_add, .kind = QN_CHAIN_INPUT,
                               .input = 1 });
        test_node_input(&n, 1, QN_F32, rows[r].rank, rows[r].dims, data);
        if (test_node_run(&n) != QN_SHAPE)
            fail_msg("row %zu: \"%s\"", r, n.err.text);
        test_node_release(&n);
    }
}

/* Functions by number: names of the two lists agree with what nodes decode to. */
static void test_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *op;
        int fn, opset;
    } all[] = {
#define ENTRY(name, op) { op, QN_PW_##name, 28 },
        QN_PW_UNARY_LIST(ENTRY) QN_PW_BINARY_LIST(ENTRY)
#undef ENTRY
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        bool two = all[i].fn > QN_PW_BEFORE_BINARY;
        test_node n;
        qn_pointwise got;
        test_node_init(&n, all[i].op, all[i].opset, two ? 2 : 1, 1);
        if (all[i].fn == QN_PW_gelu_tanh)
            test_node_string(&n, "approximate", "tanh");
        if (all[i].fn == QN_PW_fmod)
            test_node_int(&n, "fmod", 1);
        bool known = two ? qn_pointwise_binary(&n.node, &got)
                         : qn_pointwise_unary(&n.node, &got);
        if (!known || got.op != all[i].fn)
            fail_msg("%s: %d, expected %d", all[i].op, got.op, all[i].fn);
        test_node_release(&n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_refused_programs),
        cmocka_unit_test(test_refused_lengths),
        cmocka_unit_test(test_refused_shapes),
        cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

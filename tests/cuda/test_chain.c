/* SPDX-License-Identifier: Apache-2.0 */
/* ai.quern.Chain on the device: near the cpu, and the same bits as the device's
 * own kernels one by one. */
#include "tests/cuda/support/device_node.h"
#include "tests/support/chain.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const qn_dtype types[] = { QN_F32, QN_F16, QN_BF16 };

/* Errors add up over steps, and cancel digits. */
static const device_options loose[] = {
    { .rtol = 1e-4, .atol = 1e-4 },
    { .rtol = 0.02, .atol = 0.02 },
    { .rtol = 0.1, .atol = 0.1 },
};

static void test_near_the_cpu(void **state)
{
    (void)state;
    for (size_t r = 0; r < test_n_chains; r++)
        for (size_t k = 0; k < 3; k++)
            for (uint32_t shift = 0; shift < 2; shift++) {
                char label[80];
                device_options how = loose[k];
                test_chain_attrs attrs;
                test_node t;
                test_chain_init(&t, &test_chains[r], types[k], &attrs);
                how.shift = shift;
                how.in_place = shift == 1;
                snprintf(label, sizeof label, "chain %zu of %s", r,
                         qn_dtype_name(types[k]));
                (void)device_node_run(&t, &how, label);
                test_node_release(&t);
            }
}

/* One node; t->out[0] gets the device's answer instead of the cpu's. */
static qn_status run_single(test_node *t)
{
    size_t bytes;
    qn_error err = { 0 };
    /* inputs are what the steps before made, and those of other devices differ:
     * nothing to compare with the cpu */
    device_options how = { .atol = INFINITY };
    qn_tensor out;
    assert_int_equal(qn_eval_infer(&t->node, t->in, &out, &err), QN_OK);
    assert_int_equal(qn_tensor_bytes(out.dtype, &out.shape, &bytes, &err),
                     QN_OK);
    how.result = malloc(bytes + 1);
    assert_non_null(how.result);
    (void)device_node_run(t, &how, t->node.op_name);
    if (bytes)
        memcpy(t->out[0].data, how.result, bytes);
    free(how.result);
    return QN_OK;
}

static bool same(qn_dtype dtype, const void *a, const void *b, size_t i)
{
    if (dtype == QN_F32) {
        const float *x = a, *y = b;
        return !memcmp(&x[i], &y[i], 4) || (x[i] != x[i] && y[i] != y[i]);
    }
    const uint16_t *x = a, *y = b;
    uint16_t inf = dtype == QN_F16 ? 0x7c00 : 0x7f80;
    return x[i] == y[i] || ((x[i] & 0x7fff) > inf && (y[i] & 0x7fff) > inf);
}

static void test_same_bits(void **state)
{
    (void)state;
    for (size_t r = 0; r < test_n_chains; r++)
        for (size_t k = 0; k < 3; k++) {
            char label[80];
            test_chain_attrs attrs;
            test_node t;
            test_chain_init(&t, &test_chains[r], types[k], &attrs);
            size_t n = (size_t)qn_count(&t.in[0]);
            device_options how = { .atol = INFINITY };
            void *want = malloc(n * 4 + 1);
            how.result = malloc(n * 4 + 1);
            assert_true(want && how.result);
            snprintf(label, sizeof label, "chain %zu of %s", r,
                     qn_dtype_name(types[k]));
            (void)device_node_run(&t, &how, label);
            test_chain_singles(&t, &test_chains[r], run_single, want);
            for (size_t i = 0; i < n; i++)
                if (!same(types[k], how.result, want, i))
                    fail_msg("%s: other bits than one by one at %zu", label, i);
            free(want);
            free(how.result);
            test_node_release(&t);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_near_the_cpu),
        cmocka_unit_test(test_same_bits),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}

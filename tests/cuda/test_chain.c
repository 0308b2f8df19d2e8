/* SPDX-License-Identifier: Apache-2.0 */
/* ai.quern.Chain on the device: near the cpu, and the same bits as the device's
 * own kernels one by one. */
#include "tests/cuda/support/device_node.h"
#include "tests/support/chain.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_near_the_cpu),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}

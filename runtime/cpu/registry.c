/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing a cpu kernel for a node: the first row that fits wins, so a family
 * lists its special cases before its general one. */
#include "runtime/cpu/tables.h"
#include "runtime/ops/op.h"

#include <string.h>

static const qn_kernel_table *const tables[] = {
#define FAMILY(name) &qn_cpu_##name,
    QN_CPU_FAMILIES(FAMILY)
#undef FAMILY
};

const qn_kernel *qn_cpu_kernel_find(const qn_node *node, uint32_t n_in,
                                    const qn_dtype *in)
{
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        for (size_t i = 0; i < tables[t]->n; i++) {
            const qn_kernel *k = &tables[t]->rows[i];
            if (strcmp(k->name, node->op->name) ||
                strcmp(k->domain, node->op->domain))
                continue;
            if (node->opset < k->since || node->opset > k->until)
                continue;
            if (!k->supports || k->supports(node, n_in, in))
                return k;
        }
    return NULL;
}

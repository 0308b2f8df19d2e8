/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing a kernel for a node: the first row that fits wins. */
#include "runtime/cuda/internal.h"
#include "runtime/cuda/tables.h"
#include "runtime/ops/op.h"

#include <string.h>

static const qn_kernel_table *const tables[] = {
#define FAMILY(name) &qn_cuda_##name,
    QN_CUDA_FAMILIES(FAMILY)
#undef FAMILY
    NULL
};

static bool fits(const qn_kernel *k, const qn_node *node, uint32_t n_in,
                 const qn_dtype *in)
{
    return !strcmp(k->name, node->op->name) &&
           !strcmp(k->domain, node->op->domain) && node->opset >= k->since &&
           node->opset <= k->until &&
           (!k->supports || k->supports(node, n_in, in));
}

const qn_kernel *qn_cuda_kernel_find(qn_accel *accel, const qn_node *node,
                                     uint32_t n_in, const qn_dtype *in)
{
    (void)accel;
    for (const qn_kernel_table *const *t = tables; *t; t++)
        for (size_t i = 0; i < (*t)->n; i++)
            if (fits(&(*t)->rows[i], node, n_in, in))
                return &(*t)->rows[i];
    return NULL;
}

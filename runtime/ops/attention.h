/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of ai.quern.Attention, resolved; see attention.c. */
#ifndef QN_OPS_ATTENTION_H
#define QN_OPS_ATTENTION_H

#include "runtime/ops/op.h"

/* Every device's kernel takes depths of keys and of values up to this. */
enum { QN_ATTENTION_DEPTH = 128 };

typedef struct qn_attention {
    int64_t batch, heads, queries, depth; /* B, H, S, D */
    int64_t groups, keys, values;         /* G, T, E */
    int64_t mask_stride[4]; /* in elements; 0 where it broadcasts */
    bool masked, causal;
    double scale;
} qn_attention;

/* From the shapes that infer() accepted; `in` has n_in tensors. */
void qn_attention_of(const qn_node *node, uint32_t n_in, const qn_tensor *in,
                     qn_attention *out);

#endif

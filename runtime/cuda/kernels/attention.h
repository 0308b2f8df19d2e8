/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of attention.cu and attention_mma.cu. */
#ifndef QN_CUDA_KERNELS_ATTENTION_H
#define QN_CUDA_KERNELS_ATTENTION_H

#include <stdint.h>

enum {
    QN_ATTENTION_THREADS = 256,
    QN_ATTENTION_MMA_THREADS = 128,
    QN_ATTENTION_ROWS = 64, /* queries of a block */
    QN_ATTENTION_MOST = 128 /* largest depth */
};

/* Keys of a step, and floats of a row in shared memory, by padded depth. */
#define QN_ATTENTION_KEYS(depth) ((depth) > 64 ? 32 : 64)
#define QN_ATTENTION_PITCH(depth) ((depth) + 4)
#define QN_ATTENTION_SHARED(depth)                                             \
    (4 * ((QN_ATTENTION_ROWS + QN_ATTENTION_KEYS(depth)) *                     \
              QN_ATTENTION_PITCH(depth) +                                      \
          QN_ATTENTION_ROWS * QN_ATTENTION_PITCH(QN_ATTENTION_KEYS(depth))))

/* q [heads, queries, depth], k [groups, keys, depth], v [groups, keys, values],
 * y [heads, queries, values]; heads and groups over all batches. */
struct qn_attention_args {
    const void *q, *k, *v, *mask; /* mask NULL: none */
    void *y;
    int64_t heads, queries, keys;
    int64_t heads_batch, per_group; /* heads of a batch, of a group */
    int64_t mask_stride[4];
    int32_t depth, values, causal;
    float scale;
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a block of threads shares folds (sums, maxima ...) over axes of a tensor.
 *
 * A block has width x depth threads (powers of two, QN_FOLD_THREADS in all):
 * `width` outputs side by side, `depth` threads that fold each. Neighbouring
 * threads go along the folded axes where the innermost axis is folded, along
 * the outputs where it is kept, so that a warp reads neighbouring addresses.
 *
 *     output  o = block / splits * width + column
 *     folds   i = block % splits * per_split + part, then every depth-th
 *
 * With splits > 1 each block leaves a partial result [splits][outputs], which a
 * second launch folds in order: a result depends on shapes alone.
 */
#ifndef QN_CUDA_KERNELS_FOLD_H
#define QN_CUDA_KERNELS_FOLD_H

#include <stdint.h>

enum {
    QN_FOLD_THREADS = 256,
    QN_FOLD_RANK = 10,
    QN_FOLD_PARTIALS = 8192 /* splits x outputs, at most */
};

struct qn_fold {
    int64_t outputs, count;      /* kept elements, elements folded into each */
    int64_t splits, per_split;
    int32_t width, depth;
    int32_t by_rows;             /* neighbours go along the folded axes */
    int32_t n_kept, n_folded;
    /* sizes and strides in elements, outermost first, neighbours merged */
    int64_t kept[QN_FOLD_RANK], kept_stride[QN_FOLD_RANK];
    int64_t folded[QN_FOLD_RANK], folded_stride[QN_FOLD_RANK];
};

#endif

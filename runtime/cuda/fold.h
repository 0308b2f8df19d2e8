/* SPDX-License-Identifier: Apache-2.0 */
/* Planning folds over axes: host side of kernels/fold.h. */
#ifndef QN_CUDA_FOLD_H
#define QN_CUDA_FOLD_H

#include "runtime/cuda/kernel.h"
#include "runtime/cuda/kernels/fold.h"

/* Sizes and strides of folding the axes in `mask` (bit i: axis i). */
void qn_fold_axes(struct qn_fold *f, const qn_shape *shape, uint32_t mask);
/* The same for the middle axis of [outer, n, inner]. */
void qn_fold_middle(struct qn_fold *f, int64_t outer, int64_t n, int64_t inner);
/* Chooses width, depth and splits, by shape alone; `split`: whether the caller
 * can fold partial results of at most QN_FOLD_PARTIALS elements. */
void qn_fold_plan(struct qn_fold *f, bool split);
/* Blocks and threads for it; and for folding partial results, a warp for each
 * output. */
qn_cuda_grid qn_fold_grid(const struct qn_fold *f);
qn_cuda_grid qn_fold_grid_finish(const struct qn_fold *f);

#endif

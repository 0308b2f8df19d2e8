/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/fold.h"

#include <string.h>

enum {
    SPLIT_BLOCKS = 512, /* fills any card; more blocks are not split further */
    SPLIT_COUNT = 4096  /* folds that are worth a block of their own */
};

static void reverse(int64_t *a, int n)
{
    for (int i = 0; i < n / 2; i++) {
        int64_t t = a[i];
        a[i] = a[n - 1 - i];
        a[n - 1 - i] = t;
    }
}

void qn_fold_axes(struct qn_fold *f, const qn_shape *shape, uint32_t mask)
{
    int64_t stride = 1;
    int before = -1; /* kind of the axis just behind: 0 kept, 1 folded */
    memset(f, 0, sizeof *f);
    f->outputs = f->count = 1;
    for (int i = shape->rank - 1; i >= 0; i--) { /* innermost first */
        int fold = (mask >> i) & 1;
        int64_t *sizes = fold ? f->folded : f->kept;
        int64_t *strides = fold ? f->folded_stride : f->kept_stride;
        int32_t *n = fold ? &f->n_folded : &f->n_kept;
        int64_t d = shape->dims[i];
        *(fold ? &f->count : &f->outputs) *= d;
        if (d != 1 && fold == before) {
            sizes[*n - 1] *= d;
        } else if (d != 1) {
            sizes[*n] = d;
            strides[(*n)++] = stride;
            before = fold;
        }
        stride *= d;
    }
    reverse(f->kept, f->n_kept);
    reverse(f->kept_stride, f->n_kept);
    reverse(f->folded, f->n_folded);
    reverse(f->folded_stride, f->n_folded);
}

void qn_fold_middle(struct qn_fold *f, int64_t outer, int64_t n, int64_t inner)
{
    qn_shape s = qn_shape_make(3, (int64_t[]){ outer, n, inner });
    qn_fold_axes(f, &s, 1u << 1);
}

static int32_t power_of_two(int64_t n, int32_t most)
{
    int32_t p = 1;
    while (p < n && p < most)
        p *= 2;
    return p;
}

/* Wide rows take a block each, short ones a few threads; columns stand side by
 * side up to the width of a warp. */
void qn_fold_plan(struct qn_fold *f, bool split)
{
    int last = f->n_folded - 1;
    f->by_rows = last < 0 || f->folded_stride[last] == 1;
    if (f->by_rows) {
        f->depth = power_of_two(f->count, f->count > 1024 ? QN_FOLD_THREADS
                                                          : 32);
        f->width = QN_FOLD_THREADS / f->depth;
    } else {
        f->width = power_of_two(f->kept[f->n_kept - 1], 32);
        f->depth = QN_FOLD_THREADS / f->width;
    }
    int64_t blocks = (f->outputs + f->width - 1) / f->width;
    int64_t splits = 1;
    if (split && blocks < SPLIT_BLOCKS) {
        int64_t by_count = f->count / SPLIT_COUNT;
        if (!f->by_rows) /* a block folds `width` outputs at once */
            by_count = f->count / (SPLIT_COUNT / f->width);
        splits = SPLIT_BLOCKS / (blocks ? blocks : 1);
        splits = splits < by_count ? splits : by_count;
        if (splits * f->outputs > QN_FOLD_PARTIALS)
            splits = QN_FOLD_PARTIALS / f->outputs;
        splits = splits < 1 ? 1 : splits;
    }
    int64_t each = (f->count + splits - 1) / splits;
    f->per_split = splits > 1 ? (each + QN_FOLD_THREADS - 1) /
                                    QN_FOLD_THREADS * QN_FOLD_THREADS
                              : f->count;
    f->splits = splits > 1 ? (f->count + f->per_split - 1) / f->per_split : 1;
}

qn_cuda_grid qn_fold_grid(const struct qn_fold *f)
{
    int64_t blocks = (f->outputs + f->width - 1) / f->width * f->splits;
    /* a block goes on with every grid-th group of outputs */
    int64_t most = INT32_MAX / f->splits * f->splits;
    return (qn_cuda_grid){ .grid = { (uint32_t)(blocks < most ? blocks : most) },
                           .block = { QN_FOLD_THREADS } };
}

qn_cuda_grid qn_fold_grid_finish(const struct qn_fold *f)
{
    int64_t per_block = QN_FOLD_THREADS / 32;
    int64_t blocks = (f->outputs + per_block - 1) / per_block;
    return (qn_cuda_grid){ .grid = { (uint32_t)blocks },
                           .block = { QN_FOLD_THREADS } };
}

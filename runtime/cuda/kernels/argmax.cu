/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ArgMax and ArgMin. Work is shared as fold.h says; where a tie goes does not
 * depend on the order of merging (best.h).
 */
#include "runtime/cuda/kernels/argmax.h"

#include "runtime/cuda/kernels/best.h"
#include "runtime/cuda/kernels/fold_device.h"

template <class N, bool min, bool last>
QN_DEVICE void scan(const struct qn_argmax_args &a, void *shared)
{
    typedef qn_best<typename N::C> best;
    const qn_fold &f = a.f;
    qn_fold_lane l = qn_fold_here(f);
    int64_t stride = f.n_folded ? f.folded_stride[0] : 0;
    int64_t split = blockIdx.x % f.splits, from = split * f.per_split;
    int64_t to = from + f.per_split < f.count ? from + f.per_split : f.count;
    for (int64_t g = blockIdx.x / f.splits; g * f.width < f.outputs;
         g += gridDim.x / f.splits) {
        int64_t o = g * f.width + l.column;
        const typename N::M *x =
            (const typename N::M *)a.x +
            qn_fold_offset(f.n_kept, f.kept, f.kept_stride, o);
        best b = qn_best_none<typename N::C>();
#pragma unroll 4
        for (int64_t i = from + l.part; o < f.outputs && i < to; i += f.depth)
            b = qn_best_merge<N, min, last>(
                b, qn_best_of(N::get(x[i * stride]), i));
        b = qn_fold_column(b, f.depth, l, (best *)shared,
                           qn_best_merge<N, min, last>);
        if (l.part || o >= f.outputs)
            continue;
        if (f.splits > 1)
            ((best *)a.partial)[split * f.outputs + o] = b;
        else
            a.y[o] = b.index;
    }
}

/* A warp for each output. */
template <class N, bool min, bool last>
QN_DEVICE void merge_splits(const struct qn_argmax_args &a, void *shared)
{
    typedef qn_best<typename N::C> best;
    const qn_fold &f = a.f;
    const best *partial = (const best *)a.partial;
    qn_fold_lane l = qn_fold_warp();
    int64_t o = (int64_t)blockIdx.x * (QN_FOLD_THREADS / 32) + l.column;
    best b = qn_best_none<typename N::C>();
    for (int64_t s = l.part; o < f.outputs && s < f.splits; s += 32)
        b = qn_best_merge<N, min, last>(b, partial[s * f.outputs + o]);
    b = qn_fold_column(b, 32, l, (best *)shared, qn_best_merge<N, min, last>);
    if (l.part == 0 && o < f.outputs)
        a.y[o] = b.index;
}

#define BY_FORM(run, N)                                                        \
    if (a.min && a.last)                                                       \
        run<N, true, true>(a, shared);                                         \
    else if (a.min)                                                            \
        run<N, true, false>(a, shared);                                        \
    else if (a.last)                                                           \
        run<N, false, true>(a, shared);                                        \
    else                                                                       \
        run<N, false, false>(a, shared);

#define DEFINE(name)                                                           \
    QN_KERNEL(argmax_##name, struct qn_argmax_args, a)                         \
    {                                                                          \
        typedef qn_num_##name N;                                               \
        QN_SHARED(qn_best<N::C>, shared, QN_FOLD_THREADS);                     \
        BY_FORM(scan, N)                                                       \
    }                                                                          \
    QN_KERNEL(argmax_finish_##name, struct qn_argmax_args, a)                  \
    {                                                                          \
        typedef qn_num_##name N;                                               \
        QN_SHARED(qn_best<N::C>, shared, QN_FOLD_THREADS);                     \
        BY_FORM(merge_splits, N)                                               \
    }

QN_EACH_FLOAT(DEFINE)
QN_EACH_INT(DEFINE)

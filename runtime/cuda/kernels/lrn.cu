/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Normalisations along chosen axes: LRN (a window of channels: a thread per
 * element, whose window comes from a cache), LpNormalization and
 * MeanVarianceNormalization (work shared as fold.h says, sums in double).
 */
#include "runtime/cuda/kernels/lrn.h"

#include "runtime/cuda/kernels/fold_device.h"

template <class N> QN_DEVICE void lrn(const struct qn_lrn_args &a)
{
    typedef typename N::C C;
    const typename N::M *x = (const typename N::M *)a.x;
    for (int64_t i = qn_global_index(); i < a.count; i += qn_global_threads()) {
        int64_t c;
        qn_fastdiv_divmod(&a.by_channels, qn_fastdiv_quotient(&a.by_step, i),
                          &c);
        int64_t from = c > a.before ? -a.before : -c;
        int64_t to = c + a.after < a.channels ? a.after : a.channels - 1 - c;
        C sum = 0;
        for (int64_t r = from; r <= to; r++) {
            C v = N::get(x[i + r * a.step]);
            sum += v * v;
        }
        C d = pow((C)a.bias + (C)a.alpha * sum, (C)a.beta);
        ((typename N::M *)a.y)[i] = N::put(N::get(x[i]) / d);
    }
}

QN_DEVICE double add(double a, double b)
{
    return a + b;
}

/* Sum over one output's elements of |v|, v*v, v or (v - mean)^2. */
template <class N, class F>
QN_DEVICE double column_sum(const qn_fold &f, const qn_fold_lane &l,
                            const typename N::M *x, bool here, double *slots,
                            F map)
{
    double sum = 0;
    for (int64_t i = l.part; here && i < f.count; i += f.depth)
        sum += map((double)N::get(
            x[qn_fold_offset(f.n_folded, f.folded, f.folded_stride, i)]));
    return qn_fold_column(sum, f.depth, l, slots, add);
}

struct map_deviation {
    double mean;
    __device__ double operator()(double v) const
    {
        return (v - mean) * (v - mean);
    }
};

struct map_value {
    __device__ double operator()(double v) const
    {
        return v;
    }
};

struct map_abs {
    __device__ double operator()(double v) const
    {
        return fabs(v);
    }
};

template <class N> QN_DEVICE void axes(const struct qn_axes_args &a)
{
    QN_SHARED(double, slots, QN_FOLD_THREADS);
    const qn_fold &f = a.f;
    qn_fold_lane l = qn_fold_here(f);
    for (int64_t g = blockIdx.x; g * f.width < f.outputs; g += gridDim.x) {
        int64_t o = g * f.width + l.column;
        bool here = o < f.outputs;
        int64_t base = qn_fold_offset(f.n_kept, f.kept, f.kept_stride, o);
        const typename N::M *x = (const typename N::M *)a.x + base;
        typename N::M *y = (typename N::M *)a.y + base;
        double mean = 0, by;
        if (a.kind == QN_AXES_L1) {
            by = column_sum<N>(f, l, x, here, slots, map_abs());
        } else {
            if (a.kind == QN_AXES_MVN)
                mean = column_sum<N>(f, l, x, here, slots, map_value()) /
                       (double)f.count;
            map_deviation from = { mean };
            by = column_sum<N>(f, l, x, here, slots, from);
            by = a.kind == QN_AXES_L2 ? sqrt(by)
                                      : sqrt(by / (double)f.count) + 1e-9;
        }
        if (by == 0) /* all zero stays zero */
            by = 1;
        for (int64_t i = l.part; here && i < f.count; i += f.depth) {
            int64_t at =
                qn_fold_offset(f.n_folded, f.folded, f.folded_stride, i);
            y[at] = N::put_wide(((double)N::get(x[at]) - mean) / by);
        }
    }
}

#define DEFINE(name)                                                           \
    QN_KERNEL(lrn_##name, struct qn_lrn_args, a)                               \
    {                                                                          \
        lrn<qn_num_##name>(a);                                                 \
    }                                                                          \
    QN_KERNEL(axes_norm_##name, struct qn_axes_args, a)                        \
    {                                                                          \
        axes<qn_num_##name>(a);                                                \
    }

QN_EACH_FLOAT(DEFINE)

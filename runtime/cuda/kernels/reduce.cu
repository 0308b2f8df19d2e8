/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions. Floats fold in double (what one 16-byte load brings is first
 * added in float), integers in 64 bits that wrap; a logarithm of a sum of
 * exponentials carries its maximum along. Work is shared as fold.h says.
 */
#include "runtime/cuda/kernels/reduce.h"

#include "runtime/cuda/kernels/fold_device.h"

/* ---- elements ---- */

/* Floats have a type each, and fast loops. */
template <class N> struct floats : N {
    enum { fast = 1, each = 16 / sizeof(typename N::M) };
    typedef typename N::C C;
    QN_INSIDE C at(const qn_reduce_args &a, int64_t i)
    {
        return N::get(((const typename N::M *)a.x)[i]);
    }
    QN_INSIDE bool aligned(const qn_reduce_args &a, int64_t i)
    {
        return qn_aligned16((const typename N::M *)a.x + i);
    }
    QN_INSIDE void pack(const qn_reduce_args &a, int64_t i, C *v)
    {
        qn_get_pack<N>((const typename N::M *)a.x + i, v);
    }
    QN_INSIDE C low(const qn_reduce_args &)
    {
        return N::lowest();
    }
    QN_INSIDE C high(const qn_reduce_args &)
    {
        return N::highest();
    }
    template <class T>
    QN_INSIDE void write(const qn_reduce_args &a, int64_t o, T acc)
    {
        double v = (double)acc;
        write_wide(a, o,
                   a.kind == QN_CUDA_FOLD_MEAN      ? v / (double)a.f.count
                   : a.kind == QN_CUDA_FOLD_L2      ? sqrt(v)
                   : a.kind == QN_CUDA_FOLD_LOG_SUM ? log(v)
                                                    : v);
    }
    QN_INSIDE void write_wide(const qn_reduce_args &a, int64_t o,
                                      double v)
    {
        ((typename N::M *)a.y)[o] = N::put_wide(v);
    }
};

/* Integers of one signedness share code: they are rare, and compile slowly. */
template <class N, class I8, class I32> struct integers : N {
    enum { fast = 0, each = 1 };
    typedef typename N::C C;
    QN_INSIDE C at(const qn_reduce_args &a, int64_t i)
    {
        return a.size == 1   ? (C)((const I8 *)a.x)[i]
               : a.size == 4 ? (C)((const I32 *)a.x)[i]
                             : ((const C *)a.x)[i];
    }
    QN_INSIDE bool aligned(const qn_reduce_args &, int64_t)
    {
        return false;
    }
    QN_INSIDE void pack(const qn_reduce_args &, int64_t, C *)
    {
    }
    QN_INSIDE C low(const qn_reduce_args &a)
    {
        return (C)a.low;
    }
    QN_INSIDE C high(const qn_reduce_args &a)
    {
        return (C)a.high;
    }
    QN_INSIDE void put(const qn_reduce_args &a, int64_t o, C v)
    {
        if (a.size == 1)
            ((I8 *)a.y)[o] = (I8)v;
        else if (a.size == 4)
            ((I32 *)a.y)[o] = (I32)v;
        else
            ((C *)a.y)[o] = v;
    }
    QN_INSIDE void write(const qn_reduce_args &a, int64_t o, C acc)
    {
        if (a.kind == QN_CUDA_FOLD_MEAN)
            put(a, o, a.f.count ? acc / (C)a.f.count : 0);
        else if (a.kind == QN_CUDA_FOLD_L2)
            write_wide(a, o, sqrt((double)(uint64_t)acc));
        else if (a.kind == QN_CUDA_FOLD_LOG_SUM)
            write_wide(a, o, log((double)acc));
        else
            put(a, o, acc);
    }
    QN_INSIDE void write_wide(const qn_reduce_args &a, int64_t o,
                                      double v)
    {
        put(a, o,
            v != v                   ? (C)0
            : v <= (double)a.low     ? (C)a.low
            : v >= (double)a.high    ? (C)a.high
                                     : (C)v);
    }
};

/* ---- operations: A is what accumulates ---- */

/* Few copies of the loops: what kinds differ in is looked up for each element,
 * which costs nothing beside its load, and less than compiling seven. */
#define QN_MANY                                                                \
    template <int n>                                                           \
    QN_INSIDE A many(int kind, A a, const typename N::C *v)                    \
    {                                                                          \
        for (int i = 0; i < n; i++)                                            \
            a = add(kind, a, v[i]);                                            \
        return a;                                                              \
    }

template <class N> struct op_sum {
    typedef typename N::W A;
    typedef typename N::C C;
    QN_INSIDE A start(const qn_reduce_args &)
    {
        return 0;
    }
    QN_INSIDE C map(int kind, C v)
    {
        return kind == QN_CUDA_FOLD_L1 ? N::abs(v)
               : kind == QN_CUDA_FOLD_L2 || kind == QN_CUDA_FOLD_SUM_SQUARE
                   ? N::times(v, v)
                   : v;
    }
    QN_INSIDE A add(int kind, A a, C v)
    {
        return N::plus(a, (A)map(kind, v));
    }
    QN_INSIDE A merge(A a, A b)
    {
        return N::plus(a, b);
    }
    template <int n> QN_INSIDE A many(int kind, A a, const C *v)
    {
        C s = map(kind, v[0]);
#pragma unroll
        for (int i = 1; i < n; i++)
            s = N::plus(s, map(kind, v[i]));
        return N::plus(a, (A)s);
    }
    QN_INSIDE A result(int, A a)
    {
        return a;
    }
};

template <class N> struct op_prod {
    typedef typename N::W A;
    QN_INSIDE A start(const qn_reduce_args &)
    {
        return 1;
    }
    QN_INSIDE A add(int, A a, typename N::C v)
    {
        return N::times(a, (A)v);
    }
    QN_INSIDE A merge(A a, A b)
    {
        return N::times(a, b);
    }
    QN_MANY
    QN_INSIDE A result(int, A a)
    {
        return a;
    }
};

/* The least is the greatest of what is turned round. A NaN stays, whichever
 * side it is on. */
template <class N> struct op_max {
    typedef typename N::C A;
    QN_INSIDE A start(const qn_reduce_args &a)
    {
        return a.kind == QN_CUDA_FOLD_MIN ? N::turned(N::high(a)) : N::low(a);
    }
    QN_INSIDE A merge(A a, A b)
    {
        return b > a || b != b ? b : a;
    }
    QN_INSIDE A add(int kind, A a, A v)
    {
        return merge(a, result(kind, v));
    }
    QN_MANY
    QN_INSIDE A result(int kind, A a)
    {
        return kind == QN_CUDA_FOLD_MIN ? N::turned(a) : a;
    }
};

/* The sum of exp(v - max), and max. -inf adds nothing. */
struct exp_sum {
    double max, sum;
};

QN_APART exp_sum exp_merge(exp_sum a, exp_sum b)
{
    if (b.max > a.max || b.max != b.max) {
        exp_sum t = a;
        a = b;
        b = t;
    }
    if (b.max > -(double)INFINITY && a.max < (double)INFINITY)
        a.sum += b.sum * exp(b.max - a.max);
    return a;
}

template <class N> struct op_exp {
    typedef exp_sum A;
    QN_INSIDE A start(const qn_reduce_args &)
    {
        A a = { -(double)INFINITY, 0 };
        return a;
    }
    QN_INSIDE A merge(A a, A b)
    {
        return exp_merge(a, b);
    }
    QN_INSIDE A add(int, A a, typename N::C v)
    {
        A b = { (double)v, 1 };
        return merge(a, b);
    }
    QN_MANY
    QN_INSIDE A result(int, A a)
    {
        return a;
    }
};

/* ---- loops ---- */

template <class N, class A>
QN_DEVICE void finish(const qn_reduce_args &a, int64_t o, A acc)
{
    N::write(a, o, acc);
}

template <class N>
QN_DEVICE void finish(const qn_reduce_args &a, int64_t o, exp_sum e)
{
    bool finite = e.max > -(double)INFINITY && e.max < (double)INFINITY;
    N::write_wide(a, o, finite ? log(e.sum) + e.max : e.max);
}

/* Elements [from, to) of the output at `base`, every depth-th from `part` on. */
template <class N, template <class> class Op>
QN_DEVICE typename Op<N>::A fold_part(const qn_reduce_args &a,
                                              int64_t base, int part,
                                              int64_t from, int64_t to)
{
    typedef typename N::C C;
    const qn_fold &f = a.f;
    typename Op<N>::A acc = Op<N>::start(a);
    int64_t i = from + part;
    if (f.n_folded > 1) {
        for (; i < to; i += f.depth)
            acc = Op<N>::add(
                a.kind, acc,
                N::at(a, base + qn_fold_offset(f.n_folded, f.folded,
                                                    f.folded_stride, i)));
        return acc;
    }
    if (N::fast && f.by_rows && N::aligned(a, base + from)) {
        int64_t packs = (to - from) / N::each;
        for (int64_t p = part; p < packs; p += f.depth) {
            C v[N::each];
            N::pack(a, base + from + p * N::each, v);
            acc = Op<N>::template many<N::each>(a.kind, acc, v);
        }
        i = from + packs * N::each + part;
    }
    int64_t stride = f.n_folded ? f.folded_stride[0] : 0;
    for (; N::fast && i + 3 * f.depth < to; i += 4 * f.depth) {
        C v[4];
#pragma unroll
        for (int u = 0; u < 4; u++)
            v[u] = N::at(a, base + (i + u * f.depth) * stride);
        acc = Op<N>::template many<4>(a.kind, acc, v);
    }
    for (; i < to; i += f.depth)
        acc = Op<N>::add(a.kind, acc, N::at(a, base + i * stride));
    return acc;
}

template <class N, template <class> class Op>
QN_DEVICE void fold(const qn_reduce_args &a, void *shared)
{
    typedef typename Op<N>::A A;
    const qn_fold &f = a.f;
    qn_fold_lane l = qn_fold_here(f);
    int64_t split = blockIdx.x % f.splits, from = split * f.per_split;
    int64_t to = from + f.per_split < f.count ? from + f.per_split : f.count;
    for (int64_t g = blockIdx.x / f.splits; g * f.width < f.outputs;
         g += gridDim.x / f.splits) {
        int64_t o = g * f.width + l.column;
        A acc = Op<N>::start(a);
        if (o < f.outputs)
            acc = fold_part<N, Op>(
                a, qn_fold_offset(f.n_kept, f.kept, f.kept_stride, o), l.part,
                from, to);
        acc = qn_fold_column(acc, f.depth, l, (A *)shared, Op<N>::merge);
        if (l.part || o >= f.outputs)
            continue;
        if (f.splits > 1)
            ((A *)a.partial)[split * f.outputs + o] = acc;
        else
            finish<N>(a, o, Op<N>::result(a.kind, acc));
    }
}

/* A warp for each output. */
template <class N, template <class> class Op>
QN_DEVICE void fold_splits(const qn_reduce_args &a, void *shared)
{
    typedef typename Op<N>::A A;
    const qn_fold &f = a.f;
    const A *partial = (const A *)a.partial;
    qn_fold_lane l = qn_fold_warp();
    int64_t o = (int64_t)blockIdx.x * (QN_FOLD_THREADS / 32) + l.column;
    A acc = Op<N>::start(a);
    for (int64_t s = l.part; o < f.outputs && s < f.splits; s += 32)
        acc = Op<N>::merge(acc, partial[s * f.outputs + o]);
    acc = qn_fold_column(acc, 32, l, (A *)shared, Op<N>::merge);
    if (l.part == 0 && o < f.outputs)
        finish<N>(a, o, Op<N>::result(a.kind, acc));
}

#define QN_BY_KIND(run, N)                                                     \
    if (a.kind == QN_CUDA_FOLD_MAX || a.kind == QN_CUDA_FOLD_MIN)              \
        run<N, op_max>(a, shared);                                             \
    else if (a.kind == QN_CUDA_FOLD_PROD)                                      \
        run<N, op_prod>(a, shared);                                            \
    else if (a.kind == QN_CUDA_FOLD_LOG_SUM_EXP)                               \
        run<N, op_exp>(a, shared);                                             \
    else                                                                       \
        run<N, op_sum>(a, shared);

#define DEFINE(name, ...)                                                      \
    QN_KERNEL(reduce_##name, struct qn_reduce_args, a)                        \
    {                                                                          \
        typedef __VA_ARGS__ N;                                                 \
        QN_SHARED(exp_sum, shared, QN_FOLD_THREADS);                       \
        QN_BY_KIND(fold, N)                                                    \
    }                                                                          \
    QN_KERNEL(reduce_finish_##name, struct qn_reduce_args, a)                        \
    {                                                                          \
        typedef __VA_ARGS__ N;                                                 \
        QN_SHARED(exp_sum, shared, QN_FOLD_THREADS);                       \
        QN_BY_KIND(fold_splits, N)                                             \
    }

DEFINE(f32, floats<qn_num_f32>)
DEFINE(f64, floats<qn_num_f64>)
DEFINE(f16, floats<qn_num_f16>)
DEFINE(bf16, floats<qn_num_bf16>)
DEFINE(signed, integers<qn_num_i64, int8_t, int32_t>)
DEFINE(unsigned, integers<qn_num_u64, uint8_t, uint32_t>)

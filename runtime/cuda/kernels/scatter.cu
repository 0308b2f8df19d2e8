/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing by index so that the answer depends on no schedule.
 *
 *   few     up to some dozens of updates: each looks at all others, one launch
 *   mark    each target learns its last update (a maximum of integers), or gets
 *           a list of its updates, linked in whatever order they came
 *   place   without reduction: the last update of a target is copied
 *   sort    lists into the order of updates
 *   reduce  the owner of a list applies it in that order, one thread a column
 *
 * Atomics touch integers only, and what is read of them afterwards is the same
 * for every order of threads: a maximum, or a set that is then sorted.
 */
#include "runtime/cuda/kernels/scatter.h"

#include "runtime/cuda/kernels/unit.h"

/* A longer list is not sorted: its owner goes through all updates instead. */
#define SORT_LIMIT 4096
#define UNSORTED UINT32_MAX

QN_DEVICE int64_t read_index(const qn_scatter_args &a, int64_t i)
{
    return a.index32 ? ((const int32_t *)a.index)[i]
                     : ((const int64_t *)a.index)[i];
}

/* v counted from 0; -1, and a fault, if it is out of range. */
QN_DEVICE int64_t checked(const qn_scatter_args &a, int64_t v, int64_t dim)
{
    if (v < -dim || v >= dim) {
        qn_device_fault(a.fault, QN_DEVICE_FAULT_INDEX, v, dim);
        return -1;
    }
    return v < 0 ? v + dim : v;
}

/* Target of update i; -1 if an index is out of range. */
QN_DEVICE int64_t target(const qn_scatter_args &a, int64_t i)
{
    int64_t to = 0;
    if (!a.tuples) {
        int64_t at = checked(a, read_index(a, i), a.dim);
        if (at < 0)
            return -1;
        to = at * a.along;
    }
    QN_ONE_BY_ONE
    for (int d = 0; d < a.rank; d++) {
        int64_t at;
        if (a.tuples) {
            at = checked(a, read_index(a, i * a.rank + d), a.dims[d]);
            if (at < 0)
                return -1;
        } else {
            i = qn_split_index<false>(a.div[d], i, &at);
        }
        to += at * a.stride[d];
    }
    return to;
}

/* Update and column of one of all threads. */
QN_DEVICE int64_t update_of(const qn_scatter_args &a, int64_t i,
                            int64_t *column)
{
    return a.wide ? qn_split_index<true>(a.by_run, i, column)
                  : qn_split_index<false>(a.by_run, i, column);
}

/* ---- reducing one element: d (op) s ---- */

template <class T> struct reduce_float {
    typedef T M; /* in memory */
    __device__ static M of(uint32_t op, M d, M s)
    {
        qn_acc<T> a = qn_widen(d), b = qn_widen(s);
        bool pick = op == QN_SCATTER_MAX ? b > a : b < a;
        return qn_narrow<T>(op == QN_SCATTER_ADD   ? a + b
                            : op == QN_SCATTER_MUL ? a * b
                            : pick || b != b       ? b
                                                   : a);
    }
};

/* U: unsigned, at least as wide as unsigned int; sums and products wrap */
template <class T, class U> struct reduce_int {
    typedef T M;
    __device__ static M of(uint32_t op, M d, M s)
    {
        bool pick = op == QN_SCATTER_MAX ? s > d : s < d;
        return op == QN_SCATTER_ADD   ? (T)((U)d + (U)s)
               : op == QN_SCATTER_MUL ? (T)((U)d * (U)s)
               : pick                 ? s
                                      : d;
    }
};

struct reduce_bool {
    typedef uint8_t M;
    __device__ static M of(uint32_t op, M d, M s)
    {
        bool both = op == QN_SCATTER_MUL || op == QN_SCATTER_MIN;
        return both ? d && s : d || s;
    }
};

/* run.template by<R>() for the reduction R of an element type (qn_dtype). */
template <class F> QN_DEVICE void by_type(uint32_t dtype, const F &run)
{
    switch (dtype) {
    case 1: run.template by<reduce_float<float>>(); break;
    case 2: run.template by<reduce_int<uint8_t, uint32_t>>(); break;
    case 3: run.template by<reduce_int<int8_t, uint32_t>>(); break;
    case 4: run.template by<reduce_int<uint16_t, uint32_t>>(); break;
    case 5: run.template by<reduce_int<int16_t, uint32_t>>(); break;
    case 6: run.template by<reduce_int<int32_t, uint32_t>>(); break;
    case 7: run.template by<reduce_int<int64_t, uint64_t>>(); break;
    case 9: run.template by<reduce_bool>(); break;
    case 10: run.template by<reduce_float<qn_half>>(); break;
    case 11: run.template by<reduce_float<double>>(); break;
    case 12: run.template by<reduce_int<uint32_t, uint32_t>>(); break;
    case 13: run.template by<reduce_int<uint64_t, uint64_t>>(); break;
    case 16: run.template by<reduce_float<qn_bf16>>(); break;
    default: break;
    }
}

/* ---- few ---- */

/* Is there an update of [from, to) with this target? */
QN_DEVICE bool among(const qn_scatter_args &a, int64_t from, int64_t to,
                     int64_t t)
{
    for (int64_t j = from; j < to; j++)
        if (target(a, j) == t)
            return true;
    return false;
}

struct few_placed {
    const qn_scatter_args &a;
    template <typename T> __device__ T *one(int64_t i, T *v) const
    {
        int64_t column, u = update_of(a, i, &column), t = target(a, u);
        if (t < 0 || among(a, u + 1, a.n, t))
            return (T *)nullptr;
        *v = ((const T *)a.src)[i];
        return (T *)a.dst + t * a.run + column;
    }
};

/* The first update of a target applies this and the later ones. */
struct few_reduced {
    const qn_scatter_args &a;
    template <class R> __device__ void by() const
    {
        typedef typename R::M M;
        const M *src = (const M *)a.src;
        for (int64_t i = qn_global_index(); i < a.total;
             i += qn_global_threads()) {
            int64_t column, u = update_of(a, i, &column), t = target(a, u);
            if (t < 0 || among(a, 0, u, t))
                continue;
            M *to = (M *)a.dst + t * a.run + column;
            M sum = R::of(a.op, *to, src[i]);
            for (int64_t j = u + 1; j < a.n; j++)
                if (target(a, j) == t)
                    sum = R::of(a.op, sum, src[j * a.run + column]);
            *to = sum;
        }
    }
};

QN_KERNEL(qn_scatter_few, qn_scatter_args, a)
{
    if (a.op == QN_SCATTER_NONE)
        qn_move_units(a.unit, a.total, few_placed{ a });
    else
        by_type(a.dtype, few_reduced{ a });
}

/* ---- many ---- */

QN_KERNEL(qn_scatter_mark, qn_scatter_args, a)
{
    for (int64_t i = qn_global_index(); i < a.n; i += qn_global_threads()) {
        int64_t t = target(a, i);
        if (t < 0 || !a.last)
            continue;
        if (a.op == QN_SCATTER_NONE)
            atomicMax(&a.last[t], (uint32_t)i + 1);
        else
            a.next[i] = atomicExch(&a.last[t], (uint32_t)i + 1);
    }
}

struct last_placed {
    const qn_scatter_args &a;
    template <typename T> __device__ T *one(int64_t i, T *v) const
    {
        int64_t column, u = update_of(a, i, &column), t = target(a, u);
        if (t < 0 || a.last[t] != (uint32_t)u + 1)
            return (T *)nullptr;
        *v = ((const T *)a.src)[i];
        return (T *)a.dst + t * a.run + column;
    }
};

QN_KERNEL(qn_scatter_place, qn_scatter_args, a)
{
    qn_move_units(a.unit, a.total, last_placed{ a });
}

/* Ascending. A list is named by its first update + 1; runs of 1, 2, 4 ... links
 * are merged until one is left. */
QN_DEVICE uint32_t sort_list(uint32_t *next, uint32_t list)
{
    for (uint32_t width = 1;; width *= 2) {
        uint32_t left = list, end = 0, pairs = 0;
        list = 0;
        for (; left; pairs++) {
            uint32_t right = left, n = 0, m = width;
            for (; right && n < width; n++)
                right = next[right - 1];
            while (n || (m && right)) {
                uint32_t take;
                if (n && (!m || !right || left < right)) {
                    take = left;
                    left = next[left - 1];
                    n--;
                } else {
                    take = right;
                    right = next[right - 1];
                    m--;
                }
                if (end)
                    next[end - 1] = take;
                else
                    list = take;
                end = take;
            }
            left = right;
        }
        next[end - 1] = 0;
        if (pairs <= 1)
            return list;
    }
}

/* The update that `last` names owns its target's list. */
QN_KERNEL(qn_scatter_sort, qn_scatter_args, a)
{
    for (int64_t i = qn_global_index(); i < a.n; i += qn_global_threads()) {
        int64_t t = target(a, i);
        uint32_t length = 0, head = 0;
        if (t >= 0 && a.last[t] == (uint32_t)i + 1) {
            for (uint32_t j = (uint32_t)i + 1; j && length <= SORT_LIMIT;
                 length++)
                j = a.next[j - 1];
            head = length <= SORT_LIMIT ? sort_list(a.next, (uint32_t)i + 1)
                                        : UNSORTED;
        }
        a.head[i] = head;
    }
}

struct list_reduced {
    const qn_scatter_args &a;
    template <class R> __device__ void by() const
    {
        typedef typename R::M M;
        const M *src = (const M *)a.src;
        for (int64_t i = qn_global_index(); i < a.total;
             i += qn_global_threads()) {
            int64_t column, u = update_of(a, i, &column);
            uint32_t j = a.head[u];
            if (!j)
                continue;
            int64_t t = target(a, u);
            M *to = (M *)a.dst + t * a.run + column;
            M sum = *to;
            if (j == UNSORTED) {
                for (int64_t k = 0; k < a.n; k++)
                    if (target(a, k) == t)
                        sum = R::of(a.op, sum, src[k * a.run + column]);
            } else {
                for (; j; j = a.next[j - 1])
                    sum = R::of(a.op, sum,
                                src[(int64_t)(j - 1) * a.run + column]);
            }
            *to = sum;
        }
    }
};

QN_KERNEL(qn_scatter_reduce, qn_scatter_args, a)
{
    by_type(a.dtype, list_reduced{ a });
}

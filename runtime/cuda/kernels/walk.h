/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How elementwise kernels go over tensors that broadcast together. The host
 * (runtime/cuda/walk.h) merges dimensions that every operand crosses alike, and
 * splits what is longer than QN_WALK_MOST, so that here 32 bits are enough.
 *
 * A block takes a chunk of blockDim * V output elements at a time, a thread V of
 * them, where V elements are 16 bytes:
 *
 *   vector   thread t has elements chunk + V t + [0, V): one access of 16 bytes
 *            a tensor. They lie in one row, so an operand is there as 16 bytes
 *            too, or as one element for all V
 *   gather   thread t has elements chunk + t + blockDim [0, V), each with an
 *            offset of its own: rows of odd length, odd addresses
 */
#ifndef QN_CUDA_KERNELS_WALK_H
#define QN_CUDA_KERNELS_WALK_H

#include "runtime/cuda/kernels/device.h"

enum {
    QN_WALK_RANK = 10,      /* QN_MAX_RANK */
    QN_WALK_MOST = 1 << 30, /* elements of one launch */
    QN_WALK_THREADS = 256   /* of a block */
};

struct qn_walk {
    uint32_t total;  /* output elements */
    uint32_t vector; /* nonzero: as above; rows are multiples of V then, or
                        there is only one dimension */
    uint32_t rank;   /* 1 or more */
    uint32_t unused;
    struct qn_fastdiv dims[QN_WALK_RANK]; /* outermost first, in elements */
};

struct qn_operand {
    const void *data;
    uint32_t stride[QN_WALK_RANK]; /* elements; of the last dim: 1 or 0 */
};

#ifdef __cplusplus

/* Offsets of N operands for output element `at`. */
template <int N>
QN_DEVICE void walk_offsets(const qn_walk &w, const qn_operand *ops,
                            uint32_t at, uint32_t (&off)[N])
{
    for (int k = 0; k < N; k++)
        off[k] = 0;
    for (uint32_t d = w.rank - 1; d > 0; d--) {
        uint32_t up = qn_fastdiv32(&w.dims[d], at);
        uint32_t here = at - up * (uint32_t)w.dims[d].divisor;
        QN_UNROLL
        for (int k = 0; k < N; k++)
            off[k] += here * ops[k].stride[d];
        at = up;
    }
    QN_UNROLL
    for (int k = 0; k < N; k++)
        off[k] += at * ops[k].stride[0];
}

/* V elements as one access. */
template <class T, int V> struct alignas(sizeof(T) * V) walk_vector {
    T v[V];
};

template <class T, int V>
QN_DEVICE walk_vector<T, V> walk_get(const T *p)
{
#ifdef QN_CUDA_EMU
    qn_simt_aligned(p, sizeof(T) * V);
#endif
    return *(const walk_vector<T, V> *)p;
}

template <class T, int V>
QN_DEVICE void walk_put(T *p, const walk_vector<T, V> &v)
{
#ifdef QN_CUDA_EMU
    qn_simt_aligned(p, sizeof(T) * V);
#endif
    *(walk_vector<T, V> *)p = v;
}

/* The elements of thread t in chunk c, and whether the access is whole. */
struct walk_place {
    uint32_t first, step; /* element i is first + i * step */
    bool whole;           /* vector mode and all V exist */
};

template <int V> QN_DEVICE walk_place walk_at(const qn_walk &w, uint32_t chunk)
{
    walk_place p;
    uint32_t base = chunk * (uint32_t)(V * blockDim.x);
    p.first = base + (w.vector ? threadIdx.x * V : threadIdx.x);
    p.step = w.vector ? 1 : blockDim.x;
    p.whole = w.vector && p.first + V <= w.total;
    return p;
}

template <int V> QN_DEVICE uint32_t walk_chunks(const qn_walk &w)
{
    uint32_t size = V * blockDim.x;
    return (w.total + size - 1) / size;
}

/* The V elements of each operand; elements past the end are left as they are.
 * T: as in memory. */
template <class T, int V, int N>
QN_DEVICE void walk_load(const qn_walk &w, const qn_operand *ops,
                         const walk_place &p, T (&x)[N][V])
{
    uint32_t off[N];
    if (p.whole) {
        walk_offsets<N>(w, ops, p.first, off);
        QN_UNROLL
        for (int k = 0; k < N; k++) {
            const T *from = (const T *)ops[k].data + off[k];
            if (ops[k].stride[w.rank - 1]) {
                walk_vector<T, V> v = walk_get<T, V>(from);
                QN_UNROLL
                for (int i = 0; i < V; i++)
                    x[k][i] = v.v[i];
            } else {
                T one = *from;
                QN_UNROLL
                for (int i = 0; i < V; i++)
                    x[k][i] = one;
            }
        }
        return;
    }
    QN_UNROLL
    for (int i = 0; i < V; i++) {
        uint32_t at = p.first + (uint32_t)i * p.step;
        if (at >= w.total)
            break;
        walk_offsets<N>(w, ops, at, off);
        QN_UNROLL
        for (int k = 0; k < N; k++)
            x[k][i] = ((const T *)ops[k].data)[off[k]];
    }
}

template <class T, int V>
QN_DEVICE void walk_store(const qn_walk &w, void *out, const walk_place &p,
                          const T (&y)[V])
{
    T *to = (T *)out + p.first;
    if (p.whole) {
        walk_vector<T, V> v;
        QN_UNROLL
        for (int i = 0; i < V; i++)
            v.v[i] = y[i];
        walk_put<T, V>(to, v);
        return;
    }
    QN_UNROLL
    for (int i = 0; i < V; i++)
        if (p.first + (uint32_t)i * p.step < w.total)
            to[(uint32_t)i * p.step] = y[i];
}

#endif
#endif

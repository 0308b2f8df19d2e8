/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tile of a matrix product by 256 threads: 64 rows x 64 columns, 16 steps of k
 * in shared memory at a time, 4 x 4 sums a thread. Thread t has rows t / 16 + 16 i
 * and columns t % 16 + 16 j. Each sum is one chain over ascending k.
 *
 * Rows of shared memory are 65 words, so that neither order of filling them
 * meets one bank twice.
 */
#ifndef QN_CUDA_KERNELS_TILE_H
#define QN_CUDA_KERNELS_TILE_H

#include "runtime/cuda/kernels/device.h"

enum {
    QN_TILE = 64,
    QN_TILE_DEPTH = 16,
    QN_TILE_THREADS = 256,
    QN_TILE_EACH = 4,
    QN_TILE_PITCH = QN_TILE + 1
};

#ifdef __cplusplus

QN_DEVICE int qn_tile_row(int i)
{
    return (int)threadIdx.x / 16 + 16 * i;
}

QN_DEVICE int qn_tile_column(int j)
{
    return (int)threadIdx.x % 16 + 16 * j;
}

/*
 * sum[i][j] = sum over k in [0, depth) of a(row, k) b(k, column), for `rows` and
 * `columns` that exist in this tile; a and b are called for those only. a_along:
 * neighbouring threads ask a() for neighbouring k, else for neighbouring rows;
 * b() is always asked for neighbouring columns unless b_along, and a thread then
 * asks for one column only (t % 64). All threads call.
 */
template <class Acc, class A, class B>
QN_DEVICE void qn_tile_product(const A &a, const B &b, int rows, int columns,
                               int64_t depth, bool a_along, bool b_along,
                               Acc sum[QN_TILE_EACH][QN_TILE_EACH])
{
    QN_SHARED(Acc, as, QN_TILE_DEPTH * QN_TILE_PITCH);
    QN_SHARED(Acc, bs, QN_TILE_DEPTH * QN_TILE_PITCH);
    const int t = (int)threadIdx.x;
    QN_UNROLL
    for (int i = 0; i < QN_TILE_EACH; i++)
        QN_UNROLL
        for (int j = 0; j < QN_TILE_EACH; j++)
            sum[i][j] = Acc(0);
    for (int64_t k0 = 0; k0 < depth; k0 += QN_TILE_DEPTH) {
        QN_UNROLL
        for (int i = 0; i < QN_TILE_EACH; i++) {
            const int e = t + i * QN_TILE_THREADS;
            int r = a_along ? e / QN_TILE_DEPTH : e % QN_TILE;
            int k = a_along ? e % QN_TILE_DEPTH : e / QN_TILE;
            as[k * QN_TILE_PITCH + r] =
                r < rows && k0 + k < depth ? a(r, k0 + k) : Acc(0);
            r = b_along ? e / QN_TILE_DEPTH : e % QN_TILE;
            k = b_along ? e % QN_TILE_DEPTH : e / QN_TILE;
            bs[k * QN_TILE_PITCH + r] =
                r < columns && k0 + k < depth ? b(k0 + k, r) : Acc(0);
        }
        __syncthreads();
        const int steps = depth - k0 < QN_TILE_DEPTH ? (int)(depth - k0)
                                                     : (int)QN_TILE_DEPTH;
        for (int k = 0; k < steps; k++) {
            Acc x[QN_TILE_EACH], y[QN_TILE_EACH];
            QN_UNROLL
            for (int i = 0; i < QN_TILE_EACH; i++) {
                x[i] = as[k * QN_TILE_PITCH + qn_tile_row(i)];
                y[i] = bs[k * QN_TILE_PITCH + qn_tile_column(i)];
            }
            QN_UNROLL
            for (int i = 0; i < QN_TILE_EACH; i++)
                QN_UNROLL
                for (int j = 0; j < QN_TILE_EACH; j++)
                    sum[i][j] += x[i] * y[j];
        }
        __syncthreads();
    }
}

#endif

#endif

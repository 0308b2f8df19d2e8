/* SPDX-License-Identifier: Apache-2.0 */
/*
 * [N, C, H, W] <-> [N, H, W, C]: per image a transpose of a matrix. A block
 * moves tiles of 32 x 32 through shared memory, both sides in runs of 32
 * elements; one column of padding keeps a tile's columns in different banks.
 * Few channels (or pixels) would leave most of a tile empty: then a thread
 * gathers single elements, whose neighbours lie in the same lines.
 */
#include "runtime/cuda/kernels/order.h"

template <class T> QN_DEVICE void run_tiles(const qn_order_args &g)
{
    enum { TILE = QN_ORDER_TILE, PITCH = TILE + 1 };
    QN_SHARED(T, tile, TILE *PITCH);
    const T *x = (const T *)g.x;
    T *y = (T *)g.y;
    int lane = threadIdx.x % TILE, warp = threadIdx.x / TILE;
    const int warps = QN_ORDER_THREADS / TILE;
    for (int64_t item = blockIdx.x; item < g.items; item += gridDim.x) {
        int64_t column, row;
        int64_t rest = qn_fastdiv_divmod(&g.col_tiles, item, &column);
        int64_t image = qn_fastdiv_divmod(&g.row_tiles, rest, &row);
        int64_t base = image * g.rows * g.cols;
        row *= TILE;
        column *= TILE;
        for (int r = warp; r < TILE; r += warps)
            if (row + r < g.rows && column + lane < g.cols)
                tile[r * PITCH + lane] =
                    x[base + (row + r) * g.cols + column + lane];
        __syncthreads();
        for (int c = warp; c < TILE; c += warps)
            if (column + c < g.cols && row + lane < g.rows)
                y[base + (column + c) * g.rows + row + lane] =
                    tile[lane * PITCH + c];
        __syncthreads();
    }
}

template <class T> QN_DEVICE void run_single(const qn_order_args &g)
{
    const T *x = (const T *)g.x;
    T *y = (T *)g.y;
    for (int64_t i = qn_global_index(); i < g.items; i += qn_global_threads()) {
        int64_t column, row;
        int64_t rest = qn_fastdiv_divmod(&g.row_tiles, i, &row);
        int64_t image = qn_fastdiv_divmod(&g.col_tiles, rest, &column);
        y[i] = x[(image * g.rows + row) * g.cols + column];
    }
}

template <class T> QN_DEVICE void run_fill(const qn_order_fill_args &g)
{
    for (int64_t i = qn_global_index(); i < g.count; i += qn_global_threads())
        ((T *)g.y)[i] = (T)g.value;
}

#define ORDER(size, T)                                                         \
    QN_KERNEL_BOUNDS(order_tiles_##size, QN_ORDER_THREADS, qn_order_args, g)   \
    {                                                                          \
        run_tiles<T>(g);                                                       \
    }                                                                          \
    QN_KERNEL_BOUNDS(order_single_##size, QN_ORDER_THREADS, qn_order_args, g)  \
    {                                                                          \
        run_single<T>(g);                                                      \
    }                                                                          \
    QN_KERNEL_BOUNDS(order_fill_##size, QN_ORDER_THREADS, qn_order_fill_args,  \
                     g)                                                        \
    {                                                                          \
        run_fill<T>(g);                                                        \
    }
ORDER(1, uint8_t)
ORDER(2, uint16_t)
ORDER(4, uint32_t)
ORDER(8, uint64_t)

/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of kernels/order.cu. */
#ifndef QN_CUDA_KERNELS_ORDER_H
#define QN_CUDA_KERNELS_ORDER_H

#include "runtime/cuda/kernels/device.h"

enum {
    QN_ORDER_TILE = 32, /* rows and columns of a tile */
    QN_ORDER_THREADS = 256,
    QN_ORDER_NARROW = 8 /* so few rows or columns: no tiles */
};

/* Images of rows x cols elements become cols x rows. */
struct qn_order_args {
    const void *x;
    void *y;
    int64_t rows, cols, items; /* tiles, or elements where there are none */
    struct qn_fastdiv row_tiles, col_tiles; /* elements: rows, cols */
};

/* `count` elements become the low bytes of `value`. */
struct qn_order_fill_args {
    void *y;
    int64_t count;
    uint64_t value;
};

#endif

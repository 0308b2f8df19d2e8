/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of matmul.cu. */
#ifndef QN_CUDA_KERNELS_MATMUL_H
#define QN_CUDA_KERNELS_MATMUL_H

#include <stdint.h>

enum { QN_MATMUL_RANK = 10, QN_MATMUL_TILE = 64, QN_MATMUL_THREADS = 256 };

/*
 * out[i] = act(alpha A[i] B[i] + beta C + residual[i]) for `batches` matrices i
 * of m rows and n columns. Steps are in elements. Number i is written in `dims`;
 * its digits times step_a and step_b lead to the operands.
 */
struct qn_matmul_args {
    const void *a, *b;
    const void *c;        /* NULL: none */
    const void *residual; /* as out, which it may be; NULL: none */
    void *out;
    int64_t m, n, k, batches;
    int64_t a_row, a_col, b_row, b_col;
    int64_t c_row, c_col; /* 0 where C is broadcast */
    int64_t tiles_m, tiles_n;
    double alpha, beta;
    int64_t dims[QN_MATMUL_RANK];
    int64_t step_a[QN_MATMUL_RANK], step_b[QN_MATMUL_RANK];
    int32_t rank;
    int32_t act; /* qn_act; for float only */
    float act_a, act_b;
};

/* out[i][j] = c[i % m * c_row + j * c_col], rows x n, one element type. */
struct qn_matmul_spread_args {
    const void *c;
    void *out;
    int64_t rows, m, n, c_row, c_col;
};

/* out = act(out), n floats. */
struct qn_matmul_finish_args {
    float *out;
    int64_t n;
    int32_t act;
    float act_a, act_b;
};

/* n floats rounded to 16 bits. */
struct qn_matmul_cast_args {
    const float *from;
    uint16_t *to;
    int64_t n;
};

#endif

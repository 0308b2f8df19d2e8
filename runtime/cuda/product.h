/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch of matrix products: by cuBLASLt where it has an algorithm for it, else
 * by the own kernel of kernels/matmul.cu (integers, k = 0, batches that do not
 * collapse, types that the library refuses).
 */
#ifndef QN_CUDA_PRODUCT_H
#define QN_CUDA_PRODUCT_H

#include "runtime/cuda/kernel.h"

/*
 * out[i] = act(alpha op(A) op(B) + beta C + residual[i]); A is [m, k], or [k, m]
 * with trans_a, B [k, n] or [n, k]. Batch number i is written in `dims`; its
 * digits times step_a and step_b (in matrices, 0 where broadcast) lead to the
 * operands.
 */
typedef struct qn_cuda_product_of {
    qn_dtype in, out; /* equal; or F16 / BF16 in, F32 out */
    qn_precision precision; /* matters for F32 */
    bool trans_a, trans_b;
    int64_t m, n, k;
    int rank; /* of the batch; 0: one product */
    int64_t dims[QN_MAX_RANK], step_a[QN_MAX_RANK], step_b[QN_MAX_RANK];
    double alpha, beta;
    int64_t c_rows, c_cols; /* of C: 0, 0 if absent, else 1 or m, 1 or n */
    bool residual;
    qn_act act; /* F32 only */
    float act_a, act_b;
} qn_cuda_product_of;

typedef struct qn_cuda_product qn_cuda_product; /* in the plan's region */

/* For prepare(); *workspace: bytes that launch needs, 256-aligned. QN_NO_MEMORY,
 * QN_TOO_LARGE, and what the library and the driver say. */
QN_NODISCARD qn_status qn_cuda_product_prepare(qn_prepare *q,
                                               const qn_cuda_product_of *of,
                                               const qn_cuda_product **out,
                                               size_t *workspace,
                                               qn_error *err);
/* For launch(). out may be residual, or C where that is [m, n]. */
QN_NODISCARD qn_status qn_cuda_product_launch(const qn_launch *k,
                                              const qn_cuda_product *p,
                                              const void *a, const void *b,
                                              const void *c,
                                              const void *residual, void *out,
                                              void *workspace);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What MatMul and Gemm have in common: a batch of products. */
#ifndef QN_CPU_MATMUL_H
#define QN_CPU_MATMUL_H

#include "runtime/cpu/gemm/gemm.h"

/*
 * C[batch] = alpha A[batch'] B[batch''] + beta C0, row-major matrices one
 * behind the other; a batch number is written in `dims`, and step_a / step_b
 * (in matrices, 0 where broadcast) lead to the operands. Plan state: no
 * pointers.
 */
typedef struct qn_product {
    const qn_gemm_isa *isa;
    int64_t m, n, k, batches;
    int rank;
    int64_t dims[QN_MAX_RANK], step_a[QN_MAX_RANK], step_b[QN_MAX_RANK];
    bool trans_a, trans_b, packed;
    float alpha, beta;
    int64_t c_rows, c_cols; /* of input 2: 0 if absent, else 1 or M, 1 or N */
    uint32_t residual;      /* input number, UINT32_MAX if none */
    int64_t chunk; /* rows of A converted at once; 0: A is read in place */
    size_t c_floats, a_floats, out_floats; /* workspace, in this order, and
                                              then that of the threads */
} qn_product;

/* From the node and its shapes (also for pack: `in` of constants only). */
void qn_product_make(qn_product *p, const qn_node *node, uint32_t n_in,
                     const qn_tensor *in);
/* Matrix numbers of batch i. */
void qn_product_batch(const qn_product *p, int64_t i, int64_t *a, int64_t *b);

/* All element types but F32, F16 and BF16. */
qn_status qn_product_prepare_other(qn_prepare *q, qn_error *err);
qn_status qn_product_launch_other(const qn_launch *k);

#endif

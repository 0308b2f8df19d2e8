/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products by cuBLASLt. The library is opened by libs.c; one handle per device,
 * shared by all threads, which cuBLASLt allows. Descriptors are set up on the
 * stack of the call that needs them: nothing is allocated, nothing is kept. An
 * algorithm is plain data and lives in the plan's state; it is chosen by the
 * library's heuristic once, at prepare(), and only among those that add in one
 * order (no split sums), so that bits do not depend on what else runs.
 */
#ifndef QN_CUDA_BLAS_H
#define QN_CUDA_BLAS_H

#include "runtime/device/accel.h"

/*
 * A batch of row-major products
 *
 *     D[i] = act(alpha op(A[i]) op(B[i]) + beta C[i] + bias)
 *
 * A is [m, k] ([k, m] with trans_a), B [k, n] ([n, k] with trans_b), C and D
 * [m, n], bias [n]; rows lie next to each other. Matrices i are step_x elements
 * apart, 0: the same one each time.
 */
typedef struct qn_cuda_gemm {
    qn_dtype in, out; /* of A and B; of C, D and bias: F32, F64, F16, BF16; out
                         may be F32 where in is F16 or BF16 */
    bool tf32;        /* in F32: inputs rounded to 10 bits of mantissa */
    bool trans_a, trans_b;
    int64_t m, n, k, batches;
    int64_t step_a, step_b, step_d;
    double alpha, beta;
    bool bias, relu; /* relu: NaN becomes 0, as the library does it */
} qn_cuda_gemm;

/* Part of a kernel's state. */
typedef struct qn_cuda_gemm_plan {
    qn_cuda_gemm g;
    bool found[2];        /* [0]: all addresses on 16 bytes, [1]: any */
    uint64_t algo[2][8];  /* cublasLtMatmulAlgo_t */
    size_t workspace;     /* bytes, 256-aligned address */
} qn_cuda_gemm_plan;

/* Asks the heuristic; for prepare(). *ok false: the library has nothing for this
 * product (no error). QN_DEVICE when it fails. */
QN_NODISCARD qn_status qn_cuda_gemm_plan_make(qn_accel *accel,
                                              const qn_cuda_gemm *g,
                                              qn_cuda_gemm_plan *out, bool *ok,
                                              qn_error *err);

/* Whether there is an algorithm for these addresses. */
bool qn_cuda_gemm_serves(const qn_cuda_gemm_plan *p, const void *a,
                         const void *b, const void *c, const void *d);

/* Enqueues; for launch(). c may be d, and may be NULL if beta is 0; bias NULL
 * unless g.bias. QN_DEVICE, QN_UNSUPPORTED if !qn_cuda_gemm_serves(). */
QN_NODISCARD qn_status qn_cuda_gemm_run(const qn_launch *k,
                                        const qn_cuda_gemm_plan *p,
                                        const void *a, const void *b,
                                        const void *c, void *d,
                                        const void *bias, void *workspace);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions by cuDNN's graph API. An operation graph is
 *
 *     y = relu(conv(x, w) + residual + bias)
 *
 * with whatever of the last three is asked for; the library chooses an engine
 * and builds an execution plan, which takes milliseconds and happens in
 * prepare() only.
 *
 * Ownership: an execution plan holds memory of the library, and a kernel's state
 * has no destructor. So plans belong to the device, in a table keyed by the
 * problem, and go when the device is closed; a state holds a pointer. Two layers
 * of one shape share a plan. The table is bounded: beyond QN_CUDA_DNN_PLANS
 * problems the own kernels of conv.cu serve.
 */
#ifndef QN_CUDA_DNN_H
#define QN_CUDA_DNN_H

#include "runtime/device/accel.h"

enum { QN_CUDA_DNN_PLANS = 2048, QN_CUDA_DNN_DIMS = 5 };

/* A problem. Compared byte by byte: zero it first. All tensors are row-major,
 * [N, C, spatial...] with `rank` 4 or 5 dimensions. */
typedef struct qn_cuda_dnn_conv {
    int64_t x[QN_CUDA_DNN_DIMS], w[QN_CUDA_DNN_DIMS], y[QN_CUDA_DNN_DIMS];
    int64_t stride[3], dilation[3], pad[3]; /* [rank - 2]; pad on both sides */
    int32_t rank;
    int32_t dtype;      /* QN_F32, QN_F16 or QN_BF16; sums are float */
    int32_t tf32;       /* F32: engines that round inputs may be chosen */
    int32_t transposed; /* w is [C of x, M / group, ...] */
    int32_t bias, residual, relu;
    int32_t unused;
} qn_cuda_dnn_conv;

typedef struct qn_cuda_dnn_plan qn_cuda_dnn_plan;

/* The plan for a problem, made if it is new; *out NULL: no engine that keeps
 * the numeric rules does it (no error). Engines whose sums depend on timing are
 * never taken; for F32 without tf32 neither are those that round inputs, nor
 * Winograd and FFT ones. For prepare(). QN_NO_MEMORY, QN_DEVICE. */
QN_NODISCARD qn_status qn_cuda_dnn_find(qn_accel *accel,
                                        const qn_cuda_dnn_conv *problem,
                                        const qn_cuda_dnn_plan **out,
                                        qn_error *err);
size_t qn_cuda_dnn_workspace(const qn_cuda_dnn_plan *plan);

/* Every address has to be on 16 bytes. */
static inline bool qn_cuda_dnn_serves(const void *x, const void *w,
                                      const void *y, const void *bias,
                                      const void *residual)
{
    return (((uintptr_t)x | (uintptr_t)w | (uintptr_t)y | (uintptr_t)bias |
             (uintptr_t)residual) & 15) == 0;
}

/* Enqueues; bias and residual as in the problem, else NULL. residual may be y.
 * Takes the plan's lock while it enqueues (cuDNN's plans are not for several
 * threads at once). For launch(). */
QN_NODISCARD qn_status qn_cuda_dnn_run(const qn_launch *k,
                                       const qn_cuda_dnn_plan *plan,
                                       const void *x, const void *w, void *y,
                                       const void *bias, const void *residual,
                                       void *workspace);

#endif

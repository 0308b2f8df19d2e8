/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of kernels/binary.cu. */
#ifndef QN_CUDA_KERNELS_BINARY_H
#define QN_CUDA_KERNELS_BINARY_H

#include "runtime/cuda/kernels/walk.h"

struct qn_binary_args {
    struct qn_walk walk;
    struct qn_operand in[2];
    void *y;
    int64_t at; /* y's first element in the whole tensor, for faults */
    struct qn_fault_args fault;
    int32_t op; /* QN_PW_* */
    int32_t dtype[2]; /* Pow of mixed types: qn_dtype of both */
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of the kernels that test the emulation. */
#ifndef QN_TESTS_CUDA_TESTKERNELS_H
#define QN_TESTS_CUDA_TESTKERNELS_H

#include <stdint.h>

#include "runtime/cuda/kernels/fastdiv.h"
#include "runtime/cuda/kernels/fault.h"

struct tk_args {
    const void *in; /* meaning by kernel */
    void *out;
    int64_t n;
    int64_t extra;
    struct qn_fault_args fault;
    struct qn_fastdiv divisor;
};

#endif

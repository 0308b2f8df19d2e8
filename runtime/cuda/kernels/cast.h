/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of kernels/cast.cu. */
#ifndef QN_CUDA_KERNELS_CAST_H
#define QN_CUDA_KERNELS_CAST_H

#include "runtime/cuda/kernels/walk.h"

enum { QN_CAST_WIDTH = 4 }; /* elements of one access, for every type */

struct qn_cast_args {
    struct qn_walk walk;
    struct qn_operand x;
    void *y;
    int32_t from, to; /* qn_dtype */
    int32_t wrap;     /* `saturate` is 0 */
    int32_t round;    /* CV_UP ..., of float8e8m0 */
};

#endif

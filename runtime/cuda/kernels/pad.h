/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of kernels/pad.cu. */
#ifndef QN_CUDA_KERNELS_PAD_H
#define QN_CUDA_KERNELS_PAD_H

#include "runtime/cuda/kernels/fastdiv.h"

enum { QN_PAD_DIMS = 11 }; /* QN_MAX_RANK axes, and what lies inside them */

/* Output index o of an axis is input index first + (o - before), if that is in
 * the window [first, first + n). Axis 0 is the innermost. */
struct qn_pad_axis {
    struct qn_fastdiv div; /* by out */
    int64_t out, before, first, n;
    int64_t stride; /* of the input, units */
};

struct qn_pad_args {
    const void *src;
    void *dst;
    const void *value; /* one element on the device; NULL: `fill` */
    int64_t n;     /* output units */
    uint32_t mode; /* qn_pad_mode */
    uint32_t unit; /* bytes: 1, 2, 4, 8, 16 */
    uint32_t size; /* of an element, bytes */
    uint32_t wide; /* n is 2^31 or more */
    int32_t rank;
    unsigned char fill[16];
    struct qn_pad_axis axes[QN_PAD_DIMS];
};

#endif

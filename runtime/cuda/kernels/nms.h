/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of nms.cu. */
#ifndef QN_CUDA_KERNELS_NMS_H
#define QN_CUDA_KERNELS_NMS_H

#include "runtime/cuda/kernels/fault.h"

enum { QN_NMS_THREADS = 512 };

struct qn_nms_args {
    const float *boxes;  /* [batches, n, 4] */
    const float *scores; /* [batches, classes, n] */
    const float *iou, *score; /* thresholds; NULL: 0, none */
    int64_t *out;             /* [rows][3] */
    uint64_t *keys;           /* [pairs][n] candidates */
    int32_t *kept;            /* [pairs][most] */
    int64_t *counts;          /* [pairs + 1] */
    int64_t pairs, classes, n, most;
    int32_t center; /* boxes are x, y, width, height */
    struct qn_fault_args fault;
};

#endif

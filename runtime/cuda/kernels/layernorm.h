/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of layernorm.cu: rows of n. */
#ifndef QN_CUDA_KERNELS_LAYERNORM_H
#define QN_CUDA_KERNELS_LAYERNORM_H

#include <stdint.h>

enum { QN_LAYER_RANK = 10, QN_LAYER_SHORT = 256, QN_LAYER_LONG = 1024 };

/* A parameter; its strides along the axes of x, 0 where it broadcasts. */
struct qn_layer_param {
    const void *data; /* NULL: none */
    int32_t dtype;
    int64_t stride[QN_LAYER_RANK];
};

struct qn_layer_args {
    const void *x;
    void *y, *mean, *inv; /* mean, inv NULL: not wanted */
    int64_t rows, n;
    double epsilon;
    int32_t rms;
    int32_t stat_type, x_type, y_type;
    int32_t rank; /* of x */
    int64_t dims[QN_LAYER_RANK];
    struct qn_layer_param scale, bias;
};

#endif

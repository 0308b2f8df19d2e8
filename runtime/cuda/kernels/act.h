/* SPDX-License-Identifier: Apache-2.0 */
/* Activations that kernels apply behind their own work: qn_act of
 * runtime/graph/graph.h, on floats, as runtime/cpu/simd/gemm.c has them. */
#ifndef QN_CUDA_KERNELS_ACT_H
#define QN_CUDA_KERNELS_ACT_H

#include "runtime/cuda/kernels/device.h"

/* the numbers of qn_act; product.c checks that they agree */
enum {
    QN_DEVICE_ACT_NONE,
    QN_DEVICE_ACT_RELU,
    QN_DEVICE_ACT_CLIP,
    QN_DEVICE_ACT_LEAKY,
    QN_DEVICE_ACT_SIGMOID,
    QN_DEVICE_ACT_TANH,
    QN_DEVICE_ACT_HARD_SIGMOID,
    QN_DEVICE_ACT_HARD_SWISH
};

#ifdef __cplusplus

/* NaN passes through all of them. */
QN_DEVICE float qn_device_act(int act, float a, float b, float x)
{
    float y;
    switch (act) {
    case QN_DEVICE_ACT_RELU:
        return x < 0.0f ? 0.0f : x;
    case QN_DEVICE_ACT_CLIP:
        y = x < a ? a : x; /* b where the bounds are the wrong way round */
        return y > b ? b : y;
    case QN_DEVICE_ACT_LEAKY:
        return x < 0.0f ? a * x : x;
    case QN_DEVICE_ACT_SIGMOID:
        return 1.0f / (1.0f + expf(-x));
    case QN_DEVICE_ACT_TANH:
        return tanhf(x);
    case QN_DEVICE_ACT_HARD_SIGMOID:
        y = a * x + b;
        y = y > 1.0f ? 1.0f : y;
        return y < 0.0f ? 0.0f : y;
    case QN_DEVICE_ACT_HARD_SWISH:
        y = x * (1.0f / 6.0f) + 0.5f;
        y = y > 1.0f ? 1.0f : y;
        return x * (y < 0.0f ? 0.0f : y);
    default:
        return x;
    }
}

#endif

#endif

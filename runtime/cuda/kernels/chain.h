/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of kernels/chain.cu: the program travels with the launch. */
#ifndef QN_CUDA_KERNELS_CHAIN_H
#define QN_CUDA_KERNELS_CHAIN_H

#include "runtime/cuda/kernels/walk.h"

enum {
    QN_CHAIN_ARG_INPUTS = 8, /* QN_CHAIN_INPUTS, QN_CHAIN_STEPS */
    QN_CHAIN_ARG_STEPS = 16,
    /* where a step's operand is */
    QN_CHAIN_ARG_NONE = 0,
    QN_CHAIN_ARG_CONST = 1,
    QN_CHAIN_ARG_INPUT = 2
};

struct qn_chain_arg {
    int32_t op; /* QN_PW_* */
    int32_t kind, input, left;
    float a, b;
};

struct qn_chain_args {
    struct qn_walk walk;
    struct qn_operand in[QN_CHAIN_ARG_INPUTS];
    void *y;
    int32_t n;
    struct qn_chain_arg steps[QN_CHAIN_ARG_STEPS];
};

#endif

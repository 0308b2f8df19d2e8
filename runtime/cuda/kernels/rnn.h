/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of rnn.cu. */
#ifndef QN_CUDA_KERNELS_RNN_H
#define QN_CUDA_KERNELS_RNN_H

#include "runtime/cuda/kernels/fault.h"

enum {
    QN_RNN_THREADS = 128, /* of a step: four warps */
    QN_RNN_ROWS = 4,      /* of the batch, that a warp takes at once */
    QN_RNN_LAYER_THREADS = 512 /* of a whole layer, at most; double: half */
};

struct qn_rnn_fn_args {
    int32_t act; /* qn_rnn_act */
    float alpha, beta;
};

/*
 * One LSTM, GRU or RNN layer, D directions, G gates, batch B, hidden size H.
 * SUM is float, or double for double; T the type of the tensors.
 */
struct qn_rnn_args {
    const void *gates;   /* SUM [T B rows as x, D, G, H]: x W' */
    const void *r;       /* T [D, G, H, H] */
    const void *bias;    /* T [D, 2, G, H]; NULL: 0 */
    const void *peep;    /* T [D, 3, H]; NULL: none */
    const int32_t *lens; /* [B]; NULL: all steps */
    const void *h0, *c0; /* T [D, B, H] or [B, D, H]; NULL: 0 */
    void *y;             /* T [steps, D, B, H] or [B, steps, D, H]; NULL: none */
    void *y_h, *y_c;     /* as h0; NULL: none */
    /* SUM [D, B, H]: the state before and after even steps; c, or the update
     * gate of GRU; reset gate times state. Not for whole layers. */
    void *h[2], *c, *rh;
    int64_t steps, batch, hidden;
    int64_t step;        /* which one */
    int32_t dtype;       /* 0 SUM, 1 half, 2 bfloat16 */
    int32_t directions, reverse, batch_first;
    int32_t input_forget, linear_before_reset;
    int32_t phase; /* GRU: 0 all, 1 update and reset gates, 2 the third */
    int32_t rows;  /* of the batch, a block of a whole layer */
    float clip;    /* 0: none */
    struct qn_rnn_fn_args fn[2][3];
    struct qn_fault_args fault;
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* LSTM, GRU and RNN: one reading of their attributes and shapes. */
#ifndef QN_OPS_RNN_H
#define QN_OPS_RNN_H

#include "runtime/ops/op.h"

typedef enum qn_rnn_kind { QN_RNN, QN_GRU, QN_LSTM } qn_rnn_kind;

typedef enum qn_rnn_act {
    QN_RNN_AFFINE,
    QN_RNN_RELU,
    QN_RNN_LEAKY,
    QN_RNN_THRESHOLDED,
    QN_RNN_TANH,
    QN_RNN_SCALED_TANH,
    QN_RNN_SIGMOID,
    QN_RNN_HARD_SIGMOID,
    QN_RNN_ELU,
    QN_RNN_SOFTSIGN,
    QN_RNN_SOFTPLUS
} qn_rnn_act;

typedef struct qn_rnn_fn {
    qn_rnn_act act;
    float alpha, beta;
} qn_rnn_fn;

typedef struct qn_rnn {
    qn_rnn_kind kind;
    int64_t steps, batch, inputs, hidden;
    int gates;      /* 1, 3, 4 */
    int directions; /* 1 or 2 */
    bool reverse;   /* of the first */
    bool batch_first; /* layout 1 */
    bool input_forget, linear_before_reset;
    float clip; /* 0: none */
    qn_rnn_fn fn[2][3]; /* f, g, h of each direction */
} qn_rnn;

/* Inputs by number, after X W R B. */
enum { QN_RNN_LENS = 4, QN_RNN_H0 = 5, QN_RNN_C0 = 6, QN_RNN_P = 7 };

/* From node and shapes [n_in]; checks them all. QN_SHAPE, QN_INVALID. */
QN_NODISCARD qn_status qn_rnn_read(const qn_node *node, uint32_t n_in,
                                   const qn_tensor *in, qn_rnn *out,
                                   qn_error *err);
/* The kind, and gates, of an operator name. */
qn_rnn_kind qn_rnn_kind_of(const qn_node *node, int *gates);

#endif

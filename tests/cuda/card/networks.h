/* SPDX-License-Identifier: Apache-2.0 */
/* Whole networks with seeded random weights, as ONNX files: what a machine with a
 * card needs no Python, no download and no data set for. */
#ifndef QN_TESTS_CUDA_CARD_NETWORKS_H
#define QN_TESTS_CUDA_CARD_NETWORKS_H

#include "tests/support/pb.h"

enum {
    NETWORK_RESIDUAL,    /* bottlenecks with batch normalisation */
    NETWORK_MOBILE,      /* depthwise convolutions, gates, hard swish */
    NETWORK_SQUEEZE,     /* two branches and a Concat, again and again */
    NETWORK_TRANSFORMER, /* attention by MatMul and Softmax, GELU by erf */
    NETWORK_RECURRENT,   /* LSTM over a sequence, a product behind it */
    NETWORKS
};

const char *network_name(int kind);
/* A model with one input "x" and one output "y", float; batch size 1. `small`:
 * an eighth of the sides, for the emulation. The caller frees it: pb_free(). */
pb network_build(int kind, int small);

#endif

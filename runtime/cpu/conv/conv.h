/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution kernels of the cpu device.
 *
 *   reference.c   any type, plain order, both directions; the oracle
 *   plain.c       float, N C H W in and out: C = W x B, B made tile by tile
 *   last.c        float, N H W C out: row pointers per tap (in N H W C), or
 *                 small tiles of copied windows (in N C H W: a model's input)
 *   depthwise.c   float, one channel per group, both orders
 *   transpose.c   float ConvTranspose, plain order, one product per phase
 */
#ifndef QN_CPU_CONV_CONV_H
#define QN_CPU_CONV_CONV_H

#include "runtime/cpu/gemm/gemm.h"
#include "runtime/ops/conv.h"

/* What a node computes, from physical shapes. QN_CONV_* in runtime/ops/conv.h;
 * checked by infer before. */
QN_NODISCARD qn_status qn_conv_of(const qn_node *node, const qn_tensor *in,
                                  qn_conv *g, qn_error *err);

/* Bias and residual of a launch; NULL where absent. */
const float *qn_conv_bias(const qn_launch *k);
const float *qn_conv_residual(const qn_launch *k);
/* act of the node; bias and residual unset */
qn_gemm_end qn_conv_end(const qn_node *node);

/* Steps of an index (n, d, h, w) through output pixels, innermost last. */
typedef struct qn_conv_at {
    int64_t n, o[QN_CONV_DIMS];
} qn_conv_at;
qn_conv_at qn_conv_pixel(const qn_conv *g, int64_t pixel);
void qn_conv_next(const qn_conv *g, qn_conv_at *at);

/* ---- channels last ---- */

/* How last.c wants the weights: floats; 0 if the size overflows. */
size_t qn_conv_last_packed(const qn_conv *g, bool plain_input);
void qn_conv_last_pack(const qn_conv *g, bool plain_input, const float *w,
                       float *dst);
qn_status qn_conv_last_prepare(qn_prepare *p, qn_error *err);
qn_status qn_conv_last_launch(const qn_launch *k);

/* Row pointers of `n` pixels from `pixel` on: rows[tap * step + i]. `offset` is
 * [taps] distances of the taps of a window inside the image, `zeros` [c]. */
void qn_conv_rows(const qn_conv *g, const int64_t *offset, const float *x,
                  const float *zeros, int64_t pixel, int64_t n, size_t step,
                  const float **rows);
/* Distances of taps in an [H, W, C] image. */
void qn_conv_offsets(const qn_conv *g, int64_t *offset);

/* ---- the others ---- */

qn_status qn_conv_plain_prepare(qn_prepare *p, qn_error *err);
qn_status qn_conv_plain_launch(const qn_launch *k);

/* All of a depthwise convolution in plain order; no workspace. */
qn_status qn_conv_depthwise_plain(const qn_launch *k, const qn_conv *g);

qn_status qn_conv_reference_prepare(qn_prepare *p, qn_error *err);
/* F32, F64, F16, BF16; Conv and ConvTranspose; no activation, no residual. */
qn_status qn_conv_reference(const qn_launch *k);

size_t qn_conv_transpose_packed(const qn_conv *g);
void qn_conv_transpose_pack(const qn_conv *g, const float *w, float *dst);
qn_status qn_conv_transpose_prepare(qn_prepare *p, qn_error *err);
qn_status qn_conv_transpose_launch(const qn_launch *k);

#endif

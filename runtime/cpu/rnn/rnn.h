/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recurrent layers. Per direction, with G gates side by side:
 *
 *     gates [steps x batch, G H] = X W^T + bias      a chunk of steps at once
 *     each step:  gates += h R^T;  h, c = cell(gates, h, c)
 *
 * GRU's third gate needs the second: its part of R is a product of its own.
 * run.h is the recurrence, written once and compiled for float (16-bit types
 * are widened on the way in, rounded on the way out) and for double.
 */
#ifndef QN_CPU_RNN_RNN_H
#define QN_CPU_RNN_RNN_H

#include "runtime/cpu/gemm/gemm.h"
#include "runtime/ops/rnn.h"

/* Plan state; counts are elements of float or double. */
typedef struct qn_rnn_plan {
    qn_rnn r;
    const qn_gemm_isa *isa;
    int64_t chunk; /* steps at once */
    bool packed_w, packed_r;
    size_t w_floats, r_floats, rh_floats; /* packed, of one direction; R's
                                             third gate of GRU follows R */
    /* where things lie in the workspace */
    size_t gates, h, c, bias, extra, x, w, rec;
} qn_rnn_plan;

qn_status qn_rnn_run_f32(const qn_launch *k);
qn_status qn_rnn_run_f64(const qn_launch *k);

/* Columns of R's first product: all gates, for GRU the first two. */
static inline int64_t qn_rnn_early(const qn_rnn *r)
{
    return r->hidden * (r->kind == QN_GRU ? 2 : r->gates);
}

/* Packs W (i 1) or R (i 2) of all directions. */
void qn_rnn_pack(const qn_rnn_plan *p, const qn_tensor *t, uint32_t i,
                 float *dst);

#endif

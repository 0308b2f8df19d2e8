/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the parts of the Resize kernel: for each axis a map from output index
 * to input indices and weights. Maps lie in the launch's workspace, where they
 * are leased like all else, and are rebuilt by each launch: they have as many
 * entries as the axes are long, the work as many as their product.
 */
#ifndef QN_CPU_RESIZE_H
#define QN_CPU_RESIZE_H

#include "runtime/exec/kernel.h"
#include "runtime/ops/resize.h"

/* Output index o of an axis is sum over t < taps of
 * weight[o * taps + t] * input[index[o * taps + t]]. */
typedef struct axis_map {
    int64_t in, out;
    int64_t taps;    /* nearest: 1, and no weights */
    int64_t repeat;  /* nearest: index[o] = o / repeat for all o; else 0 */
    bool same;       /* identity: no tables */
    int64_t *index;  /* nearest: -1 for outside */
    float *weight;
    uint8_t *outside; /* crops: output gets the extrapolation value */
} axis_map;

typedef struct resize_plan {
    qn_resize args;
    int rank;
    axis_map axes[QN_MAX_RANK]; /* in memory order */
    int memory[QN_MAX_RANK]; /* place in memory of each logical axis */
    const qn_resize_axis *logical[QN_MAX_RANK]; /* what each maps */
    size_t map_bytes;           /* workspace for all tables */
} resize_plan;

/* Sizes only: no table is built. */
QN_NODISCARD qn_status resize_plan_init(const qn_node *node, uint32_t n_in,
                                        const qn_tensor *in, resize_plan *out,
                                        qn_error *err);
/* Place tables in workspace[map_bytes] and fill them. */
void resize_plan_maps(resize_plan *plan, void *workspace);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copy between two strided views of the same logical shape: what Transpose,
 * Slice, Concat, Split, Expand, Tile, DepthToSpace come down to.
 *
 * Describe the loop nest outermost first with qn_strided_add(), one dimension a
 * call, strides in elements (negative: backwards; 0 in the input: repeated).
 * Order does not matter for the result. Both views lie inside their tensors;
 * the output's elements are distinct and do not overlap the input.
 */
#ifndef QN_CPU_STRIDED_H
#define QN_CPU_STRIDED_H

#include "runtime/exec/kernel.h"
#include "runtime/ops/move.h"

enum { QN_STRIDED_RANK = 2 * QN_MAX_RANK };

/* Zero-initialise. */
typedef struct qn_strided {
    int rank;
    int64_t dims[QN_STRIDED_RANK], in[QN_STRIDED_RANK], out[QN_STRIDED_RANK];
} qn_strided;

/* A dimension of 1 is dropped, one that continues the dimension before it in
 * both views is merged with it. */
void qn_strided_add(qn_strided *s, int64_t dim, int64_t in, int64_t out);

/* `in` and `out` point at the element with all indices 0; `size` is an
 * element's bytes: 1, 2, 4, 8 or 16. */
void qn_strided_copy(qn_team *team, const qn_strided *s, size_t size,
                     const void *in, void *out);

/* Fill n elements at `out` with the one at `value`. */
void qn_fill(void *out, const void *value, size_t size, int64_t n);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of kernels/strided.cu. Strides are in units. */
#ifndef QN_CUDA_KERNELS_STRIDED_H
#define QN_CUDA_KERNELS_STRIDED_H

#include "runtime/cuda/kernels/fastdiv.h"

enum {
    QN_STRIDED_DIMS = 20, /* Tile takes two loops an axis */
    QN_TILE_LANES = 32,   /* words in a row of a tile */
    QN_TILE_ROWS = 8      /* threads of a block: LANES x ROWS */
};

/* Dimension 0 is the innermost. */
struct qn_strided_dims {
    int32_t rank;
    struct qn_fastdiv div[QN_STRIDED_DIMS];
    int64_t dim[QN_STRIDED_DIMS], in[QN_STRIDED_DIMS], out[QN_STRIDED_DIMS];
};

/* qn_strided_units: units one by one. qn_strided_vectors: 16 bytes of the
 * output are gathered from elements `step` apart in the input. */
struct qn_strided_args {
    const void *src;
    void *dst;
    int64_t n;     /* units, or vectors */
    int64_t step;  /* vectors only */
    uint32_t unit; /* bytes: 1, 2, 4, 8, 16; vectors: of an element */
    uint32_t wide; /* n is 2^31 or more: no div[] */
    struct qn_strided_dims d; /* vectors: in[] counts elements, out[] vectors */
};

/* qn_strided_tiles: out[r * out_m + c] = in[r + c * in_n], r < m, c < n, for
 * each position of the outer dimensions `d`. */
struct qn_tile_args {
    const void *src;
    void *dst;
    uint32_t unit;  /* bytes */
    uint32_t pack;  /* units in a word of shared memory: 1, 2, 4 */
    int64_t tiles;  /* below 2^31 */
    int64_t m, n, in_n, out_m;
    struct qn_fastdiv tiles_m, tiles_n;
    struct qn_strided_dims d;
};

#endif

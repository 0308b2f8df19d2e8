/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of kernels/concat.cu: rows of a whole tensor, cut into parts. */
#ifndef QN_CUDA_KERNELS_CONCAT_H
#define QN_CUDA_KERNELS_CONCAT_H

#include "runtime/cuda/kernels/fastdiv.h"

enum { QN_CONCAT_PARTS = 24 }; /* of one launch */

/* Part i holds `rows` rows of at[i + 1] - at[i] units, which are units at[i]
 * and on of each row of the whole. All counts are in units. */
struct qn_concat_args {
    void *whole;
    int64_t n;      /* units that this launch moves: rows * width */
    int64_t pitch;  /* of a row of the whole */
    int64_t width;  /* at[parts] - at[0] */
    struct qn_fastdiv by_width; /* if n is below 2^31 */
    uint32_t unit;  /* bytes: 1, 2, 4, 8, 16 */
    uint32_t parts;
    uint32_t split; /* whole to parts; else parts to whole */
    uint32_t wide;  /* n is 2^31 or more */
    int64_t at[QN_CONCAT_PARTS + 1];
    void *part[QN_CONCAT_PARTS]; /* NULL: left out */
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of kernels/shape.cu. */
#ifndef QN_CUDA_KERNELS_SHAPE_H
#define QN_CUDA_KERNELS_SHAPE_H

#include <stdint.h>

enum {
    QN_WORDS = 10,        /* QN_MAX_RANK */
    QN_DROP_THREADS = 256 /* of the one block of qn_dropout */
};

struct qn_words_args {
    int64_t *dst;
    int64_t n;
    int64_t words[QN_WORDS];
};

/* `n` units, all equal; then `tail` bytes, which begin the unit again. */
struct qn_fill_args {
    void *dst;
    int64_t n;
    uint32_t unit; /* bytes: 1, 2, 4, 8, 16 */
    uint32_t tail;
    unsigned char value[16];
};

/* start + i * delta: floats in double, integers modulo 2^64 */
struct qn_range_args {
    void *dst;
    int64_t n;
    double start, delta;
    uint64_t first, step;
    uint32_t dtype;
};

struct qn_dropout_args {
    const void *src;
    void *dst;     /* may be src; NULL: only the mask */
    uint8_t *mask; /* NULL: no mask */
    int64_t n;
    double ratio, scale;
    uint32_t dtype, seed;
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's half of elementwise kernels: merge dimensions at prepare(), cut
 * what is too long and look at addresses at launch().
 */
#ifndef QN_CUDA_WALK_H
#define QN_CUDA_WALK_H

#include "runtime/cuda/kernel.h"
#include "runtime/cuda/kernels/walk.h"

enum { QN_CUDA_OPERANDS = 8 };

/* Operands against an output, merged. Immutable once made. */
typedef struct qn_cuda_merge {
    int n, rank;   /* rank 1 or more */
    int64_t total; /* output elements */
    int64_t dims[QN_WALK_RANK];
    int64_t stride[QN_CUDA_OPERANDS][QN_WALK_RANK]; /* elements */
} qn_cuda_merge;

/* Operands of `shapes` [n] that broadcast to `out` by NumPy's rule. */
void qn_cuda_merge_init(qn_cuda_merge *m, const qn_shape *out, int n,
                        const qn_shape *const *shapes);

/* The launches that a merge takes: parts of at most `most` output elements
 * (QN_WALK_MOST but in tests). Init, then next() until it is false. */
typedef struct qn_cuda_part {
    const qn_cuda_merge *m;
    int cut;       /* dimensions before it have one index in a part */
    int64_t chunk; /* of dims[cut] in a part */
    int64_t next;  /* number of the next part */
    /* this part: its first elements, and how much of dims[cut] */
    int64_t out_at, at[QN_CUDA_OPERANDS], rows, total;
} qn_cuda_part;

void qn_cuda_part_init(qn_cuda_part *p, const qn_cuda_merge *m, int64_t most);
bool qn_cuda_part_next(qn_cuda_part *p);

/* Fills `walk`. Vector mode if `width` elements can be one access in all of
 * `data` [m->n], with elements of `size` [m->n] bytes, and in `out`. */
void qn_cuda_part_walk(const qn_cuda_part *p, const void *const *data,
                       const size_t *size, const void *out, size_t out_size,
                       int width, struct qn_walk *walk);
/* Operand k from this part's first element on. */
void qn_cuda_part_operand(const qn_cuda_part *p, int k, const void *data,
                          size_t size, struct qn_operand *out);
static inline void *qn_cuda_part_out(const qn_cuda_part *p, void *out,
                                     size_t size)
{
    return (char *)out + (size_t)p->out_at * size;
}

/* For `total` elements, `width` of them a thread at a time. */
static inline qn_cuda_grid qn_cuda_walk_grid(const qn_accel *accel,
                                             int64_t total, int width)
{
    return qn_cuda_grid_stride(
        accel, total < QN_WALK_MOST ? total : QN_WALK_MOST, width,
        QN_WALK_THREADS, 4);
}

/* Elements in 16 bytes, for kernels that move elements of these sizes. */
static inline int qn_cuda_width(size_t a, size_t b)
{
    return (int)(16 / (a > b ? a : b));
}

/* "f32", "u8" ...: the ends of kernels' names. NULL: strings. */
const char *qn_cuda_suffix(qn_dtype dtype);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of norm.cu. */
#ifndef QN_CUDA_KERNELS_NORM_H
#define QN_CUDA_KERNELS_NORM_H

#include "runtime/cuda/kernels/fastdiv.h"

enum {
    QN_NORM_THREADS = 256,
    QN_NORM_ITEMS = 256, /* fewer items than this are split */
    QN_NORM_SPLITS = 64,
    QN_NORM_SHARE = 16384 /* elements of a share, at least */
};

/* Mean of a share, and the sum of squared differences from it. */
struct qn_norm_stat {
    double count, mean, squares;
};

/* A parameter of any float type. */
struct qn_norm_param {
    const void *data;
    int32_t dtype;
};

/* [batch, channels, size], or channels last: [batch, size, channels]. */
struct qn_batch_args {
    const void *x;
    void *y;
    int64_t count, batch, channels, size;
    struct qn_fastdiv by_size, by_channels;
    int32_t last, each; /* each: elements of a thread, 1 or 16 bytes */
    double epsilon;
    struct qn_norm_param scale, bias, mean, var;
    /* training: statistics found, and where else they go (NULL: nowhere) */
    double momentum;
    double *new_mean, *new_var; /* [channels] */
    void *out[4];               /* running mean and var, saved mean and var */
    int32_t out_type[4];
};

/* items = batch x groups, each `run` = group x size contiguous elements. */
struct qn_group_args {
    const void *x;
    void *y;
    int64_t items, groups, group, size, run;
    int64_t splits, per_split;
    struct qn_fastdiv by_size;
    int32_t scale_by_group;
    double epsilon;
    struct qn_norm_param scale, bias;
    struct qn_norm_stat *stats; /* [items][splits] */
};

#endif

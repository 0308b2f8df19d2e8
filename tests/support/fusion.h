/* SPDX-License-Identifier: Apache-2.0 */
/* Models for tests of the fusion passes, on any device: built anew for each
 * session, run once, compared. All of these fail the test on an error. */
#ifndef QN_TESTS_SUPPORT_FUSION_H
#define QN_TESTS_SUPPORT_FUSION_H

#include "runtime/exec/session.h"

enum { FUSION_OUTPUTS = 4 };

typedef struct fusion_model {
    qn_region region; /* constants */
    qn_graph *g;
    qn_dtype dtype; /* F32, F16 or BF16, of everything */
    uint64_t state; /* of random numbers */
    uint32_t n_inputs;
} fusion_model;

typedef void (*fusion_build)(fusion_model *m, const void *arg);

/* 32 random bits. */
uint32_t fusion_random(fusion_model *m);
/* Inputs are filled with the same random numbers in [-2, 2] in each run. */
qn_value_id fusion_input(fusion_model *m, int rank, const int64_t *dims);
qn_value_id fusion_number(fusion_model *m, double value);
/* Random numbers in [-most, most]. */
qn_value_id fusion_weights(fusion_model *m, int rank, const int64_t *dims,
                           double most);

typedef struct fusion_answer {
    qn_region region;
    uint32_t n;
    qn_tensor out[FUSION_OUTPUTS];
    qn_plan_fused fused;
    uint32_t launches;
} fusion_answer;

/* One run: on the cpu, or on the runtime's first accelerator. Release it. */
void fusion_run(qn_runtime *runtime, fusion_build build, const void *arg,
                qn_dtype dtype, bool accel, bool no_passes,
                fusion_answer *out);
void fusion_release(fusion_answer *a);
/* NaNs are equal to each other. `what` names the case. */
void fusion_same_bits(const fusion_answer *want, const fusion_answer *got,
                      const char *what);
void fusion_close(const fusion_answer *want, const fusion_answer *got,
                  double rtol, double atol, const char *what);

/* ---- models ---- */

/* A random graph of elementwise operators whose values often have one reader;
 * arg: const uint64_t *, the seed. */
void fusion_elementwise(fusion_model *m, const void *arg);

/* Attention as exporters write it, and what is none. */
typedef struct fusion_attention {
    const char *what;
    int rank;            /* 4, or 3 without batches */
    int64_t b, h, g, s, t, d, e; /* as in runtime/ops/attention.c */
    enum { GIVEN, TRANSPOSED, SPLIT, TURNED } keys; /* K^T is an input; of
        [.., T, D]; of [B, T, G, D]; with its axes as no model has them */
    enum { PLAIN, SCORES_DIV, SCORES_MUL, BOTH_MUL, QUERY_DIV, ZERO } scale;
    int mask_rank; /* 0: none; then its dimensions */
    int64_t mask[4];
    int64_t axis;        /* of the softmax */
    bool leaks;          /* somebody else reads the scores */
    bool transposed_is_read; /* ... K^T */
    uint32_t found;      /* 1 if it is to be replaced */
} fusion_attention;
extern const fusion_attention fusion_attentions[];
extern const size_t fusion_n_attentions;
void fusion_attend(fusion_model *m, const void *arg);

/* A transformer's layer of 2 heads: attention with a mask, projections with
 * bias and residual, Gelu by Erf, normalisation in pieces. arg unused. */
void fusion_block(fusion_model *m, const void *arg);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random kernel graphs and a naive way to run them. The same seed gives the same
 * graph each time it is built; every node was evaluated while it was added, so a
 * graph is valid for the inputs it was made with (set 0).
 */
#ifndef QN_TESTS_SUPPORT_RANDOM_GRAPH_H
#define QN_TESTS_SUPPORT_RANDOM_GRAPH_H

#include "runtime/graph/graph.h"

#include <stdio.h>

enum { RG_INPUTS = 6, RG_OUTPUTS = 6, RG_SETS = 3, RG_VALUES = 160 };

typedef struct rg_value {
    qn_value_id id;
    qn_tensor t;  /* what it is for input set 0 */
    bool inexact; /* fusion may change its last bits */
} rg_value;

typedef struct rg_scope {
    qn_graph *g;
    struct rg_scope *parent;
    rg_value v[RG_VALUES];
    uint32_t n;
} rg_scope;

typedef struct rg {
    uint64_t seed, state;
    qn_region region; /* tensors of this build */
    rg_scope main;
    qn_error err;
    uint32_t n_inputs, n_outputs;
    /* Same shapes in every set; others in contents. dtype NONE: left out. */
    qn_tensor inputs[RG_SETS][RG_INPUTS];
    bool inexact[RG_OUTPUTS];
} rg;

/* Builds and finishes r->main.g, which the caller then owns. */
void rg_build(rg *r, uint64_t seed);
/* The tensors; not the graph. */
void rg_release(rg *r);

/* Node by node on a finished graph that no pass has seen; out[g->n_outputs]
 * lie in `region`. *scale: the largest finite magnitude met. With `dump` every
 * node and its result is printed. */
qn_status rg_oracle(const qn_graph *g, const qn_tensor *inputs, qn_tensor *out,
                    qn_region *region, double *scale, FILE *dump,
                    qn_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Between random_graph.c, which makes values and graphs, and random_nodes.c,
 * which makes nodes. */
#ifndef QN_TESTS_SUPPORT_RANDOM_NODES_H
#define QN_TESTS_SUPPORT_RANDOM_NODES_H

#include "tests/support/random_graph.h"

enum { RG_NODE_IN = 8 };
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* [0, n) */
uint32_t rg_below(rg *r, uint32_t n);
bool rg_chance(rg *r, uint32_t percent);
/* Zeroed room for n + 1 elements. */
void *rg_room(qn_region *region, size_t n, size_t size);

typedef struct rg_want {
    qn_dtypes types;
    int min_rank, max_rank;
    bool exact;
} rg_want;

extern const rg_want rg_any_type, rg_number, rg_real, rg_exact_real, rg_image;

qn_shape rg_some_shape(rg *r, int rank);
rg_value rg_some_constant(rg *r, rg_scope *s, qn_dtype dtype, qn_shape shape);
rg_value rg_ints(rg_scope *s, int64_t n, const int64_t *values);
/* A value of this scope or of one around it, captured. False: none suits. */
bool rg_pick(rg *r, rg_scope *s, rg_want w, rg_value *out);

typedef struct rg_spec {
    const char *op;
    uint32_t n_in, n_out;
    rg_value in[RG_NODE_IN]; /* id QN_NO_VALUE: left out */
    uint32_t n_attrs;
    qn_attr attrs[4];
    bool fuses; /* the result becomes inexact */
} rg_spec;

void rg_attr_int(rg_spec *n, const char *name, int64_t value);
void rg_attr_ints(rg_scope *s, rg_spec *n, const char *name, size_t count,
                  const int64_t *values);
/* Evaluate and, if it works, add; the results join the scope. */
bool rg_add(rg *r, rg_scope *s, const rg_spec *n, rg_value *first);

/* One try at one kind of node, or chain of nodes, each. */
extern bool (*const rg_kinds[])(rg *r, rg_scope *s);
extern const uint32_t rg_n_kinds;

#endif

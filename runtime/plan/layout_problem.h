/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The problem as the solvers see it (private to runtime/plan/layout*.c).
 *
 *   block     what is placed: a buffer, or a contiguous group of them
 *   section   a stretch of time in which a set of blocks lives that no other
 *             stretch contains; time is counted in sections, so shifting or
 *             stretching it changes nothing
 *   bound     no layout can be smaller
 *
 * Sizes are rounded up to the smallest alignment that occurs: no layout needs
 * the bytes behind, but for the block on top, whose `used` counts.
 */
#ifndef QN_PLAN_LAYOUT_PROBLEM_H
#define QN_PLAN_LAYOUT_PROBLEM_H

#include "runtime/base/alloc.h"
#include "runtime/plan/layout.h"

#define QN_NO_BLOCK UINT32_MAX

typedef struct qn_block {
    size_t bytes; /* > 0, rounded */
    size_t used;  /* as given; bytes - used < the smallest alignment */
    size_t align; /* a power of two */
    uint32_t from, to; /* lives in sections [from, to) */
} qn_block;

typedef struct qn_problem {
    uint32_t n;
    qn_block *blocks;
    uint32_t n_sections;
    size_t *live; /* [n_sections] bytes */
    /* Blocks that may not overlap block b: other[start[b] .. start[b + 1]).
     * start is NULL where that would be more than QN_LAYOUT_MAX_PAIRS; then
     * sections decide. */
    size_t *start;
    uint32_t *other;
    bool by_conflicts; /* from the caller; sections are only a hint then */
    size_t bound;
    size_t total; /* sum of the buffers' sizes */
    /* by buffer */
    uint32_t *block_of; /* QN_NO_BLOCK: takes nothing */
    size_t *inner;      /* offset in its block */
} qn_problem;

/* Pairs counted twice: 32 MiB of rows. */
enum { QN_LAYOUT_MAX_PAIRS = 8 << 20 };

/* Everything lies in `region`. Errors as for qn_layout_solve(). */
QN_NODISCARD qn_status qn_problem_build(const qn_buffer *buffers, size_t n,
                                        const qn_conflicts *conflicts,
                                        qn_region *region, qn_problem *out,
                                        qn_error *err);

static inline size_t qn_round_up(size_t value, size_t align)
{
    return (value + align - 1) & ~(align - 1);
}

#endif

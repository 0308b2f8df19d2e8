/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner's core: where do buffers with known lifetimes lie, so that the
 * whole is as small as possible? Pure functions of their arguments; no graph,
 * no device. (Dynamic storage allocation, NP-complete; Moffitt, MiniMalloc,
 * ASPLOS 2023, and Pisarchyk & Lee, arXiv 2001.03288, for what is known.)
 */
#ifndef QN_PLAN_LAYOUT_H
#define QN_PLAN_LAYOUT_H

#include "runtime/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct qn_buffer {
    uint32_t lower, upper; /* alive in [lower, upper), lower < upper */
    size_t bytes;          /* 0 is legal and takes nothing */
    uint32_t align;        /* power of two, 0 counts as 1 */
    /* Contiguous group: members with the same group >= 0 lie one behind the
     * other in order of group_pos, each start aligned, as one block that is
     * placed and freed as a whole. -1: none. */
    int32_t group;
    uint32_t group_pos;
} qn_buffer;

/*
 * Which pairs may not overlap. NULL where lifetimes say it all (one stream);
 * otherwise row i lists, ascending, the buffers that conflict with buffer i:
 * other[start[i] .. start[i + 1]). Symmetric.
 */
typedef struct qn_conflicts {
    const size_t *start; /* [n + 1] */
    const uint32_t *other;
} qn_conflicts;

typedef struct qn_layout_options {
    bool no_reuse; /* every buffer its own bytes: the oracle */
    uint64_t search_steps; /* budget of the local search; 0: default. A count,
                              never a clock, so that results repeat. */
} qn_layout_options;

typedef struct qn_layout_stats {
    size_t lower_bound; /* max over time of live bytes */
    size_t peak;        /* bytes of the layout */
    size_t total;       /* sum of all sizes */
    const char *winner; /* "size/first", "search" ...; static storage */
} qn_layout_stats;

/*
 * Place n buffers; offsets[n] are set on QN_OK. conflicts NULL: by lifetime.
 * Deterministic: ties break by index. Stops at the lower bound.
 * QN_INVALID (which buffer, and why), QN_TOO_LARGE, QN_NO_MEMORY.
 */
QN_NODISCARD qn_status qn_layout_solve(const qn_buffer *buffers, size_t n,
                                       const qn_conflicts *conflicts,
                                       const qn_layout_options *options,
                                       size_t *offsets, qn_layout_stats *stats,
                                       qn_error *err);

/*
 * Independent check of a layout: no conflicting pair overlaps, alignment,
 * groups, everything inside `peak`. Shares no code with the solver.
 * QN_INTERNAL names the offending buffers.
 */
QN_NODISCARD qn_status qn_layout_verify(const qn_buffer *buffers, size_t n,
                                        const qn_conflicts *conflicts,
                                        const size_t *offsets, size_t peak,
                                        qn_error *err);

#endif

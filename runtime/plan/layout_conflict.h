/* SPDX-License-Identifier: Apache-2.0 */
/* Who may not overlap whom, and what follows for the bound (private to
 * runtime/plan/layout*.c). */
#ifndef QN_PLAN_LAYOUT_CONFLICT_H
#define QN_PLAN_LAYOUT_CONFLICT_H

#include "runtime/plan/layout_problem.h"

/* Rows within n, ascending, symmetric, without self: QN_INVALID says where. */
QN_NODISCARD qn_status qn_conflicts_check(const qn_conflicts *conflicts,
                                          size_t n, qn_error *err);

/* Rows of blocks from rows of buffers: a group has its members' conflicts. */
QN_NODISCARD qn_status qn_problem_take_conflicts(qn_problem *p,
                                                 const qn_conflicts *conflicts,
                                                 size_t n_buffers,
                                                 qn_region *region,
                                                 qn_error *err);
/* Rows from lifetimes; leaves start NULL if they are too many. */
QN_NODISCARD qn_status qn_problem_make_pairs(qn_problem *p, qn_region *region,
                                             qn_error *err);

/*
 * Where conflicts come from the caller, living at one time need not mean to be
 * in conflict: the bound is the heaviest of some cliques, each grown from the
 * blocks of one of the fullest sections.
 */
QN_NODISCARD qn_status qn_problem_clique_bound(qn_problem *p,
                                               qn_region *region,
                                               qn_error *err);

#endif

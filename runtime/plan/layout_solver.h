/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the methods of the planner share (private to runtime/plan/layout*.c): the
 * problem, the best layout so far, and scratch. Effort is counted in visits: one
 * look at a neighbour of the block that is being placed.
 */
#ifndef QN_PLAN_LAYOUT_SOLVER_H
#define QN_PLAN_LAYOUT_SOLVER_H

#include "runtime/plan/layout_problem.h"

typedef struct qn_span {
    size_t offset, end;
} qn_span;

/* What the skyline asks of a block over and over. */
typedef struct qn_lowest {
    size_t align_mask; /* alignment - 1 */
    size_t limit;      /* offset above which it exceeds the bound */
} qn_lowest;

typedef struct qn_solver {
    const qn_problem *p;
    size_t *best; /* [n] offsets of the best layout */
    size_t peak;  /* its bytes; SIZE_MAX before the first */
    const char *winner;
    uint32_t *sky_order; /* [n] the order of the best skyline */
    size_t sky_peak;
    uint64_t visits;

    size_t *offset;  /* [n] of the layout that is being made */
    size_t *current; /* [n] of the one that the search is at */
    uint32_t *order; /* [n] and how */
    /* scratch of one method's run */
    qn_lowest *fixed; /* [n] */
    size_t *lowest;   /* [n] where a block could lie; SIZE_MAX: it is placed */
    uint32_t *left;       /* [n] */
    uint32_t *rank;       /* [n] */
    qn_span *spans;       /* [n] */
    uint32_t *placed;     /* [n] blocks by offset */
    uint32_t *placed_from, *placed_to; /* [n] their sections */
} qn_solver;

QN_NODISCARD qn_status qn_solver_init(qn_solver *solver, const qn_problem *p,
                                      qn_region *region, qn_error *err);

/* Keep solver->offset if it is the best so far. True: it is at the bound. */
bool qn_solver_offer(qn_solver *solver, size_t peak, const char *name);

/* ---- orders: layout_order.c ---- */

typedef enum qn_order {
    QN_ORDER_SIZE,  /* bytes */
    QN_ORDER_PEAK,  /* fullest section of its life, then bytes */
    QN_ORDER_AREA,  /* bytes x sections */
    QN_ORDER_CONFLICT, /* bytes of all that conflict with it */
    QN_ORDER_LIFE,  /* sections */
    QN_ORDER_START, /* earliest first */
    QN_ORDER_COUNT
} qn_order;

/* Fill solver->order, most first, ties by bytes, then by index. */
QN_NODISCARD qn_status qn_solver_sort(qn_solver *solver, qn_order order,
                                      qn_region *region, qn_error *err);

/* ---- making a layout from solver->order; each returns its peak ---- */

/* Lowest gap that is large enough / smallest such gap. layout_fit.c */
size_t qn_fit_first(qn_solver *solver);
size_t qn_fit_best(qn_solver *solver);

/*
 * Bottom up: always the block that can lie lowest above those placed, ties by
 * the order. `cost` is how far blocks reach above the bound, summed, in units of
 * 2^shift bytes; the run gives up (false) as soon as it exceeds `limit`. Needs
 * p->start. layout_skyline.c
 */
typedef struct qn_skyline {
    uint64_t limit;
    unsigned shift;
    /* results */
    size_t peak;
    uint64_t cost;
} qn_skyline;
bool qn_fit_skyline(qn_solver *solver, qn_skyline *run);

/* ---- local search from solver->sky_order: layout_search.c ---- */
void qn_solver_search(qn_solver *solver, uint64_t visits);

#endif

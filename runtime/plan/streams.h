/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the list of steps and the scheduler (schedule.h): what depends on
 * what, which queue runs it, and so which buffers may share bytes.
 */
#ifndef QN_PLAN_STREAMS_H
#define QN_PLAN_STREAMS_H

#include "runtime/plan/build.h"
#include "runtime/plan/schedule.h"

struct qn_streams {
    qn_schedule_problem problem;
    qn_schedule schedule;
    /* [b->n_steps] a step's place in the problem; its host side, if the host has
     * to read something before it can be enqueued, is the one before. NONE: not
     * in the plan. */
    uint32_t *place;
    bool *host_side;
    uint32_t *order; /* [problem.n] back to steps */
};

/* Fills b->streams, after sharing and prepare(); leaves it NULL if all runs on
 * the host's one queue. */
QN_NODISCARD qn_status qn_build_streams(qn_builder *b);
/* One queue for each device instead. */
QN_NODISCARD qn_status qn_build_fewer_streams(qn_builder *b);
/* More than one queue of some device. */
bool qn_streams_several(const qn_builder *b);

/*
 * Conflicts of one space's buffers, which are numbers [start, start + n) of
 * `places`. *out NULL: lifetimes say it all. In b->scratch.
 */
QN_NODISCARD qn_status qn_build_conflicts(qn_builder *b, const qn_places *places,
                                          uint8_t space,
                                          const qn_conflicts **out);
/* The independent check of schedule and layout together. */
QN_NODISCARD qn_status qn_build_check_streams(qn_builder *b,
                                              const qn_places *places);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Between the parts of schedule building (private to schedule.c,
 * schedule_assign.c, schedule_clock.c). */
#ifndef QN_PLAN_SCHEDULE_IMPL_H
#define QN_PLAN_SCHEDULE_IMPL_H

#include "runtime/plan/schedule.h"

/* a + b, or UINT64_MAX. */
static inline uint64_t qn_cost_add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Do all steps share one queue whatever their class? */
bool qn_schedule_is_single(const qn_schedule_problem *problem,
                           const qn_schedule_options *options);

/* Set n_queues, queue_class, queue. The problem is valid. QN_TOO_LARGE,
 * QN_NO_MEMORY. */
QN_NODISCARD qn_status qn_schedule_assign(const qn_schedule_problem *problem,
                                          const qn_schedule_options *options,
                                          qn_region *region, qn_schedule *out,
                                          qn_error *err);

/* From queues: chains, clocks, records, waits, join. QN_NO_MEMORY,
 * QN_TOO_LARGE. */
QN_NODISCARD qn_status qn_schedule_order(const qn_schedule_problem *problem,
                                         qn_region *region, qn_schedule *out,
                                         qn_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Random scheduling problems, seeded: a graph of steps with data edges, maybe
 * with branches, and the buffers that carry the edges. */
#ifndef QN_TESTS_SUPPORT_SCHEDULE_H
#define QN_TESTS_SUPPORT_SCHEDULE_H

#include "runtime/plan/schedule.h"

typedef struct random_schedule_shape {
    uint32_t n, n_compute, n_comm;
    uint32_t host;     /* in 100: steps of the host */
    uint32_t comm;     /* in 100: steps of a communicator */
    uint32_t fan_in;   /* most data edges of a step, not counting repeats */
    uint32_t reach;    /* how far back they go */
    uint32_t branches; /* in 100: places where a branch begins */
} random_schedule_shape;

/*
 * Step i writes buffer i, in host memory (space 0) if it is a host's, else in
 * its device's, and reads the buffer of each of its dependencies: any edge that
 * is not ordered is a race. Steps of a jump write nothing. Branches nest; some
 * have an else. No step reads what the other arm writes.
 */
typedef struct random_schedule {
    qn_schedule_problem p;
    qn_schedule_step *steps;
    uint32_t *dep_start, *deps;
    qn_schedule_buffer *buffers; /* [n], of jumps without uses */
    uint32_t *uses;
} random_schedule;

/* Exits through cmocka's failure when there is no memory. *seed moves on. */
void random_schedule_make(random_schedule *out,
                          const random_schedule_shape *shape, uint32_t *seed);
void random_schedule_free(random_schedule *s);

/* xorshift32; a seed is not 0 */
uint32_t random_schedule_next(uint32_t *seed);

#endif

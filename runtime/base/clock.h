/* SPDX-License-Identifier: Apache-2.0 */
#ifndef QN_BASE_CLOCK_H
#define QN_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC in nanoseconds: what deadlines and times are given in. */
static inline uint64_t qn_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A load generator: `concurrency` threads that make calls back to back. */
#ifndef QN_SERVER_CLI_BENCH_H
#define QN_SERVER_CLI_BENCH_H

#include "runtime/base/status.h"

#include <stddef.h>

typedef struct qn_bench {
    size_t concurrency; /* 1 to 4096 */
    uint64_t runs;      /* in all; 0: until the time is over */
    int64_t duration_ms;
    uint64_t warmup; /* runs of each thread that do not count */
    /* One call by thread `worker` [0, concurrency); a failure ends the bench. */
    qn_status (*call)(void *arg, size_t worker, qn_error *err);
    void *arg;
} qn_bench;

typedef struct qn_bench_result {
    uint64_t runs;
    double seconds;
    double min_ms, p50_ms, p90_ms, p99_ms, max_ms, mean_ms;
    double stddev_ms;
    double per_s;
} qn_bench_result;

/* Shows progress on a terminal. The first failure of a call is returned. */
QN_NODISCARD qn_status qn_bench_run(const qn_bench *bench, qn_bench_result *out,
                                    qn_error *err);

#endif

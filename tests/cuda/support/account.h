/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An account of who touched which bytes when, kept beside the executor and not
 * by it, for tests/support/race.h.
 *
 *   which bytes    the walk's trace (runtime/exec/trace.h), by tag
 *   in what order  the emulated driver's log of what its streams executed, with
 *                  the tag that the enqueuing thread had
 *
 * Events and waits count only as the log has them, so one that the executor
 * leaves out is missing here too. Each run is a queue of the host. Streams are
 * queues, and so are chains of nodes inside of launched graphs.
 */
#ifndef QN_TESTS_CUDA_SUPPORT_ACCOUNT_H
#define QN_TESTS_CUDA_SUPPORT_ACCOUNT_H

#include "runtime/exec/trace.h"
#include "tests/cuda/support/emu.h"
#include "tests/support/race.h"

#include <pthread.h>

typedef struct account {
    const test_emu *emu;
    qn_trace trace; /* for qn_session_options */
    pthread_mutex_t lock;
    struct account_tag *tags;
    size_t n_tags, cap_tags;
    struct account_range *ranges;
    size_t n_ranges, cap_ranges;
    uint32_t n_runs;
} account;

/* Starts the emulator's log. The account is used where it is: do not move it. */
void account_open(account *a, const test_emu *emu);
/* Forget everything; the log starts anew. Nothing may run. */
void account_restart(account *a);
void account_close(account *a);

/* What a client does with a run, in this order. `arg` of qn_run_start() has to
 * be the same `run`: its done_arg is looked at. */
typedef struct account_run {
    account *account;
    uint32_t number;
} account_run;
void account_leased(account *a, account_run *run);    /* it has its memory now */
void account_fills(const account_run *run, const void *p, size_t bytes);
void account_reads(const account_run *run, const void *p, size_t bytes);
void account_releases(const account_run *run);        /* about to give it back */

typedef struct account_report {
    size_t launches, waits, records, graphs, runs, lanes_reused;
    size_t races;
    char text[400]; /* what is wrong; "" if nothing */
} account_report;

/* Everything must have ended. True: no race, and no lane went to a run before
 * the lane's last run was seen to have ended. */
bool account_check(const account *a, account_report *out);

#endif

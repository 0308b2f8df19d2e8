/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions on the emulated device, and clients that use them side by side. */
#ifndef QN_TESTS_CUDA_SUPPORT_EXECUTOR_H
#define QN_TESTS_CUDA_SUPPORT_EXECUTOR_H

#include "runtime/exec/session.h"
#include "tests/cuda/support/account.h"
#include "tests/cuda/support/models.h"

/* For cmocka groups: opens device 0, and the emulated driver's functions. Exits
 * with 77 where there is no device, or a real one. */
int executor_setup(void **state);
int executor_teardown(void **state);
const test_emu *executor_emu(void);
qn_accel *executor_accel(void);

/* Closes and opens the device, after its context was lost. */
void executor_reopen(void);

/* Fails the test on an error. `options` may leave accels out. */
qn_runtime *executor_runtime(const qn_runtime_options *options);
/* On device 0; takes the graph. account may be NULL. */
qn_session *executor_session(qn_runtime *rt, qn_graph *graph,
                             const qn_session_options *options,
                             const account *a);

enum { ANSWER_OUTPUTS = 6 };

typedef struct answer {
    qn_status status;
    qn_error err;
    uint32_t n;
    qn_tensor out[ANSWER_OUTPUTS]; /* data: heap */
} answer;
void answer_free(answer *a);
/* NULL, or what differs: static text of this thread. */
const char *answer_differs(const answer *want, const answer *got);

/* A request from plan to release, on the caller's thread, which waits; memory
 * is waited for too. `account` may be NULL. */
void executor_run(qn_session *s, const qn_tensor *inputs, uint32_t n_inputs,
                  account *a, answer *out);
/* The same with a plan that the caller has. */
void executor_run_plan(qn_session *s, qn_plan *plan, const qn_tensor *inputs,
                       uint32_t n_inputs, account *a, answer *out);

/* fn(arg, 0) ... fn(arg, n - 1), each on a thread of its own. */
void executor_clients(int n, void (*fn)(void *arg, int client), void *arg);

/* Bytes charged, of the host and of the device; cached pages are given up. */
size_t executor_charged(qn_runtime *rt);
size_t executor_charged_device(qn_runtime *rt);
/* Environment variable as a number. */
uint64_t executor_number(const char *name, uint64_t otherwise);

#endif

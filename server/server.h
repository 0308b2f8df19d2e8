/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a running server share. */
#ifndef QN_SERVER_SERVER_H
#define QN_SERVER_SERVER_H

#include "server/devices.h"
#include "server/http.h"
#include "server/models.h"
#include "server/watch.h"

#include <stdatomic.h>

typedef struct qn_server_options {
    size_t max_body;
    unsigned max_depth;
    int64_t max_wait_ms, deadline_ms; /* deadline 0: none */
    bool nan_tokens;
    size_t budget;
} qn_server_options;

typedef struct qn_server {
    qn_server_options o;
    qn_runtime *runtime;
    qn_pool *pool;
    qn_ledger *ledger;
    qn_models *models;
    qn_devices devices;
    qn_watch *watch;
    qn_http *http;
    qn_log log;
    qn_metrics others; /* requests that are no model's */
    uint64_t started_ns;
    atomic_bool draining;
    atomic_size_t inferring;          /* requests in infer.c's hands */
    atomic_uint_fast64_t service_ns;  /* smoothed time of a run */
} qn_server;

/* Answers GET, POST: api.c and infer.c. */
extern const qn_route qn_server_routes[];
size_t qn_server_n_routes(void);

/* Seconds after which a refused request may find room, 1 to 60: what waits,
 * times the time of a run, over the workers. */
unsigned qn_server_retry_after(qn_server *server);
/* The same for a failure that asks for it: sets the header. */
void qn_server_answer_error(qn_server *server, qn_exchange *x,
                            const qn_error *err);

/* infer.c */
void qn_handle_infer(qn_exchange *x, void *server);
void qn_handle_validate(qn_exchange *x, void *server);

#endif

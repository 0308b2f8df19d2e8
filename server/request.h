/* SPDX-License-Identifier: Apache-2.0 */
/* One inference on its way through infer.c; reply.c writes its answer. */
#ifndef QN_SERVER_REQUEST_H
#define QN_SERVER_REQUEST_H

#include "server/bind.h"
#include "server/server.h"

typedef struct qn_request {
    qn_server *server;
    qn_exchange *x;
    qn_served *model;
    qn_replica *replica; /* of the model: where it runs */
    qn_session *session; /* of the replica */
    bool validate; /* answer what would be run, run nothing */
    bool npy_in, npy_out, nested, nan_tokens;

    qn_region region; /* scan and binding */
    qn_scan scan;
    qn_npy npy;
    qn_bound bound;
    qn_plan *plan;

    qn_run run;
    bool run_ready; /* qn_run_init was called */
    qn_job job;
    qn_watched watched;
    bool watching;
    atomic_int stage; /* see infer.c */
    atomic_bool gone; /* the client left */
    atomic_int refs;
    uint64_t deadline_ns;
    uint64_t queued_ns; /* when it asked for memory */
} qn_request;

/* The answer of a run that succeeded, or of :validate: qn_answer_*(). */
void qn_reply_infer(qn_request *r);
void qn_reply_validate(qn_request *r);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a served model runs: on the cpu, or on one or more cards, with a session
 * and its static memory on each. A request goes to the replica that has the
 * fewest; those whose card is lost get none.
 */
#ifndef QN_SERVER_REPLICAS_H
#define QN_SERVER_REPLICAS_H

#include "models/repository.h"
#include "runtime/device/accel.h"
#include "runtime/exec/session.h"

typedef struct qn_replica {
    qn_session *session;
    qn_runtime *runtime;
    uint32_t accels[QN_SESSION_ACCELS]; /* numbers of the runtime's */
    uint32_t n_accels;                  /* 0: the cpu */
    atomic_size_t in_flight;            /* requests that have it */
} qn_replica;

/*
 * Which of the runtime's accelerators a model gets replicas on: *n of them, each
 * on as many as the model has ranks, in order.
 *
 *   closed     why no card is open, for models that ask for one; NULL: nobody
 *              asked for cards
 *   fall_back  all that it could have are lost: the cpu takes it
 *   on         [QN_ACCEL_MAX] numbers of accelerators; *n 0: the cpu
 *
 * QN_NOT_FOUND: config.json asks for a card that is not open, with the flag that
 * opens it. QN_DEVICE_LOST: all are lost, and there is no falling back.
 */
QN_NODISCARD qn_status qn_replicas_place(qn_runtime *runtime,
                                         const qn_model_config *config,
                                         const char *closed, bool fall_back,
                                         uint32_t *on, uint32_t *n,
                                         qn_error *err);

/* One of its cards is lost; err: which, and why. Any thread. */
bool qn_replica_lost(const qn_replica *replica, qn_error *err);
/* The living one with the fewest requests, of equals the first. The caller has
 * it until qn_replica_release(). NULL: all are lost, QN_DEVICE_LOST. */
qn_replica *qn_replica_choose(qn_replica *replicas, uint32_t n, qn_error *err);
void qn_replica_release(qn_replica *replica); /* NULL is fine */

/* "cpu", "cuda:0", "cuda:0+cuda:1" for one that is cut in two. Returns buf. */
enum { QN_REPLICA_TEXT = 17 * QN_SESSION_ACCELS };
const char *qn_replica_text(const qn_replica *replica,
                            char buf[QN_REPLICA_TEXT]);

/* "fp32", "tf32", "fp16", "bf16". */
const char *qn_precision_name(qn_precision precision);

#endif

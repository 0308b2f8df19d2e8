/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cards of a server: who is lost, what that costs, and what follows
 * (--on-device-fault). A plug-in marks a device dead; here it is noticed, by the
 * requests that fail on it, by whoever asks for readiness, and by the clock.
 */
#ifndef QN_SERVER_DEVICES_H
#define QN_SERVER_DEVICES_H

#include "runtime/device/plugin.h"
#include "server/replicas.h"

typedef struct qn_devices {
    qn_accels accels; /* what is open */
    bool fall_back;   /* --on-device-fault cpu */
    char closed[512]; /* why none is open though one was asked for */
    atomic_uint lost; /* bit i: card i, noticed */
    /* requests that failed because of a card: it was lost, out of memory, or
     * refused a call */
    atomic_uint_fast64_t faults[QN_ACCEL_MAX];
} qn_devices;

struct qn_server;

/* Look for cards that are lost since; says so in the log, once a card, and has
 * their models loaded elsewhere. True: some is lost; err: the first. Any thread;
 * quick. */
bool qn_devices_look(struct qn_server *server, qn_error *err);

/* A request failed with *err on a replica: counted if a card is to blame. What
 * only looks like another failure, because its card is lost, becomes
 * QN_DEVICE_LOST. */
void qn_devices_failed(struct qn_server *server, const qn_replica *replica,
                       qn_error *err);

#endif

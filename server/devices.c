/* SPDX-License-Identifier: Apache-2.0 */
#include "server/devices.h"

#include "server/server.h"

#include <string.h>

static void announce(qn_server *server, const qn_accel *accel)
{
    qn_logf(&server->log, QN_LOG_WARN, "%s is lost: %s", accel->label,
            server->devices.fall_back
                ? "models that have no other card go to the cpu"
                : "this process ends, to be started again");
    if (server->models && server->devices.fall_back)
        qn_models_look(server->models);
}

bool qn_devices_look(qn_server *server, qn_error *err)
{
    qn_devices *d = &server->devices;
    bool any = false;
    for (uint32_t i = 0; i < d->accels.n; i++) {
        qn_accel *accel = d->accels.accel[i];
        qn_error why = { 0 };
        if (!accel->ops->dead(accel, &why))
            continue;
        if (!any && err)
            *err = why;
        any = true;
        if (!(atomic_fetch_or(&d->lost, 1u << i) >> i & 1))
            announce(server, accel);
    }
    return any;
}

/* The plug-in, and the runtime for it, put the card's name in front. */
static bool names(const qn_error *err, const qn_accel *accel)
{
    size_t len = strlen(accel->label);
    return !strncmp(err->text, accel->label, len) && err->text[len] == ':';
}

void qn_devices_failed(qn_server *server, const qn_replica *replica,
                       qn_error *err)
{
    bool blamed = err->status == QN_DEVICE || err->status == QN_DEVICE_LOST;
    if (!replica || !replica->n_accels ||
        (!blamed && err->status != QN_NO_MEMORY))
        return;
    uint32_t at = replica->accels[0];
    bool lost = false;
    for (uint32_t i = 0; i < replica->n_accels && !lost; i++) {
        qn_accel *accel = server->devices.accels.accel[replica->accels[i]];
        qn_error why = { 0 };
        lost = accel->ops->dead(accel, &why);
        if (lost)
            *err = why;
        if (lost || names(err, accel)) {
            at = replica->accels[i];
            blamed = true;
        }
    }
    if (blamed)
        atomic_fetch_add(&server->devices.faults[at], 1);
    if (lost)
        (void)qn_devices_look(server, NULL);
}

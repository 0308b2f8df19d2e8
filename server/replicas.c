/* SPDX-License-Identifier: Apache-2.0 */
#include "server/replicas.h"

#include <stdio.h>
#include <string.h>

static qn_status not_open(const qn_model_config *config, const char *closed,
                          qn_error *err)
{
    char name[24] = "cuda";
    if (config->device == QN_CONFIG_CUDA_N)
        snprintf(name, sizeof name, "cuda:%d", config->ordinal);
    return qn_fail(err, QN_NOT_FOUND,
                   "config.json asks for the device \"%s\", which is not open: "
                   "%s%s%s", name,
                   closed ? closed : "quern serve --device ",
                   closed ? "" : name, closed ? "" : " opens it");
}

/* Each rank of a split model has a card of its own; by default a model for which
 * there are too few stays on the cpu. */
static qn_status divide(const qn_model_config *config, bool lost, uint32_t *n,
                        qn_error *err)
{
    uint32_t ranks = config->n_ranks ? config->n_ranks : 1;
    if (*n < ranks && config->device != QN_CONFIG_DEVICE_ANY && !lost)
        return qn_fail(err, QN_NOT_FOUND,
                       "config.json asks for cards for %u ranks, and there are "
                       "%u", ranks, *n);
    *n /= ranks;
    return QN_OK;
}

qn_status qn_replicas_place(qn_runtime *runtime, const qn_model_config *config,
                            const char *closed, bool fall_back, uint32_t *on,
                            uint32_t *n, qn_error *err)
{
    qn_accel *accel, *lost = NULL;
    qn_error why = { 0 };
    *n = 0;
    if (config->device == QN_CONFIG_CPU)
        return QN_OK;
    for (uint32_t i = 0; (accel = qn_runtime_accel(runtime, i)) != NULL; i++) {
        if (config->device == QN_CONFIG_CUDA_N &&
            accel->ordinal != config->ordinal)
            continue;
        if (accel->ops->dead(accel, &why))
            lost = accel;
        else if (*n < QN_ACCEL_MAX)
            on[(*n)++] = i;
    }
    if (*n)
        return divide(config, lost && fall_back, n, err);
    if (lost && fall_back)
        return QN_OK;
    if (lost)
        return qn_fail(err, QN_DEVICE_LOST, "%s", why.text);
    return config->device == QN_CONFIG_DEVICE_ANY
               ? QN_OK
               : not_open(config, closed, err);
}

bool qn_replica_lost(const qn_replica *replica, qn_error *err)
{
    for (uint32_t i = 0; i < replica->n_accels; i++) {
        qn_accel *accel = qn_runtime_accel(replica->runtime,
                                           replica->accels[i]);
        if (accel->ops->dead(accel, err))
            return true;
    }
    return false;
}

qn_replica *qn_replica_choose(qn_replica *replicas, uint32_t n, qn_error *err)
{
    qn_replica *best = NULL;
    size_t least = SIZE_MAX;
    for (uint32_t i = 0; i < n; i++) {
        size_t busy = atomic_load(&replicas[i].in_flight);
        if (busy < least && !qn_replica_lost(&replicas[i], err)) {
            best = &replicas[i];
            least = busy;
        }
    }
    if (best)
        atomic_fetch_add(&best->in_flight, 1);
    return best;
}

void qn_replica_release(qn_replica *replica)
{
    if (replica)
        atomic_fetch_sub(&replica->in_flight, 1);
}

const char *qn_replica_text(const qn_replica *replica,
                            char buf[QN_REPLICA_TEXT])
{
    size_t len = 0;
    snprintf(buf, QN_REPLICA_TEXT, "cpu");
    for (uint32_t i = 0; i < replica->n_accels && len < QN_REPLICA_TEXT; i++) {
        int w = snprintf(
            buf + len, QN_REPLICA_TEXT - len, "%s%s", i ? "+" : "",
            qn_runtime_accel(replica->runtime, replica->accels[i])->label);
        len += w > 0 ? (size_t)w : 0;
    }
    return buf;
}

const char *qn_precision_name(qn_precision precision)
{
    switch (precision) {
    case QN_PRECISION_FP32:
        return "fp32";
    case QN_PRECISION_TF32:
        return "tf32";
    case QN_PRECISION_FP16:
        return "fp16";
    case QN_PRECISION_BF16:
        return "bf16";
    }
    return "?";
}

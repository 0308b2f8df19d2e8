/* SPDX-License-Identifier: Apache-2.0 */
#include "server/cli/devices.h"

#include "server/replicas.h"

#include <stdlib.h>
#include <string.h>

/* "0,1" -> numbers. */
static qn_status read_ordinals(const char *text, const char *at, int *out,
                               uint32_t *n, qn_error *err)
{
    *n = 0;
    for (;;) {
        char *end;
        long v = at[0] >= '0' && at[0] <= '9' ? strtol(at, &end, 10) : -1;
        if (v < 0 || v > 1023 || (*end && *end != ','))
            return qn_fail(err, QN_INVALID,
                           "device \"%.40s\": after \"cuda:\" come numbers, as "
                           "in \"cuda:0\" or \"cuda:0,1\"", text);
        if (*n == QN_ACCEL_MAX)
            return qn_fail(err, QN_INVALID,
                           "device \"%.40s\": at most %d cards", text,
                           QN_ACCEL_MAX);
        out[(*n)++] = (int)v;
        if (!*end)
            return QN_OK;
        at = end + 1;
    }
}

qn_status qn_devices_open(const char *text, const qn_log *log, qn_accels *out,
                          qn_error *err)
{
    int ordinals[QN_ACCEL_MAX] = { 0 };
    uint32_t n = 1;
    *out = (qn_accels){ 0 };
    if (!text || !strcmp(text, "cpu"))
        return QN_OK;
    if (!strncmp(text, "cuda:", 5)) {
        qn_status st = read_ordinals(text, text + 5, ordinals, &n, err);
        if (st != QN_OK)
            return st;
    } else if (strcmp(text, "cuda") != 0) {
        return qn_fail(err, QN_INVALID,
                       "device \"%.40s\" is neither \"cpu\" nor \"cuda\" nor "
                       "\"cuda:N\"", text);
    }
    return qn_accels_open(ordinals, n, log, out, err);
}

void qn_devices_runtime(const qn_options *o, const qn_accels *accels,
                        qn_runtime_options *out)
{
    out->accels = accels->accel;
    out->n_accels = accels->n;
    out->accel_budget = qn_opt_size(o, "device-memory");
    out->lanes = (uint32_t)qn_opt_int(o, "lanes");
}

static qn_precision precision_of(const char *text)
{
    for (int p = QN_PRECISION_FP32; text && p <= QN_PRECISION_BF16; p++)
        if (!strcmp(text, qn_precision_name((qn_precision)p)))
            return (qn_precision)p;
    return QN_PRECISION_FP32;
}

void qn_devices_session(const qn_options *o, const qn_accels *accels,
                        qn_session_options *out)
{
    out->n_accels = accels->n ? 1 : 0;
    out->accels[0] = 0;
    out->precision = precision_of(qn_opt_text(o, "precision"));
    out->streams = (uint32_t)qn_opt_int(o, "streams");
    out->no_graphs = qn_opt_bool(o, "no-graphs");
}

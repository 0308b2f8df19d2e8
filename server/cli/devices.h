/* SPDX-License-Identifier: Apache-2.0 */
/* --device and what goes with it: from words to opened devices. */
#ifndef QN_SERVER_CLI_DEVICES_H
#define QN_SERVER_CLI_DEVICES_H

#include "runtime/device/plugin.h"
#include "runtime/exec/session.h"
#include "server/cli/options.h"

/*
 * Open what --device names: "cpu" (nothing), "cuda" (the first card), "cuda:0",
 * "cuda:0,1". Close with qn_accels_close(), after an error too. QN_INVALID: not
 * such a word; else as qn_accels_open().
 */
QN_NODISCARD qn_status qn_devices_open(const char *text, const qn_log *log,
                                       qn_accels *out, qn_error *err);

/* The flags beside --device, as options of a runtime and of its sessions, which
 * get the first device. Commands that lack a flag leave its field as it is. */
void qn_devices_runtime(const qn_options *o, const qn_accels *accels,
                        qn_runtime_options *out);
void qn_devices_session(const qn_options *o, const qn_accels *accels,
                        qn_session_options *out);

#endif

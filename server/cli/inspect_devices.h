/* SPDX-License-Identifier: Apache-2.0 */
/* What quern inspect says of a model on accelerators. */
#ifndef QN_SERVER_CLI_INSPECT_DEVICES_H
#define QN_SERVER_CLI_INSPECT_DEVICES_H

#include "server/cli/loaded.h"

#include <jansson.h>

/* Lines for people; nothing for a model on the cpu alone. */
void qn_inspect_devices_print(const qn_loaded *loaded, const qn_plan_report *r);
/* Keys for programs, into `root`; these are there on the cpu too. */
void qn_inspect_devices_json(const qn_loaded *loaded, const qn_plan_report *r,
                             json_t *root);

#endif

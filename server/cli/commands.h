/* SPDX-License-Identifier: Apache-2.0 */
/* The commands, one file each. Each returns the exit status: 0 success, 1 the
 * thing failed, 2 used wrongly. */
#ifndef QN_SERVER_CLI_COMMANDS_H
#define QN_SERVER_CLI_COMMANDS_H

#include "server/cli/options.h"

#define QUERN_VERSION "0.1.0"

int qn_cmd_serve(const qn_options *options);
int qn_cmd_run(const qn_options *options);
int qn_cmd_inspect(const qn_options *options);
int qn_cmd_verify(const qn_options *options);
int qn_cmd_plan(const qn_options *options);
int qn_cmd_bench(const qn_options *options);
int qn_cmd_op(const qn_options *options);
int qn_cmd_healthcheck(const qn_options *options);

/* All rows, for main, --help and tests. */
const qn_command *qn_commands(size_t *n);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The log: JSON lines on stderr, each written with one call, so that lines of
 * several threads never mix. */
#ifndef QN_SERVER_LOG_H
#define QN_SERVER_LOG_H

#include "runtime/base/log.h"
#include "server/http.h"

/* A sink for the library; `level` is the lowest that is written. */
qn_log qn_server_log(qn_log_level level);

/* One line for a request that is over. */
void qn_log_request(const qn_log *log, const qn_exchange *x, bool sent);

#endif

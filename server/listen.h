/* SPDX-License-Identifier: Apache-2.0 */
#ifndef QN_SERVER_LISTEN_H
#define QN_SERVER_LISTEN_H

#include "runtime/base/status.h"

/*
 * A listening TCP socket, non-blocking, closed on exec. `port` 0: any; *bound
 * is the one that it got. "::" takes IPv4 too. QN_INVALID: no such address;
 * QN_IO: in use, not permitted.
 */
QN_NODISCARD qn_status qn_listen(const char *host, uint16_t port, int *fd,
                                 uint16_t *bound, qn_error *err);

#endif

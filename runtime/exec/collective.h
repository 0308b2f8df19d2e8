/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives between a session's accelerators. */
#ifndef QN_EXEC_COLLECTIVE_H
#define QN_EXEC_COLLECTIVE_H

#include "runtime/exec/launch.h"

/* Communicators, where a collective was placed on accelerators. Blocking. */
QN_NODISCARD qn_status qn_comm_open(qn_session *session, qn_error *err);
void qn_comm_close(qn_session *session);

/* Enqueue a collective's step on the COMM streams of the run's lanes. One at a
 * time in the whole runtime, so that all devices get them in one order. */
qn_status qn_exec_collective(qn_run *run, const qn_step *s,
                             const qn_tensor *in, const qn_tensor *out,
                             qn_error *err);

#endif

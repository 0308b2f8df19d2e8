/* SPDX-License-Identifier: Apache-2.0 */
#ifndef QN_EXEC_LIMITS_H
#define QN_EXEC_LIMITS_H

#include <stddef.h>

/* Bytes of memory that this process may use at most: the tightest of the
 * machine and the cgroups (v1 or v2) above it. */
size_t qn_memory_limit(void);

#endif

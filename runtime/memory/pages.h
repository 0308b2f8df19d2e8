/* SPDX-License-Identifier: Apache-2.0 */
/* Where the pool's address ranges come from: anonymous mappings. */
#ifndef QN_MEMORY_PAGES_H
#define QN_MEMORY_PAGES_H

#include "runtime/memory/pool.h"

/* With huge pages, ranges of 2 MiB and more are aligned for them, and the kernel
 * is asked for them. Static storage. */
const qn_pool_source *qn_pages(bool huge);

#endif

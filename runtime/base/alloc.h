/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory for control structures (never for tensors: those come from the
 * pool or from static memory, and are charged to the ledger).
 *
 * All of the library's heap calls go through these, so that a test can fail
 * the n-th one and a trace can count them. A region is a bump allocator: what
 * it gives lives until the region goes, which is how graphs and plans are kept.
 */
#ifndef QN_BASE_ALLOC_H
#define QN_BASE_ALLOC_H

#include "runtime/base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* NULL on failure or when n * size overflows. Memory is zeroed. */
void *qn_calloc(size_t n, size_t size);
/* Grow an array to n * size bytes; NULL on failure, `p` stays valid. */
void *qn_realloc(void *p, size_t n, size_t size);
void qn_free(void *p);
char *qn_strdup(const char *s);

typedef struct qn_region_block qn_region_block;
typedef struct qn_region {
    qn_region_block *head; /* newest block */
    size_t bytes;          /* reserved from the heap, all blocks */
    bool fixed;            /* the one block is the caller's; never grows */
} qn_region;

/* {0} is an empty region. Not thread-safe: one owner at a time. */
void qn_region_release(qn_region *region);
/* A region inside the caller's `size` bytes at `mem` (64-byte aligned), which
 * fails rather than grow: for the path where no heap call is allowed. */
void qn_region_init_fixed(qn_region *region, void *mem, size_t size);
/* Zeroed, aligned to 64 bytes if size >= 64, else to 16; NULL on failure. */
void *qn_region_alloc(qn_region *region, size_t n, size_t size);
/* All that `from` gave lives as long as `to` from now on; `from` is empty. */
void qn_region_splice(qn_region *to, qn_region *from);
/* Copy with a terminating NUL. */
char *qn_region_strndup(qn_region *region, const char *s, size_t len);

#endif

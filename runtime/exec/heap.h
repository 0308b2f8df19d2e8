/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SIDE heap of one run: a few values whose size is found while it runs, in
 * bytes that were leased before it started. First fit over a sorted free list
 * whose nodes lie in the free blocks; no call outside. One thread.
 */
#ifndef QN_EXEC_HEAP_H
#define QN_EXEC_HEAP_H

#include <stdbool.h>
#include <stddef.h>

typedef struct qn_heap_block qn_heap_block;

typedef struct qn_heap {
    char *base;
    size_t bytes, used, peak;
    qn_heap_block *free; /* ascending addresses, never adjacent */
} qn_heap;

/* `base` is 64-byte aligned. */
void qn_heap_init(qn_heap *heap, void *base, size_t bytes);
/* 64-byte aligned; NULL if no free block is large enough. */
void *qn_heap_alloc(qn_heap *heap, size_t bytes);
/* NULL and pointers from elsewhere are ignored. */
void qn_heap_free(qn_heap *heap, void *p);
bool qn_heap_owns(const qn_heap *heap, const void *p);

#endif

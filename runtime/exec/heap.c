/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/heap.h"

#include "runtime/base/checked.h"

#include <string.h>

enum { UNIT = 64 };

/* Head of every block: in use, only `bytes` (with the head) counts. */
struct qn_heap_block {
    size_t bytes;
    qn_heap_block *next;
};

void qn_heap_init(qn_heap *heap, void *base, size_t bytes)
{
    memset(heap, 0, sizeof *heap);
    heap->base = base;
    heap->bytes = bytes & ~(size_t)(UNIT - 1);
    if (heap->bytes < 2 * UNIT)
        return;
    heap->free = base;
    *heap->free = (qn_heap_block){ .bytes = heap->bytes };
}

void *qn_heap_alloc(qn_heap *heap, size_t bytes)
{
    size_t need;
    if (!qn_add_size(bytes, UNIT, &need) || !qn_align_size(need, UNIT, &need))
        return NULL;
    for (qn_heap_block **at = &heap->free; *at; at = &(*at)->next) {
        qn_heap_block *b = *at;
        if (b->bytes < need)
            continue;
        if (b->bytes - need >= 2 * UNIT) {
            qn_heap_block *rest = (qn_heap_block *)(void *)((char *)b + need);
            *rest = (qn_heap_block){ b->bytes - need, b->next };
            *at = rest;
            b->bytes = need;
        } else {
            *at = b->next;
        }
        heap->used += b->bytes;
        if (heap->used > heap->peak)
            heap->peak = heap->used;
        return (char *)b + UNIT;
    }
    return NULL;
}

bool qn_heap_owns(const qn_heap *heap, const void *p)
{
    const char *c = p;
    return heap->base && c >= heap->base && c < heap->base + heap->bytes;
}

static void join(qn_heap_block *b)
{
    if (b->next && (char *)b + b->bytes == (char *)b->next) {
        b->bytes += b->next->bytes;
        b->next = b->next->next;
    }
}

void qn_heap_free(qn_heap *heap, void *p)
{
    if (!p || !qn_heap_owns(heap, p))
        return;
    qn_heap_block *b = (qn_heap_block *)(void *)((char *)p - UNIT);
    qn_heap_block *before = NULL, *after = heap->free;
    while (after && after < b) {
        before = after;
        after = after->next;
    }
    heap->used -= b->bytes;
    b->next = after;
    if (before)
        before->next = b;
    else
        heap->free = b;
    join(b);
    if (before)
        join(before);
}

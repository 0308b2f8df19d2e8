/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/alloc.h"

#include "runtime/base/checked.h"

#include <stdlib.h>
#include <string.h>

void *qn_calloc(size_t n, size_t size)
{
    size_t bytes;
    if (!qn_mul_size(n, size, &bytes))
        return NULL;
    return calloc(1, bytes ? bytes : 1);
}

void *qn_realloc(void *p, size_t n, size_t size)
{
    size_t bytes;
    if (!qn_mul_size(n, size, &bytes))
        return NULL;
    return realloc(p, bytes ? bytes : 1);
}

void qn_free(void *p)
{
    free(p);
}

char *qn_strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    char *copy = qn_calloc(1, n);
    if (copy)
        memcpy(copy, s, n);
    return copy;
}

/*
 * Blocks start at 4 KiB and double up to 1 MiB, so that a small plan costs a
 * page and a large graph costs few heap calls.
 */
enum { FIRST_BLOCK = 4096, LAST_BLOCK = 1 << 20, BLOCK_ALIGN = 64 };

struct qn_region_block {
    qn_region_block *next;
    size_t used, size; /* offsets from the block's start */
};

static qn_region_block *new_block(qn_region *region, size_t need)
{
    size_t size = region->head ? region->head->size * 2 : FIRST_BLOCK;
    if (size > LAST_BLOCK)
        size = LAST_BLOCK;
    if (size < need)
        size = need;
    if (!qn_align_size(size, BLOCK_ALIGN, &size))
        return NULL;
    qn_region_block *block = aligned_alloc(BLOCK_ALIGN, size);
    if (!block)
        return NULL;
    block->next = region->head;
    block->used = sizeof *block;
    block->size = size;
    region->head = block;
    region->bytes += size;
    return block;
}

void *qn_region_alloc(qn_region *region, size_t n, size_t size)
{
    size_t bytes, need;
    if (!qn_mul_size(n, size, &bytes))
        return NULL;
    size_t align = bytes >= 64 ? 64 : 16;
    qn_region_block *block = region->head;
    for (;;) {
        if (block) {
            size_t at = (block->used + align - 1) & ~(align - 1);
            if (at <= block->size && bytes <= block->size - at) {
                void *p = (char *)block + at;
                block->used = at + bytes;
                memset(p, 0, bytes);
                return p;
            }
        }
        if (region->fixed || !qn_add_size(bytes, sizeof *block + BLOCK_ALIGN, &need))
            return NULL;
        block = new_block(region, need);
        if (!block)
            return NULL;
    }
}

char *qn_region_strndup(qn_region *region, const char *s, size_t len)
{
    char *copy = qn_region_alloc(region, len + 1, 1);
    if (copy)
        memcpy(copy, s, len);
    return copy;
}

void qn_region_splice(qn_region *to, qn_region *from)
{
    qn_region_block **last = &to->head;
    while (*last)
        last = &(*last)->next;
    *last = from->head;
    to->bytes += from->bytes;
    *from = (qn_region){ 0 };
}

void qn_region_release(qn_region *region)
{
    qn_region_block *block = region->head;
    while (block && !region->fixed) {
        qn_region_block *next = block->next;
        free(block);
        block = next;
    }
    *region = (qn_region){ 0 };
}

void qn_region_init_fixed(qn_region *region, void *mem, size_t size)
{
    *region = (qn_region){ .fixed = true };
    if (size <= sizeof(qn_region_block))
        return;
    region->head = mem;
    *region->head = (qn_region_block){ .used = sizeof(qn_region_block),
                                       .size = size };
}

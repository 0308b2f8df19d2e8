/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/memory/pages.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE ((size_t)2 << 20)

static void *map(void *arg, size_t bytes)
{
    (void)arg;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static void unmap(void *arg, void *data, size_t bytes)
{
    (void)arg;
    /* Unmapping may need one more mapping (neighbours were merged) and fail at
     * the kernel's limit; the bytes must go even then, addresses are cheap. */
    if (munmap(data, bytes) != 0)
        (void)madvise(data, bytes, MADV_DONTNEED);
}

/* The kernel forms huge pages only where the addresses are aligned: map more
 * than is wanted, and cut it to size before anything is touched. */
static void *map_huge(void *arg, size_t bytes)
{
    size_t extra = HUGE_PAGE - (size_t)sysconf(_SC_PAGESIZE);
    if (bytes < HUGE_PAGE || bytes > SIZE_MAX - extra)
        return map(arg, bytes);
    unsigned char *p = map(arg, bytes + extra);
    if (!p)
        return NULL;
    size_t lead = (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
    if (lead)
        unmap(arg, p, lead);
    if (extra - lead)
        unmap(arg, p + lead + bytes, extra - lead);
    (void)madvise(p + lead, bytes, MADV_HUGEPAGE); /* a hint, no more */
    return p + lead;
}

const qn_pool_source *qn_pages(bool huge)
{
    static const qn_pool_source plain = { map, unmap, NULL, false };
    static const qn_pool_source aligned = { map_huge, unmap, NULL, false };
    return huge ? &aligned : &plain;
}
